"""The report on evictions runs, on a small cluster."""

import pytest
from benchmarks.evictions import PLUGINS, QUEUES, Settings, simulate

SMALL = Settings(nodes=12, cycles=8)


@pytest.mark.slow
@pytest.mark.parametrize("plugin", PLUGINS)
def test_evictions_bring_every_queue_its_share_and_end(plugin):
    outcome = simulate(SMALL, plugin, "whole-job")
    assert outcome.evictions
    assert outcome.wasted == 0
    assert 0 < outcome.last_eviction < SMALL.cycles
    assert outcome.cycles_to_share is not None
    assert set(outcome.lacking) == {queue.name for queue in QUEUES}


def test_a_share_that_nobody_may_be_evicted_for_is_not_reached():
    """Jobs of the queues that have too much cannot spare so many tasks."""
    outcome = simulate(SMALL, "proportion", "protect")
    assert outcome.cycles_to_share is None
    assert max(outcome.lacking.values()) > 0.1


def test_a_share_that_is_not_reached_in_time_is_told():
    """The first cycle evicts, and nobody has started in the place of the victims yet."""
    outcome = simulate(Settings(nodes=12, cycles=1), "proportion", "whole-job")
    assert outcome.cycles_to_share is None
    assert outcome.last_eviction == 1
    assert max(outcome.lacking.values()) > 0
