"""The example plugins decide what their page says, and keep the laws of plugins."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from batchsched import (
    ActionOption,
    JobInfo,
    NodeInfo,
    PluginOption,
    Queue,
    Resource,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    TaskInfo,
    Tier,
    default_registry,
    next_snapshot,
)
from batchsched.testing import check_plain, check_plugin, snapshots

FOLDER = Path(__file__).parents[2] / "examples" / "plugins"


def example(name: str) -> ModuleType:
    specification = importlib.util.spec_from_file_location(f"example_{name}", FOLDER / f"{name}.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


NAMES = ("slots", "user_share", "smallest_queue", "one_block")
slots, user_share, smallest_queue, one_block = map(example, NAMES)


def deciding(name: str, plugin: Any, *, plain: bool) -> Scheduler:
    registry = default_registry()
    registry.register_plugin(name, plugin)
    config = SchedulerConfig(
        actions=[ActionOption(name="allocate")],
        tiers=[Tier(plugins=[PluginOption(name=name), PluginOption(name="gang")])],
    )
    return Scheduler(config, registry, plain=plain)


def job(name: str, request: Resource, **more: Any) -> JobInfo:
    tasks = [TaskInfo(uid=name, name=name, resreq=request)]
    return JobInfo(**{"name": name, "queue": "q", "tasks": tasks, **more})


def cluster(room: Resource, *jobs: JobInfo) -> Snapshot:
    return Snapshot(
        nodes=[NodeInfo(name="n1", allocatable=room)], queues=[Queue(name="q")], jobs=jobs
    )


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_none_is_longer_than_a_screen(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) < 80


@pytest.mark.parametrize("plain", [False, True])
def test_gpus_are_chosen_by_number(plain: bool) -> None:
    def asking(name: str, gpus: int) -> JobInfo:
        return job(name, Resource(milli_cpu=1000, scalars={slots.GPU: gpus * 1000}))

    using = deciding("gpus", slots.Gpus, plain=plain)
    room = Resource(milli_cpu=64_000, scalars={slots.GPU: 4000})
    before = cluster(room, asking("a", 1), asking("b", 2))
    result = using.schedule(before)
    assert [(bind.task_uid, bind.choices["gpus"]) for bind in result.binds] == [
        ("a", (0,)),
        ("b", (1, 2)),
    ]
    after = next_snapshot(before, result, new_jobs=[asking("c", 1)], now=1)
    assert [(bind.task_uid, bind.choices["gpus"]) for bind in using.schedule(after).binds] == [
        ("c", (3,))
    ]


@pytest.mark.parametrize("plain", [False, True])
def test_users_come_in_turn(plain: bool) -> None:
    one = Resource(milli_cpu=1000)
    names = (("a1", "ann"), ("a2", "ann"), ("a3", "ann"), ("b1", "bob"), ("b2", "bob"))
    jobs = [job(name, one, user=user) for name, user in names]
    result = deciding("users", user_share.UserShare, plain=plain).schedule(
        cluster(Resource(milli_cpu=4000), *jobs)
    )
    assert [bind.task_uid for bind in result.binds] == ["a1", "b1", "a2", "b2"]


@pytest.mark.parametrize("plain", [False, True])
def test_the_smallest_queue_by_weight_comes_next(plain: bool) -> None:
    one = Resource(milli_cpu=1000)
    jobs = [job(name, one, queue=name[0]) for name in ("a1", "a2", "a3", "b1", "b2", "b3")]
    snapshot = Snapshot(
        nodes=[NodeInfo(name="n1", allocatable=Resource(milli_cpu=5000))],
        queues=[Queue(name="a", weight=2), Queue(name="b")],
        jobs=jobs,
    )
    result = deciding("queues", smallest_queue.SmallestQueue, plain=plain).schedule(snapshot)
    assert [bind.task_uid for bind in result.binds] == ["a1", "b1", "a2", "a3", "b2"]


PLUGINS = {
    "gpus": slots.Gpus,
    "users": user_share.UserShare,
    "queues": smallest_queue.SmallestQueue,
    "blocks": one_block.OneBlock,
}
LABELS = {"block": ["a", "b"], "one-block": [""]}


@pytest.fixture(autouse=True)
def gpus_that_examples_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "GPU", "example.com/gpu")


@pytest.mark.parametrize("name", PLUGINS)
def test_they_keep_the_laws_of_plugins(name: str) -> None:
    examples = snapshots(always=["scalars"], constraints=False, affinity=False, labels=LABELS)
    check_plugin(PLUGINS[name], name=name, examples=examples, max_examples=25)


@pytest.mark.parametrize("name", PLUGINS)
def test_their_declarations_are_right(name: str) -> None:
    check_plain(PLUGINS[name], name=name, labels=LABELS, max_examples=25)
