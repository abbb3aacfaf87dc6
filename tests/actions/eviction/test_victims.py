"""Evicting for a task: never more than is short, in victim order, or nothing at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import cast
from unittest.mock import patch

import pytest
from attrs import evolve, frozen
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.books import Saying, dump, opened
from tests.support.clusters import cluster, job, node
from tests.support.hints import WithHints

from batchsched import JobInfo, Snapshot, TaskStatus
from batchsched.actions.eviction import victims as make_room_module
from batchsched.actions.eviction.search import EvictionScope, make_room
from batchsched.actions.eviction.victims import (
    FreedResources,
    Shortfall,
    choose_units,
    evict_for,
    running_tasks,
    spare,
    take_until,
)
from batchsched.actions.preempt import PreemptAction
from batchsched.placement.indexed import IndexedPlacement
from batchsched.placement.linear_scan import LinearScanPlacement
from batchsched.plugin import Verdict
from batchsched.session.session import PlacementFactory, Session
from batchsched.session.victims import Victims
from batchsched.state.audit import audit
from batchsched.state.records import NodeState, TaskState
from batchsched.state.vectors import fits, plus
from batchsched.testing import snapshots

PLUGINS = ("priority", "gang", "conformance", "drf", "predicates", "proportion", "nodeorder")
AMOUNTS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=6)
WANTED = st.tuples(st.integers(0, 8), st.integers(0, 8))
Amount = tuple[int, int]


@frozen(eq=False)
class Victim:
    """What sparing reads of a task."""

    resreq: Amount
    is_backfill: bool = False


def victims_of_amounts(amounts: Sequence[Amount]) -> list[TaskState]:
    return cast("list[TaskState]", [Victim(of) for of in amounts])


def is_enough(taken: Sequence[TaskState], wanted: Amount) -> bool:
    """By counting everything anew."""
    return all(sum(of.resreq[d] for of in taken) >= wanted[d] for d in (0, 1))


def taken_until(amounts: Sequence[Amount], wanted: Amount) -> list[TaskState] | None:
    return take_until(victims_of_amounts(amounts), lambda freed: freed.covers(wanted))


# Sparing


@given(AMOUNTS, WANTED)
def test_no_proper_subset_of_what_is_taken_would_do(amounts, wanted) -> None:
    chosen = taken_until(amounts, wanted)
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
    chosen = take_until(victims, lambda freed: freed.covers(wanted))
    if chosen is None:
        return
    positions = [victims.index(victim) for victim in chosen]
    assert positions == sorted(positions)
    shortest = next(n for n in range(len(victims) + 1) if is_enough(victims[:n], wanted))
    assert all(position < shortest for position in positions)


@given(AMOUNTS, WANTED)
def test_sparing_goes_from_the_last_taken_to_the_first(amounts, wanted) -> None:
    victims = victims_of_amounts(amounts)
    kept = victims
    for victim in reversed(victims):
        without = [other for other in kept if other is not victim]
        if is_enough(without, wanted):
            kept = without
    if is_enough(victims, wanted):
        assert spare(victims, lambda freed: freed.covers(wanted)) == kept


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
    found = taken_until([(amount, 9) for amount in amounts], (wanted, 0))
    assert (found if found is None else [victim.resreq[0] for victim in found]) == expected


def test_each_victim_is_asked_for_twice_at_most() -> None:
    """Once when it is taken, and once when it might be spared."""
    for wanted in (200, 120, 1):
        asked: list[FreedResources] = []

        def is_enough(
            freed: FreedResources, wanted: int = wanted, asked: list[FreedResources] = asked
        ) -> bool:
            asked.append(freed)
            return freed.covers((wanted, 0))

        victims = victims_of_amounts([(1, 1)] * 200)
        with patch.object(make_room_module, "_sum_of", wraps=make_room_module._sum_of) as sums:
            found = take_until(victims, is_enough)
        assert found == victims[:wanted]
        assert len(asked) == 2 * wanted + 1
        assert sums.call_count <= 2


# Shortfall on a node


def enough_by_the_specification(
    task: TaskState, of: NodeState, victims: Sequence[TaskState], *, may_use_idle: bool
) -> bool:
    freed = unmarked = tuple(0 for _ in task.init_resreq)
    for victim in victims:
        freed = plus(freed, victim.resreq)
        if not victim.is_backfill:
            unmarked = plus(unmarked, victim.resreq)
    return (
        fits(task.init_resreq, plus(of.future_idle, freed))
        and fits(task.init_resreq, plus(of.eventual, unmarked))
        and (may_use_idle or fits(task.init_resreq, freed))
    )


@given(snapshots(), st.booleans(), st.integers(0, 99))
@settings(max_examples=100, deadline=None)
def test_enough_is_what_the_specification_calls_enough(
    snapshot: Snapshot, may_use_idle: bool, subset: int
) -> None:
    session = opened(snapshot, PLUGINS)
    for of in session.nodes:
        running = running_tasks(of, lambda _: True)
        victims = [task for i, task in enumerate(running) if subset >> i & 1]
        for task in session.ledger.tasks.values():
            room = Shortfall(task.init_resreq, of, may_use_idle=may_use_idle)
            assert room.is_enough_with(victims) is enough_by_the_specification(
                task, of, victims, may_use_idle=may_use_idle
            )


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
    assert (
        Shortfall(milli(request_), on, may_use_idle=may_use_idle).may_be_enough(milli(freed))
        is expected
    )


def test_there_may_be_room_only_if_it_is_enough_before_backfill_tasks_leave() -> None:
    session = opened(
        cluster([node("n1", "4C0G")], job("b", "2C0G@n1*", "2C0G@n1", minimum=1)), ["priority"]
    )
    (on,) = session.nodes  # nothing is idle, 2 are there in the end
    room = Shortfall(milli(2000), on, may_use_idle=True)
    assert not room.may_be_enough(milli(1999))
    assert room.may_be_enough(milli(2000))


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
    room = Shortfall(milli(request_), session.nodes[0], may_use_idle=True)
    assert room.is_enough_with(victims) is expected


def test_without_victims_nothing_is_freed() -> None:
    session = opened(cluster([node("n1", "2C0G")], job("a", "1C0G@n1", minimum=1)), ["priority"])
    assert Shortfall(milli(1000), session.nodes[0], may_use_idle=True).is_enough_with([])
    assert not Shortfall(milli(1001), session.nodes[0], may_use_idle=True).is_enough_with([])


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


def expected_room(
    session: Session,
    task: TaskState,
    nodes: Sequence[NodeState],
    is_candidate: Callable[[TaskState], bool],
    victims_of: Callable[[TaskState, Sequence[TaskState]], Victims],
    *,
    may_use_idle: bool,
) -> tuple[NodeState, list[TaskState]] | None:
    """Where and whom: the rules, word by word."""
    possible: list[tuple[NodeState, list[list[TaskState]], list[list[TaskState]]]] = []
    for of in nodes:
        candidates = session.in_victim_order(
            other
            for other in of.tasks.values()
            if other.status is TaskStatus.RUNNING
            and other.job is not None
            and other.job.in_session
            and is_candidate(other)
        )
        victims = victims_of(task, candidates)
        whole = [
            session.in_victim_order(other for other in job.tasks if other.status.occupies)
            for job in victims.whole_jobs
        ]
        possible.append((of, [[victim] for victim in victims.alone], whole))

    def chosen(of: NodeState, units: Sequence[list[TaskState]]) -> list[TaskState] | None:
        def is_enough(taken: Sequence[list[TaskState]]) -> bool:
            going = {one.uid: one for unit in taken for one in unit if one.node is of}
            return enough_by_the_specification(
                task, of, list(going.values()), may_use_idle=may_use_idle
            )

        taken: list[list[TaskState]] = []
        for unit in units:
            if is_enough(taken):
                break
            taken.append(unit)
        if not is_enough(taken):
            return None
        for unit in reversed(list(taken)):
            without = [other for other in taken if other is not unit]
            if is_enough(without):
                taken = without
        return list({one.uid: one for unit in taken for one in unit}.values())

    for of, alone, _ in possible:
        found = chosen(of, alone) if alone else None
        if found is not None:
            return of, found
    best: tuple[NodeState, list[TaskState]] | None = None
    for of, alone, whole in possible:
        found = chosen(of, [*alone, *whole]) if whole else None
        if found is not None and (best is None or len(found) < len(best[1])):
            best = of, found
    return best


def candidates_among(scope: EvictionScope, task: TaskState) -> Callable[[TaskState], bool]:
    mine = task.job
    assert mine is not None
    match scope:
        case EvictionScope.SAME_JOB:
            return lambda other: other.job is mine
        case EvictionScope.OTHER_JOBS:
            return lambda o: o.job is not mine and o.job is not None and o.job.queue is mine.queue
        case EvictionScope.ANY_OTHER_JOB:
            return lambda other: other.job is not mine
        case EvictionScope.OTHER_QUEUES:
            return lambda other: other.job is not None and other.job.queue is not mine.queue


OPERATIONS = st.lists(
    st.tuples(
        st.integers(0, 30),  # which task
        st.sampled_from(list(EvictionScope)),
        st.booleans(),  # may grow
        st.sampled_from(["commit", "discard", "go on", "undo"]),
    ),
    min_size=1,
    max_size=12,
)


def _anybody(_claimant: TaskState, candidates: Sequence[TaskState]) -> list[Verdict]:
    return [Verdict.VICTIM] * len(candidates)


SILENT = ("silent", Saying(preemptable=_anybody, reclaimable=_anybody))
"""Does not say what its verdicts read of the claimant, so that nothing can be remembered."""


WHOLE_GANG = ("gang", {"atMinimum": "whole-job"})
WHOLE = [WHOLE_GANG, *(name for name in PLUGINS if name != "gang")]


def _some_with_their_jobs(_claimant: TaskState, candidates: Sequence[TaskState]) -> list[Verdict]:
    odd = [sum(map(ord, candidate.uid)) % 3 for candidate in candidates]
    return [(Verdict.VICTIM, Verdict.WITH_JOB, Verdict.PASS)[number] for number in odd]


ODD = [
    (
        "odd",
        Saying(
            preemptable=_some_with_their_jobs,
            reclaimable=_some_with_their_jobs,
            claimant_key=lambda _: None,
        ),
    )
]


@given(
    snapshots(max_jobs=6, max_nodes=4, constraints=False)
    | snapshots(max_jobs=6, max_nodes=3, constraints=False, max_queues=2, always=["running"]),
    OPERATIONS,
    st.sampled_from(
        [PLUGINS, ["gang"], [*PLUGINS, SILENT], [SILENT], WHOLE, WHOLE, [WHOLE_GANG], ODD]
    ),
)
@settings(max_examples=600, deadline=None)
def test_searches_that_remember_find_what_searches_from_the_beginning_find(
    snapshot: Snapshot, operations, plugins
) -> None:
    remembering, plain = opened(snapshot, plugins), opened(snapshot, plugins)
    statements = [remembering.statement(), plain.statement()]
    for choice, scope, may_use_idle, end in operations:
        pending = [
            uid
            for uid, task in plain.ledger.tasks.items()
            if task.status is TaskStatus.PENDING
            and task.job is not None
            and task.job.in_session
            and not task.is_best_effort
        ]
        if not pending:
            break
        uid = pending[choice % len(pending)]
        before = [len(statement) for statement in statements]
        task = plain.task(uid)
        across = scope is EvictionScope.OTHER_QUEUES
        nodes = (
            list(plain.placement.feasible(task)) if across else list(plain.placement.ranked(task))
        )
        is_candidate = candidates_among(scope, task)
        victims_of = plain.reclaimable if across else plain.preemptable
        expected = expected_room(
            plain, task, nodes, is_candidate, victims_of, may_use_idle=may_use_idle
        )
        if expected is not None:
            evict_for(task, expected[1], expected[0], statements[1])
        also = make_room(
            remembering,
            statements[0],
            remembering.task(uid),
            scope=scope,
            may_use_idle=may_use_idle,
        )
        assert also is (expected is not None)
        assert dump(remembering) == dump(plain)
        if end == "undo":
            for statement, length in zip(statements, before, strict=True):
                statement.rollback(length)
        elif end != "go on":
            for statement in statements:
                getattr(statement, end)()
            statements = [remembering.statement(), plain.statement()]
        assert dump(remembering) == dump(plain)


@given(snapshots(), st.sampled_from(list(EvictionScope)), st.booleans())
@settings(max_examples=100, deadline=None)
def test_where_no_room_is_made_nothing_is_changed(
    snapshot: Snapshot, scope: EvictionScope, may_use_idle: bool
) -> None:
    session = opened(snapshot, PLUGINS)
    for task in session.ledger.tasks.values():
        if task.status is not TaskStatus.PENDING or task.job is None or not task.job.in_session:
            continue
        before = dump(session)
        with session.statement() as statement:
            made = make_room(session, statement, task, scope=scope, may_use_idle=may_use_idle)
            audit(session.ledger)
            if made:
                assert task.status is TaskStatus.PIPELINED
            else:
                assert len(statement) == 0
                assert dump(session) == before
        assert dump(session) == before


# By example


def session_of(*jobs, size: str = "4C9G") -> Session:
    nodes = [node("n1", size), node("n2", size)]
    return opened(cluster(nodes, *jobs), [("own", Saying(preemptable=_anybody))])


def whom(session: Session, uid: str, *, may_use_idle: bool = True) -> list[str]:
    with session.statement() as statement:
        make_room(
            session,
            statement,
            session.task(uid),
            scope=EvictionScope.OTHER_JOBS,
            may_use_idle=may_use_idle,
        )
        statement.commit()
    return [eviction.task_uid for eviction in session.evictions]


def test_the_least_valuable_go_first_and_only_as_many_as_needed() -> None:
    running = job("a", "1C1G@n1", "1C1G@n1", "1C1G@n1", minimum=1)
    assert whom(session_of(running, job("b", "3C1G")), "b-1") == ["a-3", "a-2"]


def test_one_large_victim_spares_the_small_ones_before_it() -> None:
    running = job("a", "2C1G@n1", "1C1G@n1", "1C1G@n1", minimum=1)
    assert whom(session_of(running, job("b", "2C1G")), "b-1") == ["a-3", "a-2"]
    running = job("a", "3C1G@n1", "1C1G@n1", minimum=1)
    assert whom(session_of(running, job("b", "3C1G")), "b-1") == ["a-1"]


def test_evictions_come_in_victim_order() -> None:
    running = job("a", *["1C1G@n1"] * 4, minimum=1)
    assert whom(session_of(running, job("b", "4C1G")), "b-1") == ["a-4", "a-3", "a-2", "a-1"]


def test_a_claimant_that_may_not_grow_lives_on_what_its_victims_held() -> None:
    running = job("a", "1C1G@n1", "1C1G@n1", minimum=1)
    assert whom(session_of(running, job("b", "3C1G")), "b-1") == ["a-2"]
    assert whom(session_of(running, job("b", "2C1G")), "b-1", may_use_idle=False) == ["a-2", "a-1"]
    assert whom(session_of(running, job("b", "3C1G")), "b-1", may_use_idle=False) == []


def test_nobody_takes_what_another_was_promised() -> None:
    running = job("a", "2C1G@n1", "2C1G@n1", minimum=1)
    session = session_of(running, job("b", "2C1G"), job("c", "2C1G"), size="4C9G")
    assert whom(session, "b-1") == ["a-2"]
    assert whom(session, "c-1") == ["a-2", "a-1"]
    audit(session.ledger)


def test_what_the_share_does_not_reach_any_more_can_be_reclaimed() -> None:
    """r deserves 3 of 6 cpu: its gang of 3 is covered, until a job of more value takes it over."""
    snapshot = cluster(
        [node("n1", "4C0G"), node("n2", "2C0G")],
        job("gang", *["1C0G@n1"] * 3, priority=1, queue="r"),
        job("x", "1C0G@n1", queue="r"),
        job("y", "1C0G", priority=9, queue="r"),
        job("b", *["1C0G"] * 9, minimum=1),
        queues=("q", "r"),
    )
    session = opened(snapshot, [WHOLE_GANG, "proportion"])
    assert made_for(session, "b-1", EvictionScope.OTHER_QUEUES) == ["x-1"]
    assert made_for(session, "b-2", EvictionScope.OTHER_QUEUES) is None
    session.allocate(session.task("y-1"), session.node("n2"))
    assert made_for(session, "b-2", EvictionScope.OTHER_QUEUES) == ["gang-3", "gang-2", "gang-1"]


def test_making_room_says_whether_it_was_made_and_goes_from_node_to_node() -> None:
    """On n1 and n2 nobody is let go; n3 is the first that is enough."""
    safe = ("a-1", "a-2")

    def verdicts(_: TaskState, candidates: Sequence[TaskState]) -> list[Verdict]:
        return [Verdict.PROTECTED if c.uid in safe else Verdict.VICTIM for c in candidates]

    session = opened(
        cluster(
            [node(f"n{n}", "4C9G") for n in (1, 2, 3, 4)],
            job("a", "1C1G@n1", "1C1G@n2", "1C1G@n3", "1C1G@n4", minimum=1),
            job("b", "4C1G", "5C1G"),
        ),
        [("own", Saying(preemptable=verdicts))],
    )
    for uid, expected in (("b-1", ["a-3"]), ("b-2", None)):
        with session.statement() as statement:
            task = session.task(uid)
            made = make_room(
                session, statement, task, scope=EvictionScope.OTHER_JOBS, may_use_idle=True
            )
            assert made is (len(statement) > 0)
            evicted = [one.uid for one, _, _ in statement._claims]
        assert (evicted if made else None) == expected


# Whole jobs


def whole(*jobs: JobInfo, nodes: Sequence[str], queues: Sequence[str] = ("q",)) -> Session:
    named = [node(f"n{number}", size) for number, size in enumerate(nodes, start=1)]
    return opened(cluster(named, *jobs, queues=queues), [WHOLE_GANG, "priority"])


IMPORTANT = job("b", "2C0G", priority=9)


def test_surplus_goes_before_any_whole_job_on_whichever_node() -> None:
    session = whole(
        job("one", "2C0G@n1"),
        job("two", "2C0G@n2", "2C0G@n2", minimum=1, priority=5),
        IMPORTANT,
        nodes=["2C0G", "4C0G"],
    )
    assert made_for(session, "b-1", EvictionScope.OTHER_JOBS) == ["two-2"]


def test_the_fewest_tasks_go_and_the_first_node_wins_among_equals() -> None:
    session = whole(
        job("g", "2C0G@n1", "2C0G@n2", "2C0G@n4"),
        job("h", "1C0G@n2", "1C0G@n3"),
        job("k", "2C0G@n3", "2C0G@n4"),
        IMPORTANT,
        nodes=["2C0G", "3C0G", "3C0G", "4C0G"],
    )
    assert made_for(session, "b-1", EvictionScope.OTHER_JOBS) == ["k-2", "k-1"]
    session = whole(job("k", "2C0G@n2"), job("g", "2C0G@n1"), IMPORTANT, nodes=["2C0G", "2C0G"])
    assert made_for(session, "b-1", EvictionScope.OTHER_JOBS) == ["g-1"]


def test_a_job_is_spared_as_one_and_surplus_that_goes_with_it_anyway_is_counted_once() -> None:
    # The surplus task of g goes first and is not enough; then all of g is, which has it.
    session = whole(
        job("g", "1C0G@n1", "1C0G@n1", "1C0G@n2", minimum=2),
        IMPORTANT,
        nodes=["2C0G", "1C0G"],
    )
    assert made_for(session, "b-1", EvictionScope.OTHER_JOBS) == ["g-3", "g-2", "g-1"]
    # Both jobs are taken for 4 cpu; the last alone is enough, so the first is spared.
    session = whole(
        job("small", "1C0G@n1"),
        job("large", "4C0G@n1", priority=1),
        job("b", "4C0G", priority=9),
        nodes=["5C0G"],
    )
    assert made_for(session, "b-1", EvictionScope.OTHER_JOBS) == ["large-1"]


def test_what_is_found_for_one_is_found_anew_for_the_next() -> None:
    """Among many searches of one sort each takes the first of the nodes that are left."""
    count = 6
    session = whole(
        *(job(f"r{n}", f"2C0G@n{n}") for n in range(1, count + 1)),
        job("b", *["2C0G"] * (count + 1), minimum=1, priority=9),
        nodes=["2C0G"] * count,
    )
    found = [made_for(session, f"b-{n}", EvictionScope.OTHER_JOBS) for n in range(1, count + 2)]
    assert found == [*([f"r{n}-1"] for n in range(1, count + 1)), None]


def test_units_are_taken_in_order_and_spared_from_the_last() -> None:
    session = session_of(job("a", "1C0G@n1", "1C0G@n1", "2C0G@n1", "1C0G@n2", minimum=1))
    a1, a2, a3, a4 = (session.task(f"a-{n}") for n in (1, 2, 3, 4))
    on = session.nodes[0]

    def chosen(cpu: int, *units: list[TaskState]) -> list[str] | None:
        found = choose_units(units, on, lambda freed: freed.covers((cpu * 1000, 0)))
        return None if found is None else [task.uid for task in found]

    assert chosen(2, [a1], [a2], [a3]) == ["a-1", "a-2"]
    assert chosen(3, [a1], [a2], [a3]) == ["a-1", "a-3"]  # a-2 is spared before a-1
    assert chosen(2, [a1], [a4, a2]) == ["a-1", "a-4", "a-2"]
    assert chosen(2, [a1], [a1, a2, a4]) == ["a-1", "a-2", "a-4"]  # it goes with the rest
    assert chosen(3, [a1], [a4, a2]) is None  # what is elsewhere does not count
    assert chosen(0, [a1]) == []


@pytest.mark.parametrize("scope", [EvictionScope.OTHER_JOBS, EvictionScope.OTHER_QUEUES])
def test_room_that_is_there_without_victims_is_not_its_business(scope: EvictionScope) -> None:
    other = "q" if scope is EvictionScope.OTHER_JOBS else "r"
    say = Saying(**{scope.point: lambda _, candidates: [Verdict.PASS] * len(candidates)})
    session = opened(
        cluster(
            [node("n1", "2C2G")],
            job("a", "1C1G@n1", minimum=1, queue=other),
            job("b", "1C1G"),
            queues=("q", "r"),
        ),
        [("own", say)],
    )
    with session.statement() as statement:
        task = session.task("b-1")
        assert not make_room(session, statement, task, scope=scope, may_use_idle=True)
        assert len(statement) == 0


def test_a_node_without_enough_for_one_may_have_enough_for_the_next() -> None:
    """The gang f gives nothing; a-1 is too little for the first claimant."""
    session = opened(
        cluster(
            [node("n1", "4C4G")],
            job("f", "3C3G@n1", priority=-1),
            job("a", "1C1G@n1", minimum=0, priority=-1),
            job("large", "2C2G"),
            job("small", "1C1G"),
        ),
        ["priority", "gang"],
    )

    def made(uid: str) -> bool:
        with session.statement() as statement:
            task = session.task(uid)
            return make_room(
                session, statement, task, scope=EvictionScope.OTHER_JOBS, may_use_idle=True
            )

    for _ in range(2):
        assert [made(uid) for uid in ("large-1", "small-1")] == [False, True]


# What is remembered, by example


def made_for(session: Session, uid: str, scope: EvictionScope) -> list[str] | None:
    """Make room for a task, for good; return who was evicted, None if there was no room."""
    with session.statement() as statement:
        task = session.task(uid)
        if not make_room(session, statement, task, scope=scope, may_use_idle=True):
            return None
        evicted = [victim.uid for victim, _, _ in statement._claims]
        statement.commit()
    return evicted


def full(*jobs: JobInfo, nodes: int = 1, queues: Sequence[str] = ("q",)) -> Snapshot:
    return cluster([node(f"n{n}", "1C1G") for n in range(1, nodes + 1)], *jobs, queues=queues)


@pytest.mark.parametrize("scope", [EvictionScope.OTHER_JOBS, EvictionScope.OTHER_QUEUES])
def test_nothing_is_remembered_if_a_plugin_does_not_say_what_its_verdicts_read(
    scope: EvictionScope,
) -> None:
    def only_for_c(claimant: TaskState, candidates: Sequence[TaskState]) -> list[Verdict]:
        verdict = Verdict.VICTIM if claimant.uid == "c-1" else Verdict.PROTECTED
        return [verdict] * len(candidates)

    other = "q" if scope is EvictionScope.OTHER_JOBS else "r"
    snapshot = full(
        job("a", "1C1G@n1", minimum=0, queue=other),
        job("b", "1C1G"),
        job("c", "1C1G"),
        queues=("q", "r"),
    )
    session = opened(snapshot, ["gang", ("own", Saying(**{scope.point: only_for_c}))])
    assert made_for(session, "b-1", scope) is None
    assert made_for(session, "c-1", scope) == ["a-1"]


def test_what_a_job_finds_among_other_jobs_is_not_what_another_finds() -> None:
    """b could only take its own task, which is another job's for c."""
    snapshot = full(job("b", "1C1G@n1", "1C1G", minimum=0), job("c", "1C1G", minimum=0))
    session = opened(snapshot, ["gang"])
    assert made_for(session, "b-2", EvictionScope.OTHER_JOBS) is None
    assert made_for(session, "c-1", EvictionScope.OTHER_JOBS) == ["b-1"]
    session = opened(snapshot, ["gang"])
    assert made_for(session, "b-2", EvictionScope.SAME_JOB) == ["b-1"]


def test_a_job_that_runs_finds_nobody_of_its_own_whether_or_not_plugins_say_what_they_read() -> (
    None
):
    snapshot = full(job("b", "1C1G@n1", "1C1G", minimum=0))
    session = opened(snapshot, [SILENT])
    assert made_for(session, "b-2", EvictionScope.OTHER_JOBS) is None
    assert made_for(session, "b-2", EvictionScope.SAME_JOB) == ["b-1"]


def test_who_is_shielded_from_their_own_job_is_not_shielded_from_others() -> None:
    """The first claimant's own task is more important than the claimant, its job is not."""
    one = job("b", "1C1G@n1", "1C1G", minimum=0)
    runs, waits = one.tasks
    one = evolve(one, priority=1, tasks=[evolve(runs, priority=9), evolve(waits, priority=1)])
    other = job("c", "1C1G", minimum=0, priority=2)
    session = opened(full(one, other), ["priority"])
    assert made_for(session, "b-2", EvictionScope.SAME_JOB) is None
    assert made_for(session, "b-2", EvictionScope.OTHER_JOBS) is None
    assert made_for(session, "c-1", EvictionScope.OTHER_JOBS) == ["b-1"]


def test_a_job_finds_others_beside_its_own_tasks() -> None:
    snapshot = cluster(
        [node("n1", "7C7G")],
        job("a", *["3C3G@n1"] * 2, minimum=0),
        job("b", "1C1G@n1", "3C3G", minimum=0),
    )
    session = opened(snapshot, ["gang"])
    assert made_for(session, "b-2", EvictionScope.OTHER_JOBS) == ["a-2"]


class NotOwn(WithHints):
    """Protects tasks of the claimant's own job, and knows that."""

    def claimant_key(self, _claimant: TaskState) -> None:
        return None

    def shielded(self, claimant: TaskState, candidates: Sequence[TaskState]) -> list[bool]:
        return [candidate.job is claimant.job for candidate in candidates]

    def preemptable(self, claimant: TaskState, candidates: Sequence[TaskState]) -> list[Verdict]:
        return [
            Verdict.PROTECTED if candidate.job is claimant.job else Verdict.VICTIM
            for candidate in candidates
        ]


def test_what_a_job_cannot_take_from_itself_others_can_take_from_it() -> None:
    snapshot = full(job("b", "1C1G@n1", "1C1G", minimum=0), job("c", "1C1G", minimum=0))
    session = opened(snapshot, [("own", NotOwn())])
    assert made_for(session, "b-2", EvictionScope.OTHER_JOBS) is None
    assert made_for(session, "c-1", EvictionScope.OTHER_JOBS) == ["b-1"]


class OnlyAlone(WithHints):
    """Lets a task go if it is the only candidate."""

    def claimant_key(self, _claimant: TaskState) -> None:
        return None

    def preemptable(self, _claimant: TaskState, candidates: Sequence[TaskState]) -> list[Verdict]:
        alone = Verdict.VICTIM if len(candidates) == 1 else Verdict.PROTECTED
        return [alone] * len(candidates)


def test_where_others_were_refused_a_job_with_fewer_candidates_is_not() -> None:
    snapshot = cluster(
        [node("n1", "2C2G")],
        job("a", "1C1G@n1", minimum=0),
        job("b", "1C1G@n1", "1C1G", minimum=0),
        job("c", "1C1G", minimum=0),
    )
    session = opened(snapshot, [("own", OnlyAlone())])
    assert made_for(session, "c-1", EvictionScope.OTHER_JOBS) is None
    assert made_for(session, "b-2", EvictionScope.OTHER_JOBS) == ["a-1"]
    session = opened(snapshot, [("own", OnlyAlone())])
    assert made_for(session, "b-2", EvictionScope.OTHER_JOBS) == ["a-1"]
    assert made_for(session, "c-1", EvictionScope.OTHER_JOBS) == ["b-1"]


def test_what_one_job_finds_in_itself_is_not_what_another_finds() -> None:
    def not_a(_claimant: TaskState, candidates: Sequence[TaskState]) -> list[Verdict]:
        return [Verdict.PROTECTED if c.uid == "a-1" else Verdict.VICTIM for c in candidates]

    snapshot = cluster(
        [node("n1", "2C2G")],
        job("a", "1C1G@n1", "1C1G", minimum=0),
        job("b", "1C1G@n1", "1C1G", minimum=0),
    )
    own = Saying(preemptable=not_a, claimant_key=lambda _: None)
    session = opened(snapshot, [("own", own)])
    assert made_for(session, "a-2", EvictionScope.SAME_JOB) is None
    assert made_for(session, "b-2", EvictionScope.SAME_JOB) == ["b-1"]


@pytest.mark.parametrize("minimum", [8, 7])
def test_jobs_that_run_in_part_do_not_ask_for_everything_each_on_its_own(minimum: int) -> None:
    """What can be given on a node is asked for once by all jobs, but for their own nodes."""
    asked: list[int] = []

    class Counting(WithHints):
        def claimant_key(self, _claimant: TaskState) -> None:
            return None

        def preemptable(
            self, _claimant: TaskState, candidates: Sequence[TaskState]
        ) -> list[Verdict]:
            asked.append(len(candidates))
            return [Verdict.PROTECTED] * len(candidates)

        def shielded(self, _claimant: TaskState, candidates: Sequence[TaskState]) -> list[bool]:
            asked.append(len(candidates))
            return [False] * len(candidates)

    def work(nodes: int) -> int:
        asked.clear()
        jobs = [
            job(f"j{i:02}", *[f"1C1G@n{i:02}"] * 8, "1C1G", minimum=minimum) for i in range(nodes)
        ]
        snapshot = cluster([node(f"n{i:02}", "8C8G") for i in range(nodes)], *jobs)
        session = opened(snapshot, [("counting", Counting()), "gang"])
        PreemptAction().execute(session)
        assert not session.evictions
        return sum(asked)

    assert work(40) <= 2.2 * work(20)


def test_what_another_job_may_give_is_not_what_a_job_finds_in_itself() -> None:
    snapshot = full(job("a", "1C1G@n1"), job("b", "1C1G@n2", "1C1G", minimum=0), nodes=2)
    session = opened(snapshot, ["gang"])
    assert made_for(session, "b-2", EvictionScope.OTHER_JOBS) is None
    assert made_for(session, "b-2", EvictionScope.SAME_JOB) == ["b-1"]


def test_a_gang_that_has_a_task_more_has_one_to_give_on_nodes_that_did_not_change() -> None:
    snapshot = full(job("a", "1C1G@n1", "1C1G@n2", "1C1G", minimum=2), job("b", "1C1G"), nodes=3)
    session = opened(snapshot, ["gang"])
    assert made_for(session, "b-1", EvictionScope.OTHER_JOBS) is None
    session.allocate(session.task("a-3"), session.node("n3"))
    assert made_for(session, "b-1", EvictionScope.OTHER_JOBS) in (["a-1"], ["a-2"])


def test_a_queue_that_has_more_has_more_to_give_whichever_of_its_jobs_has_it() -> None:
    """r deserves 2 cpu and holds as much; with what y is given, x has a task to give."""
    snapshot = cluster(
        [node(f"n{n}", "1C0G") for n in range(1, 5)],
        job("x", "1C0G@n1", minimum=0, queue="r"),
        job("y", "1C0G@n2", "1C0G", minimum=0, priority=1, queue="r"),
        job("b", *["1C0G"] * 4, minimum=0),
        queues=("q", "r"),
    )
    session = opened(snapshot, ["proportion"])
    assert made_for(session, "b-1", EvictionScope.OTHER_QUEUES) is None
    session.allocate(session.task("y-2"), session.node("n3"))
    assert made_for(session, "b-1", EvictionScope.OTHER_QUEUES) == ["x-1"]


def test_what_the_less_important_was_refused_the_more_important_may_have() -> None:
    snapshot = full(job("a", "1C1G@n1"), job("b", "1C1G"), job("c", "1C1G", priority=5))
    session = opened(snapshot, ["priority"])
    assert made_for(session, "b-1", EvictionScope.OTHER_JOBS) is None
    assert made_for(session, "c-1", EvictionScope.OTHER_JOBS) == ["a-1"]


def test_where_there_was_too_little_for_one_there_may_be_enough_for_another() -> None:
    """Each of a's tasks could go, but not both."""
    snapshot = cluster(
        [node("n1", "2C2G")],
        job("a", "1C1G@n1", "1C1G@n1", minimum=1),
        job("large", "2C2G"),
        job("small", "1C1G"),
    )
    session = opened(snapshot, ["gang"])
    assert made_for(session, "large-1", EvictionScope.OTHER_JOBS) is None
    assert made_for(session, "small-1", EvictionScope.OTHER_JOBS) == ["a-2"]


@pytest.mark.parametrize("placement", [LinearScanPlacement, IndexedPlacement])
def test_where_one_may_not_go_another_may(placement: PlacementFactory) -> None:
    wants = job("b", "1C1G")
    elsewhere = evolve(wants, tasks=[evolve(wants.tasks[0], node_selector={"disk": "ssd"})])
    snapshot = full(job("a", "1C1G@n1", minimum=0), elsewhere, job("c", "1C1G"))
    session = opened(snapshot, ["gang", "predicates"], placement=placement)
    assert made_for(session, "b-1", EvictionScope.OTHER_JOBS) is None
    assert made_for(session, "c-1", EvictionScope.OTHER_JOBS) == ["a-1"]
