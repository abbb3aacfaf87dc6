"""No finding is a guess: each shows on a cluster of at most three jobs."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings
from tests.support.books import factory_of
from tests.support.clusters import cluster as of_jobs
from tests.support.clusters import job, node

from batchsched import (
    ActionOption,
    Budget,
    ConfigError,
    CycleResult,
    JobInfo,
    LabelSelector,
    NodeInfo,
    PluginOption,
    Preemptible,
    Queue,
    QueueStatus,
    Resource,
    ResourceLimit,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    TaskInfo,
    TaskStatus,
    Tier,
    TopologyRequest,
    check_config,
    default_registry,
    next_snapshot,
    schedule,
)
from batchsched.testing import configs
from batchsched.tools import Finding, not_modelled
from batchsched.tools.small_clusters import small_clusters, small_queue_trees

pytestmark = pytest.mark.slow


def evicts_for_ever(scheduler: Scheduler, snapshot: Snapshot) -> bool:
    """Whether tasks are still evicted after many cycles in which nothing else happens."""
    evicted: list[bool] = []
    for _ in range(12):
        result = scheduler.schedule(snapshot, reasons=False)
        evicted.append(bool(result.evictions))
        snapshot = next_snapshot(snapshot, result, now=snapshot.now + 1)
    return any(evicted[-4:])


def decisions(result: CycleResult) -> tuple[object, ...]:
    return result.binds, result.evictions, result.pipelined, result.conditional, result.reserved


def config(actions: object, *tiers: list[object]) -> SchedulerConfig:
    mapping: dict[str, object] = {"actions": actions}
    if tiers:
        mapping["tiers"] = [{"plugins": tier} for tier in tiers]
    return SchedulerConfig.from_mapping(mapping)


ALL = ["priority", "gang", "conformance", "drf", "predicates", "proportion", "nodeorder"]


WHOLE = {"name": "gang", "arguments": {"atMinimum": "whole-job"}}


def limited(most: int) -> dict[str, object]:
    limit = {"name": "few", "scope": "cluster", "most": most, "window": 60}
    return {"name": "protection", "arguments": {"limits": [limit]}}


def assert_shown(finding: Finding, checked: SchedulerConfig) -> None:
    assert finding.place
    assert finding.consequence
    assert finding.advice
    assert len(finding.snapshot.jobs) <= 3
    if finding.shows == "cannot be built":
        with pytest.raises(ConfigError, match=re.escape(finding.place)):
            Scheduler(checked)
        if finding.instead is not None:
            assert Scheduler(finding.instead).schedule(finding.snapshot).binds
        return
    result = Scheduler(checked).schedule(finding.snapshot)
    if finding.mended is not None:
        assert finding.shows == "decides otherwise"
        assert decisions(Scheduler(checked).schedule(finding.mended)) != decisions(result)
    elif finding.shows == "decides otherwise":
        assert finding.instead is not None
        other = Scheduler(finding.instead).schedule(finding.snapshot)
        assert decisions(other) != decisions(result)
    elif finding.shows == "has no effect":
        assert finding.instead is not None
        assert result.binds
        assert Scheduler(finding.instead).schedule(finding.snapshot) == result
    elif finding.shows == "reserves":
        assert result.reserved
    else:
        assert evicts_for_ever(Scheduler(checked), finding.snapshot)
        if finding.instead is not None:
            assert not evicts_for_ever(Scheduler(finding.instead), finding.snapshot)


@given(configs())
@settings(max_examples=15)
def test_every_finding_shows_on_its_cluster(config: SchedulerConfig) -> None:
    findings = check_config(config)
    for finding in findings:
        assert_shown(finding, config)
        json.dumps(finding.to_dict())
    assert check_config(config) == findings


@given(configs())
@settings(max_examples=10)
def test_what_is_advised_is_not_found_again(config: SchedulerConfig) -> None:
    for finding in check_config(config):
        if finding.instead is not None:
            again = {(f.code, f.place) for f in check_config(finding.instead)}
            assert (finding.code, finding.place) not in again


@pytest.mark.parametrize(
    ("checked", "code", "place"),
    [
        (config("allocate", ["gang", "proportion"]), "NoPredicates", "tiers"),
        (config("allocate", ["predicates"]), "NoGang", "tiers"),
        (
            config("allocate", [{"name": "gang", "enableJobReady": False}, "predicates"]),
            "SwitchedOff",
            "tiers[0].plugins[0].enableJobReady",
        ),
        (
            config("preempt", ["gang", "conformance"], ["drf", "predicates"]),
            "ShadowedVerdicts",
            "tiers[1].plugins[0]",
        ),
        (config("allocate", ALL), "ProportionWithoutReclaim", "tiers[0].plugins[5]"),
        (
            config("plan", ["gang", "fcfs", "predicates"]),
            "PlanInStrictOrder",
            "tiers[0].plugins[1]",
        ),
        (
            config(
                [
                    {"name": "allocate", "arguments": {"unready": "discard"}},
                    {"name": "backfill", "arguments": {"strategy": "release"}},
                ],
                ALL,
            ),
            "ReleaseWithoutHold",
            "actions[1]",
        ),
        (
            config(
                "allocate",
                [
                    "gang",
                    "predicates",
                    {
                        "name": "nodeorder",
                        "arguments": {
                            "leastrequested.weight": 0,
                            "nodeaffinity.weight": "0",
                            "podaffinity.weight": 0,
                            "balancedresource.weight": 0,
                        },
                    },
                ],
            ),
            "ZeroWeights",
            "tiers[0].plugins[2].arguments",
        ),
        (config("reserve", ALL), "ReservationsMustBeKept", "actions[0]"),
        (config("allocate, preempt", ["predicates", "nodeorder"]), "NoVictims", "actions[1]"),
        (
            config("allocate, preempt", ["priority", "gang", "conformance"], ["predicates"]),
            "AtMinimumProtected",
            "tiers[0].plugins[1]",
        ),
        (config("allocate, preempt", ["gang"], ["predicates"]), "EvictsForEver", "actions"),
        (config("reclaim, allocate", ["gang"], ["predicates"]), "EvictsForEver", "actions"),
        (
            config("allocate, reclaim", ["gang"], ["predicates", "drf"]),
            "ReclaimWithoutShares",
            "actions[1]",
        ),
        (config("allocate", ["gang", "capacity"]), "CapacityWithoutReclaim", "tiers[0].plugins[1]"),
        (
            config("allocate, preempt", ["gang", "priority", "predicates", "capacity", "drf"]),
            "DrfBesideCapacity",
            "tiers[0].plugins[4]",
        ),
        (
            config(
                "allocate, preempt, reclaim",
                [{"name": "gang", "arguments": {"atMinimum": "whole-job"}}, "priority"],
                ["predicates", "capacity"],
            ),
            "PreemptBeforeReclaim",
            "actions[1]",
        ),
        (
            SchedulerConfig.from_mapping({"actions": "allocate, reclaim, consolidate"}),
            "EvictsBeforeConsolidating",
            "actions[2]",
        ),
        (
            config(
                "allocate, preempt, consolidate",
                [{"name": "gang", "arguments": {"atMinimum": "whole-job"}}, "priority"],
                ["predicates"],
            ),
            "EvictsBeforeConsolidating",
            "actions[2]",
        ),
        (config("preempt", ["predicates", "nodeorder"]), "NoVictims", "actions[0]"),
        (config("allocate, backfill, reserve", ALL), "ReservationsMustBeKept", "actions[2]"),
        (
            config([{"name": "allocate", "arguments": {"starvationThreshold": 60}}], ALL),
            "ReservationsMustBeKept",
            "actions[0]",
        ),
        (config("backfill", ALL), "NothingStarts", "actions"),
        (
            config(
                "allocate",
                [{"name": "fcfs", "arguments": {"strict": False}}, "gang"],
                ["predicates", "sjf"],
            ),
            "ShadowedOrder",
            "tiers[1].plugins[1]",
        ),
        (
            config("allocate, preempt", [WHOLE, limited(0), "predicates"]),
            "LimitOfNone",
            "tiers[0].plugins[1].arguments['limits'][0]",
        ),
        (
            config("allocate", ["gang", limited(1), "predicates"]),
            "ProtectsNobody",
            "tiers[0].plugins[1].arguments['limits']",
        ),
        (
            config(
                "allocate, reclaim",
                [
                    "gang",
                    {"name": "protection", "arguments": {"preemptMinRuntime": 60}},
                    "predicates",
                    "capacity",
                ],
            ),
            "ProtectsNobody",
            "tiers[0].plugins[1].arguments['preemptMinRuntime']",
        ),
    ],
)
def test_each_kind_is_found(checked: SchedulerConfig, code: str, place: str) -> None:
    found = [finding for finding in check_config(checked) if finding.code == code]
    assert [finding.place for finding in found] == [place]
    assert_shown(found[0], checked)


@pytest.mark.parametrize(
    ("arguments", "plugins", "is_found"),
    [
        ({}, ["gang", "predicates", "fcfs"], True),
        ({"withoutShares": False}, ["gang", "predicates"], True),
        ({"withoutShares": "true"}, ["gang", "predicates"], False),
        ({}, ["gang", "predicates", "proportion"], False),
        ({}, ["gang", "predicates", "capacity"], False),
        ({}, ["predicates"], False),  # nobody is ever evicted
    ],
)
def test_reclaim_without_shares_is_found_unless_it_is_meant(
    arguments: dict[str, object], plugins: list[str], is_found: bool
) -> None:
    checked = config([{"name": "reclaim", "arguments": arguments}, "allocate"], plugins)
    codes = {finding.code for finding in check_config(checked)}
    assert ("ReclaimWithoutShares" in codes) is is_found


@pytest.mark.parametrize(
    ("actions", "off", "evicting"),
    [
        ("allocate, preempt", {}, ["preempt"]),
        ("allocate, preempt", {"enablePreemptable": False}, []),
        ("allocate, preempt, reclaim", {"enablePreemptable": False}, ["reclaim"]),
        ("allocate, reclaim", {"enableReclaimable": False}, []),
    ],
)
def test_what_gang_is_switched_off_for_it_does_not_protect(
    actions: str, off: dict[str, bool], evicting: list[str]
) -> None:
    gang = {"name": "gang"} | off
    found = check_config(config(actions, ["priority", gang], ["predicates", "proportion"]))
    told = [each.consequence.split("'")[1] for each in found if each.code == "AtMinimumProtected"]
    assert told == evicting


def with_plugin_of_ones_own(actions: str, *plugins: str) -> SchedulerConfig:
    """Return a configuration in one tier, with names that are in no registry yet."""
    tier = Tier(plugins=[PluginOption(name=name) for name in plugins])
    return SchedulerConfig(actions=config(actions).actions, tiers=[tier])


def test_a_plugin_of_ones_own_may_say_what_queues_deserve() -> None:
    registry = default_registry()
    registry.register_plugin("shares", factory_of("priority"))
    checked = with_plugin_of_ones_own("reclaim, allocate", "gang", "predicates", "shares")
    codes = {finding.code for finding in check_config(checked, registry=registry)}
    assert "ReclaimWithoutShares" not in codes


@pytest.mark.parametrize(
    ("checked", "advice"),
    [
        (config("allocate, preempt", ["gang"], ["predicates"]), "add plugin 'priority' to the"),
        (
            config("allocate, preempt", ["gang"], ["predicates", "priority"]),
            "move plugin 'priority' to the first tier",
        ),
        (config("reclaim, allocate", ["gang"], ["predicates"]), "add plugin 'proportion': it"),
    ],
)
def test_what_is_advised_against_endless_evictions_ends_them(
    checked: SchedulerConfig, advice: str
) -> None:
    (finding,) = (f for f in check_config(checked) if f.code == "EvictsForEver")
    assert finding.advice.startswith(advice)
    assert finding.instead is not None
    instead = Scheduler(finding.instead)
    assert not any(evicts_for_ever(instead, cluster) for cluster in small_clusters())


def test_evictions_that_never_end_on_ones_own_cluster_alone_are_found() -> None:
    """No small cluster shows those of equal tasks of one job that drf calls victims."""
    checked = config(
        "allocate, preempt",
        ["priority", "gang", "conformance"],
        ["drf", "predicates", "proportion", "nodeorder"],
    )
    assert "EvictsForEver" not in {finding.code for finding in check_config(checked)}
    yours = of_jobs(
        [node("n1", "4C1G")],
        job("a", "0C1G@n1", "1C0G@n1", "1C0G", minimum=0),
        job("system", "3C0G@n1", namespace="kube-system"),
    )
    (finding,) = (f for f in check_config(checked, yours) if f.code == "EvictsForEver")
    assert finding.shows_on_yours
    assert finding.snapshot is yours
    assert finding.instead is not None
    assert not evicts_for_ever(Scheduler(finding.instead), yours)


MISSPELT = {
    "actions": "enqueue, allocate",
    "configurations": [{"name": "allocate", "arguments": {"unredy": "hold"}}],
    "tiers": [
        {"plugins": ["gang", {"name": "predicates", "enableFoo": True}, "binpack"]},
        {"plugins": [{"name": "nodeorder", "arguments": {"leastrequest.weight": 2}}]},
    ],
}
NOT_MODELLED = {"actions[0]": "NotModelled", "tiers[0].plugins[2]": "NotModelled"}
UNKNOWN = {
    "actions[1].arguments['unredy']": "UnknownArgument",
    "tiers[0].plugins[1].enableFoo": "UnknownFlag",
    "tiers[1].plugins[0].arguments['leastrequest.weight']": "UnknownArgument",
}


def test_what_is_not_known_is_found_in_what_was_read_without_it() -> None:
    read = SchedulerConfig.from_mapping(MISSPELT, unknown="notice")
    findings = check_config(read)
    assert {finding.place: finding.code for finding in findings} == UNKNOWN
    for finding in findings:
        assert finding.shows == "has no effect"
        assert_shown(finding, read)
    assert check_config(MISSPELT) == findings
    for form in (read, MISSPELT):
        apart = {notice.examples[0]: notice.code.value for notice in not_modelled(form)}
        assert apart == NOT_MODELLED


def test_what_is_not_known_is_found_in_what_cannot_be_built_for_it() -> None:
    parts = [
        Tier(
            plugins=[
                PluginOption(name="gang"),
                PluginOption(name="predicates", flags={"enableFoo": True}),
                PluginOption(name="binpack"),
            ]
        ),
        Tier(plugins=[PluginOption(name="nodeorder", arguments={"leastrequest.weight": 2})]),
    ]
    misspelt = SchedulerConfig(
        actions=[
            ActionOption(name="enqueue"),
            ActionOption(name="allocate", arguments={"unredy": "hold"}),
        ],
        tiers=parts,
    )
    findings = check_config(misspelt)
    assert {finding.place: finding.code for finding in findings} == UNKNOWN | NOT_MODELLED
    for finding in findings:
        assert finding.shows == "cannot be built"
        assert finding.instead is not None
        assert_shown(finding, misspelt)
        assert check_config(finding.instead) == ()
    argument = next(finding for finding in findings if "unredy" in finding.place)
    assert "did you mean 'unready'" in argument.consequence


@pytest.mark.parametrize(
    "given",
    [
        {
            "actions": "enqueue, allocate, reclaim",
            "tiers": [{"plugins": ["priority", "gang", "conformance"]}, {"plugins": [name]}],
        }
        for name in ("overcommit", "binpack", "deviceshare", "gpupack", "task-topology")
    ],
)
def test_what_only_other_schedulers_have_is_no_finding(given: dict[str, Any]) -> None:
    notices = not_modelled(given)
    assert [notice.examples for notice in notices] == [("actions[0]",), ("tiers[1].plugins[0]",)]
    assert all(notice.consequence for notice in notices)
    places = {finding.place for finding in check_config(given)}
    assert not places & {"actions[0]", "tiers[1].plugins[0]"}


@pytest.mark.parametrize("given", [{"tiers": "gang"}, {"actions": 7}, 7])
def test_what_is_no_configuration_is_found_to_be_none(given: Any) -> None:
    findings = check_config(given)
    assert {finding.code for finding in findings} == {"Invalid"}
    for finding in findings:
        assert finding.instead is None
        assert Scheduler().schedule(finding.snapshot).binds


def test_what_cannot_be_built_is_found_with_its_path() -> None:
    wrong = with_plugin_of_ones_own("allocate", "drff")
    (finding,) = check_config(wrong)
    assert (finding.code, finding.place) == ("UnknownPlugin", "tiers[0].plugins[0]")
    assert "did you mean 'drf'" in finding.consequence


def test_it_says_whether_a_finding_shows_on_ones_own_cluster() -> None:
    one = Resource(milli_cpu=1000)
    quiet = Snapshot(nodes=[NodeInfo(name="n", allocatable=one)], queues=[Queue(name="q")])
    task = TaskInfo(uid="t", name="t", resreq=one)
    cordoned = Snapshot(
        nodes=[NodeInfo(name="n", allocatable=one, unschedulable=True)],
        queues=[Queue(name="q")],
        jobs=[JobInfo(name="j", queue="q", tasks=[task])],
    )
    checked = config("allocate", ["gang"])
    for snapshot, shows in ((quiet, False), (cordoned, True), (None, None)):
        (finding,) = check_config(checked, snapshot)
        assert finding.code == "NoPredicates"
        assert finding.shows_on_yours is shows


def test_it_says_where_a_level_is_asked_for_that_no_plugin_reads() -> None:
    one = Resource(milli_cpu=1000)
    asks = JobInfo(
        name="j",
        queue="q",
        min_available=2,
        tasks=[TaskInfo(uid=f"t{n}", name="t", resreq=one) for n in range(2)],
        topology=TopologyRequest(required="rack"),
    )
    nodes = [NodeInfo(name=f"n{n}", allocatable=one, labels={"rack": f"r{n}"}) for n in range(2)]
    yours = Snapshot(nodes=nodes, queues=[Queue(name="q")], jobs=[asks])
    without = config("allocate", ["priority", "gang", "predicates"])
    (finding,) = [f for f in check_config(without, yours) if f.code == "TopologyNotRead"]
    assert finding.place == "jobs['default/j'].topology"
    assert "1 job asks" in finding.consequence
    assert finding.shows_on_yours
    with_plugin = config("allocate", ["priority", "gang", "predicates", "topology"])
    assert "TopologyNotRead" not in {each.code for each in check_config(with_plugin, yours)}


# Queues

CAPACITY = config("reclaim, allocate, backfill")
PROPORTION = config("reclaim, allocate", ["gang", "predicates", "proportion"])


def cpus(number: int) -> Resource:
    return Resource(milli_cpu=1000 * number)


def waits(queue: str, count: int, name: str = "") -> JobInfo:
    name = name or f"of-{queue}"
    tasks = [TaskInfo(uid=f"{name}-{n}", name=f"{name}-{n}", resreq=cpus(1)) for n in range(count)]
    return JobInfo(name=name, queue=queue, tasks=tasks, min_available=1)


def cluster(*queues: Queue, jobs: tuple[JobInfo, ...] = ()) -> Snapshot:
    nodes = [NodeInfo(name="n", allocatable=cpus(8))]
    return Snapshot(nodes=nodes, queues=queues, jobs=jobs)


OF_QUEUES = (
    *("JobOfInnerQueue", "DeservedBeyondLimit", "DeservedBeyondParent", "NoShare"),
    *("GuaranteeBeyondDeserved", "GuaranteesBeyondCluster", "GuaranteesLeaveTooLittle"),
)


def of_queues(checked: SchedulerConfig, snapshot: Snapshot) -> list[Finding]:
    """What is found because of the queues of a snapshot."""
    codes = {"QueueFieldNotRead", *OF_QUEUES}
    return [finding for finding in check_config(checked, snapshot) if finding.code in codes]


@pytest.mark.parametrize(
    ("snapshot", "code", "place", "says"),
    [
        (
            cluster(
                Queue(name="p"), Queue(name="p1", parent="p"), jobs=(waits("p", 1), waits("p1", 1))
            ),
            "JobOfInnerQueue",
            "jobs['default/of-p'].queue",
            "1 job is left out of every cycle: queue 'p' is an inner queue of the tree",
        ),
        (
            cluster(Queue(name="a", deserved=cpus(6), limit=ResourceLimit(milli_cpu=5000))),
            "DeservedBeyondLimit",
            "queues['a'].limit",
            "it deserves 6 cpu, but it never gets more than its limit, 5",
        ),
        (
            cluster(
                Queue(name="p", limit=ResourceLimit(milli_cpu=5000)),
                Queue(name="p1", parent="p", deserved=cpus(3)),
                Queue(name="p2", parent="p", deserved=cpus(3)),
                jobs=(waits("p1", 3), waits("p2", 3)),
            ),
            "DeservedBeyondLimit",
            "queues['p'].limit",
            "queues below it deserve 6 cpu, but it never gets more than its limit, 5",
        ),
        (
            cluster(
                Queue(name="p", deserved=cpus(1)),
                Queue(name="p1", parent="p", deserved=cpus(3)),
                Queue(name="q"),
            ),
            "DeservedBeyondParent",
            "queues['p'].deserved",
            (
                "queues below it deserve 3 cpu, but it deserves 1: whether they get the rest "
                "depends on weights"
            ),
        ),
        (
            cluster(
                Queue(name="p", deserved=cpus(2)),
                Queue(name="p1", parent="p", guarantee=cpus(1)),
                Queue(name="p2", parent="p", guarantee=cpus(2)),
            ),
            "GuaranteeBeyondDeserved",
            "queues['p'].guarantee",
            (
                "3 cpu are guaranteed to it, but it deserves 2: the rest is reserved for it, "
                "used or not"
            ),
        ),
        (
            cluster(
                Queue(name="a", guarantee=Resource(scalars={"gpu": 1000})),
                Queue(name="b", guarantee=cpus(3)),
            ),
            "GuaranteesBeyondCluster",
            "queues['a'].guarantee",
            (
                "queues are guaranteed 1 GPU together, but nodes in service have 0 for them: "
                "no queue can use more than its guarantee, even if nodes are idle"
            ),
        ),
        (
            cluster(
                Queue(name="a", guarantee=cpus(8)),
                Queue(name="b"),
                jobs=(waits("b", 1), waits("b", 1, "more")),
            ),
            "GuaranteesLeaveTooLittle",
            "queues['b']",
            (
                "job default/more needs 1 cpu at once, but of the 8 in service 8 are guaranteed "
                "to other queues (1 more)"
            ),
        ),
        (
            cluster(Queue(name="a", weight=0), Queue(name="b", weight=0), Queue(name="c")),
            "NoShare",
            "queues['a'].weight",
            ("it has no share: it can reclaim nothing, and all its tasks may be evicted (1 more)"),
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and value.isalpha() else "",
)
def test_what_is_wrong_with_queues_is_found(
    snapshot: Snapshot, code: str, place: str, says: str
) -> None:
    (finding,) = (found for found in of_queues(CAPACITY, snapshot) if found.code == code)
    assert (finding.code, finding.place, finding.consequence) == (code, place, says)
    assert finding.shows_on_yours is (len(snapshot.jobs) == 2)
    assert_shown(finding, CAPACITY)
    json.dumps(finding.to_dict())


def test_queues_that_are_as_they_should_be_are_left_alone() -> None:
    snapshot = cluster(
        Queue(name="all", deserved=None),
        Queue(name="p", parent="all", deserved=cpus(5), limit=ResourceLimit(milli_cpu=7000)),
        Queue(name="p1", parent="p", deserved=cpus(2), guarantee=cpus(2)),
        Queue(name="p2", parent="p", deserved=cpus(3), weight=0),
        Queue(name="q", parent="all", guarantee=cpus(3)),
        Queue(name="r", parent="all", deserved=ResourceLimit(), weight=0),
        Queue(name="s", parent="all", priority=3, state=QueueStatus.DRAINING),
        jobs=(waits("p1", 3), waits("q", 4)),
    )
    assert of_queues(CAPACITY, snapshot) == []


@pytest.mark.parametrize("field", ["limit", "guarantee"])
def test_the_bounds_of_leaves_are_read_by_proportion(field: str) -> None:
    (small,) = small_queue_trees()[field]
    assert of_queues(PROPORTION, small) == []


def test_proportion_counts_nodes_out_of_service() -> None:
    (small,) = small_queue_trees()["CountsNodesOutOfService"]
    (finding,) = (f for f in check_config(PROPORTION, small) if f.code.startswith("Counts"))
    assert finding.shows_on_yours is True
    assert finding.consequence.endswith("start nothing, too: 1 node is out of service")
    assert_shown(finding, PROPORTION)
    in_service = evolve(small, nodes=small.nodes[:1])
    for checked, snapshot in ((PROPORTION, in_service), (CAPACITY, small)):
        codes = {each.code for each in check_config(checked, snapshot)}
        assert "CountsNodesOutOfService" not in codes


@pytest.mark.parametrize("field", ["parent", "priority", "deserved"])
def test_fields_of_queues_that_no_plugin_reads_are_found(field: str) -> None:
    (small,) = small_queue_trees()[field]
    findings = {finding.place.split(".")[1]: finding for finding in of_queues(PROPORTION, small)}
    assert findings[field].code == "QueueFieldNotRead"
    assert findings[field].shows_on_yours is True
    for finding in findings.values():
        assert_shown(finding, PROPORTION)


def test_a_plugin_of_ones_own_may_read_queues() -> None:
    registry = default_registry()
    registry.register_plugin("shares", factory_of("priority"))
    checked = with_plugin_of_ones_own("allocate", "gang", "predicates", "shares")
    (small,) = small_queue_trees()["limit"]
    findings = check_config(checked, small, registry=registry)
    assert "QueueFieldNotRead" not in {finding.code for finding in findings}


def test_all_that_is_wrong_with_queues_is_mended_at_once() -> None:
    for code in OF_QUEUES:
        for small in small_queue_trees()[code]:
            (found,) = (each for each in of_queues(CAPACITY, small) if each.code == code)
            assert found.mended is not None
            assert code not in {each.code for each in of_queues(CAPACITY, found.mended)}


def test_guarantees_count_against_what_capacity_gives_to_queues() -> None:
    """Of 12 cpus 8 are cordoned, of which tasks of queues hold 1; a system task holds 2 others."""

    def task(uid: str, size: int, node: str) -> TaskInfo:
        running = TaskStatus.RUNNING
        return TaskInfo(uid=uid, name=uid, resreq=cpus(size), status=running, node_name=node)

    def guaranteed(size: int) -> Snapshot:
        return Snapshot(
            nodes=[
                NodeInfo(name="n1", allocatable=cpus(4)),
                NodeInfo(name="n2", allocatable=cpus(8), unschedulable=True),
            ],
            queues=[Queue(name="a", guarantee=cpus(size)), Queue(name="b")],
            jobs=[
                JobInfo(name="r", queue="a", tasks=[task("r", 1, "n2")]),
                waits("b", 1),
            ],
            other_tasks=[task("system", 2, "n1"), task("moving", 3, "n2")],
        )

    assert of_queues(CAPACITY, guaranteed(2)) == []
    assert schedule(guaranteed(2), config=CAPACITY).binds
    (too_little,) = of_queues(CAPACITY, guaranteed(3))
    assert too_little.code == "GuaranteesLeaveTooLittle"
    (finding,) = of_queues(CAPACITY, guaranteed(4))
    assert "guaranteed 4 cpu together, but nodes in service have 3 for" in finding.consequence
    assert not schedule(guaranteed(4), config=CAPACITY).binds
    assert finding.shows_on_yours is True
    assert finding.mended is not None
    assert [queue.guarantee for queue in finding.mended.queues] == [cpus(2), cpus(0)]


def test_capacity_and_proportion_together_are_found() -> None:
    plugins = [PluginOption(name=name) for name in ("gang", "capacity", "proportion")]
    wrong = SchedulerConfig(actions=CAPACITY.actions, tiers=[Tier(plugins=plugins)])
    (finding,) = check_config(wrong)
    assert (finding.code, finding.place) == ("Invalid", "tiers[0].plugins[1]")
    assert "replaces 'proportion'" in finding.consequence


def test_the_recommended_plugins_contradict_one_another_nowhere() -> None:
    # What is not reclaimed is no contradiction: nobody is evicted unless that is asked for.
    assert {finding.code for finding in check_config(SchedulerConfig())} == {
        "CapacityWithoutReclaim"
    }
    assert check_config(CAPACITY) == ()


def test_the_small_clusters_are_small_and_always_the_same() -> None:
    trees = [small for each in small_queue_trees().values() for small in each]
    assert all(len(small.jobs) <= 3 for small in trees)
    assert small_queue_trees() is small_queue_trees()
    clusters = small_clusters()
    assert all(len(cluster.jobs) <= 3 for cluster in clusters)
    assert len(set(clusters)) == len(clusters)
    assert small_clusters() is clusters


def test_past_use_stands_before_proportion_and_anywhere_beside_capacity() -> None:
    def codes(*plugins: str) -> set[str]:
        return {each.code for each in check_config(config("allocate", ["gang", *plugins]))}

    late = config("allocate", ["gang", "predicates", "proportion", "usage"])
    (finding,) = (each for each in check_config(late) if each.code == "PastUseAfterShares")
    assert finding.place == "tiers[0].plugins[3]"
    assert_shown(finding, late)
    assert finding.instead == config("allocate", ["gang", "predicates", "usage", "proportion"])
    for plugins in (("usage", "proportion"), ("capacity", "usage"), ("usage", "capacity")):
        assert "PastUseAfterShares" not in codes("predicates", *plugins)


@pytest.mark.parametrize("preemptible", [Preemptible.NEVER, Preemptible.SURPLUS])
@pytest.mark.parametrize("top", [True, False])
@pytest.mark.parametrize(("least", "is_found"), [(4, False), (5, True)])
def test_a_job_that_is_never_lent_what_it_needs_is_found(
    preemptible: Preemptible, top: bool, least: int, is_found: bool
) -> None:
    cpu = Resource(milli_cpu=1000)
    deserved = [Resource(milli_cpu=4000), Resource(milli_cpu=9000)][:: 1 if top else -1]
    jobs = [
        JobInfo(
            name=f"j{number}",
            queue="a",
            min_available=least,
            preemptible=preemptible,
            tasks=[
                TaskInfo(uid=f"j{number}-{k}", name=f"j{number}-{k}", resreq=cpu) for k in range(6)
            ],
        )
        for number in range(2)
    ]
    snapshot = Snapshot(
        nodes=[NodeInfo(name="n1", allocatable=10 * cpu)],
        queues=[
            Queue(name="top", deserved=deserved[0]),
            Queue(name="a", parent="top", deserved=deserved[1]),
        ],
        jobs=jobs,
    )
    checked = config("allocate", ["gang", "protection", "predicates", "capacity"])
    found = [f for f in check_config(checked, snapshot) if f.code == "NeverLent"]
    assert [finding.place for finding in found] == ["jobs[0]"] * is_found
    for finding in found:
        assert_shown(finding, checked)
        assert finding.shows_on_yours
        assert "j0 and 1 other job can never start" in finding.consequence
        assert f"needs 5 cpu, of which queue {'top' if top else 'a'!r} deserves 4" in str(finding)
    free = checked.with_arguments("protection", withinDeserved=False)
    assert "NeverLent" not in {f.code for f in check_config(free, snapshot)}
    taken = evolve(snapshot, jobs=[evolve(job, preemptible=True) for job in jobs])
    assert "NeverLent" not in {f.code for f in check_config(checked, taken)}


@pytest.mark.parametrize("top", [True, False])
@pytest.mark.parametrize(("least", "is_found"), [(4, False), (5, True)])
def test_a_job_for_which_nothing_could_be_reclaimed_is_found(
    top: bool, least: int, is_found: bool
) -> None:
    cpu = Resource(milli_cpu=1000)
    tasks = [TaskInfo(uid=f"j-{k}", name=f"j-{k}", resreq=cpu) for k in range(6)]
    few = Queue(name="few", reclaimable=False, deserved=cpu, guarantee=4 * cpu)
    snapshot = Snapshot(
        nodes=[NodeInfo(name="n1", allocatable=10 * cpu)],
        queues=[
            evolve(few if top else Queue(name="any"), name="top"),
            evolve(Queue(name="any") if top else few, name="a", parent="top"),
        ],
        jobs=[JobInfo(name="j", queue="a", min_available=least, tasks=tasks)],
    )
    checked = config("allocate", ["gang", "protection", "predicates", "capacity"])
    found = [f for f in check_config(checked, snapshot) if f.code == "NeverReclaimed"]
    assert [finding.place for finding in found] == ["jobs[0]"] * is_found
    for finding in found:
        assert_shown(finding, checked)
        assert finding.shows_on_yours
        where = "top" if top else "a"
        assert f"reclaimed from queue {where!r}, so it stays within what" in finding.consequence
        assert "4, and such a job needs 5 cpu" in finding.consequence
    assert bool(Scheduler(checked).schedule(snapshot).binds) is not is_found
    free = checked.with_arguments("protection", withinDeserved=False)
    assert "NeverReclaimed" not in {f.code for f in check_config(free, snapshot)}


@pytest.mark.parametrize(
    ("budget", "is_found"),
    [
        ({"max_unavailable": 0}, True),
        ({"min_available": 2}, True),
        ({"min_available": 1}, False),
        ({"max_unavailable": 1}, False),
        ({"max_unavailable": 0, "hard": False}, False),
        ({"max_unavailable": 0, "namespace": "other"}, False),
    ],
)
def test_a_budget_that_never_lets_a_task_go_is_found(
    budget: dict[str, Any], is_found: bool
) -> None:
    running = [
        TaskInfo(
            uid=f"t{number}",
            name=f"t{number}",
            status=TaskStatus.RUNNING,
            node_name="n1",
            resreq=Resource(milli_cpu=1000),
        )
        for number in range(2)
    ]
    kept = Budget(name="b", selector=LabelSelector(), **budget)
    snapshot = Snapshot(
        nodes=[NodeInfo(name="n1", allocatable=Resource(milli_cpu=2000))],
        queues=[Queue(name="q")],
        jobs=[JobInfo(name="j", queue="q", tasks=running)],
        budgets=[kept],
    )
    checked = config("allocate, preempt", ["priority", WHOLE, "protection", "predicates"])
    found = [f for f in check_config(checked, snapshot) if f.code == "BudgetNeverAllows"]
    assert [finding.place for finding in found] == ["budgets[0]"] * is_found
    for finding in found:
        assert_shown(finding, checked)
        assert "keeps 2 of 2" in finding.consequence
    without = config("allocate", ["priority", WHOLE, "protection", "predicates"])
    assert "BudgetNeverAllows" not in {f.code for f in check_config(without, snapshot)}
