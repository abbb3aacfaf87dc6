"""Searches for room against a plain loop: what they find, and what they leave as it was."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.books import Saying, dump, opened
from tests.support.eviction import (
    PLUGINS,
    SILENT,
    WHOLE_GANG,
    enough_by_the_rules,
)

from batchsched import Session, Snapshot, TaskStatus
from batchsched.action import EvictionScope, Victims, make_room
from batchsched.plugin import NodeState, TaskState, Verdict
from batchsched.session.turns import may_take_task
from batchsched.testing import snapshots


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
            return enough_by_the_rules(task, of, list(going.values()), may_use_idle=may_use_idle)

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
            return lambda o: o.job is mine and o.status is TaskStatus.RUNNING
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


"""Does not say what its verdicts read of the claimant, so that nothing can be remembered."""


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


SWITCHES = {"constraints": False, "groups": False}
"""Groups that leave as a whole have laws of their own (`tests/properties/test_elastic.py`)."""


@given(
    snapshots(max_jobs=6, max_nodes=4, **SWITCHES)
    | snapshots(max_jobs=6, max_nodes=3, max_queues=2, always=["running"], **SWITCHES),
    OPERATIONS,
    st.sampled_from(
        [PLUGINS, ["gang"], [*PLUGINS, SILENT], [SILENT], WHOLE, WHOLE, [WHOLE_GANG], ODD]
    ),
)
@settings(max_examples=250, deadline=None)
def test_searches_find_what_the_rules_say_whether_or_not_they_remember(
    snapshot: Snapshot, operations, plugins
) -> None:
    plain, remembering = opened(snapshot, plugins), opened(snapshot, plugins)
    defined = opened(snapshot, plugins, plain={"room"})
    searching = (remembering, defined)
    statements = [of.statement() for of in (plain, *searching)]
    for choice, scope, may_use_idle, end in operations:
        pending = [
            uid
            for uid, task in plain.ledger.tasks.items()
            if task.status is TaskStatus.PENDING
            and task.job is not None
            and task.job.in_session
            and not (task.is_best_effort or task.is_held)
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
        victims_of = plain.plugins.reclaimable if across else plain.plugins.preemptable
        expected = expected_room(
            plain, task, nodes, is_candidate, victims_of, may_use_idle=may_use_idle
        )
        if expected is not None and not may_take_task(plain, task, leaving=expected[1]):
            expected = None  # its job has as many tasks as it may have, say
        if expected is not None:
            for victim in expected[1]:
                statements[0].evict(victim, claimant=task)
            statements[0].pipeline(task, expected[0])
        for of, statement in zip(searching, statements[1:], strict=True):
            also = make_room(of, statement, of.task(uid), scope=scope, may_use_idle=may_use_idle)
            assert also is (expected is not None)
            assert dump(of) == dump(plain)
        if end == "undo":
            for statement, length in zip(statements, before, strict=True):
                statement.rollback(length)
        elif end != "go on":
            for statement in statements:
                getattr(statement, end)()
            statements = [of.statement() for of in (plain, *searching)]
        for of in searching:
            assert dump(of) == dump(plain)


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
            session.check()
            if made:
                assert task.status is TaskStatus.PIPELINED
            else:
                assert len(statement) == 0
                assert dump(session) == before
        assert dump(session) == before
