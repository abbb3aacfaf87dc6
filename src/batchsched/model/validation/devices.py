"""Validation of devices, of claims on them, and of picks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise

from batchsched.errors import ArgumentError
from batchsched.model.cluster import NodeInfo
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
)
from batchsched.model.selectors import read_selector
from batchsched.model.validation.tasks import (
    node_term_problems,
    taint_problems,
    toleration_problems,
)
from batchsched.model.validation.values import (
    Problems,
    each_problems,
    integer_problems,
    is_integer,
    is_mapping,
    is_of,
    is_text,
    is_tuple,
    items_of,
    shown,
    text_problems,
    truth_problems,
    under,
)

MOST_DEVICES = 32
"""The most devices that serve one claim, as in Kubernetes."""


def _map_problems(path: str, content: object, of: Callable[[object], Problems]) -> Problems:
    """Yield the problems of a mapping from names, given a function for those of a value."""
    if not is_mapping(content):
        yield path, f"expected a mapping such as a dict, got {shown(content)}"
        return
    for name, value in items_of(content):
        place = f"{path}[{shown(name)}]"
        if not is_text(name) or not name:
            yield place, f"expected a name, got {shown(name)}"
        yield from under(place, of(value))


def _amount_problems(amount: object) -> Problems:
    yield from integer_problems("", amount, "an integer, 0 or more", least=0)


def _repeated(path: str, kind: str, names: Iterable[object]) -> Problems:
    for name, times in Counter(name for name in names if is_text(name)).items():
        if times > 1:
            yield path, f"{times} {kind} are called {shown(name)}; expected one of each name"


def _attribute_problems(value: object) -> Problems:
    for each in value if is_tuple(value) else (value,):
        if not (is_integer(each) or is_text(each) or is_of(each, bool) or is_of(each, Version)):
            what = "a text, an integer, True, False, a Version or a tuple of these"
            yield "", f"expected {what}, got {shown(each)}"


def _policy_problems(policy: object) -> Problems:
    if not is_of(policy, CapacityPolicy):
        yield "", f"expected a CapacityPolicy, got {shown(policy)}"
        return
    problems = list(_fields_of_policy_problems(policy))
    yield from problems
    if problems:
        return
    if policy.min is not None and policy.max is not None and policy.min > policy.max:
        yield "min", f"expected at most max, {policy.max}, got {policy.min}"
    if any(one >= other for one, other in pairwise(policy.values)):
        yield "values", f"expected rising amounts, got {shown(policy.values)}"
    in_steps = [name for name in ("min", "max", "step") if getattr(policy, name) is not None]
    if policy.values and in_steps:
        yield "values", f"expected either values or {' and '.join(in_steps)}, got both"
    if policy.default is None and (policy.values or in_steps):
        yield "default", "expected an amount for requests that name none, got None"


def _fields_of_policy_problems(policy: CapacityPolicy) -> Problems:
    for name in ("default", "min", "max"):
        if getattr(policy, name) is not None:
            yield from under(name, _amount_problems(getattr(policy, name)))
    if policy.step is not None:
        yield from integer_problems("step", policy.step, "an integer, 1 or more", least=1)
    yield from each_problems("values", policy.values, "amounts", _amount_problems)


def device_problems(device: object, /) -> Problems:
    """Yield the problems of a device by itself: path below it, and message."""
    if not is_of(device, Device):
        yield "", f"expected a Device, got {shown(device)}"
        return
    yield from text_problems("name", device.name)
    yield from text_problems("driver", device.driver, may_be_empty=True)
    yield from text_problems("pool", device.pool, may_be_empty=True)
    yield from _map_problems("attributes", device.attributes, _attribute_problems)
    yield from _map_problems("capacity", device.capacity, _amount_problems)
    yield from _map_problems("policies", device.policies, _policy_problems)
    yield from truth_problems("shared", device.shared)
    yield from _map_problems(
        "counters", device.counters, lambda each: _map_problems("", each, _amount_problems)
    )
    yield from each_problems("taints", device.taints, "Taint", taint_problems)
    yield from each_problems("conditions", device.conditions, "texts", _name_problems)
    if device.nodes is not None:
        yield from each_problems("nodes", device.nodes, "NodeSelectorTerm", node_term_problems)
    if is_mapping(device.attributes) and is_text(device.driver):
        for name in device.attributes:
            if is_text(name) and f"{device.driver}/{name}" in device.attributes:
                yield "attributes", f"has both {name!r} and {f'{device.driver}/{name}'!r}"
    if is_mapping(device.policies) and is_mapping(device.capacity):
        for name in device.policies:
            if name not in device.capacity:
                yield f"policies[{shown(name)}]", "the device has no such capacity"


def _name_problems(name: object) -> Problems:
    yield from text_problems("", name)


def counter_set_problems(counters: object, /) -> Problems:
    """Yield the problems of a counter set by itself."""
    if not is_of(counters, CounterSet):
        yield "", f"expected a CounterSet, got {shown(counters)}"
        return
    yield from text_problems("name", counters.name)
    yield from text_problems("driver", counters.driver, may_be_empty=True)
    yield from text_problems("pool", counters.pool, may_be_empty=True)
    yield from _map_problems("counters", counters.counters, _amount_problems)


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


def pool_problems(pool: object, /) -> Problems:
    """Yield the problems of a pair of driver and pool."""
    if not (is_tuple(pool) and [is_text(each) for each in pool] == [True, True]):
        yield "", f"expected driver and pool, got {shown(pool)}"


def common_problems(
    devices: Sequence[Device], counter_sets: Sequence[CounterSet], held: object, /
) -> Problems:
    """Yield the problems of what several nodes reach."""
    problems = [
        *each_problems("devices", devices, "Device", device_problems),
        *each_problems("counter_sets", counter_sets, "CounterSet", counter_set_problems),
    ]
    yield from problems
    yield from each_problems("held", held, "DevicePick", pick_problems)
    if not problems:
        yield from offer_problems(devices, counter_sets)


def devices_of_node_problems(
    node: NodeInfo, common: tuple[Sequence[Device], Sequence[CounterSet]] | None, /
) -> Problems:
    """Yield the problems of a node's devices, given what several nodes reach, if that is sound."""
    problems = [
        *each_problems("devices", node.devices, "Device", device_problems),
        *each_problems("counter_sets", node.counter_sets, "CounterSet", counter_set_problems),
    ]
    yield from problems
    yield from each_problems(
        "closed_pools", node.closed_pools, "pairs of driver and pool", pool_problems
    )
    if problems or common is None:
        return
    devices, counter_sets = common
    yield from offer_problems(node.devices, (*node.counter_sets, *counter_sets))
    known = {each.key for each in devices}
    for device in node.devices:
        if device.key in known:
            what = "is one of the snapshot's, too; a device of a node is of no other"
            yield f"devices[{device.name!r}]", what


def devices_of_task_problems(
    claims: Sequence[DeviceClaim], picks: Sequence[DevicePick] | None, /
) -> Problems:
    """Yield the problems of a task's claims and of the devices that it has."""
    problems = [*each_problems("claims", claims, "DeviceClaim", claim_problems)]
    if not problems:
        problems = [*_repeated("claims", "claims", [each.name for each in claims])]
    if picks is not None:
        problems += each_problems("devices", picks, "DevicePick", pick_problems)
        if not problems:
            problems += under("devices", picks_of_claims_problems(claims, picks))
    yield from problems


def _asked_problems(amount: object) -> Problems:
    if is_of(amount, Milli):
        what = "a number of thousandths, 0 or more"
        yield from integer_problems("thousandths", amount.thousandths, what, least=0)
    else:
        yield from integer_problems("", amount, "an integer, 0 or more, or Milli", least=0)


def _selector_problems(selector: object) -> Problems:
    if is_text(selector):
        try:
            read_selector(selector)
        except ArgumentError as error:
            yield "", str(error)
    elif not callable(selector):
        yield "", f"expected an expression or a function of a Device, got {shown(selector)}"


def _request_problems(request: object, *, is_alternative: bool = False) -> Problems:
    if not is_of(request, DeviceRequest):
        yield "", f"expected a DeviceRequest, got {shown(request)}"
        return
    problems = list(_fields_of_request_problems(request))
    yield from problems
    if problems:
        return
    if request.admin and request.capacity:
        yield "capacity", "expected nothing for an admin request, which holds nothing"
    if not request.alternatives:
        return
    if is_alternative:
        yield "alternatives", "expected none: alternatives are not nested"
        return
    if request != DeviceRequest(name=request.name, alternatives=request.alternatives):
        yield "alternatives", "expected only a name beside them: each says what it asks for"
    yield from _repeated("alternatives", "alternatives", [a.name for a in request.alternatives])


def _fields_of_request_problems(request: DeviceRequest) -> Problems:
    yield from text_problems("name", request.name)
    if is_text(request.name) and "/" in request.name:
        yield "name", f"expected a name without '/', got {request.name!r}"
    is_all = is_text(request.count) and request.count == "all"
    if not is_all and not (is_integer(request.count) and request.count >= 1):
        yield "count", f"expected an integer, 1 or more, or 'all', got {shown(request.count)}"
    yield from each_problems("select", request.select, "selectors", _selector_problems)
    yield from _map_problems("capacity", request.capacity, _asked_problems)
    yield from each_problems("tolerations", request.tolerations, "Toleration", toleration_problems)
    yield from truth_problems("admin", request.admin)
    yield from each_problems(
        "alternatives",
        request.alternatives,
        "DeviceRequest",
        lambda each: _request_problems(each, is_alternative=True),
    )


def least_devices(request: DeviceRequest, /) -> int:
    """Return how many devices a sound request is served by at the least."""
    if request.alternatives:
        return min(map(least_devices, request.alternatives))
    return 1 if request.count == "all" else request.count


def names_of(request: DeviceRequest, /) -> tuple[str, ...]:
    """Return the names by which constraints and picks may call a request: ``r``, ``r/a``."""
    return request.name, *(f"{request.name}/{each.name}" for each in request.alternatives)


def claim_problems(claim: object, /) -> Problems:
    """Yield the problems of a claim: path below it, and message."""
    if not is_of(claim, DeviceClaim):
        yield "", f"expected a DeviceClaim, got {shown(claim)}"
        return
    yield from text_problems("name", claim.name)
    problems = [
        *each_problems("requests", claim.requests, "DeviceRequest", _request_problems),
        *each_problems("constraints", claim.constraints, "DeviceConstraint", _constraint_problems),
    ]
    yield from problems
    if problems:
        return
    if not claim.requests:
        yield "requests", "expected at least one request, got none"
    yield from _repeated("requests", "requests", [each.name for each in claim.requests])
    least = sum(map(least_devices, claim.requests))
    if least > MOST_DEVICES:
        yield "requests", f"need {shown(least)} devices; a claim has at most {MOST_DEVICES}"
    names = {name for request in claim.requests for name in names_of(request)}
    for place, constraint in enumerate(claim.constraints):
        for name in constraint.requests:
            if name not in names:
                message = f"the claim has no request {shown(name)}; it has "
                yield f"constraints[{place}].requests", message + ", ".join(sorted(names))


def _constraint_problems(constraint: object) -> Problems:
    if not is_of(constraint, DeviceConstraint):
        yield "", f"expected a DeviceConstraint, got {shown(constraint)}"
        return
    given = [each for each in (constraint.same, constraint.distinct) if each is not None]
    if len(given) != 1:
        yield "", f"expected either same or distinct, got {'both' if given else 'neither'}"
    for name in given:
        yield from text_problems("same" if constraint.same is name else "distinct", name)
    yield from each_problems("requests", constraint.requests, "names", _name_problems)


def pick_problems(pick: object, /) -> Problems:
    """Yield the problems of a pick by itself."""
    if not is_of(pick, DevicePick):
        yield "", f"expected a DevicePick, got {shown(pick)}"
        return
    yield from text_problems("claim", pick.claim, may_be_empty=True)
    yield from text_problems("request", pick.request, may_be_empty=True)
    if not (is_tuple(pick.device) and [is_text(each) for each in pick.device] == [True] * 3):
        yield "device", f"expected driver, pool and name, got {shown(pick.device)}"
    if pick.amounts is not None:
        yield from _map_problems("amounts", pick.amounts, _amount_problems)
    yield from truth_problems("admin", pick.admin)


def picks_of_claims_problems(
    claims: Sequence[DeviceClaim], picks: Sequence[DevicePick], /
) -> Problems:
    """Yield the problems of sound picks of a task with sound claims."""
    known = {(claim.name, name) for claim in claims for r in claim.requests for name in names_of(r)}
    for place, pick in enumerate(picks):
        if (pick.claim, pick.request) not in known:
            what = f"no request {pick.request!r} of a claim {pick.claim!r}"
            yield f"[{place}]", f"the task has {what}"
