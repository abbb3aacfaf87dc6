"""Worked scenarios of jobs that grow and shrink: who gets what first, and what goes as a whole."""

from __future__ import annotations

import pytest
from attrs import evolve
from tests.reference import check_reference
from tests.support.clusters import action, bound, evicted, node, places
from tests.support.clusters import cluster as cluster_of
from tests.support.clusters import job as job_of
from tests.support.elastic import elastic, room, scheduler

from batchsched import (
    JobInfo,
    ResourceLimit,
    Scheduler,
    SchedulerConfig,
    TaskGroup,
    TopologyRequest,
    next_snapshot,
)
from batchsched.live import TaskSucceeded

TWO_CPUS = ResourceLimit(milli_cpu=2000)


def starts(cpus: int, *jobs: JobInfo) -> list[str]:
    return sorted(bound(scheduler("allocate").schedule(room(cpus, jobs))))


def goes(cpus: int, *jobs: JobInfo) -> list[str]:
    return sorted(evicted(scheduler("reclaim").schedule(room(cpus, jobs))))


# With a maximum a job is one group of its own; it decides as one without does.
@pytest.mark.parametrize("most", [None, 6])
class TestWithoutGroups:
    def two(self, most: int | None) -> tuple[JobInfo, JobInfo]:
        e = elastic("e", {None: "PPPPPP"}, min_available=2, max_available=most)
        f = elastic("f", {None: "PPPP"}, min_available=4, max_available=most)
        return e, f

    def test_e1_both_get_their_minimum_and_then_the_rest(self, most: int | None) -> None:
        assert len(starts(10, *self.two(most))) == 10

    def test_e2_a_minimum_comes_before_surplus(self, most: int | None) -> None:
        started = starts(8, *self.two(most))
        assert [uid[0] for uid in started] == ["e"] * 4 + ["f"] * 4

    def test_e3_the_least_valuable_task_beyond_the_share_goes(self, most: int | None) -> None:
        e = elastic("e", {None: "RRRRRR"}, min_available=2, max_available=most)
        claimant = elastic("c", {None: "P"}, queue="b")
        assert goes(6, e, claimant) == ["e-5"]

    def test_e4_a_job_runs_on_with_what_its_share_reaches(self, most: int | None) -> None:
        e = elastic("e", {None: "RRRRRR"}, min_available=2, max_available=most)
        claimant = elastic("c", {None: "PPP"}, queue="b", min_available=3)
        assert goes(6, e, claimant) == ["e-3", "e-4", "e-5"]


class TestRoles:
    def job(self) -> JobInfo:
        return elastic(
            "e",
            {"driver": "P", "worker": "PPPPP"},
            groups=[TaskGroup("driver", min=1), TaskGroup("worker", min=2)],
        )

    def test_e5_nothing_starts_where_only_two_fit(self) -> None:
        assert starts(2, self.job()) == []

    def test_e5_driver_and_workers_start_where_four_fit(self) -> None:
        started = starts(4, self.job())
        assert started == ["e-driver-0", "e-worker-0", "e-worker-1", "e-worker-2"]

    def test_the_reason_names_the_group_that_is_short(self) -> None:
        result = scheduler("allocate").schedule(room(2, [self.job()]))
        message = result.jobs["default/e"].condition.message
        assert "0 of the 3 tasks that must start together" in message
        assert "group 'driver' has 0 of the 1 that it needs" in message

    def test_a_job_whose_role_can_never_be_filled_is_left_out(self) -> None:
        job = elastic(
            "e",
            {"driver": "F", "worker": "PPPPP"},
            groups=[TaskGroup("driver", min=1), TaskGroup("worker", min=2)],
        )
        result = scheduler("allocate").schedule(room(4, [job]))
        condition = result.left_out["default/e"]
        assert condition.message == "0 of the 1 tasks that group 'driver' needs can start"


PREFILL = [TaskGroup(f"prefill-{number}", min=8) for number in range(4)]


class TestReplicas:
    def job(self, statuses: str) -> JobInfo:
        of = {group.name: statuses for group in PREFILL}
        return elastic("e", of, groups=PREFILL, min_groups=3)

    def test_e6_a_replica_starts_whole_or_not_at_all(self) -> None:
        started = starts(26, self.job("P" * 8))
        assert len(started) == 24
        assert not [uid for uid in started if uid.startswith("e-prefill-3")]

    def test_the_fourth_follows_where_there_is_room(self) -> None:
        assert len(starts(32, self.job("P" * 8))) == 32

    def test_e7_a_replica_goes_as_a_whole(self) -> None:
        claimant = elastic("c", {None: "P"}, queue="b")
        gone = goes(32, self.job("R" * 8), claimant)
        assert gone == [f"e-prefill-3-{number}" for number in range(8)]

    def test_a_replica_goes_though_jobs_at_their_minimum_are_protected(self) -> None:
        claimant = elastic("c", {None: "P"}, queue="b")
        protecting = scheduler("reclaim", shares="proportion", at_minimum="protect")
        result = protecting.schedule(room(32, [self.job("R" * 8), claimant]))
        assert len(evicted(result)) == 8

    def test_e8_what_misses_the_fewest_tasks_is_pursued(self) -> None:
        groups = [TaskGroup("worker-0", min=2), TaskGroup("worker-1", min=2)]
        of = {"worker-1": "PP", "worker-0": "RP"}
        job = elastic("e", of, groups=groups, min_groups=1)
        assert starts(2, job) == ["e-worker-0-1"]


HOLD = action("allocate", unready="hold")
PAIR = [TaskGroup("driver", min=1), TaskGroup("worker", min=2)]


def holding(*more: object, shares: str = "proportion") -> Scheduler:
    """With capacity a job that asks for more than there is at all would hold nothing."""
    return scheduler(HOLD, *more, shares=shares)


class TestWhatIsHeld:
    """`unready: hold`: what is placed for a job that cannot start keeps its places in the cycle."""

    def test_of_roles_that_do_not_all_fit_those_that_do_are_held(self) -> None:
        job = elastic("e", {"driver": "P", "worker": "PPPPP"}, groups=PAIR, priority=1)
        other = elastic("f", {None: "P"})
        result = holding().schedule(room(2, [job, other]))
        assert places(result) == {
            "e-driver-0": "Allocated n",
            "e-worker-0": "Allocated n",
            **{f"e-worker-{number}": "Pending" for number in range(1, 5)},
            "f-0": "Pending",
        }
        assert bound(scheduler("allocate").schedule(room(2, [job, other]))) == {"f-0": "n"}

    def test_another_replica_is_tried_before_part_of_the_first_is_held(self) -> None:
        groups = [TaskGroup("wide", min=3), TaskGroup("small", min=2)]
        of = {"wide": "PPP", "small": "PP"}
        job = elastic("e", of, groups=groups, min_groups=1)
        large = [
            evolve(t, resreq=9 * t.resreq, init_resreq=9 * t.resreq) if t.group == "small" else t
            for t in job.tasks
        ]
        result = holding().schedule(room(3, [evolve(job, tasks=large)]))
        assert sorted(bound(result)) == ["e-wide-0", "e-wide-1", "e-wide-2"]

    def test_nothing_is_held_of_a_replica_that_the_job_can_do_without(self) -> None:
        job = elastic("e", {g.name: "P" * 8 for g in PREFILL}, groups=PREFILL, min_groups=3)
        other = elastic("f", {None: "PP"}, creation_time=5)
        started = bound(holding().schedule(room(26, [job, other])))
        assert sorted(started)[-2:] == ["f-0", "f-1"]
        assert len(started) == 26

    def test_displace_starts_others_in_what_is_held(self) -> None:
        job = elastic("e", {"driver": "P", "worker": "PPPPP"}, groups=PAIR, priority=1)
        other = elastic("f", {None: "PP"}, min_available=2)
        displacing = holding(action("backfill", strategy="displace"))
        assert bound(displacing.schedule(room(2, [job, other]))) == {"f-0": "n", "f-1": "n"}

    def test_nothing_is_held_that_the_limit_of_the_queue_will_not_let_complete(self) -> None:
        job = elastic("e", {"driver": "P", "worker": "PPPPP"}, groups=PAIR)
        snapshot = room(9, [job])
        queues = [evolve(queue, limit=TWO_CPUS) for queue in snapshot.queues]
        result = holding(shares="capacity").schedule(evolve(snapshot, queues=queues))
        assert set(places(result).values()) == {"Pending"}


def test_nodes_are_reserved_for_roles_that_starve_until_all_of_them_fit() -> None:
    """A node is kept for the driver while the workers' places are held; then all start."""
    one = TaskGroup("driver", min=1)
    waiting = job_of("e", "8C0G", "1C0G", minimum=2)
    grouped = evolve(
        waiting,
        groups=[one, TaskGroup("worker", min=1)],
        tasks=[
            evolve(t, group=g) for t, g in zip(waiting.tasks, ("driver", "worker"), strict=True)
        ],
    )
    nodes = [node("n1", "8C0G"), node("n2", "2C0G")]
    running = job_of("r", "4C0G@n1")
    allocate = action("allocate", starvationThreshold=10)
    snapshot = evolve(cluster_of(nodes, grouped, running), now=20)
    used = scheduler(allocate, shares="proportion")
    result = used.schedule(snapshot)
    assert places(result, "e") == {"e-1": "Reserved n1", "e-2": "Allocated n2"}
    later = job_of("f", "4C0G")
    after = next_snapshot(snapshot, result, now=21, new_jobs=[later])
    assert places(used.schedule(after), "f") == {"f-1": "Pending"}
    ended = next_snapshot(snapshot, result, now=22, events=[TaskSucceeded("r-1")], new_jobs=[later])
    assert bound(used.schedule(ended)) == {"e-1": "n1", "e-2": "n2"}


def test_what_was_reserved_is_added_to_by_allocate_in_its_turn() -> None:
    """The driver's node is kept; the worker has its place before a later job takes it."""
    waiting = job_of("e", "8C0G>n1", "1C0G", minimum=2)
    grouped = evolve(
        waiting,
        groups=[TaskGroup("driver", min=1), TaskGroup("worker", min=1)],
        tasks=[
            evolve(t, group=g) for t, g in zip(waiting.tasks, ("driver", "worker"), strict=True)
        ],
    )
    jobs = [grouped, job_of("f", "1C0G"), job_of("r", "4C0G@n1")]
    snapshot = cluster_of([node("n1", "8C0G"), node("n2", "1C0G")], *jobs)
    result = scheduler("allocate", shares="proportion").schedule(snapshot)
    assert places(result, "e") == {"e-1": "Reserved n1", "e-2": "Allocated n2"}


def test_nothing_is_reserved_for_roles_of_which_one_can_never_fit() -> None:
    job = elastic("e", {"driver": "P", "worker": "PPPPP"}, groups=PAIR)
    large = [
        evolve(t, resreq=9 * t.resreq, init_resreq=9 * t.resreq) if t.group == "driver" else t
        for t in job.tasks
    ]
    snapshot = evolve(room(2, [evolve(job, tasks=large)]), now=20)
    result = scheduler(action("allocate", starvationThreshold=10), shares="proportion").schedule(
        snapshot
    )
    assert set(places(result).values()) == {"Pending"}


@pytest.mark.parametrize("unready", ["discard", "hold"])
@pytest.mark.parametrize("racks", [False, True])
def test_where_one_of_two_groups_is_enough_a_node_is_reserved_for_the_second_too(
    racks: bool, unready: str
) -> None:
    """No node could ever hold the first one."""
    waiting = job_of("e", "9C0G", "8C0G", minimum=1)
    rack = TopologyRequest(required="rack") if racks else None
    groups = [TaskGroup(name, min=1, topology=rack) for name in ("large", "small")]
    in_groups = [
        evolve(task, group=group.name) for task, group in zip(waiting.tasks, groups, strict=True)
    ]
    waiting = evolve(waiting, groups=groups, min_groups=1, tasks=in_groups)
    nodes = [node(name, "8C0G", labels={"rack": name}) for name in ("n1", "n2")]
    running = job_of("r", "4C0G@n1", "4C0G@n2")
    arguments = {"starvationThreshold": 10, "unready": unready}
    for plain in (False, True):
        config = SchedulerConfig.from_mapping(
            {"actions": [{"name": "allocate", "arguments": arguments}]}
        )
        snapshot = evolve(cluster_of(nodes, waiting, running), now=20)
        result = Scheduler(config, plain=plain).schedule(snapshot)
        assert places(result, "e") == {"e-1": "Pending", "e-2": "Reserved n1"}
        if not racks:
            check_reference(snapshot, result, config)
        ended = next_snapshot(snapshot, result, now=22, events=[TaskSucceeded("r-1")])
        assert bound(Scheduler(config, plain=plain).schedule(ended)) == {"e-2": "n1"}


def test_roles_are_tried_once_more_the_largest_first() -> None:
    """In task order the workers take the place where alone the driver fits."""
    gang = job_of("g", "7C0G", "7C0G", "14C0G")
    roles = ("worker", "worker", "driver")
    grouped = evolve(
        gang,
        groups=PAIR,
        tasks=[evolve(t, group=r) for t, r in zip(gang.tasks, roles, strict=True)],
    )
    nodes = [node("n1", "16C0G"), node("n2", "8C0G"), node("n3", "8C0G")]
    snapshot = cluster_of(nodes, grouped)
    assert bound(scheduler("allocate").schedule(snapshot)) == {}
    retrying = scheduler(action("allocate", retry="largest-first"))
    assert bound(retrying.schedule(snapshot)) == {"g-1": "n2", "g-2": "n3", "g-3": "n1"}
