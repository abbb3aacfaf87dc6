"""The content of a cluster at one time, for results that are read after it has changed."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import evolve

from batchsched.model.cluster import JobInfo, TaskInfo
from batchsched.model.immutable import LazyMap
from batchsched.model.reasons import JobCondition
from batchsched.model.result import JobOutcome, TaskOutcome
from batchsched.session.outcomes import unchanged_outcome
from batchsched.transition.content import Content, Table, Value, Version

__all__ = ["ContentAt"]


class ContentAt:
    """The content of a cluster in one version, even after later changes.

    A look-up costs O(what changed since the last look-up), and O(1) besides.
    """

    def __init__(self, content: Content) -> None:
        self._content = content
        self._at: Version = content.version
        """The version up to which `_before` has the changes."""
        self._before: dict[tuple[Table, str], Value] = {}

    def tasks(
        self, changed: Mapping[str, TaskOutcome], left_out: Mapping[str, JobCondition], /
    ) -> Mapping[str, TaskOutcome]:
        """Return the outcomes of all tasks of jobs that are not left out."""

        def one(uid: str) -> TaskOutcome | None:
            task, owner = self._task(uid), self._owner(uid)
            return None if task is None or owner is None or owner in left_out else _outcome(task)

        def others() -> Mapping[str, TaskOutcome]:
            found: dict[str, TaskOutcome] = {}
            known: dict[tuple[int, str | None, bool], TaskOutcome] = {}
            for job in self._jobs():
                if job not in left_out:
                    for uid in self._members(job):
                        task = self._task(uid)
                        assert task is not None
                        key = (task.status.index, task.node_name, task.is_backfill)
                        found[uid] = known.get(key) or known.setdefault(key, _outcome(task))
            return found

        return LazyMap(changed, one, others)

    def jobs(
        self, changed: Mapping[str, JobOutcome], left_out: Mapping[str, JobCondition], /
    ) -> Mapping[str, JobOutcome]:
        """Return the outcomes of all jobs that are not left out."""

        def one(uid: str) -> JobOutcome | None:
            job = None if uid in left_out else self._job(uid)
            return None if job is None else unchanged_outcome(job)

        def others() -> Mapping[str, JobOutcome]:
            found: dict[str, JobOutcome] = {}
            for uid in self._jobs():
                if uid not in left_out and uid not in changed:
                    job = self._job(uid)
                    assert job is not None
                    found[uid] = unchanged_outcome(job)
            return found

        return LazyMap(changed, one, others)

    def _catch_up(self) -> None:
        while self._at.next is not None:
            for key, value in self._at.before.items():
                self._before.setdefault(key, value)
            self._at = self._at.next

    def _task(self, uid: str) -> TaskInfo | None:
        self._catch_up()
        if ("tasks", uid) in self._before:
            return self._before["tasks", uid]  # type: ignore[return-value]
        return self._content.tasks.get(uid)

    def _owner(self, uid: str) -> str | None:
        self._catch_up()
        if ("owner", uid) in self._before:
            return self._before["owner", uid]  # type: ignore[return-value]
        return self._content.owner.get(uid)

    def _members(self, uid: str) -> tuple[str, ...]:
        self._catch_up()
        if ("members", uid) in self._before:
            return self._before["members", uid] or ()  # type: ignore[return-value]
        return self._content.members.get(uid, ())

    def _job(self, uid: str) -> JobInfo | None:
        self._catch_up()
        job: JobInfo | None = self._content.jobs.get(uid)
        if ("jobs", uid) in self._before:
            job = self._before["jobs", uid]  # type: ignore[assignment]
        if job is None:
            return None
        tasks = [self._task(member) for member in self._members(uid)]
        return evolve(job, tasks=[task for task in tasks if task is not None])

    def _jobs(self) -> list[str]:
        self._catch_up()
        uids = set(self._content.jobs)
        for (table, uid), value in self._before.items():
            if table == "jobs":
                if value is None:
                    uids.discard(uid)
                else:
                    uids.add(uid)
        return sorted(uids)


def _outcome(task: TaskInfo) -> TaskOutcome:
    return TaskOutcome(status=task.status, node_name=task.node_name, is_backfill=task.is_backfill)
