"""The books: what every move does to every account, and that doctored books are found out."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from tests.support.books import DERIVED_ACCOUNTS, JOB_ACCOUNTS, NODE_ACCOUNTS
from tests.support.clusters import cluster, job, node

from batchsched import (
    HostPort,
    InvariantError,
    JobInfo,
    NodeInfo,
    Queue,
    Resource,
    ScoringRequest,
    Snapshot,
    TaskInfo,
    TaskStatus,
)
from batchsched.plugin import TaskState
from batchsched.state.groups import Counting
from batchsched.state.ledger import Ledger, audit

S = TaskStatus
HELD = (1000, 10)
TO_START = (1500, 10)
SIZE = (4000, 100)

ON_NODE: dict[TaskStatus, tuple[str, ...]] = {
    S.ALLOCATED: ("held",),
    S.BINDING: ("held",),
    S.BOUND: ("held",),
    S.RUNNING: ("held",),
    S.RELEASING: ("held", "releasing"),
    S.UNKNOWN: ("held",),
    S.PIPELINED: ("pipelined",),
    S.CONDITIONAL: ("conditional",),
    S.RESERVED: ("reserved",),
}
"""The accounts of its node that a task counts in."""
NOWHERE = (S.PENDING, S.SUCCEEDED, S.FAILED)
OCCUPYING = (S.ALLOCATED, S.BINDING, S.BOUND, S.RUNNING)
CHARGED = (*OCCUPYING, S.PIPELINED, S.CONDITIONAL)
READY = (*OCCUPYING, S.SUCCEEDED)
VALID = (*READY, S.PIPELINED, S.PENDING, S.CONDITIONAL, S.RESERVED)


def books() -> tuple[Ledger, TaskState]:
    """Two nodes, and a task that holds 1 cpu and needs half a cpu more to start."""
    snapshot = Snapshot(
        nodes=[
            NodeInfo(name=name, allocatable=Resource(milli_cpu=SIZE[0], memory=SIZE[1]))
            for name in ("n1", "n2")
        ],
        queues=[Queue(name="q")],
        jobs=[
            JobInfo(
                name="j",
                queue="q",
                tasks=[
                    TaskInfo(
                        uid="t",
                        name="t",
                        resreq=Resource(milli_cpu=HELD[0], memory=HELD[1]),
                        init_resreq=Resource(milli_cpu=TO_START[0], memory=TO_START[1]),
                        scoring_request=ScoringRequest(7, 8),
                        host_ports=[HostPort(port=80)],
                    )
                ],
            )
        ],
    )
    ledger = Ledger(snapshot)
    # Room that is promised to nobody yet, so that the task alone can be promised something.
    return ledger, ledger.tasks["t"]


def expected_accounts(status: TaskStatus, marked: bool) -> dict[str, Any]:
    accounts = ON_NODE.get(status, ())
    zero = (0, 0)
    held = HELD if "held" in accounts else zero
    is_special = status in (S.RELEASING, S.PIPELINED, S.CONDITIONAL) or (
        marked and status in OCCUPYING
    )
    on_node = bool(accounts) and status is not S.RESERVED
    idle = tuple(size - taken for size, taken in zip(SIZE, held, strict=True))
    expected: dict[str, Any] = {
        "idle": idle,
        "releasing": HELD if status is S.RELEASING else zero,
        "pipelined": HELD if status is S.PIPELINED else zero,
        "conditional": HELD if status is S.CONDITIONAL else zero,
        "backfilled": HELD if marked and status in OCCUPYING else zero,
        "leaving": HELD if marked and status is S.RELEASING else zero,
        "reserved": TO_START if status is S.RESERVED else zero,
        "divergence_count": int(is_special),
        "ports": int(on_node),
        "scoring_milli_cpu": 7 if on_node else 0,
        "scoring_memory": 8 if on_node else 0,
    }

    def total(*parts: tuple[int, str]) -> tuple[int, ...]:
        return tuple(sum(sign * expected[name][d] for sign, name in parts) for d in (0, 1))

    expected["future_idle"] = total((1, "idle"), (1, "releasing"), (-1, "pipelined"))
    expected["accessible"] = total(
        (1, "idle"), (1, "backfilled"), (1, "leaving"), (-1, "conditional")
    )
    expected["eventual"] = total(
        *((1, "idle"), (1, "releasing"), (1, "backfilled")),
        *((-1, "pipelined"), (-1, "conditional")),
    )
    return expected


PLACES = [
    (status, place, mark)
    for status in S
    for place in (("n1", "n2") if status in ON_NODE else (None,))
    for mark in (False, True)
]


@pytest.mark.parametrize("old", list(S), ids=lambda status: status.value)
def test_every_move_books_what_the_specification_says_and_nothing_else(old: TaskStatus) -> None:
    for was, now in product([place for place in PLACES if place[0] is old], PLACES):
        ledger, task = books()
        events: list[tuple[str, bool]] = []
        occupied: list[tuple[str, int]] = []
        ledger.move(task, was[0], _node(ledger, was[1]), is_backfill=was[2])
        ledger.on_charge = (lambda t, seen=events: seen.append(("charge", t.is_backfill)),)
        ledger.on_refund = (lambda t, seen=events: seen.append(("refund", t.is_backfill)),)
        ledger.on_occupy = lambda _t, n, sign, seen=occupied: seen.append((n.name, sign))

        ledger.move(task, now[0], _node(ledger, now[1]), is_backfill=now[2])

        case = f"{was} -> {now}"
        audit(ledger)
        assert (task.status, task.is_backfill) == (now[0], now[2]), case
        assert (task.node.name if task.node else None) == now[1], case
        for of in ledger.nodes:
            here = now[0] if of.name == now[1] else S.PENDING
            expected = expected_accounts(here, now[2])
            booked = {name: getattr(of, name) for name in (*NODE_ACCOUNTS, *DERIVED_ACCOUNTS)}
            assert booked == expected, case
            assert (task.uid in of.tasks) is (here in ON_NODE and here is not S.RESERVED), case
            assert (task.uid in of.reserved_tasks) is (here is S.RESERVED), case
            assert of.is_closed is (here is S.RESERVED), case
        _expect_job(task, now[0], now[2], case)
        charged = was[0] in CHARGED, now[0] in CHARGED
        assert events == {
            (False, True): [("charge", now[2])],
            (True, False): [("refund", was[2])],  # with the mark that it was charged with
        }.get(charged, []), case
        expected_occupied = [(was[1], -1)] if was[0] in OCCUPYING else []
        expected_occupied += [(now[1], 1)] if now[0] in OCCUPYING else []
        if occupied:  # nobody need be told of what leaves everything as it was
            assert occupied == expected_occupied, case
        else:
            assert len(expected_occupied) == 0 or was[1:] == now[1:], case


def _node(ledger: Ledger, name: str | None) -> Any:
    return None if name is None else ledger.node_named[name]


def _expect_job(task: TaskState, status: TaskStatus, marked: bool, case: str) -> None:
    of = task.job
    assert of is not None
    assert of.counted == [
        status in READY,
        status in (*READY, S.PIPELINED),
        status in (*READY, S.PIPELINED, S.CONDITIONAL),
        status in (*READY, S.PIPELINED, S.CONDITIONAL, S.RESERVED),
        status in VALID,
    ], case
    assert [of.lacks(counting) for counting in Counting] == [1 - each for each in of.counted]
    assert of.backfilling == (marked and "held" in ON_NODE.get(status, ())), case
    assert list(of.allocated or ()) == (["t"] if status is S.ALLOCATED else []), case
    assert {other: of.count(other) for other in S if of.count(other)} == {status: 1}, case
    assert of.having(status) == [task], case
    assert of.having(S.FAILED if status is not S.FAILED else S.PENDING) == [], case


def test_a_move_is_recorded_for_every_node_whose_accounts_change() -> None:
    ledger, task = books()
    start = len(ledger.log.nodes)
    ledger.move(task, S.ALLOCATED, ledger.nodes[0], is_backfill=False)
    assert set(ledger.log.nodes[start:]) == {0}
    start = len(ledger.log.nodes)
    ledger.move(task, S.PIPELINED, ledger.nodes[1], is_backfill=False)
    assert set(ledger.log.nodes[start:]) == {0, 1}
    start = len(ledger.log.nodes)
    ledger.move(task, S.RESERVED, ledger.nodes[1], is_backfill=False)
    assert set(ledger.log.nodes[start:]) == {1}
    start = len(ledger.log.nodes)
    ledger.move(task, S.PENDING, None, is_backfill=False)
    assert set(ledger.log.nodes[start:]) == {1}


# Binding


def test_binding_is_recorded_for_the_node_for_plugins_read_statuses_too() -> None:
    ledger, task = books()
    ledger.move(task, S.ALLOCATED, ledger.nodes[0], is_backfill=False)
    ledger.log.nodes.append(1)
    before = len(ledger.log.nodes)
    ledger.bind(task)
    assert ledger.log.nodes[before:] == [0]


def test_binding_changes_the_status_and_nothing_on_the_node() -> None:
    ledger, task = books()
    ledger.move(task, S.ALLOCATED, ledger.nodes[0], is_backfill=False)
    told: list[TaskState] = []
    ledger.on_charge = ledger.on_refund = (told.append,)
    before = {name: getattr(ledger.nodes[0], name) for name in NODE_ACCOUNTS}
    ledger.bind(task)
    assert {name: getattr(ledger.nodes[0], name) for name in NODE_ACCOUNTS} == before
    assert task.status is S.BINDING
    assert task.node is ledger.nodes[0]
    assert not told
    _expect_job(task, S.BINDING, False, "bind")
    audit(ledger)


@pytest.mark.parametrize("status", [s for s in S if s is not S.ALLOCATED])
def test_only_an_allocated_task_can_be_bound(status: TaskStatus) -> None:
    ledger, task = books()
    place = ledger.nodes[0] if status in ON_NODE else None
    ledger.move(task, status, place, is_backfill=False)
    with pytest.raises(InvariantError, match="expected an Allocated task to bind"):
        ledger.bind(task)


# Opening


def test_the_books_open_on_what_the_snapshot_says() -> None:
    snapshot = cluster(
        [node("n1", "4C4G"), node("n2", "4C4G")],
        job("a", "1C1G@n1", "2C1G@n1*", "1C1G>n2"),
        job("b", "1C1G", queue="gone"),
    )
    ledger = Ledger(snapshot)
    audit(ledger)
    n1, n2 = ledger.nodes
    gib = 1 << 30
    assert n1.idle == (1000, 2 * gib)
    assert n1.backfilled == (2000, gib)
    assert n2.idle == n2.allocatable
    assert n2.reserved == (1000, gib)
    assert ledger.cluster == (8000, 8 * gib)
    assert ledger.jobs["default/b"].queue is None
    assert [of.uid for of in ledger.queues["q"].jobs] == ["default/a"]
    assert ledger.jobs["default/a"].backfilling == 1
    assert ledger.lost_reservations == []
    assert ledger.broken == ""


def test_a_reservation_on_a_node_that_is_gone_is_lost() -> None:
    ledger = Ledger(cluster([node("n1", "4C4G")], job("a", "1C1G>gone", "1C1G>n1")))
    task = ledger.tasks["a-1"]
    assert (task.status, task.node) == (S.PENDING, None)
    assert ledger.lost_reservations == [(task, "gone")]
    audit(ledger)


def test_other_tasks_count_on_their_nodes_and_belong_to_no_job() -> None:
    other = TaskInfo(
        uid="x", name="x", status=S.RUNNING, node_name="n1", resreq=Resource(milli_cpu=500)
    )
    ledger = Ledger(Snapshot(nodes=[node("n1", "1C1G")], other_tasks=[other]))
    assert ledger.nodes[0].idle[0] == 500
    assert ledger.tasks["x"].job is None
    audit(ledger)


# Broken invariants


def crowded() -> Ledger:
    """A node of 4 cpu: 1 runs, 1 runs as backfill, 1 is released; waiting: 2, 3, 1 and 1 cpu."""
    ledger = Ledger(
        cluster(
            [node("n1", "4C9G")],
            job("r", "1C1G@n1", "1C1G@n1*", "1C1G@n1"),
            job("w", "2C1G", "3C1G", "1C1G", "1C1G"),
        )
    )
    ledger.move(ledger.tasks["r-3"], S.RELEASING, ledger.nodes[0], is_backfill=False)
    audit(ledger)
    return ledger


@pytest.mark.parametrize(
    ("uid", "status", "message"),
    [
        ("w-1", S.ALLOCATED, "overcommits <node n1>: idle"),
        ("w-2", S.PIPELINED, "future_idle"),
        ("w-2", S.CONDITIONAL, "accessible"),
        ("w-3", S.PENDING, "where no such task can be"),
        ("w-3", S.SUCCEEDED, "where no such task can be"),
        ("w-3", S.FAILED, "where no such task can be"),
    ],
)
def test_a_move_that_would_break_an_invariant_is_refused(
    uid: str, status: TaskStatus, message: str
) -> None:
    ledger = crowded()
    with pytest.raises(InvariantError, match=message):
        ledger.move(ledger.tasks[uid], status, ledger.nodes[0], is_backfill=False)


def test_what_was_promised_cannot_be_taken() -> None:
    ledger = crowded()  # idle 1, future 2, accessible 2, eventual 3
    n1 = ledger.nodes[0]
    ledger.move(ledger.tasks["w-1"], S.PIPELINED, n1, is_backfill=False)  # future 0
    audit(ledger)
    message = "<task w-3 Allocated on n1> overcommits <node n1>: future_idle"
    with pytest.raises(InvariantError, match=message):
        ledger.move(ledger.tasks["w-3"], S.ALLOCATED, n1, is_backfill=False)


def test_nobody_can_be_promised_what_will_never_be_there() -> None:
    ledger = crowded()
    n1 = ledger.nodes[0]
    ledger.move(ledger.tasks["w-1"], S.PIPELINED, n1, is_backfill=False)  # eventual 1
    ledger.move(ledger.tasks["w-3"], S.CONDITIONAL, n1, is_backfill=False)  # eventual 0
    audit(ledger)
    message = "<task w-4 Conditional on n1> overcommits <node n1>: eventual"
    with pytest.raises(InvariantError, match=message):
        ledger.move(ledger.tasks["w-4"], S.CONDITIONAL, n1, is_backfill=False)


def test_a_backfill_task_that_others_wait_for_cannot_become_an_ordinary_one() -> None:
    ledger = crowded()
    n1 = ledger.nodes[0]
    ledger.move(ledger.tasks["w-1"], S.CONDITIONAL, n1, is_backfill=False)
    with pytest.raises(InvariantError, match="accessible"):
        ledger.move(ledger.tasks["r-2"], S.RUNNING, n1, is_backfill=False)


def test_broken_books_refuse_everything_and_say_again_what_broke_them() -> None:
    ledger = crowded()
    n1 = ledger.nodes[0]
    with pytest.raises(InvariantError) as first:
        ledger.move(ledger.tasks["w-1"], S.ALLOCATED, n1, is_backfill=False)
    with pytest.raises(InvariantError) as second:
        ledger.move(ledger.tasks["r-1"], S.PENDING, None, is_backfill=False)
    assert str(second.value) == str(first.value) == ledger.broken


def test_a_move_that_changes_no_account_of_the_node_does_not_touch_it() -> None:
    ledger = crowded()
    n1, task = ledger.nodes[0], ledger.tasks["r-1"]
    before = ledger.log.position()
    ledger.move(task, S.BOUND, n1, is_backfill=False)
    assert ledger.log.position() == (before[0], before[1] + 1, before[2])
    ledger.move(task, S.BOUND, n1, is_backfill=True)  # the mark is one
    assert ledger.log.position() == (before[0] + 2, before[1] + 2, before[2])
    audit(ledger)


# Doctored books


@pytest.mark.parametrize("name", NODE_ACCOUNTS)
def test_a_doctored_account_of_a_node_is_found(name: str) -> None:
    ledger = crowded()
    of = ledger.nodes[0]
    booked = getattr(of, name)
    doctored = (booked[0] + 1, *booked[1:]) if isinstance(booked, tuple) else booked + 1
    setattr(of, name, doctored)
    with pytest.raises(InvariantError) as caught:
        audit(ledger)
    assert f"{of!r}.{name} is booked as {doctored}, and is {booked}" in str(caught.value)


@pytest.mark.parametrize("name", JOB_ACCOUNTS)
def test_a_doctored_account_of_a_job_is_found(name: str) -> None:
    ledger = crowded()
    of = ledger.jobs["default/r"]
    booked = getattr(of, name)
    setattr(of, name, [7, *booked[1:]] if isinstance(booked, list) else booked + 1)
    with pytest.raises(InvariantError, match=rf"<job default/r>\.{name} is booked as"):
        audit(ledger)


def test_a_task_missing_among_the_allocated_is_found() -> None:
    ledger, task = books()
    ledger.move(task, S.ALLOCATED, ledger.nodes[0], is_backfill=False)
    ledger.jobs["default/j"].allocated = None
    with pytest.raises(InvariantError, match="allocated is booked as"):
        audit(ledger)


def test_a_task_on_the_list_of_another_node_is_found() -> None:
    ledger, task = books()
    ledger.move(task, S.RUNNING, ledger.nodes[0], is_backfill=False)
    ledger.nodes[1].tasks["t"] = task
    with pytest.raises(InvariantError, match="is listed on <node n2>"):
        audit(ledger)


def test_a_task_that_its_node_does_not_list_is_found() -> None:
    ledger, task = books()
    task.node, task.status = ledger.nodes[0], S.RUNNING
    with pytest.raises(InvariantError, match="is not listed on its node"):
        audit(ledger)


def test_a_reserved_task_listed_among_those_that_are_there_is_found() -> None:
    ledger, task = books()
    ledger.move(task, S.RESERVED, ledger.nodes[0], is_backfill=False)
    of = ledger.nodes[0]
    of.tasks["t"] = of.reserved_tasks.pop("t")
    with pytest.raises(InvariantError, match="<node n1>"):
        audit(ledger)


@pytest.mark.parametrize("status", [S.RUNNING, S.PIPELINED, S.RESERVED, S.ALLOCATED])
def test_a_task_that_should_be_somewhere_and_is_nowhere_is_found(status: TaskStatus) -> None:
    ledger, task = books()
    ledger.move(task, status, None, is_backfill=False)
    with pytest.raises(InvariantError, match="is nowhere"):
        audit(ledger)


def test_a_task_that_should_be_nowhere_and_is_on_a_node_is_found() -> None:
    ledger, task = books()
    task.node = ledger.nodes[0]
    with pytest.raises(InvariantError, match=r"; <task t Pending on n1> is on a node$"):
        audit(ledger)


def test_several_backfill_tasks_of_one_job_are_counted_one_by_one() -> None:
    ledger = Ledger(cluster([node("n1", "4C9G")], job("a", "1C1G@n1*", "1C1G@n1*", "1C1G")))
    audit(ledger)
    assert ledger.jobs["default/a"].backfilling == 2
    ledger.move(ledger.tasks["a-3"], S.ALLOCATED, ledger.nodes[0], is_backfill=True)
    audit(ledger)
    ledger.move(ledger.tasks["a-1"], S.RELEASING, ledger.nodes[0], is_backfill=True)
    audit(ledger)
    assert ledger.jobs["default/a"].backfilling == 3
    ledger.move(ledger.tasks["a-3"], S.PENDING, None, is_backfill=False)
    audit(ledger)
    assert ledger.jobs["default/a"].backfilling == 2


def test_all_that_is_wrong_is_told_at_once() -> None:
    ledger = crowded()
    ledger.nodes[0].ports += 1
    ledger.jobs["default/r"].counted[Counting.READY] += 1
    with pytest.raises(InvariantError) as caught:
        audit(ledger)
    assert str(caught.value) == (
        "<node n1>.ports is booked as 1, and is 0; "
        "<job default/r>.counted is booked as [3, 2, 2, 2, 2], and is [2, 2, 2, 2, 2]"
    )
