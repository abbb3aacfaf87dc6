"""The next job and the next queue are those that the plain definition finds, at any moment."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.books import opened
from tests.support.clusters import cluster, job, node

from batchsched import JobInfo, Queue, Snapshot
from batchsched.action import LiveQueue
from batchsched.plugin import JobState, Need, QueueState
from batchsched.session.orders import JobsByNeed, PlainOrder, PlainTree, QueueWalk
from batchsched.testing import queue_trees

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["pop", "push", "rank", "touch", "size", "room"]),
        st.integers(0, 5),
        st.integers(0, 3),
    ),
    max_size=40,
)


def some_jobs() -> list[JobState]:
    jobs = [JobInfo(name=name, queue="q") for name in "abcdef"]
    return list(opened(Snapshot(queues=[Queue(name="q")], jobs=jobs)).ledger.jobs.values())


@given(STEPS)
def test_the_next_of_changing_items_is_the_least(steps: list[tuple[str, int, int]]) -> None:
    jobs = some_jobs()
    rank = dict.fromkeys(jobs, 0)

    def key(job: JobState) -> Any:
        return rank[job], job.uid

    there = dict.fromkeys(jobs[:4])
    live, plain = LiveQueue(key, there), PlainOrder(key, there)
    assert [job.waits_in is live for job in jobs] == [True] * 4 + [False] * 2
    for what, who, value in steps:
        job = jobs[who]
        if what == "pop" and there:
            expected = plain.pop()
            assert live.first() is expected
            assert live.pop() is expected
            del there[expected]
        elif what == "push" and job not in there:
            live.push(job)
            plain.push(job)
            there[job] = None
        elif what == "rank":
            rank[job] = value
            if job.waits_in is not None:
                job.waits_in.touch(job)
        elif what == "touch":
            live.touch(job)
        assert len(live) == len(plain) == len(there)
    assert [live.pop() for _ in there] == [plain.pop() for _ in there]
    for empty in (live, plain):
        with pytest.raises(IndexError, match="no item is waiting"):
            empty.pop()


@given(STEPS)
def test_the_next_job_by_need_is_the_least(steps: list[tuple[str, int, int]]) -> None:
    jobs = some_jobs()
    rank = dict.fromkeys(jobs, 0)
    size: dict[JobState, int] = dict.fromkeys(jobs, 1)  # 0: it needs nothing
    room = 2

    def key(job: JobState) -> Any:
        return rank[job], job.uid

    def need_of(job: JobState) -> Need | None:
        return Need(job, (), (size[job],), (0,)) if size[job] else None

    def need_key(need: Need | None) -> Any:
        return () if need is None else (int(need.request[0] > room),)

    there = dict.fromkeys(jobs)
    fast = JobsByNeed(key, need_key, need_of, jobs)
    plain = PlainOrder(lambda job: (need_key(need_of(job)), key(job)), jobs)
    for what, who, value in steps:
        job = jobs[who]
        if what == "pop" and there:
            assert fast.first() is plain.first()
            expected = plain.pop()
            assert fast.pop() is expected
            del there[expected]
        elif what == "push" and job not in there:
            fast.push(job)
            plain.push(job)
            there[job] = None
        elif what == "rank":
            rank[job] = value
            fast.touch(job)
        elif what == "size":
            size[job] = value
            fast.touch(job)
        elif what == "room":  # nobody tells of that
            room = value
    assert [fast.pop() for _ in there] == [plain.pop() for _ in there]
    assert fast.first() is None
    with pytest.raises(IndexError, match="no item is waiting"):
        fast.pop()


class World:
    """Queues with a rank each; a leaf offers a need that stands for the leaf."""

    def __init__(self, queues: tuple[Queue, ...]) -> None:
        self.queues = opened(Snapshot(queues=queues)).ledger.queues
        self.leaves = [queue for queue in self.queues.values() if not queue.children]
        self.rank = dict.fromkeys(self.queues, 0)
        self.needs = {
            queue: Need(JobState.__new__(JobState), (), (position,), ())
            for position, queue in enumerate(self.leaves)
        }
        self.wish = dict.fromkeys(self.needs.values(), 0)
        among = self.key, self.needs.__getitem__, self.queues.values(), self.leaves
        self.walk = QueueWalk(*among)
        self.plain = PlainTree(*among)

    def key(self, queue: QueueState, need: Need | None) -> Any:
        assert need is not None
        return self.rank[queue.name], self.wish[need], queue.name


@given(
    queue_trees(max_queues=10),
    st.lists(
        st.tuples(
            st.sampled_from(["pop", "push", "rank", "wish"]), st.integers(0, 15), st.integers(0, 3)
        ),
        max_size=30,
    ),
)
def test_the_next_queue_of_a_tree_is_what_a_walk_from_the_root_finds(
    queues: tuple[Queue, ...], steps: list[tuple[str, int, int]]
) -> None:
    world = World(queues)
    walk, plain = world.walk, world.plain
    there = dict.fromkeys(world.leaves)
    for what, who, value in steps:
        leaf = world.leaves[who % len(world.leaves)]
        if what == "pop" and there:
            assert len(walk) == len(plain) == len(there)
            expected = plain.pop()
            assert walk.pop() is expected
            assert walk.offered(expected) is world.needs[expected]
            del there[expected]
        elif what == "push" and leaf not in there:
            walk.push(leaf)
            plain.push(leaf)
            there[leaf] = None
        elif what == "rank":
            queue: QueueState | None = leaf
            for _ in range(who % 4):
                queue = queue.parent if queue is not None else None
            world.rank[(queue or leaf).name] = value
            assert leaf.waits_in is walk
            leaf.waits_in.touch(leaf)
        elif what == "wish":
            world.wish[world.needs[leaf]] = value
            walk.touch(leaf)
    assert [walk.pop() for _ in there] == [plain.pop() for _ in there]
    assert not len(walk)


def test_a_flat_list_is_a_tree_of_one_level() -> None:
    world = World(tuple(Queue(name=name) for name in "cab"))
    world.rank["b"] = -1
    assert [world.walk.pop().name for _ in range(3)] == ["b", "a", "c"]
    assert [world.plain.pop().name for _ in range(3)] == ["b", "a", "c"]


def test_queues_that_wait_change_places_when_their_jobs_are_given_something() -> None:
    of = opened(
        cluster(
            [node("n1", "8C0G")],
            job("a", "1C0G", "3C0G", minimum=0),
            job("b", "1C0G", "3C0G", minimum=0, queue="r"),
            job("c", "1C0G", "3C0G", minimum=0, queue="s"),
            queues=("q", "r", "s"),
        ),
        ["proportion"],
    )
    waiting = of.live_queues(of.queues.values())
    of.allocate(of.task("a-1"), of.nodes[0])
    assert waiting.pop().name == "r"
    with of.statement() as statement:
        statement.allocate(of.task("c-1"), of.nodes[0])
        statement.allocate(of.task("c-2"), of.nodes[0])
    assert [waiting.pop().name, waiting.pop().name] == ["s", "q"]
