"""The library's own scheduler as a policy: any configuration, with any registry."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Final

from attrs import evolve, field, frozen

from batchsched.config.registry import Registry
from batchsched.config.scheduler_config import SchedulerConfig
from batchsched.errors import Fault, SnapshotError
from batchsched.live import (
    Cluster,
    Event,
    JobArrived,
    JobRemoved,
    NodeAdded,
    NodeChanged,
    NodeRemoved,
    QueueAdded,
    QueueChanged,
    TaskChanged,
    TaskGone,
    TaskSucceeded,
    TimePassed,
    TopologiesChanged,
)
from batchsched.model.cluster import Budget, NodeInfo, Queue
from batchsched.model.constraints import Taint, TaintEffect
from batchsched.model.devices import DevicePick
from batchsched.model.immutable import AsTuple, ByUid
from batchsched.model.result import CycleResult
from batchsched.model.snapshot import Snapshot
from batchsched.model.topology import without_nodes
from batchsched.model.validation.values import is_of, shown
from batchsched.plugin.arguments import Arguments
from batchsched.plugins.usage import UsagePlugin
from batchsched.scheduler import Scheduler
from batchsched.simulation.checks import JobId, PolicyError, is_number
from batchsched.simulation.decisions import Decision, Resize, Start, Stop, Wake
from batchsched.simulation.engine import Decides, Policy
from batchsched.simulation.settings import NodeDrained, QueueSet, Settings
from batchsched.simulation.state import RESERVED
from batchsched.simulation.view import View
from batchsched.simulation.workload import Workload
from batchsched.transition.next_snapshot import is_settled, next_wake

_DEFAULT_QUEUE: Final = "default"
"""The queue of jobs that name none."""
_MOST_CYCLES: Final = 100
"""The most cycles that evictions or promises may cause in one pass."""
_MOST_FAULTS: Final = 20
"""The most faults that a message lists."""


@frozen
class Scheduled(Policy):
    """A configuration of `batchsched.Scheduler`, with all its plugins and actions.

    A job is what its `info` says. Without one it is a gang of tasks that request cpu only: on
    equal nodes of more than one processor as few tasks as possible, each but the last as large as
    a node; else a task for each processor. The requested time of a job is its `estimate`.

    A pass is a cycle on a live cluster, and another at once while it evicts or promises. A job
    runs while what it needs is bound; what is bound is held. An evicted job waits again at once,
    or runs on with fewer tasks, if it still has what it needs. While a reservation lasts, its
    nodes carry the taint ``reservation=NAME``, which its jobs tolerate. With the plugin ``usage``,
    the usage of queues is tracked from zero, with the plugin's half-life. With the plugin
    ``protection`` and ``cost: lost-work``, tasks are told when their job last saved its work.
    """

    config: SchedulerConfig = field(factory=SchedulerConfig)
    registry: Registry | None = None
    """The plugins and actions that the configuration may name. None: the built-in ones."""
    queues: tuple[Queue, ...] = field(default=(), converter=AsTuple[Queue])
    """The queues, including all that jobs name. Empty: the queues that jobs name, with weight 1.
    Jobs that name no queue belong to `default`."""
    budgets: tuple[Budget, ...] = field(default=(), converter=ByUid[Budget])
    """How many of some tasks may be down, by labels of the tasks of ``info``."""
    is_scheduler: bool = field(default=True, init=False, repr=False)

    def begin(self, workload: Workload, /) -> Decides:
        """Return what decides in a new simulation: a live cluster with the scheduler."""
        return _OnCluster(self, workload)

    def decide(self, view: View, /) -> Iterable[Decision]:
        """Raise an error: it decides on its cluster, which `begin` makes.

        Raises:
            PolicyError: Always.
        """
        raise PolicyError(f"at {view.now} s: expected a call of decide of what begin returns")

    def faults_of(self, workload: Workload, settings: Settings) -> Iterable[Fault]:
        """Yield what keeps it from simulating a workload."""
        if not is_of(self.config, SchedulerConfig):
            yield Fault("config", f"expected a SchedulerConfig, got {shown(self.config)}")
            return
        if type(self.queues) is not tuple:
            message = f"expected a collection of queues, got {shown(self.queues)}; use a list"
            yield Fault("queues", message)
            return
        faults = [
            Fault(f"queues[{number}]", f"expected a Queue, got {shown(queue)}")
            for number, queue in enumerate(self.queues)
            if not is_of(queue, Queue)
        ]
        faults += self._faults_of_budgets()
        if not faults:
            faults += self._faults_of_queues(workload, settings)
        yield from faults
        plugins = {option.name for tier in self.config.tiers for option in tier.plugins}
        closing = [
            f"incidents[{number}]"
            for number, each in enumerate(settings.incidents)
            if is_of(each, NodeDrained)
        ]
        closing += [f"reservations[{number}]" for number in range(len(settings.reservations))]
        for where in closing if "predicates" not in plugins else ():
            message = "without it this has no effect"
            yield Fault(where, f"expected the plugin predicates in the configuration; {message}")

    def _faults_of_budgets(self) -> Iterator[Fault]:
        """Yield what is wrong with the budgets."""
        try:
            Cluster(budgets=self.budgets)
        except SnapshotError as error:
            yield from error.faults

    def _faults_of_queues(self, workload: Workload, settings: Settings) -> Iterator[Fault]:
        """Yield what is wrong with the queues, at first and as incidents set them."""
        listed = self.queues or _usual_queues(workload)
        changes = [
            (each.at, number, each.queue)
            for number, each in enumerate(settings.incidents)
            if isinstance(each, QueueSet)
            and is_of(each.queue, Queue)
            and is_number(each.at, least=0)
        ]
        where = ""
        try:
            Snapshot(queues=listed)
            known = {queue.name: queue for queue in listed}
            for _, number, queue in sorted(changes, key=itemgetter(0, 1)):
                where = f"incidents[{number}]."
                Snapshot(queues=[*(known | {queue.name: queue}).values()])
                known[queue.name] = queue
        except SnapshotError as error:
            yield from (Fault(where + fault.path, fault.message) for fault in error.faults)
            return
        named = sorted({_queue_of(queue) for queue in workload.queues} - known.keys())
        for name in named[:_MOST_FAULTS]:
            yield Fault("queues", f"expected the queue {name!r}, which jobs name, got none")

    def __str__(self) -> str:
        return f"scheduler ({', '.join(option.name for option in self.config.actions)})"


def _queue_of(queue: object) -> str:
    """Return the queue of a job; `_DEFAULT_QUEUE` if it names none."""
    return _DEFAULT_QUEUE if queue is None else str(queue)


def _usual_queues(workload: Workload) -> tuple[Queue, ...]:
    """Return the queues that jobs name."""
    names = {_queue_of(queue) for queue in workload.queues} | {_DEFAULT_QUEUE}
    return tuple(Queue(name=name) for name in sorted(names))


def _half_life(config: SchedulerConfig) -> float | None:
    """Return the half-life of the plugin usage; None if it is not configured."""
    for tier in config.tiers:
        for option in tier.plugins:
            if option.name == "usage":
                return UsagePlugin.from_arguments(Arguments(option.arguments)).half_life
    return None


def _weighs_lost_work(config: SchedulerConfig) -> bool:
    """Return whether the plugin protection counts the work that evicted tasks lose."""
    return any(
        option.name == "protection" and option.arguments.get("cost") == "lost-work"
        for tier in config.tiers
        for option in tier.plugins
    )


_Bound = dict[str, tuple[str, tuple[DevicePick, ...]]]
"""The node and the devices of each task that is bound, by UID."""


def _places(bound: _Bound) -> dict[str, str]:
    return {uid: node for uid, (node, _) in bound.items()}


def _devices(bound: _Bound) -> dict[str, tuple[DevicePick, ...]]:
    return {uid: picks for uid, (_, picks) in bound.items() if picks}


class _OnCluster:
    """A live cluster with the scheduler, which follows a simulation."""

    def __init__(self, policy: Scheduled, workload: Workload) -> None:
        self._policy = policy
        self._half_life = _half_life(policy.config)
        self._tells_checkpoints = _weighs_lost_work(policy.config)
        queues = policy.queues or _usual_queues(workload)
        machine = workload.machine
        assert machine is not None
        self._topologies = machine.topologies
        self._cluster = Cluster(
            queues=[self._tracking_usage(queue) for queue in queues],
            devices=machine.devices,
            counter_sets=machine.counter_sets,
            budgets=policy.budgets,
        )
        self._live = Scheduler(policy.config, policy.registry).attach(self._cluster)
        self._nodes: dict[str, NodeInfo] = {}
        self._events = list[Event]()
        """What has happened and the cluster does not know of yet."""
        self._job_of = dict[str, JobId]()
        self._uids = dict[JobId, tuple[str, ...]]()
        self._uid_of = dict[JobId, str]()
        self._on = dict[JobId, _Bound]()
        """The tasks that are bound, by job."""
        self._ready = set[JobId]()
        """The jobs that have all that they need."""

    def _tracking_usage(self, queue: Queue) -> Queue:
        """Return the queue, set to track its usage if a plugin reads that."""
        if self._half_life is None or queue.usage_half_life is not None:
            return queue
        return evolve(queue, usage_half_life=self._half_life)

    # What has happened

    def _follow(self, view: View) -> None:
        """Tell the cluster what has happened."""
        if not self._nodes:
            self._nodes = {node.name: node.info for node in view.nodes}
            self._events += map(NodeAdded, self._nodes.values())
            self._group_nodes(view)
        self._events.append(TimePassed(view.now))
        for cause in view.causes:
            match cause.kind:
                case "arrival":
                    self._arrive(view, cause.what)
                case "end" | "failed" | "cancelled":
                    self._leave(cause.what, succeeded=cause.kind == "end")
                case "stop":
                    placed = self._on.pop(cause.what)
                    self._ready.discard(cause.what)
                    self._events += map(TaskGone, placed)
                case "down":
                    # It may have come and gone since the last pass.
                    self._apply()
                    if cause.what in self._cluster.content.nodes:
                        self._events.append(NodeRemoved(str(cause.what)))
                case "up" | "drained":
                    self._set_node(view, str(cause.what))
                case "reserved" | "unreserved":
                    self._reserve(view, str(cause.what), lasts=cause.kind == "reserved")
                case "queue":
                    self._set_queue(view.queues[str(cause.what)])
                case _:
                    pass
        if any(cause.kind == "up" for cause in view.causes):
            self._group_nodes(view)
        self._apply()
        if self._tells_checkpoints:
            self._tell_checkpoints(view)

    def _tell_checkpoints(self, view: View) -> None:
        """Tell until when the work of running jobs is safe. O(tasks that run)."""
        tasks = self._cluster.content.tasks
        for job, bound in self._on.items():
            safe = view.safe_until(job)
            self._events += [
                TaskChanged(evolve(tasks[uid], checkpoint_time=safe))
                for uid in bound
                if tasks[uid].checkpoint_time != safe
            ]
        self._apply()

    def _apply(self) -> None:
        """Let the cluster know of the events so far."""
        self._cluster.apply(*self._events)
        self._events.clear()

    def _arrive(self, view: View, job: JobId) -> None:
        info = view.info(job)
        self._uids[job] = tuple(task.uid for task in info.tasks)
        self._uid_of[job] = info.uid
        self._job_of.update(dict.fromkeys(self._uids[job], job))
        self._events.append(JobArrived(info))

    def _leave(self, job: JobId, *, succeeded: bool) -> None:
        if job not in self._uids:  # it came and went before this pass
            return
        if succeeded:
            self._events += [TaskSucceeded(uid) for uid in self._on.get(job, ())]
        self._events.append(JobRemoved(self._uid_of.pop(job)))
        for uid in self._uids.pop(job):
            del self._job_of[uid]
        self._on.pop(job, None)
        self._ready.discard(job)

    def _set_node(self, view: View, name: str) -> None:
        self._apply()
        [node] = [node for node in view.nodes if node.name == name]
        if not node.in_service:
            return
        info = self._nodes[name]
        if node.drained:
            info = evolve(info, unschedulable=True)
        is_there = name in self._cluster.content.nodes
        self._events.append(NodeChanged(info) if is_there else NodeAdded(info))

    def _group_nodes(self, view: View) -> None:
        """Tell how the nodes that are there are grouped: domains may list those that came back."""
        if self._topologies:
            away = [node.name for node in view.nodes if not node.in_service]
            self._events.append(TopologiesChanged(without_nodes(self._topologies, away)))

    def _reserve(self, view: View, name: str, *, lasts: bool) -> None:
        taint = Taint(key=RESERVED, value=name, effect=TaintEffect.NO_SCHEDULE)
        [one] = [each for each in view.reservations if each.name == name]
        names = [node.name for node in view.nodes]
        for node in one.nodes:
            each = names[node] if isinstance(node, int) else node
            info = self._nodes[each]
            taints = [old for old in info.taints if old != taint]
            self._nodes[each] = evolve(info, taints=[*taints, taint] if lasts else taints)
            self._set_node(view, each)

    def _set_queue(self, queue: Queue) -> None:
        queue = self._tracking_usage(queue)
        self._apply()
        before = self._cluster.content.queues.get(queue.name)
        if before is None:
            self._events.append(QueueAdded(queue))
        else:
            queue = evolve(queue, usage=before.usage, usage_by_user=before.usage_by_user)
            self._events.append(QueueChanged(queue))

    # Decisions

    def decide(self, view: View, /) -> Iterator[Decision]:
        """Run cycles until they settle, and return what they bind and evict."""
        self._follow(view)
        before = dict[JobId, _Bound]()
        broken = set[JobId]()
        for _ in range(_MOST_CYCLES):
            cycle = self._live.schedule(reasons=False)
            self._carry_out(view, cycle, before, broken)
            if is_settled(cycle):
                break
        else:
            raise PolicyError(
                f"at {view.now} s: expected the scheduler to settle, but {_MOST_CYCLES} cycles in "
                "a row evicted or promised something; this configuration never settles"
            )
        for job, old in before.items():
            new = self._on.get(job, {})
            stops = bool(old) and (job in broken or not new)
            if stops:
                yield Stop(job)
            if new and (stops or not old):
                yield Start(job, _places(new), devices=_devices(new))
            elif new != old and not stops:
                yield Resize(job, _places(new), devices=_devices(new))
        yield Wake(next_wake(cycle, after=view.now))

    def _carry_out(
        self,
        view: View,
        cycle: CycleResult,
        before: dict[JobId, _Bound],
        broken: set[JobId],
    ) -> None:
        """Carry out a cycle on the cluster.

        Args:
            view: What was there before the pass.
            cycle: What was decided.
            before: To note where the jobs that are touched were before the pass.
            broken: To note which jobs had what they need, and lost it on the way.
        """
        self._cluster.carry_out(cycle, at_once=True)
        evicted: dict[JobId, None] = {}
        for stopped in cycle.stopped():
            job = self._job_of[stopped.task_uid]
            before.setdefault(job, dict(self._on.get(job, {})))
            del self._on[job][stopped.task_uid]
            evicted[job] = None
        for job in evicted:
            if job in self._ready and not view.is_enough(job, self._on[job]):
                self._ready.discard(job)
                broken.add(job)
        bound: dict[JobId, None] = {}
        for bind in cycle.binds:
            job = self._job_of[bind.task_uid]
            before.setdefault(job, dict(self._on.get(job, {})))
            self._on.setdefault(job, {})[bind.task_uid] = (bind.node_name, bind.devices or ())
            bound[job] = None
        for job in bound:
            if job not in self._ready and view.is_enough(job, self._on[job]):
                self._ready.add(job)

    # At the end

    def queue_parents(self) -> dict[str, str]:
        """Return the parent of each queue that has one."""
        return {
            name: queue.parent
            for name, queue in sorted(self._cluster.content.queues.items())
            if queue.parent is not None
        }

    def why_waiting(self, jobs: Sequence[JobId]) -> Mapping[JobId, str]:
        """Return why jobs wait that never started."""
        cycle = self._live.schedule()
        found: dict[JobId, str] = {}
        for job in jobs:
            uids = self._uids.get(job, ())
            reasons = [cycle.pending[uid] for uid in uids if uid in cycle.pending]
            left_out = cycle.left_out.get(self._uid_of.get(job, ""))
            if reasons:
                found[job] = str(reasons[0])
            elif left_out is not None:
                found[job] = str(left_out)
            elif uids:
                found[job] = "the scheduler gives no reason"
        return found
