"""Validation of tasks and jobs: constraints, times, dependencies and groups."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence

from batchsched.causes import HoldKind
from batchsched.errors import Fault
from batchsched.model.cluster import (
    DEVICES,
    Dependency,
    Hold,
    JobEvent,
    JobInfo,
    Plan,
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
    TaintEffect,
    Toleration,
    TolerationOperator,
    WeightedPodTerm,
    integer_of,
)
from batchsched.model.validation.values import (
    LARGEST,
    Problems,
    cycles_of_parents,
    duration_problems,
    each_problems,
    integer_problems,
    is_integer,
    is_mapping,
    is_of,
    is_text,
    is_tuple,
    items_of,
    member_problems,
    shown,
    text_map_problems,
    text_problems,
    time_problems,
    truth_problems,
    tuple_problems,
    under,
)

_PROTOCOLS = ("TCP", "UDP", "SCTP")
_LARGEST_PORT = 65535
_LARGEST_WEIGHT = 100


def constraint_problems(task: TaskInfo, /) -> Problems:
    """Yield the problems of a task's labels and constraints: path below the task, and message."""
    yield from text_map_problems("labels", task.labels)
    yield from text_map_problems("node_selector", task.node_selector)
    if task.node_affinity is not None:
        yield from under("node_affinity", _node_affinity_problems(task.node_affinity))
    yield from each_problems("tolerations", task.tolerations, "Toleration", toleration_problems)
    yield from each_problems("host_ports", task.host_ports, "HostPort", _port_problems)
    if task.pod_affinity is not None:
        yield from under("pod_affinity", _pod_affinity_problems(task.pod_affinity))
    if task.pod_anti_affinity is not None:
        yield from under("pod_anti_affinity", _pod_affinity_problems(task.pod_anti_affinity))


def taint_problems(taint: object, /) -> Problems:
    """Yield the problems of a taint: path below the taint, and message."""
    if not isinstance(taint, Taint):
        yield "", f"expected a Taint, got {shown(taint)}"
        return
    yield from text_problems("key", taint.key)
    yield from text_problems("value", taint.value, may_be_empty=True)
    yield from member_problems("effect", taint.effect, TaintEffect)


def toleration_problems(toleration: object, /) -> Problems:
    """Yield the problems of a toleration: path below it, and message."""
    if not isinstance(toleration, Toleration):
        yield "", f"expected a Toleration, got {shown(toleration)}"
        return
    yield from text_problems("key", toleration.key, may_be_empty=True)
    yield from member_problems("operator", toleration.operator, TolerationOperator)
    yield from text_problems("value", toleration.value, may_be_empty=True)
    if toleration.effect is not None:
        yield from member_problems("effect", toleration.effect, TaintEffect)
    is_equal = toleration.operator is TolerationOperator.EQUAL
    if is_equal and is_text(toleration.key) and not toleration.key:
        yield "key", "is empty; use operator Exists without a key to tolerate everything"
    is_exists = toleration.operator is TolerationOperator.EXISTS
    if is_exists and is_text(toleration.value) and toleration.value:
        yield "value", f"expected no value for operator Exists, got {shown(toleration.value)}"


def _port_problems(port: object) -> Problems:
    if not isinstance(port, HostPort):
        yield "", f"expected a HostPort, got {shown(port)}"
        return
    if not is_integer(port.port) or not 1 <= port.port <= _LARGEST_PORT:
        yield (
            "port",
            (f"expected a port (an integer in 1..{_LARGEST_PORT}), got {shown(port.port)}"),
        )
    if not is_text(port.protocol) or port.protocol not in _PROTOCOLS:
        message = f"expected a protocol ({', '.join(_PROTOCOLS)}), got {shown(port.protocol)}"
        yield "protocol", message
    if not is_text(port.address) or not port.address:
        yield (
            "address",
            (f"expected an address, got {shown(port.address)}; 0.0.0.0 means all addresses"),
        )


def _weight_problems(weight: object) -> Problems:
    if not is_integer(weight) or not 1 <= weight <= _LARGEST_WEIGHT:
        message = f"expected a weight (an integer in 1..{_LARGEST_WEIGHT}), got {shown(weight)}"
        yield "weight", message


def _requirement_problems(requirement: object) -> Problems:
    if not isinstance(requirement, Requirement):
        yield "", f"expected a Requirement, got {shown(requirement)}"
        return
    yield from text_problems("key", requirement.key)
    problems = [
        *member_problems("operator", requirement.operator, Operator),
        *each_problems("values", requirement.values, "strings", _label_value_problems),
    ]
    yield from problems
    if not problems:
        yield from _values_problems(requirement)


def _values_problems(requirement: Requirement) -> Problems:
    values = requirement.values
    match requirement.operator:
        case Operator.IN | Operator.NOT_IN:
            if not values:
                name = requirement.operator.value
                yield "values", f"expected at least one value for operator {name}, got none"
        case Operator.EXISTS | Operator.DOES_NOT_EXIST:
            if values:
                name = requirement.operator.value
                yield "values", f"expected no values for operator {name}, got {shown(values)}"
        case Operator.GT | Operator.LT:
            if len(values) != 1 or integer_of(values[0]) is None:
                name = requirement.operator.value
                yield "values", f"expected one integer for operator {name}, got {shown(values)}"


def _label_value_problems(value: object) -> Problems:
    return text_problems("", value, may_be_empty=True)


def _on_field_problems(requirement: object) -> Problems:
    yield from _requirement_problems(requirement)
    if not isinstance(requirement, Requirement) or not is_text(requirement.key):
        return
    if requirement.key and requirement.key != "metadata.name":
        yield (
            "key",
            (
                "expected metadata.name, the only supported field of nodes, got "
                f"{shown(requirement.key)}"
            ),
        )


def _on_task_problems(requirement: object) -> Problems:
    yield from _requirement_problems(requirement)
    if not isinstance(requirement, Requirement):
        return
    if requirement.operator is Operator.GT or requirement.operator is Operator.LT:
        name = requirement.operator.value
        known = "In, NotIn, Exists or DoesNotExist"
        yield "operator", f"expected {known} in a label selector, got {name}"


def node_term_problems(term: object, /) -> Problems:
    """Yield the problems of a term that selects nodes: path below it, and message."""
    if not isinstance(term, NodeSelectorTerm):
        yield "", f"expected a NodeSelectorTerm, got {shown(term)}"
        return
    yield from each_problems(
        "match_expressions", term.match_expressions, "Requirement", _requirement_problems
    )
    yield from each_problems("match_fields", term.match_fields, "Requirement", _on_field_problems)


def _preferred_node_problems(preferred: object) -> Problems:
    if not isinstance(preferred, PreferredNodeTerm):
        yield "", f"expected a PreferredNodeTerm, got {shown(preferred)}"
        return
    yield from _weight_problems(preferred.weight)
    yield from under("term", node_term_problems(preferred.term))


def _node_affinity_problems(affinity: object) -> Problems:
    if not isinstance(affinity, NodeAffinity):
        yield "", f"expected a NodeAffinity, got {shown(affinity)}"
        return
    if affinity.required is not None:
        yield from each_problems(
            "required", affinity.required, "NodeSelectorTerm", node_term_problems
        )
    yield from each_problems(
        "preferred", affinity.preferred, "PreferredNodeTerm", _preferred_node_problems
    )


def _selector_problems(selector: object) -> Problems:
    if not isinstance(selector, LabelSelector):
        yield "", f"expected a LabelSelector, got {shown(selector)}"
        return
    yield from text_map_problems("match_labels", selector.match_labels)
    yield from each_problems(
        "match_expressions", selector.match_expressions, "Requirement", _on_task_problems
    )


def _namespace_problems(namespace: object) -> Problems:
    return text_problems("", namespace)


def _pod_term_problems(term: object) -> Problems:
    if not isinstance(term, PodAffinityTerm):
        yield "", f"expected a PodAffinityTerm, got {shown(term)}"
        return
    if not is_text(term.topology_key) or not term.topology_key:
        message = (
            f"expected a topology key (a node label such as zone), got {shown(term.topology_key)}"
        )
        yield "topology_key", message
    yield from each_problems("namespaces", term.namespaces, "strings", _namespace_problems)
    if term.selector is not None:
        yield from under("selector", _selector_problems(term.selector))


def _preferred_pod_problems(preferred: object) -> Problems:
    if not isinstance(preferred, WeightedPodTerm):
        yield "", f"expected a WeightedPodTerm, got {shown(preferred)}"
        return
    yield from _weight_problems(preferred.weight)
    yield from under("term", _pod_term_problems(preferred.term))


def _pod_affinity_problems(affinity: object) -> Problems:
    if not isinstance(affinity, PodAffinity):
        yield "", f"expected a PodAffinity, got {shown(affinity)}"
        return
    yield from each_problems("required", affinity.required, "PodAffinityTerm", _pod_term_problems)
    yield from each_problems(
        "preferred", affinity.preferred, "WeightedPodTerm", _preferred_pod_problems
    )


_NUMBERS = (int, float)


def has_sound_times(task: TaskInfo) -> bool:
    """Return True only if the times of a task are valid and of the usual types. A fast test."""
    start_time, estimate, attained = task.start_time, task.estimate, task.attained_service
    return (
        (start_time is None or (type(start_time) in _NUMBERS and -LARGEST <= start_time <= LARGEST))
        and (estimate is None or (type(estimate) in _NUMBERS and 0 <= estimate <= LARGEST))
        and type(attained) in _NUMBERS
        and 0 <= attained <= LARGEST
    )


def task_time_problems(task: TaskInfo) -> Problems:
    """Yield the problems of the times of a task."""
    if task.start_time is not None:
        yield from time_problems("start_time", task.start_time)
    if task.estimate is not None:
        yield from duration_problems("estimate", task.estimate)
    yield from duration_problems("attained_service", task.attained_service)


def choice_problems(choices: object) -> Problems:
    """Yield the problems of what plugins have chosen for a task."""
    if not is_mapping(choices):
        yield "choices", f"expected a mapping such as a dict, got {shown(choices)}"
        return
    for plugin, choice in items_of(choices):
        path = f"choices[{shown(plugin)}]"
        if not is_text(plugin):
            yield path, f"expected the name of a plugin, got {shown(plugin)}"
        elif plugin == DEVICES:
            yield path, "give it as devices"
        else:
            try:
                frozenset((choice,))
            except Exception:
                yield path, f"expected something that can be hashed, got {shown(choice)}"


def hold_problems(holds: object) -> Problems:
    """Yield the problems of the holds of a task or a job."""
    yield from each_problems("holds", holds, "Hold", _hold_problems)


def _hold_problems(hold: object) -> Problems:
    if not isinstance(hold, Hold):
        yield "", f"expected a Hold, got {shown(hold)}"
        return
    yield from member_problems("kind", hold.kind, HoldKind)
    yield from text_problems("name", hold.name, may_be_empty=True)
    yield from text_problems("detail", hold.detail, may_be_empty=True)
    if hold.until is not None:
        yield from time_problems("until", hold.until)


def job_timing_problems(job: JobInfo) -> Problems:
    """Yield the problems of a job's labels, user, times, dependencies and plan."""
    yield from text_map_problems("labels", job.labels)
    yield from text_problems("user", job.user, may_be_empty=True)
    for path, duration in (("estimate", job.estimate), ("max_wait", job.max_wait)):
        if duration is not None:
            yield from duration_problems(path, duration)
    for path, time in (("deadline", job.deadline), ("eligible_time", job.eligible_time)):
        if time is not None:
            yield from time_problems(path, time)
    yield from each_problems("depends_on", job.depends_on, "Dependency", _dependency_problems)
    if job.plan is not None:
        yield from under("plan", plan_problems(job.plan))


def dependency_cycle_faults(jobs: Sequence[JobInfo]) -> Iterator[Fault]:
    """Yield a fault for each cycle of dependencies of jobs that are not known to be eligible."""
    for cycle in dependency_cycles(jobs):
        chain = " -> ".join(repr(name) for name in (*cycle, cycle[0]))
        message = f"expected dependencies without a cycle, got {chain}"
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
    done: set[str] = set()
    for uid in sorted(waits_for):
        for cycle in _cycles_from(uid, waits_for, done):
            first = cycle.index(min(cycle))
            yield cycle[first:] + cycle[:first]


def _cycles_from(
    uid: str, waits_for: Mapping[str, Sequence[str]], done: set[str]
) -> list[list[str]]:
    """Return the cycles found by a depth-first search from a job; each job is visited once."""
    cycles: list[list[str]] = []
    if uid in done:
        return cycles
    path = [uid]
    position_of = {uid: 0}
    stack = [iter(waits_for.get(uid, ()))]
    done.add(uid)
    while stack:
        following = next(stack[-1], None)
        if following is None:
            stack.pop()
            del position_of[path.pop()]
        elif following in position_of:
            cycles.append(path[position_of[following] :])
        elif following not in done:
            done.add(following)
            position_of[following] = len(path)
            path.append(following)
            stack.append(iter(waits_for.get(following, ())))
    return cycles


def _dependency_problems(dependency: object) -> Problems:
    if not isinstance(dependency, Dependency):
        yield "", f"expected a Dependency, got {shown(dependency)}"
        return
    yield from text_problems("job", dependency.job)
    yield from member_problems("on", dependency.on, JobEvent)
    yield from truth_problems("satisfied_if_missing", dependency.satisfied_if_missing)


def plan_problems(plan: object) -> Problems:
    """Yield the problems of a plan."""
    if not isinstance(plan, Plan):
        yield "", f"expected a Plan or None, got {shown(plan)}"
        return
    yield from time_problems("start", plan.start)
    yield from text_map_problems("nodes", plan.nodes)


_TASKS = "a number of tasks (an integer, 0 or more)"
_GROUPS = "a number of groups (an integer, 0 or more)"
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
        path = " -> ".join(repr(name) for name in (*cycle, cycle[0]))
        message = f"expected a tree, got a cycle: {path}"
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
        elif group.parent not in named:
            yield "parent", f"there is no group {shown(group.parent)} in this job"
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
        elif group not in named:
            yield path, f"there is no group {shown(group)} in this job"
        elif group in children:
            yield path, f"expected a leaf of the job's groups, got {group!r}, which has subgroups"
