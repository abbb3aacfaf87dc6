"""A statement: operations that are applied at once and can be rolled back as a whole.

Follows the `Statement` of the "Kube-batch scheduler
framework" document.
"""

from __future__ import annotations

from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self

from attrs import evolve

from batchsched.errors import StatementError
from batchsched.model.cluster import TaskStatus
from batchsched.state.records import JobState, NodeState, TaskState
from batchsched.trace import Placed, StatementEnded

if TYPE_CHECKING:
    from batchsched.session.session import Session

_Entry = tuple[TaskState, TaskStatus, NodeState | None, bool]
"""A task, with its previous status, node and backfill mark."""


class Statement:
    """A journal of operations in a session: `commit` makes them decisions, `discard` undoes them.

    As a context manager it discards, at the end, a statement that was not committed.
    """

    __slots__ = (
        "_claims",
        "_is_trial",
        "_journal",
        "_session",
        "is_open",
    )

    def __init__(self, session: Session, *, is_trial: bool = False) -> None:
        self._session = session
        self.is_open = True
        """Whether it was neither committed nor discarded yet."""
        self._is_trial = is_trial
        self._journal: list[_Entry] = []
        self._claims: list[tuple[TaskState, NodeState, TaskState]] = []
        """Where the log was before each operation."""

    def __len__(self) -> int:
        return len(self._journal)

    def allocate(self, task: TaskState, node: NodeState, *, is_backfill: bool = False) -> None:
        """Place a Pending or Reserved task on a node where it can start now."""
        job = task.job
        if task.status is not TaskStatus.PENDING or job is None or not job.in_session:
            self._session.expect(task, TaskStatus.PENDING, TaskStatus.RESERVED)
        self._move(task, TaskStatus.ALLOCATED, node, is_backfill=is_backfill or task.is_backfill)

    def pipeline(self, task: TaskState, node: NodeState) -> None:
        """Promise to a Pending task resources of a node that are being released."""
        self._session.expect(task, TaskStatus.PENDING)
        self._move(task, TaskStatus.PIPELINED, node, is_backfill=task.is_backfill)

    def promise(self, task: TaskState, node: NodeState) -> None:
        """Promise to a Pending task resources of a node that backfill tasks hold (Conditional)."""
        self._session.expect(task, TaskStatus.PENDING)
        self._move(task, TaskStatus.CONDITIONAL, node, is_backfill=task.is_backfill)

    def reserve(self, task: TaskState, node: NodeState) -> None:
        """Reserve a node for a Pending task."""
        self._session.expect(task, TaskStatus.PENDING)
        self._move(task, TaskStatus.RESERVED, node, is_backfill=task.is_backfill)

    def evict(self, task: TaskState, *, claimant: TaskState) -> None:
        """Evict a Running task to make room for `claimant`."""
        self._session.expect(task, TaskStatus.RUNNING)
        node = task.node
        assert node is not None
        self._claims.append((task, node, claimant))
        self._move(task, TaskStatus.RELEASING, node, is_backfill=task.is_backfill)

    def unallocate(self, task: TaskState) -> None:
        """Make a task Pending again that is placed, promised or reserved, and not bound."""
        self._session.expect(
            task,
            TaskStatus.ALLOCATED,
            TaskStatus.PIPELINED,
            TaskStatus.CONDITIONAL,
            TaskStatus.RESERVED,
        )
        # A backfill mark that this session made ends with the placement.
        self._move(task, TaskStatus.PENDING, None, is_backfill=task.info.is_backfill)

    @property
    def evictions(self) -> int:
        """The number of tasks that it evicts. O(1)."""
        return len(self._claims)

    def placed(self) -> list[TaskState]:
        """Return the tasks that this statement has placed, promised or reserved."""
        return [
            task
            for task, status, _, _ in self._journal
            if status is TaskStatus.PENDING and task.status is not TaskStatus.PENDING
        ]

    def commit(self) -> None:
        """Make the operations decisions, and bind the tasks of jobs that are ready now.

        Raises:
            StatementError: the statement was already committed or discarded.

        """
        event = None if self._session.teller is None else self._as_it_ends(committed=True)
        self._end()
        for task, node, claimant in self._claims:
            self._session.decide_eviction(task, node, claimant)
        jobs: dict[str, JobState] = {}
        for task, _, _, _ in self._journal:
            if task.status is TaskStatus.ALLOCATED and task.job is not None:
                jobs[task.job.uid] = task.job
        for job in jobs.values():
            self._session.bind_if_ready(job)
        if event is not None and self._session.teller is not None:
            self._session.teller.tell(event)

    def discard(self) -> None:
        """Undo the operations in reverse order; the session is exactly as it was before.

        The tasks that were placed are recorded for pending reasons, unless it is a trial.

        Raises:
            StatementError: the statement was already committed or discarded.

        """
        event = None if self._session.teller is None else self._as_it_ends(committed=False)
        self._end()
        if not self._is_trial:
            self._session.reports.rolled_back.update((task.uid, task) for task in self.placed())
        ledger = self._session.ledger
        for task, status, node, is_backfill in reversed(self._journal):
            ledger.move(task, status, node, is_backfill=is_backfill, is_undo=True)
        if event is not None and self._session.teller is not None:
            self._session.teller.tell(event)

    def rollback(self, length: int) -> None:
        """Undo the operations after the first `length`; the statement stays open."""
        if not self.is_open:
            raise StatementError("the statement was already committed or discarded")
        if length >= len(self._journal):
            return
        while len(self._journal) > length:
            task, status, node, is_backfill = self._journal.pop()
            if self._claims and task is self._claims[-1][0] and status is TaskStatus.RUNNING:
                self._claims.pop()
            self._session.ledger.move(task, status, node, is_backfill=is_backfill, is_undo=True)

    def _move(
        self, task: TaskState, status: TaskStatus, node: NodeState | None, *, is_backfill: bool
    ) -> None:
        if not self.is_open:
            raise StatementError("the statement was already committed or discarded")
        # Recorded before the move: if a listener raises, the move can still be undone.
        ledger = self._session.ledger
        self._journal.append((task, task.status, task.node, task.is_backfill))
        ledger.move(task, status, node, is_backfill=is_backfill)

    def _end(self) -> None:
        if not self.is_open:
            raise StatementError("the statement was already committed or discarded")
        self.is_open = False

    def _as_it_ends(self, *, committed: bool) -> StatementEnded:
        """Return the event for the end of the statement, before it ends."""
        session = self._session
        steps: dict[str, Placed] = {}
        jobs: list[JobState | None] = []
        for task, before, node_before, _ in self._journal:
            node = task.node if task.node is not None else node_before
            if task.status is not before and node is not None:
                steps[task.uid] = Placed(task=task.uid, node=node.name, status=task.status.value)
                if task.status is not TaskStatus.RELEASING:
                    jobs.append(task.job)
        jobs += [task.job for task, *_ in self._journal]
        job = next(filter(None, jobs), None)
        event = StatementEnded(
            action=session.action_name,
            committed=committed,
            is_trial=self._is_trial,
            job=None if job is None else job.uid,
            steps=tuple(steps.values()),
        )
        if job is None:
            return event
        return evolve(
            event,
            min_available=job.min_available,
            ready=job.ready_count,
            waiting=job.count(TaskStatus.PIPELINED),
            job_ready=session.job_ready(job),
            job_pipelined=session.job_pipelined(job),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        if not self.is_open:
            return
        if error is None:
            self.discard()
            return
        # Keep the original error: an error in the rollback, such as one of the same listener,
        # would only hide it.
        with suppress(Exception):
            self.discard()
