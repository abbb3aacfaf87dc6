"""The function `explain`: why a job or task waits, and what would help, as data and as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from textwrap import wrap
from typing import NamedTuple

from attrs import evolve, field, frozen

from batchsched.causes import About, JobStatus, WhyPending, agreeing
from batchsched.config.registry import Registry
from batchsched.config.scheduler_config import SchedulerConfig
from batchsched.errors import ConfigError
from batchsched.kubernetes.facts import JobFacts, Told
from batchsched.model.cluster import JobInfo, TaskStatus
from batchsched.model.immutable import EMPTY, AsMap
from batchsched.model.notice import Notice, NoticeCode
from batchsched.model.reasons import MemberCount, PendingReason
from batchsched.model.result import CycleResult
from batchsched.model.serialisation import JsonValue
from batchsched.model.snapshot import Snapshot
from batchsched.model.texts import first_of, level_word
from batchsched.model.validation.arguments import checks_arguments
from batchsched.scheduler import Scheduler
from batchsched.session.session import Session
from batchsched.session.turns import need_of, tasks_left
from batchsched.state.groups import Counting
from batchsched.state.records import JobState, SortKey, TaskState
from batchsched.tools.amounts import resource_text
from batchsched.tools.changes import admission_waits, duration, time_text
from batchsched.tools.domain_fit import NearDomain, RoomInSets, nearest_domains, room_in_sets
from batchsched.tools.eviction_story import EvictionStory, evictions_now
from batchsched.tools.helpful_changes import (
    ExplainedJob,
    TriedChange,
    kinds_of_changes,
    once_released,
    release,
    what_helps,
    without_evictions,
)
from batchsched.tools.node_fit import (
    Holder,
    NearNode,
    NodeFit,
    counted,
    fits_of,
    nearest_nodes,
    placed_of,
)
from batchsched.tools.queue_standing import (
    AboveShare,
    QueueStanding,
    above_share,
    queue_text,
    standing_of_queue,
)
from batchsched.tools.report import Report, Section, as_dict
from batchsched.tools.standings import JobStanding, Standings
from batchsched.tools.trials import Trials

_WRAPPED = 96
"""The width of a line of reasons."""
_SHOWN = 5
"""The most leaf queues that are shown."""
_MOST_TOLD = 3
"""The most conditions, and queues above their shares, that are shown."""
_AS_FAR_AS_SEEN = " (as far as could be seen: see below)"


@frozen(kw_only=True)
class Explanation(Report):
    """Why a job waits. Prints as text; a notebook shows tables."""

    job: str
    owner: str = ""
    """The kind and the name of its owner, from the facts of a dump."""
    standing: JobStanding
    """The state of the job, and all that is in its way."""
    caveats: tuple[Notice, ...] = ()
    """What is ignored of the job's own objects, from the facts of a dump."""
    told: tuple[Told, ...] = ()
    """The conditions that controllers wrote on them, the newest first."""
    now: float = 0.0
    """The present of the snapshot, in seconds."""
    task: str | None
    """The waiting task that the answer is about; None: no task waits."""
    task_name: str
    """The display name of that task; empty if there is none."""
    of_task: bool = False
    """Whether that task was asked about, and not its job."""
    evicted: tuple[EvictionStory, ...] = ()
    """Why tasks of it are evicted in this cycle; see `explain_eviction`."""
    reason: PendingReason | None
    """Why that task is pending; None: no task waits, or no reason is known."""
    position: int | None
    """Its position among the waiting jobs of its queue at the beginning of the cycle, counted from
    1; None: it does not wait, or is left out of the cycle."""
    waiting_jobs: int
    """The number of waiting jobs of the queue."""
    before_it: tuple[str, ...]
    """The waiting jobs of the queue directly before it, at most five, the nearest first."""
    decided_by: str
    """The key that orders it behind the job before it: a plugin, ``creation_time`` or ``uid``."""
    queue: QueueStanding
    above_share: tuple[AboveShare, ...] = ()
    """The leaf queues that hold more than their fair shares, the most first."""
    min_available: int
    ready: int
    """The number of its tasks that held resources or had succeeded before the cycle."""
    lacking: int
    """The number of further tasks that must start together."""
    at_once: int
    """The number of its waiting tasks that would fit now if it were first, and that its queue may
    hold."""
    groups: tuple[MemberCount, ...] = ()
    """What its groups that were not ready before the cycle had of what they need, in the order of
    the job."""
    nodes: int
    tells_nodes: bool = False
    """Whether nodes are in its way: not if something holds it, or if it could not start however
    many nodes were free. If not, the answer says nothing about nodes."""
    blocked: str = ""
    """Of a gang of which only some tasks have room now: the task that would find none after them.
    What is told of nodes is how they would be for it then. Empty: there is none."""
    placed: int = 0
    """How many of its tasks have room before that one."""
    available: int = 0
    """The number of nodes on which its task could start now, as far as nodes go."""
    unfit: Mapping[str, int] = field(default=EMPTY, converter=AsMap[str, int])
    """What keeps its task from nodes, as in ``are cordoned``, to the number of these nodes; the
    most frequent first. A node is counted once."""
    level: str = ""
    """The level of a topology of which one domain must hold what it needs, if none does now."""
    nearest_domains: tuple[NearDomain, ...] = ()
    """The three domains of that level that have most room."""
    nearest: tuple[NearNode, ...] = ()
    """The three nodes that lack the least, of those that could take the task if others left."""
    would_start: tuple[TriedChange, ...] = ()
    """Single changes with which it started; each was tried with a cycle."""
    tried: int = 0
    """The number of changes that were tried."""
    admits: str = ""
    """The controller whose admission is all that it lacks: its place, shares, nodes and changes are
    given as if the queues decided whom it admits. Empty: there is none."""
    admits_once: str = ""
    """What that controller waits for besides: a time, or the pods of others; empty: nothing."""
    once_released: str = ""
    """What follows once nothing holds the job any more, by one cycle; empty: nothing holds it, or
    no changes are tried."""
    once_released_on: tuple[str, ...] = ()
    """The nodes where it would then start, or would be promised room."""

    @property
    def why(self) -> WhyPending | None:
        """Why its task is pending, as a code."""
        return None if self.reason is None else self.reason.why

    @property
    def summary(self) -> str:
        """The answer in one sentence: the standing, with the first of what is in the way."""
        text = self.standing.headline
        return f"{text}{_AS_FAR_AS_SEEN}" if self._is_unsure else text

    @property
    def _is_unsure(self) -> bool:
        """Whether what the answer leaves out could change it."""
        return self.standing.state in (JobStatus.STARTS, JobStatus.ROOM) and any(
            each.code is not NoticeCode.READ_AS for each in self.caveats
        )

    def sections(self) -> Iterator[Section]:
        """Yield the sections of the report, the most important first."""
        yield from self._answer()
        read_as = [each for each in self.caveats if each.code is NoticeCode.READ_AS]
        if read_as:
            yield Section("How values were read", _caveat_lines(read_as), in_full=True)

    def _answer(self) -> Iterator[Section]:
        yield Section(self.summary, tuple(self._besides()), in_full=True)
        left_out = [each for each in self.caveats if each.code is not NoticeCode.READ_AS]
        if left_out:
            yield Section("This answer leaves out", _caveat_lines(left_out), in_full=True)
        told = tuple(self._said())
        if told:
            yield Section("What controllers say", told[:_MOST_TOLD], in_full=True)
        yield Section("Its place in the queue", tuple(self._place()), in_full=True)
        unsure = " (as far as could be seen)" if self.admits and left_out else ""
        follows = Section("What follows", (f"{self.once_released}{unsure}",), in_full=True)
        if self.task is None:
            if self.once_released:
                yield follows
            return
        if self.tells_nodes:
            yield Section("Nodes", (self._fits, *wrap(self._unfit, _WRAPPED)))
        if self.nearest_domains:
            word = level_word(self.level)
            yield Section(
                f"Nearest {level_word(self.level, 2)}",
                (),
                (word, "room for", "problem"),
                [_domain_row(each) for each in self.nearest_domains],
            )
        rows: list[tuple[str, str, str]] = []
        for node in self.nearest:
            lacks = "" if node.missing.is_empty() else f"lacks {resource_text(node.missing)}"
            what = ", ".join(part for part in (node.refusal, lacks) if part)
            if what:  # what has room lacks nothing
                rows.append((node.name, what, _held(node.holders)))
        if rows:
            yield Section("Nearest nodes", (), ("node", "problem", "held by"), rows)
        said = tuple(change.text for change in self.would_start if not change.evicts)
        by_evicting = tuple(change.text for change in self.would_start if change.evicts)
        if self.once_released:
            yield follows
        if self.tried and not self.would_start and not self.once_released_on:
            text = "the one change that was tried was not enough"
            if self.tried > 1:
                text = f"none of the {self.tried} single changes that were tried was enough"
            yield Section("What would start it", (text,))
        if said:
            how = f", if {self.admits} decides as here" if self.admits else ""
            runs = self.standing.state in (JobStatus.STARTS, JobStatus.RUNNING_PART)
            who = "More of it" if runs else "It"
            when = self.admits_once or "now"
            title = f"{who} would start {when} with any one of these changes (each was tried){how}"
            yield Section(title, said)
        if by_evicting:
            title = "It would start once others are evicted for it, with any one of these changes"
            yield Section(f"{title} (each was tried)", by_evicting)

    @property
    def _fits(self) -> str:
        text = f"task {self.task_name} fits on {self.available} of {self.nodes} nodes now"
        if self.blocked:
            where = f"fits on none of {self.nodes} nodes"
            if self.nodes == 1:
                where = "does not fit on the only node"
            text = f"with {self.placed} of its tasks placed, task {self.blocked} {where}"
        if self.available and self.why and self.why.about is not About.NODES:
            return f"as far as nodes go, {text}"
        return text

    @property
    def _unfit(self) -> str:
        """What keeps it from the others: each node is counted once."""
        parts = [f"{count} {agreeing(words, count)}" for words, count in self.unfit.items()]
        if not parts:
            return ""
        count, _, words = parts[0].partition(" ")
        nodes = "node" if self.nodes == 1 else "nodes"
        return ", ".join([f"{count} of {self.nodes} {nodes} {words}", *parts[1:]])

    def _besides(self) -> Iterator[str]:
        """Yield all that is in the way besides, what runs, and why the task waits."""
        for blocker in self.standing.blockers[1:]:
            yield blocker.text
        if self.standing.running and self.standing.state is not JobStatus.RUNNING:
            yield f"running: {self.standing.running}"
        for story in self.evicted[:_MOST_TOLD]:
            who = f"{story.for_task_name} (job {story.for_job})"
            yield (
                f"{story.action} evicts {story.task_name} from {story.node} for {who}: "
                f"{story.rule.text}"
            )
        if len(self.evicted) > _MOST_TOLD:
            yield f"and {len(self.evicted) - _MOST_TOLD} more of its tasks"
        if self.reason is None:
            return
        if self.of_task:
            yield f"task {self.task_name} waits ({self.reason.why.value}): {self.reason}"
        else:
            yield from (report.told(time_text) for report in self.reason.evictions)

    def _said(self) -> Iterator[str]:
        """Yield what controllers say of why it waits, the newest first, each once."""
        is_settled = not self.standing.waits and self.standing.state is not JobStatus.STARTS
        said: set[tuple[str, str]] = set()
        for each in self.told:
            if is_settled and each.type != _RESIZE:  # of what runs, nothing else still waits
                continue
            text = each.message or (each.reason and f"{each.type} is {each.status} ({each.reason})")
            if text and each.says_why and (each.who, text) not in said:
                said.add((each.who, text))
                age = -1 if each.time is None else int(self.now - each.time)
                ago = f", {duration(age)} ago" if age > 0 else "" if age else ", just now"
                yield f"{each.who or 'a controller'} says{ago}: {text}"

    def _place(self) -> Iterator[str]:
        starts = self.standing.state is JobStatus.STARTS
        if self.position is not None and not starts:
            text = f"{_ordinal(self.position)} of {self.waiting_jobs} in queue {self.queue.name}"
            if self.before_it:
                names = ", ".join(self.before_it[:3])
                text += f", after {names} ({self.decided_by})"
            yield text
        queue = self.queue
        if not queue.is_known:
            yield f"queue {queue.name} does not exist"
        else:
            yield queue_text(queue)
            for above in queue.above:
                yield f"part of {queue_text(above)}"
            if queue.leaves:
                yield f"jobs may name the leaf queues below it: {first_of(queue.leaves, _SHOWN)}"
        for each in self.above_share[:_MOST_TOLD]:
            yield each.text
        if self.lacking and not starts:
            text = f"{self.ready} of {self.min_available} tasks that must start together are ready"
            if self.position is not None and not (self.why and self.why.about is About.JOB):
                fit = min(self.at_once, self.lacking)
                where = ""
                if self.nearest_domains and self.nearest_domains[0].needed == self.lacking:
                    where = f" in one {level_word(self.level)}"
                text += f"; if it were first, {fit} of {self.lacking} more would fit{where} now"
            yield text
        for group in self.groups:
            what = "groups in it" if group.of_groups else "tasks"
            yield f"group {group.group} has {group.has} of {group.needs} {what} that it needs"

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the explanation as dicts, lists, strings and numbers only, ready for JSON."""
        standing, queue = self.standing, self.queue
        plain = evolve(self, would_start=(), caveats=(), reason=None)
        return {
            **{key: value for key, value in as_dict(plain).items() if key != "standing"},
            "why": None if self.why is None else self.why.value,
            "reason": "" if self.reason is None else self.reason.text,
            **{
                key: value
                for key, value in as_dict(standing).items()
                if key not in ("job", "tasks")
            },
            "tasks": {status.value: count for status, count in standing.tasks.items()},
            "caveats": [
                {"code": each.code.value, "field": each.field, "text": each.consequence}
                for each in self.caveats
            ],
            "queue": [as_dict(evolve(each, above=())) for each in (queue, *queue.above)],
            "would_start": [change.text for change in self.would_start],
        }


def _ordinal(number: int) -> str:
    """Return a number as the place in an order.

    >>> [_ordinal(number) for number in (1, 2, 3, 4, 11, 22, 113)]
    ['1st', '2nd', '3rd', '4th', '11th', '22nd', '113th']
    """
    is_teen = number // 10 % 10 == 1
    return f"{number}{'th' if is_teen else _ENDINGS.get(number % 10, 'th')}"


_ENDINGS = {1: "st", 2: "nd", 3: "rd"}


def _caveat_lines(caveats: Sequence[Notice]) -> tuple[str, ...]:
    """Return what is told of fields, those of one kind of object with the same text together."""
    fields: dict[tuple[str, str], list[str]] = {}
    for each in caveats:
        fields.setdefault((each.kind, each.consequence), []).append(each.field)
    return tuple(f"{kind} {', '.join(names)}: {text}" for (kind, text), names in fields.items())


def _domain_row(domain: NearDomain) -> tuple[str, str, str]:
    room = "" if domain.room_for is None else f"{domain.room_for:,} of {domain.needed:,}"
    parts = [f"{count} {agreeing(words, count)}" for words, count in domain.unfit.items()]
    if not domain.missing.is_empty():
        parts.insert(0, f"lacks {resource_text(domain.missing)}")
    return domain.name, room, ", ".join(parts)


def _held(holders: tuple[Holder, ...]) -> str:
    shown = [
        f"{h.job or h.name} {h.how}{'' if h.until is None else f' until {time_text(h.until)}'}"
        f"{(h.devices and f' with {first_of(h.devices, 2)}') or ''}"
        for h in holders[:2]
    ]
    return "; ".join(shown) + (f"; {len(holders) - 2} more" if len(holders) > 2 else "")  # noqa: PLR2004


# How it is found out

_BEFORE = 5


@checks_arguments(ConfigError)
def explain(
    snapshot: Snapshot,
    result: CycleResult,
    job_or_task: str,
    *,
    config: SchedulerConfig | None = None,
    registry: Registry | None = None,
    try_changes: bool = True,
    facts: Mapping[str, JobFacts] | None = None,
) -> Explanation:
    """Explain why a job waits: its position, its queue, the nodes, and changes that would help.

    The answer begins with the job's standing, as `batchsched.tools.standings` returns it.

    Helpful changes are found by trying: each reported change was applied alone, a cycle was run,
    and it bound one of the waiting tasks (or, given a task, that task), with as many others as the
    job needs. `what_if` with the changes repeats it. Only what somebody could do is tried, of each
    kind the smallest change that is enough: more nodes of a kind that is there; the end of a
    running job, or of a task of none; a lower `min_available`; a higher `max_available`; a priority
    above that of a job before it, unless `facts` say that it cannot be changed; a higher weight of
    the queue; a higher limit of the queue or of one above it, if that is why it waits; a leaf
    queue, if it names another; the ends of jobs that it depends on. Others may help too.

    If something holds the job, the answer says nothing about nodes, but what follows once nothing
    holds it: where it would start, or what it would wait for then. If only the admission of a
    controller is missing, the queues decide it here: place, shares, nodes and changes are those
    after all jobs that lack it were admitted as far as the queues allow.

    Costs O(nodes + tasks), and at most some tens of cycles without consolidate, preempt and
    reclaim, each as cheap as the change is small. A change that was enough is tried with these
    actions too: one or a few more cycles for each kind of change, as slow as the evictions. With
    `try_changes=False` no changes are tried.

    Args:
        snapshot: the cluster.
        result: the result of a cycle on it.
        job_or_task: the UID of the job, or of one of its tasks.
        config: the configuration of that cycle; None: the default.
        registry: the plugins and actions that the configuration may name.
        try_changes: whether to search for changes that would help.
        facts: what a dump says of its jobs besides (`batchsched.kubernetes.Dump.facts`): the answer
            then tells the owner, what it leaves out, and what controllers say.

    Raises:
        ConfigError: an argument has the wrong type.
        UnknownNameError: there is no such job or task.

    >>> from batchsched import JobInfo, NodeInfo, Queue, Resource, TaskInfo, schedule
    >>> three = Resource(milli_cpu=3000)
    >>> runs = TaskInfo(uid="r", name="r", resreq=three, status=TaskStatus.RUNNING, node_name="n1")
    >>> snapshot = Snapshot(
    ...     nodes=[NodeInfo(name="n1", allocatable=Resource(milli_cpu=4000))],
    ...     queues=[Queue(name="q")],
    ...     jobs=[
    ...         JobInfo(name="r", queue="q", tasks=[runs]),
    ...         JobInfo(name="j", queue="q", tasks=[TaskInfo(uid="t", name="t", resreq=three)]),
    ...     ],
    ... )
    >>> explanation = explain(snapshot, schedule(snapshot), "default/j")
    >>> explanation.nearest[0].missing, dict(explanation.unfit)
    (Resource(milli_cpu=2000, memory=0), {'lack free cpu': 1})

    """
    job = _job_of(snapshot, job_or_task)
    told_of = Standings(snapshot, result, facts=facts, config=config, registry=registry)
    own_facts = (facts or {}).get(job.uid) or JobFacts(job=job.uid, system="", kind="", owner="")
    standing, owner = told_of.of(job), told_of.owner(job)
    evicted = evictions_now(
        snapshot, result, (task.uid for task in job.tasks), Scheduler(config, registry)
    )
    trials = Trials(snapshot, config, registry)
    admits = trials.kept_out.get(job.uid, "")
    follows, places, waits, is_by_pods = "", tuple[str, ...](), "", False
    if admits:  # what is told of queues and nodes is how it would be with the queues admitting it
        waits = admission_waits(job, snapshot.now)
        by_quota = trials
        trials, anew = _once_let_in(trials, job, told_of, facts, registry)
        is_by_pods = trials is not by_quota
        snapshot, result = trials.snapshot, trials.now
        job = snapshot.job(job.uid)
        follows = _if_admitted(anew, standing, admits, job, by_pods=is_by_pods)
        places = _nodes_of(job, result)
    else:
        anew = standing
    as_is = (
        trials
        if admits or not trials.kept_out
        else Trials(snapshot, config, registry, but=trials.kept_out)
    )
    reclaims = any(action.name == "reclaim" for action in trials.config.actions)
    with as_is.session(without_evictions(trials.config)) as session:
        state = session.ledger.jobs[job.uid]
        pending = [task for task in state.tasks if task.status is TaskStatus.PENDING]
        left = [task for task in pending if task.uid in result.pending]
        named = [task for task in left if task.uid == job_or_task]
        task = _first(session, result, named or left)
        reason = None if task is None else result.pending.get(task.uid)
        position, others, before, decided_by = _place_in_queue(session, state)
        explanation = Explanation(
            job=job.uid,
            owner=owner,
            standing=standing,
            admits=admits,
            admits_once=waits,
            once_released=f"{waits}, {follows}" if waits and follows else follows,
            once_released_on=places,
            caveats=own_facts.caveats,
            told=own_facts.told,
            now=snapshot.now,
            task=None if task is None else task.uid,
            task_name="" if task is None else task.info.display_name,
            of_task=bool(named),
            evicted=tuple(evicted),
            reason=reason,
            position=position,
            waiting_jobs=others,
            before_it=tuple(other.uid for other in before[-_BEFORE:][::-1]),
            decided_by=decided_by,
            queue=standing_of_queue(session, state, left),
            above_share=above_share(session, left, reclaims=reclaims),
            min_available=state.min_available,
            ready=state.ready_count,
            lacking=max(0, state.lacks()),
            at_once=_at_once(session, state),
            groups=_groups(state),
            nodes=len(snapshot.nodes),
        )
        if task is None or is_by_pods:
            return explanation
        wanted = frozenset(each.uid for each in named or left)
        fits: Sequence[NodeFit] = ()
        room: RoomInSets | None = None
        if anew.waits_for_room:
            fits, placed, blocked, unfit, room, domains = _of_nodes(session, result, state, task)
            blocked = None if named else blocked
            explanation = evolve(
                explanation,
                tells_nodes=True,
                blocked="" if blocked is None else blocked.info.display_name,
                placed=0 if blocked is None else placed,
                available=sum(fit.takes_it for fit in fits) if blocked is None else 0,
                unfit=counted(fits, task.info) if blocked is None else unfit,
                level="" if room is None else room.level,
                nearest_domains=domains,
                nearest=nearest_nodes(session, result, task, fits),
            )
        elif (
            explanation.why is WhyPending.PLANNED
        ):  # more room would start it, but has no part in why
            fits = fits_of(session, task)
        if not try_changes:
            return explanation
        waiting = ExplainedJob(
            session=session,
            result=result,
            reason=reason,
            state=state,
            task=task,
            before=before,
            fits=fits,
            room=room,
            at_once=explanation.at_once,
            has_fixed_priority=own_facts.has_fixed_priority,
            has_fixed_minimum=own_facts.has_fixed_minimum,
            absent_queues=own_facts.absent_queues,
        )
        freed = None if admits else release(waiting)
        kinds = kinds_of_changes(waiting)
    if freed is not None:
        text, nodes, found = once_released(trials, job, wanted, freed)
        return evolve(
            explanation, once_released=text, once_released_on=nodes, would_start=found, tried=1
        )
    found, tried = what_helps(trials, kinds, job, wanted)
    return evolve(explanation, would_start=found, tried=tried)


def _once_let_in(
    trials: Trials,
    job: JobInfo,
    told_of: Standings,
    facts: Mapping[str, JobFacts] | None,
    registry: Registry | None,
) -> tuple[Trials, JobStanding]:
    """Return the cluster with the queues admitting a job, and how that stands then.

    If the controller asks for quota alone, each of its tasks starts where it can, unless none can.
    """

    def standing(of: Trials) -> JobStanding:
        told = Standings(of.snapshot, of.now, facts=facts, config=of.config, registry=registry)
        return told.of(of.snapshot.job(job.uid))

    anew = standing(trials)
    is_let_in = anew.waits_for_room and all(b.state is not JobStatus.QUOTA for b in anew.blockers)
    if is_let_in and anew.state is not JobStatus.STARTS and told_of.starts_one_by_one(job):
        alone = _one_by_one(trials.snapshot, trials.snapshot.job(job.uid))
        by_pods = Trials(alone, trials.config, registry)
        one = standing(by_pods)
        if one.state is JobStatus.STARTS:
            return by_pods, one
    return trials, anew


_RESIZE = "PodResizePending"
"""The condition of a pod that runs and is to get other amounts."""


def _one_by_one(snapshot: Snapshot, job: JobInfo) -> Snapshot:
    """Return a cluster in which each task of a job starts by itself, as once it is admitted."""
    alone = evolve(job, min_available=1, groups=(), min_groups=None)
    alone = evolve(alone, tasks=[evolve(task, group=None) for task in job.tasks])
    jobs = [alone if each.uid == job.uid else each for each in snapshot.jobs]
    return evolve(snapshot, jobs=jobs)


def _if_admitted(
    anew: JobStanding, standing: JobStanding, admits: str, job: JobInfo, *, by_pods: bool
) -> str:
    """Return what follows if a controller admits a job as the queues here allow."""
    where = anew.text.partition(": ")[2]
    waiting = sum(task.status.to_place for task in job.tasks)
    if by_pods:
        text = (
            f"it would be admitted if {admits} decides as here, which asks its quota and not the "
        )
        return f"{text}nodes; admitted, {anew.starting} of its {waiting} pods would start: {where}"
    if anew.state is JobStatus.STARTS:
        return f"it would start if {admits} decides as here: {where}"
    if anew.state is JobStatus.PROMISED:
        return f"it would be promised room if {admits} decides as here: {where}"
    told = {blocker.text for blocker in standing.blockers}
    left = [blocker.text for blocker in anew.blockers if blocker.text not in told]
    return f"it would still wait if {admits} decides as here: {left[0]}" if left else ""


def _nodes_of(job: JobInfo, result: CycleResult) -> tuple[str, ...]:
    """Return the nodes where tasks of a job start, and then those promised to them."""
    own = {task.uid for task in job.tasks}
    starts = [bind.node_name for bind in result.binds if bind.task_uid in own]
    promised = [each.node_name for each in result.promised() if each.task_uid in own]
    return tuple(dict.fromkeys([*starts, *promised]))


def _job_of(snapshot: Snapshot, uid: str) -> JobInfo:
    for job in snapshot.jobs:
        if job.uid == uid or any(task.uid == uid for task in job.tasks):
            return job
    return snapshot.job(uid)  # raises UnknownNameError with the known names


def _first(session: Session, result: CycleResult, left: Sequence[TaskState]) -> TaskState | None:
    """Return the first pending task; if possible, one that nothing holds, and that requests."""

    def rank(task: TaskState) -> tuple[bool, bool]:
        return result.pending[task.uid].why is WhyPending.HELD, task.is_best_effort

    return min(session.in_task_order(left), key=rank, default=None)


# Its place in the queue
def _place_in_queue(
    session: Session, state: JobState
) -> tuple[int | None, int, list[JobState], str]:
    """Return a job's position, the waiting jobs of its queue, those before it, and the key."""
    if state.queue is None or not state.in_session or not state.count(TaskStatus.PENDING):
        return None, 0, [], ""
    plugins = session.plugins

    def need_key(job: JobState) -> SortKey:
        if not plugins.orders_jobs_by_need:
            return ()
        return plugins.need_order_key(need_of(session, job, tasks_left(session, job)))

    keys = {
        job.uid: ((need_key(job), session.plugins.job_order_key(job)), job)
        for job in state.queue.jobs
        if job.in_session and job.count(TaskStatus.PENDING)
    }
    mine = keys[state.uid][0]
    ahead = sorted((k for k in keys.values() if k[0] < mine), key=lambda item: item[0])
    before = [job for _, job in ahead]
    decided_by = ""
    if ahead:
        last = ahead[-1][0]
        names = [*plugins.names_on("job_order_key"), "creation_time", "uid"]
        values = zip(names, last[1], mine[1], strict=True)
        decided_by = (
            next(name for name, theirs, own in values if theirs != own)
            if last[0] == mine[0]
            else plugins.names_on("need_order_key")[0]
        )
    return len(before) + 1, len(keys), before, decided_by


def _at_once(session: Session, state: JobState) -> int:
    """Return how many of its tasks would fit now, and within limits, if the job were first."""
    if not state.in_session or state.queue is None:
        return 0
    tasks = session.in_task_order(state.having(TaskStatus.PENDING))
    if state.groups is not None:
        tasks = state.groups.within_maxima(tasks)
    with session.statement(is_trial=True) as trial:
        room = room_in_sets(session, trial, state)
        count, _ = placed_of(session, trial, tasks)
        trial.discard()
    return count if room is None else min(count, room.held)


def _of_nodes(session: Session, result: CycleResult, state: JobState, task: TaskState) -> _OfNodes:
    """Return how nodes suit a task once what the cycle starts is there."""
    placed, blocked = 0, None
    why: Mapping[str, int] = EMPTY
    domains: tuple[NearDomain, ...] = ()
    with session.statement(is_trial=True) as trial:
        for bind in result.binds:
            starting = session.ledger.tasks[bind.task_uid]
            if starting.status is TaskStatus.PENDING:
                trial.allocate(starting, session.node(bind.node_name))
        room = room_in_sets(session, trial, state)
        fits, lacking = fits_of(session, task), state.lacks()
        if room is not None:
            blocked = room.blocked(task)
            if blocked is not None:
                placed, fits = room.held, fits_of(session, blocked)
            domains = nearest_domains(session, room, fits)
            fits = [evolve(f, apart=room.refusal_of(f)) if f.takes_it else f for f in fits]
            why = counted(fits, task.info if blocked is None else blocked.info)
        elif lacking > 1 and state.groups is None:
            tasks = session.in_task_order(state.having(TaskStatus.PENDING))
            placed, blocked = placed_of(session, trial, tasks)
            if not 0 < placed < lacking:
                blocked = None
            elif blocked is not None:
                why = counted(fits_of(session, blocked), blocked.info)
        trial.discard()
    return _OfNodes(fits, placed, blocked, why, room, domains)


class _OfNodes(NamedTuple):
    """How nodes, and domains of them, suit a task of a job."""

    fits: Sequence[NodeFit]
    placed: int
    """If only some tasks of its gang have room: how many."""
    blocked: TaskState | None
    """The first that has none then."""
    unfit: Mapping[str, int]
    """What keeps that one from nodes, as `counted` says it."""
    room: RoomInSets | None
    domains: tuple[NearDomain, ...]


def _groups(state: JobState) -> tuple[MemberCount, ...]:
    groups = () if state.groups is None else state.groups.groups
    return tuple(
        group.member_count(Counting.READY)
        for group in groups
        if not group.is_satisfied(Counting.READY)
    )
