"""What answers say of racks and devices: who holds what, what each lacks, and what would help."""

import pytest
from tests.support import dumps
from tests.support.program import run


def resource(kind, name, spec, **more):
    namespace = "team" if kind == "ResourceClaim" else ""
    return dumps.thing("resource.k8s.io/v1", kind, name, namespace=namespace, spec=spec, **more)


def devices(*attributes, taint=None):
    """Return a class, and the devices of node n1, each with its attributes."""
    found = [{"name": f"d{n}", "attributes": each} for n, each in enumerate(attributes)]
    if taint is not None:
        found[0]["taints"] = [taint]
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.com", "nodeName": "n1", "pool": pool, "devices": found}
    return [resource("DeviceClass", "gpu", {}), resource("ResourceSlice", "s", spec)]


def claim(name, *, has=(), constraints=(), **asks):
    exactly = {"deviceClassName": "gpu"} | asks
    spec = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
    if constraints:
        spec["devices"]["constraints"] = list(constraints)
    results = [{"request": "r", "driver": "gpu.com", "pool": "n1", "device": each} for each in has]
    status = {"allocation": {"devices": {"results": results}}} if has else {}
    return resource("ResourceClaim", name, spec, status=status)


def job(name, claim_name, on=None):
    claims = [{"name": "r", "resourceClaimName": claim_name}]
    group = {"podGroupName": name}
    pod = dumps.pod(f"{name}-0", on=on, schedulingGroup=group, resourceClaims=claims)
    return [dumps.native_group(name, 1), pod]


def why(*words, given):
    return run("why", *words, "--width", 200, given=given)


# Devices


def test_who_holds_the_device_is_told_and_that_its_end_would_free_it():
    given = [dumps.node("n1"), *devices({}), claim("c0", has=["d0"]), claim("c1")]
    given += [*job("held", "c0", on="n1"), *job("want", "c1")]
    for pods in range(4):  # smaller jobs, which hold no device
        group = {"podGroupName": f"small-{pods}"}
        given.append(dumps.native_group(f"small-{pods}", 1))
        given.append(dumps.pod(f"small-{pods}-0", "100m", on="n1", schedulingGroup=group))
    told = why("want", given=given)
    assert "team/held runs with d0" in told.out
    assert "end job team/held" in told.out
    assert run("what-if", "end", "held", "--json", given=given).status == 1


def test_a_claim_that_no_pod_uses_is_advised_to_be_deleted():
    given = [dumps.node("n1"), *devices({}), claim("left", has=["d0"]), claim("new")]
    given += job("want", "new")
    told = why("want", given=given)
    assert "claim team/left of no pod with d0" in told.out
    assert "  delete claim team/left, which nothing uses" in told.lines
    assert "  1 more node like n1" in told.lines  # whose devices no claim has
    for name in ("left", "team/left"):
        ended = run("what-if", "end", name, given=given)
        assert ended.status == 1
        assert "  delete claim team/left, which nothing uses" in ended.lines
    assert run("what-if", "end", "new", given=given).status == 2


def test_of_a_gang_that_claims_devices_the_job_that_holds_enough_would_end():
    claims = [*(claim(f"h{n}", has=[f"d{n}"]) for n in (0, 1)), claim("c0"), claim("c1")]
    given = [dumps.node("n1"), *devices({}, {}, {}), *claims, dumps.native_group("want", 2)]
    for n in (0, 1):
        given += job(f"held-{n}", f"h{n}", on="n1")
        group, uses = {"podGroupName": "want"}, [{"name": "r", "resourceClaimName": f"c{n}"}]
        given.append(dumps.pod(f"want-{n}", schedulingGroup=group, resourceClaims=uses))
    told = why("want", "--json", given=given).data
    ends = [each for each in told["would_start"] if each.startswith("end")]
    assert ends == ["end job team/held-0"]


@pytest.mark.parametrize(
    ("there", "asks", "said"),
    [
        (
            devices({"nvlink": {"int": 1}}, {"nvlink": {"int": 1}}, {"nvlink": {"int": 2}}),
            {"count": 2, "constraints": [{"matchAttribute": "gpu.com/nvlink"}]},
            "2 not in one value of nvlink, 1 taken",
        ),
        (
            devices({}, {}, {}),
            {"count": 2, "constraints": [{"matchAttribute": "gpu.com/pcieRoot"}]},
            "no device publishes pcieRoot",
        ),
        (
            devices({"root": {"int": 1}}, {"root": {"int": 2}}, {"root": {"int": 2}}),
            {"count": 2, "constraints": [{"distinctAttribute": "gpu.com/root"}]},
            "2 not in different values of root, 1 taken",
        ),
        (devices({}, {}, {}), {"allocationMode": "All"}, "request r, which asks for all: 1 taken"),
        (
            devices({}, {}, {}, taint={"key": "broken", "value": "yes", "effect": "NoSchedule"}),
            {"count": 3},
            "1 tainted broken=yes",
        ),
    ],
    ids=["apart", "unpublished", "alike", "all", "tainted"],
)
def test_why_a_request_gets_no_devices_is_told_by_name(there, asks, said):
    holder = "tainted" not in said
    given = [dumps.node("n1"), *there, claim("c1", **asks), *job("want", "c1")]
    if holder:
        given += [claim("c0", has=["d0"]), *job("held", "c0", on="n1")]
    assert said in why("want", given=given).out


def test_a_claim_that_does_not_exist_holds_the_pod():
    given = [dumps.node("n1"), *devices({}), *job("want", "gone")]
    told = why("want", given=given)
    assert told.lines[0] == "team/want waits, no claim: the claim gone does not exist"
    assert "would start" in told.out
    # Of a dump without any object about devices nothing is known of them.
    told = why("want", given=[dumps.node("n1"), *job("want", "gone")])
    assert "starts now" in told.lines[0]


def test_a_claim_template_that_does_not_exist_is_called_so():
    group = {"podGroupName": "want"}
    claims = [{"name": "r", "resourceClaimTemplateName": "gone"}]
    pod = dumps.pod("want-0", schedulingGroup=group, resourceClaims=claims)
    given = [dumps.node("n1"), *devices({}), dumps.native_group("want", 1), pod]
    told = why("want", given=given)
    assert told.lines[0] == "team/want waits, no claim: the claim template gone does not exist"


def test_a_device_class_that_does_not_exist_holds_the_pod():
    absent = claim("c1", deviceClassName="gone")
    given = [dumps.node("n1"), *devices({}), absent, *job("want", "c1")]
    told = why("want", given=given)
    assert told.lines[0] == "team/want waits, no claim: the device class gone does not exist"
    # A claim that has its devices asks for its class no more.
    runs = claim("c1", deviceClassName="gone", has=["d0"])
    told = why("want", given=[dumps.node("n1"), *devices({}), runs, *job("want", "c1")])
    assert "device class" not in told.out


@pytest.mark.parametrize(("part", "count"), [("0.5", 2), ("0.25", 4), ("0.2", 5)])
def test_parts_of_a_gpu_of_odd_memory_add_up(part, count):
    labels = {"nvidia.com/gpu.count": "1", "nvidia.com/gpu.memory": "81559"}
    given = [dumps.node("n1", "64", 1, labels=labels), dumps.kai_queue("default-queue")]
    for n in range(count + 1):
        notes = {"pod-group-name": f"g{n}", "gpu-fraction": part}
        given.append(dumps.kai_group(f"g{n}", 1))
        given.append(dumps.pod(f"p{n}", scheduler="kai-scheduler", notes=notes))
    states = [each["state"] for each in run("jobs", "--json", given=given).data["jobs"]]
    assert states.count("Starts") == count


# Racks


@pytest.mark.parametrize("level", ["block", "zone"])
def test_a_level_that_the_topology_does_not_have_is_said_so(level):
    labels = {"zone": "z", "rack": "r"}
    notes = {"pod-group-name": "g"}
    constraint = {"topology": "net", "requiredTopologyLevel": level}
    group = dumps.kai_group("g", 1, topologyConstraint=constraint)
    topology = dumps.thing(
        "kai.scheduler/v1alpha1",
        "Topology",
        "net",
        namespace="",
        spec={"levels": [{"nodeLabel": "zone"}, {"nodeLabel": "rack"}]},
    )
    pod = dumps.pod("x", scheduler="kai-scheduler", notes=notes)
    given = [
        dumps.kai_queue("default-queue"),
        group,
        topology,
        pod,
        dumps.node("n1", labels=labels),
    ]
    said = "Topology net has no level block (it has zone, rack)" in why("g", given=given).out
    assert said is (level == "block")


def test_a_level_that_no_topology_has_is_not_told_as_ignored():
    topology = dumps.thing(
        "kueue.x-k8s.io/v1beta2",
        "Topology",
        "net",
        namespace="",
        spec={"levels": [{"nodeLabel": "zone"}, {"nodeLabel": "rack"}]},
    )
    work = dumps.workload("w")
    work["spec"]["podSets"][0]["topologyRequest"] = {"required": "block"}
    node = dumps.node("n1", labels={"zone": "z", "rack": "r"})
    given = [topology, dumps.local_queue(), dumps.cluster_queue(), work, node]
    told = why("w", given=given).out
    assert "no node is in it: no Topology has the level block: net has zone, rack" in told
    assert "ignored" not in told


def test_a_gang_that_no_rack_could_hold_never_fits_and_nothing_says_otherwise():
    constraint = {"topology": "net", "requiredTopologyLevel": "rack"}
    group = dumps.kai_group("g", 2, topologyConstraint=constraint)
    topology = dumps.thing(
        "kai.scheduler/v1alpha1",
        "Topology",
        "net",
        namespace="",
        spec={"levels": [{"nodeLabel": "rack"}]},
    )
    notes = {"pod-group-name": "g"}
    pods = [dumps.pod(f"x-{n}", scheduler="kai-scheduler", notes=notes) for n in range(2)]
    nodes = [dumps.node(f"n{n}", "1", labels={"rack": f"r{n}"}) for n in range(2)]
    given = [dumps.kai_queue("default-queue"), group, topology, *pods, *nodes]
    told = why("g", given=given)
    assert told.lines[0] == (
        "team/g waits, never fits: no rack could hold both tasks even if it were empty; "
        "the roomiest could hold 1"
    )
    assert "if it were first, 1 of 2 more would fit in one rack now" in told.out
    assert "fits on 0 of 2 nodes now" in told.out
    assert [line.split() for line in told.lines if line.startswith("  r")] == [
        ["r0", "1", "of", "2", "lacks", "1", "cpu"],
        ["r1", "1", "of", "2", "lacks", "1", "cpu"],
    ]


def test_the_end_of_a_job_is_advised_where_it_frees_enough_in_one_rack():
    constraint = {"topology": "net", "requiredTopologyLevel": "rack"}
    topology = dumps.thing(
        "kai.scheduler/v1alpha1",
        "Topology",
        "net",
        namespace="",
        spec={"levels": [{"nodeLabel": "rack"}]},
    )
    given = [dumps.kai_queue("default-queue"), topology]
    given.append(dumps.kai_group("g", 2, topologyConstraint=constraint, priorityClassName="x"))
    given += [
        dumps.pod(f"x-{n}", scheduler="kai-scheduler", notes={"pod-group-name": "g"})
        for n in range(2)
    ]
    for n, size in enumerate(("2", "1")):  # the one of 1 cpu frees too little in its rack
        given.append(dumps.node(f"n{n}", "2", labels={"rack": f"r{n}"}))
        given.append(dumps.kai_group(f"h{n}", 1))
        notes = {"pod-group-name": f"h{n}"}
        given.append(dumps.pod(f"h{n}-0", size, scheduler="kai-scheduler", notes=notes, on=f"n{n}"))
    given.append(dumps.kai_group("k", 1))
    notes = {"pod-group-name": "k"}
    given.append(dumps.pod("k-0", "1", scheduler="kai-scheduler", notes=notes, on="n1"))
    told = run("why", "g", "--json", given=given).data
    ends = [each for each in told["would_start"] if each.startswith("end")]
    assert ends == ["end job team/h0"]


# Racks of groups and of slices


def kueue_job_in_racks(name, *sets, count=None):
    """Return a Job that Kueue has not admitted; pod sets: name, count, and what they ask for."""
    owner = dumps.kueue_job(name)
    workload = dumps.workload(name, owner, count)
    workload["spec"]["podSets"] = []
    for role, number, asked in sets:
        template = dumps.template("1")
        template["metadata"]["annotations"] = {
            f"kueue.x-k8s.io/podset-{key}": value for key, value in asked.items()
        }
        workload["spec"]["podSets"].append({"name": role, "count": number, "template": template})
    return [owner, workload]


def kueue_racks(*nodes):
    """Return queues, a Topology, and nodes: cpus, block and rack; empty: it has no such label."""
    levels = ["block", "rack", "kubernetes.io/hostname"]
    spec = {"levels": [{"nodeLabel": each} for each in levels]}
    given = [dumps.thing("kueue.x-k8s.io/v1beta1", "Topology", "t", namespace="", spec=spec)]
    for n, (cpu, block, rack) in enumerate(nodes):
        labels = {key: value for key, value in (("block", block), ("rack", rack)) if value}
        given.append(dumps.node(f"n{n}", cpu, labels=labels))
    return [*given, dumps.cluster_queue(cpu="99"), dumps.local_queue()]


RACKS = [("2", "b0", "r0"), ("1", "b0", "r1"), ("2", "b1", "r2"), ("1", "b1", "r3")]


def test_of_groups_in_racks_it_is_told_which_has_none():
    sets = ("leader", 1, {}), ("workers", 3, {"required-topology": "rack"})
    told = why("g", given=[*kueue_racks(*RACKS), *kueue_job_in_racks("g", *sets)])
    assert told.lines[0] == (
        "team/g waits, never fits: no rack could hold all 3 tasks of group workers even if it "
        "were empty; the roomiest could hold 2"
    )
    assert "if it were first, 1 of 4 more would fit now" in told.out
    assert "with 1 of its tasks placed, task team/g-workers-0 fits on none of 4 nodes" in told.out
    assert "4 of 4 nodes are in a rack without room for all 3 tasks" in told.out


def test_groups_that_have_room_alone_but_not_at_once_are_told_so():
    sets = [(role, 2, {"required-topology": "block"}) for role in ("a", "b")]
    given = [*kueue_racks(("3", "b0", "r0"), ("1", "b1", "r1")), *kueue_job_in_racks("g", *sets)]
    told = why("g", given=given)
    assert told.lines[0].endswith(
        "never fits: not all of its groups have room at once, each on nodes that plugin topology "
        "allows, even if these nodes were empty"
    )
    assert "if it were first, 2 of 4 more would fit now" in told.out
    assert "fits on 0 of 2 nodes now" in told.out


def test_slices_are_counted_as_slices():
    asked = {"slice-required-topology": "rack", "slice-size": "2"}
    given = kueue_racks(*RACKS)
    told = why("g", given=[*given, *kueue_job_in_racks("g", ("main", 6, asked))])
    assert told.lines[0] == (
        "team/g waits, never fits: 2 of 3 slices of 2 tasks in one rack have room, even if these "
        "nodes were empty"
    )
    assert "if it were first, 4 of 6 more would fit now" in told.out
    assert "4 of 4 nodes are in a rack without room for one more slice of 2" in told.out
    assert "  job team/g: minimum 4 instead of 6" in told.lines
    asked["required-topology"] = "block"
    told = why("g", given=[*given, *kueue_job_in_racks("g", ("main", 4, asked))])
    assert told.lines[0] == (
        "team/g waits, never fits: no block could hold 2 slices of 2 tasks, each in one rack, "
        "even if it were empty; the roomiest could hold 1"
    )
    assert "if it were first, 2 of 4 more would fit in one block now" in told.out


@pytest.mark.parametrize("asked", ["required-topology", "preferred-topology"])
def test_a_node_without_a_label_of_kueues_topology_is_not_in_it(asked):
    """Kueue asks for the labels of all levels, also of those that the job does not ask for."""
    large = kueue_racks(("4", "", "r0"), ("4", "b0", ""), ("1", "b1", "r1"))
    new = kueue_job_in_racks("g", ("main", 2, {asked: "block"}))
    told = why("g", given=[*large, *new])
    assert "waits, never fits" in told.lines[0]
    assert "1 lacks the label block, 1 lacks the label rack" in " ".join(told.out.split())
    assert "nodes without a label of Topology t" in told.out
    labelled = kueue_racks(("4", "b0", "r0"), ("1", "b1", "r1"))
    assert "it would start" in why("g", given=[*labelled, *new]).out


@pytest.mark.parametrize("by", ["annotation", "request"])
def test_pods_that_may_be_anywhere_in_a_topology_need_room_in_it(by):
    """Kueue asks the nodes of the Topology before it admits them, and takes no others."""
    owner, new = kueue_job_in_racks("g", ("main", 2, {}))
    if by == "annotation":
        notes = {"kueue.x-k8s.io/podset-unconstrained-topology": "true"}
        new["spec"]["podSets"][0]["template"]["metadata"]["annotations"] = notes
    else:
        new["spec"]["podSets"][0]["topologyRequest"] = {"unconstrained": True}
    apart = [("1", "b0", "r0"), ("1", "b1", "r1")]
    told = why("g", given=[*kueue_racks(*apart), owner, new])
    assert "it would start if Kueue decides as here: 2 tasks on n0, n1" in told.out
    lacking = [("1", "b0", "r0"), ("1", "b1", "")]
    told = why("g", given=[*kueue_racks(*lacking), owner, new])
    assert "waits, never fits" in told.lines[0]
    assert "nodes without a label of Topology t" in told.out


# Parts of GPUs, and claims of no pod


def kai_part(name, *, on=None, group=None, **notes):
    labels = {"runai-gpu-group": group} if group else {}
    return [dumps.kai_group(name, 1), *dumps.kai_pods(name, 1, notes=notes, labels=labels, on=on)]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"gpu-fraction": "0.5"}, "1 has no GPU with half of it free"),
        ({"gpu-fraction": "0.45"}, "1 has no GPU with 45% of it free"),
        ({"gpu-memory": "40000"}, "1 has no GPU with 40,000 MiB of it free"),
        (
            {"gpu-fraction": "0.35", "gpu-fraction-num-devices": "2"},
            "1 has fewer than 2 GPUs with 35% of each free",
        ),
    ],
)
def test_a_part_of_a_gpu_that_no_gpu_has_free_is_told_as_that(asked, said):
    labels = {"nvidia.com/gpu.memory": "80000", "nvidia.com/gpu.count": "2"}
    given = [*dumps.kai_queues(), dumps.node("n1", "16", 2, labels=labels)]
    for name, part in (("a", "0.6"), ("b", "0.7")):
        given.append(
            dumps.pod(
                f"gpu-reservation-{name}",
                "0",
                1,
                on="n1",
                namespace="kai-resource-reservation",
                labels={"app": "kai-resource-reservation", "runai-gpu-group": name},
            )
        )
        given += kai_part(name, on="n1", group=name, **{"gpu-fraction": part})
    told = why("new", given=[*given, *kai_part("new", **asked)])
    assert said in " ".join(told.out.split())
    assert "device.driver" not in told.out


@pytest.mark.parametrize("reserves", [True, False])
def test_a_shared_gpu_is_not_free_for_whole_ones_whether_or_not_its_reservation_is_there(reserves):
    labels = {"nvidia.com/gpu.memory": "80000"}  # and no count, so that GPUs are amounts
    given = [*dumps.kai_queues(), dumps.node("n1", "16", 2, labels=labels)]
    for name, part in (("g-1", "0.5"), ("g-2", "0.3")):
        given += kai_part(name, on="n1", group=name, **{"gpu-fraction": part})
        holder = {"app": "kai-resource-reservation", "runai-gpu-group": name}
        where = {"on": "n1", "namespace": "kai-resource-reservation", "labels": holder}
        given += [dumps.pod(f"gpu-reservation-{name}", "0", 1, **where)] if reserves else []
    given += [dumps.kai_group("whole", 1), *dumps.kai_pods("whole", 1, 1)]
    told = why("whole", given=given)
    assert "waits, no room" in told.lines[0]
    (nearest,) = (line for line in told.lines if line.startswith("  n1 "))
    assert nearest.split()[:4] == ["n1", "lacks", "1", "GPU"]


def test_a_claim_that_no_pod_uses_is_named_and_never_said_to_stay():
    given = [dumps.node("n1"), *devices({}), claim("left", has=["d0"]), claim("c1")]
    told = why("want", given=[*given, *job("want", "c1")])
    assert "waits, no room" in told.lines[0]
    assert "claim team/left of no pod with d0" in told.out
