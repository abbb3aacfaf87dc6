"""release and displace: what is left alone (section 10); what they do is in the scenarios."""

from __future__ import annotations

import pytest
from attrs import evolve
from clusters import action, bound, cluster, job, node, places, scheduler

from batchsched import JobInfo, Snapshot, TaskStatus


def marked(one: JobInfo) -> JobInfo:
    """The same job with all its tasks marked as backfill, also those that wait."""
    return evolve(one, tasks=[evolve(task, is_backfill=True) for task in one.tasks])


@pytest.mark.parametrize(("threshold", "is_lent"), [(None, True), (200, True), (50, False)])
def test_what_a_starving_job_holds_is_not_lent_out(threshold: int | None, is_lent: bool) -> None:
    arguments = {} if threshold is None else {"starvationThreshold": threshold}
    release = action("backfill", strategy="release", **arguments)
    snapshot = cluster(
        [node("n1", "2C2G")],
        job("r", "1C1G@n1"),
        job("a", "1C1G", "1C1G"),
        job("b", "1C1G"),
        now=100,
    )
    result = scheduler("allocate", release).schedule(snapshot)
    assert bound(result) == ({"b-1": "n1"} if is_lent else {})
    assert places(result, "a")["a-1"] == ("Pending" if is_lent else "Allocated n1")


def test_nothing_is_displaced_that_would_not_make_room_beside_a_promise() -> None:
    """What v holds is promised to p; it counts as accessible whether v is there or not."""
    snapshot = cluster(
        [node("n1", "4C4G")],
        marked(job("v", "2C2G", "9C9G", priority=30)),
        job("p", "3C3G", priority=20),
        job("t", "3C3G", priority=10),
    )
    without = ["drf", "proportion"]
    held = {"v-1": "Allocated n1*", "v-2": "Pending*", "p-1": "Conditional n1", "t-1": "Pending"}
    assert places(scheduler("allocate", without=without).schedule(snapshot)) == held
    displace = action("backfill", strategy="displace")
    assert places(scheduler("allocate", displace, without=without).schedule(snapshot)) == held


def test_a_task_that_is_marked_is_displaced_where_that_makes_room() -> None:
    """t is promised nothing instead, for it has a backfill task itself."""
    snapshot = cluster(
        [node("n1", "4C4G"), node("n2", "1C1G")],
        marked(job("v", "2C2G", "9C9G", priority=30)),
        job("t", "3C3G", "1C1G@n2*", priority=10),
    )
    displace = action("backfill", strategy="displace")
    result = scheduler("allocate", displace, without=["drf", "proportion"]).schedule(snapshot)
    assert bound(result) == {"t-1": "n1"}


def room_for_two_that_was_promised_twice() -> Snapshot:
    """A backfill task that leaves counts for one who waits for it and one promised its place."""
    leaving = job("k", "2C2G@n1*")
    gone = [evolve(task, status=TaskStatus.RELEASING) for task in leaving.tasks]
    return cluster(
        [node("n1", "4C4G")],
        evolve(leaving, tasks=gone),
        job("x", "2C2G"),
        job("y", "2C2G"),
        job("z", "2C2G"),
    )


def test_idle_room_is_not_given_away_that_all_promises_together_need() -> None:
    """What is idle fits future_idle and accessible; what is left when all is kept is nothing."""
    session = scheduler("allocate").open(room_for_two_that_was_promised_twice())
    (on,) = session.nodes
    session.pipeline(session.task("x-1"), on)
    session.promise(session.task("y-1"), on)
    request = session.task("z-1").init_resreq
    fits_in = {
        name: max(r - a for r, a in zip(request, getattr(on, name), strict=True)) <= 0
        for name in ("idle", "future_idle", "accessible", "eventual")
    }
    assert fits_in == {"idle": True, "future_idle": True, "accessible": True, "eventual": False}
    assert not on.fits_now(request)
