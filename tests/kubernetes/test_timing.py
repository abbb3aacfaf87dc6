import pytest
from tests.support.kubernetes_objects import node, pod, pod_group

from batchsched import (
    Dependency,
    Hold,
    HoldKind,
    JobEvent,
    KubernetesObjectError,
    schedule,
)
from batchsched.kubernetes import read_objects, snapshot_from_objects
from batchsched.kubernetes.annotations import parse_duration


def read(one_pod, **annotations):
    group = pod_group()
    group["metadata"]["annotations"] = annotations
    found = snapshot_from_objects(
        nodes=[node()], pods=[one_pod], pod_groups=[group], queues=[{"metadata": {"name": "q"}}]
    )
    return found.jobs[0]


RUNNING = {"phase": "Running", "startTime": "1970-01-01T00:05:00Z"}


def test_a_pod_that_runs_has_done_so_since_its_start():
    job = read(pod(nodeName="n1", status=RUNNING, activeDeadlineSeconds=60))
    assert (job.tasks[0].start_time, job.tasks[0].estimate) == (300.0, 60)


def test_a_pod_that_ended_holds_nothing_since_any_time():
    job = read(pod(nodeName="n1", status=RUNNING | {"phase": "Succeeded"}))
    assert (job.tasks[0].start_time, job.tasks[0].estimate) == (None, None)


def test_annotations_of_pods_go_before_their_deadline():
    annotations = {"batchsched/estimate": "2m", "batchsched/attained-service": "30"}
    job = read(pod(metadata={"annotations": annotations}, activeDeadlineSeconds=60))
    assert (job.tasks[0].estimate, job.tasks[0].attained_service) == (120.0, 30.0)


def test_annotations_of_groups_tell_of_the_job():
    job = read(
        pod(),
        **{
            "batchsched/estimate": "5400",
            "batchsched/max-wait": "1h30m",
            "batchsched/deadline": "1970-01-01T02:00:00Z",
            "batchsched/eligible-time": "1970-01-01T01:00:00Z",
            "batchsched/user": "ann",
            "batchsched/depends-on": "prepare=succeeded, b/other=ended?",
        },
    )
    assert (job.estimate, job.max_wait, job.deadline, job.eligible_time) == (5400, 5400, 7200, 3600)
    assert job.user == "ann"
    assert job.depends_on == (
        Dependency(job="a/prepare", on=JobEvent.SUCCEEDED),
        Dependency(job="b/other", on=JobEvent.ENDED, satisfied_if_missing=True),
    )


def test_the_annotation_of_volcano_tells_the_longest_wait():
    assert read(pod(), **{"sla-waiting-time": "1h2m3s"}).max_wait == 3723


def test_a_pod_without_a_group_tells_of_its_own_job():
    labels = {"team": "red"}
    alone = pod(
        group="",
        schedulerName="kube-batch",
        metadata={"annotations": {"batchsched/user": "bob"}, "labels": labels},
    )
    found = snapshot_from_objects(nodes=[node()], pods=[alone])
    assert (found.jobs[0].user, found.jobs[0].labels) == ("bob", labels)


def test_annotations_that_cannot_be_read_are_ignored_with_a_notice():
    annotations = {
        "batchsched/estimate": "soon",
        "batchsched/deadline": "noon",
        "sla-waiting-time": "1 hour",
    }
    job = read(pod(), **annotations)
    assert (job.estimate, job.deadline, job.max_wait, job.holds) == (None, None, None, ())
    group = pod_group()
    group["metadata"]["annotations"] = annotations
    with pytest.raises(KubernetesObjectError) as caught:
        snapshot_from_objects(
            nodes=[],
            pods=[],
            pod_groups=[group],
            queues=[{"metadata": {"name": "q"}}],
            strict=True,
        )
    where, duration = "pod_groups['a/g1'].metadata.annotations", "a duration such as 90 (seconds)"
    assert sorted(map(str, caught.value.faults)) == [
        f"{where}[{key!r}]: ignored: expected {what}"
        for key, what in (
            (
                "batchsched/deadline",
                "an RFC 3339 time such as 2026-01-31T08:00:00Z, got 'noon'",
            ),
            ("batchsched/estimate", f"{duration} or 1h30m, got 'soon'"),
            ("sla-waiting-time", f"{duration} or 1h30m, got '1 hour'"),
        )
    ]


@pytest.mark.parametrize("key", ["batchsched/depends-on", "batchsched/eligible-time"])
def test_a_job_is_held_if_it_cannot_be_told_whether_it_is_its_turn(key):
    job = read(pod(), **{key: "prepare"})
    assert job.holds == (Hold(HoldKind.DEPENDENCIES, key, f"its annotation {key} cannot be read"),)


def test_jobs_that_depend_on_each_other_are_held_and_others_are_read():
    def group(name, on):
        given = pod_group(name)
        given["metadata"]["annotations"] = {"batchsched/depends-on": on}
        return given

    names = ("a", "b", "c", "d")
    snapshot, notices = read_objects(
        nodes=[node(cpu="9")],
        pods=[pod(f"p-{name}", group=name) for name in names],
        pod_groups=[
            *(group("a", "b=ended"), group("b", "c=ended,d=ended?"), group("c", "a=ended")),
            group("d", "e=succeeded?"),
        ],
        queues=[{"metadata": {"name": "q"}}],
    )
    chain = "its dependencies form a cycle: a/a -> a/b -> a/c -> a/a"
    hold = Hold(HoldKind.DEPENDENCIES, "batchsched/depends-on", chain)
    assert [job.holds for job in snapshot.jobs] == [(hold,), (hold,), (hold,), ()]
    assert [(one.consequence, one.count) for one in notices] == [(f"ignored: {chain}", 3)]
    assert [bind.task_uid for bind in schedule(snapshot).binds] == ["uid-p-d"]


@pytest.mark.parametrize("text", ["", "-5", "1x", "h", "1h 2m", "5e3", "1h30", "9" * 50])
def test_what_is_no_duration(text):
    with pytest.raises(ValueError, match="expected a duration"):
        parse_duration(text)
