"""What one search for room leaves for the next, and what it does not."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from attrs import evolve
from tests.support.books import Saying, opened
from tests.support.clusters import cluster, job, node
from tests.support.eviction import (
    SILENT,
    made_for,
)
from tests.support.hints import WithHints

from batchsched import JobInfo, Snapshot
from batchsched.action import EvictionScope
from batchsched.actions.preempt import PreemptAction
from batchsched.plugin import TaskState, Verdict


def full(*jobs: JobInfo, nodes: int = 1, queues: Sequence[str] = ("q",)) -> Snapshot:
    return cluster([node(f"n{n}", "1C1G") for n in range(1, nodes + 1)], *jobs, queues=queues)


@pytest.mark.parametrize("scope", [EvictionScope.OTHER_JOBS, EvictionScope.OTHER_QUEUES])
def test_nothing_is_remembered_if_a_plugin_does_not_say_what_its_verdicts_read(
    scope: EvictionScope,
) -> None:
    def only_for_c(claimant: TaskState, candidates: Sequence[TaskState]) -> list[Verdict]:
        verdict = Verdict.VICTIM if claimant.uid == "c-1" else Verdict.PROTECTED
        return [verdict] * len(candidates)

    other = "q" if scope is EvictionScope.OTHER_JOBS else "r"
    snapshot = full(
        job("a", "1C1G@n1", minimum=0, queue=other),
        job("b", "1C1G"),
        job("c", "1C1G"),
        queues=("q", "r"),
    )
    session = opened(snapshot, ["gang", ("own", Saying(**{scope.point: only_for_c}))])
    assert made_for(session, "b-1", scope) is None
    assert made_for(session, "c-1", scope) == ["a-1"]


def test_what_a_job_finds_among_other_jobs_is_not_what_another_finds() -> None:
    """b could only take its own task, which is another job's for c."""
    snapshot = full(job("b", "1C1G@n1", "1C1G", minimum=0), job("c", "1C1G", minimum=0))
    session = opened(snapshot, ["gang"])
    assert made_for(session, "b-2", EvictionScope.OTHER_JOBS) is None
    assert made_for(session, "c-1", EvictionScope.OTHER_JOBS) == ["b-1"]
    session = opened(snapshot, ["gang"])
    assert made_for(session, "b-2", EvictionScope.SAME_JOB) == ["b-1"]


def test_a_job_that_runs_finds_nobody_of_its_own_whether_or_not_plugins_say_what_they_read() -> (
    None
):
    snapshot = full(job("b", "1C1G@n1", "1C1G", minimum=0))
    session = opened(snapshot, [SILENT])
    assert made_for(session, "b-2", EvictionScope.OTHER_JOBS) is None
    assert made_for(session, "b-2", EvictionScope.SAME_JOB) == ["b-1"]


def test_who_is_shielded_from_their_own_job_is_not_shielded_from_others() -> None:
    """The first claimant's own task is more important than the claimant, its job is not."""
    one = job("b", "1C1G@n1", "1C1G", minimum=0)
    runs, waits = one.tasks
    one = evolve(one, priority=1, tasks=[evolve(runs, priority=9), evolve(waits, priority=1)])
    other = job("c", "1C1G", minimum=0, priority=2)
    session = opened(full(one, other), ["priority"])
    assert made_for(session, "b-2", EvictionScope.SAME_JOB) is None
    assert made_for(session, "b-2", EvictionScope.OTHER_JOBS) is None
    assert made_for(session, "c-1", EvictionScope.OTHER_JOBS) == ["b-1"]


def test_a_job_finds_others_beside_its_own_tasks() -> None:
    snapshot = cluster(
        [node("n1", "7C7G")],
        job("a", *["3C3G@n1"] * 2, minimum=0),
        job("b", "1C1G@n1", "3C3G", minimum=0),
    )
    session = opened(snapshot, ["gang"])
    assert made_for(session, "b-2", EvictionScope.OTHER_JOBS) == ["a-2"]


class NotOwn(WithHints):
    """Protects tasks of the claimant's own job, and knows that."""

    def claimant_key(self, _claimant: TaskState) -> None:
        return None

    def shielded(self, claimant: TaskState, candidates: Sequence[TaskState]) -> list[bool]:
        return [candidate.job is claimant.job for candidate in candidates]

    def preemptable(self, claimant: TaskState, candidates: Sequence[TaskState]) -> list[Verdict]:
        return [
            Verdict.PROTECTED if candidate.job is claimant.job else Verdict.VICTIM
            for candidate in candidates
        ]


def test_what_a_job_cannot_take_from_itself_others_can_take_from_it() -> None:
    snapshot = full(job("b", "1C1G@n1", "1C1G", minimum=0), job("c", "1C1G", minimum=0))
    session = opened(snapshot, [("own", NotOwn())])
    assert made_for(session, "b-2", EvictionScope.OTHER_JOBS) is None
    assert made_for(session, "c-1", EvictionScope.OTHER_JOBS) == ["b-1"]


class OnlyAlone(WithHints):
    """Lets a task go if it is the only candidate."""

    def claimant_key(self, _claimant: TaskState) -> None:
        return None

    def preemptable(self, _claimant: TaskState, candidates: Sequence[TaskState]) -> list[Verdict]:
        alone = Verdict.VICTIM if len(candidates) == 1 else Verdict.PROTECTED
        return [alone] * len(candidates)


def test_where_others_were_refused_a_job_with_fewer_candidates_is_not() -> None:
    snapshot = cluster(
        [node("n1", "2C2G")],
        job("a", "1C1G@n1", minimum=0),
        job("b", "1C1G@n1", "1C1G", minimum=0),
        job("c", "1C1G", minimum=0),
    )
    session = opened(snapshot, [("own", OnlyAlone())])
    assert made_for(session, "c-1", EvictionScope.OTHER_JOBS) is None
    assert made_for(session, "b-2", EvictionScope.OTHER_JOBS) == ["a-1"]
    session = opened(snapshot, [("own", OnlyAlone())])
    assert made_for(session, "b-2", EvictionScope.OTHER_JOBS) == ["a-1"]
    assert made_for(session, "c-1", EvictionScope.OTHER_JOBS) == ["b-1"]


def test_what_one_job_finds_in_itself_is_not_what_another_finds() -> None:
    def not_a(_claimant: TaskState, candidates: Sequence[TaskState]) -> list[Verdict]:
        return [Verdict.PROTECTED if c.uid == "a-1" else Verdict.VICTIM for c in candidates]

    snapshot = cluster(
        [node("n1", "2C2G")],
        job("a", "1C1G@n1", "1C1G", minimum=0),
        job("b", "1C1G@n1", "1C1G", minimum=0),
    )
    own = Saying(preemptable=not_a, claimant_key=lambda _: None)
    session = opened(snapshot, [("own", own)])
    assert made_for(session, "a-2", EvictionScope.SAME_JOB) is None
    assert made_for(session, "b-2", EvictionScope.SAME_JOB) == ["b-1"]


@pytest.mark.parametrize("minimum", [8, 7])
def test_jobs_that_run_in_part_do_not_ask_for_everything_each_on_its_own(minimum: int) -> None:
    """What can be given on a node is asked for once by all jobs, but for their own nodes."""
    asked: list[int] = []

    class Counting(WithHints):
        def claimant_key(self, _claimant: TaskState) -> None:
            return None

        def preemptable(
            self, _claimant: TaskState, candidates: Sequence[TaskState]
        ) -> list[Verdict]:
            asked.append(len(candidates))
            return [Verdict.PROTECTED] * len(candidates)

        def shielded(self, _claimant: TaskState, candidates: Sequence[TaskState]) -> list[bool]:
            asked.append(len(candidates))
            return [False] * len(candidates)

    def work(nodes: int) -> int:
        asked.clear()
        jobs = [
            job(f"j{i:02}", *[f"1C1G@n{i:02}"] * 8, "1C1G", minimum=minimum) for i in range(nodes)
        ]
        snapshot = cluster([node(f"n{i:02}", "8C8G") for i in range(nodes)], *jobs)
        session = opened(snapshot, [("counting", Counting()), "gang"])
        PreemptAction().execute(session)
        assert not session.evictions
        return sum(asked)

    assert work(40) <= 2.2 * work(20)


def test_what_another_job_may_give_is_not_what_a_job_finds_in_itself() -> None:
    snapshot = full(job("a", "1C1G@n1"), job("b", "1C1G@n2", "1C1G", minimum=0), nodes=2)
    session = opened(snapshot, ["gang"])
    assert made_for(session, "b-2", EvictionScope.OTHER_JOBS) is None
    assert made_for(session, "b-2", EvictionScope.SAME_JOB) == ["b-1"]


def test_a_gang_that_has_a_task_more_has_one_to_give_on_nodes_that_did_not_change() -> None:
    snapshot = full(job("a", "1C1G@n1", "1C1G@n2", "1C1G", minimum=2), job("b", "1C1G"), nodes=3)
    session = opened(snapshot, ["gang"])
    assert made_for(session, "b-1", EvictionScope.OTHER_JOBS) is None
    session.allocate(session.task("a-3"), session.node("n3"))
    assert made_for(session, "b-1", EvictionScope.OTHER_JOBS) in (["a-1"], ["a-2"])


def test_a_queue_that_has_more_has_more_to_give_whichever_of_its_jobs_has_it() -> None:
    """r deserves 2 cpu and holds as much; with what y is given, x has a task to give."""
    snapshot = cluster(
        [node(f"n{n}", "1C0G") for n in range(1, 5)],
        job("x", "1C0G@n1", minimum=0, queue="r"),
        job("y", "1C0G@n2", "1C0G", minimum=0, priority=1, queue="r"),
        job("b", *["1C0G"] * 4, minimum=0),
        queues=("q", "r"),
    )
    session = opened(snapshot, ["proportion"])
    assert made_for(session, "b-1", EvictionScope.OTHER_QUEUES) is None
    session.allocate(session.task("y-2"), session.node("n3"))
    assert made_for(session, "b-1", EvictionScope.OTHER_QUEUES) == ["x-1"]


def test_what_the_less_important_was_refused_the_more_important_may_have() -> None:
    snapshot = full(job("a", "1C1G@n1"), job("b", "1C1G"), job("c", "1C1G", priority=5))
    session = opened(snapshot, ["priority"])
    assert made_for(session, "b-1", EvictionScope.OTHER_JOBS) is None
    assert made_for(session, "c-1", EvictionScope.OTHER_JOBS) == ["a-1"]


def test_where_there_was_too_little_for_one_there_may_be_enough_for_another() -> None:
    """Each of a's tasks could go, but not both."""
    snapshot = cluster(
        [node("n1", "2C2G")],
        job("a", "1C1G@n1", "1C1G@n1", minimum=1),
        job("large", "2C2G"),
        job("small", "1C1G"),
    )
    session = opened(snapshot, ["gang"])
    assert made_for(session, "large-1", EvictionScope.OTHER_JOBS) is None
    assert made_for(session, "small-1", EvictionScope.OTHER_JOBS) == ["a-2"]


@pytest.mark.parametrize("plain", [(), ("engine",)])
def test_where_one_may_not_go_another_may(plain: tuple[str, ...]) -> None:
    wants = job("b", "1C1G")
    elsewhere = evolve(wants, tasks=[evolve(wants.tasks[0], node_selector={"disk": "ssd"})])
    snapshot = full(job("a", "1C1G@n1", minimum=0), elsewhere, job("c", "1C1G"))
    session = opened(snapshot, ["gang", "predicates"], plain=plain)
    assert made_for(session, "b-1", EvictionScope.OTHER_JOBS) is None
    assert made_for(session, "c-1", EvictionScope.OTHER_JOBS) == ["a-1"]
