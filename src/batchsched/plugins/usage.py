"""usage: queues and users with less past use come first and get more of the surplus."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf, log

from attrs import frozen

from batchsched.errors import PluginError
from batchsched.model.resources import Resource
from batchsched.plugin.arguments import Arguments
from batchsched.plugin.extension_points import Changes
from batchsched.plugin.session_view import SessionView
from batchsched.state.needs import Need
from batchsched.state.records import JobState, QueueState

_A_WEEK = 7 * 24 * 3600
_WEIGHTS_ADD_UP_TO = 10**6
_LN_2 = log(2)
_NOTHING = Resource()


@frozen(kw_only=True)
class UsagePlugin:
    """Compensates for the past use of queues or users, where older use counts less.

    It reads `Queue.usage`, which `next_snapshot` and `Cluster` update for queues with a
    `usage_half_life`. Use is expressed as a fraction of the cluster: 1 is all of it, all the time.

    Order: the queue with the largest fairness level comes first, which is its fraction of its
    siblings' weights divided by its use, as in Slurm's fair tree. With ``capacity`` this breaks
    ties among queues that are equally within or above their shares and of equal priority. Shares
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
    def __init__(self, plugin: UsagePlugin, view: SessionView) -> None:
        self._plugin = plugin
        self._view = view

    def resume(self, _changes: Changes, /) -> bool:
        return True  # it has no state

    def surplus_weights(self, siblings: Sequence[QueueState], dimension: int, /) -> Sequence[int]:
        weights = [queue.info.weight for queue in siblings]
        together, k = sum(weights), self._plugin.k
        if not (together and k):
            return weights
        uses = [
            self._use(queue, queue.info.usage, dimension) if queue.info.weight else 0.0
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
        """Return a queue's use per unit of weight; queues with less come first."""
        if not self._plugin.k or need is None:
            return 0.0
        use = self._largest(queue, queue.info.usage, need.dimensions)
        if not use:
            return 0.0
        return use / queue.info.weight if queue.info.weight else inf

    queue_order_key = past_use_key

    def _use(self, queue: QueueState, usage: Resource, dimension: int) -> float:
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

    def _largest(self, queue: QueueState, usage: Resource, dimensions: Iterable[int]) -> float:
        if usage is _NOTHING:
            return 0.0
        return max((self._use(queue, usage, dimension) for dimension in dimensions), default=0.0)


class _ByUsers(_ByQueues):
    def job_order_key(self, job: JobState, /) -> float:
        queue = job.queue
        if queue is None:
            return 0.0
        usage = queue.info.usage_by_user.get(job.info.user)
        if usage is None:
            return 0.0
        return self._largest(queue, usage, range(len(self._view.dimensions.names)))
