"""Why preempt and reclaim found nobody to evict, found out at the end of the cycle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from batchsched.model.eviction_report import EvictionReport
from batchsched.model.resources import EPSILON, Resource
from batchsched.session.eviction_search import EvictionSearch
from batchsched.session.session import Session
from batchsched.state.records import NodeState, TaskState
from batchsched.state.vectors import Vector, minus, plus

__all__ = ["MOST_ASKED", "EvictionReports"]

MOST_ASKED = 2_000
"""About how many nodes and candidates the reports of one cycle ask; see `EvictionReports`."""


class EvictionReports:
    """Asks the plugins anew about the candidates on all nodes, for tasks that stay pending.

    Cycles in which many tasks search in vain must not cost much more for it. So once a few
    thousand nodes and candidates were asked about (`MOST_ASKED`), further tasks get no report:
    those of the most important jobs have theirs.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._asked = 0
        self._known: dict[object, EvictionReport] = {}

    def of_all(self, searches: Iterable[EvictionSearch]) -> dict[str, tuple[EvictionReport, ...]]:
        """Return reports by the UID of the task, in the order of the searches."""
        reports: dict[str, tuple[EvictionReport, ...]] = {}
        for search in searches:
            report = self._of(search)
            if report is not None:
                uid = search.task.uid
                reports[uid] = (*reports.get(uid, ()), report)
        return reports

    def _of(self, search: EvictionSearch) -> EvictionReport | None:
        task = search.task
        assert task.job is not None
        kind = self._session.placement.kind(task)
        key = (
            task.uid if kind is None else kind,
            task.job.uid,
            search.action,
            search.point,
            search.among,
            search.may_use_idle,
        )
        known = self._known.get(key)
        if known is None and self._asked < MOST_ASKED:
            known = self._known[key] = self._find(search)
        return known

    def _find(self, search: EvictionSearch) -> EvictionReport:
        session, task = self._session, search.task
        out: Counter[str] = Counter()
        best: tuple[float, str, Vector] | None = None
        searched = list(session.placement.feasible(task))
        groups = [session.in_victim_order(search.candidates_on(node)) for node in searched]
        why = session.plugin_set.why_not_evicted(search.point, task, groups)
        for node, group, reasons in zip(searched, groups, why, strict=True):
            out.update(reason for reason in reasons if reason is not None)
            free = [one for one, reason in zip(group, reasons, strict=True) if reason is None]
            missing = self._missing(search, node, free)
            size = _size(missing, task.init_resreq)
            if best is None or (size, node.name) < best[:2]:
                best = size, node.name, missing
        nodes, candidates = len(searched), sum(map(len, groups))
        self._asked += nodes + candidates
        is_short = best is not None and best[0] > 0
        return EvictionReport(
            action=search.action,
            nodes=nodes,
            candidates=candidates,
            out=out,
            best_node=best[1] if best is not None and is_short else "",
            shortfall=(
                session.ledger.dimensions.resource(best[2])
                if best is not None and is_short
                else Resource()
            ),
        )

    def _missing(
        self, search: EvictionSearch, node: NodeState, gone: Iterable[TaskState]
    ) -> Vector:
        """Return what the task would lack on a node without these tasks."""
        freed = for_good = self._session.ledger.dimensions.zero
        for task in gone:
            freed = plus(freed, task.resreq)
            if not task.is_backfill:
                for_good = plus(for_good, task.resreq)
        request = search.task.init_resreq
        rooms = [plus(node.future_idle, freed), plus(node.eventual, for_good)]
        if not search.may_use_idle:
            rooms.append(freed)
        return tuple(
            max(0, *lacks) for lacks in zip(*(minus(request, room) for room in rooms), strict=True)
        )


def _size(missing: Vector, request: Vector) -> float:
    """Return the largest part of the request that is missing."""
    return max(
        (
            lacks / asked
            for lacks, asked in zip(missing, request, strict=True)
            if lacks >= EPSILON and asked >= EPSILON
        ),
        default=0.0,
    )
