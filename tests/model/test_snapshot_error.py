"""The error that has all faults of a snapshot."""

from __future__ import annotations

import pickle
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.snapshot_content import (
    TEN_FAULTS,
    TEN_LINES,
    faults_of,
)

from batchsched import BatchschedError, Fault, JobInfo, Queue, Snapshot, SnapshotError


class TestTheError:
    def test_all_faults_are_raised_at_once_one_line_each(self) -> None:
        with pytest.raises(SnapshotError) as caught:
            Snapshot(**TEN_FAULTS)
        assert str(caught.value).splitlines() == TEN_LINES
        assert [str(fault) for fault in caught.value.faults] == TEN_LINES
        assert len({line.partition(": ")[2] for line in TEN_LINES}) >= 10

    @given(st.randoms(use_true_random=False))
    def test_the_faults_do_not_depend_on_the_order_in_which_things_are_given(
        self, chance: random.Random
    ) -> None:
        shuffled = dict(TEN_FAULTS)
        for name in ("nodes", "jobs", "other_tasks"):
            shuffled[name] = chance.sample(TEN_FAULTS[name], len(TEN_FAULTS[name]))
        assert faults_of(shuffled) == TEN_LINES

    def test_it_carries_the_faults_as_data(self) -> None:
        with pytest.raises(SnapshotError) as caught:
            Snapshot(queues=[Queue(name="q", weight=-1)])
        message = "expected a weight (an integer, 0 or more), got -1"
        assert caught.value.faults == (Fault("queues['q'].weight", message),)

    def test_it_is_a_value_error_of_this_library(self) -> None:
        with pytest.raises(ValueError, match="weight") as caught:
            Snapshot(queues=[Queue(name="q", weight=-1)])
        assert isinstance(caught.value, BatchschedError)

    def test_it_can_be_pickled(self) -> None:
        with pytest.raises(SnapshotError) as caught:
            Snapshot(**TEN_FAULTS)
        again = pickle.loads(pickle.dumps(caught.value))
        assert type(again) is SnapshotError
        assert again.faults == caught.value.faults
        assert str(again) == str(caught.value)

    def test_a_fault_is_one_line_and_not_longer_than_it_must_be(self) -> None:
        class Table:
            def __repr__(self) -> str:
                return "row\n" * 1000

        class Unspeakable:
            def __repr__(self) -> str:
                raise RuntimeError("no")

        (fault,) = faults_of({"nodes": [Table()]})
        assert len(fault.splitlines()) == 1
        assert len(fault) < 500
        assert faults_of({"nodes": [Unspeakable()]}) == [
            ("nodes[0]: expected a NodeInfo, got <Unspeakable>")
        ]


def test_a_number_of_tasks_that_nobody_can_print_is_a_fault() -> None:
    with pytest.raises(SnapshotError, match=r"min_available: .* of at most 300 digits"):
        Snapshot(
            queues=[Queue(name="q")], jobs=[JobInfo(name="j", queue="q", min_available=10**5000)]
        )
