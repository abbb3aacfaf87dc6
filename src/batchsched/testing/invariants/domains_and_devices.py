"""What gangs within one domain of a topology, and claims of devices, keep."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from batchsched.model.cluster import JobInfo, NodeInfo, TaskInfo, TaskStatus
from batchsched.model.devices import Device, DevicePick
from batchsched.model.topology import TopologyRequest
from batchsched.testing.invariants.cycle import HAVING_PLACES, HOLDING, Cycle, GroupCounts, Place
from batchsched.testing.invariants.invariant import invariant


@invariant
def domains(cycle: Cycle) -> Iterator[str]:
    """Tasks of a job or group that requires a level of a topology are placed in one domain of it.

    If plugin topology decides, and any of these tasks got a place that had none before: all that
    have a place, a reserved or a planned one after the cycle are in one domain of the required
    level, and of a job or a group of tasks with segments those of each segment in one of the
    segment's level.
    """
    if not cycle.policy.has("topology") or not cycle.policy.knows_actions:
        return
    for job in cycle.jobs.values():
        if not cycle.is_in_session(job):
            continue
        for what, request, tasks in _asked(job):
            here = [task for task in tasks if _place(cycle, task) is not None]
            if not any(task.status is TaskStatus.PENDING for task in here):
                continue
            if request.required is not None:
                yield from _in_one(cycle, what, request, request.required, here)
            if request.segments and len({task.group for task in tasks}) == 1:
                yield from _segments(cycle, what, request, tasks)


def _asked(job: JobInfo) -> Iterator[tuple[str, TopologyRequest, Sequence[TaskInfo]]]:
    """Yield what a job and its groups ask, with the tasks that it is for."""
    if job.topology is not None:
        yield f"job {job.uid!r}", job.topology, job.tasks
    counts = GroupCounts(job, {})
    for group in job.groups:
        if group.topology is not None:
            tasks = [t for t in job.tasks if t.group and group.name in counts.path(t.group)]
            yield f"group {group.name!r} of job {job.uid!r}", group.topology, tasks


def _place(cycle: Cycle, task: TaskInfo) -> str | None:
    outcome = cycle.result.tasks.get(task.uid)
    if outcome is not None and outcome.status in HAVING_PLACES:
        return outcome.node_name
    plans = (plan.nodes.get(task.uid) for plan in cycle.result.planned.values())
    return next(filter(None, plans), None)


def _segments(
    cycle: Cycle, what: str, request: TopologyRequest, tasks: Sequence[TaskInfo]
) -> Iterator[str]:
    if any(task.index is None for task in tasks):
        return  # their numbers are their places in task order, which plugins determine
    for segment in request.segments:
        parts: dict[int, list[TaskInfo]] = {}
        for task in tasks:
            if task.index is not None and _place(cycle, task) is not None:
                parts.setdefault(task.index // segment.size, []).append(task)
        for number, some in parts.items():
            if any(task.status is TaskStatus.PENDING for task in some):
                of_part = f"segment {number} of {what}"
                yield from _in_one(cycle, of_part, request, segment.level, some)


def _in_one(
    cycle: Cycle, what: str, request: TopologyRequest, level: str, tasks: Sequence[TaskInfo]
) -> Iterator[str]:
    """Yield a fault unless tasks are in one domain of a level."""
    places = {task.uid: _place(cycle, task) for task in tasks}
    nodes = [cycle.nodes[name] for name in sorted({name for name in places.values() if name})]
    if not _is_one(cycle, request, level, nodes):
        yield f"{what} is not in one {level}: expected its tasks in one domain, got {places}"


def _is_one(cycle: Cycle, request: TopologyRequest, level: str, nodes: Sequence[NodeInfo]) -> bool:
    if request.topology is None:
        values = {node.labels.get(level) for node in nodes}
        return len(values) == 1 and None not in values
    topology = next(t for t in cycle.snapshot.topologies if t.name == request.topology)
    if topology.domains:
        names = {node.name for node in nodes}
        return any(d.level == level and names <= set(d.nodes) for d in topology.domains)
    keys = topology.levels[: topology.levels.index(level) + 1]
    paths = {tuple(node.labels.get(key) for key in keys) for node in nodes}
    return len(paths) == 1 and None not in next(iter(paths))


_Key = tuple[str, str, str]


@invariant
def devices(cycle: Cycle) -> Iterator[str]:
    """Tasks that start get the devices that they claim, and no device is held beyond what it has.

    In each of a node's amounts: a device that somebody has as a whole is nobody else's, the parts
    of a shared one are within its capacity, and devices draw no more on counters than there is.
    Where it was so before the cycle, nothing was added. Devices of running tasks that are unknown
    do not count. What several tasks claim together counts once, and a task that starts has of it
    what the others have.
    """
    if "devices" not in cycle.policy.plugins:
        return
    new = set(cycle.new)
    for uid in cycle.new:
        picks = _picks(cycle, uid)
        for claim in cycle.tasks[uid].claims:
            for request in claim.requests:
                got = sum(
                    pick.claim == claim.name and pick.request == request.name for pick in picks
                )
                if request.count != "all" and not request.alternatives and got != request.count:
                    yield f"{uid}: request {request.name!r} has {got} of {request.count} devices"
    common = {device.key: device for device in cycle.snapshot.devices}
    yield from _unlike(cycle, common)
    own = {
        (name, device.key): device for name, node in cycle.nodes.items() for device in node.devices
    }
    for account, is_held in _IN_ACCOUNTS.items():
        holders: dict[tuple[str, _Key], list[tuple[str, DevicePick]]] = {}
        counted: set[tuple[str, str | None, str, _Key]] = set()
        for uid, place in cycle.after.items():
            for pick in _picks(cycle, uid) if is_held(place) else ():
                where = "" if pick.device in common else place.node_name or ""
                its = (where, pick.shared, pick.request, pick.device)
                if pick.shared is not None and its in counted:
                    continue  # what several tasks have together counts once
                counted.add(its)
                if not pick.admin and (pick.device in common or (where, pick.device) in own):
                    holders.setdefault((where, pick.device), []).append((uid, pick))
        drawn: dict[_Counter, int] = {}
        newly: set[_Counter] = set()
        for (where, key), held in holders.items():
            device = common[key] if key in common else own[where, key]
            is_new = any(uid in new for uid, _ in held)
            if is_new and _is_too_much(device, [pick for _, pick in held]):
                names = ", ".join(sorted(uid for uid, _ in held))
                yield f"{account}: device {key} of node {where!r} is held by {names}"
            for name, amounts in device.counters.items():
                for counter, amount in amounts.items():
                    of_pool = (device.driver, device.pool, name, counter)
                    drawn[of_pool] = drawn.get(of_pool, 0) + amount
                    newly.update([of_pool] if is_new else [])
        for of_pool in sorted(newly):
            most = max(_limits(cycle, of_pool), default=0)
            if drawn[of_pool] > most:
                yield f"{account}: {drawn[of_pool]} of {of_pool} are drawn, of {most}"


def _unlike(cycle: Cycle, common: Collection[_Key]) -> Iterator[str]:
    """Yield the tasks that start with other devices of a claim than others that have it."""
    found: dict[str, dict[frozenset[tuple[str, _Key, str]], list[str]]] = {}
    for uid, place in cycle.after.items():
        shared: dict[str, set[tuple[str, _Key, str]]] = {}
        for pick in _picks(cycle, uid) if place.status in HAVING_PLACES else ():
            if pick.shared is not None:
                where = "" if pick.device in common else place.node_name or ""
                shared.setdefault(pick.shared, set()).add((pick.request, pick.device, where))
        for name, has in shared.items():
            found.setdefault(name, {}).setdefault(frozenset(has), []).append(uid)
    for name, by_picks in found.items():
        uids = [uid for some in by_picks.values() for uid in some]
        if len(by_picks) > 1 and not set(cycle.new).isdisjoint(uids):
            yield f"tasks {', '.join(sorted(uids))} have unlike devices of {name!r}"


_Counter = tuple[str, str, str, str]
_IN_ACCOUNTS: Mapping[str, Callable[[Place], bool]] = {
    "idle": lambda place: place.status in HOLDING,
    "future_idle": lambda place: (
        (place.status in HOLDING and place.status is not TaskStatus.RELEASING)
        or place.status is TaskStatus.PIPELINED
    ),
    "accessible": lambda place: (
        (place.status in HOLDING and not _gives_way(place))
        or place.status is TaskStatus.CONDITIONAL
    ),
}


def _gives_way(place: Place) -> bool:
    return place.is_backfill and place.status is not TaskStatus.UNKNOWN


def _picks(cycle: Cycle, uid: str) -> Sequence[DevicePick]:
    outcome = cycle.result.tasks.get(uid)
    return (cycle.tasks[uid].devices if outcome is None else outcome.devices) or ()


def _is_too_much(device: Device, picks: Sequence[DevicePick]) -> bool:
    if any(pick.amounts is None or not device.shared for pick in picks):
        return len(picks) > 1
    return any(
        sum((pick.amounts or {}).get(name, 0) for pick in picks) > capacity
        for name, capacity in device.capacity.items()
    )


def _limits(cycle: Cycle, counter: _Counter) -> Iterator[int]:
    sets = [one for node in cycle.nodes.values() for one in node.counter_sets]
    for each in (*sets, *cycle.snapshot.counter_sets):
        if (each.driver, each.pool, each.name) == counter[:3]:
            yield each.counters.get(counter[3], 0)
