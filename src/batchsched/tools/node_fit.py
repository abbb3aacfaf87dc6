"""How each node suits one task: everything that keeps it from there, and the nodes that come near.

Plugins are asked one by one and to the end, unlike in a cycle, where the first refusal is enough:
that no node has a label is to be seen although some of these nodes are also cordoned.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import nsmallest

from attrs import frozen

from batchsched.causes import UnfitReason, agreeing
from batchsched.model.cluster import TaskInfo, TaskStatus
from batchsched.model.constraints import Operator, untolerated
from batchsched.model.reasons import Unfit, summed_refusals
from batchsched.model.resources import EPSILON, Amount, Resource
from batchsched.model.result import Bind, CycleResult, Promise
from batchsched.model.texts import by_frequency, listed
from batchsched.placement import Fit
from batchsched.placement.plain_loop import CLOSED, Evaluator, refusal_by
from batchsched.session.holders import devices_of, devices_of_no_task
from batchsched.session.outlook import is_curable
from batchsched.session.session import Session
from batchsched.session.statements import Statement
from batchsched.state.needs import need_of_task
from batchsched.state.records import NodeState, TaskState
from batchsched.state.vectors import fits

_NEAREST = 3


@frozen(kw_only=True)
class Holder:
    """A task that holds resources on a node."""

    task: str
    """The UID of the task; empty: it is a claim that has devices although no task uses it."""
    name: str
    """The display name of the task, or of that claim."""
    job: str | None
    """The UID of its job; None: it belongs to no job."""
    how: str
    """``runs``, ``of no pod``, ``is leaving``, ``is promised``, ``is held by an unready gang`` or
    ``is reserved``."""
    amount: Resource
    devices: tuple[str, ...] = ()
    """The names of the devices that it has there."""
    until: float | None
    """Its expected end, in seconds on the clock of the snapshot, if known."""


@frozen(kw_only=True)
class NearNode:
    """A node that could take the task if others left: it is large enough, and has what it asks."""

    name: str
    missing: Resource
    """The idle resources that it lacks for one task."""
    refusal: str
    """What else keeps the task from there, such as a port that is in use; empty: nothing."""
    holders: tuple[Holder, ...]
    """The tasks that hold resources there, the largest first."""


@frozen(eq=False)
class NodeFit:
    """What keeps a task from one node."""

    node: NodeState
    refusals: tuple[Unfit, ...]
    """All reasons of plugins; empty if they accept it."""
    lacking: tuple[Unfit, ...]
    """The resources of which too little is free, or why a plugin has no choice for it there."""
    is_near: bool
    """Whether it could take the task if others left it."""
    apart: Unfit | None = None
    """Why it does not help although it has room: the others of its job would have none with it."""

    @property
    def takes_it(self) -> bool:
        """Whether the task could start there now."""
        return not (self.refusals or self.lacking or self.apart)


def fits_of(session: Session, task: TaskState) -> list[NodeFit]:
    """Return how each node suits a task, in node order. O(nodes x predicates).

    Raises:
        PluginError: a predicate raised an exception or returned an invalid value.

    """
    predicates = session.plugins.predicates
    evaluator = Evaluator(predicates, (), session.ledger.dimensions)
    found: list[NodeFit] = []
    for node in session.nodes:
        is_near = fits(task.init_resreq, node.allocatable)
        refusals: list[Unfit] = []
        for name, predicate in predicates:
            unfit = refusal_by(name, predicate, task, node)
            if unfit is not None:
                refusals.append(unfit)
                is_near = is_near and is_curable(name, predicate, unfit)
        if node.is_closed and not task.is_best_effort:
            refusals.append(CLOSED)
        lacking = evaluator.lacking(task.init_resreq, node)
        if not refusals and not lacking:
            no_choice = session.no_choice(task, node, Fit.NOW)
            if no_choice is not None:
                lacking = (no_choice,)
                is_near = is_near and no_choice.reason is not UnfitReason.NO_DEVICE
        found.append(NodeFit(node, tuple(refusals), lacking, is_near))
    return found


_ABOUT_NODES = (UnfitReason.NOT_ITS_TURN, UnfitReason.INSUFFICIENT_RESOURCE)
"""Why a queue may not take a task although it is no limit or share of its own."""


def placed_of(
    session: Session, trial: Statement, tasks: Iterable[TaskState]
) -> tuple[int, TaskState | None]:
    """Place what has room now of some tasks of a queue, and within its limits.

    Returns:
        how many have, and the first task for which no node has; None: there is none.

    """
    count, blocked = 0, None
    for task in tasks:
        queue = None if task.job is None else task.job.queue
        refusal = None if queue is None else session.plugins.allocatable(queue, need_of_task(task))
        if queue is None or not (refusal is None or refusal.reason in _ABOUT_NODES):
            continue
        node = session.placement.best(task, Fit.NOW)
        if node is not None:
            trial.allocate(task, node)
            count += 1
        elif blocked is None:
            blocked = task
    return count, blocked


# What keeps it from all nodes, in words


def counted(found: Iterable[NodeFit], task: TaskInfo) -> Mapping[str, int]:
    """Return by what nodes do not take a task, and how many of them; the most frequent first.

    A node counts once: under all that refuses it, else under all that it lacks. Labels and taints
    are told by name.
    """
    counts: Counter[str] = Counter()
    node_fits = list(found)
    choices = Counter(each for fit in node_fits for each in fit.lacking if each.devices is not None)
    counts.update({each.words: count for each, count in summed_refusals(choices).items()})
    for fit in node_fits:
        texts = [text for unfit in fit.refusals for text in _texts(unfit, fit.node, task)]
        texts = texts or [unfit.words for unfit in fit.lacking if unfit.devices is None]
        if fit.apart is not None:
            texts.append(fit.apart.words)
        if texts:
            first, *others = dict.fromkeys(texts)
            counts[listed([first, *(text.removeprefix("lack free ") for text in others)])] += 1
    return dict(by_frequency(counts))


def _texts(unfit: Unfit, node: NodeState, task: TaskInfo) -> Iterator[str]:
    labels = node.info.labels
    if unfit.reason is UnfitReason.NODE_SELECTOR:
        lacks = False
        for key, value in sorted(task.node_selector.items()):
            if labels.get(key) != value:
                lacks = True
                yield f"lack the label {key}={value}"
        for text in _unmet_affinity(task, node):
            lacks = True
            yield text
        if lacks:
            return
    elif unfit.reason is UnfitReason.UNTOLERATED_TAINT:
        taint = untolerated(node.info.taints, task.tolerations)
        if taint is not None:
            value = f"={taint.value}" if taint.value else ""
            yield f"have the taint {taint.key}{value}:{taint.effect.value}"
            return
    yield unfit.words


def _unmet_affinity(task: TaskInfo, node: NodeState) -> Iterator[str]:
    """Yield what a node lacks of a task's node affinity, if that has only one term."""
    affinity = task.node_affinity
    if affinity is None or affinity.accepts(node.info.labels, node.name):
        return
    terms = affinity.required or ()
    if len(terms) == 1 and not terms[0].match_fields:
        for requirement in terms[0].match_expressions:
            if not requirement.matches(node.info.labels):
                if requirement.operator is Operator.IN:
                    values = " or ".join(requirement.values)
                    yield f"lack the label {requirement.key}={values}"
                elif requirement.key not in node.info.labels:
                    yield f"lack the label {requirement.key}"
                else:
                    value = node.info.labels[requirement.key]
                    yield f"have the label {requirement.key}={value}, which it does not accept"
        return
    yield "do not match its node affinity"


# The nearest nodes, and the tasks that hold resources there


def nearest_nodes(
    session: Session, result: CycleResult, task: TaskState, fits: Sequence[NodeFit]
) -> tuple[NearNode, ...]:
    """Return the three near nodes that lack the least once the cycle has taken effect.

    Nodes that plugins refuse for now come last. O(nodes x dimensions).
    """
    taken = taken_by(session, result)

    def distance(fit: NodeFit) -> tuple[bool, float, int]:
        part = _part(session, _missing(task, fit.node, taken))
        return bool(fit.refusals), part, fit.node.index

    near = nsmallest(_NEAREST, (fit for fit in fits if fit.is_near), key=distance)
    return tuple(_near(session, result, task, fit, taken) for fit in near)


def taken_by(session: Session, result: CycleResult) -> dict[str, list[TaskState]]:
    """Return the tasks that were placed in this cycle, by node."""
    taken: dict[str, list[TaskState]] = {}
    decided: list[Bind | Promise] = [*result.binds, *result.promised()]
    for decision in decided:
        state = session.ledger.tasks.get(decision.task_uid)
        if state is not None and not state.status.holds:
            taken.setdefault(decision.node_name, []).append(state)
    return taken


def _missing(task: TaskState, node: NodeState, taken: dict[str, list[TaskState]]) -> list[Amount]:
    """Return what the node lacks for the task once the cycle's decisions have taken effect."""
    missing: list[Amount] = []
    for at, (wanted, idle) in enumerate(zip(task.init_resreq, node.idle, strict=True)):
        left = idle - sum(other.resreq[at] for other in taken.get(node.name, ()))
        missing.append(max(0, wanted - left) if wanted >= EPSILON else 0)
    return missing


def _near(
    session: Session,
    result: CycleResult,
    task: TaskState,
    fit: NodeFit,
    taken: dict[str, list[TaskState]],
) -> NearNode:
    node = fit.node
    held_by = [(other, "runs") for other in node.tasks.values()]
    held_by += [(other, "is reserved") for other in node.reserved_tasks.values()]
    promised = {promise.task_uid for promise in result.promised()}
    for other in taken.get(node.name, ()):
        held_by.append((other, "is promised" if other.uid in promised else "starts"))
    for uid, outcome in result.tasks.items():
        if outcome.status is TaskStatus.ALLOCATED and outcome.node_name == node.name:
            held_by.append((session.ledger.tasks[uid], "is held by an unready gang"))
    lacks_devices = any(unfit.devices is not None for unfit in fit.lacking)

    def first(held: tuple[TaskState, str]) -> tuple[bool, float, str]:
        other, _ = held
        has_devices = lacks_devices and bool(devices_of(session, other))
        return not has_devices, -_part(session, other.resreq), other.uid

    held_by.sort(key=first)
    refusals = [text for unfit in fit.refusals for text in _texts(unfit, node, task.info)]
    refusals += [unfit.words for unfit in fit.lacking if unfit.devices is not None]
    return NearNode(
        name=node.name,
        missing=session.ledger.dimensions.resource(_missing(task, node, taken)),
        refusal=", ".join(agreeing(text, 1) for text in refusals),
        holders=(
            *(_claims_of_no_task(session, node) if lacks_devices else ()),
            *(_holder(session, other, how) for other, how in held_by),
        ),
    )


def _claims_of_no_task(session: Session, node: NodeState) -> Iterator[Holder]:
    """Yield the claims that have devices of a node although no task uses them, by name."""
    for name, devices in devices_of_no_task(session, node).items():
        yield Holder(
            task="",
            name=f"claim {name}",
            job=None,
            how="of no pod",
            amount=Resource(),
            devices=devices,
            until=None,
        )


def _part(session: Session, amounts: Sequence[Amount]) -> float:
    """Return the sum of the parts that amounts are of what the cluster has."""
    cluster = (*session.ledger.cluster, 0)
    return sum(a / whole if whole else a for a, whole in zip(amounts, cluster, strict=False))


def _holder(session: Session, task: TaskState, how: str) -> Holder:
    if task.status is TaskStatus.RELEASING:
        how = "is leaving"
    elif task.status is TaskStatus.PIPELINED:
        how = "is promised"
    return Holder(
        task=task.uid,
        name=task.info.display_name,
        job=None if task.job is None else task.job.uid,
        how=how,
        amount=task.info.resreq,
        devices=devices_of(session, task),
        until=_until(session, task),
    )


def _until(session: Session, task: TaskState) -> float | None:
    started, job = task.info.start_time, task.job
    estimate = task.info.estimate if job is None else job.info.estimate_of(task.info)
    if started is None or estimate is None or not task.status.holds:
        return None
    return max(session.now, started + estimate)
