"""The next job of a queue is what a plain search finds, at any moment."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchsched import JobInfo, Queue, Snapshot
from batchsched.state.jobs_by_need import JobsByNeed
from batchsched.state.ledger import Ledger
from batchsched.state.live_queue import SortKey
from batchsched.state.needs import Need
from batchsched.state.records import JobState

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["pop", "push", "rank", "size", "room"]),
        st.integers(0, 5),
        st.integers(0, 3),
    ),
    max_size=40,
)


@given(STEPS)
def test_the_next_job_is_what_a_plain_search_finds(steps: list[tuple[str, int, int]]) -> None:
    jobs = list(
        Ledger(
            Snapshot(
                queues=[Queue(name="q")], jobs=[JobInfo(name=name, queue="q") for name in "abcdef"]
            )
        ).jobs.values()
    )
    rank = dict.fromkeys(jobs, 0)
    size: dict[JobState, int] = dict.fromkeys(jobs, 1)  # 0: it needs nothing
    room = 2

    def key(job: JobState) -> SortKey:
        return rank[job], job.uid

    def need_of(job: JobState) -> Need | None:
        return Need(job, (), (size[job],), (0,)) if size[job] else None

    def need_key(need: Need | None) -> SortKey:
        return () if need is None else (int(need.request[0] > room),)

    def expected() -> JobState:
        return min(there, key=lambda job: (need_key(need_of(job)), key(job)))

    there = set(jobs)
    queue = JobsByNeed(key, need_key, need_of, jobs)
    for what, who, value in steps:
        job = jobs[who]
        if what == "pop" and there:
            assert queue.first() is expected()
            assert len(queue) == len(there)
            found = expected()
            assert queue.pop() is found
            there.remove(found)
        elif what == "push" and job not in there:
            queue.push(job)
            there.add(job)
        elif what == "rank":
            rank[job] = value
            queue.touch(job)
        elif what == "size":
            size[job] = value
            queue.touch(job)
        elif what == "room":  # nobody tells of that
            room = value
    while there:
        found = expected()
        assert queue.pop() is found
        there.remove(found)
    assert queue.first() is None
    with pytest.raises(IndexError, match="no job is waiting"):
        queue.pop()
