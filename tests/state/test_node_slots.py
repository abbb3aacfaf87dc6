"""Slots of nodes follow node order, and what changes at them is told."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from batchsched import NodeInfo
from batchsched.plugin import NodeState
from batchsched.state.live_ledger import NodeSlots

ZERO = (0, 0)


def node(number: int) -> NodeState:
    return NodeState(NodeInfo(name=f"n{number:03}"), -1, ZERO, ZERO)


def check(slots: NodeSlots, nodes: list[NodeState]) -> None:
    assert [each.name for each in nodes] == sorted(each.name for each in nodes)
    assert [each.index for each in nodes] == list(range(len(nodes)))
    taken = [each.slot for each in nodes]
    assert taken == sorted(set(taken))
    assert [slots.by_slot[slot] for slot in taken] == nodes
    assert slots.vacant == set(range(len(slots.by_slot))) - set(taken)
    assert all(slots.by_slot[slot].slot == slot for slot in range(len(slots.by_slot)))


@settings(max_examples=40)
@given(seed=st.integers(0, 1 << 32), begin=st.integers(0, 30))
def test_law_slots_follow_node_order_and_changes_are_told(seed: int, begin: int) -> None:
    random = Random(seed)
    nodes = [node(10 * number) for number in range(begin)]
    for position, each in enumerate(nodes):
        each.index = each.slot = position
    changes: list[int] = []
    slots = NodeSlots(nodes, changes, ZERO)
    check(slots, nodes)
    for _ in range(60):
        before = {each.name: each.slot for each in nodes}
        slots.take_changed()
        changes.clear()
        names = set(before)
        if names and random.random() < 0.4:
            slots.remove(random.choice(nodes))
        else:
            number = random.choice([n for n in range(400) if f"n{n:03}" not in names])
            slots.insert(node(number))
        check(slots, nodes)
        told = slots.take_changed()
        if told is not None:
            after = {each.name: each.slot for each in nodes}
            moved = {
                slot
                for at in (before, after)
                for name, slot in at.items()
                if before.get(name) != after.get(name)
            }
            assert moved <= told == set(changes)
        if random.random() < 0.05:
            slots.close_gaps()
            check(slots, nodes)
            assert [each.slot for each in nodes] == [each.index for each in nodes]
