"""Whatever is done to a session, its books stay sound, and what is undone has never been."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from tests.support.books import CHARGED, dump, opened, plugin_object

from batchsched import Session, Snapshot, Statement, TaskStatus
from batchsched.plugin import NodeState, TaskState
from batchsched.state.records import Fit
from batchsched.state.vectors import plus
from batchsched.testing import snapshots

S = TaskStatus
PLUGINS = ("priority", "gang", "conformance", "drf", "predicates", "proportion", "nodeorder")
CHOICE = st.integers(0, 30)


class SessionHistory(RuleBasedStateMachine):
    """Places, promises, reserves, evicts and takes back, in statements and outside of them."""

    session: Session
    statement: Statement | None
    dumps: list[dict[str, object]]
    """Of the open statement: how things stood when it had so many operations."""

    @initialize(snapshot=snapshots(max_jobs=4, max_nodes=3))
    def open(self, snapshot: Snapshot) -> None:
        self.session = opened(snapshot, PLUGINS)
        self.statement = None
        self.dumps = []

    def some(self, choice: int, *statuses: TaskStatus) -> TaskState | None:
        found = [
            task
            for task in self.session.ledger.tasks.values()
            if task.status in statuses
            and not task.is_held
            and task.job is not None
            and task.job.in_session
        ]
        return found[choice % len(found)] if found else None

    def where(self, choice: int, condition: Callable[[NodeState], bool]) -> NodeState | None:
        found: Sequence[NodeState] = [node for node in self.session.nodes if condition(node)]
        return found[choice % len(found)] if found else None

    @property
    def target(self) -> Session | Statement:
        return self.session if self.statement is None else self.statement

    def noted(self) -> None:
        if self.statement is not None:
            self.dumps.append(dump(self.session))
            assert len(self.dumps) == len(self.statement) + 1

    @rule(choice=CHOICE, place=CHOICE, mark=st.booleans())
    def allocate(self, choice: int, place: int, mark: bool) -> None:
        statuses = (S.PENDING,) if self.statement is None else (S.PENDING, S.RESERVED)
        task = self.some(choice, *statuses)
        if task is None:
            return
        node = self.where(place, lambda n: n.fits(task))
        if node is not None:
            self.target.allocate(task, node, is_backfill=mark)
            self.noted()

    @rule(choice=CHOICE, place=CHOICE)
    def pipeline(self, choice: int, place: int) -> None:
        task = self.some(choice, S.PENDING)
        if task is None:
            return
        node = self.where(place, lambda n: n.fits(task, Fit.LATER))
        if node is not None:
            self.target.pipeline(task, node)
            self.noted()

    @rule(choice=CHOICE, place=CHOICE)
    def promise(self, choice: int, place: int) -> None:
        task = self.some(choice, S.PENDING)
        if task is None:
            return
        node = self.where(place, lambda n: n.fits(task, Fit.CONDITIONALLY))
        if node is not None:
            self.target.promise(task, node)
            self.noted()

    @rule(choice=CHOICE, place=CHOICE)
    def reserve(self, choice: int, place: int) -> None:
        task = self.some(choice, S.PENDING)
        node = self.where(place, lambda _: True)
        if task is not None and node is not None:
            self.target.reserve(task, node)
            self.noted()

    @rule(choice=CHOICE)
    def evict(self, choice: int) -> None:
        task = self.some(choice, S.RUNNING)
        if task is not None:
            self.target.evict(task, claimant=task)
            self.noted()

    @rule(choice=CHOICE)
    def unallocate(self, choice: int) -> None:
        task = self.some(choice, S.ALLOCATED, S.PIPELINED, S.CONDITIONAL, S.RESERVED)
        if task is not None:
            self.target.unallocate(task)
            self.noted()

    @precondition(lambda self: self.statement is None)
    @rule()
    def begin(self) -> None:
        self.dumps = [dump(self.session)]
        self.statement = self.session.statement()

    @precondition(lambda self: self.statement is not None)
    @rule(choice=CHOICE)
    def rollback(self, choice: int) -> None:
        assert self.statement is not None
        length = choice % len(self.dumps)
        self.statement.rollback(length)
        del self.dumps[length + 1 :]
        assert dump(self.session) == self.dumps[-1]

    @precondition(lambda self: self.statement is not None)
    @rule()
    def discard(self) -> None:
        assert self.statement is not None
        self.statement.discard()
        self.statement = None
        assert dump(self.session) == self.dumps[0]

    @precondition(lambda self: self.statement is not None)
    @rule()
    def commit(self) -> None:
        assert self.statement is not None
        evictions = len(self.session.evictions)
        evicted = [uid for uid, *_ in self._evicted_since(self.dumps[0])]
        self.statement.commit()
        self.statement = None
        assert sorted(e.task_uid for e in self.session.evictions[evictions:]) == sorted(evicted)
        for job in self.session.jobs.values():
            if job.has_bind and self.session.plugins.job_ready(job):
                assert set(job.allocated or ()) <= self._held_before(job.uid)

    def _evicted_since(self, before: dict[str, object]) -> list[tuple[str, str]]:
        tasks = before["tasks"]
        assert isinstance(tasks, dict)
        return [
            (uid, task.status.value)
            for uid, task in self.session.ledger.tasks.items()
            if task.status is S.RELEASING and tasks[uid][0] == "Running"
        ]

    def _held_before(self, job_uid: str) -> set[str]:
        jobs = self.dumps[0]["jobs"]
        assert isinstance(jobs, dict)
        return set(jobs[job_uid]["allocated"])

    @invariant()
    def the_books_are_sound(self) -> None:
        if hasattr(self, "session"):
            self.session.check()

    @invariant()
    def shares_are_what_a_recount_says(self) -> None:
        if not hasattr(self, "session"):
            return
        ledger = self.session.ledger
        drf = plugin_object(self.session, "drf")
        proportion = plugin_object(self.session, "proportion")
        for job in ledger.jobs.values():
            total = ledger.dimensions.zero
            for task in job.tasks:
                if task.status in CHARGED:
                    total = plus(total, task.resreq)
            assert drf._of(job) == total
        for queue in ledger.queues.values():
            total = ledger.dimensions.zero
            for job in queue.jobs:
                for task in job.tasks:
                    if task.status in CHARGED and not task.is_backfill:
                        total = plus(total, task.resreq)
            if queue.jobs:
                assert proportion._accounts[queue.name].allocated == total


TestDiscardingAStatementLeavesTheSessionAsItWas = SessionHistory.TestCase
TestDiscardingAStatementLeavesTheSessionAsItWas.settings = settings(
    max_examples=60, stateful_step_count=30, deadline=None
)
