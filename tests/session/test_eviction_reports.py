"""When preempt and reclaim find nobody: whom they considered, why not, and what is short."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from tests.support.clusters import cluster, job, node

from batchsched import (
    CycleResult,
    EvictionReport,
    Resource,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    TaskInfo,
    TaskStatus,
)
from batchsched.session import reasons
from batchsched.testing import configs, snapshots

TIERS = [["priority", "gang", "conformance"], ["predicates", "proportion", "nodeorder"]]


def decide(snapshot: Snapshot, actions: str, tiers: Sequence[Sequence[Any]] = TIERS) -> CycleResult:
    config = {"actions": actions, "tiers": [{"plugins": list(plugins)} for plugins in tiers]}
    return Scheduler(SchedulerConfig.from_mapping(config)).schedule(snapshot)


def report(result: CycleResult, uid: str) -> EvictionReport:
    (found,) = result.pending[uid].evictions
    return found


def test_candidates_are_counted_by_why_they_may_not_go() -> None:
    gang = job("gang", "1C1G@n1", "1C1G@n1", "1C1G@n2")
    equal = job("equal", "1C1G@n1", "1C1G@n2", minimum=0, priority=9)
    system = job("sys", "1C1G@n2", minimum=0, namespace="kube-system")
    snapshot = cluster(
        [node("n1", "3C3G"), node("n2", "3C3G")],
        gang,
        equal,
        system,
        job("new", "2C2G", priority=9),
    )
    result = decide(snapshot, "preempt")
    assert result.evictions == ()
    found = report(result, "new-1")
    assert (found.action, found.nodes, found.candidates) == ("preempt", 2, 6)
    by_gang = "protected by gang (atMinimum: protect)"
    assert dict(found.out) == {by_gang: 3, "equal priority": 2, "kube-system": 1}
    assert (found.best_node, found.shortfall) == ("n1", Resource(milli_cpu=2000, memory=2 << 30))
    assert result.pending["new-1"].text.endswith(
        f"preempt searched 2 nodes with 6 candidates: {by_gang}: 3, equal priority: 2, "
        "kube-system: 1, would still be 2 cpu, 2 GiB short on n1"
    )


def test_reclaim_says_what_shares_cover() -> None:
    snapshot = cluster(
        [node("n1", "1C1G"), node("n2", "1C1G")],
        job("a", "1C1G@n1", minimum=0, priority=5),
        job("z", "1C1G@n2", minimum=0, namespace="kube-system"),
        job("c", "1C1G", queue="r"),
        queues=("q", "r"),
    )
    found = report(decide(snapshot, "reclaim"), "c-1")
    assert found.action == "reclaim"
    assert dict(found.out) == {"covered by its queue's share": 1, "kube-system": 1}


def test_reclaim_says_that_the_claimant_asks_for_more_than_its_share() -> None:
    snapshot = cluster(
        [node("n1", "4C4G")],
        job("a", "1C1G@n1", "1C1G@n1", minimum=0),
        job("c", "3C3G", queue="r"),
        queues=("q", "r"),
    )
    found = report(decide(snapshot, "reclaim"), "c-1")
    assert dict(found.out) == {"out of reach, as the claimant's queue would exceed its share": 2}


def test_what_is_short_on_the_best_node_counts_those_who_may_go() -> None:
    snapshot = cluster(
        [node("n1", "4C4G"), node("n2", "3C9G")],
        job("low", "1C1G@n1", "1C1G@n2", minimum=0),
        job("high", "2C2G@n1", minimum=0, priority=99),
        job("new", "4C2G", priority=9),
    )
    found = report(decide(snapshot, "preempt"), "new-1")
    assert dict(found.out) == {"higher priority": 1}
    assert (found.best_node, found.shortfall) == ("n2", Resource(milli_cpu=1000))


def test_nodes_that_refuse_the_task_are_not_searched() -> None:
    snapshot = cluster(
        [node("n1", "1C1G"), node("n2", "1C1G")],
        job("low", "1C1G@n1", "1C1G@n2", minimum=0),
        evolve(
            job("new", priority=9, minimum=1),
            tasks=[
                TaskInfo(
                    uid="new-1",
                    name="new-1",
                    resreq=Resource(milli_cpu=1000),
                    node_selector={"a": "b"},
                )
            ],
        ),
    )
    found = report(decide(snapshot, "preempt"), "new-1")
    assert (found.nodes, found.candidates, found.best_node) == (0, 0, "")
    assert found.text == "preempt searched 0 nodes with 0 candidates"


def test_two_actions_give_two_reports() -> None:
    snapshot = cluster([node("n1", "1C1G")], job("a", "1C1G@n1"), job("b", "1C1G", queue="r"))
    snapshot = evolve(snapshot, queues=cluster([], queues=("q", "r")).queues)
    reports = decide(snapshot, "reclaim, preempt").pending["b-1"].evictions
    assert [each.action for each in reports] == ["reclaim", "preempt"]


def test_a_task_that_was_placed_after_all_has_no_report() -> None:
    snapshot = cluster([node("n1", "2C2G")], job("a", "1C1G@n1"), job("b", "1C1G"))
    result = decide(snapshot, "preempt, allocate")
    assert "b-1" not in result.pending


def test_reports_are_of_the_most_important_jobs_once_too_much_was_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    snapshot = cluster(
        [node("n1", "1C1G")],
        job("r", "1C1G@n1", priority=99),
        job("a", "1C1G"),
        job("b", "1C1G", priority=5),
    )
    assert all(reason.evictions for reason in decide(snapshot, "preempt").pending.values())
    monkeypatch.setattr(reasons, "MOST_ASKED", 1)
    pending = decide(snapshot, "preempt").pending
    assert pending["b-1"].evictions
    assert not pending["a-1"].evictions


@given(snapshots(), configs())
def test_every_candidate_is_out_for_a_reason_or_its_room_is_counted(
    snapshot: Snapshot, config: SchedulerConfig
) -> None:
    result = Scheduler(config).schedule(snapshot)
    running = sum(task.status is TaskStatus.RUNNING for one in snapshot.jobs for task in one.tasks)
    running += len(result.binds)
    for reason in result.pending.values():
        for found in reason.evictions:
            assert sum(found.out.values()) <= found.candidates <= running
            assert found.nodes <= len(snapshot.nodes)
            assert bool(found.best_node) == (not found.shortfall.is_empty())


@pytest.mark.parametrize("plain", [(), ("engine",)])
def test_of_searches_among_other_jobs_and_among_the_own_the_first_is_reported(
    plain: tuple[str, ...],
) -> None:
    """The queue is overused, so both may take only what they evict."""
    snapshot = cluster(
        [node("n1", "5C5G")],
        job("other", "1C1G@n1", minimum=1),
        job("mine", "1C1G@n1", "1C1G@n1", "1C1G@n1", "1C1G@n1", "1C1G", "1C1G", minimum=5),
    )
    config = {"actions": "preempt", "tiers": [{"plugins": list(plugins)} for plugins in TIERS]}
    of = SchedulerConfig.from_mapping(config)
    result = Scheduler(of, plain=plain).schedule(snapshot)
    candidates = {uid: report(result, uid).candidates for uid in ("mine-5", "mine-6")}
    assert candidates == {"mine-5": 1, "mine-6": 1}


def test_which_tasks_get_a_report_is_the_same_on_all_engines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The plain loop cannot tell that the searches of two jobs are alike; it must not matter."""
    monkeypatch.setattr(reasons, "MOST_ASKED", 5)
    waiting = [job(f"w{number}", "1C1G", "1C1G", minimum=1) for number in range(4)]
    snapshot = cluster([node("n1", "1C1G")], job("r", "1C1G@n1", priority=99), *waiting)
    of = SchedulerConfig.from_mapping(
        {"actions": "preempt", "tiers": [{"plugins": list(plugins)} for plugins in TIERS]}
    )
    result, defined = (Scheduler(of, plain=plain).schedule(snapshot) for plain in ((), ("engine",)))
    assert result == defined
    told = [uid for uid, reason in sorted(result.pending.items()) if reason.evictions]
    assert told == ["w0-1", "w0-2", "w1-1", "w1-2", "w2-1", "w2-2"]
