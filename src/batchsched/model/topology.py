"""Topologies: how nodes are grouped into racks, blocks and the like, and what gangs ask of that."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from attrs import evolve, field, frozen

from batchsched.model.immutable import AsTuple


@frozen
class Domain:
    """A set of nodes that is listed in a `Topology` whose levels are not node labels."""

    level: str
    """One of the levels of the topology."""
    name: str
    """Unique in its level."""
    nodes: tuple[str, ...] = field(default=(), converter=AsTuple[str])
    """The names of its nodes. They may be in other domains too, of any level."""


@frozen
class Topology:
    """Levels at which nodes are grouped into domains, such as blocks and racks.

    Levels are keys of node labels: a domain of a level is the set of nodes that agree in the labels
    of this level and of all wider ones. A node without one of the labels is in no domain from that
    level on. With `domains`, levels are plain names, no label is read, and the domains are those
    that are listed; they may overlap, and need not cover the cluster.

    >>> Topology("network", ("example.com/block", "example.com/rack")).levels[0]
    'example.com/block'
    >>> rails = Topology("rails", ("rail",), [Domain("rail", "r1", ["n1", "n2"])])
    >>> rails.domains[0].nodes
    ('n1', 'n2')
    """

    name: str
    """Unique in the snapshot."""
    levels: tuple[str, ...] = field(converter=AsTuple[str])
    """The widest level first."""
    domains: tuple[Domain, ...] = field(default=(), converter=AsTuple[Domain])
    """The domains, where they are listed. Among equal ones, those listed first come first."""


@frozen
class Segment:
    """Tasks that are placed within one domain, a number of them at a time.

    >>> Segment(8, "example.com/rack").size
    8
    """

    size: int
    """How many tasks; 2 or more. The tasks with the numbers 0 to `size` - 1 are one segment, the
    next ones another, and so on; the last may be smaller. See `TaskInfo.index`."""
    level: str
    """The level of the domain that each segment is placed in."""


@frozen
class TopologyRequest:
    """What a job, or a group of it, asks of a topology. The plugin ``topology`` reads it.

    >>> TopologyRequest("network", required="block", preferred="rack").required
    'block'
    >>> TopologyRequest(required="topology.kubernetes.io/zone").topology is None
    True
    """

    topology: str | None = None
    """The name of a topology. None: `required` is the key of a node label, a level by itself."""
    required: str | None = field(default=None, kw_only=True)
    """The level of which one domain must hold all tasks. None: no domain must."""
    preferred: str | None = field(default=None, kw_only=True)
    """The level of which one domain should hold all tasks; where none can, one of a wider level
    up to `required`, or the whole cluster. None: as `required`."""
    segments: tuple[Segment, ...] = field(default=(), converter=AsTuple[Segment], kw_only=True)
    """The domains of parts of the tasks, from the widest level to the narrowest."""
    balanced: bool = field(default=False, kw_only=True)
    """Whether tasks that one domain of the preferred level cannot hold are spread evenly over as
    few domains as possible. With `preferred`, and without `required`."""


def levels_alone(topologies: Iterable[Topology]) -> tuple[Topology, ...]:
    """Return topologies without their listed domains: what requests are checked against."""
    return tuple(evolve(each, domains=()) if each.domains else each for each in topologies)


def without_nodes(topologies: Iterable[Topology], names: Collection[str]) -> Sequence[Topology]:
    """Return topologies whose listed domains are without some nodes. O(listed nodes)."""
    gone = frozenset(names)
    return [
        evolve(
            each,
            domains=[
                evolve(domain, nodes=[name for name in domain.nodes if name not in gone])
                for domain in each.domains
            ],
        )
        if any(not gone.isdisjoint(domain.nodes) for domain in each.domains)
        else each
        for each in topologies
    ]
