"""What the opened plugins of a cycle say together; defines the meaning of tiers.

For example `overused`: its row in `RULES` (`batchsched.session.points`) says that an answer is a
bool, that the first plugin to say True decides, and that `PluginSet` always has an attribute of
this name: a function made by the row's rule from the methods `overused` of those plugins that have
one. An action asks `session.plugins.overused(queue)`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial
from itertools import combinations
from typing import Any, Protocol, TypeVar, cast

from batchsched.errors import PluginError, SnapshotError, plugin_error, problem_of
from batchsched.model.reasons import NOT_RECLAIMABLE, JobCondition, Unfit, not_reclaimable
from batchsched.model.result import QueueOutcome
from batchsched.model.validation.values import shown
from batchsched.plugin.candidates import NodeSet, SecondTry
from batchsched.plugin.claims import Claim, ClaimTerms
from batchsched.plugin.extension_points import Changes, Refused, Verdict
from batchsched.plugin.node_functions import Chooser, EvictionHints, NodeScore, Predicate, Reads
from batchsched.plugin.session_view import SessionView
from batchsched.session.points import (
    RULES,
    Attribute,
    ConfiguredPlugin,
    Named,
    OpenedPlugin,
    open_plugin,
    takes_need,
)
from batchsched.session.victims import Judges, Point, RecentStarts, Victims
from batchsched.state.needs import Need
from batchsched.state.records import JobState, NodeState, QueueState, SortKey, TaskState
from batchsched.state.shortcuts import Shortcut
from batchsched.state.units import EvictionUnit
from batchsched.trace import Teller

GANG = "gang"
"""The plugin that protects tasks only for the sake of the other tasks of their job."""

PRIORITY = "priority"
"""The plugin with which priorities of jobs count."""


ItemT = TypeVar("ItemT")

_VOTES = frozenset(point for point, rule in RULES.items() if rule.is_vote)
_REFUSING_NOTHING = frozenset(
    ("hints", *(point for point, rule in RULES.items() if not rule.may_refuse))
)


# What holds whatever plugins say

UNRECLAIMABLE = "Queue.reclaimable"
"""Stands for a plugin where queues themselves protect tasks from reclaim."""


class UnreclaimableQueues:
    """Protects the tasks of queues that are not reclaimable, and of those below, from reclaim."""

    def __init__(self, queues: Iterable[QueueState]) -> None:
        self._are_there = any(queue.kept_by is not None for queue in queues)

    def judges(self, point: str) -> Sequence[OpenedPlugin]:
        """Return it as a judge at the point of reclaim, if there are such queues; else nothing."""
        if point != "reclaimable" or not self._are_there:
            return ()
        hints = EvictionHints(claimant_key=lambda _claimant: 0)
        return (OpenedPlugin(UNRECLAIMABLE, -1, self, frozenset({point}), hints),)

    @staticmethod
    def reclaimable(_claimant: TaskState, candidates: Sequence[TaskState], /) -> Sequence[Verdict]:
        """Protect candidates of these queues, and leave the others to plugins."""
        return [Verdict.PROTECTED if _keeper(each) else Verdict.NO_SAY for each in candidates]

    @staticmethod
    def reasons(candidates: Sequence[TaskState]) -> Sequence[str]:
        """Return why each of some candidates is protected."""
        keepers = map(_keeper, candidates)
        return ["" if keeper is None else not_reclaimable(keeper.name) for keeper in keepers]


def _keeper(task: TaskState) -> QueueState | None:
    return None if task.job is None or task.job.queue is None else task.job.queue.kept_by


# What plugins say together


class _QueueKey(Protocol):
    def __call__(self, queue: QueueState, need: Need | None = None, /) -> SortKey:
        """Return the key of a queue."""
        ...


class PluginSet:
    """The combined answers of all plugins of one cycle.

    Raises:
        PluginError: a plugin raised an exception when it was opened, or its `open`
            returned an object without extension points.

    """

    job_order_key: Callable[[JobState], SortKey]
    """Returns the key of a job in job order; the smallest comes first."""
    queue_order_key: _QueueKey
    """Returns the key of a queue in queue order, given the need of the next job below it, which
    counts for plugins that rank queues by need; the smallest comes first."""
    job_valid: Callable[[JobState], JobCondition | None]
    """Returns why a job is invalid, or None."""
    job_ready: Callable[[JobState], bool]
    """Returns whether a job's allocated tasks may be bound."""
    job_pipelined: Callable[[JobState], bool]
    """Returns whether the promises to a job are enough for it to start."""
    job_condition_ready: Callable[[JobState], bool]
    """Returns whether a job is ready or conditionally ready."""
    overused: Callable[[QueueState], bool]
    """Returns whether a queue has its deserved share."""
    allocatable: Callable[[QueueState, Need], Unfit | None]
    """Returns why a queue may not allocate a need, or None."""
    most_allocatable: Callable[[QueueState], Sequence[float] | None]
    """Returns the most that a queue may have, whatever leaves, or None."""
    queue_share: Callable[[QueueState], tuple[Sequence[float], Sequence[float]] | None]
    """Returns what a queue deserves and has, if a plugin knows."""
    node_order_on_resource: Callable[[TaskState, NodeState], float]
    """Returns the sum of all scores for the room of a node for a task."""
    may_claim: Callable[[JobState], bool]
    """Returns whether others may be evicted for a job."""
    node_key: Callable[[TaskState, NodeState], tuple[int, ...]] | None
    """Returns the key by which a node is ranked before scores, if a plugin has any."""
    node_key_signature: Callable[[TaskState], Hashable] | None
    """Returns all that the key reads of the task; None: it may read anything."""
    claim_refusal: Callable[[JobState], Refused | None] | None
    """Returns why others may not be evicted for a job, if a plugin says so."""
    may_leave_together: Callable[[TaskState, Collection[TaskState], bool], bool] | None
    """Returns whether tasks may all leave for a claimant, if a plugin judges sets of evictions."""
    eviction_price: Callable[[TaskState], Fraction] | None
    """Returns what the eviction of a task costs, if a plugin ranks victims by it."""
    on_turn_begin: Callable[[JobState], None] | None
    """Tells that the turn of a job begins, if a plugin wants to know."""
    on_turn_end: Callable[[JobState], None] | None
    """Tells that the turn of a job ends, if a plugin wants to know."""
    jobs_admitted: Callable[[], None]
    """Tells plugins that the jobs of the session are known."""
    surplus_weights: Callable[[Sequence[QueueState], int], Sequence[int]] | None
    """Returns the weights by which queues share the surplus, if a plugin has any."""
    past_use_key: Callable[[QueueState, Need | None], float] | None
    """Returns the key of a queue by past use, if a plugin counts it."""
    predicates: list[Named[Predicate]]
    """All predicates, in the order of evaluation, with their plugins' names."""
    candidate_nodes: list[Named[Callable[[Need, NodeSet], Iterable[NodeSet] | Unfit | None]]]
    """The functions that offer sets of nodes, with their plugins' names."""
    second_try: list[Named[Callable[[Need], SecondTry | None]]]
    """The functions that say how a need is placed once more, with their plugins' names."""
    domains: Callable[[], list[Named[NodeSet]]]
    """Returns the sets of nodes of which it is kept what they hold."""
    group_order_key: Callable[[Need], SortKey]
    """Returns the key of a group's need; the smallest is tried first."""

    def __init__(
        self,
        plugins: Sequence[ConfiguredPlugin],
        view: SessionView,
        teller: Teller | None = None,
    ) -> None:
        self._configured = plugins
        self._teller = teller
        self._keyed: list[TaskState] = []
        """The tasks with cached keys in task order, if they must be computed again."""
        self.opened = [open_plugin(each, view) for each in plugins]
        """In configured order."""
        self._compile(view)

    def resume(self, view: SessionView, changes: Changes) -> frozenset[str]:
        """Resume each plugin, or open it again.

        Returns:
            The extension points of the plugins that were opened again.

        """
        anew: set[str] = set()
        for position, configured in enumerate(self._configured):
            known = self.opened[position]
            resume = getattr(known.object, "resume", None)
            try:
                if resume is not None and resume(changes) is True:
                    continue
            except SnapshotError:  # what it is given is wrong, not the plugin
                raise
            except Exception as error:
                raise plugin_error(configured.name, "resume", error) from error
            opened = self.opened[position] = open_plugin(configured, view)
            anew |= known.points | opened.points
        if "task_order_key" in anew:
            self.forget_keys(view)
        if anew:
            self._compile(view)
        return frozenset(anew)

    # Signatures are not checked; a wrong one fails at the first call. Checking protocols with
    # `isinstance` would take half of the time of opening.

    def having(self, point: str) -> list[OpenedPlugin]:
        """Return the plugins for which an extension point is enabled, in configured order."""
        return self._having.get(point, [])

    def _on(self, point: str) -> list[Named[Any]]:
        """Return the enabled functions of an extension point, with their plugins' names."""
        return [(opened.name, getattr(opened.object, point)) for opened in self.having(point)]

    def _asking(self, point: str) -> Any:
        """Return one function that asks all plugins and combines their answers by the rule."""
        tiers: dict[int, list[Named[Any]]] = {}
        for opened in self.having(point):
            tiers.setdefault(opened.tier, []).append((opened.name, getattr(opened.object, point)))
        rule = RULES[point]
        return rule.combine(rule, point, [tiers[tier] for tier in sorted(tiers)])

    def forget_keys(self, view: SessionView) -> None:
        """Drop the cached keys of tasks, because other plugin objects compute them from now on."""
        # The keys of plugins that support `resume` were not noted.
        for task in self._keyed if self._forgets_keys else view.tasks.values():
            task.order_key = None
        self._keyed.clear()

    def _compile(self, view: SessionView) -> None:
        self._having: dict[str, list[OpenedPlugin]] = {}
        for opened in self.opened:
            for point in opened.points:
                self._having.setdefault(point, []).append(opened)
        asking, has = self._asking, self.having
        for point, rule in RULES.items():
            if rule.attribute is not Attribute.NONE:
                is_asked = rule.attribute is Attribute.ALWAYS or has(point)
                setattr(self, point, asking(point) if is_asked else None)
        # Orders
        self._need_order_key: Callable[[Need], SortKey] = asking("need_order_key")
        self._task_order_key: Callable[[TaskState], SortKey] = asking("task_order_key")
        self.job_order_shares: Sequence[Callable[[JobState], Hashable]] = [
            *asking("job_order_shares")().values()
        ]
        """Return what keys of jobs read beside the job: equal values are ranked anew together."""
        self._forgets_keys = any(
            not hasattr(opened.object, "resume") for opened in has("task_order_key")
        )
        self.orders_by_need = any(takes_need(key) for _, key in self._on("queue_order_key"))
        """Whether any plugin ranks sibling queues by need."""
        self.orders_jobs_by_need = self.orders_by_need and bool(has("need_order_key"))
        """Whether jobs of a queue are ranked by need first."""
        # Jobs
        voting = [opened for opened in self.opened if not _VOTES.isdisjoint(opened.points)]
        self.vote_on_jobs_alone = all(
            getattr(opened.object, "votes_on_jobs_alone", False) is True for opened in voting
        )
        """Whether all votes depend on the job alone; see `Resumes`."""
        self.refuse_alike = all(
            getattr(opened.object, "refuses_alike", False) is True
            for opened in self.opened
            if not opened.points <= _REFUSING_NOTHING
        )
        """Whether all plugins refuse to jobs what they refuse to earlier ones that are alike."""
        # Queues
        self.limits_queues = bool(has("allocatable"))
        """Whether any plugin limits what queues may allocate."""
        self._queue_outcomes: Callable[
            [Callable[[TaskState], SortKey]], Mapping[str, QueueOutcome] | None
        ] = asking("queue_outcomes")
        view.plugins_opened(
            self.task_order_key,
            self.surplus_weights,
            self.past_use_key,
            self.protects_any,
            self.node_order_on_resource,
        )
        # Evictions
        self.spares_first = any(
            getattr(opened.object, "spares_first", False) is True
            for opened in has("may_leave_together")
        )
        """Whether searches are made without what is allowed at need alone, first."""
        self._kept_queues = UnreclaimableQueues(view.queues.values())
        self.judges = {
            point: Judges(
                [*self._kept_queues.judges(point), *has(point)],
                point,
                view.unit_of,
                uses_hints=Shortcut.ROOM not in view.plain,
                by_priority=any(opened.name == PRIORITY for opened in self.opened),
                teller=self._teller,
            )
            for point in ("preemptable", "reclaimable", "revocable")
        }
        """The plugins with verdicts on evictions, by extension point."""
        self.preemptable = self.judges["preemptable"].victims
        """Returns the candidates that may be evicted for a task of their own queue."""
        self.reclaimable = self.judges["reclaimable"].victims
        """Returns the candidates that may be evicted for a task of another queue."""
        self.has_claims = bool(has("claim"))
        """Whether a plugin determines what queues may reclaim."""
        self._claim: Callable[[Need, ClaimTerms], Claim | Unfit] = asking("claim")
        self._compile_nodes()
        # Events
        self.allocate_listeners: tuple[Callable[[TaskState], None], ...] = (
            (asking("on_allocate"),) if has("on_allocate") else ()
        )
        """To call with each task that was placed."""
        self.deallocate_listeners: tuple[Callable[[TaskState], None], ...] = (
            (asking("on_deallocate"),) if has("on_deallocate") else ()
        )
        """To call with each task that was evicted, or whose placement was undone."""
        self._close: Callable[[], Iterable[Named[tuple[JobState, JobCondition]]]] = asking("close")

    def _compile_nodes(self) -> None:
        asking = self._asking
        for point, rule in RULES.items():
            if rule.attribute is Attribute.LISTED:
                setattr(self, point, asking(point)())
        self.swayed = [
            each
            for each in self.predicates
            if each[1].curable is not True and each[1].reads is not Reads.DESCRIPTION
        ]
        """Those of them that may reject a node because others leave, or overlook who comes."""
        scores: list[Named[NodeScore]] = asking("node_scores")()
        self.node_scores = [(name, score) for name, score in scores if score.weight]
        """All scores with a weight other than 0, with their plugins' names."""
        signatures: Mapping[str, Callable[[TaskState], Hashable]] = asking("choice_signature")()
        self.choosers = [
            Chooser(name, choose, signatures.get(name))
            for name, choose in asking("choose")().items()
        ]
        """Those who choose for tasks on nodes."""
        offering = [opened.object for opened in self.having("candidate_nodes")]
        self.sets_by_room = all(getattr(each, "sets_by_room", False) is True for each in offering)
        """Whether no set is offered for a need again until a node takes more of its tasks."""
        told = [getattr(each, "may_offer_sets", None) for each in offering]
        asked: list[Callable[[JobState], bool]] = [each for each in told if each is not None]
        self._may_offer_sets = asked if len(asked) == len(told) else None

    def may_offer_sets(self, job: JobState) -> bool:
        """Return whether sets of nodes may be offered for what a job needs. O(its tasks)."""
        if self._may_offer_sets is None:
            return True
        try:
            for may_offer in self._may_offer_sets:
                if may_offer(job):
                    return True
        except Exception as error:
            names = [name for name, _ in self.candidate_nodes]
            raise plugin_error(" or ".join(names), "may_offer_sets", error) from error
        return False

    def names_on(self, point: str) -> list[str]:
        """Return the plugins for which an extension point is enabled, in the order of calls."""
        return [opened.name for opened in self.having(point)]

    def need_order_key(self, need: Need | None) -> SortKey:
        """Return the key of a need, which ranks jobs before job order; None is the smallest."""
        return () if need is None else self._need_order_key(need)

    def task_order_key(self, task: TaskState) -> SortKey:
        """Return the key of a task in task order; the smallest comes first. It is cached."""
        if task.order_key is None:
            task.order_key = self._task_order_key(task)
            if self._forgets_keys:
                self._keyed.append(task)
        return task.order_key

    def victim_key(self, task: TaskState) -> SortKey:
        """Return the key of a task in victim order; the largest leaves first.

        It is that of task order, but with what its eviction costs before the ties.
        """
        key = self.task_order_key(task)
        if self.eviction_price is None:
            return key
        *keys, created, uid = cast("tuple[SortKey, ...]", key)
        return (*keys, -self.eviction_price(task), created, uid)

    def protects_any(self, tasks: Sequence[TaskState]) -> bool:
        """Return whether a plugin other than gang protects any of some tasks for ever.

        That is from every claim. The first one stands for the claimant, of which such protection
        must not depend.
        """
        judges = self.judges["reclaimable"]
        return judges.protects_any(tasks, tasks[0], but=(GANG,), for_ever=True)

    def claim(self, need: Need, recent: RecentStarts | None = None) -> Claim | Unfit:
        """Return what may be reclaimed for a need, without `recent`, or why nothing may."""
        claimant = need.tasks[0]

        def protected_by(unit: EvictionUnit) -> str | None:
            return self.judges["reclaimable"].protected_by(
                claimant, unit.victims, is_whole_job=not unit.is_surplus, recent=recent
            )

        def why_protected(unit: EvictionUnit) -> str:
            name = protected_by(unit) or ""
            [words] = self.verdict_reasons(name, claimant, unit.victims[:1], Verdict.PROTECTED)
            return words or f"protected by {name}"

        victim_key = None if self.eviction_price is None else self.victim_key
        terms = ClaimTerms(self.task_order_key, why_protected, protected_by, victim_key)
        return self._claim(need, terms)

    def revocable(self, claimant: TaskState, candidates: Sequence[TaskState]) -> Victims:
        """Return the backfill tasks that may be evicted for a task promised their resources."""
        if not self.having("revocable"):
            return Victims(candidates)
        return self.judges["revocable"].victims(claimant, candidates)

    def each_refused(
        self, claimant: TaskState, candidates: Sequence[TaskState], point: Point
    ) -> Iterator[tuple[TaskState, Refused]]:
        """Yield the candidates that a rule protects, with the rule, as far as plugins name any.

        What queues themselves protect from reclaim, no plugin is asked about.
        """
        if self._kept_queues.judges(point):
            of_keepers = [task for task in candidates if _keeper(task)]
            yield from ((task, Refused(NOT_RECLAIMABLE)) for task in of_keepers)
            candidates = [task for task in candidates if not _keeper(task)]
        ends = dict(self._on("refused_until"))
        for name, rules in self._on("refused_by"):
            try:
                told = [*rules(claimant, candidates)]
                until = ends[name](claimant, candidates) if name in ends else [None] * len(told)
                found = [*zip(candidates, told, until, strict=True)]
            except Exception as error:
                raise plugin_error(name, "refused_by", error) from error
            for task, rule, end in found:
                if rule:
                    yield task, Refused(rule, end)

    def verdict_reasons(
        self, name: str, claimant: TaskState, candidates: Sequence[TaskState], verdict: Verdict
    ) -> Sequence[str]:
        """Return a plugin's explanation of this verdict on each candidate; may be empty."""
        if name == UNRECLAIMABLE:
            return self._kept_queues.reasons(candidates)
        explain = dict(self._on("verdict_reasons")).get(name)
        if explain is None:
            return [""] * len(candidates)
        try:
            own: Sequence[str] = explain(claimant, candidates, verdict)
        except Exception as error:
            raise plugin_error(name, "verdict_reasons", error) from error
        if len(own) != len(candidates):
            count = len(candidates)
            problem = f"expected one answer for each of {count} candidates, got {len(own)}"
            raise PluginError(name, "verdict_reasons", problem)
        return own

    def queue_outcomes(self) -> Mapping[str, QueueOutcome]:
        """Return the outcomes of queues by name; empty if no plugin reports them."""
        return self._queue_outcomes(self.task_order_key) or {}

    def close(self) -> dict[str, JobCondition]:
        """Close all plugins in configured order; return the jobs that could not be scheduled."""
        conditions: dict[str, JobCondition] = {}
        for _, (job, condition) in self._close():
            conditions.setdefault(job.uid, condition)
        return conditions

    def unordered_keys(
        self, jobs: Iterable[JobState], queues: Iterable[QueueState]
    ) -> PluginError | None:
        """Return an error for the first plugin whose keys cannot be compared, or None.

        Called only after a failure. It compares all pairs of keys of each plugin: O(n squared) for
        n jobs, queues or tasks.
        """
        on, by_job = self._on, {f"job {job.uid!r}": job for job in jobs}
        by_queue = {f"queue {queue.name!r}": queue for queue in queues}
        by_task = {f"task {task.uid!r}": task for job in by_job.values() for task in job.tasks}
        without_need: list[Named[Callable[[QueueState], object]]] = [
            (name, partial(_with_no_need, key) if takes_need(key) else key)
            for name, key in on("queue_order_key")
        ]
        return (
            _first_fault("job_order_key", on("job_order_key"), by_job)
            or _first_fault("queue_order_key", without_need, by_queue)
            or _first_fault("task_order_key", on("task_order_key"), by_task)
        )


def _with_no_need(key: Callable[[QueueState, Need | None], object], queue: QueueState) -> object:
    return key(queue, None)


def _first_fault(
    point: str,
    functions: Sequence[Named[Callable[[ItemT], object]]],
    items: Mapping[str, ItemT],
) -> PluginError | None:
    for name, function in functions:
        try:
            keys = [(about, function(item)) for about, item in items.items()]
        except Exception as error:
            return plugin_error(name, point, error)
        for (one, left), (other, right) in combinations(keys, 2):
            try:
                if left != right:  # equal keys are never ordered
                    bool(left < right or right < left)  # type: ignore[operator]
            except Exception as error:
                said = f"the keys of {one} and {other}, {shown(left)} and {shown(right)}"
                return PluginError(name, point, f"{said}, do not compare: {problem_of(error)}")
    return None
