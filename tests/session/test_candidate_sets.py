"""Sets of nodes that plugins offer: where a job is tried as a whole, in all actions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pytest
from attrs import evolve
from tests.examples.test_plugins import example
from tests.support.books import Opens, configured, session_of
from tests.support.clusters import cluster, job, node
from tests.support.slots import SlotsPlugin

from batchsched import (
    ActionOption,
    CycleResult,
    JobInfo,
    NodeInfo,
    PluginError,
    PluginOption,
    Queue,
    Scheduler,
    SchedulerConfig,
    StatementError,
    Tier,
    Unfit,
    UnfitReason,
    default_registry,
)
from batchsched.plugin import Need, NodeSet, Part, SessionView, Stage

one_block = example("one_block")
EVICTING = ("priority", "gang", "predicates")


def deciding(
    *actions: str,
    plugin: Any = one_block.OneBlock,
    plugins: Sequence[str] = EVICTING,
    arguments: Mapping[str, Any] | None = None,
    plain: bool = False,
) -> Scheduler:
    registry = default_registry()
    registry.register_plugin("sets", plugin)
    registry.register_plugin("slots", SlotsPlugin)
    config = SchedulerConfig(
        actions=[ActionOption(name=name) for name in actions],
        tiers=[Tier(plugins=[PluginOption(name=name) for name in ("sets", *plugins)])],
    )
    return Scheduler(config, registry, plain=plain)


def nodes(**blocks: Sequence[int]) -> list[NodeInfo]:
    """Nodes of so many cpus in each block, named after it."""
    return [
        node(f"{block}{place}", f"{cpus}C9G", labels={"block": block})
        for block, sizes in blocks.items()
        for place, cpus in enumerate(sizes)
    ]


def gang(name: str, count: int, **more: Any) -> JobInfo:
    return evolve(job(name, *["1C1G"] * count), labels={"one-block": ""}, **more)


def places(result: CycleResult) -> dict[str, str]:
    return {bind.task_uid: bind.node_name for bind in result.binds}


@pytest.fixture(params=[False, True], ids=["fast", "plain"])
def plain(request: Any) -> bool:
    return bool(request.param)


def test_a_gang_goes_to_the_tightest_block_that_holds_it(plain: bool) -> None:
    snapshot = cluster(nodes(a=[2, 2], b=[3], c=[1, 1]), gang("g", 3), gang("h", 2), gang("i", 4))
    result = deciding("allocate", plain=plain).schedule(snapshot)
    found = places(result)
    assert {found[f"g-{n}"] for n in (1, 2, 3)} == {"b0"}
    assert {found[f"h-{n}"] for n in (1, 2)} == {"c0", "c1"}
    assert {found[f"i-{n}"] for n in (1, 2, 3, 4)} == {"a0", "a1"}


def test_a_gang_that_fits_in_no_block_waits_and_says_so(plain: bool) -> None:
    snapshot = cluster(nodes(a=[2], b=[1, 1], c=[1]), gang("g", 3))
    result = deciding("allocate", "preempt", plain=plain).schedule(snapshot)
    assert not result.binds
    said = "in none of 3 sets of plugin sets is room for 3 together (most: 2)"
    assert said in str(result.pending["g-1"])


def test_a_task_that_comes_later_joins_the_others(plain: bool) -> None:
    growing = evolve(job("g", "1C1G@a0", "1C1G", minimum=1), labels={"one-block": ""})
    snapshot = cluster(nodes(a=[2], b=[1]), growing)
    assert places(deciding("allocate", plain=plain).schedule(snapshot)) == {"g-2": "a0"}
    full = cluster(nodes(a=[1], b=[1]), growing)
    assert not deciding("allocate", plain=plain).schedule(full).binds


@pytest.mark.parametrize("action", ["preempt", "reclaim"])
def test_evictions_are_in_one_block(action: str, plain: bool) -> None:
    queues = ["q"] if action == "preempt" else ["q", "r"]
    # Block a has 1 free and 2 to evict, b only 2 to evict.
    victims = [
        # Those of block a are the last ones, which the share of their queue does not cover.
        evolve(job(f"v{n}", f"1C1G@{place}", minimum=0), queue=queues[-1])
        for n, place in enumerate(("b0", "b0", "a0", "a0"))
    ]
    plugins = EVICTING if action == "preempt" else ("gang", "predicates", "proportion")
    claimant = gang("g", 3, priority=5)
    snapshot = cluster(nodes(a=[3], b=[2]), *victims, claimant, queues=queues)
    using = deciding("allocate", action, plugins=plugins, plain=plain)
    weights = [Queue(name=name, weight=9 if name == "q" else 1) for name in queues]
    result = using.schedule(evolve(snapshot, queues=weights))
    assert {each.node_name for each in result.evictions} == {"a0"}
    assert len(result.evictions) == 2
    assert {each.node_name for each in result.kept_promises} == {"a0"}
    none = cluster(nodes(a=[2], b=[2]), *victims, claimant, queues=queues)
    assert not using.schedule(evolve(none, queues=weights)).evictions


def test_a_job_of_its_own_gives_way_where_it_is(plain: bool) -> None:
    tasks = [
        evolve(task, priority=n)
        for n, task in enumerate(job("g", "1C1G@a0", "1C1G@a1", "1C1G", minimum=1).tasks)
    ]
    mine = evolve(job("g", minimum=1), tasks=tasks, labels={"one-block": ""})
    snapshot = cluster(nodes(a=[1, 1], b=[3]), mine)
    result = deciding("preempt", plain=plain).schedule(snapshot)
    assert [each.task_uid for each in result.evictions] == ["g-1"]
    assert [each.node_name for each in result.kept_promises] == ["a0"]


# What plugins offer


Offer = Callable[[SessionView, Need, NodeSet], Iterable[NodeSet] | Unfit | None]


def offering(offer: Offer) -> Callable[[object], object]:
    class Opened:
        def __init__(self, view: SessionView) -> None:
            self.view = view

        def candidate_nodes(
            self, need: Need, within: NodeSet, /
        ) -> Iterable[NodeSet] | Unfit | None:
            return offer(self.view, need, within)

    return lambda _arguments: Opens(Opened)


def test_the_whole_cluster_is_tried_as_without_sets(plain: bool) -> None:
    """In task order the small task takes the only place of the large one: the set puts it right."""
    asked: list[str] = []

    def offer(view: SessionView, need: Need, within: NodeSet) -> Iterator[NodeSet]:
        asked.append(f"{need.stage and need.stage.value}")
        yield within
        if need.stage is Stage.NOW:
            small, large = need.tasks
            n0, n1 = view.nodes
            parts = [Part((large,), NodeSet("n0", [n0])), Part((small,), NodeSet("n1", [n1]))]
            yield NodeSet("by hand", view.nodes, parts)

    unlike = job("j", "1C1G", "2C2G")
    two = [node("n0", "2C2G"), node("n1", "1C1G")]
    using = deciding("allocate", plugin=offering(offer), plain=plain)
    found = places(using.schedule(cluster(two, unlike)))
    assert found == {"j-1": "n1", "j-2": "n0"}
    assert set(asked) == {"now"}
    enough = cluster([*two, node("n2", "9C9G")], unlike)
    assert places(using.schedule(enough)) == places(deciding("allocate").schedule(enough))


def test_parts_say_what_is_chosen(plain: bool) -> None:
    def offer(view: SessionView, need: Need, _within: NodeSet) -> list[NodeSet]:
        part = Part(need.tasks, NodeSet("n0", view.nodes), ({"slots": 2}, {"slots": 0}))
        return [NodeSet("chosen", view.nodes, [part])]

    asks = job("j", "1C1G", "1C1G")
    asks = evolve(asks, tasks=[evolve(task, labels={"slots": "any"}) for task in asks.tasks])
    using = deciding("allocate", plugin=offering(offer), plugins=("slots", *EVICTING), plain=plain)
    result = using.schedule(cluster([node("n0", "4C4G")], asks))
    assert [bind.choices["slots"] for bind in result.binds] == [2, 0]


def test_at_most_64_sets_are_tried() -> None:
    yielded: list[int] = []

    def offer(view: SessionView, need: Need, _within: NodeSet) -> Iterator[NodeSet]:
        for number in range(1000):
            if need.stage is not None:
                yielded.append(number)
            yield NodeSet(str(number), view.nodes)

    result = deciding("allocate", plugin=offering(offer)).schedule(
        cluster([node("n0", "1C1G")], job("j", "1C1G", "1C1G"))
    )
    assert not result.binds
    assert max(yielded) == 63


def test_a_plugin_says_why_there_is_no_set() -> None:
    why = Unfit(UnfitReason.NO_DOMAIN, plugin="sets", detail="the ring is broken")
    using = deciding("allocate", plugin=offering(lambda *_: why))
    result = using.schedule(cluster([node("n0", "1C1G")], job("j", "1C1G")))
    assert "the ring is broken" in str(result.pending["j-1"])


def test_sets_of_one_plugin_are_within_those_of_the_one_before(plain: bool) -> None:
    def halves(view: SessionView, need: Need, within: NodeSet) -> list[NodeSet]:
        return [NodeSet(f"{within.name} {n.name}", [n]) for n in reversed(within.nodes)]

    registry = default_registry()
    registry.register_plugin("blocks", one_block.OneBlock)
    registry.register_plugin("halves", offering(halves))
    config = SchedulerConfig(
        actions=[ActionOption(name="allocate")],
        tiers=[Tier(plugins=[PluginOption(name=name) for name in ("blocks", "halves", "gang")])],
    )
    snapshot = cluster(nodes(a=[2, 1, 1], b=[2, 2]), gang("g", 2), gang("h", 2))
    result = Scheduler(config, registry, plain=plain).schedule(snapshot)
    assert set(places(result).values()) == {"a0", "b1"}  # a has room for two, but on two nodes


def in_a_row(view: SessionView, need: Need, _within: NodeSet) -> Iterator[NodeSet]:
    """Offer so many nodes in a row of a ring, those of the shortest arc with room first."""
    ring, count = view.nodes, len(need.tasks)
    counts = view.counts(need, need.stage or Stage.NOW)
    assert counts is not None
    is_free = [counts.on(each) > 0 for each in ring]
    arcs: list[tuple[int, int]] = []
    for start in range(len(ring)):
        if is_free[start] and not is_free[start - 1]:
            row = [is_free[(start + place) % len(ring)] for place in range(len(ring))]
            arcs.append((row.index(False), start))
    for length, start in sorted(arcs):
        for first in range(start, start + length - count + 1):
            yield NodeSet("row", [ring[n % len(ring)] for n in range(first, first + count)])


@pytest.mark.parametrize("busy", [(3, 7), (3, 6)])
def test_17_two_in_a_row_take_the_shortest_free_arc_of_a_ring(
    busy: Sequence[int], plain: bool
) -> None:
    ring = [node(f"n{place}", "1C1G") for place in range(1, 9)]
    others = [job(f"busy{place}", f"1C1G@n{place}") for place in busy]
    snapshot = cluster(ring, *others, job("pair", "1C1G", "1C1G"))
    result = deciding("allocate", plugin=offering(in_a_row), plain=plain).schedule(snapshot)
    assert set(places(result).values()) == {"n4", "n5"}


def test_a_plugin_that_leaves_the_set_of_another_is_told_so() -> None:
    registry = default_registry()
    registry.register_plugin("blocks", one_block.OneBlock)
    registry.register_plugin("all", offering(lambda view, *_: [NodeSet("all", view.nodes)]))
    config = SchedulerConfig(
        actions=[ActionOption(name="allocate")],
        tiers=[Tier(plugins=[PluginOption(name=name) for name in ("blocks", "all", "gang")])],
    )
    with pytest.raises(PluginError, match="'all', candidate_nodes: expected nodes of <a: 1 nodes>"):
        Scheduler(config, registry).schedule(cluster(nodes(a=[2], b=[2]), gang("g", 2)))


@pytest.mark.parametrize("wrong", [3, [3], "ab"])
def test_only_sets_are_offered(wrong: Any) -> None:
    using = deciding("allocate", plugin=offering(lambda *_: wrong))
    with pytest.raises(PluginError, match="'sets', candidate_nodes: expected"):
        using.schedule(cluster([node("n0", "1C1G")], job("j", "1C1G")))


def test_a_statement_places_nothing_outside_of_its_set() -> None:
    session = session_of(cluster(nodes(a=[1], b=[1]), job("j", "1C1G")), configured(["gang"]))
    (task,), (inside, outside) = session.ledger.tasks.values(), session.nodes
    with session.statement(within=NodeSet("a", [inside])) as statement:
        for place in (statement.allocate, statement.pipeline, statement.promise, statement.reserve):
            with pytest.raises(StatementError, match="expected one of <a: 1 nodes>"):
                place(task, outside)
        statement.allocate(task, inside)
