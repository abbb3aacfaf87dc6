"""predicates: determines which nodes can accept a task at all.

The rules are those of Kubernetes 1.16.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from functools import partial
from operator import attrgetter

from attrs import frozen

from batchsched.causes import UnfitReason
from batchsched.model.constraints import NodeSelectorTerm, Operator, TaintEffect, TolerationOperator
from batchsched.model.reasons import Unfit
from batchsched.model.rules import has_what_is_selected, out_of_service, tolerates
from batchsched.plugin.arguments import Arguments
from batchsched.plugin.extension_points import Changes
from batchsched.plugin.node_functions import NodeKeys, Predicate, PredicateHints, Reads
from batchsched.plugin.session_view import SessionView
from batchsched.state.pod_affinity import AffinityProfile, DomainCount, NetCount, PodAffinityIndex
from batchsched.state.records import NodeState, TaskState


def _unfit(reason: UnfitReason) -> Unfit:
    return Unfit(reason, plugin="predicates")


_TOO_MANY_TASKS = _unfit(UnfitReason.TOO_MANY_TASKS)
_OUT_OF_SERVICE = {
    reason: _unfit(reason)
    for reason in (
        UnfitReason.NODE_NOT_READY,
        UnfitReason.NETWORK_UNAVAILABLE,
        UnfitReason.NODE_UNSCHEDULABLE,
    )
}
_SELECTOR = _unfit(UnfitReason.NODE_SELECTOR)
_PORTS = _unfit(UnfitReason.HOST_PORTS)
_TAINT = _unfit(UnfitReason.UNTOLERATED_TAINT)
_MEMORY_PRESSURE = _unfit(UnfitReason.MEMORY_PRESSURE)
_DISK_PRESSURE = _unfit(UnfitReason.DISK_PRESSURE)
_PID_PRESSURE = _unfit(UnfitReason.PID_PRESSURE)
_AFFINITY = {
    reason: _unfit(reason)
    for reason in (
        UnfitReason.POD_AFFINITY,
        UnfitReason.POD_ANTI_AFFINITY,
        UnfitReason.EXISTING_ANTI_AFFINITY,
    )
}


@frozen(kw_only=True)
class PredicatesPlugin:
    """Checks limits, conditions, selectors, ports, taints, pressure and inter-pod affinity."""

    memory_pressure: bool = False
    """Whether nodes under memory pressure reject tasks that request no cpu and no memory."""
    disk_pressure: bool = False
    """Whether nodes under disk pressure reject all tasks."""
    pid_pressure: bool = False
    """Whether nodes under PID pressure reject all tasks."""

    @classmethod
    def from_arguments(cls, arguments: Arguments) -> PredicatesPlugin:
        """Read the switches from their arguments, named as in kube-batch."""
        return cls(
            memory_pressure=arguments.boolean("predicate.MemoryPressureEnable", default=False),
            disk_pressure=arguments.boolean("predicate.DiskPressureEnable", default=False),
            pid_pressure=arguments.boolean("predicate.PIDPressureEnable", default=False),
        )

    def open(self, view: SessionView, /) -> object:
        """Open for one cycle."""
        return _Predicates(self, view)


class _Predicates:
    def __init__(self, switches: PredicatesPlugin, view: SessionView) -> None:
        self._switches = switches
        self._view = view
        self._has_limits = any(node.info.max_tasks is not None for node in view.nodes)
        self._has_taints = any(node.info.taints for node in view.nodes)

    def resume(self, changes: Changes, /) -> bool:
        # A predicate that no longer rejects any node may be kept.
        return not (
            (not self._has_limits and any(n.info.max_tasks is not None for n in changes.nodes))
            or (not self._has_taints and any(n.info.taints for n in changes.nodes))
        )

    def predicates(self) -> Iterable[Predicate]:
        def selector_of(task: TaskState) -> Callable[[NodeState], Unfit | None] | None:
            affinity = task.info.node_affinity
            if not task.info.node_selector and (affinity is None or affinity.required is None):
                return None  # it selects all nodes
            return partial(_selector, task)

        if self._has_limits:
            yield Predicate(
                check=_task_limit,
                reads=Reads.ACCOUNTS,
                signature=_nothing,
                curable=True,
                hints=PredicateHints(
                    specialise=lambda _task: _below_task_limit,
                    vectorise=lambda _task: lambda nodes: nodes.tasks < nodes.max_tasks,
                ),
            )
        yield Predicate(check=_conditions, reads=Reads.DESCRIPTION, signature=_nothing)
        yield Predicate(
            check=_selector,
            reads=Reads.DESCRIPTION,
            signature=attrgetter("info.node_selector", "info.node_affinity"),
            hints=PredicateHints(specialise=selector_of, node_keys=_SELECTED),
        )
        yield Predicate(
            check=_ports,
            reads=lambda task: Reads.NODE if task.info.host_ports else Reads.DESCRIPTION,
            signature=attrgetter("info.host_ports"),
            curable=True,
            hints=PredicateHints(
                specialise=lambda task: partial(_ports, task) if task.info.host_ports else None
            ),
        )
        if self._has_taints:
            yield Predicate(
                check=_taints,
                reads=Reads.DESCRIPTION,
                signature=attrgetter("info.tolerations"),
                hints=PredicateHints(node_keys=_TOLERATED),
            )
        for is_on, condition, unfit, concerns in (
            (self._switches.memory_pressure, "MemoryPressure", _MEMORY_PRESSURE, _needs_little),
            (self._switches.disk_pressure, "DiskPressure", _DISK_PRESSURE, _any_task),
            (self._switches.pid_pressure, "PIDPressure", _PID_PRESSURE, _any_task),
        ):
            if is_on:
                yield _pressure(condition, unfit, concerns)
        index = self._view.pod_affinity
        if index.is_active:
            yield from _inter_pod_affinity(index)


def _inter_pod_affinity(index: PodAffinityIndex) -> Iterable[Predicate]:
    """Yield its rules, in the order in which they give reasons."""
    # Where promises do not repel, what is promised has to be looked at apart.
    repels = index.promises_repel or _always
    of = AffinityProfile
    yield _affinity_rule(index, of.repelling_there, attrgetter("repelling"), repels)
    # Evictions cannot satisfy affinity: they do not bring tasks nearer.
    yield _affinity_rule(index, of.too_far, attrgetter("required"), False)
    yield _affinity_rule(index, of.repelled_there, attrgetter("repelled"), repels)


def _affinity_rule(
    index: PodAffinityIndex,
    refusal: Callable[[AffinityProfile, Mapping[str, str]], UnfitReason | None],
    counts: Callable[[AffinityProfile], Sequence[DomainCount | NetCount]],
    curable: bool | Callable[[Unfit], bool],
) -> Predicate:
    def check_for(task: TaskState) -> Callable[[NodeState], Unfit | None] | None:
        profile = index.profile(task)
        if not counts(profile):
            return None

        def check_node(node: NodeState) -> Unfit | None:
            reason = refusal(profile, node.info.labels)
            return None if reason is None else _AFFINITY[reason]

        return check_node

    def check(task: TaskState, node: NodeState) -> Unfit | None:
        reason = refusal(index.profile(task), node.info.labels)
        return None if reason is None else _AFFINITY[reason]

    return Predicate(
        check=check,
        reads=lambda t: Reads.CLUSTER if counts(index.profile(t)) else Reads.DESCRIPTION,
        signature=index.signature,
        curable=curable,
        hints=PredicateHints(
            specialise=check_for,
            watch=lambda task: index.watch_refusals(task, counts(index.profile(task))),
        ),
    )


def _always(_unfit: Unfit) -> bool:
    return True


def _nothing(_task: TaskState) -> Hashable:
    return None


def _task_limit(_task: TaskState, node: NodeState) -> Unfit | None:
    return _below_task_limit(node)


def _below_task_limit(node: NodeState) -> Unfit | None:
    limit = node.info.max_tasks
    return _TOO_MANY_TASKS if limit is not None and len(node.tasks) >= limit else None


def _conditions(_task: TaskState, node: NodeState) -> Unfit | None:
    reason = out_of_service(node.info)
    return None if reason is None else _OUT_OF_SERVICE[reason]


def _selector(task: TaskState, node: NodeState) -> Unfit | None:
    return None if has_what_is_selected(node.info, task.info) else _SELECTOR


def _labels_and_name(node: NodeState) -> Iterable[Hashable]:
    yield node.name
    yield from node.info.labels.items()


def _selected(task: TaskState) -> Sequence[Collection[Hashable]]:
    """Return sets of labels and names: a node that is selected has one of each set."""
    wanted: list[Collection[Hashable]] = [[pair] for pair in task.info.node_selector.items()]
    affinity = task.info.node_affinity
    if affinity is not None and affinity.required is not None:
        of_terms = [_fewest_in(term) for term in affinity.required if not term.is_empty()]
        known = [each for each in of_terms if each is not None]
        if len(known) == len(of_terms):
            wanted.append([key for each in known for key in each])
    return wanted


def _fewest_in(term: NodeSelectorTerm) -> Collection[Hashable] | None:
    """Return labels or names of which a node that matches has one; None: it may have any."""
    found: list[Collection[Hashable]] = [
        *(each.values for each in term.match_fields if each.operator is Operator.IN),
        *(
            [(each.key, value) for value in each.values]
            for each in term.match_expressions
            if each.operator is Operator.IN
        ),
    ]
    return min(found, key=len, default=None)


_SELECTED = NodeKeys(of_node=_labels_and_name, of_task=_selected, otherwise=_SELECTOR)


def _ports(task: TaskState, node: NodeState) -> Unfit | None:
    if not node.ports:
        return None
    for port in task.info.host_ports:
        # Only ports with the same number and protocol can conflict.
        if any(map(port.conflicts, node.host_ports.get((port.protocol, port.port), ()))):
            return _PORTS
    return None


def _taints(task: TaskState, node: NodeState) -> Unfit | None:
    return None if tolerates(task.info, node.info) else _TAINT


_UNTAINTED = ""
_EFFECTS = tuple(effect for effect in TaintEffect if effect is not TaintEffect.PREFER_NO_SCHEDULE)


def _first_taint(node: NodeState) -> Iterable[Hashable]:
    """Yield the first taint that repels, and its key with any value; both with its effect."""
    for taint in node.info.taints:
        if taint.repels():
            return (taint.effect, taint.key, taint.value), (taint.effect, taint.key)
    return (_UNTAINTED,)


def _tolerated(task: TaskState) -> Sequence[Collection[Hashable]]:
    """Return what the first repelling taint of an accepted node may be, or that there is none."""
    keys: list[Hashable] = [_UNTAINTED]
    for toleration in task.info.tolerations:
        if not toleration.key:
            return ()
        taint: tuple[str, ...] = (toleration.key,)
        if toleration.operator is TolerationOperator.EQUAL:
            taint = (toleration.key, toleration.value)
        effects = _EFFECTS if toleration.effect is None else (toleration.effect,)
        keys += [(effect, *taint) for effect in effects]
    return [keys]


_TOLERATED = NodeKeys(of_node=_first_taint, of_task=_tolerated, otherwise=_TAINT)


def _needs_little(task: TaskState) -> bool:
    return not task.resreq[0] and not task.resreq[1]


def _any_task(_task: TaskState) -> bool:
    return True


def _pressure(condition: str, unfit: Unfit, concerns: Callable[[TaskState], bool]) -> Predicate:
    def check(task: TaskState, node: NodeState) -> Unfit | None:
        under_pressure = node.info.conditions.get(condition, "False") == "True"
        return unfit if under_pressure and concerns(task) else None

    return Predicate(check=check, reads=Reads.DESCRIPTION, signature=concerns)
