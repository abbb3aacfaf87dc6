"""Validation of devices, of claims on them, and of picks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from batchsched.errors import ArgumentError
from batchsched.model.cluster import NodeInfo, TaskInfo
from batchsched.model.devices import (
    CapacityPolicy,
    CounterSet,
    Device,
    DeviceClaim,
    DeviceConstraint,
    DevicePick,
    DeviceRequest,
    Milli,
    Version,
    read_selector,
)
from batchsched.model.validation.fields import (
    FieldChecks,
    any_text,
    check_of,
    integer,
    mapping_of,
    optional,
    part,
    tuple_of,
)
from batchsched.model.validation.tasks import (
    node_term_problems,
    taint_problems,
    toleration_problems,
)
from batchsched.model.validation.values import (
    Problems,
    integer_problems,
    is_integer,
    is_of,
    is_text,
    is_tuple,
    shown,
    text_problems,
    under,
)

MOST_DEVICES = 32
"""The most devices that serve one claim, as in Kubernetes."""


_AMOUNT = integer("an integer, 0 or more")
_SOME_AMOUNT = optional(_AMOUNT)


def _repeated(path: str, kind: str, names: Iterable[object]) -> Problems:
    for name, times in Counter(name for name in names if is_text(name)).items():
        if times > 1:
            yield path, f"{times} {kind} are called {shown(name)}; expected one of each name"


def _attribute_problems(path: str, value: object) -> Problems:
    for each in value if is_tuple(value) else (value,):
        if not any(is_of(each, kind) for kind in (int, str, bool, Version)):
            what = "a text, an integer, True, False, a Version or a tuple of these"
            yield path, f"expected {what}, got {shown(each)}"


def _least_and_most(min: int | None, max: int | None) -> Problems:  # noqa: A002 - the fields
    if min is not None and max is not None and min > max:
        yield "min", f"expected at most max, {max}, got {min}"


def _rising(values: tuple[int, ...]) -> Problems:
    if any(one >= other for one, other in pairwise(values)):
        yield "values", f"expected rising amounts, got {shown(values)}"


def _values_or_steps(whole: CapacityPolicy) -> Problems:
    in_steps = [name for name in ("min", "max", "step") if getattr(whole, name) is not None]
    if whole.values and in_steps:
        yield "values", f"expected either values or {' and '.join(in_steps)}, got both"
    if whole.default is None and (whole.values or in_steps):
        yield "default", "expected an amount for requests that name none, got None"


def _names_once(driver: str, attributes: Mapping[str, object]) -> Problems:
    for name in attributes:
        if f"{driver}/{name}" in attributes:
            yield "attributes", f"has both {name!r} and {f'{driver}/{name}'!r}"


def _policies_of_capacities(
    policies: Mapping[str, object], capacity: Mapping[str, int]
) -> Problems:
    for name in policies:
        if name not in capacity:
            yield f"policies[{shown(name)}]", "the device has no such capacity"


FieldChecks(
    CapacityPolicy,
    _least_and_most,
    _rising,
    _values_or_steps,
    default=_SOME_AMOUNT,
    min=_SOME_AMOUNT,
    max=_SOME_AMOUNT,
    step=optional(integer("an integer, 1 or more", 1)),
    values=tuple_of(_AMOUNT, "amounts"),
)
_device_problems = FieldChecks(
    Device,
    _names_once,
    _policies_of_capacities,
    driver=any_text,
    pool=any_text,
    attributes=mapping_of(_attribute_problems),
    capacity=mapping_of(_AMOUNT),
    policies=mapping_of(check_of(CapacityPolicy)),
    counters=mapping_of(mapping_of(_AMOUNT)),
    taints=tuple_of(part(taint_problems), "Taint"),
    nodes=optional(tuple_of(part(node_term_problems), "NodeSelectorTerm")),
)
FieldChecks(CounterSet, driver=any_text, pool=any_text, counters=mapping_of(_AMOUNT))


def offer_problems(devices: Sequence[Device], counter_sets: Sequence[CounterSet], /) -> Problems:
    """Yield the problems between sound devices and counter sets that belong together."""
    yield from _repeated("devices", "devices", ("/".join(each.key) for each in devices))
    known: dict[tuple[str, str, str], Mapping[str, int]] = {}
    for each in counter_sets:
        if (each.driver, each.pool, each.name) in known:
            yield "counter_sets", f"two of pool {each.pool!r} are called {each.name!r}"
        known[each.driver, each.pool, each.name] = each.counters
    for device in devices:
        for name, amounts in device.counters.items():
            counters = known.get((device.driver, device.pool, name))
            place = f"devices[{device.name!r}].counters[{name!r}]"
            if counters is None:
                yield place, f"pool {device.pool!r} has no such counter set"
                continue
            for counter in amounts:
                if counter not in counters:
                    yield f"{place}[{counter!r}]", "its counter set has no such counter"


def _pool_problems(path: str, pool: object) -> Problems:
    if not (is_tuple(pool) and [is_text(each) for each in pool] == [True, True]):
        yield path, f"expected driver and pool, got {shown(pool)}"


check_devices = check_of(tuple[Device, ...])
check_counter_sets = check_of(tuple[CounterSet, ...])
check_closed_pools = tuple_of(_pool_problems, "pairs of driver and pool")
_offers = FieldChecks(
    NodeInfo, only=("devices", "counter_sets", "closed_pools"), closed_pools=check_closed_pools
)


def common_problems(
    devices: Sequence[Device], counter_sets: Sequence[CounterSet], held: object, /
) -> Problems:
    """Yield the problems of what several nodes reach."""
    problems = [
        *check_devices("devices", devices),
        *check_counter_sets("counter_sets", counter_sets),
    ]
    yield from problems
    yield from check_picks("held", held)
    if not problems:
        yield from offer_problems(devices, counter_sets)


def devices_of_node_problems(
    node: NodeInfo, common: tuple[Sequence[Device], Sequence[CounterSet]] | None, /
) -> Problems:
    """Yield the problems of a node's devices, given what several nodes reach, if that is sound."""
    problems = list(_offers(node))
    yield from problems
    given: object = node.devices
    if common is None or not is_tuple(given) or any(check_counter_sets("", node.counter_sets)):
        return
    devices, counter_sets = common
    # What is wrong with one device hides nothing that is wrong with the others.
    sound = [each for each in node.devices if not problems or not any(_device_problems(each))]
    yield from offer_problems(sound, (*node.counter_sets, *counter_sets))
    known = {each.key for each in devices}
    for device in sound:
        if device.key in known:
            what = "is one of the snapshot's, too; a device of a node is of no other"
            yield f"devices[{device.name!r}]", what


def devices_of_task_problems(
    claims: Sequence[DeviceClaim],
    picks: Sequence[DevicePick] | None = None,
    left_picks: Sequence[DevicePick] | None = None,
    /,
) -> Problems:
    """Yield the problems of a task's claims, and of its devices, also where it leaves."""
    problems = [*check_claims("claims", claims)]
    if not problems:
        problems = [*_repeated("claims", "claims", [each.name for each in claims])]
    yield from problems
    for path, given in (("devices", picks), ("left_devices", left_picks)):
        if given is not None:
            wrong = [*check_picks(path, given)]
            yield from wrong
            if not (problems or wrong):
                yield from under(path, picks_of_claims_problems(claims, given))


def _asked_problems(path: str, amount: object) -> Problems:
    if is_of(amount, Milli):
        what = "a number of thousandths, 0 or more"
        yield from integer_problems(f"{path}.thousandths", amount.thousandths, what, least=0)
    else:
        yield from integer_problems(path, amount, "an integer, 0 or more, or Milli", least=0)


def _selector_problems(path: str, selector: object) -> Problems:
    if is_text(selector):
        try:
            read_selector(selector)
        except ArgumentError as error:
            yield path, str(error)
    elif not callable(selector):
        yield path, f"expected an expression or a function of a Device, got {shown(selector)}"


def _request_name_problems(path: str, name: object) -> Problems:
    yield from text_problems(path, name)
    if is_text(name) and "/" in name:
        yield path, f"expected a name without '/', got {name!r}"


def _count_problems(path: str, count: object) -> Problems:
    is_all = is_text(count) and count == "all"
    if not is_all and not (is_integer(count) and count >= 1):
        yield path, f"expected an integer, 1 or more, or 'all', got {shown(count)}"


def _nothing_held(admin: bool, capacity: Mapping[str, object]) -> Problems:
    if admin and capacity:
        yield "capacity", "expected nothing for an admin request, which holds nothing"


def _alternatives_alone(whole: DeviceRequest) -> Problems:
    if not whole.alternatives:
        return
    if any(alternative.alternatives for alternative in whole.alternatives):
        yield "alternatives", "expected none in these: alternatives are not nested"
    if whole != DeviceRequest(name=whole.name, alternatives=whole.alternatives):
        yield "alternatives", "expected only a name beside them: each says what it asks for"
    yield from _repeated("alternatives", "alternatives", [a.name for a in whole.alternatives])


FieldChecks(
    DeviceRequest,
    _nothing_held,
    _alternatives_alone,
    name=_request_name_problems,
    count=_count_problems,
    select=tuple_of(_selector_problems, "selectors"),
    capacity=mapping_of(_asked_problems),
    tolerations=tuple_of(part(toleration_problems), "Toleration"),
)


def least_devices(request: DeviceRequest, /) -> int:
    """Return how many devices a sound request is served by at the least."""
    if request.alternatives:
        return min(map(least_devices, request.alternatives))
    return 1 if request.count == "all" else request.count


def names_of(request: DeviceRequest, /) -> tuple[str, ...]:
    """Return the names by which constraints and picks may call a request: ``r``, ``r/a``."""
    return request.name, *(f"{request.name}/{each.name}" for each in request.alternatives)


def _number_of_requests(requests: tuple[DeviceRequest, ...]) -> Problems:
    if not requests:
        yield "requests", "expected at least one request, got none"
    yield from _repeated("requests", "requests", [each.name for each in requests])
    least = sum(map(least_devices, requests))
    if least > MOST_DEVICES:
        yield "requests", f"need {shown(least)} devices; a claim has at most {MOST_DEVICES}"


def _constraints_of_requests(
    requests: tuple[DeviceRequest, ...], constraints: tuple[DeviceConstraint, ...]
) -> Problems:
    names = {name for request in requests for name in names_of(request)}
    for place, constraint in enumerate(constraints):
        for name in constraint.requests:
            if name not in names:
                message = f"the claim has no request {shown(name)}; it has "
                yield f"constraints[{place}].requests", message + ", ".join(sorted(names))


def _either(same: str | None, distinct: str | None) -> Problems:
    given = [each for each in (same, distinct) if each is not None]
    if len(given) != 1:
        yield "", f"expected either same or distinct, got {'both' if given else 'neither'}"


def _key_problems(path: str, device: object) -> Problems:
    if not (is_tuple(device) and [is_text(each) for each in device] == [True] * 3):
        yield path, f"expected driver, pool and name, got {shown(device)}"


FieldChecks(DeviceConstraint, _either)
FieldChecks(DeviceClaim, _number_of_requests, _constraints_of_requests)
FieldChecks(
    DevicePick,
    claim=any_text,
    request=any_text,
    device=_key_problems,
    amounts=optional(mapping_of(_AMOUNT)),
)
check_claims, check_picks = check_of(tuple[DeviceClaim, ...]), check_of(tuple[DevicePick, ...])


def picks_of_claims_problems(
    claims: Sequence[DeviceClaim], picks: Sequence[DevicePick], /
) -> Problems:
    """Yield the problems of sound picks of a task with sound claims."""
    known = {(claim.name, name) for claim in claims for r in claim.requests for name in names_of(r)}
    shared = {claim.name: claim.shared for claim in claims}
    for place, pick in enumerate(picks):
        if (pick.claim, pick.request) not in known:
            what = f"no request {pick.request!r} of a claim {pick.claim!r}"
            yield f"[{place}]", f"the task has {what}"
        elif pick.shared != shared[pick.claim]:
            what = f"expected {shared[pick.claim]!r} as in the claim, got {pick.shared!r}"
            yield f"[{place}].shared", what


def shared_claim_problems(tasks: Iterable[TaskInfo], /) -> Problems:
    """Yield where claims of several tasks that are called the same differ, or have other devices.

    O(claims of tasks).
    """
    asked: dict[str, tuple[str, DeviceClaim]] = {}
    held: dict[str, tuple[str, frozenset[tuple[str, tuple[str, str, str]]]]] = {}
    for task in tasks:
        path = f"tasks[{shown(task.uid)}]"
        for claim in task.claims:
            if claim.shared is None:
                continue
            first, known = asked.setdefault(claim.shared, (task.uid, claim))
            if (claim.requests, claim.constraints) != (known.requests, known.constraints):
                what = f"asks for something else than task {first!r}, with which it is shared"
                yield f"{path}.claims[{shown(claim.name)}]", what
            picks = [pick for pick in task.devices or () if pick.shared == claim.shared]
            if picks:
                has = frozenset((pick.request, pick.device) for pick in picks)
                first, there = held.setdefault(claim.shared, (task.uid, has))
                if has != there:
                    what = f"of {claim.shared!r} it has other devices than task {first!r}"
                    yield f"{path}.devices", what
