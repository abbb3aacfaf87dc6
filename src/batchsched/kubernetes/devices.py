"""Reads devices and claims: Kubernetes' dynamic resource allocation, and KAI's shared GPUs.

Of the objects of resource.k8s.io: ResourceSlices and DeviceTaintRules say which devices there are,
DeviceClasses, ResourceClaims and their templates what pods claim and have.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import chain
from math import ceil

from attrs import evolve, frozen

from batchsched.errors import ArgumentError, QuantityError
from batchsched.kubernetes import api
from batchsched.kubernetes.dump_objects import DumpObjects
from batchsched.kubernetes.objects import (
    KubernetesObject,
    Reader,
    annotation,
    is_sequence,
    whole_number,
)
from batchsched.kubernetes.pods import (
    ENDED,
    Pod,
    node_term,
    requesting,
    requiring,
    requiring_field,
    tolerations_of,
    with_amounts,
)
from batchsched.model.cluster import NodeInfo
from batchsched.model.constraints import (
    NodeSelectorTerm,
    Operator,
    Requirement,
    Taint,
    TaintEffect,
)
from batchsched.model.devices import (
    Attribute,
    AttributeValue,
    CapacityPolicy,
    CounterSet,
    Device,
    DeviceClaim,
    DeviceConstraint,
    DevicePick,
    DeviceRequest,
    Milli,
    Version,
    named_under,
)
from batchsched.model.notice import NoticeCode
from batchsched.model.quantities import parse_quantity
from batchsched.model.resources import Resource
from batchsched.model.selectors import read_selector

_FRACTION = "gpu-fraction"
_GPU_MEMORY = "gpu-memory"
_NUMBER_OF_GPUS = "gpu-fraction-num-devices"
_RESERVATION = "kai-resource-reservation"
_NEVER = "false"
"""A selector that accepts no device."""
_Pool = tuple[str, str]
_Key = tuple[str, str, str]
"""The driver, the pool and the name of a device."""
_COUNT_LABEL, _MEMORY_LABEL = "nvidia.com/gpu.count", "nvidia.com/gpu.memory"
_MEMORY = "memory"
_UNKNOWN_MEMORY = 100
"""The memory of a GPU in parts, where its node does not say how much it has."""
_OF_GPUS = 'device.driver == ""'


_Place = tuple[str, tuple[NodeSelectorTerm, ...] | None]
"""A node, or (empty) the terms that nodes must match; None: all nodes."""


@frozen(eq=False)
class _Slice:
    """A part of a pool, with what it says on all nodes that it reaches."""

    pool: _Pool
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
        return any(_reaches(*place, node) for place in self.places)


def _reaches(owner: str, terms: Iterable[NodeSelectorTerm] | None, node: NodeInfo) -> bool:
    if owner:
        return owner == node.name
    return terms is None or any(term.matches(node.labels, node.name) for term in terms)


@frozen(eq=False)
class _Class:
    selectors: tuple[str, ...]
    resource: str
    """The extended resource that its devices are also asked for by; empty: none."""
    counts_as: str
    """The resource as which queues count its devices; empty: none."""

    @classmethod
    def of(cls, given: KubernetesObject, *, by_kai: bool) -> _Class:
        resource = given.spec.text("extendedResourceName")
        # KAI Scheduler counts as GPUs the devices of classes that are called so.
        as_gpus = by_kai and "gpu" in given.name.lower()
        return cls(_selectors(given.spec, given), resource, resource or (api.GPU * as_gpus))


class DevicesRead:
    """The devices of a cluster, as they were read, and what is claimed of them."""

    def __init__(self, objects: DumpObjects, nodes: Sequence[NodeInfo]) -> None:
        """Read which devices there are. O(slices x nodes)."""
        self._objects = objects
        self.nodes = list(nodes)
        self.devices: list[Device] = []
        """Those that several nodes reach."""
        self.counter_sets: list[CounterSet] = []
        self.held: list[DevicePick] = []
        self.unread: dict[str, str] = {}
        """The pods of which a claim was not given, by UID, and its name, or that of its template:
        they are taken not to have it."""
        kinds = ("ResourceSlice", "DeviceClass", "ResourceClaim", "ResourceClaimTemplate")
        self.are_given = any(objects.of(api.RESOURCE, kind) for kind in kinds)
        """Whether any objects about devices were given, so that what was not does not exist."""
        self._by_class: set[str] = set()
        """The pods of which devices count as GPUs, by UID."""
        self._taken: set[str] = set()
        """The claims that are some pod's."""
        self._payers: dict[str, str] = {}
        """The UID of the pod to which each claim of several is counted, by what they call it."""
        self._names: dict[str, str] = {}
        """What pods call claims that were generated for their groups, by the claims' names."""
        self._group_of: dict[str, KubernetesObject] = {}
        """The PodGroup of each pod that claims something together with others, by UID."""
        rules = [_taint_rule(each) for each in objects.of(api.RESOURCE, "DeviceTaintRule")]
        taints = [rule for rule in rules if rule is not None]
        slices = [_slice(each, taints) for each in objects.of(api.RESOURCE, "ResourceSlice")]
        self._by_kai = bool(objects.of(api.KAI, "Queue"))
        """Whether KAI Scheduler counts GPUs: parts of them, and devices, in its own way."""
        self.refused: dict[str, str] = {}
        """The claims for which KAI Scheduler refuses pods that name them, by UID of the pod."""
        self._classes = {
            given.name: _Class.of(given, by_kai=self._by_kai)
            for given in objects.of(api.RESOURCE, "DeviceClass")
        }
        self._take_slices(slices)
        self.nodes = [_with_shared_gpus(node) for node in self.nodes]

    # Slices

    def _take_slices(self, slices: Iterable[_Slice]) -> None:
        pools: defaultdict[_Pool, list[_Slice]] = defaultdict(list)
        for each in slices:
            pools[each.pool].append(each)
        common: dict[_Key, tuple[int, Device]] = {}
        """The devices that several nodes may reach, with their generations."""
        reached: defaultdict[_Key, list[str]] = defaultdict(list)
        for pool, of_pool in sorted(pools.items()):
            is_common = any(each.is_common for each in of_pool)
            counters: dict[str, CounterSet] = {}
            for place, node in enumerate(self.nodes):
                there, is_closed = _newest(of_pool, node)
                devices = [
                    (device, owner)
                    for each in there
                    for device, owner in each.devices
                    if _reaches(owner, device.nodes, node)
                ]
                sets = [one for each in there for one in each.counter_sets]
                if is_closed or _contradict([device for device, _ in devices], sets):
                    self.nodes[place] = evolve(node, closed_pools=[*node.closed_pools, pool])
                    continue
                for device, owner in devices:
                    if not owner:
                        newest = there[0].generation, device
                        common[device.key] = max(
                            common.get(device.key, newest), newest, key=lambda known: known[0]
                        )
                        reached[device.key].append(node.name)
                counters.update((one.name, one) for one in sets)
                self.nodes[place] = evolve(
                    node,
                    devices=[*node.devices, *(device for device, owner in devices if owner)],
                    counter_sets=[*node.counter_sets, *([] if is_common else sets)],
                )
            if is_common:
                self.counter_sets += counters.values()
        for key, (_, device) in common.items():
            names = reached[key]
            nodes = device.nodes
            if names != [node.name for node in self.nodes if _reaches("", nodes, node)]:
                only = Requirement(key="metadata.name", operator=Operator.IN, values=tuple(names))
                nodes = (NodeSelectorTerm(match_fields=(only,)),)
            self.devices.append(evolve(device, nodes=nodes))

    # Pods

    def take(self, pods: Sequence[Pod]) -> None:
        """Give pods what they claim and have. O(pods + claims x devices)."""
        parts = [_Parts.of(pod) for pod in pods]
        self._request_parts(pods, parts)
        offered = {name for node in self.nodes for name in node.allocatable.scalars}
        of_class = {
            each.resource: name
            for name, each in sorted(self._classes.items(), reverse=True)
            if each.resource and each.resource not in offered
        }
        self._find_groups(pods)
        self._find_payers(pods)
        for pod in pods:
            self._give_claims(pod, of_class)
        if self._has_gpus:
            self._give_gpus(pods, parts)
        for claim in self._objects.of(api.RESOURCE, "ResourceClaim"):
            if claim.full_name not in self._taken:
                # Who names it, if anybody does, calls it so; of a group's, its generated name.
                name = self._names.get(claim.full_name, claim.full_name)
                its = _results(claim, claim.full_name) or ()
                self.held += [evolve(pick, shared=name) for pick in its]
        own = {node.name for node in self.nodes if node.allocatable.get(api.GPU)}
        paired = zip(pods, parts, strict=True)
        asking = [pod for pod, part in paired if part is None and self._asks_for_gpus(pod)]
        self._offer_resources()
        if self._by_kai:
            self._count_partitions(pods)
            self._keep_to_gpus(asking, own)

    def _asks_for_gpus(self, pod: Pod) -> bool:
        """Return whether a pod asks for GPUs by their own name, and not by claims."""
        return bool(pod.task.resreq.get(api.GPU)) and pod.task.uid not in self._by_class

    def _count_partitions(self, pods: Iterable[Pod]) -> None:
        """Count the slices of partitioned GPUs as GPUs of quotas, as KAI Scheduler does."""
        for place, node in enumerate(self.nodes):
            units = _slices_of(node.allocatable)
            if units:
                has = node.allocatable + Resource(scalars={api.GPU: units})
                self.nodes[place] = evolve(node, allocatable=has)
        for pod in pods:
            units = _slices_of(pod.task.resreq)
            if units:
                pod.task = requesting(pod.task, {api.GPU: units})

    def _keep_to_gpus(self, asking: Sequence[Pod], own: Collection[str]) -> None:
        """Keep pods that ask for GPUs off nodes that only count something as GPUs. O(pods)."""
        others = tuple(
            node.name
            for node in self.nodes
            if node.allocatable.get(api.GPU) and node.name not in own
        )
        for pod in asking if others else ():
            only = Requirement(key="metadata.name", operator=Operator.NOT_IN, values=others)
            pod.task = requiring_field(pod.task, only)

    def _find_payers(self, pods: Sequence[Pod]) -> None:
        """Find who pays for a claim of several pods: the first of them, one that runs if any.

        The extended resources that stand for its devices are counted once: there.
        """
        paying: dict[str, Pod] = {}
        for pod in pods:
            if pod.task.status in ENDED:
                continue
            for entry, given in self._claimed(pod):
                name = self._shared_name(pod, entry, given)
                if name is not None:
                    known = paying.setdefault(name, pod)
                    if pod.task.status.holds and not known.task.status.holds:
                        paying[name] = pod
        self._payers = {name: pod.task.uid for name, pod in paying.items()}

    def _shared_name(self, pod: Pod, entry: Reader, given: KubernetesObject) -> str | None:
        """Return what all pods call a claim that they have together; None: it is the pod's own."""
        own = entry.text("resourceClaimName")
        if own:
            return f"{pod.object.namespace}/{own}"
        if given is pod.object:
            return None
        return f"{given.full_name}/{entry.text('name')}"

    def _find_groups(self, pods: Sequence[Pod]) -> None:
        """Find the PodGroups that claim devices for all their pods together."""
        groups = {
            each.full_name: each
            for each in self._objects.of(api.KUBERNETES, "PodGroup")
            if each.spec.get("resourceClaims")
        }
        for pod in pods if groups else ():
            name = pod.object.spec.child("schedulingGroup").text("podGroupName")
            group = groups.get(f"{pod.object.namespace}/{name}")
            if group is not None and pod.task.status not in ENDED:
                self._group_of[pod.task.uid] = group

    def _claimed(self, pod: Pod) -> Iterator[tuple[Reader, KubernetesObject]]:
        """Yield the claims of a pod and of its group, each with the object that names it."""
        group = self._group_of.get(pod.task.uid)
        shared = [] if group is None else [*group.spec.children("resourceClaims")]
        names = {each.text("name") for each in shared}
        for each in pod.object.spec.children("resourceClaims"):
            if each.text("name", required=True) not in names:
                yield each, pod.object
        if group is not None:
            yield from ((each, group) for each in shared)

    def _named(self, kind: str, pod: Pod, name: str) -> KubernetesObject | None:
        return self._objects.named(api.RESOURCE, kind, pod.object.namespace, name)

    def _give_claims(self, pod: Pod, of_class: Mapping[str, str]) -> None:
        claims: list[DeviceClaim] = []
        picked: list[list[DevicePick] | None] = []
        """What each claim has; None: it is not allocated."""
        more = Counter[str]()
        task, status = pod.task, pod.object.status
        for entry, given in self._claimed(pod):
            name = entry.text("name", required=True)
            generated = {
                each.text("name"): each.text("resourceClaimName")
                for each in given.status.children("resourceClaimStatuses")
            }
            claim_name = entry.text("resourceClaimName") or generated.get(name, "")
            claim = self._named("ResourceClaim", pod, claim_name)
            template_name = entry.text("resourceClaimTemplateName")
            source = claim or self._named("ResourceClaimTemplate", pod, template_name)
            if source is None:
                self.unread[task.uid] = claim_name or template_name or name
                continue
            results, shared = _results(claim, name), self._shared_name(pod, entry, given)
            if claim is not None and shared is not None:
                self._names[claim.full_name] = shared
            if claim is not None and results is not None and task.status.holds:
                self._taken.add(claim.full_name)
            spec = source.spec if claim else source.spec.child("spec")
            read, of_claim = self._claim(spec, name, source)
            if shared is not None:
                read = evolve(read, shared=shared)
                results = results and [evolve(pick, shared=shared) for pick in results]
                if self._payers[shared] != task.uid:
                    of_claim = {}
            self._see_kai(pod, entry, claim, counts_gpus=api.GPU in of_claim)
            if read.requests:
                claims.append(read)
                more.update(of_claim)
                picked.append(results)
        for resource, class_name in of_class.items():
            amount = int(task.resreq.get(resource))
            if amount:
                count, selectors = ceil(amount / 1000), self._classes[class_name].selectors
                request = DeviceRequest(name="devices", count=count, select=selectors)
                claims.append(DeviceClaim(name=resource, requests=[request]))
                name = status.child("extendedResourceClaimStatus").text("resourceClaimName")
                claim = self._named("ResourceClaim", pod, name)
                results = _results(claim, resource)
                if claim is not None and results is not None:
                    self._taken.add(claim.full_name)
                    results = [evolve(pick, request="devices") for pick in results]
                picked.append(results)
        if claims:
            picks = [pick for each in picked for pick in each or ()]
            is_there = None not in picked and task.status.holds and task.node_name is not None
            same = pod.object.reading.shared(tuple(claims))
            task = requesting(task, more) if more else task
            pod.task = evolve(task, claims=same, devices=picks if is_there else None)

    def _see_kai(
        self, pod: Pod, entry: Reader, claim: KubernetesObject | None, *, counts_gpus: bool
    ) -> None:
        """Note whether KAI Scheduler refuses a pod for a claim, or counts it as GPUs."""
        is_kais = pod.scheduler_name == api.KAI_SCHEDULER and entry.text("resourceClaimName")
        if claim is not None and is_kais and not claim.labels.get(api.KAI_QUEUE):
            self.refused[pod.task.uid] = claim.name
        if counts_gpus:
            self._by_class.add(pod.task.uid)

    def _claim(
        self, spec: Reader, name: str, given: KubernetesObject
    ) -> tuple[DeviceClaim, dict[str, int]]:
        """Return a claim, and the extended resources that stand for its devices."""
        devices = spec.child("devices")
        requests: list[DeviceRequest] = []
        amounts = Counter[str]()
        for each in devices.children("requests"):
            called = each.text("name", required=True)
            one_of = [*each.children("firstAvailable")]
            readers = one_of or [each.optional_child("exactly") or each]
            read = [
                self._request(one, one.text("name", required=True) if one_of else called, given)
                for one in readers
            ]
            requests.append(DeviceRequest(name=called, alternatives=read) if one_of else read[0])
            most: dict[str, int] = {}
            for reader, request in zip(readers, read, strict=True):
                of_class = self._classes.get(reader.text("deviceClassName"))
                if of_class is not None and of_class.counts_as and not request.admin:
                    amount = self._amount_of(of_class, request)
                    counted = of_class.counts_as
                    most[counted] = max(most.get(counted, 0), amount)
            amounts.update(most)
        constraints = [
            DeviceConstraint(
                same=each.text("matchAttribute") or None,
                distinct=each.text("distinctAttribute") or None,
                requests=each.texts("requests"),
            )
            for each in devices.children("constraints")
        ]
        return DeviceClaim(name=name, requests=requests, constraints=constraints), dict(amounts)

    def _request(self, reader: Reader, name: str, given: KubernetesObject) -> DeviceRequest:
        class_name = reader.text("deviceClassName")
        known = self._classes.get(class_name)
        selectors: tuple[str, ...] = ()
        if known is not None:
            selectors = known.selectors
        elif class_name:
            message = f"device class {class_name!r} was not given: no device is accepted"
            given.note(NoticeCode.READ_AS, "spec.devices.requests", message)
            selectors = (_NEVER,)
        is_all = reader.text("allocationMode") == "All"
        return DeviceRequest(
            name=name,
            count="all" if is_all else reader.integer("count", default=1, least=1),
            select=(*selectors, *_selectors(reader, given)),
            capacity=reader.child("capacity").child("requests").amounts(_as_is),
            tolerations=tuple(tolerations_of(reader)),
            admin=reader.truth("adminAccess"),
        )

    # Extended resources of classes

    def _amount_of(self, of_class: _Class, request: DeviceRequest) -> int:
        """Return how many devices, or which part of one, a request asks for, in thousandths."""
        if request.count == "all":
            accepted = [sum(_accepts(of_class, d) for d in node.devices) for node in self.nodes]
            return 1000 * max(accepted, default=0)
        part = Fraction(1)
        for name, amount in request.capacity.items():
            sizes = [
                device.capacity[own]
                for device in chain(*(node.devices for node in self.nodes), self.devices)
                if _accepts(of_class, device)
                and (own := named_under(name, device.capacity, device.driver)) is not None
            ]
            if any(sizes) and isinstance(amount, int):
                part = min(part, Fraction(amount, max(sizes)))
        return request.count * ceil(1000 * part)

    def _offer_resources(self) -> None:
        """Add the extended resources of classes to what nodes have."""
        classes = [each for _, each in sorted(self._classes.items()) if each.counts_as]
        for place, node in enumerate(self.nodes):
            there = [
                *node.devices,
                *(each for each in self.devices if _reaches("", each.nodes, node)),
            ]
            more = Counter[str]()
            for each in classes:
                more[each.counts_as] += 1000 * sum(_accepts(each, device) for device in there)
            scalars = {name: amount for name, amount in more.items() if amount}
            if scalars:
                added = node.allocatable + Resource(scalars=scalars)
                self.nodes[place] = evolve(node, allocatable=added)

    # Parts of GPUs of KAI Scheduler: of whole ones, or of those that are told one by one

    def _gpus(self) -> dict[str, list[Device]]:
        return {node.name: [d for d in node.devices if not d.driver] for node in self.nodes}

    @property
    def _has_gpus(self) -> bool:
        """Whether each node with GPUs says how many, so that they are shared devices.

        A node that offers more than it has (time slices) does not say which of them are which.
        """
        gpus = self._gpus()
        return any(gpus.values()) and all(
            int(node.allocatable.get(api.GPU)) <= 1000 * len(gpus[node.name]) for node in self.nodes
        )

    def _request_parts(self, pods: Sequence[Pod], parts: Sequence[_Parts | None]) -> None:
        """Let pods request their parts of GPUs, and reservations what is left of these. O(pods).

        If GPUs are devices, these say what is left of which, and reservations hold nothing. Else a
        reservation holds what the pods of its group leave of one GPU, so that a shared GPU counts
        as one whole.
        """
        are_devices = self._has_gpus
        memory = {
            node.name: whole_number(node.labels.get(_MEMORY_LABEL, "")) for node in self.nodes
        }
        known = sorted(set(filter(None, memory.values())))
        partitions = sorted({key for node in self.nodes for key in _partitioned_by(node)})
        tells = known and all(memory[n.name] for n in self.nodes if n.allocatable.get(api.GPU))
        """Whether each node with GPUs tells how much memory they have."""
        held = Counter[tuple[str | None, str]]()
        for pod, asked in zip(pods, parts, strict=True):
            if asked is None:
                continue
            task = pod.task
            size = memory.get(task.node_name or "")
            part, least = asked.of_one([size] if size else known)
            for key in partitions if task.node_name is None else ():
                off = Requirement(key=key, operator=Operator.NOT_IN, values=_PARTITIONED)
                pod.task = task = requiring(task, off)
            if part:
                pod.task = requesting(task, {api.GPU: ceil(1000 * part * asked.count)})
                if least and not (tells and known[0] >= least) and task.node_name is None:
                    _need_memory(pod, least, known[-1] if known else 0)
                if task.status.holds:
                    for group in _gpu_groups(task.labels):
                        held[task.node_name, group] += ceil(1000 * part)
            if task.status not in ENDED and not are_devices:
                message = "parts of GPUs are taken from whole free GPUs, not from shared ones"
                pod.object.note(NoticeCode.GPU_FRACTION, annotation(asked.key), message)
        for pod in pods:
            if is_reservation(pod):
                task = pod.task
                used = sum(held[task.node_name, group] for group in _gpu_groups(task.labels))
                left = 0 if are_devices else max(0, 1000 - used)
                resreq = with_amounts(task.resreq, {api.GPU: left})
                pod.task = evolve(task, resreq=resreq, init_resreq=None)

    def _give_gpus(self, pods: Sequence[Pod], parts: Sequence[_Parts | None]) -> None:
        """Give pods claims of GPUs that are told one by one."""
        gpus = self._gpus()
        groups: defaultdict[str, set[str]] = defaultdict(set)
        for pod in pods:
            if pod.task.node_name and pod.task.status.holds:
                groups[pod.task.node_name].update(_gpu_groups(pod.task.labels))
        for pod, asked in zip(pods, parts, strict=True):
            node = pod.task.node_name or ""
            if asked is not None or not is_reservation(pod):
                _give_gpu_claim(pod, asked, gpus.get(node, ()), sorted(groups.get(node, ())))


def _newest(slices: Sequence[_Slice], node: NodeInfo) -> tuple[list[_Slice], bool]:
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


def _contradict(devices: Sequence[Device], counter_sets: Sequence[CounterSet]) -> bool:
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


def _accepts(of_class: _Class, device: Device) -> bool:
    return all(read_selector(each)(device) for each in of_class.selectors)


def _as_is(_name: str) -> bool:
    return False  # in units, rounded up


# Objects


def _terms(reader: Reader) -> tuple[NodeSelectorTerm, ...] | None:
    selector = reader.optional_child("nodeSelector")
    if selector is None:
        return None
    return tuple(node_term(term) for term in selector.children("nodeSelectorTerms"))


_Rule = tuple[_Key, Taint]
"""A driver, pool and device (empty: any), and the taint of these devices."""


def _slice(given: KubernetesObject, rules: Sequence[_Rule]) -> _Slice:
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
    return _Slice(
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
        kept = tuple([each for each in read if each is not None])
        return kept if is_list else next(iter(kept), None)
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


def _taint_rule(given: KubernetesObject) -> _Rule | None:
    spec = given.spec
    selector = spec.optional_child("deviceSelector")
    taint = _taint(spec.child("taint"))
    if selector is None or taint is None:
        return None
    return (selector.text("driver"), selector.text("pool"), selector.text("device")), taint


def _selectors(reader: Reader, given: KubernetesObject) -> tuple[str, ...]:
    found: list[str] = []
    for each in reader.children("selectors"):
        expression = each.child("cel").text("expression")
        try:
            read_selector(expression)
        except ArgumentError as error:
            message = f"no device is accepted: {error}"
            given.note(NoticeCode.READ_AS, "selectors.cel.expression", message)
            expression = _NEVER
        found.append(expression)
    return tuple(found)


def _results(claim: KubernetesObject | None, name: str) -> list[DevicePick] | None:
    """Return the devices that a claim has; None: it is not allocated, or not there."""
    allocation = None if claim is None else claim.status.optional_child("allocation")
    if allocation is None:
        return None
    picks: list[DevicePick] = []
    for each in allocation.child("devices").children("results"):
        driver = each.text("driver")
        device = driver, each.text("pool"), each.text("device")
        consumed = each.child("consumedCapacity").amounts(_as_is)
        amounts = {key.removeprefix(f"{driver}/"): value for key, value in consumed.items()}
        picks.append(
            DevicePick(
                claim=name,
                request=each.text("request"),
                device=device,
                amounts=amounts or None,
                admin=each.truth("adminAccess"),
            )
        )
    return picks


# Parts of GPUs of KAI Scheduler


def is_reservation(pod: Pod) -> bool:
    """Return whether a pod holds a GPU that others share."""
    return pod.task.labels.get("app") == _RESERVATION


def _gpu_groups(labels: Mapping[str, str]) -> Iterator[str]:
    """Yield the shared GPUs that the labels of a pod name."""
    for key in sorted(labels):
        if key == api.GPU_GROUP:
            yield labels[key]
        elif key.startswith(f"{api.GPU_GROUP}/"):
            yield key.removeprefix(f"{api.GPU_GROUP}/")


def _need_memory(pod: Pod, least: int, largest: int) -> None:
    """Let a pod need nodes whose GPUs have enough memory, in MiB."""
    if largest < least:
        message = f"asks for {least} MiB of one GPU; "
        message += f"the largest has {largest} MiB" if largest else "no node says how much its have"
        pod.object.note(NoticeCode.READ_AS, annotation(_GPU_MEMORY), message)
    more = Requirement(key=_MEMORY_LABEL, operator=Operator.GT, values=(str(least - 1),))
    pod.task = requiring(pod.task, more)


@frozen
class _Parts:
    """The parts of GPUs that a pod asks for."""

    key: str
    """The annotation."""
    number: Fraction
    """The part of each, or MiB of its memory."""
    is_memory: bool
    count: int
    """Of how many GPUs."""

    @classmethod
    def of(cls, pod: Pod) -> _Parts | None:
        """Return what a pod asks for; None: no part of any GPU."""
        annotations = pod.object.annotations
        key = next((key for key in (_FRACTION, _GPU_MEMORY) if key in annotations), None)
        if key is None:
            return None

        def read_as(what: str, key: str, why: object) -> None:
            message = f"read as {what}: {why}"
            pod.object.note(NoticeCode.FIELD_IGNORED, annotation(key), message)

        is_memory = key == _GPU_MEMORY
        try:
            number = parse_quantity(annotations[key])
            if number < 0:
                raise QuantityError(f"expected 0 or more, got {annotations[key]!r}")
        except QuantityError as error:
            number, is_memory = Fraction(1), False
            read_as("one whole GPU", key, error)
        text = annotations.get(_NUMBER_OF_GPUS, "1")
        count = whole_number(text)
        if not count:
            read_as("1", _NUMBER_OF_GPUS, f"expected a number of GPUs, got {text!r}")
        return cls(key, number, is_memory, count or 1)

    def of_one(self, memories: Iterable[int]) -> tuple[Fraction, int]:
        """Return the part of one GPU, and the memory that it must have, in MiB.

        It is a whole one if none of the memories is enough.
        """
        if not self.is_memory:
            return self.number, 0
        enough = min((memory for memory in memories if memory >= self.number), default=None)
        return Fraction(1) if enough is None else self.number / enough, ceil(self.number)


_SLICE = re.compile(r"nvidia\.com/mig-([0-9]{1,2})g\.")
_MIG_STRATEGY, _MIG_ENABLED = "nvidia.com/mig.strategy", "mig-enabled"
_PARTITIONED = ("single", "mixed", "true")
"""The values of labels that say that the GPUs of a node are partitioned."""


def _slices_of(amounts: Resource) -> int:
    """Return of how many slices the partitions of GPUs are, in thousandths."""
    found = ((_SLICE.match(name), amount) for name, amount in amounts.scalars.items())
    return sum(int(match[1]) * int(amount) for match, amount in found if match)


def _partitioned_by(node: NodeInfo) -> list[str]:
    """Return the labels that say that the GPUs of a node are partitioned."""
    return [
        key
        for key, value in node.labels.items()
        if (key == _MIG_STRATEGY or key.endswith(_MIG_ENABLED)) and value in _PARTITIONED
    ]


def _with_shared_gpus(node: NodeInfo) -> NodeInfo:
    count = whole_number(node.labels.get(_COUNT_LABEL, "")) or 0
    if _partitioned_by(node) or node.devices or not 0 < count <= _UNKNOWN_MEMORY:
        return node
    memory = whole_number(node.labels.get(_MEMORY_LABEL, "")) or _UNKNOWN_MEMORY
    gpus = [
        Device(name=f"gpu-{number}", capacity={_MEMORY: memory}, shared=True)
        for number in range(count)
    ]
    return evolve(node, devices=gpus)


def _give_gpu_claim(
    pod: Pod, asked: _Parts | None, there: Sequence[Device], groups: Sequence[str]
) -> None:
    """Give a pod the claim of GPUs that it asks for, and those that it has of its node's."""
    task = pod.task
    picks: list[DevicePick] | None = None
    if asked is None:
        count = int(task.resreq.get(api.GPU)) // 1000
        if not count:
            return
        request = DeviceRequest(name="gpu", count=count, select=[_OF_GPUS])
    else:
        amount = ceil(asked.number) if asked.is_memory else Milli(ceil(1000 * asked.number))
        request = DeviceRequest(
            name="gpu", count=asked.count, select=[_OF_GPUS], capacity={_MEMORY: amount}
        )
        if task.node_name and task.status.holds:
            places = [groups.index(each) for each in _gpu_groups(task.labels)]
            if len(places) == asked.count and max(places) < len(there):
                picks = []
                for device in [there[place] for place in places]:
                    of_gpu = device.capacity[_MEMORY]
                    of_it = {_MEMORY: amount.of(of_gpu) if isinstance(amount, Milli) else amount}
                    one = DevicePick(claim="gpus", request="gpu", device=device.key, amounts=of_it)
                    picks.append(one)
    claims = (*task.claims, DeviceClaim(name="gpus", requests=[request]))
    if task.claims:
        picks = None if picks is None or task.devices is None else [*task.devices, *picks]
    pod.task = evolve(task, claims=pod.object.reading.shared(claims), devices=picks)
