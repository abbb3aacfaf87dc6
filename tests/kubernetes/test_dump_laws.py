"""Laws of reading dumps, over drawn clusters on which several systems schedule pods."""

import copy
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support import dumps
from tests.support.drawn_dumps import SYSTEMS, drawn_dumps
from tests.support.invariants import check_cycle

from batchsched import (
    Fault,
    Hold,
    HoldKind,
    KubernetesObjectError,
    NoticeCode,
    QueueStatus,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    SnapshotError,
    TaskStatus,
    UnknownNameError,
    schedule,
)
from batchsched.kubernetes import read_dump
from batchsched.live import Cluster
from batchsched.tools import JobStatus, standings

CAPACITY = SchedulerConfig.from_mapping(
    {
        "actions": "allocate, backfill, reclaim, preempt",
        "tiers": [
            {"plugins": [{"name": name} for name in ("priority", "gang", "conformance")]},
            {"plugins": [{"name": name} for name in ("predicates", "capacity", "nodeorder")]},
        ],
    }
)
WAITING = (TaskStatus.PENDING, TaskStatus.RESERVED, TaskStatus.PIPELINED)
few = settings(max_examples=60)
CONFIGS = st.sampled_from([SchedulerConfig(), CAPACITY])


def parts(dump):
    """Return all that a dump says, to compare it with another."""
    return dump.snapshot, dump.notices, dump.facts, dump.systems, dump.assumed


def pods_of(objects):
    return [each for each in objects if each["kind"] == "Pod"]


def name_of(given):
    return f"{given['metadata'].get('namespace', 'default')}/{given['metadata']['name']}"


def members(dump):
    """Return the kind of job of each pod that is a task, by namespace/name."""
    return {
        task.full_name: job.uid
        for job in dump.snapshot.jobs
        for task in job.tasks
        if not task.uid.startswith(f"{job.uid}/")
    }


@few
@given(drawn_dumps())
def test_every_pod_is_of_one_job_or_occupies_or_is_left_out_and_holds_nothing(objects):
    dump = read_dump(objects)
    of_jobs = [t.full_name for job in dump.snapshot.jobs for t in job.tasks]
    occupying = [task.full_name for task in dump.snapshot.other_tasks]
    assert len({*of_jobs, *occupying}) == len(of_jobs) + len(occupying)
    nodes = {node.name for node in dump.snapshot.nodes}
    missing = {
        name for n in dump.notices if n.code is NoticeCode.NODE_MISSING for name in n.objects
    }
    for pod in pods_of(objects):
        if name_of(pod) not in {*of_jobs, *occupying}:
            node = pod["spec"].get("nodeName")
            is_over = pod["status"]["phase"] in ("Succeeded", "Failed")
            assert is_over or node is None or (node not in nodes and name_of(pod) in missing)


@few
@given(drawn_dumps())
def test_a_pod_that_names_a_group_is_never_read_as_a_single_pod(objects):
    dump = read_dump(objects)
    of_pods = members(dump)
    for pod in pods_of(objects):
        names = pod["metadata"]["annotations"] | pod["metadata"]["labels"]
        named = {
            names.get("pod-group-name"),
            names.get("scheduling.k8s.io/group-name"),
            names.get("scheduling.x-k8s.io/pod-group"),
            names.get("pod-group.scheduling.sigs.k8s.io"),
            pod["spec"].get("schedulingGroup", {}).get("podGroupName"),
            pod["spec"].get("workloadRef", {}).get("name"),
        }
        if named != {None} and name_of(pod) in of_pods:
            uid = of_pods[name_of(pod)]
            assert uid != name_of(pod)
            assert dump.snapshot.job(uid).name.rpartition("/")[2] != pod["metadata"]["name"]


@settings(max_examples=40)
@given(st.data())
def test_order_and_packaging_and_other_kinds_change_nothing(data):
    objects = data.draw(drawn_dumps())
    expected = parts(read_dump(objects))
    others = [
        dumps.thing("v1", "ConfigMap", "c", data={"actions": "allocate"}),
        dumps.thing("example.com/v1", "PodGroup", "g0", spec={"minMember": "no number"}),
        dumps.thing("example.com/v1", "Queue", "default", spec={"weight": -1}),
    ]
    again = data.draw(st.lists(st.sampled_from(objects), max_size=3)) if objects else []
    order = data.draw(st.permutations([*objects, *copy.deepcopy(again), *others]))
    cut = data.draw(st.integers(0, len(order)))
    lists = [{"apiVersion": "v1", "kind": "List", "items": each} for each in (order[:cut], order)]
    assert parts(read_dump(lists)) == expected
    assert parts(read_dump({"kind": "List", "items": json.loads(json.dumps(lists))})) == expected


UNHEARD_OF = st.sampled_from([{"minMember": "x"}, [1, None], "text", -1, {"conditions": 3}])


@settings(max_examples=40)
@given(st.data())
def test_fields_that_no_rule_names_change_nothing(data):
    objects = data.draw(drawn_dumps())
    expected = parts(read_dump(objects))
    for each in objects:
        value = data.draw(UNHEARD_OF)
        each["metadata"]["managedFields"] = each["unheardOf"] = value
        each["metadata"]["annotations"]["example.com/unheard-of"] = "x"
        for part in ("spec", "status"):
            each[part] = each.get(part, {}) | {"unheardOf": value}
    assert parts(read_dump(objects)) == expected


def is_held(job, task):
    return bool(job.holds or task.holds)


@few
@given(drawn_dumps(), CONFIGS)
def test_no_held_task_starts_and_with_their_admission_none_that_was_made(objects, config):
    dump = read_dump(objects)
    result = schedule(dump.snapshot, config=config)
    starting = {bind.task_uid for bind in result.binds}
    free = {
        pod["metadata"]["uid"] for pod in pods_of(objects) if not pod["spec"].get("schedulingGates")
    }
    assert starting <= free
    for job in dump.snapshot.jobs:
        for task in job.tasks:
            assert not (task.uid in starting and is_held(job, task))


@few
@given(
    drawn_dumps(),
    CONFIGS,
    st.sampled_from(["theirs", "ours"]),
)
def test_a_job_that_starts_has_its_minimum_and_nothing_is_oversubscribed(
    objects, config, admission
):
    snapshot = read_dump(objects, admission=admission).snapshot
    check_cycle(snapshot, schedule(snapshot, config=config), config)


def found_or_told(dump, text):
    try:
        return dump.find(text)
    except UnknownNameError as error:
        return str(error)


@few
@given(drawn_dumps())
def test_a_job_is_found_by_its_uid_and_by_each_pod_or_the_error_names_it(objects):
    dump = read_dump(objects)
    for job in dump.snapshot.jobs:
        assert dump.find(job.uid) == job.uid
        for name in dump.facts[job.uid].names:
            full_name = f"{job.namespace}/{name}"
            assert full_name in dump.facts or job.uid in found_or_told(dump, full_name)
        for task in job.tasks:
            assert job.uid in found_or_told(dump, task.full_name)
            told = found_or_told(dump, task.name)
            assert job.uid in told or told.count(",") == 4  # five are named at most


@few
@given(drawn_dumps(gates=False))
def test_without_gates_nothing_waits_for_a_gate(objects):
    for job in read_dump(objects).snapshot.jobs:
        assert all(not task.holds for task in job.tasks)


@few
@given(drawn_dumps())
def test_with_our_admission_nothing_waits_for_theirs(objects):
    for job in read_dump(objects, admission="ours").snapshot.jobs:
        assert all(hold.kind is not HoldKind.NOT_ADMITTED for hold in job.holds)
        gates = {hold.name for task in job.tasks for hold in task.holds}
        assert gates.isdisjoint({"kueue.x-k8s.io/admission", "kueue.x-k8s.io/elastic-job"})


@few
@given(drawn_dumps())
def test_whether_they_admit_or_we_the_same_pods_are_of_the_same_jobs(objects):
    assert members(read_dump(objects)) == members(read_dump(objects, admission="ours"))


@few
@given(drawn_dumps(), CONFIGS)
def test_a_dump_survives_json_and_a_live_cycle_equals_scratch(objects, config):
    snapshot = read_dump(objects).snapshot
    assert Snapshot.from_dict(json.loads(json.dumps(snapshot.to_dict()))) == snapshot
    scheduler = Scheduler(config)
    assert scheduler.attach(Cluster(snapshot)).schedule() == scheduler.schedule(snapshot)


@few
@given(drawn_dumps())
def test_every_hold_of_a_job_says_what_it_is(objects):
    for job in read_dump(objects).snapshot.jobs:
        for hold in (*job.holds, *(hold for task in job.tasks for hold in task.holds)):
            assert isinstance(hold, Hold)
            assert "  " not in hold.text
            assert not hold.text.endswith(".")
            assert hold.name in hold.text or hold.detail


# States


def told_of(dump, config):
    """Return what is told of each job, with the job."""
    result = schedule(dump.snapshot, config=config)
    found = standings(dump.snapshot, result, facts=dump.facts, config=config)
    assert [each.job for each in found] == [job.uid for job in dump.snapshot.jobs]
    return result, list(zip(dump.snapshot.jobs, found, strict=True))


@few
@given(drawn_dumps(), CONFIGS)
def test_each_job_has_one_state_and_waits_if_a_task_waits_and_none_starts(objects, config):
    result, found = told_of(read_dump(objects), config)
    starting = {bind.task_uid for bind in result.binds}
    for job, told in found:
        waits = any(task.status in WAITING for task in job.tasks)
        starts = any(task.uid in starting for task in job.tasks)
        if job.tasks and told.state is not JobStatus.BELOW_MINIMUM:
            assert told.waits == (waits and not starts)
        elif not job.tasks:  # without tasks, one that needs some is Incomplete or held
            assert told.waits == bool(told.blockers)
        if told.waits:
            assert told.state not in (JobStatus.DONE, JobStatus.ENDING, JobStatus.RUNNING)


@few
@given(drawn_dumps(), CONFIGS)
def test_the_text_of_a_waiting_job_names_every_gate_queue_group_and_check(objects, config):
    dump = read_dump(objects)
    queues = {queue.name: queue for queue in dump.snapshot.queues}
    _, found = told_of(dump, config)
    for job, told in found:
        waiting = [task for task in job.tasks if task.status in WAITING]
        if not told.waits or (job.tasks and not waiting):
            continue
        assert all(hold.name in told.text for hold in job.holds)
        if waiting and all(task.holds for task in waiting):
            assert all(hold.name in told.text for task in waiting for hold in task.holds)
        if job.queue not in queues or queues[job.queue].state is not QueueStatus.OPEN:
            assert job.queue in told.text
        assert told.text.strip() == told.text
        assert "  " not in told.text


@settings(max_examples=200)
@given(drawn_dumps(["kueue"]), CONFIGS)
def test_nothing_that_kueue_reserved_quota_for_waits_for_quota(objects, config):
    reserved = [dumps.condition("QuotaReserved", "True"), dumps.condition("Admitted", "True")]
    for each in objects:
        if each["kind"] == "Workload":
            each["spec"]["active"] = True
            each["status"] = {"conditions": reserved, "admission": {"clusterQueue": "research"}}
        elif each["kind"] == "Pod":
            each["metadata"]["annotations"]["kueue.x-k8s.io/workload"] = "g0"
    dump = read_dump(objects)
    for job, told in told_of(dump, config)[1]:
        if any(each.type == "Admitted" for each in dump.facts[job.uid].told):
            assert JobStatus.QUOTA not in {told.state, *(each.state for each in told.blockers)}


@few
@given(drawn_dumps(gates=False), CONFIGS)
def test_without_gates_no_job_is_gated(objects, config):
    for _, told in told_of(read_dump(objects), config)[1]:
        assert JobStatus.GATED not in {told.state, *(each.state for each in told.blockers)}


@few
@given(drawn_dumps(), CONFIGS)
def test_with_our_admission_no_job_is_not_admitted(objects, config):
    for _, told in told_of(read_dump(objects, admission="ours"), config)[1]:
        assert JobStatus.NOT_ADMITTED not in {told.state, *(each.state for each in told.blockers)}


# Values that cannot be read

JSON = st.sampled_from(
    [
        *(None, True, False, 0, -1, 3, 1 << 70, 0.5, -1.5, 1e300, "", "x", "1", "-1", "1Gi"),
        *("2026-11-20T10:00:00Z", "a/b", [], {}, [None], [[]], [{}], {"": ""}, {"a": None}),
        *([{"name": "x"}], [{"name": 3}], {"name": "x"}, {"type": "Ready", "status": "True"}),
        *([{"kind": "Job", "name": "j0"}], {"gang": {"minCount": -1}}, {"x": [{"y": {}}]}),
    ]
)


def places_in(given, above=()):
    """Yield the path of every value in JSON."""
    for key, value in given.items() if isinstance(given, dict) else enumerate(given):
        yield (*above, key)
        if isinstance(value, (dict, list)):
            yield from places_in(value, (*above, key))


def replaced(given, path, value):
    """Return JSON with another value at a path."""
    if not path:
        return value
    changed = given.copy()
    changed[path[0]] = replaced(given[path[0]], path[1:], value)
    return changed


@settings(max_examples=150)
@given(drawn_dumps(most_pods=4), st.data())
def test_whatever_stands_in_a_field_is_read_or_told_with_its_path(objects, data):
    paths = list(places_in(objects))
    for _ in range(data.draw(st.integers(1, 3))):
        if paths:
            path = data.draw(st.sampled_from(paths))
            try:
                objects = replaced(objects, path, data.draw(JSON))
            except (KeyError, IndexError, TypeError, AttributeError):
                continue  # what was there has been replaced before
    try:
        dump = read_dump(objects)
    except (KubernetesObjectError, SnapshotError) as error:
        told = list(error.faults)
    else:
        schedule(dump.snapshot)
        told = [Fault("objects", "was read")]
    assert told
    assert all(fault.path and fault.message for fault in told)


@pytest.mark.slow
def test_every_system_is_drawn():
    found = set()

    @settings(max_examples=100, database=None)
    @given(drawn_dumps())
    def look(objects):
        found.update(read_dump(objects).systems)

    look()
    assert found == set(SYSTEMS)
