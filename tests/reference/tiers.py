"""The combination of the plugins' answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cmp_to_key

from attrs import frozen

from batchsched import JobCondition, JobInfo, NodeInfo, Queue, TaskInfo, TaskStatus
from tests.reference.capacity import Capacity
from tests.reference.conf import Conf, PluginConf
from tests.reference.groups import Groups, has_groups
from tests.reference.lending import AllLimits, Limits, Protection
from tests.reference.plugins import (
    Conformance,
    Gang,
    Plugin,
    Priority,
    RawScore,
    Verdict,
    compare,
)
from tests.reference.predicates import Predicates
from tests.reference.scores import NodeOrder
from tests.reference.shares import Drf, Proportion
from tests.reference.state import State, View
from tests.reference.usage import Usage

__all__ = ["Tiers", "Victims"]


TasksInOrder = Callable[[Iterable[TaskInfo]], list[TaskInfo]]


@frozen
class Victims:
    """The tasks that may be evicted."""

    alone: list[TaskInfo]
    """The tasks that may be evicted alone, in victim order."""
    with_job: list[TaskInfo]
    """The tasks that may be evicted only with their whole jobs, and whose jobs may be evicted."""
    replicas: list[list[TaskInfo]]
    """Replicas that may be evicted whole, the least valuable first, in victim order."""


def _open(
    conf: PluginConf,
    state: State,
    tasks_in_order: TasksInOrder,
    is_kept: Callable[[TaskInfo], bool],
) -> Plugin:
    match conf.name:
        case "priority":
            return Priority(state)
        case "gang":
            return Gang(state, conf.arguments, tasks_in_order)
        case "conformance":
            return Conformance()
        case "drf":
            return Drf(state)
        case "proportion":
            return Proportion(state, tasks_in_order)
        case "capacity":
            return Capacity(state, conf.arguments, tasks_in_order, is_kept)
        case "predicates":
            return Predicates(state, conf.arguments)
        case "nodeorder":
            return NodeOrder(state, conf.arguments)
        case "usage":
            return Usage(state, conf.arguments)
        case "protection":
            return Protection(state, conf.arguments)
        case "devices" | "topology":
            return Plugin()  # nobody asks for anything of them where decisions are compared
        case _:
            raise ValueError(f"expected the name of a built-in plugin, got {conf.name!r}")


def _by_creation(left: JobInfo | Queue | TaskInfo, right: JobInfo | Queue | TaskInfo) -> int:
    def key(item: JobInfo | Queue | TaskInfo) -> tuple[float, str]:
        uid = item.name if isinstance(item, Queue) else item.uid
        return item.creation_time, uid

    return (key(left) > key(right)) - (key(left) < key(right))


class Tiers:
    """All plugins of the cycle, opened in configured order."""

    def __init__(self, conf: Conf, state: State) -> None:
        self._state = state
        self._tiers = [
            [
                (plugin.disabled, _open(plugin, state, self.tasks_in_order, self.is_kept))
                for plugin in tier
            ]
            for tier in conf.tiers
        ]
        if self.capacity is not None:
            self.capacity.usage = next((p for p in self._all() if isinstance(p, Usage)), None)
        self.min_runtime: float = 0
        """The running action does not evict tasks that started less than this many seconds ago."""

    def has_just_started(self, task: TaskInfo) -> bool:
        """Return whether a task started too recently to be evicted."""
        if not self.min_runtime or task.start_time is None or self._state.is_bound_now(task):
            return False
        return self._state.snapshot.now - task.start_time < self.min_runtime

    def _enabled(self, flag: str | None = None) -> Iterator[list[Plugin]]:
        """Yield each tier's plugins whose flag is not false."""
        for tier in self._tiers:
            yield [plugin for disabled, plugin in tier if flag not in disabled]

    def _all(self, flag: str | None = None) -> list[Plugin]:
        return [plugin for tier in self._enabled(flag) for plugin in tier]

    # Orders.

    def _job_order(self, left: JobInfo, right: JobInfo) -> int:
        answers = (plugin.job_order(left, right) for plugin in self._all("enableJobOrder"))
        return _first_difference(answers) or _by_creation(left, right)

    def _queue_order(self, left: Queue, right: Queue) -> int:
        answers = (plugin.queue_order(left, right) for plugin in self._all("enableQueueOrder"))
        return _first_difference(answers) or _by_creation(left, right)

    def _task_order(self, left: TaskInfo, right: TaskInfo) -> int:
        answers = (plugin.task_order(left, right) for plugin in self._all("enableTaskOrder"))
        return _first_difference(answers) or _by_creation(left, right)

    def jobs_in_order(self, jobs: Iterable[JobInfo]) -> list[JobInfo]:
        """Return jobs in the current job order."""
        return sorted(jobs, key=cmp_to_key(self._job_order))

    def queues_in_order(self, queues: Iterable[Queue]) -> list[Queue]:
        """Return queues in the current queue order."""
        return sorted(queues, key=cmp_to_key(self._queue_order))

    def tasks_in_order(self, tasks: Iterable[TaskInfo]) -> list[TaskInfo]:
        """Return tasks in task order."""
        return sorted(tasks, key=cmp_to_key(self._task_order))

    def next_job(self, jobs: Iterable[JobInfo]) -> JobInfo:
        """Return the first job in the current job order."""
        return min(jobs, key=cmp_to_key(self._job_order))

    def next_queue(self, queues: Iterable[Queue]) -> Queue:
        """Return the first queue in the current queue order."""
        return min(queues, key=cmp_to_key(self._queue_order))

    def victims_in_order(self, tasks: Iterable[TaskInfo]) -> list[TaskInfo]:
        """Return tasks in victim order: the reverse of task order."""
        return self.tasks_in_order(tasks)[::-1]

    # A tree of queues.

    @property
    def capacity(self) -> Capacity | None:
        """The plugin capacity, if it is configured."""
        return next((p for p in self._all() if isinstance(p, Capacity)), None)

    @property
    def knows_priority(self) -> bool:
        """Whether the plugin priority is configured."""
        return any(isinstance(plugin, Priority) for plugin in self._all())

    @property
    def priority_orders_jobs(self) -> bool:
        """Whether the plugin priority takes part in the order of jobs."""
        return any(isinstance(plugin, Priority) for plugin in self._all("enableJobOrder"))

    @property
    def limits(self) -> Limits | None:
        """The plugins that limit what queues hold, if any are configured."""
        limited = any(
            queue.limit is not None or not queue.guarantee.is_empty()
            for queue in self._state.snapshot.queues
        )
        kinds = (Capacity, Proportion) if limited else (Capacity,)
        shares = next((p for p in self._all() if isinstance(p, kinds)), None)
        several: list[Limits] = [
            plugin
            for plugin in self._all()
            if plugin is shares or (isinstance(plugin, Protection) and plugin.limits_any)
            if isinstance(plugin, (*kinds, Protection))
        ]
        return AllLimits(several) if several else None

    @property
    def ranks_by_need(self) -> bool:
        """Whether capacity ranks queues."""
        return self.capacity in self._all("enableQueueOrder")

    @property
    def ranks_by_use(self) -> bool:
        """Whether usage ranks queues by itself."""
        enabled = self._all("enableQueueOrder")
        return self.capacity is None and any(isinstance(plugin, Usage) for plugin in enabled)

    def next_in_tree(self, offers: Mapping[str, Sequence[TaskInfo]]) -> Queue:
        """Walk down from the root, comparing siblings by what the next job below them needs.

        `offers` has the need of each leaf that has a job waiting, by name.
        """
        capacity = self.capacity
        queues = {queue.name: queue for queue in self._state.snapshot.queues}
        enabled = self._all("enableQueueOrder")

        def offered(queue: Queue) -> tuple[Queue, Sequence[TaskInfo]] | None:
            children = [child for child in queues.values() if child.parent == queue.name]
            if not children:
                return (queue, offers[queue.name]) if queue.name in offers else None
            return least(children)

        def needed_in(queue: Queue) -> Sequence[TaskInfo]:
            offer = offered(queue)
            return () if offer is None else offer[1]

        def order(left: Queue, right: Queue) -> int:
            for plugin in enabled:
                if isinstance(plugin, Capacity):
                    ranks = [plugin.rank(queue, needed_in(queue)) for queue in (left, right)]
                    answer = (ranks[0] > ranks[1]) - (ranks[0] < ranks[1])
                elif isinstance(plugin, Usage) and capacity is None:
                    answer = compare(*(plugin.key(q, needed_in(q)) for q in (left, right)))
                else:
                    answer = plugin.queue_order(left, right)
                if answer:
                    return answer
            return _by_creation(left, right)

        def least(siblings: Sequence[Queue]) -> tuple[Queue, Sequence[TaskInfo]] | None:
            offering = [queue for queue in siblings if offered(queue) is not None]
            return offered(min(offering, key=cmp_to_key(order))) if offering else None

        found = least([queue for queue in queues.values() if queue.parent is None])
        assert found is not None
        return found[0]

    def lets_go(self, task: TaskInfo, victims: list[TaskInfo], *, is_whole_job: bool) -> bool:
        """Return whether no plugin prevents the eviction of tasks that go together."""
        kept = (Verdict.PROTECTED,) if is_whole_job else (Verdict.PROTECTED, Verdict.WITH_JOB)
        if any(map(self.is_in_kept_queue, victims)):
            return False
        return not any(map(self.has_just_started, victims)) and not any(
            said is not None and said[0] in kept
            for plugin in self._all("enableReclaimable")
            for victim in victims
            for said in [plugin.reclaimable(task, [victim])]
        )

    def is_in_kept_queue(self, task: TaskInfo) -> bool:
        """Return whether the queue of a task, or one above it, is not reclaimable."""
        queues = {queue.name: queue for queue in self._state.snapshot.queues}
        name: str | None = self._state.job_of[task.uid].queue
        while name in queues:
            if not queues[name].reclaimable:
                return True
            name = queues[name].parent
        return False

    def is_kept(self, task: TaskInfo) -> bool:
        """Return whether a plugin other than gang keeps a task from being reclaimed by anybody."""
        return self.is_in_kept_queue(task) or any(
            said is not None and said[0] is Verdict.PROTECTED
            for plugin in self._all("enableReclaimable")
            if not isinstance(plugin, Gang)
            for said in [plugin.reclaimable(task, [task])]
        )

    # Nodes.

    def accepted(
        self, task: TaskInfo, nodes: Iterable[NodeInfo], view: View = View.NOW
    ) -> list[NodeInfo]:
        """Return those of the nodes that all predicates accept, seen that way."""
        left = list(nodes)
        for plugin in self._all("enablePredicate"):
            left = plugin.accepted(task, left, view)
        return left

    def curable(self, task: TaskInfo, nodes: Sequence[NodeInfo]) -> list[NodeInfo]:
        """Return the nodes that are refused only for reasons that evictions may remove."""
        names = {
            node.name
            for plugin in self._all("enablePredicate")
            for node in plugin.curable(task, nodes)
        }
        return [node for node in nodes if node.name in names]

    def raw_scores(self, task: TaskInfo, nodes: Sequence[NodeInfo]) -> dict[str, list[RawScore]]:
        """Return the raw score of each node, for every plugin."""
        answers = [plugin.raw_scores(task, nodes) for plugin in self._all("enableNodeOrder")]
        return {
            node.name: [scores.get(node.name, RawScore()) for scores in answers] for node in nodes
        }

    def scores(self, raw: Mapping[str, list[RawScore]]) -> dict[str, int]:
        """Return the sum of all plugins' scores for each of the nodes that are compared."""
        answers = [
            plugin.scores({name: scores[position] for name, scores in raw.items()})
            for position, plugin in enumerate(self._all("enableNodeOrder"))
        ]
        return {name: sum(scores.get(name, 0) for scores in answers) for name in raw}

    def resource_scores(self, task: TaskInfo, nodes: Sequence[NodeInfo]) -> dict[str, float]:
        """Return the sum of all plugins' resource scores for each of the nodes."""
        answers = [plugin.resource_scores(task, nodes) for plugin in self._all()]
        return {node.name: sum(scores.get(node.name, 0) for scores in answers) for node in nodes}

    # Victims.

    def preemptable(
        self, task: TaskInfo, candidates: list[TaskInfo], may_leave: Callable[[TaskInfo], bool]
    ) -> Victims:
        """Return which of the candidates may be evicted for a task of the same queue."""
        capacity = self.capacity
        ranks = capacity is not None and capacity in self._all("enablePreemptable")
        return self._victims(
            candidates,
            may_leave,
            lambda asked: [
                [plugin.preemptable(task, asked) for plugin in tier]
                for tier in self._enabled("enablePreemptable")
            ],
            lambda tasks: not ranks or capacity is None or capacity.may_preempt_all(task, tasks),
        )

    def keeps_from_all(self, task: TaskInfo, victims: Sequence[TaskInfo]) -> bool:
        """Return whether plugins that know of neither gangs nor shares protect a victim."""
        return any(
            said is not None and said[0] is Verdict.PROTECTED
            for plugin in self._all("enablePreemptable")
            if not isinstance(plugin, (Gang, Capacity))
            for victim in victims
            for said in [plugin.preemptable(task, [victim])]
        )

    def reclaimable(
        self, task: TaskInfo, candidates: list[TaskInfo], may_leave: Callable[[TaskInfo], bool]
    ) -> Victims:
        """Return which of the candidates may be evicted for a task of another queue."""
        return self._victims(
            [one for one in candidates if not self.is_in_kept_queue(one)],
            may_leave,
            lambda asked: [
                [plugin.reclaimable(task, asked) for plugin in tier]
                for tier in self._enabled("enableReclaimable")
            ],
        )

    def revocable(self, task: TaskInfo, candidates: list[TaskInfo]) -> Victims:
        """Return which backfill tasks may be evicted for one that was promised their room."""
        return self._victims(
            candidates,
            lambda other: self._state.status(other) is TaskStatus.RUNNING,
            lambda asked: [[plugin.revocable(task, asked) for plugin in self._all()]],
        )

    def _victims(
        self,
        candidates: list[TaskInfo],
        may_leave: Callable[[TaskInfo], bool],
        ask: Ask,
        may_take_all: Callable[[list[TaskInfo]], bool] = lambda _tasks: True,
    ) -> Victims:
        left = [
            one
            for one in candidates
            if not self.has_just_started(one) and not _is_protected(ask([one]), 0)
        ]
        answers = ask(left)
        left_out = [_is_protected(answers, position) for position in range(len(left))]
        chosen_by_tier = [
            [
                position
                for position in range(len(left))
                if not left_out[position] and _all_agree(tier, position)
            ]
            for tier in answers
        ]
        deciding = [number for number, chosen in enumerate(chosen_by_tier) if chosen]
        if not deciding:
            return Victims([], [], [])
        number = deciding[0]
        chosen = chosen_by_tier[number]

        def may_go_whole(tasks: list[TaskInfo]) -> bool:
            return may_take_all(tasks) and all(
                may_leave(task)
                and not self.has_just_started(task)
                and not _is_protected(ask([task]), 0)
                and _all_agree(ask([task])[number], 0)
                for task in tasks
            )

        only_whole = [position for position in chosen if _says(answers, position, Verdict.WITH_JOB)]
        with_job: list[TaskInfo] = []
        replicas: list[list[TaskInfo]] = []
        for candidate in [left[position] for position in only_whole]:
            job = self._state.job_of[candidate.uid]
            replica = self._replica_of(candidate, job)
            if replica is None:
                tasks = [task for task in job.tasks if self._state.status(task).occupies]
                if may_go_whole(tasks):
                    with_job.append(candidate)
            elif replica not in replicas and may_go_whole(replica):
                replicas.append(replica)
        return Victims(
            [left[position] for position in chosen if position not in only_whole],
            with_job,
            self._in_victim_order(replicas),
        )

    def _replica_of(self, task: TaskInfo, job: JobInfo) -> list[TaskInfo] | None:
        """Return all tasks that go with a task, in victim order, if this is not the whole job."""
        if has_groups(job):
            for kind, tasks, victims in Groups(self._state, job).units(self.tasks_in_order):
                if kind == 1 and task in tasks:
                    return victims[::-1]
        return None

    def _in_victim_order(self, replicas: list[list[TaskInfo]]) -> list[list[TaskInfo]]:
        """Return replicas ordered by their most valuable needed task, the least valuable first."""

        def best(replica: list[TaskInfo]) -> TaskInfo:
            job = self._state.job_of[replica[0].uid]
            for _, tasks, victims in Groups(self._state, job).units(self.tasks_in_order):
                if victims[::-1] == replica:
                    return tasks[0]
            raise AssertionError("it is a unit of its job")

        order = self.tasks_in_order(best(replica) for replica in replicas)
        return sorted(replicas, key=lambda replica: -order.index(best(replica)))

    # Queues and jobs as a whole.

    def overused(self, queue: Queue) -> bool:
        """Return whether any plugin says that the queue has its deserved share."""
        return any(plugin.overused(queue) for plugin in self._all())

    def job_valid(self, job: JobInfo) -> JobCondition | None:
        """Return the first refusal of a job."""
        answers = [plugin.job_valid(job) for plugin in self._all()]
        return next((answer for answer in answers if answer is not None), None)

    def unschedulable(self, job: JobInfo) -> JobCondition | None:
        """Return the condition that plugins give a job at close."""
        answers = [plugin.unschedulable(job) for plugin in self._all()]
        return next((answer for answer in answers if answer is not None), None)

    def job_ready(self, job: JobInfo) -> bool:
        """Return whether the job may start."""
        return _vote(
            [plugin.job_ready(job) for plugin in tier] for tier in self._enabled("enableJobReady")
        )

    def job_pipelined(self, job: JobInfo) -> bool:
        """Return whether the job may start once everything that is being released is free."""
        return _vote(
            [plugin.job_pipelined(job) for plugin in tier]
            for tier in self._enabled("enableJobPipelined")
        )

    def job_condition_ready(self, job: JobInfo) -> bool:
        """Return whether the job may start once all its promises are kept."""
        return _vote(
            [plugin.job_condition_ready(job) for plugin in tier] for tier in self._enabled()
        )


def _first_difference(answers: Iterable[int]) -> int:
    return next((answer for answer in answers if answer != 0), 0)


def _vote(tiers: Iterable[list[bool | None]]) -> bool:
    for votes in tiers:
        if False in votes:
            return False
        if True in votes:
            return True
    return True


Answers = list[list[list[Verdict] | None]]
"""Tier by tier, each plugin's verdicts; None where it has no such function."""
Ask = Callable[[list[TaskInfo]], Answers]


def _says(answers: Answers, position: int, verdict: Verdict) -> bool:
    return any(said is not None and said[position] is verdict for tier in answers for said in tier)


def _is_protected(answers: Answers, position: int) -> bool:
    return _says(answers, position, Verdict.PROTECTED)


def _all_agree(tier: list[list[Verdict] | None], position: int) -> bool:
    said = [verdicts[position] for verdicts in tier if verdicts is not None]
    said = [verdict for verdict in said if verdict is not Verdict.NO_SAY]
    return bool(said) and all(v in (Verdict.VICTIM, Verdict.WITH_JOB) for v in said)
