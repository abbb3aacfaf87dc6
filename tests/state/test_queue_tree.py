"""Queues as a tree, by position."""

from __future__ import annotations

import pytest

from batchsched import (
    ConditionReason,
    JobInfo,
    Queue,
    Resource,
    Snapshot,
    TaskInfo,
    WhyPending,
    schedule,
)
from batchsched.plugin.queues import QueueTree
from batchsched.state.ledger import Ledger

TREE = QueueTree(
    [
        Queue(name="a2", parent="a"),
        Queue(name="a"),
        Queue(name="b"),
        Queue(name="a1", parent="a"),
        Queue(name="a1x", parent="a1"),
        Queue(name="b1", parent="b"),
    ]
)
A, A1, A1X, A2, B, B1 = range(6)


def test_positions_are_in_order_of_name() -> None:
    assert TREE.names == ("a", "a1", "a1x", "a2", "b", "b1")
    assert TREE.tops == (A, B)
    assert TREE.children == ((A1, A2), (A1X,), (), (), (B1,), ())
    assert [TREE.is_leaf(position) for position in range(6)] == [0, 0, 1, 1, 0, 1]


def test_parents_come_before_their_children() -> None:
    for position in range(6):
        path = TREE.path(position)
        assert [TREE.downward.index(p) for p in path] == sorted(
            (TREE.downward.index(p) for p in path), reverse=True
        )
    assert TREE.path(A1X) == (A1X, A1, A)


def test_branches_are_the_children_of_the_lowest_common_ancestor() -> None:
    assert TREE.branches(A1X, A2) == (A1, A2)
    assert TREE.branches(A2, B1) == (A, B)
    with pytest.raises(ValueError, match="expected queues on different paths, got 'a1x' and 'a1'"):
        TREE.branches(A1X, A1)


def test_the_books_know_who_is_below_whom() -> None:
    ledger = Ledger(Snapshot(queues=TREE.queues))
    assert [child.name for child in ledger.queues["a"].children] == ["a1", "a2"]
    assert ledger.queues["a1x"].parent is ledger.queues["a1"]
    assert ledger.queues["a"].parent is None


def test_a_job_of_a_queue_that_has_others_below_it_is_left_out() -> None:
    task = TaskInfo(uid="t", name="t", resreq=Resource(milli_cpu=1))
    result = schedule(
        Snapshot(queues=TREE.queues, jobs=[JobInfo(name="j", queue="a", tasks=[task])])
    )
    condition = result.left_out["default/j"]
    assert condition.reason is ConditionReason.QUEUE_NOT_LEAF
    assert condition.message == (
        "queue 'a' has other queues below it, such as 'a1'; a job must name a leaf"
    )
    assert result.pending["t"].why is WhyPending.QUEUE_NOT_LEAF
