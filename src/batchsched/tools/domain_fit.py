"""How the domains of a topology suit what a job needs together, and what each of them lacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import field, frozen

from batchsched.actions.placing import best_for
from batchsched.causes import UnfitReason
from batchsched.model.immutable import EMPTY, AsMap
from batchsched.model.reasons import NoDomain, Unfit
from batchsched.model.resources import Resource
from batchsched.model.texts import all_of, level_word
from batchsched.model.topology import Topology
from batchsched.plugin.candidates import NodeSet
from batchsched.plugins.topology.areas import areas_of
from batchsched.session.candidates import need_in_sets, sets_in_turn, try_in, why_no_set
from batchsched.session.session import Session, Statement
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
    domains: Sequence[NodeSet]
    """The domains of the required level that are open to it; of several levels, the narrowest."""

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
    no_set = why_no_set(session, need)
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
    if not found and no_domain is None:
        return None  # it is no domain that is in the way
    held = len(need.tasks) if found or no_domain is None else no_domain.best
    return RoomInSets(need, held, found, no_domain, _domains(session, need, no_domain))


def _domains(session: Session, need: Need, no_domain: NoDomain | None) -> Sequence[NodeSet]:
    """Return the domains of a level that have all that a need has on nodes already."""
    if no_domain is None:
        return ()
    named = {each.name: each for each in session.ledger.topologies}
    level = no_domain.level
    topology = named.get(no_domain.topology or "", Topology(f":{level}", (level,)))
    home = {task.node.slot for task in need.home if task.node is not None}
    domains = areas_of(topology, session.nodes).at(topology.levels.index(level))
    return [each for each in domains if home <= each.slots]


def nearest_domains(
    session: Session, room: RoomInSets, fits: Sequence[NodeFit]
) -> tuple[NearDomain, ...]:
    """Return the three domains of the required level that have most room. O(nodes)."""
    need, dimensions = room.need, session.ledger.dimensions
    counts = session.state.view.counts(need, Stage.NOW)
    asked = total_of([task.init_resreq for task in need.tasks], dimensions.zero)
    found: list[NearDomain] = []
    for domain in room.domains:
        there = [fit for fit in fits if fit.node.slot in domain.slots]
        free = total_of([fit.node.idle for fit in there if not fit.refusals], dimensions.zero)
        lacks = [max(0, wanted - has) for wanted, has in zip(asked, free, strict=True)]
        held = None if counts is None else sum(map(counts.on, domain.nodes))
        found.append(
            NearDomain(
                name=domain.name,
                room_for=None if held is None else min(held, len(need.tasks) - 1),
                needed=len(need.tasks),
                missing=dimensions.resource(lacks),
                unfit=counted(there, need.tasks[0].info),
            )
        )
    found.sort(key=lambda each: (-(each.room_for or 0), each.name))
    return tuple(found[:_NEAREST])
