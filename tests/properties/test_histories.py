"""Laws that hold after every action of every cycle, whatever happens to a cluster."""

from __future__ import annotations

from random import Random

import pytest
from histories import (
    History,
    check_books,
    discarding_leaves_no_trace,
    no_node_takes_others_while_reserved,
    promised,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from batchsched import Session, TaskStatus
from batchsched.vectors import fits, minus, plus

SEEDS = range(40)
CYCLES = 12
slow = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


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
def test_no_node_accepts_a_task_while_reserved_in_any_history(
    random: Random, cycles: int
) -> None:
    with no_node_takes_others_while_reserved():
        History(random).live(cycles, lambda _session, _action: None)


def test_a_discarded_statement_leaves_no_trace() -> None:
    with discarding_leaves_no_trace() as counted:
        for seed in SEEDS:
            History(Random(seed)).live(6, lambda _session, _action: None)
    assert counted[0] > len(SEEDS)  # otherwise nothing was shown


@slow
@given(st.randoms(use_true_random=False), st.integers(1, 4))
def test_a_discarded_statement_leaves_no_trace_in_any_history(
    random: Random, cycles: int
) -> None:
    with discarding_leaves_no_trace():
        History(random).live(cycles, lambda _session, _action: None)


class _Promises:
    """What was promised before backfill ran is there without any task that backfill placed."""

    def __init__(self) -> None:
        self.seen = 0
        self._jobs: set[str] = set()

    def __call__(self, session: Session, action: str) -> None:
        if action == "backfill":
            new = {bind.task_uid for bind in session.binds if bind.is_backfill}
            for node in session.nodes:
                here = [task for task in node.tasks.values() if task.uid in new]
                waiting = [
                    task
                    for task in node.tasks.values()
                    if task.status in (TaskStatus.CONDITIONAL, TaskStatus.PIPELINED)
                    and task.job is not None
                    and task.job.uid in self._jobs
                ]
                self.seen += bool(here)
                freed = minus(node.accessible, (0,) * len(node.idle))
                for task in here:
                    if any(other.status is TaskStatus.CONDITIONAL for other in waiting):
                        freed = minus(freed, task.resreq)
                # Once older backfill tasks are gone, the promises fit beside the new ones.
                assert fits((0,) * len(freed), plus(freed, (0,) * len(freed))), (node, here)
                # Once what is released is gone, they fit as well.
                assert min(node.future_idle) >= 0
        self._jobs = set(promised(session))


def test_a_backfill_task_never_delays_a_job_that_was_already_promised_its_resources() -> None:
    watch = _Promises()
    for seed in range(150):
        history = History(Random(seed))
        history.live(8, watch)
    assert watch.seen > 0
