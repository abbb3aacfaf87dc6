"""The laws on hints by which gangs that lack room are recognised without placing a part."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from batchsched.model.cluster import TaskStatus
from batchsched.plugin.node_functions import Predicate
from batchsched.plugin.verdicts import Vote
from batchsched.state.records import JobState, NodeState, TaskState
from batchsched.testing.laws.moves import Move, move
from batchsched.testing.laws.trial import Trial

__all__ = ["check_minimum", "check_room"]

_VOTES = ("job_ready", "job_pipelined", "job_condition_ready")


def check_room(trial: Trial) -> None:
    """The check accepts as many like tasks on a node as `room` says, one after the other."""
    for predicate in trial.predicates:
        if predicate.hints.room is None:
            continue
        alike: dict[Hashable, list[TaskState]] = {}
        for task in trial.pending:
            key = predicate.signature(task), task.init_resreq, task.resreq
            alike.setdefault(key, []).append(task)
        for tasks in alike.values():
            for node in trial.session.nodes:
                if predicate.check(tasks[0], node) is None:
                    _check_room_on(trial, predicate, predicate.hints.room, tasks, node)


def _check_room_on(
    trial: Trial,
    predicate: Predicate,
    room: Callable[[TaskState, NodeState], int | None],
    tasks: Sequence[TaskState],
    node: NodeState,
) -> None:
    said = room(tasks[0], node)
    law = "its check accepts as many like tasks on a node as room says"
    if said is not None and type(said) is not int:
        seen = f"for task {tasks[0].uid!r} and node {node.name!r} it says {said!r}"
        trial.fail("predicates", "room is an integer or None", seen)
    with trial.session.statement() as statement:
        for placed, task in enumerate(tasks):
            unfit = predicate.check(task, node)
            if (unfit is None) != (said is None or placed < said):
                seen = (
                    f"on node {node.name!r} it says {said!r} for tasks like {tasks[0].uid!r}; "
                    f"after {placed} of them the check says {unfit!r}"
                )
                trial.fail("predicates", law, seen)
            if unfit is not None or not node.fits_now(task.init_resreq):
                return
            statement.allocate(task, node)


def check_minimum(trial: Trial, moves: Sequence[Move]) -> None:
    """With `rejects_below_minimum`, all three votes reject a job below its minimum."""
    if getattr(trial.opened, "rejects_below_minimum", False) is not True:
        return
    with trial.session.statement() as statement:
        _check_votes(trial)
        for drawn in moves:
            if move(trial, statement, drawn) is not None:
                _check_votes(trial)


def _check_votes(trial: Trial) -> None:
    law = "with rejects_below_minimum it rejects jobs with fewer than min_available tasks placed"
    for point in _VOTES:
        vote: Callable[[JobState], object] | None = getattr(trial.opened, point, None)
        for job in trial.session.jobs.values():
            placed = job.ready_count + job.waiting_count + job.count(TaskStatus.CONDITIONAL)
            if (
                job.groups is not None
                or placed >= job.min_available
                or job.count(TaskStatus.RESERVED)
            ):
                continue
            if vote is None:
                trial.fail(point, law, "it has no such vote")
            answer = vote(job)
            if answer is not False and answer is not Vote.REJECT:
                seen = (
                    f"for job {job.uid!r}, with {placed} of {job.min_available}, it is {answer!r}"
                )
                trial.fail(point, law, seen)
