"""What the invariant of moves finds in results that were tampered with."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from attrs import evolve
from tests.actions.test_consolidate import c1, scheduler

from batchsched import (
    CycleResult,
    Eviction,
    Move,
    Preemptible,
    Snapshot,
    TaskOutcome,
    TaskStatus,
)
from batchsched.testing import InvariantViolation, check_cycle


def moved(result: CycleResult, **change: object) -> CycleResult:
    return evolve(result, moves=[evolve(result.moves[0], **change)])


def with_outcome(result: CycleResult, uid: str, outcome: TaskOutcome) -> CycleResult:
    return evolve(result, tasks={**result.tasks, uid: outcome})


def check(snapshot: Snapshot, result: CycleResult, **arguments: object) -> None:
    config = scheduler(**arguments).config
    check_cycle(snapshot, result, config, invariants=["moves"])


def test_what_is_decided_is_right() -> None:
    result = scheduler().schedule(c1())
    assert result.moves
    check_cycle(c1(), result, scheduler().config)


@pytest.mark.parametrize(
    ("doctor", "found"),
    [
        (lambda r: evolve(r, moves=[*r.moves, *r.moves]), "moves 2 times"),
        (lambda r: moved(r, from_node="n2", to_node="n1"), "where it does not run"),
        (lambda r: moved(r, to_node="n1"), "which is no other node"),
        (lambda r: moved(r, to_node="n9"), "which is no other node"),
        (lambda r: moved(r, task_uid="ghost"), "is not in the snapshot"),
        (lambda r: evolve(r, kept_promises=()), "will not be promised in the next cycle"),
        (
            lambda r: with_outcome(
                r, "a-1", TaskOutcome(status=TaskStatus.RELEASING, node_name="n1")
            ),
            "which it is not promised",
        ),
        (lambda r: moved(r, for_task_uid="a-1"), "no task of another job"),
        (lambda r: moved(r, for_task_uid=None), "no task of another job"),
        (
            lambda r: with_outcome(r, "c-1", TaskOutcome(status=TaskStatus.PENDING)),
            "will not have what it needs",
        ),
        (
            lambda r: evolve(
                r,
                evictions=[
                    Eviction(task_uid="a-1", node_name="n1", action="preempt", for_task_uid="c-1")
                ],
            ),
            "moves and is evicted",
        ),
    ],
)
def test_what_was_tampered_with_is_found(
    doctor: Callable[[CycleResult], CycleResult], found: str
) -> None:
    result = scheduler().schedule(c1())
    with pytest.raises(InvariantViolation, match=found):
        check(c1(), doctor(result))


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"queue": "x"}, "of another queue"),
        ({"priority": 9}, "which is less important"),
        ({"preemptible": Preemptible.NEVER}, "is not preemptible"),
    ],
)
def test_who_may_not_move_is_found(change: dict[str, object], found: str) -> None:
    result = scheduler().schedule(c1())
    with pytest.raises(InvariantViolation, match=found):
        check(c1(a=change), result)


def test_too_many_are_found() -> None:
    result = scheduler().schedule(c1())
    another = Move(
        task_uid="b-1", from_node="n2", to_node="n1", action="consolidate", for_task_uid="c-1"
    )
    with pytest.raises(InvariantViolation):
        check(c1(), evolve(result, moves=[*result.moves, another]), maxMoves=1)
