"""Validation of topologies and of what jobs ask of them."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence

from attrs import evolve

from batchsched.model.cluster import JobInfo, TaskGroup, TaskInfo
from batchsched.model.topology import Domain, Segment, Topology, TopologyRequest
from batchsched.model.validation.values import (
    Problems,
    integer_problems,
    is_integer,
    is_of,
    is_text,
    is_tuple,
    shown,
    text_problems,
    truth_problems,
    tuple_problems,
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


def topology_problems(topology: Topology, nodes: Container[str], /) -> Problems:
    """Yield the problems of a topology, given the names of the snapshot's nodes. O(its size)."""
    yield from text_problems("name", topology.name)
    levels: object = topology.levels
    if not is_tuple(levels):
        yield from tuple_problems("levels", levels, "strings")
        levels = ()
    elif not levels:
        yield "levels", "expected at least one level"
    for position, level in enumerate(levels):
        yield from text_problems(f"levels[{position}]", level)
        if is_text(level) and level in levels[:position]:
            yield f"levels[{position}]", f"expected each level once, got {level!r} again"
    if not is_tuple(topology.domains):
        yield from tuple_problems("domains", topology.domains, "Domain")
        return
    seen: set[tuple[str, str]] = set()
    for position, domain in enumerate(topology.domains):
        if not is_of(domain, Domain):
            yield f"domains[{position}]", f"expected a Domain, got {shown(domain)}"
            continue
        path = f"domains[{shown(domain.name)}]"
        yield from under(path, text_problems("name", domain.name))
        yield from under(path, _level_problems("level", domain.level, levels))
        if is_text(domain.level) and is_text(domain.name):
            if (domain.level, domain.name) in seen:
                yield path, f"expected a unique name in level {domain.level!r}, got it again"
            seen.add((domain.level, domain.name))
        if not is_tuple(domain.nodes):
            yield from under(path, tuple_problems("nodes", domain.nodes, "strings"))
            continue
        there: set[str] = set()
        for name in domain.nodes:
            if not is_text(name):
                yield f"{path}.nodes", f"expected strings, got {shown(name)}"
            elif name not in nodes:
                yield f"{path}.nodes", f"there is no node {shown(name)} in this snapshot"
            elif name in there:
                yield f"{path}.nodes", f"expected each node once, got {name!r} again"
            else:
                there.add(name)


def _level_problems(path: str, level: object, levels: Iterable[object]) -> Problems:
    if not is_text(level):
        yield path, f"expected the name of a level, got {shown(level)}"
    elif level not in levels:
        known = ", ".join(map(repr, levels))
        yield path, f"there is no level {shown(level)} in this topology; known: {known}"


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


def _one_request(request: object, levels: Levels, groups: Iterable[Sequence[TaskInfo]]) -> Problems:
    """Yield the problems of a request, given the tasks of each group that it is for."""
    if not is_of(request, TopologyRequest):
        yield "", f"expected a TopologyRequest or None, got {shown(request)}"
        return
    required, preferred, segments = request.required, request.preferred, request.segments
    yield from truth_problems("balanced", request.balanced)
    if request.balanced is True and required is not None:
        yield "balanced", "goes with a preferred level alone, not with a required one"
    if not is_tuple(segments):
        yield from tuple_problems("segments", segments, "Segment")
        segments = ()
    if request.topology is None:
        if required is None:
            yield "required", "expected the key of a node label where no topology is named"
        else:
            yield from text_problems("required", required)
        for name in ("preferred", "segments", "balanced"):
            if getattr(request, name):
                yield name, "goes with the name of a topology alone"
        return
    if not is_text(request.topology) or request.topology not in levels:
        known = ", ".join(map(repr, levels)) or "none"
        message = f"there is no topology {shown(request.topology)} in this snapshot; known: {known}"
        yield "topology", message
        return
    known_levels = levels[request.topology]
    position = {level: place for place, level in enumerate(known_levels)}
    for name, level in (("required", required), ("preferred", preferred)):
        if level is not None:
            yield from _level_problems(name, level, known_levels)
    above = preferred if preferred is not None else required
    if required in position and preferred in position and position[preferred] < position[required]:
        yield "preferred", f"expected a level not wider than the required one, got {preferred!r}"
    yield from _segment_problems(segments, position, above)
    sizes = [s.size for s in segments if is_of(s, Segment)]
    if not segments or not all(is_integer(size) and size > 1 for size in sizes):
        return
    for tasks in groups:
        if len(segments) > 1 and sizes and len(tasks) % sizes[0]:
            message = f"with several, expected tasks that are a multiple of {sizes[0]}"
            yield "segments", f"{message}, got {len(tasks)}"
        yield from _number_problems(tasks)


def _segment_problems(
    segments: Sequence[object], position: Mapping[str, int], above: str | None
) -> Problems:
    size, level = None, above
    for place, segment in enumerate(segments):
        path = f"segments[{place}]"
        if not is_of(segment, Segment):
            yield path, f"expected a Segment, got {shown(segment)}"
            continue
        what = "a number of tasks (an integer, 2 or more)"
        problems = list(integer_problems(f"{path}.size", segment.size, what, least=2))
        yield from problems
        if not problems:
            if size is not None and size % segment.size:
                message = f"expected a divisor of the size before, {size}, got {segment.size}"
                yield f"{path}.size", message
            size = segment.size
        problems = list(_level_problems(f"{path}.level", segment.level, position))
        yield from problems
        if problems:
            continue
        if level is not None and level in position:
            wider = position[segment.level] < position[level]
            if wider and not place:
                message = f"expected a level not wider than {level!r}, got {segment.level!r}"
                yield f"{path}.level", message
            elif place and position[segment.level] <= position[level]:
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
