"""The scheduler: plugins and actions of one's own, errors, and nothing kept or changed."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
from attrs import frozen
from hypothesis import given, settings

from batchsched import (
    ActionError,
    ActionOption,
    Arguments,
    ConfigError,
    CycleResult,
    PluginError,
    PluginOption,
    Registry,
    Scheduler,
    SchedulerConfig,
    Session,
    Snapshot,
    StatementError,
    Tier,
    Unfit,
    UnfitReason,
    default_registry,
    schedule,
)
from batchsched.action import Fit
from batchsched.actions.allocate import AllocateAction
from batchsched.plugin import (
    JobState,
    NodeScore,
    NodeState,
    Predicate,
    Reads,
    SessionView,
    TaskState,
    Verdict,
)
from batchsched.plugins.gang import GangPlugin
from batchsched.testing import configs, snapshots
from tests.support.clusters import bound, cluster, job, node

# A user's plugin and action, from end to end


@frozen
class ShortestFirst:
    """Orders jobs by a label's number, keeps tasks off nodes by name, prefers the last node."""

    label: str
    forbidden: str

    @classmethod
    def from_arguments(cls, arguments: Arguments) -> ShortestFirst:
        return cls(
            label=arguments.text("label", default="minutes"),
            forbidden=arguments.text("forbidden", default=""),
        )

    def open(self, view: SessionView, /) -> object:
        return _ShortestFirst(self, view)


class _ShortestFirst:
    def __init__(self, plugin: ShortestFirst, view: SessionView) -> None:
        self.plugin = plugin
        self.placed = 0
        self.last = len(view.nodes) - 1

    def job_order_key(self, job: JobState, /) -> int:
        return min(int(task.info.labels.get(self.plugin.label, 99)) for task in job.tasks)

    def predicates(self) -> Iterable[Predicate]:
        def check(_task: TaskState, of: NodeState) -> Unfit | None:
            if of.name != self.plugin.forbidden:
                return None
            return Unfit(UnfitReason.REFUSED_BY_PLUGIN, plugin="shortest", detail="forbidden")

        yield Predicate(check=check, reads=Reads.DESCRIPTION, signature=lambda _: None)

    def node_scores(self) -> Iterable[NodeScore]:
        yield NodeScore(
            score=lambda _task, of: of.index, reads=Reads.DESCRIPTION, signature=lambda _: None
        )

    def on_allocate(self, _task: TaskState, /) -> None:
        self.placed += 1

    def on_deallocate(self, _task: TaskState, /) -> None:
        self.placed -= 1

    def preemptable(
        self, _claimant: TaskState, candidates: Sequence[TaskState], /
    ) -> Sequence[Verdict]:
        return [Verdict.VICTIM] * len(candidates)


@frozen
class PlaceEverything:
    """An action: every pending task of every job in job order, at most so many."""

    at_most: int

    @classmethod
    def from_arguments(cls, arguments: Arguments) -> PlaceEverything:
        return cls(at_most=arguments.integer("atMost", default=100, minimum=0))

    def execute(self, session: Session, /) -> None:
        left = self.at_most
        for of in sorted(session.jobs.values(), key=session.plugins.job_order_key):
            for task in session.in_task_order(of.tasks):
                where = session.placement.best(task, Fit.NOW)
                if left and where is not None:
                    left -= 1
                    session.allocate(task, where)


def own_registry() -> Registry:
    registry = default_registry()
    registry.register_plugin("shortest", ShortestFirst.from_arguments)
    registry.register_action("everything", PlaceEverything.from_arguments)
    return registry


def labelled(name: str, minutes: str) -> object:
    from attrs import evolve  # noqa: PLC0415

    of = job(name, "2C1G")
    return evolve(of, tasks=[evolve(task, labels={"minutes": minutes}) for task in of.tasks])


def test_a_users_plugin_and_action_decide() -> None:
    config = SchedulerConfig.from_mapping(
        {
            "actions": [{"name": "everything", "arguments": {"atMost": "2"}}],
            "tiers": [{"plugins": [{"name": "shortest", "arguments": {"forbidden": "n3"}}]}],
        },
        registry=own_registry(),
    )
    snapshot = cluster(
        [node(f"n{i}", "2C2G") for i in (1, 2, 3)],
        labelled("a", "30"),
        labelled("b", "10"),
        labelled("c", "20"),
    )
    result = Scheduler(config, own_registry()).schedule(snapshot)
    assert bound(result) == {"b-1": "n2", "c-1": "n1"}


def test_what_was_made_to_check_a_configuration_is_what_decides() -> None:
    """A factory that fails the second time it is called cannot surprise anybody."""
    made: list[str] = []
    registry = default_registry()

    def once(name: str, thing: object) -> Callable[[Arguments], Any]:
        def make(_arguments: Arguments) -> object:
            assert name not in made
            made.append(name)
            return thing

        return make

    registry.register_plugin("mine", once("plugin", GangPlugin()))
    registry.register_action("own", once("action", AllocateAction()))
    config = SchedulerConfig(
        actions=[ActionOption(name="own")], tiers=[Tier(plugins=[PluginOption(name="mine")])]
    )
    Scheduler(config, registry)
    assert sorted(made) == ["action", "plugin"]


def test_a_users_plugin_stands_beside_the_others() -> None:
    config = SchedulerConfig(
        actions=[ActionOption(name="allocate"), ActionOption(name="preempt")],
        tiers=[
            Tier(plugins=[PluginOption(name="shortest"), PluginOption(name="gang")]),
            Tier(plugins=[PluginOption(name="predicates")]),
        ],
    )
    snapshot = cluster([node("n1", "2C2G")], job("a", "2C1G@n1", minimum=0), job("b", "2C1G"))
    result = Scheduler(config, own_registry()).schedule(snapshot)
    assert [(e.task_uid, e.action, e.for_task_uid) for e in result.evictions] == [
        ("a-1", "preempt", "b-1")
    ]
    assert [p.task_uid for p in result.pipelined] == ["b-1"]


def test_wrong_arguments_of_ones_own_plugin_are_found_when_the_scheduler_is_built() -> None:
    config = SchedulerConfig(
        actions=[ActionOption(name="everything", arguments={"atMost": -1})],
        tiers=[Tier(plugins=[PluginOption(name="shortest", arguments={"labl": "x"})])],
    )
    with pytest.raises(ConfigError) as caught:
        Scheduler(config, own_registry())
    assert [str(fault) for fault in caught.value.faults] == [
        "actions[0].arguments['atMost']: expected 0 or more, got -1",
        (
            "tiers[0].plugins[0].arguments['labl']: unknown argument; did you mean 'label'? "
            "known: forbidden, label"
        ),
    ]


# Errors


class Failing:
    """An action that raises what it is given."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def execute(self, session: Session, /) -> None:
        raise self.error


def failing(error: Exception) -> Scheduler:
    registry = default_registry()
    registry.register_action("bad", lambda _: Failing(error))
    return Scheduler(
        SchedulerConfig(actions=[ActionOption(name="allocate"), ActionOption(name="bad")]), registry
    )


def test_an_action_that_raises_is_named() -> None:
    with pytest.raises(ActionError) as caught:
        failing(ZeroDivisionError("by zero")).schedule(Snapshot())
    assert (caught.value.action, caught.value.problem) == ("bad", "ZeroDivisionError: by zero")
    assert str(caught.value) == "action 'bad': ZeroDivisionError: by zero"
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize(
    "error", [StatementError("misused"), PluginError("p", "open", "x"), ActionError("a", "y")]
)
def test_errors_of_batchsched_itself_come_out_as_they_are(error: Exception) -> None:
    with pytest.raises(type(error)) as caught:
        failing(error).schedule(Snapshot())
    assert caught.value is error


@pytest.mark.parametrize("made", [5, None, "x"])
def test_what_is_no_action_and_no_plugin_is_named(made: object) -> None:
    registry = default_registry()
    registry.register_action("bad", lambda _: made)  # type: ignore[arg-type, return-value]
    with pytest.raises(ConfigError, match=r"actions\[0\]: action 'bad': .* a method 'execute'"):
        Scheduler(SchedulerConfig(actions=[ActionOption(name="bad")]), registry)
    registry.register_plugin("worse", lambda _: made)  # type: ignore[arg-type, return-value]
    config = SchedulerConfig(tiers=[Tier(plugins=[PluginOption(name="worse")])])
    with pytest.raises(ConfigError, match=r"plugins\[0\]: plugin 'worse': .* a method 'open'"):
        Scheduler(config, registry)


def test_a_scheduler_that_failed_can_go_on() -> None:
    calls = []

    class Sometimes:
        def execute(self, session: Session, /) -> None:
            calls.append(session)
            if len(calls) == 1:
                raise KeyError(1)

    registry = default_registry()
    registry.register_action("sometimes", lambda _: Sometimes())
    config = SchedulerConfig(
        actions=[ActionOption(name="allocate"), ActionOption(name="sometimes")]
    )
    scheduler = Scheduler(config, registry)
    snapshot = cluster([node("n1", "2C2G")], job("a", "1C1G"))
    with pytest.raises(ActionError):
        scheduler.schedule(snapshot)
    assert bound(scheduler.schedule(snapshot)) == {"a-1": "n1"}


# What runs


def test_actions_run_in_configured_order_under_their_names() -> None:
    seen: list[str] = []

    class Noting:
        def execute(self, session: Session, /) -> None:
            seen.append(session.action_name)

    registry = default_registry()
    for name in ("one", "two"):
        registry.register_action(name, lambda _: Noting())
    actions = [ActionOption(name=name) for name in ("two", "one", "two")]
    Scheduler(SchedulerConfig(actions=actions), registry).schedule(Snapshot())
    assert seen == ["two", "one", "two"]


def test_without_actions_nothing_is_decided() -> None:
    snapshot = cluster([node("n1", "2C2G")], job("a", "1C1G"))
    result = Scheduler(SchedulerConfig(actions=[])).schedule(snapshot)
    assert result.binds == ()
    assert list(result.pending) == ["a-1"]


def test_without_plugins_everything_is_ready_and_nothing_protected() -> None:
    config = SchedulerConfig(tiers=[])
    snapshot = cluster([node("n1", "2C2G")], job("a", "1C1G", "1C1G", "1C1G", minimum=3))
    assert bound(Scheduler(config).schedule(snapshot)) == {"a-1": "n1", "a-2": "n1"}


def test_schedule_is_a_shorthand() -> None:
    snapshot = cluster([node("n1", "2C2G")], job("a", "1C1G"))
    config = SchedulerConfig(actions=[ActionOption(name="backfill")])
    assert schedule(snapshot) == Scheduler().schedule(snapshot)
    assert schedule(snapshot, config=config) == Scheduler(config).schedule(snapshot)
    assert schedule(snapshot).binds != schedule(snapshot, config=config).binds


def test_an_empty_snapshot_gives_an_empty_result() -> None:
    result = schedule(Snapshot())
    assert str(result) == ("0 bound, 0 evicted, 0 pipelined, 0 conditional, 0 reserved, 0 pending")


def test_open_runs_no_action() -> None:
    session = Scheduler().open(cluster([node("n1", "2C2G")], job("a", "1C1G")))
    assert session.binds == []
    assert session.task("a-1").node is None


# Laws


@given(snapshots(), configs())
@settings(max_examples=100, deadline=None)
def test_the_same_scheduler_decides_the_same_again_whatever_came_between(
    snapshot: Snapshot, config: SchedulerConfig
) -> None:
    scheduler = Scheduler(config)
    first = scheduler.schedule(snapshot)
    scheduler.schedule(cluster([node("n1", "9C9G")], job("a", "1C1G"), job("b", "1C1G@n1")))
    assert scheduler.schedule(snapshot) == first
    assert Scheduler(config).schedule(pickle.loads(pickle.dumps(snapshot))) == first


@given(snapshots(), configs())
@settings(max_examples=100, deadline=None)
def test_scheduling_leaves_its_snapshot_as_it_was(
    snapshot: Snapshot, config: SchedulerConfig
) -> None:
    before = pickle.dumps(snapshot)
    Scheduler(config).schedule(snapshot)
    assert pickle.dumps(snapshot) == before


@given(snapshots(), configs())
@settings(max_examples=100, deadline=None)
def test_the_books_are_sound_when_all_actions_have_run(
    snapshot: Snapshot, config: SchedulerConfig
) -> None:
    sessions: list[Session] = []

    class Check:
        def execute(self, session: Session, /) -> None:
            session.check()
            sessions.append(session)

    registry = default_registry()
    registry.register_action("check", lambda _: Check())
    actions = [option for action in config.actions for option in (action, CHECK)]
    config = SchedulerConfig(actions=actions, tiers=config.tiers)
    result = Scheduler(config, registry).schedule(snapshot)
    sessions[-1].check()
    assert {uid for uid, of in result.tasks.items() if of.status.value == "Binding"} >= {
        bind.task_uid for bind in result.binds
    }


CHECK = ActionOption(name="check")


def test_a_configuration_cannot_be_exchanged() -> None:
    scheduler = Scheduler()
    with pytest.raises(AttributeError):
        scheduler.config = SchedulerConfig(actions=[])  # type: ignore[misc]
    assert scheduler.config == SchedulerConfig()


def test_the_shorthand_takes_a_registry_and_names_what_it_takes() -> None:
    registry = default_registry()
    config = SchedulerConfig(actions=[ActionOption(name="nothing")])
    registry.register_action("nothing", lambda _: Nothing())
    assert schedule(Snapshot(), config=config, registry=registry) == CycleResult()
    with pytest.raises(TypeError, match="positional"):
        schedule(Snapshot(), config)  # type: ignore[misc]


class Nothing:
    def execute(self, session: Session, /) -> None:
        """Do nothing."""
