"""A session: the state, the plugins, the jobs, and the operations on tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from batchsched import (
    Bind,
    ConditionReason,
    Eviction,
    JobCondition,
    JobInfo,
    NodeInfo,
    Plan,
    Queue,
    Resource,
    Snapshot,
    TaskInfo,
    TaskStatus,
)
from tests.reference.capacity import lacking, needed
from tests.reference.conf import Conf
from tests.reference.dependencies import waits_for
from tests.reference.devices import CONDITIONALLY, LATER, NOW, Account, Devices
from tests.reference.groups import HOPED, Groups, Statuses, has_groups
from tests.reference.state import Accounts, Saved, State, Take, View, less, total_of
from tests.reference.tiers import Tiers

__all__ = ["NO_BOUND", "Session"]

NO_BOUND = 1 << 60
"""More than any number of tasks."""


_HELD = (TaskStatus.ALLOCATED, TaskStatus.PIPELINED)
_IN = {
    TaskStatus.ALLOCATED: NOW,
    TaskStatus.PIPELINED: LATER,
    TaskStatus.CONDITIONAL: CONDITIONALLY,
}
"""In which accounts devices must be free for a place."""


class Session:
    """One cycle, from the snapshot to the decisions."""

    def __init__(self, snapshot: Snapshot, conf: Conf) -> None:
        self.snapshot = snapshot
        self.now = snapshot.now
        self.nodes = snapshot.nodes
        self.queues = {queue.name: queue for queue in snapshot.queues}
        promises_repel = any(map(conf.cures, conf.actions))
        self.state = State(snapshot, promises_repel=promises_repel)
        self.tiers = Tiers(conf, self.state)
        is_read = any(plugin.name == "devices" for tier in conf.tiers for plugin in tier)
        self.devices = Devices(self.state) if is_read else None
        self.failed_tasks: set[str] = set()
        """UIDs of the tasks for which an action found no place; statements do not undo this."""
        self.hopeless: set[str] = set()
        """UIDs of the tasks whose promises end at close: nothing leaves that could keep them."""
        self.most_evictions = NO_BOUND
        self._claimed: list[TaskInfo] = []
        """Tasks placed by statements that made others leave."""
        """The most tasks that the running action lets the cycle evict."""
        self.cures = False
        """Whether the running action also searches nodes that accept a task only after
        evictions."""
        self.planned: list[Take] = []
        """The future resources that the action plan has taken."""
        self.plans: dict[str, Plan] = {}
        """The plans, by UID of the job."""
        self.left_out: dict[str, JobCondition] = {}
        self.jobs: list[JobInfo] = []
        for job in snapshot.jobs:
            if job.queue not in self.queues:
                self.left_out[job.uid] = JobCondition(
                    ConditionReason.QUEUE_UNKNOWN, f"queue {job.queue!r} is not in the snapshot"
                )
                continue
            if any(queue.parent == job.queue for queue in snapshot.queues):
                self.left_out[job.uid] = JobCondition(
                    ConditionReason.QUEUE_NOT_LEAF, f"queue {job.queue!r} has queues below it"
                )
                continue
            waits = waits_for(job, snapshot)
            if waits is not None:
                self.left_out[job.uid] = JobCondition(waits, "it depends on other jobs")
                continue
            refusal = self.tiers.job_valid(job)
            if refusal is None:
                self.jobs.append(job)
            else:
                self.left_out[job.uid] = refusal
        if self.tiers.capacity is not None:
            self.tiers.capacity.jobs_admitted(self.jobs)
        self._drop_reservations()
        self.overused_at_open = {
            name for name, queue in self.queues.items() if self.tiers.overused(queue)
        }

    def _drop_reservations(self) -> None:
        """Drop the reservations that are no longer useful."""
        for node in self.nodes:
            reserved = self.reserved_on(node)
            fits = total_of(task.start_request for task in reserved).fits(self.room_for_jobs(node))
            for task in reserved:
                if not fits or self.is_out_of_service(task, node):
                    self.state.take_off(task)
        kept = {job.uid for job in self.jobs if not self.tiers.job_ready(job)}
        names = {node.name for node in self.nodes}
        for job in self.snapshot.jobs:
            for task in self.tasks_with(job, TaskStatus.RESERVED):
                if job.uid not in kept or self.state.node_name(task) not in names:
                    self.state.take_off(task)

    def is_out_of_service(self, task: TaskInfo, node: NodeInfo) -> bool:
        """Return whether a node accepts no tasks at all, including this one."""
        return _takes_no_tasks(node) and not self.tiers.accepted(task, [node])

    # Reading the state.

    def queue_of(self, job: JobInfo) -> Queue:
        """Return the queue of a session job."""
        return self.queues[job.queue]

    def job_of(self, task: TaskInfo) -> JobInfo:
        """Return the job of a task that has one."""
        return self.state.job_of[task.uid]

    def tasks_with(self, job: JobInfo, *statuses: TaskStatus) -> list[TaskInfo]:
        """Return the job's tasks that have one of these statuses now, in task order."""
        return self.tiers.tasks_in_order(
            task for task in job.tasks if self.state.status(task) in statuses
        )

    def to_place(self, job: JobInfo) -> list[TaskInfo]:
        """Return the job's Pending tasks that are not best-effort, in task order."""
        pending = self.tasks_with(job, TaskStatus.PENDING)
        return [task for task in pending if not task.is_best_effort]

    def accounts(self, node: NodeInfo) -> Accounts:
        """Return the accounts of one node."""
        return self.state.accounts(node, self.state.tasks_on(node))

    def all_accounts(self) -> dict[str, Accounts]:
        """Return the accounts of all nodes, by name."""
        by_node = self.state.tasks_by_node()
        return {node.name: self.state.accounts(node, by_node[node.name]) for node in self.nodes}

    def accepts_without(self, task: TaskInfo, node: NodeInfo, gone: Iterable[TaskInfo]) -> bool:
        """Return whether a node will accept a task without the given tasks and those leaving."""
        saved = self.state.save()
        for other in gone:
            self.state.take_off(other)
        accepted = self.tiers.accepted(task, [node], View.LATER)
        self.state.restore(saved)
        return bool(accepted)

    def reserved_on(self, node: NodeInfo) -> list[TaskInfo]:
        """Return the tasks that are Reserved on a node."""
        tasks = self.state.tasks_on(node)
        return [task for task in tasks if self.state.status(task) is TaskStatus.RESERVED]

    def room_for_jobs(self, node: NodeInfo) -> Resource:
        """Return a node's resources minus what tasks without a job hold there permanently."""
        others = [
            task.resreq
            for task in self.snapshot.other_tasks
            if task.node_name == node.name
            and task.status.holds
            and task.status is not TaskStatus.RELEASING
        ]
        return less(node.allocatable, total_of(others))

    def is_starving(self, job: JobInfo, threshold: float) -> bool:
        """Return whether a job has waited longer than the threshold."""
        return (
            not self.tiers.job_ready(job)
            and not self.tiers.job_condition_ready(job)
            and self.now - job.creation_time > threshold
        )

    # What queues may do.

    def next_queue(
        self,
        queues: Sequence[Queue],
        jobs: Sequence[JobInfo],
        tasks: Mapping[str, list[TaskInfo]],
    ) -> Queue:
        """Return the next of the queues, given the jobs that wait and what they have to place."""
        if self.tiers.capacity is None and not self.tiers.ranks_by_use:
            return self.tiers.next_queue(queues)
        offers: dict[str, list[TaskInfo]] = {}
        for queue in queues:
            waiting = [job for job in jobs if job.queue == queue.name]
            offers[queue.name] = []
            if waiting:
                offers[queue.name] = self._need(self.next_job(waiting, tasks), tasks)
        return self.tiers.next_in_tree(offers)

    def next_job(self, jobs: Sequence[JobInfo], tasks: Mapping[str, list[TaskInfo]]) -> JobInfo:
        """Return the next of the jobs of a queue, given what they have to place."""
        capacity = self.tiers.capacity
        if capacity is None or not capacity.is_graded or not self.tiers.ranks_by_need:
            return self.tiers.next_job(jobs)
        grades = {job.uid: capacity.grade(self._need(job, tasks)) for job in jobs}
        best = min(grades.values())
        return self.tiers.next_job(job for job in jobs if grades[job.uid] == best)

    def _need(self, job: JobInfo, tasks: Mapping[str, list[TaskInfo]]) -> list[TaskInfo]:
        left = tasks[job.uid] if job.uid in tasks else self.to_place(job)
        return self.need(job, left) if left else []

    def need(
        self, job: JobInfo, tasks: Sequence[TaskInfo], statuses: Statuses = HOPED
    ) -> list[TaskInfo]:
        """Return the tasks that a job needs next, of those that it has to place."""
        return needed(self.state, job, self.possible(job, tasks, statuses), statuses)

    def possible(
        self, job: JobInfo, tasks: Sequence[TaskInfo], statuses: Statuses = HOPED
    ) -> list[TaskInfo]:
        """Return tasks without those that its queue may never have, if enough others are left."""
        limits, queue = self.tiers.limits, self.queues[job.queue]
        if limits is None:
            return list(tasks)
        left = [task for task in tasks if not limits.never_allows(queue, [task])]
        return left if self._are_enough(job, left, statuses) else list(tasks)

    def _are_enough(self, job: JobInfo, tasks: Sequence[TaskInfo], statuses: Statuses) -> bool:
        if has_groups(job):
            return bool(Groups(self.state, job).needed(tasks, statuses))
        return len(tasks) >= max(1, lacking(self.state, job))

    def allowed_together(
        self, job: JobInfo, tasks: Sequence[TaskInfo], statuses: Statuses = HOPED
    ) -> list[TaskInfo]:
        """Return as many tasks as a job needs that its queue may have together; [] if too few."""
        limits = self.tiers.limits
        assert limits is not None
        together: list[TaskInfo] = []
        for task in tasks:
            if limits.allows(self.queues[job.queue], [*together, task]):
                together.append(task)
        if not self._are_enough(job, together, statuses):
            return []
        return needed(self.state, job, together, statuses)

    def may_take(
        self,
        job: JobInfo,
        tasks: Sequence[TaskInfo],
        statuses: Statuses = HOPED,
        *,
        may_reserve: bool = False,
    ) -> bool:
        """Return whether the queue of an unready job may have all that the job still needs.

        With `may_reserve` it does not matter what others hold now.
        """
        if self.tiers.limits is None or self.tiers.job_ready(job) or not tasks:
            return True
        need = self.need(job, tasks, statuses)
        if self.tiers.limits.allows(self.queues[job.queue], need):
            return True
        if self.allowed_together(job, tasks, statuses):
            return True
        limits, queue = self.tiers.limits, self.queues[job.queue]
        if (
            may_reserve
            and limits.lacks_room_alone(queue, need)
            and not limits.never_allows(queue, need)
        ):
            return True
        self.failed_tasks.update(task.uid for task in need)
        return False

    def may_take_task(self, task: TaskInfo, leaving: Sequence[TaskInfo] = ()) -> bool:
        """Return whether the queue of a task may have it, once others are gone."""
        job = self.job_of(task)
        if has_groups(job) and not Groups(self.state, job).may_take(task):
            return False
        if self.tiers.limits is None:
            return True
        queue = self.queues[job.queue]
        return self.tiers.limits.allows(queue, [task], leaving)

    def is_open_for(self, task: TaskInfo) -> bool:
        """Return whether the queue of a task accepts work, regardless of what it holds."""
        assert self.tiers.capacity is not None
        return self.tiers.capacity.allows(self.queues[self.job_of(task).queue], ())

    # Operations.

    def place(self, task: TaskInfo, status: TaskStatus, node: NodeInfo) -> None:
        """Put a task on a node as Allocated, Pipelined, Conditional or Reserved."""
        self.state.put(task, status, node.name)
        if self.devices is not None and status in _IN:
            picks = self.devices.choose(task, node, _IN[status])
            assert picks is not None
            self.state.give(task, picks)

    def has_devices(
        self,
        task: TaskInfo,
        node: NodeInfo,
        accounts: Sequence[Account],
        gone: Sequence[TaskInfo] = (),
    ) -> bool:
        """Return whether the devices that a task claims are free on a node once some have left."""
        devices = self.devices
        return devices is None or devices.choose(task, node, accounts, gone) is not None

    def may_leave(self, task: TaskInfo, action: str, claimant: JobInfo) -> bool:
        """Return whether a task may be evicted or taken back at all: it runs, or was just bound."""
        if self.state.status(task) is TaskStatus.RUNNING:
            return True
        job = self.job_of(task)
        if job is claimant or not self.state.is_bound_now(task) or self.state.is_backfill(task):
            return False
        return task.uid not in self.state.earned or (
            action == "preempt" and self.tiers.knows_priority and claimant.priority > job.priority
        )

    def evict(self, victim: TaskInfo, action: str, claimant: TaskInfo) -> None:
        """Evict a task for another, or take it back if this cycle bound it."""
        node_name = self.state.node_name(victim)
        assert node_name is not None
        eviction = Eviction(
            task_uid=victim.uid,
            node_name=node_name,
            action=action,
            for_task_uid=claimant.uid,
        )
        if self.state.is_bound_now(victim):
            self.state.take_off(victim)
            self.state.binds = [one for one in self.state.binds if one.task_uid != victim.uid]
            self.state.taken_back.append(eviction)
            return
        if self.state.status(victim) is not TaskStatus.RUNNING:
            self.state.take_off(victim)
            self.state.given_up.append(eviction)
            return
        self.state.put(victim, TaskStatus.RELEASING, node_name)
        self.state.evictions.append(eviction)

    def gives_way(self, job: JobInfo, claimant: JobInfo) -> list[TaskInfo]:
        """Return what a job was promised, or has and has not bound, that a claimant may take."""
        if (
            not self.tiers.knows_priority
            or job.queue != claimant.queue
            or job.priority >= claimant.priority
        ):
            return []
        own = {task.uid for task in job.tasks}
        if any(one.for_task_uid in own for one in self.state.evictions):
            return []
        given = (TaskStatus.PIPELINED, TaskStatus.ALLOCATED)
        return self.tiers.victims_in_order(
            task for task in job.tasks if self.state.status(task) in given
        )

    def evictions_of(self, tasks: Iterable[TaskInfo]) -> int:
        """Return how many of some tasks have to be evicted; what does not run costs nothing."""
        return sum(self.state.status(task) is TaskStatus.RUNNING for task in tasks)

    def bind_if_ready(self, job: JobInfo) -> None:
        """Bind all Allocated tasks of a job, in order of UID, if it may start."""
        if not self.tiers.job_ready(job):
            return
        for task in job.tasks:
            node_name = self.state.node_name(task)
            if self.state.status(task) is not TaskStatus.ALLOCATED or node_name is None:
                continue
            if has_groups(job) and not Groups(self.state, job).may_start(task):
                continue
            self.state.put(task, TaskStatus.BINDING, node_name)
            self.state.binds.append(
                Bind(
                    task_uid=task.uid,
                    node_name=node_name,
                    is_backfill=self.state.is_backfill(task),
                    devices=self.state.picks(task) or None,
                )
            )

    def statement(
        self, job: JobInfo, attempt: Callable[[], bool], *, is_earned: bool = False
    ) -> bool:
        """Make an attempt for a job as one statement; return what it returns.

        True: it is committed, and the job's tasks are bound if it is ready. False:
        it is discarded, and the session is exactly as before.
        """
        promised = [
            task
            for job in self.jobs
            for task in job.tasks
            if self.state.status(task) is TaskStatus.PIPELINED
        ]
        stood = [task for task in (*self._claimed, *promised) if self._holds(task)]
        saved = self.state.save()
        succeeds = attempt()
        evictions = len(self.state.evictions)
        evicts = evictions != len(saved.evictions)
        takes = evicts or len(self.state.taken_back) != len(saved.taken_back)
        takes = takes or len(self.state.given_up) != len(saved.given_up)
        if (
            succeeds
            and (not evicts or evictions <= self.most_evictions)
            and (not takes or (self.promises_hold(saved) and all(map(self._holds, stood))))
        ):
            if takes:
                self._claimed += self._placed_since(saved)
            self.bind_if_ready(job)
            if is_earned:
                bound = {bind.task_uid for bind in self.state.binds}
                self.state.earned |= bound - {bind.task_uid for bind in saved.binds}
            return True
        self.state.restore(saved)
        return False

    def promises_hold(self, before: Saved) -> bool:
        """Return whether nodes accept what was placed or promised since then, all in place."""
        return all(map(self._holds, self._placed_since(before)))

    def _placed_since(self, before: Saved) -> list[TaskInfo]:
        return [
            task
            for uid, task in self.state.tasks.items()
            if self.state.status(task) in _HELD and self.state.places[uid] != before.places[uid]
        ]

    def _holds(self, task: TaskInfo) -> bool:
        """Return whether the node of a task will accept it, if it is placed or promised there."""
        if self.state.status(task) not in _HELD:
            return True
        [node] = [node for node in self.nodes if node.name == self.state.node_name(task)]
        return self.accepts_without(task, node, [task])


def _takes_no_tasks(node: NodeInfo) -> bool:
    """Return whether a node takes no tasks at all."""
    return (
        node.unschedulable
        or node.conditions.get("Ready", "True") != "True"
        or node.conditions.get("NetworkUnavailable", "False") != "False"
    )
