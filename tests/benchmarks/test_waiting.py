"""The comparison of strategies against waiting runs, on a small cluster."""

import pytest
from benchmarks.waiting import STRATEGIES, Settings, simulate

pytestmark = pytest.mark.slow

SMALL = Settings(nodes=8, cycles=40, mean_duration=8, threshold=5)


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_strategy_is_simulated_and_always_comes_out_the_same(name):
    outcome = simulate(SMALL, STRATEGIES[name])
    assert outcome == simulate(SMALL, STRATEGIES[name])
    assert all(0 < part <= 1 for part in outcome.used.values())
    assert outcome.waits
    assert 0 <= outcome.lost < 1


def test_all_strategies_get_the_same_arrivals():
    numbers = {len(simulate(SMALL, actions).waits) for actions in STRATEGIES.values()}
    assert len(numbers) == 1
