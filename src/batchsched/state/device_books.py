"""What is held of each node's devices, in the four views of a node, and what claims would get."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import cast

from attrs import define, evolve, field, frozen

from batchsched.causes import UnfitReason
from batchsched.devices import (
    TRIES,
    Candidate,
    DeviceKey,
    DeviceSearch,
    Holdings,
    Offer,
    Order,
    Rank,
    Refusal,
    TooManyTries,
    candidate_of,
    has_left,
    problem_of_selector,
    shown_part,
    shown_selectors,
)
from batchsched.errors import Fault, SnapshotError
from batchsched.model.devices import Device, DeviceClaim, DevicePick, DeviceRequest
from batchsched.model.reasons import DevicesRefused, Unfit
from batchsched.model.validation.devices import MOST_DEVICES
from batchsched.state.ledger import Ledger
from batchsched.state.records import TAKEN, Fit, InAmounts, NodeState, TaskState

PLUGIN = "devices"
"""The plugin whose choices are picks of devices."""
IDLE = 0
VIEWS = {Fit.NOW: (IDLE, 1, 2, 3), Fit.LATER: (1, 3), Fit.CONDITIONALLY: (2, 3)}
"""The views in which a task must fit: idle, future_idle, accessible and eventual."""
Picks = tuple[DevicePick, ...]
_Answer = tuple[tuple[DevicePick, int], ...] | Unfit
"""Each pick, with the position of its device on the node; or why there is none."""
_Order = Hashable
"""In which order devices are tried, and all that this reads."""
_MOST_ANSWERS = 200_000
_MOST_KNOWN = 10_000


@frozen(eq=False)
class NodeKind:
    """Devices that are alike on several nodes, but for their names and pools."""

    number: int
    is_wide: bool
    """Whether what is held on other nodes counts, too."""


@frozen(eq=False)
class _OneRequest:
    """What is known of claims that are one request, which only who holds a device can refuse."""

    request: DeviceRequest
    count: int
    candidates: tuple[tuple[int, DevicePick], ...]
    """The devices that it may have, by position, and what it would take."""
    refused: Mapping[str, int]
    """How many others there are, by why it may not have them."""

    def first(self, there: NodeDevices, views: Sequence[Holdings], rank: Rank | None) -> _Answer:
        """Return the devices that it gets, as `DeviceSearch` would, or why it gets none."""
        free: list[tuple[DevicePick, int]] = []
        devices = there.offer.devices
        for place, pick in self.candidates:
            device, amounts = devices[place], pick.amounts
            for view in views:
                if view.is_whole(device) or not (
                    amounts is None or has_left(view, device, amounts)
                ):
                    break
            else:
                free.append((pick, place))
                if rank is None and len(free) == self.count:
                    return tuple(free)
        if len(free) >= self.count and rank is not None:
            ranks = [rank(self.request, devices[place], pick.amounts) for pick, place in free]
            if None not in ranks:
                best = min(range(len(free)), key=lambda at: ranks[at] or 0)
                return (free[best],)
            return tuple(free[: self.count])
        taken = len(self.candidates) - len(free)
        reason = UnfitReason.DEVICES_TAKEN
        counts = {**self.refused, "taken": taken} if taken else self.refused
        if len(self.candidates) < self.count:
            reason, counts = UnfitReason.NO_DEVICE, self.refused
        refused = DevicesRefused(
            self.request.name,
            shown_selectors(self.request),
            counts,
            part=shown_part(self.request),
            number=self.count,
        )
        return Unfit(reason, PLUGIN, devices=refused)


@define(eq=False)
class NodeDevices:
    """The devices of a node, and what is held of them."""

    node: NodeState
    kind: NodeKind
    offer: Offer
    offer_number: int
    """A number for the devices with their names."""
    views: tuple[Holdings, ...]
    """Idle, future_idle, accessible, eventual: the same object where they do not differ."""
    state: int
    """A number for its kind, and for what is held of each device in each view."""
    token: int
    """A number for its state and the names of its devices."""
    _left: dict[tuple[str, int], tuple[int, ...]] = field(
        factory=dict[tuple[str, int], tuple[int, ...]]
    )

    def left(self, capacity: str, view: int = IDLE) -> tuple[int, ...]:
        """Return how much of a capacity nobody holds of each device; 0 of one held whole."""
        found = self._left.get((capacity, view))
        if found is None:
            held = self.views[view]
            found = tuple([held.left(each, capacity) for each in self.offer.devices])
            self._left[capacity, view] = found
        return found


Ranks = Callable[[TaskState, NodeDevices, int], tuple[Rank, Hashable]]
"""Ranks devices for a task on a node, by what is held in a view; and returns all that this reads
besides the devices and what is held of them."""


class DeviceBooks:
    """What is held of devices on each node, as its tasks are now, and what claims would get.

    It is read by the plugin that chooses devices and by those that rank nodes. What it keeps of a
    node it forgets when the node changes. Equal claims ask nodes of equal devices, of which equal
    parts are held, once.
    """

    def __init__(self, ledger: Ledger, *, is_plain: bool) -> None:
        self._ledger = ledger
        self._is_plain = is_plain
        """Whether all is computed anew each time."""
        self.order: Order = "listed"
        self.tries = TRIES
        self.has_unknown = False
        """Whether any task holds devices that nobody named: they are found anew in each cycle."""
        self.is_read = False
        """Whether a plugin chooses devices: without one, claims are not looked at."""
        self.sharing: dict[str, list[TaskState]] = {}
        """The tasks that have a claim together, by what they call it."""
        self._ranks: Ranks | None = None
        self._claims: dict[str, tuple[tuple[DeviceClaim, ...], int, bool]] = {}
        """The claims of tasks by UID, their number, and whether they may read names."""
        self._claim_kinds: dict[tuple[DeviceClaim, ...], int] = {}
        self._selectors: set[Callable[[Device], bool]] = set()
        """The selectors that are functions and were tried on all devices."""
        self._forget()

    def _forget(self) -> None:
        ledger = self._ledger
        self._read_up_to = len(ledger.log.nodes)
        self._of_slot: dict[int, NodeDevices] = {}
        self._kinds: dict[Hashable, NodeKind] = {}
        self._same_offers: dict[Hashable, tuple[Offer, int]] = {}
        self._candidates: dict[tuple[int, int], dict[tuple[int, int], list[Candidate]]] = {}
        """What is found out about a kind of claims, and devices with their names."""
        self._offers: dict[int, tuple[NodeState, Offer, NodeKind, int]] = {}
        self._numbers: dict[Hashable, int] = {}
        self._answers: dict[tuple[int, int, Fit, _Order], Picks | Unfit] = {}
        """By kind of claims, `NodeDevices.token`, way to fit and order."""
        self._like: dict[tuple[int, int, Fit, _Order], _Answer] = {}
        """The same by `NodeDevices.state`, whatever devices are called."""
        self._passing: dict[tuple[int, int, int], bool] = {}
        self._of_one: dict[tuple[int, int, int], _OneRequest | None] = {}
        self._scarcity: dict[int, int] = {}
        self._assumed: dict[str, tuple[NodeState, Picks]] = {}
        """What tasks are taken to have whose devices are unknown, by UID."""
        self._common: dict[DeviceKey, Device] = {
            each.key: each for each in ledger.besides["devices"]
        }
        self._held = [(ledger.besides["held"], (True, True, True, True))]
        pools = [
            {(each.driver, each.pool) for each in devices if each.counters}
            for devices in (self._common.values(), *(node.info.devices for node in ledger.nodes))
            if devices
        ]
        found: set[tuple[str, str]] = set()
        self._wide: set[tuple[str, str]] = set()
        """The pools whose counters devices of several nodes draw on."""
        for each in pools:
            self._wide |= found & each
            found |= each

    def resume(self) -> None:
        """Go on with the next cycle. What is kept of nodes is forgotten if the log was cleared.

        Devices that nobody named are found anew; nodes where they are others count as changed.
        """
        if self.has_unknown:
            before = self._assumed
            self.begin()
            for uid, (node, _) in [*before.items(), *self._assumed.items()]:
                if before.get(uid) != self._assumed.get(uid):
                    self._ledger.log.nodes.append(node.slot)
        if self._read_up_to > len(self._ledger.log.nodes):
            self._of_slot.clear()
            self._read_up_to = len(self._ledger.log.nodes)

    def rank_by(self, ranks: Ranks) -> None:
        """Rank devices in this way where the order is `scored`."""
        self._ranks = ranks
        self._answers.clear()
        self._like.clear()

    def signature(self, task: TaskState) -> Hashable:
        """Return all that choices read of a task; None: it claims nothing."""
        if not (task.info.claims and self.is_read):
            return None
        return self._number_of(task)[0]

    def begin(self) -> None:
        """Read the books anew, and find devices for the tasks of which they are unknown.

        O(devices), and a search for each such task.
        """
        self._forget()
        self._selectors.clear()
        claiming = self._ledger.claiming
        self.check_selectors(claiming.values())
        self.sharing.clear()
        for _, task in sorted(claiming.items()):
            for claim in task.info.claims:
                if claim.shared is not None:
                    self.sharing.setdefault(claim.shared, []).append(task)
        self.has_unknown = any(map(is_unknown, self._ledger.claiming.values()))
        order, self.order = self.order, "tight"
        for uid, task in sorted(self._ledger.claiming.items()):
            if is_unknown(task) and task.node is not None:
                found = self._choose(task, task.node, (IDLE,), (), None)
                if isinstance(found, tuple):
                    self._assumed[uid] = task.node, found
                    self._of_slot.pop(task.node.slot, None)
        self.order = order

    def check_selectors(self, tasks: Iterable[TaskState]) -> None:
        """Try selectors of tasks that are functions on all devices, each once; texts never raise.

        O(devices) for each new selector.

        Raises:
            SnapshotError: selectors that raise, each with its first task, claim and request.

        """
        found: dict[Callable[[Device], bool], str] = {}
        for task in tasks:
            for path, selector in _functions_of(task):
                if selector not in self._selectors:
                    found[selector] = min(path, found.get(selector, path))
        if found:
            devices = list(self._all_devices())
            tried = [(path, problem_of_selector(each, devices)) for each, path in found.items()]
            faults = [Fault(path, problem) for path, problem in tried if problem]
            if faults:
                raise SnapshotError(faults)
            self._selectors |= found.keys()

    def _all_devices(self) -> Iterator[Device]:
        yield from self._common.values()
        for node in self._ledger.nodes:
            yield from node.info.devices

    @property
    def has_devices(self) -> bool:
        """Whether any node has, or may reach, devices."""
        return bool(self._common) or any(node.info.devices for node in self._ledger.nodes)

    @property
    def is_wide(self) -> bool:
        """Whether choices on a node depend on others: they share devices or their counters."""
        return bool(self._wide or self._common)

    def picks_of(self, task: TaskState) -> Picks:
        """Return the devices that a task has on its node, or is promised there."""
        picks = task.choices.get(PLUGIN)
        if picks is None and task.uid in self._assumed:
            node, assumed = self._assumed[task.uid]
            return assumed if task.node is node and task.status.holds else ()
        return picks or ()  # type: ignore[return-value]  # it is the choice of this plugin

    def of(self, node: NodeState, gone: Collection[TaskState] = ()) -> NodeDevices:
        """Return the devices of a node, and what others than `gone` hold. O(devices), if new."""
        log = self._ledger.log.nodes
        if len(log) != self._read_up_to:
            for slot in log[self._read_up_to :]:
                self._of_slot.pop(slot, None)
            self._read_up_to = len(log)
        found = None if gone or self._is_plain else self._of_slot.get(node.slot)
        if found is None or found.kind.is_wide:
            offer, kind, number = self._offer_of(node)
            devices = {each.key: each for each in offer.devices}
            held = [*self._held, *self._held_on(node, gone)]
            if kind.is_wide:
                held += self._held_elsewhere(node, gone, devices)
            if self.sharing:
                held = _counted_once(held)
            distinct, places = _views(devices, held)
            views = tuple([distinct[place] for place in places])
            held_of = tuple([_state_of(view, offer) for view in distinct])
            state = self._number((kind.number, held_of, places))
            token = self._number((number, state))
            found = NodeDevices(node, kind, offer, number, views, state, token)
            if not gone:
                self._of_slot[node.slot] = found
        return found

    def _number(self, content: Hashable) -> int:
        return self._numbers.setdefault(content, len(self._numbers))

    def _held_on(
        self, node: NodeState, gone: Collection[TaskState]
    ) -> Iterator[tuple[Picks, InAmounts]]:
        for task in node.tasks.values():
            picks = self.picks_of(task)
            if picks and task not in gone:
                yield picks, TAKEN[task.is_backfill][task.status.index]

    def _held_elsewhere(
        self, node: NodeState, gone: Collection[TaskState], devices: dict[DeviceKey, Device]
    ) -> Iterator[tuple[Picks, InAmounts]]:
        """Yield what tasks of other nodes hold of what counts here; add it to the devices.

        O(tasks with devices).
        """
        for key, device in self._common.items():
            devices.setdefault(key, device)
        for other in self._ledger.nodes:
            if other is node or not other.tasks:
                continue
            # Devices of other nodes may be called as those of this one.
            named = {
                each.key: evolve(each, name=f"{other.name}/{each.name}")
                for each in other.info.devices
                if (each.driver, each.pool) in self._wide
            }
            devices.update((each.key, each) for each in named.values())
            for picks, counted in self._held_on(other, gone):
                yield (
                    tuple(
                        evolve(pick, device=named[pick.device].key)
                        if pick.device in named
                        else pick
                        for pick in picks
                        if pick.device in named or pick.device in self._common
                    ),
                    counted,
                )

    def _offer_of(self, node: NodeState) -> tuple[Offer, NodeKind, int]:
        known = self._offers.get(node.slot)
        if known is not None and known[0] is node:
            return known[1:]
        info = node.info
        reached = [
            each
            for each in self._common.values()
            if each.nodes is None
            or any(term.matches(info.labels, info.name) for term in each.nodes)
        ]
        offer = Offer(
            (*info.devices, *reached),
            (*info.counter_sets, *self._ledger.besides["counter_sets"]),
            info.closed_pools,
        )
        pools: dict[tuple[str, str], int] = {}
        for each in offer.devices:
            pools.setdefault((each.driver, each.pool), len(pools))
        is_wide = bool(reached) or not self._wide.isdisjoint(pools)
        content = (
            is_wide,
            offer.is_partly_closed,
            tuple([_without_name(each, pools) for each in offer.devices]),
            frozenset(
                (pools[key[0], key[1]], key[2], key[3], most)
                for key, most in offer.limits.items()
                if (key[0], key[1]) in pools
            ),
        )
        kind = self._kinds.setdefault(content, NodeKind(len(self._kinds), is_wide))
        # Equal devices become the same, so that what is found out about them is found out once.
        named = kind.number, tuple([each.key for each in offer.devices])
        offer, number = self._same_offers.setdefault(named, (offer, len(self._same_offers)))
        self._offers[node.slot] = node, offer, kind, number
        return offer, kind, number

    # What a task would get

    def choose(
        self,
        task: TaskState,
        node: NodeState,
        fit: Fit,
        /,
        *,
        gone: Collection[TaskState] = (),
        kept: Hashable | None = None,
    ) -> Picks | Unfit | None:
        """Return the devices that a task gets on a node; None: it claims none.

        Args:
            task: a task.
            node: a node where its vector fits in this way.
            fit: the way.
            gone: tasks that are taken as gone.
            kept: the devices that were promised to it there: these, or none.

        """
        if not task.info.claims:
            return None
        at = VIEWS[fit]
        if kept is not None or self._is_plain or self.sharing:
            return self._choose(task, node, at, gone, cast("Picks | None", kept))
        there = self.of(node, gone)
        if there.kind.is_wide:
            return self._choose(task, node, at, gone, None)
        number, reads_names = self._number_of(task)
        order = self._order_at(task, there, at)[1] if self.order == "scored" else None
        key = number, there.token, fit, order
        answer = self._answers.get(key)
        if answer is None:
            if len(self._answers) >= _MOST_ANSWERS:
                self._answers.clear()
                self._like.clear()
            like = number, there.state, fit, order
            found = None if reads_names else self._like.get(like)
            if found is None:
                found = self._search(task, there, at, None)
                if not reads_names:
                    self._like[like] = found
            answer = self._answers[key] = self._named(found, there)
        return answer

    def _choose(
        self,
        task: TaskState,
        node: NodeState,
        at: Sequence[int],
        gone: Collection[TaskState],
        kept: Picks | None,
    ) -> Picks | Unfit:
        """Return what a task gets on a node; nothing is remembered."""
        there = self.of(node, gone)
        if not any(claim.shared for claim in task.info.claims):
            return self._named(self._search(task, there, at, kept), there)
        together = self._together(task, there, at, gone)
        if isinstance(together, Unfit):
            return together
        if kept is not None:
            mine = {claim.name for claim in together.left}
            if {pick for pick in kept if pick.claim not in mine} != set(together.picks):
                return _held_elsewhere(task)
            kept = tuple([pick for pick in kept if pick.claim in mine])
        if not together.left:
            return together.picks
        search = self._searcher_of_left(task, there, at, together)
        try:
            found = search.first() if kept is None else kept if search.confirms(kept) else None
            if found is None:
                reason = UnfitReason.DEVICES_TAKEN
                search = self._searcher_of_left(task, there, at, together)
                if not (together.picks or self._passes_empty(task, there)):
                    reason = UnfitReason.NO_DEVICE
                    search = DeviceSearch(task.info.claims, there.offer, [_nothing(there)])
                return Unfit(reason, PLUGIN, devices=search.refused())
        except TooManyTries:
            return Unfit(UnfitReason.DEVICE_SEARCH_LIMIT, PLUGIN, f"{self.tries:,}")
        return _in_order(task, (*together.picks, *found))

    def _searcher_of_left(
        self, task: TaskState, there: NodeDevices, at: Sequence[int], together: _Together
    ) -> DeviceSearch:
        rank = self._order_at(task, there, at)[0]
        left, views, order = together.left, together.views, self.order
        return DeviceSearch(left, there.offer, views, tries=self.tries, order=order, rank=rank)

    def _together(
        self,
        task: TaskState,
        there: NodeDevices,
        at: Sequence[int],
        gone: Collection[TaskState],
    ) -> _Together | Unfit:
        """Return what a task has of claims that others have with it, and what it claims besides.

        For what others have already it asks for nothing, but it must reach all of that. O(tasks
        that have these claims).
        """
        views = {place: there.views[place] for place in at}
        picks: list[DevicePick] = []
        left: list[DeviceClaim] = []
        for claim in task.info.claims:
            its, counted = self._held_with(claim, task, there.node, gone)
            if not its:
                left.append(claim)
                continue
            lacking = [place for place in at if not counted[place]]
            if not all(pick.device in there.offer.places for pick in its):
                return _held_elsewhere(task)
            if lacking:
                # Who has them leaves, or comes only later: they must be free for this one, too.
                search = DeviceSearch([claim], there.offer, _distinct(there, lacking))
                if not search.confirms(its):
                    return _held_elsewhere(task)
                for place in lacking:
                    views[place] = views[place].copy()
                    for pick in its:
                        views[place].hold(pick)
            picks += its
        return _Together(tuple(picks), tuple(left), list(views.values()))

    def _held_with(
        self, claim: DeviceClaim, task: TaskState, node: NodeState, gone: Collection[TaskState]
    ) -> tuple[Picks, InAmounts]:
        """Return what others have of a claim, and in which views they have it.

        Devices of other nodes are given names that no device has here.
        """
        found: Picks = ()
        counted: InAmounts = (False, False, False, False)
        if claim.shared is None:
            return found, counted
        holders = [
            (each.node, self.picks_of(each), TAKEN[each.is_backfill][each.status.index])
            for each in self.sharing.get(claim.shared, ())
            if each is not task and each.node is not None and each not in gone
        ]
        for held_on, has, in_views in [(None, *each) for each in self._held] + holders:
            its = tuple([pick for pick in has if pick.shared == claim.shared])
            if not (its and any(in_views)):
                continue
            if not found:
                found = tuple(
                    [
                        evolve(pick, claim=claim.name)
                        if held_on in (node, None) or pick.device in self._common
                        else evolve(pick, claim=claim.name, device=("", "", f"{pick.device}"))
                        for pick in its
                    ]
                )
            counted = _either(counted, in_views)
        return found, counted

    @staticmethod
    def _named(answer: _Answer, there: NodeDevices) -> Picks | Unfit:
        """Return the picks of devices as they are called on a node."""
        if isinstance(answer, Unfit):
            return answer
        devices = there.offer.devices
        return tuple(
            [
                pick if pick.device == key else evolve(pick, device=key)
                for pick, key in ((pick, devices[place].key) for pick, place in answer)
            ]
        )

    def _number_of(self, task: TaskState) -> tuple[int, bool]:
        """Return the number of the kind of claims, and whether they may read names of devices."""
        claims = task.info.claims
        known = self._claims.get(task.uid)
        if known is None or known[0] is not claims:
            if len(self._claims) >= _MOST_ANSWERS:
                self._claims.clear()
            number = self._claim_kinds.setdefault(claims, len(self._claim_kinds))
            requests = [each for claim in claims for each in claim.requests]
            requests += [each for request in requests for each in request.alternatives]
            reads_names = any(callable(each) for request in requests for each in request.select)
            known = self._claims[task.uid] = claims, number, reads_names
        return known[1], known[2]

    def _key_of(self, task: TaskState, there: NodeDevices) -> tuple[int, int, int]:
        """Return what answers depend on that are the same whatever is held."""
        number, reads_names = self._number_of(task)
        return number, there.kind.number, there.node.slot if reads_names else -1

    def _order_at(
        self, task: TaskState, there: NodeDevices, at: Sequence[int]
    ) -> tuple[Rank | None, Hashable]:
        if self.order != "scored" or self._ranks is None:
            return None, self.order
        return self._ranks(task, there, at[0])

    def _searcher(self, task: TaskState, there: NodeDevices, at: Sequence[int]) -> DeviceSearch:
        return DeviceSearch(
            task.info.claims,
            there.offer,
            _distinct(there, at),
            tries=self.tries,
            order=self.order,
            rank=self._order_at(task, there, at)[0],
            known=self._known_of(task, there),
        )

    def _known_of(
        self, task: TaskState, there: NodeDevices
    ) -> dict[tuple[int, int], list[Candidate]] | None:
        if self._is_plain:
            return None
        if len(self._candidates) >= _MOST_KNOWN:
            self._candidates.clear()
        key = self._number_of(task)[0], there.offer_number
        return self._candidates.setdefault(key, {})

    def _search(
        self, task: TaskState, there: NodeDevices, at: Sequence[int], kept: Picks | None
    ) -> _Answer:
        if kept is None and not self._is_plain and self.order in ("listed", "scored"):
            one = self._one_request(task, there)
            if one is not None:
                rank = self._order_at(task, there, at)[0] if one.count == 1 else None
                return one.first(there, _distinct(there, at), rank)
        search = self._searcher(task, there, at)
        try:
            found = search.first() if kept is None else kept if search.confirms(kept) else None
            if found is not None:
                place = there.offer.places
                return tuple([(pick, place[pick.device]) for pick in found])
            reason, search = UnfitReason.DEVICES_TAKEN, self._searcher(task, there, at)
            if not self._passes_empty(task, there):
                known = self._known_of(task, there)
                reason = UnfitReason.NO_DEVICE
                search = DeviceSearch(task.info.claims, there.offer, [_nothing(there)], known=known)
            return Unfit(reason, PLUGIN, devices=search.refused())
        except TooManyTries:
            return Unfit(UnfitReason.DEVICE_SEARCH_LIMIT, PLUGIN, f"{self.tries:,}")

    def _one_request(self, task: TaskState, there: NodeDevices) -> _OneRequest | None:
        """Return what is known of a task's only request; None: its claims need a search."""
        key = self._key_of(task, there)
        if key in self._of_one:
            return self._of_one[key]
        claims, offer = task.info.claims, there.offer
        request = claims[0].requests[0]
        found = None
        if (
            len(claims) == len(claims[0].requests) == 1
            and not (claims[0].constraints or request.alternatives or request.admin)
            and request.count != "all"
            and request.count <= MOST_DEVICES
            and len(offer.devices) <= self.tries
            and not (there.kind.is_wide or any(each.counters for each in offer.devices))
        ):
            empty = DeviceSearch(claims, offer, [_nothing(there)], tries=self.tries)
            found = _OneRequest(request, request.count, *empty.picks_of_one())
        self._of_one[key] = found
        return found

    def allocations(self, task: TaskState, node: NodeState, at: Sequence[int]) -> Iterator[Picks]:
        """Yield all that a task could get on a node, the first first, up to so many tries."""
        there, picks = self.of(node), Picks()
        search = None
        if any(claim.shared for claim in task.info.claims):
            together = self._together(task, there, at, ())
            if isinstance(together, Unfit):
                return
            picks = together.picks
            if not together.left:
                yield picks
                return
            search = self._searcher_of_left(task, there, at, together)
        try:
            for found in (search or self._searcher(task, there, at)).all():
                yield _in_order(task, (*picks, *found)) if picks else found
        except TooManyTries:
            return

    def scarcity(self, task: TaskState) -> float:
        """Return the smallest number of devices that the selectors of one of its requests accept.

        Those of alternatives are summed; infinite if it claims nothing. O(devices) for each kind
        of claims.
        """
        if not task.info.claims:
            return inf
        number = self._number_of(task)[0]
        found = self._scarcity.get(number)
        if found is None:
            devices = list(self._all_devices())
            found = self._scarcity[number] = min(
                sum(
                    candidate_of(claim, each, device).refusal is not Refusal.NOT_SELECTED
                    for each in request.alternatives or (request,)
                    for device in devices
                )
                for claim in task.info.claims
                for request in claim.requests
            )
        return found

    def _passes_empty(self, task: TaskState, there: NodeDevices) -> bool:
        key = self._key_of(task, there)
        passes = self._passing.get(key)
        if passes is None or self._is_plain or there.kind.is_wide:
            views = [_nothing(there)]
            search = DeviceSearch(task.info.claims, there.offer, views, tries=self.tries)
            passes = self._passing[key] = search.first() is not None
        return passes


@define(eq=False)
class _Together:
    """What a task has with others, and how what is left of its claims is searched."""

    picks: Picks
    left: tuple[DeviceClaim, ...]
    views: list[Holdings]


def _held_elsewhere(task: TaskState) -> Unfit:
    """Return the refusal of a node that does not reach what a task has together with others."""
    name = next(claim.name for claim in task.info.claims if claim.shared is not None)
    counts = {"of a shared claim, out of reach": 1}
    refused = DevicesRefused(name, (), counts)
    return Unfit(UnfitReason.DEVICES_TAKEN, PLUGIN, devices=refused)


def _in_order(task: TaskState, picks: Picks) -> Picks:
    """Return picks in the order of the claims of their task."""
    place = {claim.name: place for place, claim in enumerate(task.info.claims)}
    return tuple(sorted(picks, key=lambda pick: place[pick.claim]))


def _either(one: InAmounts, other: InAmounts) -> InAmounts:
    return (one[0] or other[0], one[1] or other[1], one[2] or other[2], one[3] or other[3])


def _counted_once(
    held: Iterable[tuple[Picks, InAmounts]],
) -> list[tuple[Picks, InAmounts]]:
    """Return what is held where what several tasks have together counts once in each view."""
    found: list[tuple[Picks, InAmounts]] = []
    shared: dict[tuple[str, str, DeviceKey], tuple[DevicePick, InAmounts]] = {}
    for picks, counted in held:
        found.append((tuple([pick for pick in picks if pick.shared is None]), counted))
        for pick in picks:
            if pick.shared is not None:
                key = pick.shared, pick.request, pick.device
                _, known = shared.get(key, (pick, counted))
                shared[key] = pick, _either(known, counted)
    return [*found, *(((pick,), counted) for pick, counted in shared.values())]


def _distinct(there: NodeDevices, at: Sequence[int]) -> list[Holdings]:
    views: list[Holdings] = []
    for each in at:
        view = there.views[each]
        if not any(view is other for other in views):
            views.append(view)
    return views


def _functions_of(task: TaskState) -> Iterator[tuple[str, Callable[[Device], bool]]]:
    """Yield the selectors of a task that are functions, with their paths."""
    for claim in task.info.claims:
        for request in claim.requests:
            path = f"tasks[{task.uid!r}].claims[{claim.name!r}].requests[{request.name!r}]"
            options = [(f"{path}.alternatives[{a.name!r}]", a) for a in request.alternatives]
            for where, each in ((path, request), *options):
                for at, selector in enumerate(each.select):
                    if not isinstance(selector, str):
                        yield f"{where}.select[{at}]", selector


def is_unknown(task: TaskState) -> bool:
    """Return whether a task holds devices that nobody named."""
    return bool(task.info.claims) and task.info.devices is None and task.info.status.holds


def _views(
    devices: Mapping[DeviceKey, Device], held: Iterable[tuple[Picks, InAmounts]]
) -> tuple[list[Holdings], tuple[int, ...]]:
    """Return the views that differ, and for each of the four which of these it is."""
    all_held = [each for each in held if each[0]]
    known: dict[tuple[bool, ...], int] = {}
    views: list[Holdings] = []
    places: list[int] = []
    for at in range(4):
        pattern = tuple([counted[at] for _, counted in all_held])
        place = known.setdefault(pattern, len(known))
        if place == len(views):
            view = Holdings(devices)
            views.append(view)
            for (picks, _), is_held in zip(all_held, pattern, strict=True):
                if is_held:
                    for pick in picks:
                        view.hold(pick)
        places.append(place)
    return views, tuple(places)


def _nothing(there: NodeDevices) -> Holdings:
    return Holdings(there.views[IDLE].devices)


def _state_of(view: Holdings, offer: Offer) -> Hashable:
    if not view.holders:
        return ()
    return tuple(
        [
            (bool(view.whole.get(each.key)), tuple(sorted(view.parts.get(each.key, {}).items())))
            if view.holders.get(each.key)
            else None
            for each in offer.devices
        ]
    )


def _without_name(device: Device, pools: Mapping[tuple[str, str], int]) -> Hashable:
    return (
        pools[device.driver, device.pool],
        device.driver,
        device.attributes,
        device.capacity,
        device.policies,
        device.shared,
        device.counters,
        device.taints,
    )
