"""The scheduler and the plain-loop reference make the same decisions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from batchsched import CycleResult, Registry, SchedulerConfig, Snapshot
from batchsched.testing import Cycle, check_cycle, invariant
from tests.reference.schedule import reference_schedule
from tests.support.known import is_known

__all__ = ["agreement", "check_reference"]


@invariant
def agreement(cycle: Cycle) -> Iterator[str]:
    """The result equals that of the reference, except for the wording of reasons.

    The reference implements the exact semantics with plain loops: slow, and sharing only data with
    the scheduler. It knows only built-in actions and plugins, and neither holds nor what is asked
    of topologies, devices and protection, but for queues that are not reclaimable; other cycles are
    not checked.
    """
    policy = cycle.policy
    knows_plugins = policy.plugins.keys() <= {*policy.known_plugins, "usage"}
    if not (policy.knows_actions and knows_plugins and is_known(cycle, keeping_queues=True)):
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
