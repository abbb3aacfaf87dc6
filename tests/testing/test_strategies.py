"""What is drawn is valid, covers what was switched on, and shrinks to something readable."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest
from attrs import fields
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis.strategies import SearchStrategy

from batchsched import (
    JobInfo,
    NodeInfo,
    Preemptible,
    Queue,
    Resource,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    TaskInfo,
    TaskStatus,
    schedule,
)
from batchsched.testing import (
    configs,
    jobs,
    nodes,
    queues,
    resources,
    snapshots,
    tasks,
)

MANY = settings(
    max_examples=100,
    derandomize=True,
    # Explaining traces every line that runs, which takes ten times as long.
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
)
REACHES = settings(MANY, max_examples=2000, phases=[Phase.generate])

OFF: dict[str, bool] = dict.fromkeys(
    (
        *("gangs", "invalid_jobs", "priorities", "ages", "queues", "unknown_queues"),
        *("best_effort", "scalars", "init_requests", "constraints", "affinity", "running"),
        *("endings", "backfill", "reservations", "critical", "other_tasks", "crowded"),
        *("holds", "topologies", "devices", "protection"),
    ),
    False,
)


def all_tasks(snapshot: Snapshot) -> list[TaskInfo]:
    return [*(t for job in snapshot.jobs for t in job.tasks), *snapshot.other_tasks]


def names_unknown_queue(snapshot: Snapshot) -> bool:
    known = {queue.name for queue in snapshot.queues}
    return any(job.queue not in known for job in snapshot.jobs)


HAS: dict[str, Callable[[Snapshot], bool]] = {
    "gangs": lambda s: any(1 < job.min_available <= len(job.tasks) for job in s.jobs),
    "invalid_jobs": lambda s: any(job.min_available > len(job.tasks) for job in s.jobs),
    "priorities": lambda s: (
        len({job.priority for job in s.jobs}) > 1
        or len({task.priority for task in all_tasks(s)}) > 1
    ),
    "ages": lambda s: s.now > 0,
    "queues": lambda s: len({queue.weight for queue in s.queues}) > 1,
    "unknown_queues": names_unknown_queue,
    "best_effort": lambda s: any(task.is_best_effort for task in all_tasks(s)),
    "scalars": lambda s: (
        any(node.allocatable.scalars for node in s.nodes)
        or any(task.resreq.scalars for task in all_tasks(s))
    ),
    "init_requests": lambda s: any(
        task.init_resreq is not None or task.scoring_request is not None for task in all_tasks(s)
    ),
    "constraints": lambda s: (
        any(n.taints or n.conditions or n.max_tasks for n in s.nodes)
        or any(
            t.node_selector or t.node_affinity or t.tolerations or t.host_ports
            for t in all_tasks(s)
        )
    ),
    "affinity": lambda s: any(t.pod_affinity or t.pod_anti_affinity for t in all_tasks(s)),
    "running": lambda s: any(t.status is TaskStatus.RUNNING for t in all_tasks(s)),
    "endings": lambda s: any(
        t.status in (TaskStatus.SUCCEEDED, TaskStatus.RELEASING, TaskStatus.UNKNOWN)
        for t in all_tasks(s)
    ),
    "backfill": lambda s: any(t.is_backfill for t in all_tasks(s)),
    "reservations": lambda s: any(t.status is TaskStatus.RESERVED for t in all_tasks(s)),
    "critical": lambda s: any(
        t.namespace == "kube-system" or t.priority_class_name for t in all_tasks(s)
    ),
    "other_tasks": lambda s: bool(s.other_tasks),
    "holds": lambda s: any(job.holds or any(task.holds for task in job.tasks) for job in s.jobs),
    "topologies": lambda s: any(
        job.topology or any(group.topology for group in job.groups) for job in s.jobs
    ),
    "devices": lambda s: any(task.claims for task in all_tasks(s)),
    "protection": lambda s: (
        any(
            job.preemptible is not Preemptible.ALWAYS
            or not job.preempts
            or job.claim_delay is not None
            or job.evict_whole
            for job in s.jobs
        )
        or any(q.preempt_min_runtime or q.reclaim_min_runtime for q in s.queues)
    ),
}

TOGETHER: list[tuple[str, str]] = [
    ("topologies", "devices"),
    ("topologies", "protection"),
    ("devices", "protection"),
    ("devices", "holds"),
]


PROTECTED: dict[str, Callable[[Snapshot], bool]] = {
    "surplus": lambda s: any(job.preemptible is Preemptible.SURPLUS for job in s.jobs),
    "never": lambda s: any(job.preemptible is Preemptible.NEVER for job in s.jobs),
    "evicts nobody": lambda s: any(not job.preempts for job in s.jobs),
    "delay": lambda s: any(job.claim_delay for job in s.jobs),
    "whole": lambda s: any(job.evict_whole for job in s.jobs),
    "hard": lambda s: any(budget.hard for budget in s.budgets),
    "not hard": lambda s: any(not budget.hard for budget in s.budgets),
    "ledger": lambda s: bool(s.evictions),
    "runtime": lambda s: any(queue.reclaim_min_runtime for queue in s.queues),
    "cost": lambda s: any(task.eviction_cost for task in all_tasks(s)),
}


@pytest.mark.parametrize("what", PROTECTED)
def test_what_protects_is_drawn_where_it_is_asked_for(what: str) -> None:
    find(snapshots(protection=True, always=["protection"]), PROTECTED[what], settings=REACHES)


def test_it_is_not_drawn_where_it_is_off() -> None:
    @settings(MANY, max_examples=25)
    @given(snapshots(protection=False))
    def never(snapshot: Snapshot) -> None:
        assert not any(has(snapshot) for has in PROTECTED.values())

    never()


def smallest(wanted: Callable[[Snapshot], object]) -> Snapshot:
    """Return what an example shrinks to."""
    return find(
        snapshots(constraints=False, affinity=False, scalars=False, init_requests=False),
        lambda snapshot: bool(wanted(snapshot)),
        settings=settings(MANY, max_examples=2000),
    )


def simple_job(tasks: int) -> JobInfo:
    return JobInfo(
        name="j1",
        queue="q1",
        tasks=[
            TaskInfo(uid=uid, name=uid, resreq=Resource(milli_cpu=1000, memory=1 << 30))
            for uid in (f"j1-{number}" for number in range(1, tasks + 1))
        ],
    )


@pytest.mark.parametrize("feature", HAS)
class TestSwitches:
    def test_what_is_on_is_reached(self, feature: str) -> None:
        find(snapshots(), HAS[feature], settings=REACHES)

    def test_what_is_off_is_not_drawn(self, feature: str) -> None:
        switches: dict[str, Any] = {feature: False}

        @settings(MANY, max_examples=25)
        @given(snapshots(**switches))
        def never(snapshot: Snapshot) -> None:
            assert not HAS[feature](snapshot)

        never()

    @pytest.mark.slow
    def test_one_can_be_on_alone(self, feature: str) -> None:
        switches: dict[str, Any] = OFF | {feature: True}
        if feature == "endings":
            switches["running"] = True
        if feature == "invalid_jobs":
            switches["gangs"] = True
        find(snapshots(**switches), HAS[feature], settings=REACHES)


@pytest.mark.parametrize(("one", "other"), TOGETHER)
def test_rare_features_come_together(one: str, other: str) -> None:
    within = settings(MANY, max_examples=150, phases=[Phase.generate])
    find(snapshots(), lambda s: HAS[one](s) and HAS[other](s), settings=within)


def test_all_of_a_living_cluster_comes_at_once() -> None:
    """Racks, devices, a tree, a job that grows and a promise, in one cluster."""
    find(
        snapshots(always=["groups", "trees", "promises"]),
        lambda s: (
            HAS["topologies"](s)
            and HAS["devices"](s)
            and any(queue.parent for queue in s.queues)
            and any(job.groups or job.max_available is not None for job in s.jobs)
            and any(task.status is TaskStatus.PIPELINED for task in all_tasks(s))
        ),
        settings=REACHES,
    )


@pytest.mark.slow
class TestAlways:
    @pytest.mark.parametrize("feature", ["affinity", "scalars"])
    def test_features_become_more_frequent(self, feature: str) -> None:
        def count(strategy: SearchStrategy[Snapshot]) -> int:
            having = 0

            @settings(MANY, max_examples=100)
            @given(strategy)
            def collect(snapshot: Snapshot) -> None:
                nonlocal having
                having += HAS[feature](snapshot)

            collect()
            return having

        assert count(snapshots(always=[feature])) > count(snapshots())

    @pytest.mark.parametrize(
        ("switches", "said"),
        [
            ({"always": ["gang"]}, "always: 'gang' is not a switch"),
            ({"always": ["gangs"], "gangs": False}, "always: 'gangs' is off"),
        ],
    )
    def test_what_is_off_cannot_be_always_on(self, switches: dict[str, Any], said: str) -> None:
        with pytest.raises(ValueError, match=said):
            snapshots(**switches)


@pytest.mark.slow
class TestSnapshots:
    @MANY
    @given(snapshots())
    def test_they_survive_being_made_again(self, snapshot: Snapshot) -> None:
        parts = [each.name for each in fields(Snapshot) if each.init]
        again = Snapshot(**{part: getattr(snapshot, part) for part in parts})
        assert again == snapshot
        assert pickle.loads(pickle.dumps(snapshot)) == snapshot

    @settings(MANY, max_examples=40)
    @given(snapshots(min_nodes=0, max_nodes=2, max_queues=1, min_jobs=0, max_jobs=2, max_tasks=1))
    def test_they_keep_to_their_bounds(self, snapshot: Snapshot) -> None:
        assert len(snapshot.nodes) <= 2
        assert len(snapshot.queues) == 1
        assert len(snapshot.jobs) <= 2
        assert all(len(job.tasks) == 1 for job in snapshot.jobs)

    @settings(MANY, max_examples=50)
    @given(snapshots(min_nodes=3, max_nodes=3, min_jobs=2, min_tasks=2))
    def test_they_have_as_many_as_they_must(self, snapshot: Snapshot) -> None:
        assert len(snapshot.nodes) == 3
        assert len(snapshot.jobs) >= 2
        assert all(len(job.tasks) >= 2 for job in snapshot.jobs)

    def test_the_simplest_is_one_task_on_an_empty_node(self) -> None:
        simplest = find(snapshots(), lambda snapshot: True, settings=MANY)
        task = TaskInfo(uid="j1-1", name="j1-1", resreq=Resource(milli_cpu=1000, memory=1 << 30))
        assert simplest == Snapshot(
            nodes=[NodeInfo(name="n1", allocatable=Resource(milli_cpu=2000, memory=4 << 30))],
            queues=[Queue(name="q1")],
            jobs=[JobInfo(name="j1", queue="q1", tasks=[task])],
        )

    def test_what_waits_shrinks_to_one_node_and_few_tasks(self) -> None:
        found = smallest(lambda s: schedule(s).pending)
        assert len(found.nodes) == len(found.queues) == 1
        assert len(all_tasks(found)) <= 3
        assert found.other_tasks == ()

    def test_two_tasks_on_the_simplest_node_are_the_smallest_with_two_binds(self) -> None:
        assert smallest(lambda s: len(schedule(s).binds) > 1) == Snapshot(
            nodes=[NodeInfo(name="n1", allocatable=Resource(milli_cpu=2000, memory=4 << 30))],
            queues=[Queue(name="q1")],
            jobs=[simple_job(2)],
        )

    def test_what_waits_for_a_task_that_leaves_shrinks_to_one_node(self) -> None:
        found = smallest(lambda s: schedule(s).pipelined)
        assert len(found.nodes) == 1
        assert len(all_tasks(found)) <= 3
        assert any(task.status is TaskStatus.RELEASING for task in all_tasks(found))

    def test_what_is_evicted_shrinks_to_one_node(self) -> None:
        config = SchedulerConfig.from_mapping({"actions": "preempt"})
        found = smallest(lambda s: schedule(s, config=config).evictions)
        assert len(found.nodes) == 1
        assert len(all_tasks(found)) <= 4


class TestBounds:
    @settings(MANY, max_examples=30)
    @given(snapshots(min_nodes=5, min_jobs=7, min_tasks=6), jobs(min_tasks=5))
    def test_the_most_grows_with_the_fewest(self, snapshot: Snapshot, job: JobInfo) -> None:
        assert len(snapshot.nodes) == 5
        assert len(snapshot.jobs) == 7
        assert {len(job.tasks) for job in snapshot.jobs} == {6}
        assert len(job.tasks) == 5

    @pytest.mark.parametrize(
        ("milli_cpu", "memory", "scalar"), [(100, 1, 500), (0, 0, 0), (750, (1 << 30) + 1, 1500)]
    )
    def test_resources_reach_the_most_and_no_more(
        self, milli_cpu: int, memory: int, scalar: int
    ) -> None:
        drawn = resources(
            max_milli_cpu=milli_cpu, max_memory=memory, scalars=["gpu"], max_scalar=scalar
        )
        most = Resource(milli_cpu=milli_cpu, memory=memory, scalars={"gpu": scalar})

        @MANY
        @given(drawn)
        def keep(resource: Resource) -> None:
            assert resource.milli_cpu <= milli_cpu
            assert resource.memory <= memory
            assert resource.scalars.get("gpu", 0) <= scalar

        keep()
        find(drawn, lambda resource: most <= resource, settings=REACHES)

    @pytest.mark.parametrize(
        ("make", "faults"),
        [
            (
                lambda: snapshots(min_nodes=3, max_nodes=2, max_queues=0, min_jobs=-1),
                [
                    "max_nodes: expected at least min_nodes, which is 3, got 2",
                    "max_queues: expected an integer, 1 or more, got 0",
                    "min_jobs: expected an integer, 0 or more, got -1",
                ],
            ),
            (
                lambda: snapshots(always="gangs"),  # a string is a sequence of strings
                ["always: expected a collection such as a list, got 'gangs'"],
            ),
            (
                lambda: snapshots(always=["gang", "ages"], ages=False, max_tasks=-1),
                [
                    "max_tasks: expected at least min_tasks, which is 1, got -1",
                    "always: 'gang' is not a switch",
                    "always: 'ages' is off",
                ],
            ),
            (
                lambda: jobs(queues=[], min_tasks=3, max_tasks=2),
                [
                    "queues: is empty; there must be one at least",
                    "max_tasks: expected at least min_tasks, which is 3, got 2",
                ],
            ),
            (
                lambda: jobs(queues="q"),
                ["queues: expected a collection such as a list, got 'q'"],
            ),
            (
                lambda: resources(
                    scalars="gpu",
                    max_memory=1.5,  # type: ignore[arg-type]
                ),
                [
                    "max_memory: expected an integer, got 1.5",
                    "scalars: expected a collection such as a list, got 'gpu'",
                ],
            ),
            (
                lambda: resources(max_milli_cpu=0, may_be_empty=False, max_scalar=-1),
                [
                    "max_milli_cpu: expected an integer, 1 or more, got 0",
                    "max_scalar: expected an integer, 0 or more, got -1",
                ],
            ),
            (
                lambda: resources(scalars=["cpu", ""]),
                [
                    "scalars[1]: is empty",
                    (
                        "scalars['cpu']: expected the name of a scalar, other than cpu and "
                        "memory, got 'cpu'"
                    ),
                ],
            ),
            (
                lambda: configs(
                    actions="allocate",
                    extra_plugins="gang",  # type: ignore[arg-type]
                ),
                [
                    "actions: expected a collection such as a list or None, got 'allocate'",
                    "extra_plugins: expected a collection such as a list, got 'gang'",
                ],
            ),
            (
                lambda: configs(extra_plugins=["gang"]),  # type: ignore[list-item]
                ["extra_plugins[0]: expected a PluginOption, got 'gang'"],
            ),
            (lambda: configs(actions=[]), ["actions: is empty; there must be one at least"]),
            (
                lambda: configs(actions=["allocate", 3]),  # type: ignore[list-item]
                ["actions[1]: expected a string, got 3"],
            ),
        ],
    )
    def test_what_cannot_be_drawn_is_refused_at_once(
        self, make: Callable[[], object], faults: list[str]
    ) -> None:
        with pytest.raises(ValueError) as caught:  # noqa: PT011 - all of the message is checked
            make()
        assert str(caught.value).splitlines() == faults


class TestParts:
    @settings(MANY, max_examples=40)
    @given(resources(max_milli_cpu=2000, max_memory=2 << 30, scalars=["a/b"], may_be_empty=False))
    def test_resources_keep_to_their_bounds(self, resource: Resource) -> None:
        most = Resource(milli_cpu=2000, memory=2 << 30, scalars={"a/b": 4000})
        assert resource <= most
        assert not resource.is_empty()

    @settings(MANY, max_examples=40)
    @given(tasks(uid="t7", namespace="team"), jobs(name="j7", queues=["a", "b"]), nodes(name="n7"))
    def test_they_fit_together(self, task: TaskInfo, job: JobInfo, node: NodeInfo) -> None:
        snapshot = Snapshot(
            nodes=[node],
            queues=[Queue(name="a"), Queue(name="b")],
            jobs=[job, JobInfo(name="other", queue="a", tasks=[task])],
        )
        assert {task.uid for task in job.tasks} <= schedule(snapshot).tasks.keys() | {
            task.uid for each in snapshot.jobs for task in each.tasks
        }
        assert task.uid == "t7"
        assert job.name == "j7"
        assert node.name == "n7"
        assert all(task.status is TaskStatus.PENDING for task in job.tasks)

    @settings(MANY, max_examples=50)
    @given(queues(name="gold"), queues(weights=False))
    def test_queues_have_weights(self, queue: Queue, plain: Queue) -> None:
        assert queue.name == "gold"
        assert 1 <= queue.weight <= 4
        assert plain.weight == 1


class TestConfigs:
    @settings(MANY, max_examples=60)
    @given(configs())
    def test_a_scheduler_takes_them(self, config: SchedulerConfig) -> None:
        Scheduler(config)

    @settings(MANY, max_examples=40)
    @given(configs(actions=["allocate", "reserve"], arguments=False, flags=False))
    def test_they_keep_to_what_is_allowed(self, config: SchedulerConfig) -> None:
        assert {action.name for action in config.actions} <= {"allocate", "reserve"}
        assert not any(action.arguments for action in config.actions)
        default = {p.name: p.arguments for tier in SchedulerConfig().tiers for p in tier.plugins}
        usual = {p.name: p.flags for tier in SchedulerConfig().tiers for p in tier.plugins}
        for plugin in (plugin for tier in config.tiers for plugin in tier.plugins):
            assert plugin.flags in ({}, usual.get(plugin.name))
            assert plugin.arguments == default.get(plugin.name, {})

    def test_the_simplest_is_allocate_with_the_default_tiers(self) -> None:
        simplest = find(configs(), lambda config: True, settings=MANY)
        assert [action.name for action in simplest.actions] == ["allocate"]
        assert simplest.tiers == SchedulerConfig().tiers

    @pytest.mark.parametrize(
        "name", ["allocate", "backfill", "plan", "preempt", "reclaim", "reserve"]
    )
    def test_every_action_comes(self, name: str) -> None:
        find(
            configs(),
            lambda config: name in [action.name for action in config.actions],
            settings=REACHES,
        )

    @pytest.mark.parametrize(
        "name", ["capacity", "fcfs", "las", "proportion", "sjf", "sla", "usage"]
    )
    def test_every_plugin_comes(self, name: str) -> None:
        def is_it(config: SchedulerConfig) -> bool:
            return any(plugin.name == name for tier in config.tiers for plugin in tier.plugins)

        find(configs(), is_it, settings=REACHES)

    @pytest.mark.parametrize(
        "names",
        [
            ("allocate", "mine"),
            ("mine",),
            ("mine", "yours"),
            ("backfill", "preempt"),
            ("a", "b", "c", "d", "e"),
        ],
    )
    def test_every_named_action_comes(self, names: tuple[str, ...]) -> None:
        def find_all(which: set[str]) -> None:
            def is_it(config: SchedulerConfig) -> bool:
                return which <= {action.name for action in config.actions} <= set(names)

            find(configs(actions=names), is_it, settings=REACHES)

        for name in names:
            find_all({name})
        find_all(set(names))

    def test_actions_of_ones_own_come_before_and_after_others(self) -> None:
        drawn = configs(actions=["allocate", "mine"], arguments=False)
        for order in (["allocate"], ["allocate", "mine"], ["mine", "allocate"], ["mine"]):

            def is_it(config: SchedulerConfig, order: list[str] = order) -> bool:
                return [action.name for action in config.actions] == order

            find(drawn, is_it, settings=REACHES)
