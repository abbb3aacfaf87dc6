"""Cycles that go on from the state of the last one.

A scheduler keeps its state of a living cluster, or of the last snapshot, and applies to it what has
changed since. Decisions are those of a cycle from scratch.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from operator import attrgetter, eq, is_, is_not, ne
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from attrs import evolve, fields_dict, frozen

from batchsched.errors import ArgumentError, Fault
from batchsched.model.cluster import JobInfo, Queue, TaskInfo, choice_fields, choices_of
from batchsched.model.immutable import EMPTY, LazyMap
from batchsched.model.reasons import JobCondition
from batchsched.model.result import CycleResult, JobOutcome, TaskOutcome
from batchsched.model.snapshot import OF_DEVICES, Snapshot, besides_of
from batchsched.model.validation.values import truth_problems
from batchsched.plugin.extension_points import Changes
from batchsched.session.cycle import Unchanged, open_session, unchanged_outcome
from batchsched.session.policy_state import PolicyState
from batchsched.session.session import Session
from batchsched.state.ledger import Ledger
from batchsched.state.live_ledger import LiveLedger
from batchsched.state.records import JobState, NodeState, TaskState
from batchsched.transition.content import Content, ContentVersion, Table, Value

if TYPE_CHECKING:
    from batchsched.live.cluster import Cluster
    from batchsched.live.one_pass import OnePass


RESTS = 16
"""For so many cycles there is no pass after more of a result was read than a pass makes, since who
does so mostly does it again; and after several times in a row in which none was possible."""
CHANGES_PER_TASK = 8
"""After so many changes for each task that is there, passes let the kept state go."""


class ContentAt:
    """The content of a cluster in one version, even after later changes.

    A look-up costs O(what changed since the last look-up), and O(1) besides.
    """

    def __init__(self, content: Content) -> None:
        self._content = content
        self._at: ContentVersion = content.version
        """The version up to which `_before` has the changes."""
        self._before: dict[tuple[Table, str], Value] = {}

    def tasks(
        self, changed: Mapping[str, TaskOutcome], left_out: Mapping[str, JobCondition], /
    ) -> Mapping[str, TaskOutcome]:
        """Return the outcomes of all tasks of jobs that are not left out."""

        def one(uid: str) -> TaskOutcome | None:
            task, owner = self._task(uid), self._find("owner", uid)
            return None if task is None or owner is None or owner in left_out else _outcome(task)

        def others() -> Mapping[str, TaskOutcome]:
            found: dict[str, TaskOutcome] = {}
            known: dict[tuple[int, str | None, bool], TaskOutcome] = {}
            for job in self._jobs():
                if job not in left_out:
                    for uid in self._members(job):
                        task = self._task(uid)
                        assert task is not None
                        key = (task.status.index, task.node_name, task.is_backfill)
                        if task.choices or task.devices is not None:
                            found[uid] = _outcome(task)
                            continue
                        found[uid] = known.get(key) or known.setdefault(key, _outcome(task))
            return found

        return LazyMap(changed, one, others)

    def jobs(
        self, changed: Mapping[str, JobOutcome], left_out: Mapping[str, JobCondition], /
    ) -> Mapping[str, JobOutcome]:
        """Return the outcomes of all jobs that are not left out."""

        def one(uid: str) -> JobOutcome | None:
            job = None if uid in left_out else self._job(uid)
            return None if job is None else unchanged_outcome(job)

        def others() -> Mapping[str, JobOutcome]:
            uids = (uid for uid in self._jobs() if uid not in changed)
            return {uid: outcome for uid in uids if (outcome := one(uid)) is not None}

        return LazyMap(changed, one, others)

    def catch_up(self) -> None:
        """Look up what has changed since the last look-up. O(changes)."""
        while self._at.next is not None:
            for key, value in self._at.before.items():
                self._before.setdefault(key, value)
            self._at = self._at.next

    def _find(self, table: Table, uid: str) -> Any:
        """Return what a table had for a UID in this version; None: nothing."""
        self.catch_up()
        key = table, uid
        return self._before[key] if key in self._before else self._content.find(table, uid)

    def _task(self, uid: str) -> TaskInfo | None:
        task: TaskInfo | None = self._find("tasks", uid)
        return task

    def _members(self, uid: str) -> tuple[str, ...]:
        return self._find("members", uid) or ()

    def _job(self, uid: str) -> JobInfo | None:
        job: JobInfo | None = self._find("jobs", uid)
        if job is None:
            return None
        tasks = [self._task(member) for member in self._members(uid)]
        return evolve(job, tasks=[task for task in tasks if task is not None])

    def _jobs(self) -> list[str]:
        self.catch_up()
        uids = set(self._content.jobs)
        for (table, uid), value in self._before.items():
            if table == "jobs":
                if value is None:
                    uids.discard(uid)
                else:
                    uids.add(uid)
        return sorted(uids)


def _outcome(task: TaskInfo) -> TaskOutcome:
    where = task.node_name
    chosen = choice_fields(choices_of(task) if task.status.holds else EMPTY)
    return TaskOutcome(status=task.status, node_name=where, is_backfill=task.is_backfill, **chosen)


@frozen
class _Known:
    """The results of one content of a cluster."""

    trials: int
    """In how many trials it was left for another content."""
    version: ContentVersion
    results: Mapping[bool, CycleResult]
    unchanged: ContentAt


class KeptState:
    """Keeps a `PolicyState` up to date with a cluster, or rebuilds it where it cannot.

    What was decided before a trial of the cluster holds again after it, so it is set aside while
    the trial is open: who asks what would happen pays for the cycles in trials alone.
    """

    def __init__(self, content: Content, open_on: Callable[[Ledger], PolicyState]) -> None:
        """Open the plugins on the present content; `open_on` opens them on a ledger."""
        self._content = content
        self._open_on = open_on
        self._results: dict[bool, CycleResult] = {}
        """The results since the content last changed, with reasons and without."""
        self._unchanged = ContentAt(content)
        """The content since it last changed."""
        self._set_aside: list[_Known] = []
        """What was known before trials that are open, or were in the last cycle: outermost first.
        """
        self._rebuild()

    def _rebuild(self) -> None:
        content = self._content
        self._version = content.version
        self._ledger = LiveLedger(content.snapshot())
        self._policy_state = self._open_on(self._ledger)
        self._policy_state.live_on()

    def schedule(self, policy: RunsCycles, *, reasons: bool) -> CycleResult:
        """Run one cycle, or return the result of the last where nothing has changed it.

        A result is a function of the content. O(changes), if only time has passed since and
        nothing has read the time.
        """
        known = self._known_before_trials()
        if known is not None and reasons in known.results and self._is_as_in(known.version):
            self.session()
            self.end()
            self._results, self._unchanged = dict(known.results), known.unchanged
        if reasons in self._results and self._is_still():
            return self._results[reasons]
        session = self.session()
        result = policy.run(session, reasons=reasons, unchanged=self._unchanged)
        self.end()
        self._results[reasons] = result
        return result

    def _is_still(self) -> bool:
        """Return whether nothing that anything could read has changed since the last session."""
        content = self._content
        if self._version is not content.version:
            if not self._is_as_in(self._version):
                return False
            # So that neither the versions nor their differences pile up while time passes.
            self._version = content.version
            self._ledger.now = content.now
            self._unchanged.catch_up()
        return True

    def _is_as_in(self, version: ContentVersion) -> bool:
        """Return whether all that anything could read is as in an earlier version."""
        content = self._content
        before = content.changed_since(version)
        time_passed = before.pop(("now", ""), content.now) != content.now
        if time_passed and self._ledger.reads_time:
            return False
        return all(content.find(*key) is value for key, value in before.items())

    def _known_before_trials(self) -> _Known | None:
        """Return what was known before the outermost of the trials that have ended, and forget it.

        None: none has ended since the last cycle, or nothing was known.
        """
        known: _Known | None = None
        while self._set_aside and self._set_aside[-1].trials > self._content.trials:
            known = self._set_aside.pop()
        return known

    def _set_results_aside(self) -> None:
        """Begin with another content; keep the results where a trial will give the present back."""
        trials = self._content.trials
        if self._results and trials > max((known.trials for known in self._set_aside), default=0):
            known = _Known(trials, self._version, self._results, self._unchanged)
            self._set_aside.append(known)
        self._results = {}

    def session(self) -> Session:
        """Open a session on the present state of the cluster. O(changes since the last one)."""
        # Binds that have taken effect need not be undone, and entered again.
        undone = self._ledger.undo_cycle(self._content.tasks)
        if undone or self._version is not self._content.version:
            # Plugins may read the time when they are opened again.
            self._ledger.now = self._content.now
            self._ledger.besides = dict(self._content.besides)
            before = self._content.changed_since(self._version)
            if self._version is not self._content.version:
                self._set_results_aside()
                self._version = self._content.version
                self._unchanged = ContentAt(self._content)
            if not _Following(self._content, self._ledger, self._policy_state).follow(
                before, undone
            ):
                self._rebuild()
        self._ledger.begin_cycle()
        self._policy_state.memory.begin_cycle()
        return open_session(self._policy_state)

    def end(self) -> None:
        """End the session. Its changes are undone when the next one is opened."""
        self._policy_state.memory.end_cycle()
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
        if any(("besides", name) in before for name in OF_DEVICES) or not all(
            ledger.may_change(name, content.nodes.get(name)) for name in nodes
        ):
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
        memory = self._policy_state.memory
        memory.forget(self._gone)
        memory.forget(task.job for task in moved if task.job is not None)
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
                if _is_same_to_the_books(task.info, info) and not _may_be_held(task, info):
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


def _may_be_held(task: TaskState, info: TaskInfo) -> bool:
    """Return whether something holds a task of a job, by its old or by its new description."""
    if task.is_held:
        return True
    return info.status.to_place and task.job is not None and task.job.holds(info)


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
        and one.holds == other.holds
    )


_USE = ("usage", "usage_by_user", "usage_half_life")
_but_for_use = attrgetter(*(name for name in fields_dict(Queue) if name not in _USE))


def _is_same_but_for_its_use(one: Queue, other: Queue) -> bool:
    return all(map(eq, _but_for_use(one), _but_for_use(other)))


class RunsCycles(Protocol):
    """The part of `batchsched.Scheduler` that runs cycles in a given session."""

    def run(
        self, session: Session, /, *, reasons: bool = True, unchanged: Unchanged | None = None
    ) -> CycleResult:
        """Run all actions in a session, close it, and return the decisions."""
        ...

    def keep(self, content: Content, /) -> KeptState:
        """Return the state that is kept up to date with a cluster."""
        ...

    def open(self, snapshot: Snapshot, /) -> Session:
        """Open a session on a snapshot."""
        ...

    @property
    def keeps(self) -> bool:
        """Whether anything is kept between cycles."""
        ...

    @property
    def passes(self) -> bool:
        """Whether cycles of plain content may be decided in one pass."""
        ...


class AttachedScheduler:
    """A scheduler that keeps its state of one cluster between cycles; see `Scheduler.attach`."""

    __slots__ = (
        *("_cluster", "_kept_state", "_one_pass", "_policy"),
        *("_rested", "_rests", "_rests_on", "_sessions"),
    )

    def __init__(self, policy: RunsCycles, cluster: Cluster) -> None:
        self._policy = policy
        self._cluster = cluster
        self._one_pass = _one_pass(cluster.content) if policy.passes else None
        self._rests = 0
        """In how many contents there is no pass from now on."""
        self._rests_on: ContentVersion | None = None
        """The last of them."""
        self._rested = 0
        """How many there were when a pass was not possible last; 0: it was."""
        self._sessions = 0
        """How many sessions there were since a pass was tried."""
        self._kept_state: KeptState | None = None
        if policy.keeps:
            # The whole cluster is read here, so that the first cycle costs what later ones do.
            kept_state = policy.keep(cluster.content)
            kept_state.session()
            kept_state.end()
            self._kept_state = kept_state

    def __repr__(self) -> str:
        return f"<AttachedScheduler of {self._policy!r} to {self._cluster!r}>"

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled or copied: it keeps opened plugins, and follows one cluster."""
        raise TypeError(
            "an AttachedScheduler cannot be pickled or copied: it keeps what follows from its "
            "cluster; pickle the cluster, and attach a scheduler to what comes back"
        )

    @property
    def cluster(self) -> Cluster:
        """The cluster that it schedules."""
        return self._cluster

    def schedule(self, *, reasons: bool = True) -> CycleResult:
        """Run one cycle on the cluster in its present state, and return the decisions.

        The cluster is not changed; `Cluster.carry_out` applies the decisions. The result equals
        ``scheduler.schedule(cluster.snapshot())``. The cost depends on what has changed since the
        last cycle, or since `Scheduler.attach`, and on the waiting jobs. If that is only the time,
        and nothing has read the time, the result is the last one. O(1).

        Outcomes of tasks and jobs that the cycle did not change are computed when they are read.
        They show the state of the cluster in the cycle, even if it has changed since.

        Args:
            reasons: whether to determine why tasks are pending. If False, `CycleResult.pending`
                is empty, and conditions do not say why nodes were rejected.

        Raises:
            PluginError: a plugin raised an exception or returned an invalid value. The state kept
                of the cluster is dropped, and the next cycle builds it again.
            ActionError: an action raised an exception; its effect is the same.

        """
        if type(reasons) is not bool:
            raise ArgumentError([Fault(*each) for each in truth_problems("reasons", reasons)])
        if not self._policy.keeps:
            return self._policy.run(self._policy.open(self._cluster.snapshot()), reasons=reasons)
        passed = None if reasons else self._pass()
        return self._by_session(reasons=reasons) if passed is None else passed

    def _by_session(self, *, reasons: bool) -> CycleResult:
        kept_state = self._take_kept_state()
        result = kept_state.schedule(self._policy, reasons=reasons)
        self._kept_state = kept_state
        if self._one_pass is not None:
            self._one_pass.changes = 0
            self._sessions += 1
            if self._sessions > 2 * RESTS:  # it would refer to all versions since the last pass
                self._sessions, self._one_pass = 0, _one_pass(self._cluster.content)
        return result

    def _pass(self) -> CycleResult | None:
        """Decide in one pass; None: it is not possible, or not tried."""
        one_pass, content = self._one_pass, self._cluster.content
        if one_pass is None or one_pass.known is not None:
            return None if one_pass is None else one_pass.known
        if self._rests and self._rests_on is not content.version:
            self._rests, self._rests_on = self._rests - 1, content.version
        if self._rests:
            return None
        self._sessions = 0
        unchanged, version = ContentAt(content), content.version
        result = one_pass.schedule(
            lambda changed: unchanged.tasks(changed, EMPTY), lambda: self._read_later(version)
        )
        if result is not None and one_pass.changes > CHANGES_PER_TASK * len(content.tasks):
            # The kept state would cost more to bring up to date than to make anew, and refers to
            # all versions since.
            self._kept_state, one_pass.changes = None, 0
        self._rested = 0 if result is not None else min(RESTS, 2 * self._rested or 1)
        if result is None:
            self._rests, self._rests_on = self._rested, content.version
        return result

    def _read_later(self, version: ContentVersion) -> CycleResult:
        """Return what a session decides on a content, of which a pass has made the binds alone."""
        content = self._cluster.content
        self._rests, self._rests_on = RESTS, content.version
        if content.version is version:
            return self._by_session(reasons=False)
        with content.trial():
            content.restore(version)
            snapshot = content.snapshot()
        return self._policy.run(self._policy.open(snapshot), reasons=False)

    @contextmanager
    def open(self) -> Generator[Session]:
        """Open a session on the cluster without running any action, for inspection.

        All changes in the session are undone at the end. The cost is that of `schedule`, without
        the actions.

        Raises:
            PluginError: a plugin raised an exception when it was opened, or its `open` returned
                an invalid object.

        """
        if not self._policy.keeps:
            yield self._policy.open(self._cluster.snapshot())
            return
        kept_state = self._take_kept_state()
        yield kept_state.session()
        kept_state.end()
        self._kept_state = kept_state

    def _take_kept_state(self) -> KeptState:
        """Take the kept state, so that it is not used again if the cycle raises."""
        kept_state, self._kept_state = self._kept_state, None
        return self._policy.keep(self._cluster.content) if kept_state is None else kept_state


def _one_pass(content: Content) -> OnePass:
    from batchsched.live.one_pass import OnePass  # noqa: PLC0415 - with plugins: not all use them

    return OnePass(content)


class WarmCycles:
    """Keeps the state of a scheduler from one snapshot to the next."""

    def __init__(self, policy: RunsCycles) -> None:
        self._policy = policy
        self._kept: tuple[Snapshot, Content, KeptState] | None = None

    def schedule(self, snapshot: Snapshot, *, reasons: bool) -> CycleResult:
        """Run one cycle. O(differences from the last snapshot + nodes + jobs + waiting tasks)."""
        # If the cycle raises an exception, its incomplete state must not be used again.
        kept, self._kept = self._kept, None
        if kept is None:
            content = Content(snapshot)
            kept_state = self._policy.keep(content)
        else:
            last, content, kept_state = kept
            _follow(content, last, snapshot)
        result = kept_state.schedule(self._policy, reasons=reasons)
        self._kept = snapshot, content, kept_state
        return result


def _follow(content: Content, last: Snapshot, now: Snapshot) -> None:
    """Apply the differences between two snapshots to the content."""
    if not _are_same(last.nodes, now.nodes):
        _replace(content, "nodes", content.nodes, {node.name: node for node in now.nodes}, is_not)
    if not _are_same(last.queues, now.queues):
        _replace(content, "queues", content.queues, {each.name: each for each in now.queues}, ne)
    for name, value in besides_of(now).items():
        if value != content.besides[name]:
            content.put("besides", name, value)
    if not _are_same(last.jobs, now.jobs):
        before = {job.uid: job for job in last.jobs}
        changed = [job for job in now.jobs if before.get(job.uid) is not job]
        came = sum(job.uid not in before for job in changed)
        if len(before) + came > len(now.jobs):
            for uid in sorted(before.keys() - {job.uid for job in now.jobs}):
                content.leave(uid)
        # Remove tasks first: a task may have moved to another job.
        for job in changed:
            _remove_missing_tasks(content, job)
        for job in changed:
            _enter(content, job)
    if not _are_same(last.other_tasks, now.other_tasks):
        known = {uid: content.tasks[uid] for uid in content.others}
        _replace(content, "tasks", known, {task.uid: task for task in now.other_tasks}, is_not)
    if content.now != now.now:
        content.put("now", "", now.now)
    content.commit()
    content.adopt(now)


def _replace(
    content: Content,
    table: Table,
    known: Mapping[str, Value],
    now: Mapping[str, Value],
    differ: Callable[[Value, Value], bool],
) -> None:
    """Remove what is known and gone, and put what is new or differs."""
    for key in [key for key in known if key not in now]:
        content.put(table, key, None)
    for key, value in now.items():
        if differ(known.get(key), value):
            content.put(table, key, value)


def _are_same(before: tuple[object, ...], now: tuple[object, ...]) -> bool:
    return before is now or (len(before) == len(now) and all(map(is_, before, now)))


def _remove_missing_tasks(content: Content, job: JobInfo) -> None:
    members = content.members.get(job.uid)
    if members is not None:
        uids = tuple(task.uid for task in job.tasks)
        if uids != members:
            for uid in set(members).difference(uids):
                content.put("tasks", uid, None)
                content.put("owner", uid, None)


def _enter(content: Content, job: JobInfo) -> None:
    known = content.jobs.get(job.uid)
    if known is None:
        content.enter(job)
        return
    described = evolve(job, tasks=())
    if described != known:
        content.put("jobs", job.uid, described)
    uids = tuple(task.uid for task in job.tasks)
    if uids != content.members[job.uid]:
        content.put("members", job.uid, uids)
    for task in job.tasks:
        if content.tasks.get(task.uid) is not task:
            if content.owner.get(task.uid) != job.uid:
                content.put("owner", task.uid, job.uid)
            content.put("tasks", task.uid, task)
