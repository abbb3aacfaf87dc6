"""The invariants alone and together."""

from __future__ import annotations

import pytest
from doctoring import placed
from expecting import ONE_WAITS

import batchsched
import batchsched.constraints
import batchsched.testing
from batchsched import (
    Scheduler,
    SchedulerConfig,
    TaskStatus,
)
from batchsched.testing import (
    INVARIANTS,
    InvariantViolation,
    check_capacity,
    check_claims,
    check_cycle,
    check_decisions,
    check_gangs,
    check_outcomes,
    check_permutation,
    check_placements,
    check_protection,
    check_reasons,
    check_reservations,
    check_sparing,
    check_swaps,
    invariant,
)

S = TaskStatus
NAMES = {**vars(batchsched), **vars(batchsched.constraints), **vars(batchsched.testing)}


# Alone and together


def test_each_law_has_a_doctored_result_beside_this() -> None:
    tested = {
        *(check_decisions, check_capacity, check_placements, check_gangs, check_protection),
        *(check_claims, check_sparing, check_swaps, check_reservations, check_outcomes),
        *(check_reasons, check_permutation),
    }
    assert tested == set(INVARIANTS)


def test_the_code_of_a_violation_breaks_the_invariant_again() -> None:
    result = Scheduler().schedule(ONE_WAITS)
    with pytest.raises(InvariantViolation) as caught:
        check_capacity(ONE_WAITS, placed(result, "b-1", S.BINDING, "n1"))
    names: dict[str, object] = {}
    with pytest.raises(InvariantViolation, match=r"\Acheck_capacity: "):
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
