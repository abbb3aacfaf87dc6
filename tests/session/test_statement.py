"""Statements: what they do is decided when they are committed, and undone when they are not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from attrs import evolve
from tests.support.books import Saying, dump, opened, standing
from tests.support.clusters import cluster, job, node

from batchsched import PluginError, Session, Snapshot, Statement, StatementError, TaskStatus

S = TaskStatus


def busy() -> Snapshot:
    """Two nodes of 4 cpu: on n1 2 run, 1 of them as backfill; b waits, and wants 2 tasks."""
    return cluster(
        [node("n1", "4C8G"), node("n2", "4C8G")],
        job("a", "1C1G@n1", "1C1G@n1*", minimum=1),
        job("b", "1C1G", "1C1G", "1C1G", minimum=2),
        job("c", "1C1G>n2", "1C1G", minimum=2),
        job("lost", "1C1G", queue="gone"),
    )


def session() -> Session:
    return opened(busy(), ["priority", "gang", "drf", "proportion", "predicates", "nodeorder"])


def test_operations_are_applied_at_once_and_decided_on_commit() -> None:
    of = session()
    n1, b1, a1 = of.node("n1"), of.task("b-1"), of.task("a-1")
    statement = of.statement()
    statement.allocate(b1, n1)
    statement.evict(a1, claimant=b1)
    assert standing(b1) == ("Allocated", "n1", False)
    assert standing(a1) == ("Releasing", "n1", False)
    assert len(statement) == 2
    assert (of.binds, of.evictions) == ([], [])
    statement.commit()
    assert [(e.task_uid, e.node_name, e.for_task_uid) for e in of.evictions] == [
        ("a-1", "n1", "b-1")
    ]
    assert of.binds == []  # 1 of 2
    assert b1.status is S.ALLOCATED


def test_commit_binds_the_allocated_tasks_of_jobs_that_are_ready_in_order_of_uid() -> None:
    of = session()
    statement = of.statement()
    statement.allocate(of.task("b-3"), of.node("n2"))
    statement.allocate(of.task("b-1"), of.node("n1"), is_backfill=True)
    statement.allocate(of.task("c-2"), of.node("n1"))
    statement.commit()
    assert [(b.task_uid, b.node_name, b.is_backfill) for b in of.binds] == [
        ("b-1", "n1", True),
        ("b-3", "n2", False),
    ]
    assert of.task("b-3").status is S.BINDING
    assert of.task("c-2").status is S.ALLOCATED
    assert of.task("b-1").job.has_bind
    assert not of.task("c-2").job.has_bind


def test_commit_binds_tasks_that_the_session_holds_for_a_job_that_becomes_ready() -> None:
    of = session()
    of.allocate(of.task("b-1"), of.node("n1"))
    assert of.binds == []
    with of.statement() as statement:
        statement.allocate(of.task("b-2"), of.node("n1"))
        statement.commit()
    assert [b.task_uid for b in of.binds] == ["b-1", "b-2"]


OPERATIONS: dict[str, Callable[[Session, Statement], None]] = {
    "allocate": lambda of, st: st.allocate(of.task("b-1"), of.node("n1")),
    "allocate as backfill": lambda of, st: st.allocate(
        of.task("b-1"), of.node("n1"), is_backfill=True
    ),
    "allocate what was reserved": lambda of, st: st.allocate(of.task("c-1"), of.node("n2")),
    "allocate what was reserved elsewhere": lambda of, st: st.allocate(
        of.task("c-1"), of.node("n1")
    ),
    "pipeline": lambda of, st: st.pipeline(of.task("b-1"), of.node("n1")),
    "promise": lambda of, st: st.promise(of.task("b-1"), of.node("n1")),
    "reserve": lambda of, st: st.reserve(of.task("b-1"), of.node("n1")),
    "evict": lambda of, st: st.evict(of.task("a-1"), claimant=of.task("b-1")),
    "evict backfill": lambda of, st: st.evict(of.task("a-2"), claimant=of.task("b-1")),
    "take back a reservation": lambda of, st: st.unallocate(of.task("c-1")),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_discarding_leaves_everything_as_it_was(name: str) -> None:
    of = session()
    before = dump(of)
    statement = of.statement()
    OPERATIONS[name](of, statement)
    of.check()
    assert dump(of) != before
    statement.discard()
    of.check()
    assert dump(of) == before


@pytest.mark.parametrize("name", OPERATIONS)
def test_undoing_to_a_length_leaves_what_came_before(name: str) -> None:
    of = session()
    statement = of.statement()
    statement.allocate(of.task("c-2"), of.node("n2"))
    before = dump(of)
    OPERATIONS[name](of, statement)
    statement.rollback(1)
    assert dump(of) == before
    assert len(statement) == 1
    statement.commit()
    assert of.evictions == []
    assert standing(of.task("c-2")) == ("Allocated", "n2", False)


def test_undoing_an_eviction_forgets_it_and_keeps_those_before() -> None:
    of = session()
    claimant = of.task("b-1")
    with of.statement() as statement:
        statement.evict(of.task("a-1"), claimant=claimant)
        statement.evict(of.task("a-2"), claimant=claimant)
        statement.pipeline(claimant, of.node("n1"))
        statement.rollback(1)
        statement.evict(of.task("a-2"), claimant=of.task("b-2"))
        told = statement.evictions
        statement.commit()
    assert told == of.evictions
    assert [(e.task_uid, e.for_task_uid) for e in of.evictions] == [("a-1", "b-1"), ("a-2", "b-2")]


def test_undoing_to_more_than_there_is_changes_nothing() -> None:
    of = session()
    statement = of.statement()
    statement.reserve(of.task("b-1"), of.node("n1"))
    statement.rollback(5)
    assert len(statement) == 1


def test_taking_back_takes_the_mark_that_came_with_the_place() -> None:
    of = session()
    with of.statement() as statement:
        statement.allocate(of.task("b-1"), of.node("n1"), is_backfill=True)
        statement.unallocate(of.task("b-1"))
        statement.commit()
    assert standing(of.task("b-1")) == ("Pending", None, False)


@pytest.mark.parametrize(
    ("method", "status"),
    [("pipeline", "Pipelined"), ("promise", "Conditional"), ("reserve", "Reserved")],
)
def test_a_promise_leaves_a_task_the_mark_that_it_has(method: str, status: str) -> None:
    waits = job("b", "1C1G", "1C1G")
    tasks = [evolve(task, is_backfill=task.uid == "b-2") for task in waits.tasks]
    of = opened(cluster([node("n1", "4C8G")], evolve(waits, tasks=tasks)), ["priority"])
    with of.statement() as statement:
        getattr(statement, method)(of.task("b-1"), of.node("n1"))
        getattr(statement, method)(of.task("b-2"), of.node("n1"))
        assert standing(of.task("b-1")) == (status, "n1", False)
        assert standing(of.task("b-2")) == (status, "n1", True)


def test_what_is_placed_is_what_was_pending_and_is_not_any_more() -> None:
    of = session()
    statement = of.statement()
    statement.allocate(of.task("b-1"), of.node("n1"))
    statement.pipeline(of.task("b-2"), of.node("n1"))
    statement.reserve(of.task("b-3"), of.node("n1"))
    statement.unallocate(of.task("b-2"))
    statement.unallocate(of.task("c-1"))
    statement.evict(of.task("a-1"), claimant=of.task("b-1"))
    assert [task.uid for task in statement.placed()] == ["b-1", "b-3"]


# Misuse


@pytest.mark.parametrize("end", ["commit", "discard"])
def test_a_statement_that_ended_takes_no_more_operations(end: str) -> None:
    of = session()
    statement = of.statement()
    getattr(statement, end)()
    before = dump(of)
    for operation in (
        *(lambda op=op: op(of, statement) for op in OPERATIONS.values()),
        statement.commit,
        statement.discard,
        lambda: statement.rollback(0),
    ):
        with pytest.raises(
            StatementError, match=r"^the statement was already committed or discarded$"
        ):
            operation()
    assert dump(of) == before


def test_statements_do_not_nest_and_another_may_follow() -> None:
    of = session()
    statement = of.statement()
    with pytest.raises(StatementError, match="a statement is open"):
        of.statement()
    statement.discard()
    with of.statement() as second:
        second.commit()
    of.statement()


def test_a_context_that_is_left_without_a_commit_discards() -> None:
    of = session()
    before = dump(of)
    with of.statement() as statement:
        statement.allocate(of.task("b-1"), of.node("n1"))
    assert dump(of) == before


def test_a_context_that_is_left_by_an_error_discards() -> None:
    of = session()
    before = dump(of)

    def fail() -> None:
        with of.statement() as statement:
            statement.allocate(of.task("b-1"), of.node("n1"))
            raise KeyError("x")

    with pytest.raises(KeyError):
        fail()
    assert dump(of) == before
    of.statement().commit()


def fails_to_be_undone() -> Statement:
    def fail(_task: object) -> None:
        raise ValueError("undone")

    of = opened(busy(), ["gang", ("own", Saying(on_deallocate=fail))])
    statement = of.statement()
    statement.allocate(of.task("b-1"), of.node("n1"))
    return statement


def test_what_went_wrong_in_a_context_is_told_even_if_undoing_goes_wrong_too() -> None:
    statement = fails_to_be_undone()
    with pytest.raises(KeyError, match="first"), statement:
        raise KeyError("first")


def test_undoing_that_goes_wrong_where_nothing_else_did_is_told() -> None:
    statement = fails_to_be_undone()
    with pytest.raises(PluginError, match="'own', on_deallocate: ValueError: undone"), statement:
        pass


WRONG: dict[str, tuple[Callable[[Session, Statement], None], str]] = {
    "allocate a running task": (
        lambda of, st: st.allocate(of.task("a-1"), of.node("n1")),
        "expected a task that is Pending or Reserved, got <task a-1 Running on n1>",
    ),
    "pipeline a reserved task": (
        lambda of, st: st.pipeline(of.task("c-1"), of.node("n1")),
        "expected a task that is Pending, got <task c-1 Reserved on n2>",
    ),
    "promise a running task": (
        lambda of, st: st.promise(of.task("a-1"), of.node("n1")),
        "expected a task that is Pending",
    ),
    "reserve for a reserved task": (
        lambda of, st: st.reserve(of.task("c-1"), of.node("n1")),
        "expected a task that is Pending",
    ),
    "evict a pending task": (
        lambda of, st: st.evict(of.task("b-1"), claimant=of.task("b-2")),
        "expected a task that is Running or Binding or Pipelined or Allocated, got <task b-1",
    ),
    "take back a running task": (
        lambda of, st: st.unallocate(of.task("a-1")),
        "expected a task that is Allocated or Pipelined or Conditional or Reserved, got",
    ),
    "allocate for a job that is left out": (
        lambda of, st: st.allocate(of.task("lost-1"), of.node("n1")),
        "expected a task of a job in this session, got <task lost-1 Pending>",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_an_operation_that_does_not_apply_is_refused_and_changes_nothing(name: str) -> None:
    of = session()
    before = dump(of)
    operation, message = WRONG[name]
    statement = of.statement()
    with pytest.raises(StatementError) as caught:
        operation(of, statement)
    assert message in str(caught.value)
    assert len(statement) == 0
    assert dump(of) == before
