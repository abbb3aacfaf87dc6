"""Reads which devices there are: ResourceSlices, DeviceTaintRules and DeviceClasses.

A pool of devices comes in slices, which are published one after the other: on a node, those of the
newest generation count, once all of them are there (`slices_on`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from attrs import evolve, frozen

from batchsched.errors import ArgumentError
from batchsched.kubernetes import api
from batchsched.kubernetes.objects import (
    KubernetesObject,
    Reader,
    is_sequence,
)
from batchsched.kubernetes.pods import (
    node_term,
)
from batchsched.model.cluster import NodeInfo
from batchsched.model.constraints import (
    NodeSelectorTerm,
    Taint,
    TaintEffect,
)
from batchsched.model.devices import (
    Attribute,
    AttributeValue,
    CapacityPolicy,
    CounterSet,
    Device,
    Version,
    read_selector,
)
from batchsched.model.notice import NoticeCode

NEVER = "false"
"""A selector that accepts no device."""
Pool = tuple[str, str]
Key = tuple[str, str, str]
"""The driver, the pool and the name of a device."""
_Place = tuple[str, tuple[NodeSelectorTerm, ...] | None]
"""A node, or (empty) the terms that nodes must match; None: all nodes."""


@frozen(eq=False)
class Slice:
    """A part of a pool, with what it says on all nodes that it reaches."""

    pool: Pool
    generation: int
    count: int
    """How many slices this generation of the pool has."""
    devices: tuple[tuple[Device, str], ...]
    """Each with the node that it belongs to; empty: it is of those that its terms accept."""
    counter_sets: tuple[CounterSet, ...]
    places: tuple[_Place, ...]
    """Which nodes reach it, or some device of it."""
    is_common: bool
    """Whether several nodes may reach its devices or its counters."""

    def reaches(self, node: NodeInfo) -> bool:
        """Return whether a node reaches any of its devices."""
        return any(reaches(*place, node) for place in self.places)


def reaches(owner: str, terms: Iterable[NodeSelectorTerm] | None, node: NodeInfo) -> bool:
    """Return whether a node is the owner of devices, or, without owner, one that terms accept."""
    if owner:
        return owner == node.name
    return terms is None or any(term.matches(node.labels, node.name) for term in terms)


@frozen(eq=False)
class DeviceClass:
    """What a class of devices selects, and as which resources its devices count."""

    selectors: tuple[str, ...]
    resource: str
    """The extended resource that its devices are also asked for by; empty: none."""
    counts_as: str
    """The resource as which queues count its devices; empty: none."""

    @classmethod
    def of(cls, given: KubernetesObject, *, by_kai: bool) -> DeviceClass:
        """Read a DeviceClass; `by_kai`: whether KAI Scheduler schedules what asks for it."""
        resource = given.spec.text("extendedResourceName")
        # KAI Scheduler counts as GPUs the devices of classes that are called so.
        as_gpus = by_kai and "gpu" in given.name.lower()
        return cls(selectors_of(given.spec, given), resource, resource or (api.GPU * as_gpus))


def slices_on(slices: Sequence[Slice], node: NodeInfo) -> tuple[list[Slice], bool]:
    """Return the slices of a pool that count on a node, and whether the pool is closed there."""
    there = [each for each in slices if each.reaches(node)]
    if not there:
        return [], False
    generation = max(each.generation for each in there)
    there = [each for each in there if each.generation == generation]
    count = there[0].count
    if len(there) >= count:
        return there, False
    if any(each.generation > generation for each in slices):
        return [], False
    return there, sum(each.generation == generation for each in slices) < count


def contradict(devices: Sequence[Device], counter_sets: Sequence[CounterSet]) -> bool:
    """Return whether names come twice, or counters of devices are missing."""
    sets = {each.name: each.counters for each in counter_sets}
    return (
        len({device.name for device in devices}) < len(devices)
        or len(sets) < len(counter_sets)
        or any(
            name not in sets or any(counter not in sets[name] for counter in amounts)
            for device in devices
            for name, amounts in device.counters.items()
        )
    )


def _terms(reader: Reader) -> tuple[NodeSelectorTerm, ...] | None:
    selector = reader.optional_child("nodeSelector")
    if selector is None:
        return None
    return tuple(node_term(term) for term in selector.children("nodeSelectorTerms"))


TaintRule = tuple[Key, Taint]
"""A driver, pool and device (empty: any), and the taint of these devices."""


def slice_of(given: KubernetesObject, rules: Sequence[TaintRule]) -> Slice:
    """Read a ResourceSlice, with the taints that rules put on its devices."""
    spec = given.spec
    driver, pool = spec.text("driver"), spec.child("pool")
    name = pool.text("name")
    by_device = spec.truth("perDeviceNodeSelection")
    own: _Place = spec.text("nodeName"), _terms(spec)
    devices: list[tuple[Device, str]] = []
    places: list[_Place] = [] if by_device else [own]
    for each in spec.children("devices"):
        place = (each.text("nodeName"), _terms(each)) if by_device else own
        owner, nodes = place
        places += [place] if by_device else []
        device = evolve(_device(each, given), driver=driver, pool=name)
        taints = [
            taint
            for selected, taint in rules
            if all(not want or want == is_ for want, is_ in zip(selected, device.key, strict=True))
        ]
        its = evolve(device, nodes=None if owner else nodes, taints=[*device.taints, *taints])
        devices.append((its, owner))
    sets = tuple(
        CounterSet(
            name=each.text("name"),
            driver=driver,
            pool=name,
            counters=_values(each.child("counters")),
        )
        for each in spec.children("sharedCounters")
    )
    return Slice(
        pool=(driver, name),
        generation=pool.integer("generation", default=0),
        count=pool.integer("resourceSliceCount", default=1),
        devices=tuple(devices),
        counter_sets=sets,
        places=tuple(places),
        is_common=not own[0] and bool(sets or not all(owner for _, owner in devices)),
    )


def _values(amounts: Reader) -> dict[str, int]:
    """Return the quantities under ``value`` in a mapping of names."""
    return {name: amounts.child(name).quantity("value") or 0 for name in _names(amounts)}


def _names(reader: Reader) -> list[str]:
    return [name for name in reader.content if type(name) is str]


def _device(reader: Reader, given: KubernetesObject) -> Device:
    """Return a device without its driver, its pool and the nodes that reach it."""
    capacity = reader.child("capacity")
    policies = {
        name: policy
        for name in _names(capacity)
        if (policy := _policy(capacity.child(name).optional_child("requestPolicy"))) is not None
    }
    counters: dict[str, dict[str, int]] = {}
    for each in reader.children("consumesCounters"):
        counters[each.text("counterSet")] = _values(each.child("counters"))
        if each.get("compatibilityGroups") is not None:
            field = "spec.devices.consumesCounters.compatibilityGroups"
            given.ignore(field, "devices of any groups may be allocated together")
    if reader.get("nodeAllocatableResources") is not None:
        field = "spec.devices.nodeAllocatableResources"
        given.ignore(field, "what comes with the device is not counted")
    attributes = reader.child("attributes")
    return Device(
        name=reader.text("name", required=True),
        attributes={
            name: value
            for name in _names(attributes)
            if (value := _attribute(attributes.child(name))) is not None
        },
        capacity=_values(capacity),
        policies=policies,
        shared=reader.truth("allowMultipleAllocations"),
        counters=counters,
        taints=tuple(taint for each in reader.children("taints") if (taint := _taint(each))),
        conditions=reader.texts("bindingConditions"),
    )


def _attribute(reader: Reader) -> Attribute | None:
    """Return the value that is given, of any type, or the list of values."""
    kinds = ("int", "bool", "string", "version")
    for key in (*kinds, *(f"{kind}s" for kind in kinds)):
        found, is_list = reader.get(key), key.endswith("s")
        if found is None:
            continue
        values: object = found if is_list else [found]
        if not is_sequence(values):
            reader.fault(f".{key}", "expected a list")
            return None
        read = (_value(reader, key, each) for each in values)
        known = tuple([each for each in read if each is not None])
        return known if is_list else next(iter(known), None)
    return None


def _value(reader: Reader, key: str, given: object) -> AttributeValue | None:
    if key.startswith("version"):
        try:
            return Version(given)  # type: ignore[arg-type]  # it says what is wrong
        except ArgumentError as error:
            reader.fault(f".{key}", str(error))
            return None
    kind = int if key.startswith("int") else bool if key.startswith("bool") else str
    if type(given) is kind:
        return given
    reader.fault(f".{key}", f"expected {kind.__name__}")
    return None


def _policy(reader: Reader | None) -> CapacityPolicy | None:
    if reader is None:
        return None
    allowed = reader.child("validRange")
    values = reader.get("validValues")
    amounts = [
        amount
        for each in (values if is_sequence(values) else ())
        if (amount := Reader({"value": each}, reader.reading, "", reader).quantity("value"))
        is not None
    ]
    return CapacityPolicy(
        default=reader.quantity("default"),
        min=allowed.quantity("min"),
        max=allowed.quantity("max"),
        step=allowed.quantity("step"),
        values=amounts,
    )


def _taint(reader: Reader) -> Taint | None:
    effects = {effect.value: effect for effect in TaintEffect}
    effect = effects.get(reader.text("effect"))
    if effect not in (TaintEffect.NO_SCHEDULE, TaintEffect.NO_EXECUTE):
        return None  # it keeps nobody away
    return Taint(key=reader.text("key"), value=reader.text("value"), effect=effect)


def taint_rule(given: KubernetesObject) -> TaintRule | None:
    """Read a DeviceTaintRule; None: it keeps nobody away."""
    spec = given.spec
    selector = spec.optional_child("deviceSelector")
    taint = _taint(spec.child("taint"))
    if selector is None or taint is None:
        return None
    return (selector.text("driver"), selector.text("pool"), selector.text("device")), taint


def selectors_of(reader: Reader, given: KubernetesObject) -> tuple[str, ...]:
    """Read selectors; one that cannot be read accepts no device, and is noted."""
    found: list[str] = []
    for each in reader.children("selectors"):
        expression = each.child("cel").text("expression")
        try:
            read_selector(expression)
        except ArgumentError as error:
            message = f"no device is accepted: {error}"
            given.note(NoticeCode.READ_AS, "selectors.cel.expression", message)
            expression = NEVER
        found.append(expression)
    return tuple(found)
