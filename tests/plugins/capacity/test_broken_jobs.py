"""What capacity knows of jobs that are bound below their minimum."""

from __future__ import annotations

import pytest
from tests.support.books import opened, plugin_object
from tests.support.clusters import cluster, job, node

from batchsched import TaskStatus


@pytest.mark.parametrize("plain", [False, True])
def test_a_job_that_is_bound_below_its_minimum_is_broken_from_then_on(plain: bool) -> None:
    """Without gang every job counts as ready; no charge tells that its tasks were bound."""
    snapshot = cluster(
        [node("n1", "4C9G")],
        job("a", "1C1G@n1", "1C1G@n1"),
        job("b", "1C1G", "1C1G"),
    )
    session = opened(snapshot, ["predicates", "capacity"], plain=plain)
    coverage = plugin_object(session, "capacity").coverage
    leaf, b = 0, session.jobs["default/b"]
    with session.statement() as statement:
        statement.allocate(session.task("b-1"), session.node("n1"))
        [core] = coverage.units_of(leaf, b)
        assert (core.is_core, core.is_broken) == (True, False)
        statement.commit()
    assert session.task("b-1").status is TaskStatus.BINDING
    [core] = coverage.units_of(leaf, b)
    assert core.is_broken
    assert coverage.covers(leaf, core)
