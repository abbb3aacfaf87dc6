"""What must follow from a cycle if nothing else happens, task by task and queue by queue."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attrs import evolve

from batchsched import (
    CycleResult,
    NodeInfo,
    Promise,
    Queue,
    Resource,
    Snapshot,
    TaskInfo,
    TaskStatus,
    decayed,
)
from batchsched.model.resources import exact
from batchsched.testing import ClusterMachine
from batchsched.testing.invariants.amounts import add, fits, of, total
from tests.support.invariants import OF_ALL_PLUGINS
from tests.support.kubernetes_rules import accepts_node, is_tolerated


class FollowedMachine(ClusterMachine):
    """A machine that also checks what follows each cycle."""

    cycle_invariants = OF_ALL_PLUGINS

    def run_cycle(self) -> CycleResult:
        before = self.snapshot
        result = super().run_cycle()
        check_next_snapshot(before, result, self.snapshot)
        return result

    def _remove_tasks(self, gone: Sequence[str], nodes_now: Sequence[NodeInfo]) -> None:
        super()._remove_tasks(gone, nodes_now)
        for task in self.tasks(*TaskStatus):
            is_new = task.status is TaskStatus.PENDING and not task.node_name
            assert task.uid not in gone or (is_new and not task.is_backfill), (
                f"task {task.uid!r} left its node: expected it to be Pending, without a node and "
                f"without the backfill mark, got {task}"
            )


_NOTHING = Resource()


def used_since(snapshot: Snapshot, result: CycleResult, now: float) -> Iterator[Queue]:
    """Yield the queues at a later time, if nothing but the decisions happened.

    O(queues x tasks).
    """
    for queue in snapshot.queues:
        half_life = queue.usage_half_life
        if half_life is None or now == snapshot.now:
            yield queue
            continue
        users = {job.user for job in snapshot.jobs if job.queue == queue.name}

        def after(
            usage: Resource, user: str | None, within: str = queue.name, half: float = half_life
        ) -> Resource:
            held = _held(snapshot, result, within, user)
            return decayed(usage, held, now - snapshot.now, half_life=half)

        by_user = {
            user: after(queue.usage_by_user.get(user, _NOTHING), user)
            for user in users | set(queue.usage_by_user)
        }
        yield evolve(
            queue,
            usage=after(queue.usage, None),
            usage_by_user={user: used for user, used in by_user.items() if used != _NOTHING},
        )


def _held(snapshot: Snapshot, result: CycleResult, within: str, user: str | None) -> Resource:
    """Return what jobs in and below a queue hold once decisions have taken effect."""
    binds = {bind.task_uid: bind for bind in result.binds}
    evicted = {eviction.task_uid for eviction in result.evictions}
    parents = {queue.name: queue.parent for queue in snapshot.queues}
    totals: dict[str, int] = {}
    for job in snapshot.jobs:
        path: list[str | None] = [job.queue]
        while path[-1] is not None:
            path.append(parents.get(path[-1]))
        if within not in path or (user is not None and (job.queue, job.user) != (within, user)):
            continue
        for task in job.tasks:
            if task.uid in binds:
                counts = not binds[task.uid].is_backfill
            else:
                is_there = task.status.occupies and task.uid not in evicted
                counts = is_there and not task.is_backfill
            if counts:
                for dimension, amount in task.resreq.dimensions():
                    totals[dimension] = totals.get(dimension, 0) + exact(amount)
    return Resource(milli_cpu=totals.pop("cpu", 0), memory=totals.pop("memory", 0), scalars=totals)


_TO_START = (TaskStatus.BOUND, TaskStatus.BINDING)


class CarryOverViolation(AssertionError):  # noqa: N818 - a finding, not an error
    """A snapshot that does not follow from the last one and the decisions on it."""

    def __init__(
        self, problem: str, snapshot: Snapshot, result: CycleResult, following: Snapshot
    ) -> None:
        self.problem = problem
        """The fault, in one line."""
        self.snapshot = snapshot
        self.result = result
        self.following = following
        super().__init__(problem, snapshot, result, following)

    def __str__(self) -> str:
        return f"{self.problem}\n  The cycle: {self.result}"


def check_next_snapshot(snapshot: Snapshot, result: CycleResult, following: Snapshot) -> None:
    """Check a snapshot that follows another if nothing happened except the decisions.

    Bound tasks run; evicted and leaving tasks are gone and come back as Pending; Reserved tasks
    stay Reserved unless their node refuses them permanently, and Allocated tasks of the same job
    become Reserved too if there is room. Tasks in the result's `kept_promises` are Pipelined. The
    usage of queues with a `usage_half_life` includes what their jobs held meanwhile. Everything
    else is unchanged. This is what `next_snapshot` returns without events.

    Raises:
        CarryOverViolation: with the first fault.

    """
    problem = next(_problems(snapshot, result, following), None)
    if problem is not None:
        raise CarryOverViolation(problem, snapshot, result, following)


def _problems(snapshot: Snapshot, result: CycleResult, following: Snapshot) -> Iterator[str]:
    if following.nodes != snapshot.nodes:
        yield "expected unchanged nodes"
    if following.queues != tuple(used_since(snapshot, result, following.now)):
        yield "expected queues that are unchanged except for their usage"
    jobs = {job.uid: job for job in following.jobs}
    if [job.uid for job in snapshot.jobs] != list(jobs):
        yield "expected the same jobs as before"
        return
    for job in snapshot.jobs:
        after = {task.uid: task for task in jobs[job.uid].tasks}
        if [task.uid for task in job.tasks] != list(after):
            yield f"expected the same tasks of job {job.uid!r} as before"
            return
        holds = any(
            outcome is not None and outcome.status is TaskStatus.RESERVED
            for outcome in (result.tasks.get(task.uid) for task in job.tasks)
        )
        keeps = any(task.status is TaskStatus.RESERVED for task in jobs[job.uid].tasks)
        for task in job.tasks:
            found = after[task.uid]
            allowed = list(_expected(task, result, snapshot, may_keep=holds))
            if (found.status, found.node_name) not in allowed:
                outcome = result.tasks.get(task.uid)
                stood = "was in no session" if outcome is None else f"is {outcome.status.value}"
                expected = " or ".join(f"{s.value} on {node!r}" for s, node in allowed)
                yield (
                    f"task {task.uid!r} was {task.status.value} and {stood} after the cycle; "
                    f"expected {expected} in the next, got {found.status.value} on "
                    f"{found.node_name!r}"
                )
            if (found.resreq, found.start_request) != (task.resreq, task.start_request):
                yield f"expected an unchanged request of task {task.uid!r}"
            yield from _mark(task, found, result)
            if (
                holds
                and keeps
                and found.status is TaskStatus.PENDING
                and result.tasks[task.uid].status is TaskStatus.ALLOCATED
            ):
                yield from _not_kept(task, result.tasks[task.uid].node_name, following)


def _expected(
    task: TaskInfo, result: CycleResult, snapshot: Snapshot, *, may_keep: bool
) -> Iterator[tuple[TaskStatus, str | None]]:
    """Yield the statuses and nodes that the task may have in the next snapshot."""
    outcome = result.tasks.get(task.uid)
    status = task.status if outcome is None else outcome.status
    node_name = task.node_name if outcome is None else outcome.node_name
    pending = (TaskStatus.PENDING, None)
    if status in _TO_START:
        yield TaskStatus.RUNNING, node_name
    elif status is TaskStatus.RESERVED and outcome is not None:
        yield status, node_name
        if _is_refused(task, node_name, snapshot):
            yield pending
    elif Promise(task_uid=task.uid, node_name=node_name or "") in result.kept_promises:
        yield TaskStatus.PIPELINED, node_name
    elif status is TaskStatus.ALLOCATED:
        yield pending
        if may_keep:
            yield TaskStatus.RESERVED, node_name
    elif status in (
        TaskStatus.RELEASING,
        TaskStatus.CONDITIONAL,
        TaskStatus.RESERVED,
        TaskStatus.PIPELINED,
    ):
        yield pending
    else:
        yield status, node_name


def _is_refused(task: TaskInfo, node_name: str | None, snapshot: Snapshot) -> bool:
    """Return whether a node's labels or taints refuse the task, or the node does not exist."""
    return not any(
        node.name == node_name
        and accepts_node(task, node)
        and all(is_tolerated(taint, task.tolerations) for taint in node.taints)
        for node in snapshot.nodes
    )


def _mark(task: TaskInfo, found: TaskInfo, result: CycleResult) -> Iterator[str]:
    outcome = result.tasks.get(task.uid)
    keeps = outcome is not None and outcome.status is TaskStatus.BINDING
    expected = outcome.is_backfill if keeps and outcome is not None else task.is_backfill
    if found.status is TaskStatus.RUNNING and found.is_backfill is not expected:
        yield (
            f"task {task.uid!r} runs {'with' if found.is_backfill else 'without'} the backfill "
            "mark, contrary to the decision"
        )
    leaves = outcome is not None and outcome.status is TaskStatus.RELEASING
    if leaves and found.status is TaskStatus.PENDING and found.is_backfill:
        yield f"task {task.uid!r} left its node, but still has the backfill mark"


def _not_kept(task: TaskInfo, node_name: str | None, following: Snapshot) -> Iterator[str]:
    """Yield a fault if a place should have been reserved for the rest of a gang."""
    kept = total(
        of(other.start_request)
        for job in following.jobs
        for other in job.tasks
        if other.status is TaskStatus.RESERVED and other.node_name == node_name
    )
    others = total(
        of(other.resreq) for other in following.other_tasks if other.node_name == node_name
    )
    wanted = add(add(kept, others), of(task.start_request))
    for node in following.nodes:
        if node.name == node_name and fits(wanted, of(node.allocatable)):
            yield (
                f"task {task.uid!r} was Allocated on {node_name!r} while others of its job are "
                "Reserved; there is room to reserve for it too, but it is Pending"
            )
