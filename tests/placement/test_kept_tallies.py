"""Tallies that are kept as nodes change, like those of a plain loop over all nodes."""

from __future__ import annotations

from random import Random

from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.books import configured, session_of
from tests.support.clusters import cluster, job

from batchsched import NodeInfo, Resource, TaskInfo, TaskStatus
from batchsched.placement.indexed import IndexedPlacement
from batchsched.placement.plain_loop import Evaluator, LinearScanPlacement
from batchsched.state.ledger import Ledger

AMOUNTS = (0, 1, 2, 3, 4, 5)
PLACED = (
    TaskStatus.ALLOCATED,
    TaskStatus.PIPELINED,
    TaskStatus.CONDITIONAL,
    TaskStatus.RESERVED,
)


def amounts(random: Random) -> Resource:
    return Resource(milli_cpu=random.choice(AMOUNTS), memory=random.choice(AMOUNTS))


def task_of(uid: str, random: Random) -> TaskInfo:
    return TaskInfo(uid=uid, name=uid, resreq=amounts(random))


@settings(max_examples=25)
@given(seed=st.integers(0, 2**32))
def test_law_kept_tallies_are_those_of_a_plain_loop_after_each_change(seed: int) -> None:
    random = Random(seed)
    nodes = [
        NodeInfo(name=f"n{number}", allocatable=amounts(random), max_tasks=random.choice((1, None)))
        for number in range(4)
    ]
    waiting = [task_of(f"w{number}", random) for number in range(8)]
    moving = [task_of(f"m{number}", random) for number in range(6)]
    jobs = [evolve(job(f"j-{task.uid}"), tasks=[task]) for task in (*waiting, *moving)]
    plain: list[LinearScanPlacement] = []

    def both(ledger: Ledger, evaluator: Evaluator) -> IndexedPlacement:
        plain.append(LinearScanPlacement(ledger, evaluator))
        return IndexedPlacement(ledger, evaluator)

    session = session_of(cluster(nodes, *jobs), configured(["predicates"]), both)
    for _ in range(12):
        for info in random.sample(moving, random.randrange(3)):
            task, there = session.task(info.uid), random.choice(session.nodes)
            status = random.choice(PLACED)
            if task.node is not None:
                session.ledger.move(task, TaskStatus.PENDING, None, is_backfill=False)
            elif there.fits(task):
                session.ledger.move(task, status, there, is_backfill=random.random() < 0.3)
        for info in random.sample(waiting, 5):
            task = session.task(info.uid)
            assert session.placement.tally(task) == plain[0].tally(task)
