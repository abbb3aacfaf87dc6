"""How the domains of a topology suit what a job needs together, and what each of them lacks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from attrs import field, frozen

from batchsched.actions.placing import best_for
from batchsched.causes import UnfitReason
from batchsched.model.immutable import EMPTY, AsMap
from batchsched.model.reasons import NoDomain, Unfit
from batchsched.model.resources import Resource
from batchsched.model.texts import all_of, level_word
from batchsched.model.topology import Topology
from batchsched.plugin.candidates import NodeSet
from batchsched.plugin.session_view import DomainCounts
from batchsched.plugins.topology.areas import Area, areas_of
from batchsched.session.candidates import (
    need_in_sets,
    part_without_set,
    parts_by_group,
    sets_in_turn,
    try_in,
    try_in_turn,
    why_no_set,
)
from batchsched.session.session import Session
from batchsched.session.statements import Statement
from batchsched.session.turns import tasks_left
from batchsched.state.needs import Need, Stage
from batchsched.state.records import Fit, JobState, TaskState
from batchsched.state.vectors import total_of
from batchsched.tools.node_fit import NodeFit, counted

_NEAREST = 3


@frozen(kw_only=True)
class NearDomain:
    """A domain of the level that a job requires, and what it lacks for all that must be in it."""

    name: str
    room_for: int | None
    """How many of the tasks have room there together now; None: they are not alike."""
    needed: int
    """How many tasks must be in one domain."""
    missing: Resource
    """What is free there in sum lacks this much, on nodes that nothing else keeps them from."""
    unfit: Mapping[str, int] = field(default=EMPTY, converter=AsMap[str, int])
    """What keeps a task from its nodes, and how many of them; see `Explanation.unfit`."""


@frozen(eq=False)
class RoomInSets:
    """What has room of the tasks that a job needs next, in one of the sets that plugins offer."""

    need: Need
    held: int
    """How many of them have room together now."""
    sets: Sequence[NodeSet]
    """The sets in which all have."""
    no_domain: NoDomain | None
    """Why there is no such set, if that is known of a topology."""
    domains: Sequence[Area]
    """The domains of the required level that are open to it; of several levels, the narrowest."""

    @property
    def level(self) -> str:
        """The level of which one domain must hold all, if none does now; empty: one does."""
        return "" if self.sets or self.no_domain is None else self.no_domain.level

    def blocked(self, task: TaskState) -> TaskState | None:
        """Return the task that finds no place after others; None: it is the given one.

        That is the first of the group that no set has room for, or of the first segment.
        """
        if self.sets or self.no_domain is None or not self.held:
            return None
        if self.no_domain.is_of_segments_alone:
            return self.need.tasks[min(self.held, len(self.need.tasks) - 1)]
        return None if task in self.need.tasks else self.need.tasks[0]

    def refusal_of(self, fit: NodeFit) -> Unfit | None:
        """Return why a node does not help although a task has room there; None: it does."""
        if any(fit.node.slot in each.slots for each in self.sets):
            return None
        detail = f"are in no set with room for {all_of(len(self.need.tasks), 'task')}"
        if self.no_domain is not None:
            word = level_word(self.no_domain.level)
            detail = f"are in no {word} that is open to it"
            if any(fit.node.slot in each.slots for each in self.domains):
                room = all_of(len(self.need.tasks), "task")
                if self.no_domain.segment:
                    room = self.no_domain.what
                if self.no_domain.is_of_segments_alone:
                    room = "one more slice" if self.held else "a slice"
                    room += f" of {self.no_domain.segment}"
                detail = f"are in a {word} without room for {room}"
        return Unfit(UnfitReason.NO_DOMAIN, detail=detail)


def room_in_sets(session: Session, trial: Statement, job: JobState) -> RoomInSets | None:
    """Return what has room of what a job needs next, now; None: it may be anywhere.

    Limits of queues are left aside. Costs one attempt in each set that plugins offer, each undone.
    """
    if not job.in_session or job.queue is None:
        return None
    left = tasks_left(session, job)
    need = need_in_sets(session, job, left)
    if need is None:
        return None
    no_set, part = why_no_set(session, need), part_without_set(session, need.at(None))
    no_domain = None if no_set is None else no_set.no_domain
    found: list[NodeSet] = []

    def place(on: Statement, task: TaskState, _: Stage | None) -> bool:
        node = best_for(session, on, task, Fit.NOW)
        if node is not None:
            on.allocate(task, node)
        return node is not None

    begin = len(trial)
    for each in sets_in_turn(session, need, left, (Stage.NOW,)):
        if try_in(session, trial, each, place):
            found.append(each.nodes)
        trial.within = None
        trial.rollback(begin)
    if found:
        return RoomInSets(
            need, len(need.tasks), found, no_domain, _domains(session, need, no_domain)
        )
    if no_set is None:
        return None  # it is no domain that is in the way
    held = 0 if no_domain is None else no_domain.held * (no_domain.segment or 1)
    if part is not None or no_domain is None:
        held = min(len(need.tasks) - 1, _held_by_groups(session, trial, need, place))
        trial.rollback(begin)
    if part is not None:
        need = part[0]
    return RoomInSets(need, held, found, no_domain, _domains(session, need, no_domain))


def _held_by_groups(
    session: Session,
    trial: Statement,
    need: Need,
    place: Callable[[Statement, TaskState, Stage | None], bool],
) -> int:
    """Return how many tasks of a need have room, group by group, each as a whole, one by one."""
    held = 0
    for part in parts_by_group(session, need, Stage.NOW):
        if try_in_turn(session, trial, part, lambda on, task: place(on, task, None)) is not None:
            held += len(part.tasks)
        else:
            held += _held_by_groups(session, trial, part, place)
    return held


def _domains(session: Session, need: Need, no_domain: NoDomain | None) -> Sequence[Area]:
    """Return the domains of a level that have all that a need has on nodes already."""
    if no_domain is None:
        return ()
    topology = _topology_of(session, no_domain)
    home = {task.node.slot for task in need.home if task.node is not None}
    domains = areas_of(topology, session.nodes).at(topology.levels.index(no_domain.level))
    return [each for each in domains if home <= each.slots]


def _topology_of(session: Session, no_domain: NoDomain) -> Topology:
    named = {each.name: each for each in session.state.view.topologies}
    level = no_domain.level
    return named.get(no_domain.topology or "", Topology(f":{level}", (level,)))


def nearest_domains(
    session: Session, room: RoomInSets, fits: Sequence[NodeFit]
) -> tuple[NearDomain, ...]:
    """Return the three domains of the required level that have most room, if none has enough.

    If each segment may be in any, those that have no room for one. O(nodes).
    """
    told, together, dimensions = room.no_domain, room.need.tasks, session.ledger.dimensions
    if told is None or room.sets:
        return ()
    counts = session.state.view.counts(room.need, Stage.NOW)
    if told.is_of_segments_alone:
        together = together[: told.segment]
    asked = total_of([task.init_resreq for task in together], dimensions.zero)
    found: list[NearDomain] = []
    for domain in room.domains:
        there = [fit for fit in fits if fit.node.slot in domain.slots]
        free = total_of([fit.node.idle for fit in there if not fit.refusals], dimensions.zero)
        lacks = [max(0, wanted - has) for wanted, has in zip(asked, free, strict=True)]
        held = None if counts is None else _held_in(session, domain, counts, told)
        if told.is_of_segments_alone and held is not None and held >= len(together):
            continue
        found.append(
            NearDomain(
                name=domain.name,
                room_for=None if held is None else min(held, len(together) - 1),
                needed=len(together),
                missing=dimensions.resource(lacks),
                unfit=counted(there, together[0].info),
            )
        )
    found.sort(key=lambda each: (-(each.room_for or 0), each.name))
    return tuple(found[:_NEAREST])


def _held_in(session: Session, domain: Area, counts: DomainCounts, told: NoDomain) -> int:
    """Return how many tasks have room in a domain; in one around segments, in whole ones."""
    if not told.segment or told.is_of_segments_alone:
        return sum(map(counts.on, domain.nodes))
    parts = domain.at(_topology_of(session, told).levels.index(told.segment_level))
    held = (sum(map(counts.on, part.nodes)) for part in parts)
    return sum(each - each % told.segment for each in held)
