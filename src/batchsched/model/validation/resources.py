"""Validation of resources: each by itself, beside another one, and their sums."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from batchsched.errors import Fault
from batchsched.model.immutable import is_frozen_map
from batchsched.model.resources import Amount, Resource, exact
from batchsched.model.validation.values import (
    LARGEST,
    Problems,
    amount_map_problems,
    amount_problems,
    is_of,
    shown,
    under,
)

_NO_SCALARS = ("", "cpu", "memory")

_LARGEST_TOTAL = LARGEST / 2**20
"""The largest sum of a dimension; intermediate results may be larger and must not overflow."""

_SMALL = _LARGEST_TOTAL / 2**40
"""Amounts up to this cannot sum up to `_LARGEST_TOTAL`: too many objects would be needed."""


def is_usual_resource(resource: Resource, /) -> bool:
    """Return True only if a resource is valid and its amounts are small. A fast test."""
    if type(resource) is not Resource:
        return False
    scalars = resource.scalars
    return (
        is_frozen_map(resource.scalars)
        and _is_usual_amount(resource.milli_cpu)
        and _is_usual_amount(resource.memory)
        and all(
            type(name) is str and name not in _NO_SCALARS and _is_usual_amount(amount)
            for name, amount in scalars.items()
        )
    )


def _is_usual_amount(amount: Amount) -> bool:
    is_whole = type(amount) is int or (type(amount) is float and amount.is_integer())
    return is_whole and 0 <= amount <= _SMALL


def is_sound_resource(resource: object, /) -> bool:
    """Return whether a resource is valid by itself."""
    return next(resource_problems(resource), None) is None


def resource_problems(resource: object, /, *, is_whole: bool = True) -> Problems:
    """Yield the problems of a resource by itself. `is_whole`: whether its amounts must be whole."""
    if not is_of(resource, Resource):
        yield "", f"expected a Resource, got {shown(resource)}"
        return
    yield from amount_problems("milli_cpu", resource.milli_cpu, is_whole=is_whole)
    yield from amount_problems("memory", resource.memory, is_whole=is_whole)
    yield from amount_map_problems("scalars", resource.scalars, is_whole=is_whole)


def request_problems(resreq: Resource, init_resreq: Resource | None, /) -> Problems:
    """Yield the problems of a task's request, and of its request to start."""
    problems = list(under("resreq", resource_problems(resreq)))
    if init_resreq is not None:
        problems.extend(under("init_resreq", resource_problems(init_resreq)))
        if not problems and not resreq.fits(init_resreq):
            message = f"expected at least resreq, {resreq!r}, got {init_resreq!r}"
            problems.append(("init_resreq", message))
    return iter(problems)


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
