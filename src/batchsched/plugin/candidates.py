"""Sets of nodes in which what a job needs is tried as a whole."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import NamedTuple, Protocol, runtime_checkable

from batchsched.model.reasons import Unfit
from batchsched.state.needs import Need
from batchsched.state.records import Fit, NodeState, TaskState


class NodeSet:
    """A set of nodes, compared by identity."""

    __slots__ = ("more", "name", "nodes", "parts", "slots")

    def __init__(self, name: str, nodes: Iterable[NodeState], parts: Iterable[Part] = ()) -> None:
        self.name = name
        """Its name in traces."""
        self.nodes = tuple(nodes)
        self.parts = tuple(parts)
        """Which of the tasks go where, in the order in which they are placed; none: all tasks may
        go anywhere in the set."""
        self.slots = frozenset([node.slot for node in self.nodes])
        """The slots of its nodes."""
        self.more: RoomForMore | None = None
        """Where tasks are tried that may follow the need; see `followed_in`."""

    def with_parts(self, parts: Iterable[Part]) -> NodeSet:
        """Return another set of the same nodes, with parts. O(parts)."""
        made = NodeSet(self.name, ())
        made.nodes, made.slots, made.parts = self.nodes, self.slots, tuple(parts)
        return made

    def followed_in(self, more: RoomForMore) -> NodeSet:
        """Return another set of the same nodes, with the same parts, that counts what may follow.

        Of the sets of one rank in which the need finds a place, that is taken after which most of
        `Need.more` find one, too. So further sets are asked for although one would do.
        """
        made = self.with_parts(self.parts)
        made.more = more
        return made

    def __repr__(self) -> str:
        return f"<{self.name}: {len(self.nodes)} nodes>"


class RoomForMore(NamedTuple):
    """Where more tasks of a job may go that follow what it needs next."""

    nodes: NodeSet
    rank: int
    """Sets of one rank are compared: the first ranks in which the need finds a place."""


class Part(NamedTuple):
    """Tasks of a need, and the nodes of a set that they may go to."""

    tasks: tuple[TaskState, ...]
    nodes: NodeSet
    choices: tuple[Mapping[str, Hashable], ...] = ()
    """What plugins must choose for each of the tasks, by plugin; see `Choices`. Empty: anything."""
    need: Need | None = None
    """These tasks as a need that gets sets of its own within the nodes; None: they go anywhere."""


@runtime_checkable
class CandidateNodes(Protocol):
    """Determines in which sets of nodes a need is tried, one after the other."""

    def candidate_nodes(self, need: Need, within: NodeSet, /) -> Iterable[NodeSet] | Unfit | None:
        """Return sets of nodes in the order in which they are to be tried; None: anywhere.

        Called at a job's turn, for each stage in turn until all tasks of the need were placed
        together in one set. In place of sets an `Unfit` says that there is none, and why. Sets may
        be yielded: code after a ``yield`` runs only if that set failed. At most 64 are tried. To
        offer `within`, if it has all nodes, is to let the need be tried as without sets: with all
        steps, and with other tasks in the place of those that fit nowhere. The
        sets of several plugins are tried each within each set of the plugin before. A set without
        parts for a job with groups is tried by group: each group that is needed gets sets of its
        own within it. Where `Need.stage` is None, it is asked at the end of the cycle why there was
        no set.
        """
        ...

    # Optional: def domains(self) -> Iterable[NodeSet]
    #
    # Returns sets of which it is kept how many tasks they hold and what is free there. Asked again
    # after the plugin was opened again.
    #
    # Optional: def may_offer_sets(self, job: JobState, /) -> bool
    #
    # Returns whether `candidate_nodes` may return anything but None for what a job needs, of which
    # it may read the description alone. Where it returns False, the plugin is not asked.
    #
    # Optional: an attribute ``sets_by_room = True``
    #
    # It says that a need for which it offered no set in any stage is offered none either as long as
    # the job and the nodes' descriptions are the same and no node takes a task of these kinds that
    # has changed since: a turn is then not repeated on a living cluster.
    #
    # Optional: def group_order_key(self, need: Need, /) -> SortKey
    #
    # Ranks the needs of the groups that are tried within a set; the smallest goes first. Without
    # it, groups are tried as listed. If one fails, they are tried once more in reverse.


class SecondTry(NamedTuple):
    """How the tasks of a need are placed once more, where a choice may be undone."""

    tasks: tuple[TaskState, ...]
    """The tasks of the need, in the order in which they are placed."""
    undo: int
    """How many choices are undone at most."""
    choices: Callable[[TaskState, NodeState, Fit], Iterable[Hashable]]
    """Returns all choices for a task that is placed on a node in a way, the best first; none if
    it needs none."""


@runtime_checkable
class SecondTries(Protocol):
    """Lets what a job needs be placed once more, where a plugin's choice was in the way."""

    def second_try(self, need: Need, /) -> SecondTry | None:
        """Return how a need is placed once more that found no place; None: it is not.

        Called in allocate where a job's turn failed. Its tasks are then placed depth first: each
        on the nodes where it fits now, the best first, then on those where it fits later, with at
        most 8 choices on each. A task that finds no place undoes the choice before it.
        """
        ...
