"""The scenarios D1 to D5, H12 and H18: backfill by displacing."""

from __future__ import annotations

from tests.support.clusters import action, bound, cluster, evicted, job, node, places, scheduler

from batchsched import CycleResult, JobInfo

DISPLACE = action("backfill", strategy="displace")


def on_one_node(*jobs: JobInfo) -> CycleResult:
    queues = sorted({one.queue for one in jobs})
    snapshot = cluster([node("n1", "3C4G")], *jobs, queues=queues)
    return scheduler("allocate", DISPLACE).schedule(snapshot)


def test_d1_a_job_that_can_start_takes_the_place_of_one_that_cannot() -> None:
    result = on_one_node(job("job1", "2.5C1G", "2.5C1G"), job("job2", "1C1G", "1C1G"))
    assert bound(result) == {"job2-1": "n1", "job2-2": "n1"}
    assert places(result, "job1") == {"job1-1": "Pending", "job1-2": "Pending"}


def test_d2_a_job_that_cannot_start_either_displaces_nothing() -> None:
    result = on_one_node(job("job1", "2.5C1G", "2.5C1G"), job("job2", "1.6C1G", "1.6C1G"))
    assert not result.binds
    assert places(result, "job1") == {"job1-1": "Allocated n1", "job1-2": "Pending"}


def test_d3_of_three_jobs_the_two_that_can_start_do() -> None:
    snapshot = cluster(
        [node("n1", "3C4G"), node("n2", "7C7G")],
        job("job1", "1C1G", "1C1G"),
        job("job2", "3C3G", "3C3G", "3C3G"),
        job("job3", "3C3G", "3C3G"),
    )
    result = scheduler("allocate", DISPLACE, without=["drf"]).schedule(snapshot)
    assert set(bound(result)) == {"job1-1", "job1-2", "job3-1", "job3-2"}
    assert set(places(result, "job2").values()) == {"Pending"}


def test_d4_jobs_displace_until_nothing_more_can_start() -> None:
    snapshot = cluster(
        [node("n1", "7C7G", max_tasks=20), node("n2", "6C6G", max_tasks=20)],
        job("job1", "6C6G", "5.5C5.5G", "8C8G"),
        job("job2", "7C7G", "4C4G"),
        job("job3", "1C1G", "1C1G"),
    )
    result = scheduler("allocate", DISPLACE).schedule(snapshot)
    assert bound(result) == {"job2-1": "n1", "job2-2": "n2", "job3-1": "n2", "job3-2": "n2"}
    assert set(places(result, "job1").values()) == {"Pending"}


def test_d5_nothing_is_displaced_across_queues() -> None:
    result = on_one_node(job("job1", "2.5C1G", "2.5C1G"), job("job2", "1C1G", "1C1G", queue="q2"))
    assert not result.binds
    assert places(result) == {
        "job1-1": "Allocated n1",
        "job1-2": "Pending",
        "job2-1": "Pending",
        "job2-2": "Pending",
    }


def test_h12_nothing_of_a_gang_that_preempt_has_evicted_for_is_displaced() -> None:
    snapshot = cluster(
        [node("n1", "2C2G"), node("n2", "2C2G"), node("n3", "8C8G")],
        job("gang", "2C2G", "2C2G", priority=10),
        job("rest", "1C1G@n2", "1C1G@n2", "8C8G@n3", minimum=1),
        job("wish", "2C2G"),
    )
    result = scheduler("allocate", "preempt", DISPLACE).schedule(snapshot)
    assert sorted(evicted(result)) == ["rest-1", "rest-2"]
    assert places(result, "gang", "wish") == {
        "gang-1": "Allocated n1",
        "gang-2": "Pipelined n2",
        "wish-1": "Pending",
    }


def test_h18_only_those_are_displaced_without_whom_there_is_no_room() -> None:
    snapshot = cluster(
        [node("n1", "4C4G")],
        job("a", "3C3G", "9C9G"),
        job("b", "0.5C0.5G", "9C9G"),
        job("c", "3C3G"),
    )
    assert places(scheduler("allocate").schedule(snapshot), "a", "b")["b-1"] == "Allocated n1"
    result = scheduler("allocate", DISPLACE).schedule(snapshot)
    assert bound(result) == {"c-1": "n1"}
    assert places(result, "a", "b") == {
        "a-1": "Pending",
        "a-2": "Pending",
        "b-1": "Allocated n1",
        "b-2": "Pending",
    }
