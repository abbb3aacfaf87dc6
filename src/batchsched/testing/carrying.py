"""Check that the next snapshot follows from the last one and its decisions."""

from __future__ import annotations

from collections.abc import Iterator

from batchsched.errors import FaultsError
from batchsched.model.cluster import TaskInfo, TaskStatus
from batchsched.model.result import CycleResult, Promise
from batchsched.model.snapshot import Snapshot
from batchsched.testing.code import as_code, as_script
from batchsched.testing.held_since import used_since
from batchsched.testing.invariants.amounts import add, fits, of, total
from batchsched.testing.invariants.matching import accepts_node, is_tolerated
from batchsched.transition.next_snapshot import next_snapshot

__all__ = ["CarryOverViolation", "check_next_snapshot"]

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

    def as_code(self) -> str:
        """Return code that computes the next snapshot again and checks it.

        If `next_snapshot` does not return this snapshot (any more), the code contains it.
        """
        now = self.following.now
        following = f"next_snapshot(snapshot, result, now={now!r})"
        try:
            again = next_snapshot(self.snapshot, self.result, now=now)
        except FaultsError:  # a result of another snapshot, say
            again = None
        if again != self.following:
            following = as_code(self.following)
        return as_script(
            f"snapshot = {as_code(self.snapshot)}\n"
            f"result = {as_code(self.result)}\n"
            f"following = {following}\n"
            "check_next_snapshot(snapshot, result, following)\n",
            "from batchsched.testing import check_next_snapshot",
        )


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
