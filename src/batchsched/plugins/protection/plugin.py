"""protection: which tasks must not be evicted, or not yet.

Whether a task may leave is asked rule by rule, in this order; the first that refuses is the reason:

1. *not preemptible*: a job that is never evicted, and the core of one of which only the surplus is.
   For ever; whatever else refuses does so for now, and what is protected for now does not use up
   the share of its queue before what is more valuable (`Verdict.NOT_NOW`).
2. the *minimum runtime* of a core, from the last start of its tasks. Surplus may go at any age.
3. *budgets* and *limits*, which are questions about all that leave together (`counted`): asked of a
   task alone they refuse what could not even go by itself.

Before any of that, a job may claim nothing that does not preempt, that waits for a delay, or whose
limits are used up. And what cannot be taken back is not lent.

The rules are those of KAI Scheduler (non-preemptible and semi-preemptible jobs, minimum runtimes),
Kubernetes (PodDisruptionBudgets, preemptionPolicy) and Armada (limits over time), made one.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Sequence
from fractions import Fraction

from attrs import field, frozen

from batchsched.errors import Fault, SnapshotError
from batchsched.model.cluster import Preemptible, TaskStatus
from batchsched.model.reasons import CLAIM_DELAY, MINIMUM_RUNTIME, NEVER_PREEMPTS
from batchsched.plugin.arguments import Arguments
from batchsched.plugin.extension_points import Changes, NothingToDo, Refused, Verdict
from batchsched.plugin.node_functions import EvictionHints
from batchsched.plugin.queues import QueueTree
from batchsched.plugin.session_view import SessionView
from batchsched.plugins.protection.counted import (
    Budgets,
    CountedEvictions,
    Limit,
    all_tasks,
    jobs_of,
    read_limits,
    tasks_once,
)
from batchsched.plugins.protection.rules import (
    NOT_PREEMPTIBLE,
    Cores,
    Costs,
    Lending,
    MinimumRuntimes,
    keeps_loans,
    protects_core,
)
from batchsched.state.records import JobState, TaskState

_OF_JOBS = (NOT_PREEMPTIBLE, MINIMUM_RUNTIME)
"""The rules about the core of a job: its surplus may go."""
_AS_A_WHOLE = "evicted as a whole only, for jobs of higher priority"


def _rule_of_whole(candidate: TaskState, claimant: TaskState) -> str:
    job, mine = candidate.job, claimant.job
    if job is None or not job.info.evict_whole or mine is None or mine.queue is not job.queue:
        return ""
    return "" if _is_below(job, claimant) else _AS_A_WHOLE


@frozen(kw_only=True)
class ProtectionPlugin:
    """Protects jobs from eviction: for ever, for a time, and by what is counted."""

    within_deserved: bool = True
    """Whether what cannot be taken back stays within what queues deserve."""
    claim_delay: float = 0.0
    """For how many seconds jobs wait before they claim, where they say nothing else."""
    preempt_min_runtime: float = 0.0
    """For how many seconds cores stay, where no queue says."""
    reclaim_min_runtime: float = 0.0
    """The same for reclaiming."""
    costs: Costs = field(factory=Costs)
    limits: tuple[Limit, ...] = ()

    @classmethod
    def from_arguments(cls, arguments: Arguments) -> ProtectionPlugin:
        """Read the arguments; times are in seconds.

        ``withinDeserved``, ``claimDelay``, ``preemptMinRuntime``, ``reclaimMinRuntime``, ``cost``
        (``none`` or ``lost-work``), ``costOf`` (a resource), ``restart``, and ``limits``: a list of
        ``{name, scope, most, window, queue}``.
        """

        def seconds(name: str) -> float:
            return arguments.number(name, default=0, minimum=0)

        cost = arguments.choice("cost", ("none", "lost-work"), default="none")
        return cls(
            within_deserved=arguments.boolean("withinDeserved", default=True),
            claim_delay=seconds("claimDelay"),
            preempt_min_runtime=seconds("preemptMinRuntime"),
            reclaim_min_runtime=seconds("reclaimMinRuntime"),
            costs=Costs(
                counts_lost_work=cost == "lost-work",
                resource=arguments.text("costOf", default="cpu"),
                restart=arguments.integer("restart", default=0, minimum=0),
            ),
            limits=read_limits(arguments, "limits"),
        )

    @property
    def says_something(self) -> bool:
        """Whether it protects anything that does not ask for it itself."""
        times = (self.claim_delay, self.preempt_min_runtime, self.reclaim_min_runtime)
        return any(times) or bool(self.limits) or self.costs.counts_lost_work

    def open(self, view: SessionView, /) -> object:
        """Open for one cycle.

        Raises:
            SnapshotError: a limit counts evictions for longer than the snapshot keeps them.

        """
        faults = [
            Fault(
                "evictions_kept",
                f"expected at least {limit.window:g} seconds, the window of limit {limit.name!r} "
                f"of plugin 'protection', got {view.evictions_kept:g}",
            )
            for limit in self.limits
            if limit.window > view.evictions_kept
        ]
        if faults:
            raise SnapshotError(faults)
        runtimes = [
            least
            for queue in view.queues.values()
            for least in (queue.info.preempt_min_runtime, queue.info.reclaim_min_runtime)
        ]
        if (
            self.says_something
            or any(runtimes)
            or view.budgets
            or (self.within_deserved and any(keeps_loans(q.info) for q in view.queues.values()))
            or _any_that_asks(view.jobs.values())
        ):
            return _Protection(self, view)
        return NothingToDo(lambda changes: bool(view.budgets) or _any_that_asks(changes.jobs))


def _any_that_asks(jobs: Collection[JobState]) -> bool:
    """Return whether any job or task asks for protection, or says what its eviction costs.

    Without calls for each: all of them are looked at in each cycle, mostly in vain.
    """
    for job in jobs:
        info = job.info
        if (
            info.preemptible is not Preemptible.ALWAYS
            or not info.preempts
            or info.claim_delay
            or info.evict_whole
        ):
            return True
    return _any_with_cost(jobs)


def _any_with_cost(jobs: Iterable[JobState]) -> bool:
    """Return whether any running task says what its eviction costs."""
    index, running = TaskStatus.RUNNING.index, TaskStatus.RUNNING
    for job in jobs:
        if job.counts[index]:
            for task in job.tasks:
                if task.info.eviction_cost is not None and task.status is running:
                    return True
    return False


class _Protection:
    votes_on_jobs_alone = True
    refuses_alike = True

    def __init__(self, plugin: ProtectionPlugin, view: SessionView) -> None:
        self._plugin = plugin
        self._view = view
        self._tree = QueueTree(queue.info for queue in view.queues.values())
        self._cores = Cores(view)
        self._runtimes = MinimumRuntimes(
            self._tree, plugin.preempt_min_runtime, plugin.reclaim_min_runtime
        )
        self._budgets: Budgets | None = None
        if view.budgets:
            tasks = all_tasks(view.jobs.values(), view.other_tasks.values())
            self._budgets = Budgets(view.budgets, tasks)
        self._limits: CountedEvictions | None = None
        if plugin.limits:
            self._limits = CountedEvictions(plugin.limits, self._tree, view.now, self._evicted_now)
            self._limits.read(view.past_evictions)
        jobs = view.jobs.values()
        keeps_any = any(map(protects_core, jobs))
        self._has_whole_jobs = any(job.info.evict_whole for job in jobs)
        # An extension point that is None is none: most clusters have little to protect.
        queues = self._tree.queues
        counts = self._budgets is not None or self._limits is not None
        judges = keeps_any or counts or self._has_whole_jobs
        has_times = plugin.preempt_min_runtime or any(q.preempt_min_runtime for q in queues)
        self.preemptable = self._preemptable if judges or has_times else None
        has_times = plugin.reclaim_min_runtime or any(q.reclaim_min_runtime for q in queues)
        self.reclaimable = self._reclaimable if judges or has_times else None
        self.may_leave_together = self._may_leave_together if counts else None
        delays = plugin.claim_delay or any(job.info.claim_delay for job in jobs)
        claims = delays or self._limits is not None or not all(job.info.preempts for job in jobs)
        self.may_claim = self._may_claim if claims else None
        self.claim_refusal = self._claim_refusal if claims else None
        self._lending: Lending | None = None
        if plugin.within_deserved:
            lending = Lending(view, self._tree, self._cores)
            if keeps_any or lending.limits_queues:
                self._lending = lending
        self.allocatable = None if self._lending is None else self._lending.allocatable
        listens = keeps_any or self.preemptable or self.reclaimable or self._lending
        self.on_allocate = self._on_allocate if listens else None
        self.on_deallocate = self._on_deallocate if listens else None
        costs = plugin.costs.counts_lost_work or _any_with_cost(jobs)
        self.eviction_price = self._eviction_price if costs else None

    def resume(self, _changes: Changes, /) -> bool:
        return False  # what is counted may have changed anywhere, and little is kept

    def _evicted_now(self) -> Sequence[tuple[JobState, JobState]]:
        return self._view.evicted_now()  # each session says it anew

    # May the job claim?

    def _may_claim(self, job: JobState, /) -> bool:
        return self._claim_refusal(job) is None

    def _claim_refusal(self, job: JobState, /) -> Refused | None:
        info = job.info
        if not info.preempts:
            return Refused(NEVER_PREEMPTS)
        delay = self._plugin.claim_delay if info.claim_delay is None else info.claim_delay
        if delay:
            since = max(info.waits_since, info.last_evicted or info.waits_since)
            if self._view.now < since + delay:
                return Refused(CLAIM_DELAY, since + delay)
        return None if self._limits is None else self._limits.refuses_claims_of(job)

    # Who may be evicted

    def _preemptable(
        self, claimant: TaskState, candidates: Sequence[TaskState], /
    ) -> Sequence[Verdict]:
        return self._verdicts(claimant, candidates, reclaims=False)

    def _reclaimable(
        self, claimant: TaskState, candidates: Sequence[TaskState], /
    ) -> Sequence[Verdict]:
        return self._verdicts(claimant, candidates, reclaims=True)

    def _verdicts(
        self, claimant: TaskState, candidates: Sequence[TaskState], *, reclaims: bool
    ) -> Sequence[Verdict]:
        """Return the verdicts on candidates; of a core's job, as many may go as are its surplus."""
        spared: dict[str, int] = {}
        verdicts: list[Verdict] = []
        for candidate in candidates:
            job = candidate.job
            verdict = Verdict.NO_SAY
            if job is not None:
                refused = self._refused(candidate, claimant, reclaims=reclaims)
                if refused is not None and refused.rule in _OF_JOBS:
                    verdict = self._of_job(candidate, refused, spared)
                elif refused is not None:
                    verdict = Verdict.NOT_NOW
                elif job.info.evict_whole:
                    may_go = reclaims or _is_below(job, claimant)
                    verdict = Verdict.WITH_JOB if may_go else Verdict.PROTECTED
            verdicts.append(verdict)
        return verdicts

    def _of_job(self, candidate: TaskState, refused: Refused, spared: dict[str, int]) -> Verdict:
        """Return the verdict on a task of a job whose core stays."""
        job = candidate.job
        assert job is not None
        kept = Verdict.PROTECTED if refused.rule == NOT_PREEMPTIBLE else Verdict.NOT_NOW
        if job.info.preemptible is Preemptible.NEVER:
            return kept
        if job.groups is not None:
            return kept if self._cores.has(candidate) else Verdict.NO_SAY
        spared[job.uid] = spared.get(job.uid, 0) + 1
        return Verdict.ALONE if spared[job.uid] <= job.spare else kept

    def _refused(
        self, candidate: TaskState, claimant: TaskState, *, reclaims: bool
    ) -> Refused | None:
        """Return the first rule that protects a task, or the core of its job."""
        job = candidate.job
        assert job is not None
        if protects_core(job):
            return Refused(NOT_PREEMPTIBLE)
        least = self._runtimes.least(job, claimant, reclaims=reclaims)
        if least > 0:
            start = self._cores.start(job)
            if start is not None and self._view.now < start + least:
                return Refused(MINIMUM_RUNTIME, start + least)
        return self._counted(claimant, (candidate,), hard=True)

    def _counted(
        self, claimant: TaskState, tasks: Collection[TaskState], *, hard: bool
    ) -> Refused | None:
        """Return the budget or the limit that keeps tasks from leaving together."""
        if self._budgets is not None:
            budget = self._budgets.broken(tasks, hard=hard)
            if budget is not None:
                return Refused(budget.rule)
        if self._limits is None or not hard or claimant.job is None:
            return None
        return self._limits.refuses(claimant.job, jobs_of(tasks))

    def _may_leave_together(
        self, claimant: TaskState, tasks: Iterable[TaskState], spares: bool, /
    ) -> bool:
        once: Collection[TaskState] = tasks_once(tasks)
        several = tuple(once)
        if self._counted(claimant, several, hard=True) is not None:
            return False
        return not spares or self._counted(claimant, several, hard=False) is None

    @property
    def spares_first(self) -> bool:
        """Whether searches are made without what `may_leave_together` spares, first."""
        return self._budgets is not None and self._budgets.has_soft

    def refused_until(
        self, claimant: TaskState, candidates: Sequence[TaskState], /
    ) -> Sequence[float | None]:
        """Return when what keeps each candidate for now ends."""
        found = self._each_refused(claimant, candidates)
        return [None if refused is None else refused.until for refused in found]

    def refused_by(self, claimant: TaskState, candidates: Sequence[TaskState], /) -> Sequence[str]:
        """Return the rule that protects each candidate; empty: none does."""
        found = zip(candidates, self._each_refused(claimant, candidates), strict=True)
        return [
            _rule_of_whole(each, claimant) if refused is None else refused.rule
            for each, refused in found
        ]

    def _each_refused(
        self, claimant: TaskState, candidates: Sequence[TaskState]
    ) -> list[Refused | None]:
        mine = None if claimant.job is None else claimant.job.queue
        return [
            None
            if each.job is None
            else self._refused(each, claimant, reclaims=each.job.queue is not mine)
            for each in candidates
        ]

    def verdict_reasons(
        self, claimant: TaskState, candidates: Sequence[TaskState], _verdict: Verdict, /
    ) -> Sequence[str]:
        mine = None if claimant.job is None else claimant.job.queue
        rules = zip(candidates, self.refused_by(claimant, candidates), strict=True)
        return [
            self._runtimes.text(each.job, claimant, reclaims=each.job.queue is not mine)
            if rule == MINIMUM_RUNTIME and each.job is not None
            else "not preemptible"
            if rule == NOT_PREEMPTIBLE
            else rule
            for each, rule in rules
        ]

    def hints(self) -> EvictionHints:
        return EvictionHints(claimant_key=self.claimant_key)

    def claimant_key(self, claimant: TaskState, /) -> Hashable:
        job = claimant.job
        if job is None:
            return None
        counted = None if self._budgets is None else self._budgets.state
        key = job.info.queue, job.info.priority if self._has_whole_jobs else None, counted
        return key if self._limits is None else (*key, self._limits.state_for(job))

    # What an eviction costs

    def _eviction_price(self, task: TaskState, /) -> Fraction:
        job = task.job
        assert job is not None
        tasks: Iterable[TaskState] = (task,)
        if self._cores.has(task):  # all of the job leaves with it
            tasks = [each for each in job.tasks if each.status is TaskStatus.RUNNING] or tasks
        costs, now = self._plugin.costs, self._view.now
        names = self._view.dimensions.names
        dimension = names.index(costs.resource) if costs.resource in names else None
        unit: list[tuple[int, int]] = []
        for each in tasks:
            amount = 0 if dimension is None else each.resreq[dimension]
            unit.append((costs.of_task(each, now, amount), amount))
        return costs.price(unit)

    # Events

    def _on_allocate(self, task: TaskState, /) -> None:
        self._changed(task, 1)

    def _on_deallocate(self, task: TaskState, /) -> None:
        self._changed(task, -1)

    def _changed(self, task: TaskState, sign: int) -> None:
        if self._limits is not None:
            self._limits.changed()
        job = task.job
        if job is None:
            return
        self._cores.changed(job)
        if self._lending is not None:
            self._lending.changed(task, job, sign)
        if self._budgets is not None and task.info.status.occupies:
            self._budgets.note(task)


def _is_below(job: JobState, claimant: TaskState) -> bool:
    # Otherwise two equal jobs could evict each other in turn.
    return claimant.job is not None and claimant.job.info.priority > job.info.priority
