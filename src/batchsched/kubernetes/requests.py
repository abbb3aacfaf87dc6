"""Reads what containers and pods request, and what nodes have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from attrs import frozen

from batchsched.kubernetes.objects import Reader
from batchsched.kubernetes.reading import Reading
from batchsched.model.cluster import (
    DEFAULT_SCORING_MEMORY,
    DEFAULT_SCORING_MILLI_CPU,
    ScoringRequest,
)
from batchsched.model.resources import Resource, sum_resources

__all__ = [
    "Containers",
    "PodRequest",
    "amount_unit",
    "is_native_scalar",
    "is_scalar_resource",
    "read_allocatable",
    "read_amounts",
    "read_containers",
    "read_pod_request",
    "resource_of",
]


def is_scalar_resource(name: str, /) -> bool:
    """Return whether a resource counts as a scalar resource.

    Scalars are extended resources, whose name has a domain other than ``kubernetes.io``, and of
    Kubernetes' own resources ``ephemeral-storage`` and huge pages; ``pods`` is not a scalar.

    >>> is_scalar_resource("nvidia.com/gpu"), is_scalar_resource("hugepages-2Mi")
    (True, True)
    >>> is_scalar_resource("attachable-volumes.kubernetes.io/disk"), is_scalar_resource("pods")
    (False, False)
    """
    domain, slash, _ = name.partition("/")
    if not slash:
        return is_native_scalar(name)
    return not domain.endswith("kubernetes.io")


def is_native_scalar(name: str, /) -> bool:
    """Return whether a resource is ephemeral storage or huge pages of any size."""
    return name == "ephemeral-storage" or name.startswith("hugepages-")


def amount_unit(name: str, /) -> bool | None:
    """Return whether amounts of a resource are in thousandths; None: the resource is ignored.

    >>> amount_unit("cpu"), amount_unit("memory"), amount_unit("pods")
    (True, False, None)
    """
    if name == "cpu":
        return True
    if name == "memory":
        return False
    return True if is_scalar_resource(name) else None


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


def read_amounts(resources: Reader, /) -> dict[str, int]:
    """Return the amounts in a mapping of resources to quantities, in thousandths or bytes."""
    return resources.amounts(amount_unit)


def read_allocatable(status: Reader, /) -> tuple[Resource, int | None]:
    """Return a node's allocatable resources, and its maximum number of pods (None: any number)."""
    allocatable = status.optional_child("allocatable") or status.child("capacity")
    pods = allocatable.amounts(lambda name: False if name == "pods" else None)
    return resource_of(allocatable.amounts(amount_unit)), pods.get("pods")


@frozen
class PodRequest:
    """What a pod requests."""

    resreq: Resource
    init_resreq: Resource | None
    """None: the same as `resreq`."""
    scoring_request: ScoringRequest


@frozen
class _ContainerRequest:
    resource: Resource
    scoring_milli_cpu: int
    scoring_memory: int


def _container_request(container: Reader) -> _ContainerRequest:
    resources = container.child("resources")
    amounts = resources.child("requests").amounts(amount_unit)
    limits = resources.optional_child("limits")
    if limits is not None:
        amounts = limits.amounts(amount_unit) | amounts
    return _ContainerRequest(
        resource_of(amounts),
        amounts.get("cpu", DEFAULT_SCORING_MILLI_CPU),
        amounts.get("memory", DEFAULT_SCORING_MEMORY),
    )


@frozen
class Containers:
    """The containers of a pod."""

    ordinary: tuple[Reader, ...]
    init: tuple[tuple[Reader, bool], ...]
    """The init containers in order, and whether each is a sidecar: a container that is always
    restarted and so keeps running with the ordinary containers."""

    def running(self) -> Iterator[Reader]:
        """Yield the containers that run as long as the pod does."""
        yield from self.ordinary
        for container, is_sidecar in self.init:
            if is_sidecar:
                yield container


def read_containers(spec: Reader, /) -> Containers:
    """Return the containers of a pod."""
    return Containers(
        tuple(spec.children("containers")),
        tuple(
            (container, container.text("restartPolicy") == "Always")
            for container in spec.children("initContainers")
        ),
    )


def read_pod_request(spec: Reader, containers: Containers, reading: Reading, /) -> PodRequest:
    """Return what a pod requests, by the rules of Kubernetes.

    A missing request defaults to the limit of the same resource, if there is one. Sidecars count
    like containers, and also towards the init containers that start after them. A request of the
    pod as a whole replaces the requests of its containers for the same resource. The overhead of
    the pod is added.
    """
    running = [_container_request(container) for container in containers.ordinary]
    sidecars: list[Resource] = []
    peak: Resource | None = None
    for container, is_sidecar in containers.init:
        request = _container_request(container)
        if is_sidecar:
            running.append(request)
            sidecars.append(request.resource)
            continue
        while_it_runs = sum_resources([request.resource, *sidecars])
        peak = while_it_runs if peak is None else peak.max_with(while_it_runs)
    held = (
        running[0].resource
        if len(running) == 1
        else sum_resources(request.resource for request in running)
    )
    if peak is not None:
        peak = held.max_with(peak)
    scoring = ScoringRequest(
        sum(request.scoring_milli_cpu for request in running),
        sum(request.scoring_memory for request in running),
    )
    resources = spec.optional_child("resources")
    if resources is not None:
        of_pod = _pod_level_amounts(resources, held if peak is None else peak)
        held = _with_amounts(held, of_pod)
        peak = None if peak is None else _with_amounts(peak, of_pod)
        scoring = ScoringRequest(
            of_pod.get("cpu", scoring.milli_cpu), of_pod.get("memory", scoring.memory)
        )
    overhead = spec.optional_child("overhead")
    if overhead is not None:
        added = resource_of(overhead.amounts(amount_unit))
        held = held + added
        peak = None if peak is None else peak + added
    return PodRequest(
        reading.shared(held),
        None if peak is None or peak == held else reading.shared(peak),
        reading.shared(scoring),
    )


def _pod_level_amounts(resources: Reader, of_containers: Resource) -> dict[str, int]:
    """Return the requests of a pod as a whole; a limit counts where there is no request at all."""
    limits = resources.child("limits").amounts(_at_pod_level)
    unrequested = {name: amount for name, amount in limits.items() if not of_containers.get(name)}
    return unrequested | resources.child("requests").amounts(_at_pod_level)


def _with_amounts(resource: Resource, amounts: Mapping[str, int]) -> Resource:
    return resource_of(
        {name: int(amount) for name, amount in resource.dimensions()} | dict(amounts)
    )
