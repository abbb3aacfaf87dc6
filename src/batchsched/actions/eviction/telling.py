"""What a traced cycle tells of a choice: by which right units go, and why others stay.

Nothing here decides. It is asked only where somebody listens, before the units have left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import cast

from attrs import evolve

from batchsched.model.reasons import Unfit
from batchsched.plugin.claims import Claim
from batchsched.session.reasons import staying_and_free
from batchsched.session.session import Session
from batchsched.session.statements import TakenUnit
from batchsched.session.victims import EvictionScope, RecentStarts, WhyNot
from batchsched.state.records import NodeState, TaskState
from batchsched.state.units import EvictionUnit
from batchsched.trace import UnitsTaken

_NOT_NEEDED = "could have gone instead"
_CLAIM = "claim"
"""The extension point of plugins that know by which right a queue claims."""


def told_as(
    right: str, session: Session, node: NodeState, taken: Sequence[TakenUnit]
) -> Sequence[TakenUnit]:
    """Return units with what is told of them, which is the right alone."""
    return taken if session.teller is None else _with_events(session, node, taken, lambda _: right)


def told_of_search(
    session: Session,
    node: NodeState,
    taken: Sequence[TakenUnit],
    *,
    scope: EvictionScope,
    candidates: Sequence[TaskState],
    recent: RecentStarts | None,
    limit: Unfit | None,
) -> Sequence[TakenUnit]:
    """Return units that a search has found with what is told of them.

    Args:
        session: the session.
        node: where room is made.
        taken: the units, for one task.
        scope: whom the search considered.
        candidates: the tasks on the node within that.
        recent: those that started recently.
        limit: the limit of queues that is short, if nothing else is.

    """
    if session.teller is None or not taken:
        return taken
    claimant, judges = taken[0].claimant, session.plugins.judges[scope.point]
    sharing = set(session.plugins.names_on("queue_share"))

    def granted(unit: TakenUnit) -> tuple[str, ...]:
        return judges.granted_by(claimant, unit.victims)

    def right(unit: TakenUnit) -> str:
        victim = unit.victims[0]
        assert claimant.job is not None
        assert victim.job is not None
        if limit is not None:
            return "limit"
        if scope is EvictionScope.SAME_JOB:
            return "same job"
        is_below = victim.job.info.priority < claimant.job.info.priority
        if judges.by_priority and is_below:
            return "priority"
        if scope is EvictionScope.OTHER_QUEUES and victim.is_backfill:
            return "backfill"
        if scope is EvictionScope.OTHER_QUEUES and sharing.intersection(granted(unit)):
            return "fair"
        return "verdicts"

    with session.teller.silently():
        out = _leaving(taken)
        started = [task for task in candidates if recent is not None and task in recent]
        asked = [task for task in candidates if task not in started]
        stayed, free = staying_and_free(session, claimant, scope, [asked], recent)
        if recent is not None and started:
            stayed[recent.text] += len(started)
        stayed[_NOT_NEEDED] += sum(task.uid not in out for each in free for task in each)
        told = _with_events(session, node, taken, right, stayed=stayed, by=granted)
    text = "" if limit is None else limit.text
    return [evolve(each, told=each.told and evolve(each.told, limit=text)) for each in told]


def told_of_claim(
    session: Session,
    claim: Claim,
    node: NodeState,
    taken: Sequence[TakenUnit],
    why_not: Callable[[], WhyNot],
) -> Sequence[TakenUnit]:
    """Return units that a claim has found with what is told of them.

    `why_not`: returns what says why tasks of a node do not leave for the claimant.
    """
    if session.teller is None or not taken:
        return taken
    knows = getattr(claim, "rights_of", None)
    units = [each.unit for each in taken if each.unit is not None]
    claimant = taken[0].claimant
    with session.teller.silently():
        rights: Sequence[str] = ["verdicts"] * len(units)
        if knows is not None:
            rights = cast("Callable[[Iterable[EvictionUnit]], Sequence[str]]", knows)(units)
        right_of = dict(zip(units, rights, strict=True))
        job, out = claimant.job, _leaving(taken)
        others = session.running_on(node).of_other_queues(None if job is None else job.queue)
        others = session.in_victim_order(task for task in others if task.uid not in out)
        said = why_not()(node, others) if others else ()
        stayed = Counter(_NOT_NEEDED if reason is None else reason for reason in said)

    def right(each: TakenUnit) -> str:
        unit = each.unit
        return "backfill" if unit is None or unit.is_backfill else right_of[unit]

    by = tuple(session.plugins.names_on(_CLAIM)) if knows is None else ()
    return _with_events(session, node, taken, right, stayed=stayed, by=lambda _: by)


def _leaving(taken: Iterable[TakenUnit]) -> set[str]:
    return {victim.uid for unit in taken for victim in unit.victims}


def _with_events(
    session: Session,
    node: NodeState,
    taken: Sequence[TakenUnit],
    right: Callable[[TakenUnit], str],
    *,
    stayed: Counter[str] | None = None,
    by: Callable[[TakenUnit], tuple[str, ...]] = lambda _: (),
) -> Sequence[TakenUnit]:
    """Return units with their event; those that have the same right share one."""
    events: dict[tuple[str, tuple[str, ...]], UnitsTaken] = {}
    counts = {reason: count for reason, count in sorted((stayed or {}).items()) if count}
    told: list[TakenUnit] = []
    for unit in taken:
        of_unit = right(unit)
        names = by(unit) if of_unit == "verdicts" else ()
        event = events.get((of_unit, names))
        if event is None:
            event = events[of_unit, names] = UnitsTaken(
                action=session.action_name,
                claimant=unit.claimant.uid,
                node=node.name,
                right=of_unit,
                by=names,
                stayed=counts,
            )
        told.append(evolve(unit, told=event))
    return told
