"""Validation of tasks and jobs: constraints, times, dependencies, groups, and topologies."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from typing import cast

from attrs import evolve

from batchsched.errors import Fault
from batchsched.model.cluster import (
    DEVICES,
    Dependency,
    Hold,
    JobInfo,
    Plan,
    ScoringRequest,
    TaskGroup,
    TaskInfo,
    least_tasks,
)
from batchsched.model.constraints import (
    HostPort,
    LabelSelector,
    NodeAffinity,
    NodeSelectorTerm,
    Operator,
    PodAffinity,
    PodAffinityTerm,
    PreferredNodeTerm,
    Requirement,
    Taint,
    Toleration,
    TolerationOperator,
    WeightedPodTerm,
    integer_of,
)
from batchsched.model.topology import Domain, Segment, Topology, TopologyRequest
from batchsched.model.validation.fields import (
    Check,
    FieldChecks,
    any_text,
    check_of,
    integer,
    optional,
    tuple_of,
)
from batchsched.model.validation.values import (
    LARGEST,
    Problems,
    chain_of,
    cycles_of,
    cycles_of_parents,
    duration_problems,
    integer_problems,
    is_integer,
    is_mapping,
    is_of,
    is_text,
    is_tuple,
    items_of,
    reference_problems,
    shown,
    text_problems,
    tuple_problems,
    under,
)

_PROTOCOLS = ("TCP", "UDP", "SCTP")
_LARGEST_PORT = 65535
_LARGEST_WEIGHT = 100


def _exists_without_value(operator: TolerationOperator, value: str) -> Problems:
    if operator is TolerationOperator.EXISTS and value:
        yield "value", f"expected no value for operator Exists, got {shown(value)}"


def _equal_with_key(operator: TolerationOperator, key: str) -> Problems:
    if operator is TolerationOperator.EQUAL and not key:
        yield "key", "is empty; use operator Exists without a key to tolerate everything"


taint_problems = FieldChecks(Taint, value=any_text)
"""Yields the problems of a taint."""
toleration_problems = FieldChecks(
    Toleration, _exists_without_value, _equal_with_key, key=any_text, value=any_text
)
"""Yields the problems of a toleration."""


def _one_of(what: str, is_right: Callable[[object], bool], but: str = "") -> Check:
    def check(path: str, value: object) -> Problems:
        if not is_right(value):
            yield path, f"expected {what}, got {shown(value)}{but}"

    return check


def _up_to(largest: int, what: str) -> Check:
    return _one_of(
        f"{what} (an integer in 1..{largest})",
        lambda value: is_integer(value) and 1 <= value <= largest,
    )


def _is_name(value: object) -> bool:
    return is_text(value) and bool(value)


FieldChecks(
    HostPort,
    port=_up_to(_LARGEST_PORT, "a port"),
    protocol=_one_of(
        f"a protocol ({', '.join(_PROTOCOLS)})",
        lambda value: is_text(value) and value in _PROTOCOLS,
    ),
    address=_one_of("an address", _is_name, "; 0.0.0.0 means all addresses"),
)


def _values_for_operator(operator: Operator, values: tuple[str, ...]) -> Problems:
    name = operator.value
    match operator:
        case Operator.IN | Operator.NOT_IN:
            if not values:
                yield "values", f"expected at least one value for operator {name}, got none"
        case Operator.EXISTS | Operator.DOES_NOT_EXIST:
            if values:
                yield "values", f"expected no values for operator {name}, got {shown(values)}"
        case Operator.GT | Operator.LT:
            if len(values) != 1 or integer_of(values[0]) is None:
                yield "values", f"expected one integer for operator {name}, got {shown(values)}"


_requirement_problems = FieldChecks(
    Requirement, _values_for_operator, values=tuple_of(any_text, "strings")
)


def _on_field(path: str, requirement: object) -> Problems:
    yield from under(path, _requirement_problems(requirement))
    key: object = requirement.key if is_of(requirement, Requirement) else ""
    if is_text(key) and key not in ("", "metadata.name"):
        message = f"expected metadata.name, the only supported field of nodes, got {shown(key)}"
        yield f"{path}.key", message


def _on_task(path: str, requirement: object) -> Problems:
    yield from under(path, _requirement_problems(requirement))
    operator = requirement.operator if is_of(requirement, Requirement) else None
    if operator is Operator.GT or operator is Operator.LT:
        known = "In, NotIn, Exists or DoesNotExist"
        yield (
            f"{path}.operator",
            f"expected {known} in a label selector, got {operator.value}",
        )


node_term_problems = FieldChecks(NodeSelectorTerm, match_fields=tuple_of(_on_field, "Requirement"))
"""Yields the problems of a term that selects nodes."""
FieldChecks(PreferredNodeTerm, weight=_up_to(_LARGEST_WEIGHT, "a weight"))
FieldChecks(WeightedPodTerm, weight=_up_to(_LARGEST_WEIGHT, "a weight"))
FieldChecks(NodeAffinity)
FieldChecks(LabelSelector, match_expressions=tuple_of(_on_task, "Requirement"))
FieldChecks(
    PodAffinityTerm, topology_key=_one_of("a topology key (a node label such as zone)", _is_name)
)
FieldChecks(PodAffinity)
constraint_problems = FieldChecks(
    TaskInfo,
    only=(
        *("labels", "node_selector", "node_affinity", "tolerations", "host_ports"),
        *("pod_affinity", "pod_anti_affinity"),
    ),
)
"""Yields the problems of a task's labels and constraints."""


_NUMBERS = (int, float)


def is_usual_duration(seconds: object) -> bool:
    """Return True only if a duration is valid and of a usual type. A fast test."""
    return type(seconds) in _NUMBERS and 0 <= cast("float", seconds) <= LARGEST


def has_sound_times(task: TaskInfo) -> bool:
    """Return True only if the times of a task are valid and of the usual types. A fast test."""
    start_time, estimate = task.start_time, task.estimate
    return (
        (start_time is None or (type(start_time) in _NUMBERS and -LARGEST <= start_time <= LARGEST))
        and (estimate is None or is_usual_duration(estimate))
        and is_usual_duration(task.attained_service)
    )


def choice_problems(path: str, choices: object, /, devices: str = "devices") -> Problems:
    """Yield the problems of what plugins have chosen for a task; `devices` has its devices."""
    if not is_mapping(choices):
        yield path, f"expected a mapping such as a dict, got {shown(choices)}"
        return
    for plugin, choice in items_of(choices):
        place = f"{path}[{shown(plugin)}]"
        if not is_text(plugin):
            yield place, f"expected the name of a plugin, got {shown(plugin)}"
        elif plugin == DEVICES:
            yield place, f"give it as {devices}"
        else:
            try:
                frozenset((choice,))
            except Exception:
                yield place, f"expected something that can be hashed, got {shown(choice)}"


FieldChecks(Hold, name=any_text, detail=any_text)
FieldChecks(Dependency)
_DURATION = optional(duration_problems)
_PRIORITY = integer("a priority (an integer)", None)
_SCORING = integer("a scoring amount (an integer, 0 or more)")
_TASKS = "a number of tasks (an integer, 0 or more)"
_GROUPS = "a number of groups (an integer, 0 or more)"
FieldChecks(ScoringRequest, milli_cpu=_SCORING, memory=_SCORING)
own_task_problems = FieldChecks(
    TaskInfo,
    only=(
        *("uid", "name", "namespace", "priority_class_name", "priority", "is_backfill"),
        *("is_on_each_node", "creation_time", "scoring_request", "start_time", "estimate"),
        *("attained_service", "holds", "index", "checkpoint_time", "eviction_cost"),
        "leaving",
    ),
    priority_class_name=any_text,
    priority=_PRIORITY,
    estimate=_DURATION,
    attained_service=duration_problems,
    index=optional(integer("a number in the group (an integer, 0 or more, or None)")),
    eviction_cost=optional(integer("a cost (an integer, 0 or more, or None)")),
)
"""Yields the problems of a task apart from place, requests, constraints and choices."""
own_job_problems = FieldChecks(
    JobInfo,
    only=(
        *("name", "namespace", "queue", "min_available", "priority", "creation_time", "labels"),
        *("user", "estimate", "deadline", "max_wait", "depends_on", "eligible_time", "plan"),
        *("holds", "preemptible", "preempts", "claim_delay", "last_evicted", "evict_whole"),
        "quota_reserved",
    ),
    min_available=integer(_TASKS),
    priority=_PRIORITY,
    user=any_text,
    estimate=_DURATION,
    max_wait=_DURATION,
    claim_delay=_DURATION,
)
"""Yields the problems of a job apart from its tasks, groups, maxima and topology."""
plan_problems = FieldChecks(Plan)
"""Yields the problems of a plan."""


def dependency_cycle_faults(jobs: Sequence[JobInfo]) -> Iterator[Fault]:
    """Yield a fault for each cycle of dependencies of jobs that are not known to be eligible."""
    for cycle in dependency_cycles(jobs):
        message = f"expected dependencies without a cycle, got {chain_of(cycle)}"
        yield Fault(f"jobs[{cycle[0]!r}].depends_on", message)


def dependency_cycles(jobs: Iterable[JobInfo]) -> Iterator[Sequence[str]]:
    """Yield cycles of dependencies of jobs not known to be eligible, the first by UID first.

    Every cycle has a job of one of these. O(jobs + dependencies). Invalid dependencies are skipped;
    they are reported elsewhere.
    """
    waits_for: dict[str, list[str]] = {}
    for job in jobs:
        given: object = job.depends_on
        if is_tuple(given) and given and job.eligible_time is None:
            waits_for[job.uid] = sorted(
                {d.job for d in given if isinstance(d, Dependency) and is_text(d.job)}
            )
    return cycles_of(waits_for)


_MOST_LEVELS = 100
"""How deep groups may be nested; what a job needs next is found recursively."""


def group_problems(job: JobInfo) -> Problems:
    """Yield the problems of a job's groups and maxima. O(groups log groups + tasks)."""
    if job.max_available is not None:
        yield from integer_problems(
            "max_available", job.max_available, f"{_TASKS} or None", least=0
        )
    if not is_tuple(job.groups):
        yield from tuple_problems("groups", job.groups, "TaskGroup")
        return
    named = yield from _named_groups(job.groups)
    if job.min_groups is not None:
        yield from integer_problems("min_groups", job.min_groups, f"{_GROUPS} or None", least=0)
    children: dict[str | None, list[str]] = {}
    for group in named.values():
        if group.parent is None or is_text(group.parent):
            children.setdefault(group.parent, []).append(group.name)
    is_sound = len(named) == len(job.groups)
    for name, group in named.items():
        for below, message in _one_group(group, named, len(children.get(name, ()))):
            is_sound = False
            yield f"groups[{name!r}].{below}", message
    for cycle in cycles_of_parents({name: group.parent for name, group in named.items()}):
        is_sound = False
        message = f"expected a tree, got a cycle: {chain_of(cycle)}"
        yield f"groups[{cycle[0]!r}].parent", message
    for name in _too_deep(children):
        is_sound = False
        message = f"expected at most {_MOST_LEVELS} levels of groups, got one in a further level"
        yield f"groups[{name!r}].parent", message
    yield from _maximum_problems(job, is_sound=is_sound)
    if is_tuple(job.tasks):
        yield from _task_problems(job, named, children)


def _named_groups(
    groups: Sequence[object],
) -> Generator[tuple[str, str], None, Mapping[str, TaskGroup]]:
    """Yield the problems of names; return the groups with valid names, by name."""
    named: dict[str, TaskGroup] = {}
    for position, group in enumerate(groups):
        if not is_of(group, TaskGroup):
            yield f"groups[{position}]", f"expected a TaskGroup, got {shown(group)}"
            continue
        problems = list(text_problems("name", group.name))
        if problems:
            yield from under(f"groups[{position}]", iter(problems))
        elif group.name in named:
            yield f"groups[{group.name!r}]", "expected a unique name, got it again"
        else:
            named[group.name] = group
    return named


def _one_group(group: TaskGroup, named: Mapping[str, TaskGroup], parts: int) -> Problems:
    """Yield the problems of a group that directly contains `parts` other groups."""
    if group.parent is not None:
        if not is_text(group.parent):
            yield "parent", f"expected a string, got {shown(group.parent)}"
        else:
            yield from reference_problems("parent", "group", group.parent, named, "job")
    what = _GROUPS if parts else _TASKS
    if group.min is None and not parts:
        yield "min", f"expected {_TASKS} for a group of tasks, got None; use 0 for optional tasks"
    elif group.min is not None:
        # It may be more than there are groups: others may come later.
        yield from integer_problems("min", group.min, what, least=0)
    if group.max is not None:
        yield from integer_problems("max", group.max, f"{what} or None", least=0)
        least = parts if group.min is None else group.min
        if is_integer(group.max) and is_integer(least) and 0 <= group.max < least:
            yield "max", f"expected at least its minimum, {least}, got {group.max}"


def _too_deep(children: Mapping[str | None, Sequence[str]]) -> Sequence[str]:
    """Return the first groups of each branch that are nested too deep. O(groups)."""
    level = children.get(None, ())
    for _ in range(_MOST_LEVELS):
        level = [name for above in level for name in children.get(above, ())]
    return level


def _maximum_problems(job: JobInfo, *, is_sound: bool) -> Problems:
    most = job.max_available
    if not is_integer(most) or most < 0:
        return
    if is_integer(job.min_available) and job.min_available > most:
        yield "max_available", f"expected at least its minimum, {job.min_available}, got {most}"
    elif is_sound and job.groups and (least := least_tasks(job.groups, job.min_groups)) > most:
        yield (
            "max_available",
            f"expected at least {least}, the tasks that its groups need, got {most}",
        )


def _task_problems(
    job: JobInfo, named: Mapping[str, TaskGroup], children: Mapping[str | None, Sequence[str]]
) -> Problems:
    for task in job.tasks:
        if not is_of(task, TaskInfo):
            continue
        group: object = task.group
        path = f"tasks[{shown(task.uid)}].group"
        if group is None:
            if named:
                known = ", ".join(repr(name) for name in named if name not in children)
                yield path, f"expected a leaf of the job's groups ({known}), got None"
        elif not is_text(group):
            yield path, f"expected a string, got {shown(group)}"
        elif group in children:
            yield path, f"expected a leaf of the job's groups, got {group!r}, which has subgroups"
        else:
            yield from reference_problems(path, "group", group, named, "job")


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
