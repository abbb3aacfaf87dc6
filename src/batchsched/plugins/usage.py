"""usage: who has used little in the past goes first, and gets more of what is left over."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf, log

from attrs import frozen

from batchsched.errors import PluginError
from batchsched.model.resources import Resource
from batchsched.plugin.arguments import Arguments
from batchsched.plugin.changes import Changes
from batchsched.plugin.session_view import SessionView
from batchsched.state.needs import Need
from batchsched.state.records import JobState, QueueState

__all__ = ["UsagePlugin"]

_A_WEEK = 7 * 24 * 3600
_WEIGHTS_ADD_UP_TO = 10**6
_LN_2 = log(2)
_NOTHING = Resource()


@frozen(kw_only=True)
class UsagePlugin:
    """Makes up for the past: for what queues, or users, have held, the older counting less.

    It reads `Queue.usage`, which `next_snapshot` and the living cluster keep where the queue has a
    `usage_half_life`. As a part of what there was, a use of 1 is all of the cluster, always.

    Order: the queue with the largest level of fairness goes first, its part of the weights of its
    siblings divided by its use, as in Slurm's fair tree; with ``capacity`` among those that are
    equally within or above their shares, and equally important. Shares (with ``capacity``): what
    nobody deserves is dealt out by weights that are corrected by how far use and weight are apart
    (time-based fair share, as KAI has it).
    """

    half_life: float = _A_WEEK
    """The half-life of the use of queues that do not name one, in seconds."""
    k: float = 1.0
    """How much the past counts in shares. 0: queues have no past."""
    users: bool = False
    """Whether jobs of one queue go in the order of what their users have used there."""

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
        return True  # it keeps nothing

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
        """Return what a queue has used for each unit of its weight: the less, the fairer it is."""
        if not self._plugin.k or need is None:
            return 0.0
        use = self._largest(queue, queue.info.usage, need.dimensions)
        if not use:
            return 0.0
        return use / queue.info.weight if queue.info.weight else inf

    queue_order_key = past_use_key

    def _use(self, queue: QueueState, usage: Resource, dimension: int) -> float:
        """Return what was used as a part of the cluster, on average over the past."""
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
