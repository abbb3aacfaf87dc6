"""The plugin: which domains a gang is tried in, in which order, and why there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice

from attrs import frozen

from batchsched.model.cluster import TaskGroup
from batchsched.model.reasons import Unfit
from batchsched.model.topology import Topology, TopologyRequest
from batchsched.plugin.arguments import Arguments
from batchsched.plugin.candidates import NodeSet, Part, RoomForMore
from batchsched.plugin.extension_points import Changes, NothingToDo
from batchsched.plugin.session_view import DomainCounts, SessionView
from batchsched.plugins.topology.areas import (
    Area,
    Wanted,
    areas_of,
    asks,
    kinds_of,
    lying_in,
    requests_of,
)
from batchsched.plugins.topology.balanced import balanced
from batchsched.plugins.topology.linked import Linked, disjoint, linked_parts, may_be_linked
from batchsched.plugins.topology.reasons import WhyNone
from batchsched.plugins.topology.segments import (
    Assignments,
    Cut,
    Together,
    are_counted,
    begun,
    cut,
    short_ones_last,
)
from batchsched.plugins.topology.splitting import AreaCounts, Ranked
from batchsched.state.needs import Need, Stage, need_of_tasks
from batchsched.state.records import JobState, NodeState, SortKey, TaskState
from batchsched.state.shortcuts import Shortcut
from batchsched.state.vectors import Vector, dominant_share, total_of


@frozen(kw_only=True)
class TopologyPlugin:
    """Places gangs in one domain of a topology, such as a rack, and parts of them in narrower ones.

    Close to what the topology-aware scheduling of Kueue, KAI and Volcano does; see the page on
    racks and blocks for where it differs.
    """

    tries: int = 8
    """The most domains of a level in which a gang is tried."""

    @classmethod
    def from_arguments(cls, arguments: Arguments) -> TopologyPlugin:
        """Read ``tries``."""
        return cls(tries=arguments.integer("tries", default=8, minimum=1))

    def open(self, view: SessionView, /) -> object:
        """Open for one cycle."""
        tasks = view.tasks.values() if view.pod_affinity.is_active else ()
        if _any_asks(view.jobs.values(), tasks):
            return _Domains(view, self.tries)
        return NothingToDo(lambda changes: _any_asks(changes.jobs, changes.tasks))


def _any_asks(jobs: Iterable[JobState], tasks: Iterable[TaskState]) -> bool:
    """Return whether any job asks for domains, or any task must be near others of its job."""
    infos = [job.info for job in jobs]
    asking = [info for info in infos if info.topology is not None or info.groups]
    near = [task.job for task in tasks if task.info.pod_affinity is not None]
    return any(map(asks, asking)) or any(map(may_be_linked, filter(None, dict.fromkeys(near))))


class _Domains:
    def __init__(self, view: SessionView, tries: int) -> None:
        self._view = view
        self._tries = tries
        self._has_affinity = view.pod_affinity.is_active
        self._topologies = view.topologies
        self._named = {topology.name: topology for topology in view.topologies}
        self._trees: dict[str, Area] = {}
        """By name, the trees of all nodes; those of label keys by the key after a colon."""
        self._read: dict[TopologyRequest, Wanted] = {}
        """What requests ask of all nodes."""
        self._alias: tuple[NodeSet, NodeSet] | None = None
        self._kept: set[NodeSet] = set()
        """The trees of which all domains were returned by `domains`."""
        self._ranks: dict[tuple[DomainCounts, Area, int, int], Ranked] = {}
        self._in_required: dict[tuple[Area, int, int], Sequence[Area]] = {}
        """By root of listed domains and two levels: the domains of the second in the first."""
        self._has: dict[Area, Vector] = {}
        """What the nodes of areas have together."""
        self._reasons = WhyNone(view)
        self._shares: dict[Area, tuple[Vector, tuple[int, ...], float]] = {}
        """For areas what is free, and which share of some dimensions is in use then."""
        self._group_info: dict[JobState, Mapping[str, TaskGroup]] = {}

    sets_by_room = True

    def may_offer_sets(self, job: JobState, /) -> bool:
        if job.info.topology is not None:
            return True
        for group in job.info.groups:
            if group.topology is not None:
                return True
        return may_be_linked(job)

    def resume(self, changes: Changes, /) -> bool:
        if self._view.topologies is not self._topologies or changes.nodes or changes.nodes_gone:
            return False
        self._reasons.forget()
        for job in changes.jobs_gone:
            self._group_info.pop(job, None)
        return True

    # The trees

    def domains(self) -> Iterable[NodeSet]:
        """Return the domains of the topologies that jobs ask something of."""
        for job in self._view.jobs.values():
            for request in requests_of(job.info):
                self._tree(self._topology_of(request))
        self._kept.update(self._trees.values())
        for tree in self._trees.values():
            yield tree
            yield from tree.domains()

    def _topology_of(self, request: TopologyRequest) -> Topology:
        if request.topology is None:
            assert request.required is not None
            return Topology(f":{request.required}", (request.required,))
        return self._named[request.topology]

    def _tree(self, topology: Topology, within: NodeSet | None = None) -> Area:
        """Return the domains of a topology in all nodes, or in some."""
        tree = self._trees.get(topology.name)
        if tree is None:
            tree = self._trees[topology.name] = areas_of(topology, self._view.nodes)
        if within is None or len(within.nodes) == len(tree.nodes):
            return tree
        if isinstance(within, Area) and any(area is tree for area in within.path()):
            return within
        return areas_of(topology, within.nodes)

    def _wanted(self, need: Need, within: NodeSet) -> Wanted | None:
        """Return what a need asks of a topology; None: nothing."""
        request = self._request_of(need)
        if request is None:
            return None
        known = self._read.get(request)
        if known is not None and len(within.nodes) == len(known.root.nodes):
            return known
        topology = self._topology_of(request)
        position = {level: place for place, level in enumerate(topology.levels)}
        required = -1 if request.required is None else position[request.required]
        wanted = Wanted(
            request.topology,
            topology.levels,
            self._tree(topology, within),
            required,
            required if request.preferred is None else position[request.preferred],
            [(segment.size, position[segment.level]) for segment in request.segments],
            request.balanced,
        )
        if wanted.root is self._trees[topology.name]:
            self._read[request] = wanted
        return wanted

    def _request_of(self, need: Need) -> TopologyRequest | None:
        if need.group is None:
            return need.job.info.topology
        groups = self._group_info.get(need.job)
        if groups is None:
            groups = self._group_info[need.job] = {each.name: each for each in need.job.info.groups}
        return groups[need.group.name].topology

    # The extension point

    def candidate_nodes(self, need: Need, within: NodeSet, /) -> Iterable[NodeSet] | Unfit | None:
        if need.near:
            return self._sets(need, self._near_wanted(need.near, within), ())
        wanted = self._wanted(need, within)
        if need.job.info.groups and self._asks_in_groups(need):
            if wanted is None:
                return [self._again(within)]
            return self._sets(need, wanted, ())
        linked = linked_parts(self._view, need) if self._has_affinity else ()
        if wanted is None:
            return self._linked_sets(need, within, linked) if linked else None
        return self._sets(need, wanted, linked)

    def _again(self, within: NodeSet) -> NodeSet:
        """Return the same nodes as a set of its own, in which groups are asked for theirs."""
        if self._alias is None or self._alias[0] is not within:
            self._alias = within, within.with_parts(())
        return self._alias[1]

    def group_order_key(self, need: Need, /) -> SortKey:
        """Rank the groups of a set: the narrower their level and the larger their tasks first."""
        request = self._request_of(need)
        level = -1
        if request is not None and request.required is not None:
            level = self._topology_of(request).levels.index(request.required)
        cluster = self._view.cluster
        share = max(dominant_share(task.init_resreq, cluster) for task in need.tasks)
        return -level, -share, -len(need.tasks)

    # Tasks that must be near one another

    def _linked_sets(
        self, need: Need, within: NodeSet, linked: Sequence[Linked]
    ) -> Iterable[NodeSet] | Unfit | None:
        """Return sets for a need that asks for nothing, but has parts that must be together."""
        first = linked[0]
        if len(first.tasks) < len(need.tasks):
            return self._in_parts(need, within, linked)
        sets = self._sets(first.need, self._near_wanted(first.need.near, within), ())
        if first.is_mutual or sets is None or isinstance(sets, Unfit):
            return sets
        return chain(sets, (within,))

    def _in_parts(self, need: Need, within: NodeSet, linked: Sequence[Linked]) -> Iterator[NodeSet]:
        """Yield the same nodes, in which parts that must be together get sets of their own."""
        parts = [Part(each.tasks, within, need=each.need) for each in disjoint(linked)]
        together = {task for part in parts for task in part.tasks}
        rest = [
            Part(some, within)
            for kind in kinds_of(need, self._view.cluster)
            if (some := tuple([task for task in kind if task not in together]))
        ]
        for order in (parts, parts[::-1])[: len(parts)]:
            yield within.with_parts([*order, *rest])
        if not all(each.is_mutual for each in linked):
            yield within

    def _near_wanted(self, keys: tuple[str, ...], within: NodeSet) -> Wanted:
        topology = Topology(":" + "/".join(keys), keys)
        tree, narrowest = self._tree(topology, within), len(keys) - 1
        return Wanted(None, keys, tree, narrowest, narrowest, (), balanced=False)

    # Candidates

    def _sets(
        self, need: Need, wanted: Wanted, linked: Sequence[Linked]
    ) -> Iterable[NodeSet] | Unfit | None:
        bound = self._bound_by_home(need, wanted)
        if isinstance(bound, Unfit):
            return bound
        cuts = self._cuts(need, wanted)
        if isinstance(cuts, Unfit):
            return cuts
        if need.stage is None:
            return self._reasons.why_none(need, wanted, bound)
        if need.stage in _OF_REQUIRED and wanted.required < 0 and not wanted.segments:
            if linked:
                return self._linked_sets(need, wanted.root, linked)
            return [self._again(wanted.root)] if self._asks_in_groups(need) else None
        return self._in_stage(need, need.stage, wanted, bound, cuts, linked)

    def _bound_by_home(self, need: Need, wanted: Wanted) -> Sequence[Area] | Unfit | None:
        """Return the domains that have all of home, if any binds the need; None: none does."""
        home = [task.node for task in need.home if task.node is not None]
        if wanted.required < 0 or not home:
            return None
        domains = wanted.root.at(wanted.required)
        bound = [each for each in domains if all(node.slot in each.slots for node in home)]
        return bound or self._reasons.scattered(need, wanted, wanted.required, home)

    def _in_stage(
        self,
        need: Need,
        stage: Stage,
        wanted: Wanted,
        bound: Sequence[Area] | None,
        cuts: Sequence[Cut],
        linked: Sequence[Linked],
    ) -> Iterator[NodeSet]:
        is_counted = not cuts or (wanted.root.is_tree and are_counted(cuts))
        counts = self._view.counts(need, stage) if is_counted else None
        root, widest = wanted.root.level, max(wanted.required, wanted.root.level)
        levels: Sequence[int] = range(max(wanted.preferred, root), widest - 1, -1)
        as_segments: Sequence[tuple[int, int]] = ()
        is_whole = not wanted.segments
        if stage in _OF_REQUIRED:
            levels = (widest,)
        else:
            if need.job.info.groups:
                as_segments = self._groups_as_segments(need, wanted)
                is_whole = not as_segments and self._asks_in_groups(need)
            else:
                is_whole = False
            if wanted.balanced and counts is not None and not (need.home or is_whole):
                yield from self._balanced(need, wanted, counts, as_segments or wanted.segments)
        segments = as_segments or wanted.segments
        fixed: Mapping[Area, Sequence[TaskState]] = {}
        count = len(need.tasks)
        if cuts:
            fixed = _beside_others(cuts, wanted.root)
            count -= sum(map(len, fixed.values()))
        more = 0 if stage in _OF_REQUIRED else len(need.more)
        # Where what may follow is not like the need, rooms for the need say nothing of it.
        tries_more = more and counts is not None and not self._follows_alike(need, stage)
        for level in levels:
            ranked = None
            if (
                counts is not None
                and stage not in _OF_REQUIRED
                and not (segments or bound is not None or need.home)
                and (level <= max(wanted.required, 0) or not more)
            ):
                ranked = self._ranked(counts, wanted, level)
            domains: Sequence[Area] = ()
            if ranked is None:
                domains = lying_in(self._allowed(wanted, level), bound)
            if counts is None:
                sets = self._of_unlike(need, stage, domains, cuts, linked)
                yield from sets if stage in _OF_REQUIRED else _with_room(sets, wanted, level)
                continue
            if ranked is not None:
                places = ranked.places
                holding = ranked.first(count, count + more, partial(self._tie, need, places))
            else:
                places = AreaCounts(counts.of, segments, len(wanted.levels))
                for area, tasks in fixed.items():
                    if places.left(area) < len(tasks):
                        return
                    places.take(area, len(tasks))
                holds = partial(_holds, places, fixed, count)
                order = self._order(need, stage, wanted, places, domains, more)
                holding = iter(sorted(filter(holds, domains), key=order))
            sets = self._of_like(need, stage, holding, places, fixed, cuts, is_whole=is_whole)
            yield from _with_room(sets, wanted, level) if tries_more else sets
            if cuts and stage is Stage.EVICTING:
                # Counts do not say who may go: where the first domains do not do, others may.
                yield from self._of_unlike(need, stage, domains, cuts, linked)

    def _follows_alike(self, need: Need, stage: Stage) -> bool:
        """Return whether what may follow a need is like it. O(what may follow)."""
        together = need_of_tasks(need.job, (*need.tasks, *need.more))
        return self._view.counts(together, stage) is not None

    def _allowed(self, wanted: Wanted, level: int) -> Sequence[Area]:
        """Return the domains of a level that lie in one of the required level."""
        root, required = wanted.root, wanted.required
        if root.listed_in is None or not root.level < required < level:
            return root.at(level)
        known = self._in_required.get((root, required, level))
        if known is None:
            known = tuple(lying_in(root.at(level), root.at(required)))
            self._in_required[root, required, level] = known
        return known

    def _balanced(
        self,
        need: Need,
        wanted: Wanted,
        held: DomainCounts,
        segments: Sequence[tuple[int, int]],
    ) -> Iterator[NodeSet]:
        """Yield the domains over which tasks are spread evenly, if there are such."""
        tasks = self._numbered(need)
        places = AreaCounts(held.of, segments, len(wanted.levels))
        is_tree = wanted.root.is_tree
        if len(tasks) % places.size or wanted.preferred <= wanted.root.level or not is_tree:
            return
        counts = balanced(
            places,
            wanted.root,
            wanted.preferred,
            len(tasks) // places.size,
            lambda area: self._tight(need, area, places),
        )
        parts: list[Part] = []
        start = 0
        for area in sorted(counts or (), key=lambda area: area.place):
            assert counts is not None
            end = start + counts[area] * places.size
            split = places.split(area, tasks[start:end]) if counts[area] else []
            if split is None:
                return
            parts += [Part(tuple(some), each) for each, some in split]
            start = end
        if parts:
            yield wanted.root.with_parts(parts)

    def _of_like(
        self,
        need: Need,
        stage: Stage,
        holding: Iterator[Area],
        places: AreaCounts,
        fixed: Mapping[Area, Sequence[TaskState]],
        cuts: Sequence[Cut],
        *,
        is_whole: bool,
    ) -> Iterator[NodeSet]:
        """Yield the first domains that hold all tasks, each with how they are split over it.

        `fixed`: what must be with others of its segments, and where. `is_whole`: whether they are
        not split, as groups in them ask for themselves.
        """
        for area in islice(holding, self._tries):
            if is_whole or (area.split_over()[0] is area and not places.has_segments):
                yield area
                continue
            free = short_ones_last(cuts) if cuts else self._numbered(need)
            split: list[tuple[Area, Sequence[TaskState]]] | None = []
            if free and stage is Stage.EVICTING:
                split = places.split_by_shortage(area, free, self._counts_later(need).of)
            elif free:
                split = places.split(area, free)
            if split is None:
                continue
            # Narrower areas first: a task that may be anywhere in a wider one leaves them room.
            parts = sorted([*fixed.items(), *split], key=lambda part: -part[0].level)
            if len(parts) == 1 and parts[0][0] is area:
                yield area
            else:
                yield area.with_parts([Part(tuple(some), each) for each, some in parts])

    def _order(
        self,
        need: Need,
        stage: Stage,
        wanted: Wanted,
        places: AreaCounts,
        domains: Sequence[Area],
        more: int,
    ) -> Callable[[Area], SortKey]:
        """Return what ranks the domains of a level that hold a need.

        Those come first where most of it is already, then those that are nearest to that; then
        those in domains of the required level that hold it with all that may follow, or most of
        that, and of narrower levels down to their own; then the tightest. Where others must leave,
        those where least of it lacks room; where nodes are reserved, those with most room, but
        first that of its plan.
        """
        if stage is Stage.EMPTY:
            return self._most_room(need)
        if stage is Stage.EVICTING:
            count, later = len(need.tasks), self._counts_later(need)
            return lambda area: (count - later.of(area), places.tasks(area), area.place)
        near_home, together = _nearest(need.home, domains), len(need.tasks) + more

        def key(area: Area) -> SortKey:
            around = [each for each in area.path() if each.level >= max(wanted.required, 0)]
            held = [-min(places.tasks(each), together) for each in reversed(around) if more]
            return near_home(area), held, self._tight(need, area, places)

        return key

    def _counts_later(self, need: Need) -> DomainCounts:
        counts = self._view.counts(need, Stage.LATER)
        assert counts is not None  # in one stage tasks are alike as in another
        return counts

    def _most_room(self, need: Need) -> Callable[[Area], SortKey]:
        """Return what ranks domains by the scores of the best places for the tasks of a need.

        A node counts once for each task that fits there once all jobs have left.
        O(nodes log nodes) for each kind of task.
        """
        view, plan = self._view, need.job.info.plan
        planned: set[str] = set() if plan is None else set(plan.nodes.values())
        kinds = [
            (tasks, view.counts(need_of_tasks(need.job, tasks), Stage.EMPTY))
            for tasks in kinds_of(need, self._view.cluster)
        ]

        def places_on(task: TaskState, counts: DomainCounts | None, node: NodeState) -> int:
            if counts is not None:
                return counts.on(node)
            has = view.has(node, Stage.EMPTY)
            return min((h // r for r, h in zip(task.init_resreq, has, strict=True) if r), default=1)

        def key(area: Area) -> SortKey:
            score = 0.0
            for tasks, counts in kinds:
                left, task = len(tasks), tasks[0]
                scored = ((-view.room_score(task, n), n.index, n) for n in area.nodes)
                for worse, _, node in sorted(scored):
                    taken = min(left, places_on(task, counts, node))
                    left -= taken
                    score -= taken * worse
                    if not left:
                        break
            there = sum(node.name in planned for node in area.nodes) if planned else 0
            return -there, -score, area.place

        return key

    def _ranked(self, counts: DomainCounts, wanted: Wanted, level: int) -> Ranked | None:
        """Return the domains of a level by how many tasks they hold, if that is kept."""
        key = (counts, wanted.root, level, wanted.required if wanted.root.listed_in else -1)
        ranked = self._ranks.get(key)
        if ranked is None:
            if Shortcut.ROOM in self._view.plain or self._kept.isdisjoint(wanted.root.path()):
                return None
            places = AreaCounts(counts.of, (), len(wanted.levels))
            ranked = self._ranks[key] = Ranked(counts, self._allowed(wanted, level), places)
        return ranked

    def _tight(self, need: Need, area: Area, places: AreaCounts) -> SortKey:
        """Rank areas of a level: the tightest first."""
        return places.units(area), places.tasks(area), *self._tie(need, places, area)

    def _tie(self, need: Need, places: AreaCounts, area: Area) -> SortKey:
        """Rank areas of a level that hold as many tasks: by what is around them, use, and order."""
        above: list[int] = []
        around = area.parent
        while around is not None and around.parent is not None:
            above.append(places.units(around))
            around = around.parent
        return above, -self._used(need, area), area.place

    def _used(self, need: Need, area: Area) -> float:
        """Return the largest share in use of what is asked for. O(dimensions)."""
        free, dimensions = self._view.free(area), need.dimensions
        known = self._shares.get(area)
        if known is not None and known[0] is free and known[1] == dimensions:
            return known[2]
        has = self._has.get(area)
        if has is None:
            has = total_of([node.allocatable for node in area.nodes], self._view.dimensions.zero)
            self._has[area] = has
        share = max([(has[d] - free[d]) / has[d] for d in dimensions if has[d]], default=0.0)
        self._shares[area] = free, dimensions, share
        return share

    def _groups_as_segments(self, need: Need, wanted: Wanted) -> Sequence[tuple[int, int]]:
        """Return the groups that are like segments: equal leaves, with nothing to follow."""
        groups = need.job.groups
        if groups is None or not need.job.info.groups or wanted.segments or need.home or need.more:
            return ()
        if not wanted.root.is_tree:
            return ()
        counts: dict[str | None, int] = {}
        for task in need.tasks:
            counts[task.info.group] = counts.get(task.info.group, 0) + 1
        infos = {each.name: each for each in need.job.info.groups}
        parent = None if need.group is None else need.group.name
        asked = {
            (request.topology, request.required, request.preferred or request.required)
            if name is not None
            and infos[name].parent == parent
            and (request := infos[name].topology)
            and not request.segments
            else None
            for name in counts
        }
        if len(set(counts.values())) > 1 or len(asked) > 1:
            return ()
        same = asked.pop()
        if same is None or same[0] != wanted.topology or same[1] is None or same[1] != same[2]:
            return ()
        if same[1] not in wanted.levels:
            return ()  # of two label keys each is a topology of its own
        return [(next(iter(counts.values())), wanted.levels.index(same[1]))]

    def _asks_in_groups(self, need: Need) -> bool:
        """Return whether groups below that of a need ask anything of a topology themselves."""
        inner = [group for group in need.job.info.groups if group.topology is not None]
        if need.group is None or not inner:
            return bool(inner)
        parents = {group.name: group.parent for group in need.job.info.groups}
        return any(need.group.name in _above(group.name, parents) for group in inner)

    def _cuts(self, need: Need, wanted: Wanted) -> Sequence[Cut] | Unfit:
        """Return the segments of a need; or that one is in several domains, or in none."""
        if not wanted.segments:
            return ()
        numbers = self._numbers(need)
        tasks = sorted(need.tasks, key=lambda task: numbers[task.uid])
        cuts = cut(tasks, need.home, numbers, wanted.segments)
        for each in begun(cuts):
            if not _domains_of_home(each, wanted.root):
                return self._reasons.scattered(need, wanted, each.level, each.home)
        return cuts

    def _numbers(self, need: Need) -> Mapping[str, int]:
        """Return the numbers of all tasks of the job, or group, by UID. O(n log n) for n tasks.

        In a group of groups, those of one leaf follow those of another.
        """
        places = {group.name: place for place, group in enumerate(need.job.info.groups)}
        leaves: dict[str | None, list[TaskState]] = {}
        for task in self._view.in_task_order(need.job.tasks):
            leaves.setdefault(task.info.group, []).append(task)
        if need.group is not None:
            kept = {leaf.name for leaf in need.group.leaves()}
            leaves = {name: tasks for name, tasks in leaves.items() if name in kept}
        own = {
            task.uid: (
                places.get(name or "", 0),
                place if task.info.index is None else task.info.index,
            )
            for name, tasks in leaves.items()
            for place, task in enumerate(tasks)
        }
        if len(leaves) == 1:
            return {uid: number for uid, (_, number) in own.items()}
        return {uid: place for place, uid in enumerate(sorted(own, key=own.__getitem__))}

    def _numbered(self, need: Need) -> Sequence[TaskState]:
        """Return the tasks of a need in order of group and number."""
        if not need.job.info.groups and all(task.info.index is None for task in need.tasks):
            return need.tasks  # they are in task order
        numbers = self._numbers(need)
        return sorted(need.tasks, key=lambda task: numbers[task.uid])

    # Tasks that are not alike

    def _of_unlike(
        self,
        need: Need,
        stage: Stage,
        domains: Iterable[Area],
        cuts: Sequence[Cut],
        linked: Sequence[Linked],
    ) -> Iterator[NodeSet]:
        """Yield domains that have enough in sum, the fullest first."""
        request = total_of([task.init_resreq for task in need.tasks], self._view.dimensions.zero)
        asked = [(d, amount) for d, amount in enumerate(request) if amount]
        most_room = self._most_room(need) if stage is Stage.EMPTY else None
        ranked: list[tuple[SortKey, Area]] = []
        domains = tuple(domains)
        near_home = _nearest(need.home, domains)
        for area in domains:
            free = self._free(area, stage)
            if any(amount > free[d] for d, amount in asked):
                continue
            if most_room is not None:
                key = most_room(area)
            elif stage is Stage.EVICTING:
                later = self._free(area, Stage.LATER)
                lacking = max(((amount - later[d]) / amount for d, amount in asked), default=0)
                key = lacking, area.place
            else:
                fill = max((amount / free[d] for d, amount in asked), default=0)
                key = near_home(area), -fill, -self._used(need, area), area.place
            ranked.append((key, area))
        ranked.sort(key=lambda each: each[0])
        candidates = (area for _, area in ranked if self._each_fits(need, stage, area))
        for area in islice(candidates, self._tries):
            if cuts:
                yield from self._assigned(stage, area, cuts, linked)
            elif linked:
                yield from self._in_parts(need, area, linked)
            else:
                yield from self._by_kinds(need, area)

    def _by_kinds(self, need: Need, area: Area) -> Iterator[NodeSet]:
        """Yield an area, with its tasks by what they ask for; once more in reverse."""
        kinds = (
            kinds_of(need, self._view.cluster)
            if need.job.info.groups == () or _is_leaf(need)
            else ()
        )
        if len(kinds) <= 1:
            yield area
            return
        for order in (kinds, kinds[::-1]):
            yield area.with_parts([Part(tasks, area) for tasks in order])

    def _assigned(
        self,
        stage: Stage,
        area: Area,
        cuts: Sequence[Cut],
        linked: Sequence[Linked],
    ) -> Iterator[NodeSet]:
        """Yield an area with domains for segments of tasks that are not alike."""
        found = Assignments(
            free=lambda each: self._free(each, stage),
            accepts=lambda task, nodes: self._would_fit(task, nodes, stage),
            most_in=lambda task, each: self._most_in(task, each, stage),
            largest_first=lambda tasks: sorted(
                tasks, key=lambda t: -dominant_share(t.init_resreq, self._view.cluster)
            ),
            tries=self._tries,
        )
        together = [
            Together(frozenset(each.tasks), self._to_share(each, area, stage)) for each in linked
        ]
        for parts in found.within(area, cuts, together):
            yield area.with_parts(parts)
        if not all(each.is_mutual for each in linked):
            for parts in found.within(area, cuts):
                yield area.with_parts(parts)

    def _most_in(self, task: TaskState, area: Area, stage: Stage) -> int | None:
        """Return how many tasks like one an area holds; None: that cannot be counted."""
        assert task.job is not None
        if task.must_be_near:  # where others are once they are placed
            return None
        counts = self._view.counts(need_of_tasks(task.job, (task,)), stage)
        return None if counts is None else counts.of(area)

    def _to_share(self, linked: Linked, area: Area, stage: Stage) -> Sequence[Area]:
        """Return the domains in an area that have enough in sum for a part, the fullest first."""
        wanted = self._near_wanted(linked.need.near, area)
        zero = self._view.dimensions.zero
        request = total_of([task.init_resreq for task in linked.tasks], zero)
        ranked: list[tuple[float, int, Area]] = []
        for domain in wanted.root.at(wanted.required):
            asked = [(r, h) for r, h in zip(request, self._free(domain, stage), strict=True) if r]
            if all(r <= h for r, h in asked):
                fill = max((r / h for r, h in asked), default=0.0)
                ranked.append((-fill, domain.place, domain))
        ranked.sort(key=lambda each: each[:2])
        return [domain for *_, domain in ranked[: self._tries]]

    def _would_fit(self, task: TaskState, nodes: Sequence[NodeState], stage: Stage) -> bool:
        """Return whether a task, were it alone, would fit on any of some nodes.

        A task that must be near others is refused before they are placed, and one that comes after
        those who leave need not be refused then.
        """
        view, wanted = self._view, task.init_resreq
        if stage in _OF_REQUIRED:
            return any(
                all(r <= h for r, h in zip(wanted, view.has(node, stage), strict=True) if r)
                for node in nodes
            )
        is_refused = stage is Stage.NOW and not task.must_be_near
        return any(
            view.fits(task, node, fit) and not (is_refused and view.refusal(task, node))
            for fit in stage.ladder
            for node in nodes
        )

    def _free(self, area: Area, stage: Stage) -> Vector:
        if stage is Stage.NOW:
            return self._view.free(area)
        amounts = [self._view.has(node, stage) for node in area.nodes]
        return total_of(
            [tuple([max(0, amount) for amount in each]) for each in amounts],
            self._view.dimensions.zero,
        )

    def _each_fits(self, need: Need, stage: Stage, area: Area) -> bool:
        """Return whether each task fits on some node of an area, as far as that is known."""
        for tasks in kinds_of(need, self._view.cluster):
            counts = self._view.counts(need_of_tasks(need.job, tasks[:1]), stage)
            if counts is not None and not counts.of(area):
                return False
        return True


_OF_REQUIRED = (Stage.EVICTING, Stage.EMPTY)
"""The stages in which domains of the required level alone count."""


def _above(name: str, parents: Mapping[str, str | None]) -> Iterator[str]:
    """Yield the groups around a group."""
    above = parents[name]
    while above is not None:
        yield above
        above = parents[above]


def _domains_of_home(segment: Cut, root: Area) -> Sequence[Area]:
    """Return the domains that have all nodes of a segment that has begun."""
    domains = root.at(segment.level)
    return [d for d in domains if all(node.slot in d.slots for node in segment.home)]


def _beside_others(cuts: Sequence[Cut], root: Area) -> Mapping[Area, Sequence[TaskState]]:
    """Return the tasks of the narrowest segments that have begun, by where these are."""
    fixed: dict[Area, list[TaskState]] = {}
    for each in begun(cuts):
        if not each.parts:
            fixed.setdefault(_domains_of_home(each, root)[0], []).extend(each.tasks)
    return fixed


def _holds(
    places: AreaCounts, fixed: Mapping[Area, Sequence[TaskState]], tasks: int, area: Area
) -> bool:
    """Return whether an area holds some tasks, and has what others of a job are fixed to."""
    return all(each.slots <= area.slots for each in fixed) and places.holds(area, tasks)


def _with_room(sets: Iterable[NodeSet], wanted: Wanted, level: int) -> Iterator[NodeSet]:
    """Yield sets, with where more may follow: in the domain of the required level around them."""
    for each in sets:
        around = each
        if wanted.required > wanted.root.level:
            domains = wanted.root.at(wanted.required)
            around = next(domain for domain in domains if each.slots <= domain.slots)
        yield each.followed_in(RoomForMore(around, level))


def _nearest(
    home: Sequence[TaskState], domains: Sequence[Area]
) -> Callable[[Area], tuple[int, int]]:
    """Return what ranks domains of a level by how near they are to where tasks are already.

    First by how many are there; then by the level of the narrowest domain that also holds the
    domain with most of them.
    """
    if not home:
        return lambda _area: (0, 0)
    slots = [task.node.slot for task in home if task.node is not None]
    there = {area: sum(map(area.slots.__contains__, slots)) for area in domains}
    first = max(domains, key=there.__getitem__, default=None)
    around = set[Area]() if first is None or not there[first] else {*first.path()}

    def key(area: Area) -> tuple[int, int]:
        shared: Area | None = area
        while shared is not None and shared not in around:
            shared = shared.parent
        return -there[area], -1 if shared is None else -shared.level

    return key


def _is_leaf(need: Need) -> bool:
    return need.group is not None and not need.group.children
