"""Live queues: always the least item under the order as it is now."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.support.books import opened
from tests.support.clusters import cluster, job, node

from batchsched.state.live_queue import LiveQueue


class Item:
    def __init__(self, uid: int, rank: int = 0) -> None:
        self.uid = uid
        self.rank = rank
        self.waits_in: LiveQueue[Item] | None = None

    def __repr__(self) -> str:
        return f"Item({self.uid}, {self.rank})"


def key_of(item: Item) -> tuple[object, ...]:
    return item.rank, item.uid


class ComparedWithAPlainList(RuleBasedStateMachine):
    """A live queue, and a list that is searched for its least item each time."""

    def __init__(self) -> None:
        super().__init__()
        self.items = [Item(uid) for uid in range(8)]
        self.queue: LiveQueue[Item] = LiveQueue(key_of, self.items[:4])
        self.waiting = self.items[:4]

    @rule(uid=st.integers(0, 7), rank=st.integers(0, 3))
    def change(self, uid: int, rank: int) -> None:
        item = self.items[uid]
        item.rank = rank
        if item.waits_in is not None:
            item.waits_in.touch(item)

    @rule(uid=st.integers(0, 7))
    def touch_for_nothing(self, uid: int) -> None:
        self.queue.touch(self.items[uid])

    @rule(uid=st.integers(0, 7))
    def push(self, uid: int) -> None:
        item = self.items[uid]
        if item not in self.waiting:
            self.queue.push(item)
            self.waiting.append(item)

    @precondition(lambda self: self.waiting)
    @rule()
    def pop(self) -> None:
        least = min(self.waiting, key=key_of)
        assert self.queue.pop() is least
        self.waiting.remove(least)

    @precondition(lambda self: not self.waiting)
    @rule()
    def pop_in_vain(self) -> None:
        with pytest.raises(IndexError):
            self.queue.pop()

    @invariant()
    def as_many_wait(self) -> None:
        assert len(self.queue) == len(self.waiting)
        assert bool(self.queue) == bool(self.waiting)


TestTheNextItemIsAlwaysTheLeastUnderTheOrderAsItIsNow = ComparedWithAPlainList.TestCase
TestTheNextItemIsAlwaysTheLeastUnderTheOrderAsItIsNow.settings = settings(
    max_examples=100, stateful_step_count=40, deadline=None
)


def test_items_know_where_they_wait() -> None:
    one, two = Item(1), Item(2)
    queue: LiveQueue[Item] = LiveQueue(key_of, [one])
    assert one.waits_in is queue
    assert two.waits_in is None
    queue.push(two)
    assert two.waits_in is queue


def test_keys_are_made_again_for_touched_items_only_and_not_before_the_next_pop() -> None:
    made: list[int] = []

    def key(item: Item) -> tuple[object, ...]:
        made.append(item.uid)
        return key_of(item)

    items = [Item(uid) for uid in range(5)]
    queue: LiveQueue[Item] = LiveQueue(key, items)
    made.clear()
    for _ in range(3):
        queue.touch(items[3])
    assert made == []
    assert queue.pop() is items[0]
    assert made == [3]


def test_an_item_that_came_out_may_wait_again_under_a_new_key() -> None:
    items = [Item(uid) for uid in range(3)]
    queue: LiveQueue[Item] = LiveQueue(key_of, items)
    first = queue.pop()
    first.rank = 1
    queue.push(first)
    assert [queue.pop().uid for _ in range(3)] == [1, 2, 0]


def test_an_item_whose_key_changes_there_and_back_comes_out_once() -> None:
    items = [Item(uid) for uid in range(3)]
    queue: LiveQueue[Item] = LiveQueue(key_of, items)
    out = queue.pop()
    for rank in (5, 0, 5, 0):
        items[1].rank = rank
        queue.touch(items[1])
        queue.push(out)
        out = queue.pop()
    assert out is items[0]
    assert [queue.pop().uid for _ in range(2)] == [1, 2]
    assert not queue


def test_a_queue_without_items_is_empty() -> None:
    queue: LiveQueue[Item] = LiveQueue(key_of)
    assert len(queue) == 0
    with pytest.raises(IndexError):
        queue.pop()


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
