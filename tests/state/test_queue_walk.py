"""The next queue of a tree is what a plain walk from the root finds, at any moment."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from batchsched import Queue, Snapshot
from batchsched.state.ledger import Ledger
from batchsched.state.live_queue import SortKey
from batchsched.state.needs import Need
from batchsched.state.queue_walk import QueueWalk
from batchsched.state.records import JobState, QueueState
from batchsched.testing import queue_trees


class World:
    """Queues with a rank each; a leaf offers a need that stands for the leaf."""

    def __init__(self, queues: tuple[Queue, ...]) -> None:
        self.queues = Ledger(Snapshot(queues=queues)).queues
        self.leaves = [queue for queue in self.queues.values() if not queue.children]
        self.rank = dict.fromkeys(self.queues, 0)
        self.needs = {
            queue: Need(JobState.__new__(JobState), (), (position,), ())
            for position, queue in enumerate(self.leaves)
        }
        self.wish = dict.fromkeys(self.needs.values(), 0)
        self.waiting: set[QueueState] = set()

    def key(self, queue: QueueState, need: Need | None) -> SortKey:
        assert need is not None
        return self.rank[queue.name], self.wish[need], queue.name

    def expected(self) -> QueueState:
        """Walk down from the root, comparing siblings by what they offer."""

        def offered(queue: QueueState) -> QueueState | None:
            if not queue.children:
                return queue if queue in self.waiting else None
            offers = [(child, leaf) for child in queue.children if (leaf := offered(child))]
            return min(offers, key=self._rank_of)[1] if offers else None

        tops = [queue for queue in self.queues.values() if queue.parent is None]
        offers = [(top, leaf) for top in tops if (leaf := offered(top))]
        return min(offers, key=self._rank_of)[1]

    def _rank_of(self, offer: tuple[QueueState, QueueState]) -> SortKey:
        child, leaf = offer
        return self.key(child, self.needs[leaf])


def offers_next(world: World, walk: QueueWalk, leaf: QueueState, wish: int) -> None:
    """Let the leaf that was taken out offer something else, and wait again."""
    world.wish[world.needs[leaf]] = wish
    world.waiting.add(leaf)
    if walk.stays_next(leaf):
        assert world.expected() is leaf
        world.waiting.remove(leaf)
    else:
        walk.push(leaf)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["pop", "push", "rank", "wish"]), st.integers(0, 15), st.integers(0, 3)
    ),
    max_size=30,
)


@given(queue_trees(max_queues=10), STEPS)
def test_the_next_queue_is_what_a_plain_walk_finds(
    queues: tuple[Queue, ...], steps: list[tuple[str, int, int]]
) -> None:
    world = World(queues)
    world.waiting = set(world.leaves)
    walk = QueueWalk(world.key, world.needs.__getitem__, world.queues.values(), world.leaves)
    for what, who, value in steps:
        leaf = world.leaves[who % len(world.leaves)]
        if what == "pop" and world.waiting:
            assert len(walk) == len(world.waiting)
            expected = world.expected()
            assert walk.pop() is expected
            world.waiting.remove(expected)
            if who % 2:
                offers_next(world, walk, expected, value)
        elif what == "push" and leaf not in world.waiting:
            walk.push(leaf)
            world.waiting.add(leaf)
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
    while world.waiting:
        expected = world.expected()
        assert walk.pop() is expected
        world.waiting.remove(expected)
    assert not len(walk)


def test_a_flat_list_is_a_tree_of_one_level() -> None:
    world = World(tuple(Queue(name=name) for name in "cab"))
    walk = QueueWalk(world.key, world.needs.__getitem__, world.queues.values(), world.leaves)
    world.rank["b"] = -1
    assert [walk.pop().name for _ in range(3)] == ["b", "a", "c"]


def test_a_leaf_stays_next_as_long_as_it_offers_nothing_that_ranks_differently() -> None:
    world = World(tuple(Queue(name=name) for name in "ab"))
    walk = QueueWalk(world.key, world.needs.__getitem__, world.queues.values(), world.leaves)
    leaf = walk.pop()
    assert walk.stays_next(leaf)
    world.wish[world.needs[leaf]] = 1
    assert not walk.stays_next(leaf)
    walk.push(leaf)
    assert [walk.pop().name for _ in range(2)] == ["b", "a"]
