"""Turns begin and end, some jobs may claim, and keys of jobs read what jobs share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence

import pytest
from attrs import evolve
from hypothesis import given, settings
from tests.support.books import Opens, Saying
from tests.support.clusters import cluster, job, node

from batchsched import (
    ActionOption,
    JobInfo,
    PluginError,
    PluginOption,
    Registry,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    TaskStatus,
    Tier,
    default_registry,
)
from batchsched.plugin import JobState, SessionView, TaskState
from batchsched.testing import configs, snapshots


class UserShares:
    """Jobs of the user who holds least come first, in each turn anew."""

    def __init__(self, view: SessionView) -> None:
        self.held = Counter[str]()
        for task in view.tasks.values():
            if task.status.charged:
                self.on_allocate(task)

    def job_order_key(self, job: JobState, /) -> int:
        return self.held[job.info.user]

    def job_order_shares(self, job: JobState, /) -> Hashable:
        return job.info.user

    def on_allocate(self, task: TaskState, /) -> None:
        if task.job is not None:
            self.held[task.job.info.user] += task.resreq[0]

    def on_deallocate(self, task: TaskState, /) -> None:
        if task.job is not None:
            self.held[task.job.info.user] -= task.resreq[0]


def of_user(name: str, user: str) -> JobInfo:
    return evolve(job(name, "1C1G"), user=user)


JOBS = [of_user(*each) for each in (("a", "x"), ("b", "x"), ("c", "x"), ("d", "y"), ("e", "y"))]


@pytest.mark.parametrize("plain", [False, True])
def test_users_take_turns(plain: bool) -> None:
    tiers = [Tier(plugins=[PluginOption(name="users"), PluginOption(name="gang")])]
    config = SchedulerConfig(actions=[ActionOption(name="allocate")], tiers=tiers)
    result = Scheduler(config, _registry(), plain=plain).schedule(
        cluster([node("n1", "4C4G")], *JOBS)
    )
    assert [bind.task_uid for bind in result.binds] == ["a-1", "d-1", "b-1", "e-1"]


class _Opening:
    def open(self, view: SessionView, /) -> UserShares:
        return UserShares(view)


def _registry() -> Registry:
    known = default_registry()
    known.register_plugin("users", lambda _arguments: _Opening())
    return known


@given(
    snapshots(max_jobs=8, max_nodes=3),
    configs(extra_plugins=[PluginOption(name="users")]),
)
@settings(max_examples=80, deadline=None)
def test_what_jobs_share_ranks_them_as_if_all_were_ranked_each_time(
    snapshot: Snapshot, config: SchedulerConfig
) -> None:
    fast = Scheduler(config, _registry()).schedule(snapshot)
    assert Scheduler(config, _registry(), plain=True).schedule(snapshot) == fast


def test_turns_begin_and_end_one_after_the_other() -> None:
    told: list[str] = []

    class Listens:
        def on_turn_begin(self, job: JobState, /) -> None:
            told.append(f"{job.uid} begins with {len(job.having(TaskStatus.BINDING))}")

        def on_turn_end(self, job: JobState, /) -> None:
            told.append(f"{job.uid} ends with {len(job.having(TaskStatus.BINDING))}")

    config = _config("allocate", "preempt")
    registry = default_registry()
    registry.register_plugin("own", lambda _: Opens(Listens()))
    Scheduler(config, registry).schedule(
        cluster([node("n1", "1C1G")], job("a", "1C1G"), job("b", "1C1G"))
    )
    assert told == [
        *("default/a begins with 0", "default/a ends with 1"),
        *("default/b begins with 0", "default/b ends with 0") * 2,
    ]


def _config(*actions: str, plugins: Sequence[str] = ("own", "priority", "gang")) -> SchedulerConfig:
    return SchedulerConfig(
        actions=[ActionOption(name=name) for name in actions],
        tiers=[Tier(plugins=[PluginOption(name=name) for name in plugins])],
    )


@pytest.mark.parametrize("action", ["preempt", "reclaim"])
@pytest.mark.parametrize("may", [False, True])
def test_only_who_may_claim_gets_a_turn(action: str, may: bool) -> None:
    queues = ["q"] if action == "preempt" else ["q", "r"]
    victims = [evolve(job(n, "1C1G@n1", minimum=0), queue=queues[-1]) for n in ("a", "b")]
    claimant = evolve(job("z", "1C1G"), priority=5)
    registry = default_registry()
    registry.register_plugin("own", lambda _: Opens(Saying(may_claim=lambda job: may)))
    plugins = ["own", "gang", "priority" if action == "preempt" else "proportion"]
    config = _config("allocate", action, plugins=plugins)
    result = Scheduler(config, registry).schedule(
        cluster([node("n1", "2C2G")], *victims, claimant, queues=queues)
    )
    assert bool(result.evictions) is may


def test_a_permission_is_a_bool() -> None:
    registry = default_registry()
    registry.register_plugin("own", lambda _: Opens(Saying(may_claim=lambda job: "yes")))
    with pytest.raises(PluginError, match="may_claim: expected a bool, got 'yes'"):
        Scheduler(_config("preempt"), registry).schedule(
            cluster([node("n1", "1C1G")], job("a", "1C1G"))
        )
