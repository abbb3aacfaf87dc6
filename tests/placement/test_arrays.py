"""What concerns only arrays; that the engine answers as on lists is tested beside it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterable

import numpy as np
import pytest
from attrs import evolve
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.support.books import Opens, session_of
from tests.support.clusters import cluster, job, node

from batchsched import (
    NodeAffinity,
    NodeSelectorTerm,
    PluginError,
    PluginOption,
    PreferredNodeTerm,
    Resource,
    Scheduler,
    SchedulerConfig,
    ScoringRequest,
    Snapshot,
    Tier,
    Unfit,
    UnfitReason,
    default_registry,
)
from batchsched.action import Fit
from batchsched.fast import VectorisedPlacement
from batchsched.placement import arrays, indexed
from batchsched.placement.arrays import ArrayRanking, ArrayTable
from batchsched.placement.indexed import IndexedPlacement
from batchsched.placement.plain_loop import LinearScanPlacement
from batchsched.placement.ranking import Table
from batchsched.plugin import (
    NodeScore,
    NodeState,
    Predicate,
    PredicateHints,
    Reads,
    ScoreHints,
    TaskState,
)
from batchsched.plugin.node_functions import NodeArrays, Numbers
from batchsched.plugins.nodeorder import NodeOrderPlugin
from batchsched.session.points import ConfiguredPlugin
from batchsched.state.vectors import LARGEST_IN_ARRAYS

AMOUNTS = st.integers(0, LARGEST_IN_ARRAYS - 1)


def agree(snapshot: Snapshot, registered: Callable[[], object] | None = None) -> None:
    """Assert that a cycle decides the same on arrays and in the plain loop."""
    registry = default_registry()
    config = SchedulerConfig()
    if registered is not None:
        registry.register_plugin("own", lambda _: Opens(lambda _view: registered()))
        own = Tier(plugins=[PluginOption(name="own")])
        config = evolve(config, tiers=[*config.tiers, own])
    expected = Scheduler(config, registry, plain={"engine"}).schedule(snapshot)
    assert Scheduler(config, registry, placement=VectorisedPlacement).schedule(snapshot) == expected


def some_cluster(nodes: int = 5, tasks: int = 8) -> Snapshot:
    return cluster(
        [node(f"n{i:02}", f"{4 + i % 3}C8G") for i in range(nodes)],
        job("j", *["1C1G"] * tasks, minimum=1),
    )


@given(
    capacity=st.tuples(AMOUNTS, AMOUNTS),
    used=st.tuples(AMOUNTS, AMOUNTS),
    more=st.tuples(AMOUNTS, AMOUNTS),
    weights=st.builds(
        NodeOrderPlugin,
        least_requested=st.integers(0, 2),
        most_requested=st.integers(0, 2),
        balanced_resource=st.integers(0, 2),
    ),
)
@example(
    capacity=(LARGEST_IN_ARRAYS - 1, LARGEST_IN_ARRAYS - 1),
    used=(0, 1),
    more=(LARGEST_IN_ARRAYS // 10, LARGEST_IN_ARRAYS // 5),
    weights=NodeOrderPlugin(most_requested=1),
)
@settings(max_examples=400, deadline=None)
def test_scores_on_arrays_are_exact_up_to_the_largest_amounts(
    capacity: tuple[int, int],
    used: tuple[int, int],
    more: tuple[int, int],
    weights: NodeOrderPlugin,
) -> None:
    waits = job("j", "1C1G", minimum=1)
    asks = evolve(waits.tasks[0], scoring_request=ScoringRequest(*more))
    size = Resource(milli_cpu=capacity[0], memory=capacity[1])
    snapshot = cluster([evolve(node("n1", "1C1G"), allocatable=size)], evolve(waits, tasks=[asks]))
    session = session_of(snapshot, [ConfiguredPlugin("nodeorder", 0, weights)], LinearScanPlacement)
    [one] = session.nodes
    one.scoring_milli_cpu, one.scoring_memory = used
    table = ArrayTable(session.ledger)
    for _, score in session.plugins.node_scores:
        task = session.task("j-1")
        assert score.hints.vectorise is not None
        on_arrays: object = score.hints.vectorise(task)(table.all())  # type: ignore[arg-type]
        assert isinstance(on_arrays, np.ndarray)
        assert on_arrays.tolist() == [score.score(task, one)]


@pytest.mark.parametrize("memory", [LARGEST_IN_ARRAYS - 1, LARGEST_IN_ARRAYS, 1 << 60])
def test_amounts_too_large_for_arrays_are_left_to_the_indexed_engine(memory: int) -> None:
    nodes = [
        evolve(node(f"n{i}", "4C8G"), allocatable=Resource(milli_cpu=4000, memory=memory - i))
        for i in range(4)
    ]
    agree(cluster(nodes, job("j", *["1C1G"] * 6, minimum=1)))


def test_sums_that_become_too_large_for_arrays_are_noticed_on_the_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(arrays, "FEW", 0)
    waits = job("j", *["1C1G"] * 30, minimum=1)
    huge = ScoringRequest(1, LARGEST_IN_ARRAYS // 4)
    tasks = [evolve(task, scoring_request=huge) for task in waits.tasks]
    nodes = [node(f"n{i}", "16C64G") for i in range(3)]
    snapshot = cluster(nodes, evolve(waits, tasks=tasks))
    agree(snapshot)
    session = Scheduler(placement=VectorisedPlacement).open(snapshot)
    place = session.placement
    for task in next(iter(session.jobs.values())).tasks:
        best = place.best(task, Fit.NOW)
        if best is not None:
            session.allocate(task, best)
    assert not isinstance(vars(place)["_table"], ArrayTable)


def test_tasks_that_count_for_too_much_are_left_to_the_indexed_engine() -> None:
    waits = job("j", *["1C1G"] * 5, minimum=1)
    huge = ScoringRequest(1 << 60, (1 << 60) + 1)
    tasks = [evolve(task, scoring_request=huge) for task in waits.tasks]
    agree(cluster([node(f"n{i}", "16C64G") for i in range(3)], evolve(waits, tasks=tasks)))


class _Largest:
    """Scores that floats cannot tell apart."""

    def node_scores(self) -> Iterable[NodeScore]:
        yield NodeScore(
            score=lambda _task, there: (1 << 60) + there.index,
            reads=Reads.ACCOUNTS,
            signature=lambda _task: None,
            hints=ScoreHints(
                vectorise=lambda _task: lambda nodes: nodes.tasks * 0 + float(1 << 60)
            ),
        )


@pytest.mark.parametrize("weight", [2**31, 2**32, 2**46, 2**62, 2**63, 2**80])
@pytest.mark.parametrize("name", ["leastrequested", "mostrequested", "balancedresource"])
def test_very_large_weights_decide_as_without_arrays(weight: int, name: str) -> None:
    nodes = [node("n0", "5C5G"), node("n1", "15C15G"), *(node(f"m{i}", "4C9G") for i in range(20))]
    snapshot = cluster(nodes, job("j", *["3C3G"] * 4, minimum=1))
    arguments = {f"{name}.weight": weight}
    tiers = [{"plugins": [{"name": "nodeorder", "arguments": arguments}]}]
    config = SchedulerConfig.from_mapping({"actions": "allocate", "tiers": tiers})
    expected = Scheduler(config, plain={"engine"}).schedule(snapshot)
    assert Scheduler(config, placement=VectorisedPlacement).schedule(snapshot) == expected


class _Heavy:
    def node_scores(self) -> Iterable[NodeScore]:
        for weight in (-(2**62), 2**31, 2**62):
            yield NodeScore(
                score=lambda _task, there: there.idle[0] // 1000,
                weight=weight,
                reads=Reads.ACCOUNTS,
                signature=lambda _task: None,
                hints=ScoreHints(
                    vectorise=lambda _task: lambda nodes: (nodes.idle[0] // 1000).astype(int)
                ),
            )


def test_scores_of_very_large_weights_decide_as_without_arrays() -> None:
    agree(some_cluster(nodes=20, tasks=40), _Heavy)


def test_scores_too_large_for_floats_are_left_to_the_indexed_engine() -> None:
    agree(some_cluster(), _Largest)


class _Without:
    """A predicate that cannot be asked on arrays."""

    def predicates(self) -> Iterable[Predicate]:
        yield Predicate(
            check=_not_two, reads=Reads.ACCOUNTS, signature=lambda task: task.info.namespace
        )


def _not_two(_task: TaskState, there: NodeState) -> Unfit | None:
    return Unfit(UnfitReason.REFUSED_BY_PLUGIN) if len(there.tasks) == 2 else None


def test_functions_without_arrays_are_left_to_the_indexed_engine() -> None:
    agree(some_cluster(nodes=20, tasks=40), _Without)


def test_one_task_with_a_preference_leaves_the_others_on_arrays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = job("picky", "1C1G", minimum=1)
    preferred = PreferredNodeTerm(weight=1, term=NodeSelectorTerm())
    picky = evolve(one.tasks[0], node_affinity=NodeAffinity(preferred=(preferred,)))
    plain = some_cluster(nodes=20, tasks=40)
    snapshot = evolve(plain, jobs=[*plain.jobs, evolve(one, tasks=[picky])])
    agree(snapshot)
    on_arrays: list[str] = []
    best_now = ArrayRanking.best

    def counted(self: ArrayRanking) -> int | None:
        on_arrays.append("asked")
        return best_now(self)

    monkeypatch.setattr(ArrayRanking, "best", counted)
    Scheduler(placement=VectorisedPlacement).schedule(snapshot)
    assert len(on_arrays) == 40


class _Wrong:
    def __init__(self, answer: Callable[[NodeArrays], object]) -> None:
        self._answer = answer

    def node_scores(self) -> Iterable[NodeScore]:
        answer: Callable[[NodeArrays], Numbers] = self._answer  # type: ignore[assignment]
        yield NodeScore(
            score=lambda _task, _node: 0,
            reads=Reads.ACCOUNTS,
            signature=lambda _task: None,
            hints=ScoreHints(vectorise=lambda _task: answer),
        )


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda nodes: 5, "expected an array with one number for each of 5 nodes, got 5"),
        (
            lambda nodes: nodes.allocatable,
            "expected an array with one number for each of 5 nodes, got ",
        ),
        (lambda nodes: nodes.max_tasks, "expected finite numbers, got "),
        (lambda nodes: nodes.max_tasks / 0.0 * 0, "expected finite numbers, got "),
        (lambda nodes: nodes.nothing, "has no attribute 'nothing'"),
    ],
    ids=["a number", "rows", "infinite", "no number", "raises"],
)
def test_a_wrong_answer_on_arrays_names_its_plugin(
    answer: Callable[[NodeArrays], object], message: str
) -> None:
    registry = default_registry()
    registry.register_plugin("wrong", lambda _: Opens(lambda _view: _Wrong(answer)))
    config = SchedulerConfig(tiers=[Tier(plugins=[PluginOption(name="wrong")])])
    with (
        np.errstate(all="ignore"),
        pytest.raises(PluginError, match=message) as caught,
    ):
        Scheduler(config, registry, placement=VectorisedPlacement).schedule(some_cluster())
    assert "plugin 'wrong'" in str(caught.value)
    assert "node_scores" in str(caught.value)


class _Fails:
    def predicates(self) -> Iterable[Predicate]:
        yield Predicate(
            check=lambda _task, _node: None,
            reads=Reads.ACCOUNTS,
            signature=lambda _task: None,
            hints=PredicateHints(vectorise=lambda task: 1 / 0),  # type: ignore[arg-type, return-value]
        )


def test_a_predicate_that_fails_to_be_made_for_arrays_names_its_plugin() -> None:
    registry = default_registry()
    registry.register_plugin("fails", lambda _: Opens(lambda _view: _Fails()))
    config = SchedulerConfig(tiers=[Tier(plugins=[PluginOption(name="fails")])])
    with pytest.raises(PluginError, match=r"plugin 'fails'.*predicates.*ZeroDivisionError"):
        Scheduler(config, registry, placement=VectorisedPlacement).schedule(some_cluster())


def test_the_table_is_written_anew_where_nodes_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "FEW", 0)
    snapshot = some_cluster(nodes=40, tasks=60)
    expected = Scheduler(placement=IndexedPlacement).schedule(snapshot)
    assert Scheduler(placement=VectorisedPlacement).schedule(snapshot) == expected


@pytest.mark.slow
def test_numpy_is_needed_for_nothing_else() -> None:
    program = (
        "import sys; sys.modules['numpy'] = None\n"
        "import batchsched\n"
        "assert batchsched.schedule(batchsched.Snapshot()).binds == ()\n"
        "try:\n"
        "    import batchsched.fast\n"
        "except ImportError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == (
        "batchsched.fast needs NumPy, which comes with the extra fast: pip install numpy\n"
    )


@pytest.mark.slow
def test_the_library_does_not_import_numpy_by_itself() -> None:
    program = "import sys, batchsched, batchsched.kubernetes; print('numpy' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"


@pytest.mark.parametrize("count", [63, 64])
def test_arrays_are_taken_where_there_are_enough_nodes(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[Table] = []
    best = ArrayRanking.best

    def noted(self: ArrayRanking) -> int | None:
        used.append(self._table)
        return best(self)

    monkeypatch.setattr(ArrayRanking, "best", noted)
    snapshot = some_cluster(nodes=count)
    result = Scheduler().schedule(snapshot)
    assert result == Scheduler(plain={"engine"}).schedule(snapshot)
    assert bool(used) is (count >= 64)


def test_without_numpy_many_nodes_are_kept_in_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = some_cluster(nodes=70)
    expected = Scheduler().schedule(snapshot)
    monkeypatch.setitem(sys.modules, "numpy", None)
    monkeypatch.delitem(sys.modules, "batchsched.placement.arrays")
    monkeypatch.setattr(indexed, "array_table", indexed.array_table.__wrapped__)
    assert Scheduler().schedule(snapshot) == expected
    assert "batchsched.placement.arrays" not in sys.modules
