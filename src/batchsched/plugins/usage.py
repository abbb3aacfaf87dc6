"""usage: queues and users with less past use come first and get more of the surplus."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import inf, log

from attrs import frozen

from batchsched.errors import PluginError
from batchsched.model.resources import Resource
from batchsched.plugin.arguments import Arguments
from batchsched.plugin.extension_points import Changes
from batchsched.plugin.queues import QueueTree, sum_of_requests
from batchsched.plugin.session_view import SessionView
from batchsched.state.needs import Need
from batchsched.state.records import JobState, QueueState, TaskState
from batchsched.state.vectors import Vector, minus, plus

_A_WEEK = 7 * 24 * 3600
_WEIGHTS_ADD_UP_TO = 10**6
_LN_2 = log(2)
_NOTHING = Resource()


@frozen(kw_only=True)
class UsagePlugin:
    """Compensates for the past use of queues or users, where older use counts less.

    It reads `Queue.usage`, which `next_snapshot` and `Cluster` update for queues with a
    `usage_half_life`. Use is expressed as a fraction of the cluster: 1 is all of it, all the time.
    For the order, what is held now is added to it, so that it grows as the cycle places tasks: half
    of the sum is the use that there will be a half-life from now.

    Order: the queue with the largest fairness level comes first, which is its fraction of its
    siblings' weights divided by its use, as in Slurm's fair tree. With ``capacity`` this breaks
    ties among queues that are equally within or above their shares and of equal priority, wherever
    the two stand; with ``proportion``, it stands before it. Shares
    (with ``capacity``): the surplus is divided by weights that are corrected by the difference
    of use and weight (time-based fair share, as in KAI Scheduler).
    """

    half_life: float = _A_WEEK
    """The half-life for queues without `usage_half_life`, in seconds."""
    k: float = 1.0
    """The influence of past use on shares. 0: past use is ignored."""
    users: bool = False
    """Whether jobs of a queue are ordered by their users' past use of the queue."""

    @classmethod
    def from_arguments(cls, arguments: Arguments) -> UsagePlugin:
        """Read ``halfLife`` (seconds), ``k`` and ``scope`` (``queues``, or ``users`` as well)."""
        return cls(
            half_life=arguments.number("halfLife", default=_A_WEEK, minimum=1),
            k=arguments.number("k", default=1, minimum=0),
            users=arguments.choice("scope", ("queues", "users"), default="queues") == "users",
        )

    def open(self, view: SessionView, /) -> object:
        """Open for one cycle."""
        if not self.half_life > 0:
            problem = f"half_life: expected more than 0 seconds, got {self.half_life!r}"
            raise PluginError("usage", "open", problem)
        return _ByUsers(self, view) if self.users else _ByQueues(self, view)


class _ByQueues:
    votes_on_jobs_alone = True
    refuses_alike = True

    def __init__(self, plugin: UsagePlugin, view: SessionView) -> None:
        self._plugin = plugin
        self._view = view
        self._known: _Holdings | None = None
        """What queues and users hold; None until it is asked for."""

    def resume(self, changes: Changes, /) -> bool:
        if self._known is not None:
            self._known.catch_up(changes)
        return True

    @property
    def _held(self) -> _Holdings:
        if self._known is None:
            self._known = _Holdings(self._view)
        return self._known

    def on_allocate(self, task: TaskState, /) -> None:
        if self._known is not None:
            self._known.charge(task, plus)

    def on_deallocate(self, task: TaskState, /) -> None:
        if self._known is not None:
            self._known.charge(task, minus)

    def surplus_weights(self, siblings: Sequence[QueueState], dimension: int, /) -> Sequence[int]:
        weights = [queue.info.weight for queue in siblings]
        together, k = sum(weights), self._plugin.k
        if not (together and k):
            return weights
        uses = [
            self._past_use(queue, queue.info.usage, dimension) if queue.info.weight else 0.0
            for queue in siblings
        ]
        used = sum(uses)
        if not used:
            return weights
        corrected: list[int] = []
        for weight, use in zip(weights, uses, strict=True):
            part = weight / together
            by_past = max(0.0, part + k * (part - use / used)) if weight else 0.0
            corrected.append(round(_WEIGHTS_ADD_UP_TO * by_past))
        return corrected if any(corrected) else weights

    def past_use_key(self, queue: QueueState, need: Need | None, /) -> float:
        """Return a queue's use per unit of weight; queues with less come first.

        What its tasks hold now is use, too. O(dimensions); O(tasks) the first time.
        """
        if not self._plugin.k or need is None:
            return 0.0
        held = self._held.of_queue.get(queue.name)
        use = self._largest(queue, queue.info.usage, held, need.dimensions)
        if not use:
            return 0.0
        return use / queue.info.weight if queue.info.weight else inf

    def queue_order_key(self, queue: QueueState, need: Need | None, /) -> float:
        # A plugin that ranks queues by past use among other things says when that counts.
        return 0.0 if self._view.ranks_by_past_use else self.past_use_key(queue, need)

    def _past_use(self, queue: QueueState, usage: Resource, dimension: int) -> float:
        """Return the past use as a fraction of the cluster, averaged over time."""
        there = self._view.cluster[dimension]
        if not there:
            return 0.0
        half_life = queue.info.usage_half_life or self._plugin.half_life
        return (
            float(usage.get(self._view.dimensions.names[dimension]))
            * _LN_2
            / (float(there) * half_life)
        )

    def _largest(
        self,
        queue: QueueState,
        usage: Resource,
        held: Vector | None,
        dimensions: Iterable[int],
    ) -> float:
        """Return the largest fraction of the cluster that was used, with what is held now."""
        if usage is _NOTHING and held is None:
            return 0.0
        largest, cluster = 0.0, self._view.cluster
        for dimension in dimensions:
            there = cluster[dimension]
            if there:
                now = 0.0 if held is None else held[dimension] / there
                largest = max(largest, self._past_use(queue, usage, dimension) + now)
        return largest


class _ByUsers(_ByQueues):
    def job_order_key(self, job: JobState, /) -> float:
        queue = job.queue
        if queue is None:
            return 0.0
        user = job.info.user
        usage = queue.info.usage_by_user.get(user, _NOTHING)
        held = self._held.of_user.get((queue.name, user))
        return self._largest(queue, usage, held, range(self._view.dimensions.in_cluster))

    def job_order_shares(self, job: JobState, /) -> tuple[str, str]:
        return ("" if job.queue is None else job.queue.name), job.info.user


class _Holdings:
    """What queues, and users in leaves, hold and were promised now, without backfill tasks."""

    def __init__(self, view: SessionView) -> None:
        """Add up what jobs hold. O(tasks)."""
        self._zero = view.dimensions.zero
        self._tree = QueueTree(queue.info for queue in view.queues.values())
        self.of_queue: dict[str, Vector] = {}
        """By name; of an inner queue, what all below it hold."""
        self.of_user: dict[tuple[str, str], Vector] = {}
        """By queue and user."""
        self._of_job: dict[str, tuple[str, str, Vector]] = {}
        """Queue, user and amount of each job that holds anything, by UID."""
        for job in view.jobs.values():
            self._add(job)

    def catch_up(self, changes: Changes) -> None:
        """Count changed jobs anew. O(their tasks)."""
        for job in (*changes.jobs_gone, *changes.jobs):
            known = self._of_job.pop(job.uid, None)
            if known is not None:
                self._change(*known, minus)
        for job in changes.jobs:
            self._add(job)

    def charge(self, task: TaskState, change: Callable[[Vector, Vector], Vector]) -> None:
        """Add what a task holds, or subtract it. O(depth of the tree)."""
        job = task.job
        if job is None or job.queue is None or task.is_backfill:
            return
        of_nobody = job.queue.name, job.info.user, self._zero
        queue, user, held = self._of_job.get(job.uid, of_nobody)
        self._of_job[job.uid] = queue, user, change(held, task.resreq)
        self._change(queue, user, task.resreq, change)

    def _add(self, job: JobState) -> None:
        if job.queue is None:
            return
        charged = [task for task in job.tasks if task.status.charged and not task.is_backfill]
        if charged:
            held = sum_of_requests(charged, self._zero)
            known = self._of_job[job.uid] = job.queue.name, job.info.user, held
            self._change(*known, plus)

    def _change(
        self, queue: str, user: str, amount: Vector, change: Callable[[Vector, Vector], Vector]
    ) -> None:
        for position in self._tree.path(self._tree.position[queue]):
            name = self._tree.names[position]
            self.of_queue[name] = change(self.of_queue.get(name, self._zero), amount)
        self.of_user[queue, user] = change(self.of_user.get((queue, user), self._zero), amount)
