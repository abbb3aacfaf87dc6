"""What examples print as makes an equal value, and can be read."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import pytest
from attrs import evolve
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.support.clusters import cluster, job, node
from tests.support.invalid_snapshots import InvalidSnapshot, invalid_snapshots
from tests.support.own_plugins import Grabs

import batchsched
import batchsched.devices
import batchsched.model.constraints
import batchsched.testing
from batchsched import (
    CycleResult,
    HostPort,
    JobInfo,
    Queue,
    Registry,
    Resource,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    TaskInfo,
    TaskStatus,
    default_registry,
    next_snapshot,
    schedule,
)
from batchsched.testing import (
    INVARIANTS,
    Cycle,
    Invariant,
    InvariantViolation,
    PingPong,
    as_code,
    check_cycle,
    configs,
    invariant,
    jobs,
    nodes,
    queues,
    resources,
    snapshots,
    tasks,
    without_times,
)
from batchsched.testing.ping_pong import Watcher

MODULES = (batchsched.devices, batchsched, batchsched.model.constraints, batchsched.testing)
NAMES = {name: getattr(module, name) for module in MODULES for name in dir(module)}
NAMES["InvalidSnapshot"] = InvalidSnapshot
MANY = settings(max_examples=40, derandomize=True, suppress_health_check=list(HealthCheck))


@MANY
@given(st.one_of(snapshots(), configs(), resources(), jobs(), tasks(), nodes(), queues()))
def test_it_makes_an_equal_value(value: object) -> None:
    assert eval(as_code(value), NAMES) == value


@settings(MANY, max_examples=15)
@given(snapshots(), configs())
def test_it_makes_an_equal_result(snapshot: Snapshot, config: SchedulerConfig) -> None:
    result = schedule(snapshot, config=config)
    assert eval(as_code(result), NAMES) == result


@settings(MANY, max_examples=40)
@given(invalid_snapshots())
def test_it_makes_what_cannot_be_a_snapshot(invalid: InvalidSnapshot) -> None:
    assert eval(as_code(invalid), NAMES) == invalid


@settings(MANY, max_examples=30)
@given(snapshots())
def test_its_lines_are_short(snapshot: Snapshot) -> None:
    assert max(map(len, as_code(snapshot).splitlines())) <= 100


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (Queue(name="q", weight=1, creation_time=0), "Queue(name='q')"),
        (Resource(memory=3 << 30), "Resource(memory=3 << 30)"),
        (Resource(memory=3 << 20, milli_cpu=1), "Resource(milli_cpu=1, memory=3 << 20)"),
        (TaskStatus.RUNNING, "TaskStatus.RUNNING"),
        ((HostPort(port=80),), "(HostPort(port=80),)"),
        ((1, 2), "(1, 2)"),
        ({"b": 1, "a": None}, "{'a': None, 'b': 1}"),
        ([], "[]"),
        (float("inf"), "float('inf')"),
        (True, "True"),
    ],
)
def test_it_reads_as_one_would_write_it(value: object, code: str) -> None:
    assert as_code(value) == code
    assert eval(code, NAMES) == value


def test_a_flag_that_is_not_the_default_is_shown() -> None:
    task = TaskInfo(uid="t", name="t", is_backfill=True)
    assert as_code(task) == "TaskInfo(uid='t', name='t', is_backfill=True)"


def test_tasks_are_a_list() -> None:
    job = JobInfo(name="j", queue="q", tasks=(TaskInfo(uid="t", name="t"),))
    assert as_code(job) == "JobInfo(name='j', queue='q', tasks=[TaskInfo(uid='t', name='t')])"


def test_it_indents_all_lines_but_the_first() -> None:
    snapshot = Snapshot(queues=[Queue(name=letter * 60) for letter in "ab"])
    first, *rest = as_code(snapshot, indent="  ").splitlines()
    assert first == "Snapshot("
    assert rest[0].startswith("      queues=[")
    assert rest[-1] == "  )"


def test_hypothesis_prints_examples_so() -> None:
    @settings(MANY, database=None, phases=[Phase.generate, Phase.shrink])
    @given(snapshot=snapshots(), config=configs())
    def fails(snapshot: Snapshot, config: SchedulerConfig) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as caught:
        fails()
    note = "\n".join(caught.value.__notes__)
    assert "snapshot=Snapshot(\n        nodes=[NodeInfo(name='n1'," in note
    assert "config=SchedulerConfig(actions=[ActionOption(name='allocate')])," in note


# The code of violations


class Opens:
    def open(self, _view: object, /) -> Grabs:
        return Grabs()


GRABBING = default_registry()
GRABBING.register_plugin("grabs", lambda _: Opens())
GRABS = SchedulerConfig.from_mapping(
    {"actions": "allocate, preempt", "tiers": [{"plugins": ["grabs", "predicates"]}]},
    registry=GRABBING,
)
FULL = cluster([node("n1", "1C1G")], job("a", "1C1G@n1"), job("b", "1C1G"))
ROOMY = cluster([node("n1", "1C1G")], job("a", "1C1G"))


@invariant
def nothing_is_bound(cycle: Cycle) -> Iterator[str]:
    """Nothing starts."""
    for bind in cycle.result.binds:
        yield f"{bind.task_uid} is bound"


@invariant
def nothing_is_evicted(cycle: Cycle) -> Iterator[str]:
    """Nothing has to go."""
    for eviction in cycle.result.evictions:
        yield f"{eviction.task_uid} is evicted"


def violation(
    law: Invariant | str,
    snapshot: Snapshot,
    result: CycleResult,
    config: SchedulerConfig | None = None,
    registry: Registry | None = None,
) -> InvariantViolation:
    with pytest.raises(InvariantViolation) as caught:
        check_cycle(snapshot, result, config, registry=registry, invariants=[law])
    return caught.value


def breaks_again(found: InvariantViolation, **names: object) -> bool:
    """Run the code of a violation with nothing but what its comments ask for."""
    with pytest.raises(InvariantViolation) as again:
        exec(found.as_code(), dict(names))
    return str(again.value) == str(found)


def test_the_code_of_a_violation_names_the_invariant() -> None:
    found = violation(nothing_is_bound, ROOMY, schedule(ROOMY))
    assert f"# from {__name__} import nothing_is_bound\n" in found.as_code()
    assert found.as_code().endswith("config, invariants=[nothing_is_bound])\n")
    assert breaks_again(found, nothing_is_bound=nothing_is_bound)


def test_the_code_of_a_violation_schedules_anew_if_that_gives_the_result() -> None:
    lines = violation(nothing_is_bound, ROOMY, schedule(ROOMY)).as_code().splitlines()
    assert "result = Scheduler(config).schedule(snapshot)" in lines


def test_the_code_of_a_violation_asks_for_the_registry() -> None:
    result = Scheduler(GRABS, GRABBING).schedule(FULL)
    found = violation(nothing_is_evicted, FULL, result, GRABS, GRABBING)
    assert "\n# registry: " in found.as_code()
    assert "Scheduler(config, registry).schedule(snapshot)" in found.as_code()
    assert breaks_again(found, nothing_is_evicted=nothing_is_evicted, registry=GRABBING)


def test_the_code_of_a_violation_has_a_result_that_the_scheduler_does_not_give() -> None:
    found = violation("permutation", ROOMY, evolve(schedule(ROOMY), binds=()))
    assert (
        '\ncheck_cycle(snapshot, result, config, invariants=["permutation"])\n' in found.as_code()
    )
    assert "\nresult = CycleResult(" in found.as_code()
    assert breaks_again(found)


def test_the_code_of_a_violation_has_the_result_if_the_scheduler_raises() -> None:
    unknown = default_registry()  # does not know the plugin
    found = InvariantViolation(
        "nothing_is_evicted",
        "a-1 is evicted",
        FULL,
        Scheduler(GRABS, GRABBING).schedule(FULL),
        GRABS,
        unknown,
        __name__,
    )
    assert "\nresult = CycleResult(" in found.as_code()


def test_the_code_of_a_violation_calls_what_has_no_name_something() -> None:
    nameless = invariant(lambda cycle: iter(["it is so"]))
    found = violation(nameless, ROOMY, schedule(ROOMY))
    assert f"# broken_invariant: <lambda> of {__name__}\n" in found.as_code()
    assert breaks_again(found, broken_invariant=nameless)


def test_every_invariant_can_be_imported_as_the_code_does() -> None:
    for law in INVARIANTS:
        code = InvariantViolation(
            law.__name__, "", ROOMY, schedule(ROOMY), SchedulerConfig(), None, law.__module__
        ).as_code()
        assert f'invariants=["{law.__name__}"])\n' in code
        exec(code, {})  # the cycle is sound


def test_a_violation_that_is_copied_to_another_process_is_the_same() -> None:
    found = violation(nothing_is_bound, ROOMY, schedule(ROOMY))
    again = pickle.loads(pickle.dumps(found))
    assert (str(again), again.as_code()) == (str(found), found.as_code())


def live(watcher: Watcher, scheduler: Scheduler, snapshot: Snapshot) -> PingPong:
    for _ in range(12):
        result = scheduler.schedule(snapshot)
        try:
            watcher.watch(snapshot, result)
        except PingPong as found:
            return found
        snapshot = next_snapshot(snapshot, result, now=snapshot.now + 1)
    pytest.fail("no ping-pong")


def test_the_code_of_ping_pong_runs_the_loop() -> None:
    found = live(Watcher(config=GRABS, registry=GRABBING), Scheduler(GRABS, GRABBING), FULL)
    assert len(found.snapshots) == len(found.loop) + 1
    assert found.snapshot == found.snapshots[0]
    assert without_times(found.snapshots[-1]) == without_times(found.snapshot)
    names: dict[str, object] = {"registry": GRABBING}
    with pytest.raises(AssertionError, match="ping-pong"):
        exec(found.as_code(), names)
    assert names["snapshot"] == found.snapshots[-1]
    assert "\n# registry: " in found.as_code()


def test_the_code_of_ping_pong_has_results_that_the_scheduler_does_not_give() -> None:
    found = live(Watcher(), Scheduler(GRABS, GRABBING), FULL)  # which does not tell the policy
    assert "\nresults = [\n" in found.as_code()
    with pytest.raises(AssertionError, match="ping-pong"):
        exec(found.as_code(), {})
