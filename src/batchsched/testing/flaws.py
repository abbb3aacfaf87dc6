"""Flaws of nodes, queues, jobs and tasks, with the expected messages."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import cast

from attrs import evolve, frozen

from batchsched.model.cluster import Dependency, JobEvent, Plan, TaskStatus
from batchsched.model.constraints import (
    HostPort,
    NodeAffinity,
    NodeSelectorTerm,
    Operator,
    PodAffinity,
    PodAffinityTerm,
    PreferredNodeTerm,
    Requirement,
    Taint,
    TaintEffect,
    Toleration,
    TolerationOperator,
)
from batchsched.model.resources import Resource, ResourceLimit

__all__ = ["JOB_FLAWS", "NODE_FLAWS", "QUEUE_FLAWS", "TASK_FLAWS", "Flaw"]

_A_DURATION = "expected a finite number of seconds, 0 or more"
_ONE = Requirement(key="zone", operator=Operator.IN, values=("z1",))


def _required(requirement: Requirement) -> NodeAffinity:
    return NodeAffinity(required=(NodeSelectorTerm(match_expressions=(requirement,)),))


def _field(requirement: Requirement) -> NodeAffinity:
    return NodeAffinity(required=(NodeSelectorTerm(match_fields=(requirement,)),))


@frozen
class Flaw:
    """Values that make an item invalid, with the path and message of the expected fault."""

    changes: Mapping[str, object]
    below: str
    message: str


_RESOURCE_FLAWS: tuple[tuple[Resource, str, str], ...] = (
    (Resource(milli_cpu=-1), "milli_cpu", "expected 0 or more, got -1"),
    (Resource(memory=inf), "memory", "expected a finite number, got inf"),
    (
        Resource(scalars={"example.com/gpu": -2}),
        "scalars['example.com/gpu']",
        "expected 0 or more, got -2",
    ),
    (
        Resource(scalars={"cpu": 1}),
        "scalars['cpu']",
        "expected the name of a scalar, other than cpu and memory, got 'cpu'",
    ),
)

NODE_FLAWS = (
    *(
        Flaw({"allocatable": resource}, f"allocatable.{below}", message)
        for resource, below, message in _RESOURCE_FLAWS
    ),
    Flaw(
        {"max_tasks": -1},
        "max_tasks",
        "expected a number of tasks (an integer, 0 or more, or None), got -1",
    ),
    Flaw({"taints": (Taint(key="", effect=TaintEffect.NO_SCHEDULE),)}, "taints[0].key", "is empty"),
    Flaw(
        {"labels": {"zone": 1}},
        "labels['zone']",
        "expected strings, got 1 for 'zone'",
    ),
    Flaw({"unschedulable": 1}, "unschedulable", "expected True or False, got 1"),
)

QUEUE_FLAWS = (
    Flaw({"weight": -1}, "weight", "expected a weight (an integer, 0 or more), got -1"),
    Flaw({"weight": 1.5}, "weight", "expected a weight (an integer, 0 or more), got 1.5"),
    Flaw({"priority": "high"}, "priority", "expected a priority (an integer), got 'high'"),
    Flaw({"parent": "nobody"}, "parent", "there is no queue 'nobody' in this snapshot"),
    *(
        Flaw({"guarantee": resource}, f"guarantee.{below}", message)
        for resource, below, message in _RESOURCE_FLAWS
    ),
    Flaw({"usage": Resource(milli_cpu=-1)}, "usage.milli_cpu", "expected 0 or more, got -1"),
    Flaw(
        {"usage_by_user": {"ann": Resource(memory=inf)}},
        "usage_by_user['ann'].memory",
        "expected a finite number, got inf",
    ),
    Flaw(
        {"usage_half_life": 0},
        "usage_half_life",
        "expected a finite number of seconds, more than 0, or None, got 0",
    ),
    Flaw({"limit": ResourceLimit(memory=-1)}, "limit.memory", "expected 0 or more, got -1"),
    Flaw(
        {"guarantee": Resource(milli_cpu=2), "limit": ResourceLimit(milli_cpu=1)},
        "guarantee.milli_cpu",
        "expected at most its limit, 1, got 2",
    ),
    Flaw(
        {"creation_time": inf},
        "creation_time",
        "expected a time (a finite number of seconds), got inf",
    ),
)

_NOT_TEXTS: Mapping[str, object] = {"t": 1}

JOB_FLAWS = (
    Flaw(
        {"min_available": -1},
        "min_available",
        "expected a number of tasks (an integer, 0 or more), got -1",
    ),
    Flaw({"queue": ""}, "queue", "is empty"),
    Flaw({"priority": 0.5}, "priority", "expected a priority (an integer), got 0.5"),
    Flaw(
        {"creation_time": "now"},
        "creation_time",
        "expected a time (a finite number of seconds), got 'now'",
    ),
    Flaw(
        {"labels": {"zone": 1}},
        "labels['zone']",
        "expected strings, got 1 for 'zone'",
    ),
    Flaw({"user": None}, "user", "expected a string, got None"),
    Flaw({"estimate": -1}, "estimate", f"{_A_DURATION}, got -1"),
    Flaw({"max_wait": "1h"}, "max_wait", f"{_A_DURATION}, got '1h'"),
    Flaw({"deadline": inf}, "deadline", "expected a time (a finite number of seconds), got inf"),
    Flaw(
        {"depends_on": ("default/j9",)},
        "depends_on[0]",
        "expected a Dependency, got 'default/j9'",
    ),
    Flaw({"depends_on": (Dependency(job="", on=JobEvent.ENDED),)}, "depends_on[0].job", "is empty"),
    Flaw({"plan": 10}, "plan", "expected a Plan or None, got 10"),
    Flaw(
        {"plan": Plan(start=0, nodes=cast("Mapping[str, str]", _NOT_TEXTS))},
        "plan.nodes['t']",
        "expected strings, got 1 for 't'",
    ),
)

_PENDING: Mapping[str, object] = {
    "status": TaskStatus.PENDING,
    "node_name": None,
}

TASK_FLAWS = (
    *(
        Flaw({**_PENDING, "resreq": resource, "init_resreq": None}, f"resreq.{below}", message)
        for resource, below, message in _RESOURCE_FLAWS
    ),
    Flaw(
        {"resreq": Resource(milli_cpu=2), "init_resreq": Resource(milli_cpu=1), **_PENDING},
        "init_resreq",
        "expected at least resreq, Resource(milli_cpu=2, memory=0), "
        "got Resource(milli_cpu=1, memory=0)",
    ),
    Flaw({"name": ""}, "name", "is empty"),
    Flaw({"priority": "high"}, "priority", "expected a priority (an integer), got 'high'"),
    Flaw({"is_backfill": None}, "is_backfill", "expected True or False, got None"),
    Flaw({"estimate": inf}, "estimate", f"{_A_DURATION}, got inf"),
    Flaw({"attained_service": -5}, "attained_service", f"{_A_DURATION}, got -5"),
    Flaw(
        {"start_time": "noon"},
        "start_time",
        "expected a time (a finite number of seconds), got 'noon'",
    ),
    Flaw(
        {"status": TaskStatus.RUNNING, "node_name": None},
        "node_name",
        "expected a node for a task that is Running, got None",
    ),
    Flaw(
        {"status": TaskStatus.RUNNING, "node_name": "nowhere"},
        "node_name",
        "there is no node 'nowhere' in this snapshot",
    ),
    Flaw(
        {**_PENDING, "node_name": "n1"},
        "node_name",
        "expected None for a task that is Pending, got 'n1'",
    ),
    Flaw(
        {"status": TaskStatus.FAILED, "node_name": "n1"},
        "node_name",
        "expected None for a task that has Failed, got 'n1'",
    ),
    Flaw(
        {"status": TaskStatus.RESERVED, "node_name": None},
        "node_name",
        "expected a node for a task that is Reserved, got None",
    ),
    Flaw(
        {"status": TaskStatus.PIPELINED, "node_name": None},
        "node_name",
        "expected a node for a task that is Pipelined, got None",
    ),
    Flaw(
        {"status": TaskStatus.CONDITIONAL, "node_name": "n1"},
        "status",
        "expected a status outside of sessions, got Conditional; use Pending",
    ),
    Flaw(
        {**_PENDING, "status": "Pending"},
        "status",
        "expected a TaskStatus, got 'Pending'; use TaskStatus.PENDING",
    ),
    Flaw(
        {"host_ports": (HostPort(port=0),)},
        "host_ports[0].port",
        "expected a port (an integer in 1..65535), got 0",
    ),
    Flaw(
        {"host_ports": (HostPort(port=80, protocol="HTTP"),)},
        "host_ports[0].protocol",
        "expected a protocol (TCP, UDP, SCTP), got 'HTTP'",
    ),
    Flaw(
        {"tolerations": (Toleration(value="red"),)},
        "tolerations[0].key",
        "is empty; use operator Exists without a key to tolerate everything",
    ),
    Flaw(
        {"tolerations": (Toleration(key="team", operator=TolerationOperator.EXISTS, value="red"),)},
        "tolerations[0].value",
        "expected no value for operator Exists, got 'red'",
    ),
    Flaw(
        {"node_affinity": _required(evolve(_ONE, values=()))},
        "node_affinity.required[0].match_expressions[0].values",
        "expected at least one value for operator In, got none",
    ),
    Flaw(
        {"node_affinity": _required(evolve(_ONE, operator=Operator.GT, values=("1", "2")))},
        "node_affinity.required[0].match_expressions[0].values",
        "expected one integer for operator Gt, got ('1', '2')",
    ),
    Flaw(
        {"node_affinity": _required(evolve(_ONE, operator=Operator.EXISTS))},
        "node_affinity.required[0].match_expressions[0].values",
        "expected no values for operator Exists, got ('z1',)",
    ),
    Flaw(
        {"node_affinity": _field(_ONE)},
        "node_affinity.required[0].match_fields[0].key",
        "expected metadata.name, the only supported field of nodes, got 'zone'",
    ),
    Flaw(
        {
            "node_affinity": NodeAffinity(
                preferred=(PreferredNodeTerm(weight=101, term=NodeSelectorTerm()),)
            )
        },
        "node_affinity.preferred[0].weight",
        "expected a weight (an integer in 1..100), got 101",
    ),
    Flaw(
        {"pod_affinity": PodAffinity(required=(PodAffinityTerm(topology_key=""),))},
        "pod_affinity.required[0].topology_key",
        "expected a topology key (a node label such as zone), got ''",
    ),
)
