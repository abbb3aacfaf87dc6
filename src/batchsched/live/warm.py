"""Cycles on successive snapshots, whose differences are found by object identity.

Snapshots are frozen, and `next_snapshot` and `attrs.evolve` share unchanged objects. So an object
that is identical to the one in the last snapshot has not changed; all others are processed.
Identity never affects decisions: an equal object that is not identical is only processed again.
"""

from __future__ import annotations

from operator import is_

from attrs import evolve

from batchsched.live.attached import Policy
from batchsched.live.content_at import ContentAt
from batchsched.live.kept_state import KeptState
from batchsched.model.cluster import JobInfo
from batchsched.model.result import CycleResult
from batchsched.model.snapshot import Snapshot
from batchsched.transition.content import Content

__all__ = ["WarmCycles"]


class WarmCycles:
    """Keeps the state of a scheduler from one snapshot to the next."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._kept: tuple[Snapshot, Content, KeptState] | None = None

    def schedule(self, snapshot: Snapshot, *, reasons: bool) -> CycleResult:
        """Run one cycle. O(differences from the last snapshot + nodes + jobs + waiting tasks)."""
        # If the cycle raises an exception, its incomplete state must not be used again.
        kept, self._kept = self._kept, None
        if kept is None:
            content = Content(snapshot)
            kept_state = self._policy.keep(content)
        else:
            last, content, kept_state = kept
            _follow(content, last, snapshot)
        result = self._policy.run(
            kept_state.session(), reasons=reasons, unchanged=ContentAt(content)
        )
        kept_state.end()
        self._kept = snapshot, content, kept_state
        return result


def _follow(content: Content, last: Snapshot, now: Snapshot) -> None:
    """Apply the differences between two snapshots to the content."""
    if not _are_same(last.nodes, now.nodes):
        nodes = {node.name: node for node in now.nodes}
        for name in [name for name in content.nodes if name not in nodes]:
            content.put("nodes", name, None)
        for name, node in nodes.items():
            if content.nodes.get(name) is not node:
                content.put("nodes", name, node)
    if not _are_same(last.queues, now.queues):
        queues = {queue.name: queue for queue in now.queues}
        for name in [name for name in content.queues if name not in queues]:
            content.put("queues", name, None)
        for name, queue in queues.items():
            if content.queues.get(name) != queue:
                content.put("queues", name, queue)
    if not _are_same(last.jobs, now.jobs):
        before = {job.uid: job for job in last.jobs}
        changed = [job for job in now.jobs if before.get(job.uid) is not job]
        came = sum(job.uid not in before for job in changed)
        if len(before) + came > len(now.jobs):
            for uid in sorted(before.keys() - {job.uid for job in now.jobs}):
                content.leave(uid)
        # Remove tasks first: a task may have moved to another job.
        for job in changed:
            _remove_missing_tasks(content, job)
        for job in changed:
            _enter(content, job)
    if not _are_same(last.other_tasks, now.other_tasks):
        others = {task.uid: task for task in now.other_tasks}
        for uid in [uid for uid in content.others if uid not in others]:
            content.put("tasks", uid, None)
        for uid, task in others.items():
            if content.tasks.get(uid) is not task:
                content.put("tasks", uid, task)
    if content.now != now.now:
        content.put("now", "", now.now)
    content.commit()
    content.adopt(now)


def _are_same(before: tuple[object, ...], now: tuple[object, ...]) -> bool:
    return before is now or (len(before) == len(now) and all(map(is_, before, now)))


def _remove_missing_tasks(content: Content, job: JobInfo) -> None:
    members = content.members.get(job.uid)
    if members is not None:
        uids = tuple(task.uid for task in job.tasks)
        if uids != members:
            for uid in set(members).difference(uids):
                content.put("tasks", uid, None)
                content.put("owner", uid, None)


def _enter(content: Content, job: JobInfo) -> None:
    known = content.jobs.get(job.uid)
    if known is None:
        content.enter(job)
        return
    described = evolve(job, tasks=())
    if described != known:
        content.put("jobs", job.uid, described)
    uids = tuple(task.uid for task in job.tasks)
    if uids != content.members[job.uid]:
        content.put("members", job.uid, uids)
    for task in job.tasks:
        if content.tasks.get(task.uid) is not task:
            if content.owner.get(task.uid) != job.uid:
                content.put("owner", task.uid, job.uid)
            content.put("tasks", task.uid, task)
