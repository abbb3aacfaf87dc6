"""What a move keeps: a place for who moves, and all that its job counts on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from batchsched.model.cluster import JobInfo, Preemptible, TaskStatus
from batchsched.model.result import Move
from batchsched.testing.invariants.cycle import OCCUPYING, Cycle
from batchsched.testing.invariants.invariant import invariant


@invariant
def moves(cycle: Cycle) -> Iterator[str]:
    """Who moves runs, moves once, is promised another node, and may move.

    If a built-in action decides it: the promise is kept; the claimant is another job, not less
    important where the plugin priority is asked, and will have its minimum; for one claim no more
    tasks move than `maxMoves` says, of all actions of that name; and no job that may not be
    preempted loses what it may not.
    """
    result = cycle.result
    kept = {promise.task_uid: promise.node_name for promise in result.kept_promises}
    evicted = {eviction.task_uid for eviction in result.evictions}
    for uid, count in Counter(move.task_uid for move in result.moves).items():
        if count > 1:
            yield f"task {uid!r} moves {count} times"
        if uid in evicted:
            yield f"task {uid!r} moves and is evicted"
    for move in result.moves:
        what = f"task {move.task_uid!r} moves from {move.from_node!r} to {move.to_node!r}"
        task, after = cycle.tasks.get(move.task_uid), cycle.after.get(move.task_uid)
        if task is None or after is None:
            yield f"{what}, and is not in the snapshot"
            continue
        if task.status is not TaskStatus.RUNNING or task.node_name != move.from_node:
            yield f"{what}, where it does not run"
        if move.to_node == move.from_node or move.to_node not in cycle.nodes:
            yield f"{what}, which is no other node"
        if after.status is not TaskStatus.PIPELINED or after.node_name != move.to_node:
            yield f"{what}, which it is not promised"
        elif cycle.policy.knows_actions and kept.get(move.task_uid) != move.to_node:
            yield f"{what}, which it will not be promised in the next cycle"
        if move.action == "consolidate" and move.action in cycle.policy.known_actions:
            yield from _claim(cycle, move, what)
    yield from _too_many(cycle)


def _claim(cycle: Cycle, move: Move, what: str) -> Iterator[str]:
    mine = cycle.job_of.get(move.for_task_uid or "")
    theirs = cycle.job_of.get(move.task_uid)
    if mine is None or theirs is None or mine is theirs:
        yield f"{what} for {move.for_task_uid!r}, which is no task of another job"
        return
    scopes = map(str, cycle.policy.given("consolidate", "scope", "queue"))
    if mine.queue != theirs.queue and all(scope == "queue" for scope in scopes):
        yield f"{what} for job {mine.uid!r} of another queue"
    if cycle.policy.protects("priority", "preempt") and theirs.priority > mine.priority:
        yield f"{what} for job {mine.uid!r}, which is less important"
    if cycle.policy.protects("protection", "preempt") and theirs.preemptible is Preemptible.NEVER:
        yield f"{what}, and is not preemptible"
    if cycle.policy.knows_plugins and cycle.policy.has("gang", "enableJobPipelined"):
        yield from _enough(cycle, mine, what)


def _enough(cycle: Cycle, job: JobInfo, what: str) -> Iterator[str]:
    coming = (*OCCUPYING, TaskStatus.SUCCEEDED, TaskStatus.PIPELINED)
    if not cycle.policy.takes_back and not cycle.groups(job, *coming).can_start():
        yield f"{what} for job {job.uid!r}, which will not have what it needs"


def _too_many(cycle: Cycle) -> Iterator[str]:
    most = sum(int(str(each)) for each in cycle.policy.given("consolidate", "maxMoves", 4))
    claims = Counter(
        (cycle.job_of[move.for_task_uid].uid)
        for move in cycle.result.moves
        if move.action == "consolidate" and move.for_task_uid in cycle.job_of
    )
    for uid, count in claims.items():
        if count > most and "consolidate" in cycle.policy.known_actions:
            yield f"{count} tasks move for job {uid!r}, which are more than {most}"
