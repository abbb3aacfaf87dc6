"""Copies that differ in a few fields."""

from __future__ import annotations

from attrs import evolve, fields, frozen

from batchsched import JobInfo, Resource, TaskInfo, TaskStatus
from batchsched.model.immutable import copier

RUNNING = TaskInfo(
    uid="t",
    name="t",
    resreq=Resource(milli_cpu=5),
    labels={"a": "b"},
    status=TaskStatus.RUNNING,
    node_name="n1",
    start_time=3.0,
)


def test_a_copy_is_what_evolve_makes() -> None:
    copied = copier(TaskInfo, "status", "node_name")(RUNNING, TaskStatus.PENDING, None)
    assert copied == evolve(RUNNING, status=TaskStatus.PENDING, node_name=None)
    assert all(hasattr(copied, field.name) for field in fields(TaskInfo))
    assert RUNNING.node_name == "n1"


def test_what_follows_from_other_fields_is_kept() -> None:
    job = JobInfo(namespace="team", name="j", queue="q", tasks=[RUNNING])
    copied = copier(JobInfo, "tasks")(job, ())
    assert copied == evolve(job, tasks=())
    assert copied.uid == "team/j"


def test_a_class_of_ones_own_is_copied_as_itself() -> None:
    @frozen(kw_only=True)
    class Labelled(TaskInfo):
        owner: str = ""

    mine = Labelled(uid="t", name="t", owner="me")
    assert copier(TaskInfo, "node_name")(mine, "n1") == evolve(mine, node_name="n1")
