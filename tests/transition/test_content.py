"""What is known of a cluster besides its tables is what counting it anew gives."""

from __future__ import annotations

from contextlib import suppress

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.living import Life

from batchsched import EventError, Scheduler
from batchsched.live import Cluster, EndedJobsRemoved, QueueRemoved, TaskSucceeded
from batchsched.transition.content import Content


def counted(content: Content) -> tuple[object, ...]:
    return (
        {name: set(uids) for name, uids in content.on_node.items()},
        set(content.unsettled),
        set(content.others),
        content.unended,
        set(content.ended_jobs()),
    )


@settings(max_examples=15)
@given(seed=st.integers(0, 1 << 32))
def test_law_what_is_counted_follows_events_cycles_and_what_is_taken_back(seed: int) -> None:
    life = Life(seed)
    cluster = Cluster(life.start())
    live = Scheduler().attach(cluster)
    for _ in range(6):
        cluster.carry_out(live.schedule(), at_once=True)
        before = cluster.snapshot()
        events = life.events(before)
        running = [uid for job in before.jobs for uid in (t.uid for t in job.tasks)]
        ending = [TaskSucceeded(uid) for uid in life.some(running, 0.3)]
        with suppress(EventError):
            # Mostly at fault, and so taken back.
            cluster.apply(*events, *ending, EndedJobsRemoved(), QueueRemoved("nowhere"))
        with cluster.trial(), suppress(EventError):
            cluster.apply(*events, EndedJobsRemoved())
        assert counted(cluster.content) == counted(Content(before))
        cluster.apply(*events)
        if life.random.random() < 0.5:
            cluster.apply(EndedJobsRemoved())
        assert counted(cluster.content) == counted(Content(cluster.snapshot()))


def test_what_may_have_ended_is_forgotten_with_the_job() -> None:
    life = Life(5)
    cluster = Cluster(life.start())
    for job in cluster.snapshot().jobs:
        cluster.content.leave(job.uid)
    assert not cluster.content._may_have_ended
