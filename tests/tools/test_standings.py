"""The state of a job is told in one word and one sentence, which names what is in its way."""

from __future__ import annotations

import json

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support import dumps
from tests.support.dumps import DUMPS

from batchsched import (
    Dependency,
    Hold,
    HoldKind,
    JobEvent,
    JobInfo,
    LabelSelector,
    NodeInfo,
    PodAffinity,
    PodAffinityTerm,
    Queue,
    QueueStatus,
    Resource,
    ResourceLimit,
    SchedulerConfig,
    Snapshot,
    TaskGroup,
    TaskInfo,
    TaskStatus,
    explain,
    schedule,
)
from batchsched.kubernetes import Dump, read_dump
from batchsched.live import Cluster, Event, JobArrived
from batchsched.testing import configs, snapshots
from batchsched.tools import Explanation, JobStanding, JobStatus, standings

DOES_NOT_WAIT = {JobStatus.DONE, JobStatus.ENDING, JobStatus.RUNNING, JobStatus.STARTS}
WAITING = {TaskStatus.PENDING, TaskStatus.PIPELINED, TaskStatus.RESERVED}
CPU = Resource(milli_cpu=1000)
GPU = "nvidia.com/gpu"


def gpus(count: int) -> Resource:
    return Resource(milli_cpu=count * 1000, scalars={GPU: count * 1000})


def in_dump(dump: Dump, config: SchedulerConfig | None = None) -> dict[str, JobStanding]:
    """The standings of a dump by the names of jobs."""
    result = schedule(dump.snapshot, config=config)
    found = standings(dump.snapshot, result, facts=dump.facts, config=config)
    return {each.job.partition("/")[2]: each for each in found}


def of_dump(name: str) -> dict[str, JobStanding]:
    return in_dump(read_dump(DUMPS[name]()))


# Dumps


@pytest.mark.parametrize(
    ("name", "job", "state", "text"),
    [
        (
            "native_gang",
            "train-7f9c-workers-x1",
            "NeverFits",
            (
                "team/train-7f9c-workers-x1 (Job train) waits, never fits: "
                "only 2 of the 3 tasks that it needs have room, even if these nodes were empty: "
                "for one more, 2 of 2 nodes lack free cpu"
            ),
        ),
        (
            "native_gated",
            "g",
            "Gated",
            "team/g waits, gated: 1 of its 2 tasks waits for the gate example.com/license",
        ),
        (
            "native_tree",
            "ray",
            "NeverFits",
            (
                "team/ray waits, never fits: only 4 of the 5 tasks that it needs have room, "
                "even if these nodes were empty: for one more, 1 of 1 node lacks free cpu"
            ),
        ),
        (
            "native_replicas",
            "set",
            "Starts",
            (
                "team/set starts now: 4 tasks on n1, 2 more wait: the minimum of group 'r2' does "
                "not fit at once; alone it could start on 1 of 1 nodes"
            ),
        ),
        (
            "native_missing",
            "gone",
            "GroupMissing",
            "team/gone waits, no group: the group gone does not exist",
        ),
        (
            "volcano_pending",
            "mpi-0c1d",
            "NotAdmitted",
            (
                "team/mpi-0c1d (Job mpi) waits, not admitted: "
                "the phase of its PodGroup is Pending: action enqueue has not admitted it"
            ),
        ),
        (
            "volcano_closed",
            "legacy",
            "QueueClosed",
            "team/legacy waits, queue closed: queue old is not open",
        ),
        (
            "volcano_closed",
            "runs",
            "Running",
            "team/runs runs: 1 task on n1 since 2026-11-20T09:30:00Z",
        ),
        (
            "volcano_capability",
            "elastic",
            "Starts",
            (
                "team/elastic starts now: 2 tasks on n1, 4 more wait: "
                "queue gpus would hold 3 GPUs, more than its limit of 2 GPUs"
            ),
        ),
        ("volcano_priorities", "g-high", "Starts", "team/g-high starts now: 2 tasks on n1"),
        (
            "volcano_priorities",
            "g-low",
            "Room",
            "team/g-low waits, no room: the only node cannot take it now: 1 lacks free cpu",
        ),
        (
            "kai_gangs",
            "pg-big",
            "Room",
            (
                "team/pg-big (Job big) waits, no room: "
                "none of the 2 tasks that must start together fits now"
            ),
        ),
        ("kai_gangs", "pg-small", "Starts", "team/pg-small starts now: 2 tasks on n1, n2"),
        (
            "kai_shared",
            "two",
            "Room",
            "team/two waits, no room: none of the 2 nodes can take it now: 2 lack free GPUs",
        ),
        (
            "kueue_waits",
            "job-wait-5f1d2",
            "NotAdmitted",
            (
                "team/job-wait-5f1d2 (Job wait) waits, not admitted: research has not admitted it: "
                f"{dumps.NO_QUOTA} (until 2026-11-20T10:05:00Z)"
            ),
        ),
        (
            "kueue_checks",
            "job-provision-1",
            "Checks",
            (
                "team/job-provision-1 (Job provision) waits, admission checks: "
                "the check dws-prov has not passed: waiting for nodes"
            ),
        ),
        (
            "kueue_pod_group",
            "parts",
            "NotAdmitted",
            (
                "team/parts waits, not admitted: Kueue makes the Workload of pod group parts once "
                "all of its 2 pods exist: there is 1 now; 1 of its 1 tasks waits for the gate "
                "kueue.x-k8s.io/admission; 1 of the 2 tasks that it needs exist"
            ),
        ),
        (
            "kueue_and_gang",
            "both-gang",
            "NotAdmitted",
            (
                "team/both-gang (Job both) waits, not admitted: research has not admitted it: "
                f"{dumps.NO_QUOTA}"
            ),
        ),
    ],
)
def test_states_of_dumps(name: str, job: str, state: str, text: str) -> None:
    standing = of_dump(name)[job]
    assert (standing.state.value, standing.text) == (state, text)
    assert standing.waits == (standing.state not in DOES_NOT_WAIT)
    besides = "".join(f"; {each.text}" for each in standing.blockers[1:])
    assert standing.headline == text.removesuffix(besides)


def test_a_queue_holds_the_parts_of_a_shared_gpu_that_its_pods_have() -> None:
    dump = read_dump(dumps.kai_shared())
    two = explained(dump.snapshot, "team/two", facts=dump.facts)
    assert [two.queue.name, *(above.name for above in two.queue.above)] == [
        "default-queue",
        "default-parent-queue",
    ]
    held = [each.allocated.get(GPU) for each in (two.queue, *two.queue.above)]
    assert held == [750, 750]  # the rest of the shared one is held by its reservation
    assert two.standing.state is JobStatus.ROOM
    assert " 0.75 GPUs" in str(two)
    more = in_dump(dump)["more"]
    assert (more.state, more.headline) == (
        JobStatus.STARTS,
        "team/more starts now: 1 task on n1",
    )


def test_a_gang_is_not_gated_if_it_can_do_without_the_gated_pod() -> None:
    third = dumps.members("g", 1, prefix="third")
    standing = in_dump(read_dump([*dumps.native_gated(), *third]))["g"]
    assert (standing.state, standing.starting, standing.needed) == (JobStatus.STARTS, 2, 2)


# Every state


def task(uid: str, *, size: Resource = CPU, **more: object) -> TaskInfo:
    return TaskInfo(uid=uid, name=uid, resreq=size, **more)  # type: ignore[arg-type]


def on(uid: str, node: str = "n1", *, size: Resource = CPU, **more: object) -> TaskInfo:
    more.setdefault("status", TaskStatus.RUNNING)
    return task(uid, size=size, node_name=node, **more)


def job(*tasks: TaskInfo, **more: object) -> JobInfo:
    more.setdefault("name", "j")
    more.setdefault("queue", "q")
    return JobInfo(tasks=tasks, **more)  # type: ignore[arg-type]


def node(name: str, size: Resource = CPU, **more: object) -> NodeInfo:
    return NodeInfo(name=name, allocatable=size, **more)  # type: ignore[arg-type]


def cluster(*jobs: JobInfo, nodes: int | list[NodeInfo] = 1, **more: object) -> Snapshot:
    given = [node(f"n{i + 1}") for i in range(nodes)] if isinstance(nodes, int) else nodes
    more.setdefault("queues", [Queue(name="q")])
    return Snapshot(nodes=given, jobs=jobs, **more)  # type: ignore[arg-type]


def told(
    snapshot: Snapshot, actions: str = "allocate, backfill", uid: str = "default/j"
) -> JobStanding:
    config = SchedulerConfig.from_mapping({"actions": actions})
    found = standings(snapshot, schedule(snapshot, config=config), config=config)
    return next(each for each in found if each.job == uid)


GATE = Hold(HoldKind.GATE, "g")
FULL = job(on("r"), name="r", priority=5)
FAILED = {"status": TaskStatus.FAILED}
RESERVE = SchedulerConfig.from_mapping({"actions": "allocate, reserve"})


@pytest.mark.parametrize(
    ("snapshot", "sentence"),
    [
        (
            cluster(job(task("a", status=TaskStatus.SUCCEEDED), task("b", **FAILED))),
            "Done: has ended: 1 succeeded, 1 failed",
        ),
        (
            cluster(job(on("a", status=TaskStatus.RELEASING), task("b", **FAILED))),
            "Ending: is ending: 1 task still to leave",
        ),
        (cluster(job(on("a"), on("b", "n2")), nodes=2), "Running: runs: 2 tasks on n1, n2"),
        (cluster(job(min_available=0)), "Running: has what it needs, and nothing waits"),
        (
            cluster(job(task("a"), task("b"))),
            (
                "Starts: starts now: 1 task on n1, 1 more wait: "
                "the only node cannot take it now: 1 lacks free cpu"
            ),
        ),
        (
            cluster(job(on("leaves", status=TaskStatus.RELEASING), name="r"), job(task("a"))),
            "Promised: waits, promised: promised room on n1, waits for leaves to leave",
        ),
        (
            cluster(FULL, job(on("a", "n2"), task("b")), nodes=2),
            (
                "RunningPart: runs, 1 more wait: "
                "none of the 2 nodes can take it now: 2 lack free cpu"
            ),
        ),
        (
            cluster(job(on("a"), task("b", size=Resource(milli_cpu=16000)))),
            "RunningPart: runs, 1 more wait: no node has 16 cpu, the largest has 1 cpu",
        ),
        (
            cluster(job(on("a"), task("b", size=Resource(milli_cpu=16000)), task("c"))),
            ("RunningPart: runs, 2 more wait: the only node cannot take it now: 1 lacks free cpu"),
        ),
        (
            cluster(job(on("a"), task("b"), min_available=2), FULL, nodes=[node("n1", 2 * CPU)]),
            (
                "BelowMinimum: waits, below minimum: 1 of 2 run: "
                "the only node cannot take it now: 1 lacks free cpu"
            ),
        ),
        (
            cluster(job(on("a"), task("b", **FAILED), min_available=2)),
            "BelowMinimum: waits, below minimum: 1 of 2 run",
        ),
        (
            cluster(job(task("a"), holds=[Hold(HoldKind.GROUP_MISSING, "g")])),
            "GroupMissing: waits, no group: the group g does not exist",
        ),
        (
            cluster(job(holds=[GATE])),
            "Gated: waits, gated: it waits for the gate g; 0 of the 1 tasks that it needs exist",
        ),
        (
            cluster(job(task("a"), holds=[Hold(HoldKind.SUSPENDED, "j", "by hand")])),
            "Suspended: waits, suspended: j is suspended: by hand",
        ),
        (
            cluster(job(task("a"), queue="x")),
            "NoQueue: waits, no queue: queue x does not exist",
        ),
        (
            cluster(job(task("a"), queue="x", holds=[Hold(HoldKind.NO_QUEUE, "x", "no local x")])),
            "NoQueue: waits, no queue: no local x",
        ),
        (
            cluster(job(task("a")), queues=[Queue(name="q"), Queue(name="below", parent="q")]),
            (
                "NoQueue: waits, no queue: queue q has queues below it, such as below; "
                "a job must name a leaf"
            ),
        ),
        (
            cluster(
                job(task("a")),
                queues=[
                    Queue(name="top", state=QueueStatus.DRAINING),
                    Queue(name="q", parent="top"),
                ],
            ),
            "QueueClosed: waits, queue closed: queue top is not open, but draining",
        ),
        (
            cluster(job(task("a"), holds=[Hold(HoldKind.NOT_ADMITTED, "cq", until=1e9)])),
            "NotAdmitted: waits, not admitted: cq has not admitted it (until 2001-09-09T01:46:40Z)",
        ),
        (
            cluster(job(task("a"), holds=[GATE, Hold(HoldKind.CHECK, "c")])),
            (
                "Checks: waits, admission checks: the check c has not passed; "
                "1 of its 1 tasks waits for the gate g"
            ),
        ),
        (
            cluster(
                job(task("a"), task("b", holds=[GATE]), task("c", holds=[GATE]), on("d")), nodes=2
            ),
            "Starts: starts now: 1 task on n2, 2 more wait: 2 of its 4 tasks wait for the gate g",
        ),
        (
            cluster(job(task("a"), task("b", **FAILED), min_available=2)),
            "Incomplete: waits, incomplete: 1 of the 2 tasks that it needs exist",
        ),
        (
            cluster(job(min_groups=3, min_available=0)),
            "Incomplete: waits, incomplete: 0 of the 3 groups that it needs exist",
        ),
        (
            cluster(
                job(
                    task("a", group="driver"),
                    task("b", group="driver"),
                    groups=[TaskGroup("driver", min=1), TaskGroup("worker", min=1)],
                )
            ),
            "Incomplete: waits, incomplete: 0 of the 1 tasks that group worker needs exist",
        ),
        (
            cluster(
                job(task("a"), depends_on=[Dependency(job="default/r", on=JobEvent.ENDED)]),
                FULL,
                nodes=2,
            ),
            "Depends: waits, depends: waits for default/r (ended)",
        ),
        (
            cluster(
                job(task("a")),
                FULL,
                nodes=2,
                queues=[Queue(name="q", limit=ResourceLimit(milli_cpu=1000))],
            ),
            "Quota: waits, quota: queue q would hold 2 cpu, more than its limit of 1 cpu",
        ),
        (
            cluster(
                job(task("a"), task("b"), min_available=2),
                nodes=2,
                queues=[
                    Queue(name="top", limit=ResourceLimit(milli_cpu=1500)),
                    Queue(name="q", parent="top"),
                ],
            ),
            "Quota: waits, quota: queue top may hold at most 1.5 cpu; it needs 2 cpu at once",
        ),
        (
            cluster(job(task("a", size=gpus(16))), nodes=[node("n1", gpus(8))]),
            "NeverFits: waits, never fits: no node has 16 cpu, the largest has 8 cpu",
        ),
        (
            cluster(
                job(task("a", size=Resource(scalars={GPU: 16000}))), nodes=[node("n1", gpus(8))]
            ),
            "NeverFits: waits, never fits: no node has 16 GPUs, the largest has 8 GPUs",
        ),
        (
            cluster(job(task("a", size=Resource(scalars={GPU: 1000})))),
            "NeverFits: waits, never fits: no node has 1 GPU",
        ),
        (
            cluster(
                job(task("a", size=2 * CPU)),
                nodes=[node("n1"), node("n2", 2 * CPU, unschedulable=True)],
            ),
            "NeverFits: waits, never fits: no node in service has 2 cpu, the largest has 1 cpu",
        ),
        (
            cluster(job(task("a", node_selector={"zone": "b"})), nodes=2),
            (
                "NeverFits: waits, never fits: none of these nodes could take it "
                "even if empty: 2 of 2 nodes lack the label zone=b"
            ),
        ),
        (
            cluster(
                FULL, job(task("a"), task("b"), task("c"), task("d"), min_available=3), nodes=2
            ),
            (
                "NeverFits: waits, never fits: only 2 of the 3 tasks that it needs have room, "
                "even if these nodes were empty: for one more, 2 of 2 nodes lack free cpu"
            ),
        ),
        (cluster(job(task("a")), nodes=0), "NeverFits: waits, never fits: there is no node"),
        (
            cluster(FULL, job(task("a"))),
            "Room: waits, no room: the only node cannot take it now: 1 lacks free cpu",
        ),
    ],
)
def test_each_state_is_told_in_one_sentence(snapshot: Snapshot, sentence: str) -> None:
    standing = told(snapshot)
    state, _, text = sentence.partition(": ")
    assert f"{standing.state.value}: {standing.text}" == f"{state}: default/j {text}"


TWO_QUEUES = {"queues": [Queue(name="q"), Queue(name="r")]}
LENT = job(on("r1"), on("r2", "n2"), name="r", queue="r")


@pytest.mark.parametrize(
    ("snapshot", "config", "sentence"),
    [
        (
            cluster(
                job(on("r", start_time=0.0, estimate=100.0), name="r"),
                job(task("a", estimate=10.0)),
                now=10.0,
            ),
            {"actions": "allocate, plan"},
            (
                "waits, planned: waits for 1 cpu; planned for t = 100, when r is expected to end "
                "(until 1970-01-01T00:01:40Z)"
            ),
        ),
        (
            cluster(FULL, job(task("a", status=TaskStatus.RESERVED, node_name="n1"))),
            {"actions": "allocate, reserve"},
            "waits, reserved: room is reserved for it on n1",
        ),
        (
            cluster(LENT, job(task("a")), nodes=2, **TWO_QUEUES),
            {"actions": "reclaim, allocate"},
            "waits, promised: promised room on n2, waits for r2 to leave",
        ),
        (
            cluster(LENT, job(on("a", "n3"), task("b")), nodes=3, **TWO_QUEUES),
            {"actions": "reclaim"},
            "runs, 1 more wait: queue q would hold 2 cpu, more than its share of 1.5 cpu",
        ),
        (
            cluster(
                job(on("r1"), on("r2", "n2"), name="r"),
                job(task("a")),
                job(task("b"), name="other", queue="r"),
                nodes=3,
                **TWO_QUEUES,
            ),
            {"actions": "allocate", "tiers": [{"plugins": ["gang", "proportion"]}]},
            "waits, quota: queue q has its fair share: 2 cpu; it holds 2 cpu",
        ),
    ],
)
def test_what_a_configuration_does_is_told(
    snapshot: Snapshot, config: dict[str, object], sentence: str
) -> None:
    read = SchedulerConfig.from_mapping(config)
    found = standings(snapshot, schedule(snapshot, config=read), config=read)
    text = next(each.text for each in found if each.job == "default/j")
    assert text == f"default/j {sentence}"


def test_a_job_that_loses_tasks_in_the_cycle_says_so() -> None:
    snapshot = cluster(LENT, job(task("a")), nodes=2, **TWO_QUEUES)
    standing = told(snapshot, "reclaim, allocate", "default/r")
    assert standing.text == (
        "default/r runs: 2 tasks on n1, n2; 1 task of it is evicted in this cycle"
    )


def test_tasks_that_it_wants_to_be_near_are_no_reason_that_it_never_fits() -> None:
    near = PodAffinity(
        required=[
            PodAffinityTerm(selector=LabelSelector(match_labels={"app": "db"}), topology_key="zone")
        ]
    )
    standing = told(cluster(job(task("a", pod_affinity=near))))
    assert standing.state is JobStatus.ROOM


@pytest.mark.parametrize("actions", ["allocate, backfill", "allocate, backfill, preempt"])
def test_a_job_fits_if_an_action_starts_it_without_the_task_that_fits_nowhere(actions: str) -> None:
    sizes = [task("large", size=8 * CPU, priority=1), task("small")]
    assert told(cluster(FULL, job(*sizes)), actions).state is JobStatus.ROOM
    config = SchedulerConfig.from_mapping({"actions": actions})
    assert schedule(cluster(job(*sizes)), config=config).binds


def test_jobs_of_one_kind_are_tried_once_on_the_empty_nodes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried: list[str] = []
    before = Cluster.apply

    def counting(self: Cluster, *events: Event) -> None:
        tried.extend(each.job.uid for each in events if isinstance(each, JobArrived))
        before(self, *events)

    monkeypatch.setattr(Cluster, "apply", counting)
    jobs = [job(task(f"t{i}", size=2 * CPU), name=f"j{i}") for i in range(9)]
    found = standings(cluster(*jobs), schedule(cluster(*jobs)))
    assert {each.state for each in found} == {JobStatus.NEVER_FITS}
    assert len(tried) == 1


# What explain says of it


def explained(snapshot: Snapshot, uid: str, **more: object) -> Explanation:
    return explain(snapshot, schedule(snapshot), uid, try_changes=False, **more)  # type: ignore[arg-type]


def test_values_that_are_read_in_a_way_of_their_own_are_not_left_out() -> None:
    """They are told at the end, those of one kind with the same meaning in one line."""
    dump = read_dump(dumps.kai_gangs())
    text = str(explained(dump.snapshot, dump.find("big"), facts=dump.facts))
    assert "This answer leaves out" not in text
    assert text.count("-1 is read as") == 1
    assert "Queue spec.resources.cpu.quota, spec.resources.gpu.quota, " in text


def test_an_explanation_tells_what_it_leaves_out_and_what_controllers_say() -> None:
    objects = dumps.kueue_admitted()
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "c"}}
    for each in objects:
        if each["metadata"]["name"] == "runs-b":
            each["spec"]["volumes"] = [claim]
    dump = read_dump(objects)
    explanation = explained(dump.snapshot, "team/job-runs-1", facts=dump.facts)
    assert str(explanation).splitlines()[:4] == [
        (
            "team/job-runs-1 (Job runs) starts now: 1 task on n1 "
            "(as far as could be seen: see below)"
        ),
        "  running: 1 task on n1 since 2026-11-20T09:30:00Z",
        "This answer leaves out",
        "  Pod spec.volumes: ignored: pods may be placed on nodes that cannot mount their volumes",
    ]
    dump = read_dump(dumps.kueue_waits())
    explanation = explained(dump.snapshot, "team/job-wait-5f1d2", facts=dump.facts)
    assert explanation.owner == "Job wait"
    assert str(explanation).splitlines()[:3] == [
        explanation.standing.text,
        "What controllers say",
        f"  Kueue says, 30 min ago: {dumps.NO_QUOTA}",
    ]
    content = explanation.to_dict()
    keys = ("job", "owner", "state", "waits")
    assert [content[key] for key in keys] == [
        "team/job-wait-5f1d2",
        "Job wait",
        "NotAdmitted",
        True,
    ]
    assert content["text"] == explanation.standing.text
    assert content["blockers"] == [
        {
            "state": "NotAdmitted",
            "name": "research",
            "text": f"research has not admitted it: {dumps.NO_QUOTA} (until 2026-11-20T10:05:00Z)",
            "until": dump.snapshot.now + 300,
        }
    ]
    assert content["told"][1] == {
        "type": "QuotaReserved",
        "status": "False",
        "reason": "Pending",
        "message": dumps.NO_QUOTA,
        "who": "Kueue",
        "time": dump.snapshot.now - 1800,
    }
    assert json.loads(json.dumps(content)) == content


def says(objects: list[dict[str, object]]) -> list[str]:
    """What controllers say of the only job of a dump, by what is printed of it."""
    dump = read_dump(objects, now=dumps.NOW)
    (only,) = dump.snapshot.jobs
    printed = str(explained(dump.snapshot, only.uid, facts=dump.facts))
    _, _, part = printed.partition("What controllers say\n")
    return [line.strip() for line in part.splitlines() if " says" in line]


def workload_with(*conditions: dict[str, str]) -> list[dict[str, object]]:
    made = dumps.workload("w", conditions=conditions)
    return [made, dumps.local_queue(), dumps.cluster_queue(), dumps.node("n1", "8")]


def test_what_controllers_say_is_told_newest_first_and_only_if_it_says_why() -> None:
    times = [f"2026-11-20T09:{minute}:00Z" for minute in (10, 20, 40, 50, 55)]
    objects = workload_with(
        dumps.condition("QuotaReserved", "False", "Pending", "no quota", times[2]),
        dumps.condition("Admitted", "False", "NoReservation", "", times[3]),
        dumps.condition("Evicted", "True", "Preempted", "preempted for urgent", times[1]),
        dumps.condition("Preempted", "True", "InClusterQueue", "for urgent", times[0]),
        dumps.condition("Requeued", "True", "Preempted", "all is well", times[4]),
        dumps.condition("Suspended", "False", "Resumed", "all is well", times[4]),
    )
    assert says(objects) == [
        "Kueue says, 10 min ago: Admitted is False (NoReservation)",
        "Kueue says, 20 min ago: no quota",
        "Kueue says, 40 min ago: preempted for urgent",
    ]
    (facts,) = read_dump(objects).facts.values()
    assert [each.type for each in facts.told if each.says_why] == [
        "Admitted",
        "QuotaReserved",
        "Evicted",
        "Preempted",
    ]
    assert len(facts.told) == 6


@pytest.mark.parametrize("time", ["soon", None, "2026-11-20T10:00:01Z"])
def test_a_condition_whose_time_is_none_or_to_come_is_told_without(time: str | None) -> None:
    said = dumps.condition("QuotaReserved", "False", "Pending", "no quota")
    said["lastTransitionTime"] = time
    assert says(workload_with(said)) == ["Kueue says: no quota"]


def test_a_condition_of_this_moment_is_told_as_that() -> None:
    said = dumps.condition("QuotaReserved", "False", "Pending", "no quota", dumps.NOW)
    assert says(workload_with(said)) == ["Kueue says, just now: no quota"]


@pytest.mark.parametrize(
    ("objects", "who"),
    [
        (dumps.native_gang(), ["the kube-scheduler"]),
        (dumps.volcano_pending(), ["Volcano"]),
        (dumps.kai_without_group(), ["KAI Scheduler"]),
        (dumps.coscheduling()[:4], ["the kube-scheduler"]),
        (dumps.kueue_and_gang(), ["Kueue", "the kube-scheduler"]),
        (
            [dumps.pod("p", "9", scheduler="ours"), dumps.node("n1")],
            ["the scheduler ours"],
        ),
    ],
)
def test_who_says_it_is_told_and_the_same_is_told_once(
    objects: list[dict[str, object]], who: list[str]
) -> None:
    names = ["default-scheduler", "volcano", "kai-scheduler", "ours"]
    dump = read_dump(objects, now=dumps.NOW, scheduler_names=names)
    (facts,) = dump.facts.values()
    assert sorted({each.who for each in facts.told}) == who
    printed = str(explained(dump.snapshot, facts.job, facts=dump.facts))
    said = [line.strip() for line in printed.splitlines() if " says, " in line]
    assert sorted(line.partition(" says, 30 min ago: ")[0] for line in said) == who


def test_what_starts_or_runs_is_told_with_its_nodes_and_with_the_controllers_word() -> None:
    objects = [
        dumps.native_group("g", 2),
        *dumps.members("g", 1, prefix="runs", on="n1"),
        *dumps.members("g", 1, prefix="free"),
        dumps.node("n1", "2"),
    ]
    dump = read_dump(objects)
    explanation = explained(dump.snapshot, "team/g", facts=dump.facts)
    assert str(explanation).splitlines()[:3] == [
        "team/g starts now: 1 task on n1",
        "  running: 1 task on n1 since 2026-11-20T09:30:00Z",
        "What controllers say",
    ]
    assert [each.type for each in explanation.told] == [
        "PodGroupInitiallyScheduled",
        "PodScheduled",
    ]


@pytest.mark.parametrize(
    ("least", "begin"), [(1, "runs, 2 more wait"), (3, "waits, below minimum: 1 of 3 run")]
)
def test_what_else_is_in_the_way_stands_in_lines_of_its_own(least: int, begin: str) -> None:
    until = Hold(HoldKind.NOT_ADMITTED, "c", "later", 60.0)
    waiting = [task(uid, holds=[GATE]) for uid in "bc"]
    held = job(on("a"), *waiting, min_available=least, holds=[until])
    explanation = explained(cluster(held, nodes=3), "default/j")
    assert str(explanation).splitlines()[:4] == [
        f"default/j {begin}: c has not admitted it: later (until 1970-01-01T00:01:00Z)",
        "  2 of its 3 tasks wait for the gate g",
        "  running: 1 task on n1",
        "Its place in the queue",
    ]
    assert explanation.standing.text.endswith("; 2 of its 3 tasks wait for the gate g")


def test_queues_that_hold_more_than_their_shares_are_named_the_most_first() -> None:
    def held(queue: str, count: int) -> JobInfo:
        tasks = [on(f"{queue}{i}", size=gpus(1)) for i in range(count)]
        return job(*tasks, name=queue, queue=queue)

    snapshot = cluster(
        held("r", 6),
        job(*[task(f"t{i}", size=gpus(1)) for i in range(4)], queue="t"),
        nodes=[node("n1", Resource(milli_cpu=64000, scalars={GPU: 8000}))],
        queues=[Queue(name="r"), Queue(name="t")],
    )
    printed = str(explained(snapshot, "t3"))
    assert "queue r holds 2 GPUs above its share" in printed
    assert "queue t holds" in printed
    assert "queue t holds 2 GPUs above" not in printed


# Laws


@given(snapshots(holds=True), configs())
@settings(max_examples=60)
def test_a_job_waits_exactly_if_a_task_waits_and_none_starts_or_it_lacks_tasks(
    snapshot: Snapshot, config: SchedulerConfig
) -> None:
    result = schedule(snapshot, config=config)
    starting = {bind.task_uid for bind in result.binds}
    found = standings(snapshot, result, config=config)
    assert [each.job for each in found] == [job.uid for job in snapshot.jobs]
    for job, told in zip(snapshot.jobs, found, strict=True):
        waiting = any(task.status in WAITING for task in job.tasks)
        starts = any(task.uid in starting for task in job.tasks)
        # A job without tasks that needs some is Incomplete, whatever holds it besides.
        is_incomplete = JobStatus.INCOMPLETE in {each.state for each in told.blockers}
        lacks = told.state is JobStatus.BELOW_MINIMUM or (is_incomplete and not job.tasks)
        assert told.waits == ((waiting and not starts) or lacks)
        assert told.waits == (told.state not in DOES_NOT_WAIT)
        assert sum(told.tasks.values()) == len(job.tasks)
        assert (told.starting > 0) == starts == (told.state is JobStatus.STARTS)


@given(
    nodes=st.lists(st.integers(1, 2), min_size=1, max_size=2),
    sizes=st.lists(st.tuples(st.integers(1, 3), st.integers(0, 1)), min_size=2, max_size=4),
    minimum=st.integers(1, 2),
    guarantee=st.integers(0, 1),
    actions=st.sampled_from(["allocate, backfill", "preempt", "reclaim, allocate, preempt"]),
)
@settings(max_examples=100)
def test_a_job_that_never_fits_does_not_start_alone_on_empty_nodes(
    nodes: list[int],
    sizes: list[tuple[int, int]],
    minimum: int,
    guarantee: int,
    actions: str,
) -> None:
    tasks = [
        task(f"t{i}", size=size * CPU, priority=priority)
        for i, (size, priority) in enumerate(sizes)
    ]
    asks = job(*tasks, min_available=min(minimum, len(tasks)))
    others = [
        job(on(f"r{i}", f"n{i}", size=size * CPU), name=f"r{i}") for i, size in enumerate(nodes)
    ]
    alone = cluster(
        asks,
        nodes=[node(f"n{i}", size * CPU) for i, size in enumerate(nodes)],
        queues=[Queue(name="q"), Queue(name="r", guarantee=guarantee * CPU)],
    )
    if told(evolve(alone, jobs=[*others, asks]), actions).state is JobStatus.NEVER_FITS:
        config = SchedulerConfig.from_mapping({"actions": actions})
        assert not schedule(alone, config=config).binds


@given(snapshots(holds=True), configs())
@settings(max_examples=60)
def test_the_text_of_a_job_names_all_that_is_in_its_way(
    snapshot: Snapshot, config: SchedulerConfig
) -> None:
    for told in standings(snapshot, schedule(snapshot, config=config), config=config):
        assert told.text.startswith(told.headline)
        assert told.text.startswith(f"{told.job} ")
        for blocker in told.blockers:
            assert blocker.name in blocker.text
            assert blocker.text in told.text
        order = [list(JobStatus).index(each.state) for each in told.blockers]
        assert order == sorted(order)
        assert len({(each.state, each.name, each.text) for each in told.blockers}) == len(order)


@given(snapshots(holds=True), configs())
@settings(max_examples=15)
def test_an_explanation_begins_with_the_standing_and_has_all_that_is_in_the_way(
    snapshot: Snapshot, config: SchedulerConfig
) -> None:
    result = schedule(snapshot, config=config)
    for told in standings(snapshot, result, config=config)[:2]:
        explanation = explain(snapshot, result, told.job, config=config, try_changes=False)
        assert explanation.standing == told
        printed = str(explanation)
        assert printed.startswith(told.headline)
        assert all(each.text in printed for each in told.blockers)


@given(snapshots(holds=True))
@settings(max_examples=30)
def test_without_gates_no_job_is_gated(snapshot: Snapshot) -> None:
    def ungated(holds: tuple[Hold, ...]) -> tuple[Hold, ...]:
        return tuple(hold for hold in holds if hold.kind is not HoldKind.GATE)

    jobs = [
        evolve(
            job,
            holds=ungated(job.holds),
            tasks=[evolve(task, holds=ungated(task.holds)) for task in job.tasks],
        )
        for job in snapshot.jobs
    ]
    free = evolve(snapshot, jobs=jobs)
    for told in standings(free, schedule(free)):
        assert JobStatus.GATED not in {told.state, *(each.state for each in told.blockers)}


@pytest.mark.parametrize("name", [*sorted(DUMPS), "everything"])
def test_with_our_admission_no_job_is_not_admitted(name: str) -> None:
    objects = dumps.everything() if name == "everything" else DUMPS[name]()
    for told in in_dump(read_dump(objects, admission="ours")).values():
        assert JobStatus.NOT_ADMITTED not in {told.state, *(each.state for each in told.blockers)}
