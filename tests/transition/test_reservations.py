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
    JobInfo,
    NodeInfo,
    Taint,
    TaintEffect,
    TaskStatus,
    next_snapshot,
    reservations_to_keep,
)


def test_the_places_of_a_gang_for_which_loans_were_called_in_are_kept() -> None:
    gang = JobInfo(name="g", queue="q", tasks=[task(uid) for uid in "abcde"])
    lent = task("lent", RUNNING, "n1", mark=True)
    before = evolve(snapshot_of(lent), jobs=[gang, *snapshot_of(lent).jobs])
    result = result_of(
        a=(TaskStatus.ALLOCATED, "n1", False),
        b=(TaskStatus.PIPELINED, "n1", False),
        c=(TaskStatus.PENDING, None, False),
        lent=(RELEASING, "n1", True),
    )
    result = evolve(result, evictions=[evolve(result.evictions[0], for_task_uid="b")])
    places = {
        uid: place[:2] for uid, place in tasks_of(next_snapshot(before, result, now=11)).items()
    }
    assert places["a"] == places["b"] == ("Reserved", "n1")
    assert places["c"] == ("Pending", None)
    forgotten = tasks_of(next_snapshot(before, result, now=11, keep_reservations=False))
    assert forgotten["a"] == forgotten["b"] == ("Pending", None, False)


def test_the_places_of_a_job_that_evicted_ordinary_tasks_are_not_kept() -> None:
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
