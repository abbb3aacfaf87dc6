"""One memory on one log: what has changed, and answers that hold until then.

The log has which nodes and jobs changed, in order. An answer is remembered with what it read, and
is forgotten when that changes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable
from collections.abc import Set as AbstractSet
from enum import Enum
from typing import Generic, Protocol, TypeVar, cast

from attrs import define

from batchsched.state.records import JobState, QueueState, counts_leaving


class Watch(Protocol):
    """Reports the nodes for which an answer that reads the whole cluster may have changed."""

    def changed_since(self, position: int, /) -> tuple[int, Collection[int] | None]:
        """Return the present end of the log, and what changed since `position`.

        Changes are given as slots of nodes; None: any node may have changed. Nodes whose own
        tasks changed need not be included.
        """
        ...


Position = tuple[int, int, int]
"""A position in the logs of changed nodes, changed jobs, and charged jobs."""


class ChangeLog:
    """The changes in order; what undoes a change is a change, too."""

    __slots__ = ("charged_jobs", "jobs", "nodes")

    def __init__(self) -> None:
        self.nodes: list[int] = []
        """The slots of the nodes that changed."""
        self.jobs: list[JobState] = []
        """The jobs that changed."""
        self.charged_jobs: list[JobState] = []
        """The jobs to which more was charged."""

    def position(self) -> Position:
        """Return the present end of the logs."""
        return len(self.nodes), len(self.jobs), len(self.charged_jobs)

    def changed_since(self, position: Position) -> tuple[set[int], set[JobState], set[JobState]]:
        """Return what may differ from the state at a position: nodes, jobs, and charged jobs.

        O(changes since).
        """
        nodes, jobs, charged = position
        return set(self.nodes[nodes:]), set(self.jobs[jobs:]), set(self.charged_jobs[charged:])

    def begin_cycle(self) -> None:
        """Clear the logs of jobs, which makes all positions invalid.

        The log of nodes is kept: the placement engine may not have read it to the end.
        """
        self.jobs.clear()
        self.charged_jobs.clear()


KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")


class RecentlyUsed(OrderedDict[KeyT, ValueT]):
    """The most recently used values, up to a maximum number.

    >>> tables = RecentlyUsed(most=2)
    >>> tables.keep("a", 1)
    >>> tables.keep("b", 2)
    >>> tables.use("a")
    1
    >>> tables.keep("c", 3)
    2
    >>> list(tables)
    ['a', 'c']
    """

    def __init__(self, *, most: int) -> None:
        super().__init__()
        self._most = most

    def use(self, key: KeyT, /) -> ValueT | None:
        """Return a value and mark it as the most recently used; None if there is none. O(1)."""
        value = self.get(key)
        if value is not None:
            self.move_to_end(key)
        return value

    def keep(self, key: KeyT, value: ValueT, /) -> ValueT | None:
        """Add a value; return the least recently used one if it is dropped for it. O(1)."""
        self[key] = value
        return self.popitem(last=False)[1] if len(self) > self._most else None


AnswerT = TypeVar("AnswerT")

MOST_ANSWERS = 10_000
"""The most answers about nodes that are remembered."""


class DependsOn(Enum):
    """What an answer about a node depends on, besides the claimant."""

    # That of Enum hashes the name each time.
    __hash__ = object.__hash__

    NODES = "the node"
    CHARGES = "the node, and whether more is charged to jobs that run there"
    ACCOUNTS = "the node, and what is charged to jobs that run there"
    QUEUES = "the node, and what is charged to any job or queue"
    EVERYTHING = "all nodes, and what is charged to any job"


@define
class _Answer(Generic[AnswerT]):
    answer: AnswerT
    position: Position
    """The end of the log when the answer was last corrected."""


class Remembered:
    """Answers about nodes, each corrected when it is asked for again.

    An answer is mostly a set or mapping of slots of nodes, which the caller may extend. It ends
    with the session, or when `most` other questions were asked more recently.
    """

    __slots__ = ("_known", "_log")

    def __init__(self, log: ChangeLog, *, most: int = MOST_ANSWERS) -> None:
        self._log = log
        self._known = RecentlyUsed[Hashable, _Answer[object]](most=most)

    def recall(
        self,
        question: Hashable,
        begin: Callable[[], AnswerT],
        correct: Callable[[AnswerT, set[int] | None], object],
        reads: DependsOn,
        among: QueueState | None = None,
    ) -> AnswerT:
        """Return the answer to a question, without what may be wrong by now. O(changes since).

        Args:
            question: what was asked; questions of equal answers are equal.
            begin: returns the answer as long as nothing is known.
            correct: is given an answer and the slots of the nodes where it may be wrong; None:
                everywhere.
            reads: what the answer depends on.
            among: the only queue whose jobs matter; None: the jobs of all queues do.

        """
        known = cast("_Answer[AnswerT] | None", self._known.use(question))
        now = self._log.position()
        if known is None:
            known = _Answer(begin(), now)
            self._known.keep(question, cast("_Answer[object]", known))
        elif known.position != now:
            stale = self._stale_since(known.position, reads, among)
            known.position = now
            if stale is None or stale:
                correct(known.answer, stale)
        return known.answer

    def _stale_since(
        self, position: Position, reads: DependsOn, among: QueueState | None
    ) -> set[int] | None:
        """Return the nodes about which an answer may be wrong; None: all nodes."""
        nodes, jobs, charged = self._log.changed_since(position)
        if reads is DependsOn.NODES:
            return nodes
        if reads is DependsOn.QUEUES:
            return None if jobs else nodes
        if reads is DependsOn.EVERYTHING:
            return None if jobs or nodes else nodes
        for job in charged if reads is DependsOn.CHARGES else jobs:
            if among is None or job.queue is among:
                nodes |= running_slots(job)
        return nodes


def running_slots(job: JobState) -> set[int]:
    """Return the slots of the nodes where tasks of a job may leave, or more. O(these nodes)."""
    if job.running_by_node is None and not any(counts_leaving(job.counts)):
        return set()
    return {node.slot for node in job.running_nodes()}


def forget(answer: dict[int, AnswerT] | set[AnswerT], stale: set[int] | None) -> None:
    """Drop what an answer says of the nodes where it may be wrong."""
    if stale is None:
        answer.clear()
    elif isinstance(answer, set):
        answer.difference_update(stale)
    else:
        for slot in stale:
            answer.pop(slot, None)


def reopening(slots: AbstractSet[int]) -> Callable[[set[int], set[int] | None], None]:
    """Return what adds those of some slots to an answer about which it may be wrong."""

    def reopen(opened: set[int], stale: set[int] | None) -> None:
        opened |= slots if stale is None else stale & slots

    return reopen
