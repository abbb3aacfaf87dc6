"""Small simulations whose starts and ends are known."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

import pytest

from batchsched import JobInfo, NodeInfo, Resource, TaskInfo
from batchsched.simulation import (
    After,
    Checkpoint,
    Conservative,
    Decision,
    Easy,
    Fcfs,
    Job,
    JobCancelled,
    JobFailed,
    LeastAttainedService,
    NodeDown,
    NodeDrained,
    NodeUp,
    Policy,
    PolicyError,
    Reservation,
    Resize,
    Run,
    Seconds,
    SimulationError,
    Speed,
    Srtf,
    Start,
    Stop,
    View,
    Wake,
    Workload,
    failures,
    simulate,
)

GPU = "nvidia.com/gpu"


def job(each: int, size: int | None, run: float, submit: float = 0, **more: Any) -> Job:
    given = {"requested": run} | more
    return Job(id=each, submit=submit, run=run, processors=size, **given)


def node(name: str, cpus: int = 1, gpus: int = 0, **more: Any) -> NodeInfo:
    scalars = {GPU: 1000 * gpus} if gpus else {}
    allocatable = Resource(milli_cpu=1000 * cpus, scalars=scalars)
    return NodeInfo(name=name, allocatable=allocatable, **more)


def gang(tasks: int, need: int | None = None, cpus: int = 1, gpus: int = 0) -> JobInfo:
    scalars = {GPU: 1000 * gpus} if gpus else {}
    request = Resource(milli_cpu=1000 * cpus, scalars=scalars)
    return JobInfo(
        name="any",
        queue="default",
        min_available=tasks if need is None else need,
        tasks=[TaskInfo(uid=f"t{n:03}", name=f"t{n}", resreq=request) for n in range(tasks)],
    )


def on(*nodes: NodeInfo, jobs: Iterable[Job]) -> Workload:
    return Workload(jobs).on(nodes=nodes)


def starts(run: Run) -> list[Any]:
    return [start for _, start in sorted(zip(run.jobs["id"], run.jobs["start"], strict=True))]


def ends(run: Run) -> list[Any]:
    return [end for _, end in sorted(zip(run.jobs["id"], run.jobs["end"], strict=True))]


class Script(Policy):
    """Decides at each time what a table says, and wakes for it."""

    def __init__(self, table: dict[float, list[Decision]]) -> None:
        self.table = table

    def begin(self, workload: Workload, /) -> Script:
        return Script(dict(self.table))

    def decide(self, view: View, /) -> list[Decision]:
        now = self.table.pop(view.now, []) if view.waiting or view.running else []
        later = [time for time in self.table if time > view.now]
        return [*now, Wake(min(later))] if later else now


FOUR = [
    job(1, 3, 100, 0, requested=120),
    job(2, 4, 100, 1),
    job(3, 1, 50, 2, requested=60),
    job(4, 1, 130, 3, requested=200),
]


@pytest.mark.parametrize("engine", ["fast", "general"])
@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (Fcfs(), [0, 100, 200, 200]),
        (Easy(), [0, 100, 2, 200]),
        (Conservative(), [0, 100, 2, 200]),
    ],
    ids=str,
)
def test_a_queue_in_order_and_with_backfilling(policy: Policy, expected: Any, engine: Any) -> None:
    run = simulate(Workload(FOUR).on(nodes=4), policy, engine=engine)
    assert starts(run) == expected
    assert run.engine == engine


def test_an_order_of_ones_own() -> None:
    jobs = [job(1, 4, 10), job(2, 4, 30, 1), job(3, 4, 20, 2)]
    run = simulate(Workload(jobs).on(nodes=4), Fcfs(order=lambda job, _now: job.requested))
    assert starts(run) == [0, 30, 10]
    # The key may read the time: who has waited for 15 s comes first.
    aged = Fcfs(order=lambda job, now: (now - job.submit < 9, job.requested))
    assert starts(simulate(Workload(jobs).on(nodes=4), aged)) == [0, 10, 40]


def test_nodes_with_gpus() -> None:
    jobs = [
        job(1, None, 10, info=gang(1, cpus=4)),
        job(2, None, 10, info=gang(1, cpus=4, gpus=1)),
        job(3, None, 10, info=gang(2, cpus=4)),
        job(4, None, 5, 1, info=gang(1, cpus=2, gpus=1)),
    ]
    run = simulate(on(node("big", 8), node("gpu", 4, 2), jobs=jobs), Easy())
    placed = run.placements()
    shown = [placed[name] for name in ("job", "start", "node", "tasks")]
    assert list(zip(*shown, strict=True)) == [
        (1, 0, "big", 1), (2, 0, "gpu", 1), (3, 10, "big", 2), (4, 10, "gpu", 1)
    ]  # fmt: skip
    figures = run.metrics()
    assert figures["makespan"] == 20
    assert figures["utilisation"] == figures["utilisation[cpu]"] == pytest.approx(17 / 24)
    assert figures[f"utilisation[{GPU}]"] == pytest.approx(3 / 8)
    assert run.nodes()["jobs"] == [2, 2]
    assert run.series()[f"busy[{GPU}]"][0] == 1000


@pytest.mark.parametrize(
    ("checkpoint", "end", "lost", "availability"),
    [
        (None, 190, 38, Fraction(82, 95)),
        (Checkpoint(every=15), 160, 8, Fraction(67, 80)),
        (Checkpoint(every=15, cost=5, restart=10), 210, 15, Fraction(92, 105)),
        (Checkpoint(every=0), 152, 0, Fraction(63, 76)),
    ],
)
def test_what_a_failure_costs(checkpoint: Any, end: float, lost: float, availability: Any) -> None:
    workload = on(node("n0"), node("n1"), jobs=[job(1, 2, 100)])
    incidents = [NodeDown(at=38, node="n1"), NodeUp(at=90, node=1)]
    for policy in (Easy(), Fcfs(), Conservative()):
        run = simulate(workload, policy, incidents=incidents, checkpoint=checkpoint)
        assert run.outcome.intervals == [(0, 0, 38), (0, 90, end)]
        figures = run.metrics()
        assert figures["lost_work"] == 2 * lost
        assert figures["availability"] == pytest.approx(float(availability))
        assert run.nodes()["failures"] == [0, 1]


SPEED = Speed(tasks={1: 1, 2: 1.5, 4: 2})
OF_EIGHT = {0: [Start(1, [("n", 1)])], 20: [Resize(1, [("n", 4)])], 50: [Resize(1, [("n", 2)])]}


def test_speed_by_the_number_of_tasks() -> None:
    elastic = job(1, None, 100, info=gang(4, 1), speed=SPEED)
    run = simulate(on(node("n", 8), jobs=[elastic]), Script(OF_EIGHT))
    assert ends(run) == [pytest.approx(63 + 1 / 3, abs=1e-12)]
    assert (run.metrics()["resizes"], run.metrics()["moves"]) == (2, 0)
    costly = Checkpoint(resize=5)
    run = simulate(on(node("n", 8), jobs=[elastic]), Script(OF_EIGHT), checkpoint=costly)
    assert ends(run) == [75]
    assert run.metrics()["overhead"] == 10
    rounded = simulate(on(node("n", 8), jobs=[elastic]), Script(OF_EIGHT), round_ends=1)
    assert ends(rounded) == [64]


def test_more_tasks_than_are_of_use_are_slower() -> None:
    slow = Speed(tasks={1: 1, 2: 2, 4: 1})
    for tasks, end in ((3, 50), (4, 100)):
        one = job(1, None, 100, info=gang(4, 1), speed=slow)
        run = simulate(on(node("n", 8), jobs=[one]), Script({0: [Start(1, [("n", tasks)])]}))
        assert ends(run) == [end]


def test_the_slowest_node_decides() -> None:
    speed = Speed(label="age", nodes={"old": 1 / 3})
    nodes = [node("n0", labels={"age": "new"}), node("n1", labels={"age": "old"})]
    run = simulate(on(*nodes, jobs=[job(1, 2, 60, speed=speed)]), Easy())
    assert ends(run) == [pytest.approx(180)]


def test_reserved_nodes_are_for_their_jobs() -> None:
    jobs = [job(1, 1, 60), job(2, 1, 60), job(3, 1, 30, 50), job(4, 1, 45)]
    workload = on(node("n0"), node("n1"), jobs=jobs)
    reserved = [Reservation(name="r", start=50, end=80, nodes=["n1"], jobs=[3])]
    run = simulate(workload, Easy(), reservations=reserved)
    assert starts(run) == [0, 60, 50, 0]
    where = dict(zip(run.placements()["job"], run.placements()["node"], strict=True))
    assert where == {1: "n0", 2: "n0", 3: "n1", 4: "n1"}

    class Blind(Policy):
        def decide(self, view: View, /) -> Iterable[Decision]:
            for each, name in ((1, "n0"), (2, "n1" if view.now < 50 else "n0")):
                if any(one.id == each for one in view.waiting) and view.now != 50:
                    yield Start(each, [(name, 1)])
            if view.now == 50 and any(cause.kind == "reserved" for cause in view.causes):
                told = [(cause.kind, cause.what) for cause in view.causes]
                assert told == [("stop", 2), ("reserved", "r"), ("arrival", 3)]
            if any(one.id == 3 for one in view.waiting):
                yield Start(3, [("n1", 1)])

    few = on(node("n0"), node("n1"), jobs=[each for each in jobs if each.id != 4])
    run = simulate(few, Blind(), reservations=reserved, passes="instant")
    assert run.outcome.intervals == [(0, 0, 60), (1, 0, 50), (1, 60, 120), (2, 50, 80)]
    with pytest.raises(PolicyError, match=r"job 2 was placed on n1, which is reserved \(r\)"):
        simulate(
            few.where(lambda each: each.id == 2),
            Script({0: [], 60: [Start(2, [("n1", 1)])]}),
            reservations=[Reservation(name="r", start=50, end=80, nodes=[1], jobs=[])],
        )


def test_jobs_come_after_several_others() -> None:
    jobs = [
        job(1, 1, 10),
        job(2, 1, 20),
        job(3, 1, 1, 5, after=(After(1, "succeeded"), After(2, think=7))),
        job(4, 1, 1, after=(After(1, "failed"),)),
        job(5, 1, 1, after=(After(2, "started", think=3),)),
    ]
    run = simulate(Workload(jobs).on(nodes=9), Fcfs())
    assert starts(run) == [0, 0, 27, None, 3]
    assert run.unfinished == {4: "it depends on job 1, which has ended and will never have failed"}
    failed = simulate(Workload(jobs).on(nodes=9), Fcfs(), incidents=[JobFailed(at=4, job=1)])
    assert starts(failed) == [0, 0, None, 4, 3]


def test_two_jobs_change_places() -> None:
    jobs = [job(1, 1, 20), job(2, 1, 20)]
    table: dict[float, list[Decision]] = {
        0: [Start(1, [("n0", 1)]), Start(2, [("n1", 1)])],
        5: [Resize(1, [("n1", 1)]), Resize(2, [("n0", 1)])],
    }
    run = simulate(on(node("n0"), node("n1"), jobs=jobs), Script(table), passes="instant")
    assert ends(run) == [20, 20]
    assert run.metrics()["moves"] == 2


def test_preemption_at_each_event_of_an_instant() -> None:
    jobs = [job(1, 1, 20), job(2, 1, 20), job(3, 2, 5)]
    run = simulate(Workload(jobs).on(nodes=2), Srtf(), passes="event")
    assert ends(run) == [25, 25, 5]
    assert run.jobs["preemptions"] == [1, 1, 0]


class Twice(Policy):
    def decide(self, view: View, /) -> list[Decision]:
        return [Start(1), Start(1)]


class Restless(Policy):
    def decide(self, view: View, /) -> list[Decision]:
        return [Wake(view.now)]


class Past(Policy):
    def decide(self, view: View, /) -> list[Decision]:
        return [Wake(view.now - 1)]


class Silent(Policy):
    def decide(self, view: View, /) -> Any:
        return None


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        (Twice(), "Twice, at 0 s: job 1 does not wait"),
        (Restless(), "Restless, at 0 s: asked for more than 100 passes in a row"),
        (Past(), "Past, at 0 s: asked to wake at -1, in the past"),
        (Silent(), "Silent, at 0 s: expected decisions, got None; return a list"),
        (Script({0: [Stop(1)]}), "job 1 does not run"),
        (Script({0: [Start(1, [("n9", 1)])]}), "job 1 was placed on 'n9', which is no node"),
        (Script({0: [Start(1, [("pool", 0)])]}), "job 1 was given 0 tasks on pool"),
        (Script({0: [Start(1, [])]}), "job 1 was given no task"),
        (Script({0: [Start(1, "pool")]}), "job 1 was given"),  # type: ignore[arg-type]
        (Script({0: [Start(1, None, -1)]}), "job 1 was given the cost -1"),
        (Script({0: [Start(1, {"x": "pool"})]}), "was given a place for 'x', no task of it"),
        (Script({0: [Start(1, [("pool", 9)])]}), "job 1 does not fit on pool"),
    ],
    ids=str,
)
def test_what_a_policy_cannot_decide(policy: Policy, said: str) -> None:
    with pytest.raises(PolicyError) as caught:
        simulate(Workload([job(1, 1, 10)]).on(nodes=1), policy)
    assert said in str(caught.value)


def test_closed_nodes_take_nothing() -> None:
    workload = on(node("n0"), node("n1"), jobs=[job(1, 1, 10, 5)])
    at = Script({5: [Start(1, [("n1", 1)])]})
    for incident, said in ((NodeDown, "down"), (NodeDrained, "drained")):
        with pytest.raises(PolicyError, match=f"on n1, which is {said}"):
            simulate(workload, at, incidents=[incident(at=1, node=1)])
    tainted = on(node("n0", unschedulable=True), node("n1"), jobs=[job(1, 1, 10)])
    with pytest.raises(PolicyError, match="n0, which does not accept it"):
        simulate(tainted, Script({0: [Start(1, [("n0", 1)])]}))
    assert simulate(tainted, Easy()).placements()["node"] == ["n1"]


def test_failures_are_drawn_for_each_node() -> None:
    given = {"mtbf": 1000, "repair": 100, "until": 3000, "seed": 1}
    found = failures(["n0", "n1"], **given)  # type: ignore[arg-type]
    of = {name: [e.at for e in found if e.node == name] for name in ("n0", "n1")}  # type: ignore[union-attr]
    assert of == {"n1": [337, 421], "n0": [1911, 1943, 2879, 2932]}
    bursts = failures(["n0"], shape=0.7, **given)  # type: ignore[arg-type]
    assert [each.at for each in bursts] == [1993, 2025, 2744, 2797]
    with pytest.raises(SimulationError) as caught:
        failures(["n0"], mtbf=0, repair=-1, until=5, seed=1)
    assert len(caught.value.faults) == 2


class Asks(Policy):
    def __init__(self, ask: Callable[[View], object]) -> None:
        self._ask = ask

    def decide(self, view: View, /) -> Iterable[Decision]:
        self._ask(view)
        return ()


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda view: view.take(1, (("zz", 1),)), "job 1 was placed on 'zz', which is no node"),
        (lambda view: view.give(1, 5), "job 1 was given 5; expected pairs of a node"),
        (lambda view: view.profile().take(1, 9, (("pool", 0),)), "job 1 was given 0 tasks on pool"),
        (lambda view: view.profile().place(1, 0), "at 1 s: asked for places at 0 s"),
        (lambda view: view.place(7), "expected a job that has arrived, got 7"),
    ],
)
def test_places_that_are_none_are_told_to_who_asks(
    ask: Callable[[View], object], said: str
) -> None:
    jobs = [Job(id=1, submit=1, run=1, processors=1)]
    with pytest.raises(PolicyError, match=said):
        simulate(Workload(jobs).on(nodes=1), Asks(ask))


def test_warm_up_and_cool_down_cut_time() -> None:
    jobs = [job(1, 4, 10), job(2, 2, 10, 10), job(3, 1, 20, 20)]
    for engine in ("fast", "general"):
        run = simulate(Workload(jobs).on(nodes=4), Fcfs(), engine=engine)  # type: ignore[arg-type]
        assert run.metrics()["utilisation"] == pytest.approx(1 / 2)
        cut = run.metrics(warm_up=Seconds(10))
        assert cut["utilisation"] == pytest.approx(1 / 3)
        assert cut["makespan"] == 40
        both = run.metrics(warm_up=Seconds(10), cool_down=Seconds(10))
        assert both["utilisation"] == pytest.approx(3 / 8)


@pytest.mark.parametrize("engine", ["fast", "general"])
@pytest.mark.parametrize(("passes", "expected"), [("event", [0, 8, 5]), ("instant", [0, 5, 14])])
def test_a_pass_an_event_or_an_instant(passes: Any, expected: Any, engine: Any) -> None:
    jobs = [job(1, 3, 5, requested=9), job(2, 4, 9, 1), job(3, 1, 3, 5)]
    run = simulate(Workload(jobs).on(nodes=4), Easy(), passes=passes, engine=engine)
    assert starts(run) == expected


@pytest.mark.parametrize("engine", ["fast", "general"])
def test_who_sinks_goes_behind_or_ahead(engine: Any) -> None:
    jobs = [job(1, 1, 100), job(2, 1, 100, 1)]
    for demoted, expected in (("behind", [110, 200]), ("ahead", [200, 110])):
        policy = LeastAttainedService(limits=(10,), demoted=demoted)  # type: ignore[arg-type]
        assert ends(simulate(Workload(jobs).on(nodes=1), policy, engine=engine)) == expected


class FiveSeconds:
    def seconds(self, processors: int, per_node: int, labels: object) -> float:
        return 5


def test_each_start_costs() -> None:
    jobs = [job(1, 1, 20), job(2, 1, 5, 10), job(3, 1, 100, 12)]
    run = simulate(Workload(jobs).on(nodes=1), Srtf(start_cost=FiveSeconds()))
    assert ends(run) == [40, 20, 145]


def test_a_job_that_holds_less_than_it_needs_does_not_work() -> None:
    table = {
        0: [Start(1, [("n", 1)])],
        20: [Resize(1, [("n", 3)])],
        50: [Resize(1, [("n", 2)])],
        70: [Resize(1, [("n", 3)])],
    }
    checkpoint = Checkpoint(restart=7, resize=5)
    one = job(1, None, 100, info=gang(4, 3), checkpoint=checkpoint)
    run = simulate(on(node("n", 4), jobs=[one]), Script(table))  # type: ignore[arg-type]
    assert (starts(run), ends(run)) == ([20], [150])
    assert run.outcome.intervals == [(0, 0, 150)]
    # What it never gets is told.
    never = simulate(on(node("n", 4), jobs=[one]), Script({0: [Start(1, [("n", 1)])]}))
    assert never.unfinished == {
        1: "it holds 1 of the 3 tasks that it needs, and nothing else will happen"
    }


def test_a_stopped_job_waits_where_its_arrival_puts_it() -> None:
    jobs = [job(1, 1, 100), job(2, 1, 100, 1)]
    seen: list[tuple[Any, ...]] = []

    class Watch(Policy):
        def decide(self, view: View, /) -> Iterable[Decision]:
            seen.append(tuple((each.id, each.kept, each.stops) for each in view.waiting))
            if view.now == 0:
                yield Start(1)
                yield Wake(40)
            if view.now == 40 and view.running:
                yield Stop(1)
                yield Wake(50)
            if view.now == 50:
                yield 2

    simulate(Workload(jobs).on(nodes=1), Watch(), checkpoint=Checkpoint(every=30))
    assert seen[:4] == [((1, 0, 0),), ((2, 0, 0),), ((2, 0, 0),), ((1, 30, 1), (2, 0, 0))]


def test_a_run_in_which_a_policy_only_wakes_ends() -> None:
    class Sleeper(Policy):
        def decide(self, view: View, /) -> list[Decision]:
            return [Wake(view.now + 60)]

    run = simulate(Workload([job(1, 1, 10)]).on(nodes=1), Sleeper())
    assert list(run.unfinished) == [1]


def test_all_faults_are_told_with_their_places() -> None:
    jobs: list[Job] = [
        job(1, 2, 10, info=gang(1)),
        job(2, 1, 10, after=(After(9), After(1, "finished"))),  # type: ignore[arg-type]
        job(3, 1, 10, speed=Speed(tasks={0: 1, 2: -1})),
        job(4, 1, 10, checkpoint=Checkpoint(every=0, cost=5)),
        job(5, None, 10, info=gang(1), queue="other"),
        job(6, 1, 10, after=(After(7),)),
        job(7, 1, 10, after=(After(6),)),
    ]
    with pytest.raises(SimulationError, match="expected"):
        simulate(Workload([job(1, 2, 5)]).on(nodes=1), Easy(), engine="slow")  # type: ignore[arg-type]
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        Workload(jobs)
    said = str(caught.value)
    for place in (
        "jobs[1].processors: ", "jobs[2].after[0].job: ", "jobs[2].after[1].on: ",
        "jobs[3].speed.tasks[0]: ", "jobs[3].speed.tasks[2]: ", "jobs[4].checkpoint.cost: ",
        "jobs[5].queue: ", "jobs depend on each other: 6 after 7 after 6",
    ):  # fmt: skip
        assert place in said


@pytest.mark.parametrize(
    ("jobs", "given", "said"),
    [
        ([job(1, 3, 5)], {}, "jobs[1].processors: it does not fit on the machine"),
        ([job(1, 1, 5, speed=Speed(label="x"))], {}, "jobs[1].speed.label: expected a label of"),
        (
            [job(1, None, 5, info=gang(2, 1), speed=Speed(tasks={2: 1}))],
            {},
            "jobs[1].info: expected a speed of the 1 tasks that it needs",
        ),
        ([job(1, None, 5, info=gang(1, gpus=1))], {}, "it needs something that no node offers"),
        (
            [job(1, 1, 5)],
            {"reservations": [Reservation(name="r", start=5, end=5, nodes=["n7"], jobs=[8])]},
            "reservations[0].nodes[0]: expected the number of a node",
        ),
        (
            [job(1, 1, 5)],
            {
                "reservations": [
                    Reservation(name=name, start=at, end=at + 5, nodes=["n0"], jobs=[1])
                    for name, at in (("a", 0), ("b", 4))
                ]
            },
            "reservations[1]: expected no overlap with reservations[0] on a node",
        ),
        ([job(1, 1, 5)], {"engine": "fast"}, "engine: expected 'auto' or 'general', since it kno"),
        ([job(1, 1, 5)], {"round_ends": 0}, "round_ends: expected seconds above 0"),
        ([job(1, 1, 5)], {"policy": Srtf()}, "placement: expected equal nodes, got others"),
    ],
)
def test_what_cannot_be_simulated_is_refused(jobs: list[Job], given: Any, said: str) -> None:
    given = {"policy": Easy()} | given
    with pytest.raises(SimulationError) as caught:
        simulate(
            on(node("n0", 1), node("n1", 1, 0, labels={"a": "b"}), node("n2", 0), jobs=jobs),
            **given,
        )
    assert said in str(caught.value)


def test_followers_of_a_job_that_is_cancelled_before_it_comes() -> None:
    jobs = [
        job(1, 1, 10, 50),
        job(2, 1, 10, after=1, think=5),
        job(3, 1, 1, after=(After(1, "succeeded"),)),
        job(4, 1, 1, after=(After(1, "started", think=20),)),
    ]
    run = simulate(Workload(jobs).on(nodes=1), Easy(), incidents=[JobCancelled(at=20, job=1)])
    assert starts(run) == [None, 25, None, 40]
    assert run.unfinished == {
        1: "it was cancelled before it started",
        3: "it depends on job 1, which has ended and will never have succeeded",
    }
