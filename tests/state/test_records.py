"""The states of nodes: what is listed of them, and until when."""

from __future__ import annotations

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.books import opened
from tests.support.clusters import cluster, job, node

from batchsched import Resource, ScoringRequest, Session, TaskStatus
from batchsched.state.ledger import Ledger, audit


def session() -> Session:
    return opened(
        cluster(
            [node("n1", "9C9G")],
            job("a", "1C1G@n1", "2C1G@n1", minimum=1),
            job("b", "3C2G@n1", "1C1G", minimum=1, queue="r"),
            queues=("q", "r", "s"),
        ),
        ["gang"],
    )


def test_running_tasks_are_listed_by_queue() -> None:
    of = session()
    running = of.ledger.running_on(of.nodes[0])
    listed = {}
    for name, queue in of.queues.items():
        mine, others = running.of_queue(queue), running.of_other_queues(queue)
        listed[name] = (
            sorted(task.uid for task in mine),
            sorted(task.uid for task in others),
        )
    a, b = ["a-1", "a-2"], ["b-1"]
    assert [name for name, queue in of.queues.items() if running.has_any_of(queue)] == ["q", "r"]
    assert listed == {"q": (a, b), "r": (b, a), "s": ([], [*a, *b])}


def test_running_tasks_are_listed_once_until_the_node_changes() -> None:
    of = session()
    (on,) = of.nodes
    queue = of.queues["q"]
    running = of.ledger.running_on(on)
    assert of.ledger.running_on(on) is running
    of.evict(of.task("a-1"), claimant=of.task("b-2"))
    anew = of.ledger.running_on(on)
    assert anew is not running
    assert [task.uid for task in anew.of_queue(queue)] == ["a-2"]


@pytest.mark.parametrize(
    ("milli_cpu", "memory", "expected"),
    [(0, 0, True), (0.0, 0.0, True), (1, 0, False), (0, 1, False), (1, 1, False)],
)
def test_a_task_is_best_effort_if_it_asks_for_nothing(
    milli_cpu: float, memory: float, expected: bool
) -> None:
    one = job("a", "")
    asks = evolve(one.tasks[0], resreq=Resource(milli_cpu=milli_cpu, memory=memory))
    of = opened(cluster([node("n1", "1C1G")], evolve(one, tasks=[asks])), ["gang"])
    assert of.task("a-1").is_best_effort is expected


AMOUNTS = (0, 5, 7.0)


@pytest.mark.parametrize("milli_cpu", AMOUNTS)
@pytest.mark.parametrize("memory", AMOUNTS)
@pytest.mark.parametrize("scoring", [None, ScoringRequest(3, 4)])
def test_a_task_counts_in_scores_as_its_description_says(
    milli_cpu: float, memory: float, scoring: ScoringRequest | None
) -> None:
    one = job("a", "")
    asks = Resource(milli_cpu=milli_cpu, memory=memory)
    described = evolve(one.tasks[0], resreq=asks, scoring_request=scoring)
    of = opened(cluster([node("n1", "1C1G")], evolve(one, tasks=[described])), ["gang"])
    task, expected = of.task("a-1"), described.counts_in_scores()
    assert (task.scoring_milli_cpu, task.scoring_memory) == (expected.milli_cpu, expected.memory)


@given(
    st.lists(
        st.tuples(
            st.integers(0, 3),
            st.integers(0, 2),
            st.sampled_from([TaskStatus.RUNNING, TaskStatus.RELEASING, TaskStatus.PENDING]),
            st.booleans(),
            st.booleans(),
        ),
        max_size=10,
    )
)
@settings(max_examples=40, deadline=None)
def test_the_nodes_where_a_job_runs_are_those_of_its_running_tasks_after_every_move(moves) -> None:
    nodes = [node(f"n{number}", "9C9G") for number in range(3)]
    tasks = ["1C1G@n0", "1C1G@n0", "1C1G@n1", "1C1G"]
    ledger = Ledger(cluster(nodes, job("a", *tasks, minimum=1)))
    (mine,) = ledger.jobs.values()
    for which, place, status, is_backfill, is_asked in moves:
        where = None if status is TaskStatus.PENDING else ledger.nodes[place]
        ledger.move(mine.tasks[which], status, where, is_backfill=is_backfill)
        if is_asked:
            running = [each for each in mine.tasks if each.status is TaskStatus.RUNNING]
            assert set(mine.running_nodes()) == {each.node for each in running}
            audit(ledger)
