"""The report on moves runs, on a small cluster."""

import pytest
from attrs import evolve
from benchmarks.moves import (
    LOADS,
    PACKING,
    WHOLE,
    cramped,
    evictions_for,
    in_vain,
    loaded,
    many_tasks,
)

from batchsched.tools import FreeNodes, plan_moves


@pytest.mark.slow
def test_moves_free_what_evictions_take_from_somebody() -> None:
    snapshot = loaded(1 / 20, LOADS[1])
    plan = plan_moves(snapshot, FreeNodes(count=99, selector=WHOLE), config=PACKING)
    assert plan.gain
    lost = evictions_for(snapshot, plan.gain)
    assert lost.served == plan.gain
    assert lost.tasks >= lost.waiting > 0
    assert lost.gpus >= lost.gpus_waiting > 0
    # After the moves there is room for all of them, and nobody leaves for it.
    without = evictions_for(plan.apply(snapshot), plan.gain)
    assert (without.served, without.tasks) == (plan.gain, 0)


def test_the_goal_of_the_timed_plan_is_reached() -> None:
    assert plan_moves(many_tasks(1 / 50), FreeNodes(count=2)).reached


def test_consolidating_finds_nothing_for_those_whom_it_is_timed_for() -> None:
    result = in_vain(cramped(1 / 50))
    assert len(result.pending) == 2


def test_what_finds_something_is_not_timed_as_in_vain() -> None:
    snapshot = cramped(1 / 50)
    roomy = evolve(snapshot.nodes[0], name="roomy")
    with pytest.raises(AssertionError):
        in_vain(evolve(snapshot, nodes=[*snapshot.nodes, roomy]))
