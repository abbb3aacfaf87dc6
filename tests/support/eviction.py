"""Sessions and plugins to make room in."""

from __future__ import annotations

from collections.abc import Sequence

from batchsched import JobInfo, Session
from batchsched.action import EvictionScope, make_room
from batchsched.plugin import NodeState, TaskState, Verdict
from batchsched.state.vectors import fits, plus
from tests.support.books import Saying, opened
from tests.support.clusters import cluster, node

PLUGINS = ("priority", "gang", "conformance", "drf", "predicates", "proportion", "nodeorder")


Amount = tuple[int, int]


def is_enough(taken: Sequence[TaskState], wanted: Amount) -> bool:
    """By counting everything anew."""
    return all(sum(of.resreq[d] for of in taken) >= wanted[d] for d in (0, 1))


# Shortfall on a node


def enough_by_the_rules(
    task: TaskState, of: NodeState, victims: Sequence[TaskState], *, may_use_idle: bool
) -> bool:
    freed = unmarked = tuple(0 for _ in task.init_resreq)
    for victim in victims:
        freed = plus(freed, victim.resreq)
        if not victim.is_backfill:
            unmarked = plus(unmarked, victim.resreq)
    return (
        fits(task.init_resreq, plus(of.future_idle, freed))
        and fits(task.init_resreq, plus(of.eventual, unmarked))
        and (may_use_idle or fits(task.init_resreq, freed))
    )


def anybody(_claimant: TaskState, candidates: Sequence[TaskState]) -> list[Verdict]:
    return [Verdict.VICTIM] * len(candidates)


SILENT = ("silent", Saying(preemptable=anybody, reclaimable=anybody))


WHOLE_GANG = ("gang", {"atMinimum": "whole-job"})


# Whole jobs


def whole(*jobs: JobInfo, nodes: Sequence[str], queues: Sequence[str] = ("q",)) -> Session:
    named = [node(f"n{number}", size) for number, size in enumerate(nodes, start=1)]
    return opened(cluster(named, *jobs, queues=queues), [WHOLE_GANG, "priority"])


# What is remembered, by example


def made_for(session: Session, uid: str, scope: EvictionScope) -> list[str] | None:
    """Make room for a task, for good; return who was evicted, None if there was no room."""
    before = len(session.evictions)
    with session.statement() as statement:
        task = session.task(uid)
        if not make_room(session, statement, task, scope=scope, may_use_idle=True):
            return None
        statement.commit()
    return [eviction.task_uid for eviction in session.evictions[before:]]
