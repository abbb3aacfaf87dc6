"""Worked scenarios of jobs that grow and shrink: who gets what first, and what goes as a whole."""

from __future__ import annotations

import pytest
from tests.support.clusters import bound, evicted
from tests.support.elastic import elastic, room, scheduler

from batchsched import JobInfo, TaskGroup


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
