"""What makes amounts of resources invalid: each by itself, and all of a cluster together."""

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
"""The most of a dimension that there may be; what is computed of it on the way may be more."""

_SMALL = _LARGEST_TOTAL / 2**40
"""Amounts up to this cannot come to more than that: there is no memory for so many."""


def is_usual_resource(resource: Resource, /) -> bool:
    """Return True only if nothing is wrong with a resource, and if it is not large; fast."""
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
    """Return whether nothing is wrong with a resource by itself."""
    return next(resource_problems(resource), None) is None


def resource_problems(resource: object, /) -> Problems:
    """Yield what is wrong with a resource by itself."""
    if not is_of(resource, Resource):
        yield "", f"expected a Resource, got {shown(resource)}"
        return
    yield from amount_problems("milli_cpu", resource.milli_cpu)
    yield from amount_problems("memory", resource.memory)
    yield from amount_map_problems("scalars", resource.scalars)


def request_problems(resreq: Resource, init_resreq: Resource | None, /) -> Problems:
    """Yield what is wrong with what a task holds, and with what it needs to start."""
    problems = list(under("resreq", resource_problems(resreq)))
    if init_resreq is not None:
        problems.extend(under("init_resreq", resource_problems(init_resreq)))
        if not problems and not resreq.fits(init_resreq):
            message = f"{init_resreq!r} is less than resreq, {resreq!r}"
            problems.append(("init_resreq", message))
    return iter(problems)


def scoring_problems(scoring: object, /) -> Problems:
    """Yield what is wrong with what a task counts in scores."""
    if not is_of(scoring, ScoringRequest):
        yield "", f"expected a ScoringRequest, got {shown(scoring)}"
        return
    what = "a scoring amount (an integer, 0 or more)"
    yield from integer_problems("milli_cpu", scoring.milli_cpu, what, least=0)
    yield from integer_problems("memory", scoring.memory, what, least=0)


def total_faults(path: str, resources: Iterable[Resource]) -> Iterator[Fault]:
    """Yield a fault for each dimension of which there is too much in the sound ones together."""
    totals: dict[str, int] = {}
    for resource in filter(is_sound_resource, resources):
        for dimension, amount in resource.dimensions():
            totals[dimension] = totals.get(dimension, 0) + exact(amount)
    for dimension, total in sorted(totals.items()):
        if total > _LARGEST_TOTAL:
            message = f"together they come to more than {_LARGEST_TOTAL:.2g} of {dimension}"
            yield Fault(path, f"{message}, the most that can be computed with; use less")
