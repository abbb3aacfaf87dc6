"""No two sentences of an answer contradict each other."""

from __future__ import annotations

import re

from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from batchsched import (
    JobInfo,
    NodeInfo,
    PluginOption,
    Queue,
    Resource,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    TaskInfo,
    Tier,
    TopologyRequest,
    explain,
    what_if,
)
from batchsched.live import TaskRemoved, TaskSucceeded
from batchsched.testing import configs, snapshots
from batchsched.tools import Explanation, JobStatus, starts

ENDS = (TaskSucceeded, TaskRemoved)


def contradictions(answer: Explanation, *, others_start: bool = True) -> list[str]:
    """Return what two sentences of an answer say that cannot both be true.

    `others_start`: whether the cycle starts anything, so that what fits first may not fit later.
    """
    found: list[str] = []
    state, text = answer.standing.state, answer.standing.text
    ends = [c for c in answer.would_start if all(isinstance(each, ENDS) for each in c.changes)]
    if state is JobStatus.NEVER_FITS:
        found += [f"never fits, and {each.text} is enough" for each in ends]
        if answer.lacking and answer.at_once >= answer.lacking:
            found.append(f"never fits, and {answer.at_once} of {answer.lacking} would fit now")
        could = re.search(r"(?:could hold|only) (\d+)(?:$| of the)", text)
        room = max((each.room_for or 0 for each in answer.nearest_domains), default=0)
        if could and max(room, answer.placed) > int(could[1]):
            found.append(f"only {could[1]} could ever be held, and more have room now")
    found += [
        f"group {each.group} lacks tasks, and has all"
        for each in answer.groups
        if each.has >= each.needs
    ]
    found += [
        f"{near.name} has no device free, and nobody has one there"
        for near in answer.nearest
        if near.refusal.endswith(("1 taken", "2 taken", "3 taken"))
        and not near.holders
        and not others_start
    ]
    if answer.nearest_domains and answer.lacking:
        found += [
            f"{each.name} has room for all, and none has"
            for each in answer.nearest_domains
            if each.room_for is not None and each.room_for >= each.needed
        ]
        if answer.at_once >= answer.lacking and not others_start:
            found.append(f"no domain has room, and {answer.at_once} more would fit now")
        if answer.available:
            found.append(f"no domain has room, and it fits on {answer.available} nodes")
    if answer.tells_nodes:
        if "nodes can take it now" in text and answer.available:
            found.append(f"no node can take it now, and it fits on {answer.available}")
        if answer.available + sum(answer.unfit.values()) < answer.nodes:
            found.append("of some node neither room nor a reason is told")
        if answer.available and answer.blocked:
            found.append("one more task fits nowhere, and on some nodes")
        lacking = [near for near in answer.nearest if near.refusal or not near.missing.is_empty()]
        if len(lacking) > answer.nodes - answer.available and not answer.blocked:
            found.append("nodes lack something that have room")
    for queue in (answer.queue, *answer.queue.above):
        if queue.on_loan is not None and not queue.on_loan.fits(queue.allocated):
            found.append(f"queue {queue.name} lends more than it holds")
    shares = {each.queue for each in answer.above_share}
    if answer.queue.name in shares and answer.queue.allocated.is_empty():
        found.append("its queue holds nothing, and more than its share")
    if answer.position == 1 and answer.before_it:
        found.append("it is the first, and others are before it")
    return found


WITH_RACKS = snapshots(always=("topologies", "gangs", "running"))
WITH_ALL = snapshots(always=("topologies", "devices", "groups", "gangs", "running"))


def with_plugins(config: SchedulerConfig) -> SchedulerConfig:
    """Return a configuration that minds racks and devices."""
    named = {plugin.name for tier in config.tiers for plugin in tier.plugins}
    more = [PluginOption(name=name) for name in ("topology", "devices") if name not in named]
    return evolve(config, tiers=[*config.tiers, Tier(plugins=more)]) if more else config


@settings(max_examples=40, deadline=None)
@given(
    snapshot=WITH_RACKS | WITH_ALL,
    config=configs(flags=False).map(with_plugins),
    pick=st.integers(0, 5),
)
def test_no_two_sentences_about_racks_groups_and_devices_contradict_each_other(
    snapshot: Snapshot, config: SchedulerConfig, pick: int
) -> None:
    """Each advice about them starts the job, too."""
    result = Scheduler(config).schedule(snapshot)
    waiting = {*result.pending}
    jobs = [job.uid for job in snapshot.jobs if any(t.uid in waiting for t in job.tasks)]
    for uid in jobs[pick % 2 :: 2][:2]:
        answer = explain(snapshot, result, uid, config=config)
        others_start = bool(result.binds)
        assert contradictions(answer, others_start=others_start) == [], str(answer)
        for each in answer.would_start:
            after = what_if(snapshot, *each.changes, config=config)
            assert starts(snapshot, uid)(after.result), each.text


@settings(max_examples=25, deadline=None)
@given(snapshot=snapshots(), config=configs(), pick=st.integers(0, 5))
def test_no_two_sentences_of_an_answer_contradict_each_other(
    snapshot: Snapshot, config: SchedulerConfig, pick: int
) -> None:
    result = Scheduler(config).schedule(snapshot)
    jobs = [job.uid for job in snapshot.jobs]
    for uid in jobs[pick % 2 :: 2][:3]:
        answer = explain(snapshot, result, uid, config=config)
        assert contradictions(answer) == [], str(answer)


def test_where_a_queue_has_to_wait_no_rack_is_said_to_lack_room() -> None:
    """The rack has room; what the other queue is guaranteed keeps it free."""
    cpu = Resource(milli_cpu=1000)
    task = TaskInfo(uid="t", name="t", resreq=cpu)
    asks = TopologyRequest(required="rack")
    snapshot = Snapshot(
        nodes=[NodeInfo(name="n1", allocatable=2 * cpu, labels={"rack": "r1"})],
        queues=[Queue(name="q"), Queue(name="other", guarantee=2 * cpu)],
        jobs=[JobInfo(name="j", queue="q", tasks=[task], topology=asks)],
    )
    config = with_plugins(SchedulerConfig())
    answer = explain(snapshot, Scheduler(config).schedule(snapshot), "default/j", config=config)
    assert answer.standing.state is JobStatus.QUOTA
    assert answer.available == 1
    assert (answer.level, answer.nearest_domains) == ("", ())
