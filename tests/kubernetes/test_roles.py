"""Roles of pods, as Volcano and KAI Scheduler write them, become groups of tasks."""

from __future__ import annotations

import pytest
from tests.support.kubernetes_objects import node, pod, pod_group

from batchsched import KubernetesObjectError, TaskGroup, schedule
from batchsched.kubernetes import read_objects

VOLCANO, KAI = "volcano.sh/task-spec", "kai.scheduler/subgroup-name"


def read(pods, **spec):
    return read_objects(
        nodes=[node(cpu="4")],
        pods=pods,
        pod_groups=[pod_group(**spec)],
        queues=[{"metadata": {"name": "q"}}],
    )


def of(role, name, **more):
    return pod(name, metadata={"annotations": {VOLCANO: role}}, **more)


def test_volcanos_roles_are_groups_with_minima() -> None:
    pods = [of("ps", "p1"), of("worker", "p2"), of("other", "p3"), pod("p4")]
    snapshot, notices = read(pods, minTaskMember={"worker": 2, "ps": 1})
    (job,) = snapshot.jobs
    assert job.groups == (
        TaskGroup("ps", min=1),
        TaskGroup("worker", min=2),
        TaskGroup("-", min=0),
        TaskGroup("other", min=0),
    )
    assert [task.group for task in job.tasks] == ["ps", "worker", "other", "-"]
    assert notices == ()


def test_kais_subgroups_form_a_tree_of_which_some_may_be_enough() -> None:
    pods = [
        pod(f"p{number}", metadata={"labels": {KAI: f"leader-{number}"}}) for number in range(2)
    ]
    subgroups = [
        *({"name": f"replica-{number}"} for number in range(2)),
        *({"name": f"leader-{n}", "parent": f"replica-{n}", "minMember": 1} for n in range(2)),
    ]
    snapshot, _ = read([*pods, pod("p9")], subGroups=subgroups, minSubGroup=1)
    (job,) = snapshot.jobs
    assert TaskGroup("replica-0") in job.groups
    assert TaskGroup("leader-1", parent="replica-1", min=1) in job.groups
    # The group of what has no role needs nothing, and so it is not one of those that are asked for.
    assert job.min_groups == 2


def test_pods_keep_no_role_where_the_group_has_none() -> None:
    snapshot, _ = read([of("worker", "p1")])
    assert snapshot.jobs[0].groups == ()
    assert snapshot.jobs[0].tasks[0].group is None


def test_a_group_waits_for_all_roles() -> None:
    missing, _ = read([of("worker", "p1")], minMember=1, minTaskMember={"worker": 1, "ps": 1})
    result = schedule(missing)
    assert result.left_out["a/g1"].message == "0 of the 1 tasks that group 'ps' needs can start"


def test_minima_that_are_no_numbers_are_faults() -> None:
    with pytest.raises(KubernetesObjectError) as caught:
        read([pod()], minTaskMember={"worker": "two"})
    assert "spec.minTaskMember.worker" in str(caught.value)


@pytest.mark.parametrize("api", [{"apiVersion": "scheduling.run.ai/v2alpha2"}, {}])
def test_pods_name_their_group_by_kais_annotation(api) -> None:
    gang = {**api, "metadata": {"name": "gang", "namespace": "a"}, "spec": {"minMember": 2}}
    given = [
        pod(f"p{n}", group=None, metadata={"annotations": {"pod-group-name": "gang"}})
        for n in range(2)
    ]
    for one in given:
        one["spec"]["containers"] = [{"name": "c", "resources": {"requests": {"cpu": "3"}}}]
    snapshot, _ = read_objects(nodes=[node(cpu="4")], pods=given, pod_groups=[gang])
    (job,) = snapshot.jobs
    assert (job.uid, job.min_available, len(job.tasks)) == ("a/gang", 2, 2)
    assert schedule(snapshot).binds == ()
