"""Equivalence classes: tasks that get the same answers from all predicates and scores."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from math import isfinite
from operator import add

from batchsched.errors import plugin_error
from batchsched.model.reasons import Unfit
from batchsched.model.resources import EPSILON
from batchsched.placement.accepted_nodes import (
    AcceptedNodes,
    Accepts,
    DescriptionCheck,
    FewSlots,
    NodeCheck,
)
from batchsched.placement.evaluator import (
    CLOSED,
    Evaluator,
    check_score,
    checked_scores,
    checked_unfit,
)
from batchsched.placement.raw_scores import KeptRawScores, RawScores
from batchsched.placement.score_index import Raw, Scored
from batchsched.plugin.hints import ScoreCells
from batchsched.plugin.node_functions import NodeScore, Predicate, Reads
from batchsched.state.change_log import Watch
from batchsched.state.ledger import Ledger
from batchsched.state.records import NodeState, TaskState
from batchsched.state.vectors import Vector

__all__ = ["EquivalenceClass", "EquivalenceClassMaker"]

LARGEST_EXACT = 1 << 50
"""Below this, distinct integers stay distinct after the same float has been added to both."""

NodeValues = Callable[[Sequence[NodeState]], list[float]]
FitCheck = Callable[[Vector], bool]


class EquivalenceClass:
    """The checks and scores of one class of tasks, specialised for these tasks."""

    __slots__ = (
        "accepts_by_description",
        "all_checks",
        "check_keys",
        "checks",
        "constraints",
        "fits_idle",
        "has_scores_by_state",
        "is_best_effort",
        "is_exact",
        "is_scored_by_state",
        "is_watched",
        "key",
        "known_raw",
        "live_checks",
        "live_predicates",
        "normalised",
        "only_slots",
        "plain_scores",
        "request",
        "score_cells",
        "scores",
        "scoring_key",
        "watches",
    )

    def __init__(self, key: Hashable, task: TaskState) -> None:
        self.key = key
        self.constraints: Hashable = ()
        """Classes with equal constraints get the same answers from predicates on every node, and
        are kept away from the same reserved nodes."""
        self.request = task.init_resreq
        self.is_best_effort = task.is_best_effort
        self.fits_idle = fit_check(task.init_resreq)
        """Returns whether the request fits an idle amount."""
        self.all_checks: list[tuple[str, NodeCheck, DescriptionCheck | None]] = []
        """The predicates that may reject a node, in order, with their plugins, and with the answers
        on all nodes for those that read only descriptions."""
        self.checks: list[tuple[str, NodeCheck]] = []
        """Those that reject some node now, or may do so without a change of descriptions."""
        self.live_checks: list[tuple[str, NodeCheck]] = []
        """Those that read more than descriptions."""
        self.live_predicates: list[tuple[str, Predicate]] = []
        """The predicates behind `live_checks`."""
        self.check_keys: list[Hashable] = []
        """For each of `all_checks`, a key by which equal checks of classes are known; None: the
        predicate reads more than the node."""
        self.accepts_by_description: Accepts | None = None
        """For each slot, whether it has a node whose description is accepted; None: all are."""
        self.only_slots: Sequence[int] | None = None
        """The slots with such nodes, in order, if they are few; None: look at all."""
        self.scores: list[tuple[str, int, NodeValues]] = []
        """Scores that are not normalised: plugin, weight, function."""
        self.plain_scores: list[tuple[str, NodeScore]] = []
        """The `NodeScore` objects behind `scores`, with their plugins."""
        self.scoring_key: Hashable = ()
        """Classes with equal keys get equal `scores`."""
        self.has_scores_by_state = False
        """Whether `scores` are all computed from the states of nodes."""
        self.is_scored_by_state = False
        """Whether, moreover, there are no other scores and no `watches`."""
        self.score_cells: list[tuple[str, ScoreCells]] | None = None
        """The cells of each of `plain_scores`, with their plugins, if the class is scored by state
        and all have cells."""
        self.normalised: list[tuple[str, NodeScore, NodeValues]] = []
        """Scores that are normalised, with their plugins and functions."""
        self.known_raw: RawScores | None = None
        """Their values that are known, if they read nothing but descriptions."""
        self.watches: list[Watch] = []
        """Report changes elsewhere that affect the answers on nodes."""
        self.is_exact = True
        """Whether sums of scores do not depend on the order of their terms, as for integers.

        Only then can nodes with the same raw scores be compared by their other scores alone:
        rounding could make different totals equal.
        """
        self.is_watched = True
        """Whether all changes of what the functions read are reported; if not, do not cache."""

    def raw(self, nodes: Sequence[NodeState]) -> list[Raw]:
        """Return, for each node, the raw values of the normalised scores."""
        return self.compute_raw(nodes) if self.known_raw is None else self.known_raw(nodes)

    def compute_raw(self, nodes: Sequence[NodeState]) -> list[Raw]:
        """Return, for each node, the raw values of the normalised scores, computed now."""
        columns: list[list[float]] = []
        name = ""
        try:
            for name, _, values in self.normalised:
                columns.append(checked_scores(values(nodes), nodes))
        except Exception as error:
            raise plugin_error(name, "node_scores", error) from error
        return list(zip(*columns, strict=True))

    def score(self, nodes: Sequence[NodeState]) -> list[float]:
        """Return, for each node, the sum of the scores that are not normalised."""
        totals: list[float] | None = None
        name = ""
        try:
            for name, weight, values in self.scores:
                scores = checked_scores(values(nodes), nodes)
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
            for name, weight, values in self.scores:
                (score,) = values([node])
                try:
                    is_sound = isfinite(score)
                except TypeError:
                    is_sound = False
                if not is_sound:
                    check_score(score)
                total += weight * score
        except Exception as error:
            raise plugin_error(name, "node_scores", error) from error
        return total

    def score_now(self, node: NodeState) -> float | None:
        """Return `score_one` of a node that is feasible and where the task fits now, else None."""
        return self.score_one(node) if self.takes_now(node) else None

    def takes_now(self, node: NodeState) -> bool:
        """Return whether the node is feasible and the task fits there now."""
        return (
            self.fits_idle(node.idle)
            and (not node.divergence_count or node.fits_now(self.request))
            and self.is_feasible(node)
        )

    def score_feasible(self, node: NodeState) -> float | None:
        """Return `score_one` of a feasible node, else None."""
        return self.score_one(node) if self.is_feasible(node) else None

    def score_of(
        self, nodes: Sequence[NodeState], scores: Sequence[float] | None = None
    ) -> list[Scored]:
        """Return each node's index, raw scores, and the sum of its other scores (None: compute)."""
        if scores is None:
            scores = self.score(nodes)
        if self.normalised and self.is_exact:
            self.is_exact = set(map(type, scores)) <= {int}
        if not self.normalised:
            return [(node.slot, (), score) for node, score in zip(nodes, scores, strict=True)]
        return [
            (node.slot, raw, score)
            for node, raw, score in zip(nodes, self.raw(nodes), scores, strict=True)
        ]

    def is_feasible(self, node: NodeState) -> bool:
        """Return whether the predicates accept the node and it is not closed by a reservation."""
        accepts = self.accepts_by_description
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

    def feasible_of(self, nodes: Sequence[NodeState]) -> Sequence[NodeState]:
        """Return those of several nodes that are feasible, see `is_feasible`."""
        accepts = self.accepts_by_description
        if accepts is not None:
            nodes = [node for node in nodes if accepts[node.slot]]
        if not self.is_best_effort:
            nodes = [node for node in nodes if not node.reserved_tasks or not node.is_closed]
        name = ""
        try:
            for name, check in self.live_checks:
                accepted: list[NodeState] = []
                for node in nodes:
                    unfit = check(node)
                    if unfit is None:
                        accepted.append(node)
                    else:
                        checked_unfit(unfit)
                nodes = accepted
        except Exception as error:
            raise plugin_error(name, "predicates", error) from error
        return nodes

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

    def total(self, score: float, raw: Raw, lowest: Raw, highest: Raw) -> float:
        """Return the total score of a node, given the extreme raw scores of the nodes compared."""
        for position, (name, normalised, _) in enumerate(self.normalised):
            score += Evaluator.normalised(
                name, normalised, raw[position], lowest[position], highest[position]
            )
        if not -LARGEST_EXACT < score < LARGEST_EXACT:
            self.is_exact = False
        return score


class EquivalenceClassMaker:
    """Assigns tasks to equivalence classes and creates the classes."""

    def __init__(self, ledger: Ledger, evaluator: Evaluator, *, most_tables: int) -> None:
        """Begin without classes; keep at most so many tables of scores of all nodes."""
        self._ledger = ledger
        self._begin = ledger.classes_end
        """The number of the first class; lower ones were given by an earlier engine."""
        self._judgement = evaluator
        self._task_keys: dict[Callable[[TaskState], Hashable], tuple[str, str]] = {}
        for name, predicate in evaluator.predicates:
            self._task_keys.setdefault(predicate.signature, (name, "predicates"))
        for name, score in evaluator.scores:
            self._task_keys.setdefault(score.signature, (name, "node_scores"))
        self._numbers: dict[Hashable, int] = {}
        self._kinds: list[EquivalenceClass] = []
        self._accepted_nodes = AcceptedNodes(ledger)
        self._descriptions: dict[Hashable, DescriptionCheck] = {}
        self._raw_scores = KeptRawScores(most=most_tables)

    def class_of(self, task: TaskState) -> EquivalenceClass:
        """Return the class of a task. O(1) after the first time."""
        begin = self._begin
        if task.kind < begin:
            key, number = self._number(task)
            if number is None:
                made = self._make(key, task)
                number = self._numbers[key] = begin + len(self._kinds)
                self._kinds.append(made)
                self._ledger.classes_end = number + 1
            task.kind = number
        return self._kinds[task.kind - begin]

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

    def _make(self, key: Hashable, task: TaskState) -> EquivalenceClass:
        kind = EquivalenceClass(key, task)
        constraints: list[Hashable] = [kind.is_best_effort]
        for name, predicate in self._judgement.predicates:
            try:
                constraints.append(predicate.signature(task))
                check = _check_for(predicate, task)
            except Exception as error:
                raise plugin_error(name, "predicates", error) from error
            if check is None:
                continue
            described: DescriptionCheck | None = None
            if predicate.reads is Reads.DESCRIPTION:
                described = self._described(name, predicate, check, task)
            else:
                kind.live_checks.append((name, check))
                kind.live_predicates.append((name, predicate))
                self._watch(kind, name, predicate, task)
            kind.all_checks.append((name, check, described))
            kind.check_keys.append(
                None
                if predicate.reads is Reads.CLUSTER
                else (id(predicate), predicate.signature(task))
            )
        kind.constraints = tuple(constraints)
        self._settle(kind)
        scoring_key: list[Hashable] = []
        raw_key: list[Hashable] = []
        for position, (name, score) in enumerate(self._judgement.scores):
            try:
                values = _values_for(score, task)
                if values is None:
                    continue
                key_of = scoring_key if score.normalise is None else raw_key
                key_of.append((position, score.signature(task)))
            except Exception as error:
                raise plugin_error(name, "node_scores", error) from error
            if score.normalise is None:
                kind.scores.append((name, score.weight, values))
                kind.plain_scores.append((name, score))
            else:
                kind.normalised.append((name, score, values))
            self._watch(kind, name, score, task)
        kind.scoring_key = tuple(scoring_key)
        if kind.normalised and all(s.reads is Reads.DESCRIPTION for _, s, _ in kind.normalised):
            kind.known_raw = self._raw_scores.of(tuple(raw_key), kind.compute_raw)
        kind.has_scores_by_state = kind.is_watched and all(
            score.hints.state is not None for _, score in kind.plain_scores
        )
        kind.is_scored_by_state = (
            kind.has_scores_by_state and not kind.watches and not kind.normalised
        )
        if kind.is_scored_by_state:
            kind.score_cells = _cells_of(kind.plain_scores)
        return kind

    def nodes_changed(self, slots: Collection[int]) -> bool:
        """Process added, removed or changed nodes; return False if that is not possible.

        It is not possible with functions that read the whole cluster: it is not known which of
        their answers on other nodes stay the same.
        """
        if any(kind.watches for kind in self._kinds):
            return False
        self._accepted_nodes.nodes_changed(slots)
        self._raw_scores.nodes_changed(slots)
        for kind in self._kinds:
            self._settle(kind)
        return True

    def _settle(self, kind: EquivalenceClass) -> None:
        """Update which descriptions a class accepts, and which checks reject any node."""
        described = [each for _, _, each in kind.all_checks if each is not None]
        kind.accepts_by_description = self._accepted_nodes.by_all(described)
        kind.checks = [
            (name, check) for name, check, each in kind.all_checks if each is None or each.refuses
        ]
        accepts = kind.accepts_by_description
        kind.only_slots = list(accepts) if isinstance(accepts, FewSlots) else None

    @staticmethod
    def _watch(
        kind: EquivalenceClass, name: str, function: Predicate | NodeScore, task: TaskState
    ) -> None:
        if function.reads is not Reads.CLUSTER:
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

    def _described(
        self, name: str, predicate: Predicate, check: NodeCheck, task: TaskState
    ) -> DescriptionCheck:
        """Return the answers of a predicate on all descriptions for tasks like this one.

        Classes with different requests mostly have the same constraints, so the answers are
        cached by constraint.
        """
        key = (id(predicate), predicate.signature(task))
        known = self._descriptions.get(key)
        if known is None:
            known = self._descriptions[key] = self._accepted_nodes.check(
                name, predicate, check, task
            )
        return known


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


def _cells_of(scores: Sequence[tuple[str, NodeScore]]) -> list[tuple[str, ScoreCells]] | None:
    """Return the cells of each score, with its plugin; None: not all can be bounded."""
    cells: list[tuple[str, ScoreCells]] = []
    for name, score in scores:
        if score.hints.cells is None or score.weight < 0:
            return None
        cells.append((name, score.hints.cells))
    return cells


def fit_check(request: Vector) -> FitCheck:
    """Return a function that checks whether `request` fits an amount, specialised for speed.

    Dimensions that are not requested are ignored.
    """
    wanted = [(dimension, amount) for dimension, amount in enumerate(request) if amount >= EPSILON]
    if not wanted:
        return lambda _there: True
    if len(wanted) == 1:
        ((first, a),) = wanted
        return lambda there: a - there[first] < EPSILON
    if len(wanted) == 2:  # noqa: PLR2004
        (first, a), (second, b) = wanted
        return lambda there: a - there[first] < EPSILON and b - there[second] < EPSILON
    (first, a), (second, b), *others = wanted

    def check(there: Vector) -> bool:
        if a - there[first] >= EPSILON or b - there[second] >= EPSILON:
            return False
        return all(amount - there[dimension] < EPSILON for dimension, amount in others)

    return check
