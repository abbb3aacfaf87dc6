"""Queues as a tree: what a snapshot refuses, all of it at once and with its path."""

from __future__ import annotations

import pytest

from batchsched import (
    Queue,
    QueueStatus,
    Resource,
    ResourceLimit,
    Snapshot,
    SnapshotError,
)


def faults_of(*queues: Queue) -> list[str]:
    with pytest.raises(SnapshotError) as caught:
        Snapshot(queues=queues)
    return [str(fault) for fault in caught.value.faults]


def cpu(amount: float) -> Resource:
    return Resource(milli_cpu=amount)


class TestAccepted:
    def test_a_tree_with_everything(self) -> None:
        Snapshot(
            queues=[
                Queue(name="all", limit=ResourceLimit(milli_cpu=9, scalars={"gpu": 8})),
                Queue(name="a", parent="all", weight=0, guarantee=cpu(4), deserved=None),
                Queue(name="b", parent="all", guarantee=cpu(5), deserved=ResourceLimit(memory=1)),
                Queue(name="c", parent="all", priority=-3, state=QueueStatus.DRAINING),
            ]
        )

    def test_guarantees_that_exceed_the_cluster(self) -> None:
        Snapshot(queues=[Queue(name="a", guarantee=cpu(1000), deserved=cpu(1000))])

    def test_a_guarantee_equal_to_the_limit(self) -> None:
        Snapshot(queues=[Queue(name="a", guarantee=cpu(3), limit=ResourceLimit(milli_cpu=3))])


class TestOneQueue:
    @pytest.mark.parametrize(
        ("changes", "fault"),
        [
            ({"parent": ""}, "queues['q'].parent: is empty"),
            ({"parent": 5}, "queues['q'].parent: expected a string or None, got 5"),
            (
                {"parent": "gone"},
                "queues['q'].parent: there is no queue 'gone' in this snapshot; known: 'q'",
            ),
            (
                {"priority": 1.5},
                "queues['q'].priority: expected a priority (an integer), got 1.5",
            ),
            ({"guarantee": cpu(-1)}, "queues['q'].guarantee.milli_cpu: expected 0 or more, got -1"),
            ({"guarantee": None}, "queues['q'].guarantee: expected a Resource, got None"),
            ({"deserved": cpu(-1)}, "queues['q'].deserved.milli_cpu: expected 0 or more, got -1"),
            (
                {"deserved": ResourceLimit(scalars={"gpu": -2})},
                "queues['q'].deserved.scalars['gpu']: expected 0 or more, got -2",
            ),
            (
                {"deserved": 4},
                "queues['q'].deserved: expected a Resource, a ResourceLimit or None, got 4",
            ),
            ({"limit": 4}, "queues['q'].limit: expected a ResourceLimit or None, got 4"),
            (
                {"limit": cpu(4)},
                (
                    "queues['q'].limit: expected a ResourceLimit or None, "
                    "got Resource(milli_cpu=4, memory=0); "
                    "in a Resource, dimensions that are not named would be 0"
                ),
            ),
            (
                {"limit": ResourceLimit(memory=float("inf"))},
                "queues['q'].limit.memory: expected a finite number, got inf",
            ),
            (
                {"guarantee": cpu(5), "limit": ResourceLimit(milli_cpu=3)},
                "queues['q'].guarantee.milli_cpu: expected at most its limit, 3, got 5",
            ),
            (
                {
                    "guarantee": Resource(scalars={"gpu": 2}),
                    "limit": ResourceLimit(scalars={"gpu": 1}),
                },
                "queues['q'].guarantee.scalars['gpu']: expected at most its limit, 1, got 2",
            ),
            (
                {"state": "open"},
                "queues['q'].state: expected a QueueStatus, got 'open'; use QueueStatus.OPEN",
            ),
        ],
    )
    def test_it_is_refused(self, changes: dict[str, object], fault: str) -> None:
        assert faults_of(Queue(name="q", **changes)) == [fault]  # type: ignore[arg-type]


class TestTree:
    def test_a_queue_below_itself(self) -> None:
        assert faults_of(Queue(name="a", parent="a")) == [
            "queues['a'].parent: expected a tree, got a cycle: 'a' -> 'a'"
        ]

    def test_a_cycle_is_told_once_and_from_its_first_name(self) -> None:
        assert faults_of(
            Queue(name="z", parent="b"),
            Queue(name="c", parent="b"),
            Queue(name="b", parent="d"),
            Queue(name="d", parent="c"),
        ) == [("queues['b'].parent: expected a tree, got a cycle: 'b' -> 'd' -> 'c' -> 'b'")]

    def test_children_guaranteed_more_than_the_limit(self) -> None:
        assert faults_of(
            Queue(name="p", limit=ResourceLimit(milli_cpu=3)),
            Queue(name="a", parent="p", guarantee=cpu(2)),
            Queue(name="b", parent="p", guarantee=cpu(3)),
        ) == [
            (
                "queues['p'].limit.milli_cpu: expected at least the guarantees of its children, "
                "5, got 3"
            )
        ]

    def test_grandchildren_guaranteed_more_than_the_limit(self) -> None:
        assert faults_of(
            Queue(name="top", limit=ResourceLimit(milli_cpu=3)),
            Queue(name="p", parent="top"),
            Queue(name="a", parent="p", guarantee=cpu(4)),
        ) == [
            (
                "queues['top'].limit.milli_cpu: expected at least the guarantees of its children, "
                "4, got 3"
            )
        ]

    def test_all_faults_at_once(self) -> None:
        faults = faults_of(
            Queue(name="a", parent="gone", weight=-1, state=1),  # type: ignore[arg-type]
            Queue(name="b", parent="b", guarantee=cpu(-1)),
            Queue(name="c", guarantee=cpu(2), limit=ResourceLimit(milli_cpu=1)),
        )
        assert [fault.split(":")[0] for fault in faults] == [
            "queues['a'].weight",
            "queues['a'].state",
            "queues['b'].guarantee.milli_cpu",
            "queues['c'].guarantee.milli_cpu",
            "queues['a'].parent",
            "queues['b'].parent",
        ]
