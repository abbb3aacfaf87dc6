"""Areas: the domains of a topology as a tree of sets of nodes, and what jobs want of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from attrs import frozen

from batchsched.model.cluster import JobInfo
from batchsched.model.topology import Topology, TopologyRequest
from batchsched.plugin.candidates import NodeSet
from batchsched.state.needs import Need
from batchsched.state.records import NodeState, TaskState
from batchsched.state.vectors import Vector, dominant_share


class Area(NodeSet):
    """A domain, or all nodes of the root, or those nodes of an area that are in none of its parts.

    Its children are domains of the next level. Among equal areas, the first in `place` comes first.
    """

    __slots__ = (
        *("_at", "children", "is_rest", "is_tree", "level", "listed_in", "overlaps", "parent"),
        "place",
    )

    def __init__(
        self,
        name: str,
        nodes: Iterable[NodeState],
        level: int = -1,
        parent: Area | None = None,
        *,
        is_rest: bool = False,
    ) -> None:
        super().__init__(name, nodes)
        self.level = level
        """The position of its level in the topology; -1: the root. A rest has its parent's."""
        self.parent = parent
        self.children: list[Area] = []
        """The domains of the next level within it; the last may be the rest of its nodes."""
        self.is_rest = is_rest
        """Whether its nodes are in no domain of the next level."""
        self.overlaps = False
        """Whether some of its children have nodes in common."""
        self.listed_in: Area | None = None
        """The root, where domains are listed: they need not lie within those of a wider level."""
        self.is_tree = True
        """Whether each domain in it is in one of the next wider level, and no two overlap."""
        self.place = 0
        """Its position among all areas of the tree, each before its children."""
        self._at: dict[int, Sequence[Area]] = {}

    def at(self, level: int) -> Sequence[Area]:
        """Return the domains of a level within it; of its own level or a wider one, itself."""
        if level <= self.level:
            return (self,)
        found = self._at.get(level)
        if found is None:
            if self.listed_in is None:
                below = (
                    area for child in self.children if not child.is_rest for area in child.at(level)
                )
            else:
                there = () if self.listed_in is self else self.listed_in.at(level)
                below = (area for area in there if area.slots <= self.slots)
            found = self._at[level] = tuple(dict.fromkeys(below))
        return found

    def split_over(self) -> Sequence[Area]:
        """Return the areas that its tasks are split over; itself if it is not split."""
        return self.children if self.children and not self.overlaps else (self,)

    def path(self) -> Iterator[Area]:
        """Yield it and all areas around it."""
        area: Area | None = self
        while area is not None:
            yield area
            area = area.parent

    def domains(self) -> Iterator[Area]:
        """Yield all domains within it, those of wider levels first."""
        level = self.level + 1
        while (there := self.at(level)) or any(each > level for each in self._at):
            yield from there
            level += 1

    def list_at(self, level: int, domains: Iterable[Area]) -> None:
        """Set the domains of a level, where they need not lie within wider ones."""
        self._at[level] = tuple(domains)


def areas_of(topology: Topology, nodes: Iterable[NodeState]) -> Area:
    """Return the tree of a topology over some nodes. O(nodes x levels), and the listed domains."""
    root = Area("the cluster", nodes)
    if topology.domains:
        _list(topology, root)
    else:
        _grow(topology.levels, root, ())
        for place, area in enumerate(_downward(root)):
            area.place = place
    return root


def _downward(area: Area) -> Iterator[Area]:
    yield area
    for child in area.children:
        yield from _downward(child)


def _grow(levels: Sequence[str], area: Area, values: tuple[str, ...]) -> None:
    """Divide an area by the labels of its nodes."""
    if area.level + 1 == len(levels):
        return
    key = levels[area.level + 1]
    by_value: dict[str, list[NodeState]] = {}
    rest: list[NodeState] = []
    for node in area.nodes:
        value = node.info.labels.get(key)
        (rest if value is None else by_value.setdefault(value, [])).append(node)
    for value in sorted(by_value):
        named = (*values, value)
        child = Area("/".join(named), by_value[value], area.level + 1, area)
        _grow(levels, child, named)
        area.children.append(child)
    _add_rest(area, rest)


def _add_rest(area: Area, nodes: Sequence[NodeState]) -> None:
    if nodes and area.children:
        name = f"the rest of {area.name}"
        area.children.append(Area(name, nodes, area.level, area, is_rest=True))


def _list(topology: Topology, root: Area) -> None:
    """Arrange listed domains below those of the next wider level that contain them."""
    named = {node.name: node for node in root.nodes}
    above: Sequence[Area] = (root,)
    root.listed_in = root
    for level, name in enumerate(topology.levels):
        domains: list[Area] = []
        for place, listed in enumerate(topology.domains):
            nodes = [named[each] for each in listed.nodes if each in named]
            if listed.level == name and nodes:
                domains.append(Area(listed.name, nodes, level))
                domains[-1].place = place
                domains[-1].listed_in = root
        root.list_at(level, domains)
        if not domains:
            continue
        around: dict[int, list[Area]] = {}
        for area in above:
            for slot in area.slots:
                around.setdefault(slot, []).append(area)
        for domain in domains:
            for area in around.get(domain.nodes[0].slot, ()):
                if domain.slots <= area.slots:
                    domain.parent = domain.parent or area
                    area.children.append(domain)
            root.is_tree = root.is_tree and domain.parent is not None
        for area in above:
            slots = [slot for child in area.children for slot in child.slots]
            area.overlaps = len(set(slots)) < len(slots)
            root.is_tree = root.is_tree and not area.overlaps
            _add_rest(area, [node for node in area.nodes if node.slot not in set(slots)])
            if area.children and area.children[-1].is_rest:
                area.children[-1].place = len(topology.domains)
        above = domains
    for level in range(len(topology.levels)):
        for area in root.at(level):
            area.is_tree = root.is_tree


def lying_in(domains: Sequence[Area], bound: Sequence[Area] | None) -> Sequence[Area]:
    """Return the domains that lie in one of those that bind."""
    if bound is None:
        return domains
    return [area for area in domains if any(area.slots <= each.slots for each in bound)]


# What is wanted of them


@frozen(eq=False)
class Wanted:
    """What a need asks of one topology, within some nodes."""

    topology: str | None
    levels: Sequence[str]
    root: Area
    """The nodes, with the domains in them."""
    required: int
    """The position of the required level; -1: none is."""
    preferred: int
    """The position of the preferred level, or of the required one; -1: neither is given."""
    segments: Sequence[tuple[int, int]]
    """Size and level of each."""
    balanced: bool


def asks(job: JobInfo) -> bool:
    """Return whether a job asks anything of a topology, itself or in a group."""
    return next(requests_of(job), None) is not None


def requests_of(job: JobInfo) -> Iterator[TopologyRequest]:
    """Yield what a job asks, and what its groups do."""
    if job.topology is not None:
        yield job.topology
    for group in job.groups:
        if group.topology is not None:
            yield group.topology


def kinds_of(need: Need, cluster: Vector) -> Sequence[tuple[TaskState, ...]]:
    """Group tasks by what they ask for: the larger first, then the more numerous."""
    kinds: dict[tuple[Vector, Vector], list[TaskState]] = {}
    for task in need.tasks:
        kinds.setdefault((task.resreq, task.init_resreq), []).append(task)
    return [
        tuple(tasks)
        for tasks in sorted(
            kinds.values(),
            key=lambda tasks: (-dominant_share(tasks[0].init_resreq, cluster), -len(tasks)),
        )
    ]
