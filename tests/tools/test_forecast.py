"""When jobs will start: the scenarios of the forecast, and its laws over drawn worlds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from attrs import evolve, frozen
from hypothesis import given
from hypothesis import strategies as st
from tests.support.nightly import a_thousand_at_night

from batchsched import (
    ArgumentError,
    Hold,
    HoldKind,
    JobInfo,
    NodeInfo,
    Queue,
    Resource,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    TaskInfo,
    TaskStatus,
    default_registry,
    schedule,
)
from batchsched.live import Cluster, JobRemoved, TimePassed
from batchsched.simulation import Job, Scheduled, Workload, simulate
from batchsched.testing import snapshots
from batchsched.tools import (
    AsEstimated,
    Estimates,
    Fixed,
    Forecast,
    History,
    by_user,
    forecast,
)

CPU = Resource(milli_cpu=1000)
WORLDS = a_thousand_at_night(20)


def configured(actions: Any = "allocate", *plugins: Any) -> SchedulerConfig:
    usual = [["priority", "gang"], [*plugins, "predicates", "nodeorder"]]
    tiers = [{"plugins": each} for each in usual]
    return SchedulerConfig.from_mapping({"actions": actions, "tiers": tiers})


ALLOCATE = configured()
PREEMPT = SchedulerConfig.from_mapping({"actions": "allocate, preempt"})


def job(
    name: str,
    seconds: float | None = None,
    *,
    size: int = 1,
    on: str | None = None,
    since: float | None = None,
    **more: Any,
) -> JobInfo:
    status = TaskStatus.PENDING if on is None else TaskStatus.RUNNING
    tasks = [
        TaskInfo(
            uid=f"{name}-{n}", name=name, resreq=CPU, status=status, node_name=on, start_time=since
        )
        for n in range(size)
    ]
    return JobInfo(
        **{
            "name": name,
            "queue": "q",
            "min_available": size,
            "estimate": seconds,
            "creation_time": 90 if since is None else since,
            "tasks": tasks,
            **more,
        }
    )


def cluster(*jobs: JobInfo, nodes: int = 1, now: float = 100) -> Snapshot:
    return Snapshot(
        nodes=[NodeInfo(name=f"n{n}", allocatable=CPU) for n in range(1, nodes + 1)],
        queues=[Queue(name="q")],
        jobs=jobs,
        now=now,
    )


R = job("r", 100, on="n1", since=60)


def starts(told: Forecast) -> dict[str, float | None]:
    return {uid.removeprefix("default/"): each.median for uid, each in told.jobs.items()}


def waits_for(told: Forecast) -> dict[str, str]:
    return {
        uid.removeprefix("default/"): " ".join(each.waits_for).replace("default/", "")
        for uid, each in told.jobs.items()
    }


# Scenarios


def test_a_job_starts_when_the_one_before_it_ends() -> None:
    told = forecast(cluster(R, job("a", 30), job("b", 5)), config=ALLOCATE)
    assert starts(told) == {"a": 160, "b": 190}
    assert waits_for(told) == {"a": "r", "b": "a r"}
    assert list(told.lines()) == [
        "default/a starts in about 1 min, after default/r",
        "default/b starts in about 1 min 30 s, after default/a, default/r",
    ]
    assert told.jobs["default/a"].nodes == {"a-0": "n1"}
    assert told.assumes == ("no job arrives",)


def test_what_is_overdue_ends_now_but_after_the_first_cycle() -> None:
    told = forecast(cluster(job("r", 50, on="n1", since=0), job("a", 30)), config=ALLOCATE)
    assert (starts(told), waits_for(told)) == ({"a": 100}, {"a": "r"})
    assert next(told.lines()) == "default/a starts now, after default/r"


def test_what_is_evicted_begins_again() -> None:
    told = forecast(cluster(R, job("a", 30, priority=9), job("b", 5)), config=PREEMPT)
    assert starts(told) == {"a": 100, "b": 230}
    assert told.jobs["default/a"].evicted == ("r-0",)
    assert waits_for(told)["b"] == "r a"


@pytest.mark.parametrize(
    ("estimates", "expected"),
    [
        (AsEstimated(), {"s": 100, "g": 110, "l": 120}),
        (
            Fixed({"default/r": 44, "default/g": 4, "default/s": 7, "default/l": 11}),
            {"s": 100, "g": 107, "l": 111},
        ),
    ],
)
def test_backfilling_is_foreseen(estimates: Estimates, expected: Mapping[str, float]) -> None:
    running = job("r", 50, on="n1", since=60)
    waiting = [job("g", 10, size=2), job("s", 10, creation_time=91), job("l", 11, creation_time=92)]
    config = configured([{"name": "plan", "arguments": {"depth": 1}}])
    told = forecast(cluster(running, *waiting, nodes=2), config=config, estimates=estimates)
    assert starts(told) == expected


def test_what_is_being_deleted_does_not_come_back() -> None:
    leaving = job("d", 100, on="n1", since=60)
    task = evolve(leaving.tasks[0], status=TaskStatus.RELEASING)
    told = forecast(cluster(evolve(leaving, tasks=[task]), job("a", 30)), config=ALLOCATE)
    assert (starts(told), waits_for(told)) == ({"a": 100}, {"a": "d"})
    assert told.assumes[1] == "1 job is being deleted and does not come back: default/d"
    asked = forecast(cluster(evolve(leaving, tasks=[task])), jobs=["default/d"])
    assert asked.jobs["default/d"].never == "it is being deleted"


def test_other_tasks_that_leave_wait_again() -> None:
    gang = job("g", 100, size=2, on="n1", since=60, min_available=1)
    two = evolve(gang, tasks=[evolve(gang.tasks[0], status=TaskStatus.RELEASING), gang.tasks[1]])
    room = NodeInfo(name="n1", allocatable=2 * CPU)
    told = forecast(evolve(cluster(two, job("a", 30)), nodes=[room]), config=ALLOCATE)
    assert starts(told)["a"] in (100, 160)  # whoever comes first


def test_of_a_history_futures_take_what_is_longer_than_the_age() -> None:
    known = History([(job("r"), seconds) for seconds in (10, 20, 30, 40, 50)])
    world = cluster(R, job("a", 30), now=60)
    told = forecast(world, config=ALLOCATE, estimates=known, samples=5).jobs["default/a"]
    assert told.starts == (80, 80, 80, 70, 70)
    assert (told.earliest, told.median, told.latest) == (70, 80, 80)
    assert told.within == 5


def test_a_gate_keeps_a_job_for_ever_and_a_missing_admission_does_not() -> None:
    gate = job("a", 30, holds=[Hold(HoldKind.GATE, "x")])
    told = forecast(cluster(R, gate), config=ALLOCATE)
    assert starts(told) == {"a": None}
    assert "gate x" in told.jobs["default/a"].never
    assert next(told.lines()).startswith("default/a does not start: ")
    lacks = job("a", 30, holds=[Hold(HoldKind.NOT_ADMITTED, "Kueue")])
    told = forecast(cluster(R, lacks), config=ALLOCATE)
    assert (starts(told), dict(told.kept_out)) == ({"a": 160}, {"default/a": "Kueue"})
    assert told.assumes[1] == "Kueue admits as far as queues allow: default/a"


def test_the_end_of_a_protection_is_a_moment() -> None:
    tiers = [{"plugins": ["priority", "protection", "predicates"]}]
    config = SchedulerConfig.from_mapping({"actions": "allocate, preempt", "tiers": tiers})
    world = cluster(job("r", on="n1", since=90), job("a", 30, priority=9))
    protecting = evolve(world, queues=[Queue(name="q", preempt_min_runtime=60)])
    assert starts(forecast(protecting, config=config)) == {"a": 150}


# Details


def test_what_has_no_known_end_stays_and_is_told() -> None:
    told = forecast(cluster(job("r", on="n1", since=60), job("a")), config=ALLOCATE)
    assert starts(told) == {"a": None}
    assert told.assumes[1] == "1 job has no known end: default/r"
    unknown = forecast(cluster(job("r", 100, on="n1"), job("a")), config=ALLOCATE)
    assert starts(unknown) == {"a": None}
    known = forecast(
        cluster(job("r", on="n1", since=60), job("a")),
        config=ALLOCATE,
        estimates=AsEstimated(otherwise=50),
    )
    assert starts(known) == {"a": 110}


def test_a_gang_ends_as_a_whole_and_others_task_by_task() -> None:
    room = [NodeInfo(name="n1", allocatable=2 * CPU)]
    gang = job("g", 50, size=2, on="n1", since=90)
    late = evolve(gang, tasks=[gang.tasks[0], evolve(gang.tasks[1], start_time=95)])
    world = evolve(cluster(late, job("a")), nodes=room)
    assert starts(forecast(world, config=ALLOCATE)) == {"a": 145}
    array = evolve(world, jobs=[evolve(late, min_available=1), job("a")])
    assert starts(forecast(array, config=ALLOCATE)) == {"a": 140}


def test_until_ends_a_future() -> None:
    world = cluster(R, job("a", 30), job("b", 5))
    told = forecast(world, config=ALLOCATE, until=160)
    assert starts(told) == {"a": 160, "b": None}
    assert told.jobs["default/b"].never == "it does not start until 160 s"


def test_jobs_arrive_as_given() -> None:
    arriving = [(job("c", 7, priority=1), 150.0)]
    world = cluster(R, job("a", 30), job("b", 5))
    told = forecast(world, config=ALLOCATE, arrivals=arriving, jobs=["default/a", "default/c"])
    assert starts(told) == {"a": 167, "c": 160}
    assert told.assumes == ("1 job arrives as given",)


def test_an_interval_is_stretched_away_from_the_median() -> None:
    known = History([(job("r"), seconds) for seconds in (10, 20, 30, 40, 50)])
    world = cluster(R, job("a", 30), now=60)
    told = forecast(world, config=ALLOCATE, estimates=known, samples=40, stretch=2)
    narrow = forecast(world, config=ALLOCATE, estimates=known, samples=40)
    wide, plain = told.jobs["default/a"], narrow.jobs["default/a"]
    assert None not in (plain.earliest, plain.median, plain.latest, wide.earliest, wide.latest)
    assert plain.earliest is not None
    assert plain.latest is not None
    assert plain.median is not None
    assert wide.latest == plain.median + 2 * (plain.latest - plain.median)
    assert wide.earliest == max(60, plain.median - 2 * (plain.median - plain.earliest))
    [line] = narrow.lines()
    assert line.startswith("default/a starts in about ")
    assert f"(in {plain.within} of 40 futures between " in line


def test_a_history_counts_ratios_the_newest_and_draws_for_a_user() -> None:
    runs = [(job("r", 100, user="ann"), n) for n in (10, 90, 50, 50, 50, 50, 50)]
    history = History(runs, ratios=True, newest=5, keys=[by_user], together=by_user)
    asked = job("x", 1000, user="ann")
    assert history.durations(asked, None) == (500,) * 5
    assert history.durations(asked, 600) == (1000,)
    assert history.durations(evolve(asked, estimate=None), None) == (50,) * 5
    assert history.durations(evolve(asked, user="bob"), None) == (1000,)
    assert history.durations(evolve(asked, user="bob", estimate=None), None) == ()
    assert history.draws_as(asked) == history.draws_as(job("y", user="ann"))
    assert History(runs).draws_as(asked) == asked.uid


def test_a_job_that_ran_longer_than_any_that_is_known_ends_now() -> None:
    history = History([(job("r"), 30)])
    world = cluster(job("r", on="n1", since=60), job("a", 30))
    assert starts(forecast(world, config=ALLOCATE, estimates=history)) == {"a": 100}


def test_bad_input_is_told_all_at_once() -> None:
    world = cluster(R, job("a", 30))
    with pytest.raises(ArgumentError) as caught:
        forecast(
            world,
            samples=0,
            stretch=-1,
            until=5,
            jobs=["default/x"],
            arrivals=[(job("a"), 200.0), (job("c"), 5.0)],
        )
    assert [fault.path for fault in caught.value.faults] == [
        "samples", "stretch", "until", "arrivals[0][0]", "arrivals[1][1]", "jobs[0]",
    ]  # fmt: skip
    for wrong in (
        lambda: Fixed(-1),
        lambda: Fixed({"a": float("nan")}),
        lambda: AsEstimated(otherwise=-1),
    ):
        with pytest.raises(ArgumentError):
            wrong()
    with pytest.raises(ArgumentError, match="ended"):
        History([(job("r"), -1)], least=0)

    class Falling(Estimates):
        def durations(self, _job: JobInfo, _age: float | None, /) -> tuple[float, ...]:
            return (2, 1)

    with pytest.raises(ArgumentError, match="ascending"):
        forecast(world, estimates=Falling())


def test_it_can_be_written() -> None:
    known = History([(job("r"), seconds) for seconds in (10, 20, 30)])
    told = forecast(cluster(R, job("a", 30), job("b", 5)), estimates=known, samples=3)
    data = json.loads(json.dumps(told.to_dict()))
    assert data["jobs"]["default/a"]["starts"] == list(told.jobs["default/a"].starts)
    assert "default/a" in str(told)
    assert str(forecast(cluster(R))) == "No job waits."


# Laws

PLAN_ALL = [{"name": "plan", "arguments": {"depth": "all"}}]
CONFIGS = [
    ALLOCATE,
    configured([{"name": "plan", "arguments": {"depth": 1}}]),
    configured(PLAN_ALL),
    SchedulerConfig.from_mapping({"actions": "allocate, preempt"}),
    SchedulerConfig.from_mapping({"actions": "reclaim, allocate, preempt, backfill"}),
]


@frozen
class World:
    """Jobs without surplus, with the seconds that they run and the times at which they arrive."""

    nodes: tuple[NodeInfo, ...]
    jobs: tuple[JobInfo, ...]
    runs: Mapping[str, float]
    times: Mapping[str, float]
    config: SchedulerConfig

    @property
    def empty(self) -> Snapshot:
        return Snapshot(nodes=self.nodes, queues=[Queue(name=name) for name in "ab"])

    @property
    def waiting(self) -> Snapshot:
        return evolve(self.empty, jobs=self.jobs)

    @property
    def arrivals(self) -> list[tuple[JobInfo, float]]:
        return [
            (evolve(job, creation_time=self.times[job.uid]), self.times[job.uid])
            for job in self.jobs
        ]


@st.composite
def worlds(draw: st.DrawFn, *, together: bool = False, configs: Any = CONFIGS) -> World:
    nodes = [
        NodeInfo(name=f"n{n}", allocatable=draw(st.integers(1, 4)) * CPU)
        for n in range(draw(st.integers(1, 3)))
    ]
    jobs: list[JobInfo] = []
    runs: dict[str, float] = {}
    times: dict[str, float] = {}
    for number in range(draw(st.integers(1, 8))):
        run, size = draw(st.integers(1, 20)), draw(st.integers(1, 3))
        cpus, name = draw(st.integers(1, 2)) * CPU, f"j{number}"
        tasks = [TaskInfo(uid=f"{name}-{n}", name=f"{name}-{n}", resreq=cpus) for n in range(size)]
        one = JobInfo(
            name=name,
            queue=draw(st.sampled_from("ab")),
            min_available=size,
            priority=draw(st.integers(0, 2)),
            estimate=run + draw(st.integers(0, 6)),
            tasks=tasks,
        )
        jobs.append(one)
        runs[one.uid] = run
        times[one.uid] = 0 if together else draw(st.integers(0, 20))
    return World(tuple(nodes), tuple(jobs), runs, times, draw(st.sampled_from(configs)))


def simulated(world: World) -> dict[str, float | None]:
    """When the jobs start in a simulation; what never starts is None."""
    jobs = [
        Job(
            id=each.name,
            submit=world.times[each.uid],
            run=world.runs[each.uid],
            requested=each.estimate,
            queue=each.queue,
            info=each,
        )
        for each in world.jobs
    ]
    scheduled = Scheduled(world.config, queues=world.empty.queues)
    workload = Workload(jobs).on(nodes=world.nodes)
    run = simulate(workload, scheduled, passes="instant")
    found = zip(run.jobs["id"], run.jobs["start"], strict=True)
    return {f"default/{name}": start for name, start in found}


def told_starts(told: Forecast) -> dict[str, float | None]:
    return {uid: each.starts[0] for uid, each in told.jobs.items()}


@WORLDS
@given(worlds())
def test_with_true_durations_and_arrivals_each_told_start_is_the_true_one(world: World) -> None:
    told = forecast(
        world.empty,
        config=world.config,
        estimates=Fixed(world.runs),
        arrivals=world.arrivals,
        jobs=[each.uid for each in world.jobs],
    )
    assert told_starts(told) == simulated(world)


@WORLDS
@given(worlds(together=True))
def test_without_arrivals_each_told_start_is_that_of_a_simulation(world: World) -> None:
    told = forecast(world.waiting, config=world.config, estimates=Fixed(world.runs))
    assert told_starts(told) == simulated(world)


def lived(world: World, until: float) -> Snapshot:
    """What becomes of a cluster until a time, in a plain loop."""
    cluster = Cluster(world.waiting)
    live = Scheduler(world.config).attach(cluster)
    while True:
        for _ in range(100):
            cycle = live.schedule()
            cluster.carry_out(cycle, at_once=True)
            if not (cycle.evictions or cycle.pipelined or cycle.kept_promises):
                break
        ends: dict[str, float] = {}
        for each in cluster.snapshot().jobs:
            since = [task.start_time for task in each.tasks if task.status is TaskStatus.RUNNING]
            known = [time for time in since if time is not None]
            if len(known) >= each.min_available:
                ends[each.uid] = max(known) + world.runs[each.uid]
        dues = [time for time in (cycle.next_start, cycle.refused_until) if time is not None]
        moment = min([*ends.values(), *(time for time in dues if time > cluster.now)], default=1e9)
        if moment > until:
            cluster.apply(TimePassed(until))
            return cluster.snapshot()
        cluster.apply(
            TimePassed(moment), *(JobRemoved(u) for u, end in ends.items() if end <= moment)
        )


@WORLDS
@given(worlds(together=True), st.integers(0, 30))
def test_a_later_forecast_tells_the_same(world: World, later: int) -> None:
    estimates = Fixed(world.runs)
    told = told_starts(forecast(world.waiting, config=world.config, estimates=estimates))
    after = told_starts(forecast(lived(world, later), config=world.config, estimates=estimates))
    # What has started before and was evicted is told anew.
    first = {uid: start for uid, start in after.items() if (told[uid] or later + 1) > later}
    assert first.items() <= told.items()


@WORLDS
@given(worlds(together=True), st.integers(0, 30))
def test_the_first_cycle_is_that_of_today(world: World, later: int) -> None:
    snapshot = lived(world, later)
    result = schedule(snapshot, config=world.config)
    bound = {bind.task_uid for bind in result.binds}
    told = forecast(snapshot, config=world.config, estimates=Fixed(world.runs))
    for uid in told.jobs:
        if {task.uid for task in snapshot.job(uid).tasks} <= bound:
            assert told.jobs[uid].starts == (later,)
            places = {b.task_uid: b.node_name for b in result.binds}
            assert all(places[task] == node for task, node in told.jobs[uid].nodes.items())


@WORLDS
@given(worlds(together=True, configs=[configured(PLAN_ALL)]))
def test_with_kept_plans_nobody_starts_after_the_plan(world: World) -> None:
    equal = evolve(world, jobs=tuple(evolve(each, priority=0) for each in world.jobs))
    planned = schedule(equal.waiting, config=equal.config).planned
    told = forecast(equal.waiting, config=equal.config, estimates=Fixed(equal.runs))
    for uid, plan in planned.items():
        start = told.jobs[uid].median
        assert start is not None
        assert start <= plan.start


@WORLDS
@given(worlds(together=True), st.integers(0, 30), st.integers(-50, 50), st.randoms())
def test_neither_orders_nor_clocks_nor_who_is_asked_matter(
    world: World, later: int, shift: int, random: Any
) -> None:
    snapshot, estimates = lived(world, later), History([(each, 7) for each in world.jobs])
    told = forecast(snapshot, config=world.config, estimates=estimates, samples=3, seed=later)
    jobs, asked = list(snapshot.jobs), list(told.jobs)
    random.shuffle(jobs)
    random.shuffle(asked)
    again = evolve(snapshot, jobs=jobs)
    some = asked[: len(asked) // 2]
    part = forecast(
        again, config=world.config, estimates=estimates, samples=3, seed=later, jobs=some
    )
    assert part.jobs.items() <= told.jobs.items()
    moved = forecast(
        shifted(snapshot, shift), config=world.config, estimates=estimates, samples=3, seed=later
    )
    assert {uid: each.starts for uid, each in moved.jobs.items()} == {
        uid: tuple(None if time is None else time + shift for time in each.starts)
        for uid, each in told.jobs.items()
    }


STARTING = [
    *({"actions": actions} for actions in ("allocate", "backfill, allocate")),
    {"actions": [{"name": "allocate", "arguments": {"unready": "hold"}}]},
    {"actions": "allocate, backfill", "tiers": [{"plugins": ["predicates", "proportion"]}]},
]


@WORLDS
@given(
    snapshots(dependencies=True),
    st.sampled_from(STARTING),
    st.lists(st.tuples(st.integers(1, 99), st.integers(0, 20)), max_size=4),
)
def test_cycles_without_room_are_left_out_in_vain_only(
    snapshot: Snapshot, content: Any, coming: list[tuple[int, int]]
) -> None:
    config = SchedulerConfig.from_mapping(content)
    estimates = Fixed({each.uid: n for n, each in enumerate(snapshot.jobs)})
    arrivals: list[tuple[JobInfo, float]] = []
    for number, (cpus, after) in enumerate(coming):
        new = job(f"new{number}", 7, queue=snapshot.queues[0].name)
        tasks = [evolve(task, resreq=cpus * CPU) for task in new.tasks]
        arrivals.append((evolve(new, tasks=tasks), snapshot.now + after))
    asked = [each.uid for each in (*snapshot.jobs, *(new for new, _ in arrivals))]
    told, plain = (
        forecast(
            snapshot,
            config=config,
            # With plugins and actions that may be anybody's, each moment has a cycle.
            registry=registry,
            estimates=estimates,
            arrivals=arrivals,
            jobs=asked,
        )
        for registry in (None, default_registry())
    )
    assert told == plain


def shifted(snapshot: Snapshot, by: float) -> Snapshot:
    def of(time: float | None) -> Any:
        return None if time is None else time + by

    jobs = [
        evolve(
            each,
            creation_time=each.creation_time + by,
            eligible_time=of(each.eligible_time),
            last_evicted=of(each.last_evicted),
            plan=None if each.plan is None else evolve(each.plan, start=each.plan.start + by),
            tasks=[evolve(task, start_time=of(task.start_time)) for task in each.tasks],
        )
        for each in snapshot.jobs
    ]
    evictions = [evolve(each, time=each.time + by) for each in snapshot.evictions]
    return evolve(snapshot, jobs=jobs, evictions=evictions, now=snapshot.now + by)
