"""Balanced splits, against all sets of domains."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from batchsched import NodeInfo, Topology
from batchsched.plugins.topology.areas import Area, areas_of
from batchsched.plugins.topology.balanced import balanced
from batchsched.plugins.topology.splitting import AreaCounts
from batchsched.state.records import NodeState


def tree_of(levels: tuple[str, ...], labels: list[dict[str, str]]) -> Area:
    nodes = [
        NodeState(NodeInfo(name=f"n{place}", labels=each), place, (), ())
        for place, each in enumerate(labels)
    ]
    return areas_of(Topology("t", levels), nodes)


def places(free: tuple[int, ...], levels: int, *segments: tuple[int, int]) -> AreaCounts:
    return AreaCounts(lambda area: sum(free[slot] for slot in area.slots), segments, levels)


def spread(
    counted: AreaCounts, root: Area, preferred: int, wanted: int
) -> Mapping[Area, int] | None:
    return balanced(counted, root, preferred, wanted, lambda a: (counted.units(a), a.place))


@given(st.lists(st.integers(0, 9), min_size=1, max_size=6).map(tuple), st.integers(1, 30))
def test_no_set_of_as_few_domains_has_a_larger_minimum(free: tuple[int, ...], wanted: int) -> None:
    root = tree_of(("host",), [{"host": f"h{place}"} for place in range(len(free))])
    given_out = spread(places(free, 1), root, 0, wanted)
    fewest = next(
        (
            number
            for number in range(1, len(free) + 1)
            if any(sum(some) >= wanted for some in combinations(free, number))
        ),
        None,
    )
    if fewest is None:
        assert given_out is None
        return
    largest = (
        max(
            min(wanted // fewest, *some)
            for some in combinations(free, fewest)
            if sum(some) >= wanted
        )
        if fewest > 1
        else wanted
    )
    if given_out is None:
        assert largest == 0
        return
    assert sum(given_out.values()) == wanted
    assert len(given_out) == fewest
    assert min(given_out.values()) == largest
    assert all(count <= sum(free[s] for s in area.slots) for area, count in given_out.items())


def test_of_a_family_of_blocks_the_fewest_and_their_racks_evenly() -> None:
    labels = [{"block": block, "rack": f"{block}{n}"} for block in "AB" for n in range(3)]
    root = tree_of(("block", "rack"), labels)
    counted = places((4, 4, 1, 3, 3, 3), 2, (1, 1))
    given_out = spread(counted, root, 0, 6)
    assert given_out is not None
    assert {area.name: count for area, count in given_out.items()} == {"A/A0": 3, "A/A1": 3}


def test_one_domain_that_holds_all_is_the_tightest() -> None:
    root = tree_of(("host",), [{"host": f"h{place}"} for place in range(3)])
    given_out = spread(places((9, 5, 7), 1), root, 0, 5)
    assert given_out is not None
    assert {area.name: count for area, count in given_out.items()} == {"h1": 5}
