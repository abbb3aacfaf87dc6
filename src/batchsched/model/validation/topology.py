"""Validation of topologies and of what jobs ask of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from attrs import evolve

from batchsched.model.cluster import JobInfo, TaskGroup, TaskInfo
from batchsched.model.topology import Domain, Segment, Topology, TopologyRequest
from batchsched.model.validation.fields import FieldChecks, check_of, integer
from batchsched.model.validation.values import (
    Problems,
    integer_problems,
    is_integer,
    is_of,
    is_text,
    is_tuple,
    reference_problems,
    shown,
    under,
)

Levels = Mapping[str, Sequence[str]]
"""The levels of topologies, the widest first, by name of topology."""


def levels_of(topologies: Iterable[object]) -> Levels:
    """Return the levels of topologies as far as they can be read."""
    return {
        each.name: [level for level in each.levels if is_text(level)]
        for each in topologies
        if is_of(each, Topology) and is_text(each.name) and is_tuple(each.levels)
    }


def _some_and_each_once(levels: tuple[str, ...]) -> Problems:
    if not levels:
        yield "levels", "expected at least one level"
    for position, level in enumerate(levels):
        if level in levels[:position]:
            yield f"levels[{position}]", f"expected each level once, got {level!r} again"


_domain_problems = FieldChecks(Domain)
_check_domains = check_of(tuple[Domain, ...])
_own_topology_problems = FieldChecks(Topology, _some_and_each_once, only=("name", "levels"))


def topology_problems(topology: Topology, nodes: Collection[str], /) -> Problems:
    """Yield the problems of a topology, given the names of the snapshot's nodes. O(its size)."""
    yield from _own_topology_problems(topology)
    domains: object = topology.domains
    if not is_tuple(domains):
        yield from _check_domains("domains", domains)
        return
    given: object = topology.levels
    levels = [level for level in given if is_text(level)] if is_tuple(given) else []
    seen: set[tuple[str, str]] = set()
    for position, domain in enumerate(domains):
        path = f"domains[{shown(domain.name) if is_of(domain, Domain) else position}]"
        problems = [*under(path, _domain_problems(domain))]
        yield from problems
        if problems or not is_of(domain, Domain):
            continue
        yield from reference_problems(f"{path}.level", "level", domain.level, levels, "topology")
        if (domain.level, domain.name) in seen:
            yield path, f"expected a unique name in level {domain.level!r}, got it again"
        seen.add((domain.level, domain.name))
        there: set[str] = set()
        for name in domain.nodes:
            yield from reference_problems(f"{path}.nodes", "node", name, nodes, "snapshot")
            if name in there:
                yield f"{path}.nodes", f"expected each node once, got {name!r} again"
            there.add(name)


def has_requests(job: JobInfo) -> bool:
    """Return whether a job, or a group of it, asks anything of a topology. O(groups)."""
    return job.topology is not None or (
        is_tuple(job.groups)
        and any(is_of(group, TaskGroup) and group.topology is not None for group in job.groups)
    )


def without_requests(job: JobInfo) -> JobInfo:
    """Return a job that asks nothing of topologies. O(groups)."""
    groups = [
        evolve(group, topology=None) if is_of(group, TaskGroup) else group for group in job.groups
    ]
    return evolve(job, topology=None, groups=groups)


def are_requests(job: JobInfo) -> bool:
    """Return whether what a job and its groups ask for can be read. O(groups)."""
    asked = (job.topology, *(group.topology for group in job.groups))
    return not any([*_check_request("", each)] for each in asked)


def requests_problems(job: JobInfo, levels: Levels) -> Problems:
    """Yield the problems of what a job and its groups ask of topologies. O(tasks + groups)."""
    tasks = [task for task in job.tasks if is_of(task, TaskInfo)] if is_tuple(job.tasks) else []
    by_group: dict[object, list[TaskInfo]] = {}
    for task in tasks:
        by_group.setdefault(task.group if is_text(task.group) else None, []).append(task)
    if job.topology is not None:
        own = by_group.values() if job.groups else [tasks]
        yield from under("topology", _one_request(job.topology, levels, own))
    for group in job.groups if is_tuple(job.groups) else ():
        if is_of(group, TaskGroup) and group.topology is not None:
            path = f"groups[{shown(group.name)}].topology"
            of_group = by_group.get(group.name, []) if is_text(group.name) else []
            yield from under(path, _one_request(group.topology, levels, [of_group]))


_SIZE = "a number of tasks (an integer, 2 or more)"
FieldChecks(Segment, size=integer(_SIZE, None))
FieldChecks(TopologyRequest)
_check_request = check_of(TopologyRequest | None)


def _one_request(request: object, levels: Levels, groups: Iterable[Sequence[TaskInfo]]) -> Problems:
    """Yield the problems of a request, given the tasks of each group that it is for."""
    problems = [*_check_request("", request)]
    yield from problems
    if problems or not is_of(request, TopologyRequest):
        return
    required, preferred, segments = request.required, request.preferred, request.segments
    if request.balanced and required is not None:
        yield "balanced", "goes with a preferred level alone, not with a required one"
    if request.topology is None:
        if required is None:
            yield "required", "expected the key of a node label where no topology is named"
        for name in ("preferred", "segments", "balanced"):
            if getattr(request, name):
                yield name, "goes with the name of a topology alone"
        return
    yield from reference_problems("topology", "topology", request.topology, levels, "snapshot")
    if request.topology not in levels:
        return
    known = levels[request.topology]
    position = {level: place for place, level in enumerate(known)}
    for name, level in (("required", required), ("preferred", preferred)):
        if level is not None:
            yield from reference_problems(name, "level", level, known, "topology")
    if required in position and preferred in position and position[preferred] < position[required]:
        yield "preferred", f"expected a level not wider than the required one, got {preferred!r}"
    yield from _segment_problems(segments, known, required if preferred is None else preferred)
    if not all(segment.size > 1 for segment in segments):
        return
    for tasks in groups if segments else ():
        if len(segments) > 1 and len(tasks) % segments[0].size:
            message = f"with several, expected tasks that are a multiple of {segments[0].size}"
            yield "segments", f"{message}, got {len(tasks)}"
        yield from _number_problems(tasks)


def _segment_problems(
    segments: Sequence[Segment], known: Sequence[str], above: str | None
) -> Problems:
    size, level = None, above
    for place, segment in enumerate(segments):
        path = f"segments[{place}]"
        yield from integer_problems(f"{path}.size", segment.size, _SIZE, least=2)
        if segment.size > 1:
            if size is not None and size % segment.size:
                message = f"expected a divisor of the size before, {size}, got {segment.size}"
                yield f"{path}.size", message
            size = segment.size
        yield from reference_problems(f"{path}.level", "level", segment.level, known, "topology")
        if segment.level not in known:
            continue
        further = known.index(segment.level) - known.index(level) if level in known else 1
        if further < 0 and not place:
            message = f"expected a level not wider than {level!r}, got {segment.level!r}"
            yield f"{path}.level", message
        elif further <= 0 and place:
            message = f"expected a level narrower than the one before, {level!r}"
            yield f"{path}.level", f"{message}, got {segment.level!r}"
        level = segment.level


def _number_problems(tasks: Iterable[TaskInfo]) -> Problems:
    seen: dict[int, str] = {}
    for task in tasks:
        if is_integer(task.index):
            if task.index in seen:
                message = f"tasks {seen[task.index]} and {shown(task.uid)} both have {task.index}"
                yield "segments", f"expected each index once in a group, but {message}"
            seen[task.index] = shown(task.uid)
