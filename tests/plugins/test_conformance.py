"""conformance: what the cluster itself runs on is never evicted."""

from __future__ import annotations

import pytest
from tests.support.books import opened, plugin_object
from tests.support.clusters import action, cluster, evicted, job, node

from batchsched import Scheduler, SchedulerConfig
from batchsched.plugin import Verdict

V, X = Verdict.VICTIM, Verdict.PROTECTED


@pytest.mark.parametrize(
    ("namespace", "priority_class", "verdict"),
    [
        ("default", "", V),
        ("default", "high", V),
        ("kube-system", "", X),
        ("kube-system", "low", X),
        ("kube-systems", "", V),
        ("default", "system-cluster-critical", X),
        ("default", "system-node-critical", X),
        ("default", "system-critical", V),
    ],
)
def test_system_tasks_are_protected_and_all_others_are_victims(
    namespace: str, priority_class: str, verdict: Verdict
) -> None:
    of = opened(
        cluster(
            [node("n1", "9C9G")],
            job("a", "1C1G@n1", namespace=namespace, priority_class_name=priority_class),
            job("b", "1C1G"),
        ),
        ["conformance"],
    )
    plugin = plugin_object(of, "conformance")
    for point in (plugin.preemptable, plugin.reclaimable):
        assert list(point(of.task("b-1"), [of.task("a-1")])) == [verdict]


def test_verdicts_come_in_the_order_of_the_candidates() -> None:
    of = opened(
        cluster(
            [node("n1", "9C9G")],
            job("a", "1C1G@n1", namespace="kube-system"),
            job("b", "1C1G@n1", "1C1G"),
        ),
        ["conformance"],
    )
    plugin = plugin_object(of, "conformance")
    candidates = [of.task("b-1"), of.task("a-1"), of.task("b-1")]
    assert list(plugin.preemptable(of.task("b-2"), candidates)) == [V, X, V]
    assert list(plugin.reclaimable(of.task("b-2"), [])) == []


@pytest.mark.parametrize("conformance_last", [True, False])
def test_system_tasks_stay_whatever_the_tier(conformance_last: bool) -> None:
    tiers = [{"plugins": ["priority"]}, {"plugins": ["conformance"]}]
    scheduler = Scheduler(
        SchedulerConfig.from_mapping(
            {
                "actions": [action("preempt")],
                "tiers": tiers if conformance_last else list(reversed(tiers)),
            }
        )
    )
    high = job("high", "1C1G", priority=9)
    for namespace, expected in (("kube-system", []), ("default", ["low-1"])):
        low = job("low", "1C1G@n1", namespace=namespace)
        snapshot = cluster([node("n1", "1C1G")], low, high)
        assert evicted(scheduler.schedule(snapshot)) == expected
