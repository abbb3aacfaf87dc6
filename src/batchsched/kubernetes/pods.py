"""Reads pods and nodes: resources, affinity, priorities and everything else in their specs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from attrs import define, evolve, frozen

from batchsched.causes import HoldKind
from batchsched.kubernetes import api
from batchsched.kubernetes.annotations import read_durations
from batchsched.kubernetes.objects import (
    KubernetesObject,
    Reader,
    look_up,
    mappings_in,
    text_at,
)
from batchsched.model.cluster import (
    DEFAULT_SCORING_MEMORY,
    DEFAULT_SCORING_MILLI_CPU,
    Hold,
    NodeInfo,
    ScoringRequest,
    TaskInfo,
    TaskStatus,
)
from batchsched.model.constraints import (
    ANY_ADDRESS,
    HostPort,
    LabelSelector,
    NodeAffinity,
    NodeSelectorTerm,
    Operator,
    PodAffinity,
    PodAffinityTerm,
    PreferredNodeTerm,
    Requirement,
    Taint,
    TaintEffect,
    Toleration,
    TolerationOperator,
    WeightedPodTerm,
)
from batchsched.model.immutable import FrozenMap
from batchsched.model.notice import NoticeCode
from batchsched.model.resources import Resource, sum_resources
from batchsched.model.texts import did_you_mean

_DEFAULT_PRIORITY = 1
"""The priority of a task whose pod has none."""
_ENDED = {"Succeeded": TaskStatus.SUCCEEDED, "Failed": TaskStatus.FAILED}
ENDED = (TaskStatus.SUCCEEDED, TaskStatus.FAILED)
WAITING = (TaskStatus.PENDING, TaskStatus.RESERVED, TaskStatus.PIPELINED)


@define(eq=False)
class Pod:
    """A pod as a task, with its role."""

    object: KubernetesObject
    task: TaskInfo
    """It changes while more is read of the pod."""
    role: str | None
    """Its role in its job; None: it has none."""
    scheduler_name: str
    own_priority: int
    """The priority in its spec, or the default of priority classes, or 0."""
    gates: tuple[Hold, ...]
    """Its scheduling gates."""
    has_priority: bool
    """Whether its spec has a priority, as that of every pod that Kubernetes admitted."""


def read_pod(pod: KubernetesObject, namespaces: Namespaces, priorities: PriorityClasses, /) -> Pod:
    """Return a v1 Pod as a task, with its role."""
    reading = pod.reader.reading
    metadata, spec = pod.metadata, pod.spec
    annotations = metadata.text_map("annotations")
    status, node_name = _status_and_node(pod, spec, annotations.get(api.RESERVED_NODE, ""))
    containers, init = [*spec.children("containers")], [*spec.children("initContainers")]
    resreq, init_resreq, scoring_request = _read_pod_request(spec, containers, init)
    lasting = [*containers, *filter(_is_sidecar, init)]
    affinity = spec.optional_child("affinity")
    pod_affinity, pod_anti_affinity = (
        None if affinity is None else _read_pod_affinity(affinity, key, namespaces, pod)
        for key in ("podAffinity", "podAntiAffinity")
    )
    estimate, attained = read_durations(pod)
    class_name = spec.text("priorityClassName")
    has_priority = spec.get("priority") is not None
    if has_priority:
        # In a pod that Kubernetes admitted, this is the value of its priority class.
        priority = own_priority = spec.integer("priority", default=_DEFAULT_PRIORITY)
    else:
        known = priorities.values.get(class_name, priorities.default)
        priority, own_priority = (_DEFAULT_PRIORITY, 0) if known is None else (known, known)
    task = TaskInfo(
        uid=metadata.text("uid") or pod.full_name,
        name=pod.name,
        namespace=pod.namespace,
        status=status,
        node_name=node_name,
        resreq=resreq,
        init_resreq=init_resreq,
        scoring_request=scoring_request,
        priority=priority,
        priority_class_name=class_name,
        creation_time=pod.creation_time(),
        is_backfill=annotations.get(api.BACKFILL) == "true",
        labels=metadata.text_map("labels"),
        node_selector=spec.text_map("nodeSelector"),
        node_affinity=None if affinity is None else reading.shared(_read_node_affinity(affinity)),
        tolerations=reading.shared(tuple(tolerations_of(spec))),
        host_ports=reading.shared(tuple(_host_ports(spec, lasting))),
        pod_affinity=reading.shared(pod_affinity),
        pod_anti_affinity=reading.shared(pod_anti_affinity),
        start_time=pod.status.time("startTime") if status.holds else None,
        estimate=estimate,
        attained_service=attained,
    )
    roles = (texts.get(key) for key in api.ROLE_NAMES for texts in (annotations, task.labels))
    return Pod(
        object=pod,
        task=task,
        role=next(filter(None, roles), None),
        scheduler_name=spec.text("schedulerName"),
        own_priority=own_priority,
        has_priority=has_priority,
        gates=() if spec.get("schedulingGates") is None else reading.shared(_gates(spec)),
    )


def _status_and_node(
    pod: KubernetesObject, spec: Reader, reserved_node: str
) -> tuple[TaskStatus, str | None]:
    pod_status = pod.status
    phase = pod_status.text("phase") or "Pending"
    # This is the end of the grace period, which may be in the future: not a bound of the present.
    is_deleted = pod.metadata.time("deletionTimestamp", is_past=False) is not None
    node_name = spec.text("nodeName") or None
    if phase in _ENDED:
        return _ENDED[phase], None
    if phase not in ("Pending", "Running"):
        return TaskStatus.UNKNOWN, node_name
    if is_deleted:
        return TaskStatus.RELEASING, node_name
    if phase == "Running":
        return TaskStatus.RUNNING, node_name
    if node_name is not None:
        return TaskStatus.BOUND, node_name
    if reserved_node:
        return TaskStatus.RESERVED, reserved_node
    nominated_node = pod_status.text("nominatedNodeName")
    if nominated_node:
        return TaskStatus.PIPELINED, nominated_node
    return TaskStatus.PENDING, None


def _gates(spec: Reader) -> tuple[Hold, ...]:
    names = [gate.text("name", required=True) for gate in spec.children("schedulingGates")]
    return tuple(Hold(HoldKind.GATE, name) for name in names if name)


def tolerations_of(spec: Reader) -> Iterator[Toleration]:
    """Yield the tolerations in a mapping."""
    for toleration in spec.children("tolerations"):
        operator = toleration.member(
            "operator", TolerationOperator, default=TolerationOperator.EQUAL
        )
        key = toleration.text("key")
        if operator is TolerationOperator.EQUAL and not key:
            message = "is empty; use operator Exists without a key to tolerate everything"
            toleration.fault(".key", message)
        elif operator is not None:
            yield Toleration(
                key=key,
                operator=operator,
                value=toleration.text("value"),
                effect=toleration.member("effect", TaintEffect),
            )


def _host_ports(spec: Reader, containers: Iterable[Reader]) -> Iterator[HostPort]:
    on_host_network = spec.truth("hostNetwork")
    for container in containers:
        for port in container.children("ports"):
            number = port.integer("hostPort", default=0)
            if not number and on_host_network:
                number = port.integer("containerPort", default=0)
            if number:
                yield HostPort(
                    port=number,
                    protocol=port.text("protocol") or "TCP",
                    address=port.text("hostIP") or ANY_ADDRESS,
                )


_OF_NODES = ("DaemonSet", "Node")
"""What makes pods for each node that it selects, and again where they end: a kubelet's own pods,
which stand in its files, have the node as their owner."""


def of_its_node(pod: Pod, task: TaskInfo) -> TaskInfo:
    """Return a task, marked if each node of the kind runs its pod, and again once it has ended."""
    owners = mappings_in(look_up(pod.object.metadata.content, "ownerReferences"))
    if not any(text_at(owner, "kind") in _OF_NODES for owner in owners):
        return task
    return evolve(task, is_on_each_node=True)


def note_missing_node(pod: Pod) -> None:
    """Record a notice of a pod on a node that was not given."""
    pod.object.note(
        NoticeCode.NODE_MISSING,
        "spec.nodeName",
        "on a node that was not given: holds nothing and is not scheduled",
    )


# What pods request and nodes have


def is_native_scalar(name: str, /) -> bool:
    """Return whether a resource is ephemeral storage or huge pages of any size."""
    return name == "ephemeral-storage" or name.startswith("hugepages-")


def amount_unit(name: str, /) -> bool | None:
    """Return whether amounts of a resource are in thousandths; None: the resource is ignored.

    Scalars are extended resources, whose name has a domain other than ``kubernetes.io``, and of
    Kubernetes' own resources ``ephemeral-storage`` and huge pages; ``pods`` is not a scalar.

    >>> amount_unit("cpu"), amount_unit("memory"), amount_unit("pods")
    (True, False, None)
    >>> amount_unit("nvidia.com/gpu"), amount_unit("hugepages-2Mi")
    (True, True)
    >>> amount_unit("attachable-volumes.kubernetes.io/disk") is None
    True
    """
    if name in ("cpu", "memory"):
        return name == "cpu"
    domain, slash, _ = name.partition("/")
    is_scalar = not domain.endswith("kubernetes.io") if slash else is_native_scalar(name)
    return True if is_scalar else None


PODS = "pods"
"""The resource of which each pod takes one, where quotas of queues count pods."""


def quota_unit(name: str, /) -> bool | None:
    """Return the unit, as `amount_unit`, of a resource that quotas of queues may limit."""
    return True if name == PODS else amount_unit(name)


def _at_pod_level(name: str) -> bool | None:
    """Return the unit, as `amount_unit`, of a resource that a pod may request as a whole."""
    return amount_unit(name) if name in ("cpu", "memory") or is_native_scalar(name) else None


def resource_of(amounts: Mapping[str, int], /) -> Resource:
    """Return amounts by dimension as a `Resource`."""
    scalars = {name: amounts[name] for name in amounts if name not in ("cpu", "memory")}
    return Resource(
        milli_cpu=amounts.get("cpu", 0),
        memory=amounts.get("memory", 0),
        # An amount of 0 means the same as no amount.
        scalars={name: amount for name, amount in scalars.items() if amount} if scalars else {},
    )


def _container_amounts(container: Reader) -> dict[str, int]:
    resources = container.child("resources")
    amounts = resources.child("requests").amounts(amount_unit)
    limits = resources.optional_child("limits")
    return amounts if limits is None else limits.amounts(amount_unit) | amounts


def _is_sidecar(init_container: Reader) -> bool:
    """Return whether an init container is always restarted, and so keeps running."""
    return init_container.text("restartPolicy") == "Always"


def _read_pod_request(
    spec: Reader, containers: Iterable[Reader], init_containers: Iterable[Reader]
) -> tuple[Resource, Resource | None, ScoringRequest]:
    """Return what a pod requests, also to start (None: the same), and for scores.

    A missing request defaults to the limit of the same resource, if there is one. Sidecars count
    like containers, and also towards the init containers that start after them. A request of the
    pod as a whole replaces the requests of its containers for the same resource. The overhead of
    the pod is added.
    """
    reading = spec.reading
    running = [_container_amounts(container) for container in containers]
    sidecars: list[Resource] = []
    peak: Resource | None = None
    for container in init_containers:
        amounts = _container_amounts(container)
        if _is_sidecar(container):
            running.append(amounts)
            sidecars.append(resource_of(amounts))
            continue
        while_it_runs = sum_resources([resource_of(amounts), *sidecars])
        peak = while_it_runs if peak is None else peak.max_with(while_it_runs)
    resources = [resource_of(amounts) for amounts in running]
    held = resources[0] if len(resources) == 1 else sum_resources(resources)
    if peak is not None:
        peak = held.max_with(peak)
    scoring = ScoringRequest(
        sum(amounts.get("cpu", DEFAULT_SCORING_MILLI_CPU) for amounts in running),
        sum(amounts.get("memory", DEFAULT_SCORING_MEMORY) for amounts in running),
    )
    as_a_whole = spec.optional_child("resources")
    if as_a_whole is not None:
        of_pod = _pod_level_amounts(as_a_whole, held if peak is None else peak)
        held = with_amounts(held, of_pod)
        peak = None if peak is None else with_amounts(peak, of_pod)
        scoring = ScoringRequest(
            of_pod.get("cpu", scoring.milli_cpu), of_pod.get("memory", scoring.memory)
        )
    overhead = spec.optional_child("overhead")
    if overhead is not None:
        added = resource_of(overhead.amounts(amount_unit))
        held = held + added
        peak = None if peak is None else peak + added
    peak = None if peak is None or peak == held else reading.shared(peak)
    return reading.shared(held), peak, reading.shared(scoring)


def _pod_level_amounts(resources: Reader, of_containers: Resource) -> dict[str, int]:
    """Return the requests of a pod as a whole; a limit counts where there is no request at all."""
    limits = resources.child("limits").amounts(_at_pod_level)
    unrequested = {name: amount for name, amount in limits.items() if not of_containers.get(name)}
    return unrequested | resources.child("requests").amounts(_at_pod_level)


def with_amounts(resource: Resource, amounts: Mapping[str, int]) -> Resource:
    """Return a resource with other amounts of some dimensions."""
    return resource_of(
        {name: int(amount) for name, amount in resource.dimensions()} | dict(amounts)
    )


# Affinity

_REQUIRED_TERMS = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED_TERMS = "preferredDuringSchedulingIgnoredDuringExecution"
_NAMESPACE_NAME = "kubernetes.io/metadata.name"
"""The label that every namespace carries, with its own name."""


@frozen
class Namespaces:
    """The known namespaces, for terms that select namespaces by label."""

    labels: Mapping[str, Mapping[str, str]]
    """The labels of the namespaces that were given."""
    names: frozenset[str]
    """The names of these, and of those that pods are in."""

    def matches(self, name: str, selector: LabelSelector) -> bool:
        """Return whether a selector selects a namespace, as far as its labels are known."""
        return selector.matches({**self.labels.get(name, {}), _NAMESPACE_NAME: name})

    def selected(self, reader: Reader, pod: KubernetesObject) -> tuple[str, ...]:
        """Return the names of the namespaces that a selector of a pod selects, sorted."""
        selector = label_selector(reader)
        keys = {*selector.match_labels, *(each.key for each in selector.match_expressions)}
        if not self.labels and keys - {_NAMESPACE_NAME}:
            message = "selects namespaces by label, which were not given: it selects none"
            pod.note(NoticeCode.FIELD_IGNORED, "spec.affinity", message)
        return tuple(name for name in sorted(self.names) if self.matches(name, selector))


def _read_node_affinity(affinity: Reader, /) -> NodeAffinity | None:
    """Return the node affinity in ``spec.affinity``, or None."""
    reader = affinity.optional_child("nodeAffinity")
    if reader is None:
        return None
    required = reader.optional_child(_REQUIRED_TERMS)
    return NodeAffinity(
        required=None
        if required is None
        else tuple(node_term(term) for term in required.children("nodeSelectorTerms")),
        preferred=tuple(
            PreferredNodeTerm(
                weight=preferred.integer("weight"), term=node_term(preferred.child("preference"))
            )
            for preferred in reader.children(_PREFERRED_TERMS)
        ),
    )


def _read_pod_affinity(
    affinity: Reader, key: str, namespaces: Namespaces, pod: KubernetesObject, /
) -> PodAffinity | None:
    """Return the pod affinity or anti-affinity in ``spec.affinity`` at `key`, or None."""
    reader = affinity.optional_child(key)
    if reader is None:
        return None
    return PodAffinity(
        required=tuple(
            _pod_term(term, namespaces, pod) for term in reader.children(_REQUIRED_TERMS)
        ),
        preferred=tuple(
            WeightedPodTerm(
                weight=preferred.integer("weight"),
                term=_pod_term(preferred.child("podAffinityTerm"), namespaces, pod),
            )
            for preferred in reader.children(_PREFERRED_TERMS)
        ),
    )


def node_term(reader: Reader) -> NodeSelectorTerm:
    """Return a term that selects nodes."""
    return NodeSelectorTerm(
        match_expressions=tuple(_requirements(reader, "matchExpressions")),
        match_fields=tuple(_requirements(reader, "matchFields")),
    )


def _pod_term(reader: Reader, namespaces: Namespaces, pod: KubernetesObject) -> PodAffinityTerm:
    selector_reader = reader.optional_child("labelSelector")
    selector = None if selector_reader is None else label_selector(selector_reader)
    names = reader.texts("namespaces")
    namespace_selector = reader.optional_child("namespaceSelector")
    if namespace_selector is not None:
        names = tuple(sorted({*names, *namespaces.selected(namespace_selector, pod)}))
        if not names:
            # An empty tuple would mean the pod's own namespace; this term selects no pod at all.
            selector = None
    return PodAffinityTerm(
        selector=selector, topology_key=reader.text("topologyKey", required=True), namespaces=names
    )


def requiring(task: TaskInfo, more: Requirement) -> TaskInfo:
    """Return a task that requires something more of the labels of its node."""
    affinity = task.node_affinity or NodeAffinity()
    terms = (NodeSelectorTerm(),) if affinity.required is None else affinity.required
    required = [
        evolve(term, match_expressions=(*term.match_expressions, more))
        for term in terms
        if affinity.required is None or not term.is_empty()
    ]
    return evolve(task, node_affinity=evolve(affinity, required=required))


def requiring_field(task: TaskInfo, more: Requirement) -> TaskInfo:
    """Return a task that requires something more of its node itself, such as its name."""
    affinity = task.node_affinity or NodeAffinity()
    terms = (NodeSelectorTerm(),) if affinity.required is None else affinity.required
    required = [
        evolve(term, match_fields=(*term.match_fields, more))
        for term in terms
        if affinity.required is None or not term.is_empty()
    ]
    return evolve(task, node_affinity=evolve(affinity, required=required))


def requesting(task: TaskInfo, more: Mapping[str, int]) -> TaskInfo:
    """Return a task that requests more scalars, in thousandths."""
    added, init = Resource(scalars=more), task.init_resreq
    init = None if init is None else init + added
    return evolve(task, resreq=task.resreq + added, init_resreq=init)


def label_selector(reader: Reader) -> LabelSelector:
    """Return a selector of labels."""
    return LabelSelector(
        match_labels=reader.text_map("matchLabels"),
        match_expressions=tuple(_requirements(reader, "matchExpressions")),
    )


def _requirements(reader: Reader, key: str) -> Iterator[Requirement]:
    for expression in reader.children(key):
        name = expression.text("key", required=True)
        operator = expression.member("operator", Operator, required=True)
        values = expression.texts("values")
        if operator is not None:
            yield Requirement(key=name, operator=operator, values=values)


# Priority classes


@frozen
class PriorityClasses:
    """The given PriorityClasses."""

    values: Mapping[str, int]
    """Name to value."""
    default: int | None
    """The value of the class with ``globalDefault``, if there is one; of several the smallest, as
    in Kubernetes."""

    def of(self, given: KubernetesObject, name: str, default: int) -> int:
        """Return the priority of an object, given the class that its spec names; "": none."""
        value = self.values.get(name)
        if value is not None:
            return value
        fallback = default if self.default is None else self.default
        if name:
            meant = did_you_mean(name, sorted(self.values))
            hint = f" ({meant})" if meant else ""
            given.note(
                NoticeCode.PRIORITY_CLASS_MISSING,
                "spec.priorityClassName",
                f"priority class {name!r} was not given{hint}: priority {fallback} is used",
            )
        return fallback


def read_priority_classes(classes: Iterable[KubernetesObject], /) -> PriorityClasses:
    """Return the name and value of every PriorityClass, and the default."""
    values: dict[str, int] = {}
    defaults: list[int] = []
    for priority_class in classes:
        priority_class.creation_time()  # not stored, but it is a lower bound of the present time
        value = priority_class.reader.integer("value")
        values[priority_class.name] = value
        if priority_class.reader.truth("globalDefault"):
            defaults.append(value)
    return PriorityClasses(values, min(defaults, default=None))


# Nodes


def read_node(node: KubernetesObject, /) -> NodeInfo:
    """Return a v1 Node as a `NodeInfo`."""
    node.creation_time()  # not stored, but it is a lower bound of the present time
    spec = node.spec
    status = node.status
    allocatable = status.optional_child("allocatable") or status.child("capacity")
    max_tasks = allocatable.amounts(lambda name: False if name == "pods" else None)
    return NodeInfo(
        name=node.name,
        allocatable=resource_of(allocatable.amounts(amount_unit)),
        max_tasks=max_tasks.get("pods"),
        labels=node.labels,
        taints=tuple(taints_of(spec)),
        unschedulable=spec.truth("unschedulable"),
        conditions=FrozenMap(_conditions(status)),
    )


def taints_of(spec: Reader, key: str = "taints") -> Iterator[Taint]:
    """Yield the taints in a mapping."""
    for taint in spec.children(key):
        name, value = taint.text("key", required=True), taint.text("value")
        effect = taint.member("effect", TaintEffect, required=True)
        if effect is not None:
            yield Taint(key=name, value=value, effect=effect)


def _conditions(status: Reader) -> Iterator[tuple[str, str]]:
    for condition in status.children("conditions"):
        # Nodes report at least every few minutes, so these times are close to the present.
        condition.time("lastHeartbeatTime")
        condition.time("lastTransitionTime")
        yield condition.text("type", required=True), condition.text("status", required=True)


def without_unused_scalars(nodes: Sequence[NodeInfo], tasks: Iterable[TaskInfo]) -> list[NodeInfo]:
    """Return the nodes without those of Kubernetes' own scalars that no pod requests.

    Every node has ephemeral storage. Where no pod requests it, it would be a dimension in which
    every queue has a share that it never uses up.
    """
    requested = {name for task in tasks for name in task.start_request.scalars}
    found: list[NodeInfo] = []
    for node in nodes:
        scalars = node.allocatable.scalars
        unused = {name for name in scalars if is_native_scalar(name)} - requested
        if unused:
            used = {name: amount for name, amount in scalars.items() if name not in unused}
            found.append(evolve(node, allocatable=evolve(node.allocatable, scalars=used)))
        else:
            found.append(node)
    return found


def note_overcommitted(
    objects: Sequence[KubernetesObject], nodes: Sequence[NodeInfo], tasks: Iterable[TaskInfo]
) -> None:
    """Record a notice of each node whose pods hold more than it has."""
    held: defaultdict[str, list[Resource]] = defaultdict(list)
    for task in tasks:
        if task.status.holds and task.node_name is not None:
            held[task.node_name].append(task.resreq)
    for given, node in zip(objects, nodes, strict=True):
        use = sum_resources(held.get(node.name, ()))
        for name, amount in use.dimensions():
            if amount > node.allocatable.get(name):
                given.note(
                    NoticeCode.NODE_OVERCOMMITTED,
                    f"status.allocatable[{name!r}]",
                    "its pods hold more than it has: it accepts no pods that request it",
                )
