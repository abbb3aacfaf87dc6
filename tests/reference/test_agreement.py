"""The scheduler decides like the plain-loop reference, whatever the snapshot and configuration."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

import batchsched
import batchsched.devices
from batchsched import (
    JobInfo,
    NodeInfo,
    Queue,
    Resource,
    ResourceLimit,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    TaskInfo,
    schedule,
)
from batchsched.testing import InvariantViolation, configs, snapshots
from tests.reference import KNOWN_ACTIONS, check_reference, reference_schedule
from tests.support.clusters import cluster, job, node
from tests.support.known import WITHOUT_NEWER


def plugins(share: str) -> Mapping[str, object]:
    return {"plugins": ["predicates", share, "nodeorder"]}


@settings(max_examples=200)
@given(snapshots(), configs(actions=KNOWN_ACTIONS))
def test_decisions_are_those_of_the_reference(snapshot: Snapshot, config: SchedulerConfig) -> None:
    check_reference(snapshot, Scheduler(config).schedule(snapshot), config)


@settings(max_examples=80)
@given(
    snapshots(
        max_nodes=3, constraints=False, affinity=False, scalars=False, min_jobs=4, **WITHOUT_NEWER
    ),
    configs(actions=["allocate", "preempt", "reclaim"]),
)
def test_evictions_are_those_of_the_reference(snapshot: Snapshot, config: SchedulerConfig) -> None:
    check_reference(snapshot, Scheduler(config).schedule(snapshot), config)


@settings(max_examples=80)
@given(
    snapshots(
        max_nodes=3,
        min_tasks=2,
        constraints=False,
        affinity=False,
        scalars=False,
        always=["gangs", "running"],
    ),
    st.sampled_from(["capacity", "proportion"]),
    st.permutations(["allocate", "preempt", "reclaim"]),
)
def test_turns_that_are_made_once_more_are_those_of_the_reference(
    snapshot: Snapshot, share: str, order: list[str]
) -> None:
    whole = {"name": "gang", "arguments": {"atMinimum": "whole-job"}}
    config = SchedulerConfig.from_mapping(
        {
            "actions": [
                {"name": name, "arguments": {"retry": "largest-first"}} for name in order[:2]
            ],
            "tiers": [
                {"plugins": ["priority", whole, "conformance", "predicates", share, "nodeorder"]}
            ],
        }
    )
    check_reference(snapshot, Scheduler(config).schedule(snapshot), config)


@settings(max_examples=80)
@given(
    snapshots(
        max_nodes=3,
        min_jobs=3,
        constraints=False,
        affinity=False,
        always=["running", "queues", "gangs", "crowded"],
        **WITHOUT_NEWER,
    ),
    st.sampled_from(["capacity", "proportion"]),
    st.sampled_from([{}, {"scope": "users"}, {"k": 0.5, "halfLife": 60}, {"k": 0}]),
    st.permutations(["allocate", "preempt", "reclaim"]),
)
def test_use_past_and_present_is_that_of_the_reference(
    snapshot: Snapshot, share: str, arguments: Mapping[str, object], order: list[str]
) -> None:
    usage = {"name": "usage", "arguments": arguments}
    config = SchedulerConfig.from_mapping(
        {"actions": ", ".join(order), "tiers": [{"plugins": ["gang", usage]}, plugins(share)]}
    )
    check_reference(snapshot, Scheduler(config).schedule(snapshot), config)


def keeping(snapshot: Snapshot, drawn: Sequence[tuple[bool, int | None, int]]) -> Snapshot:
    """Return a cluster of which some queues keep what they get, up to a few CPUs."""
    queues = [
        evolve(
            queue,
            reclaimable=not keeps,
            deserved=queue.deserved if cpus is None else ResourceLimit(milli_cpu=1000 * cpus),
            guarantee=Resource(milli_cpu=min(1000 * guaranteed, queue.guarantee.milli_cpu)),
        )
        for queue, (keeps, cpus, guaranteed) in zip(snapshot.queues, drawn, strict=False)
    ]
    return evolve(snapshot, queues=[*queues, *snapshot.queues[len(queues) :]])


@settings(max_examples=120)
@given(
    snapshots(
        max_nodes=3,
        min_jobs=3,
        constraints=False,
        affinity=False,
        always=["running", "queues"],
        **WITHOUT_NEWER,
    ),
    st.lists(
        st.tuples(
            st.booleans(), st.sampled_from([None, 0, 1, 2, 3, 5]), st.sampled_from([0, 1, 4])
        ),
        min_size=3,
        max_size=5,
    ),
    st.sampled_from(["capacity", "proportion"]),
    st.permutations(["allocate", "preempt", "reclaim"]),
)
def test_what_queues_keep_is_never_lent_as_the_reference_says(
    snapshot: Snapshot,
    drawn: Sequence[tuple[bool, int | None, int]],
    share: str,
    order: list[str],
) -> None:
    whole = {"name": "gang", "arguments": {"atMinimum": "whole-job"}}
    config = SchedulerConfig.from_mapping(
        {
            "actions": order,
            "tiers": [{"plugins": ["priority", whole, "protection"]}, plugins(share)],
        }
    )
    start = keeping(snapshot, drawn)
    result = Scheduler(config).schedule(start)
    check_reference(start, result, config)
    assert Scheduler(config, plain=True).schedule(start) == result


@pytest.mark.parametrize(("past", "starts"), [((1.00, 1.01), (4, 4)), ((0, 100), (8, 0))])
def test_the_reference_counts_what_users_hold_now(
    past: tuple[float, float], starts: tuple[int, int]
) -> None:
    users = ("alice", "bob")
    jobs = [evolve(job(f"{u}{n}", "1C0G"), user=u) for u in users for n in range(10)]
    start = cluster([node("n1", "8C0G")], *jobs)
    by_user = {
        user: Resource(milli_cpu=3_600_000 * hours) for user, hours in zip(users, past, strict=True)
    }
    queue = evolve(start.queues[0], usage_by_user=by_user, usage_half_life=3600)
    start = evolve(start, queues=[queue])
    usage = {"name": "usage", "arguments": {"scope": "users"}}
    config = SchedulerConfig.from_mapping(
        {"actions": "allocate", "tiers": [{"plugins": ["gang", usage]}, plugins("capacity")]}
    )
    result = Scheduler(config).schedule(start)
    assert tuple(sum(b.task_uid.startswith(u) for b in result.binds) for u in users) == starts
    check_reference(start, result, config)


@pytest.mark.parametrize("first", [5, 1])
def test_of_nodes_where_as_many_are_reclaimed_the_reference_takes_the_least_important(
    first: int,
) -> None:
    priorities = {"n1": first, "n2": 6 - first, "n3": 9}
    low = [job(f"lo{p}", f"1C0G@{on}", priority=p, queue="r") for on, p in priorities.items()]
    start = cluster([node(on, "1C0G") for on in priorities], *low, job("hi", "1C0G"))
    start = evolve(start, queues=[Queue(name="q"), Queue(name="r")])
    config = SchedulerConfig.from_mapping({"actions": "reclaim"})
    result = Scheduler(config).schedule(start)
    assert [eviction.task_uid for eviction in result.evictions] == ["lo1-1"]
    check_reference(start, result, config)


@pytest.mark.parametrize("action", ["allocate", "preempt", "reclaim"])
def test_where_no_tiers_are_named_the_reference_tries_large_tasks_first_too(action: str) -> None:
    gang = job("gang", "1C0G", "3C0G")
    snapshot = cluster([node("n1", "3C0G"), node("n2", "1C0G")], gang)
    config = SchedulerConfig.from_mapping({"actions": action})
    result = Scheduler(config).schedule(snapshot)
    assert len(result.binds) == 2
    check_reference(snapshot, result, config)
    assert reference_schedule(snapshot, {"actions": action}).binds == result.binds


def test_a_difference_is_told() -> None:
    snapshot = Snapshot(
        nodes=[NodeInfo(name=name, allocatable=Resource(milli_cpu=1000)) for name in ("n1", "n2")],
        queues=[Queue(name="q")],
        jobs=[
            JobInfo(
                name="j",
                queue="q",
                tasks=[TaskInfo(uid="t", name="t", resreq=Resource(milli_cpu=500))],
            )
        ],
    )
    result = schedule(snapshot)
    other = evolve(result, tasks={"t": evolve(result.tasks["t"], node_name="n2")})
    with pytest.raises(InvariantViolation, match=r"outcome of 't': expected .*'n1'.*the reference"):
        check_reference(snapshot, other)


def test_nothing_is_said_of_what_the_reference_does_not_know() -> None:
    snapshot = Snapshot(queues=[Queue(name="q")])
    config = SchedulerConfig.from_mapping({"actions": "allocate"})
    unknown = evolve(config, actions=[evolve(config.actions[0], name="my-action")])
    check_reference(snapshot, evolve(schedule(snapshot), left_out={"j": None}), unknown)


def test_what_a_job_without_a_minimum_holds_is_covered_task_by_task() -> None:
    """A first task that the share does not reach says nothing of the smaller ones after it."""
    jobs = [
        job("a", "1C2G@n1", "1C0G@n1", minimum=0),
        job("b", "1C0G@n1", minimum=0),
        job("c", *["1C0G"] * 4, minimum=1, queue="r"),
    ]
    snapshot = cluster([node("n1", "3C2G")], *jobs, queues=("q", "r"))
    snapshot = evolve(snapshot, queues=[Queue(name="q"), Queue(name="r", weight=2)])
    tiers = [{"plugins": ["gang", "predicates", "proportion"]}]
    config = SchedulerConfig.from_mapping({"actions": "reclaim", "tiers": tiers})
    result = Scheduler(config).schedule(snapshot)
    assert [eviction.task_uid for eviction in result.evictions] == ["b-1", "a-1"]
    check_reference(snapshot, result, config)


def test_the_reference_shares_only_data_with_the_library() -> None:
    """What decides here must not be what is compared with it."""
    folder = Path(__file__).parent
    compares = {"agreement.py"}
    for path in folder.glob("*.py"):
        if path.name in compares or path.name.startswith("test_"):
            continue
        for part in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(part, ast.ImportFrom) and str(part.module).startswith("batchsched"):
                modules = {"batchsched": batchsched, "batchsched.devices": batchsched.devices}
                assert part.module in modules, f"{path.name} imports {part.module}"
                for name in part.names:
                    found = getattr(modules[part.module], name.name)
                    where = getattr(found, "__module__", "a constant")
                    data = (
                        "batchsched.model.",
                        "batchsched.causes",
                        "batchsched.errors",
                        "a constant",
                    )
                    assert where.startswith(data), f"{path.name} imports {name.name}"
