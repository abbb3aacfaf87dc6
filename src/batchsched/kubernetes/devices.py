"""Reads devices and claims: Kubernetes' dynamic resource allocation, and KAI's shared GPUs.

Of the objects of resource.k8s.io: ResourceSlices and DeviceTaintRules say which devices there are,
DeviceClasses, ResourceClaims and their templates what pods claim and have.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import chain
from math import ceil

from attrs import evolve

from batchsched.causes import HoldKind
from batchsched.kubernetes import api
from batchsched.kubernetes.dump_objects import DumpObjects
from batchsched.kubernetes.objects import (
    KubernetesObject,
    Reader,
    annotation,
    whole_number,
)
from batchsched.kubernetes.pods import (
    ENDED,
    WAITING,
    Pod,
    requesting,
    requiring,
    requiring_field,
    tolerations_of,
    with_amounts,
)
from batchsched.kubernetes.resource_slices import (
    NEVER,
    DeviceClass,
    Key,
    Pool,
    Slice,
    contradict,
    reaches,
    selectors_of,
    slice_of,
    slices_on,
    taint_rule,
)
from batchsched.kubernetes.shared_gpus import (
    MEMORY_LABEL,
    PARTITIONED,
    Parts,
    give_gpu_claim,
    gpu_groups,
    is_reservation,
    missing_reservations,
    need_memory,
    partitioned_by,
    slices_of,
    with_shared_gpus,
)
from batchsched.model.cluster import Hold, NodeInfo, TaskInfo
from batchsched.model.constraints import (
    NodeSelectorTerm,
    Operator,
    Requirement,
)
from batchsched.model.devices import (
    CounterSet,
    Device,
    DeviceClaim,
    DeviceConstraint,
    DevicePick,
    DeviceRequest,
    named_under,
    read_selector,
)
from batchsched.model.notice import NoticeCode
from batchsched.model.resources import Resource


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
        self.reservations: Sequence[TaskInfo] = ()
        """What holds the rest of shared GPUs, where the dump does not have it."""
        self.unread: dict[str, Hold] = {}
        """What was not given of the claims of pods, by UID: they are taken not to have these."""
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
        rules = [taint_rule(each) for each in objects.of(api.RESOURCE, "DeviceTaintRule")]
        taints = [rule for rule in rules if rule is not None]
        slices = [slice_of(each, taints) for each in objects.of(api.RESOURCE, "ResourceSlice")]
        self._by_kai = bool(objects.of(api.KAI, "Queue"))
        """Whether KAI Scheduler counts GPUs: parts of them, and devices, in its own way."""
        self.refused: dict[str, str] = {}
        """The claims for which KAI Scheduler refuses pods that name them, by UID of the pod."""
        self._classes = {
            given.name: DeviceClass.of(given, by_kai=self._by_kai)
            for given in objects.of(api.RESOURCE, "DeviceClass")
        }
        self._take_slices(slices)
        self.nodes = [with_shared_gpus(node) for node in self.nodes]

    # Slices

    def _take_slices(self, slices: Iterable[Slice]) -> None:
        pools: defaultdict[Pool, list[Slice]] = defaultdict(list)
        for each in slices:
            pools[each.pool].append(each)
        common: dict[Key, tuple[int, Device]] = {}
        """The devices that several nodes may reach, with their generations."""
        reached: defaultdict[Key, list[str]] = defaultdict(list)
        for pool, of_pool in sorted(pools.items()):
            is_common = any(each.is_common for each in of_pool)
            counters: dict[str, CounterSet] = {}
            for place, node in enumerate(self.nodes):
                there, is_closed = slices_on(of_pool, node)
                devices = [
                    (device, owner)
                    for each in there
                    for device, owner in each.devices
                    if reaches(owner, device.nodes, node)
                ]
                sets = [one for each in there for one in each.counter_sets]
                if is_closed or contradict([device for device, _ in devices], sets):
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
            if names != [node.name for node in self.nodes if reaches("", nodes, node)]:
                only = Requirement(key="metadata.name", operator=Operator.IN, values=tuple(names))
                nodes = (NodeSelectorTerm(match_fields=(only,)),)
            self.devices.append(evolve(device, nodes=nodes))

    # Pods

    def take(self, pods: Sequence[Pod]) -> None:
        """Give pods what they claim and have. O(pods + claims x devices)."""
        parts = [Parts.of(pod) for pod in pods]
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
            units = slices_of(node.allocatable)
            if units:
                has = node.allocatable + Resource(scalars={api.GPU: units})
                self.nodes[place] = evolve(node, allocatable=has)
        for pod in pods:
            units = slices_of(pod.task.resreq)
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
        task = pod.task
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
                is_made = template_name and not claim_name
                kind = HoldKind.CLAIM_TEMPLATE_MISSING if is_made else HoldKind.CLAIM_MISSING
                self.unread[task.uid] = Hold(kind, claim_name or template_name or name)
                continue
            results, shared = _results(claim, name), self._shared_name(pod, entry, given)
            spec = source.spec if claim else source.spec.child("spec")
            unknown = "" if results is not None else self._missing_class(spec)
            if unknown and task.status in WAITING:
                self.unread[task.uid] = Hold(HoldKind.DEVICE_CLASS_MISSING, unknown)
                continue
            if claim is not None and shared is not None:
                self._names[claim.full_name] = shared
            if claim is not None and results is not None and task.status.holds:
                self._taken.add(claim.full_name)
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
            if task.resreq.get(resource):
                read, results = self._claim_of_class(pod, resource, class_name)
                claims.append(read)
                picked.append(results)
        if claims:
            picks = [pick for each in picked for pick in each or ()]
            is_there = None not in picked and task.status.holds and task.node_name is not None
            same = pod.object.reading.shared(tuple(claims))
            task = requesting(task, more) if more else task
            pod.task = evolve(task, claims=same, devices=picks if is_there else None)

    def _claim_of_class(
        self, pod: Pod, resource: str, class_name: str
    ) -> tuple[DeviceClaim, list[DevicePick] | None]:
        """Return the claim that stands for an extended resource, and what it has; None: nothing."""
        count = ceil(pod.task.resreq.get(resource) / 1000)
        selectors = self._classes[class_name].selectors
        request = DeviceRequest(name="devices", count=count, select=selectors)
        told = pod.object.status.child("extendedResourceClaimStatus")
        claim = self._named("ResourceClaim", pod, told.text("resourceClaimName"))
        results = _results(claim, resource)
        if claim is not None and results is not None:
            self._taken.add(claim.full_name)
            results = [evolve(pick, request="devices") for pick in results]
        return DeviceClaim(name=resource, requests=[request]), results

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

    def _missing_class(self, spec: Reader) -> str:
        """Return the first class that a claim names and that was not given; empty: none.

        The kube-scheduler asks for the classes of all alternatives before it chooses one.
        """
        named = (
            one.text("deviceClassName")
            for each in spec.child("devices").children("requests")
            for one in [
                *each.children("firstAvailable"),
                each.optional_child("exactly") or each,
            ]
        )
        return next((name for name in named if name and name not in self._classes), "")

    def _request(self, reader: Reader, name: str, given: KubernetesObject) -> DeviceRequest:
        class_name = reader.text("deviceClassName")
        known = self._classes.get(class_name)
        selectors: tuple[str, ...] = ()
        if known is not None:
            selectors = known.selectors
        elif class_name:
            message = f"device class {class_name!r} was not given: no device is accepted"
            given.note(NoticeCode.READ_AS, "spec.devices.requests", message)
            selectors = (NEVER,)
        is_all = reader.text("allocationMode") == "All"
        return DeviceRequest(
            name=name,
            count="all" if is_all else reader.integer("count", default=1, least=1),
            select=(*selectors, *selectors_of(reader, given)),
            capacity=reader.child("capacity").child("requests").amounts(_as_is),
            tolerations=tuple(tolerations_of(reader)),
            admin=reader.truth("adminAccess"),
        )

    # Extended resources of classes

    def _amount_of(self, of_class: DeviceClass, request: DeviceRequest) -> int:
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
                *(each for each in self.devices if reaches("", each.nodes, node)),
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

    def _request_parts(self, pods: Sequence[Pod], parts: Sequence[Parts | None]) -> None:
        """Let pods request their parts of GPUs, and reservations what is left of these. O(pods).

        If GPUs are devices, these say what is left of which, and reservations hold nothing. Else a
        reservation holds what the pods of its group leave of one GPU, so that a shared GPU counts
        as one whole.
        """
        are_devices = self._has_gpus
        memory = {node.name: whole_number(node.labels.get(MEMORY_LABEL, "")) for node in self.nodes}
        known = sorted(set(filter(None, memory.values())))
        partitions = sorted({key for node in self.nodes for key in partitioned_by(node)})
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
                off = Requirement(key=key, operator=Operator.NOT_IN, values=PARTITIONED)
                pod.task = task = requiring(task, off)
            if part:
                pod.task = requesting(task, {api.GPU: ceil(1000 * part * asked.count)})
                if least and not (tells and known[0] >= least) and task.node_name is None:
                    need_memory(pod, least, known[-1] if known else 0)
                if task.status.holds:
                    for group in gpu_groups(task.labels):
                        held[task.node_name, group] += ceil(1000 * part)
            if task.status not in ENDED and not are_devices:
                message = "parts of GPUs are taken from whole free GPUs, not from shared ones"
                pod.object.note(NoticeCode.GPU_FRACTION, annotation(asked.key), message)
        for pod in pods:
            if is_reservation(pod):
                task = pod.task
                used = sum(held[task.node_name, group] for group in gpu_groups(task.labels))
                left = 0 if are_devices else max(0, 1000 - used)
                resreq = with_amounts(task.resreq, {api.GPU: left})
                pod.task = evolve(task, resreq=resreq, init_resreq=None)
        if not are_devices:
            self.reservations = missing_reservations(held, pods, {one.name for one in self.nodes})

    def _give_gpus(self, pods: Sequence[Pod], parts: Sequence[Parts | None]) -> None:
        """Give pods claims of GPUs that are told one by one."""
        gpus = self._gpus()
        groups: defaultdict[str, set[str]] = defaultdict(set)
        for pod in pods:
            if pod.task.node_name and pod.task.status.holds:
                groups[pod.task.node_name].update(gpu_groups(pod.task.labels))
        for pod, asked in zip(pods, parts, strict=True):
            node = pod.task.node_name or ""
            if asked is not None or not is_reservation(pod):
                give_gpu_claim(pod, asked, gpus.get(node, ()), sorted(groups.get(node, ())))


def _accepts(of_class: DeviceClass, device: Device) -> bool:
    return all(read_selector(each)(device) for each in of_class.selectors)


def _as_is(_name: str) -> bool:
    return False  # in units, rounded up


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
