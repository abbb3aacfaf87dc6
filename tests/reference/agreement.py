"""The scheduler and the plain-loop reference make the same decisions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain

from batchsched import CycleResult, Registry, SchedulerConfig, Snapshot
from batchsched.devices import Device, DeviceRequest
from batchsched.testing import Cycle, check_cycle, invariant
from tests.reference.schedule import reference_schedule
from tests.support.known import is_known

__all__ = ["agreement", "check_reference"]


@invariant
def agreement(cycle: Cycle) -> Iterator[str]:
    """The result equals that of the reference, except for the wording of reasons.

    The reference implements the exact semantics with plain loops: slow, and sharing only data with
    the scheduler. It knows only built-in actions and plugins, and neither holds nor what is asked
    of topologies and protection, but for queues that are not reclaimable; of devices it knows
    claims of whole ones (`knows_claims`). Other cycles are not checked.
    """
    policy = cycle.policy
    knows_plugins = policy.plugins.keys() <= {*policy.known_plugins, "usage"}
    knows = is_known(cycle, keeping_queues=True, with_claims=knows_claims(cycle))
    if not (policy.knows_actions and knows_plugins and knows):
        return
    reference = reference_schedule(cycle.snapshot, _as_mapping(cycle.config))
    expected = _lists(reference)
    for name, listed in _lists(cycle.result).items():
        if listed != expected[name]:
            yield f"{name}: expected {expected[name]} (the reference), got {listed}"
    wanted = _outcomes(reference)
    for name, given in _outcomes(cycle.result).items():
        for uid in sorted(given.keys() | wanted[name].keys()):
            if given.get(uid) != wanted[name].get(uid):
                yield (
                    f"{name} of {uid!r}: expected {wanted[name].get(uid)} (the reference), "
                    f"got {given.get(uid)}"
                )


def knows_claims(cycle: Cycle) -> bool:
    """Return whether the reference knows all devices of a cycle, and what is claimed of them."""
    snapshot = cycle.snapshot
    claiming = [task for job in snapshot.jobs for task in job.tasks if task.claims]
    arguments = [
        plugin.arguments
        for tier in cycle.config.tiers
        for plugin in tier.plugins
        if plugin.name == "devices"
    ]
    return (
        arguments == [{"undo": 0}]
        and {action.name for action in cycle.config.actions} <= {"allocate", "preempt", "reclaim"}
        and all(
            device == Device(name=device.name)
            for device in chain(snapshot.devices, *(node.devices for node in snapshot.nodes))
        )
        and not snapshot.held
        and not any(node.closed_pools for node in snapshot.nodes)
        and all(
            isinstance(request.count, int)
            and request == DeviceRequest(name=request.name, count=request.count)
            and not claim.constraints
            for task in claiming
            for claim in task.claims
            for request in claim.requests
        )
        and all(
            task.node_name is None or (task.status.holds and task.devices is not None)
            for task in claiming
        )
    )


def _as_mapping(config: SchedulerConfig) -> Mapping[str, object]:
    """Return the configuration as the content of a kube-batch configuration file."""
    return {
        "actions": [
            {"name": action.name, "arguments": _texts(action.arguments)}
            for action in config.actions
        ],
        "tiers": [
            {
                "plugins": [
                    {"name": plugin.name, **plugin.flags, "arguments": _texts(plugin.arguments)}
                    for plugin in tier.plugins
                ]
            }
            for tier in config.tiers
        ],
    }


def _texts(arguments: Mapping[str, object]) -> dict[str, str]:
    return {name: str(value).lower() for name, value in arguments.items()}


def _lists(result: CycleResult) -> dict[str, object]:
    return {
        "binds": result.binds,
        "evictions": result.evictions,
        "pipelined": result.pipelined,
        "conditional": result.conditional,
        "reserved": result.reserved,
        "dropped reservations": [(p.task_uid, p.node_name) for p in result.dropped_reservations],
        "kept promises": result.kept_promises,
        "dropped promises": [(p.task_uid, p.node_name) for p in result.dropped_promises],
        "late": result.late,
    }


def _outcomes(result: CycleResult) -> dict[str, Mapping[str, object]]:
    return {
        "outcome": result.tasks,
        "phase": {uid: outcome.phase for uid, outcome in result.jobs.items()},
        "condition": {
            uid: outcome.condition and outcome.condition.reason
            for uid, outcome in result.jobs.items()
        },
        "plan": dict(result.planned),
        "left out": {uid: condition.reason for uid, condition in result.left_out.items()},
    }


def check_reference(
    snapshot: Snapshot,
    result: CycleResult,
    config: SchedulerConfig | None = None,
    registry: Registry | None = None,
) -> None:
    """Check that the reference decides the same."""
    check_cycle(snapshot, result, config, registry=registry, invariants=[agreement])
