"""The laws on one session, each a function; hints must not change any answer."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence, Sized
from itertools import islice, pairwise, product
from operator import attrgetter
from typing import cast

from batchsched.model.cluster import TaskStatus
from batchsched.plugin.extension_points import Verdict
from batchsched.plugin.node_functions import NodeScore, Reads
from batchsched.state.records import Fit, NodeState, TaskState
from batchsched.testing.laws.asking import (
    ANSWERS,
    KEY_OF_CLAIMANTS,
    VERDICTS,
    Answers,
    Question,
    QuestionKind,
    ask_all,
    candidates_for,
    first_change,
    is_number,
    is_truth,
    key_question,
    searches,
    verdicts,
)
from batchsched.testing.laws.trial import NOT_ASKED, LawTrial, Move, move, owner


def check_stability(trial: LawTrial) -> Answers:
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


def check_discard(trial: LawTrial, moves: Sequence[Move]) -> None:
    """After a statement is discarded, every answer is as before.

    A key of claimants may differ: one that counts changes makes searches be repeated, no more.
    """
    before = ask_all(trial)
    done: list[str] = []
    with trial.session.statement() as statement:
        for drawn in moves:
            moved = move(trial, statement, drawn)
            if moved is not None:
                done.append(f"{moved[0].uid} on {moved[1].name}")
                ask_all(trial)
    changed = first_change(before, ask_all(trial), lambda asked: asked.point != KEY_OF_CLAIMANTS)
    if changed is not None:
        question, seen = changed
        law = "after a statement is discarded, it answers as before it"
        trial.fail(question.point, law, f"{seen}, after {', '.join(done)} was undone")


def check_scope(trial: LawTrial, moves: Sequence[Move]) -> None:
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
    trial: LawTrial,
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
            case QuestionKind.JOB_KEY:
                shares = trial.function("job_order_shares")
                other = trial.session.jobs[question.name]
                return other is not job and (shares is None or shares(other) != shares(job))
            case QuestionKind.QUEUE_KEY:
                return question.name != queue.name
            case QuestionKind.TASK_KEY:
                return True
            case QuestionKind.PREDICATE | QuestionKind.SCORE:
                if question.reads is Reads.CLUSTER:
                    return False
                return question.node != node.name or question.reads is Reads.DESCRIPTION
            case QuestionKind.OTHER:
                return False

    changed = first_change(before, after, stays)
    if changed is not None:
        question, seen = changed
        laws = {
            QuestionKind.JOB_KEY: "a job's key depends on nothing but the job, and what it shares",
            QuestionKind.QUEUE_KEY: "a queue's key depends on nothing but the queue",
            QuestionKind.TASK_KEY: "a task's key stays the same during a cycle",
        }
        law = laws.get(
            question.kind, f"it is declared to read no more than Reads.{question.reads.name}"
        )
        trial.fail(question.point, law, f"{seen}, {what}")


def _check_accounts(trial: LawTrial) -> None:
    """With Reads.ACCOUNTS, it does not matter which tasks hold the amounts on a node."""
    for one, other in pairwise(trial.pending):
        if one.info == other.info or _amounts(one) != _amounts(other):
            continue
        for node in trial.session.nodes:
            if all(trial.session.fits(task, node, Fit.NOW) for task in (one, other)):
                _check_exchange(trial, one, other, node)
                break


def _check_exchange(trial: LawTrial, one: TaskState, other: TaskState, node: NodeState) -> None:
    def stays(question: Question) -> bool:
        return (
            question.kind in (QuestionKind.PREDICATE, QuestionKind.SCORE)
            and question.reads in (Reads.DESCRIPTION, Reads.ACCOUNTS)
            and question.node == node.name
            and question.task not in (one.uid, other.uid)
        )

    changed = first_change(_with(trial, one, node), _with(trial, other, node), stays)
    if changed is not None:
        question, seen = changed
        law = f"it is declared to read no more than Reads.{question.reads.name}"
        trial.fail(
            question.point,
            law,
            f"{seen} with task {other.uid!r} there instead of {one.uid!r}, which holds as much",
        )


_amounts = attrgetter("resreq", "init_resreq", "scoring_milli_cpu", "scoring_memory", "is_backfill")


def _with(trial: LawTrial, task: TaskState, node: NodeState) -> Answers:
    with trial.session.statement() as statement:
        statement.allocate(task, node)
        return ask_all(trial)


def check_task_keys(trial: LawTrial, _moves: Sequence[Move]) -> None:
    """Tasks with equal `signature` get equal answers on every node."""
    for point, _, declared, function in trial.node_functions:
        alike: dict[object, list[TaskState]] = {}
        for task in trial.pending:
            try:
                alike.setdefault(declared.signature(task), []).append(task)
            except Exception as error:
                seen = f"that of task {task.uid!r} raises {type(error).__name__}: {error}"
                trial.fail(point, "signature answers with something that can be hashed", seen)
        for tasks, node in product(alike.values(), trial.session.nodes):
            answers = [(task, function(task, node)) for task in tasks if len(tasks) > 1]
            asked = [each for each in answers if each[1] is not NOT_ASKED]
            for (like, first), (task, answer) in pairwise(asked):
                if answer != first:
                    seen = (
                        f"{like.uid!r} and {task.uid!r} have the same key and get {first!r} "
                        f"and {answer!r} on node {node.name!r}"
                    )
                    trial.fail(point, "tasks with equal signature get equal answers", seen)


def check_turns(trial: LawTrial, _moves: Sequence[Move]) -> None:
    """The beginning and the end of a turn change no accounts."""
    books = trial.books()
    for point in ("on_turn_begin", "on_turn_end"):
        tell = trial.function(point)
        if tell is None:
            continue
        for job in trial.session.jobs.values():
            tell(job)
            if trial.books() != books:
                law = "what is told of turns changes nothing"
                trial.fail(point, law, f"the session's accounts have changed with {job.uid!r}")


def check_normalise(trial: LawTrial, moves: Sequence[Move]) -> None:
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


def check_claimant_keys(trial: LawTrial, _moves: Sequence[Move]) -> None:
    """Claimants with equal `claimant_key` get equal verdicts on equal candidates."""
    claimant_key = trial.hints.claimant_key
    if claimant_key is None:
        return
    first: dict[object, tuple[TaskState, Sequence[Verdict]]] = {}
    for point, claimant, _, candidates in searches(trial):
        answer = verdicts(trial, point, claimant, candidates)
        asked = point, candidates, claimant_key(claimant)
        like, expected = first.setdefault(asked, (claimant, answer))
        if answer != expected:
            seen = (
                f"{like.uid!r} and {claimant.uid!r} have the same key and get {list(expected)} "
                f"and {list(answer)} on {', '.join(task.uid for task in candidates)}"
            )
            trial.fail(point, "claimants with equal claimant_key get equal verdicts", seen)


def check_scope_of_verdicts(
    trial: LawTrial, before: Answers, after: Answers, moved: TaskState, what: str
) -> None:
    """With a `claimant_key`, a verdict changes only with the accounts of the victims.

    These are the accounts of their jobs and, for reclaimable, of their queues.
    """
    if trial.hints.claimant_key is None:
        return
    for question, answer in before.items():
        point = question.point
        if point not in VERDICTS:
            continue
        key = key_question(question.task)
        if after.get(question, answer) == answer or before[key] != after[key]:
            continue
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


def check_shields(trial: LawTrial, _moves: Sequence[Move]) -> None:
    """Shielded tasks are protected, alone and with others, until more is charged to their jobs.

    This must hold as long as the claimant's key stays the same, since searches remember that long.
    """
    hints = trial.hints
    if hints.shielded is None or hints.claimant_key is None:
        return
    for point, claimant, _, candidates in searches(trial):
        shielded = _shielded(trial, claimant, candidates)
        protected = [task for task, is_so in zip(candidates, shielded, strict=True) if is_so]
        _expect_protected(trial, point, claimant, candidates, protected, "with others")
        for task in protected:
            _expect_protected(trial, point, claimant, [task], [task], "alone")
        if protected:
            _check_shields_stay(trial, claimant, hints.claimant_key, protected)


def _check_shields_stay(
    trial: LawTrial,
    claimant: TaskState,
    claimant_key: Callable[[TaskState], Hashable],
    protected: Sequence[TaskState],
) -> None:
    key = claimant_key(claimant)

    def expect_still(what: str) -> None:
        if claimant_key(claimant) != key:
            return  # with another key, it counts as another claimant
        still = _shielded(trial, claimant, protected)
        if not all(still):
            law = "shielded tasks remain shielded while no more is charged to their jobs"
            names = ", ".join(repr(task.uid) for task in protected)
            seen = f"for task {claimant.uid!r}, shielded was {names}; when {what} the answer is "
            trial.fail("shielded", law, f"{seen}{still}")

    jobs = [owner(task) for task in protected]
    queues = [job.queue for job in jobs]
    for other in trial.tasks:
        if other.status is TaskStatus.RUNNING and other not in protected:
            with trial.session.statement() as statement:
                statement.evict(other, claimant=claimant)
                expect_still(f"{other} leaves")
    for other in trial.pending:
        job = owner(other)
        if other is claimant or job in jobs or job.queue not in queues:
            continue
        free = (each for each in trial.session.nodes if each.fits(other))
        for place in islice(free, 1):
            with trial.session.statement() as statement:
                statement.allocate(other, place)
                expect_still(f"{other} starts")


def _shielded(trial: LawTrial, claimant: TaskState, candidates: Sequence[TaskState]) -> list[bool]:
    assert trial.hints.shielded is not None
    answer = cast("object", trial.hints.shielded(claimant, candidates))
    # Anything without a length is invalid.
    shielded = list(cast("Sequence[object]", answer)) if isinstance(answer, Sized) else []
    if len(shielded) != len(candidates) or any(map(is_truth, shielded)):
        law = "it answers with a bool for each candidate"
        trial.fail("shielded", law, f"for {len(candidates)} candidates it answers {answer!r}")
    return list(map(bool, shielded))


def _expect_protected(
    trial: LawTrial,
    point: str,
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


def check_choices(trial: LawTrial, moves: Sequence[Move]) -> None:
    """What was chosen for a task on a node is chosen again as long as nothing else changes."""
    choose = trial.function("choose")
    if choose is None or trial.choose_now is None:
        return
    with trial.session.statement() as statement:
        for drawn in moves:
            moved = move(trial, statement, drawn)
            if moved is None or moved[0].status is not TaskStatus.ALLOCATED:
                continue
            task, node = moved
            chosen = task.choices.get(trial.subject.name)
            statement.unallocate(task)
            again = None if chosen is None else choose(task, node, Fit.NOW, kept=chosen)
            if again != chosen:
                law = "what it has chosen it chooses again, if that is kept and nothing has changed"
                about = f"for task {task.uid!r} on node {node.name!r} it chose {chosen!r}"
                trial.fail("choose", law, f"{about}, and, when that was kept, {again!r}")


CHECKS: Sequence[Callable[[LawTrial, Sequence[Move]], None]] = (
    # First, before other checks change the session and roll back.
    check_discard,
    check_task_keys,
    check_claimant_keys,
    check_shields,
    check_normalise,
    check_turns,
    check_choices,
    check_scope,
)
"""What is checked once answers are known to be stable, in this order."""
