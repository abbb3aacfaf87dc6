"""The library's own scheduler, simulated: it agrees with list policies where both apply."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from batchsched import Queue, Resource, SchedulerConfig
from batchsched.simulation import (
    Checkpoint,
    Conservative,
    Easy,
    Job,
    JobId,
    Machine,
    Policy,
    QueueSet,
    Run,
    Scheduled,
    SimulationError,
    Ties,
    View,
    Workload,
    read_swf,
    simulate,
)

from .traces import lines
from .workloads import workloads

GANGS = SchedulerConfig.from_mapping(
    {
        "actions": [{"name": "allocate", "arguments": {"unready": "discard"}}],
        "tiers": [{"plugins": [{"name": "gang"}, {"name": "predicates"}]}],
    }
)
PREEMPTING = SchedulerConfig.from_mapping(
    {
        "actions": "reclaim, allocate",
        # Without gang, which protects jobs of one task.
        "tiers": [{"plugins": [{"name": "predicates"}, {"name": "proportion"}]}],
    }
)
PLANNING = SchedulerConfig.from_mapping(
    {
        "actions": [{"name": "plan", "arguments": {"keep": False}}],
        "tiers": [{"plugins": [{"name": "gang"}]}],
    }
)
few = settings(max_examples=25)


class WhateverFits(Policy):
    """Starts whatever fits, in order of arrival."""

    def decide(self, view: View) -> Iterable[JobId]:
        free = view.free
        for job in view.waiting:
            if job.processors <= free:
                free -= job.processors
                yield job.id


def one_queue(workload: Workload) -> Workload:
    return Workload.from_columns(
        {
            "id": workload.ids,
            "submit": workload.submits,
            "run": workload.runs,
            "processors": workload.processors,
            "requested": workload.requested,
        },
        machine=workload.machine,
    )


@few
@example(
    workload=Workload(
        [
            Job(id=0, submit=0, run=0, requested=1, processors=1),
            Job(id=1, submit=0, run=0, requested=1, processors=2),
            Job(id=2, submit=0, run=0, requested=1, processors=1),
            Job(id=3, submit=0, run=0, requested=1, processors=1),
            Job(id=4, submit=0, run=1, requested=1, processors=1),
        ],
        machine=Machine(nodes=2),
    )
)
@given(workload=workloads())
def test_allocate_with_gangs_starts_what_a_list_policy_starts(workload: Workload) -> None:
    workload = one_queue(workload)
    for ties in (Ties(), Ties(due_first=False)):
        scheduled = simulate(workload, GANGS, ties=ties)
        listed = simulate(workload, WhateverFits(), ties=ties)
        assert scheduled.starts_by_id() == listed.starts_by_id()
        assert scheduled.unfinished == {}


@few
@given(workload=workloads())
def test_once_an_instant_they_agree_as_well(workload: Workload) -> None:
    workload = one_queue(workload)
    scheduled = simulate(workload, GANGS, passes="instant")
    listed = simulate(workload, WhateverFits(), passes="instant")
    assert scheduled.starts_by_id() == listed.starts_by_id()


@few
@given(workload=workloads(bounds=False), one_node=st.booleans())
def test_plan_with_one_plan_starts_what_easy_starts(workload: Workload, one_node: bool) -> None:
    workload = one_queue(workload)
    nodes = workload.on(nodes=1, per_node=workload.machine.processors) if one_node else workload
    for ties in (Ties(), Ties(due_first=False)):
        planned = simulate(nodes, PLANNING, ties=ties)
        listed = simulate(workload, Easy(), ties=ties)
        assert planned.starts_by_id() == listed.starts_by_id()


@few
@given(workload=workloads())
def test_plans_for_all_that_are_kept_start_what_conservative_backfilling_starts(
    workload: Workload,
) -> None:
    """As long as jobs run for as long as they requested.

    When one ends early, the list policy looks for earlier starts then, and the action every time.
    """
    workload = one_queue(workload).with_requests(lambda job: max(1, job.run))
    assert workload.machine is not None
    plan = {"name": "plan", "arguments": {"depth": "all"}}
    config = {"actions": [plan], "tiers": [{"plugins": [{"name": "gang"}]}]}
    one_node = workload.on(nodes=1, per_node=workload.machine.processors)
    planned = simulate(one_node, SchedulerConfig.from_mapping(config))
    assert planned.starts_by_id() == simulate(workload, Conservative()).starts_by_id()


def test_plan_starts_what_easy_starts_when_two_jobs_end_as_expected_at_one_instant() -> None:
    # Both leave before anything is decided: the third starts, which needs what both had, and not
    # the fourth, which could have gone ahead with what one of them had.
    jobs = [
        Job(id=1, submit=0, run=10, requested=10, processors=2),
        Job(id=2, submit=0, run=10, requested=10, processors=1),
        Job(id=3, submit=1, run=30, requested=40, processors=3),
        Job(id=4, submit=2, run=15, requested=20, processors=2),
    ]
    workload = Workload(jobs).on(nodes=3)
    assert simulate(workload, PLANNING).jobs["start"] == [0, 0, 10, 40]
    assert simulate(workload, Easy()).jobs["start"] == [0, 0, 10, 40]


@pytest.mark.slow
def test_plan_starts_what_easy_starts_on_a_part_of_a_published_log() -> None:
    """On one node of all its processors, and on nodes of one."""
    log, _ = read_swf(lines("kth_sp2/KTH-SP2-filtered-28481.swf.gz"))
    part = log.where(lambda job: 16_250 <= int(job.id) < 16_480)
    planned = simulate(part.on(nodes=1, per_node=100), PLANNING)
    assert planned.compare(simulate(part, Easy()).starts_by_id()).equal == len(part)
    few = part.where(lambda job: int(job.id) < 16_265)
    planned = simulate(few, PLANNING)
    assert planned.compare(simulate(few, Easy()).starts_by_id()).equal == len(few)


@few
@given(workload=workloads())
def test_nothing_is_oversubscribed_when_queues_reclaim(workload: Workload) -> None:
    ones = [
        Job(id=job.id, submit=job.submit, run=job.run, processors=1, queue=job.queue)
        for job in workload
    ]
    run = simulate(Workload(ones, machine=workload.machine), PREEMPTING)
    assert run.unfinished == {}
    assert max(run.series()["busy"]) <= run.machine.processors
    for held, time, stops in zip(run.held, run.runs, run.outcome.preemptions or (), strict=True):
        assert held >= time
        assert stops or held == time


def test_work_is_lost_unless_it_was_saved() -> None:
    # Queue a fills the machine; b comes at 50 and reclaims its half.
    jobs = [
        *(Job(id=n, submit=0, run=100, processors=1, queue="a") for n in range(4)),
        *(Job(id=n, submit=50, run=100, processors=1, queue="b") for n in (4, 5)),
    ]
    workload = Workload(jobs).on(nodes=4)
    queues = (Queue(name="a"), Queue(name="b"))
    ends = {}
    for checkpoint in (None, 20, 0):
        run = simulate(
            workload,
            Scheduled(PREEMPTING, queues=queues),
            checkpoint=None if checkpoint is None else Checkpoint(every=checkpoint),
        )
        assert run.metrics()["preemptions"] == 2
        assert run.jobs["start"] == [0, 0, 0, 0, 50, 50]
        ends[checkpoint] = run.metrics()["makespan"]
    # Two are stopped at 50 and go on at 100, when the other two of their queue have ended.
    assert ends == {None: 200, 20: 160, 0: 150}


def test_larger_nodes_take_whole_tasks() -> None:
    workload = Workload(
        [Job(id=1, submit=0, run=10, processors=5), Job(id=2, submit=0, run=10, processors=4)]
    ).on(nodes=3, per_node=3)
    run = simulate(workload, GANGS)
    # 3 + 2 on two nodes, 3 + 1 on the third and what is left of the second.
    assert run.jobs["start"] == [0, 0]


def test_queues_that_are_not_given_are_named() -> None:
    workload = Workload([Job(id=1, submit=0, run=1, processors=1, queue="x")]).on(nodes=1)
    with pytest.raises(SimulationError, match="expected the queue 'x', which jobs name, got none"):
        simulate(workload, Scheduled(queues=(Queue(name="y"),)))
    with pytest.raises(
        SimulationError, match=r"checkpoint\.every: expected seconds, 0 or more, or None, got -1"
    ):
        simulate(workload, Scheduled(), checkpoint=Checkpoint(every=-1))


def test_jobs_of_two_queues_that_need_all_of_the_machine_both_end() -> None:
    # Each needs twice what its queue deserves; nobody may take half of it back for ever.
    workload = Workload(
        [Job(id=name, submit=0, run=5, processors=2, queue=name) for name in ("a", "b")]
    ).on(nodes=2)
    run = simulate(workload, PREEMPTING)
    assert run.jobs["outcome"] == ["ended", "ended"]
    assert not run.unfinished


def test_what_can_never_start_is_told() -> None:
    workload = Workload([Job(id=1, submit=0, run=5, processors=1, queue="closed")]).on(nodes=1)
    run = simulate(workload, SchedulerConfig.from_mapping({"actions": "backfill"}))
    assert list(run.unfinished) == [1]
    assert run.metrics()["unfinished"] == 1


# Trees of queues

TREE = (
    Queue(name="all", deserved=None),
    Queue(name="research", parent="all", deserved=Resource(milli_cpu=4000)),
    Queue(name="speech", parent="research", weight=3),
    Queue(name="vision", parent="research"),
    Queue(name="web", parent="all"),
)
RECLAIMING = SchedulerConfig.from_mapping({"actions": "reclaim, allocate, backfill"})


@lru_cache(maxsize=1)
def of_a_tree() -> Run:
    random = Random(1)
    jobs = [
        Job(
            id=number,
            submit=random.randrange(40),
            run=random.randrange(1, 60),
            processors=random.randrange(1, 4),
            queue=random.choice(("speech", "vision", "web")),
            user=random.choice("ab"),
        )
        for number in range(30)
    ]
    return simulate(Workload(jobs).on(nodes=6), Scheduled(config=RECLAIMING, queues=TREE))


def test_a_queue_holds_what_those_below_it_hold() -> None:
    run = of_a_tree()
    shares = run.shares("queue", step=7)
    assert list(shares) == ["time", "all", "research", "speech", "vision", "web"]
    for held, *parts in (("all", "research", "web"), ("research", "speech", "vision")):
        sums = [sum(each) for each in zip(*(shares[part] for part in parts), strict=True)]
        assert shares[held] == pytest.approx(sums)
    assert max(shares["all"]) == 1
    assert run.outcome.preemptions is not None
    assert sum(run.outcome.preemptions) > 0  # otherwise nothing moved between queues


@pytest.mark.parametrize("name", ["busy", "queued", "running", "queued_processors"])
def test_the_series_of_a_queue_is_that_of_the_queues_below_it(name: str) -> None:
    run = of_a_tree()
    columns = {queue: run.series(step=1, queue=queue)[name] for queue in ("speech", "vision")}
    first = {queue: int(run.series(step=1, queue=queue)["time"][0]) for queue in columns}
    together = run.series(step=1, queue="research")
    for time, value in zip(together["time"], together[name], strict=True):
        places = {queue: int(time) - first[queue] for queue in columns}
        parts = [
            columns[queue][place]
            for queue, place in places.items()
            if 0 <= place < len(columns[queue])
        ]
        assert value == sum(parts)
    assert run.series(queue="all") == run.series()


def test_figures_of_a_queue_are_those_of_its_jobs() -> None:
    run = of_a_tree()
    speech, vision = (run.metrics(queue=queue) for queue in ("speech", "vision"))
    research, web, everything = (run.metrics(queue=q) for q in ("research", "web", "all"))
    for name in ("jobs", "preemptions", "lost", "utilisation", "ended_at_request"):
        assert research[name] == pytest.approx(speech[name] + vision[name])
        assert everything[name] == pytest.approx(research[name] + web[name])
    waits = speech["wait"] * speech["jobs"] + vision["wait"] * vision["jobs"]
    assert research["wait"] == pytest.approx(waits / research["jobs"])
    assert dict(everything) == dict(run.metrics())
    assert speech["makespan"] == run.metrics()["makespan"]


def test_the_tree_is_that_of_the_end() -> None:
    moved = QueueSet(at=50, queue=Queue(name="web", parent="research"))
    jobs = [Job(id=n, submit=0, run=100, processors=1, queue=q) for n, q in enumerate(("web", "x"))]
    queues = (Queue(name="research"), Queue(name="web"), Queue(name="x", parent="research"))
    policy = Scheduled(config=RECLAIMING, queues=queues)
    run = simulate(Workload(jobs).on(nodes=2), policy, incidents=[moved])
    assert run.outcome.parents == {"web": "research", "x": "research"}
    assert run.shares("queue", step=100)["research"] == [1, 0]


@pytest.mark.parametrize("ask", [Run.metrics, Run.series])
def test_a_queue_of_which_nobody_is_has_no_figures(ask: Callable[..., object]) -> None:
    with pytest.raises(SimulationError, match=r"queue: expected a queue of some job"):
        ask(of_a_tree(), queue="speach")


@pytest.mark.parametrize("queues", [{}, {"b": "r", "c": "r"}], ids=["users", "queues"])
def test_a_queue_that_is_set_remembers_its_use(queues: dict[str, str]) -> None:
    # a used all until 100; while c runs, the queue is set; then b goes before a, who came first.
    scope = "queues" if queues else "users"
    usage = {"name": "usage", "arguments": {"scope": scope, "halfLife": 1000}}
    config = SchedulerConfig.from_mapping(
        {"actions": "allocate", "tiers": [{"plugins": [usage, "gang", "predicates"]}]}
    )
    jobs = [
        Job(
            id=number,
            submit=submit,
            run=run,
            processors=1,
            user=user,
            queue=queues.get(user, "q"),
        )
        for number, (user, submit, run) in enumerate(
            [("a", 0, 100), ("c", 50, 10), ("a", 101, 10), ("b", 102, 10)]
        )
    ]
    run = simulate(
        Workload(jobs).on(nodes=1),
        Scheduled(config=config, queues=[Queue(name="q"), Queue(name="r")]),
        incidents=[QueueSet(at=105, queue=Queue(name="q"))],
    )
    starts = run.starts_by_id()
    assert starts[3] < starts[2]
