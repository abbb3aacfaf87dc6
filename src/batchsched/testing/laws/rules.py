"""The laws, each a function."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from batchsched.plugin.node_functions import NodeScore, Predicate, Reads
from batchsched.state.records import NodeState, TaskState
from batchsched.testing.laws.asking import (
    ANSWERS,
    Answers,
    Kind,
    Question,
    ask_all,
    first_change,
    is_number,
)
from batchsched.testing.laws.hints import check_scope_of_verdicts
from batchsched.testing.laws.trial import Move, Trial, move, owner


def check_stability(trial: Trial) -> Answers:
    """Equal calls return equal answers, and calls change nothing; return the answers."""
    books = trial.books()
    first = ask_all(trial)
    if trial.books() != books:
        trial.fail("open", "calls change nothing", "the session's accounts have changed")
    changed = first_change(first, ask_all(trial))
    if changed is not None:
        question, seen = changed
        trial.fail(question.point, "called twice, it returns the same", seen)
    return first


def check_discard(trial: Trial, moves: Sequence[Move]) -> None:
    """After a statement is discarded, every answer is as before."""
    before = ask_all(trial)
    done: list[str] = []
    with trial.session.statement() as statement:
        for drawn in moves:
            moved = move(trial, statement, drawn)
            if moved is not None:
                done.append(f"{moved[0].uid} on {moved[1].name}")
                ask_all(trial)
    changed = first_change(before, ask_all(trial))
    if changed is not None:
        question, seen = changed
        law = "after a statement is discarded, it answers as before it"
        trial.fail(question.point, law, f"{seen}, after {', '.join(done)} was undone")


def check_scope(trial: Trial, moves: Sequence[Move]) -> None:
    """The placement of a task changes only answers that may depend on it.

    It must not change keys of other jobs and queues, keys of tasks, answers about other nodes
    (unless declared to read the cluster) or about its node if declared to read only descriptions,
    and verdicts on tasks of other jobs if the plugin has a `claimant_key`.
    """
    with trial.session.statement() as statement:
        for drawn in moves:
            before = ask_all(trial)
            moved = move(trial, statement, drawn)
            if moved is None:
                continue
            task, node = moved
            after = ask_all(trial)
            what = f"task {task.uid!r} of job {owner(task).uid!r} is {task.status.value}"
            what = f"after {what} on node {node.name!r}"
            _check_scope_of(trial, before, after, (task, node), what)
            check_scope_of_verdicts(trial, before, after, task, what)
    _check_accounts(trial)


def _check_scope_of(
    trial: Trial,
    before: Answers,
    after: Answers,
    moved: tuple[TaskState, NodeState],
    what: str,
) -> None:
    task, node = moved
    job = owner(task)
    queue = job.queue
    assert queue is not None

    def stays(question: Question) -> bool:
        match question.kind:
            case Kind.JOB_KEY:
                return question.job != job.uid
            case Kind.QUEUE_KEY:
                return question.queue != queue.name
            case Kind.TASK_KEY:
                return True
            case Kind.PREDICATE | Kind.SCORE:
                if question.reads is Reads.CLUSTER:
                    return False
                return question.node != node.name or question.reads is Reads.DESCRIPTION
            case Kind.OTHER:
                return False

    changed = first_change(before, after, stays)
    if changed is not None:
        question, seen = changed
        laws = {
            Kind.JOB_KEY: "a job's key depends on nothing but the job",
            Kind.QUEUE_KEY: "a queue's key depends on nothing but the queue",
            Kind.TASK_KEY: "a task's key stays the same during a cycle",
        }
        law = laws.get(
            question.kind, f"it is declared to read no more than Reads.{question.reads.name}"
        )
        trial.fail(question.point, law, f"{seen}, {what}")


def _check_accounts(trial: Trial) -> None:
    """With Reads.ACCOUNTS, it does not matter which tasks hold the amounts on a node."""
    pending = trial.pending
    for one, other in pairwise(pending):
        if not _same_amounts(one, other) or one.info == other.info:
            continue
        for node in trial.session.nodes:
            if not node.fits_now(one.init_resreq):
                continue
            answers = [_with(trial, task, node) for task in (one, other)]
            changed = first_change(
                answers[0],
                answers[1],
                lambda q, n=node, pair=(one.uid, other.uid): (  # type: ignore[misc]
                    q.kind in (Kind.PREDICATE, Kind.SCORE)
                    and q.reads in (Reads.DESCRIPTION, Reads.ACCOUNTS)
                    and q.node == n.name
                    and q.task not in pair
                ),
            )
            if changed is not None:
                question, seen = changed
                law = f"it is declared to read no more than Reads.{question.reads.name}"
                trial.fail(
                    question.point,
                    law,
                    f"{seen} with task {other.uid!r} there instead of {one.uid!r}, "
                    "which holds as much",
                )
            break


def _same_amounts(one: TaskState, other: TaskState) -> bool:
    return (
        one.resreq == other.resreq
        and one.init_resreq == other.init_resreq
        and one.scoring_milli_cpu == other.scoring_milli_cpu
        and one.scoring_memory == other.scoring_memory
        and one.is_backfill == other.is_backfill
    )


def _with(trial: Trial, task: TaskState, node: NodeState) -> Answers:
    with trial.session.statement() as statement:
        statement.allocate(task, node)
        return ask_all(trial)


def check_task_keys(trial: Trial) -> None:
    """Tasks with equal `signature` get equal answers on every node."""
    for point, functions in (("predicates", trial.predicates), ("node_scores", trial.scores)):
        for function in functions:
            first: dict[object, TaskState] = {}
            for task in trial.pending:
                try:
                    key = function.signature(task)
                    like = first.setdefault(key, task)
                except Exception as error:
                    seen = f"that of task {task.uid!r} raises {type(error).__name__}: {error}"
                    trial.fail(point, "signature answers with something that can be hashed", seen)
                if like is not task:
                    _compare_tasks(trial, point, function, (like, task))


def _answer(function: Predicate | NodeScore, task: TaskState, node: NodeState) -> object:
    if isinstance(function, Predicate):
        return function.check(task, node)
    return function.score(task, node)


def _compare_tasks(
    trial: Trial,
    point: str,
    function: Predicate | NodeScore,
    pair: tuple[TaskState, TaskState],
) -> None:
    for node in trial.session.nodes:
        answers = [_answer(function, task, node) for task in pair]
        if answers[0] != answers[1]:
            seen = (
                f"{pair[0].uid!r} and {pair[1].uid!r} have the same key and get {answers[0]!r} "
                f"and {answers[1]!r} on node {node.name!r}"
            )
            trial.fail(point, "tasks with equal signature get equal answers", seen)


def check_normalise(trial: Trial, moves: Sequence[Move]) -> None:
    """`normalise` depends only on raw, lowest and highest, and returns finite numbers."""
    asked: list[tuple[NodeScore, float, float, float, float]] = []
    for score in trial.scores:
        if score.normalise is None:
            continue
        for task in trial.pending:
            raw = [score.score(task, node) for node in trial.session.nodes]
            for value in raw:
                now = score.normalise(value, min(raw), max(raw))
                problem = is_number(now)
                if problem:
                    what = f"normalise({value!r}, {min(raw)!r}, {max(raw)!r}) is {now!r}"
                    trial.fail("node_scores", ANSWERS, f"{what}, which {problem}")
                asked.append((score, value, min(raw), max(raw), now))
    if not asked:
        return
    law = "normalise depends on raw, lowest and highest only"
    with trial.session.statement() as statement:
        for drawn in moves:
            move(trial, statement, drawn)
        for score, value, lowest, highest, before in reversed(asked):
            assert score.normalise is not None
            now = score.normalise(value, lowest, highest)
            if now != before:
                seen = (
                    f"normalise({value!r}, {lowest!r}, {highest!r}) was {before!r} and is {now!r}"
                )
                trial.fail("node_scores", law, seen)
