"""Fair shares in a tree: the laws W1 to W8, decided examples, and an exact reference.

All laws are asked of thousandths, and of whole devices, which rounding moves by up to one.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from attrs import evolve, frozen
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from tests.reference.queue_shares import DemandedTree

from batchsched import Queue, QueueStatus, Resource, ResourceLimit
from batchsched.plugin.queues import QueueTree
from batchsched.plugins.capacity.accounts import (
    WHOLE,
    Entitlements,
    demands,
    effective_guarantees,
    effective_status,
    fair_shares,
    nominal_shares,
)
from batchsched.testing import queue_trees


@frozen(kw_only=True)
class World:
    """Queues, what there is of one dimension, and what leaves hold and ask for."""

    queues: tuple[Queue, ...]
    total: int
    requests: Mapping[str, int]
    allocated: Mapping[str, int] = {}
    dimension: str = "cpu"
    unit: int = 1
    """1000: everything is a multiple of it, and what rounding leaves is dealt out."""

    @property
    def is_whole(self) -> bool:
        return self.unit > 1


class Shares:
    """All that is computed of a world, by name."""

    def __init__(self, world: World) -> None:
        tree = self.tree = QueueTree(world.queues)
        granted = Entitlements(tree, world.dimension)
        held = [world.allocated.get(name, 0) for name in tree.names]
        wanted = demands(
            tree,
            requests=[world.requests.get(name, 0) for name in tree.names],
            allocated=held,
            limits=granted.limits,
            statuses=effective_status(tree),
        )
        kept = effective_guarantees(tree, granted.guarantees)
        shares = fair_shares(
            tree,
            total=world.total,
            demands=wanted,
            guarantees=kept,
            deserved=granted.deserved,
            unit=world.unit,
        )
        self.total = world.total
        self.share = dict(zip(tree.names, shares, strict=True))
        self.demand = dict(zip(tree.names, wanted, strict=True))
        self.guarantee = dict(zip(tree.names, kept, strict=True))
        self.deserved = dict(zip(tree.names, granted.deserved, strict=True))
        self.queue = {queue.name: queue for queue in world.queues}

    def families(self) -> list[tuple[int, list[str]]]:
        """Return what each inner queue has, and its children; the root first."""
        tree = self.tree
        found = [(self.total, [tree.names[child] for child in tree.tops])]
        for position, children in enumerate(tree.children):
            if children:
                name = tree.names[position]
                found.append((self.share[name], [tree.names[child] for child in children]))
        return found

    def deserves(self, name: str, budget: int) -> int:
        given = self.deserved[name]
        return min(self.demand[name], budget if given is None else given)


@st.composite
def worlds(draw: DrawFn, *, max_queues: int = 9) -> World:
    unit = draw(st.sampled_from([1, WHOLE]))
    queues = draw(queue_trees(max_queues=max_queues, in_whole_units=unit == WHOLE))
    ages = draw(st.lists(st.integers(0, 2), min_size=len(queues), max_size=len(queues)))
    queues = tuple(
        evolve(queue, creation_time=age) for queue, age in zip(queues, ages, strict=True)
    )
    inner = {queue.parent for queue in queues}
    leaves = [queue.name for queue in queues if queue.name not in inner]
    held = draw(st.lists(st.integers(0, 20), min_size=len(leaves), max_size=len(leaves)))
    more = draw(st.lists(st.integers(0, 20), min_size=len(leaves), max_size=len(leaves)))
    return World(
        queues=queues,
        total=draw(st.integers(0, 60)) * unit,
        allocated={name: a * unit for name, a in zip(leaves, held, strict=True)},
        requests={name: (a + b) * unit for name, a, b in zip(leaves, held, more, strict=True)},
        unit=unit,
    )


@given(worlds())
def test_it_is_what_rational_arithmetic_gives(world: World) -> None:
    exact = DemandedTree(
        world.queues,
        "cpu",
        requests=world.requests,
        allocated=world.allocated,
        is_whole=world.is_whole,
    )
    shares = Shares(world)
    assert shares.share == exact.fair_shares(world.total)
    assert shares.demand == {name: exact.demand(name) for name in exact.queues}
    assert shares.guarantee == {name: exact.guarantee(name) for name in exact.queues}


@given(worlds())
def test_w1_children_get_no_more_than_their_parent_has(world: World) -> None:
    shares = Shares(world)
    for budget, children in shares.families():
        assert sum(shares.share[child] for child in children) <= budget


@given(worlds())
def test_w2_a_guarantee_is_kept_and_nobody_gets_more_than_it_wants_or_has_kept(
    world: World,
) -> None:
    shares = Shares(world)
    tops = [shares.tree.names[top] for top in shares.tree.tops]
    all_fit = sum(shares.guarantee[top] for top in tops) <= world.total
    for name, share in shares.share.items():
        assert share <= max(shares.demand[name], shares.guarantee[name])
        if all_fit:
            assert share >= shares.guarantee[name]


@given(worlds())
def test_w3_what_somebody_with_a_weight_wants_is_dealt_out_up_to_rounding(world: World) -> None:
    """Of whole devices, all of it."""
    shares = Shares(world)
    for budget, children in shares.families():
        if any(shares.queue[c].weight and shares.share[c] < shares.demand[c] for c in children):
            left = budget - sum(shares.share[child] for child in children)
            assert left == 0 if world.is_whole else left < len(children)


@given(worlds())
def test_w4_what_is_deserved_is_met_if_all_of_it_can_be(world: World) -> None:
    shares = Shares(world)
    for budget, children in shares.families():
        owed = {c: shares.deserves(c, budget) for c in children}
        if sum(max(shares.guarantee[c], owed[c]) for c in children) <= budget:
            assert all(shares.share[c] >= owed[c] for c in children)


@given(worlds())
def test_w5_nobody_envies_a_queue_of_its_class_by_more_than_one_unit(world: World) -> None:
    plain = [evolve(queue, guarantee=Resource(), deserved=Resource()) for queue in world.queues]
    shares = Shares(evolve(world, queues=plain))
    for _, children in shares.families():
        for one in children:
            weight = shares.queue[one].weight
            if not weight or shares.share[one] >= shares.demand[one]:
                continue
            for other in children:
                if shares.queue[other].priority == shares.queue[one].priority:
                    theirs = shares.share[other] - world.unit * world.is_whole
                    mine = shares.share[one] + world.unit
                    assert theirs * weight <= mine * shares.queue[other].weight


@given(worlds())
def test_w5_nobody_envies_the_surplus_of_a_queue_of_its_class(world: World) -> None:
    """Where all that is guaranteed and deserved is dealt, what comes on top goes by weight."""
    shares = Shares(world)
    for budget, children in shares.families():
        owed = {c: max(shares.guarantee[c], shares.deserves(c, budget)) for c in children}
        if sum(owed.values()) > budget:
            continue
        for one in children:
            weight = shares.queue[one].weight
            if not weight or shares.share[one] >= shares.demand[one]:
                continue
            for other in children:
                if shares.queue[other].priority == shares.queue[one].priority:
                    theirs = shares.share[other] - owed[other] - world.unit * world.is_whole
                    mine = shares.share[one] - owed[one] + world.unit
                    assert theirs * weight <= mine * shares.queue[other].weight


@given(worlds())
def test_w6_a_lower_class_gets_no_surplus_while_a_higher_one_wants(world: World) -> None:
    shares = Shares(world)
    for budget, children in shares.families():
        for one in children:
            if not shares.queue[one].weight or shares.share[one] >= shares.demand[one]:
                continue
            for other in children:
                if shares.queue[other].priority < shares.queue[one].priority:
                    owed = shares.deserves(other, budget)
                    assert shares.share[other] <= max(shares.guarantee[other], owed)


@given(worlds(), st.integers(0, 8), st.integers(1, 20))
def test_w7_asking_for_more_gains_and_does_not_help_strangers(
    world: World, who: int, more: int
) -> None:
    leaf = sorted(world.requests)[who % len(world.requests)]
    asked = {**world.requests, leaf: world.requests[leaf] + more * world.unit}
    before, after = Shares(world), Shares(evolve(world, requests=asked))
    assert after.share[leaf] >= before.share[leaf]
    tree = before.tree
    top = tree.path(tree.position[leaf])[-1]
    for name, position in tree.position.items():
        if tree.path(position)[-1] != top:
            assert after.share[name] <= before.share[name] + world.unit * world.is_whole


@given(worlds(), st.integers(1, 20))
def test_w8_more_capacity_lowers_no_share_but_for_rounding(world: World, more: int) -> None:
    after = Shares(evolve(world, total=world.total + more * world.unit))
    before = Shares(world)
    for name, share in before.share.items():
        lost = share - after.share[name]
        assert lost <= (world.unit if world.is_whole else len(world.queues))


@given(worlds(), st.randoms(use_true_random=False))
def test_the_order_of_the_input_does_not_matter(world: World, chance: object) -> None:
    shuffled = list(world.queues)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    assert Shares(evolve(world, queues=tuple(shuffled))).share == Shares(world).share


@given(worlds())
def test_a_flat_tree_with_nothing_deserved_is_max_min_fair(world: World) -> None:
    plain = tuple(
        evolve(q, guarantee=Resource(), deserved=Resource(), parent=None, priority=0, weight=1)
        for q in world.queues
    )
    shares = Shares(evolve(world, queues=plain))
    # Max-min fair: who gets more than another has left the other nothing that it wants.
    for one, share in shares.share.items():
        for other, theirs in shares.share.items():
            assert theirs <= share + world.unit or share >= shares.demand[one], (one, other)


def cpu(amount: int) -> Resource:
    return Resource(milli_cpu=amount)


def shares_of(
    total: int, *queues: Queue, wants: Mapping[str, int], held: Mapping[str, int] | None = None
) -> dict[str, int]:
    return Shares(World(queues=queues, total=total, requests=wants, allocated=held or {})).share


class TestDecidedExamples:
    def test_q1_what_is_deserved_then_priority_then_weight(self) -> None:
        assert shares_of(
            100,
            Queue(name="A", priority=100, deserved=cpu(20), weight=0),
            Queue(name="B", priority=100, deserved=cpu(30), weight=2),
            Queue(name="C", priority=50, deserved=cpu(30), weight=1),
            wants={"A": 70, "B": 40, "C": 50},
        ) == {"A": 20, "B": 40, "C": 40}

    @pytest.mark.parametrize(("priority", "expected"), [(0, (5, 5)), (1, (8, 2))])
    def test_q2_more_is_deserved_than_there_is(
        self, priority: int, expected: tuple[int, int]
    ) -> None:
        shares = shares_of(
            10,
            Queue(name="a", deserved=cpu(8), priority=priority),
            Queue(name="b", deserved=cpu(8)),
            wants={"a": 10, "b": 10},
        )
        assert (shares["a"], shares["b"]) == expected

    def test_q3_what_is_guaranteed_is_kept_though_it_is_not_wanted(self) -> None:
        assert shares_of(
            10,
            Queue(name="a", guarantee=cpu(4)),
            Queue(name="b"),
            Queue(name="c"),
            wants={"b": 10, "c": 10},
        ) == {"a": 4, "b": 3, "c": 3}

    def test_q4_what_is_deserved_and_not_wanted_goes_to_others_by_weight(self) -> None:
        assert shares_of(
            300,
            Queue(name="CS", deserved=cpu(300)),
            Queue(name="C1"),
            Queue(name="1A", parent="C1"),
            Queue(name="1B", parent="C1"),
            Queue(name="1C", parent="C1", weight=3),
            Queue(name="C2"),
            Queue(name="2A", parent="C2"),
            wants={"1A": 999, "1B": 999, "1C": 999, "2A": 999},
        ) == {"CS": 0, "C1": 150, "1A": 30, "1B": 30, "1C": 90, "C2": 150, "2A": 150}

    def test_q5_a_parent_wants_no_more_than_the_limits_below_it_allow(self) -> None:
        limit = ResourceLimit(milli_cpu=2)
        shares = shares_of(
            20,
            Queue(name="X"),
            Queue(name="x1", parent="X", limit=limit),
            Queue(name="x2", parent="X", limit=limit),
            Queue(name="Y"),
            wants={"x1": 50, "x2": 50, "Y": 100},
        )
        assert (shares["X"], shares["Y"]) == (4, 16)

    def test_q8_a_sibling_that_uses_other_resources_starves_nobody(self) -> None:
        queues = (
            Queue(name="n1"),
            Queue(name="n2"),
            Queue(name="n2.1", parent="n2"),
            Queue(name="n2.2", parent="n2"),
        )
        cpus = shares_of(10, *queues, wants={"n1": 10, "n2.1": 10})
        assert (cpus["n1"], cpus["n2.1"], cpus["n2.2"]) == (5, 5, 0)
        gpus = Shares(World(queues=queues, total=10, requests={"n2.2": 10}, dimension="gpu"))
        assert gpus.share["n2.2"] == 10

    def test_a_share_that_does_not_come_out_even_is_rounded_down(self) -> None:
        assert shares_of(
            10_000,
            *(Queue(name=name) for name in "abc"),
            wants={"a": 6000, "b": 6000, "c": 6000},
        ) == {"a": 3333, "b": 3333, "c": 3333}

    @pytest.mark.parametrize(
        ("state", "expected"),
        [(QueueStatus.OPEN, 5), (QueueStatus.CLOSED, 3), (QueueStatus.DRAINING, 0)],
    )
    def test_what_holds_for_a_queue_holds_for_those_below_it(
        self, state: QueueStatus, expected: int
    ) -> None:
        shares = shares_of(
            10,
            Queue(name="p", state=state),
            Queue(name="a", parent="p"),
            Queue(name="b"),
            wants={"a": 10, "b": 10},
            held={"a": 3},
        )
        assert shares["a"] == expected

    def test_what_is_deserved_may_be_all_that_the_parent_has(self) -> None:
        shares = shares_of(
            12,
            Queue(name="p", weight=1),
            Queue(name="a", parent="p", deserved=None),
            Queue(name="b", parent="p", deserved=ResourceLimit(memory=1)),
            Queue(name="q", weight=1),
            wants={"a": 9, "b": 9, "q": 9},
        )
        assert (shares["a"], shares["b"], shares["q"]) == (3, 3, 6)


def test_a_queue_above_others_is_promised_what_they_are_and_no_more_than_everything() -> None:
    def promised(total: int) -> list[int]:
        queues = [Queue(name="top")]
        queues += [Queue(name=name, parent="top", deserved=Resource(milli_cpu=6)) for name in "ab"]
        tree = QueueTree(queues)
        granted = Entitlements(tree, "cpu")
        kept = effective_guarantees(tree, granted.guarantees)
        shares = nominal_shares(tree, total=total, guarantees=kept, deserved=granted.deserved)
        return [shares[tree.position[name]] for name in ("top", "a", "b")]

    assert promised(20) == [12, 6, 6]
    assert promised(10) == [10, 6, 6]
