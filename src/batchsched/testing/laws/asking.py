"""All questions that a session asks a plugin, and what may be answered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from functools import partial
from itertools import combinations
from math import isfinite
from numbers import Real
from typing import Literal, cast

from attrs import frozen

from batchsched.model.cluster import TaskStatus
from batchsched.model.reasons import JobCondition, Unfit
from batchsched.plugin.extension_points import (
    JobConditionReady,
    JobOrder,
    JobPipelined,
    JobReady,
    JobValid,
    NodeOrderOnResource,
    Overused,
    Preemptable,
    QueueOrder,
    Reclaimable,
    TaskOrder,
    Verdict,
    Vote,
)
from batchsched.plugin.node_functions import Reads
from batchsched.session.plugins import takes_need
from batchsched.state.needs import Need, need_of_job
from batchsched.state.records import JobState, NodeState, QueueState, TaskState
from batchsched.testing.laws.trial import Trial, owner


def is_key(answer: object) -> str:
    """A key is equal to itself, and so are the parts of a tuple."""
    if answer is None:
        return "is not a key"
    try:
        return "" if _is_itself(answer) else "is or contains a value that is not equal to itself"
    except Exception as error:
        return f"cannot be compared: {error}"


def _is_itself(answer: object) -> bool:
    # Tuples are equal if their parts are identical, even if those are not equal to themselves.
    if isinstance(answer, (tuple, list)):
        return all(map(_is_itself, cast("Iterable[object]", answer)))
    return bool(answer == answer)  # noqa: PLR0124


def is_truth(answer: object) -> str:
    """True, False, or a value equal to one of them."""
    try:
        return "" if answer in (True, False) else "is neither True nor False"
    except Exception:
        return "is neither True nor False"


def is_vote(answer: object) -> str:
    """A Vote, or a bool of Python."""
    return "" if isinstance(answer, (bool, Vote)) else "is neither a Vote nor a bool"


def is_condition(answer: object) -> str:
    """None or a condition."""
    return "" if answer is None or isinstance(answer, JobCondition) else "is not a JobCondition"


def is_unfit(answer: object) -> str:
    """None or a reason."""
    return "" if answer is None or isinstance(answer, Unfit) else "is neither None nor an Unfit"


def is_number(answer: object) -> str:
    """A finite real number."""
    if not isinstance(answer, Real):
        return "is not a number"
    try:
        return "" if isfinite(answer) else "is not finite"
    except OverflowError:
        return "is too large for a float"


def is_hashable(answer: object) -> str:
    """It and all its parts can be hashed."""
    try:
        hash(answer)
    except Exception:
        return "cannot be hashed"
    return ""


def are_verdicts(answer: object, candidates: int) -> str:
    """As many verdicts as candidates."""
    if not isinstance(answer, tuple):
        return "is not a sequence"
    given = cast("tuple[object, ...]", answer)
    if len(given) != candidates:
        return f"has {len(given)} verdicts for {candidates} candidates"
    if not all(isinstance(verdict, Verdict) for verdict in given):
        return "contains a value that is not a Verdict"
    return ""


def first_incomparable(keys: list[object]) -> tuple[int, int, str] | None:
    """Return the positions of two keys that cannot be ordered, and why; None if all can.

    For any two keys exactly one must hold: the first is less, the second is less, or they are
    equal.
    """
    kinds = set(map(type, keys))
    if kinds <= {int, float, bool} or kinds == {str}:
        return None  # NaN apart, which `is_key` finds; most keys are of this sort
    for (one, left), (other, right) in combinations(enumerate(keys), 2):
        try:
            holds = [bool(left < right), bool(right < left), bool(left == right)]  # type: ignore[operator]
        except Exception as error:
            return one, other, f"do not: {error}"
        if not any(holds):
            return one, other, "do not: they are not equal, and neither is less than the other"
        if sum(holds) > 1:
            return one, other, "do so in more than one way"
    return None


ANSWERS = "it returns what its extension point requires, and never raises"


class Kind(Enum):
    """The kind of a question."""

    JOB_KEY = 1
    QUEUE_KEY = 2
    TASK_KEY = 3
    PREDICATE = 4
    SCORE = 5
    OTHER = 6


@frozen(cache_hash=True)
class Question:
    """One question to a plugin: the extension point and its subject."""

    point: str
    about: str
    kind: Kind = Kind.OTHER
    job: str = ""
    queue: str = ""
    task: str = ""
    node: str = ""
    number: int = 0
    """The position among the plugin's predicates or scores."""
    reads: Reads = Reads.CLUSTER

    def __str__(self) -> str:
        return f"{self.point} of {self.about}"


Answers = dict[Question, object]


def first_change(
    before: Answers, after: Answers, counts: Callable[[Question], bool] = lambda _: True
) -> tuple[Question, str] | None:
    """Return the first counted question whose answer changed, with a description; or None."""
    for question, answer in before.items():
        if question in after and after[question] != answer and counts(question):
            return question, f"{question} was {answer!r} and is {after[question]!r}"
    return None


def ask_all(trial: Trial) -> Answers:
    """Ask all questions; return all answers.

    Raises:
        LawViolation: the plugin raised an error, or returned an invalid answer.
    """
    answers: Answers = {}
    for question, function, check in _questions(trial):
        try:
            answer = function()
        except Exception as error:
            seen = f"{question} raises {type(error).__name__}: {error}"
            trial.fail(question.point, ANSWERS, seen)
        problem = check(answer)
        if problem:
            trial.fail(question.point, ANSWERS, f"{question} is {answer!r}, which {problem}")
        answers[question] = answer
    _check_order(trial, answers)
    return answers


_Asked = tuple[Question, Callable[[], object], Callable[[object], str]]


def _questions(trial: Trial) -> Iterator[_Asked]:
    yield from _of_queues(trial)
    yield from _of_jobs(trial)
    yield from _of_tasks(trial)
    yield from _of_nodes(trial)
    yield from _of_victims(trial)


# Extension points are looked up once, not for each job or node, because that is slow.


def _of_queues(trial: Trial) -> Iterator[_Asked]:
    opened = trial.opened
    order = opened.queue_order_key if isinstance(opened, QueueOrder) else None
    by_need = order is not None and takes_need(order)
    overused = opened.overused if isinstance(opened, Overused) else None
    for queue in trial.session.queues.values():
        about = f"queue {queue.name!r}"
        if order is not None:
            question = Question("queue_order_key", about, Kind.QUEUE_KEY, queue=queue.name)
            asked = (queue, _need_of(queue)) if by_need else (queue,)
            yield question, partial(order, *asked), is_key
        if overused is not None:
            question = Question("overused", about, queue=queue.name)
            yield question, partial(overused, queue), is_truth


def _need_of(queue: QueueState) -> Need | None:
    """Return the need of the first waiting job of the queue, if there is one."""
    for job in queue.jobs:
        pending = job.having(TaskStatus.PENDING)
        if pending:
            return need_of_job(job, pending)
    return None


def _of_jobs(trial: Trial) -> Iterator[_Asked]:
    opened = trial.opened
    order = opened.job_order_key if isinstance(opened, JobOrder) else None
    valid = opened.job_valid if isinstance(opened, JobValid) else None
    votes: list[tuple[str, Callable[[JobState], object]]] = []
    if isinstance(opened, JobReady):
        votes.append(("job_ready", opened.job_ready))
    if isinstance(opened, JobPipelined):
        votes.append(("job_pipelined", opened.job_pipelined))
    if isinstance(opened, JobConditionReady):
        votes.append(("job_condition_ready", opened.job_condition_ready))
    for uid, job in trial.session.jobs.items():
        about = f"job {uid!r}"
        if order is not None:
            question = Question("job_order_key", about, Kind.JOB_KEY, job=uid)
            yield question, partial(order, job), is_key
        if valid is not None:
            yield Question("job_valid", about, job=uid), partial(valid, job), is_condition
        for point, vote in votes:
            yield Question(point, about, job=uid), partial(vote, job), is_vote


def _of_tasks(trial: Trial) -> Iterator[_Asked]:
    opened = trial.opened
    if isinstance(opened, TaskOrder):
        for task in trial.tasks:
            question = Question(
                "task_order_key", f"task {task.uid!r}", Kind.TASK_KEY, task=task.uid
            )
            yield question, partial(opened.task_order_key, task), is_key


def _of_nodes(trial: Trial) -> Iterator[_Asked]:
    opened = trial.opened
    room = opened.node_order_on_resource if isinstance(opened, NodeOrderOnResource) else None
    predicates, scores = trial.predicates, trial.scores
    for task in trial.pending:
        for node in trial.session.nodes:
            about = f"task {task.uid!r} on node {node.name!r}"
            for number, predicate in enumerate(predicates):
                question = Question(
                    "predicates",
                    about,
                    Kind.PREDICATE,
                    task=task.uid,
                    node=node.name,
                    number=number,
                    reads=predicate.reads,
                )
                yield question, partial(predicate.check, task, node), is_unfit
            for number, score in enumerate(scores):
                question = Question(
                    "node_scores",
                    about,
                    Kind.SCORE,
                    task=task.uid,
                    node=node.name,
                    number=number,
                    reads=score.reads,
                )
                yield question, partial(score.score, task, node), is_number
            if room is not None:
                question = Question("node_order_on_resource", about, task=task.uid, node=node.name)
                yield question, partial(room, task, node), is_number


Point = Literal["preemptable", "reclaimable"]


def candidates_for(
    trial: Trial, point: Point, claimant: TaskState, node: NodeState
) -> list[TaskState]:
    """Return the candidates of preempt or reclaim on a node, in victim order."""
    mine = owner(claimant)
    found = [
        task
        for task in node.tasks.values()
        if task.status is TaskStatus.RUNNING
        and task.job is not None
        and task.job.in_session
        and task.job is not mine
        and (task.job.queue is mine.queue) == (point == "preemptable")
    ]
    return trial.session.in_victim_order(found)


def verdicts(
    trial: Trial, point: Point, claimant: TaskState, candidates: Sequence[TaskState]
) -> Sequence[Verdict]:
    """Return the plugin's verdicts; () if it does not have the extension point."""
    opened = trial.opened
    if point == "preemptable" and isinstance(opened, Preemptable):
        return opened.preemptable(claimant, candidates)
    if point == "reclaimable" and isinstance(opened, Reclaimable):
        return opened.reclaimable(claimant, candidates)
    return ()


def _of_victims(trial: Trial) -> Iterator[_Asked]:
    points: list[Point] = []
    if isinstance(trial.opened, Preemptable):
        points.append("preemptable")
    if isinstance(trial.opened, Reclaimable):
        points.append("reclaimable")
    for claimant in trial.pending:
        for node in trial.session.nodes if points else ():
            for point in points:
                candidates = candidates_for(trial, point, claimant, node)
                if not candidates:
                    continue
                names = ", ".join(repr(task.uid) for task in candidates)
                question = Question(
                    point,
                    f"{names} for task {claimant.uid!r}",
                    task=claimant.uid,
                    node=node.name,
                )
                yield (
                    question,
                    partial(_verdicts_of, trial, point, claimant, tuple(candidates)),
                    partial(are_verdicts, candidates=len(candidates)),
                )
    claimant_key = trial.hints.claimant_key
    if claimant_key is not None:
        for claimant in trial.pending:
            question = Question("claimant_key", f"task {claimant.uid!r}", task=claimant.uid)
            yield (
                question,
                partial(claimant_key, claimant),
                is_hashable,
            )


def _verdicts_of(
    trial: Trial, point: Point, claimant: TaskState, candidates: tuple[TaskState, ...]
) -> tuple[object, ...]:
    return tuple(verdicts(trial, point, claimant, candidates))


def _check_order(trial: Trial, answers: Answers) -> None:
    """Check that the keys of one order can be compared."""
    for kind in (Kind.JOB_KEY, Kind.QUEUE_KEY, Kind.TASK_KEY):
        keyed = [
            (question, answer) for question, answer in answers.items() if question.kind is kind
        ]
        found = first_incomparable([answer for _, answer in keyed])
        if found is not None:
            (one, left), (other, right) = keyed[found[0]], keyed[found[1]]
            seen = f"those of {one.about} and {other.about}, {left!r} and {right!r}, {found[2]}"
            trial.fail(one.point, "keys of one order compare", seen)
