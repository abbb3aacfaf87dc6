"""Devices and claims of Kubernetes and KAI Scheduler, as they are read."""

from __future__ import annotations

from typing import Any

import pytest

from batchsched import (
    KubernetesObjectError,
    Resource,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    Taint,
    TaintEffect,
)
from batchsched.devices import CapacityPolicy, CounterSet, DevicePick, DeviceRequest, Milli, Version
from batchsched.kubernetes import WatchedObjects, read_dump, snapshot_from_objects
from batchsched.live import Cluster, Reconciler

DRIVER = "gpu.example.com"
CONFIG = SchedulerConfig.from_mapping(
    {
        "actions": ["allocate"],
        "tiers": [{"plugins": [{"name": n} for n in ("gang", "predicates", "devices")]}],
    }
)


def object_of(
    kind: str, name: str, version: str = "resource.k8s.io/v1", **more: Any
) -> dict[str, Any]:
    metadata = {"name": name, **more.pop("metadata", {})}
    return {"kind": kind, "apiVersion": version, "metadata": metadata, **more}


def node(name: str, **labels: str) -> dict[str, Any]:
    allocatable = {"cpu": "8", "pods": "110"}
    if "nvidia.com/gpu.count" in labels:
        allocatable["nvidia.com/gpu"] = labels["nvidia.com/gpu.count"]
    metadata = {"labels": labels}
    return object_of("Node", name, "v1", metadata=metadata, status={"allocatable": allocatable})


def pod(name: str, *claims: dict[str, str], **more: Any) -> dict[str, Any]:
    spec = {
        "schedulerName": "volcano",
        "containers": [{"resources": {"requests": {"cpu": "1", **more.pop("requests", {})}}}],
        "resourceClaims": list(claims),
    }
    where = more.pop("on", None)
    status = more.pop("status", {})
    if where is not None:
        spec["nodeName"], status = where, {"phase": "Running", **status}
    metadata = more.pop("metadata", {})
    return object_of("Pod", name, "v1", spec=spec, status=status, metadata=metadata)


def slice_of(name: str, *devices: dict[str, Any], **spec: Any) -> dict[str, Any]:
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1, **spec.pop("pool", {})}
    return object_of(
        "ResourceSlice",
        name,
        spec={"driver": DRIVER, "pool": pool, "devices": list(devices), **spec},
    )


def claim(name: str, *requests: dict[str, Any], **status: Any) -> dict[str, Any]:
    return object_of(
        "ResourceClaim", name, spec={"devices": {"requests": list(requests)}}, status=status
    )


def result(device: str, **more: Any) -> dict[str, Any]:
    return {"request": "r", "driver": DRIVER, "pool": "p", "device": device, **more}


def exactly(name: str = "r", **more: Any) -> dict[str, Any]:
    return {"name": name, "exactly": {"deviceClassName": "gpu", **more}}


GPU = object_of(
    "DeviceClass",
    "gpu",
    spec={"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]},
)
G0, G1 = {"name": "g0"}, {"name": "g1"}


def read(*objects: dict[str, Any]) -> Snapshot:
    return read_dump([GPU, *objects]).snapshot


def names(snapshot: Snapshot) -> dict[str, list[str]]:
    return {each.name: [device.name for device in each.devices] for each in snapshot.nodes}


def test_all_that_a_slice_says_of_a_device() -> None:
    device = {
        "name": "g0",
        "attributes": {
            "model": {"string": "A100"},
            "numa": {"int": 1},
            "ecc": {"bool": True},
            "firmware": {"version": "1.2.3"},
            "links": {"strings": ["a", "b"]},
        },
        "capacity": {
            "memory": {
                "value": "80Gi",
                "requestPolicy": {
                    "default": "40Gi",
                    "validRange": {"min": "10Gi", "max": "80Gi", "step": "10Gi"},
                },
            },
            "lanes": {"value": "4", "requestPolicy": {"default": "2", "validValues": ["2", "4"]}},
        },
        "consumesCounters": [{"counterSet": "c", "counters": {"slices": {"value": "7"}}}],
        "taints": [
            {"key": "k", "value": "v", "effect": "NoSchedule"},
            {"key": "told", "effect": "None"},
        ],
        "allowMultipleAllocations": True,
        "bindingConditions": ["attached"],
    }
    rule = object_of(
        "DeviceTaintRule",
        "worn",
        spec={
            "deviceSelector": {"driver": DRIVER, "device": "g0"},
            "taint": {"key": "worn", "effect": "NoExecute"},
        },
    )
    counters = slice_of(
        "s2",
        nodeName="n",
        pool={"resourceSliceCount": 2},
        sharedCounters=[{"name": "c", "counters": {"slices": {"value": "7"}}}],
    )
    snapshot = read(
        node("n"),
        slice_of("s1", device, nodeName="n", pool={"resourceSliceCount": 2}),
        counters,
        rule,
    )
    [there] = snapshot.nodes
    [found] = there.devices
    assert found.key == (DRIVER, "p", "g0")
    assert found.attributes == {
        "model": "A100",
        "numa": 1,
        "ecc": True,
        "firmware": Version("1.2.3"),
        "links": ("a", "b"),
    }
    assert found.capacity == {"memory": 80 << 30, "lanes": 4}
    assert found.policies == {
        "memory": CapacityPolicy(default=40 << 30, min=10 << 30, max=80 << 30, step=10 << 30),
        "lanes": CapacityPolicy(default=2, values=[2, 4]),
    }
    assert found.counters == {"c": {"slices": 7}}
    assert found.taints == (
        Taint(key="k", value="v", effect=TaintEffect.NO_SCHEDULE),
        Taint(key="worn", effect=TaintEffect.NO_EXECUTE),
    )
    assert found.shared
    assert found.conditions == ("attached",)
    assert there.counter_sets == (
        CounterSet(name="c", driver=DRIVER, pool="p", counters={"slices": 7}),
    )


def test_which_slices_of_a_pool_count_on_a_node() -> None:
    def on(name: str, generation: int, count: int, where: str, *devices: dict[str, Any]) -> Any:
        pool = {"generation": generation, "resourceSliceCount": count}
        return slice_of(name, *devices, nodeName=where, pool=pool)

    # Two nodes have a slice each of one generation; an older one of n counts no more.
    both = [on("a", 2, 2, "n", G0), on("b", 2, 2, "m", G1), on("c", 1, 1, "n", G1)]
    found = read(node("n"), node("m"), *both)
    assert names(found) == {"n": ["g0"], "m": ["g1"]}
    assert [each.closed_pools for each in found.nodes] == [(), ()]
    # One is missing: closed where it is not known whether it is newer; else ignored.
    found = read(node("n"), on("a", 2, 2, "n", G0))
    assert (names(found), found.nodes[0].closed_pools) == ({"n": []}, ((DRIVER, "p"),))
    found = read(node("n"), node("m"), on("a", 2, 2, "n", G0), on("b", 3, 1, "m", G1))
    assert names(found) == {"n": [], "m": ["g1"]}
    assert [each.closed_pools for each in found.nodes] == [(), ()]
    # A name twice, and counters without their set.
    found = read(node("n"), on("a", 1, 2, "n", G0), on("b", 1, 2, "n", G0))
    assert found.nodes[0].closed_pools == ((DRIVER, "p"),)
    lost = {"name": "g0", "consumesCounters": [{"counterSet": "c", "counters": {}}]}
    assert read(node("n"), on("a", 1, 1, "n", lost)).nodes[0].closed_pools == ((DRIVER, "p"),)


def test_devices_that_several_nodes_reach() -> None:
    term = {"matchExpressions": [{"key": "rack", "operator": "In", "values": ["r"]}]}
    of_rack = slice_of("s", G0, nodeSelector={"nodeSelectorTerms": [term]})
    of_all = slice_of("t", G0, allNodes=True, pool={"name": "q"})
    each = slice_of(
        "u",
        {"name": "x", "allNodes": True},
        {"name": "y", "nodeName": "a"},
        perDeviceNodeSelection=True,
        pool={"name": "z"},
    )
    snapshot = read(node("a", rack="r"), node("b"), of_rack, of_all, each)
    assert [device.key[1:] for device in snapshot.devices] == [("p", "g0"), ("q", "g0"), ("z", "x")]
    first, second, third = snapshot.devices
    assert first.nodes is not None
    assert first.nodes[0].matches({"rack": "r"}, "a")
    assert second.nodes is third.nodes is None
    assert names(snapshot) == {"a": ["y"], "b": []}


def test_claims_of_pods_and_what_they_have() -> None:
    share = exactly(
        capacity={"requests": {"memory": "10Gi"}},
        selectors=[{"cel": {"expression": f'device.attributes["{DRIVER}"].model == "A"'}}],
        count=2,
        tolerations=[{"key": "k", "operator": "Exists"}],
    )
    first = {"name": "f", "firstAvailable": [{"name": "a", "deviceClassName": "gpu"}]}
    had = claim(
        "had",
        share,
        allocation={
            "devices": {
                "results": [
                    result("g0", consumedCapacity={f"{DRIVER}/memory": "10Gi"}),
                    result("g1"),
                ]
            }
        },
        reservedFor=[{"resource": "pods", "name": "runs"}, {"resource": "pods", "name": "other"}],
    )
    template = object_of(
        "ResourceClaimTemplate",
        "t",
        spec={
            "spec": {
                "devices": {
                    "requests": [first, exactly("all", allocationMode="All", adminAccess=True)],
                    "constraints": [{"matchAttribute": f"{DRIVER}/numa", "requests": ["f"]}],
                }
            }
        },
    )
    nobody = claim("nobody", exactly(), allocation={"devices": {"results": [result("g2")]}})
    snapshot = read(
        node("n"),
        slice_of("s", G0, G1, {"name": "g2"}, nodeName="n"),
        had,
        template,
        nobody,
        pod("runs", {"name": "mine", "resourceClaimName": "had"}, on="n"),
        pod("other", {"name": "mine", "resourceClaimName": "had"}, on="n"),
        pod("waits", {"name": "mine", "resourceClaimTemplateName": "t"}),
    )
    tasks = {task.name: task for job in snapshot.jobs for task in job.tasks}
    [read_claim] = tasks["runs"].claims
    assert read_claim.name == "mine"
    [request] = read_claim.requests
    assert request.select == (
        f'device.driver == "{DRIVER}"',
        f'device.attributes["{DRIVER}"].model == "A"',
    )
    assert (request.count, request.capacity) == (2, {"memory": 10 << 30})
    assert request.tolerations[0].key == "k"
    assert tasks["runs"].devices == (
        DevicePick(
            claim="mine",
            request="r",
            device=(DRIVER, "p", "g0"),
            amounts={"memory": 10 << 30},
            shared="default/had",
        ),
        DevicePick(claim="mine", request="r", device=(DRIVER, "p", "g1"), shared="default/had"),
    )
    assert read_claim.shared == "default/had"
    assert (tasks["other"].claims, tasks["other"].devices) == (
        tasks["runs"].claims,
        tasks["runs"].devices,
    )
    [waiting] = tasks["waits"].claims
    assert waiting.shared is None
    assert waiting.requests[0].alternatives[0].name == "a"
    assert (waiting.requests[1].count, waiting.requests[1].admin) == ("all", True)
    assert waiting.constraints[0].same == f"{DRIVER}/numa"
    assert [pick.device[2] for pick in snapshot.held] == ["g2"]


def test_what_is_allocated_is_held_and_is_for_the_pods_that_name_it() -> None:
    """Whether a pod that waits names it, or one that runs, too."""
    allocated = claim("c", exactly(), allocation={"devices": {"results": [result("g0")]}})
    there = (node("n"), slice_of("s", G0, nodeName="n"), allocated)
    waits = pod("waits", {"name": "mine", "resourceClaimName": "c"})
    read_ = read_dump([GPU, *there, waits])
    [task] = [task for job in read_.snapshot.jobs for task in job.tasks]
    [pick] = read_.snapshot.held
    assert [each.shared for each in task.claims] == ["default/c"] == [pick.shared]
    assert pick.device[2] == "g0"
    [bind] = Scheduler().schedule(read_.snapshot).binds
    assert [each.device[2] for each in bind.devices or ()] == ["g0"]
    runs = pod("runs", {"name": "mine", "resourceClaimName": "c"}, on="n")
    snapshot = read(*there, runs, waits)
    tasks = {task.name: task for job in snapshot.jobs for task in job.tasks}
    [pick] = tasks["runs"].devices or ()
    assert (pick.device[2], snapshot.held) == ("g0", ())
    assert tasks["waits"].claims == tasks["runs"].claims


def test_what_pods_of_a_group_claim_together_is_one_claim() -> None:
    """Of what is generated the group's status says the name."""
    group = object_of(
        "PodGroup",
        "g",
        "scheduling.k8s.io/v1beta1",
        spec={
            "schedulingPolicy": {"gang": {"minCount": 2}},
            "resourceClaims": [
                {"name": "both", "resourceClaimTemplateName": "t"},
                {"name": "late", "resourceClaimTemplateName": "t"},
            ],
        },
        status={"resourceClaimStatuses": [{"name": "both", "resourceClaimName": "g-both"}]},
    )
    template = object_of(
        "ResourceClaimTemplate", "t", spec={"spec": {"devices": {"requests": [exactly()]}}}
    )
    allocation = {"devices": {"results": [result("g1")]}}
    reserved = [{"resource": "podgroups.scheduling.k8s.io", "name": "g"}]
    made = claim("g-both", exactly(), allocation=allocation, reservedFor=reserved)

    def of_group(name: str, *claims: dict[str, str], **more: Any) -> dict[str, Any]:
        found = pod(name, *claims, **more)
        found["spec"] |= {"schedulingGroup": {"podGroupName": "g"}, "schedulerName": ""}
        return found

    mentioned = {"name": "both", "resourceClaimTemplateName": "t"}
    own = {"name": "own", "resourceClaimTemplateName": "t"}
    there = (node("n"), slice_of("s", G0, G1, nodeName="n"), group, template)
    waits = of_group("a", mentioned)
    runs = of_group("b", mentioned, own, on="n")
    read_ = read_dump([GPU, *there, made, waits, runs])
    snapshot = read_.snapshot
    tasks = {task.name: task for job in snapshot.jobs for task in job.tasks}
    both, late = "default/g/both", "default/g/late"
    assert [(each.name, each.shared) for each in tasks["a"].claims] == [
        ("both", both),
        ("late", late),
    ]
    assert [(each.name, each.shared) for each in tasks["b"].claims] == [
        ("own", None),
        ("both", both),
        ("late", late),
    ]
    assert snapshot.held == ()
    assert not [each for each in read_.notices if each.field == "spec.resourceClaims"]


def test_extended_resources_stand_for_devices_of_a_class() -> None:
    of_class = object_of(
        "DeviceClass", "gpu", spec={**GPU["spec"], "extendedResourceName": "e.com/gpu"}
    )
    large = {"name": "g0", "capacity": {"memory": {"value": "80"}}}
    part = exactly(capacity={"requests": {"memory": "20"}}, count=2)
    template = object_of(
        "ResourceClaimTemplate", "t", spec={"spec": {"devices": {"requests": [part]}}}
    )
    snapshot = read_dump(
        [
            of_class,
            node("n"),
            slice_of("s", large, {**large, "name": "g1"}, nodeName="n"),
            template,
            pod("p", {"name": "c", "resourceClaimTemplateName": "t"}),
            pod("q", requests={"e.com/gpu": "1"}),
        ]
    ).snapshot
    assert snapshot.nodes[0].allocatable.scalars == {"e.com/gpu": 2000}
    tasks = {task.name: task for job in snapshot.jobs for task in job.tasks}
    assert tasks["p"].resreq == Resource(milli_cpu=1000, scalars={"e.com/gpu": 500})
    [claimed] = tasks["q"].claims
    assert claimed.requests == (DeviceRequest(name="devices", select=GPU_SELECTORS),)


GPU_SELECTORS = (f'device.driver == "{DRIVER}"',)


def test_parts_of_gpus_of_kai_are_devices_of_nodes_that_say_how_many_they_have() -> None:
    labels = {"nvidia.com/gpu.count": "2", "nvidia.com/gpu.memory": "80"}

    def part(name: str, text: str, *groups: str, key: str = "gpu-fraction", **more: Any) -> Any:
        kept = {f"runai-gpu-group/{group}": group for group in groups}
        return pod(name, metadata={"annotations": {key: text}, "labels": kept}, **more)

    snapshot = read(
        node("n", **labels),
        part("a", "0.5", "zz", on="n"),
        part("b", "0.25", "aa", on="n"),
        part("c", "20", key="gpu-memory"),
        pod("d", requests={"nvidia.com/gpu": "1"}, on="n"),
    )
    assert [(d.name, d.capacity["memory"], d.shared) for d in snapshot.nodes[0].devices] == [
        ("gpu-0", 80, True),
        ("gpu-1", 80, True),
    ]
    tasks = {task.name: task for job in snapshot.jobs for task in job.tasks}
    [half] = tasks["a"].devices or ()
    assert (half.device[2], half.amounts) == ("gpu-1", {"memory": 40})
    [quarter] = tasks["b"].devices or ()
    assert (quarter.device[2], quarter.amounts) == ("gpu-0", {"memory": 20})
    assert tasks["a"].claims[0].requests[0].capacity == {"memory": Milli(500)}
    assert tasks["c"].claims[0].requests[0].capacity == {"memory": 20}
    assert (tasks["d"].claims[0].requests[0].count, tasks["d"].devices) == (1, None)


def test_what_cannot_be_evaluated_accepts_no_device_and_is_told() -> None:
    strange = exactly(selectors=[{"cel": {"expression": "device.size > 3"}}])
    dump = read_dump(
        [
            GPU,
            node("n"),
            slice_of("s", G0, nodeName="n"),
            claim("c", strange),
            pod("p", {"name": "mine", "resourceClaimName": "c"}),
        ]
    )
    assert "got 'size' at position 8" in " ".join(each.consequence for each in dump.notices)
    assert not Scheduler(CONFIG).schedule(dump.snapshot).binds
    with pytest.raises(KubernetesObjectError, match="version"):
        read(
            node("n"),
            slice_of("s", {"name": "g", "attributes": {"v": {"version": "x"}}}, nodeName="n"),
        )


def test_claims_are_served_and_watch_events_change_devices() -> None:
    watch = WatchedObjects()
    objects = [
        GPU,
        node("n"),
        slice_of("s", G0, nodeName="n"),
        claim("c", exactly()),
        pod("p", {"name": "mine", "resourceClaimName": "c"}),
    ]
    for number, each in enumerate(objects):
        each["metadata"]["resourceVersion"] = str(number + 1)
        watch.apply({"type": "ADDED", "object": each})
    reconciler = Reconciler(Cluster())
    reconciler.observe_all(watch.dump().snapshot)
    [bind] = Scheduler(CONFIG).attach(reconciler.cluster).schedule().binds
    assert [pick.device[2] for pick in bind.devices or ()] == ["g0"]
    changed = slice_of("s", G1, allNodes=True)
    changed["metadata"]["resourceVersion"] = "9"
    watch.apply({"type": "MODIFIED", "object": changed})
    reconciler.observe_all(watch.dump().snapshot)
    [bind] = Scheduler(CONFIG).attach(reconciler.cluster).schedule().binds
    assert [pick.device[2] for pick in bind.devices or ()] == ["g1"]


def test_devices_are_read_for_one_scheduler_too() -> None:
    snapshot = snapshot_from_objects(
        nodes=[node("n")],
        pods=[pod("p", {"name": "mine", "resourceClaimName": "c"})],
        scheduler_name="volcano",
        resource_slices=[slice_of("s", G0, nodeName="n")],
        resource_claims=[claim("c", exactly())],
        device_classes=[GPU],
    )
    assert names(snapshot) == {"n": ["g0"]}
    assert snapshot.jobs[0].tasks[0].claims[0].name == "mine"
