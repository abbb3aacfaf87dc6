"""Which devices serve a task: claims, what nodes offer, and the search for an allocation.

Vectors of resources say how much a task takes, devices say where: which GPU, which part of it. The
rules follow the allocator of Kubernetes' dynamic resource allocation; docs/devices.md says
where they differ, and why.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Literal, cast

from attrs import define, field, frozen

from batchsched.errors import ArgumentError, Fault, SnapshotError, shown_problem
from batchsched.model.constraints import untolerated
from batchsched.model.devices import (
    CapacityPolicy,
    CounterSet,
    Device,
    DeviceClaim,
    DeviceConstraint,
    DevicePick,
    DeviceRequest,
    Milli,
    Selector,
    Version,
    named_under,
    read_selector,
)
from batchsched.model.reasons import DevicesRefused
from batchsched.model.texts import describe_exports
from batchsched.model.validation.arguments import checks_arguments
from batchsched.model.validation.devices import (
    MOST_DEVICES,
    check_closed_pools,
    check_counter_sets,
    check_devices,
    check_picks,
    devices_of_task_problems,
    least_devices,
    offer_problems,
)
from batchsched.model.validation.values import integer_problems

__all__ = [
    "CapacityPolicy",
    "CounterSet",
    "Device",
    "DeviceClaim",
    "DeviceConstraint",
    "DevicePick",
    "DeviceRequest",
    "Milli",
    "Selector",
    "Version",
    "allocate",
    "read_selector",
]

describe_exports(__name__)

DeviceKey = tuple[str, str, str]
CounterKey = tuple[str, str, str, str]
"""Driver, pool, counter set and counter."""
Order = Literal["listed", "tight", "spread", "scored"]
ORDERS: tuple[Order, ...] = ("listed", "tight", "spread", "scored")
Rank = Callable[[DeviceRequest, Device, Mapping[str, int] | None], int | None]
"""Ranks devices for a request of one of them, the smallest first; None: as they are listed."""
TRIES = 10_000
"""How many devices are looked at for one task on one node, unless said otherwise."""


class Refusal(Enum):
    """Why a request may not have a device: the first rule that says so."""

    NOT_SELECTED = "not selected"
    TOO_SMALL = "too small"
    TAKEN = "taken"
    NO_COUNTER = "no counter"
    TAINTED = "tainted"
    APART = "apart"
    """A constraint keeps it away from what the claim has."""


@define(eq=False)
class Holdings:
    """What is held of devices, in one view of a node: by whom does not matter."""

    devices: Mapping[DeviceKey, Device]
    """All devices that count; what is held of others counts nowhere."""
    whole: dict[DeviceKey, int] = field(factory=dict[DeviceKey, int])
    """How many hold a device as a whole."""
    holders: dict[DeviceKey, int] = field(factory=dict[DeviceKey, int])
    """How many hold a device or a part of it."""
    parts: dict[DeviceKey, dict[str, int]] = field(factory=dict[DeviceKey, dict[str, int]])
    """How much is held of each capacity."""
    drawn: dict[CounterKey, int] = field(factory=dict[CounterKey, int])
    """How much devices draw on each counter."""

    def copy(self) -> Holdings:
        """Return holdings that change by themselves. O(held)."""
        parts = {key: dict(amounts) for key, amounts in self.parts.items()}
        return Holdings(self.devices, dict(self.whole), dict(self.holders), parts, dict(self.drawn))

    def hold(self, pick: DevicePick, by: int = 1) -> None:
        """Add a pick; with `by` -1, take it away."""
        device = self.devices.get(pick.device)
        if device is None or pick.admin:
            return
        self.change(device, pick.amounts if device.shared else None, by)

    def change(self, device: Device, amounts: Mapping[str, int] | None, by: int) -> None:
        """Add or take away a holder of a device, or of amounts of it. O(capacities + counters)."""
        key = device.key
        before = self.holders.get(key, 0)
        self.holders[key] = before + by
        if amounts is None:
            self.whole[key] = self.whole.get(key, 0) + by
        else:
            parts = self.parts.setdefault(key, {})
            for name, amount in amounts.items():
                parts[name] = parts.get(name, 0) + by * amount
        if before + min(by, 0) == 0:  # its first holder came, or its last one went
            for name, drawn in device.counters.items():
                for counter, amount in drawn.items():
                    place = (device.driver, device.pool, name, counter)
                    self.drawn[place] = self.drawn.get(place, 0) + by * amount

    def is_whole(self, device: Device) -> bool:
        """Return whether somebody holds all of a device."""
        key = device.key
        return bool(self.whole.get(key) or (not device.shared and self.holders.get(key)))

    def left(self, device: Device, capacity: str | None = None) -> int:
        """Return how much nobody holds of a capacity, or of the first by name.

        0 of a device that is held as a whole, or has no such capacity.
        """
        name = min(device.capacity, default="") if capacity is None else capacity
        if name not in device.capacity or self.is_whole(device):
            return 0
        return device.capacity[name] - self.parts.get(device.key, {}).get(name, 0)


def _pool_order(devices: Iterable[Device]) -> list[Device]:
    """Sort devices by driver and pool; pools with devices that wait for conditions come last."""
    found = list(devices)
    late = {(each.driver, each.pool) for each in found if each.conditions}
    return sorted(
        found,
        key=lambda each: ((each.driver, each.pool) in late, each.driver, each.pool),
    )


class Offer:
    """The devices of a node, in the order in which they are tried, and their counters."""

    def __init__(
        self,
        devices: Iterable[Device],
        counter_sets: Iterable[CounterSet] = (),
        closed_pools: Iterable[tuple[str, str]] = (),
    ) -> None:
        closed = frozenset(closed_pools)
        self.is_partly_closed = bool(closed)
        """Whether there are pools that offer nothing: nobody knows what `all` would be."""
        self.devices = [
            each for each in _pool_order(devices) if (each.driver, each.pool) not in closed
        ]
        self.places = {each.key: at for at, each in enumerate(self.devices)}
        """The position of each device."""
        self.limits = {
            (each.driver, each.pool, each.name, counter): amount
            for each in counter_sets
            for counter, amount in each.counters.items()
        }


def _values(device: Device, attribute: str) -> frozenset[tuple[type, object]] | None:
    """Return the values of an attribute, each with its type: True is not 1. None: it has none."""
    name = named_under(attribute, device.attributes, device.driver)
    if name is None:
        return None
    value = device.attributes[name]
    each = value if isinstance(value, tuple) else (value,)
    return frozenset((type(one), one) for one in each)


class _Constraint:
    """A constraint of a claim, and the values of the devices that are chosen under it."""

    def __init__(self, constraint: DeviceConstraint) -> None:
        self.requests = constraint.requests
        self.is_same = constraint.same is not None
        self.attribute = cast("str", constraint.same or constraint.distinct)
        self.values: list[frozenset[tuple[type, object]]] = []
        """After each choice: the values that all have, or those that any has."""

    def names(self, request: str) -> bool:
        return (
            not self.requests
            or request in self.requests
            or request.partition("/")[0] in self.requests
        )

    def most_of(self, devices: Sequence[Device]) -> int:
        """Return the most of some devices that could be chosen together under it, at the most."""
        values = [each for each in map(self.joined, devices) if each is not None]
        if self.is_same:
            return max(Counter(value for each in values for value in each).values(), default=0)
        chosen = self.values[-1] if self.values else frozenset[tuple[type, object]]()
        return len(chosen.union(*values) - chosen)

    def joined(self, device: Device) -> frozenset[tuple[type, object]] | None:
        """Return the values after a device is chosen, too; None if it may not be."""
        found = _values(device, self.attribute)
        if found is None or not self.values:
            return found
        last = self.values[-1]
        if self.is_same:
            return last & found or None
        return None if last & found else last | found


def _word(refusal: Refusal, device: Device, request: DeviceRequest) -> str:
    """Return why a request may not have a device, with the taint by name."""
    if refusal is Refusal.TAINTED:
        taint = untolerated(device.taints, request.tolerations)
        if taint is not None:
            value = f"={taint.value}" if taint.value else ""
            return f"{refusal.value} {taint.key}{value}"
    return refusal.value


@define(eq=False)
class _ClaimState:
    """What a claim has in the trial."""

    constraints: list[_Constraint]
    count: int = 0
    holds: set[DeviceKey] = field(factory=set[DeviceKey])
    looks_after: set[DeviceKey] = field(factory=set[DeviceKey])
    """What its admin requests have."""


@frozen(eq=False)
class _Variant:
    """A way to serve a request of a claim: itself, or one of its alternatives."""

    claim: DeviceClaim
    state: _ClaimState
    name: str
    """``r`` or ``r/a``."""
    request: DeviceRequest
    later: int
    """How many devices later requests of the claim need at the least."""


@frozen(eq=False)
class Candidate:
    """A device, and the amounts that a request would take of it; None: all of it."""

    device: Device
    amounts: Mapping[str, int] | None
    refusal: Refusal | None
    """Why the request may not have it in any case."""


class TooManyTries(Exception):  # noqa: N818 - it says what happened, and does not leave the search
    """More devices were looked at than may be."""


class DeviceSearch:
    """Finds the allocations of claims that are possible in each of several views of a node.

    Depth first, by claims, requests and alternatives as they are listed; for each request all sets
    of devices in lexicographic order. O(devices x requests) where no choice is undone.
    """

    def __init__(
        self,
        claims: Sequence[DeviceClaim],
        offer: Offer,
        views: Sequence[Holdings],
        *,
        tries: int = TRIES,
        order: Order = "listed",
        rank: Rank | None = None,
        known: dict[tuple[int, int], list[Candidate]] | None = None,
    ) -> None:
        """Prepare a search.

        Args:
            claims: what is claimed.
            offer: what the node offers.
            views: what is held of it, in each view that must pass.
            tries: how many devices may be looked at.
            order: in which order devices are tried.
            rank: for the order `scored`: ranks devices for a request.
            known: what is found out about these claims and this offer, for further searches.

        """
        self._offer = offer
        self._held = views
        self._views = [view.copy() for view in views]  # with the trial
        self._tries = tries
        self._steps = list(self._read(claims))
        self._known = {} if known is None else known
        self._candidates: dict[tuple[int, int], list[Candidate]] = {}
        self._picks: list[DevicePick] = []
        self._rank = rank
        self._only: dict[tuple[str, str], set[DeviceKey]] | None = None
        """The devices of each request that may be chosen; None: all."""
        self._refused: DevicesRefused | None = None
        self._deepest = -1
        """The last request that was reached, if it is noted why devices are refused."""
        self._order = order

    @staticmethod
    def _read(claims: Sequence[DeviceClaim]) -> Iterator[tuple[_Variant, ...]]:
        for claim in claims:
            state = _ClaimState([_Constraint(each) for each in claim.constraints])
            least = [least_devices(request) for request in claim.requests]
            for place, request in enumerate(claim.requests):
                of_alternatives = [(f"{request.name}/{a.name}", a) for a in request.alternatives]
                later = sum(least[place + 1 :])
                yield tuple(
                    _Variant(claim, state, name, each, later)
                    for name, each in of_alternatives or [(request.name, request)]
                )

    def first(self) -> tuple[DevicePick, ...] | None:
        """Return the first allocation; None if there is none.

        Raises:
            TooManyTries: more devices were looked at than may be.
            SnapshotError: a selector raised.

        """
        return next(self.all(), None)

    def all(self) -> Iterator[tuple[DevicePick, ...]]:
        """Yield all allocations, the first first. Raises as `first` does."""
        return self._serve(0)

    def confirms(self, picks: Sequence[DevicePick]) -> bool:
        """Return whether these picks are an allocation, in whatever order. Raises as `first`."""
        self._only = {}
        for pick in picks:
            self._only.setdefault((pick.claim, pick.request), set()).add(pick.device)
        return frozenset(self.first() or ()) == frozenset(picks)

    def refused(self) -> DevicesRefused:
        """Return which request is the first that cannot be served, and why devices are refused.

        The requests before it have what they have in the first of their allocations.
        """
        if len(self._steps) == 1:
            return self._noted(0)
        self._refused = DevicesRefused()
        self.first()
        return self._refused

    def picks_of_one(self) -> tuple[tuple[tuple[int, DevicePick], ...], Mapping[str, int]]:
        """Return what claims of one request may have, by position; and why not the others."""
        [[variant]] = self._steps
        refused: Counter[str] = Counter()
        picks: list[tuple[int, DevicePick]] = []
        for place, candidate in enumerate(self._candidates_of(0, 0)):
            refusal = self.refusal(variant, candidate)
            if refusal is None:
                picks.append((place, _pick_of(variant, candidate)))
            else:
                refused[_word(refusal, candidate.device, variant.request)] += 1
        return tuple(picks), refused

    def _noted(self, place: int) -> DevicesRefused:
        variant = self._steps[place][0]
        request, counts = variant.request, Counter[str]()
        free: list[Device] = []
        selected: list[Device] = []
        for each in self._candidates_of(place, 0):
            refusal = self.refusal(variant, each)
            if refusal is not Refusal.NOT_SELECTED:
                selected.append(each.device)
            if refusal is None or refusal is Refusal.APART:
                free.append(each.device)
            else:
                counts[_word(refusal, each.device, request)] += 1
        least = len(free) if request.count == "all" else request.count
        unpublished = ""
        for constraint in variant.state.constraints:
            if constraint.names(variant.name):
                attribute = constraint.attribute.rpartition("/")[2]
                if selected and all(_values(d, constraint.attribute) is None for d in selected):
                    unpublished = unpublished or attribute
                elif constraint.most_of(free) < least <= len(free):
                    what = "one value" if constraint.is_same else "different values"
                    counts[f"not in {what} of {attribute}"] += len(free)
                    break
        return DevicesRefused(
            variant.name,
            shown_selectors(request),
            counts,
            asks_for_all=request.count == "all",
            unpublished=unpublished,
            part=shown_part(request),
            number=1 if request.count == "all" else request.count,
        )

    def _serve(self, place: int) -> Iterator[tuple[DevicePick, ...]]:
        if place == len(self._steps):
            yield tuple(self._picks)
            return
        if self._refused is not None and place > self._deepest:
            self._refused, self._deepest = self._noted(place), place
        for number, variant in enumerate(self._steps[place]):
            if self._only is not None and (variant.claim.name, variant.name) not in self._only:
                continue
            candidates = self._candidates_of(place, number)
            count = variant.request.count
            if count == "all":
                candidates = self._all_of(candidates)
                count = len(candidates)
                if not candidates or self._offer.is_partly_closed:
                    continue
            if variant.state.count + count + variant.later > MOST_DEVICES:
                continue
            yield from self._choose(place, variant, candidates, 0, count)

    def _choose(
        self, place: int, variant: _Variant, candidates: list[Candidate], start: int, count: int
    ) -> Iterator[tuple[DevicePick, ...]]:
        """Choose `count` of the candidates from `start` on, and all that comes after them."""
        if count == 0:
            yield from self._serve(place + 1)
            return
        for at in range(start, len(candidates) - count + 1):
            self._tries -= 1
            if self._tries < 0:
                raise TooManyTries
            candidate = candidates[at]
            if self.refusal(variant, candidate) is None:
                self._take(variant, candidate)
                yield from self._choose(place, variant, candidates, at + 1, count - 1)
                self._give_back(variant, candidate)
            if variant.request.count == "all":
                return

    def _candidates_of(self, place: int, number: int) -> list[Candidate]:
        found = self._candidates.get((place, number))
        if found is None:
            variant = self._steps[place][number]
            request = variant.request
            found = self._known.get((place, number))
            if found is None:
                found = [candidate_of(variant.claim, request, d) for d in self._offer.devices]
                self._known[place, number] = found
            if request.count != "all":
                found = self._in_order(found, request)
                if self._only is not None:
                    keys = self._only[variant.claim.name, variant.name]
                    found = [each for each in found if each.device.key in keys]
            self._candidates[place, number] = found
        return found

    def _in_order(self, found: list[Candidate], request: DeviceRequest) -> list[Candidate]:
        view = self._held[0]
        if self._order in ("tight", "spread"):
            sign = 1 if self._order == "tight" else -1
            return sorted(
                found,
                key=lambda each: (view.is_whole(each.device), sign * view.left(each.device)),
            )
        if self._rank is None or request.count != 1:
            return found
        free = [each for each in found if each.refusal is None]
        ranks = {each.device.key: self._rank(request, each.device, each.amounts) for each in free}
        if None in ranks.values():
            return found
        return sorted(found, key=lambda each: ranks.get(each.device.key) or 0)

    def _all_of(self, candidates: list[Candidate]) -> list[Candidate]:
        """Return what `all` means now: what is selected and, where it is shared, has room."""
        return [
            each
            for each in candidates
            if each.refusal is not Refusal.NOT_SELECTED
            and not (each.device.shared and each.refusal is Refusal.TOO_SMALL)
            and (
                each.amounts is None
                or all(has_left(view, each.device, each.amounts) for view in self._held)
            )
        ]

    def refusal(self, variant: _Variant, candidate: Candidate) -> Refusal | None:
        """Return why a request may not have a device beside the trial; None: it may."""
        if candidate.refusal is not None:
            return candidate.refusal
        device, request, state = candidate.device, variant.request, variant.state
        key = device.key
        if key in state.looks_after or (request.admin and key in state.holds):
            return Refusal.TAKEN
        if not request.admin:
            amounts = candidate.amounts
            for view in self._views:
                if view.is_whole(device):
                    return Refusal.TAKEN
                if amounts is not None and not has_left(view, device, amounts):
                    return Refusal.TAKEN
            if device.counters:
                limits = self._offer.limits
                for view in self._views:
                    if not view.holders.get(key) and not _has_counters(view, device, limits):
                        return Refusal.NO_COUNTER
        if device.taints and untolerated(device.taints, request.tolerations) is not None:
            return Refusal.TAINTED
        for constraint in state.constraints:
            if constraint.names(variant.name) and constraint.joined(device) is None:
                return Refusal.APART
        return None

    def _take(self, variant: _Variant, candidate: Candidate) -> None:
        state, device, admin = variant.state, candidate.device, variant.request.admin
        state.count += 1
        if admin:
            state.looks_after.add(device.key)
        else:
            state.holds.add(device.key)
            for view in self._views:
                view.change(device, candidate.amounts, 1)
        for constraint in state.constraints:
            if constraint.names(variant.name):
                constraint.values.append(constraint.joined(device) or frozenset())
        self._picks.append(_pick_of(variant, candidate))

    def _give_back(self, variant: _Variant, candidate: Candidate) -> None:
        self._picks.pop()
        state, device = variant.state, candidate.device
        state.count -= 1
        for constraint in state.constraints:
            if constraint.names(variant.name):
                constraint.values.pop()
        if variant.request.admin:
            state.looks_after.discard(device.key)
            return
        for view in self._views:
            view.change(device, candidate.amounts, -1)
        held = (each for each in self._picks if each.claim == variant.claim.name and not each.admin)
        if all(each.device != device.key for each in held):
            state.holds.discard(device.key)


def _pick_of(variant: _Variant, candidate: Candidate) -> DevicePick:
    return DevicePick(
        claim=variant.claim.name,
        request=variant.name,
        device=candidate.device.key,
        amounts=candidate.amounts,
        admin=variant.request.admin,
        shared=variant.claim.shared,
    )


def shown_selectors(request: DeviceRequest) -> tuple[str, ...]:
    """Return the selectors of a request as text."""
    return tuple([each if isinstance(each, str) else "..." for each in request.select])


OF_NODE = ('device.driver == ""',)
"""The selectors of devices that nodes count themselves, without a driver."""
_PARTS = {500: "half", 250: "a quarter", 750: "three quarters"}


def shown_part(request: DeviceRequest) -> str:
    """Return the part of each device that a request asks for, as text; empty: no part alike.

    >>> shown_part(DeviceRequest(name="gpu", capacity={"memory": Milli(500)}))
    'half'
    """
    amounts = [*request.capacity.values()]
    first = amounts[0] if amounts else None
    if isinstance(first, int) and [*request.capacity] == ["memory"] and request.select == OF_NODE:
        return f"{first:,} MiB"  # nodes tell the memory of their own devices so
    if not isinstance(first, Milli) or any(each != first for each in amounts):
        return ""
    return _PARTS.get(first.thousandths, f"{first.thousandths / 10:g}%")


def candidate_of(claim: DeviceClaim, request: DeviceRequest, device: Device) -> Candidate:
    """Return what a request would take of a device, whoever holds it."""
    if not all(
        _accepts(selector, device, claim, request, at) for at, selector in enumerate(request.select)
    ):
        return Candidate(device, None, Refusal.NOT_SELECTED)
    if request.admin:
        return Candidate(device, None, None)
    amounts = amounts_of(request, device)
    if amounts is None:
        return Candidate(device, None, Refusal.TOO_SMALL)
    return Candidate(device, amounts if device.shared else None, None)


def _accepts(
    selector: Selector, device: Device, claim: DeviceClaim, request: DeviceRequest, at: int
) -> bool:
    if isinstance(selector, str):
        return read_selector(selector)(device)
    try:
        return bool(selector(device))
    except Exception as error:
        path = f"claims[{claim.name!r}].requests[{request.name!r}].select[{at}]"
        raise SnapshotError.at(path, _raised(error, device)) from error


def _raised(error: Exception, device: Device) -> str:
    return f"raised {shown_problem(error)} for device {'/'.join(device.key)!r}"


def problem_of_selector(selector: Callable[[Device], bool], devices: Iterable[Device]) -> str:
    """Return what is wrong with a selector: it raises for a device; empty: for none of them."""
    for device in devices:
        try:
            bool(selector(device))
        except Exception as error:
            return _raised(error, device)
    return ""


def amounts_of(request: DeviceRequest, device: Device) -> Mapping[str, int] | None:
    """Return what a request would take of each capacity of a device; None: it has too little."""
    asked: dict[str, int | Milli] = {}
    for name, amount in request.capacity.items():
        own = named_under(name, device.capacity, device.driver)
        if own is None:
            return None
        asked[own] = amount
    amounts: dict[str, int] = {}
    for name, capacity in device.capacity.items():
        policy = device.policies.get(name)
        wanted = asked.get(name)
        if wanted is None:
            default = None if policy is None else policy.default
            taken: int | None = capacity if default is None else default
        else:
            exact = wanted.of(capacity) if isinstance(wanted, Milli) else wanted
            taken = exact if policy is None else policy.rounded(exact)
        if taken is None or taken > capacity:
            return None
        amounts[name] = taken
    return amounts


def has_left(view: Holdings, device: Device, amounts: Mapping[str, int]) -> bool:
    held = view.parts.get(device.key)
    if held is None:
        return True
    return all(
        held.get(name, 0) + amount <= device.capacity[name] for name, amount in amounts.items()
    )


def _has_counters(view: Holdings, device: Device, limits: Mapping[CounterKey, int]) -> bool:
    for name, drawn in device.counters.items():
        for counter, amount in drawn.items():
            place = (device.driver, device.pool, name, counter)
            if view.drawn.get(place, 0) + amount > limits[place]:
                return False
    return True


@checks_arguments(but_items_of="closed_pools")
def allocate(
    claims: Iterable[DeviceClaim],
    devices: Iterable[Device],
    counter_sets: Iterable[CounterSet] = (),
    *,
    held: Iterable[DevicePick] = (),
    closed_pools: Iterable[tuple[str, str]] = (),
    everywhere: Iterable[Device] = (),
    tries: int = TRIES,
    order: Literal["listed", "tight", "spread"] = "listed",
) -> tuple[DevicePick, ...] | None:
    """Return the devices of a node that serve claims, in the order of their requests, or None.

    The first complete allocation: claims, requests and alternatives as they are listed, and for
    each request the sets of devices in lexicographic order. None also where more than `tries`
    devices were looked at. Follows the structured allocator of Kubernetes' dynamic resource
    allocation (KEP-4381), with the departures that docs/devices.md lists.
    O(devices x requests) where no choice has to be undone.

    Args:
        claims: what is claimed, all to be served together.
        devices: what the node offers, each pool's devices in order of preference.
        counter_sets: what partitions of these devices, and of those elsewhere, draw on.
        held: picks of others.
        closed_pools: driver and pool of what offers nothing, as it is known only in part.
        everywhere: devices of the same pools on other nodes, which draw on the same counters.
        tries: how many devices may be looked at.
        order: in which order devices are tried: as listed, the one first of which least is left
            (`tight`) or most (`spread`).

    Raises:
        ArgumentError: something is wrong with the arguments; all faults at once.
        SnapshotError: a function among the selectors raised.

    >>> gpus = [Device(name=f"gpu-{n}", capacity={"milli": 1000}, shared=True) for n in range(2)]
    >>> half = DeviceRequest(name="gpu", capacity={"milli": 500})
    >>> taken = DevicePick(claim="", request="", device=gpus[0].key, amounts={"milli": 700})
    >>> [pick] = allocate([DeviceClaim(name="mine", requests=[half])], gpus, held=[taken])
    >>> pick.device, dict(pick.amounts)
    (('', '', 'gpu-1'), {'milli': 500})

    """
    asked, of_node, elsewhere = tuple(claims), tuple(devices), tuple(everywhere)
    counters, picks, closed = tuple(counter_sets), tuple(held), tuple(closed_pools)
    problems = [
        *devices_of_task_problems(asked),
        *check_devices("devices", of_node),
        *check_counter_sets("counter_sets", counters),
        *check_picks("held", picks),
        *check_closed_pools("closed_pools", closed),
        *check_devices("everywhere", elsewhere),
        *integer_problems("tries", tries, "an integer, 1 or more", least=1),
    ]
    problems += () if problems else offer_problems((*of_node, *elsewhere), counters)
    if problems:
        raise ArgumentError(Fault(*problem) for problem in problems)
    view = Holdings({device.key: device for device in (*of_node, *elsewhere)})
    for pick in picks:
        view.hold(pick)
    offer = Offer(of_node, counters, closed)
    try:
        return DeviceSearch(asked, offer, [view], tries=tries, order=order).first()
    except TooManyTries:
        return None
