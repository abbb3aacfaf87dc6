"""Reads how much of the GPUs of KAI Scheduler pods request: whole ones, or parts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from math import ceil

from attrs import evolve

from batchsched.errors import QuantityError
from batchsched.kubernetes import api
from batchsched.kubernetes.objects import KubernetesObject, annotation, whole_number
from batchsched.kubernetes.pods import ENDED, Pod, requiring
from batchsched.model.cluster import NodeInfo
from batchsched.model.constraints import Operator, Requirement
from batchsched.model.notice import NoticeCode
from batchsched.model.quantities import parse_quantity
from batchsched.model.resources import Resource

FRACTION = "gpu-fraction"
MEMORY = "gpu-memory"
DEVICES = "gpu-fraction-num-devices"
_MEMORY_LABEL = "nvidia.com/gpu.memory"
_RESERVATION = "kai-resource-reservation"
_GROUP = "runai-gpu-group"


def is_reservation(pod: Pod) -> bool:
    """Return whether a pod holds a GPU that others share."""
    return pod.task.labels.get("app") == _RESERVATION


def with_parts(pods: Sequence[Pod], nodes: Sequence[NodeInfo], *, are_devices: bool) -> list[Pod]:
    """Return the pods with the parts of GPUs that they request, and what reservations hold.

    O(pods). If GPUs are devices, these say what is left of which, and reservations hold nothing.
    Else a reservation holds what the pods of its group leave of one GPU, so that a shared GPU
    counts as one whole.
    """
    memory = {node.name: node.labels.get(_MEMORY_LABEL, "") for node in nodes}
    known = sorted({size for text in memory.values() if (size := whole_number(text))})
    tells = known and all(memory[n.name] for n in nodes if n.allocatable.get(api.GPU))
    """Whether each node with GPUs tells how much memory they have."""
    held: defaultdict[tuple[str | None, str], int] = defaultdict(int)
    found: list[Pod] = []
    for pod in pods:
        annotations = pod.object.annotations
        given = pod
        if FRACTION in annotations or MEMORY in annotations:
            size = whole_number(memory.get(pod.task.node_name or "", ""))
            on_node = [size] if size else known
            part, least = _part(pod.object, annotations, on_node)
            count = _count(pod.object, annotations)
            if part:
                given = with_request(pod, ceil(1000 * part * count))
                if least and not (tells and known[0] >= least) and pod.task.node_name is None:
                    given = _only_with_memory(given, least, known[-1] if known else 0)
                for group in gpu_groups(pod.task.labels):
                    if pod.task.status.holds:
                        held[pod.task.node_name, group] += ceil(1000 * part)
            if pod.task.status not in ENDED and not are_devices:
                key = FRACTION if FRACTION in annotations else MEMORY
                pod.object.note(
                    NoticeCode.GPU_FRACTION,
                    annotation(key),
                    "parts of GPUs are taken from whole free GPUs, not from shared ones",
                )
        found.append(given)
    for position, pod in enumerate(found):
        if is_reservation(pod):
            used = sum(held[pod.task.node_name, group] for group in gpu_groups(pod.task.labels))
            found[position] = _holding(pod, 0 if are_devices else max(0, 1000 - used))
    return found


def with_request(pod: Pod, thousandths: int) -> Pod:
    """Return a pod that requests thousandths of a GPU as well."""
    task = pod.task
    init = task.init_resreq
    more = Resource(scalars={api.GPU: thousandths})
    task = evolve(
        task, resreq=task.resreq + more, init_resreq=None if init is None else init + more
    )
    return evolve(pod, task=task)


def _holding(pod: Pod, thousandths: int) -> Pod:
    resreq = pod.task.resreq
    scalars = {**resreq.scalars, api.GPU: thousandths}
    if not thousandths:
        del scalars[api.GPU]
    held = evolve(resreq, scalars=scalars)
    return evolve(pod, task=evolve(pod.task, resreq=held, init_resreq=None))


def labels_of_groups(groups: Iterable[str]) -> dict[str, str]:
    """Return the labels that name the shared GPUs of a pod."""
    return {f"{_GROUP}/{group}": group for group in groups}


def gpu_groups(labels: Mapping[str, str]) -> Iterator[str]:
    """Yield the shared GPUs that the labels of a pod name."""
    for key in sorted(labels):
        if key == _GROUP:
            yield labels[key]
        elif key.startswith(f"{_GROUP}/"):
            yield key.removeprefix(f"{_GROUP}/")


def _only_with_memory(pod: Pod, least: int, largest: int) -> Pod:
    """Return a pod that needs nodes whose GPUs have enough memory, in MiB."""
    if largest < least:
        message = f"asks for {least} MiB of one GPU; "
        message += f"the largest has {largest} MiB" if largest else "no node says how much its have"
        pod.object.note(NoticeCode.READ_AS, annotation(MEMORY), message)
    more = Requirement(key=_MEMORY_LABEL, operator=Operator.GT, values=(str(least - 1),))
    return evolve(pod, task=requiring(pod.task, more))


def _part(
    given: KubernetesObject, annotations: Mapping[str, str], memories: Sequence[int]
) -> tuple[Fraction, int]:
    """Return the part of one GPU that a pod asks for, and the memory that it must have, in MiB.

    It is a whole one if it cannot be told, or if none of the memories is enough.
    """
    key = FRACTION if FRACTION in annotations else MEMORY
    try:
        number = parse_quantity(annotations[key])
        if number < 0:
            raise QuantityError(f"expected 0 or more, got {annotations[key]!r}")
    except QuantityError as error:
        why = f"read as one whole GPU: {error}"
        given.note(NoticeCode.FIELD_IGNORED, annotation(key), why)
        return Fraction(1), 0
    if key == FRACTION:
        return number, 0
    enough = min((memory for memory in memories if memory >= number), default=None)
    return Fraction(1) if enough is None else number / enough, ceil(number)


def part_asked(pod: Pod) -> Fraction | int | None:
    """Return the part of a GPU that a pod asks for, or MiB of its memory; None: of none."""
    annotations = pod.object.annotations
    key = next((key for key in (FRACTION, MEMORY) if key in annotations), None)
    if key is None:
        return None
    try:
        number = parse_quantity(annotations[key])
    except QuantityError:
        return Fraction(1)  # as above
    if number < 0:
        return Fraction(1)
    return number if key == FRACTION else ceil(number)


def number_of_parts(pod: Pod) -> int:
    """Return of how many GPUs a pod asks for a part."""
    annotations = pod.object.annotations
    return whole_number(annotations.get(DEVICES, "1")) or 1


def _count(given: KubernetesObject, annotations: Mapping[str, str]) -> int:
    text = annotations.get(DEVICES, "1")
    count = whole_number(text)
    if count:
        return count
    why = f"read as 1: expected a number of GPUs, got {text!r}"
    given.note(NoticeCode.FIELD_IGNORED, annotation(DEVICES), why)
    return 1
