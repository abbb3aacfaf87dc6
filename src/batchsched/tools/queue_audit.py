"""The function `audit`: which queues are owed what, who holds beyond, and what a cycle takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import cast

from attrs import evolve, field, frozen

from batchsched.config.registry import Registry
from batchsched.config.scheduler_config import SchedulerConfig
from batchsched.errors import ConfigError, Fault
from batchsched.model.immutable import AsMap
from batchsched.model.reasons import EvictionReport
from batchsched.model.resources import Resource, sum_resources
from batchsched.model.result import CycleResult
from batchsched.model.serialisation import JsonValue
from batchsched.model.snapshot import Snapshot
from batchsched.model.texts import counted, first_of
from batchsched.model.validation.arguments import checks_arguments
from batchsched.model.validation.values import part_named
from batchsched.scheduler import Scheduler
from batchsched.session.session import Session
from batchsched.tools.amounts import amount_text, resource_text
from batchsched.tools.changes import admitted_anew
from batchsched.tools.report import Report, Section, as_dict
from batchsched.tools.standings import JobStanding, standings

_NOTHING = Resource()
_TAKE_FROM_NOBODY = frozenset({"allocate", "backfill", "consolidate", "plan", "preempt", "reserve"})
"""The built-in actions that take nothing from other queues."""
_NAMED = 3
"""The most tasks or jobs that a text names."""
NO_ACTION = "no action takes from other queues"


@frozen(kw_only=True)
class QueueAudit:
    """A queue as a cycle begins. Of a queue above others, the last three are sums of its leaves."""

    parent: str | None = None
    """Its parent queue, if any."""
    is_leaf: bool = True
    """Whether it has no queues below it."""
    holds: Resource
    """What its tasks hold or are promised, without backfill tasks."""
    share: Resource
    """Its fair share."""
    deserved: Resource
    """What it deserves, whether or not the cluster has as much; of proportion, its share."""
    wants: Resource
    """What its jobs in the session hold and ask for, within limits."""
    owed: Resource
    """What it asks for within its share, or within what it deserves, and does not hold."""
    beyond: Resource
    """What it holds beyond its share."""
    on_loan: Resource
    """The units that its share does not cover: whole gangs, so it may be more than `beyond`."""


@frozen(kw_only=True)
class Taking:
    """What a cycle evicts from one queue for another."""

    owed: str
    """The queue for whose jobs it is."""
    holding: str
    """The queue from which it is."""
    amounts: Resource
    """What the tasks held."""
    tasks: tuple[str, ...]
    """The UIDs of the tasks, in the order in which they were evicted."""
    jobs: tuple[str, ...]
    """The UIDs of the jobs that they are for, in that order."""


@frozen(kw_only=True)
class OwedJob:
    """A job of a queue that is owed something, and that neither starts nor is promised a place."""

    queue: str
    standing: JobStanding
    searches: tuple[EvictionReport, ...] = ()
    """Why searches for tasks to evict for it were in vain."""
    why: str = ""
    """What kept the cycle from taking anything for it, whatever others hold; empty: nothing."""


@frozen(kw_only=True, repr=False)
class Audit(Report):
    """Who is owed, who holds beyond, and what this cycle takes for whom; see `audit`."""

    queues: Mapping[str, QueueAudit] = field(converter=AsMap[str, QueueAudit])
    """All queues by name, as the cycle begins."""
    pairs: tuple[Taking, ...] = ()
    """What the cycle evicts from other queues, by the names of both."""
    waiting: tuple[OwedJob, ...] = ()
    """The jobs of owed leaves that go on waiting, the longest wait first."""
    starts: Mapping[str, Resource] = field(
        factory=dict[str, Resource], converter=AsMap[str, Resource]
    )
    """What the tasks hold that the cycle starts, by leaf; without backfill tasks."""
    kept_out: Mapping[str, str] = field(factory=dict[str, str], converter=AsMap[str, str])
    """The jobs that only lack the admission of a controller, by UID: here the queues decide."""

    def of(self, queue: str, /) -> Audit:
        """Return what concerns a queue and those below it.

        Raises:
            UnknownNameError: there is no such queue.

        """
        part_named("queue", self.queues, queue, of="cluster")
        names = {name for name in self.queues if queue in self._path(name)}
        return evolve(
            self,
            queues={name: each for name, each in self.queues.items() if name in names},
            pairs=tuple(each for each in self.pairs if {each.owed, each.holding} & names),
            starts={name: each for name, each in self.starts.items() if name in names},
            waiting=tuple(each for each in self.waiting if each.queue in names),
        )

    def _path(self, name: str | None) -> Iterator[str]:
        while name is not None and name in self.queues:
            yield name
            name = self.queues[name].parent

    def lines(self) -> Iterator[str]:
        """Yield a sentence for each leaf that is owed something, or one that none is."""
        owed = {
            name: each for name, each in self.queues.items() if each.is_leaf and _any(each.owed)
        }
        for name, each in owed.items():
            dimensions = {dimension for dimension, amount in each.owed.dimensions() if amount}
            parts = [f"{name} is owed {resource_text(each.owed)}"]
            parts += self._holders(name, dimensions)
            takes = "this cycle takes"
            if name in self.starts:
                takes = f"this cycle starts {resource_text(self.starts[name])} of it and takes"
            taken = [pair for pair in self.pairs if pair.owed == name]
            if taken:
                amounts = sum_resources(pair.amounts for pair in taken)
                jobs = list(dict.fromkeys(job for pair in taken for job in pair.jobs))
                noun = "job" if len(jobs) == 1 else "jobs"
                parts.append(f"{takes} {resource_text(amounts)} ({noun} {first_of(jobs, _NAMED)})")
            else:
                whys = {job.why for job in self.waiting if job.queue == name and job.why}
                parts.append(f"{takes} nothing" + "".join(f": {why}" for why in whys))
            yield "; ".join(parts)
        if not owed:
            yield "No queue is owed anything."

    def _holders(self, owed: str, dimensions: set[str]) -> Iterator[str]:
        for name, each in self.queues.items():
            beyond, on_loan = _only(each.beyond, dimensions), _only(each.on_loan, dimensions)
            if each.is_leaf and name != owed and (beyond or on_loan):
                yield (
                    f"{name} holds {_told(beyond) or 'nothing'} beyond its share, "
                    f"{_told(on_loan) or 'nothing'} on loan"
                )

    def sections(self) -> Iterator[Section]:
        """Return the answer, the queues by dimension, what is taken, and who goes on waiting."""
        yield Section("", tuple(self.lines()), in_full=True)
        head = ("queue", "holds", "share", "deserved", "wants", "owed", "beyond", "on loan")
        fields = ("holds", "share", "deserved", "wants", "owed", "beyond", "on_loan")
        for dimension in self._dimensions():
            rows = [
                (name, *(_cell(dimension, getattr(each, part)) for part in fields))
                for name, each in self.queues.items()
            ]
            yield Section(f"Queues, in {dimension}", (), head, rows)
        if self.pairs:
            taken = [
                (each.owed, each.holding, resource_text(each.amounts), first_of(each.tasks, _NAMED))
                for each in self.pairs
            ]
            yield Section("This cycle takes", (), ("for", "from", "amounts", "tasks"), taken)
        if self.waiting:
            yield Section(
                f"{counted(len(self.waiting), 'job')} of queues that are owed "
                f"{'goes' if len(self.waiting) == 1 else 'go'} on waiting",
                tuple(
                    f"{each.standing.headline}{each.why and '; '}{each.why}"
                    for each in self.waiting
                ),
            )
        if self.kept_out:
            names = first_of(sorted(self.kept_out), _NAMED)
            told = f"as if admitted, as far as queues allow: {names}"
            yield Section("", (told,))

    def _dimensions(self) -> list[str]:
        used = [
            dimension
            for each in self.queues.values()
            for amounts in (each.holds, each.wants)
            for dimension, amount in amounts.dimensions()
            if amount
        ]
        return sorted(set(used), key=lambda name: (name != "cpu", name != "memory", name))

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the answer as dicts, lists, strings and numbers only, ready for JSON."""
        return {**as_dict(self), "lines": list(self.lines())}


def _any(amounts: Resource) -> bool:
    return any(amount for _, amount in amounts.dimensions())


def _only(amounts: Resource, dimensions: set[str]) -> list[tuple[str, float]]:
    return [(name, float(n)) for name, n in amounts.dimensions() if n and name in dimensions]


def _told(amounts: Sequence[tuple[str, float]]) -> str:
    return ", ".join(amount_text(*each) for each in amounts)


def _cell(dimension: str, amounts: Resource) -> str:
    return amount_text(dimension, amounts.get(dimension), unit=False)


@checks_arguments()
def audit(
    snapshot: Snapshot, *, config: SchedulerConfig | None = None, registry: Registry | None = None
) -> Audit:
    """Return who is owed resources, who holds beyond a share, and what a cycle takes for whom.

    A leaf is owed what its jobs ask for within its share, or within what it deserves, and do not
    hold. Jobs that only lack the admission of a controller count as admitted (`Audit.kept_out`).
    Two cycles, one of them without actions, plus O(queues).

    Args:
        snapshot: the cluster now.
        config: the configuration; None: the default.
        registry: the plugins and actions that it may name.

    Raises:
        ConfigError: no plugin of the configuration divides the cluster among queues.

    >>> from batchsched import JobInfo, NodeInfo, Queue, TaskInfo, TaskStatus
    >>> cpu, more = Resource(milli_cpu=1000), {"status": TaskStatus.RUNNING, "node_name": "n1"}
    >>> runs = [TaskInfo(uid=f"b{n}", name=f"b{n}", resreq=cpu, **more) for n in range(4)]
    >>> answer = audit(Snapshot(
    ...     nodes=[NodeInfo(name="n1", allocatable=4 * cpu)],
    ...     queues=[Queue(name=name, deserved=2 * cpu) for name in "ab"],
    ...     jobs=[JobInfo(name="b", queue="b", min_available=0, tasks=runs),
    ...           JobInfo(name="a", queue="a", tasks=[TaskInfo(uid="a", name="a", resreq=cpu)])]),
    ...     config=SchedulerConfig.from_mapping({"actions": "reclaim, allocate"}))
    >>> print(*answer.lines())
    a is owed 1 cpu; b holds 1 cpu beyond its share, 1 cpu on loan; this cycle takes 1 cpu \
(job default/a)

    """
    snapshot, kept_out = admitted_anew(snapshot)
    scheduler = Scheduler(config, registry)
    queues = queues_of(scheduler.open(snapshot))
    result = scheduler.schedule(snapshot)
    told = standings(snapshot, result, config=scheduler.config, registry=registry)
    actions = {action.name for action in scheduler.config.actions}
    why = NO_ACTION if actions <= _TAKE_FROM_NOBODY else ""
    return Audit(
        queues=queues,
        pairs=_pairs(snapshot, result),
        waiting=tuple(_waiting(snapshot, result, queues, told, why)),
        starts=_starts(snapshot, result),
        kept_out=kept_out,
    )


_Wants = Mapping[str, tuple[Resource, Resource]]


def queues_of(session: Session) -> dict[str, QueueAudit]:
    """Return what queues hold, and what they are entitled to, in an open session. O(queues).

    Raises:
        ConfigError: no plugin divides the cluster among queues.

    """
    knowing = (getattr(each.object, "wants_of_queues", None) for each in session.plugins.opened)
    known = next((each for each in knowing if each is not None), None)
    if known is None:
        message = "expected a plugin that divides the cluster among queues: capacity or proportion"
        raise ConfigError([Fault("config", message)])
    wants = cast("Callable[[], _Wants]", known)()
    found: dict[str, QueueAudit] = {}
    # Those below come first.
    names = sorted(session.ledger.queues)
    below: dict[str, list[str]] = {
        name: [child.name for child in session.ledger.queues[name].children] for name in names
    }
    outcomes = session.plugins.queue_outcomes()

    def look(name: str) -> QueueAudit:
        if name in found:
            return found[name]
        children = [look(child) for child in below[name]]
        outcome = outcomes.get(name)
        wanted, deserved = wants[name]
        holds = _NOTHING if outcome is None else outcome.allocated
        share = _NOTHING if outcome is None else outcome.fair_share
        if children:
            owed = sum_resources(each.owed for each in children)
            beyond = sum_resources(each.beyond for each in children)
            on_loan = sum_resources(each.on_loan for each in children)
        else:
            owed = excess_of(_least(share.max_with(deserved), wanted), holds)
            beyond = excess_of(holds, share)
            on_loan = _NOTHING if outcome is None else outcome.on_loan
        found[name] = QueueAudit(
            parent=session.ledger.queues[name].info.parent,
            is_leaf=not children,
            holds=holds,
            share=share,
            deserved=deserved,
            wants=wanted,
            owed=owed,
            beyond=beyond,
            on_loan=on_loan,
        )
        return found[name]

    return {name: look(name) for name in names}


def _least(one: Resource, other: Resource) -> Resource:
    return _by_dimension(one, other, min)


def excess_of(one: Resource, other: Resource) -> Resource:
    """Return what one has more than the other, in each dimension."""
    return _by_dimension(one, other, lambda left, right: max(0, left - right))


def _by_dimension(
    one: Resource, other: Resource, combine: Callable[[float, float], float]
) -> Resource:
    names = dict.fromkeys(name for each in (one, other) for name, _ in each.dimensions())
    amounts = {name: combine(one.get(name), other.get(name)) for name in names}
    return Resource(
        milli_cpu=amounts.pop("cpu", 0), memory=amounts.pop("memory", 0), scalars=amounts
    )


def _pairs(snapshot: Snapshot, result: CycleResult) -> tuple[Taking, ...]:
    job_of = {task.uid: job for job in snapshot.jobs for task in job.tasks}
    taken: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for eviction in result.evictions:
        victim, claimant = job_of[eviction.task_uid], job_of[eviction.for_task_uid]
        if victim.queue != claimant.queue:
            of_pair = taken.setdefault((claimant.queue, victim.queue), [])
            of_pair.append((eviction.task_uid, claimant.uid))
    return tuple(
        Taking(
            owed=owed,
            holding=holding,
            amounts=sum_resources(snapshot.task(uid).resreq for uid, _ in tasks),
            tasks=tuple(uid for uid, _ in tasks),
            jobs=tuple(dict.fromkeys(job for _, job in tasks)),
        )
        for (owed, holding), tasks in sorted(taken.items())
    )


def _starts(snapshot: Snapshot, result: CycleResult) -> dict[str, Resource]:
    queue_of = {task.uid: job.queue for job in snapshot.jobs for task in job.tasks}
    starts: dict[str, list[Resource]] = {}
    for bind in result.binds:
        if not bind.is_backfill:
            request = snapshot.task(bind.task_uid).resreq
            starts.setdefault(queue_of[bind.task_uid], []).append(request)
    return {name: sum_resources(starts[name]) for name in sorted(starts)}


def _waiting(
    snapshot: Snapshot,
    result: CycleResult,
    queues: Mapping[str, QueueAudit],
    told: Iterable[JobStanding],
    why: str,
) -> Iterator[OwedJob]:
    promised = {each.task_uid for each in result.promised()}
    longest_first = sorted(
        (standing for standing in told if standing.waits),
        key=lambda standing: (snapshot.job(standing.job).waits_since, standing.job),
    )
    for standing in longest_first:
        job = snapshot.job(standing.job)
        queue = queues.get(job.queue)
        if queue is None or not queue.is_leaf or not _any(queue.owed):
            continue
        if any(task.uid in promised for task in job.tasks):
            continue
        reasons = [result.pending[task.uid] for task in job.tasks if task.uid in result.pending]
        searches = next((each.evictions for each in reasons if each.evictions), ())
        yield OwedJob(queue=job.queue, standing=standing, searches=searches, why=why)
