"""No two sentences of an answer contradict each other."""

from __future__ import annotations

from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from batchsched import PluginOption, Scheduler, SchedulerConfig, Snapshot, Tier, explain, what_if
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


WITH_RACKS = snapshots(topologies=True, always=("topologies", "gangs", "running"))


def with_topology(config: SchedulerConfig) -> SchedulerConfig:
    if any(plugin.name == "topology" for tier in config.tiers for plugin in tier.plugins):
        return config
    return evolve(config, tiers=[*config.tiers, Tier(plugins=[PluginOption(name="topology")])])


@settings(max_examples=25, deadline=None)
@given(snapshot=WITH_RACKS, config=configs(flags=False).map(with_topology), pick=st.integers(0, 5))
def test_no_two_sentences_about_racks_contradict_each_other(
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
