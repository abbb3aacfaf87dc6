"""GPUs as KAI Scheduler shares them: parts of GPUs, by fraction or memory, and who has which.

Nodes say in labels how many GPUs they have and how much memory; pods ask in annotations for a part
of one or more, and name in labels the shared GPUs that they have been given.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from math import ceil

from attrs import evolve, frozen

from batchsched.errors import QuantityError
from batchsched.kubernetes import api
from batchsched.kubernetes.objects import (
    annotation,
    whole_number,
)
from batchsched.kubernetes.pods import (
    Pod,
    requiring,
)
from batchsched.model.cluster import NodeInfo, TaskInfo, TaskStatus
from batchsched.model.constraints import (
    Operator,
    Requirement,
)
from batchsched.model.devices import (
    Device,
    DeviceClaim,
    DevicePick,
    DeviceRequest,
    Milli,
)
from batchsched.model.notice import NoticeCode
from batchsched.model.resources import Resource, parse_quantity

_FRACTION = "gpu-fraction"
_GPU_MEMORY = "gpu-memory"
_NUMBER_OF_GPUS = "gpu-fraction-num-devices"
RESERVATION = "kai-resource-reservation"
"""The label and the namespace of pods that hold shared GPUs."""
_COUNT_LABEL, MEMORY_LABEL = "nvidia.com/gpu.count", "nvidia.com/gpu.memory"
_MEMORY = "memory"
_UNKNOWN_MEMORY = 100
"""The memory of a GPU in parts, where its node does not say how much it has."""
_OF_GPUS = 'device.driver == ""'


def is_reservation(pod: Pod) -> bool:
    """Return whether a pod holds a GPU that others share."""
    return pod.task.labels.get("app") == RESERVATION


def missing_reservations(
    held: Mapping[tuple[str | None, str], int], pods: Sequence[Pod], nodes: Container[str]
) -> list[TaskInfo]:
    """Return what holds the rest of shared GPUs of which a dump lacks the reservation.

    Args:
        held: what pods hold of them, in thousandths, by node and group.
        pods: all pods.
        nodes: the names of the nodes.

    """
    there = {
        (pod.task.node_name, group)
        for pod in pods
        if is_reservation(pod)
        for group in gpu_groups(pod.task.labels)
    }
    return [
        TaskInfo(
            uid=f"gpu-reservation/{node}/{group}",
            name=f"gpu-reservation-{node}-{group}",
            namespace=RESERVATION,
            resreq=Resource(scalars={api.GPU: 1000 - used}),
            status=TaskStatus.RUNNING,
            node_name=node,
        )
        for (node, group), used in sorted(held.items(), key=str)
        if node is not None and node in nodes and used < 1000 and (node, group) not in there  # noqa: PLR2004 - a whole GPU
    ]


def gpu_groups(labels: Mapping[str, str]) -> Iterator[str]:
    """Yield the shared GPUs that the labels of a pod name."""
    for key in sorted(labels):
        if key == api.GPU_GROUP:
            yield labels[key]
        elif key.startswith(f"{api.GPU_GROUP}/"):
            yield key.removeprefix(f"{api.GPU_GROUP}/")


def need_memory(pod: Pod, least: int, largest: int) -> None:
    """Let a pod need nodes whose GPUs have enough memory, in MiB."""
    if largest < least:
        message = f"asks for {least} MiB of one GPU; "
        message += f"the largest has {largest} MiB" if largest else "no node says how much its have"
        pod.object.note(NoticeCode.READ_AS, annotation(_GPU_MEMORY), message)
    more = Requirement(key=MEMORY_LABEL, operator=Operator.GT, values=(str(least - 1),))
    pod.task = requiring(pod.task, more)


@frozen
class Parts:
    """The parts of GPUs that a pod asks for."""

    key: str
    """The annotation."""
    number: Fraction
    """The part of each, or MiB of its memory."""
    is_memory: bool
    count: int
    """Of how many GPUs."""

    @classmethod
    def of(cls, pod: Pod) -> Parts | None:
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
PARTITIONED = ("single", "mixed", "true")
"""The values of labels that say that the GPUs of a node are partitioned."""


def slices_of(amounts: Resource) -> int:
    """Return of how many slices the partitions of GPUs are, in thousandths."""
    found = ((_SLICE.match(name), amount) for name, amount in amounts.scalars.items())
    return sum(int(match[1]) * int(amount) for match, amount in found if match)


def partitioned_by(node: NodeInfo) -> list[str]:
    """Return the labels that say that the GPUs of a node are partitioned."""
    return [
        key
        for key, value in node.labels.items()
        if (key == _MIG_STRATEGY or key.endswith(_MIG_ENABLED)) and value in PARTITIONED
    ]


def with_shared_gpus(node: NodeInfo) -> NodeInfo:
    """Return a node with its GPUs as devices that may be shared, if its labels say how many."""
    count = whole_number(node.labels.get(_COUNT_LABEL, "")) or 0
    if partitioned_by(node) or node.devices or not 0 < count <= _UNKNOWN_MEMORY:
        return node
    memory = whole_number(node.labels.get(MEMORY_LABEL, "")) or _UNKNOWN_MEMORY
    gpus = [
        Device(name=f"gpu-{number}", capacity={_MEMORY: memory}, shared=True)
        for number in range(count)
    ]
    return evolve(node, devices=gpus)


def give_gpu_claim(
    pod: Pod, asked: Parts | None, there: Sequence[Device], groups: Sequence[str]
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
            places = [groups.index(each) for each in gpu_groups(task.labels)]
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
