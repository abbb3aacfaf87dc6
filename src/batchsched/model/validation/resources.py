"""Validation of amounts of resources, and of their sums over the cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from batchsched.errors import Fault
from batchsched.model.cluster import ScoringRequest
from batchsched.model.immutable import is_frozen_map
from batchsched.model.resources import Resource, exact
from batchsched.model.validation.values import (
    LARGEST,
    Problems,
    amount_map_problems,
    amount_problems,
    integer_problems,
    is_of,
    shown,
    under,
)

__all__ = [
    "is_sound_resource",
    "is_usual_resource",
    "request_problems",
    "resource_problems",
    "scoring_problems",
    "total_faults",
]

_NUMBERS = (int, float)
_NO_SCALARS = ("", "cpu", "memory")

_LARGEST_TOTAL = LARGEST / 2**20
"""The largest sum of a dimension; intermediate results may be larger and must not overflow."""

_SMALL = _LARGEST_TOTAL / 2**40
"""Amounts up to this cannot sum up to `_LARGEST_TOTAL`: too many objects would be needed."""


def is_usual_resource(resource: Resource, /) -> bool:
    """Return True only if a resource is valid and its amounts are small. A fast test."""
    if type(resource) is not Resource:
        return False
    milli_cpu, memory, scalars = resource.milli_cpu, resource.memory, resource.scalars
    if not (
        type(milli_cpu) in _NUMBERS
        and 0 <= milli_cpu <= _SMALL
        and type(memory) in _NUMBERS
        and 0 <= memory <= _SMALL
        and is_frozen_map(resource.scalars)
    ):
        return False
    for name, amount in scalars.items():
        if (
            type(name) is not str
            or name in _NO_SCALARS
            or type(amount) not in _NUMBERS
            or not 0 <= amount <= _SMALL
        ):
            return False
    return True


def is_sound_resource(resource: object, /) -> bool:
    """Return whether a resource is valid by itself."""
    return next(resource_problems(resource), None) is None


def resource_problems(resource: object, /) -> Problems:
    """Yield the problems of a resource by itself."""
    if not is_of(resource, Resource):
        yield "", f"expected a Resource, got {shown(resource)}"
        return
    yield from amount_problems("milli_cpu", resource.milli_cpu)
    yield from amount_problems("memory", resource.memory)
    yield from amount_map_problems("scalars", resource.scalars)


def request_problems(resreq: Resource, init_resreq: Resource | None, /) -> Problems:
    """Yield the problems of a task's request, and of its request to start."""
    problems = list(under("resreq", resource_problems(resreq)))
    if init_resreq is not None:
        problems.extend(under("init_resreq", resource_problems(init_resreq)))
        if not problems and not resreq.fits(init_resreq):
            message = f"expected at least resreq, {resreq!r}, got {init_resreq!r}"
            problems.append(("init_resreq", message))
    return iter(problems)


def scoring_problems(scoring: object, /) -> Problems:
    """Yield the problems of a task's request in scores."""
    if not is_of(scoring, ScoringRequest):
        yield "", f"expected a ScoringRequest, got {shown(scoring)}"
        return
    what = "a scoring amount (an integer, 0 or more)"
    yield from integer_problems("milli_cpu", scoring.milli_cpu, what, least=0)
    yield from integer_problems("memory", scoring.memory, what, least=0)


def total_faults(path: str, resources: Iterable[Resource]) -> Iterator[Fault]:
    """Yield a fault for each dimension in which the sum of valid resources is too large."""
    totals: dict[str, int] = {}
    for resource in filter(is_sound_resource, resources):
        for dimension, amount in resource.dimensions():
            totals[dimension] = totals.get(dimension, 0) + exact(amount)
    for dimension, total in sorted(totals.items()):
        if total > _LARGEST_TOTAL:
            message = f"expected a sum of at most {_LARGEST_TOTAL:.2g} of {dimension}, got more"
            yield Fault(path, message)
