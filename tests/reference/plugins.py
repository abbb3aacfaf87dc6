"""The base class of plugins, and the plugins priority, gang and conformance.

Here a plugin is an object with all possible functions; the defaults are the answers of a plugin
without that function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum

from attrs import frozen

from batchsched import ConditionReason, JobCondition, JobInfo, NodeInfo, Queue, TaskInfo, TaskStatus
from tests.reference.conf import Arguments
from tests.reference.groups import Groups, has_groups
from tests.reference.state import State, View

__all__ = [
    "Conformance",
    "Gang",
    "Plugin",
    "Priority",
    "RawScore",
    "Verdict",
    "can_start",
    "compare",
    "is_broken",
    "ready_count",
    "waiting_count",
]

SYSTEM_NAMESPACE = "kube-system"
SYSTEM_PRIORITY_CLASSES = ("system-cluster-critical", "system-node-critical")

READY = (
    TaskStatus.ALLOCATED,
    TaskStatus.BINDING,
    TaskStatus.BOUND,
    TaskStatus.RUNNING,
    TaskStatus.SUCCEEDED,
)
CONDITIONALLY_READY = (
    *READY,
    TaskStatus.PIPELINED,
    TaskStatus.CONDITIONAL,
    TaskStatus.RESERVED,
)
VALID = (*CONDITIONALLY_READY, TaskStatus.PENDING)
STARTED = (TaskStatus.BINDING, TaskStatus.BOUND, TaskStatus.RUNNING)


class Verdict(Enum):
    """A plugin's verdict on a candidate for eviction."""

    VICTIM = "it may be evicted"
    PASS = "not for this plugin's reason"
    WITH_JOB = "it may be evicted, but only together with all that its job has"
    PROTECTED = "it must not be evicted"
    NO_SAY = "others decide, as if the plugin had not been asked"


@frozen
class RawScore:
    """The raw score of a node for a task, before it is compared with others."""

    by_itself: int = 0
    """The weighted sum of the scores that do not depend on other nodes."""
    node_affinity: int = 0
    pod_affinity: int = 0


def compare(left: float, right: float) -> int:
    """Return -1 if `left` is less, 1 if it is more, else 0."""
    return (left > right) - (left < right)


def count_of(state: State, job: JobInfo, statuses: Sequence[TaskStatus]) -> int:
    """Return how many of a job's tasks have one of these statuses."""
    return sum(state.status(task) in statuses for task in job.tasks)


def ready_count(state: State, job: JobInfo) -> int:
    """Return how many of a job's tasks are *ready*: occupying or Succeeded."""
    return count_of(state, job, READY)


def waiting_count(state: State, job: JobInfo) -> int:
    """Return how many of a job's tasks are *waiting*: Pipelined."""
    return count_of(state, job, (TaskStatus.PIPELINED,))


def can_start(state: State, job: JobInfo, statuses: Sequence[TaskStatus]) -> bool:
    """Return whether a job can start with its tasks that have one of these statuses."""
    if has_groups(job):
        return Groups(state, job).can_start(statuses)
    return count_of(state, job, statuses) >= job.min_available


def is_broken(state: State, job: JobInfo) -> bool:
    """Return whether a job has started, and has no longer all that it needs."""
    return not can_start(state, job, READY) and count_of(state, job, STARTED) > 0


class Plugin:
    """A plugin without any function."""

    def job_order(self, _left: JobInfo, _right: JobInfo) -> int:
        """Return a negative number if the left job goes first, positive if the right does."""
        return 0

    def queue_order(self, _left: Queue, _right: Queue) -> int:
        """Return a negative number if the left queue goes first, positive if the right does."""
        return 0

    def task_order(self, _left: TaskInfo, _right: TaskInfo) -> int:
        """Return a negative number if the left task goes first, positive if the right does."""
        return 0

    def accepted(self, _task: TaskInfo, nodes: Sequence[NodeInfo], _view: View) -> list[NodeInfo]:
        """Return the nodes that the plugin's predicates accept."""
        return list(nodes)

    def curable(self, _task: TaskInfo, _nodes: Sequence[NodeInfo]) -> list[NodeInfo]:
        """Return the nodes that it refuses only for reasons that evicting may cure."""
        return []

    def raw_scores(self, _task: TaskInfo, _nodes: Sequence[NodeInfo]) -> dict[str, RawScore]:
        """Return the raw score of each node; missing ones are 0."""
        return {}

    def scores(self, _raw: Mapping[str, RawScore]) -> dict[str, int]:
        """Return the scores of all compared nodes; missing ones are 0."""
        return {}

    def resource_scores(self, _task: TaskInfo, _nodes: Sequence[NodeInfo]) -> dict[str, float]:
        """Return the score of each node by resources alone; missing ones are 0."""
        return {}

    def preemptable(self, _task: TaskInfo, _candidates: list[TaskInfo]) -> list[Verdict] | None:
        """Return a verdict for each candidate; None without such a function."""
        return None

    def reclaimable(self, _task: TaskInfo, _candidates: list[TaskInfo]) -> list[Verdict] | None:
        """Return a verdict for each candidate; None without such a function."""
        return None

    def revocable(self, _task: TaskInfo, candidates: list[TaskInfo]) -> list[Verdict]:
        """Return a verdict for each backfill task in the way of a task that was promised room."""
        return [Verdict.VICTIM for _ in candidates]

    def overused(self, _queue: Queue) -> bool:
        """Return whether the queue has its deserved share."""
        return False

    def job_valid(self, _job: JobInfo) -> JobCondition | None:
        """Return why the job cannot be scheduled as a whole; None if it can."""
        return None

    def job_ready(self, _job: JobInfo) -> bool | None:
        """Permit (true), reject (false) or abstain (None)."""
        return None

    def job_pipelined(self, _job: JobInfo) -> bool | None:
        """Permit (true), reject (false) or abstain (None)."""
        return None

    def job_condition_ready(self, _job: JobInfo) -> bool | None:
        """Permit (true), reject (false) or abstain (None)."""
        return None

    def unschedulable(self, _job: JobInfo) -> JobCondition | None:
        """Return the condition of a job at close; None for none."""
        return None


class Priority(Plugin):
    """Higher priority first."""

    def __init__(self, state: State) -> None:
        self._state = state

    def task_order(self, left: TaskInfo, right: TaskInfo) -> int:
        """Put the task of the job of higher priority first, then that of higher priority."""
        jobs = compare(self._of_job(right), self._of_job(left))
        return jobs or compare(right.priority, left.priority)

    def _of_job(self, task: TaskInfo) -> float:
        job = self._state.job_of.get(task.uid)
        return task.priority if job is None else job.priority

    def job_order(self, left: JobInfo, right: JobInfo) -> int:
        """Put the job of higher priority first."""
        return compare(right.priority, left.priority)

    def preemptable(self, task: TaskInfo, candidates: list[TaskInfo]) -> list[Verdict]:
        """Compare jobs' priorities; inside one job, tasks' priorities."""
        claimant_job = self._state.job_of[task.uid]
        verdicts: list[Verdict] = []
        for candidate in candidates:
            job = self._state.job_of[candidate.uid]
            if job is claimant_job:
                order = compare(candidate.priority, task.priority)
            else:
                order = compare(job.priority, claimant_job.priority)
            verdicts.append((Verdict.PASS, Verdict.PROTECTED, Verdict.VICTIM)[order])
        return verdicts


class Gang(Plugin):
    """A job starts with `min_available` tasks, and keeps that many unless it is evicted whole."""

    def __init__(
        self,
        state: State,
        arguments: Arguments,
        tasks_in_order: Callable[[Iterable[TaskInfo]], list[TaskInfo]],
    ) -> None:
        self._state = state
        self._in_order = tasks_in_order
        self._may_go_whole = arguments.word("atMinimum", ("protect", "whole-job")) == "whole-job"

    def job_valid(self, job: JobInfo) -> JobCondition | None:
        """Refuse a job with too few tasks that could ever start."""
        self._state.counts_held = True
        valid, is_valid = count_of(self._state, job, VALID), self._can_start(job, VALID)
        self._state.counts_held = False
        if is_valid:
            return None
        return JobCondition(
            ConditionReason.NOT_ENOUGH_TASKS,
            f"{valid} of its tasks could start, it needs {job.min_available}",
            "gang",
        )

    def job_order(self, left: JobInfo, right: JobInfo) -> int:
        """Put broken jobs first, and a job that is not ready before one that is."""
        return compare(self._rank(left), self._rank(right))

    def _rank(self, job: JobInfo) -> int:
        """Rank a job; one with groups and more than its minimum goes last."""
        if is_broken(self._state, job):
            return -1
        is_ready = self._is_ready(job)
        if not has_groups(job) or not is_ready:
            return int(is_ready)
        return 1 + any(kind for kind, _, _ in Groups(self._state, job).units(self._in_order))

    def _is_ready(self, job: JobInfo) -> bool:
        return self._can_start(job, READY)

    def _can_start(self, job: JobInfo, statuses: Sequence[TaskStatus]) -> bool:
        return can_start(self._state, job, statuses)

    def job_ready(self, job: JobInfo) -> bool:
        """Vote by the tasks that are ready."""
        return self._is_ready(job)

    def job_pipelined(self, job: JobInfo) -> bool:
        """Vote by the tasks that are ready or waiting."""
        return self._can_start(job, (*READY, TaskStatus.PIPELINED))

    def job_condition_ready(self, job: JobInfo) -> bool:
        """Vote by the tasks that are ready, or have any promise."""
        return self._can_start(job, CONDITIONALLY_READY)

    def _victims(
        self,
        candidates: list[TaskInfo],
        at_minimum: Callable[[JobInfo], Verdict],
        mine: JobInfo,
    ) -> list[Verdict]:
        counters: dict[str, int] = {}
        verdicts: list[Verdict] = []
        for candidate in candidates:
            job = self._state.job_of[candidate.uid]
            if has_groups(job):
                [kind] = [
                    kind
                    for kind, tasks, _ in Groups(self._state, job).units(self._in_order)
                    if candidate in tasks
                ]
                of_replica = Verdict.PROTECTED if job is mine else Verdict.WITH_JOB
                verdicts.append((at_minimum(job), of_replica, Verdict.VICTIM)[kind])
                continue
            counter = counters.setdefault(job.uid, ready_count(self._state, job))
            if counter > job.min_available:
                counters[job.uid] = counter - 1
                verdicts.append(Verdict.VICTIM)
            else:
                verdicts.append(at_minimum(job))
        return verdicts

    def preemptable(self, task: TaskInfo, candidates: list[TaskInfo]) -> list[Verdict]:
        """Protect the minimum of a job, or the whole job from jobs of no higher priority."""
        claimant = self._state.job_of[task.uid]

        def at_minimum(job: JobInfo) -> Verdict:
            is_evictable = self._may_go_whole and claimant.priority > job.priority
            return Verdict.WITH_JOB if is_evictable else Verdict.PROTECTED

        return self._victims(candidates, at_minimum, claimant)

    def reclaimable(self, task: TaskInfo, candidates: list[TaskInfo]) -> list[Verdict]:
        """Protect the minimum of a job, or only from itself if whole jobs may be evicted."""
        claimant = self._state.job_of[task.uid]

        def at_minimum(job: JobInfo) -> Verdict:
            is_evictable = self._may_go_whole and job is not claimant
            return Verdict.WITH_JOB if is_evictable else Verdict.PROTECTED

        return self._victims(candidates, at_minimum, claimant)

    def revocable(self, task: TaskInfo, candidates: list[TaskInfo]) -> list[Verdict]:
        """Call in loans one by one, or as units where whole jobs may be evicted."""
        if not self._may_go_whole:
            return [Verdict.VICTIM for _ in candidates]
        return self._victims(candidates, lambda _: Verdict.WITH_JOB, self._state.job_of[task.uid])

    def unschedulable(self, job: JobInfo) -> JobCondition | None:
        """Report a job that is not ready at close."""
        if self._is_ready(job):
            return None
        ready = ready_count(self._state, job)
        return JobCondition(
            ConditionReason.NOT_ENOUGH_RESOURCES,
            f"{ready} of its {len(job.tasks)} tasks are ready, it needs {job.min_available}",
            "gang",
        )


class Conformance(Plugin):
    """Critical tasks of the system are never evicted."""

    def _victims(self, candidates: list[TaskInfo]) -> list[Verdict]:
        return [
            Verdict.PROTECTED
            if candidate.namespace == SYSTEM_NAMESPACE
            or candidate.priority_class_name in SYSTEM_PRIORITY_CLASSES
            else Verdict.VICTIM
            for candidate in candidates
        ]

    def preemptable(self, _task: TaskInfo, candidates: list[TaskInfo]) -> list[Verdict]:
        """Protect critical tasks of the system."""
        return self._victims(candidates)

    def reclaimable(self, _task: TaskInfo, candidates: list[TaskInfo]) -> list[Verdict]:
        """Protect critical tasks of the system."""
        return self._victims(candidates)

    def revocable(self, _task: TaskInfo, candidates: list[TaskInfo]) -> list[Verdict]:
        """Protect critical tasks of the system."""
        return self._victims(candidates)
