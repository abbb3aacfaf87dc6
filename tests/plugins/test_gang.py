"""gang: a job starts as a whole, and is kept whole."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.books import opened, plugin_object
from tests.support.clusters import cluster, job, node

from batchsched import (
    ConditionReason,
    JobCondition,
    JobInfo,
    NodeInfo,
    Queue,
    Resource,
    Snapshot,
    TaskInfo,
    TaskStatus,
)
from batchsched.plugin import Verdict
from batchsched.session.session import Session

S = TaskStatus
V, X = Verdict.VICTIM, Verdict.PROTECTED
IN_SNAPSHOT = [status for status in S if status.in_snapshot]


def one_job(minimum: int, *statuses: TaskStatus) -> Session:
    nowhere = (S.PENDING, S.SUCCEEDED, S.FAILED)
    tasks = [
        TaskInfo(
            uid=f"t{i}",
            name=f"t{i}",
            status=status,
            node_name=None if status in nowhere else "n1",
            resreq=Resource(milli_cpu=1),
        )
        for i, status in enumerate(statuses)
    ]
    return opened(
        Snapshot(
            nodes=[NodeInfo(name="n1", allocatable=Resource(milli_cpu=1000))],
            queues=[Queue(name="q")],
            jobs=[JobInfo(name="j", queue="q", min_available=minimum, tasks=tasks)],
        ),
        ["gang"],
    )


@given(st.lists(st.sampled_from(IN_SNAPSHOT), max_size=6), st.integers(0, 6))
def test_counts_are_those_of_the_specification(statuses: list[TaskStatus], minimum: int) -> None:
    of = one_job(minimum, *statuses)
    the_job = of.ledger.jobs["default/j"]
    ready = sum(s in (S.BINDING, S.BOUND, S.RUNNING, S.SUCCEEDED) for s in statuses)
    reserved = sum(s is S.RESERVED for s in statuses)
    # Sessions drop reservations of jobs that are ready or invalid; so they are Pending then.
    valid = ready + reserved + sum(s is S.PENDING for s in statuses)
    refusal = of.job_valid(the_job)
    if valid >= minimum:
        assert refusal is None
    else:
        message = f"{valid} of the {minimum} tasks that it needs can start"
        assert refusal == JobCondition(ConditionReason.NOT_ENOUGH_TASKS, message, "gang")
        return
    is_ready = ready >= minimum
    assert of.job_ready(the_job) is is_ready
    assert of.job_pipelined(the_job) is is_ready
    assert of.job_condition_ready(the_job) is (is_ready or ready + reserved >= minimum)
    assert of.job_order_key(the_job)[0] == int(is_ready)


def test_promises_count_for_what_they_are() -> None:
    snapshot = cluster(
        [node("n1", "9C9G")],
        job("r", "1C1G@n1", "1C1G@n1*"),
        job("j", *["1C1G"] * 4, minimum=3),
    )
    of = opened(snapshot, ["gang"])
    the_job = of.jobs["default/j"]

    def stands() -> tuple[bool, bool, bool]:
        return of.job_ready(the_job), of.job_pipelined(the_job), of.job_condition_ready(the_job)

    n1 = of.node("n1")
    of.allocate(of.task("j-1"), n1)
    of.pipeline(of.task("j-2"), n1)
    assert stands() == (False, False, False)
    of.promise(of.task("j-3"), n1)
    assert stands() == (False, False, True)  # Conditional counts for the last only
    of.unallocate(of.task("j-3"))
    of.reserve(of.task("j-3"), n1)
    assert stands() == (False, False, True)
    of.unallocate(of.task("j-3"))
    of.pipeline(of.task("j-3"), n1)
    assert stands() == (False, True, True)
    of.unallocate(of.task("j-3"))
    of.unallocate(of.task("j-2"))
    of.allocate(of.task("j-2"), n1)
    of.allocate(of.task("j-3"), n1)
    assert stands() == (True, True, True)


def test_jobs_that_are_not_ready_go_first_as_of_now() -> None:
    snapshot = cluster([node("n1", "9C9G")], job("a", "1C1G"), job("b", "1C1G"))
    of = opened(snapshot, ["gang"])
    jobs = of.live_jobs(of.jobs.values())
    of.allocate(of.task("a-1"), of.node("n1"))
    assert jobs.pop().uid == "default/b"


@pytest.mark.parametrize(
    ("minimum", "verdicts"), [(0, [V, V, V]), (1, [V, V, X]), (2, [V, X, X]), (3, [X, X, X])]
)
def test_a_gang_gives_what_it_can_spare_and_no_more(minimum: int, verdicts: list[Verdict]) -> None:
    of = one_job(minimum, S.RUNNING, S.RUNNING, S.RUNNING)
    plugin = plugin_object(of, "gang")
    candidates = [of.task(uid) for uid in ("t2", "t0", "t1")]
    for point in (plugin.preemptable, plugin.reclaimable):
        assert list(point(of.task("t0"), candidates)) == verdicts


def test_each_gang_has_a_counter_of_its_own_that_starts_at_its_ready_tasks() -> None:
    of = opened(
        cluster(
            [node("n1", "9C9G")],
            job("a", "1C1G@n1", "1C1G@n1", minimum=1),
            job("b", "1C1G@n1", "1C1G@n1", "1C1G@n1", minimum=1),
            job("c", "1C1G"),
        ),
        ["gang"],
    )
    uids = ["a-1", "b-1", "a-2", "b-2", "b-3"]
    plugin = plugin_object(of, "gang")
    candidates = [of.task(uid) for uid in uids]
    assert list(plugin.preemptable(of.task("c-1"), candidates)) == [V, V, X, V, X]
    # Nothing is remembered from question to question.
    assert list(plugin.preemptable(of.task("c-1"), candidates)) == [V, V, X, V, X]
    of.evict(of.task("b-1"), claimant=of.task("c-1"))
    rest = [of.task(uid) for uid in ("a-1", "b-2", "b-3")]
    assert list(plugin.reclaimable(of.task("c-1"), rest)) == [V, V, X]


@given(st.integers(0, 6), st.integers(0, 6))
def test_evicting_all_its_victims_leaves_a_gang_whole(running: int, minimum: int) -> None:
    of = one_job(minimum, *[S.RUNNING] * running)
    plugin = plugin_object(of, "gang")
    candidates = list(of.ledger.tasks.values())
    verdicts = plugin.preemptable(None, candidates)
    left = running - list(verdicts).count(V)
    assert left == min(running, minimum) or left == running


def test_at_close_jobs_that_are_not_ready_are_unschedulable() -> None:
    of = one_job(3, S.RUNNING, S.PENDING, S.SUCCEEDED, S.PENDING)
    assert of.plugin_set.close() == {
        "default/j": JobCondition(
            ConditionReason.NOT_ENOUGH_RESOURCES,
            "2 of the 3 tasks that must start together are ready",
            "gang",
        )
    }
    assert one_job(2, S.RUNNING, S.SUCCEEDED).plugin_set.close() == {}
    assert one_job(3, S.RUNNING).plugin_set.close() == {}  # invalid: not in the session
