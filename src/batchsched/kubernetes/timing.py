"""The annotations of pods and pod groups about time."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from attrs import evolve, frozen

from batchsched.kubernetes.objects import KubernetesObject
from batchsched.kubernetes.reading import seconds_of
from batchsched.model.cluster import Dependency, JobEvent, JobInfo
from batchsched.model.validation.values import shown

__all__ = ["JobTiming", "parse_duration", "pod_estimate", "read_attained", "read_job_timing"]

ValueT = TypeVar("ValueT")

ESTIMATE = "batchsched/estimate"
ATTAINED = "batchsched/attained-service"
DEADLINE = "batchsched/deadline"
ELIGIBLE_TIME = "batchsched/eligible-time"
MAX_WAITS = ("batchsched/max-wait", "sla-waiting-time", "volcano.sh/sla-waiting-time")
DEPENDS_ON = "batchsched/depends-on"
USER = "batchsched/user"

_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(h|ms|us|µs|ns|m|s)", re.ASCII)
_SECONDS = re.compile(r"\d+(\.\d*)?|\.\d+", re.ASCII)
_LONGEST = 40


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


@frozen(kw_only=True)
class JobTiming:
    """The properties of a job that annotations define."""

    labels: Mapping[str, str]
    user: str
    estimate: float | None
    deadline: float | None
    max_wait: float | None
    eligible_time: float | None
    depends_on: tuple[Dependency, ...]

    def of(self, job: JobInfo) -> JobInfo:
        """Return the job with the properties that annotations define."""
        return evolve(
            job,
            labels=self.labels,
            user=self.user,
            estimate=self.estimate,
            deadline=self.deadline,
            max_wait=self.max_wait,
            eligible_time=self.eligible_time,
            depends_on=self.depends_on,
        )


def read_job_timing(found: KubernetesObject, /) -> JobTiming:
    """Return the job properties in the annotations of a pod group, or of a pod without a group."""
    annotations = _Annotations(found)
    return JobTiming(
        labels=found.metadata.text_map("labels"),
        user=annotations.texts.get(USER, ""),
        estimate=annotations.read(parse_duration, ESTIMATE),
        deadline=annotations.read(seconds_of, DEADLINE),
        max_wait=annotations.read(parse_duration, *MAX_WAITS),
        eligible_time=annotations.read(seconds_of, ELIGIBLE_TIME),
        depends_on=annotations.read(
            lambda text: tuple(_dependencies(text, found.namespace)), DEPENDS_ON
        )
        or (),
    )


def pod_estimate(pod: KubernetesObject, /) -> float | None:
    """Return a pod's estimate: its annotation, else ``spec.activeDeadlineSeconds``."""
    estimate = _Annotations(pod).read(parse_duration, ESTIMATE)
    spec = pod.reader.child("spec")
    if estimate is None and spec.get("activeDeadlineSeconds") is not None:
        return spec.integer("activeDeadlineSeconds")
    return estimate


def read_attained(pod: KubernetesObject, /) -> float:
    """Return for how long a pod's earlier runs held resources, in seconds."""
    return _Annotations(pod).read(parse_duration, ATTAINED) or 0.0


class _Annotations:
    def __init__(self, found: KubernetesObject) -> None:
        self.texts = found.metadata.text_map("annotations")
        self._found = found

    def read(self, parse: Callable[[str], ValueT], *keys: str) -> ValueT | None:
        """Return the parsed value of the first of these annotations that is set, or None."""
        for key in keys:
            text = self.texts.get(key, "")
            if text:
                try:
                    return parse(text)
                except ValueError as error:
                    self._found.metadata.fault(f".annotations[{key!r}]", str(error))
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
