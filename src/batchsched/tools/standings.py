"""The state of each job after a cycle, in one word and one sentence: what it waits for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from attrs import evolve, field, frozen

from batchsched.causes import HoldKind, JobStatus, UnfitReason, WhyPending
from batchsched.config.options import ActionOption
from batchsched.config.registry import Registry
from batchsched.config.scheduler_config import SchedulerConfig
from batchsched.kubernetes.facts import JobFacts
from batchsched.kubernetes.objects import time_text
from batchsched.live import AttachedScheduler, Cluster, JobArrived
from batchsched.model.cluster import Hold, JobInfo, Queue, QueueStatus, TaskInfo, TaskStatus
from batchsched.model.immutable import AsMap
from batchsched.model.reasons import NodeTally, NoDomain, PendingReason
from batchsched.model.result import CycleResult, Move
from batchsched.model.snapshot import Snapshot
from batchsched.model.texts import (
    all_of,
    amount_text,
    amounts_text,
    counted,
    first_of,
    level_word,
)
from batchsched.model.validation.arguments import checks_arguments
from batchsched.model.validation.tasks import has_requests
from batchsched.scheduler import Scheduler
from batchsched.state.groups import Counting, JobGroups
from batchsched.tools.amounts import evolved, least_request
from batchsched.tools.changes import who_keeps_out
from batchsched.tools.node_fit import placed_of


@frozen(kw_only=True)
class Blocker:
    """Something that a job waits for."""

    state: JobStatus
    """The state of a job that waits for nothing else."""
    name: str = ""
    """The name of what is in its way: a gate, queue, group or check; empty: it has none."""
    text: str
    """What it waits for, with the name and, in UTC, `until`."""
    until: float | None = None
    """When that may end, in seconds on the clock of the snapshot's `now`, if known."""


@frozen(kw_only=True)
class JobStanding:
    """The state of a job after a cycle, and what it waits for."""

    job: str
    """The UID of the job."""
    state: JobStatus
    waits: bool
    """Whether it waits for something: no task of it starts in the cycle, although some task waits
    or fewer hold resources than it needs."""
    text: str
    """The state in one sentence, which ends with the texts of all blockers."""
    blockers: tuple[Blocker, ...] = ()
    """What it waits for, in the order of `JobStatus`."""
    tasks: Mapping[TaskStatus, int] = field(
        factory=dict[TaskStatus, int], converter=AsMap[TaskStatus, int]
    )
    """The number of its tasks by status in the snapshot, without those that are 0."""
    starting: int = 0
    """The number of its tasks that the cycle binds."""
    needed: int
    """The least number of tasks with which it is ready."""
    running: str = ""
    """How many of its tasks run, on which nodes and, of a dump, since when; empty: none."""

    @property
    def waits_for_room(self) -> bool:
        """Whether nothing is in its way that comes before quota in the order of `JobStatus`."""
        return all(blocker.state.is_of_room for blocker in self.blockers)

    @property
    def headline(self) -> str:
        """The sentence with the first blocker only."""
        return self.text.removesuffix("".join(f"; {each.text}" for each in self.blockers[1:]))

    def __str__(self) -> str:
        return self.text


@checks_arguments()
def standings(
    snapshot: Snapshot,
    result: CycleResult,
    *,
    facts: Mapping[str, JobFacts] | None = None,
    config: SchedulerConfig | None = None,
    registry: Registry | None = None,
) -> tuple[JobStanding, ...]:
    """Return the state of each job after a cycle, in order of job UID.

    What runs is as in the snapshot; what starts or waits is as the cycle decided. A job that waits
    for room is tried on the same nodes as if they were empty, to find out whether it could ever
    start (`JobStatus.NEVER_FITS`); affinity to other tasks is ignored then.

    O(tasks + queues), and one attempt on the empty nodes for each kind of job that waits for room;
    where it fails, a second one with all actions of the configuration.

    Args:
        snapshot: the cluster.
        result: the result of a cycle on it, with reasons.
        facts: what a dump says of its jobs besides (`batchsched.kubernetes.Dump.facts`): texts
            then name their owners, and say since when they run.
        config: the configuration of that cycle; None: the default.
        registry: the plugins and actions that the configuration may name.

    Raises:
        ArgumentError: an argument has the wrong type.
        ConfigError: the configuration names what is not in the registry.

    >>> from batchsched import JobInfo, Queue, Resource, TaskInfo, schedule
    >>> gate = Hold(HoldKind.GATE, "example.com/license")
    >>> one = Resource(milli_cpu=1000)
    >>> tasks = [
    ...     TaskInfo(uid="a", name="a", resreq=one),
    ...     TaskInfo(uid="b", name="b", resreq=one, holds=(gate,)),
    ... ]
    >>> job = JobInfo(name="train", queue="q", min_available=2, tasks=tasks)
    >>> snapshot = Snapshot(queues=[Queue(name="q")], jobs=[job])
    >>> (standing,) = standings(snapshot, schedule(snapshot))
    >>> print(standing)
    default/train waits, gated: 1 of its 2 tasks waits for the gate example.com/license

    """
    asked = Standings(snapshot, result, facts=facts, config=config, registry=registry)
    return tuple(asked.of(job) for job in snapshot.jobs)


_REASONS_OF_ROOM = ("", "NotEnoughResources", "Unschedulable")
"""What schedulers give as reasons where there is no room now."""
_ENDED = (TaskStatus.SUCCEEDED, TaskStatus.FAILED)
_NAMED = 3
"""The most nodes or tasks that a text names."""


@frozen(eq=False)
class _Member:
    """A task, as the counters of groups read it."""

    info: TaskInfo

    @property
    def status(self) -> TaskStatus:
        """Its status."""
        return self.info.status


class TaskCounts:
    """What a job has of what it needs. O(tasks + groups)."""

    def __init__(
        self, job: JobInfo, tasks: Iterable[TaskInfo], starting: Collection[str] = ()
    ) -> None:
        """Count some tasks of a job; `starting`: the UIDs of those that no longer wait."""
        self.job = job
        self.tasks: Counter[TaskStatus] = Counter()
        self.waiting: list[TaskInfo] = []
        self._groups = groups = JobGroups(job)
        for task in tasks:
            groups.recount(_Member(task), None, task.status)
            self.tasks[task.status] += 1
            if task.status.to_place and task.uid not in starting:
                self.waiting.append(task)
        self.needed = groups.minimum
        self._tops = sum(group.parent is None for group in job.groups)
        self._lacks_groups = job.min_groups is not None and self._tops < job.min_groups

    def has_minimum(self, counting: Counting) -> bool:
        """Return whether the tasks that are ready, or valid, are enough."""
        return not self._lacks_groups and self._groups.is_satisfied(counting)

    def incomplete(self) -> str:
        """Return which tasks or groups are not there; empty: it could have its minimum."""
        if self._lacks_groups:
            return f"{self._tops} of the {self.job.min_groups} groups that it needs exist"
        if self.has_minimum(Counting.VALID):
            return ""
        valid = self._groups.total[Counting.VALID]
        if valid < self.needed:
            return f"{valid} of the {self.needed} tasks that it needs exist"
        for group in sorted(self._groups.groups, key=lambda each: each.name):
            has = len(group.children) if group.children else group.counts[Counting.VALID]
            if has < group.minimum and not any(
                above.is_satisfied(Counting.VALID) for above in group.path()
            ):
                what = "groups" if group.children else "tasks"
                return f"{has} of the {group.minimum} {what} that group {group.name} needs exist"
        return f"{valid} tasks exist, too few in some group that it needs"


class Standings:
    """Tells the states of jobs after one cycle; made once for all of them. O(tasks + queues)."""

    def __init__(
        self,
        snapshot: Snapshot,
        result: CycleResult,
        *,
        facts: Mapping[str, JobFacts] | None,
        config: SchedulerConfig | None,
        registry: Registry | None,
    ) -> None:
        self._snapshot = snapshot
        self._result = result
        self._facts: Mapping[str, JobFacts] = {} if facts is None else facts
        self._starting = {bind.task_uid: bind.node_name for bind in result.binds}
        promises = (*result.promised(), *result.kept_promises)
        self._promised = {promise.task_uid: promise.node_name for promise in promises}
        self._reserved = {promise.task_uid: promise.node_name for promise in result.reserved}
        self._evicted = {eviction.task_uid for eviction in result.evictions}
        self._moves = {move.task_uid: move for move in result.moves}
        self._queues = {queue.name: queue for queue in snapshot.queues}
        self._below: dict[str, str] = {}
        for queue in reversed(snapshot.queues):
            if queue.parent is not None:
                self._below[queue.parent] = queue.name
        self._empty = _EmptyNodes(snapshot, config, registry)
        self._nevers: dict[tuple[str, int], str] = {}
        """Why jobs that their queues keep out never fit, by UID and need; empty: they do."""
        self._scheduler = config, registry
        self._lacking: dict[object, tuple[int, int, str] | None] = {}

    def of(self, job: JobInfo) -> JobStanding:
        """Return the standing of a job. O(tasks of the job), and perhaps an attempt."""
        counts = TaskCounts(job, job.tasks, self._starting)
        tasks, waiting = counts.tasks, counts.waiting
        blockers = tuple(self._blockers(counts)) if waiting or not tasks else ()
        state, words = self._state(counts, blockers)
        if (refused := self._refused(counts, state)) is not None:
            state, words, blockers = refused.state, _waits(refused.state), (refused,)
        if state is JobStatus.RUNNING:
            blockers = ()
        evicted = sum(task.uid in self._evicted for task in job.tasks)
        if evicted and state in (JobStatus.RUNNING, JobStatus.STARTS):
            are = "is" if evicted == 1 else "are"
            words += f"; {counted(evicted, 'task')} of it {are} evicted in this cycle"
        moves = [self._moves[task.uid] for task in job.tasks if task.uid in self._moves]
        if moves and state in (JobStatus.RUNNING, JobStatus.STARTS):
            words += f"; {self._moved(moves)}"
        sentence = f"{self.name(job)} {words}"
        texts = "; ".join(dict.fromkeys(blocker.text for blocker in blockers))
        if texts:
            joint = "; " if state in (JobStatus.PROMISED, JobStatus.RESERVED) else ": "
            sentence += f"{joint}{texts}"
        return JobStanding(
            job=job.uid,
            state=state,
            waits=state.waits,
            text=sentence,
            blockers=blockers,
            tasks={status: tasks[status] for status in TaskStatus if tasks[status]},
            starting=len(_places(job.tasks, self._starting)),
            needed=counts.needed,
            running=self._running(job) if any(status.occupies for status in tasks) else "",
        )

    def _state(self, counts: TaskCounts, blockers: Sequence[Blocker]) -> tuple[JobStatus, str]:
        """Return the state of a job, and the words for it up to the texts of the blockers."""
        job, tasks, waiting = counts.job, counts.tasks, counts.waiting
        runs = sum(count for status, count in tasks.items() if status.occupies)
        left = {status for status in tasks if not status.ended}
        is_ready = counts.has_minimum(Counting.READY)
        if starting := _places(job.tasks, self._starting):
            more = f", {len(waiting)} more wait" if waiting else ""
            return JobStatus.STARTS, f"starts now: {_on(starting)}{more}"
        if _places(waiting, self._promised):
            return JobStatus.PROMISED, f"{_waits(JobStatus.PROMISED)}: {self._promise(waiting)}"
        if reserved := _places(waiting, self._reserved):
            text = f"{_waits(JobStatus.RESERVED)}: room is reserved for it on {_names(reserved)}"
            return JobStatus.RESERVED, text
        if waiting and runs and is_ready:
            return JobStatus.RUNNING_PART, f"runs, {len(waiting)} more wait"
        if not waiting and tasks and not left:
            ended = (f"{tasks[s]} {s.value.lower()}" for s in _ENDED if tasks.get(s))
            return JobStatus.DONE, f"has ended: {', '.join(ended)}"
        if not waiting and left == {TaskStatus.RELEASING}:
            leaving = counted(tasks[TaskStatus.RELEASING], "task")
            return JobStatus.ENDING, f"is ending: {leaving} still to leave"
        if not waiting and is_ready:
            text = f"runs: {self._running(job)}"
            return JobStatus.RUNNING, text if runs else "has what it needs, and nothing waits"
        if runs or (not waiting and any(status.holds for status in tasks)):
            text = f"{_waits(JobStatus.BELOW_MINIMUM)}: {runs} of {counts.needed} run"
            if unknown := tasks.get(TaskStatus.UNKNOWN):
                text += f", the state of {unknown} is unknown"
            return JobStatus.BELOW_MINIMUM, text
        return blockers[0].state, _waits(blockers[0].state)

    def _refused(self, counts: TaskCounts, state: JobStatus) -> Blocker | None:
        """Return what a job that would start waits for, by the word of its scheduler.

        That there is no room is no reason against a promise of what others will leave.
        """
        job = counts.job
        facts = self._facts.get(job.uid)
        said = None if facts is None else facts.refusal
        if said is None or not (
            state is JobStatus.STARTS
            or (state is JobStatus.PROMISED and said.reason not in _REASONS_OF_ROOM)
        ):
            return None
        why = (said.message or said.reason or "it cannot place it").strip().removesuffix(".")
        text = f"{said.who} refuses it: {why}; by the rules here it would "
        if state is JobStatus.STARTS:
            text += f"start now: {_on(_places(job.tasks, self._starting))}"
        else:
            promise = self._promise(counts.waiting).replace(", waits for", ", and wait for")
            text += f"be {promise}".replace(", starts once", ", and start once")
        return _blocker(JobStatus.REFUSED, said.who, text)

    # Texts

    def name(self, job: JobInfo) -> str:
        """Return how a job is called: its UID, and its owner if that has another name."""
        owner = self.owner(job)
        facts = self._facts.get(job.uid)
        return f"{job.uid} ({owner})" if facts and facts.owner != job.name else job.uid

    def owner(self, job: JobInfo) -> str:
        """Return the kind and the name of its owner; empty: nothing is known of it."""
        facts = self._facts.get(job.uid)
        return "" if facts is None else f"{facts.kind} {facts.owner}".strip()

    def _running(self, job: JobInfo) -> str:
        running = [task for task in job.tasks if task.status.occupies]
        text = _on([task.node_name for task in running if task.node_name is not None], len(running))
        since = min((t.start_time for t in running if t.start_time is not None), default=None)
        if since is not None and job.uid in self._facts:  # the clock of a dump starts in 1970
            text += f" since {time_text(since)}"
        return text

    def _promise(self, waiting: Sequence[TaskInfo]) -> str:
        places = _places(waiting, self._promised)
        leaving = [name for place in sorted(set(places)) for name in self._leaving.get(place, ())]
        text = f"promised room on {_names(places)}"
        if leaving:
            text += f", waits for {_names(leaving)} to leave"
        moves = [told for place in sorted(set(places)) for told in self._moving.get(place, ())]
        if moves:
            (who, first), *others = moves
            told = [f"{who} moves {first}", *(f"{who} {way}" for who, way in others)]
            text += f", starts once {first_of(told, _NAMED)}"
        left = [t.held_node for t in waiting if t.leaving is not None and t.held_node is not None]
        return f"{text}; what moves there still has to leave {_names(left)}" if left else text

    @cached_property
    def _moving(self) -> Mapping[str, Sequence[tuple[str, str]]]:
        """Who moves away from a node, and from where to where, by node. O(tasks)."""
        moving: dict[str, list[tuple[str, str]]] = {}
        for job in self._snapshot.jobs:
            for task in job.tasks:
                move = self._moves.get(task.uid)
                if move is not None:
                    left, new = move.from_node, move.to_node
                elif task.leaving is not None and task.held_node is not None:
                    left, new = task.held_node, self._promised.get(task.uid, "")
                else:
                    continue
                who = f"job {job.uid}" if len(job.tasks) == 1 else f"task {task.display_name}"
                way = f"from {left} to {new}" if new else f"away from {left}"
                moving.setdefault(left, []).append((who, way))
        return moving

    def _moved(self, moves: Sequence[Move]) -> str:
        """Return that tasks of a job move in this cycle, where to and for which jobs."""
        verb = "moves" if len(moves) == 1 else "move"
        text = f"{counted(len(moves), 'task')} of it {verb} to "
        text += f"{_names(move.to_node for move in moves)} in this cycle"
        claimants = {self._job_of.get(move.for_task_uid or "", "") for move in moves} - {""}
        return f"{text}, for job {_names(claimants)}" if claimants else text

    @cached_property
    def _job_of(self) -> Mapping[str, str]:
        """The job of each task, by UIDs. O(tasks)."""
        return {task.uid: job.uid for job in self._snapshot.jobs for task in job.tasks}

    @cached_property
    def _leaving(self) -> Mapping[str, Sequence[str]]:
        """The names of tasks that leave a node, or may have to, by node. O(tasks)."""
        leaving: dict[str, list[str]] = {}
        conditional = {promise.node_name for promise in self._result.conditional}
        every = [task for job in self._snapshot.jobs for task in job.tasks]
        for task in (*every, *self._snapshot.other_tasks):
            place = task.node_name
            if place is not None and (
                task.status is TaskStatus.RELEASING
                or task.uid in self._evicted
                or (task.is_backfill and task.status.occupies and place in conditional)
            ):
                leaving.setdefault(place, []).append(task.display_name)
        return leaving

    # What it waits for

    def _blockers(self, counts: TaskCounts) -> Iterator[Blocker]:
        """Yield what a job waits for, in the order of states, each once."""
        job, waiting = counts.job, counts.waiting
        found = [*self._held(job, waiting)]
        is_queueless = any(each.state is JobStatus.NO_QUEUE for each in found)
        found += self._by_queue(job, is_told=is_queueless)
        incomplete = counts.incomplete()
        if incomplete:
            found.append(_blocker(JobStatus.INCOMPLETE, "", incomplete))
        elif waiting and found and self._snapshot.nodes and who_keeps_out(job):
            limited = self._beyond_limit(counts)
            never = self._never(job, counts.needed) if limited is None else limited.text
            if never:
                found.append(_blocker(JobStatus.NEVER_FITS, "", never))
        found += self._by_reasons(counts, is_told=bool(found))
        seen: dict[tuple[JobStatus, str], Blocker] = {}
        for each in sorted(found, key=lambda each: each.state.place):
            seen.setdefault((each.state, each.name or each.text), each)
        told: list[Blocker] = []
        for each in seen.values():  # of two that say the same, the first says it
            if not any(each.text != other.text and each.text in other.text for other in told):
                told.append(each)
        yield from told

    def _never(self, job: JobInfo, needed: int) -> str:
        """Return why a job could not start on empty nodes; empty: it could."""
        if self.starts_one_by_one(job):
            return self._empty.why_never(_one_by_one(job, job.tasks), 1)
        return self._empty.why_never(job, needed)

    def starts_one_by_one(self, job: JobInfo) -> bool:
        """Return whether a job's pods start one by one once its quota is there: so Kueue has it.

        Of jobs that ask for a domain of a topology Kueue asks the nodes, too.
        """
        facts = self._facts.get(job.uid)
        return facts is not None and facts.system == "kueue" and not has_requests(job)

    def _held(self, job: JobInfo, waiting: Sequence[TaskInfo]) -> Iterator[Blocker]:
        """Yield the holds on a job, and those on tasks of it without which it cannot start."""
        own = [task for task in waiting if task.holds]
        holds = list(job.holds)
        if own:
            held = {task.uid for task in own}
            is_needed = len(own) == len(waiting) or not TaskCounts(
                job, (task for task in job.tasks if task.uid not in held)
            ).has_minimum(Counting.VALID)
            if is_needed:
                holds += [hold for task in own for hold in task.holds]
        left = sum(not task.status.ended for task in job.tasks)
        gated = Counter(
            name for task in own for name in {h.name for h in task.holds if h.kind is HoldKind.GATE}
        )
        for hold in job.holds:
            if hold.kind is HoldKind.GATE:
                gated[hold.name] = len(waiting)
        for hold in dict.fromkeys(holds):
            if hold.kind is HoldKind.GATE and gated[hold.name]:
                text = _gate_text(hold.name, gated[hold.name], left)
            else:
                text = _hold_text(hold)
            yield _blocker(hold.kind.status, hold.name, text, hold.until)

    def _by_queue(self, job: JobInfo, *, is_told: bool) -> Iterator[Blocker]:
        """Yield what is wrong with the queue of a job; `is_told`: a hold says it is not there."""
        name: str | None = job.queue
        if job.queue not in self._queues:
            if not is_told:
                text = f"queue {job.queue} does not exist"
                yield _blocker(JobStatus.NO_QUEUE, job.queue, text)
        elif job.queue in self._below:
            below = self._below[job.queue]
            text = f"queue {job.queue} has queues below it, such as {below}; a job must name a leaf"
            yield _blocker(JobStatus.NO_QUEUE, job.queue, text)
        else:
            while name is not None:
                queue = self._queues[name]
                if queue.state is not QueueStatus.OPEN:
                    text = f"queue {name} is not open"
                    if queue.state is not QueueStatus.CLOSED:
                        text += f", but {queue.state.value}"
                    yield _blocker(JobStatus.QUEUE_CLOSED, name, text)
                    return
                name = queue.parent

    def _by_reasons(self, counts: TaskCounts, *, is_told: bool) -> Iterator[Blocker]:
        """Yield what the reasons of a job's tasks say that nothing else has told."""
        job, waiting = counts.job, counts.waiting
        if not self._snapshot.nodes and waiting and not is_told:  # whatever queues have of nothing
            yield _blocker(JobStatus.NEVER_FITS, "", "there is no node")
            return
        of_room: dict[WhyPending, PendingReason] = {}
        found: list[Blocker] = []
        is_given = any(t.uid in self._promised or t.uid in self._reserved for t in waiting)
        for task in waiting:
            reason = self._result.pending.get(task.uid)
            state = None if reason is None else reason.why.status
            if reason is None or state is None:
                continue
            if state in (JobStatus.ROOM, JobStatus.NOT_TRIED):
                of_room.setdefault(reason.why, reason)
            else:
                found.append(self._by_reason(counts, state, reason))
        yield from found
        is_told = is_told or bool(found)
        telling = [why for why in WhyPending if why in of_room]
        if is_told and all(why.follows for why in telling):
            return
        text = self._room_text(job, of_room[telling[0]]) if telling else self._without_reason(job)
        if not telling and (is_told or is_given):
            return
        # Of what no action tried, nothing is known of room.
        first = of_room[telling[0]] if telling and not is_given else None
        if first and first.why.status is JobStatus.NOT_TRIED and first.tally is None:
            yield _blocker(JobStatus.NOT_TRIED, "", text)
            return
        never = ""
        if not is_told and waiting and not counts.has_minimum(Counting.READY):
            never = self._never(job, counts.needed)
            limited = None if never else self._beyond_limit(counts)
            if limited is not None:
                yield limited
                return
        elif not is_told and waiting and WhyPending.NO_NODE in of_room:
            alone = [self._empty.why_never(_one_by_one(job, [each]), 1) for each in waiting]
            never = alone[0] if all(alone) else ""
        if never:
            yield _blocker(JobStatus.NEVER_FITS, "", _with_label(never, waiting))
        else:
            yield _blocker(JobStatus.ROOM, "", _with_label(text, waiting))

    def _room_text(self, job: JobInfo, reason: PendingReason) -> str:
        """Return what has no room; of a gang, what the first task without a place lacks."""
        is_gang = reason.why is WhyPending.GANG_INCOMPLETE and reason.out_of_reach is None
        if not is_gang or job.groups:
            return _room_text(reason)
        kind = job.queue, _alone(job), tuple(task.status for task in job.tasks)
        if kind not in self._lacking:
            self._lacking[kind] = self._tried_after(job)
        found = self._lacking[kind]
        if found is None:
            return _room_text(reason)
        placed, needed, cause = found
        have = "has" if placed == 1 else "have"
        text = f"only {placed} of the {needed} tasks that must start together {have} room now"
        return f"{text}: for one more, {cause}"

    @cached_property
    def _after_cycle(self) -> AttachedScheduler:
        """The cluster once the decisions of the cycle have taken effect. O(size of the cluster)."""
        cluster = Cluster(self._snapshot)
        cluster.carry_out(self._result, at_once=True)
        return Scheduler(*self._scheduler).attach(cluster)

    def _tried_after(self, job: JobInfo) -> tuple[int, int, str] | None:
        """Return how many tasks have room of those that must start, and what one more lacks.

        None: none has, or all have.
        """
        with self._after_cycle.open() as session:
            state = session.ledger.jobs[job.uid]
            needed = max(1, state.lacks())
            with session.statement(is_trial=True) as trial:
                tasks = session.in_task_order(state.having(TaskStatus.PENDING))
                placed, blocked = placed_of(session, trial, tasks)
                cause = "" if blocked is None else _cause(session.placement.tally(blocked))
                trial.discard()
        return (placed, needed, cause) if 0 < placed < needed and cause else None

    def _by_reason(self, counts: TaskCounts, state: JobStatus, reason: PendingReason) -> Blocker:
        if state is JobStatus.QUOTA:
            if not counts.has_minimum(Counting.READY):
                kind = counts.job.uid, counts.needed
                if kind not in self._nevers:  # it is asked for each task
                    self._nevers[kind] = self._never(counts.job, counts.needed)
                never = self._nevers[kind]
                if never:  # whatever its queue may hold
                    return _blocker(JobStatus.NEVER_FITS, "", never)
                limited = self._beyond_limit(counts)
                if limited is not None:
                    return limited
            refusal, own = reason.refusal, counts.job.queue
            name = own if refusal is None else refusal.queue or own
            text = self._quota_text(name, reason)
            return _blocker(state, name, text if name in text else f"queue {name}: {text}")
        until = None if reason.plan is None else reason.plan.start
        return _blocker(state, "", reason.detail or reason.text, until)

    def _quota_text(self, name: str, reason: PendingReason) -> str:
        """Return what a queue has, or would hold, that keeps a task out."""
        refusal, share = reason.refusal, reason.share
        excess = None if refusal is None else refusal.excess
        queue = self._queues.get(name if excess is None else excess.queue)
        limit = None if queue is None else queue.limit
        if excess is None:
            if share is None:
                return reason.detail or reason.text
            for dimension, most in () if limit is None else limit.dimensions():
                if share.allocated.get(dimension) >= most:
                    return f"queue {name} has its limit: {amount_text(dimension, most)}"
            deserved, held = (
                amounts_text(each.dimensions()) for each in (share.deserved, share.allocated)
            )
            return f"queue {name} has its fair share: {deserved}; it holds {held}"
        dimension, most = excess.dimension, excess.most
        would, allowed = (amount_text(dimension, each) for each in (excess.would_hold, most))
        if not excess.queue:
            return (
                f"queue {name} has to wait: with guarantees, queues would hold {would}, "
                f"more than the {allowed} that there are"
            )
        kept = sum(q.guarantee.get(dimension) for q in self._queues.values() if q is not queue)
        total = sum(node.allocatable.get(dimension) for node in self._snapshot.nodes)
        own = None if limit is None else limit.get(dimension)
        is_limit = own is not None and own <= most
        if queue is not None and kept and not is_limit and most + kept >= total:
            others = f"{amount_text(dimension, kept)} of {amount_text(dimension, total)}"
            return f"queue {queue.name} would hold {would}, and others guarantee {others}"
        than = f"limit of {allowed}"
        if refusal is not None and refusal.reason is UnfitReason.BEYOND_QUOTA:
            than = f"quota of {allowed}, for jobs that are not preemptible"
        elif refusal is not None and refusal.reason is UnfitReason.NEVER_LENT:
            than = f"quota of {allowed}, and nothing is reclaimed from it"
        elif reason.why is WhyPending.ABOVE_FAIR_SHARE:
            than = f"share of {allowed}"
        return f"queue {excess.queue} would hold {would}, more than its {than}"

    def _without_reason(self, job: JobInfo) -> str:
        """Return why a job waits of whose tasks the result says nothing."""
        condition = self._result.left_out.get(job.uid)
        outcome = self._result.jobs.get(job.uid)
        if condition is None and outcome is not None:
            condition = outcome.condition
        return "no reason is known" if condition is None else condition.message

    def _beyond_limit(self, counts: TaskCounts) -> Blocker | None:
        """Return the first limit from its queue to the top that its minimum alone exceeds."""
        outcomes = self._result.queues
        asked: Mapping[str, int] | None = None
        job = counts.job
        name: str | None = job.queue
        while name is not None and name in outcomes:
            outcome = outcomes[name]
            if outcome.limit is not None:
                asked = least_request(job, counts.needed) if asked is None else asked
                for dimension, most in outcome.limit.dimensions():
                    if asked.get(dimension, 0) > most:
                        needs = amount_text(dimension, asked[dimension])
                        text = (
                            f"queue {name} may hold at most {amount_text(dimension, most)}; "
                            f"it needs {needs} at once"
                        )
                        return _blocker(JobStatus.QUOTA, name, text)
            name = outcome.parent
        return None


def _blocker(state: JobStatus, name: str, text: str, until: float | None = None) -> Blocker:
    if until is not None:
        text += f" (until {time_text(until)})"
    return Blocker(state=state, name=name, text=text, until=until)


def _hold_text(hold: Hold) -> str:
    """Return what a hold says, with its name."""
    if hold.name in hold.text:
        return hold.text
    return f"{evolve(hold, detail='').text}: {hold.detail}"


def _gate_text(gate: str, count: int, tasks: int) -> str:
    wait = "waits" if count == 1 else "wait"
    which = f"the gate {gate}" if gate else "a scheduling gate"
    return f"{count} of its {tasks} tasks {wait} for {which}"


def _room_text(reason: PendingReason) -> str:
    if reason.held_by:  # which gives it back at the end of the cycle
        return evolve(reason, evictions=(), tally=None).text
    if reason.tally is not None and not reason.tally.available:
        tally = reason.tally
        if not tally.total:
            return "there is no node"
        which = f"none of the {tally.total} nodes can"
        if tally.total == 1:
            which = "the only node cannot"
        text = f"{which} take it now: {tally.unfit_text}"
        return text if reason.why is WhyPending.NO_NODE else f"{reason.detail}; {text}"
    return evolve(reason, evictions=()).text


_LABELS = "the labels that it asks for"


def _with_label(text: str, tasks: Sequence[TaskInfo]) -> str:
    """Return a text with the label that nodes lack by name, if the tasks ask for one alone."""
    asked = {f"{k}={v}" for task in tasks for k, v in task.node_selector.items()}
    is_sure = all(t.node_affinity is None or t.node_affinity.required is None for t in tasks)
    if len(asked) != 1 or not is_sure:
        return text
    return text.replace(_LABELS, f"the label {asked.pop()}")


def _cause(tally: NodeTally | None) -> str:
    """Return what keeps a task from nodes: ``2 of 3 nodes lack free cpu, 1 is cordoned``."""
    if tally is None or not tally.unfit or tally.available:
        return ""
    count, _, rest = tally.unfit_text.partition(" ")
    return f"{count} of {tally.total} {'node' if tally.total == 1 else 'nodes'} {rest}"


def _waits(state: JobStatus) -> str:
    return f"waits, {state.words}"


def _places(tasks: Iterable[TaskInfo], places: Mapping[str, str]) -> list[str]:
    """Return the nodes of those tasks that have one, given by UID."""
    return [places[task.uid] for task in tasks if task.uid in places]


def _on(places: Sequence[str], count: int | None = None) -> str:
    """Return how many tasks are on which nodes."""
    return f"{counted(len(places) if count is None else count, 'task')} on {_names(places)}"


def _names(names: Iterable[str]) -> str:
    """Return some names, each once, in order; of many the first."""
    return first_of(sorted(set(names)), _NAMED)


class _EmptyNodes:
    """The nodes of a snapshot with nothing on them, on which jobs are tried one at a time."""

    def __init__(
        self, snapshot: Snapshot, config: SchedulerConfig | None, registry: Registry | None
    ) -> None:
        self._snapshot = snapshot
        given = SchedulerConfig() if config is None else config
        of_config = {action.name: action for action in given.actions}
        placing = [of_config.get(name, ActionOption(name=name)) for name in _PLACING]
        self._can_place = registry is None or {*_PLACING} <= {*registry.action_names}
        configs = [evolve(given, actions=placing)] if self._can_place else []
        # Another action may pass over a task that blocks the others of its job in allocate.
        if any(action.name not in _PLACING for action in given.actions):
            configs.append(given)
        self._schedulers = [Scheduler(each, registry) for each in configs]
        self._known: dict[JobInfo, str] = {}

    @cached_property
    def _cluster(self) -> Cluster:
        every = [*self._snapshot.other_tasks, *(t for j in self._snapshot.jobs for t in j.tasks)]
        daemons = [task for task in every if task.is_on_each_node and task.status.holds]
        queues = [Queue(name=_QUEUE)]
        # A claim without a task is somebody's to delete, as jobs are to end.
        return Cluster(evolve(self._snapshot, jobs=(), queues=queues, other_tasks=daemons, held=()))

    @cached_property
    def _lives(self) -> Sequence[AttachedScheduler]:
        return [scheduler.attach(self._cluster) for scheduler in self._schedulers]

    def why_never(self, job: JobInfo, needed: int) -> str:
        """Return why a job could not start even here; empty: it could, or nothing is known."""
        if not self._can_place:
            return ""
        alone = _alone(job)
        if alone not in self._known:
            self._known[alone] = self._tried(alone, needed)
        return self._known[alone]

    def _tried(self, job: JobInfo, needed: int) -> str:
        result = self._result(job, 0)
        results = (self._result(job, at) if at else result for at in range(len(self._lives)))
        if any(_has_started(job, each) for each in results):
            return ""
        nodes = self._snapshot.nodes
        asked = [task for task in job.tasks if task.uid in result.pending]
        in_service = [
            node
            for node in nodes
            if not node.unschedulable and node.conditions.get("Ready", "True") == "True"
        ]
        for where, among in (("node", nodes), ("node in service", in_service)):
            largest: dict[str, int] = {}
            for node in among:
                for dimension, amount in node.allocatable.dimensions():
                    largest[dimension] = max(largest.get(dimension, 0), int(amount))
            for task in asked:
                for dimension, amount in task.start_request.dimensions():
                    most = largest.get(dimension, 0)
                    if amount > most:
                        text = f"no {where} has {amount_text(dimension, amount)}"
                        if not most:
                            return text
                        return f"{text}, the largest has {amount_text(dimension, most)}"
        alone = self._result(_one_by_one(job, job.tasks), 0)
        why = next((r for t in job.tasks if (r := alone.pending.get(t.uid)) and r.tally), None)
        cause = "" if why is None else _cause(why.tally)
        if not alone.binds and cause:
            return f"none of these nodes could take it even if empty: {cause}"
        waits = (result.pending.get(task.uid) for task in job.tasks)
        refusals = [each.refusal for each in waits if each and each.refusal]
        no_domain = next((each.no_domain for each in refusals if each.no_domain), None)
        if no_domain is not None and no_domain.home is None:
            return _no_empty_domain(no_domain)
        apart = next((each for each in refusals if each.reason is UnfitReason.NO_DOMAIN), None)
        if apart is not None and no_domain is None:
            return f"{apart.text}, even if these nodes were empty"
        room = min(len(alone.binds), max(0, needed - 1))
        have = "has" if room == 1 else "have"
        text = f"only {room} of the {needed} tasks that it needs {have} room, "
        text += "even if these nodes were empty"
        return f"{text}: for one more, {cause}" if cause and len(alone.binds) < needed else text

    def _result(self, job: JobInfo, config: int) -> CycleResult:
        with self._cluster.trial() as trial:
            trial.apply(JobArrived(job))
            return self._lives[config].schedule().full()


def _no_empty_domain(told: NoDomain) -> str:
    """Return that no domain of a topology could hold what must be in one."""
    if not told.domains:
        return told.text
    if told.is_of_segments_alone:
        return f"{told.text}, even if these nodes were empty"
    level, tasks = level_word(told.level), all_of(told.needed, "task")
    if told.segment:
        tasks = f"{told.what},"
    elif told.group:
        tasks += f" of group {told.group}"
    text = f"no {level} could hold {tasks} even if it were empty"
    roomiest = "the roomiest"
    if told.domains == 1:
        text, roomiest = f"the only {level} could not hold {tasks} even if it were empty", "it"
    return f"{text}; {roomiest} could hold {told.held}" if told.held else text


def _has_started(job: JobInfo, result: CycleResult) -> bool:
    """Return whether a result starts a job that has not run, with what it needs."""
    bound = {bind.task_uid for bind in result.binds}
    placed = [
        evolve(task, status=TaskStatus.RUNNING) if task.uid in bound else task for task in job.tasks
    ]
    return bool(bound) and TaskCounts(job, placed).has_minimum(Counting.READY)


def _one_by_one(job: JobInfo, tasks: Iterable[TaskInfo]) -> JobInfo:
    """Return a job of some of its tasks, each of which may start without the others."""
    return evolve(
        job,
        min_available=1,
        max_available=None,
        groups=(),
        min_groups=None,
        topology=None,
        tasks=[evolve(task, group=None) for task in tasks],
    )


_PLACING = ("allocate", "backfill")
_QUEUE = "queue"
_NO_TASK = TaskInfo(uid="0", name="0")
_DECISIVE = (
    *("resreq", "init_resreq", "node_selector", "node_affinity", "tolerations", "host_ports"),
    *("claims", "group", "index", "priority"),
)
_DECISIVE_APART = ("pod_anti_affinity", "labels", "namespace")
"""What decides on which empty nodes a task may be; the latter if it keeps away from others."""


def _alone(job: JobInfo) -> JobInfo:
    """Return a job of its tasks that count, waiting, and nothing in its way. O(tasks).

    Jobs of which the empty nodes hold both or neither are equal then.
    """
    tasks: list[TaskInfo] = []
    times = sorted({task.creation_time for task in job.tasks})
    for at, task in enumerate(task for task in job.tasks if task.status.valid):
        fields = _DECISIVE if task.pod_anti_affinity is None else _DECISIVE + _DECISIVE_APART
        kept: dict[str, object] = {field: getattr(task, field) for field in fields}
        kept["creation_time"] = float(times.index(task.creation_time))
        if task.status is TaskStatus.SUCCEEDED:
            kept["status"] = task.status
        tasks.append(evolved(_NO_TASK, {"uid": f"{at:07}", "name": f"{at:07}", **kept}))
    return JobInfo(
        name="alone",
        queue=_QUEUE,
        min_available=job.min_available,
        max_available=job.max_available,
        groups=job.groups,
        min_groups=job.min_groups,
        topology=job.topology,
        tasks=tasks,
    )
