"""Laws that hold after every action of every cycle, whatever happens to a cluster."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.histories import (
    History,
    check_books,
    discarding_leaves_no_trace,
    no_node_takes_others_while_reserved,
)

from batchsched import Session
from batchsched.plugin import NodeState
from batchsched.state.vectors import fits, plus

pytestmark = pytest.mark.slow

SEEDS = range(30)
CYCLES = 12
slow = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.parametrize("seed", SEEDS)
def test_accounts_are_never_negative_and_reservations_fit_their_nodes(seed: int) -> None:
    History(Random(seed)).live(CYCLES, check_books)


@slow
@given(st.randoms(use_true_random=False), st.integers(1, 6))
def test_accounts_are_never_negative_in_any_history(random: Random, cycles: int) -> None:
    History(random).live(cycles, check_books)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_node_accepts_a_task_while_reserved_for_another(seed: int) -> None:
    with no_node_takes_others_while_reserved():
        History(Random(seed)).live(CYCLES, lambda _session, _action: None)


@slow
@given(st.randoms(use_true_random=False), st.integers(1, 6))
def test_no_node_accepts_a_task_while_reserved_in_any_history(random: Random, cycles: int) -> None:
    with no_node_takes_others_while_reserved():
        History(random).live(cycles, lambda _session, _action: None)


def test_a_discarded_statement_leaves_no_trace() -> None:
    with discarding_leaves_no_trace() as counted:
        for seed in SEEDS:
            History(Random(seed)).live(6, lambda _session, _action: None)
    assert counted[0] > len(SEEDS)  # otherwise nothing was shown


@slow
@given(st.randoms(use_true_random=False), st.integers(1, 4))
def test_a_discarded_statement_leaves_no_trace_in_any_history(random: Random, cycles: int) -> None:
    with discarding_leaves_no_trace():
        History(random).live(cycles, lambda _session, _action: None)


class BackfillWatch:
    """Watches that backfill starts nothing in room that others were promised."""

    def __init__(self) -> None:
        self.backfilled = 0
        self.beside_promises = 0
        self._decided = 0

    def __call__(self, session: Session, action: str) -> None:
        if action == "backfill":
            for bind in session.binds[self._decided :]:
                if bind.is_backfill:
                    self.backfilled += 1
                    self._check(session.node(bind.node_name))
        self._decided = len(session.binds)

    def _check(self, node: NodeState) -> None:
        # Nobody waits here for backfill tasks to leave, so that another one keeps nobody waiting.
        assert not any(node.conditional), node
        # What is being released is enough for those who wait for it, whoever stays.
        self.beside_promises += any(node.pipelined)
        assert fits(node.pipelined, plus(node.idle, node.releasing)), node


def test_a_backfill_task_never_delays_a_job_that_was_already_promised_its_resources() -> None:
    watch = BackfillWatch()
    for seed in range(40):
        History(Random(seed)).live(8, watch)
    assert watch.backfilled > 0  # otherwise nothing was shown


@slow
@given(st.randoms(use_true_random=False), st.integers(1, 6))
def test_a_backfill_task_never_delays_a_promised_job_in_any_history(
    random: Random, cycles: int
) -> None:
    History(random).live(cycles, BackfillWatch())
