"""The best node is found in cells just as in a plain loop, and few nodes are scored."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import cast

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.placement.test_engine_equals_plain_loop import PARTS_IN_USE, All, EnginesOverOneLedger
from tests.support.books import Opens, configured
from tests.support.clusters import cluster, job, node
from tests.support.own_plugins import Own

from batchsched import (
    JobInfo,
    NodeInfo,
    PluginError,
    PluginOption,
    Resource,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    TaskStatus,
    default_registry,
)
from batchsched.placement import Fit, accepted_cells, indexed, node_cells, node_states
from batchsched.placement.indexed import IndexedPlacement
from batchsched.placement.linear_scan import LinearScanPlacement
from batchsched.plugin import NodeScore, Reads, ScoreCells, ScoreHints
from batchsched.session.opened_plugins import ConfiguredPlugin
from batchsched.session.session import Session
from batchsched.state.records import NodeState, TaskState
from batchsched.testing import configs, snapshots


@contextmanager
def everything_in_cells(most_states: int = 4096) -> Iterator[None]:
    """Let cells be used however few nodes and however many tasks of a class there are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(accepted_cells, "FEWEST_NODES", 0)
        patch.setattr(accepted_cells, "NODES_PER_GROUP", 0)
        patch.setattr(accepted_cells, "UNLIKE_FIRST", 0)
        patch.setattr(node_cells, "FEW", 1)
        patch.setattr(indexed, "ASKS_OF_CELLS", 1000)
        patch.setattr(node_states, "FEWEST_STATES", most_states)
        patch.setattr(node_states, "STATES_PER_NODE", 0)
        yield


@given(
    snapshots(min_nodes=4, max_nodes=16, min_jobs=4, max_jobs=12, max_tasks=5),
    configs(extra_plugins=[PluginOption(name="own")]),
    st.one_of(st.just(set[str]()), st.just({"idle", "capacity"}), PARTS_IN_USE),
    st.sampled_from([4, 4096]),
)
@settings(max_examples=30, deadline=None)
def test_a_cycle_decides_the_same_with_cells(
    snapshot: Snapshot, config: SchedulerConfig, parts: set[str], most_states: int
) -> None:
    registry = default_registry()
    registry.register_plugin("own", lambda _: Opens(partial(Own, parts)))
    expected = Scheduler(config, registry, placement=LinearScanPlacement).schedule(snapshot)
    with everything_in_cells(most_states):
        assert Scheduler(config, registry).schedule(snapshot) == expected


@pytest.fixture
def cells_everywhere() -> Iterator[None]:
    with everything_in_cells(most_states=16):
        yield


class EnginesWithCells(EnginesOverOneLedger):
    parts = ("idle", "capacity", "label", "many")


TestEnginesGiveTheSameAnswers = EnginesWithCells.TestCase
TestEnginesGiveTheSameAnswers.settings = settings(
    max_examples=8, stateful_step_count=15, deadline=None
)
TestEnginesGiveTheSameAnswers.pytestmark = pytest.mark.usefixtures("cells_everywhere")


class Uneven:
    """Scores that go up and down with what is idle, with many ties; bounds are mostly too high."""

    def __init__(self, weight: int) -> None:
        self.weight = weight

    def node_scores(self) -> Sequence[NodeScore]:
        return [
            NodeScore(
                score=lambda task, node: (7 * node.idle[0] // 1000 + task.resreq[0] // 1000) % 5,
                weight=self.weight,
                reads=Reads.ACCOUNTS,
                signature=lambda task: task.resreq[0] // 1000,
                hints=ScoreHints(
                    state=lambda node: node.idle[0],
                    cells=ScoreCells(
                        of_node=lambda node: (node.idle[0] // 1000 % 2, node.idle[0] // 2000),
                        highest=lambda task: (
                            lambda group, cells: [
                                4 + (cell + task.resreq[0] // 1000) % 2 for cell in cells
                            ]
                        ),
                    ),
                ),
            )
        ]


@given(
    cpus=st.lists(st.integers(0, 8), min_size=5, max_size=14),
    requests=st.lists(st.integers(0, 4), min_size=4, max_size=12),
    moves=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 50)), max_size=12),
    weight=st.integers(1, 2),
    most_states=st.sampled_from([4, 4096]),
)
@settings(max_examples=60, deadline=None)
def test_the_best_node_is_that_of_the_plain_loop_after_every_move(
    cpus: list[int],
    requests: list[int],
    moves: list[tuple[int, int]],
    weight: int,
    most_states: int,
) -> None:
    nodes = [node(f"n{number:02}", f"{cpu}C3G") for number, cpu in enumerate(cpus)]
    snapshot = cluster(nodes, job("j", *[f"{cpu}C1G" for cpu in requests], minimum=1))
    plugins = [
        *configured(["predicates"]),
        ConfiguredPlugin("own", 1, Opens(Uneven(weight))),
    ]
    with everything_in_cells(most_states):
        session = Session(snapshot, plugins, All)
        engines = session.placement
        assert isinstance(engines, All)
        for kind, choice in [(2, 0), *moves]:
            tasks = list(session.ledger.tasks.values())
            task = tasks[choice % len(tasks)]
            if kind < 2 and task.status is TaskStatus.PENDING:
                fitting = [n for n in session.nodes if n.fits_now(task.init_resreq)]
                if fitting:
                    session.allocate(task, fitting[choice % len(fitting)])
            elif task.status is TaskStatus.ALLOCATED:
                session.unallocate(task)
            for each in tasks:
                expected = engines.plain.best(each, Fit.NOW)
                assert engines.indexed.best(each, Fit.NOW) is expected


def sizes(count: int, *, every: Callable[[int], str] = lambda _: "16C64G") -> list[NodeInfo]:
    return [node(f"n{number:03}", every(number)) for number in range(count)]


def uneven(count: int) -> list[NodeInfo]:
    """Nodes of which no two have the same size."""
    return [
        evolve(each, allocatable=Resource(milli_cpu=8000 + 40 * number, memory=1 << 40))
        for number, each in enumerate(sizes(count))
    ]


def unlike(count: int) -> JobInfo:
    """A job whose tasks all ask for something else."""
    waits = job("j", *["1C1G"] * count, minimum=1)
    return evolve(
        waits,
        tasks=[
            evolve(
                task,
                resreq=Resource(milli_cpu=100 + 37 * number, memory=(1 << 30) + (7 * number << 20)),
            )
            for number, task in enumerate(waits.tasks)
        ],
    )


class Fullest:
    """Prefers nodes with little idle cpu, and counts the nodes that it scores."""

    def __init__(self, cells: ScoreCells | None) -> None:
        self.cells = cells
        self.scored = 0

    def node_scores(self) -> Sequence[NodeScore]:
        def values(task: TaskState) -> Callable[[Sequence[NodeState]], list[float]]:
            def score(nodes: Sequence[NodeState]) -> list[float]:
                self.scored += len(nodes)
                return [-node.idle[0] for node in nodes]

            return score

        return [
            NodeScore(
                score=lambda _task, node: -node.idle[0],
                reads=Reads.ACCOUNTS,
                signature=lambda _task: None,
                hints=ScoreHints(
                    state=lambda node: node.idle[0], specialise=values, cells=self.cells
                ),
            )
        ]


CELLS = ScoreCells(
    of_node=lambda node: (None, node.idle[0] // 500),
    highest=lambda _task: lambda _group, cells: [-500 * cell for cell in cells],
)


def scheduled(
    snapshot: Snapshot, own: object, engine: type[IndexedPlacement | LinearScanPlacement]
) -> object:
    registry = default_registry()
    registry.register_plugin("own", lambda _: Opens(own))
    policy = {"actions": "allocate", "tiers": [{"plugins": ["own", "gang"]}]}
    config = SchedulerConfig.from_mapping(policy, registry=registry)
    return Scheduler(config, registry, placement=engine).schedule(snapshot)


def test_for_unlike_tasks_few_nodes_are_scored() -> None:
    snapshot = cluster(uneven(250), unlike(100))
    with_cells, without = Fullest(CELLS), Fullest(None)
    expected = scheduled(snapshot, Fullest(None), LinearScanPlacement)
    assert scheduled(snapshot, without, IndexedPlacement) == expected
    assert scheduled(snapshot, with_cells, IndexedPlacement) == expected
    assert with_cells.scored < without.scored / 5


def test_cells_are_not_used_where_most_classes_are_placed_again() -> None:
    job_of = unlike(100)
    pairs = [
        evolve(task, resreq=job_of.tasks[number // 2].resreq)
        for number, task in enumerate(job_of.tasks)
    ]
    snapshot = cluster(uneven(250), evolve(job_of, tasks=pairs))
    scheduled(snapshot, own := Fullest(CELLS), IndexedPlacement)
    scheduled(snapshot, without := Fullest(None), IndexedPlacement)
    assert own.scored == without.scored


def test_cells_are_not_made_where_hardly_two_nodes_are_of_one_group() -> None:
    snapshot = cluster(sizes(250, every=lambda number: f"{16 + number}C64G"), unlike(30))
    each_its_own = evolve(CELLS, of_node=lambda node: (node.allocatable[0], 0))
    scheduled(snapshot, own := Fullest(each_its_own), IndexedPlacement)
    scheduled(snapshot, without := Fullest(None), IndexedPlacement)
    assert own.scored == without.scored


def test_a_cell_without_enough_idle_is_not_searched_even_if_it_once_had() -> None:
    """What is idle at most in a cell is found anew once as many changed as are in it."""
    with everything_in_cells():
        session = Session(
            cluster(sizes(3), job("j", *["8C1G"] * 3, "7C1G", minimum=1)),
            [*configured(["predicates"]), ConfiguredPlugin("own", 1, Opens(own := Fullest(CELLS)))],
            IndexedPlacement,
        )
        small = session.task("j-4")
        first, second, third = (session.task(f"j-{number}") for number in (1, 2, 3))
        for task in (first, second, third):
            best = session.placement.best(task, Fit.NOW)
            assert best is not None
            session.allocate(task, best)
        assert [node.idle[0] // 1000 for node in session.nodes] == [0, 8, 16]
        own.scored = 0
        assert session.placement.best(small, Fit.NOW) is session.nodes[1]
        assert own.scored == 1


@pytest.mark.parametrize(
    ("cells", "problem"),
    [
        (evolve(CELLS, of_node=lambda _: 5), "expected a hashable group and an integer, got 5"),
        (evolve(CELLS, of_node=lambda _: (([],), 5)), "unhashable"),
        (
            evolve(CELLS, of_node=lambda _: ([], 5)),
            "expected a hashable group and an integer, got ([], 5)",
        ),
        (
            evolve(CELLS, highest=lambda _: lambda _group, cells: []),
            "expected a finite number for each of 1 cells, got []",
        ),
        (
            evolve(CELLS, highest=lambda _: lambda _group, cells: [float("inf") for _ in cells]),
            "expected a finite number for each of 1 cells, got [inf]",
        ),
        (evolve(CELLS, highest=lambda _: lambda _group, _cells: None), "got None"),
        (evolve(CELLS, highest=lambda _: 1 / 0), "division by zero"),
    ],
)
def test_cells_that_make_no_sense_are_refused_and_their_plugin_named(
    cells: ScoreCells, problem: str
) -> None:
    with everything_in_cells(), pytest.raises(PluginError, match="'own', node_scores") as caught:
        scheduled(cluster(sizes(2), unlike(1)), Fullest(cells), IndexedPlacement)
    assert problem in str(caught.value)


def test_groups_without_nodes_are_not_asked_about() -> None:
    asked: set[int] = set()

    def bounds(_task: TaskState) -> Callable[[Hashable, Sequence[int]], Sequence[float]]:
        def of(group: Hashable, cells: Sequence[int]) -> Sequence[float]:
            asked.add(cast("int", group))
            return [0 for _ in cells]

        return of

    cells = ScoreCells(of_node=lambda node: (node.idle[0] // 1000, 0), highest=bounds)
    with everything_in_cells():
        session = Session(
            cluster(sizes(1), unlike(12)),
            [ConfiguredPlugin("own", 1, Opens(Fullest(cells)))],
            IndexedPlacement,
        )
        for task in list(session.ledger.tasks.values()):
            best = session.placement.best(task, Fit.NOW)
            assert best is not None
            asked.clear()
            session.allocate(task, best)
        session.placement.best(session.task("j-1"), Fit.NOW)
    assert len(asked) == 1


def test_a_score_with_a_negative_weight_is_not_bounded_from_above() -> None:
    class Opposite(Fullest):
        def node_scores(self) -> Sequence[NodeScore]:
            return [evolve(score, weight=-1) for score in super().node_scores()]

    snapshot = cluster(sizes(4, every=lambda number: f"{16 - number}C64G"), unlike(3))
    expected = scheduled(snapshot, Opposite(None), LinearScanPlacement)
    with everything_in_cells():
        assert scheduled(snapshot, Opposite(CELLS), IndexedPlacement) == expected
