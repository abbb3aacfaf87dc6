"""Shields: who would be protected even if nobody else were asked about."""

from __future__ import annotations

import pytest
from attrs import evolve
from hypothesis import given, settings
from tests.support.books import opened, plugin_object
from tests.support.clusters import cluster, job, node

from batchsched import Snapshot, TaskStatus
from batchsched.plugin import Verdict
from batchsched.testing import snapshots

PLUGINS = ("conformance", "gang", "priority", "proportion")


def expect_shields_to_be_the_verdicts_on_one(snapshot: Snapshot, name: str) -> list[bool]:
    """Return who is shielded, for all pairs."""
    of = opened(snapshot, [name])
    plugin = plugin_object(of, name)
    tasks = [task for task in of.ledger.tasks.values() if task.job is not None and task.job.queue]
    candidates = [task for task in tasks if task.status is TaskStatus.RUNNING]
    found: list[bool] = []
    for claimant in tasks:
        for point in ("preemptable", "reclaimable"):
            verdicts = getattr(plugin, point, None)
            if verdicts is not None:
                shielded = list(plugin.shielded(claimant, candidates))
                alone = [list(verdicts(claimant, [candidate])) for candidate in candidates]
                protected = [verdict == [Verdict.PROTECTED] for verdict in alone]
                if name == "proportion":  # what is covered comes and goes
                    assert all(p for s, p in zip(shielded, protected, strict=True) if s)
                else:
                    assert shielded == protected
                found.extend(shielded)
    return found


@pytest.mark.parametrize("name", PLUGINS)
def test_whoever_is_shielded_is_protected_alone(name: str) -> None:
    snapshot = cluster(
        [node("n1", "12C9G")],
        job("a", "5C1G@n1", "1C1G@n1", "3C1G@n1", "1C1G@n1*", minimum=3, priority=5),
        job("b", "1C1G@n1", "1C1G", minimum=1, queue="r"),
        job("c", "0C0G@n1", "0C0G@n1", minimum=1, namespace="kube-system", priority=9),
        job("d", *["2C1G"] * 9, minimum=1, queue="r"),
        queues=("q", "r"),
    )
    found = expect_shields_to_be_the_verdicts_on_one(snapshot, name)
    assert set(found) == {True, False}


@pytest.mark.parametrize("name", PLUGINS)
@given(snapshot=snapshots(max_jobs=5, max_nodes=3, constraints=False))
@settings(max_examples=25, deadline=None)
def test_that_is_so_in_any_cluster(name: str, snapshot: Snapshot) -> None:
    expect_shields_to_be_the_verdicts_on_one(snapshot, name)


@pytest.mark.parametrize("name", ["gang", "proportion"])
def test_tasks_of_no_job_are_not_shielded_by_what_jobs_need(name: str) -> None:
    waits = job("b", "1C1G")
    (daemon,) = job("o", "1C1G@n1").tasks
    of = opened(evolve(cluster([node("n1", "9C9G")], waits), other_tasks=[daemon]), [name])
    shielded = plugin_object(of, name).shielded(of.task("b-1"), [of.ledger.tasks["o-1"]])
    assert list(shielded) == [False]
