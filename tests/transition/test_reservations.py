"""Which places are kept from one cycle to the next."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from tests.support.decided import (
    ONE,
    RELEASING,
    RESERVED,
    RUNNING,
    result_of,
    snapshot_of,
    task,
    tasks_of,
)

from batchsched import (
    CycleResult,
    EventError,
    JobInfo,
    NodeInfo,
    Promise,
    Taint,
    TaintEffect,
    TaskStatus,
    next_snapshot,
    reservations_to_keep,
)


def test_the_places_that_a_result_keeps_for_claimants_are_promised_to_them_again() -> None:
    gang = JobInfo(name="g", queue="q", tasks=[task(uid) for uid in "abcde"])
    victim = task("victim", RUNNING, "n1")
    before = evolve(snapshot_of(victim), jobs=[gang, *snapshot_of(victim).jobs])
    result = result_of(
        a=(TaskStatus.ALLOCATED, "n1", False),
        b=(TaskStatus.PIPELINED, "n1", False),
        c=(TaskStatus.PIPELINED, "n2", False),
        victim=(RELEASING, "n1", False),
    )
    kept = (Promise(task_uid="a", node_name="n1"), Promise(task_uid="b", node_name="n1"))
    result = evolve(result, kept_promises=kept)
    following = next_snapshot(before, result, now=11)
    places = {uid: place[:2] for uid, place in tasks_of(following).items()}
    assert places["a"] == places["b"] == ("Pipelined", "n1")
    assert places["c"] == places["d"] == ("Pending", None)
    # Without a cycle in between they stay; a cycle that does not keep them ends them.
    again = next_snapshot(following, None, now=12)
    assert tasks_of(again)["a"] == ("Pipelined", "n1", False)
    ended = next_snapshot(following, result_of(a=(TaskStatus.PENDING, None, False)), now=12)
    assert tasks_of(ended)["a"] == tasks_of(ended)["b"] == ("Pending", None, False)
    forgotten = tasks_of(next_snapshot(before, result, now=11, keep_reservations=False))
    assert forgotten["a"] == forgotten["b"] == ("Pending", None, False)


def test_a_promise_on_a_node_that_is_gone_is_for_the_next_cycle_to_end() -> None:
    before = snapshot_of(task("a", TaskStatus.PIPELINED, "n1"), task("b"))
    following = next_snapshot(before, None, now=11, nodes=before.nodes[1:])
    assert tasks_of(following)["a"] == ("Pipelined", "n1", False)


@pytest.mark.parametrize(
    ("kept", "fault"),
    [
        (
            [Promise(task_uid="a", node_name="n9")],
            "result.kept_promises['a']: 'n9' was not there; the result is of another snapshot",
        ),
        (
            [Promise(task_uid="a", node_name="n1")] * 2,
            "result.kept_promises['a']: two promises name the task",
        ),
        (
            [Promise(task_uid="b", node_name="n1")],
            (
                "result.tasks['b']: it keeps a promise to the task, which is Running; the result "
                "is of another snapshot"
            ),
        ),
    ],
)
def test_promises_that_cannot_be_kept_are_faults(kept: list[Promise], fault: str) -> None:
    before = snapshot_of(task("a"), task("b", RUNNING, "n1"))
    with pytest.raises(EventError) as caught:
        next_snapshot(before, CycleResult(kept_promises=tuple(kept)), now=11)
    assert fault in str(caught.value).splitlines()


def test_the_places_of_a_job_of_which_the_result_keeps_no_promise_are_not_kept() -> None:
    before = snapshot_of(task("a"), task("b", RUNNING, "n1"))
    result = result_of(a=(TaskStatus.PIPELINED, "n1", False), b=(RELEASING, "n1", False))
    result = evolve(result, evictions=[evolve(result.evictions[0], for_task_uid="a")])
    assert tasks_of(next_snapshot(before, result, now=11))["a"] == ("Pending", None, False)


def test_what_tasks_of_no_job_hold_is_not_kept_for_the_other_half_of_a_gang() -> None:
    gang = JobInfo(name="g", queue="q", tasks=[task("a"), task("b")])
    allocated = result_of(a=(RESERVED, "n1", False), b=(TaskStatus.ALLOCATED, "n1", False))
    for daemons, standing in ((2, "Reserved"), (3, "Pending")):
        others = tuple(task(f"daemon{n}", RUNNING, "n1") for n in range(daemons))
        before = evolve(snapshot_of(other_tasks=others), jobs=[gang])
        assert tasks_of(next_snapshot(before, allocated, now=11))["b"][0] == standing


@pytest.mark.parametrize(
    "refusing",
    [
        {"taints": [Taint(key="drain", effect=TaintEffect.NO_SCHEDULE)]},
        {"labels": {"disk": "hdd"}},
    ],
    ids=["tainted", "relabelled"],
)
def test_a_reservation_ends_when_the_description_of_its_node_refuses_the_task(
    refusing: dict[str, Any],
) -> None:
    reserved = evolve(task("a", RESERVED, "n1"), node_selector={"disk": "ssd"})
    nodes = [
        NodeInfo(name=name, allocatable=ONE * 4, labels={"disk": "ssd"}) for name in ("n1", "n2")
    ]
    before = evolve(snapshot_of(reserved), nodes=nodes)
    result = result_of(a=(RESERVED, "n1", False))
    kept = next_snapshot(before, result, now=11)
    assert tasks_of(kept) == {"a": ("Reserved", "n1", False)}
    changed = [evolve(nodes[0], **refusing), nodes[1]]
    ended = next_snapshot(before, result, now=11, nodes=changed)
    assert tasks_of(ended) == {"a": ("Pending", None, False)}
    # The same if the node was so during the cycle.
    ended = next_snapshot(evolve(before, nodes=changed), result, now=11)
    assert tasks_of(ended) == {"a": ("Pending", None, False)}


def test_reservations_to_keep_are_those_of_the_next_snapshot() -> None:
    before = snapshot_of(task("a"), task("b", RESERVED, "n1"), task("c", RESERVED, "n1"))
    result = result_of(a=(RESERVED, "n2", False), b=(RESERVED, "n1", False))
    assert reservations_to_keep(result, before) == {"a": "n2", "b": "n1"}
    assert reservations_to_keep(CycleResult(), before) == {}
