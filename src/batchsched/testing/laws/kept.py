"""The law that kept state answers like fresh state."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import evolve

from batchsched.model.cluster import TaskStatus
from batchsched.model.result import CycleResult
from batchsched.model.snapshot import Snapshot
from batchsched.testing.laws.trial import Subject, Trial
from batchsched.transition.next_snapshot import next_snapshot

__all__ = ["check_kept", "may_keep"]


def may_keep(trial: Trial) -> bool:
    """Return whether the plugin may keep anything from cycle to cycle."""
    return callable(getattr(trial.opened, "resume", None))


def check_kept(subject: Subject, trial: Trial, snapshot: Snapshot) -> None:
    """A plugin that keeps state from cycle to cycle answers as if it were opened anew."""
    keeping, forgetting = subject.warm_scheduler(), subject.fresh_scheduler(lambda _trial: None)
    result = keeping.schedule(snapshot)
    for following in _followings(snapshot, result):
        kept, fresh = keeping.schedule(following), forgetting.schedule(following)
        if kept != fresh:
            seen = (
                "a cycle decides something else after a cycle on another snapshot:\n"
                f"{kept}\nwhere one that is opened anew decides\n{fresh}"
            )
            trial.fail("resume", "kept state answers like fresh state", seen, other=following)


def _followings(snapshot: Snapshot, result: CycleResult) -> Iterator[Snapshot]:
    """Yield snapshots that may follow: jobs and nodes are added, removed and changed."""
    following = next_snapshot(snapshot, result, now=snapshot.now + 1)
    running = [
        task.uid
        for job in following.jobs
        for task in job.tasks
        if task.status is TaskStatus.RUNNING
    ]
    ended = next_snapshot(following, None, now=following.now, succeeded=running[::2])
    yield ended
    yield evolve(
        ended,
        jobs=[evolve(job, priority=1 - job.priority) for job in ended.jobs[1:]],
        nodes=[evolve(node, unschedulable=not node.unschedulable) for node in ended.nodes],
    )
    yield snapshot
