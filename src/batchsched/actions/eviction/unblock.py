"""Let broken gangs that hold what each other needs run one after the other.

Two gangs that each lost a task may each hold the only place of the other's: both would wait for
ever, and do no work. So each broken job, in the order of turns, claims once from the broken jobs
that come after it; then each optional group that runs something, but less than its minimum, does
the same. What comes later never takes from what comes before, and who has claimed is broken no
more: it ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from attrs import frozen

from batchsched.actions.eviction.make_room import EvictionRules, claimant_for
from batchsched.actions.eviction.searching import SearchOn, find_victims
from batchsched.actions.eviction.telling import told_as
from batchsched.actions.placing import NOW_OR_LATER, place
from batchsched.model.cluster import TaskStatus
from batchsched.session.attempts import Attempts, Goal
from batchsched.session.candidates import (
    count_as_gone,
    may_go_anywhere,
    try_in_turn,
)
from batchsched.session.plugins import GANG
from batchsched.session.session import Session
from batchsched.session.statements import Statement
from batchsched.session.turns import (
    Turns,
    has_task_to_place,
    need_of,
    record_no_set,
    tasks_to_place,
)
from batchsched.session.victims import EvictionScope, may_leave
from batchsched.state.groups import Counting, GroupState
from batchsched.state.needs import Need, Stage, need_of_tasks, tasks_lacking
from batchsched.state.records import JobState, NodeState, TaskState
from batchsched.state.units import EvictionUnit

_SCOPE = EvictionScope.ANY_OTHER_JOB


@frozen(eq=False)
class Blocked:
    """A job or optional group of which something runs, but too little to do any work."""

    job: JobState
    group: GroupState | None = None
    """The group; None: the job itself is broken."""

    def is_still(self, session: Session) -> bool:
        """Return whether it is still so, and not promised enough to run again."""
        job, group = self.job, self.group
        if not job.in_session:
            return False
        if group is None:
            return job.is_broken and not session.plugins.job_pipelined(job)
        return job.has_minimum() and not group.is_satisfied(Counting.PROMISED) and any(self.tasks())

    def tasks(self) -> list[TaskState]:
        """Return its tasks that occupy nodes, in order of UID."""
        there = [task for task in self.job.tasks if task.status.occupies]
        groups, group = self.job.groups, self.group
        if groups is None or group is None:
            return there
        return [task for task in there if group in groups.leaf_of(task).path()]


def unblock(session: Session, rules: EvictionRules) -> None:
    """Let each that is blocked claim once from those that come later."""
    order = blocked(session)
    for position, one in enumerate(order):
        later = [other for other in reversed(order[position + 1 :]) if other.is_still(session)]
        if later and one.is_still(session) and has_task_to_place(one.job):
            serve = _serve_job if one.group is None else _serve_group
            serve(session, rules, one, later)


def blocked(session: Session) -> list[Blocked]:
    """Return the broken jobs in the order of turns, and then optional groups in that order.

    Jobs that have nothing to place come after the others.
    """
    found = {
        job: each
        for job in session.jobs_running_in_part()
        if (each := [one for one in _blocked_of(job) if one.is_still(session)])
    }
    if len(found) <= 1:
        return [one for each in found.values() for one in each]
    waiting = sorted(filter(has_task_to_place, found), key=session.plugins.job_order_key)
    in_turn = [turn.job for _, turns in Turns(session, waiting).by_queue() for turn in turns]
    jobs = [*in_turn, *(job for job in found if job not in waiting)]
    return sorted(
        (one for job in jobs for one in found[job]), key=lambda one: one.group is not None
    )


def _blocked_of(job: JobState) -> list[Blocked]:
    """Return the job, or its optional groups of which less runs than they need."""
    if not job.has_minimum() or job.groups is None:
        return [Blocked(job)]
    leaves = {job.groups.leaf_of(task): None for task in job.tasks if task.status.occupies}
    entered = [leaf.entered(Counting.READY) for leaf in leaves]
    return [Blocked(job, group) for group in dict.fromkeys(entered) if group is not None]


def _serve_job(
    session: Session, rules: EvictionRules, one: Blocked, later: Sequence[Blocked]
) -> None:
    """Place all that a job lacks, evicting others completely, or nothing."""
    if not may_go_anywhere(session, one.job):
        need = need_of(session, one.job, tasks_to_place(session, one.job))
        if need is not None:
            _serve_in_sets(session, rules, need, later)
        return

    def place_one(statement: Statement, task: TaskState, _stage: Stage | None) -> bool:
        return _place(session, statement, task, rules, later)

    def keeps(statement: Statement, goal: Goal) -> bool:
        is_enough = goal.is_complete and session.plugins.job_pipelined(one.job)
        return is_enough and rules.allow(session, statement)

    attempts = Attempts(
        session=session, is_enough=session.plugins.job_pipelined, asks_ahead=True, tries_all=True
    )
    for turn in Turns(session, [one.job]):
        attempts.serve(turn, place_one, keeps)


def _serve_group(
    session: Session, rules: EvictionRules, one: Blocked, later: Sequence[Blocked]
) -> None:
    """Place all that an optional group lacks, evicting others completely, or nothing."""
    groups, group = one.job.groups, one.group
    assert groups is not None
    assert group is not None
    pending = session.in_task_order(one.job.having(TaskStatus.PENDING))
    tasks = tasks_lacking(group, groups, [task for task in pending if not task.is_best_effort])
    if tasks and not may_go_anywhere(session, one.job):
        _serve_in_sets(session, rules, need_of_tasks(one.job, tasks), later)
        return
    session.attempt(
        lambda statement: (
            bool(tasks)
            and all(_place(session, statement, task, rules, later) for task in tasks)
            and rules.allow(session, statement)
        )
    )


def _serve_in_sets(
    session: Session, rules: EvictionRules, need: Need, later: Sequence[Blocked]
) -> None:
    """Place a need in one set of nodes that plugins offer, evicting others completely."""
    leaving: dict[NodeState | None, list[TaskState]] = {}
    for task in (task for each in later for task in each.tasks()):
        leaving.setdefault(task.node, []).append(task)
    count_as_gone(session, lambda node: leaving.get(node, ()), cures=rules.curable)

    def tries(statement: Statement) -> bool:
        place_one = partial(_place, session, rules=rules, later=later)
        stages = (Stage.LATER, Stage.EVICTING)
        if try_in_turn(session, statement, need, place_one, stages) is None:
            record_no_set(session, need)
            return False
        return session.plugins.job_pipelined(need.job) and rules.allow(session, statement)

    session.attempt(tries)


def _place(
    session: Session,
    statement: Statement,
    task: TaskState,
    rules: EvictionRules,
    later: Sequence[Blocked],
) -> bool:
    """Place a task, if need be where others leave, as few as possible."""
    if place(session, statement, task, NOW_OR_LATER, looks_ahead=True):
        return True
    units = [
        EvictionUnit(each.job, tasks, tasks, (0, ()))
        for each in later
        if (tasks := each.tasks()) and _may_go(session, rules, task, tasks)
    ]
    claimant = claimant_for(session, statement, task, _SCOPE, rules, units=units)
    opening = find_victims(claimant, SearchOn(claimant, claimant.feasible()))
    return opening is not None and claimant.take(
        statement, opening, partial(told_as, "broken", session, opening.node)
    )


def _may_go(
    session: Session, rules: EvictionRules, claimant: TaskState, tasks: Sequence[TaskState]
) -> bool:
    """Return whether tasks that do no work may be evicted: neither shares nor gang protect them."""
    plugins, recent = session.plugins, rules.recent(session)
    judges = plugins.judges[_SCOPE.point]
    return (
        all(may_leave(task, claimant, by_priority=judges.by_priority) for task in tasks)
        and not (recent is not None and any(task in recent for task in tasks))
        and not judges.protects_any(tasks, claimant, but={GANG, *plugins.names_on("claim")})
    )
