"""Kinds: tasks that get the same answers from all predicates and scores.

Tasks of one kind have equal requests and equal signatures. What is known of nodes is kept by kind:
here, the functions of plugins made for these tasks, and which nodes their descriptions rule out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from math import isfinite
from operator import add
from typing import TypeAlias

from batchsched.errors import plugin_error
from batchsched.model.reasons import Unfit
from batchsched.placement.plain_loop import (
    CLOSED,
    Evaluator,
    check_score,
    checked_scores,
    checked_unfit,
)
from batchsched.plugin.node_functions import NodeKeys, NodeScore, Predicate, Reads
from batchsched.state.ledger import Ledger
from batchsched.state.memory import Watch
from batchsched.state.records import Fit, NodeState, TaskState
from batchsched.state.vectors import Vector

LARGEST_EXACT = 1 << 50
"""Below this, distinct integers stay distinct after the same float has been added to both."""

MANY = 4
"""A check that can accept at most one of so many nodes stores only those that it accepts."""

Raw = tuple[float, ...]
"""The raw scores of a node, one for each score that is normalised."""

NodeCheck = Callable[[NodeState], Unfit | None]
NodeValues = Callable[[Sequence[NodeState]], list[float]]


class FewSlots(dict[int, int]):
    """The slots of few nodes, each with 1; every other slot has 0."""

    __slots__ = ()

    def __missing__(self, slot: int) -> int:
        return 0


Accepts: TypeAlias = bytearray | FewSlots
"""For each slot, 1 if its node is accepted."""


class Kind:
    """The checks and scores of one kind of tasks, made for these tasks."""

    __slots__ = (
        *("accepts", "all_checks", "checks", "constraints", "fits_idle", "is_best_effort"),
        *("is_exact", "is_watched", "live_checks", "live_predicates", "normalised", "number"),
        *("no_choice", "only_slots", "request", "scores", "scores_key", "task", "watches"),
    )

    def __init__(self, number: int, task: TaskState) -> None:
        self.number = number
        self.task = task
        """One of the kind; for all of them, it fits where it fits."""
        self.request = task.init_resreq
        self.is_best_effort = task.is_best_effort
        self.fits_idle = fit_check(task.init_resreq)
        """Returns whether the request fits an idle amount."""
        self.constraints: Hashable = ()
        """Kinds with equal constraints get the same answers from predicates on every node, and are
        kept away from the same reserved nodes."""
        self.all_checks: list[tuple[str, NodeCheck, DescriptionCheck | None, Hashable]] = []
        """The predicates that may reject a node, in order: plugin and check; the answers on all
        nodes, if they depend only on descriptions; a key by which equal checks of kinds are known
        (None: it reads more than the node)."""
        self.checks: list[tuple[str, NodeCheck]] = []
        """Those that reject some node now, or may do so without a change of descriptions."""
        self.live_checks: list[tuple[str, NodeCheck]] = []
        """Those that read more than descriptions."""
        self.live_predicates: list[tuple[str, Predicate]] = []
        """The predicates behind `live_checks`."""
        self.accepts: Accepts | None = None
        """For each slot, whether it has a node whose description is accepted; None: all are."""
        self.only_slots: Sequence[int] | None = None
        """The slots with such nodes, in order, if they are few; None: look at all."""
        self.scores: list[tuple[str, NodeScore, NodeValues]] = []
        """Scores that are not normalised, with their plugins and functions."""
        self.scores_key: Hashable = None
        """Kinds with equal keys get equal `scores`; None: they read more than the node."""
        self.normalised: list[tuple[str, NodeScore, NodeValues]] = []
        """Scores that are normalised, with their plugins and functions."""
        self.no_choice: Callable[[NodeState, Fit], Unfit | None] | None = None
        """Returns why a plugin has no choice for a task on a node where its request fits; None: no
        plugin chooses anything for it."""
        self.watches: list[Watch] = []
        """Report changes elsewhere that affect the answers on nodes."""
        self.is_exact = True
        """Whether sums of scores do not depend on the order of their terms, as for integers.

        Only then can nodes with the same raw scores be compared by their other scores alone:
        rounding could make different totals equal.
        """
        self.is_watched = True
        """Whether all changes of what the functions read are reported; if not, nothing is kept."""

    # Which nodes

    def is_feasible(self, node: NodeState) -> bool:
        """Return whether the predicates accept the node and it is not closed by a reservation."""
        accepts = self.accepts
        if accepts is not None and not accepts[node.slot]:
            return False
        if node.reserved_tasks and not self.is_best_effort and node.is_closed:
            return False
        name = ""
        try:
            for name, check in self.live_checks:
                unfit = check(node)
                if unfit is not None:
                    checked_unfit(unfit)
                    return False
        except Exception as error:
            raise plugin_error(name, "predicates", error) from error
        return True

    def passing(self, slots: Sequence[int], nodes: Sequence[NodeState]) -> Sequence[int]:
        """Return those of some slots whose nodes pass all `live_checks`."""
        name = ""
        try:
            for name, check in self.live_checks:
                slots = [
                    slot
                    for slot in slots
                    if (unfit := check(nodes[slot])) is None or not checked_unfit(unfit)
                ]
        except Exception as error:
            raise plugin_error(name, "predicates", error) from error
        return slots

    def takes_now(self, node: NodeState) -> bool:
        """Return whether the node is feasible and the task fits there now."""
        return (
            self.fits_idle(node.idle)
            and (not node.divergence_count or node.fits(self.task))
            and self.is_feasible(node)
            and (self.no_choice is None or self.no_choice(node, Fit.NOW) is None)
        )

    def with_choice(self, slots: list[int], nodes: Sequence[NodeState], fit: Fit) -> list[int]:
        """Return those of some slots where plugins have a choice for a task that fits so."""
        no_choice = self.no_choice
        if no_choice is None:
            return slots
        return [slot for slot in slots if no_choice(nodes[slot], fit) is None]

    def infeasible(self, node: NodeState) -> Unfit | None:
        """Return why the node cannot be considered, or None; see `Evaluator.infeasible`."""
        return self.refusal_by(self.checks, node)

    def refusal_by(self, checks: Sequence[tuple[str, NodeCheck]], node: NodeState) -> Unfit | None:
        """Return why a reservation or some of the checks reject a node, or None."""
        if node.reserved_tasks and not self.is_best_effort and node.is_closed:
            return CLOSED
        name = ""
        try:
            for name, check in checks:
                unfit = check(node)
                if unfit is not None:
                    return checked_unfit(unfit)
        except Exception as error:
            raise plugin_error(name, "predicates", error) from error
        return None

    # How good they are

    def score(self, nodes: Sequence[NodeState]) -> list[float]:
        """Return, for each node, the sum of the scores that are not normalised."""
        totals: list[float] | None = None
        name = ""
        try:
            for name, node_score, values in self.scores:
                scores, weight = checked_scores(values(nodes), nodes), node_score.weight
                if weight != 1:
                    scores = [weight * score for score in scores]
                totals = scores if totals is None else list(map(add, totals, scores))
        except Exception as error:
            raise plugin_error(name, "node_scores", error) from error
        return [0] * len(nodes) if totals is None else totals

    def score_one(self, node: NodeState) -> float:
        """Return the sum of a node's scores that are not normalised."""
        total: float = 0
        name = ""
        try:
            for name, node_score, values in self.scores:
                (score,) = values([node])
                try:
                    is_sound = isfinite(score)
                except TypeError:
                    is_sound = False
                if not is_sound:
                    check_score(score)
                total += node_score.weight * score
        except Exception as error:
            raise plugin_error(name, "node_scores", error) from error
        return total

    def raw(self, nodes: Sequence[NodeState]) -> list[Raw]:
        """Return, for each node, the raw values of the normalised scores."""
        columns: list[list[float]] = []
        name = ""
        try:
            for name, _, values in self.normalised:
                columns.append(checked_scores(values(nodes), nodes))
        except Exception as error:
            raise plugin_error(name, "node_scores", error) from error
        return list(zip(*columns, strict=True))

    def total(self, score: float, raw: Raw, lowest: Raw, highest: Raw) -> float:
        """Return the total score of a node, given the extreme raw scores of the nodes compared."""
        for position, (name, normalised, _) in enumerate(self.normalised):
            score += Evaluator.normalised(
                name, normalised, raw[position], lowest[position], highest[position]
            )
        if not -LARGEST_EXACT < score < LARGEST_EXACT:
            self.is_exact = False
        return score


class DescriptionCheck:
    """The answers of one predicate on all node descriptions, for tasks with one signature."""

    __slots__ = ("_check", "_plugin", "_refused", "accepted", "judged_apart", "usual")

    def __init__(
        self, plugin: str, check: NodeCheck, slots: int, *, usual: Unfit | None = None
    ) -> None:
        """Begin with no answers.

        Args:
            plugin: the plugin with the predicate.
            check: the predicate for these tasks.
            slots: how many there are.
            usual: why it rejects nodes that it is not asked about; None: it is asked about all.

        """
        self._plugin = plugin
        self._check = check
        self.usual = usual
        self.accepted: Accepts = bytearray(b"\1" * slots) if usual is None else FewSlots()
        """Those accepted; if all nodes are asked about, vacant slots too."""
        self.judged_apart: set[int] = set()
        """The slots of nodes rejected for other reasons than `usual`, if there is a usual one."""
        self._refused = 0

    @property
    def refuses(self) -> bool:
        """Whether it may reject any node."""
        return self.usual is not None or self._refused > 0

    def ask(self, nodes: Iterable[NodeState]) -> None:
        """Evaluate nodes that were added or changed."""
        accepted, check, usual = self.accepted, self._check, self.usual
        try:
            for node in nodes:
                unfit = check(node)
                if unfit is not None:
                    checked_unfit(unfit)
                now = unfit is None
                if usual is None:
                    self._refused += accepted[node.slot] - now
                    accepted[node.slot] = now
                elif now:
                    accepted[node.slot] = 1
                elif unfit != usual:
                    self.judged_apart.add(node.slot)
        except Exception as error:
            raise plugin_error(self._plugin, "predicates", error) from error

    def forget(self, slots: Iterable[int]) -> None:
        """Drop the answers on the nodes that had these slots."""
        accepted = self.accepted
        for slot in slots:
            if isinstance(accepted, FewSlots):
                accepted.pop(slot, None)
                self.judged_apart.discard(slot)
            else:
                self._refused -= not accepted[slot]
                accepted[slot] = 1


class AcceptedNodes:
    """The nodes that checks of descriptions accept, alone and together."""

    def __init__(self, ledger: Ledger) -> None:
        self._nodes: Sequence[NodeState] = ledger.nodes
        self._slots: Sequence[NodeState] = ledger.slots
        self._vacant = ledger.vacant
        self._checks: dict[Hashable, DescriptionCheck] = {}
        self._together: dict[tuple[DescriptionCheck, ...], Accepts] = {}
        self._by_key: dict[NodeKeys, dict[Hashable, list[int]]] = {}

    def check(
        self,
        key: Hashable,
        plugin: str,
        predicate: Predicate,
        check: NodeCheck,
        task: TaskState,
    ) -> DescriptionCheck:
        """Return the answers of a predicate for tasks like this one. O(1) after the first time.

        Then O(nodes), or O(nodes with the keys of the task) if the predicate has `node_keys`. Kinds
        with different requests mostly have the same constraints, and share the answers by a key.
        """
        known = self._checks.get(key)
        if known is None:
            keys = predicate.hints.node_keys
            few = None if keys is None else self._with_keys(plugin, keys, task)
            if keys is None or few is None:
                known = DescriptionCheck(plugin, check, len(self._slots))
                known.ask(self._nodes)
            else:
                known = DescriptionCheck(plugin, check, len(self._slots), usual=keys.otherwise)
                known.ask([self._slots[slot] for slot in few])
            self._checks[key] = known
        return known

    def _with_keys(self, plugin: str, keys: NodeKeys, task: TaskState) -> Collection[int] | None:
        """Return the slots of nodes with a key of the rarest set, if they are few."""
        try:
            wanted = [tuple(each) for each in keys.of_task(task)]
            if not wanted:
                return None
            slots = self._by_key.get(keys)
            if slots is None:
                slots = self._by_key[keys] = {}
                for node in self._nodes:
                    for key in keys.of_node(node):
                        slots.setdefault(key, []).append(node.slot)
            counts = [sum(len(slots.get(key, ())) for key in each) for each in wanted]
            if min(counts) > len(self._nodes) // MANY:
                return None
            rarest = wanted[counts.index(min(counts))]
            return {slot for key in rarest for slot in slots.get(key, ())}
        except Exception as error:
            raise plugin_error(plugin, "predicates", error) from error

    def by_all(self, checks: Iterable[DescriptionCheck]) -> Accepts | None:
        """Return, for each slot, 1 if it has a node that all checks accept; None: all nodes are.

        Equal combinations get the same object. For a new combination O(nodes), or O(nodes that
        are accepted) if a check stores only those.
        """
        refusing = tuple(check for check in checks if check.refuses)
        if not refusing and not self._vacant:
            return None
        known = self._together.get(refusing)
        if known is None:
            known = self._together[refusing] = self._combined(refusing)
        return known

    def _combined(self, refusing: Sequence[DescriptionCheck]) -> Accepts:
        few = [each.accepted for each in refusing if isinstance(each.accepted, FewSlots)]
        if few:
            slots = min(map(sorted, few), key=len)
            for check in refusing:
                accepted = check.accepted
                slots = [slot for slot in slots if accepted[slot]]
            return FewSlots(dict.fromkeys(slots, 1))
        known = bytearray(b"\1" * len(self._slots))
        for slot in self._vacant:
            known[slot] = 0
        for check in refusing:
            assert isinstance(check.accepted, bytearray)
            known = bytearray(map(int.__and__, known, check.accepted))
        return known

    def nodes_changed(self, slots: Collection[int]) -> None:
        """Evaluate the nodes at these slots again, and forget the results of `by_all`.

        O(checks x slots), and O(nodes) for each combination that is used again.
        """
        nodes = [self._slots[slot] for slot in slots if slot not in self._vacant]
        # An index of keys is made again when it is needed: few nodes change, and rarely.
        self._by_key.clear()
        for check in self._checks.values():
            check.forget(slots)
            check.ask(nodes)
        self._together.clear()


class Kinds:
    """Finds the kinds of tasks, and makes those that are new."""

    def __init__(self, ledger: Ledger, evaluator: Evaluator) -> None:
        self._ledger = ledger
        self._begin = ledger.classes_end
        """The number of the first kind; lower ones were given by an earlier engine."""
        self._judgement = evaluator
        self._task_keys: dict[Callable[[TaskState], Hashable], tuple[str, str]] = {}
        for name, predicate in evaluator.predicates:
            self._task_keys.setdefault(predicate.signature, (name, "predicates"))
        for name, score in evaluator.scores:
            self._task_keys.setdefault(score.signature, (name, "node_scores"))
        if evaluator.node_key_signature is not None:
            self._task_keys[evaluator.node_key_signature] = ("", "node_key_signature")
        for name, _, signature in evaluator.choosers:
            if signature is not None:
                self._task_keys[signature] = (name, "choice_signature")
        self._numbers: dict[Hashable, int] = {}
        self._constrained: dict[Hashable, Kind] = {}
        """A kind with each constraints, without watches."""
        self._kinds: list[Kind] = []
        self._accepted_nodes = AcceptedNodes(ledger)

    def of(self, task: TaskState) -> Kind:
        """Return the kind of a task. O(1) after the first time."""
        begin = self._begin
        if task.kind < begin:
            key, number = self._number(task)
            if number is None:
                number = begin + len(self._kinds)
                self._kinds.append(self._make(number, task))
                self._numbers[key] = number
                self._ledger.classes_end = number + 1
            task.kind = number
        return self._kinds[task.kind - begin]

    def nodes_changed(self, slots: Collection[int]) -> bool:
        """Process added, removed or changed nodes; return False if that is not possible.

        It is not possible with functions that read the whole cluster: it is not known which of
        their answers on other nodes stay the same.
        """
        if any(kind.watches for kind in self._kinds):
            return False
        self._accepted_nodes.nodes_changed(slots)
        for kind in self._kinds:
            self._settle(kind)
        return True

    def _number(self, task: TaskState) -> tuple[Hashable, int | None]:
        try:
            # The innermost loop for tasks that are placed once; find the plugin at fault later.
            key = (task.init_resreq, *[signature(task) for signature in self._task_keys])
            return key, self._numbers.get(key)
        except Exception:
            name = point = ""
            try:
                for signature, (name, point) in self._task_keys.items():
                    hash(signature(task))
            except Exception as error:
                raise plugin_error(name, point, error) from error
            raise

    def _make(self, number: int, task: TaskState) -> Kind:
        kind = Kind(number, task)
        judgement = self._judgement
        if judgement.node_key is not None and judgement.node_key_signature is None:
            kind.is_watched = False
        if judgement.choosers and judgement.may_choose(task):
            kind.no_choice = _no_choice(judgement, task)
            if any(each.signature is None for each in judgement.choosers):
                kind.is_watched = False
        self._constrain(kind, task)
        scores_key: list[Hashable] = []
        for position, (name, score) in enumerate(self._judgement.scores):
            try:
                values = _values_for(score, task)
                if values is None:
                    continue
                scores_key.append((position, score.signature(task)))
            except Exception as error:
                raise plugin_error(name, "node_scores", error) from error
            if score.normalise is None:
                kind.scores.append((name, score, values))
            else:
                scores_key.pop()
                kind.normalised.append((name, score, values))
            _watch(kind, name, score, task)
        if all(score.reads is not Reads.CLUSTER for _, score, _ in kind.scores):
            kind.scores_key = tuple(scores_key)
        return kind

    def _constrain(self, kind: Kind, task: TaskState) -> None:
        """Set the checks of a kind; kinds with equal constraints have the same ones."""
        constraints: list[Hashable] = [kind.is_best_effort]
        name = ""
        try:
            for name, predicate in self._judgement.predicates:
                constraints.append(predicate.signature(task))
            kind.constraints = tuple(constraints)
            like = self._constrained.get(kind.constraints)
            if like is not None:
                kind.all_checks, kind.checks = like.all_checks, like.checks
                kind.live_checks, kind.live_predicates = like.live_checks, like.live_predicates
                kind.accepts, kind.only_slots = like.accepts, like.only_slots
                return
            for (name, predicate), signature in zip(
                self._judgement.predicates, constraints[1:], strict=True
            ):
                check = _check_for(predicate, task)
                if check is None:
                    continue
                reads = predicate.reads_for(task)
                key = None if reads is Reads.CLUSTER else (id(predicate), signature)
                described: DescriptionCheck | None = None
                if reads is Reads.DESCRIPTION:
                    described = self._accepted_nodes.check(key, name, predicate, check, task)
                else:
                    kind.live_checks.append((name, check))
                    kind.live_predicates.append((name, predicate))
                    _watch(kind, name, predicate, task)
                kind.all_checks.append((name, check, described, key))
        except Exception as error:
            raise plugin_error(name, "predicates", error) from error
        self._settle(kind)
        if kind.is_watched and not kind.watches:
            self._constrained[kind.constraints] = kind

    def _settle(self, kind: Kind) -> None:
        """Update which descriptions a kind accepts, and which checks reject any node."""
        described = [each for _, _, each, _ in kind.all_checks if each is not None]
        kind.accepts = self._accepted_nodes.by_all(described)
        kind.checks = [
            (name, check)
            for name, check, each, _ in kind.all_checks
            if each is None or each.refuses
        ]
        kind.only_slots = list(kind.accepts) if isinstance(kind.accepts, FewSlots) else None


def _no_choice(judgement: Evaluator, task: TaskState) -> Callable[[NodeState, Fit], Unfit | None]:
    """Return a function of a node and a way to fit, which returns why there is no choice."""
    choosing = [
        each.choose
        for each in judgement.choosers
        if each.signature is None or each.signature(task) is not None
    ]

    def no_choice(node: NodeState, fit: Fit) -> Unfit | None:
        for choose in choosing:
            found = choose(task, node, fit)
            if isinstance(found, Unfit):
                return found
        return None

    return no_choice


def _watch(kind: Kind, name: str, function: Predicate | NodeScore, task: TaskState) -> None:
    reads = function.reads_for(task) if isinstance(function, Predicate) else function.reads
    if reads is not Reads.CLUSTER:
        return
    watch = function.hints.watch
    if watch is None:
        kind.is_watched = False
        return
    try:
        kind.watches.extend(watch(task))
    except Exception as error:
        point = "predicates" if isinstance(function, Predicate) else "node_scores"
        raise plugin_error(name, point, error) from error


def _check_for(predicate: Predicate, task: TaskState) -> NodeCheck | None:
    if predicate.hints.specialise is not None:
        return predicate.hints.specialise(task)
    check = predicate.check
    return lambda node: check(task, node)


def _values_for(score: NodeScore, task: TaskState) -> NodeValues | None:
    if score.hints.specialise is not None:
        return score.hints.specialise(task)
    value = score.score
    return lambda nodes: [value(task, node) for node in nodes]


def fit_check(request: Vector) -> Callable[[Vector], bool]:
    """Return a function that checks whether `request` fits an amount, specialised for speed.

    Dimensions that are not requested are ignored.
    """
    wanted = [(dimension, amount) for dimension, amount in enumerate(request) if amount]
    match wanted:
        case []:
            return lambda _there: True
        case [(first, a)]:
            return lambda there: a <= there[first]
        case [(first, a), (second, b)]:
            return lambda there: a <= there[first] and b <= there[second]
        case [(first, a), (second, b), (third, c)]:
            return lambda there: a <= there[first] and b <= there[second] and c <= there[third]
        case _:
            return lambda there: all(amount <= there[dimension] for dimension, amount in wanted)
