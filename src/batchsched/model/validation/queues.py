"""Validation of queues, each by itself and all as a tree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from batchsched.errors import Fault
from batchsched.model.cluster import Queue
from batchsched.model.resource_limit import ResourceLimit
from batchsched.model.resources import Amount, Resource, exact
from batchsched.model.status import QueueStatus
from batchsched.model.validation.resources import (
    is_sound_resource,
    resource_problems,
    total_faults,
)
from batchsched.model.validation.values import (
    LARGEST,
    Problems,
    amount_map_problems,
    amount_problems,
    integer_problems,
    is_mapping,
    is_of,
    is_text,
    member_problems,
    shown,
    text_problems,
    time_problems,
    under,
)

__all__ = ["queue_problems", "queue_tree_faults"]

_CPU, _MEMORY = "milli_cpu", "memory"


def queue_problems(queue: Queue, /) -> Problems:
    """Yield the problems of a queue by itself."""
    yield from text_problems("name", queue.name)
    what = "a weight (an integer, 0 or more)"
    yield from integer_problems("weight", queue.weight, what, least=0)
    yield from time_problems("creation_time", queue.creation_time)
    if queue.parent is not None:
        yield from text_problems("parent", queue.parent)
    yield from integer_problems("priority", queue.priority, "a priority (an integer)", least=None)
    guarantee = list(resource_problems(queue.guarantee))
    yield from under("guarantee", iter(guarantee))
    deserved: object = queue.deserved
    if isinstance(deserved, ResourceLimit):
        yield from under("deserved", _limit_problems(deserved))
    elif isinstance(deserved, Resource):
        yield from under("deserved", resource_problems(deserved))
    elif deserved is not None:
        yield "deserved", f"expected a Resource, a ResourceLimit or None, got {shown(deserved)}"
    limit = list(_limit_problems(queue.limit))
    yield from under("limit", iter(limit))
    if not guarantee and not limit and queue.limit is not None:
        for dimension, most in queue.limit.dimensions():
            kept = queue.guarantee.get(dimension)
            if exact(kept) > exact(most):
                message = f"expected at most its limit, {most}, got {kept}"
                yield f"guarantee.{_field(dimension)}", message
    yield from member_problems("state", queue.state, QueueStatus)
    yield from under("usage", resource_problems(queue.usage))
    yield from _user_problems(queue.usage_by_user)
    half_life = queue.usage_half_life
    if half_life is not None and not _is_half_life(half_life):
        message = "expected a finite number of seconds, more than 0, or None"
        yield "usage_half_life", f"{message}, got {shown(half_life)}"


def _user_problems(usage: object) -> Problems:
    if not is_mapping(usage):
        yield "usage_by_user", f"expected Resources by user, got {shown(usage)}"
        return
    for user, used in usage.items():
        path = f"usage_by_user[{shown(user)}]"
        if not is_text(user):
            yield path, f"expected a string as the name of a user, got {shown(user)}"
        yield from under(path, resource_problems(used))


def _is_half_life(seconds: object) -> bool:
    return (
        (is_of(seconds, int) or is_of(seconds, float))
        and not isinstance(seconds, bool)
        and 0 < seconds <= LARGEST
    )


def _limit_problems(limit: object) -> Problems:
    if limit is None:
        return
    if isinstance(limit, Resource):
        message = "in a Resource, dimensions that are not named would be 0"
        yield "", f"expected a ResourceLimit, got {shown(limit)}; {message}"
        return
    if not isinstance(limit, ResourceLimit):
        yield "", f"expected a ResourceLimit, got {shown(limit)}"
        return
    if limit.milli_cpu is not None:
        yield from amount_problems(_CPU, limit.milli_cpu)
    if limit.memory is not None:
        yield from amount_problems(_MEMORY, limit.memory)
    yield from amount_map_problems("scalars", limit.scalars)


def _field(dimension: str) -> str:
    """Return the path of a dimension in a `Resource`."""
    if dimension == "cpu":
        return _CPU
    return dimension if dimension == _MEMORY else f"scalars[{dimension!r}]"


def queue_tree_faults(queues: Sequence[Queue]) -> Iterator[Fault]:
    """Yield the faults of the tree of queues: parents, cycles, guarantees, sums.

    Problems of a single queue are reported by `queue_problems`. O(queues x dimensions).
    """
    named = {queue.name: queue for queue in queues if is_text(queue.name)}
    for name, queue in named.items():
        if is_text(queue.parent) and queue.parent and queue.parent not in named:
            message = f"there is no queue {queue.parent!r} in this snapshot"
            yield Fault(f"queues[{name!r}].parent", message)
    in_cycles: set[str] = set()
    for cycle in _cycles(named):
        in_cycles.update(cycle)
        path = " -> ".join(repr(name) for name in (*cycle, cycle[0]))
        message = f"expected a tree, got a cycle: {path}"
        yield Fault(f"queues[{cycle[0]!r}].parent", message)
    granted = [queue.guarantee for queue in named.values()]
    granted += [q.deserved for q in named.values() if isinstance(q.deserved, Resource)]
    yield from total_faults("queues", granted)
    if not in_cycles:
        yield from _guarantee_faults(named)


def _cycles(named: Mapping[str, Queue]) -> Iterator[list[str]]:
    """Yield each cycle of parents once, starting with its first queue by name."""
    done: set[str] = set()
    for start in sorted(named):
        path: list[str] = []
        on_path: dict[str, int] = {}
        name: object = start
        while is_text(name) and name in named and name not in done:
            if name in on_path:
                cycle = path[on_path[name] :]
                first = cycle.index(min(cycle))
                yield cycle[first:] + cycle[:first]
                break
            on_path[name] = len(path)
            path.append(name)
            name = named[name].parent
        done.update(path)


def _guarantee_faults(named: Mapping[str, Queue]) -> Iterator[Fault]:
    """Yield a fault for each queue whose children are guaranteed more than its limit.

    The effective guarantee of a queue is at least the sum of its children's.
    """
    children: dict[str, list[str]] = {}
    order: list[str] = []
    for name, queue in named.items():
        if is_text(queue.parent) and queue.parent in named:
            children.setdefault(queue.parent, []).append(name)
        else:
            order.append(name)
    for name in order:
        order.extend(children.get(name, ()))
    effective: dict[str, dict[str, Amount]] = {}
    for name in reversed(order):
        queue = named[name]
        own: dict[str, Amount] = {}
        if is_sound_resource(queue.guarantee):
            own = {key: exact(amount) for key, amount in queue.guarantee.dimensions() if amount}
        together: dict[str, Amount] = {}
        for child in children.get(name, ()):
            for dimension, amount in effective[child].items():
                together[dimension] = together.get(dimension, 0) + amount
        if (
            together
            and queue.limit is not None
            and next(_limit_problems(queue.limit), None) is None
        ):
            for dimension, most in queue.limit.dimensions():
                if together.get(dimension, 0) > exact(most):
                    guaranteed = _number(together[dimension])
                    path = f"queues[{name!r}].limit.{_field(dimension)}"
                    message = f"expected at least the guarantees of its children, {guaranteed}"
                    yield Fault(path, f"{message}, got {most}")
        for dimension, amount in together.items():
            own[dimension] = max(own.get(dimension, 0), amount)
        effective[name] = own


def _number(amount: Amount) -> Amount:
    return amount if isinstance(amount, int) else float(amount)
