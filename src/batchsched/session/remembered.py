"""What a search has found out about nodes, until what was read of them has changed."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from enum import Enum
from typing import Generic, TypeVar, cast

from attrs import define

from batchsched.model.cluster import TaskStatus
from batchsched.state.change_log import ChangeLog, Position
from batchsched.state.records import JobState, QueueState

__all__ = ["Reads", "Remembered", "forget", "running_slots"]

AnswerT = TypeVar("AnswerT")


class Reads(Enum):
    """What an answer about a node depends on, besides the claimant."""

    NODES = "the node"
    CHARGES = "the node, and whether more is charged to jobs that run there"
    ACCOUNTS = "the node, and what is charged to jobs that run there"
    QUEUES = "the node, and what is charged to any job or queue"
    EVERYTHING = "all nodes, and what is charged to any job"


@define
class _Known(Generic[AnswerT]):
    answer: AnswerT
    position: Position
    """The end of the log when the answer was last corrected."""


class Remembered:
    """Answers about nodes, each corrected when it is asked for again.

    An answer is a set or mapping of slots of nodes, which the caller may extend. It ends with the
    session.
    """

    __slots__ = ("_known", "_log")

    def __init__(self, log: ChangeLog) -> None:
        self._log = log
        self._known: dict[Hashable, _Known[object]] = {}

    def recall(
        self,
        question: Hashable,
        begin: Callable[[], AnswerT],
        correct: Callable[[AnswerT, set[int] | None], None],
        reads: Reads,
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
        known = cast("_Known[AnswerT] | None", self._known.get(question))
        now = self._log.position()
        if known is None:
            known = _Known(begin(), now)
            self._known[question] = cast("_Known[object]", known)
        elif known.position != now:
            stale = self._stale_since(known.position, reads, among)
            known.position = now
            if stale is None or stale:
                correct(known.answer, stale)
        return known.answer

    def _stale_since(
        self, position: Position, reads: Reads, among: QueueState | None
    ) -> set[int] | None:
        """Return the nodes about which an answer may be wrong; None: all nodes."""
        nodes, jobs, charged = self._log.changed_since(position)
        if reads is Reads.NODES:
            return nodes
        if reads is Reads.QUEUES:
            return None if jobs else nodes
        if reads is Reads.EVERYTHING:
            return None if jobs or nodes else nodes
        for job in charged if reads is Reads.CHARGES else jobs:
            if among is None or job.queue is among:
                nodes |= running_slots(job)
        return nodes


def running_slots(job: JobState) -> set[int]:
    """Return the slots of the nodes where a job has Running tasks. O(these nodes)."""
    if not job.count(TaskStatus.RUNNING):
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
