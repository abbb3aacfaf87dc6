"""Snapshots: what they keep, and the error that has all their faults."""

from __future__ import annotations

import copy
import pickle
import random
from collections.abc import Iterable

import attrs
import pytest
from attrs.exceptions import FrozenInstanceError
from hypothesis import given
from hypothesis import strategies as st
from tests.support.snapshot_content import (
    N1,
    Q,
    job,
    task,
)

from batchsched import JobInfo, NodeInfo, Queue, Resource, Snapshot, SnapshotError, TaskStatus


def example_snapshot(seed: int = 0) -> Snapshot:
    """A sound snapshot with some of everything, given in an order that depends on the seed."""
    shuffle = random.Random(seed).shuffle

    def mixed(items: Iterable[object]) -> list[object]:
        listed = list(items)
        shuffle(listed)
        return listed

    request = Resource(milli_cpu=100, memory=10)
    statuses = [TaskStatus.PENDING, TaskStatus.RUNNING, TaskStatus.RELEASING, TaskStatus.RESERVED]
    return Snapshot(
        nodes=mixed(
            NodeInfo(name=f"n{i}", allocatable=Resource(milli_cpu=1000, memory=100))
            for i in range(5)
        ),
        queues=mixed(Queue(name=f"q{i}", weight=i + 1) for i in range(4)),
        jobs=mixed(
            JobInfo(
                name=f"j{i}",
                namespace=f"ns{i % 3}",
                queue=f"q{i % 5}",  # one of them is of no queue, which is no fault
                tasks=mixed(
                    task(
                        f"{i}-{status.value}",
                        status=status,
                        node_name=None if status is TaskStatus.PENDING else f"n{i % 5}",
                        resreq=request,
                        labels={"app": f"a{i}"},
                    )
                    for status in statuses
                ),
            )
            for i in range(8)
        ),
        other_tasks=mixed(
            task(f"o{i}", status=TaskStatus.RUNNING, node_name=f"n{i}", resreq=request)
            for i in range(3)
        ),
        now=17.5,
    )


class TestContent:
    def test_everything_is_kept_in_a_total_order(self) -> None:
        snapshot = example_snapshot(seed=3)
        assert [node.name for node in snapshot.nodes] == ["n0", "n1", "n2", "n3", "n4"]
        assert [queue.name for queue in snapshot.queues] == ["q0", "q1", "q2", "q3"]
        uids = [found.uid for found in snapshot.jobs]
        assert uids == sorted(f"ns{i % 3}/j{i}" for i in range(8))
        assert [found.uid for found in snapshot.other_tasks] == ["o0", "o1", "o2"]
        for found in snapshot.jobs:
            assert [t.uid for t in found.tasks] == sorted(t.uid for t in found.tasks)
        assert snapshot.now == 17.5

    @given(st.integers(0, 2**32))
    def test_the_order_in_which_things_are_given_does_not_matter(self, seed: int) -> None:
        assert example_snapshot(seed) == example_snapshot()
        assert hash(example_snapshot(seed)) == hash(example_snapshot())
        assert repr(example_snapshot(seed)) == repr(example_snapshot())

    def test_names_are_ordered_by_code_point(self) -> None:
        names = ["\u00e9", "a", "Z", "n10", "n9", "n1"]
        snapshot = Snapshot(nodes=[NodeInfo(name=name) for name in names])
        assert [node.name for node in snapshot.nodes] == ["Z", "a", "n1", "n10", "n9", "\u00e9"]

    def test_it_may_be_empty(self) -> None:
        snapshot = Snapshot()
        assert (snapshot.nodes, snapshot.jobs, snapshot.queues) == ((), (), ())
        assert (snapshot.other_tasks, snapshot.now) == ((), 0)

    def test_any_collection_will_do(self) -> None:
        expected = Snapshot(nodes=(N1,), queues=(Q,), jobs=(job(),), other_tasks=(task(),))
        assert expected == Snapshot(
            nodes=iter([N1]),
            queues={"q": Q}.values(),
            jobs={job()},
            other_tasks=(t for t in [task()]),
        )

    def test_it_cannot_be_changed(self) -> None:
        snapshot = example_snapshot()
        for field in attrs.fields(Snapshot):
            with pytest.raises(FrozenInstanceError):
                setattr(snapshot, field.name, ())
        with pytest.raises((FrozenInstanceError, AttributeError)):
            snapshot.note = "new"

    def test_it_can_be_pickled_and_copied(self) -> None:
        snapshot = example_snapshot()
        for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
            again = pickle.loads(pickle.dumps(snapshot, protocol))
            assert again == snapshot
            assert hash(again) == hash(snapshot)
            assert again.jobs[0].uid == snapshot.jobs[0].uid
        assert copy.deepcopy(snapshot) == snapshot
        assert copy.copy(snapshot) == snapshot

    @pytest.mark.parametrize(
        "change",
        [
            {"nodes": ()},
            {"jobs": ()},
            {"queues": ()},
            {"other_tasks": ()},
            {"now": 17.25},
        ],
    )
    def test_a_difference_in_anything_makes_a_difference(self, change: dict) -> None:
        snapshot = Snapshot(nodes=[N1], queues=[Q], jobs=[job()], other_tasks=[task()], now=17.5)
        assert attrs.evolve(snapshot, **change) != snapshot

    def test_a_difference_deep_inside_makes_a_difference(self) -> None:
        one, other = (Snapshot(jobs=[job("j", task(labels={"app": app}))]) for app in ("db", "web"))
        assert one != other

    def test_changing_a_copy_checks_it_again(self) -> None:
        snapshot = Snapshot(nodes=[N1], other_tasks=[task(status=TaskStatus.BOUND, node_name="n1")])
        with pytest.raises(SnapshotError, match="there is no node 'n1' in this snapshot"):
            attrs.evolve(snapshot, nodes=())

    def test_positional_arguments_are_refused(self) -> None:
        with pytest.raises(TypeError):
            Snapshot([N1])
