"""gang: a job starts as a whole, and is kept whole."""

from __future__ import annotations

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from tests.support.books import opened, plugin_object
from tests.support.clusters import cluster, job, node, standing

from batchsched import (
    ConditionReason,
    JobCondition,
    JobInfo,
    MemberCount,
    NodeInfo,
    Queue,
    Resource,
    Session,
    Snapshot,
    TaskGroup,
    TaskStatus,
)
from batchsched.plugin import Verdict

S = TaskStatus
V, X = Verdict.VICTIM, Verdict.PROTECTED
IN_SNAPSHOT = [status for status in S if status.in_snapshot and status is not S.PIPELINED]


def one_job(minimum: int, *statuses: TaskStatus) -> Session:
    tasks = standing("t", Resource(milli_cpu=1), *statuses)
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
    refusal = of.plugins.job_valid(the_job)
    if valid >= minimum:
        assert refusal is None
    else:
        message = f"{valid} of the {minimum} tasks that it needs can start"
        count = MemberCount(has=valid, needs=minimum)
        assert refusal == JobCondition(
            ConditionReason.NOT_ENOUGH_TASKS, message, "gang", counts=(count,)
        )
        return
    is_ready = ready >= minimum
    assert of.plugins.job_ready(the_job) is is_ready
    assert of.plugins.job_pipelined(the_job) is is_ready
    assert of.plugins.job_condition_ready(the_job) is (is_ready or ready + reserved >= minimum)
    runs = any(s in (S.BINDING, S.BOUND, S.RUNNING) for s in statuses)
    assert of.plugins.job_order_key(the_job)[0] == (1 if is_ready else -runs)


def test_promises_count_for_what_they_are() -> None:
    snapshot = cluster(
        [node("n1", "9C9G")],
        job("r", "1C1G@n1", "1C1G@n1*"),
        job("j", *["1C1G"] * 4, minimum=3),
    )
    of = opened(snapshot, ["gang"])
    the_job = of.jobs["default/j"]

    def stands() -> tuple[bool, bool, bool]:
        return (
            of.plugins.job_ready(the_job),
            of.plugins.job_pipelined(the_job),
            of.plugins.job_condition_ready(the_job),
        )

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
    ("least", "needs"),
    [
        (1, {"min_available": 1, "max_available": 9}),
        (1, {"min_groups": 1}),
        (2, {"min_groups": 1, "min_available": 2}),
    ],
    ids=["tasks", "groups", "more tasks than the groups need"],
)
def test_of_ready_jobs_those_at_their_minimum_go_before_those_that_have_more(
    least: int, needs: dict[str, int]
) -> None:
    def elastic(name: str, running: int) -> JobInfo:
        tasks = standing(name, Resource(milli_cpu=1), *[S.RUNNING] * running, S.PENDING)
        if "min_groups" not in needs:
            return JobInfo(name=name, queue="q", tasks=tasks, **needs)
        groups = [TaskGroup(name=f"g{n}", min=1) for n in range(4)]
        members = [evolve(task, group=f"g{n}") for n, task in enumerate(tasks)]
        return JobInfo(name=name, queue="q", tasks=members, groups=groups, **needs)

    nodes = [NodeInfo(name="n1", allocatable=Resource(milli_cpu=1000))]
    jobs = [elastic("a", least + 1), elastic("b", least), elastic("c", least - 1)]
    of = opened(Snapshot(nodes=nodes, queues=[Queue(name="q")], jobs=jobs), ["gang"])
    in_order = sorted(of.jobs.values(), key=of.plugins.job_order_key)
    assert [job.info.name for job in in_order] == ["c", "b", "a"]
    # What runs of c is not enough for it, if anything does: then it is broken.
    assert [of.plugins.job_order_key(job)[0] for job in in_order] == [1 - least, 1, 2]


@pytest.mark.parametrize(
    ("minimum", "verdicts"), [(0, [V, V, V]), (1, [V, V, X]), (2, [V, X, X]), (3, [X, X, X])]
)
def test_a_gang_gives_what_it_can_spare_and_no_more(minimum: int, verdicts: list[Verdict]) -> None:
    of = one_job(minimum, S.RUNNING, S.RUNNING, S.RUNNING)
    plugin = plugin_object(of, "gang")
    candidates = [of.task(uid) for uid in ("t-2", "t-0", "t-1")]
    for point in (plugin.preemptable, plugin.reclaimable):
        assert list(point(of.task("t-0"), candidates)) == verdicts


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
    verdicts = plugin.preemptable(candidates[0], candidates) if candidates else []
    left = running - list(verdicts).count(V)
    assert left == min(running, minimum) or left == running


W = Verdict.WITH_JOB


def gangs_of_three_priorities(at_minimum: str) -> Session:
    return opened(
        cluster(
            [node("n1", "9C9G")],
            job("low", "1C1G@n1", "1C1G@n1", minimum=1, priority=1),
            job("high", "1C1G@n1", minimum=1, priority=3),
            job("c", "1C1G", "1C1G@n1", minimum=1, priority=2),
            job("d", "1C1G", minimum=1, queue="r"),
            queues=("q", "r"),
        ),
        [("gang", {"atMinimum": at_minimum})],
    )


@pytest.mark.parametrize(("at_minimum", "goes"), [("protect", X), ("whole-job", W)])
def test_a_job_at_its_minimum_goes_as_a_whole_if_that_is_asked_for(
    at_minimum: str, goes: Verdict
) -> None:
    of = gangs_of_three_priorities(at_minimum)
    plugin = plugin_object(of, "gang")
    others = [of.task(uid) for uid in ("low-1", "low-2", "high-1")]
    # Within a queue only for a job of higher priority, and never for the job itself.
    assert list(plugin.preemptable(of.task("c-1"), others)) == [V, goes, X]
    assert list(plugin.preemptable(of.task("c-1"), [of.task("c-2")])) == [X]
    assert list(plugin.reclaimable(of.task("d-1"), others)) == [V, goes, goes]
    assert list(plugin.reclaimable(of.task("c-1"), [of.task("c-2")])) == [X]
    # What was lent is called in whatever becomes of the job; whole, if what is left is useless.
    called_in = V if at_minimum == "protect" else W
    assert list(plugin.revocable(of.task("d-1"), others)) == [V, called_in, called_in]


@pytest.mark.parametrize("at_minimum", ["protect", "whole-job"])
def test_who_is_known_to_be_safe_is_so_in_the_verdicts(at_minimum: str) -> None:
    of = gangs_of_three_priorities(at_minimum)
    of.evict(of.task("low-1"), claimant=of.task("c-1"))
    plugin = plugin_object(of, "gang")
    for claimant, uids in (("c-1", ["low-2", "high-1"]), ("d-1", ["low-2", "high-1", "c-2"])):
        candidates = [of.task(uid) for uid in uids]
        point = plugin.preemptable if claimant == "c-1" else plugin.reclaimable
        verdicts = point(of.task(claimant), candidates)
        shielded = plugin.shielded(of.task(claimant), candidates)
        assert list(shielded) == [verdict is X for verdict in verdicts]


def test_at_close_jobs_that_are_not_ready_are_unschedulable() -> None:
    of = one_job(3, S.RUNNING, S.PENDING, S.SUCCEEDED, S.PENDING)
    assert of.plugins.close() == {
        "default/j": JobCondition(
            ConditionReason.NOT_ENOUGH_RESOURCES,
            "2 of the 3 tasks that must start together are ready",
            "gang",
            counts=(MemberCount(has=2, needs=3),),
        )
    }
    assert one_job(2, S.RUNNING, S.SUCCEEDED).plugins.close() == {}
    assert one_job(3, S.RUNNING).plugins.close() == {}  # invalid: not in the session


def test_what_has_succeeded_does_not_make_a_job_one_that_has_more_than_it_needs() -> None:
    def with_more(name: str, *statuses: TaskStatus) -> JobInfo:
        tasks = standing(name, Resource(milli_cpu=1), *statuses)
        return JobInfo(name=name, queue="q", min_available=1, max_available=9, tasks=tasks)

    of = opened(
        Snapshot(
            nodes=[NodeInfo(name="n1", allocatable=Resource(milli_cpu=1000))],
            queues=[Queue(name="q")],
            jobs=[
                with_more("ended", S.SUCCEEDED, S.SUCCEEDED, S.PENDING),
                with_more("runs", S.RUNNING, S.RUNNING, S.PENDING),
            ],
        ),
        ["gang"],
    )
    assert [of.plugins.job_order_key(job)[0] for job in of.jobs.values()] == [1, 2]
