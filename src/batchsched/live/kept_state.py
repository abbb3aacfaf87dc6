"""The state that a scheduler keeps of a live cluster between cycles, and how it is updated."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter, eq

from attrs import fields_dict

from batchsched.model.cluster import Queue, TaskInfo
from batchsched.plugin.changes import Changes
from batchsched.session.opened_plugins import ConfiguredPlugin
from batchsched.session.policy_state import PlacementFactory, PolicyState
from batchsched.session.promises import keep_promises, start_promised_jobs
from batchsched.session.session import Session
from batchsched.state.doors import Door
from batchsched.state.live_ledger import LiveLedger
from batchsched.state.records import JobState, NodeState, TaskState
from batchsched.transition.content import Content, Table, Value

__all__ = ["KeptState"]


class KeptState:
    """Keeps a `PolicyState` up to date with a cluster, or rebuilds it where it cannot."""

    def __init__(
        self,
        content: Content,
        plugins: Sequence[ConfiguredPlugin],
        placement: PlacementFactory,
        *,
        promises_repel: bool = False,
        plain: frozenset[Door] = frozenset(),
    ) -> None:
        self._content = content
        self._plain = plain
        self._promises_repel = promises_repel
        self._plugins = plugins
        self._placement = placement
        self._rebuild()

    def _rebuild(self) -> None:
        content = self._content
        self._version = content.version
        self._ledger = LiveLedger(content.snapshot())
        self._policy_state = PolicyState(
            self._ledger,
            self._plugins,
            self._placement,
            promises_repel=self._promises_repel,
            plain=self._plain,
        )
        self._policy_state.live_on()

    def session(self) -> Session:
        """Open a session on the present state of the cluster. O(changes since the last one)."""
        # Binds that have taken effect need not be undone, and entered again.
        undone = self._ledger.undo_cycle(self._content.tasks)
        if undone or self._version is not self._content.version:
            # Plugins may read the time when they are opened again.
            self._ledger.now = self._content.now
            before = self._content.changed_since(self._version)
            self._version = self._content.version
            if not _Following(self._content, self._ledger, self._policy_state).follow(
                before, undone
            ):
                self._rebuild()
        self._ledger.begin_cycle()
        failed_turns = self._policy_state.failed_turns
        if failed_turns is not None:
            failed_turns.begin_cycle()
        session = Session.on(self._policy_state)
        keep_promises(session)
        start_promised_jobs(session)
        return session

    def end(self) -> None:
        """End the session. Its changes are undone when the next one is opened."""
        failed_turns = self._policy_state.failed_turns
        if failed_turns is not None:
            failed_turns.end_cycle()
        self._policy_state.to_admit = ()


class _Following:
    """Applies changes in the content of a cluster to a `PolicyState`."""

    def __init__(self, content: Content, ledger: LiveLedger, policy_state: PolicyState) -> None:
        self._content = content
        self._ledger = ledger
        self._policy_state = policy_state
        self._came: list[JobState] = []
        self._gone: list[JobState] = []
        self._new_tasks: list[TaskState] = []
        self._moved: list[TaskState] = []
        self._others_changed = False

    def follow(self, before: dict[tuple[Table, str], Value], undone: list[JobState]) -> bool:
        """Apply all changes; return False if that is not possible and the books must be rebuilt."""
        content, ledger = self._content, self._ledger
        nodes: list[str] = []
        leaving: dict[str, None] = {}
        """The jobs that are removed, and added again if they still exist."""
        tasks: dict[str, None] = {}
        used: list[Queue] = []
        for table, key in before:
            if table == "queues":
                queue, now = ledger.queues.get(key), content.queues.get(key)
                if queue is None or now is None or not _is_same_but_for_its_use(queue.info, now):
                    return False
                used.append(now)
            elif table == "nodes":
                nodes.append(key)
            elif table in {"jobs", "members"}:
                leaving[key] = None
            elif table == "tasks":
                tasks[key] = None
        if not all(ledger.may_change(name, content.nodes.get(name)) for name in nodes):
            return False
        others = self._sort_tasks(tasks, leaving)
        if others is None:
            return False
        for now in used:
            ledger.describe_queue(now)
        if nodes:
            # A task whose node did not exist may have one now, and vice versa.
            for task in (*ledger.diverging(), *self._promised_on(nodes)):
                if task.job is not None:
                    leaving[task.job.uid] = None
        if not all(self._knows(uid) for uid in leaving):
            return False
        coming = [
            *(content.tasks[uid] for job in leaving for uid in content.members.get(job, ())),
            *(content.tasks[uid] for uid in others if uid in content.tasks),
            *(task.info for task in self._new_tasks),
        ]
        needs_new_view = self._needs_new_view(coming, nodes=bool(nodes))
        if needs_new_view:
            ledger.on_occupy = ledger.on_promise = None
        for uid in leaving:
            if uid in ledger.jobs:
                self._gone.append(ledger.leave_job(uid))
        for uid in others:
            if uid in ledger.other_tasks:
                ledger.leave_other(uid)
        moved = [task for task in self._moved if task.job is None or task.job.uid not in leaving]
        nodes_gone = self._change_nodes(nodes, moved)
        for uid in leaving:
            if uid in content.jobs:
                job = ledger.enter_job(content.job(uid))
                self._came.append(job)
                self._new_tasks += job.tasks
        for uid in others:
            if uid in content.others:
                ledger.enter_other(content.tasks[uid])
                self._new_tasks.append(ledger.other_tasks[uid])
        failed_turns = self._policy_state.failed_turns
        if failed_turns is not None:
            failed_turns.forget(self._gone)
            failed_turns.forget(task.job for task in moved if task.job is not None)
        gone = set(self._gone)
        jobs = dict.fromkeys(
            [
                *self._came,
                *(task.job for task in moved if task.job is not None),
                *(job for job in undone if job not in gone),
            ]
        )
        changes = Changes(
            jobs=jobs,
            jobs_gone=self._gone,
            tasks=self._new_tasks,
            nodes=[ledger.node_named[name] for name in nodes if name in ledger.node_named],
            nodes_gone=nodes_gone,
            other_tasks=bool(others),
        )
        self._policy_state.resume(
            changes,
            other_tasks_changed=bool(others),
            needs_new_view=needs_new_view,
        )
        return True

    def _sort_tasks(self, tasks: dict[str, None], leaving: dict[str, None]) -> list[str] | None:
        """Sort changed tasks by how they are updated; return those without a job.

        None: the change cannot be applied.
        """
        content, ledger = self._content, self._ledger
        others: list[str] = []
        for uid in tasks:
            info = content.tasks.get(uid)
            task = ledger.tasks.get(uid)
            owner = content.owner.get(uid)
            if task is not None and (task.job is None or owner is None):
                if task.job is not None:
                    leaving[task.job.uid] = None
                others.append(uid)
            elif info is not None and owner is None:
                others.append(uid)
            elif task is None or info is None or task.job is None or task.job.uid != owner:
                for job in (owner, None if task is None or task.job is None else task.job.uid):
                    if job is not None:
                        leaving[job] = None
            elif info is not task.info:
                if _is_same_to_the_books(task.info, info):
                    # Its times have changed, too: it has nearly always started or ended.
                    ledger.forget_answers(task)
                    self._new_tasks.append(task)
                    ledger.describe(task, info)
                    self._moved.append(task)
                else:
                    leaving[task.job.uid] = None
            if uid in others and info is not None and not self._knows_task(info):
                return None
        return others

    def _knows_task(self, info: TaskInfo) -> bool:
        ledger = self._ledger
        return ledger.knows(info.resreq) and ledger.knows(info.init_resreq)

    def _knows(self, uid: str) -> bool:
        content = self._content
        return all(self._knows_task(content.tasks[task]) for task in content.members.get(uid, ()))

    def _promised_on(self, names: list[str]) -> list[TaskState]:
        """Return the tasks that are assigned to nodes without holding resources there."""
        found: list[TaskState] = []
        for name in names:
            node = self._ledger.node_named.get(name)
            if node is not None:
                found += node.reserved_tasks.values()
                found += [task for task in node.tasks.values() if not task.status.holds]
        return found

    def _change_nodes(self, names: list[str], moved: list[TaskState]) -> list[NodeState]:
        """Update nodes; return those that were removed."""
        content, ledger = self._content, self._ledger
        for name in names:
            if name in content.nodes:
                ledger.put_node(content.nodes[name])
        gone = [name for name in names if name not in content.nodes and name in ledger.node_named]
        ledger.settle(moved, nodes_gone=gone)
        return [ledger.remove_node(name) for name in gone]

    def _needs_new_view(self, coming: Iterable[TaskInfo], *, nodes: bool) -> bool:
        """Return whether the index of inter-pod affinity cannot represent the new state."""
        index = self._policy_state.view.pod_affinity_if_any
        if index is None:
            return False
        if nodes and index.is_active:
            return True
        return not all(map(index.knows, coming))


def _is_same_to_the_books(one: TaskInfo, other: TaskInfo) -> bool:
    """Return whether two descriptions of a task are the same to the ledger's totals and indices."""
    return (
        one.resreq is other.resreq
        and one.init_resreq is other.init_resreq
        and one.scoring_request is other.scoring_request
        and one.host_ports is other.host_ports
        and one.labels is other.labels
        and one.namespace == other.namespace
        and one.group == other.group
        and one.pod_affinity is other.pod_affinity
        and one.pod_anti_affinity is other.pod_anti_affinity
    )


_USE = ("usage", "usage_by_user", "usage_half_life")
_but_for_use = attrgetter(*(name for name in fields_dict(Queue) if name not in _USE))


def _is_same_but_for_its_use(one: Queue, other: Queue) -> bool:
    return all(map(eq, _but_for_use(one), _but_for_use(other)))
