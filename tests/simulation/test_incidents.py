"""What happens besides what jobs do: nodes fail and return, jobs are cancelled, queues change."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batchsched import Queue, QueueStatus, Resource, SchedulerConfig
from batchsched.simulation import (
    ByDistance,
    Checkpoint,
    Fcfs,
    Incident,
    Job,
    JobCancelled,
    JobFailed,
    LeastAttainedService,
    NodeDown,
    NodeDrained,
    NodeUp,
    QueueSet,
    Run,
    Scheduled,
    SimulationError,
    Srtf,
    SrtfInRounds,
    Workload,
    simulate,
)

from .workloads import workloads

GANGS = SchedulerConfig.from_mapping(
    {
        "actions": [{"name": "allocate", "arguments": {"unready": "discard"}}],
        "tiers": [{"plugins": [{"name": "gang"}, {"name": "predicates"}, {"name": "capacity"}]}],
    }
)


def job(number: int, submit: float = 0, run: float = 100, size: int = 1, **more: Any) -> Job:
    return Job(id=number, submit=submit, run=run, processors=size, **more)


def run(
    jobs: list[Job], *incidents: Incident, nodes: int = 2, queues: Any = (), **more: Any
) -> Run:
    policy = Scheduled(config=GANGS, queues=queues)
    return simulate(Workload(jobs).on(nodes=nodes), policy, incidents=incidents, **more)


def test_a_job_on_a_node_that_fails_begins_again_elsewhere() -> None:
    found = run([job(1)], NodeDown(at=40, node=0))
    assert found.jobs["end"] == [140]
    assert found.jobs["preemptions"] == [1]
    assert found.metrics()["lost"] == 40


def test_what_was_saved_is_kept_and_beginning_again_costs() -> None:
    fails = NodeDown(at=45, node=0)
    assert run([job(1)], fails, checkpoint=Checkpoint(every=20)).jobs["end"] == [45 + 60]
    assert run([job(1)], fails, checkpoint=Checkpoint(every=0)).jobs["end"] == [100]
    cost = Checkpoint(every=0, restart=ByDistance(processor=7))
    assert run([job(1)], fails, checkpoint=cost).jobs["end"] == [107]
    # Who is stopped while it begins again has done nothing meanwhile.
    again = NodeDown(at=50, node=1), NodeUp(at=50, node=0)
    found = run([job(1)], fails, *again, checkpoint=cost)
    assert found.jobs["end"] == [50 + 7 + 55]
    assert found.jobs["preemptions"] == [2]


def test_a_gang_is_stopped_as_a_whole_and_waits_for_the_node() -> None:
    found = run([job(1, size=2), job(2, 10)], NodeDown(at=40, node=1), NodeUp(at=150, node=1))
    # The other goes ahead on the node that is left.
    assert found.jobs["start"] == [0, 40]
    assert found.jobs["end"] == [250, 140]
    assert found.outcome.intervals == [(0, 0, 40), (0, 150, 250), (1, 40, 140)]


def test_a_drained_node_takes_nothing_new() -> None:
    found = run([job(1), job(2, 10), job(3, 20)], NodeDrained(at=15, node=0), nodes=2)
    assert found.jobs["start"] == [0, 10, 110]


def test_jobs_are_cancelled_before_they_come_while_they_wait_and_while_they_run() -> None:
    jobs = [job(1, size=2), job(2, 10), job(3, 20), job(4, 60), job(5, after=2, think=3)]
    cancelled = [
        JobCancelled(at=at, job=each) for at, each in ((30, 3), (30, 4), (50, 1), (500, 5))
    ]
    found = run(jobs, *cancelled)
    of = {each: row for row, each in enumerate(found.jobs["id"])}
    ended = found.jobs["outcome"]
    assert [ended[of[each]] for each in (1, 2, 3, 4, 5)] == [
        "cancelled", "ended", "cancelled", "cancelled", "ended"
    ]  # fmt: skip
    assert found.jobs["end"][of[1]] == 50
    assert found.jobs["start"][of[2]] == 50
    assert found.jobs["start"][of[5]] == 153
    assert found.unfinished == {
        3: "it was cancelled before it started",
        4: "it was cancelled before it started",
    }
    figures = found.metrics()
    assert (figures["jobs"], figures["cancelled"], figures["failed"]) == (2, 3, 0)
    assert figures["preemptions"] == 0


def test_a_job_that_fails_has_ended_or_waits_again() -> None:
    fails = JobFailed(at=60, job=1)
    for resubmit, end, outcome in ((False, 60, "failed"), (True, 160, "ended")):
        found = run([job(1), job(2, after=1)], fails, resubmit_failed=resubmit)
        assert found.jobs["end"] == [end, end + 100]
        assert found.jobs["outcome"] == [outcome, "ended"]
    # It does not run any more, or not yet.
    found = run([job(1), job(2, 200)], JobFailed(at=150, job=1), JobFailed(at=150, job=2))
    assert found.jobs["outcome"] == ["ended", "ended"]


def test_queues_close_and_open_again() -> None:
    closed = Queue(name="default", state=QueueStatus.CLOSED)
    found = run(
        [job(1, 10), job(2, 20, queue="new")],
        QueueSet(at=5, queue=closed),
        QueueSet(at=15, queue=Queue(name="new")),
        QueueSet(at=50, queue=Queue(name="default")),
        queues=[Queue(name="default")],
    )
    assert found.jobs["start"] == [50, 20]


def test_a_run_ends_in_which_nothing_can_ever_start_again() -> None:
    found = run([job(1, size=2), job(2, 10, after=1)], NodeDown(at=40, node=1))
    assert found.jobs["outcome"] == ["never ended", "never started"]
    assert "of the 2 tasks that must start together" in found.unfinished[1]
    assert found.unfinished[2] == "it depends on job 1, which has not ended"
    assert found.metrics()["unfinished"] == 2


def test_all_faults_of_incidents_are_told_at_once() -> None:
    config = SchedulerConfig.from_mapping({"actions": "allocate", "tiers": []})
    incidents: list[Any] = [
        NodeDown(at=-1, node=2),
        NodeUp(at=float("nan"), node=True),
        NodeDrained(at=0, node=0),
        JobCancelled(at=0, job="x"),
        QueueSet(at=0, queue="q"),  # type: ignore[arg-type]
        "sunshine",
    ]
    with pytest.raises(SimulationError) as error:
        simulate(Workload([job(1)]).on(nodes=2), Scheduled(config), incidents=incidents)
    assert [str(fault) for fault in error.value.faults] == [
        "incidents[0].at: expected a time in seconds, 0 or later, got -1",
        "incidents[0].node: expected the number of a node, 0 to 1, or a name, got 2",
        "incidents[1].at: expected a time in seconds, 0 or later, got nan",
        "incidents[1].node: expected the number of a node, 0 to 1, or a name, got True",
        "incidents[3].job: expected the id of a job in this workload, got 'x'",
        "incidents[4].queue: expected a Queue, got 'q'",
        "incidents[5]: expected an incident such as NodeDown(at=60, node=0), got 'sunshine'",
        (
            "incidents[2]: expected the plugin predicates in the configuration; "
            "without it this has no effect"
        ),
    ]


def test_what_is_wrong_with_queues_is_told_with_its_place() -> None:
    wrong: Any = Resource(milli_cpu=-1)
    for queues, message in (
        ([Queue(name="default", limit=wrong)], "queues['default'].limit: expected a ResourceLimit"),
        ([Queue(name="a")], "queues: expected the queue 'default', which jobs name, got none"),
    ):
        with pytest.raises(SimulationError) as error:
            run([job(1)], queues=queues)
        assert str(error.value).startswith(message)
    late = QueueSet(at=2, queue=Queue(name="b"))
    early = QueueSet(at=1, queue=Queue(name="a", parent="b"))
    with pytest.raises(
        SimulationError, match=r"incidents\[1\]\.queues\['a'\]\.parent: there is no"
    ):
        run([job(1)], late, early)
    with pytest.raises(SimulationError, match=r"incidents\[0\]\.queues\['a'\]\.limit: expected"):
        run([job(1)], QueueSet(at=1, queue=Queue(name="a", limit=wrong)))


@pytest.mark.parametrize("passes", ["event", "instant"])
def test_a_node_may_come_back_and_fail_again_at_one_instant(passes: Any) -> None:
    incidents = [NodeDown(at=5, node=0), NodeUp(at=9, node=0), NodeDown(at=9, node=0)]
    assert run([job(1)], *incidents, passes=passes).jobs["end"] == [105]


@settings(max_examples=15)
@given(workload=workloads(), data=st.data())
def test_work_is_done_whatever_happens(workload: Workload, data: st.DataObject) -> None:
    """Nodes that fail come back; each job holds its processors for its run time, or longer."""
    assert workload.machine is not None
    incidents: list[Incident] = []
    times = st.integers(0, 30)
    for _ in range(data.draw(st.integers(0, 4))):
        node = data.draw(st.integers(0, workload.machine.nodes - 1))
        down = data.draw(times)
        incidents += [NodeDown(at=down, node=node), NodeUp(at=down + data.draw(times), node=node)]
    jobs = st.sampled_from(workload.ids)
    incidents += [JobFailed(at=data.draw(times), job=data.draw(jobs)) for _ in range(2)]
    incidents.append(JobCancelled(at=data.draw(times), job=data.draw(jobs)))
    found = simulate(workload, Scheduled(GANGS), incidents=incidents, resubmit_failed=True)
    assert max(found.series()["busy"], default=0) <= workload.machine.processors
    for outcome, held, time in zip(found.jobs["outcome"], found.held, found.runs, strict=True):
        if outcome == "cancelled":
            continue
        assert outcome == "ended"
        assert held >= time
    again = simulate(workload, found.policy, incidents=incidents, resubmit_failed=True)
    assert again.jobs == found.jobs


@pytest.mark.parametrize(
    "policy",
    [Fcfs(), Scheduled(config=GANGS), Srtf(), LeastAttainedService(), SrtfInRounds()],
    ids=str,
)
def test_jobs_that_follow_others_come_when_those_have_ended(policy: Any) -> None:
    jobs = [job(1, 0, 10), job(2, 5, 10, after=1, think=20), job(3, 40, 10, after=1), job(4, 1, 5)]
    found = simulate(Workload(jobs).on(nodes=1), policy)
    of = dict(zip(found.jobs["id"], range(4), strict=True))
    first_end = found.jobs["end"][of[1]]
    assert found.jobs["submit"][of[2]] == first_end + 20
    assert found.jobs["submit"][of[3]] == 40
    assert found.jobs["start"][of[2]] >= first_end + 20
    assert not found.unfinished
