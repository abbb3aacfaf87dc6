"""The reasons why tasks are pending, as values; their text is built on demand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from attrs import evolve, field, frozen

from batchsched.causes import ConditionReason, UnfitReason, WhyPending, agreeing
from batchsched.model.cluster import Hold, TaskInfo
from batchsched.model.immutable import EMPTY, AsMap, AsTuple, FrozenMap
from batchsched.model.resources import Resource
from batchsched.model.texts import (
    amount_text,
    amounts_text,
    by_frequency,
    counted,
    counted_amount,
    first_of,
    level_word,
    listed,
    shown_amount,
)


@frozen(kw_only=True)
class QueueShare:
    """What a queue deserves, and what it has.

    >>> print(QueueShare(deserved=Resource(milli_cpu=2000), allocated=Resource(milli_cpu=2500)))
    it deserves 2 cpu and has 2.5 cpu
    """

    deserved: Resource
    allocated: Resource

    @property
    def text(self) -> str:
        """The share in one line."""
        deserved = amounts_text(self.deserved.dimensions())
        return f"it deserves {deserved} and has {amounts_text(self.allocated.dimensions())}"

    def __str__(self) -> str:
        return self.text


@frozen
class DevicesRefused:
    """Which request for devices is not served, and why devices are refused.

    >>> print(DevicesRefused("gpu", ['device.driver == "d"'], {"taken": 2, "tainted x": 1}))
    request gpu (device.driver == "d"): 2 taken, 1 tainted x
    >>> print(DevicesRefused("r", counts={"taken": 1}, asks_for_all=True))
    request r, which asks for all: 1 taken
    >>> print(DevicesRefused("r", unpublished="pcieRoot"))
    request r: no device publishes pcieRoot
    """

    request: str = ""
    """The first request that cannot be served beside those before it."""
    selectors: tuple[str, ...] = field(default=(), converter=AsTuple[str])
    """The selectors of the request, or of its first alternative."""
    counts: Mapping[str, int] = field(default=EMPTY, converter=AsMap[str, int])
    """How many devices are refused, by the first rule that refuses them: not selected, too small,
    taken, no counter, a taint by name, or a constraint with its attribute."""
    asks_for_all: bool = False
    """Whether the request is for all devices that its selectors accept."""
    unpublished: str = ""
    """An attribute that a constraint reads, and that none of the selected devices has."""
    part: str = ""
    """The part of a device that is asked for, in words, such as ``half``; empty: all of it."""
    number: int = 1
    """Of how many devices that part is asked for."""

    @property
    def words(self) -> str:
        """What nodes lack of which a part is asked for: ``have no GPU with half of it free``."""
        thing = "GPU" if self.request == "gpu" else f"device for request {self.request}"
        if self.number == 1:
            return f"have no {thing} with {self.part} of it free"
        return f"have fewer than {self.number} {thing}s with {self.part} of each free"

    @property
    def of_request(self) -> str:
        """The request in words."""
        # Which devices are counted by the node itself is no choice of anybody's.
        chosen = [each for each in self.selectors if each != 'device.driver == ""']
        selectors = f" ({' && '.join(chosen)})" if chosen else ""
        which = ", which asks for all" if self.asks_for_all else ""
        return f"request {self.request}{selectors}{which}"

    @property
    def counted(self) -> str:
        """How many devices are refused, as text."""
        told = [f"{count} {why}" for why, count in by_frequency(self.counts)]
        if self.unpublished:
            told.append(f"no device publishes {self.unpublished}")
        return ", ".join(told)

    def __str__(self) -> str:
        counted = self.counted
        return f"{self.of_request}: {counted}" if counted else self.of_request


def summed_refusals(counts: Mapping[Unfit, int]) -> Mapping[Unfit, int]:
    """Return numbers of nodes by reason, where the devices that they refuse are summed."""
    nodes: dict[Unfit, int] = {}
    refused: dict[Unfit, Counter[str]] = {}
    for unfit, count in counts.items():
        key = unfit
        if unfit.devices is not None:
            key = evolve(unfit, devices=evolve(unfit.devices, counts={}))
            of_reason = refused.setdefault(key, Counter())
            for why, number in unfit.devices.counts.items():
                of_reason[why] += number * count
        nodes[key] = nodes.get(key, 0) + count
    return {
        key
        if key.devices is None
        else evolve(key, devices=evolve(key.devices, counts=refused[key])): count
        for key, count in nodes.items()
    }


def _unfit_text(content: Mapping[Unfit, int], nodes: int = 0) -> str:
    """Return the reasons with their numbers; those that `nodes` nodes have together as one."""
    counts: dict[str, int] = {}
    lacking: dict[str, int] = {}
    for unfit, count in content.items():
        of_kind = lacking if unfit.reason is UnfitReason.INSUFFICIENT_RESOURCE else counts
        words = unfit.words
        of_kind[words] = of_kind.get(words, 0) + count
    once = nodes - sum(counts.values())
    if max(lacking.values(), default=0) <= once < sum(lacking.values()):
        counts[_together(lacking, once)] = once
    else:
        for words, count in lacking.items():
            counts[words] = counts.get(words, 0) + count
    ranked = by_frequency(counts)
    return ", ".join(f"{count} {agreeing(words, count)}" for words, count in ranked)


def _together(lacking: Mapping[str, int], nodes: int) -> str:
    """Return what some nodes lack of which some lack several things."""
    ranked = by_frequency(lacking)
    names = [words.removeprefix(_LACK) for words, _ in ranked]
    numbers = [count for _, count in ranked]
    if all(count == nodes for count in numbers):
        return _LACK + listed(names)
    if numbers[0] < nodes:
        return _LACK + listed([f"{n} ({c})" for n, c in zip(names, numbers, strict=True)], "or")
    more = [f"{c} of them {n} too" for n, c in zip(names[1:], numbers[1:], strict=True)]
    return f"{_LACK}{names[0]} ({', '.join(more)})"


_LACK = "lack free "


_NOTHING = Resource()


@frozen
class Refusal:
    """A rule that kept tasks from being evicted for another one, or a job from claiming any.

    >>> print(Refusal("minimum-runtime", 3, until=160))
    minimum-runtime: 3, until 160
    """

    rule: str
    """The rule, such as ``budget web`` or ``claim-delay``."""
    count: int
    """How many candidates it refuses; 0: the claim itself."""
    until: float | None = None
    """The earliest time at which it refuses one less, in seconds on the clock of the snapshot's
    `now`; None: no time ends it."""

    def __str__(self) -> str:
        return self.told(_number)

    def told(self, time: Callable[[float], str], /, *, rule: str = "") -> str:
        """Return the refusal as text, with times as a function tells them; `rule`: in its words."""
        many = f": {self.count}" if self.count else ""
        until = "" if self.until is None else f", until {time(self.until)}"
        return f"{rule or self.rule}{many}{until}"


def _number(seconds: float) -> str:
    return f"{seconds:.15g}"


@frozen(kw_only=True)
class EvictionReport:
    """A search for tasks to evict that found none, or too few.

    It describes the state of the cluster at the end of the cycle.

    >>> print(EvictionReport(
    ...     action="reclaim",
    ...     nodes=12,
    ...     candidates=21,
    ...     out={"protected by gang": 12, "covered by its queue's share": 7},
    ...     best_node="n3",
    ...     shortfall=Resource(scalars={"nvidia.com/gpu": 2000}),
    ... ))
    reclaim searched 12 nodes with 21 candidates: protected by gang: 12, \
covered by its queue's share: 7, would still be 2 GPUs short on n3
    """

    action: str
    """The action that searched, such as ``preempt``."""
    nodes: int
    """How many nodes it searched: those that the predicates accept.

    With `curable`, also those that reject the task only for reasons that evictions can remove.
    """
    candidates: int
    """How many running tasks on these nodes it could consider."""
    out: Mapping[str, int] = field(default=EMPTY, converter=AsMap[str, int])
    """How many candidates may not be evicted, by reason."""
    best_node: str = ""
    """The node with the smallest shortfall after evicting all allowed tasks; empty: no
    shortfall."""
    shortfall: Resource = _NOTHING
    """The resources that would still be missing on that node."""
    refusing: int = 0
    """How many searched nodes would still reject the task by a predicate."""
    refusing_elsewhere: int = 0
    """How many of these would accept it if tasks on other nodes left, too, as where it must not be
    in one zone with them: for a place on a node, only tasks on this node are evicted."""
    beside_promises: Mapping[Unfit, int] = field(default=FrozenMap(), converter=AsMap["Unfit", int])
    """How many nodes would accept the task if it were not for what was promised when it searched,
    to others of its job too, by reason: these were not searched."""

    refusals: tuple[Refusal, ...] = ()
    """The rules that refuse candidates, or the claim itself, as plugins name them."""
    most_moves: int | None = None
    """How many tasks it would let move at most, where it searched for tasks to move: those that may
    not are in `out`. None: it searched for tasks to evict."""
    tries: int | None = None
    """How many tries it had, where it ended with the last of them and not because nothing serves.
    """

    @property
    def text(self) -> str:
        """The report in one line."""
        return self.told(_number)

    def told(self, time: Callable[[float], str], /) -> str:
        """Return the report in one line, with times as a function tells them."""
        if self.refusals and not self.refusals[0].count:
            refusal = self.refusals[0]
            why = refusal.told(time, rule=_OF_CLAIMS.get(refusal.rule, ""))
            return f"{self.action} may evict nobody for it: {why}"
        ending = [refusal for refusal in self.refusals if refusal.until is not None]
        parts: list[str] = []
        for why, count in by_frequency(self.out):
            rules = why, why.partition(" (")[0]
            found = next((each for each in ending if each.rule in rules), None)
            part = f"{why}: {count}"
            if found is not None:
                ending.remove(found)
                part = found.told(time, rule=why) if found.count == count else part
            parts.append(part)
        if self.best_node:
            short = amounts_text(self.shortfall.dimensions())
            parts.append(f"would still be {short} short on {self.best_node}")
        if self.refusing:
            text = f"{counted(self.refusing, 'node')} would still refuse it"
            elsewhere = self.refusing_elsewhere
            if elsewhere:
                text += f", {elsewhere} of them for tasks on other nodes, which stay"
            parts.append(text)
        if self.beside_promises:
            parts.append(f"beside what is promised, {_unfit_text(self.beside_promises)}")
        if self.tries is not None:
            parts.append(f"ended after {self.tries:,} tries")
        elif self.most_moves is not None and not self.best_node:
            parts.append(f"needs more than {counted(self.most_moves, 'move')}, or more places")
        text = f"{self.action} searched {counted(self.nodes, 'node')} "
        text += f"with {counted(self.candidates, 'candidate')}"
        return f"{text}: {', '.join(parts)}" if parts else text

    def __str__(self) -> str:
        return self.text


@frozen(kw_only=True)
class QueueExcess:
    """An amount that is more than a queue, or all queues together, may hold.

    >>> excess = QueueExcess(queue="a", dimension="cpu", would_hold=3000, most=2000)
    >>> print(over_limit(excess, "capacity").text)
    queue 'a' would hold 3 cpu, 1 more than its limit
    """

    dimension: str
    would_hold: int
    """What would be held of it, in the unit of a `Resource`."""
    most: int
    """What may be held of it."""
    queue: str = ""
    """The name of the queue; empty: all queues together, where guarantees count as held."""
    held: int | None = None
    """What the queue holds of it now, for claims."""

    def text(self, than: str) -> str:
        """Return the excess in one line; `than` says what it exceeds."""
        name, amount = self.dimension, self.would_hold
        who = f"queue {self.queue!r}" if self.queue else "with guarantees, queues"
        would = counted_amount(name, amount)
        return (
            f"{who} would hold {would}, {shown_amount(name, amount - self.most)} more than {than}"
        )


@frozen(kw_only=True)
class NoDomain:
    """No domain of the level that a job, or a group of it, requires holds what it needs.

    >>> causes = {"too little gpu": 7, "refused": 3, "fragmented": 2}
    >>> print(NoDomain(
    ...     topology="net", level="example.com/rack", domains=12, best=6, needed=8, causes=causes))
    no rack has room for 8 tasks; the roomiest has room for 6 (of 12 racks, 7 have too little gpu, \
3 refuse its tasks, 2 are fragmented)
    >>> print(NoDomain(level="rack", needed=1, home=2))
    its tasks are in 2 racks
    """

    topology: str | None = None
    """The name of the topology; None: the level is the key of a node label by itself."""
    level: str
    domains: int = 0
    """How many domains of the level were open to it."""
    best: int = 0
    """The most of the tasks that one of them holds together now."""
    needed: int
    """How many tasks must be in one domain."""
    causes: Mapping[str, int] = field(default=EMPTY, converter=AsMap[str, int])
    """How many domains do not hold them because of what: no node accepts any (``refused``), too
    little of a dimension is free in sum (``too little gpu``), or it is ``fragmented``."""
    home: int | None = None
    """In how many domains tasks of it are already, if not in one; None: in one, or none are."""
    group: str = ""
    """The group of the job that they are of; empty: the job as a whole."""
    segment: int = 0
    """How many of them must be in one domain of a narrower level each; 0: they are not cut."""
    segment_level: str = ""
    """That level."""

    @property
    def what(self) -> str:
        """What must be in one domain, in words.

        >>> print(NoDomain(level="block", needed=4, segment=2, segment_level="rack").what)
        2 slices of 2 tasks, each in one rack
        >>> print(NoDomain(level="rack", needed=4, group="workers").what)
        4 tasks of group workers
        """
        text = counted(self.needed, "task")
        if self.segment:
            text = f"{counted(self._slices, 'slice')} of {counted(self.segment, 'task')}"
        if self.group:
            text += f" of group {self.group}"
        return f"{text}, each in one {level_word(self.segment_level)}" if self.segment else text

    @property
    def is_of_segments_alone(self) -> bool:
        """Whether each segment may be in any domain of the level, wherever the others are."""
        return bool(self.segment) and self.segment_level == self.level

    @property
    def held(self) -> int:
        """How much of that the roomiest domain holds: whole segments, if it is cut into these."""
        return self.best // self.segment if self.segment else self.best

    @property
    def _slices(self) -> int:
        return -(-self.needed // self.segment)

    @property
    def text(self) -> str:
        """The reason in one line."""
        level = level_word(self.level)
        if self.home is not None:
            where = f"{self.home:,} {level_word(self.level, self.home)}"
            return f"its tasks are in {where if self.home else f'no {level}'}"
        if not self.domains:
            return f"no node is in a {level}"
        tasks = self.what
        if self.is_of_segments_alone:
            has = f"{self.held or 'none'} of {tasks.replace(', each', '')}"
            return f"{has} {'have' if self.held > 1 else 'has'} room"
        text = f"no {level} has room for {tasks}"
        roomiest = "the roomiest"
        if self.domains == 1:
            text, roomiest = f"the only {level} has no room for {tasks}", "it"
        if self.held:
            text += f"; {roomiest} has room for {self.held:,}"
        elif self.needed > 1:
            text += ", nor for one of them"
        ranked = by_frequency(self.causes)
        causes = ", ".join(f"{count:,} {_cause_text(cause, count)}" for cause, count in ranked)
        if self.domains == 1:
            causes = causes.removeprefix("1 ")
        elif len(ranked) == 1 and ranked[0][1] == self.domains:
            number, _, does = causes.partition(" ")
            causes = f"{'both' if self.domains == 2 else f'all {number}'} {does}"  # noqa: PLR2004
        elif causes:
            causes = f"of {self.domains:,} {level_word(self.level, self.domains)}, {causes}"
        return f"{text} ({causes})" if causes else text

    def __str__(self) -> str:
        return self.text


def _cause_text(cause: str, count: int) -> str:
    """Return what `count` domains do that hold too few tasks because of a cause."""
    one = count == 1
    if cause == "refused":
        return "refuses its tasks" if one else "refuse its tasks"
    if cause == "fragmented":
        return "is fragmented" if one else "are fragmented"
    return f"{'has' if one else 'have'} {cause}"


@frozen(cache_hash=True)
class Unfit:
    """The reason why a node does not accept a task.

    >>> Unfit(UnfitReason.INSUFFICIENT_RESOURCE, detail="nvidia.com/gpu").text
    'lacks free GPUs'
    """

    reason: UnfitReason
    plugin: str = ""
    """The plugin that refused; empty for reasons of the session itself."""
    detail: str = ""
    """The resource that is insufficient, the UID of the job that comes first, or a message."""
    queue: str = ""
    """The queue that may not take the task, where one queue is the reason."""
    excess: QueueExcess | None = None
    """The amount that is more than a limit, a fair share or the guarantees leave."""
    beyond_deserved: QueueExcess | None = None
    """For a claim that exceeds the fair share: what is more than the queue deserves."""
    no_domain: NoDomain | None = None
    """Of no domain of a topology: the level, and how much the domains hold."""
    devices: DevicesRefused | None = None
    """The request for devices that is not served, if that is the reason."""

    @property
    def text(self) -> str:
        """The reason as text; where it is of nodes, what one of them does."""
        return agreeing(self.words, 1)

    @property
    def words(self) -> str:
        """The reason as text; where it is of nodes, what several of them do."""
        detail = self.detail if self.no_domain is None else self.no_domain.text
        if self.reason is UnfitReason.INSUFFICIENT_RESOURCE and detail.rpartition("/")[2] == "gpu":
            detail = "GPUs"
        if self.devices is not None:
            if self.devices.part and self.reason is UnfitReason.DEVICES_TAKEN:
                return self.devices.words
            detail = str(self.devices)
        return self.reason.words.format(detail=detail, plugin=self.plugin)


def over_limit(excess: QueueExcess, plugin: str, alone: int = 0) -> Unfit:
    """Return the refusal of a queue that would exceed its limit, or what guarantees leave.

    `alone`: what is asked for, without what the queue has.
    """
    detail = excess.text("its limit" if excess.queue else "there is")
    if excess.queue and alone > excess.most:
        asked = counted_amount(excess.dimension, alone)
        most = shown_amount(excess.dimension, excess.most)
        detail = f"{asked} exceed the limit of {most} of queue {excess.queue!r}"
    return Unfit(UnfitReason.QUEUE_LIMIT, plugin, detail, excess.queue, excess)


def over_guarantees(excess: QueueExcess, plugin: str) -> Unfit:
    """Return the refusal of a queue that would use what is guaranteed to others."""
    detail = excess.text("what it deserves beside unused guarantees")
    return Unfit(UnfitReason.QUEUE_LIMIT, plugin, detail, excess.queue, excess)


def over_unpreemptible(excess: QueueExcess, plugin: str) -> Unfit:
    """Return the refusal of a queue whose jobs that are not preemptible would exceed its quota."""
    detail = excess.text("what it deserves for jobs that are not preemptible")
    return Unfit(UnfitReason.BEYOND_QUOTA, plugin, detail, excess.queue, excess)


def over_unreclaimable(excess: QueueExcess, plugin: str) -> Unfit:
    """Return the refusal of a queue that would keep more than its quota: it is not reclaimable."""
    detail = f"{excess.text('its quota')}, and nothing is reclaimed from it"
    return Unfit(UnfitReason.NEVER_LENT, plugin, detail, excess.queue, excess)


def over_share(excess: QueueExcess, plugin: str, deserved: QueueExcess | None = None) -> Unfit:
    """Return the refusal of a claim by which a queue would exceed its fair share.

    Args:
        excess: what is more than its share.
        plugin: the plugin that refuses.
        deserved: what is more than it deserves, if it deserves anything of that dimension.

    >>> share = QueueExcess(queue="a", dimension="gpu", would_hold=5000, most=4000, held=4000)
    >>> print(over_share(share, "capacity", share).text)
    queue 'a' would hold 5 GPUs, 1 more than its share of 4; what it deserves, 4, is met

    """
    detail = excess.text(f"its share of {shown_amount(excess.dimension, excess.most)}")
    if deserved is not None:
        detail += f"; {_beyond_deserved_text(excess, deserved)}"
    return Unfit(
        UnfitReason.ABOVE_FAIR_SHARE, plugin, detail, excess.queue, excess, beyond_deserved=deserved
    )


def _beyond_deserved_text(excess: QueueExcess, deserved: QueueExcess) -> str:
    name, most = deserved.dimension, deserved.most
    shown = shown_amount if name == excess.dimension else counted_amount
    what = f"what it deserves, {shown(name, most)}"
    if deserved.held is not None and deserved.held >= most:
        return f"{what}, is met"
    return f"{what}, would be exceeded by {shown_amount(name, deserved.would_hold - most)}"


def claims_no_backfill(queue: str, plugin: str) -> Unfit:
    """Return the refusal of a claim for backfill tasks, which no share is charged for."""
    detail = f"queue {queue!r} claims nothing for backfill tasks"
    return Unfit(UnfitReason.ABOVE_FAIR_SHARE, plugin, detail, queue)


def minimum_on_loan(queue: str, plugin: str) -> Unfit:
    """Return the refusal of a claim by a queue to which the job's own minimum is lent."""
    detail = f"queue {queue!r} has the minimum of the job on loan"
    return Unfit(UnfitReason.ABOVE_FAIR_SHARE, plugin, detail, queue)


@frozen
class NodeTally:
    """How many nodes could accept a task now, and how many could not, by reason.

    A node with several insufficient resources counts once for each of them, though the text has
    it once; otherwise only the first reason of a node counts.

    >>> short = Unfit(UnfitReason.INSUFFICIENT_RESOURCE, detail="cpu")
    >>> print(NodeTally(total=4, available=0, unfit={short: 3, Unfit(UnfitReason.RESERVED): 1}))
    0/4 nodes are available: 3 lack free cpu, 1 is reserved for other tasks
    >>> too = Unfit(UnfitReason.INSUFFICIENT_RESOURCE, detail="memory")
    >>> print(NodeTally(total=4, available=1, unfit={short: 3, too: 2}).unfit_text)
    3 lack free cpu (2 of them memory too)
    """

    total: int
    """The number of nodes."""
    available: int
    """The number of nodes on which the task could start now."""
    unfit: Mapping[Unfit, int] = field(default=FrozenMap(), converter=AsMap[Unfit, int])
    """The number of nodes on which it could not, by reason."""

    @property
    def text(self) -> str:
        """The tally in one line; the most frequent reasons first."""
        head = f"{self.available}/{self.total} nodes are available"
        return f"{head}: {self.unfit_text}" if self.unfit else head

    @property
    def unfit_text(self) -> str:
        """What keeps the task from nodes, the most frequent first."""
        return _unfit_text(self.unfit, self.total - self.available)

    def __str__(self) -> str:
        return self.text


@frozen(kw_only=True)
class MemberCount:
    """How many members a job, or a group of it, has of those that it needs."""

    has: int
    """How many are ready, or can ever start, depending on the reason."""
    needs: int
    """Its minimum."""
    group: str = ""
    """The name of the group; empty: the job as a whole."""
    of_groups: bool = False
    """Whether its members are groups."""

    def can_start_text(self, job: str) -> str:
        """Return how many members can ever start; `job` is the word for the job in the text."""
        owner = f"group {self.group!r}" if self.group else job
        members = "groups" if self.of_groups else "tasks"
        return f"{self.has} of the {self.needs} {members} that {owner} needs can start"

    @property
    def ready_text(self) -> str:
        """How many members are ready, as text."""
        if self.group:
            return f"group {self.group!r} has {self.has} of the {self.needs} that it needs"
        return f"{self.has} of the {self.needs} tasks that must start together are ready"


_MOST_NAMED = 3


@frozen(kw_only=True)
class PlannedWait:
    """What a job waits for by its plan, or if no start could be planned.

    >>> print(PlannedWait(dimension="gpu", amount=2000, start=60, freed_by=("a",)))
    waits for 2 GPUs; planned for t = 60, when a is expected to end
    """

    dimension: str
    """The one in which it needs the largest part of the cluster."""
    amount: int
    """What it needs of it at once, in the unit of a `Resource`."""
    start: float | None = None
    """When it is planned to start, in seconds; None: at no time."""
    is_now: bool = False
    """Whether that is the time of the cycle."""
    freed_by: tuple[str, ...] = ()
    """The names of jobs, or of tasks without one, that are expected to end then; sorted."""
    window: float | None = None
    """How far ahead, in seconds, a start was looked for; None: without limit."""

    @property
    def text(self) -> str:
        """The wait in one line."""
        amount = amount_text(self.dimension, self.amount)
        if self.start is not None:
            return f"waits for {amount}; {self._when(self.start)}"
        if self.window is not None:
            within = f"within {self.window:g} s from now"
            return f"waits for {amount}, which are not free together {within}"
        return f"waits for {amount}, which are never free together, by what is expected to end"

    def _when(self, start: float) -> str:
        when = "planned to start at once" if self.is_now else f"planned for t = {start:.12g}"
        if not self.freed_by:
            return when
        names = first_of(self.freed_by, _MOST_NAMED)
        are = "is" if len(self.freed_by) == 1 else "are"
        if self.is_now:
            return f"{when}, as soon as {names} {are} gone"
        return f"{when}, when {names} {are} expected to end"

    def __str__(self) -> str:
        return self.text


@frozen
class PendingReason:
    """Why a task is pending, at the end of the cycle."""

    why: WhyPending
    tally: NodeTally | None = None
    """The outcome for each node, where nodes were evaluated."""
    detail: str = ""
    """An explanation, where the tally is not the reason; the fields below have its facts."""
    held_by: tuple[str, ...] = ()
    """UIDs of jobs that are not ready and hold, or were promised, resources that it needs."""
    held_on: str = ""
    """The node where a broken job runs that holds the room, if the task's own job is broken too."""
    share: QueueShare | None = None
    """What its queue deserves and has, where that is the reason."""
    evictions: tuple[EvictionReport, ...] = ()
    """Why actions that searched for tasks to evict for it found none, or too few.

    Only the most important jobs have these reports; see `EvictionReport`.
    """
    behind_task: str = ""
    """The UID of the task of its job that could not be placed before it."""
    behind_job: str = ""
    """The UID of the job of its queue that comes before its job and is waiting."""
    too_large: bool = False
    """Whether the task would not fit on any node if the node were empty."""
    out_of_reach: MemberCount | None = None
    """What its job, or a group of it, has of the tasks that it needs and that can ever start."""
    lacking: str = ""
    """The resource of which there was not enough in all when it was tried, if a node has room."""
    refusal: Unfit | None = None
    """Why its queue may not take it or, for a claim, may not reclaim resources for it."""
    plan: PlannedWait | None = None
    """What its job waits for, where that was planned."""
    holds: tuple[Hold, ...] = ()
    """What holds it, its job or its queue, or the tasks without which its job cannot start."""
    taken_for: str = ""
    """The UID of the job for which its place was taken back."""

    @property
    def text(self) -> str:
        """The reason in one line."""
        tally = "" if self.tally is None else self.tally.text
        if self.why is WhyPending.GANG_INCOMPLETE and self.tally and self.tally.available:
            tally = f"alone it could start on {self.tally.available} of {self.tally.total} nodes"
        parts = [self.detail, tally]
        if self.why is WhyPending.NO_NODE:
            parts.reverse()
        if self.share is not None:
            parts[0] += f": {self.share.text}"
        if self.held_by:
            parts.insert(0, _held_text(self.held_by))
        parts += [report.text for report in self.evictions]
        return "; ".join(part for part in parts if part) or self.why.value

    def __str__(self) -> str:
        return self.text


def not_reached(before: TaskInfo) -> PendingReason:
    """Return the reason of tasks behind one of their job that found no node."""
    detail = f"task {before.display_name!r} of its job could not be placed before it"
    return PendingReason(WhyPending.NOT_REACHED, detail=detail, behind_task=before.uid)


def waits_for_leader(leader: TaskInfo, tally: NodeTally) -> PendingReason:
    """Return the reason of a task that no node accepts before another one of its job is there."""
    detail = f"it waits for task {leader.display_name!r} of its job, which it must be near"
    return PendingReason(WhyPending.NOT_REACHED, tally, detail, behind_task=leader.uid)


MINIMUM_RUNTIME = "minimum-runtime"
"""The rule that keeps what has started recently, of the plugin ``protection`` or of an action."""
NEVER_PREEMPTS = "never-preempts"
"""The rule that lets no tasks be evicted for a job that says so of itself."""
CLAIM_DELAY = "claim-delay"
"""The rule that lets no tasks be evicted for a job before it has waited long enough."""
_OF_CLAIMS = {
    NEVER_PREEMPTS: "it never preempts (preemptionPolicy Never)",
    CLAIM_DELAY: "it has not waited long enough (claim-delay)",
}
"""The rules that refuse claims themselves, in words."""
NOT_RECLAIMABLE = "queue-not-reclaimable"
"""The rule that keeps what is in or below a queue that is not reclaimable."""


def not_reclaimable(queue: str) -> str:
    """Return why tasks are not reclaimed that are in or below a queue that does not allow it."""
    return f"queue {queue} is not reclaimable"


def holds_text(holds: Iterable[Hold]) -> str:
    """Return what holds say, each text once."""
    return "; ".join(dict.fromkeys(hold.text for hold in holds))


def waits_by_plan(wait: PlannedWait) -> PendingReason:
    """Return the reason of a job's tasks for which a start was planned, or could not be."""
    why = WhyPending.NEVER_FITS if wait.start is None else WhyPending.PLANNED
    return PendingReason(why, detail=wait.text, plan=wait)


def out_of_reach(lacking: MemberCount) -> PendingReason:
    """Return the reason of a task whose job, or a group of it, has too few that can start."""
    detail = lacking.can_start_text("its job")
    return PendingReason(WhyPending.GANG_INCOMPLETE, detail=detail, out_of_reach=lacking)


NOT_CONSIDERED = PendingReason(
    WhyPending.NOT_CONSIDERED, detail="no action of the cycle considered it"
)
WAITS_FOR_PROMISES = PendingReason(
    WhyPending.NOT_CONSIDERED,
    detail="its job tries more tasks once it has received what it was promised",
)
WAITS_FOR_BACKFILL = PendingReason(
    WhyPending.GANG_INCOMPLETE,
    detail="its job also needs tasks without requests, which only backfill places",
)


def _held_text(jobs: tuple[str, ...]) -> str:
    if len(jobs) == 1:
        return f"the room that it needs is held by job {jobs[0]!r}, which is not ready"
    names = ", ".join(map(repr, jobs))
    return f"the room that it needs is held by the jobs {names}, which are not ready"


@frozen(kw_only=True)
class PlacementFailure:
    """Why no place was found for the first task of a job that was tried in vain.

    It has a refusal, the name of the task, a tally, or what holds tasks that the job needs.
    """

    refusal: Unfit | None = None
    """Why its queue may not take the task, or not everything that its job needs at once."""
    task: str = ""
    """The name of the task, if there was no room when it was tried, and there is now."""
    tally: NodeTally | None = None
    """Why the nodes do not accept it at the end of the cycle."""
    holds: tuple[Hold, ...] = ()
    """What holds tasks of the job, without which it lacks its minimum."""

    def text(self, when: str) -> str:
        """Return the failure as text; `when` says when the task was tried."""
        if self.refusal is not None:
            if self.refusal.reason is UnfitReason.INSUFFICIENT_RESOURCE:
                lacking = self.refusal.detail
                return f"there is not enough {lacking} for everything that it needs at once"
            return self.refusal.text
        if self.tally is not None:
            return self.tally.text
        if self.holds:
            return holds_text(self.holds)
        return f"no node had room for task {self.task!r} {when}"


@frozen
class JobCondition:
    """The Unschedulable condition of a job."""

    reason: ConditionReason
    message: str
    """An explanation; the fields below have its facts."""
    plugin: str = ""
    """The plugin that reported it; empty for conditions of the session itself."""
    counts: tuple[MemberCount, ...] = ()
    """What the job has and needs, and then the first of its groups that lacks members."""
    undone: int = 0
    """How many of its tasks were placed, but rolled back since not enough others were."""
    failure: PlacementFailure | None = None
    """Why no place was found for the first of its tasks that was tried in vain."""

    def __str__(self) -> str:
        return f"{self.reason.value}: {self.message}"


def queue_unknown(queue: str) -> JobCondition:
    """Return the condition of a job whose queue is not in the snapshot."""
    return JobCondition(ConditionReason.QUEUE_UNKNOWN, f"queue {queue!r} is not in the snapshot")


def queue_not_leaf(queue: str, below: str) -> JobCondition:
    """Return the condition of a job whose queue has others below it; `below` is one of them."""
    message = (
        f"queue {queue!r} has other queues below it, such as {below!r}; a job must name a leaf"
    )
    return JobCondition(ConditionReason.QUEUE_NOT_LEAF, message)


def not_enough_tasks(lacking: MemberCount, plugin: str) -> JobCondition:
    """Return the condition of a job that has too few tasks that can ever start."""
    message = lacking.can_start_text("it")
    return JobCondition(ConditionReason.NOT_ENOUGH_TASKS, message, plugin, (lacking,))


def not_enough_ready(counts: tuple[MemberCount, ...], plugin: str) -> JobCondition:
    """Return the condition of a job with too few ready tasks, and of its group if it has one."""
    message = "; ".join(count.ready_text for count in counts)
    return JobCondition(ConditionReason.NOT_ENOUGH_RESOURCES, message, plugin, counts)
