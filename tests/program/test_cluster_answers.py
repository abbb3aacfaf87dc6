"""The commands why, jobs, queues and nodes: scenarios, C1 to C12 by their numbers."""

import json
import re

import pytest
from tests.support import dumps
from tests.support.program import run

from batchsched import JobInfo, NodeInfo, Queue, Resource, Snapshot, TaskInfo, TaskStatus
from batchsched.tools import JobStatus
from batchsched_cli.text import cut_names

LABEL = "example.com/pool"


def gang(name, count, gpu=0, *, cpu="1", **more):
    return [
        dumps.native_group(name, count),
        *[
            dumps.pod(f"{name}-{place}", cpu, gpu, schedulingGroup={"podGroupName": name}, **more)
            for place in range(count)
        ],
    ]


# Why


def test_c1_a_closed_queue_is_named_with_what_opens_it_and_no_node():
    ended = run("why", "legacy", given=dumps.volcano_closed())
    assert ended.status == 1
    assert ended.lines[0] == "team/legacy waits, queue closed: queue old is not open"
    assert "'old' open" in ended.out or "release" in ended.out
    assert "odes" not in ended.out


def test_c2_the_gate_of_a_gated_gang_is_in_the_first_line():
    ended = run("why", "g", given=dumps.native_gated())
    assert ended.status == 1
    assert ended.lines[0] == (
        "team/g waits, gated: 1 of its 2 tasks waits for the gate example.com/license"
    )


def test_a_gang_of_kubernetes_is_no_protection_from_a_higher_priority():
    objects = [dumps.native_group("low", 2, priority=10)]
    objects += [dumps.native_group("high", 2, priority=1000)]
    objects += dumps.members("high", 2, "4", priority=1000)
    for name in ("n1", "n2"):
        objects += dumps.members("low", 1, "6", f"low-{name}", on=name, priority=10)
        objects += [dumps.node(name, "8")]
    ended = run("why", "high", given=objects)
    assert ended.lines[0].startswith("team/high waits, promised: ")
    assert "protected by gang" not in ended.out


def test_two_blockers_with_one_text_are_told_once():
    message = "LocalQueue gone doesn't exist"
    told = [dumps.condition("QuotaReserved", "False", "Inadmissible", message)]
    workload = dumps.workload("work", None, 2, told, queue="gone")
    ended = run(
        "why", "work", "--width", 200, given=[workload, dumps.cluster_queue(), dumps.node("n1")]
    )
    assert ended.lines[0].count("LocalQueue gone doesn't exist") == 1


def test_queues_are_not_drawn_by_a_resource_that_no_node_has():
    objects = [*gang("cpus", 2, on="n1"), *gang("odd", 1, 1), dumps.node("n1", "4")]
    ended = run("queues", given=objects)
    assert ended.lines[0] == "1 queue: 2 of 4 cpu in use, 1 job waits."


def test_c3_what_never_fits_says_so_and_gets_no_advice_for_a_node():
    objects = [*gang("huge", 2, 16), dumps.node("n1", "32", 8), dumps.node("n2", "32", 8)]
    ended = run("why", "huge", "--width", 120, given=objects)
    assert ended.status == 1
    assert ended.lines[0] == (
        "team/huge waits, never fits: no node has 16 GPUs, the largest has 8 GPUs"
    )
    assert "more on node" not in ended.out


@pytest.mark.parametrize("preset", ["volcano", "kai", "kubernetes"])
def test_without_nodes_nothing_else_is_the_cause(preset):
    ended = run("why", "-c", preset, given=gang("one", 1))
    assert ended.lines[0] == "team/one waits, never fits: there is no node"


def test_c4_a_label_that_no_node_has_is_seen_beside_cordoned_nodes():
    nodes = [dumps.node(f"n{place}") for place in range(20)]
    for each in nodes[:2]:
        each["spec"]["unschedulable"] = True
    ended = run("why", "--width", 160, given=[*gang("one", 1, nodeSelector={LABEL: "x"}), *nodes])
    assert ended.status == 1
    assert "18 of 20 nodes lack the label" in ended.out
    assert "2 are cordoned and lack the label" in ended.out


def test_c5_what_kueue_says_is_told():
    ended = run("why", "wait", "--width", 1000, given=dumps.kueue_waits())
    assert ended.status == 1
    assert ended.lines[0].startswith("team/job-wait-5f1d2 (Job wait) waits, not admitted: ")
    for part in (dumps.NO_QUOTA, "research", "2026-11-20T10:05:00Z"):
        assert part in ended.lines[0]
    place = ended.lines.index("What controllers say")
    assert ended.lines[place + 1] == f"  Kueue says, 30 min ago: {dumps.NO_QUOTA}"


def test_what_a_scheduler_says_is_told_where_a_job_starts_as_far_as_could_be_seen():
    message = "Non-preemptible workload is over quota"
    why = {"reason": "NonPreemptibleOverQuota", "message": message}
    objects = dumps.kai_gangs()
    (small,) = (each for each in objects if each["metadata"]["name"] == "pg-small")
    small["spec"]["priorityClassName"] = "build"
    small["status"] = {
        "schedulingConditions": [
            {"type": "UnschedulableOnNodePool", "status": "True", "reasons": [why]}
        ]
    }
    ended = run("why", "pg-small", "--width", 120, given=objects)
    assert ended.status == 0
    assert "starts now" in ended.lines[0]
    said = ended.out.partition("What controllers say\n")[2].splitlines()
    assert any(line.endswith(message) for line in said)


def test_c6_what_was_left_out_is_told_where_it_could_change_the_answer():
    claim = [{"name": "data", "persistentVolumeClaim": {"claimName": "shared"}}]
    objects = [*gang("reads", 1, volumes=claim), dumps.node("n1")]
    ended = run("why", "reads", "--width", 120, given=objects)
    assert ended.status == 0
    assert "starts now" in ended.lines[0]
    assert ended.lines[0].endswith(" (as far as could be seen: see below)")
    part = ended.out.partition("This answer leaves out\n")[2].splitlines()[0]
    assert "spec.volumes" in part


def test_c8_a_name_that_is_not_there_brings_those_that_are_similar():
    ended = run("why", "biig", given=dumps.kai_gangs())
    assert (ended.status, ended.out) == (2, "")
    assert ended.err.startswith("batchsched: no job is called biig; did you mean ")
    assert "big" in ended.err.partition("did you mean")[2]


def test_c9_a_config_map_with_another_key_is_refused_with_its_keys(tmp_path):
    file = tmp_path / "map.json"
    file.write_text(json.dumps(dumps.thing("v1", "ConfigMap", "c", data={"other.conf": "x: 1"})))
    ended = run("why", "big", "-c", file, given=dumps.kai_gangs())
    assert (ended.status, ended.out) == (2, "")
    assert "its keys: other.conf" in ended.err


def test_c12_who_holds_more_than_its_share_is_named():
    queues = [dumps.kai_queue(name, gpu=4) for name in ("r", "t")]
    holders = [dumps.kai_group("pg-r", 1, queue="r"), *dumps.kai_pods("pg-r", 1, 6, on="n1")]
    waits = [dumps.kai_group("pg-t", 1, queue="t"), *dumps.kai_pods("pg-t", 1, 4)]
    for pod in holders[1:]:
        pod["metadata"]["labels"]["kai.scheduler/queue"] = "r"
    objects = [*queues, *holders, *waits, dumps.node("n1", "16", 8)]
    ended = run("why", "pg-t", "-c", "default", given=objects)
    assert "queue r holds 2 GPUs above its share" in ended.out


def test_why_without_a_name_is_about_the_one_job_that_waits():
    assert (
        run("why", given=dumps.native_gated()).out
        == run("why", "g", given=dumps.native_gated()).out
    )


def test_why_without_a_name_is_a_table_of_the_jobs_that_wait():
    ended = run("why", "--width", 300, given=dumps.everything())
    assert ended.status == 1
    assert ended.lines[1].split()[:2] == ["STATE", "JOB"]
    assert "starts now" not in [line[:10] for line in ended.lines[2:-1]]
    nothing = run("why", given=[dumps.node("n1")])
    assert (nothing.status, nothing.out) == (0, "0 jobs wait, 0 start now, 0 run.\n")


def test_the_namespace_that_is_asked_for_comes_first():
    objects = []
    for namespace in ("a", "b"):
        for each in dumps.native_gated()[:-1]:
            metadata = each["metadata"] | {
                "namespace": namespace,
                "uid": f"{namespace}-{each['metadata']['uid']}",
            }
            objects.append(each | {"metadata": metadata})
    ended = run("why", "g", given=objects)
    assert (ended.status, ended.err) == (2, "batchsched: g may be any of a/g, b/g\n")
    assert run("why", "g", "-n", "b", given=objects).lines[0].startswith("b/g waits")
    table = run("jobs", "-n", "b", given=objects)
    assert [line.split()[1] for line in table.lines[2:-1]] == ["g"]


def test_what_the_answer_rests_on_stands_at_its_end():
    lines = run("why", "legacy", "--width", 200, given=dumps.volcano_closed()).lines
    assert [line.partition(":")[0] for line in lines[-4:]] == [
        "since",
        "configuration",
        "scheduler names",
        "assumed",
    ]


def test_a_job_that_has_just_come_waits_since_just_now():
    objects = [dumps.node("n1"), *gang("big", 1, cpu="99")]
    words = ["--now", "2026-11-20T09:30:00Z", "--width", 120]
    assert "since: 2026-11-20T09:30:00Z, just now" in run("why", "big", *words, given=objects).lines
    assert " just now  " in run("jobs", *words, given=objects).lines[2]
    before = run("jobs", "--now", "2026-11-20T09:29:00Z", given=objects)
    assert "SINCE" not in before.lines[1]


def test_a_snapshot_that_tells_no_times_shows_none():
    snapshot = Snapshot(queues=[Queue(name="q")], jobs=[JobInfo(name="j", queue="q")], now=2e9)
    given = json.dumps(snapshot.to_dict()).encode()
    assert "SINCE" not in run("jobs", given=given).lines[1]
    given = json.dumps(snapshot.to_dict() | {"now": 0}).encode()
    assert not [line for line in run("why", "j", given=given).lines if line.startswith("now")]


def test_until_when_a_node_is_held_is_a_date():
    def one(name, **more):
        return JobInfo(
            name=name,
            queue="q",
            tasks=[TaskInfo(uid=name, name=name, resreq=Resource(milli_cpu=1000), **more)],
        )

    runs = one("runs", node_name="n", status=TaskStatus.RUNNING, start_time=2e9, estimate=3600)
    snapshot = Snapshot(
        nodes=[NodeInfo(name="n", allocatable=Resource(milli_cpu=1000))],
        queues=[Queue(name="q")],
        jobs=[runs, one("waits")],
        now=2e9 + 60,
    )
    given = json.dumps(snapshot.to_dict()).encode()
    assert "runs until 2033-05-18T04:33:20Z" in run("why", "waits", given=given).out


def test_c10_the_first_line_is_a_sentence_at_any_width():
    for width in (60, 80):
        ended = run("why", "wait", "--width", width, given=dumps.kueue_waits())
        assert ended.lines[0] == "team/job-wait-5f1d2 (Job wait) waits, not admitted:"
        assert all(len(line) <= width for line in ended.lines)


def test_what_is_left_out_is_told_however_long_the_answer_is():
    odd = [
        {"name": f"v{place}", "persistentVolumeClaim": {"claimName": f"c{place}"}}
        for place in range(3)
    ]
    spread = [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]
    objects = gang("reads", 1, "99", volumes=odd, topologySpreadConstraints=spread)
    nodes = [dumps.node(f"n{place}") for place in range(30)]
    ended = run("why", "reads", "--width", 40, given=[*objects, *nodes])
    lines = run("why", "reads", "--json", given=[*objects, *nodes]).data["caveats"]
    assert len(lines) > 1
    flat = " ".join(" ".join(ended.lines).split())
    for each in lines:
        assert each["text"] in flat


# Jobs


def test_jobs_come_in_the_order_of_their_states():
    told = run("jobs", "--all", "--json", given=dumps.everything()).data["jobs"]
    waits = [each["waits"] for each in told]
    assert waits == sorted(waits, reverse=True)
    running = [each["state"] for each in told].index("Running")
    assert {each["state"] for each in told[running:]} == {"Running"}
    usual = run("jobs", "--json", given=dumps.everything()).data["jobs"]
    assert usual == told[:running]


@pytest.mark.slow
def test_a_state_that_is_not_known_is_told_with_all_that_are():
    ended = run("jobs", "--state", "gatd", given=dumps.everything())
    assert (ended.status, ended.err.count("\n")) == (2, 1)
    assert "no state is called gatd; did you mean gated" in ended.err
    names = ended.err.partition("states: ")[2].strip().split(", ")
    assert len(names) == len(JobStatus)
    for name in names:
        assert run("jobs", "--state", name, given=dumps.everything()).status == 0, name


def test_a_job_that_starts_has_no_place_among_those_that_wait():
    objects = [*gang("first", 1, cpu="3"), *gang("second", 1), dumps.node("n1", "4")]
    ended = run("why", "second", given=objects)
    assert ended.lines[0] == "team/second starts now: 1 task on n1"
    assert "in queue default" not in ended.out
    assert "are ready" not in ended.out


def test_where_no_job_is_as_asked_for_that_is_told():
    ended = run("jobs", "--state", "gated", given=dumps.volcano_closed())
    assert ended.lines[1:] == ["None of them is as asked for."]


def test_amounts_of_many_digits_break_no_table():
    nodes = [dumps.node(f"n{place}", "1e60", "1e60") for place in range(70)]
    limits = {"cpu": "1e50", "memory": "1e57"}
    objects = [*nodes, dumps.volcano_queue("default", capability=limits)]
    objects += [dumps.pod("big", "1e61", scheduler="volcano")]
    for words in (["jobs"], ["queues"], ["queues", "--resource", "memory"], ["why", "big"]):
        assert "0" * 20 not in run(*words, given=objects).out, words
    for some in (objects, [*nodes[:1], *objects[-2:]]):
        assert "0" * 20 not in run("nodes", given=some).out


def test_jobs_of_a_state_or_of_a_queue_and_below():
    objects = dumps.everything()
    gated = run("jobs", "--json", "--state", "gated", "--state", "NoGrup", given=objects)
    assert gated.status == 2  # no state is called so
    gated = run("jobs", "--json", "--state", "gated", "--state", "no group", given=objects)
    assert {each["state"] for each in gated.data["jobs"]} == {"Gated", "GroupMissing"}
    below = run("jobs", "--json", "--all", "--queue", "default-parent-queue", given=objects)
    assert {each["queue"] for each in below.data["jobs"]} == {"default-queue"}


@pytest.mark.slow
def test_jobs_in_another_order():
    told = run("jobs", "--json", "--sort", "queue", given=dumps.everything()).data["jobs"]
    queues = [each["queue"] for each in told]
    assert queues == sorted(queues)
    objects = dumps.volcano_priorities()
    told = run("jobs", "--json", "--sort", "priority", given=objects).data["jobs"]
    assert [each["job"] for each in told] == ["team/g-high", "team/g-low"]


def many(count):
    """Return a cluster of many pods, most of which wait."""
    objects = [dumps.volcano_queue("default"), dumps.node("n1", "100")]
    for place in range(count // 10):
        objects.append(dumps.volcano_group(f"job-{place:03d}", 4))
        objects += dumps.volcano_pods(f"job-{place:03d}", f"job-{place:03d}", 10)
    return objects


def test_c11_a_long_table_is_cut_and_says_by_how_much():
    objects = many(800)
    ended = run("jobs", given=objects)
    assert len(ended.lines) == 40
    left = re.fullmatch(r"and (\d+) more: --all shows them", ended.lines[-2])
    assert len(ended.lines[2:-2]) + int(left[1]) == 80
    assert len(run("jobs", "--all", given=objects).lines) == 83


# Queues and nodes


def test_queues_form_a_tree_with_what_they_hold():
    ended = run("queues", "--width", 120, given=dumps.kai_shared())
    assert ended.lines[0] == "2 queues: 1 of 2 GPUs in use, 1 job waits."
    assert [line.split()[:4] for line in ended.lines[2:]] == [
        ["default-parent-queue", "2", "1", "0.75"],
        ["default-queue", "2", "1", "0.75"],
    ]
    assert ended.lines[3].startswith("  default-queue")


def test_pods_that_leave_count_no_more_for_their_queue_as_why_says_too():
    objects = dumps.kai_gangs()
    (leaves,) = (each for each in objects if each["metadata"]["name"].startswith("pg-a-"))
    leaves["metadata"]["deletionTimestamp"] = dumps.EARLIER
    told = run("queues", "--json", given=objects).data["queues"]
    held = {each["queue"]: each["holds"].get("nvidia.com/gpu") for each in told}
    assert held["default-queue"] == 2000
    assert "queue default-queue holds 1 cpu, 1 GiB, 2 GPUs" in run("why", "big", given=objects).out


def test_a_job_in_an_unknown_state_neither_runs_nor_holds_anything_of_its_queue():
    objects = [dumps.kai_group("lost", 1), *dumps.kai_pods("lost", 1, 1, on="n1", phase="Unknown")]
    given = [*objects, *dumps.kai_queues(), dumps.node("n1", "4", 4)]
    told = run("queues", "--json", given=given).data["queues"]
    assert [(each["running"], each["holds"]) for each in told] == [(0, {}), (0, {})]


def test_a_closed_queue_says_so():
    told = run("queues", "--json", given=dumps.volcano_closed()).data["queues"]
    assert [each["state"] for each in told] == ["closed"]
    assert "closed" in run("queues", given=dumps.volcano_closed()).out


def test_what_is_on_loan_is_told():
    queues = [dumps.kai_queue(name, gpu=4) for name in ("r", "t")]
    holders = [dumps.kai_group("pg-r", 1, queue="r"), *dumps.kai_pods("pg-r", 1, 6, on="n1")]
    objects = [
        *queues,
        *holders,
        dumps.kai_group("pg-t", 1, queue="t"),
        *dumps.kai_pods("pg-t", 1, 4),
        dumps.node("n1", "16", 8),
    ]
    told = {
        each["queue"]: each
        for each in run("queues", "--json", "-c", "default", given=objects).data["queues"]
    }
    assert told["r"]["on_loan"] == told["r"]["holds"]["nvidia.com/gpu"] - 4000 == 2000
    line = run("queues", "-c", "default", given=objects).lines[2]
    assert "~" in line


def test_a_bar_is_of_the_limit_or_of_the_cluster_where_no_share_is_known():
    objects = [dumps.node("n1", "32", 8)]
    for name, spec in (("limited", {"capability": {"nvidia.com/gpu": "1"}}), ("free", {})):
        objects += [
            dumps.volcano_queue(name, **spec),
            dumps.volcano_group(name, 1, queue=name),
            *dumps.volcano_pods(name, name, 1, gpu=2, on="n1"),
        ]
    lines = run("queues", "--resource", "gpu", "-c", "kubernetes", given=objects).lines
    bars = {line.split()[0]: line.split()[-1] for line in lines[2:]}
    assert bars == {"limited": "#" * 10 + "~" * 10, "free": "#" * 5 + "." * 15}


def test_what_queues_deserve_is_shown_whichever_plugin_divides():
    objects = [
        dumps.node("n1", "32", 8),
        dumps.volcano_queue("root"),
        *(dumps.volcano_queue(name, parent="root") for name in ("a", "b")),
        dumps.volcano_group("j", 1, queue="a"),
        *dumps.volcano_pods("j", "j", 6, gpu=1, on="n1"),
        dumps.volcano_group("k", 1, queue="b"),
        *dumps.volcano_pods("k", "k", 6, gpu=1),
    ]
    assert "proportion" in run("jobs", "--json", given=objects).data["configuration"]
    lines = run("queues", given=objects).lines
    assert lines[1].split() == ["QUEUE", "RUNS", "HOLDS", "SHARE", "FREE", "ON", "LOAN"]
    assert lines[2].split()[:-1] == ["a", "1", "6", "4", "2", "2"]
    assert lines[3].split()[:-1] == ["b", "0", "4", "2"]


def test_what_kueue_reserves_is_told_beside_what_pods_hold():
    ended = run("queues", given=dumps.kueue_admitted())
    columns = ["QUEUE", "RUNS", "HOLDS", "SHARE", "LIMIT", "FREE", "RESERVED"]
    assert ended.lines[1].split()[:7] == columns
    assert ended.lines[2].split()[:6] == ["research", "1", "2", "4", "8", "4"]


def test_for_pods_that_wait_for_their_workload_no_quota_is_reserved():
    (research,) = run("queues", "--json", given=dumps.kueue_pod_group()).data["queues"]
    assert research["reserved"] == {}
    (research,) = run("queues", "--json", given=dumps.kueue_checks()).data["queues"]
    assert research["reserved"]


def test_what_a_controller_counts_is_told_where_it_differs():
    objects = dumps.volcano_closed()
    assert "controller" not in run("queues", given=dumps.kueue_admitted()).out
    assert "queue old: the controller counts 0 cpu held, its jobs in the dump 1 cpu" in (
        run("queues", "--resource", "cpu", given=objects).out
    )
    objects[0]["status"]["allocated"] = {"cpu": "1"}
    assert "controller" not in run("queues", "--resource", "cpu", given=objects).out


def test_a_node_shows_a_letter_for_each_device():
    ended = run("nodes", given=dumps.kai_gangs())
    assert ended.lines[0] == "2 nodes: 8 of 16 GPUs free."
    assert ended.lines[1].split()[:2] == ["n1", "[AAAAAA..]"]
    assert ended.lines[2].split()[:2] == ["n2", "[BB......]"]
    assert ended.lines[3] == "A team/pg-a  B team/pg-b  . free"


def test_nodes_out_of_service_and_promised_room_do_not_look_free():
    objects = [dumps.node("n1", "16", 4), dumps.node("n2", "16", 4, ready="False")]
    objects[0]["spec"]["unschedulable"] = True
    ended = run("nodes", given=objects)
    assert ended.lines[0] == "2 nodes: 0 of 8 GPUs free; 1 cordoned; 1 not ready."
    assert [line.split()[1] for line in ended.lines[1:3]] == ["[xxxx]", "[xxxx]"]


def test_devices_are_told_one_by_one_with_their_parts():
    labels = {"nvidia.com/gpu.count": "2", "nvidia.com/gpu.memory": "80"}
    objects = [dumps.node("n1", "16", 2, labels=labels)]
    for name, part in (("a", "0.5"), ("b", "0.25")):
        pod = dumps.pod(name, "1", on="n1", schedulerName="kai-scheduler")
        pod["metadata"]["annotations"] = {"gpu-fraction": part}
        pod["metadata"]["labels"] = {"runai-gpu-group": "x"}
        objects.append(pod)

    def devices(of):
        ended = run("nodes", given=of)
        if "Devices of n1" not in ended.lines:
            return None
        at = ended.lines.index("Devices of n1")
        return [line.strip() for line in ended.lines[at + 1 : at + 3]]

    assert devices(objects) == ["gpu-0: A has 40 of 80; B has 20 of 80", "gpu-1: free"]
    # Also where nobody has any yet; whoever has a whole one may have this or that.
    assert devices(objects[:1]) == ["gpu-0: free", "gpu-1: free"]
    whole = dumps.pod("c", "1", 1, on="n1", schedulerName="kai-scheduler")
    assert devices([*objects, whole])[1] == "gpu-1: A has it, or another"
    assert devices([objects[0], whole]) is None


def of_devices(kind, name, **more):
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "team"},
        **more,
    }


def model_slice(node, model):
    device = {"name": "gpu-0", "attributes": {"model": {"string": model}}}
    return of_devices(
        "ResourceSlice",
        f"slice-{node}",
        spec={
            "driver": "gpu.example.com",
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "nodeName": node,
            "devices": [device],
        },
    )


def test_claims_of_devices_decide_without_a_configuration():
    expression = 'device.attributes["gpu.example.com"].model == "A100"'
    selectors = [{"cel": {"expression": expression}}]
    asked = {"name": "gpu", "exactly": {"deviceClassName": "gpus", "selectors": selectors}}
    objects = [
        *(dumps.node(f"n{place}") for place in range(2)),
        *(model_slice(f"n{place}", model) for place, model in enumerate(("T4", "A100"))),
        of_devices("DeviceClass", "gpus", spec={}),
    ]
    for name in ("a", "b"):
        spec = {"devices": {"requests": [asked]}}
        objects.append(of_devices("ResourceClaim", name, spec=spec))
        objects += gang(name, 1, resourceClaims=[{"name": "mine", "resourceClaimName": name}])
    assert run("why", "a", given=objects).lines[0] == "team/a starts now: 1 task on n1"
    waits = run("why", "b", "--width", 300, given=objects)
    assert waits.lines[0] == (
        "team/b waits, no room: none of the 2 nodes can take it now: "
        f"1 has no device for request gpu ({expression}): 1 not selected, "
        f"1 has no free device for request gpu ({expression}): 1 taken"
    )
    assert "predicates, devices, topology, nodeorder)" in waits.out
    assert run("jobs", given=objects).lines[0] == "1 job waits, 1 starts now, 0 run."


def kai_parts(asked, *, count=1, offered=1, gpu=0):
    """Return GPUs of one node each of which is shared and half free, and a group that asks."""
    labels = {"nvidia.com/gpu.count": str(count)} if count else {}
    objects = [*dumps.kai_queues(), dumps.node("n1", "16", offered, labels=labels)]
    for place in range(offered):
        shared = {"runai-gpu-group": f"g-{place}"}
        half = {"gpu-fraction": "0.5"}
        objects += [
            dumps.pod(
                f"reservation-{place}",
                "0",
                1,
                on="n1",
                namespace="kai-resource-reservation",
                labels={"app": "kai-resource-reservation", **shared},
            ),
            dumps.kai_group(f"half-{place}", 1),
            *dumps.kai_pods(f"half-{place}", 1, notes=half, labels=shared, on="n1"),
        ]
    notes = {"gpu-fraction": asked} if asked else {}
    return [*objects, dumps.kai_group("more", 1), *dumps.kai_pods("more", 1, gpu, notes=notes)]


def test_a_part_of_a_gpu_joins_another_where_nodes_say_how_many_they_have():
    starts = run("why", "more", "--width", 200, given=kai_parts("0.5"))
    assert starts.lines[0] == "team/more starts now: 1 task on n1"
    assert "parts of GPUs" not in starts.out
    unknown = run("why", "more", "--width", 200, given=kai_parts("0.5", count=0))
    assert unknown.lines[0].startswith("team/more waits, no room: the only node cannot take it now")
    assert "parts of GPUs are taken from whole free GPUs, not from shared ones" in unknown.out


def test_a_whole_gpu_is_not_two_halves_of_shared_ones():
    objects = kai_parts(None, count=2, offered=2, gpu=1)
    ended = run("why", "more", "--width", 200, given=objects)
    assert ended.lines[0] == (
        "team/more waits, no room: the only node cannot take it now: "
        "1 has no free device for request gpu: 2 taken"
    )


def test_gpus_are_no_devices_where_a_node_offers_more_than_it_has():
    ended = run("why", "more", given=kai_parts("0.5", count=1, offered=2))
    assert "devices" not in ended.lines[0]
    assert ended.lines[0].startswith("team/more waits, no room")


def test_nodes_are_grouped_by_the_topology_label_with_the_fewest_values():
    nodes = [
        dumps.node(
            f"n{place}",
            labels={
                "topology.kubernetes.io/zone": f"z{place % 2}",
                "topology.example.com/rack": f"r{place // 2}",
                "example.com/colour": f"c{place % 3}",
            },
        )
        for place in range(8)
    ]
    headings = [line for line in run("nodes", given=nodes).lines if ": z" in line]
    assert headings == ["topology.kubernetes.io/zone: z0", "topology.kubernetes.io/zone: z1"]
    by = run("nodes", "--by", "example.com/colour", "--json", given=nodes)
    assert [each["group"] for each in by.data["nodes"]] == ["c0"] * 3 + ["c1"] * 3 + ["c2"] * 2
    wrong = run("nodes", "--by", "example.com/color", given=nodes)
    assert (wrong.status, "did you mean example.com/colour" in wrong.err) == (2, True)


def test_many_nodes_are_rows_of_groups_but_on_a_page(tmp_path):
    nodes = [dumps.node(f"n{place:03d}", "64", 8) for place in range(70)]
    on = dumps.volcano_pods("g", "j", 10, gpu=8, on="n000")
    for place, pod in enumerate(on):
        pod["spec"]["nodeName"] = f"n{place:03d}"
    ended = run("nodes", given=[*nodes, *on, dumps.volcano_group("g", 10)])
    assert ended.lines[0] == "70 nodes: 480 of 560 GPUs free."
    objects = [*nodes, *on, dumps.volcano_group("g", 10)]
    assert run("nodes", "--html", tmp_path / "page.html", given=objects).out == ""
    assert (tmp_path / "page.html").read_text().count('<svg role="img" aria-label="n0') == 70
    unwritten = run("nodes", "--html", tmp_path, given=objects)
    assert (unwritten.status, unwritten.err) == (2, f"batchsched: {tmp_path}: Is a directory\n")
    assert " ".join(ended.lines[2].split()) == (
        "all nodes 70 80 of 560 GPUs GPUs free: 0: 10 nodes 8: 60"
    )


@pytest.mark.parametrize("racks", [1, 3, 9, 10, 30, 60])
def test_nodes_take_at_most_a_screen_however_many_groups_and_jobs_there_are(racks):
    objects = []
    for place in range(60):
        made = dumps.node(f"n{place:02d}", "96", 8)
        labels = {"topology.kubernetes.io/rack": f"r{place % racks:02d}"}
        objects.append(made | {"metadata": made["metadata"] | {"labels": labels}})
        name = f"a-job-with-a-long-name-{place:02d}"
        on = f"n{place:02d}"
        objects += [dumps.volcano_group(name, 1), *dumps.volcano_pods(name, name, 1, gpu=2, on=on)]
    words = ["nodes", "--by", "topology.kubernetes.io/rack"]
    ended = run(*words, given=objects)
    assert len(ended.lines) <= 40
    assert ("free: 6: " in ended.out) == (racks > 9)
    every = run(*words, "--all", given=objects).lines
    assert [line[:3] for line in every if line.startswith("n")] == sorted(
        (f"n{place:02d}" for place in range(60)), key=lambda name: (int(name[1:]) % racks, name)
    )


# Text


@pytest.mark.parametrize("width", [40, 60, 80])
def test_numbers_of_groups_of_nodes_are_never_cut(width):
    sizes = [1] * 2 + [2] * 52 + [4] * 6 + [8] * 61
    nodes = [dumps.node(f"n{at}", "32", size) for at, size in enumerate(sizes)]
    assert "0 of 618 GPUs" in run("nodes", "--width", width, given=nodes).out


def test_where_no_change_helps_none_is_announced():
    # Of Volcano, whose priorities can be changed, so that there is a change to try.
    names = ("first", "huge")
    objects = [dumps.volcano_queue("default"), dumps.node("n1", "32", 8)]
    objects += [dumps.volcano_group(name, 1) for name in names]
    objects += [each for name in names for each in dumps.volcano_pods(name, name, 1, gpu=16)]
    ended = run("why", "huge", "--width", 120, given=objects)
    assert "It would start now" not in ended.out
    assert "What would start it" in ended.out
    assert "tried was" in ended.out


def test_no_escape_without_a_terminal_nor_where_colour_is_not_wanted(monkeypatch):
    objects = dumps.everything()
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    escape = "\x1b["
    assert escape in run("jobs", given=objects, terminal=True).out
    assert escape not in run("jobs", given=objects).out
    assert escape in run("jobs", "--color", "always", given=objects).out
    assert escape not in run("jobs", "--color", "never", given=objects, terminal=True).out
    plain = re.sub(r"\x1b\[\d*m", "", run("jobs", "--color", "always", given=objects).out)
    assert plain == run("jobs", given=objects).out  # colour is never the only sign
    monkeypatch.setenv("TERM", "dumb")
    assert escape not in run("jobs", given=objects, terminal=True).out
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    assert escape not in run("jobs", given=objects, terminal=True).out


def test_names_that_are_cut_do_not_look_alike():
    names = [f"team/training-run-{place:02d}-of-a-long-name" for place in range(30)]
    for width in (8, 12, 20, 30):
        found = cut_names(names, width)
        assert len(set(found.values())) == len(names)
        if width >= 12:
            assert max(map(len, found.values())) <= width


def test_the_page_is_one_file_that_needs_no_other(tmp_path):
    for command in ("jobs", "queues", "nodes", "why"):
        file = tmp_path / f"{command}.html"
        ended = run(command, "--html", file, given=dumps.everything())
        assert ended.out == ""
        page = file.read_text()
        assert "<script" not in page
        assert not re.search(r"(src|href)=|@import|url\(", page)
        assert "width=device-width" in page
        assert "prefers-color-scheme: dark" in page
    assert "<svg" in (tmp_path / "nodes.html").read_text()
    assert "<svg" in (tmp_path / "queues.html").read_text()


# Racks


def in_racks(free):
    """Two nodes a rack of 8 GPUs each, of which the second is idle and the first has some free."""
    objects = [
        dumps.thing(
            "kai.scheduler/v1alpha1",
            "Topology",
            "net",
            namespace="",
            spec={"levels": [{"nodeLabel": "block"}, {"nodeLabel": "rack"}]},
        ),
        *dumps.kai_queues(),
        dumps.kai_group("busy", 1),
    ]
    for place in range(6):
        labels = {"block": "b", "rack": f"r{place // 2}"}
        objects.append(dumps.node(f"n{place}", "32", 8, labels=labels))
    for place in range(3):
        (pod,) = dumps.kai_pods("busy", 1, 8 - free, on=f"n{2 * place}")
        for key in ("name", "uid"):
            pod["metadata"][key] = f"busy-{place}"
        objects.append(pod)
    return objects


def kai_gang(name, count, gpu, **constraint):
    constraint = {"topology": "net"} | constraint
    group = dumps.kai_group(name, count, topologyConstraint=constraint)
    return [group, *dumps.kai_pods(name, count, gpu)]


def test_why_names_the_level_the_most_that_a_rack_holds_and_what_each_lacks():
    objects = [*in_racks(2), *kai_gang("train", 8, 2, requiredTopologyLevel="rack")]
    ended = run("why", "train", "--width", 120, given=objects)
    assert ended.lines[0] == (
        "team/train waits, no room: no rack has room for 8 tasks; the roomiest has room for 5 "
        "(all 3 have too little gpu)"
    )
    assert "topology" in ended.out
    fits = [*in_racks(2), *kai_gang("train", 5, 2, requiredTopologyLevel="rack")]
    assert "starts now" in run("why", "train", given=fits).lines[0]


def test_why_tells_of_racks_in_which_the_room_is_in_pieces():
    objects = [*in_racks(6), *kai_gang("train", 4, 4, requiredTopologyLevel="rack")]
    ended = run("why", "train", "--width", 120, given=objects)
    assert "no rack has room for 4 tasks; the roomiest has room for 3" in ended.out
    pieces = [*in_racks(3), *kai_gang("train", 2, 5, requiredTopologyLevel="rack")]
    ended = run("why", "train", "--width", 120, given=pieces)
    assert "no rack has room for 2 tasks; the roomiest has room for 1" in ended.out


def test_without_topologies_the_usual_configuration_is_as_it_was():
    plain = run("why", "train", given=[*in_racks(2)[1:], *kai_gang("train", 9, 8)])
    assert "nodeorder, topology" not in " ".join(plain.out.split())


def test_nodes_tell_what_is_free_in_each_block_and_rack():
    objects = [*in_racks(2), *kai_gang("train", 8, 2, requiredTopologyLevel="rack")]
    lines = run("nodes", given=objects).lines
    begin = lines.index("Domains of net")
    assert lines[begin + 1 : begin + 5] == [
        "  block b: 30 of 48 GPUs free",
        "    rack r0: 10 of 16 GPUs free",
        "    rack r1: 10 of 16 GPUs free",
        "    rack r2: 10 of 16 GPUs free",
    ]


def test_what_if_a_job_asks_for_a_wider_level():
    objects = [*in_racks(2), *kai_gang("train", 8, 2, requiredTopologyLevel="rack")]
    ended = run("what-if", "job train required=block", given=objects)
    assert ended.lines[0].startswith("8 tasks of 1 job start that wait now")
    assert "job team/train: topology block required instead of rack required" in ended.out
    anywhere = run("what-if", "job train required=none preferred=none", given=objects)
    assert "topology none instead of rack required" in anywhere.out
    wrong = run("what-if", "job train required=row", given=objects)
    assert wrong.err == "batchsched: no level is called row\n"
    typed = run("what-if", "job train preferred=rak", given=objects)
    assert typed.err == "batchsched: no level is called rak; did you mean rack?\n"


def test_what_if_a_job_without_a_topology_asks_for_a_level_that_is_nowhere():
    objects = [*kai_gang("train", 8, 2), dumps.node("n1", gpu=8, labels={"zone": "a"})]
    wrong = run("what-if", "job train required=zones", given=objects)
    assert wrong.status == 2
    assert wrong.err == "batchsched: no level is called zones; did you mean zone?\n"
    assert run("what-if", "job train required=zone", given=objects).status != 2


# Users, and the names by which jobs are found


def with_users():
    """Return jobs of two users, named by a label of the pods and by an annotation of the owner."""
    owner = dumps.thing("batch/v1", "Job", "train", notes={"example.com/user": "ann"}, spec={})
    group = dumps.native_group("pg-train", 1)
    mine = dumps.pod("train-x", on="n1", owner=owner, schedulingGroup={"podGroupName": "pg-train"})
    theirs = [
        dumps.pod(f"b-{n}", "3", labels={"example.com/user": "bob"}, **rest)
        for n, rest in enumerate(({}, {}))
    ]
    for n, pod in enumerate(theirs):
        pod["spec"]["schedulingGroup"] = {"podGroupName": f"b{n}"}
    groups = [dumps.native_group(f"b{n}", 1) for n in (0, 1)]
    return [owner, group, mine, *theirs, *groups, dumps.node("n1")]


def test_users_of_jobs_are_told_by_label_or_annotation():
    given = with_users()
    table = run("jobs", "--all", "--user-key", "example.com/user", "--width", 150, given=given)
    assert "USER" in table.lines[1]
    told = run("jobs", "--all", "--json", "--user-key", "example.com/user", given=given).data
    assert {each["job"]: each["user"] for each in told["jobs"]} == {
        "team/pg-train": "ann",
        "team/b0": "bob",
        "team/b1": "bob",
    }
    assert "USER" not in run("jobs", "--all", given=given).lines[1]


def test_what_each_user_holds_in_each_queue_is_told():
    words = ("queues", "--users", "--resource", "cpu", "--user-key", "example.com/user")
    told = run(*words, "--json", given=with_users()).data["users"]
    assert [(each["user"], each["running"], each["waiting"]) for each in told] == [
        ("ann", 1, 0),
        ("bob", 0, 1),
    ]
    assert told[0]["holds"]["cpu"] == 1000
    assert told[1]["wants"]["cpu"] == 6000
    assert "ann" in run(*words, given=with_users()).out


def test_a_job_is_found_by_the_first_letters_of_its_owner():
    owner = dumps.thing("batch/v1", "Job", "training-run", spec={})
    member = dumps.pod("x", owner=owner, schedulingGroup={"podGroupName": "pg-7"})
    given = [owner, dumps.native_group("pg-7", 1), member, dumps.node("n1")]
    assert run("why", "train", "--json", given=given).data["job"] == "team/pg-7"


def test_a_name_is_compared_with_names_whatever_their_namespaces():
    given = [dumps.native_group("train", 1), dumps.pod("t", schedulingGroup={"podGroupName": "x"})]
    other = dumps.native_group("sleep", 1)
    other["metadata"]["namespace"] = "teams"
    given += [other, dumps.node("n1")]
    ended = run("why", "teams/trian", given=given)
    assert ended.status == 2
    assert ended.err.rstrip().endswith("did you mean team/train?")


def test_the_cheapest_of_some_changes_that_starts_a_job_is_told():
    given = with_users()
    words = ("cheapest", "b1", "cordon", "n1", "or", "end", "train", "end", "b0", "or", "add-node")
    ended = run(*words, "n1", given=given)
    assert ended.status == 0
    assert ended.lines[0] == "team/b1 starts with: end job team/pg-train; remove job team/b0"
    assert run(*words, "n1", "--json", given=given).data["position"] == 1
    none = run("cheapest", "b1", "cordon", "n1", given=given)
    assert (none.status, none.lines[0]) == (1, "None of 1 change starts team/b1.")
    wrong = run("cheapest", "b1", "cordon", "n1", "or", given=given)
    assert wrong.status == 2
    assert "before and after each `or`" in wrong.err
