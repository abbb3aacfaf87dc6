"""Why a gang has no domain: what each lacks, and how much of the gang the best one holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from batchsched.causes import UnfitReason
from batchsched.model.immutable import EMPTY
from batchsched.model.reasons import NoDomain, Unfit
from batchsched.plugin.session_view import DomainCounts, SessionView
from batchsched.plugins.topology.areas import Area, Wanted, kinds_of, lying_in
from batchsched.plugins.topology.splitting import AreaCounts
from batchsched.state.needs import Need, Stage
from batchsched.state.records import NodeState
from batchsched.state.shortcuts import Shortcut
from batchsched.state.vectors import minus, total_of


class WhyNone:
    """Says why no domain holds a need, and knows it as long as no node changes."""

    def __init__(self, view: SessionView) -> None:
        """Know nothing yet."""
        self._view = view
        self._counted_at = -1
        """The length of the log of nodes for which counts are known."""
        self._known: dict[tuple[DomainCounts | None, Wanted, int, str], Unfit] = {}
        """By counts, what is asked, the number of tasks, and the group that they are of: how much
        of these domains hold."""

    def forget(self) -> None:
        """Forget what is known of nodes that may be others now."""
        self._counted_at = -1

    @staticmethod
    def scattered(need: Need, wanted: Wanted, level: int, nodes: Iterable[NodeState]) -> Unfit:
        """Return that nodes which must be in one domain of a level are in several, or in none."""
        slots = {node.slot for node in nodes}
        having = [area for area in wanted.root.at(level) if not slots.isdisjoint(area.slots)]
        return _no_domain(need, wanted, level, home=len(having))

    def why_none(self, need: Need, wanted: Wanted, bound: Sequence[Area] | None) -> Unfit | None:
        """Return why no domain holds a need, of those that bind; None: it need not be in one.

        O(nodes), and O(1) for a need like one that was asked about while no node has changed.
        """
        if wanted.required < 0 and not wanted.segments:
            return None
        domains = lying_in(wanted.root.at(max(wanted.required, wanted.root.level)), bound)
        counts = self._view.counts(need, Stage.NOW)
        is_known = counts is not None and bound is None and Shortcut.ROOM not in self._view.plain
        if not is_known:
            return self._counted(need, wanted, domains, counts)
        now = len(self._view.node_log)
        if self._counted_at != now:
            self._counted_at = now
            self._known.clear()
        key = counts, wanted, len(need.tasks), _name_of_group(need)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._counted(need, wanted, domains, counts)
        return found

    def _counted(
        self, need: Need, wanted: Wanted, domains: Sequence[Area], counts: DomainCounts | None
    ) -> Unfit:
        """Return how much of a need domains hold, and why none of them holds all. O(nodes)."""
        count, best = len(need.tasks), 0
        places = (
            None if counts is None else AreaCounts(counts.of, wanted.segments, len(wanted.levels))
        )
        causes: dict[str, int] = {}
        for area in domains:
            held = self._most_of_unlike(need, area) if places is None else places.most(area, count)
            best = max(best, held)
            cause = self._cause(need, area)
            causes[cause] = causes.get(cause, 0) + 1
        level = wanted.required
        if level < 0:
            level = wanted.segments[0][1]
            domains = wanted.root.at(level)
        count = len(domains)
        return _no_domain(need, wanted, level, domains=count, best=best, causes=causes)

    def _most_of_unlike(self, need: Need, area: Area) -> int:
        free, held = self._view.free(area), 0
        for task in need.tasks[:-1]:
            if any(r > f for r, f in zip(task.init_resreq, free, strict=True) if r):
                break
            free, held = minus(free, task.init_resreq), held + 1
        return held

    def _cause(self, need: Need, area: Area) -> str:
        """Return why a domain does not hold a need."""
        firsts = [tasks[0] for tasks in kinds_of(need, self._view.cluster)]
        if all(self._view.refusal(t, node) is not None for t in firsts for node in area.nodes):
            return "refused"
        free = self._view.free(area)
        request = total_of([task.init_resreq for task in need.tasks], self._view.dimensions.zero)
        names = self._view.dimensions.names
        short = [(free[d] / r, names[d]) for d, r in enumerate(request) if r and free[d] < r]
        return f"too little {min(short)[1].rpartition('/')[2]}" if short else "fragmented"


def _no_domain(
    need: Need,
    wanted: Wanted,
    level: int,
    *,
    domains: int = 0,
    best: int = 0,
    causes: Mapping[str, int] = EMPTY,
    home: int | None = None,
) -> Unfit:
    size, of = wanted.segments[0] if wanted.segments and home is None else (0, 0)
    no_domain = NoDomain(
        topology=wanted.topology,
        level=wanted.levels[level],
        domains=domains,
        best=best,
        needed=len(need.tasks),
        causes=causes,
        home=home,
        group=_name_of_group(need),
        segment=size,
        segment_level=wanted.levels[of] if size else "",
    )
    return Unfit(UnfitReason.NO_DOMAIN, "topology", no_domain=no_domain)


def _name_of_group(need: Need) -> str:
    return "" if need.group is None else need.group.name
