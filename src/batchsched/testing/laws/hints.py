"""The laws on what verdicts depend on, and on votes: hints must not change any answer."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence, Sized
from itertools import islice
from typing import cast

from batchsched.model.cluster import TaskStatus
from batchsched.plugin.extension_points import Preemptable, Reclaimable, Verdict, Vote
from batchsched.plugin.hints import EvictionHints
from batchsched.state.groups import Counting
from batchsched.state.records import JobState, NodeState, TaskState
from batchsched.testing.laws.asking import (
    Answers,
    Point,
    Question,
    candidates_for,
    is_truth,
    verdicts,
)
from batchsched.testing.laws.trial import Move, Trial, move, owner

_POINTS: tuple[Point, ...] = ("preemptable", "reclaimable")


def check_claimant_keys(trial: Trial) -> None:
    """Claimants with equal `claimant_key` get equal verdicts on equal candidates."""
    claimant_key = trial.hints.claimant_key
    if claimant_key is None:
        return
    pending = trial.pending
    for point in _POINTS:
        for node in trial.session.nodes:
            for one in pending:
                candidates = candidates_for(trial, point, one, node)
                for other in pending:
                    if (
                        other.uid <= one.uid
                        or candidates_for(trial, point, other, node) != candidates
                        or claimant_key(one) != claimant_key(other)
                    ):
                        continue
                    answers = [
                        list(verdicts(trial, point, task, candidates)) for task in (one, other)
                    ]
                    if answers[0] != answers[1]:
                        law = "claimants with equal claimant_key get equal verdicts"
                        seen = (
                            f"{one.uid!r} and {other.uid!r} have the same key and get "
                            f"{answers[0]} and {answers[1]} on "
                            f"{', '.join(task.uid for task in candidates)}"
                        )
                        trial.fail(point, law, seen)


def check_scope_of_verdicts(
    trial: Trial, before: Answers, after: Answers, moved: TaskState, what: str
) -> None:
    """With a `claimant_key`, a verdict changes only with the accounts of the victims.

    These are the accounts of their jobs and, for reclaimable, of their queues.
    """
    if trial.hints.claimant_key is None:
        return
    for question, answer in before.items():
        if question.point not in _POINTS or after.get(question, answer) == answer:
            continue
        key = Question("claimant_key", f"task {question.task!r}", task=question.task)
        if before[key] != after[key]:
            continue
        point: Point = "preemptable" if question.point == "preemptable" else "reclaimable"
        claimant, node = trial.session.task(question.task), trial.session.node(question.node)
        jobs = [owner(candidate) for candidate in candidates_for(trial, point, claimant, node)]
        job = owner(moved)
        if job in jobs or (point == "reclaimable" and job.queue in [each.queue for each in jobs]):
            continue
        also = ", and of their queues" if point == "reclaimable" else ""
        law = (
            "if it has a claimant_key, its verdicts read of the cluster only the candidates, "
            f"and the accounts of their jobs{also}"
        )
        trial.fail(point, law, f"{question} was {answer!r} and is {after[question]!r}, {what}")


def check_shields(trial: Trial) -> None:
    """Shielded tasks are protected, alone and with others, until more is charged to their jobs.

    This must hold as long as the claimant's key stays the same, since searches remember that long.
    """
    opened, hints = trial.opened, trial.hints
    if hints.shielded is None or hints.claimant_key is None:
        return
    points: list[Point] = []
    if isinstance(opened, Preemptable):
        points.append("preemptable")
    if isinstance(opened, Reclaimable):
        points.append("reclaimable")
    for point in points:
        for claimant in trial.pending:
            for node in trial.session.nodes:
                _check_shields_on(trial, hints, point, claimant, node)


def _check_shields_on(
    trial: Trial, hints: EvictionHints, point: Point, claimant: TaskState, node: NodeState
) -> None:
    candidates = candidates_for(trial, point, claimant, node)
    if not candidates:
        return
    assert hints.claimant_key is not None
    shielded = _shielded(trial, hints, claimant, candidates)
    protected = [candidate for candidate, is_so in zip(candidates, shielded, strict=True) if is_so]
    _expect_protected(trial, point, claimant, candidates, protected, "with others")
    for candidate in protected:
        _expect_protected(trial, point, claimant, [candidate], [candidate], "alone")
    if not protected:
        return
    key = hints.claimant_key(claimant)
    jobs = [owner(task) for task in protected]
    queues = [job.queue for job in jobs]
    for other in trial.session.ledger.tasks.values():
        if _can_go(other) and other not in protected:
            with trial.session.statement() as statement:
                statement.evict(other, claimant=claimant)
                _expect_shielded_still(trial, hints, claimant, key, protected, f"{other} leaves")
    for other in trial.pending:
        job = owner(other)
        if other is claimant or job in jobs or job.queue not in queues:
            continue
        free = (each for each in trial.session.nodes if each.fits_now(other.init_resreq))
        for place in islice(free, 1):
            with trial.session.statement() as statement:
                statement.allocate(other, place)
                _expect_shielded_still(trial, hints, claimant, key, protected, f"{other} starts")


def _expect_shielded_still(
    trial: Trial,
    hints: EvictionHints,
    claimant: TaskState,
    key: Hashable,
    protected: Sequence[TaskState],
    what: str,
) -> None:
    assert hints.claimant_key is not None
    if hints.claimant_key(claimant) != key:
        return  # with another key, it counts as another claimant
    still = _shielded(trial, hints, claimant, protected)
    if not all(still):
        law = "shielded tasks remain shielded while no more is charged to their jobs"
        seen = (
            f"for task {claimant.uid!r}, shielded was "
            f"{', '.join(repr(task.uid) for task in protected)}; when {what} the answer is {still}"
        )
        trial.fail("shielded", law, seen)


def _shielded(
    trial: Trial, hints: EvictionHints, claimant: TaskState, candidates: Sequence[TaskState]
) -> list[bool]:
    assert hints.shielded is not None
    answer = cast("object", hints.shielded(claimant, candidates))
    # Anything without a length is invalid.
    shielded = list(cast("Sequence[object]", answer)) if isinstance(answer, Sized) else []
    if len(shielded) != len(candidates) or any(map(is_truth, shielded)):
        law = "it answers with a bool for each candidate"
        trial.fail("shielded", law, f"for {len(candidates)} candidates it answers {answer!r}")
    return list(map(bool, shielded))


def _can_go(task: TaskState) -> bool:
    return task.status is TaskStatus.RUNNING and task.job is not None and task.job.in_session


def _expect_protected(
    trial: Trial,
    point: Point,
    claimant: TaskState,
    candidates: Sequence[TaskState],
    protected: Sequence[TaskState],
    how: str,
) -> None:
    answers = dict(zip(candidates, verdicts(trial, point, claimant, candidates), strict=True))
    for candidate in protected:
        if answers[candidate] is not Verdict.PROTECTED:
            law = "shielded tasks are protected, alone and with any others"
            seen = (
                f"{candidate.uid!r} is shielded from task {claimant.uid!r}, but the verdict on it "
                f"{how} is {answers[candidate]}"
            )
            trial.fail("shielded", law, seen)


_VOTES = ("job_ready", "job_pipelined", "job_condition_ready")


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
            placed = job.counted[Counting.HOPED]
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
