"""placement: ranks nodes exactly, so that tasks are packed, spread, or keep devices whole.

Nodes are ranked in classes of equal width, and in a class by what they have left. The fragmentation
gradient descent (fgd) follows Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing
Workloads with Fragmentation Gradient Descent" (USENIX ATC 2023), with integer classes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence

from attrs import frozen

from batchsched.devices import candidate_of
from batchsched.model.devices import Device, DeviceClaim, DeviceRequest, named_under
from batchsched.model.immutable import EMPTY
from batchsched.plugin.arguments import Arguments
from batchsched.plugin.extension_points import Changes
from batchsched.plugin.session_view import SessionView
from batchsched.state.device_books import DeviceBooks, NodeDevices
from batchsched.state.records import Fit, NodeState, TaskState

Amounts = Mapping[str, int] | None
_STRATEGIES = ("binpack", "spread", "fgd")
_COVERED_PERCENT = 95
"""The part of all tasks whose shapes say what fragments are."""


@frozen(kw_only=True)
class PlacementPlugin:
    """Ranks nodes for a task by one of three strategies."""

    strategy: str = "binpack"
    weights: Mapping[str, int] = EMPTY
    """The weight of each dimension, for binpack and spread; of those not named: 1."""
    classes: int = 100
    """In how many classes of equal width binpack and spread sort nodes."""
    measure: str = "milli"
    """The capacity of devices that counts."""
    width: int = 40
    """The width of a class of fgd, in this capacity."""

    @classmethod
    def from_arguments(cls, arguments: Arguments) -> PlacementPlugin:
        """Read the arguments."""
        return cls(
            strategy=arguments.choice("strategy", _STRATEGIES, default="binpack"),
            weights=arguments.weights("weights"),
            classes=arguments.integer("classes", default=100, minimum=1),
            measure=arguments.text("measure", default="milli"),
            width=arguments.integer("width", default=40, minimum=1),
        )

    def open(self, view: SessionView, /) -> object:
        """Open for one cycle."""
        return (_Gradient if self.strategy == "fgd" else _ByParts)(self, view)


class _Placement:
    """What all strategies have: how well a node fits, and the devices that a task would get."""

    def __init__(self, plugin: PlacementPlugin, view: SessionView) -> None:
        self._plugin = plugin
        self._books: DeviceBooks = view.device_books
        self._nodes = view.nodes
        self._largest: tuple[int, int] | None = None
        # Where other nodes count, nothing is kept for a node; a point that is None is none.
        self.node_key_signature = None if self._books.is_wide else self._signature

    def resume(self, changes: Changes, /) -> bool:
        return not (changes.nodes or changes.nodes_gone)

    def _signature(self, task: TaskState) -> Hashable:
        return task.resreq, self._books.signature(task)

    def _capacity_of(self, node: NodeState) -> int:
        measure = self._plugin.measure
        return sum(device.capacity.get(measure, 0) for device in self._books.of(node).offer.devices)

    def best_fit(self, cpu_left: int, devices_left: int) -> int:
        """Return cpu left / C + device capacity left / D, of the largest node, as one integer."""
        if self._largest is None:
            self._largest = (
                max((node.allocatable[0] for node in self._nodes), default=0),
                max(map(self._capacity_of, self._nodes), default=0),
            )
        cpu, devices = self._largest
        return cpu_left * (devices or 1) + devices_left * (cpu or 1)

    def taken(self, task: TaskState, node: NodeState) -> dict[int, int] | None:
        """Return how much of which device, by position, a task would take now; None: of none."""
        if not (task.info.claims and self._books.is_read):
            return None
        picks = self._books.choose(task, node, Fit.NOW)
        if not isinstance(picks, tuple):
            return None
        there = self._books.of(node)
        place = there.offer.places
        left = there.left(self._plugin.measure)
        taken: dict[int, int] = {}
        for pick in picks:
            if not pick.admin:
                at = place[pick.device]
                amounts = pick.amounts
                amount = left[at] if amounts is None else amounts.get(self._plugin.measure, 0)
                taken[at] = taken.get(at, 0) + amount
        return taken

    def fit_after(self, task: TaskState, node: NodeState) -> int:
        """Return the best fit of a node after a task is placed there."""
        devices_left = 0
        if self._books.has_devices:
            taken = self.taken(task, node) or {}
            left = self._books.of(node).left(self._plugin.measure)
            devices_left = sum(left) - sum(taken.values())
        return self.best_fit(node.idle[0] - task.resreq[0], devices_left)


class _ByParts(_Placement):
    """Binpack: the node that the task fills most. Spread: the one that it leaves emptiest."""

    def __init__(self, plugin: PlacementPlugin, view: SessionView) -> None:
        super().__init__(plugin, view)
        self._weights = [plugin.weights.get(name, 1) for name in view.dimensions.names]
        self._packs = plugin.strategy == "binpack"

    def node_key(self, task: TaskState, node: NodeState, /) -> tuple[int, ...]:
        counted = [
            (weight, asked, idle, there)
            for weight, asked, idle, there in zip(
                self._weights, task.resreq, node.idle, node.allocatable, strict=True
            )
            if weight and asked and there
        ]
        # As one fraction: every part is of the node's own amount.
        whole = 1
        for _, _, _, there in counted:
            whole *= there
        part = 0
        for weight, asked, idle, there in counted:
            amount = there - idle + asked if self._packs else idle - asked
            part += weight * amount * (whole // there)
        divisor = whole * sum(weight for weight, _, _, _ in counted)
        rank = self._plugin.classes * part // divisor if divisor else 0
        fit = self.fit_after(task, node)
        return -rank, fit if self._packs else -fit


@frozen
class ClaimShape:
    """What counts of a task for fragmentation; tasks of one shape are alike."""

    milli_cpu: int
    request: DeviceRequest | None
    """Its only request for devices, without its name; None: it asks for none."""


def shape_of(task: TaskState) -> ClaimShape:
    """Return the shape of a task. What asks for several kinds of devices counts as if for none."""
    requests = [request for claim in task.info.claims for request in claim.requests]
    request = None
    if len(requests) == 1 and not requests[0].alternatives and not requests[0].admin:
        [only] = requests
        request = DeviceRequest(
            name="", count=only.count, select=only.select, capacity=only.capacity
        )
    return ClaimShape(task.resreq[0], request)


def typical_shapes(counts: Mapping[ClaimShape, int]) -> dict[ClaimShape, int]:
    """Return the most frequent shapes, until they make up 95 %, and all as frequent as the last.

    >>> counts = {ClaimShape(cpu, None): 5 for cpu in (2, 3)} | {ClaimShape(4, None): 1}
    >>> [shape.milli_cpu for shape in typical_shapes({ClaimShape(1, None): 90, **counts})]
    [1, 2, 3]
    """
    total, covered, last = sum(counts.values()), 0, 0
    typical: dict[ClaimShape, int] = {}
    for shape, count in sorted(counts.items(), key=lambda item: -item[1]):
        if covered * 100 >= _COVERED_PERCENT * total and count < last:
            break
        typical[shape] = count
        covered, last = covered + count, count
    return typical


class Fragmentation:
    """How much of the devices of a node typical tasks cannot use."""

    def __init__(self, shapes: Mapping[ClaimShape, int], measure: str) -> None:
        self.count = sum(shapes.values())
        self._measure = measure
        self._cpus = sorted({shape.milli_cpu for shape in shapes})
        by_request: dict[DeviceRequest, list[tuple[int, int]]] = {}
        for shape, count in shapes.items():
            if shape.request is not None:
                by_request.setdefault(shape.request, []).append((shape.milli_cpu, count))
        self._requests = list(by_request)
        # By request and number of cpu amounts that fit: how many tasks have enough cpu.
        self._fitting = [
            [sum(count for cpu, count in asked if cpu <= most) for most in (-1, *self._cpus)]
            for asked in by_request.values()
        ]
        self._known: dict[Hashable, int] = {}
        self._needs: dict[Hashable, tuple[Sequence[int | None], ...]] = {}

    def steps(self, milli_cpu: int) -> int:
        """Return all that counts of what a node has left of cpu."""
        return bisect_right(self._cpus, milli_cpu)

    def of(self, there: NodeDevices, left: Sequence[int], milli_cpu: int) -> int:
        """Return the sum over all typical tasks of what each cannot use of what is left.

        O(requests x devices), once for each kind of node and what it has left.
        """
        steps = self.steps(milli_cpu)
        key = there.kind, tuple(left), steps
        found = self._known.get(key)
        if found is None:
            total = sum(left)
            found = self.count * total
            for number, needs in enumerate(self._needs_of(there)):
                fitting = self._fitting[number][steps]
                if not fitting:
                    continue
                usable = [
                    here
                    for here, need in zip(left, needs, strict=True)
                    if need is not None and here >= need
                ]
                count = self._requests[number].count
                if usable and len(usable) >= (1 if count == "all" else count):
                    found -= fitting * sum(usable)
            self._known[key] = found
        return found

    def _needs_of(self, there: NodeDevices) -> tuple[Sequence[int | None], ...]:
        """Return for each request what it needs of each device; None: it is refused."""
        found = self._needs.get(there.kind)
        if found is None:
            found = self._needs[there.kind] = tuple(
                [need_of(request, device, self._measure) for device in there.offer.devices]
                for request in self._requests
            )
        return found


_CLAIM = DeviceClaim(name="", requests=())


def need_of(request: DeviceRequest, device: Device, measure: str) -> int | None:
    """Return how much of a capacity must be left of a device for a request; None: refused."""
    found = candidate_of(_CLAIM, request, device)
    if found.refusal is not None or measure not in device.capacity:
        return None
    return device.capacity[measure] if found.amounts is None else found.amounts[measure]


class _Gradient(_Placement):
    """Fgd: the node, and the device, where a task makes least useless for others."""

    def __init__(self, plugin: PlacementPlugin, view: SessionView) -> None:
        super().__init__(plugin, view)
        counts = Counter(map(shape_of, view.tasks.values()))
        self._of = Fragmentation(typical_shapes(counts), plugin.measure)
        self._width = plugin.width * max(1, self._of.count)
        self._books.rank_by(self._ranks)

    def resume(self, changes: Changes, /) -> bool:
        same = not (changes.tasks or changes.jobs_gone or changes.other_tasks)
        return same and super().resume(changes)

    def node_key(self, task: TaskState, node: NodeState, /) -> tuple[int, ...]:
        rank = 0
        taken: Mapping[int, int] | None = None
        if self._books.has_devices:
            there = self._books.of(node)
            left = there.left(self._plugin.measure)
            taken = self.taken(task, node)
            after = list(left)
            for at, amount in (taken or {}).items():
                after[at] -= amount
            rank = self._class_of(there, left, after, node.idle[0], task.resreq[0])
        return -rank, 0 if taken is not None else self.fit_after(task, node)

    def _class_of(
        self, there: NodeDevices, left: Sequence[int], after: Sequence[int], idle: int, asked: int
    ) -> int:
        delta = self._of.of(there, left, idle) - self._of.of(there, after, idle - asked)
        return delta // self._width

    def _ranks(
        self, task: TaskState, there: NodeDevices, view: int
    ) -> tuple[Callable[[DeviceRequest, Device, Amounts], int | None], Hashable]:
        """Rank devices for a request of one part: the largest class first."""
        measure, idle, asked = self._plugin.measure, there.node.idle[0], task.resreq[0]
        left = there.left(measure, view)
        place = there.offer.places

        def rank(request: DeviceRequest, device: Device, amounts: Amounts) -> int | None:
            if request.count != 1 or all(
                named_under(name, device.capacity, device.driver) != measure
                for name in request.capacity
            ):
                return None
            at = place[device.key]
            taken = left[at] if amounts is None else amounts[measure]
            if taken > left[at]:
                return 0
            after = (*left[:at], left[at] - taken, *left[at + 1 :])
            return -self._class_of(there, left, after, idle, asked)

        return rank, (asked, self._of.steps(idle), self._of.steps(idle - asked))
