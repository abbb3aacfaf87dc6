"""Jobs in order of UID: the same as sorting them, and remembered without growing."""

from __future__ import annotations

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from batchsched import JobInfo
from batchsched.transition.content import OrderedJobs

NAMES = [f"job-{number:02}" for number in range(24)]
VERSIONS = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 2))


def jobs_of(versions: dict[str, int]) -> dict[str, JobInfo]:
    """Return jobs by UID; the priority tells versions of a job apart."""
    made = [JobInfo(name=name, queue="q", priority=number) for name, number in versions.items()]
    return {job.uid: job for job in made}


@given(states=st.lists(VERSIONS, min_size=1, max_size=6), read=st.lists(st.booleans(), max_size=6))
def test_jobs_are_those_that_sorting_gives_however_often_they_are_read(
    states: list[dict[str, int]], read: list[bool]
) -> None:
    jobs = jobs_of(states[0])
    ordered = OrderedJobs()
    ordered.begin(jobs[uid] for uid in sorted(jobs))
    for number, state in enumerate(states[1:]):
        before, jobs = jobs, jobs_of(state)
        for uid in {*before, *jobs}:
            if before.get(uid) != jobs.get(uid):
                ordered.touch(uid)
        if number < len(read) and read[number]:
            assert [*ordered.brought_up_to_date(jobs, jobs.__getitem__)] == [
                jobs[uid] for uid in sorted(jobs)
            ]
    assert [*ordered.brought_up_to_date(jobs, jobs.__getitem__)] == [
        jobs[uid] for uid in sorted(jobs)
    ]


def test_jobs_that_come_and_go_leave_nothing_behind_while_nobody_reads_the_order() -> None:
    ordered = OrderedJobs()
    ordered.begin([])
    tracemalloc.start()
    try:
        for number in range(5_000):
            ordered.touch(f"default/{number}")
        remembered, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert remembered < 10_000, "bytes for 5,000 jobs that are gone"
