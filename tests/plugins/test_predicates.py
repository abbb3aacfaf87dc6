"""predicates: in which order what refuses a node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings
from tests.support.books import opened, plugin_object
from tests.support.clusters import cluster, job, node

from batchsched import (
    HostPort,
    LabelSelector,
    NodeAffinity,
    NodeInfo,
    NodeSelectorTerm,
    Operator,
    PodAffinity,
    PodAffinityTerm,
    Requirement,
    Resource,
    Session,
    Snapshot,
    Taint,
    TaintEffect,
    TaskInfo,
    TaskStatus,
    Toleration,
    TolerationOperator,
    UnfitReason,
)
from batchsched.placement.arrays import ArrayTable
from batchsched.plugin import Reads
from batchsched.testing import snapshots

R = UnfitReason
MEMORY, DISK, PID = (
    {f"predicate.{name}PressureEnable": "true"} for name in ("Memory", "Disk", "PID")
)
ALL_SWITCHES = {**MEMORY, **DISK, **PID}
DB = PodAffinity(
    required=[
        PodAffinityTerm(selector=LabelSelector(match_labels={"app": "db"}), topology_key="host")
    ]
)
EVERYBODY = Toleration(operator=TolerationOperator.EXISTS)


def session(
    of_node: Mapping[str, Any],
    of_task: Mapping[str, Any],
    *there: TaskInfo,
    switches: Mapping[str, str] = {},
) -> Session:
    """A task, t, that looks at one node, n, with other tasks there."""
    defaults = {"resreq": Resource(milli_cpu=100, memory=100)}
    task = TaskInfo(**{"uid": "t", "name": "t", **defaults, **of_task})
    described = NodeInfo(
        **{
            "name": "n",
            "allocatable": Resource(milli_cpu=1000, memory=1000),
            "labels": {"host": "n"},
            **of_node,
        }
    )
    snapshot = cluster([described], evolve(job("j", ""), tasks=[task]))
    snapshot = evolve(snapshot, other_tasks=there)
    return opened(snapshot, [("predicates", switches)])


def refusal(of: Session) -> UnfitReason | None:
    unfit = of.placement.refusal(of.task("t"), of.nodes[0])
    assert unfit is None or unfit.plugin == "predicates"
    assert (list(of.placement.feasible(of.task("t"))) == []) is (unfit is not None)
    return None if unfit is None else unfit.reason


def other(uid: str = "o", status: TaskStatus = TaskStatus.RUNNING, **more: Any) -> TaskInfo:
    return TaskInfo(uid=uid, name=uid, status=status, node_name="n", **more)


def test_a_plain_task_is_accepted_by_a_plain_node() -> None:
    assert refusal(session({}, {})) is None


@pytest.mark.parametrize(
    ("limit", "expected"), [(0, R.TOO_MANY_TASKS), (2, R.TOO_MANY_TASKS), (3, None), (None, None)]
)
def test_the_number_of_tasks_must_be_below_the_limit(
    limit: int | None, expected: UnfitReason | None
) -> None:
    there = [other("a"), other("b", TaskStatus.RELEASING)]
    assert refusal(session({"max_tasks": limit}, {}, *there)) is expected


def test_all_tasks_count_towards_the_limit_but_reserved_ones() -> None:
    of = opened(
        cluster([node("n", "9C9G", max_tasks=2)], job("j", *["1C1G"] * 3, minimum=1)),
        ["predicates"],
    )
    n = of.nodes[0]
    of.reserve(of.task("j-1"), n)
    of.unallocate(of.task("j-1"))
    of.pipeline(of.task("j-1"), n)
    of.reserve(of.task("j-2"), n)
    assert of.placement.refusal(of.task("j-3"), n) is None
    of.unallocate(of.task("j-2"))
    of.promise(of.task("j-2"), n)
    refused = of.placement.refusal(of.task("j-3"), n)
    assert refused is not None
    assert refused.reason is R.TOO_MANY_TASKS


@pytest.mark.parametrize(
    ("described", "expected"),
    [
        ({"conditions": {"Ready": "True"}}, None),
        ({"conditions": {"Ready": "False"}}, R.NODE_NOT_READY),
        ({"conditions": {"Ready": "Unknown"}}, R.NODE_NOT_READY),
        ({"conditions": {"NetworkUnavailable": "False"}}, None),
        ({"conditions": {"NetworkUnavailable": "True"}}, R.NETWORK_UNAVAILABLE),
        ({"conditions": {"NetworkUnavailable": "Unknown"}}, R.NETWORK_UNAVAILABLE),
        ({"unschedulable": True}, R.NODE_UNSCHEDULABLE),
        ({"conditions": {"OutOfDisk": "True"}}, None),
    ],
)
def test_conditions_of_the_node(described: dict[str, Any], expected: UnfitReason | None) -> None:
    assert refusal(session(described, {"tolerations": [EVERYBODY]})) is expected


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({"disk": "ssd"}, None),
        ({"disk": "ssd", "x": "y"}, None),
        ({"disk": "hdd"}, R.NODE_SELECTOR),
        ({}, R.NODE_SELECTOR),
    ],
)
def test_the_node_selector(labels: dict[str, str], expected: UnfitReason | None) -> None:
    assert refusal(session({"labels": labels}, {"node_selector": {"disk": "ssd"}})) is expected


@pytest.mark.parametrize(("name", "expected"), [("n", None), ("m", R.NODE_SELECTOR)])
def test_a_node_can_be_required_by_its_name(name: str, expected: UnfitReason | None) -> None:
    named = Requirement(key="metadata.name", operator=Operator.IN, values=[name])
    affinity = NodeAffinity(required=[NodeSelectorTerm(match_fields=[named])])
    assert refusal(session({}, {"node_affinity": affinity})) is expected


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (TaskStatus.RUNNING, R.HOST_PORTS),
        (TaskStatus.RELEASING, R.HOST_PORTS),
        (TaskStatus.UNKNOWN, R.HOST_PORTS),
        (TaskStatus.BOUND, R.HOST_PORTS),
    ],
)
def test_ports_of_all_tasks_on_the_node_count(
    status: TaskStatus, expected: UnfitReason | None
) -> None:
    ports = {"host_ports": [HostPort(port=80)]}
    of = session({}, ports, other(status=status, **ports))
    assert refusal(of) is expected


def test_ports_of_reserved_tasks_do_not_count() -> None:
    of_job = job("j", "", "", minimum=1)
    tasks = [evolve(task, host_ports=[HostPort(port=80)]) for task in of_job.tasks]
    snapshot = cluster([node("n", "9C9G")], evolve(of_job, tasks=tasks))
    of = opened(snapshot, ["predicates"])
    of.reserve(of.task("j-1"), of.nodes[0])
    assert of.placement.refusal(of.task("j-2"), of.nodes[0]) is None
    of.unallocate(of.task("j-1"))
    of.pipeline(of.task("j-1"), of.nodes[0])
    assert of.placement.refusal(of.task("j-2"), of.nodes[0]) is not None


def test_other_ports_do_not_conflict() -> None:
    there = other(host_ports=[HostPort(port=80), HostPort(port=443, protocol="UDP")])
    assert refusal(session({}, {"host_ports": [HostPort(port=443)]}, there)) is None
    assert refusal(session({}, {}, there)) is None


@pytest.mark.parametrize(
    ("effect", "expected"),
    [
        (TaintEffect.NO_SCHEDULE, R.UNTOLERATED_TAINT),
        (TaintEffect.NO_EXECUTE, R.UNTOLERATED_TAINT),
        (TaintEffect.PREFER_NO_SCHEDULE, None),
    ],
)
def test_taints_must_be_tolerated(effect: TaintEffect, expected: UnfitReason | None) -> None:
    tainted = {"taints": [Taint(key="k", value="v", effect=effect)]}
    assert refusal(session(tainted, {})) is expected
    tolerates = {"tolerations": [Toleration(key="k", value="v", effect=effect)]}
    assert refusal(session(tainted, tolerates)) is None


NOTHING = Resource(scalars={})
MEMORY_ONLY = Resource(memory=5)
CPU_ONLY = Resource(milli_cpu=5)


@pytest.mark.parametrize(
    ("switches", "condition", "request_", "expected"),
    [
        ({}, "MemoryPressure", NOTHING, None),
        (MEMORY, "MemoryPressure", NOTHING, R.MEMORY_PRESSURE),
        (MEMORY, "MemoryPressure", MEMORY_ONLY, None),
        (MEMORY, "MemoryPressure", CPU_ONLY, None),
        (MEMORY, "DiskPressure", NOTHING, None),
        ({}, "DiskPressure", NOTHING, None),
        (DISK, "DiskPressure", MEMORY_ONLY, R.DISK_PRESSURE),
        (PID, "PIDPressure", MEMORY_ONLY, R.PID_PRESSURE),
        (PID, "DiskPressure", MEMORY_ONLY, None),
    ],
)
def test_pressure_counts_where_it_is_switched_on(
    switches: Mapping[str, str],
    condition: str,
    request_: Resource,
    expected: UnfitReason | None,
) -> None:
    for status, answer in (("True", expected), ("False", None), ("Unknown", None)):
        of = session({"conditions": {condition: status}}, {"resreq": request_}, switches=switches)
        assert refusal(of) is answer


def test_inter_pod_affinity_tells_three_reasons_apart() -> None:
    db = {"labels": {"app": "db"}}
    assert refusal(session({}, {"pod_affinity": DB}, other())) is R.POD_AFFINITY
    assert refusal(session({}, {"pod_affinity": DB}, other(**db))) is None
    assert refusal(session({}, {"pod_affinity": DB, **db})) is None  # the first of its kind
    assert refusal(session({}, {"pod_anti_affinity": DB}, other(**db))) is R.POD_ANTI_AFFINITY
    assert refusal(session({}, {"pod_anti_affinity": DB}, other())) is None
    assert refusal(session({}, db, other(pod_anti_affinity=DB))) is R.EXISTING_ANTI_AFFINITY
    gone = other(status=TaskStatus.RELEASING, pod_anti_affinity=DB)
    assert refusal(session({}, db, gone)) is None  # only what occupies counts


def test_the_first_of_all_refusals_in_the_order_of_the_specification_is_the_reason() -> None:
    """Take away one obstacle after the other; the next one shows."""
    of_node: dict[str, Any] = {
        "max_tasks": 1,
        "conditions": {
            "Ready": "False",
            "NetworkUnavailable": "True",
            "MemoryPressure": "True",
            "DiskPressure": "True",
            "PIDPressure": "True",
        },
        "unschedulable": True,
        "taints": [Taint(key="k", effect=TaintEffect.NO_SCHEDULE)],
    }
    of_task: dict[str, Any] = {
        "resreq": Resource(),
        "node_selector": {"disk": "ssd"},
        "host_ports": [HostPort(port=80)],
        "pod_anti_affinity": DB,
    }
    there = other(host_ports=[HostPort(port=80)], labels={"app": "db"})

    def without_condition(name: str) -> None:
        of_node["conditions"] = {k: v for k, v in of_node["conditions"].items() if k != name}

    steps = [
        (R.TOO_MANY_TASKS, lambda: of_node.update(max_tasks=9)),
        (R.NODE_NOT_READY, lambda: without_condition("Ready")),
        (R.NETWORK_UNAVAILABLE, lambda: without_condition("NetworkUnavailable")),
        (R.NODE_UNSCHEDULABLE, lambda: of_node.update(unschedulable=False)),
        (R.NODE_SELECTOR, lambda: of_task.update(node_selector={})),
        (R.HOST_PORTS, lambda: of_task.update(host_ports=[])),
        (R.UNTOLERATED_TAINT, lambda: of_node.update(taints=[])),
        (R.MEMORY_PRESSURE, lambda: without_condition("MemoryPressure")),
        (R.DISK_PRESSURE, lambda: without_condition("DiskPressure")),
        (R.PID_PRESSURE, lambda: without_condition("PIDPressure")),
        (R.POD_ANTI_AFFINITY, lambda: of_task.update(pod_anti_affinity=None)),
    ]
    for reason, take_away in steps:
        assert refusal(session(of_node, of_task, there, switches=ALL_SWITCHES)) is reason
        take_away()
    assert refusal(session(of_node, of_task, there, switches=ALL_SWITCHES)) is None


@given(snapshots())
@settings(max_examples=60, deadline=None)
def test_checks_made_for_one_task_give_the_answers_of_the_plain_ones(snapshot: Snapshot) -> None:
    of = opened(snapshot, [("predicates", ALL_SWITCHES)])
    keys: dict[object, object] = {}
    for number, predicate in enumerate(plugin_object(of, "predicates").predicates()):
        for task in of.ledger.tasks.values():
            answers = [predicate.check(task, n) for n in of.nodes]
            if predicate.hints.specialise is not None:
                check = predicate.hints.specialise(task)
                assert [None if check is None else check(n) for n in of.nodes] == answers
            # Tasks with equal keys get equal answers.
            key = (number, predicate.signature(task))
            assert keys.setdefault(key, answers) == answers


def test_inter_pod_affinity_says_what_it_reads_and_is_not_asked_where_it_cannot_refuse() -> None:
    db = {"app": "db"}
    of_job = job("j", *["1C1G"] * 4, minimum=1)
    more = [{"pod_anti_affinity": DB}, {"pod_anti_affinity": DB}, {"labels": db}, {}]
    tasks = [evolve(t, **with_) for t, with_ in zip(of_job.tasks, more, strict=True)]
    there = other(resreq=Resource(), labels=db)
    nodes = [node(name, "9C9G", labels={"host": name}) for name in ("m", "n")]
    of = opened(
        evolve(cluster(nodes, evolve(of_job, tasks=tasks)), other_tasks=[there]), ["predicates"]
    )
    *_, of_others, near, away = plugin_object(of, "predicates").predicates()
    hates, alike, meant, plain = of.jobs["default/j"].tasks
    assert [away.reads_for(task) for task in (hates, meant)] == [Reads.CLUSTER, Reads.DESCRIPTION]
    assert [of_others.reads_for(task) for task in (meant, plain)] == [
        Reads.CLUSTER,
        Reads.DESCRIPTION,
    ]
    assert {near.reads_for(task) for task in (hates, meant, plain)} == {Reads.DESCRIPTION}
    assert away.signature(hates) == away.signature(alike) != away.signature(meant)
    check = away.hints.specialise(hates)
    assert [check(n) is None for n in of.nodes] == [True, False]
    assert away.hints.specialise(plain) is None
    watches = of_others.hints.watch(meant)
    before = [watch.changed_since(0)[0] for watch in watches]
    of.allocate(hates, of.nodes[0])
    told = [watch.changed_since(end)[1] for watch, end in zip(watches, before, strict=True)]
    assert told == [[of.nodes[0].slot]]  # the first that hates it
    assert of_others.hints.watch(plain) == []


def test_predicates_read_what_they_declare_in_the_order_of_the_specification() -> None:
    """What they read of tasks is the same for tasks that are described in the same words."""
    of_job = job("j", *["1C1G"] * 2, minimum=1)
    described = {
        "node_selector": {"disk": "ssd"},
        "host_ports": [HostPort(port=80)],
        "tolerations": [EVERYBODY],
        "pod_anti_affinity": DB,
    }
    tasks = [evolve(task, **described) for task in of_job.tasks]
    tainted = [Taint(key="k", effect=TaintEffect.NO_SCHEDULE)]
    snapshot = cluster(
        [node("n", "9C9G", max_tasks=9, taints=tainted)], evolve(of_job, tasks=tasks)
    )
    of = opened(snapshot, [("predicates", ALL_SWITCHES)])
    predicates = list(plugin_object(of, "predicates").predicates())
    one, other_ = of.jobs["default/j"].tasks
    assert [predicate.reads_for(one) for predicate in predicates] == [
        Reads.ACCOUNTS,  # the number of tasks
        Reads.DESCRIPTION,  # conditions
        Reads.DESCRIPTION,  # selector
        Reads.NODE,  # ports
        Reads.DESCRIPTION,  # taints
        *[Reads.DESCRIPTION] * 3,  # pressures
        *[Reads.DESCRIPTION] * 2,  # what repels it, and what it must be near: there is nothing
        Reads.CLUSTER,  # what it repels
    ]
    for predicate in predicates:
        assert predicate.signature(one) == predicate.signature(other_)


def test_predicates_that_cannot_refuse_a_task_are_not_asked_about_it() -> None:
    of = session({"max_tasks": 2}, {})
    limit, conditions, selector, ports = plugin_object(of, "predicates").predicates()
    plain, on = of.task("t"), of.nodes[0]
    assert limit.hints.specialise(plain)(on) is None
    arrays = ArrayTable(of.ledger).all()
    assert limit.hints.vectorise(plain)(arrays).tolist() == [True]
    assert conditions.hints.specialise is None
    assert selector.hints.specialise(plain) is None
    assert ports.hints.specialise(plain) is None


def test_the_number_of_tasks_is_compared_on_all_nodes_at_once() -> None:
    nodes = [node(f"n{i}", "9C9G", max_tasks=i) for i in (1, 2, 3)]
    snapshot = cluster(
        [*nodes, node("n4", "9C9G")], job("a", *(f"1C1G@n{i}" for i in (1, 2, 2, 3)))
    )
    of = opened(snapshot, [("predicates", ALL_SWITCHES)])
    limit = next(iter(plugin_object(of, "predicates").predicates()))
    arrays = ArrayTable(of.ledger).all()
    task = of.task("a-1")
    assert limit.hints.vectorise(task)(arrays).tolist() == [False, False, True, True]
    assert [limit.check(task, n) is None for n in of.nodes] == [False, False, True, True]
