"""The placement engine gives, always, the very answers of a plain loop over all nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from tests.support.books import Opens, configured, session_of
from tests.support.clusters import cluster, job, node
from tests.support.engines import VectorisedPlacement, arrays
from tests.support.own_plugins import PARTS, WATCHED_PARTS, Own

from batchsched import (
    Arguments,
    PluginOption,
    Scheduler,
    SchedulerConfig,
    Session,
    Snapshot,
    Statement,
    TaskStatus,
    default_registry,
)
from batchsched.action import Fit, Placement
from batchsched.placement import indexed as indexed_module
from batchsched.placement import kinds, ranking
from batchsched.placement.indexed import IndexedPlacement
from batchsched.placement.kinds import Kind
from batchsched.placement.plain_loop import Evaluator, LinearScanPlacement
from batchsched.plugin import NodeState, TaskState
from batchsched.plugins.nodeorder import NodeOrderPlugin
from batchsched.session.points import ConfiguredPlugin
from batchsched.state.ledger import Ledger
from batchsched.testing import configs, snapshots

S = TaskStatus
ENGINES = (IndexedPlacement, VectorisedPlacement)
CHOICE = st.integers(0, 30)


# Whole cycles


@given(snapshots(), configs())
@settings(max_examples=250, deadline=None)
def test_a_cycle_decides_the_same_with_every_engine(
    snapshot: Snapshot, config: SchedulerConfig
) -> None:
    expected = Scheduler(config, plain={"engine"}).schedule(snapshot)
    for engine in ENGINES:
        assert Scheduler(config, placement=engine).schedule(snapshot) == expected


@given(snapshots(min_nodes=8, max_nodes=24, min_jobs=8, max_jobs=16, max_tasks=6), configs())
@settings(max_examples=40, deadline=None)
def test_a_cycle_on_more_nodes_than_are_looked_at_one_by_one_decides_the_same(
    snapshot: Snapshot, config: SchedulerConfig
) -> None:
    expected = Scheduler(config, plain={"engine"}).schedule(snapshot)
    for engine in ENGINES:
        assert Scheduler(config, placement=engine).schedule(snapshot) == expected


PARTS_IN_USE = st.sets(st.sampled_from(WATCHED_PARTS), min_size=1, max_size=4)


@given(
    snapshots(max_nodes=10, max_jobs=8),
    configs(extra_plugins=[PluginOption(name="own")]),
    st.one_of(PARTS_IN_USE, st.sets(st.sampled_from(PARTS), min_size=1, max_size=4)),
)
@settings(max_examples=200, deadline=None)
def test_a_cycle_with_predicates_and_scores_of_a_users_own_decides_the_same(
    snapshot: Snapshot, config: SchedulerConfig, parts: set[str]
) -> None:
    registry = default_registry()
    registry.register_plugin("own", lambda _: Opens(partial(Own, parts)))
    expected = Scheduler(config, registry, plain={"engine"}).schedule(snapshot)
    for engine in ENGINES:
        assert Scheduler(config, registry, placement=engine).schedule(snapshot) == expected


@given(snapshots(max_nodes=6), configs())
@settings(max_examples=60, deadline=None)
def test_a_cycle_decides_the_same_when_few_tables_are_kept(
    snapshot: Snapshot, config: SchedulerConfig
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(indexed_module, "MAX_KEPT_ENTRIES", 1)
        few = [Scheduler(config, placement=engine).schedule(snapshot) for engine in ENGINES]
    expected = Scheduler(config, plain={"engine"}).schedule(snapshot)
    assert few == [expected] * len(ENGINES)


@given(
    snapshots(min_nodes=6, max_nodes=16, min_jobs=4, max_jobs=10, max_tasks=4),
    configs(extra_plugins=[PluginOption(name="own")]),
    PARTS_IN_USE,
    st.sampled_from([0, 2, 8]),
)
@settings(max_examples=60, deadline=None)
def test_a_cycle_decides_the_same_where_only_nodes_with_keys_are_looked_at(
    snapshot: Snapshot, config: SchedulerConfig, parts: set[str], few: int
) -> None:
    registry = default_registry()
    registry.register_plugin("own", lambda _: Opens(partial(Own, parts)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kinds, "MANY", 1)
        patch.setattr(ranking, "FEW", few)
        patch.setattr(indexed_module, "FEW", few)
        patch.setattr(indexed_module, "SPARSE", few)
        with_keys = Scheduler(config, registry).schedule(snapshot)
    assert with_keys == Scheduler(config, registry, plain={"engine"}).schedule(snapshot)


# Single questions


class All:
    """All engines over one ledger."""

    plain: LinearScanPlacement
    indexed: IndexedPlacement
    vectorised: VectorisedPlacement

    def __init__(self, ledger: Ledger, evaluator: Evaluator) -> None:
        self.plain = LinearScanPlacement(ledger, evaluator)
        self.indexed = IndexedPlacement(ledger, evaluator)
        self.vectorised = VectorisedPlacement(ledger, evaluator)
        # A task knows its kind by number, and a session has but one engine.
        vars(self.vectorised)["_kinds"] = vars(self.indexed)["_kinds"]

    def expect_equal_answers(self, task: TaskState, nodes: Sequence[NodeState]) -> None:
        questions: dict[str, Callable[[Placement], object]] = {
            **{f"best {fit.value}": lambda p, fit=fit: p.best(task, fit) for fit in Fit},
            "first feasible": lambda p: p.first_feasible(task),
            "feasible": lambda p: list(p.feasible(task)),
            "ranked": lambda p: list(p.ranked(task)),
            "tally": lambda p: p.tally(task),
            "refusals": lambda p: [p.refusal(task, n) for n in nodes],
            "totals": lambda p: p.totals(task, [p.raw_scores(task, n) for n in nodes]),
        }
        for name, ask in questions.items():
            expected = ask(self.plain)
            assert ask(self.indexed) == expected, name
            assert ask(self.vectorised) == expected, f"{name}, on arrays"

    def __getattr__(self, name: str) -> object:  # the session may ask any
        return getattr(self.plain, name)


WEIGHTS = st.builds(
    NodeOrderPlugin,
    least_requested=st.integers(0, 3),
    most_requested=st.integers(0, 2),
    node_affinity=st.sampled_from([0, 1, 5]),
    pod_affinity=st.sampled_from([0, 1, 10]),
    balanced_resource=st.integers(0, 2),
)


class EnginesOverOneLedger(RuleBasedStateMachine):
    """Tasks come and go; after each change some questions are asked of all engines."""

    parts = PARTS
    session: Session
    statement: Statement | None

    @initialize(
        snapshot=snapshots(max_nodes=12, max_jobs=6),
        weights=WEIGHTS,
        own=st.sets(st.sampled_from(PARTS), max_size=3),
    )
    def open(self, snapshot: Snapshot, weights: NodeOrderPlugin, own: set[str]) -> None:
        plugins = [
            *configured(["gang", "drf", "proportion", "predicates"]),
            ConfiguredPlugin("nodeorder", 1, weights),
            ConfiguredPlugin("own", 1, Opens(partial(Own, own & set(self.parts)))),
        ]
        self.session = session_of(snapshot, plugins, All)
        self.statement = None

    def some(self, choice: int, *statuses: TaskStatus) -> TaskState | None:
        found = [
            task
            for task in self.session.ledger.tasks.values()
            if task.status in statuses
            and not task.is_held
            and task.job is not None
            and task.job.in_session
        ]
        return found[choice % len(found)] if found else None

    def where(self, choice: int, condition: Callable[[NodeState], bool]) -> NodeState | None:
        found = [node for node in self.session.nodes if condition(node)]
        return found[choice % len(found)] if found else None

    @property
    def target(self) -> Session | Statement:
        return self.session if self.statement is None else self.statement

    @rule(choice=CHOICE)
    def ask(self, choice: int) -> None:
        tasks = list(self.session.ledger.tasks.values())
        if tasks:
            engines = self.session.placement
            assert isinstance(engines, All)
            engines.expect_equal_answers(tasks[choice % len(tasks)], self.session.nodes)

    @rule()
    def ask_for_everything_that_waits(self) -> None:
        engines = self.session.placement
        assert isinstance(engines, All)
        for task in self.session.ledger.tasks.values():
            if task.status is S.PENDING:
                engines.expect_equal_answers(task, self.session.nodes)

    @rule(choice=CHOICE, place=CHOICE, mark=st.booleans())
    def allocate(self, choice: int, place: int, mark: bool) -> None:
        task = self.some(choice, S.PENDING)
        if task is not None:
            node = self.where(place, lambda n: n.fits(task))
            if node is not None:
                self.target.allocate(task, node, is_backfill=mark)

    @rule(choice=CHOICE)
    def allocate_on_the_best(self, choice: int) -> None:
        task = self.some(choice, S.PENDING)
        if task is not None:
            node = self.session.placement.best(task, Fit.NOW)
            if node is not None:
                self.target.allocate(task, node)

    @rule(choice=CHOICE, place=CHOICE)
    def pipeline(self, choice: int, place: int) -> None:
        task = self.some(choice, S.PENDING)
        if task is not None:
            node = self.where(place, lambda n: n.fits(task, Fit.LATER))
            if node is not None:
                self.target.pipeline(task, node)

    @rule(choice=CHOICE, place=CHOICE)
    def promise(self, choice: int, place: int) -> None:
        task = self.some(choice, S.PENDING)
        if task is not None:
            node = self.where(place, lambda n: n.fits(task, Fit.CONDITIONALLY))
            if node is not None:
                self.target.promise(task, node)

    @rule(choice=CHOICE, place=CHOICE)
    def reserve(self, choice: int, place: int) -> None:
        task = self.some(choice, S.PENDING)
        node = self.where(place, lambda _: True)
        if task is not None and node is not None:
            self.target.reserve(task, node)

    @rule(choice=CHOICE)
    def evict(self, choice: int) -> None:
        task = self.some(choice, S.RUNNING)
        if task is not None:
            self.target.evict(task, claimant=task)

    @rule(choice=CHOICE)
    def unallocate(self, choice: int) -> None:
        task = self.some(choice, S.ALLOCATED, S.PIPELINED, S.CONDITIONAL, S.RESERVED)
        if task is not None:
            self.target.unallocate(task)

    @precondition(lambda self: self.statement is None)
    @rule()
    def begin(self) -> None:
        self.statement = self.session.statement()

    @precondition(lambda self: self.statement is not None)
    @rule(choice=CHOICE)
    def rollback(self, choice: int) -> None:
        assert self.statement is not None
        self.statement.rollback(choice % (len(self.statement) + 1))

    @precondition(lambda self: self.statement is not None)
    @rule(commit=st.booleans())
    def end(self, commit: bool) -> None:
        assert self.statement is not None
        if commit:
            self.statement.commit()
        else:
            self.statement.discard()
        self.statement = None


TestEnginesGiveTheSameAnswers = EnginesOverOneLedger.TestCase
TestEnginesGiveTheSameAnswers.settings = settings(
    max_examples=80, stateful_step_count=25, deadline=None
)


@pytest.fixture
def through_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let even few changes be looked at through arrays."""
    monkeypatch.setattr(arrays, "FEW", 0)
    monkeypatch.setattr(ranking, "FEW", 0)


class TestEnginesGiveTheSameAnswersThroughArrays(TestEnginesGiveTheSameAnswers):
    """The same, with arrays for few changes too."""

    pytestmark = pytest.mark.usefixtures("through_arrays")


# Traps, each by itself


def choices(
    snapshot: Snapshot, *own: str, weights: NodeOrderPlugin | None = None
) -> tuple[All, Session]:
    plugins = [
        *configured(["predicates"]),
        ConfiguredPlugin("nodeorder", 1, weights or NodeOrderPlugin()),
        ConfiguredPlugin("own", 1, Opens(partial(Own, own))),
    ]
    session = session_of(snapshot, plugins, All)
    engines = session.placement
    assert isinstance(engines, All)
    return engines, session


def many_nodes(count: int = 12) -> Snapshot:
    return cluster(
        [node(f"n{i:02}", "4C8G") for i in range(count)], job("j", *["1C1G"] * 5, minimum=1)
    )


@pytest.mark.parametrize("asked", [1, 2, 3])
def test_scores_that_rounding_makes_equal_are_a_tie_like_any_other(asked: int) -> None:
    # 1e-17 more is nothing beside the normalised 0.6: the first of all nodes is the best.
    weights = NodeOrderPlugin(
        least_requested=0, node_affinity=0, pod_affinity=0, balanced_resource=0
    )
    engines, session = choices(many_nodes(), "tiny", "normalised", weights=weights)
    for task in session.ledger.tasks.values():
        for _ in range(asked):
            engines.expect_equal_answers(task, session.nodes)


def test_a_predicate_may_read_how_far_the_tasks_on_a_node_are() -> None:
    """The gang is bound after its last task was placed: only then may the last one join it."""
    gang, last = job("a", *["1C1G"] * 3), job("b", "1C1G")
    snapshot = cluster([node(f"n{number}", "9C9G") for number in range(3)], gang, last)
    registry = default_registry()
    registry.register_plugin("own", lambda _: Opens(partial(Own, ["settled"])))
    policy = {"actions": "allocate", "tiers": [{"plugins": ["own", "gang"]}]}
    config = SchedulerConfig.from_mapping(policy, registry=registry)
    results = [
        Scheduler(config, registry, placement=engine).schedule(snapshot)
        for engine in (LinearScanPlacement, IndexedPlacement, VectorisedPlacement)
    ]
    assert results[0].binds[-1].node_name == "n0"
    assert results[0] == results[1] == results[2]


def test_every_weight_of_nothing_leaves_the_first_node() -> None:
    weights = NodeOrderPlugin(
        least_requested=0, node_affinity=0, pod_affinity=0, balanced_resource=0
    )
    engines, session = choices(many_nodes(), weights=weights)
    task = session.task("j-1")
    for _ in range(3):
        engines.expect_equal_answers(task, session.nodes)
        assert engines.indexed.best(task, Fit.NOW) is session.nodes[0]


def test_without_nodes_there_is_no_answer() -> None:
    engines, session = choices(cluster([], job("j", "1C1G", "")))
    for task in session.ledger.tasks.values():
        engines.expect_equal_answers(task, session.nodes)
        assert engines.indexed.best(task, Fit.NOW) is None
        assert engines.indexed.tally(task).text == "0/0 nodes are available"


def test_arguments_of_nodeorder_may_be_zero() -> None:
    names = ("leastrequested", "mostrequested", "nodeaffinity", "podaffinity", "balancedresource")
    arguments = Arguments({f"{name}.weight": 0 for name in names})
    assert NodeOrderPlugin.from_arguments(arguments) == NodeOrderPlugin(
        least_requested=0, most_requested=0, node_affinity=0, pod_affinity=0, balanced_resource=0
    )


def test_who_reads_only_the_first_feasible_node_of_a_new_kind_examines_no_others() -> None:
    nodes = [node(f"n{number}", "4C4G", max_tasks=3) for number in range(9)]
    snapshot = cluster(nodes, job("j", "1C1G"))
    session = session_of(snapshot, configured(["predicates"]), IndexedPlacement)
    (task,) = session.jobs["default/j"].tasks
    with patch.object(Kind, "is_feasible", autospec=True) as is_feasible:
        is_feasible.side_effect = IS_FEASIBLE
        assert next(iter(session.placement.feasible(task))).name == "n0"
        assert is_feasible.call_count == 1
    expected = [f"n{number}" for number in range(9)]
    for _ in range(2):
        assert [of.name for of in session.placement.feasible(task)] == expected


IS_FEASIBLE = Kind.is_feasible
