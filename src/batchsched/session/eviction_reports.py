"""Reports why preempt and reclaim found no tasks to evict, at the end of the cycle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from math import inf

from attrs import evolve

from batchsched.model.cluster import TaskStatus
from batchsched.model.reasons import MINIMUM_RUNTIME, EvictionReport, PendingReason, Refusal
from batchsched.model.resources import EPSILON
from batchsched.plugin.extension_points import Verdict
from batchsched.session.outlook import accepts_without, curable_nodes
from batchsched.session.session import Session
from batchsched.session.victims import EvictionScope, EvictionSearch, Judges, RecentStarts
from batchsched.state.records import JobState, NodeState, TaskState
from batchsched.state.vectors import Vector, plus

MOST_ASKED = 1_000
"""About how many nodes and candidates the reports of a cycle evaluate; see `EvictionReports`."""

_REASONS = {
    Verdict.PROTECTED: "protected by {plugin}",
    Verdict.NOT_NOW: "protected for now by {plugin}",
    Verdict.PASS: "not a victim of {plugin}",
    Verdict.WITH_JOB: "only with its job, which may not be evicted as a whole",
    Verdict.VICTIM: "victims of an earlier tier come first",
    Verdict.ALONE: "not a victim of any plugin",
    Verdict.NO_SAY: "not a victim of any plugin",
}
"""Why a candidate is not a victim, where the plugin does not say it."""
_NOT_ENOUGH = "taken and not enough"


def says_of_evictions(session: Session) -> bool:
    """Return whether anybody searched for tasks to evict, or might not claim, in vain."""
    reports = session.reports
    return any(tried.eviction_searches for tried in reports.tasks.values()) or any(
        tried.claims_refused for tried in reports.jobs.values()
    )


def add_eviction_reports(session: Session, reasons: dict[str, PendingReason]) -> None:
    """Add to reasons, by task UID, why no tasks were evicted for tasks that are still pending."""
    by_job: dict[JobState, list[EvictionSearch]] = {}
    for uid, tried in session.reports.tasks.items():
        job = session.ledger.tasks[uid].job
        if tried.eviction_searches and uid in reasons and job is not None:
            by_job.setdefault(job, []).extend(tried.eviction_searches.values())
    _add_refused_claims(session, reasons)
    reports = EvictionReports(session)
    # The most important first.
    for job in sorted(by_job, key=session.plugins.job_order_key):
        for search in sorted(by_job[job], key=lambda s: session.plugins.task_order_key(s.task)):
            report, reason = reports.of(search), reasons[search.task.uid]
            if report is not None:
                evictions = (*reason.evictions, report)
                reasons[search.task.uid] = evolve(reason, evictions=evictions)


def _add_refused_claims(session: Session, reasons: dict[str, PendingReason]) -> None:
    for uid, tried in session.reports.jobs.items():
        for action, refused in tried.claims_refused.items():
            refusal = Refusal(refused.rule, 0, refused.until)
            report = EvictionReport(action=action, nodes=0, candidates=0, refusals=(refusal,))
            for task in session.ledger.jobs[uid].tasks:
                if task.uid in reasons:
                    reason = reasons[task.uid]
                    reasons[task.uid] = evolve(reason, evictions=(*reason.evictions, report))


def refused_until(session: Session) -> float | None:
    """Return when the first ends of what refused evictions for now only; None: nothing did.

    What protects tasks is asked of all that run, not of what a search met, since what is remembered
    skips most of it: only where a search for a task that is still pending found nobody, and where
    something protects for a time. O(running tasks) for each kind of claimant.
    """
    ends = [
        refused.until
        for uid, tried in session.reports.jobs.items()
        for refused in tried.claims_refused.values()
        if refused.until is not None and session.ledger.jobs[uid].count(TaskStatus.PENDING)
    ]
    asked: set[Hashable] = set()
    searches = (
        search
        for tried in session.reports.tasks.values()
        for search in tried.eviction_searches.values()
    )
    for search in searches:
        task, judges = search.task, session.plugins.judges[search.scope.point]
        job = task.job
        if job is None or task.status is not TaskStatus.PENDING:
            continue
        if search.recent is None and not judges.tells_ends:
            continue
        key = judges.claimant_key(task)
        # Its own running tasks are candidates, too, but differently for itself and for others.
        has_any = bool(job.count(TaskStatus.RUNNING) or job.count(TaskStatus.BINDING))
        own = job.uid if has_any or search.scope is EvictionScope.SAME_JOB else ""
        queue = None if job.queue is None else job.queue.name
        claims = (task.uid if key is None else key), queue, own
        about = search.scope, search.recent, claims, job.info.priority
        if about in asked:
            continue
        asked.add(about)
        for node in session.nodes:
            tasks = search.scope.candidates(task, session.running_on(node), judges)
            ends += _ends_for_now(search, judges, tasks) if tasks else ()
    return min(ends, default=None)


def _ends_for_now(
    search: EvictionSearch, judges: Judges, tasks: Sequence[TaskState]
) -> Iterator[float]:
    """Yield when the first of some tasks ceases to be protected, by plugins and by the action."""
    claimant, recent = search.task, search.recent

    def ends(of: Sequence[TaskState]) -> list[float]:
        both = (
            judges.refused_until(claimant, of),
            None if recent is None else recent.refused_until(of),
        )
        return [end for end in both if end is not None]

    if ends(tasks):  # most often there is none, and nothing more is asked
        protected = judges.protects_any
        yield from ends([t for t in tasks if not protected([t], claimant, but=(), for_ever=True)])


def staying_and_free(
    session: Session,
    claimant: TaskState,
    scope: EvictionScope,
    groups: Sequence[Sequence[TaskState]],
    recent: RecentStarts | None,
) -> tuple[Counter[str], list[list[TaskState]]]:
    """Return how many candidates stay, by reason, and the others as they are grouped by node."""
    out: Counter[str] = Counter()
    plugins = session.plugins
    staying, free = plugins.judges[scope.point].staying_and_free(
        claimant, groups, session.in_victim_order, recent
    )
    for (name, verdict), of_plugin in staying.items():
        general = _REASONS[verdict].format(plugin=name)
        for text in plugins.verdict_reasons(name, claimant, of_plugin, verdict):
            out[text or general] += 1
    return out, free


class EvictionReports:
    """Evaluates the candidates on all nodes again, for tasks that stay pending.

    Reports must not make cycles with many failed searches much slower. So after about a thousand
    nodes and candidates (`MOST_ASKED`) further tasks get no report; the most important jobs come
    first. Tasks of a job with the same request count once; all others count even if their report
    is known from another task, so that the selection does not depend on the placement engine.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._asked = 0
        self._counted: set[Hashable] = set()
        self._known: dict[Hashable, EvictionReport] = {}
        self._same_of: dict[Hashable, Hashable] = {}
        """The answers of `_same`, by search and by the task for which it was."""

    def of(self, search: EvictionSearch) -> EvictionReport | None:
        """Return the report of a search; None: there have been enough."""
        task = search.task
        assert task.job is not None
        search_key: Hashable = (
            *(search.action, search.scope, search.may_use_idle, search.recent),
            search.curable,
        )
        counted = (search_key, task.job.uid, task.resreq, task.init_resreq)
        if counted not in self._counted and self._asked >= MOST_ASKED:
            return None
        asked_for = search_key, search.asked_for or task
        same = self._same_of.get(asked_for)
        if same is None:
            same = self._same_of[asked_for] = self._same(search)
        report = self._known.get((search_key, same))
        if report is None:
            report = self._known[search_key, same] = self._find(search)
        if search.beside_promises:
            report = evolve(report, beside_promises=search.beside_promises)
        if counted not in self._counted:
            self._counted.add(counted)
            self._asked += report.nodes + report.candidates
        return report

    def _same(self, search: EvictionSearch) -> Hashable:
        """Return a key shared by searches with the same report."""
        task, session = search.task, self._session
        job = task.job
        assert job is not None
        assert job.queue is not None
        kind = session.placement.kind(task)
        if kind is None:
            return task.uid
        if search.why_not is not None:
            return kind, job.uid
        key = session.plugins.judges[search.scope.point].claimant_key(task)
        if key is None:
            return task.uid  # verdicts may depend on anything about it
        # Its own running tasks are candidates too, but differently for itself and for others.
        has_any = job.count(TaskStatus.RUNNING) or job.count(TaskStatus.BINDING)
        own = job.uid if has_any else ""
        return kind, job.queue.name, own, key

    def _find(self, search: EvictionSearch) -> EvictionReport:
        session, task = self._session, search.task
        searched = list(session.placement.feasible(task))
        refusing = curable_nodes(session, task) if search.curable else []
        searched += refusing
        still_refusing: list[NodeState] = []
        judges = session.plugins.judges[search.scope.point]
        groups = [
            search.scope.candidates(task, session.running_on(node), judges) for node in searched
        ]
        candidates = sum(map(len, groups))
        recent = search.recent
        started: list[TaskState] = []
        if recent is not None:
            started = [one for group in groups for one in group if one in recent]
            groups = [[one for one in group if one not in recent] for group in groups]
        out, is_evictable = self._staying_and_free(search, searched, groups)
        left = [task for group in groups for task in group]
        refusals = self._refusals(search, left, started)
        if recent is not None and started:
            out[recent.text] += len(started)
        asked = {d: amount for d, amount in enumerate(task.init_resreq) if amount >= EPSILON}
        size, best_node, missing = inf, "", dict[int, int]()
        for node, free in zip(searched, is_evictable, strict=True):
            if node in refusing and not accepts_without(session, task, node, free):
                still_refusing.append(node)
                continue
            rooms = self._rooms(search, node, free)
            most = {d: max(amount - room[d] for room in rooms) for d, amount in asked.items()}
            lacking = {d: amount for d, amount in most.items() if amount >= EPSILON}
            part = max((amount / asked[d] for d, amount in lacking.items()), default=0.0)
            # Nodes come in node order: of equals, the first.
            if part < size:
                size, best_node, missing = part, node.name if lacking else "", lacking
        everybody = [one for free in is_evictable for one in free]
        dimensions = session.ledger.dimensions
        amounts = [missing.get(d, zero) for d, zero in enumerate(dimensions.zero)]
        return EvictionReport(
            action=search.action,
            nodes=len(searched),
            candidates=candidates,
            out=out,
            best_node=best_node,
            shortfall=dimensions.resource(amounts),
            refusing=len(still_refusing),
            refusing_elsewhere=sum(
                accepts_without(session, task, node, everybody) for node in still_refusing
            ),
            refusals=refusals,
            most_moves=search.most_moves,
            tries=search.tries,
        )

    def _refusals(
        self,
        search: EvictionSearch,
        candidates: Sequence[TaskState],
        started: Sequence[TaskState],
    ) -> tuple[Refusal, ...]:
        """Return how many candidates each rule refuses, and until when, by rule.

        Args:
            search: the search.
            candidates: those that it asked plugins about.
            started: the others, which it may not evict because they started recently.

        """
        claimant, found = search.task, dict[str, Refusal]()
        if search.recent is not None and started:
            until = search.recent.refused_until(started)
            found[MINIMUM_RUNTIME] = Refusal(MINIMUM_RUNTIME, len(started), until)
        point, plugins = search.scope.point, self._session.plugins
        for _, refused in plugins.each_refused(claimant, candidates, point):
            before = found.get(refused.rule)
            count = 1 if before is None else before.count + 1
            ends = [each.until for each in (refused, before) if each and each.until is not None]
            found[refused.rule] = Refusal(refused.rule, count, min(ends, default=None))
        return tuple(found[rule] for rule in sorted(found))

    def _staying_and_free(
        self,
        search: EvictionSearch,
        searched: Sequence[NodeState],
        groups: Sequence[Sequence[TaskState]],
    ) -> tuple[Counter[str], list[list[TaskState]]]:
        """Return the number of protected candidates by reason, and the others by node."""
        session = self._session
        if search.why_not is None:
            return staying_and_free(session, search.task, search.scope, groups, search.recent)
        out: Counter[str] = Counter()
        free: list[list[TaskState]] = []
        why_not = search.why_not()
        for node, candidates in zip(searched, groups, strict=True):
            group = session.in_victim_order(candidates)
            reasons = why_not(node, group)
            free_words = "" if search.most_moves is not None else _NOT_ENOUGH
            out.update(words for reason in reasons if (words := reason or free_words))
            free.append([one for one, reason in zip(group, reasons, strict=True) if reason is None])
        return out, free

    def _rooms(
        self, search: EvictionSearch, node: NodeState, gone: Sequence[TaskState]
    ) -> list[Vector]:
        """Return the amounts on a node without these tasks, in each of which a task must fit."""
        zero = self._session.ledger.dimensions.zero
        freed = for_good = zero
        for task in gone:
            freed = plus(freed, task.resreq)
            if not task.is_backfill:
                for_good = plus(for_good, task.resreq)
        if node.divergence_count:
            rooms = [plus(node.future_idle, freed), plus(node.eventual, for_good)]
        else:
            rooms = [plus(node.idle, freed) if gone else node.idle]
        if not search.may_use_idle:
            rooms.append(freed)
        return rooms
