"""IdleColumns: what is idle on all nodes, by dimension, as it is now."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from batchsched import Snapshot, TaskStatus
from batchsched.placement.equivalence_class import fit_check
from batchsched.placement.idle_columns import IdleColumns
from batchsched.state.ledger import Ledger
from batchsched.state.vectors import fits
from batchsched.testing import snapshots

MOVES = st.lists(
    st.tuples(
        st.integers(0, 30),
        st.integers(0, 9),
        st.sampled_from([TaskStatus.PENDING, TaskStatus.ALLOCATED, TaskStatus.RESERVED]),
        st.booleans(),
    ),
    max_size=8,
)


def takes(ledger: Ledger) -> set[tuple[int, str]]:
    """Return which tasks fit on which nodes, and may come."""
    return {
        (node.slot, task.uid)
        for node in ledger.nodes
        for task in ledger.tasks.values()
        if node.fits_now(task.init_resreq) and not node.is_closed
    }


def expect_it_is_so(
    ledger: Ledger, columns: IdleColumns, took: set[tuple[int, str]] | None = None
) -> set[tuple[int, str]]:
    known = len(columns.grown)
    columns.refresh()
    now = takes(ledger)
    if took is not None:
        assert {slot for slot, _ in now - took} <= set(columns.grown[known:])
    assert columns.diverging == {n.index for n in ledger.nodes if n.divergence_count}
    assert columns.reserved == {n.index for n in ledger.nodes if n.reserved_tasks}
    for task in ledger.tasks.values():
        request = task.init_resreq
        expected = [n.index for n in ledger.nodes if fits(request, n.idle)]
        assert columns.fitting(request) == expected
        backwards = [n.index for n in reversed(ledger.nodes)][::2]
        assert columns.fitting(request, backwards) == [i for i in backwards if i in expected]
        assert columns.fitting(request, []) == []
    return now


@given(snapshots(max_nodes=6), MOVES)
@settings(max_examples=100, deadline=None)
def test_columns_say_what_the_nodes_say_after_every_move(snapshot: Snapshot, moves) -> None:
    ledger = Ledger(snapshot)
    columns = IdleColumns(ledger.nodes, ledger.log.nodes, ledger.dimensions)
    took = expect_it_is_so(ledger, columns)
    for choice, place, status, mark in moves:
        movable = [
            task
            for task in ledger.tasks.values()
            if task.status in (TaskStatus.PENDING, TaskStatus.ALLOCATED, TaskStatus.RESERVED)
        ]
        if not movable:
            return
        task = movable[choice % len(movable)]
        ledger.move(task, TaskStatus.PENDING, None, is_backfill=mark)
        where = ledger.nodes[place % len(ledger.nodes)]
        if status is TaskStatus.RESERVED or (
            status is TaskStatus.ALLOCATED and where.fits_now(task.init_resreq)
        ):
            ledger.move(task, status, where, is_backfill=mark)
        if place % 2:  # several moves at once now and then
            took = expect_it_is_so(ledger, columns, took)
    expect_it_is_so(ledger, columns, took)


AMOUNT = st.one_of(st.integers(0, 3), st.sampled_from([0.05, 0.95, 1.05, 1.1]))


@given(
    st.integers(1, 5).flatmap(
        lambda size: st.tuples(st.tuples(*[AMOUNT] * size), st.tuples(*[AMOUNT] * size))
    )
)
def test_a_check_made_for_one_request_says_what_fits_says(drawn) -> None:
    request, there = drawn
    assert fit_check(request)(there) is fits(request, there)
