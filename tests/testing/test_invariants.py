"""The invariants alone and together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from attrs import evolve
from tests.support.clusters import cluster, job, node
from tests.support.doctoring import placed
from tests.support.expecting import ONE_WAITS
from tests.support.invariants import INVARIANTS, check_cycle

import batchsched
import batchsched.model.constraints
import batchsched.testing
from batchsched import (
    ActionOption,
    ConfigError,
    Eviction,
    PendingReason,
    Scheduler,
    SchedulerConfig,
    SnapshotError,
    TaskStatus,
    WhyPending,
    default_registry,
)
from batchsched.testing import RULES, Cycle, InvariantViolation, invariant

S = TaskStatus
EXPORTED = {name: getattr(batchsched, name) for name in batchsched.__all__}
NAMES = {**EXPORTED, **vars(batchsched.model.constraints), **vars(batchsched.testing)}


# Alone and together


def test_each_law_has_a_doctored_result_beside_this() -> None:
    tested = {
        *("decisions", "capacity", "placements", "gangs", "protection", "claims", "sparing"),
        *("reservations", "permutation", "domains"),
        *("swaps", "shares", "promises", "starving", "outcomes", "reasons"),
        "starts",  # see test_rules.py
        "rules",  # see test_invariants_of_places.py
        # see test_invariants_of_guarantees.py
        *("claimants", "cores", "budgets", "limits", "lending"),
        "moves",  # see test_invariants_of_moves.py
        "devices",  # see tests/devices/test_cycles.py
    }
    assert tested == {law.__name__ for law in INVARIANTS}


def test_the_code_of_a_violation_breaks_the_invariant_again() -> None:
    result = Scheduler().schedule(ONE_WAITS)
    with pytest.raises(InvariantViolation) as caught:
        check_cycle(ONE_WAITS, placed(result, "b-1", S.BINDING, "n1"), invariants=["capacity"])
    names: dict[str, object] = {}
    with pytest.raises(InvariantViolation, match=r"\Acapacity: "):
        exec(caught.value.as_code(), names)
    assert names["snapshot"] == ONE_WAITS
    assert names["config"] == SchedulerConfig()


def test_a_law_of_ones_own() -> None:
    @invariant
    def nothing_waits(cycle: batchsched.testing.Cycle):
        """Nobody has to wait."""
        for uid in cycle.result.pending:
            yield f"{uid} waits"

    result = Scheduler().schedule(ONE_WAITS)
    with pytest.raises(InvariantViolation, match=r"\Anothing_waits: b-1 waits\n"):
        check_cycle(ONE_WAITS, result, invariants=[*INVARIANTS, nothing_waits])
    assert repr(nothing_waits) == "<invariant nothing_waits>"
    assert nothing_waits.__doc__ == "Nobody has to wait."


def test_each_is_callable_alone_on_a_result_that_is_wrong_in_other_ways() -> None:
    lost = job("lost", "1C1G@n1", queue="nowhere")
    snapshot = cluster([node("n1", "4C4G")], lost, job("w", "1C1G"))
    of_no_job = snapshot.jobs[0].tasks[0]
    without = evolve(snapshot, jobs=snapshot.jobs[1:], other_tasks=[of_no_job])
    for one in (snapshot, without):
        sound = Scheduler().schedule(one)
        for action in ("preempt", "reclaim", "allocate", "steal"):
            eviction = Eviction(
                task_uid="lost-1", node_name="n1", action=action, for_task_uid="w-1"
            )
            listed = evolve(sound, evictions=(eviction,))
            overused = PendingReason(WhyPending.QUEUE_OVERUSED)
            forgotten = evolve(listed, left_out={}, pending={"lost-1": overused})
            moved = placed(placed(listed, "lost-1", S.RELEASING, "n1"), "w-1", S.PIPELINED, "n1")
            for wrong in (listed, forgotten, moved):
                for law in (*INVARIANTS, *RULES):
                    with suppress(InvariantViolation):
                        check_cycle(one, wrong, invariants=[law])


# What is no cycle at all


def test_what_is_no_configuration() -> None:
    result = Scheduler().schedule(ONE_WAITS)
    wrong: Any = {"actions": "allocate"}
    broken = SchedulerConfig(actions="allocate")  # type: ignore[arg-type]
    late = {"starvationThreshold": "soon"}
    refused = SchedulerConfig(actions=[ActionOption(name="allocate", arguments=late)])
    for law in (check_cycle, partial(check_cycle, invariants=["gangs"])):
        with pytest.raises(ConfigError, match="expected a SchedulerConfig, got"):
            law(ONE_WAITS, result, wrong)
        with pytest.raises(ConfigError, match="expected a collection of ActionOption"):
            law(ONE_WAITS, result, broken)
        with pytest.raises(ConfigError, match="starvationThreshold"):
            law(ONE_WAITS, result, refused)


def test_what_is_no_snapshot_result_or_registry() -> None:
    result = Scheduler().schedule(ONE_WAITS)
    nothing: Any = None
    for law in (check_cycle, partial(check_cycle, invariants=["gangs"])):
        with pytest.raises(
            SnapshotError, match=("expected a Snapshot, got None; give the one that was")
        ):
            law(nothing, result)
        with pytest.raises(
            TypeError, match=("expected a CycleResult, got None; give what schedule")
        ):
            law(ONE_WAITS, nothing)
        with pytest.raises(TypeError, match="expected a Registry, got"):
            law(ONE_WAITS, result, registry=default_registry)  # type: ignore[arg-type]


def test_a_law_of_ones_own_that_was_not_made_an_invariant() -> None:
    def nothing_waits(cycle: Cycle) -> Iterator[str]:
        yield from cycle.result.pending

    result = Scheduler().schedule(ONE_WAITS)
    laws: Any = [*INVARIANTS, nothing_waits]
    with pytest.raises(
        TypeError, match=("expected an invariant, got nothing_waits; write @invariant above")
    ):
        check_cycle(ONE_WAITS, result, invariants=laws)
