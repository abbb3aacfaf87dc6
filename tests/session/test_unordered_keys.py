"""Keys that have no order are the fault of the plugin whose they are."""

from __future__ import annotations

import pytest
from tests.support.clusters import cluster, job, node

from batchsched import (
    ActionError,
    PluginError,
    Registry,
    Scheduler,
    SchedulerConfig,
    default_registry,
)

SNAPSHOT = cluster(
    [node("n1", "2C2G"), node("n2", "2C2G")],
    job("a", "1C1G", "0C0G"),
    job("b", "1C1G", "1C1G", "0C0G", "0C0G"),
    job("c", "1C1G", queue="r"),
    queues=("q", "r"),
)


def with_opened(opened: object) -> Registry:
    class Opens:
        def open(self, _view: object, /) -> object:
            return opened

    registry = default_registry()
    registry.register_plugin("mine", lambda _: Opens())
    return registry


def run(registry: Registry, actions: object) -> None:
    mapping = {"actions": actions, "tiers": [{"plugins": ["mine", "gang", "predicates"]}]}
    Scheduler(SchedulerConfig.from_mapping(mapping, registry=registry), registry).schedule(SNAPSHOT)


def rank(of: object) -> int | None:
    name = getattr(of, "uid", None) or of.name  # type: ignore[attr-defined]
    return None if name in ("default/b", "r", "b-1") else 1


@pytest.mark.parametrize("actions", ["allocate", "preempt", "reclaim", "backfill, allocate"])
@pytest.mark.parametrize(
    ("point", "said"),
    [
        ("job_order_key", "of job 'default/a' and job 'default/b', 1 and None, do not compare"),
        ("queue_order_key", "of queue 'q' and queue 'r', 1 and None, do not compare"),
        ("task_order_key", "do not compare: TypeError: '<' not supported"),
    ],
)
def test_keys_of_different_types_are_told_with_plugin_and_point(
    point: str, said: str, actions: str
) -> None:
    opened = type("Ranks", (), {point: lambda _self, of, *_: rank(of)})()
    with pytest.raises(PluginError) as caught:
        run(with_opened(opened), f"{actions}, allocate" if actions != "allocate" else actions)
    assert (caught.value.plugin, caught.value.extension_point) == ("mine", point)
    assert said in caught.value.problem


def test_keys_that_are_all_the_same_need_no_order() -> None:
    opened = type("Ranks", (), {"job_order_key": lambda _self, _of: None})()
    run(with_opened(opened), "allocate")


def test_an_action_that_fails_is_blamed_itself() -> None:
    class Fails:
        def execute(self, _session: object, /) -> None:
            raise TypeError("mine")

    registry = with_opened(type("Ranks", (), {"job_order_key": lambda _self, of: of.uid})())
    registry.register_action("fails", lambda _: Fails())
    with pytest.raises(ActionError, match="action 'fails': TypeError: mine"):
        run(registry, ["fails"])
