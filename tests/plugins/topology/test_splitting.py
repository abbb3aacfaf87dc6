"""Splitting over areas, against the plain definition: all areas, all subsets, all distributions."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from batchsched import Domain, NodeInfo, Topology
from batchsched.plugins.topology.areas import Area, areas_of
from batchsched.plugins.topology.splitting import AreaCounts
from batchsched.state.records import NodeState

LEVELS = ("block", "rack", "host")
TREE = Topology("net", LEVELS)


def nodes(*labels: dict[str, str]) -> list[NodeState]:
    return [
        NodeState(NodeInfo(name=f"n{place}", labels=each), place, (), ())
        for place, each in enumerate(labels)
    ]


@st.composite
def clusters(draw: st.DrawFn) -> tuple[Area, dict[int, int]]:
    """A tree of up to nine nodes, some without some labels, and how many tasks each holds."""
    labels = [
        {
            key: f"{key[0]}{value}"
            for key, value in zip(LEVELS, values, strict=True)
            if value < 3 or key == "host"
        }
        for values in draw(
            st.lists(
                st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 9)),
                min_size=1,
                max_size=9,
            )
        )
    ]
    made = nodes(*labels)
    return areas_of(TREE, made), {
        node.slot: draw(st.integers(0, 4), label=node.name) for node in made
    }


def places(free: dict[int, int], *segments: tuple[int, int]) -> AreaCounts:
    return AreaCounts(lambda area: sum(free[slot] for slot in area.slots), segments, len(LEVELS))


SEGMENTS = st.sampled_from(
    [
        (),
        ((2, 0),),
        ((2, 1),),
        ((3, 1),),
        ((2, 2),),
        ((4, 1), (2, 2)),
        ((4, 0), (2, 2)),
        ((4, 0), (2, 1)),
    ]
)


def most_segments(area: Area, free: dict[int, int], segments: tuple[tuple[int, int], ...]) -> int:
    """How many whole segments of the first size an area holds, by its definition alone."""
    (size, level), *further = segments
    total = 0
    for domain in area.at(level):
        room = _room(domain, free, tuple(further))
        total += room // size
    return total


def _room(area: Area, free: dict[int, int], further: tuple[tuple[int, int], ...]) -> int:
    if not further:
        return sum(free[slot] for slot in area.slots)
    size, level = further[0]
    return sum(_room(each, free, further[1:]) // size * size for each in area.at(level))


@given(clusters(), SEGMENTS, st.integers(1, 12))
def test_what_an_area_holds_is_placed_in_it(
    cluster: tuple[Area, dict[int, int]], segments: tuple[tuple[int, int], ...], count: int
) -> None:
    root, free = cluster
    if len(segments) > 1:
        count = -(-count // segments[0][0]) * segments[0][0]
    counted = places(free, *segments)
    for area in (root, *root.at(0)):
        parts = counted.split(area, range(count)) if counted.holds(area, count) else None
        if not segments:
            assert counted.holds(area, count) == (_room(area, free, ()) >= count)
        else:
            size, level = segments[0]
            whole, short = divmod(count, size)
            spare = most_segments(area, free, segments) - whole
            tails = [_room(each, free, segments[1:]) % size for each in area.at(level)]
            assert counted.holds(area, count) == (
                spare > 0 or (spare == 0 and short <= max(tails, default=0))
            )
        if parts is None:
            assert not counted.holds(area, count)
            continue
        given_out = sorted(task for _, tasks in parts for task in tasks)
        assert given_out == list(range(count))
        used: dict[Area, int] = {}
        for part, tasks in parts:
            assert part.slots <= area.slots
            used[part] = used.get(part, 0) + len(tasks)
        for part, number in used.items():
            assert number <= sum(free[slot] for slot in part.slots)
        where = {task: part for part, tasks in parts for task in tasks}
        for size, level in segments:
            for first in range(0, count, size):
                domains = {
                    domain
                    for task in range(first, min(first + size, count))
                    for domain in where[task].path()
                    if domain.level == level and not domain.is_rest
                }
                assert len(domains) == 1


@given(clusters(), SEGMENTS, st.integers(1, 12))
def test_areas_are_as_few_as_possible_at_each_level_given_those_above(
    cluster: tuple[Area, dict[int, int]], segments: tuple[tuple[int, int], ...], count: int
) -> None:
    root, free = cluster
    size, level = segments[0] if segments else (1, len(LEVELS) - 1)
    count = -(-count // size) * size
    counted = places(free, *segments)
    if not counted.holds(root, count):
        return
    parts = counted.split(root, range(count))
    assert parts is not None
    above: set[Area] = {root}
    for depth in range(level + 1):
        pool = [
            part
            for area in above
            for part in (
                area.split_over() if area.level == depth - 1 and not area.is_rest else (area,)
            )
        ]
        chosen = {next(area for area in part.path() if area in pool) for part, _ in parts}
        fewest = next(
            number
            for number in range(1, len(pool) + 1)
            if any(
                sum(map(counted.units, some)) >= count // size
                for some in combinations(pool, number)
            )
        )
        assert len(chosen) == fewest
        above = chosen


def test_the_first_scenario() -> None:
    """Zone A: racks 2, 1, 1, 1; three tasks: two in the first, one in the next."""
    root = areas_of(
        Topology("t", ("zone", "rack")), nodes(*({"zone": "A", "rack": f"r{n}"} for n in range(4)))
    )
    counted = AreaCounts(lambda area: sum((2, 1, 1, 1)[slot] for slot in area.slots), (), 2)
    parts = counted.split(root.at(0)[0], "xyz")
    assert parts is not None
    assert [(area.name, list(tasks)) for area, tasks in parts] == [
        ("A/r0", ["x", "y"]),
        ("A/r1", ["z"]),
    ]


def test_whole_segments_go_to_their_domains_and_the_short_one_where_it_fits_most_tightly() -> None:
    racks = nodes(*({"rack": name} for name in "ab"))
    tree = areas_of(Topology("t", ("rack",)), racks)

    def split(free: tuple[int, int], count: int, size: int) -> list[list[int]] | None:
        counted = AreaCounts(lambda area: sum(free[slot] for slot in area.slots), [(size, 0)], 1)
        parts = counted.split(tree, range(count))
        return None if parts is None else [list(tasks) for _, tasks in parts]

    assert split((18, 18), 32, 16) == [list(range(16)), list(range(16, 32))]
    assert split((4, 6), 10, 4) == [list(range(4)), list(range(4, 10))]
    assert split((4, 5), 10, 4) is None


def test_segments_below_segments_fill_whole_ones_alone() -> None:
    hosts = nodes(*({"rack": rack, "host": str(n)} for n, rack in enumerate("aabb")))
    tree = areas_of(Topology("t", ("rack", "host")), hosts)
    free = (1, 4, 3, 4)
    counted = AreaCounts(lambda area: sum(free[slot] for slot in area.slots), [(4, 0), (2, 1)], 2)
    parts = counted.split(tree, range(8))
    assert parts is not None
    assert [(area.name, list(tasks)) for area, tasks in parts] == [
        ("a/1", [0, 1, 2, 3]),
        ("b/3", [4, 5, 6, 7]),
    ]


def test_children_that_overlap_are_not_split() -> None:
    made = nodes({}, {}, {})
    rails = Topology(
        "t",
        ("wide", "rail"),
        [
            Domain("wide", "w", ["n0", "n1", "n2"]),
            Domain("rail", "a", ["n0", "n1"]),
            Domain("rail", "b", ["n1", "n2"]),
        ],
    )
    tree = areas_of(rails, made)
    counted = AreaCounts(lambda area: len(area.slots), (), 2)
    parts = counted.split(tree, range(3))
    assert parts is not None
    assert [(area.name, list(tasks)) for area, tasks in parts] == [("w", [0, 1, 2])]
    assert [area.name for area in tree.at(1)] == ["a", "b"]
