"""Which victims of a node are taken, and what of it is freed."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import cast

import pytest
from attrs import evolve, frozen
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.books import Saying, opened
from tests.support.clusters import cluster, job, node
from tests.support.eviction import (
    PLUGINS,
    Amount,
    enough_by_the_rules,
    is_enough,
)

from batchsched import Resource, Session, Snapshot, TaskInfo, TaskStatus
from batchsched.action import EvictionScope, Fit, make_room
from batchsched.actions.eviction.choosing import (
    FreedResources,
    Shortfall,
    choose_units,
    fewest_units,
    members_of,
    room_with,
)
from batchsched.plugin import NodeState, TaskState, Verdict
from batchsched.state.vectors import fits, total_of
from batchsched.testing import snapshots

AMOUNTS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=6)


WANTED = st.tuples(st.integers(0, 8), st.integers(0, 8))


@frozen(eq=False)
class Victim:
    """What sparing reads of a task."""

    resreq: Amount
    is_backfill: bool = False
    uid: int = 0
    node: object = None


def victims_of_amounts(amounts: Sequence[Amount]) -> list[TaskState]:
    return cast("list[TaskState]", [Victim(of, uid=uid) for uid, of in enumerate(amounts)])


def taken(victims: Sequence[TaskState], wanted: Amount) -> list[TaskState] | None:
    """What is taken, one by one; the plain definition takes the same."""
    units = [[victim] for victim in victims]
    chosen = choose_units(units, cast("NodeState", None), lambda freed: freed.covers(wanted))
    fewest = fewest_units(units, lambda some: is_enough([one for (one,) in some], wanted))
    assert chosen == fewest
    return None if chosen is None else members_of(chosen)


# Sparing


@given(AMOUNTS, WANTED)
def test_no_proper_subset_of_what_is_taken_would_do(amounts, wanted) -> None:
    chosen = taken(victims_of_amounts(amounts), wanted)
    if chosen is None:
        assert not is_enough(victims_of_amounts(amounts), wanted)
        return
    assert is_enough(chosen, wanted)
    for size in range(len(chosen)):
        for subset in combinations(chosen, size):
            assert not is_enough(subset, wanted)


@given(AMOUNTS, WANTED)
def test_what_is_taken_are_the_first_in_their_order(amounts, wanted) -> None:
    victims = victims_of_amounts(amounts)
    chosen = taken(victims, wanted)
    if chosen is None:
        return
    positions = [victims.index(victim) for victim in chosen]
    assert positions == sorted(positions)
    shortest = next(n for n in range(len(victims) + 1) if is_enough(victims[:n], wanted))
    assert all(position < shortest for position in positions)


@given(AMOUNTS, WANTED)
def test_sparing_goes_from_the_last_taken_to_the_first(amounts, wanted) -> None:
    victims = victims_of_amounts(amounts)
    if not is_enough(victims, wanted):
        return
    kept = victims[: next(n for n in range(len(victims) + 1) if is_enough(victims[:n], wanted))]
    for victim in reversed(list(kept)):
        without = [other for other in kept if other is not victim]
        if is_enough(without, wanted):
            kept = without
    assert taken(victims, wanted) == kept


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), max_size=6), st.data())
def test_what_is_freed_is_what_the_victims_hold(held, data) -> None:
    victims = [cast("TaskState", Victim((of, 2 * of), is_backfill=mark)) for of, mark in held]
    freed = FreedResources(victims)
    added = FreedResources()
    for victim in victims:
        added.add(victim)
    gone = data.draw(st.sets(st.sampled_from(victims))) if victims else set()
    for victim in gone:
        freed.remove(victim)
        added.remove(victim)
    everything = sum(
        of for (of, _), victim in zip(held, victims, strict=True) if victim not in gone
    )
    for_good = sum(
        of
        for (of, mark), victim in zip(held, victims, strict=True)
        if victim not in gone and not mark
    )
    for total in (freed, added):
        assert total.covers((everything, 2 * everything))
        assert not total.covers((everything + 1, 0))
        assert total.covers_for_good((for_good, 2 * for_good))
        assert not total.covers_for_good((0, 2 * for_good + 1))


@pytest.mark.parametrize(
    ("amounts", "wanted", "expected"),
    [
        ([3, 1, 2], 3, [3]),
        ([1, 3], 3, [3]),  # the first turns out not to be needed
        ([1, 2, 3], 4, [1, 3]),
        ([1, 1], 3, None),
        ([], 0, []),
        ([5], 0, []),
    ],
)
def test_victims_by_example(amounts: list[int], wanted: int, expected: list[int] | None) -> None:
    found = taken(victims_of_amounts([(amount, 9) for amount in amounts]), (wanted, 0))
    assert (found if found is None else [victim.resreq[0] for victim in found]) == expected


@given(snapshots(), st.booleans(), st.integers(0, 99))
@settings(max_examples=100, deadline=None)
def test_enough_is_what_the_rules_call_enough(
    snapshot: Snapshot, may_use_idle: bool, subset: int
) -> None:
    session = opened(snapshot, PLUGINS)
    for of in session.nodes:
        running = [task for task in of.tasks.values() if task.status is TaskStatus.RUNNING]
        victims = [task for i, task in enumerate(running) if subset >> i & 1]
        for task in session.ledger.tasks.values():
            room = Shortfall(task, of, Fit.LATER, may_use_idle=may_use_idle)
            is_enough = enough_by_the_rules(task, of, victims, may_use_idle=may_use_idle)
            assert room.is_enough_with(victims) is is_enough
            if is_enough:
                # What is dismissed because of a bound is never enough.
                for held in (victims, running):
                    freed = total_of([each.resreq for each in held], session.ledger.dimensions.zero)
                    room_then = room_with(of, freed, may_use_idle=may_use_idle)
                    assert fits(task.init_resreq, room_then)


def crowded() -> Session:
    """A node of 9 cpu: 2 run, 2 run as backfill, 1 is released; 3 are promised, 1 is idle.

    idle 4, future_idle 4 + 1 - 1 = 4, eventual 4 + 1 + 2 - 1 - 3 = 3
    """
    leaving = job("x", "1C0G@n1")
    session = opened(
        cluster(
            [node("n1", "9C0G")],
            evolve(leaving, tasks=[evolve(leaving.tasks[0], status=TaskStatus.RELEASING)]),
            job("a", "2C0G@n1", "2C0G@n1*", "1C0G", "3C0G", "1C0G", minimum=9),
        ),
        ["priority"],
    )
    session.pipeline(session.task("a-3"), session.nodes[0])
    session.promise(session.task("a-4"), session.nodes[0])
    return session


def milli(cpu: int) -> tuple[int, int]:
    return cpu, 0


def asking(milli_cpu: int) -> TaskState:
    """A task that asks for so many thousandths of a cpu, and for nothing else."""
    info = TaskInfo(uid="asking", name="asking", resreq=Resource(milli_cpu=milli_cpu))
    return TaskState(info, None, milli(milli_cpu), milli(milli_cpu))


@pytest.mark.parametrize(
    ("request_", "freed", "may_use_idle", "expected"),
    [
        (3000, 0, True, True),
        (3001, 0, True, False),  # of what is there in the end
        (3001, 0, False, False),
        (6000, 3000, True, True),
        (6001, 3000, True, False),
        (3000, 2999, False, False),  # it lives on what its victims hold
        (3000, 3000, False, True),
    ],
)
def test_there_may_be_room_only_if_all_that_is_freed_would_be_enough(
    request_: int, freed: int, may_use_idle: bool, expected: bool
) -> None:
    on = crowded().nodes[0]
    room = room_with(on, milli(freed), may_use_idle=may_use_idle)
    assert fits(milli(request_), room) is expected


def test_there_may_be_room_only_if_it_is_enough_before_backfill_tasks_leave() -> None:
    session = opened(
        cluster([node("n1", "4C0G")], job("b", "2C0G@n1*", "2C0G@n1", minimum=1)), ["priority"]
    )
    (on,) = session.nodes  # nothing is idle, 2 are there in the end
    assert room_with(on, milli(1999), may_use_idle=True) == milli(1999)


@pytest.mark.parametrize(
    ("request_", "uids", "expected"),
    [
        (3000, [], True),
        (3001, [], False),
        (3001, ["a-2"], False),  # what it holds is there in the end already
        (5000, ["a-1"], True),
        (5001, ["a-1"], False),
        (5000, ["a-1", "a-2"], True),
        (5001, ["a-1", "a-2"], False),
    ],
)
def test_what_a_backfill_task_holds_is_no_room_for_good(
    request_: int, uids: list[str], expected: bool
) -> None:
    session = crowded()
    victims = [session.task(uid) for uid in uids]
    room = Shortfall(asking(request_), session.nodes[0], Fit.LATER)
    assert room.is_enough_with(victims) is expected


def test_without_victims_nothing_is_freed() -> None:
    session = opened(cluster([node("n1", "2C0G")], job("a", "1C0G@n1", minimum=1)), ["priority"])
    assert Shortfall(asking(1000), session.nodes[0], Fit.LATER).is_enough_with([])
    assert not Shortfall(asking(1001), session.nodes[0], Fit.LATER).is_enough_with([])


@pytest.mark.parametrize(
    ("scope", "point"),
    [(EvictionScope.OTHER_JOBS, "preemptable"), (EvictionScope.OTHER_QUEUES, "reclaimable")],
)
def test_plugins_are_told_who_claims_and_the_candidates_in_victim_order(
    scope: EvictionScope, point: str
) -> None:
    asked: list[tuple[str, list[str]]] = []

    def answer(claimant: TaskState, candidates: Sequence[TaskState]) -> list[Verdict]:
        asked.append((claimant.uid, [candidate.uid for candidate in candidates]))
        return [Verdict.VICTIM] * len(candidates)

    other = "q" if scope is EvictionScope.OTHER_JOBS else "r"
    session = opened(
        cluster(
            [node("n1", "2C2G")],
            job("a", "1C1G@n1", "1C1G@n1", minimum=1, queue=other),
            job("b", "1C1G"),
            queues=("q", "r"),
        ),
        [("own", Saying(**{point: answer}))],
    )
    with session.statement() as statement:
        task = session.task("b-1")
        assert make_room(session, statement, task, scope=scope, may_use_idle=True)
    assert asked[-1] == ("b-1", ["a-2", "a-1"])
    assert asked[:-1] == [("b-1", ["a-2"]), ("b-1", ["a-1"])]  # each alone first
