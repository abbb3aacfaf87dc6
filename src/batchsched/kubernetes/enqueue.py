"""What Volcano's action enqueue compares before it lets a group in, with its numbers.

It adds what the queue holds, what is kept for groups that it has let in and that hold less than
their `minResources`, and the `minResources` of the group. That must be within what the queue may
hold, its `capability` and what the guarantees of others leave; and, by the plugin overcommit,
within 1.2 times the nodes. What groups hold beyond their `minResources` is not counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from attrs import evolve, frozen

from batchsched.causes import HoldKind
from batchsched.kubernetes.groups import ENQUEUE
from batchsched.kubernetes.job_drafts import JobDraft
from batchsched.kubernetes.pods import amount_unit
from batchsched.model.cluster import Hold, NodeInfo, Queue, TaskInfo
from batchsched.model.texts import amount_text, listed

_LET_IN = ("Inqueue", "Running")
_OVERCOMMIT = 12, 10
"""The default factor of the plugin overcommit, as a fraction."""
_DEFAULT_QUEUE = "default"
_MOST_NAMED = 3
_Amounts = Mapping[str, int]


@frozen
class _Group:
    """A group with what it must have to be let in, and what it holds."""

    draft: JobDraft
    least: _Amounts
    held: _Amounts

    @property
    def queue(self) -> str:
        """The name of its queue."""
        return self.draft.queue or _DEFAULT_QUEUE

    def kept(self, name: str) -> int:
        """Return how much is kept for it, once it is let in, beyond what it holds."""
        status = self.draft.objects[0].status
        if status.text("phase") not in _LET_IN:
            return 0
        is_complete = status.integer("running", default=0) >= (self.draft.min_available or 0)
        if status.text("phase") == "Running" and is_complete:
            return 0
        return max(0, self.least.get(name, 0) - self.held.get(name, 0))

    def elastic(self, name: str) -> int:
        """Return how much it holds beyond what it must have."""
        return max(0, self.held.get(name, 0) - self.least.get(name, 0)) if self.least else 0


class Enqueue:
    """The groups of Volcano, and what there is for them."""

    def __init__(
        self,
        drafts: Sequence[JobDraft],
        queues: Sequence[Queue],
        nodes: Iterable[NodeInfo],
        others: Iterable[TaskInfo],
    ) -> None:
        """Read what enqueue compares; nothing if it keeps no group out. O(tasks)."""
        self._queues = {queue.name: queue for queue in queues}
        self._total = Counter[str]()
        self._used = Counter[str]()
        """What all pods hold."""
        self._groups: list[_Group] = []
        if not any(_is_of_enqueue(hold) for draft in drafts for hold in draft.holds):
            return
        self._used.update(_held(others))
        for node in nodes:
            self._total.update(dict(node.allocatable.dimensions()))
        for draft in drafts:
            held = _held(pod.task for pod in draft.pods)
            self._used.update(held)
            if draft.system == "volcano" and draft.objects:
                least = draft.objects[0].spec.child("minResources").amounts(amount_unit)
                self._groups.append(_Group(draft, least, held))

    def tell(self) -> None:
        """Say of each group that is not let in by which numbers; O(groups x groups not let in)."""
        for group in self._groups:
            for position, hold in enumerate(group.draft.holds):
                if _is_of_enqueue(hold):
                    group.draft.holds[position] = self._told(group, hold)

    def _told(self, group: _Group, hold: Hold) -> Hold:
        queue = self._queues.get(group.queue)
        if queue is None:
            return hold
        above, below = _OVERCOMMIT
        of_queue = [each for each in self._groups if each.queue == group.queue]
        for name, asked in group.least.items():
            most, where = self._most_of(queue, name)
            held = sum(each.held.get(name, 0) - each.elastic(name) for each in of_queue)
            total = self._total[name] * above // below
            everywhere = f"that are {above / below:g} times those of all nodes"
            used = self._used[name] - sum(each.elastic(name) for each in self._groups)
            for beside, there, bound, bound_of in (
                (of_queue, held, most, where),
                (self._groups, used, total, everywhere),
            ):
                keeping = {each.draft.name: each.kept(name) for each in beside if each is not group}
                kept = sum(keeping.values())
                if not asked or there + kept + asked <= bound:
                    continue
                text = f"its minResources, {amount_text(name, asked)}, are more than is left of "
                text += f"the {amount_text(name, bound)} {bound_of}: "
                text += f"{amount_text(name, there)} are held"
                if kept:
                    names = [each for each, amount in keeping.items() if amount][:_MOST_NAMED]
                    text += f", and {amount_text(name, kept)} kept for what was let in: "
                    text += listed(names)
                # Only enqueue counts that: as the queues here allow, it could start.
                is_kept_out_by_it = kept and there + asked <= bound
                kind = HoldKind.CHECK if is_kept_out_by_it else HoldKind.NOT_ADMITTED
                return evolve(hold, kind=kind, detail=text)
        return hold

    def _most_of(self, queue: Queue, name: str) -> tuple[int, str]:
        """Return what a queue may hold of an amount, and where that follows from."""
        others = (each for each in self._queues.values() if each is not queue)
        guaranteed = sum(int(each.guarantee.get(name)) for each in others)
        limit = None if queue.limit is None else queue.limit.get(name)
        most = self._total[name] - guaranteed
        if limit is not None and limit <= most:
            return int(limit), f"that queue {queue.name} may hold"
        return most, "that the guarantees of other queues leave" if guaranteed else "of all nodes"


def _is_of_enqueue(hold: Hold) -> bool:
    return hold.kind is HoldKind.NOT_ADMITTED and hold.name == ENQUEUE


def _held(tasks: Iterable[TaskInfo]) -> Counter[str]:
    held = Counter[str]()
    for task in tasks:
        if task.status.holds:
            held.update({name: int(amount) for name, amount in task.resreq.dimensions()})
    return held
