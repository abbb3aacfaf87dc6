"""What is answered of KAI Scheduler's queues: partitions of GPUs, devices, loans, protection."""

import pytest
from tests.support import dumps
from tests.support.program import run

from batchsched.kubernetes import read_dump

WIDE = ("--width", 300)


def queue(name, parent=None, gpu=-1, limit=-1, **more):
    made = dumps.kai_queue(name, parent, gpu, limit)
    made["spec"] |= more
    return made


def states(given):
    table = run("jobs", "--all", "--json", given=given).data["jobs"]
    return {each["job"].partition("/")[2]: each["state"] for each in table}


def with_resource(pod, **amounts):
    for container in pod["spec"]["containers"]:
        container["resources"]["requests"] |= amounts
        container["resources"].pop("limits", None)
    return pod


SLICE = "nvidia.com/mig-1g.10gb"


def partitioned(name, **labels):
    node = dumps.node(name, "16", labels={"nvidia.com/mig.strategy": "mixed"} | labels)
    for amounts in (node["status"]["allocatable"], node["status"]["capacity"]):
        amounts[SLICE] = "7"
    return node


def of_slices(group, name):
    return [
        dumps.kai_group(group, 1, queue=name),
        *[with_resource(each, **{SLICE: "1"}) for each in dumps.kai_pods(group, 1)],
    ]


def test_slices_of_gpus_count_as_gpus_of_quotas():
    given = [queue("top"), queue("q", "top", 1, 1), partitioned("n1")]
    given += [*of_slices("a", "q"), *of_slices("b", "q")]
    assert sorted(states(given).values()) == ["Quota", "Starts"]
    given[1] = queue("q", "top", 2, 2)
    assert sorted(states(given).values()) == ["Starts", "Starts"]
    # Pods that ask for whole GPUs do not get slices.
    whole = [dumps.kai_group("w", 1, queue="free"), *dumps.kai_pods("w", 1, 1)]
    given = [queue("top"), queue("free", "top"), partitioned("n1"), *whole]
    assert states(given)["w"] in ("Room", "NeverFits")
    assert states([*given, dumps.node("n2", "8", 1)])["w"] == "Starts"


def test_a_part_of_a_gpu_beyond_a_limit_never_fits_where_no_node_takes_it():
    part = {"gpu-fraction": "0.5"}
    asking = [dumps.kai_group("w", 1, queue="q"), *dumps.kai_pods("w", 1, notes=part)]
    given = [queue("top"), queue("q", "top", 0.25, 0.25), *asking]
    assert states([*given, dumps.node("n1", "8", 1)]) == {"w": "Quota"}
    assert states([*given, partitioned("n1")]) == {"w": "NeverFits"}


def test_a_part_of_a_gpu_is_not_placed_on_a_partitioned_node():
    for label, value in (("nvidia.com/mig.strategy", "mixed"), ("x/mig-enabled", "true")):
        node = dumps.node("n1", "8", 2, labels={label: value})
        part = dumps.kai_pods("half", 1, notes={"gpu-fraction": "0.5"})
        given = [*dumps.kai_queues(), node, dumps.kai_group("half", 1), *part]
        assert states(given)["half"] in ("Room", "NeverFits")
        assert states([*given, dumps.node("n2", "8", 1)])["half"] == "Starts"


def devices(count):
    device_class = dumps.thing(
        "resource.k8s.io/v1", "DeviceClass", "gpu.example.com", namespace="", spec={}
    )
    resource_slice = dumps.thing(
        "resource.k8s.io/v1",
        "ResourceSlice",
        "s",
        namespace="",
        spec={
            "driver": "gpu.example.com",
            "nodeName": "n1",
            "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": f"d{n}"} for n in range(count)],
        },
    )
    return [device_class, resource_slice]


def claim(name, **more):
    request = {"name": "r", "exactly": {"deviceClassName": "gpu.example.com", "count": 1}}
    spec = {"devices": {"requests": [request]}}
    return dumps.thing("resource.k8s.io/v1", "ResourceClaim", name, spec=spec, **more)


def claiming(group, queue_name):
    entry = {"name": "gpu", "resourceClaimName": f"claim-{group}"}
    return [
        dumps.kai_group(group, 1, queue=queue_name),
        *dumps.kai_pods(group, 1, resourceClaims=[entry]),
    ]


def test_devices_of_classes_that_are_called_gpu_count_as_gpus_of_quotas():
    label = {"kai.scheduler/queue": "q"}
    jobs = [each for name in "ab" for each in claiming(name, "q")]
    claims = [claim(f"claim-{name}", labels=label) for name in "ab"]
    given = [queue("top"), queue("q", "top", 1, 1), dumps.node("n1", "8"), *devices(2)]
    assert sorted(states([*given, *jobs, *claims]).values()) == ["Quota", "Starts"]
    given[1] = queue("q", "top", 2, 2)
    assert sorted(states([*given, *jobs, *claims]).values()) == ["Starts", "Starts"]


def test_kai_refuses_pods_that_name_a_claim_of_no_queue():
    given = [queue("top"), queue("q", "top"), dumps.node("n1", "8"), *devices(2)]
    given += claiming("a", "q")
    ended = run("why", "a", *WIDE, given=[*given, claim("claim-a")])
    assert ended.lines[0].startswith("team/a waits, no queue: ResourceClaim claim-a has no label")
    labelled = claim("claim-a", labels={"kai.scheduler/queue": "q"})
    assert states([*given, labelled])["a"] == "Starts"


def test_a_loan_is_what_is_above_the_share_of_leaves_and_of_those_above_them():
    running = [dumps.kai_group("lo", 1, queue="qb"), *dumps.kai_pods("lo", 1, 4, on="n1")]
    waiting = [dumps.kai_group("hi", 1, queue="qa"), *dumps.kai_pods("hi", 1, 2)]
    queues = [queue("p"), queue("qa", "p", 2), queue("qb", "p", 2)]
    given = [*queues, *running, *waiting, dumps.node("n1", "8", 4)]
    ended = run("why", "hi", *WIDE, given=given)
    assert "on loan" not in ended.out.partition("part of queue p")[2].partition("\n")[0]
    told = run("why", "lo", *WIDE, given=given).out
    assert "of which 2 GPUs is on loan" in told
    # What nodes that were lost had is lent by nobody.
    lost = [*queues, *running, dumps.node("n1", "8", 2)]
    assert "on loan" not in run("why", "lo", *WIDE, given=lost).out
    by_name = {q["queue"]: q for q in run("queues", "--json", given=lost).data["queues"]}
    assert by_name["qb"]["on_loan"] == 0


def test_where_there_is_no_kai_nothing_counts_as_gpus():
    dump = read_dump([partitioned("n1"), with_resource(dumps.pod("p"), **{SLICE: "1"})])
    assert "nvidia.com/gpu" not in dump.snapshot.nodes[0].allocatable.scalars


@pytest.mark.parametrize(("other", "why"), [("train", "equal"), ("build", "higher")])
def test_why_nobody_is_preempted_whole_is_the_priority(other, why):
    """KAI evicts groups as a whole: that of one pod is not protected as such."""
    given = [*dumps.kai_queues(), dumps.node("n1", "16", 1)]
    given += [dumps.kai_group("new", 1), *dumps.kai_pods("new", 1, 1)]
    given += [dumps.kai_group("old", 1, priorityClassName=other, preemptibility="preemptible")]
    given += dumps.kai_pods("old", 1, 1, on="n1")
    told = run("why", "new", "--width", 200, given=given)
    assert f"preempt searched 1 node with 1 candidate: {why} priority: 1" in told.out
