"""Laws of the general engine; each test is named after its law."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from fractions import Fraction
from math import inf, nextafter
from random import Random
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from batchsched import JobInfo, NodeInfo, Resource, SchedulerConfig, TaskInfo
from batchsched.simulation import (
    After,
    ByDistance,
    Checkpoint,
    Conservative,
    Consolidated,
    Decision,
    Doubling,
    Easy,
    Fcfs,
    FirstFit,
    Incident,
    Increments,
    Job,
    JobCancelled,
    JobFailed,
    JobId,
    LastTwo,
    LeastAttainedService,
    NodeDown,
    NodeDrained,
    NodeUp,
    Perfect,
    Policy,
    Requested,
    Reservation,
    Run,
    Scaled,
    Scheduled,
    Seconds,
    ShortestFirst,
    Speed,
    Srsf,
    Srtf,
    Start,
    Ties,
    ToRequest,
    View,
    Wake,
    Workload,
    failures,
    generate,
    simulate,
)

from .workloads import workloads

pytestmark = pytest.mark.slow

few = settings(max_examples=25)
GANGS = SchedulerConfig.from_mapping(
    {
        "actions": [{"name": "allocate", "arguments": {"unready": "discard"}}],
        "tiers": [{"plugins": [{"name": "gang"}, {"name": "predicates"}]}],
    }
)


def cpus(count: int) -> Resource:
    return Resource(milli_cpu=1000 * count)


@st.composite
def conditions(draw: st.DrawFn, each: int) -> tuple[After, ...] | None:
    """Draw what a job waits for: nothing, or one or two earlier jobs."""
    kinds = st.sampled_from(["started", "started", "ended", "succeeded", "failed"])
    found = tuple(
        After(draw(st.integers(0, each - 1)), draw(kinds), think=draw(st.sampled_from([0, 2])))
        for _ in range(draw(st.sampled_from([0, 1, 1, 2])))
    )
    return found or None


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Workload, dict[str, Any]]:
    """Draw unlike nodes, jobs of all kinds, and what happens to them."""
    number = st.integers(0, 12)
    nodes = [
        NodeInfo(
            name=f"n{index}",
            allocatable=cpus(draw(st.integers(2, 3))),
            labels={"age": draw(st.sampled_from(["old", "new"]))},
        )
        for index in range(draw(st.integers(2, 3)))
    ]
    speeds = [None, Speed(label="age", nodes={"old": 0.5}), Speed(tasks={1: 1, 2: 1.5})]
    checkpoints = [
        None,
        Checkpoint(every=0, restart=2),
        Checkpoint(every=3),
        Checkpoint(every=3, cost=1, restart=2, resize=1),
    ]
    jobs: list[Job] = []
    for each in range(draw(st.integers(1, 9))):
        needs: dict[str, Any] = {"processors": draw(st.integers(1, 4))}
        if draw(st.booleans()):
            least = draw(st.integers(1, 2))
            tasks = [
                TaskInfo(uid=f"t{n}", name=f"t{n}", resreq=cpus(draw(st.integers(1, 2))))
                for n in range(draw(st.integers(least, 2)))
            ]
            needs = {"info": JobInfo(name="j", queue="q", min_available=least, tasks=tasks)}
        run = draw(number)
        jobs.append(
            Job(
                id=each,
                submit=draw(number),
                run=run,
                requested=max(1, run + draw(st.integers(0, 4))),
                speed=draw(st.sampled_from(speeds)),
                checkpoint=draw(st.sampled_from(checkpoints)),
                deadline=draw(st.sampled_from([None, 20])),
                after=draw(conditions(each)) if each else None,
                **needs,
            )
        )
    incidents: list[Incident] = []
    for _ in range(draw(st.integers(0, 3))):
        down, name = draw(number), draw(st.sampled_from([node.name for node in nodes]))
        kind = draw(st.sampled_from([NodeDown, NodeDrained]))
        up = NodeUp(at=down + draw(st.integers(1, 9)), node=name)
        incidents += [kind(at=down, node=name), up]
    some = st.sampled_from(range(len(jobs)))
    if draw(st.booleans()):
        incidents += [JobFailed(at=draw(number), job=draw(some))]
        incidents += [JobCancelled(at=draw(number), job=draw(some))]
    reservations: list[Reservation] = []
    if draw(st.booleans()):
        start = draw(number)
        one = Reservation(
            name="r", start=start, end=start + 5, nodes=[nodes[0].name], jobs=[draw(some)]
        )
        reservations.append(one)
    given = {
        "incidents": incidents,
        "reservations": reservations,
        "resubmit_failed": draw(st.booleans()),
        "passes": draw(st.sampled_from([None, "event", "instant"])),
        "round_ends": draw(st.sampled_from([None, 1, 2.5])),
    }
    return Workload(jobs).on(nodes=nodes), given


POLICIES: list[Policy] = [
    Fcfs(),
    ShortestFirst(),
    Easy(),
    Easy(depth=3, backfill="shortest", predictor=Perfect()),
    Easy(predictor=Scaled(0.5), corrector=Doubling()),
    Conservative(),
    Srtf(placement=None),
    Srsf(placement=None, stay=True),
    LeastAttainedService(limits=(3, 9)),
    Scheduled(GANGS),
]
any_policy = pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: str(policy)[:40])


def holdings(run: Run) -> Iterator[tuple[Any, ...]]:
    assert run.outcome.nodes is not None
    yield from run.outcome.nodes.pieces


@any_policy
@few
@given(world=worlds())
def test_no_node_holds_more_than_it_has_or_while_it_is_down_or_for_others(
    policy: Policy, world: tuple[Workload, dict[str, Any]]
) -> None:
    workload, given_ = world
    run = simulate(workload, policy, **given_)
    nodes = run.outcome.nodes
    assert nodes is not None
    for index, capacity in enumerate(nodes.capacity):
        here = [piece for piece in nodes.pieces if piece[3] == index]
        for time in {start for _, start, *_ in here}:
            held = [piece[5][0] for piece in here if piece[1] <= time < piece[2]]
            assert sum(held) <= capacity[0]
        for job, start, end, *_ in here:
            for node, since, until in nodes.down:
                assert node != index or end <= since or start >= (inf if until is None else until)
            for one in given_["reservations"]:
                if nodes.names[index] in one.nodes and workload.ids[job] not in one.jobs:
                    assert end <= one.start or start >= one.end
    for job, held_for in enumerate(run.held):
        assert sum(end - start for one, start, end in run.intervals if one == job) == held_for


@any_policy
@few
@given(world=worlds())
def test_work_is_done_while_a_job_holds_what_it_needs(
    policy: Policy, world: tuple[Workload, dict[str, Any]]
) -> None:
    """Held time less overhead and rounding, x rate, is the work and what of it was lost."""
    workload, given_ = world
    run = simulate(workload, policy, **given_)
    outcome = run.outcome
    assert outcome.lost_work is not None
    assert outcome.overhead is not None
    for job, end in enumerate(outcome.ends):
        if end is None or job in outcome.endings:
            continue
        spans = rates(run, job)
        work = sum(Fraction(finish - start) * rate for start, finish, rate in spans)
        fastest, last = max(rate for *_, rate in spans), spans[-1][2]
        slowest = min((rate for *_, rate in spans if rate), default=last)
        without = work - Fraction(run.runs[job]) - Fraction(outcome.lost_work[job])
        rounded = last * Fraction(given_["round_ends"] or 0)
        # What took overhead, and at which rate, the record does not say; ends are floats.
        assert slowest * Fraction(outcome.overhead[job]) <= without + EPSILON
        assert without - rounded - EPSILON <= fastest * Fraction(outcome.overhead[job])
        if slowest == fastest and not rounded:
            assert abs(without - last * Fraction(outcome.overhead[job])) < EPSILON


EPSILON = Fraction(1, 10**9)


def rates(run: Run, job: int) -> list[tuple[float, float, Fraction]]:
    """Return the spans for which a job held the same, and how fast it could work then."""
    nodes, speed, tasks = run.outcome.nodes, run.workload.column("speed")[job], run.workload.tasks
    assert nodes is not None
    assert isinstance(speed, Speed | None)
    here = [piece for piece in nodes.pieces if piece[0] == job]
    assert run.machine.infos
    by_name = {info.name: info for info in run.machine.infos}
    spans: list[tuple[float, float, Fraction]] = []
    for start, finish in sorted({piece[1:3] for piece in here}):
        on = [piece for piece in here if piece[1:3] == (start, finish)]
        count = sum(piece[4] for piece in on)
        known = tasks(job)
        need = run.workload.processors[job] if known is None else known.need
        rate = Fraction(1 if count >= need else 0)
        if speed is not None:
            ages = [by_name[nodes.names[piece[3]]].labels["age"] for piece in on]
            rate *= Fraction(speed.of_tasks(count))
            rate *= min(Fraction(speed.nodes.get(age, 1)) for age in ages)
        spans.append((start, finish, rate))
    return spans


LISTED: list[Policy] = [
    Fcfs(),
    Fcfs(placement=Consolidated()),
    ShortestFirst(placement=FirstFit()),
    ShortestFirst(predictor=Perfect()),
    Easy(),
    Easy(backfill="shortest"),
    Easy(predictor=Scaled(0.5)),
    Easy(predictor=LastTwo(), corrector=Doubling(), backfill="shortest"),
    Easy(predictor=LastTwo(), corrector=ToRequest(), on_arrival="if-it-fits"),
    Easy(predictor=LastTwo(), corrector=Increments()),
    Conservative(predictor=Perfect()),
    Srtf(),
    Srsf(placement=None),
    Srtf(event_cost=ByDistance(1, 2, 3)),
    LeastAttainedService(limits=(2, 9)),
    LeastAttainedService(limits=(2, 9), demoted="ahead", event_cost=ByDistance(2, 2, 2)),
]


@pytest.mark.parametrize("policy", LISTED, ids=str)
@few
@given(
    workload=workloads(bounds=False),
    ties=st.sampled_from(
        [Ties(), Ties(due_first=False), Ties(order=("end", "arrival", "correction", "promise"))]
    ),
    passes=st.sampled_from([None, "instant"]),
    per_node=st.integers(1, 2),
)
def test_the_fast_engine_starts_and_ends_what_the_general_one_does(
    policy: Policy, workload: Workload, ties: Ties, passes: Any, per_node: int
) -> None:
    assert workload.machine is not None
    workload = workload.on(nodes=workload.machine.nodes, per_node=per_node)
    if isinstance(policy, Conservative):
        # Where somebody is late by a moment the fast engine makes all promises anew, as it does for
        # what takes no time; and promises of an instant are made at once.
        workload, passes, ties = workload.where(lambda job: job.run > 0), None, Ties()
    given_: dict[str, Any] = {"ties": ties, "passes": passes}
    fast, general = (
        simulate(workload, policy, engine=engine, **given_)  # type: ignore[arg-type]
        for engine in ("fast", "general")
    )
    assert (fast.engine, general.engine) == ("fast", "general")
    for name in ("start", "end", "submit", "outcome"):
        assert fast.jobs[name] == general.jobs[name]
    if per_node == 1:  # otherwise the first fit holds whole nodes
        assert fast.metrics()["utilisation"] == pytest.approx(general.metrics()["utilisation"])


@pytest.mark.parametrize(
    "policy",
    [
        *LISTED[4:10],
        Fcfs(),
        ShortestFirst(),
        Easy(depth=2),
        Srtf(placement=None),
        LeastAttainedService(limits=(2, 9), placement=None),
    ],
    ids=str,
)
@few
@given(workload=workloads(bounds=False))
def test_a_pool_is_as_good_as_nodes_of_one_processor(policy: Policy, workload: Workload) -> None:
    assert workload.machine is not None
    nodes = [
        NodeInfo(name=f"n{index}", allocatable=cpus(1)) for index in range(workload.machine.nodes)
    ]
    pool = simulate(workload, policy, engine="general")
    assert simulate(workload.on(nodes=nodes), policy).jobs == pool.jobs


@any_policy
@few
@given(world=worlds())
def test_nobody_starts_before_its_conditions_hold(
    policy: Policy, world: tuple[Workload, dict[str, Any]]
) -> None:
    workload, given_ = world
    run = simulate(workload, policy, **given_)
    starts, ends, endings = run.outcome.starts, run.outcome.ends, run.outcome.endings
    left = {each.job: each.at for each in given_["incidents"] if isinstance(each, JobCancelled)}

    def moment(one: After) -> float:
        """Return when a condition held; infinity: never."""
        other = workload.ids.index(one.job)
        # Who never ran has left when it was cancelled, whichever came first.
        gone = ends[other] if ends[other] is not None else left.get(one.job, inf)
        assert gone is not None
        holds = {
            "started": gone if starts[other] is None else starts[other],
            "ended": gone,
            "succeeded": inf if other in endings else gone,
            "failed": gone if other in endings else inf,
        }
        found = holds[one.on]
        return inf if found is None else found + one.think

    for job, after in enumerate(workload.after):
        assert isinstance(after, tuple | None)
        begin = max([workload.submits[job], *map(moment, after or ())])
        if job in endings and starts[job] is None:
            continue
        submitted = run.submitted[job]
        assert submitted == (begin if begin < inf else None)
        assert (starts[job] is None) or starts[job] >= begin  # type: ignore[operator]


@any_policy
@few
@given(world=worlds(), data=st.data())
def test_the_order_of_the_input_does_not_matter(
    policy: Policy, world: tuple[Workload, dict[str, Any]], data: st.DataObject
) -> None:
    workload, given_ = world
    assert workload.machine is not None
    nodes = data.draw(st.permutations(workload.machine.infos))
    shuffled = Workload(data.draw(st.permutations(list(workload)))).on(nodes=nodes)
    assert simulate(shuffled, policy, **given_).jobs == simulate(workload, policy, **given_).jobs


@few
@given(workload=workloads())
def test_the_head_of_easy_starts_no_later_than_first_promised(workload: Workload) -> None:
    promised: dict[JobId, float] = {}

    class Watched(Easy):
        def decide(self, view: View, /) -> Iterator[Decision]:
            profile = view.profile()
            for job in view.waiting:
                if profile.place(job) is None:
                    found = profile.earliest(job)
                    assert found is not None
                    promised.setdefault(job.id, found[0])
                    break
            yield from super().decide(view)

    run = simulate(workload, Watched(), engine="general")
    assert all(run.starts_by_id()[job] <= time for job, time in promised.items())


@any_policy
@few
@given(world=worlds(), cut=st.integers(1, 20))
def test_held_time_adds_up_over_windows_and_nodes(
    policy: Policy, world: tuple[Workload, dict[str, Any]], cut: int
) -> None:
    workload, given_ = world
    run = simulate(workload, policy, **given_)
    whole = run.metrics()
    assert run.outcome.nodes is not None
    total = sum(run.outcome.nodes.capacity[node][0] for node in range(workload.machine.nodes))  # type: ignore[union-attr]
    nodes = run.nodes()
    held = sum(nodes["held[cpu]"])  # type: ignore[arg-type]
    served = sum(
        time * capacity[0]
        for time, capacity in zip(nodes["in_service"], run.outcome.nodes.capacity, strict=True)  # type: ignore[operator]
    )
    assert whole["utilisation"] * served == pytest.approx(held)
    if given_["incidents"] or cut >= whole["makespan"]:
        return
    late = run.metrics(warm_up=Seconds(cut))
    early = run.metrics(cool_down=Seconds(whole["makespan"] - cut))
    parts = early["utilisation"] * cut + late["utilisation"] * (whole["makespan"] - cut)
    assert parts * total == pytest.approx(held)


@pytest.mark.parametrize(
    "policy", [Srtf(), Srsf(), LeastAttainedService(limits=(2, 9)), Easy()], ids=str
)
@few
@given(workload=workloads(), at=st.integers(0, 20))
def test_where_all_is_kept_and_nothing_costs_held_time_is_work(
    policy: Policy, workload: Workload, at: int
) -> None:
    incidents = [NodeDown(at=at, node=0), NodeUp(at=at + 3, node=0)]
    run = simulate(workload, policy, incidents=incidents, checkpoint=Checkpoint(every=0))
    assert run.held == list(run.runs)
    assert run.unfinished == {}


@few
@given(seed=st.integers(0, 99), others=st.integers(0, 4))
def test_failures_of_a_node_do_not_change_with_other_nodes(seed: int, others: int) -> None:
    names = [f"m{number}" for number in range(others)]
    found = failures(["n", *names], mtbf=50, repair=9, until=500, seed=seed)
    alone = failures(["n"], mtbf=50, repair=9, until=500, seed=seed)
    assert [each for each in found if each.node == "n"] == list(alone)  # type: ignore[union-attr]


@few
@given(workload=workloads(bounds=False))
def test_one_task_of_some_cpus_is_as_many_processors_on_one_node(workload: Workload) -> None:
    assert workload.machine is not None
    given_ = [
        evolve(
            job,
            processors=None,
            info=JobInfo(
                name="x",
                queue=str(job.queue),
                user=str(job.user),
                tasks=[TaskInfo(uid="t", name="t", resreq=cpus(job.processors or 0))],
            ),
        )
        for job in workload
    ]
    size = workload.machine.processors
    one = [NodeInfo(name="n", allocatable=cpus(size))]
    infos = simulate(Workload(given_).on(nodes=one), Scheduled(GANGS))
    plain = simulate(workload.on(nodes=1, per_node=size), Scheduled(GANGS))
    assert infos.jobs["start"] == plain.jobs["start"]


@settings(max_examples=15)
@given(workload=workloads(bounds=False), depth=st.integers(1, 3))
def test_easy_on_nodes_of_one_processor_is_the_action_plan(workload: Workload, depth: int) -> None:
    plan = {"name": "plan", "arguments": {"depth": depth, "keep": False}}
    config = SchedulerConfig.from_mapping(
        {"actions": [plan], "tiers": [{"plugins": ["gang", "predicates"]}]}
    )
    columns = {
        name: workload.column(name) for name in ("id", "submit", "run", "processors", "requested")
    }
    same = Workload.from_columns(columns, machine=workload.machine)
    planned = simulate(same, Scheduled(config))
    assert (
        simulate(same, Easy(depth=depth), engine="general").jobs["start"] == planned.jobs["start"]
    )


class EasyAnew(Policy):
    """EASY that keeps nothing between its passes."""

    predictor = Requested()

    def __init__(self, **given_: Any) -> None:
        self._easy = Easy(**given_)

    def decide(self, view: View, /) -> Iterable[Decision]:
        return self._easy.decide(view)


class ConservativeAnew(Policy):
    """Conservative backfilling that keeps its promises alone, and takes them anew at each pass."""

    predictor = Requested()

    def begin(self, workload: Workload, /) -> ConservativeAnew:
        again = ConservativeAnew()
        again.promises = dict[JobId, Any]()
        return again

    def decide(self, view: View, /) -> Iterable[Decision]:
        now, profile, promises = view.now, view.profile(), self.promises
        at_once = nextafter(now, inf)
        waiting = {job.id for job in view.waiting}
        for each, (start, places) in list(promises.items()):
            moments = [start] if start > at_once else [now, at_once]
            fitting = (time for time in moments if profile.take(each, time, places))
            time = next(fitting, None) if each in waiting else None
            del promises[each]
            if time is not None:
                promises[each] = (time, places)
        for job in view.waiting:
            before = promises.get(job.id)
            if before is not None and any(cause.early for cause in view.causes) and before[0] > now:
                profile.give(job, *before)
            elif before is not None:
                continue
            found = profile.earliest(job)
            if before is not None and (found is None or found[0] >= before[0]):
                if found is not None:
                    profile.give(job, *found)
                assert profile.take(job, *before)
                found = before
            if found is not None:
                promises[job.id] = found
        for job in view.waiting:
            start, places = promises.get(job.id, (inf, ()))
            if start <= now:
                del promises[job.id]
                yield Start(job.id, places)
        yield Wake(min((at for at, _ in promises.values() if at > at_once), default=inf))


@pytest.mark.parametrize(
    ("policy", "anew"),
    [
        (Easy(), EasyAnew()),
        (Easy(depth=3, backfill="shortest"), EasyAnew(depth=3, backfill="shortest")),
        (Conservative(), ConservativeAnew()),
    ],
    ids=str,
)
@few
@given(world=worlds(), alike=workloads(bounds=False))
def test_what_backfilling_keeps_between_its_passes_changes_nothing(
    policy: Policy, anew: Policy, world: tuple[Workload, dict[str, Any]], alike: Workload
) -> None:
    for workload, given_ in (world, (alike, {"engine": "general"})):
        kept, other = (simulate(workload, one, **given_) for one in (policy, anew))
        assert kept.jobs == other.jobs
        assert kept.placements() == other.placements()


@any_policy
@settings(max_examples=8)
@given(world=worlds())
def test_what_is_written_is_read_back_as_it_was(
    policy: Policy, world: tuple[Workload, dict[str, Any]]
) -> None:
    workload, given_ = world
    written = json.loads(json.dumps(workload.to_dict(), allow_nan=False))
    assert Workload.from_dict(written) == workload
    run = simulate(workload, policy, **given_)
    written = json.loads(json.dumps(run.to_dict(), allow_nan=False))
    again = Run.from_dict(written)
    assert again.to_dict() == written
    assert (again.jobs, again.metrics(), str(again)) == (run.jobs, run.metrics(), str(run))
    assert (again.placements(), again.nodes()) == (run.placements(), run.nodes())


class Newest(Policy):
    """Starts the jobs that came last first, and moves one that runs."""

    def order(self, job: Any, now: float) -> Any:
        return (-job.submit, job.id)

    def decide(self, view: View, /) -> Iterable[Decision]:
        for job in view.waiting:
            places = view.place(job)
            if places is not None:
                yield job.id


@few
@given(workload=workloads())
def test_a_policy_decides_the_same_on_a_pool_as_on_its_nodes(workload: Workload) -> None:
    assert workload.machine is not None
    nodes = [
        NodeInfo(name=f"n{index}", allocatable=cpus(1)) for index in range(workload.machine.nodes)
    ]
    assert simulate(workload, Newest()).jobs == simulate(workload.on(nodes=nodes), Newest()).jobs


@pytest.mark.parametrize(
    "policy",
    [
        Easy(),
        Easy(backfill="shortest"),
        Easy(predictor=LastTwo(), corrector=Doubling(), on_arrival="if-it-fits"),
    ],
    ids=str,
)
def test_a_queue_of_many_hundreds_changes_no_decision(policy: Policy) -> None:
    workload = generate(jobs=1200, nodes=64, seed=1, load=20)
    fast, general = (
        simulate(workload, policy, engine=engine)  # type: ignore[arg-type]
        for engine in ("fast", "general")
    )
    assert max(fast.series()["queued"]) > 500
    assert fast.jobs["start"] == general.jobs["start"]


def outliving(seed: int) -> Workload:
    """Jobs of which many run for longer than they asked."""
    draw = Random(seed)
    unit = draw.choice((1, 60, 600))
    jobs = []
    for number in range(draw.randint(3, 20)):
        run = draw.randint(0, 50) * unit
        requested = max(1, run + draw.choice((0, draw.randint(-30, 30))) * unit)
        submit, size = draw.randint(0, 60) * unit, draw.randint(1, 4)
        jobs.append(
            Job(
                id=number,
                submit=submit,
                run=run,
                processors=size,
                requested=requested,
                user=draw.randrange(3),
            )
        )
    return Workload(jobs).on(nodes=4)


CORRECTED = [
    kind(predictor=predictor, corrector=corrector)
    for kind in (Easy, Conservative)
    for predictor in (Requested(), LastTwo())
    for corrector in (None, Increments(), ToRequest())
]


@pytest.mark.parametrize("policy", CORRECTED, ids=str)
@pytest.mark.parametrize("passes", ["event", "instant"])
def test_law_both_engines_agree_where_jobs_outlive_their_requests(policy, passes):
    for seed in range(12):
        fast, general = (
            simulate(outliving(seed), policy, passes=passes, engine=engine, end_at_request=False)
            for engine in ("fast", "general")
        )
        told = {name: column for name, column in general.jobs.items() if name != "preemptions"}
        assert fast.jobs == told
        assert not fast.unfinished


def test_no_later_job_of_the_same_size_overtakes_when_promises_are_made_anew():
    """Conservative: job 1 runs for longer than it asked; 2 and 3 wait, as wide as the machine."""
    jobs = [
        Job(id=1, submit=0, run=50, processors=2, requested=10),
        Job(id=2, submit=1, run=5, processors=4, requested=30),
        Job(id=3, submit=2, run=5, processors=4, requested=5),
        Job(id=4, submit=3, run=60, processors=2, requested=20),
    ]
    for engine in ("fast", "general"):
        run = simulate(
            Workload(jobs).on(nodes=4), Conservative(), engine=engine, end_at_request=False
        )
        start = dict(zip(run.jobs["id"], run.jobs["start"], strict=True))
        assert start[2] < start[3]


@pytest.mark.parametrize("engine", ["auto", "general"])
def test_no_condition_is_none(engine):
    jobs = [
        Job(id=1, submit=5, run=10, processors=1, requested=10, after=()),
        Job(id=2, submit=0, run=3, processors=1, requested=3, after=(), labels={}),
    ]
    workload = Workload(jobs).on(nodes=1)
    assert workload == Workload([evolve(job, after=None) for job in jobs]).on(nodes=1)
    run = simulate(workload, Easy(), engine=engine, incidents=(), reservations=())
    assert run.jobs["start"] == [0, 5]
