"""release and displace: what is left alone; what they do is in the scenarios."""

from __future__ import annotations

import pytest
from attrs import evolve
from tests.support.clusters import action, bound, cluster, job, node, places, scheduler

from batchsched import JobInfo, Snapshot, TaskStatus
from batchsched.actions.backfill import displace as displace_jobs
from batchsched.actions.eviction.choosing import make_promises_real


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
    assert not on.fits(session.task("z-1"))


# Where to


SIZES = [
    (("4C4G", "4C4G"), "n2"),  # as good: the first
    (("4C4G", "6C6G"), "n3"),
    (("6C6G", "4C4G"), "n2"),
]


@pytest.mark.parametrize(("sizes", "chosen"), SIZES)
def test_a_job_is_started_on_the_best_node_of_those_where_nobody_waits(
    sizes: tuple[str, str], chosen: str
) -> None:
    """On n1 p waits for k to leave; the gang g gives back what it holds on n2 and n3."""
    snapshot = cluster(
        [node("n1", "4C4G"), node("n2", sizes[0]), node("n3", sizes[1])],
        job("k", "2C2G@n1*"),
        job("p", "3C3G", priority=10),
        job("g", *sorted(sizes, reverse=True), "9C9G", priority=20),
        job("y", "2C2G"),
    )
    release = action("backfill", strategy="release")
    result = scheduler("allocate", release, without=["drf", "proportion"]).schedule(snapshot)
    assert places(result, "p", "y") == {"p-1": "Conditional n1", "y-1": f"Binding {chosen}*"}


@pytest.mark.parametrize(("sizes", "chosen"), SIZES)
def test_a_job_displaces_on_the_best_node(sizes: tuple[str, str], chosen: str) -> None:
    snapshot = cluster(
        [node("n2", sizes[0]), node("n3", sizes[1])],
        job("g", *sorted(sizes, reverse=True), "9C9G", priority=10),
        job("y", "2C2G"),
    )
    displace = action("backfill", strategy="displace")
    result = scheduler("allocate", displace, without=["drf", "proportion"]).schedule(snapshot)
    assert places(result, "y") == {"y-1": f"Binding {chosen}"}


def test_nothing_is_displaced_on_a_node_that_is_closed() -> None:
    """g holds a part of n1 until k is reserved the whole of it, and of n2, which stays open."""
    reserve = action("reserve", starvingJobTimeThreshold=10, reservedNodePercent=100)
    displace = action("backfill", strategy="displace")
    using = scheduler("allocate", reserve, displace, without=["drf", "proportion"])

    def snapshot(*nodes: str) -> Snapshot:
        return cluster(
            [node("n1", "4C4G"), *(node(name, "3C3G") for name in nodes)],
            job("r", "1C1G@n1"),
            job("k", "4C4G", priority=20),
            job("g", "3C3G", *("3C3G" for _ in nodes), "9C9G", priority=10),
            job("y", "2C2G", creation_time=99),
            now=100,
        )

    result = using.schedule(snapshot())
    assert places(result, "k", "g", "y") == {
        "k-1": "Reserved n1",
        "g-1": "Allocated n1",
        "g-2": "Pending",
        "y-1": "Pending",
    }
    assert bound(using.schedule(snapshot("n2"))) == {"y-1": "n2"}


def test_nothing_is_displaced_for_room_that_is_promised_to_others_in_the_end() -> None:
    """v counts as accessible whether it is there or not; x leaves, which p does not wait for."""
    leaving = job("x", "2C2G@n1")
    session = scheduler("allocate", without=["drf", "proportion"]).open(
        cluster(
            [node("n1", "4C4G")],
            evolve(leaving, tasks=[evolve(leaving.tasks[0], status=TaskStatus.RELEASING)]),
            marked(job("v", "2C2G", "9C9G")),
            job("p", "1C1G"),
            job("t", "2C2G"),
        )
    )
    (on,) = session.nodes
    session.allocate(session.task("v-1"), on)
    session.promise(session.task("p-1"), on)
    displace_jobs(session)
    assert session.task("v-1").status is TaskStatus.ALLOCATED
    assert session.task("t-1").status is TaskStatus.PENDING


@pytest.mark.parametrize(("needed", "are_real"), [(1, True), (2, False)])
def test_promises_become_real_or_it_is_said_that_they_did_not(needed: int, are_real: bool) -> None:
    session = scheduler("allocate", without=["drf", "proportion"]).open(
        cluster(
            [node("n1", "2C2G")],
            job("k", "1C1G@n1*"),
            job("p", "2C2G", "9C9G", minimum=needed),
        )
    )
    (on,) = session.nodes
    session.promise(session.task("p-1"), on)
    assert make_promises_real(session, session.jobs["default/p"]) is are_real
    stands = TaskStatus.PIPELINED if are_real else TaskStatus.CONDITIONAL
    assert session.task("p-1").status is stands
    assert [e.task_uid for e in session.evictions] == (["k-1"] if are_real else [])


def test_promises_that_backfill_tasks_alone_cannot_keep_do_not_become_real() -> None:
    session = scheduler("allocate", without=["drf", "proportion"]).open(
        cluster(
            [node("n1", "2C2G")],
            job("k", "1C1G@n1*", queue="gone"),
            job("p", "2C2G"),
        )
    )
    session.promise(session.task("p-1"), session.nodes[0])
    assert make_promises_real(session, session.jobs["default/p"]) is False
    assert session.task("p-1").status is TaskStatus.CONDITIONAL


def test_only_whole_jobs_are_started_in_what_gangs_give_back() -> None:
    """j is not ready with the one task that runs; y waits with all of its own."""
    snapshot = cluster(
        [node("n1", "1C1G"), node("n2", "4C4G")],
        job("g", "4C4G", "9C9G", priority=10),
        job("j", "1C1G@n1", "2C2G"),
        job("y", "2C2G"),
    )
    release = action("backfill", strategy="release")
    result = scheduler("allocate", release, without=["drf", "proportion"]).schedule(snapshot)
    assert bound(result) == {"y-1": "n2"}
    assert places(result, "j") == {"j-1": "Running n1", "j-2": "Pending"}
