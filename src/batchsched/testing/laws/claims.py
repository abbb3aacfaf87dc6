"""The laws on what verdicts depend on, which searches for room rely on."""

from __future__ import annotations

from itertools import zip_longest

from batchsched.plugin.verdicts import Verdict
from batchsched.state.records import QueueState, TaskState
from batchsched.testing.laws.asking import (
    Answers,
    Point,
    Question,
    candidates_for,
    verdicts,
)
from batchsched.testing.laws.trial import Trial, owner

__all__ = ["check_claimant_keys", "check_may_give", "check_scope_of_verdicts"]

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


def check_may_give(trial: Trial) -> None:
    """If `may_give` is false for a queue, all its tasks are protected, alone and with others."""
    may_give = trial.hints.may_give
    if may_give is None:
        return
    for queue in trial.session.queues.values():
        if may_give(queue):
            continue
        for claimant in trial.pending:
            if owner(claimant).queue is not queue:
                _expect_nothing_given(trial, queue, claimant)


def _expect_nothing_given(trial: Trial, queue: QueueState, claimant: TaskState) -> None:
    law = "it may say that a queue gives nothing only if all tasks of the queue are protected"
    for node in trial.session.nodes:
        candidates = candidates_for(trial, "reclaimable", claimant, node)
        of_queue = [task for task in candidates if owner(task).queue is queue]
        for asked in (candidates, *([task] for task in of_queue)) if of_queue else ():
            answers = list(verdicts(trial, "reclaimable", claimant, asked))
            for task, verdict in zip_longest(asked, answers):
                if verdict is not Verdict.PROTECTED and task in of_queue:
                    seen = (
                        f"it says so of queue {queue.name!r}, and of {task.uid!r} there "
                        f"reclaimable says {verdict} for task {claimant.uid!r}"
                    )
                    trial.fail("may_give", law, seen)
