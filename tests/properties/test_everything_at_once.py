"""Racks, devices, trees of queues, elastic gangs and promises at once, under all rules at once.

A sample here; `BATCHSCHED_NIGHTLY=1`, which `tasks.py nightly` sets, has 300 worlds.
"""

from __future__ import annotations

import os

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.closed_worlds import ORDERS, SHARES

from batchsched import ActionOption, PluginOption, Scheduler, SchedulerConfig, Snapshot, Tier
from batchsched.live import Cluster
from batchsched.testing import snapshots, with_devices

pytestmark = pytest.mark.slow

WORLDS = 300 if os.environ.get("BATCHSCHED_NIGHTLY") == "1" else 40
CYCLES = 3
USAGE = PluginOption(name="usage", arguments={"scope": "users"})
DRAWN = with_devices(
    snapshots(
        max_nodes=6,
        min_jobs=4,
        always=[
            *("running", "gangs", "crowded", "priorities"),
            *("topologies", "trees", "groups", "promises"),
        ],
        unknown_queues=False,
        invalid_jobs=False,
        constraints=False,
        holds=False,
        dependencies=False,
    )
)


def configured(share: str, order: str, *, usage: bool, threshold: bool) -> SchedulerConfig:
    """Whoever shares, with or without past use, and nodes reserved for those who starve."""
    config = SchedulerConfig.from_mapping({"actions": order, **SHARES[share]})
    if usage:
        first, *rest = config.tiers
        config = evolve(config, tiers=[Tier(plugins=[*first.plugins, USAGE]), *rest])
    if threshold:
        starving = ActionOption(name="allocate", arguments={"starvationThreshold": 60})
        actions = [starving if each.name == "allocate" else each for each in config.actions]
        config = evolve(config, actions=actions)
    return config


CONFIGS = st.builds(
    configured,
    st.sampled_from(sorted(SHARES)),
    st.sampled_from(ORDERS),
    usage=st.booleans(),
    threshold=st.booleans(),
)


@settings(max_examples=WORLDS)
@given(DRAWN, CONFIGS)
def test_law_from_scratch_plainly_living_and_from_json_all_is_decided_and_said_the_same(
    world: Snapshot, config: SchedulerConfig
) -> None:
    cluster = Cluster(world)
    living = Scheduler(config).attach(cluster)
    for number in range(CYCLES):
        snapshot = cluster.snapshot()
        result = living.schedule()
        assert Scheduler(config).schedule(snapshot) == result
        assert Scheduler(config).schedule(Snapshot.from_dict(snapshot.to_dict())) == result
        if not number:
            assert Scheduler(config, plain=True).schedule(snapshot) == result
        cluster.carry_out(result, at_once=number % 2 == 0)
