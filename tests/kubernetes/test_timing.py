import pytest
from tests.support.kubernetes_objects import node, pod, pod_group

from batchsched import Dependency, JobEvent, KubernetesObjectError
from batchsched.kubernetes import snapshot_from_objects
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


def test_what_cannot_be_read_is_told_at_once():
    with pytest.raises(KubernetesObjectError) as caught:
        read(
            pod(),
            **{
                "batchsched/estimate": "soon",
                "batchsched/deadline": "noon",
                "batchsched/depends-on": "prepare",
            },
        )
    assert [str(fault) for fault in caught.value.faults] == [
        (
            "pod_groups['a/g1'].metadata.annotations['batchsched/estimate']: "
            "expected a duration such as 90 (seconds) or 1h30m, got 'soon'"
        ),
        (
            "pod_groups['a/g1'].metadata.annotations['batchsched/deadline']: "
            "expected an RFC 3339 time such as 2026-01-31T08:00:00Z, got 'noon'"
        ),
        (
            "pod_groups['a/g1'].metadata.annotations['batchsched/depends-on']: "
            "expected entries such as [namespace/]name=started|succeeded|ended|failed, "
            "got 'prepare'"
        ),
    ]


@pytest.mark.parametrize("text", ["", "-5", "1x", "h", "1h 2m", "5e3", "1h30", "9" * 50])
def test_what_is_no_duration(text):
    with pytest.raises(ValueError, match="expected a duration"):
        parse_duration(text)
