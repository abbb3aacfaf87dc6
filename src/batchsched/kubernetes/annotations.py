"""The annotations of pods and pod groups: names, durations, times and plans."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from math import isfinite
from typing import TypeVar

from attrs import evolve

from batchsched.causes import HoldKind
from batchsched.kubernetes import api
from batchsched.kubernetes.objects import KubernetesObject, annotation, seconds_of
from batchsched.model.cluster import Dependency, Hold, JobEvent, JobInfo, Plan, TaskInfo
from batchsched.model.validation.values import shown

# Times, in annotations of pod groups and pods

ValueT = TypeVar("ValueT")
ESTIMATE = "batchsched/estimate"
ATTAINED = "batchsched/attained-service"
DEADLINE = "batchsched/deadline"
ELIGIBLE_TIME = "batchsched/eligible-time"
MAX_WAITS = ("batchsched/max-wait", "sla-waiting-time", "volcano.sh/sla-waiting-time")
USER = "batchsched/user"
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(h|ms|us|µs|ns|m|s)", re.ASCII)
_SECONDS = re.compile(r"\d+(\.\d*)?|\.\d+", re.ASCII)
_LONGEST = 40
_NOT_READ = "its annotation {} cannot be read"


def parse_duration(text: str, /) -> float:
    """Return a duration in seconds, given as a number of seconds or in Go's notation.

    Raises:
        ValueError: `text` is neither, or negative.

    >>> parse_duration("90"), parse_duration("1h30m"), parse_duration("1.5s")
    (90.0, 5400.0, 1.5)
    >>> parse_duration("soon")
    Traceback (most recent call last):
    ...
    ValueError: expected a duration such as 90 (seconds) or 1h30m, got 'soon'

    """
    if len(text) <= _LONGEST:
        if _SECONDS.fullmatch(text):
            return float(text)
        parts = list(_PART.finditer(text))
        if parts and sum(len(part[0]) for part in parts) == len(text):
            return sum(float(part[1]) * _UNITS[part[2]] for part in parts)
    raise ValueError(f"expected a duration such as 90 (seconds) or 1h30m, got {shown(text)}")


def duration_at(given: KubernetesObject, key: str, /) -> float | None:
    """Return a duration of a spec in seconds; None: none is given, or it cannot be read."""
    text = given.spec.text(key)
    try:
        return parse_duration(text) if text else None
    except ValueError as error:
        given.ignore(f"spec.{key}", error)
        return None


def last_eviction(given: KubernetesObject, /) -> float | None:
    """Return when KAI Scheduler last evicted a group, in seconds; None: it was not."""
    time = _Annotations(given).read(seconds_of, api.KAI_LAST_EVICTED)
    if time is not None:
        given.reading.take_past(time)
    return time


def with_annotated_properties(job: JobInfo, found: KubernetesObject, /) -> JobInfo:
    """Return a job with what the labels and annotations of its pod group, or single pod, define."""
    annotations = _Annotations(found)
    depends_on = annotations.read(
        lambda text: tuple(_dependencies(text, found.namespace)), api.DEPENDS_ON
    )
    eligible_time = annotations.read(seconds_of, ELIGIBLE_TIME)
    # It might not be its turn yet.
    unclear = [key for key in (api.DEPENDS_ON, ELIGIBLE_TIME) if key in annotations.not_read]
    holds = [Hold(HoldKind.DEPENDENCIES, key, _NOT_READ.format(key)) for key in unclear]
    return evolve(
        job,
        labels=found.labels,
        user=annotations.texts.get(USER, ""),
        estimate=annotations.read(parse_duration, ESTIMATE),
        deadline=annotations.read(seconds_of, DEADLINE),
        max_wait=annotations.read(parse_duration, *MAX_WAITS),
        eligible_time=eligible_time,
        depends_on=depends_on or (),
        holds=(*job.holds, *holds),
    )


def read_durations(pod: KubernetesObject, /) -> tuple[float | None, float]:
    """Return a pod's estimate, and for how long its earlier runs held resources, in seconds.

    The estimate is that of its annotation, else ``spec.activeDeadlineSeconds``.
    """
    annotations, spec = _Annotations(pod), pod.spec
    estimate = annotations.read(parse_duration, ESTIMATE)
    if estimate is None and spec.get("activeDeadlineSeconds") is not None:
        estimate = spec.integer("activeDeadlineSeconds")
    return estimate, annotations.read(parse_duration, ATTAINED) or 0.0


class _Annotations:
    def __init__(self, found: KubernetesObject) -> None:
        self.texts: Mapping[str, str] = found.annotations
        if found.api_group == api.BATCH:  # users annotate the pods, by their template
            template = found.spec.child("template").child("metadata")
            self.texts = {**template.text_map("annotations"), **self.texts}
        self._found = found
        self.not_read: set[str] = set()
        """The annotations that are set and cannot be read."""

    def read(self, parse: Callable[[str], ValueT], *keys: str) -> ValueT | None:
        """Return the parsed value of the first of these annotations that is set, or None."""
        for key in keys:
            text = self.texts.get(key, "")
            if text:
                try:
                    return parse(text)
                except ValueError as error:
                    self._found.ignore(annotation(key), error)
                    self.not_read.add(key)
                    return None
        return None


def _dependencies(text: str, namespace: str) -> Iterator[Dependency]:
    events = {event.value: event for event in JobEvent}
    for part in text.split(","):
        name, equals, on = part.strip().partition("=")
        on, question, _ = on.partition("?")
        if not name or not equals or on not in events:
            known = "|".join(events)
            raise ValueError(
                f"expected entries such as [namespace/]name={known}, got {shown(part)}"
            )
        yield Dependency(
            job=name if "/" in name else f"{namespace}/{name}",
            on=events[on],
            satisfied_if_missing=bool(question),
        )


# Plans, in annotations of pending pods


def read_plan(pods: Iterable[tuple[KubernetesObject, TaskInfo]], /) -> Plan | None:
    """Return the plan in the annotations of a job's pending pods, or None. O(pods).

    The plan starts at the latest planned start of a pod.
    """
    starts: list[float] = []
    nodes: dict[str, str] = {}
    for pod, task in pods:
        annotations = pod.annotations
        text, node = annotations.get(api.PLANNED_START, ""), annotations.get(api.PLANNED_NODE, "")
        if not text or not node:
            continue
        try:
            start = float(text)
        except ValueError:
            start = float("nan")
        if isfinite(start):
            starts.append(start)
            nodes[task.uid] = node
        else:
            why = f"expected a time in seconds, got {shown(text)}"
            pod.ignore(annotation(api.PLANNED_START), why)
    return Plan(start=max(starts), nodes=nodes) if starts else None
