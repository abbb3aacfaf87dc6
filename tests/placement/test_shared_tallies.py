"""SharedTallies: tallies of unlike tasks with equal constraints, like those of a plain loop."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.books import configured
from tests.support.clusters import cluster, job, node

from batchsched import JobInfo, NodeInfo, Resource, Snapshot, TaskInfo
from batchsched.placement import tallies as tallies_module
from batchsched.placement.indexed import IndexedPlacement
from batchsched.placement.linear_scan import LinearScanPlacement
from batchsched.session.session import Session
from batchsched.testing import snapshots


def expect_tallies_of_a_plain_loop(snapshot: Snapshot, plugins: Sequence[str]) -> None:
    session = Session(snapshot, configured(plugins), IndexedPlacement)
    plain = Session(snapshot, configured(plugins), LinearScanPlacement)
    for uid, task in session.ledger.tasks.items():
        assert session.placement.tally(task) == plain.placement.tally(plain.ledger.tasks[uid])


@given(snapshots(max_nodes=6), st.sampled_from([[], ["predicates"]]))
@settings(max_examples=60, deadline=None)
def test_unlike_tasks_get_the_tallies_of_a_plain_loop(
    snapshot: Snapshot, plugins: Sequence[str]
) -> None:
    expect_tallies_of_a_plain_loop(snapshot, plugins)


def test_shared_tallies_that_were_dropped_are_counted_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tallies_module, "MAX_SHARED_TALLIES", 1)
    requests = ["2C1G", "", "1C9G", "5C1G", "", "9C9G", "3C3G"]
    nodes = [node(f"n{size}", f"{size}C{9 - size}G") for size in range(1, 9)]
    snapshot = cluster(nodes, job("j", *requests))
    expect_tallies_of_a_plain_loop(snapshot, ["predicates"])


@pytest.mark.parametrize("wanted", [0.25, 0.3, 0.35, 0.4, 0.30000000000000004])
def test_amounts_that_are_not_whole_are_counted_exactly(wanted: float) -> None:
    sizes = [0.1, 0.2, 0.30000000000000004, 0.3, 0.4, 0.35]
    nodes = [
        NodeInfo(name=f"n{index}", allocatable=Resource(milli_cpu=size))
        for index, size in enumerate(sizes)
    ]
    tasks = [
        TaskInfo(uid=f"t{index}", name=f"t{index}", resreq=Resource(milli_cpu=size))
        for index, size in enumerate((0.5, wanted, wanted + 0.1))
    ]
    gang = JobInfo(name="j", queue="default", min_available=1, tasks=tasks)
    expect_tallies_of_a_plain_loop(cluster(nodes, gang), ["predicates"])
