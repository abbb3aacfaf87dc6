"""Balanced splits: segments spread evenly over as few domains as possible.

After the balanced placement of Kueue's topology-aware scheduling, without leaders.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import log

from batchsched.plugins.topology.areas import Area
from batchsched.plugins.topology.splitting import AreaCounts
from batchsched.state.records import SortKey

_DIGITS = 12
"""The digits to which entropies are compared."""


def balanced(
    places: AreaCounts,
    root: Area,
    preferred: int,
    wanted: int,
    tightness: Callable[[Area], SortKey],
) -> Mapping[Area, int] | None:
    """Return how many of `wanted` segments each of some domains gets; None: there is no such split.

    Args:
        places: counts what domains hold.
        root: the nodes to choose among.
        preferred: the preferred level.
        wanted: how many segments there are.
        tightness: ranks domains of one level, the tightest first.

    """
    is_wider = preferred < places.level
    families: list[tuple[Sequence[Area], Sequence[Area]]] = []
    for above in root.at(preferred - 1):
        of_family: Sequence[Area] = [a for a in above.at(preferred) if not a.overlaps]
        below = [part for area in of_family for part in area.at(preferred + 1)]
        families.append((of_family, below if is_wider else of_family))
    whole = [area for _, low in families for area in low if places.units(area) >= wanted]
    if whole:
        return {min(whole, key=tightness): wanted}
    best: tuple[tuple[int, int, int], Sequence[Area], Sequence[Area]] | None = None
    for number, (all_of_family, all_low) in enumerate(families):
        threshold = _threshold([places.units(area) for area in all_low], wanted)
        enough = [area for area in all_low if places.units(area) >= threshold]
        units = _units_of(all_of_family, enough, places, is_wider=is_wider)
        family = [area for area in all_of_family if units(area) >= threshold]
        low = [area for area in enough if not is_wider or area.parent in family]
        if not threshold or sum(map(places.units, low)) < wanted:
            continue
        rank = (-threshold, _fewest([units(area) for area in family], wanted), number)
        if best is None or rank < best[0]:
            best = rank, family, low
    if best is None:
        return None
    (negated, _, _), chosen_family, chosen_low = best
    if is_wider:
        chosen_low = _low_of_fewest(chosen_family, chosen_low, places, wanted)
    chosen = _smallest_set(chosen_low, places.units, places.tasks, wanted)
    if chosen is None:
        return None
    return _dealt(chosen, places, -negated, wanted)


def _threshold(units: Sequence[int], wanted: int) -> int:
    """Return what each of the fewest domains that hold all could get; 0: they do not."""
    together = 0
    for count, each in enumerate(sorted(units, reverse=True), 1):
        together += each
        if together >= wanted:
            return min(wanted // count, each)
    return 0


def _fewest(units: Sequence[int], wanted: int) -> int:
    """Return how many domains hold all, the largest first."""
    for count, each in enumerate(sorted(units, reverse=True), 1):
        wanted -= each
        if wanted <= 0:
            return count
    return len(units) + 1


def _units_of(
    family: Sequence[Area], low: Sequence[Area], places: AreaCounts, *, is_wider: bool
) -> Callable[[Area], int]:
    """Return what counts the segments of a domain of a family, in those below it that are left."""
    if not is_wider:
        return places.units
    sums = dict.fromkeys(family, 0)
    for area in low:
        if area.parent in sums:
            sums[area.parent] += places.units(area)
    return sums.__getitem__


def _low_of_fewest(
    family: Sequence[Area], low: Sequence[Area], places: AreaCounts, wanted: int
) -> Sequence[Area]:
    """Return the domains below the smallest set of a family that holds all."""
    below = {area: [each for each in low if each.parent is area] for area in family}
    units = {area: sum(map(places.units, each)) for area, each in below.items()}
    tasks = {area: sum(map(places.tasks, each)) for area, each in below.items()}

    def listed(area: Area) -> tuple[float, ...]:
        return -units[area], -_entropy([places.tasks(each) for each in below[area]]), area.place

    chosen = _smallest_set(sorted(family, key=listed), units.__getitem__, tasks.__getitem__, wanted)
    kept = set(chosen or ())
    return [area for area in low if area.parent in kept]


def _entropy(counts: Sequence[int]) -> float:
    total = sum(counts)
    parts = [count / total for count in counts if count]
    return round(-sum(part * log(part) for part in parts), _DIGITS)


def _smallest_set(
    areas: Sequence[Area],
    units: Callable[[Area], int],
    tasks: Callable[[Area], int],
    wanted: int,
) -> Sequence[Area] | None:
    """Return the set of the fewest areas that holds all, and holds the fewest tasks in all.

    Among equal ones, that whose last member comes first. O(areas x their number x wanted).
    """
    count = _fewest([units(area) for area in areas], wanted)
    found: dict[tuple[int, int], tuple[int, tuple[Area, ...]]] = {(0, 0): (0, ())}
    for area in areas:
        for (number, held), (has, members) in list(found.items()):
            if number == count:
                continue
            key = number + 1, min(wanted, held + units(area))
            more = has + tasks(area)
            if key not in found or more < found[key][0]:
                found[key] = more, (*members, area)
    best = found.get((count, wanted))
    return None if best is None else best[1]


def _dealt(
    chosen: Sequence[Area], places: AreaCounts, each: int, wanted: int
) -> Mapping[Area, int]:
    """Give each area its part, and what is left to those with most segments first."""
    given = dict.fromkeys(chosen, each)
    left = wanted - each * len(chosen)
    for area in sorted(chosen, key=lambda area: (-places.units(area), area.place)):
        more = min(left, places.units(area) - each)
        given[area] += more
        left -= more
    return given
