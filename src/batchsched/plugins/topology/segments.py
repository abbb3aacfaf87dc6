"""Segments that are assigned to domains one by one, and tried so.

Where tasks are not alike, where one has gone, or where tasks of several segments must share a
domain of another topology, no count says which domain takes which segment. Domains are then chosen
depth first: those segments first that have the fewest, and for each the one that it fills most.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from operator import attrgetter

from attrs import define, fields_dict, frozen

from batchsched.model.cluster import TaskInfo
from batchsched.plugin.candidates import NodeSet, Part
from batchsched.plugins.topology.areas import Area
from batchsched.state.records import NodeState, TaskState
from batchsched.state.vectors import Vector, minus, total_of

_OWN = {"uid", "name", "creation_time", "index"}
_read_of = attrgetter(*(name for name in fields_dict(TaskInfo) if name not in _OWN))


@frozen(eq=False)
class Cut:
    """What is to be placed of a segment."""

    tasks: tuple[TaskState, ...]
    level: int
    """The position of the level of which one domain must hold it."""
    size: int
    """How many tasks a whole segment has."""
    home: Sequence[NodeState] = ()
    """The nodes that others of the segment are on."""
    parts: Sequence[Cut] = ()
    """The narrower segments in it."""


@frozen(eq=False)
class Together:
    """Tasks, of any segments, that must share a domain of another topology."""

    tasks: frozenset[TaskState]
    domains: Sequence[Area]
    """The domains that are tried, the first one first."""


def cut(
    tasks: Sequence[TaskState],
    home: Sequence[TaskState],
    number: Mapping[str, int],
    segments: Sequence[tuple[int, int]],
) -> Sequence[Cut]:
    """Return the segments that tasks are in, in order of their numbers.

    Args:
        tasks: the tasks to place, in order of their numbers.
        home: the tasks that are placed already.
        number: the number of each task, by UID.
        segments: size and level of the segments, from the widest level to the narrowest.

    """
    if not segments:
        return ()
    (size, level), *further = segments
    by_segment: dict[int, list[TaskState]] = {}
    for task in tasks:
        by_segment.setdefault(number[task.uid] // size, []).append(task)
    found: list[Cut] = []
    for place, some in by_segment.items():
        others = [task for task in home if number[task.uid] // size == place]
        nodes = [task.node for task in others if task.node is not None]
        found.append(Cut(tuple(some), level, size, nodes, cut(some, others, number, further)))
    return found


def are_counted(cuts: Sequence[Cut]) -> bool:
    """Return whether places can be counted for some segments: one may be short, no narrower one.

    What has begun is counted if the narrowest segment that each task is in has begun.
    """
    if any(each.parts for each in cuts):
        return all(_has_begun_below(each) if each.home else _is_whole(each) for each in cuts)
    return sum(not each.home and len(each.tasks) < each.size for each in cuts) <= 1


def _is_whole(segment: Cut) -> bool:
    return len(segment.tasks) == segment.size and all(map(_is_whole, segment.parts))


def _has_begun_below(segment: Cut) -> bool:
    return bool(segment.home) and all(map(_has_begun_below, segment.parts))


def short_ones_last(cuts: Sequence[Cut]) -> Sequence[TaskState]:
    """Return the tasks of segments that have not begun: those of whole ones, then the others."""
    new = [each for each in cuts if not each.home]
    return [
        task for each in sorted(new, key=lambda c: len(c.tasks) < c.size) for task in each.tasks
    ]


def begun(cuts: Sequence[Cut]) -> Iterator[Cut]:
    """Yield the segments of which others are placed already, the wider ones first."""
    for each in cuts:
        if each.home:
            yield each
            yield from begun(each.parts)


@define(eq=False)
class _Choice:
    """A segment, and the domain that is tried."""

    segment: Cut
    around: _Choice | None
    """The segment that it is in."""
    request: Vector
    kinds: Sequence[tuple[Hashable, TaskState, int]]
    """What tasks of it ask for, with the first such task and how many there are."""
    like: Hashable
    """The same for segments that are alike: to exchange their domains is to try the same again."""
    chosen: Area | None = None


class Assignments:
    """Finds domains for segments within an area."""

    def __init__(
        self,
        free: Callable[[Area], Vector],
        accepts: Callable[[TaskState, Sequence[NodeState]], bool],
        most_in: Callable[[TaskState, Area], int | None],
        largest_first: Callable[[Sequence[TaskState]], Sequence[TaskState]],
        tries: int,
    ) -> None:
        """Begin.

        Args:
            free: returns what an area has free, in each dimension.
            accepts: returns whether a task, were it alone, would fit on any of some nodes.
            most_in: returns how many tasks like one an area holds; None: that is not known.
            largest_first: puts tasks into the order in which they are placed.
            tries: how many assignments are tried at most.

        """
        self._free = free
        self._accepts = accepts
        self._most_in = most_in
        self._largest_first = largest_first
        self._tries = tries
        self._left: dict[Area, Vector] = {}
        self._most: dict[tuple[Hashable, Area], int | None] = {}
        self._given: Counter[tuple[Hashable, Area]] = Counter()
        """How many tasks of a kind are in segments for which a domain is chosen."""
        self._accepted: dict[tuple[Hashable, NodeSet, NodeSet | None], bool] = {}
        self._shared: Mapping[TaskState, Area] = {}
        """The domains that tasks are to share with others, by task."""
        self._dead_ends = 0
        """How often there may still be no domain left for a segment before it is given up."""

    def within(
        self, area: Area, cuts: Sequence[Cut], together: Sequence[Together] = ()
    ) -> Iterator[Sequence[Part]]:
        """Yield assignments, each as parts; as many as it tries."""
        choices = self._in_order(area, cuts, together)
        left, self._dead_ends = self._tries, self._tries * len(choices)
        for self._shared in _shared(together):
            for _ in self._assign(choices, 0, area, {}):
                yield [part for each in choices for part in self._parts_of(each)]
                left -= 1
                if not left:
                    return
            if self._dead_ends <= 0:
                return

    def _in_order(
        self, area: Area, cuts: Sequence[Cut], together: Sequence[Together]
    ) -> Sequence[_Choice]:
        """Return what is to be chosen: first the segments that the fewest domains take."""
        choices: list[_Choice] = []

        def add(segment: Cut, around: _Choice | None) -> None:
            zero = (0,) * len(segment.tasks[0].init_resreq)
            request = total_of([task.init_resreq for task in segment.tasks], zero)
            like: Hashable = segment
            if not segment.home:
                kinds = Counter(
                    (_read_of(task.info), *[task in each.tasks for each in together])
                    for task in segment.tasks
                )
                like = around, segment.level, frozenset(kinds.items())
            first: dict[Hashable, TaskState] = {}
            for task in segment.tasks:
                first.setdefault(_read_of(task.info), task)
            numbers = Counter[Hashable](_read_of(task.info) for task in segment.tasks)
            alike = [(kind, task, numbers[kind]) for kind, task in first.items()]
            choice = _Choice(segment, around, request, alike, like)
            choices.append(choice)
            for part in segment.parts:
                add(part, choice)

        outer: list[list[_Choice]] = []
        for segment in cuts:
            choices = []
            add(segment, None)
            outer.append(choices)
        outer.sort(key=lambda each: len(self._domains(each[0], area)))
        return [choice for each in outer for choice in each]

    def _assign(
        self,
        choices: Sequence[_Choice],
        place: int,
        area: Area,
        spent: Mapping[Hashable, frozenset[Area]],
    ) -> Iterator[None]:
        """Choose for all segments from one on, and yield each time that all are chosen.

        `spent`: by segments that are alike, the domains that were tried for one before.
        """
        if place == len(choices):
            yield
            return
        choice = choices[place]
        there = area if choice.around is None else choice.around.chosen
        assert there is not None
        tried = spent.get(choice.like, frozenset())
        domains = [domain for domain in self._domains(choice, there) if domain not in tried]
        if not domains:
            self._dead_ends -= 1
        for domain in domains:
            before, choice.chosen = self._left[domain], domain
            self._left[domain] = minus(before, choice.request)
            given = {(kind, domain): count for kind, _, count in choice.kinds}
            self._given.update(given)
            yield from self._assign(choices, place + 1, area, {**spent, choice.like: tried})
            self._left[domain] = before
            self._given.subtract(given)
            if self._dead_ends <= 0:
                return
            tried |= {domain}

    def _domains(self, choice: _Choice, there: Area) -> Sequence[Area]:
        """Return the domains that may take a segment, those first that it fills most."""
        segment, ranked = choice.segment, list[tuple[float, int, Area]]()
        for domain in there.at(segment.level):
            has = self._left.get(domain)
            if has is None:
                has = self._left[domain] = self._free(domain)
            asked = [(r, h) for r, h in zip(choice.request, has, strict=True) if r]
            if (
                all(r <= h for r, h in asked)
                and all(node.slot in domain.slots for node in segment.home)
                and all(self._may_take(domain, task) for task in segment.tasks)
                and all(self._has_places(domain, *kind) for kind in choice.kinds)
            ):
                fill = max((r / h for r, h in asked), default=0.0)
                ranked.append((-fill, domain.place, domain))
        return [domain for *_, domain in sorted(ranked, key=lambda each: each[:2])]

    def _may_take(self, domain: Area, task: TaskState) -> bool:
        shared = self._shared.get(task)
        key = _read_of(task.info), domain, shared
        known = self._accepted.get(key)
        if known is None:
            known = self._accepted[key] = self._accepts(task, _common(domain, shared).nodes)
        return known

    def _has_places(self, domain: Area, kind: Hashable, task: TaskState, count: int) -> bool:
        """Return whether a domain has places for some like tasks, as far as that is known."""
        if (kind, domain) not in self._most:
            self._most[kind, domain] = self._most_in(task, domain)
        most = self._most[kind, domain]
        return most is None or self._given[kind, domain] + count <= most

    def _parts_of(self, choice: _Choice) -> Iterator[Part]:
        """Yield the parts of a segment without narrower ones."""
        if choice.segment.parts or choice.chosen is None:
            return
        by_domain: dict[Area | None, list[TaskState]] = {}
        for task in self._largest_first(choice.segment.tasks):
            by_domain.setdefault(self._shared.get(task), []).append(task)
        for shared, tasks in by_domain.items():
            yield Part(tuple(tasks), _common(choice.chosen, shared))


def _shared(together: Sequence[Together]) -> Iterator[Mapping[TaskState, Area]]:
    """Yield the domains that tasks may share, by task."""
    if not together:
        yield {}
        return
    first, *others = together
    for domain in first.domains:
        for shared in _shared(others):
            yield {**shared, **dict.fromkeys(first.tasks, domain)}


def _common(domain: Area, shared: Area | None) -> NodeSet:
    if shared is None or domain.slots <= shared.slots:
        return domain
    nodes = [node for node in domain.nodes if node.slot in shared.slots]
    return NodeSet(f"{domain.name} in {shared.name}", nodes)
