"""What displacing remembers of its trials changes nothing."""

from __future__ import annotations

from tests.support.clusters import action, bound, cluster, job, node, places, scheduler

from batchsched import CycleResult, Scheduler, Snapshot

DISPLACE = action("backfill", strategy="displace")


def decided(using: Scheduler, snapshot: Snapshot) -> CycleResult:
    """What is decided, which is what is decided without any memory of earlier trials."""
    result = using.schedule(snapshot)
    plain = Scheduler(using.config, plain={"engine"})
    assert plain.schedule(snapshot) == result
    return result


def test_what_was_tried_on_a_node_holds_until_the_node_changes() -> None:
    """Ten gangs that cannot start hold a node each; twenty jobs take turns to displace them."""
    gangs = [job(f"gang{i}", "2C2G", "9C9G", priority=5) for i in range(10)]
    jobs = [job(f"j{i:02}", "1C1G") for i in range(20)]
    snapshot = cluster([node(f"n{i}", "2C2G") for i in range(10)], *gangs, *jobs)
    using = scheduler("allocate", DISPLACE, without=["drf", "proportion"])
    assert len(bound(decided(using, snapshot))) == 20


def test_who_was_displaced_may_take_another_turn() -> None:
    """What is left to place is counted anew for a job of which something was displaced."""
    snapshot = cluster(
        [node("n1", "2C2G"), node("n2", "1C1G")],
        job("gang", "1C1G", "1C1G", "1C1G", "1C1G", priority=5),
        job("j", "2C2G"),
        job("k", "1C1G"),
    )
    result = decided(scheduler("allocate", DISPLACE, without=["drf", "proportion"]), snapshot)
    assert bound(result) == {"j-1": "n1", "k-1": "n2"}
    assert set(places(result, "gang").values()) == {"Pending"}


def test_trials_of_unlike_tasks_are_kept_apart() -> None:
    gangs = [job(f"gang{i}", "2C2G", "9C9G", priority=5) for i in range(3)]
    jobs = [job(f"j{i:02}", f"{1 + i % 3 / 10}C1G") for i in range(9)]
    snapshot = cluster([node(f"n{i}", "2C2G") for i in range(3)], *gangs, *jobs)
    using = scheduler("allocate", DISPLACE, without=["drf", "proportion"])
    assert len(bound(decided(using, snapshot))) == 4


def test_a_trial_with_the_tasks_of_some_says_nothing_of_that_with_as_many_of_others() -> None:
    """Each of a and b may displace what the other holds: half a cpu, or two."""
    snapshot = cluster([node("n1", "2.5C2G")], job("a", "2C0G", "1C0G"), job("b", "0.5C0G", "1C0G"))
    using = scheduler("allocate", DISPLACE, without=["drf", "proportion"])
    assert bound(decided(using, snapshot)) == {"b-1": "n1", "b-2": "n1"}
