"""All questions that a session asks a plugin, and what may be answered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from functools import partial
from itertools import combinations, islice
from math import isfinite
from numbers import Real
from typing import Any, cast

from attrs import evolve, frozen

from batchsched.model.cluster import TaskStatus
from batchsched.model.reasons import JobCondition, Unfit
from batchsched.plugin.candidates import NodeSet
from batchsched.plugin.extension_points import Verdict, Vote
from batchsched.plugin.node_functions import Predicate, Reads
from batchsched.session.candidates import MOST_SETS, count_beside
from batchsched.session.points import takes_need
from batchsched.session.victims import EvictionScope
from batchsched.state.needs import Need, Stage, need_of_job
from batchsched.state.records import NodeState, QueueState, TaskState
from batchsched.testing.laws.trial import LawTrial, owner

Problem = Callable[[object], str]
"""What is wrong with an answer, in words after "which"; empty if nothing is."""


def _unless(is_sound: Callable[[Any], bool], otherwise: str) -> Problem:
    def problem(answer: object) -> str:
        try:
            return "" if is_sound(answer) else otherwise
        except Exception:
            return otherwise

    return problem


def _is_itself(answer: object) -> bool:
    # Tuples are equal if their parts are identical, even if those are not equal to themselves.
    if isinstance(answer, (tuple, list)):
        return all(map(_is_itself, cast("Iterable[object]", answer)))
    return bool(answer == answer)  # noqa: PLR0124


def is_key(answer: object) -> str:
    """A key is equal to itself, and so are the parts of a tuple."""
    if answer is None:
        return "is not a key"
    try:
        return "" if _is_itself(answer) else "is or contains a value that is not equal to itself"
    except Exception as error:
        return f"cannot be compared: {error}"


def is_number(answer: object) -> str:
    """A finite real number."""
    if not isinstance(answer, Real):
        return "is not a number"
    try:
        return "" if isfinite(answer) else "is not finite"
    except OverflowError:
        return "is too large for a float"


def _are_integers(answer: object) -> bool:
    return isinstance(answer, tuple) and {*map(type, cast("tuple[object]", answer))} <= {int}


is_truth = _unless(lambda answer: answer in (True, False), "is neither True nor False")
is_vote = _unless(lambda answer: isinstance(answer, (bool, Vote)), "is neither a Vote nor a bool")
is_condition = _unless(
    lambda answer: answer is None or isinstance(answer, JobCondition), "is not a JobCondition"
)
is_unfit = _unless(
    lambda answer: answer is None or isinstance(answer, Unfit), "is neither None nor an Unfit"
)
is_hashable = _unless(lambda answer: bool({answer}), "cannot be hashed")
is_tuple_of_integers = _unless(_are_integers, "is not a tuple of integers")


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


class QuestionKind(Enum):
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
    kind: QuestionKind = QuestionKind.OTHER
    name: str = ""
    """The name of the queue, or the UID of the job or task, that it is about alone."""
    task: str = ""
    node: str = ""
    number: int = 0
    """The position among the plugin's predicates or scores."""
    reads: Reads = Reads.CLUSTER

    def __str__(self) -> str:
        return f"{self.point} of {self.about}"


Answers = dict[Question, object]
KEY_OF_CLAIMANTS = "claimant_key"


def first_change(
    before: Answers, after: Answers, counts: Callable[[Question], bool] = lambda _: True
) -> tuple[Question, str] | None:
    """Return the first counted question whose answer changed, with a description; or None."""
    for question, answer in before.items():
        if question in after and after[question] != answer and counts(question):
            return question, f"{question} was {answer!r} and is {after[question]!r}"
    return None


def ask_all(trial: LawTrial) -> Answers:
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


_POINTS: Mapping[str, Mapping[str, tuple[QuestionKind, Callable[[object], str]]]] = {
    "queue": {
        "queue_order_key": (QuestionKind.QUEUE_KEY, is_key),
        "overused": (QuestionKind.OTHER, is_truth),
    },
    "job": {
        "job_order_key": (QuestionKind.JOB_KEY, is_key),
        "job_valid": (QuestionKind.OTHER, is_condition),
        "job_ready": (QuestionKind.OTHER, is_vote),
        "job_pipelined": (QuestionKind.OTHER, is_vote),
        "job_condition_ready": (QuestionKind.OTHER, is_vote),
        "job_order_shares": (QuestionKind.OTHER, is_hashable),
        "may_claim": (QuestionKind.OTHER, is_truth),
    },
    "task": {"task_order_key": (QuestionKind.TASK_KEY, is_key)},
}
"""What is asked about each queue, job and task alone."""


def _questions(trial: LawTrial) -> Iterator[_Asked]:
    parts: Mapping[str, Mapping[str, object]] = {
        "queue": trial.session.queues,
        "job": trial.session.jobs,
        "task": {task.uid: task for task in trial.tasks},
    }
    for what, points in _POINTS.items():
        for name, part in parts[what].items():
            for point, (kind, check) in points.items():
                function = trial.function(point)
                if function is not None:
                    question = Question(point, f"{what} {name!r}", kind, name)
                    yield question, partial(_answer, function, part), check
    yield from _of_limits(trial)
    yield from _of_nodes(trial)
    yield from _of_victims(trial)
    yield from _of_sets(trial)


def _answer(function: Callable[..., object], part: object) -> object:
    if isinstance(part, QueueState) and takes_need(function):
        return function(part, _need_of(part))
    return function(part)


def _need_of(queue: QueueState) -> Need | None:
    """Return the need of the first waiting job of the queue, if there is one."""
    for job in queue.jobs:
        pending = job.having(TaskStatus.PENDING)
        if pending:
            return need_of_job(job, pending)
    return None


def _of_limits(trial: LawTrial) -> Iterator[_Asked]:
    """Ask for each job that waits whether its queue may take what it needs."""
    limit = trial.function("allocatable")
    if limit is None:
        return
    for job in trial.session.jobs.values():
        need = need_of_job(job, trial.session.in_task_order(job.having(TaskStatus.PENDING)))
        if need is not None and job.queue is not None:
            question = Question("allocatable", f"job {job.uid!r}")
            yield question, partial(limit, job.queue, need), is_unfit


def _of_nodes(trial: LawTrial) -> Iterator[_Asked]:
    room = trial.function("node_order_on_resource")
    kinds = {
        "predicates": (QuestionKind.PREDICATE, is_unfit),
        "node_scores": (QuestionKind.SCORE, is_number),
        "node_key": (QuestionKind.SCORE, is_tuple_of_integers),
        "choose": (QuestionKind.SCORE, is_hashable),
    }
    for task in trial.pending:
        functions = [
            (
                point,
                number,
                each.reads_for(task) if isinstance(each, Predicate) else each.reads,
                function,
            )
            for point, number, each, function in trial.node_functions
        ]
        if room is not None:
            functions.append(("node_order_on_resource", 0, Reads.CLUSTER, room))
        for node in trial.session.nodes:
            about = f"task {task.uid!r} on node {node.name!r}"
            for point, number, reads, function in functions:
                kind, check = kinds.get(point, (QuestionKind.OTHER, is_number))
                question = Question(point, about, kind, "", task.uid, node.name, number, reads)
                yield question, partial(function, task, node), check


def _of_sets(trial: LawTrial) -> Iterator[_Asked]:
    """Ask in which sets of nodes each job is to be tried, in each stage."""
    offer = trial.function("candidate_nodes")
    if offer is None:
        return
    everywhere = NodeSet("the cluster", trial.session.nodes)
    for job in trial.session.jobs.values():
        tasks = trial.session.in_task_order(job.having(TaskStatus.PENDING))
        need = need_of_job(job, tasks)
        if need is None:
            continue
        for stage in (None, *Stage):
            about = f"job {job.uid!r} {'at the end' if stage is None else stage.value}"
            asked = evolve(need, stage=stage)
            answer = partial(_sets, trial, offer, asked, everywhere)
            yield Question("candidate_nodes", about), answer, are_sets


def _sets(
    trial: LawTrial, offer: Callable[..., object], need: Need, within: NodeSet
) -> tuple[object, ...] | None:
    """Return what sets a plugin offers, as values that can be compared."""
    count_beside(trial.session, need.tasks[0], EvictionScope.OTHER_JOBS)
    answer = offer(need, within)
    if answer is None or isinstance(answer, Unfit):
        return None if answer is None else (answer,)
    sets = list(islice(cast("Iterable[object]", answer), MOST_SETS))
    return tuple(_set_as_value(each, need, within) for each in sets)


def _set_as_value(offered: object, need: Need, within: NodeSet) -> object:
    """Return a set as a value, or, as a text, what is wrong with it."""
    if not isinstance(offered, NodeSet):
        return f"{offered!r} is not a NodeSet"
    placed = [task for part in offered.parts for task in part.tasks]
    if not offered.slots <= within.slots:
        return f"{offered!r} has nodes that are not in the cluster"
    if len(set(placed)) < len(placed) or not set(placed) <= set(need.tasks):
        return f"{offered!r} has parts with tasks of which not each is needed, and once"
    if any(not part.nodes.slots <= offered.slots for part in offered.parts):
        return f"{offered!r} has parts with nodes that are not in it"
    parts = [(tuple(task.uid for task in part.tasks), part.nodes.slots) for part in offered.parts]
    return offered.name, offered.slots, tuple(parts)


def are_sets(answer: object) -> str:
    """None, an Unfit, or sound sets."""
    given = cast("Sequence[object]", answer or ())
    return next((f"has a wrong set: {each}" for each in given if isinstance(each, str)), "")


VERDICTS = ("preemptable", "reclaimable")
"""The extension points that give verdicts."""


def candidates_for(
    trial: LawTrial, point: str, claimant: TaskState, node: NodeState
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
    trial: LawTrial, point: str, claimant: TaskState, candidates: Sequence[TaskState]
) -> Sequence[Verdict]:
    """Return the plugin's verdicts."""
    function = trial.function(point)
    assert function is not None
    return tuple(cast("Iterable[Verdict]", function(claimant, candidates)))


Search = tuple[str, TaskState, NodeState, Sequence[TaskState]]


def searches(trial: LawTrial) -> Iterator[Search]:
    """Yield all that preempt and reclaim can ask: claimants, nodes, and the candidates there."""
    for claimant in trial.pending:
        for node in trial.session.nodes:
            for point in VERDICTS:
                if trial.function(point) is not None:
                    candidates = candidates_for(trial, point, claimant, node)
                    if candidates:
                        yield point, claimant, node, tuple(candidates)


def _of_victims(trial: LawTrial) -> Iterator[_Asked]:
    for point, claimant, node, candidates in searches(trial):
        about = f"{', '.join(repr(task.uid) for task in candidates)} for task {claimant.uid!r}"
        question = Question(point, about, task=claimant.uid, node=node.name)
        answer = partial(verdicts, trial, point, claimant, candidates)
        yield question, answer, partial(are_verdicts, candidates=len(candidates))
    claimant_key = trial.hints.claimant_key
    if claimant_key is not None:
        for claimant in trial.pending:
            yield key_question(claimant.uid), partial(claimant_key, claimant), is_hashable


def key_question(claimant: str) -> Question:
    """Return the question for a claimant's `claimant_key`."""
    return Question(KEY_OF_CLAIMANTS, f"task {claimant!r}", task=claimant)


def _check_order(trial: LawTrial, answers: Answers) -> None:
    """Check that the keys of one order can be compared."""
    for kind in (QuestionKind.JOB_KEY, QuestionKind.QUEUE_KEY, QuestionKind.TASK_KEY):
        keyed = [
            (question, answer) for question, answer in answers.items() if question.kind is kind
        ]
        found = first_incomparable([answer for _, answer in keyed])
        if found is not None:
            (one, left), (other, right) = keyed[found[0]], keyed[found[1]]
            seen = f"those of {one.about} and {other.about}, {left!r} and {right!r}, {found[2]}"
            trial.fail(one.point, "keys of one order compare", seen)
