"""What `what-if submit` says before is what `why` says with the manifest beside the dump."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support import dumps
from tests.support.drawn_dumps import drawn_dumps
from tests.support.program import run

from batchsched import schedule
from batchsched.kubernetes import read_dump

QUEUE = "kueue.x-k8s.io/queue-name"
TOPOLOGY = "kueue.x-k8s.io/podset-required-topology"


def manifest(version, kind, name, spec, **metadata):
    metadata = {"name": name, "namespace": "team"} | metadata
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}


def job(name="train", count=2, template=None, **metadata):
    spec = {"parallelism": count, "completions": count, "template": template or dumps.template()}
    return manifest("batch/v1", "Job", name, spec, **metadata)


@pytest.fixture(name="files", scope="module")
def _files(tmp_path_factory):
    """Return a function that writes objects, and returns the path."""
    folder = tmp_path_factory.mktemp("dumps")

    def write(name, objects):
        path = folder / name
        path.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": list(objects)}))
        return path

    return write


def both(files, cluster, submitted, *words):
    """Return what the program says of what is submitted, in both ways."""
    dump, new = files("cluster.json", cluster), files("new.json", submitted)
    before = run("what-if", f"submit {new}", *words, "-f", dump, "--json")
    if before.status == 2:
        return before.err, None
    after = []
    for told in before.data["submitted"]:
        answer = run("why", told["job"], "-f", dump, "-f", new, *words, "--json").data
        del answer["format"], answer["version"]
        assert answer.pop("configuration") == before.data["configuration"]
        after.append(answer)
    return before.data["submitted"], after


CLASS = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "low"},
    "value": 9,
    "globalDefault": True,
}
"""It changes what is there."""


@st.composite
def manifests(draw):
    """Draw what somebody submits to any of the four systems."""
    system = draw(st.sampled_from(["kubernetes", "volcano", "kai", "kueue"]))
    count, cpu = draw(st.integers(1, 3)), draw(st.sampled_from(["1", "2", "9"]))
    template = dumps.template(cpu, draw(st.sampled_from([0, 0, 1])))
    labels, notes = {}, {}
    if system == "volcano":
        task = {"name": "w", "replicas": count, "template": template}
        if draw(st.booleans()):
            task["partitionPolicy"] = {
                "totalPartitions": 1,
                "partitionSize": draw(st.integers(1, 2)),
                "minPartitions": draw(st.integers(0, 1)),
                "networkTopology": {"mode": "hard", "highestTierAllowed": 1},
            }
        spec = {"minAvailable": count, "tasks": [task], "queue": draw(st.sampled_from(["", "q0"]))}
        if draw(st.booleans()):
            spec["networkTopology"] = {"mode": "hard", "highestTierAllowed": 1}
        return manifest("batch.volcano.sh/v1alpha1", "Job", "new", spec)
    if system == "kai":
        template["spec"]["schedulerName"] = "kai-scheduler"
        labels["kai.scheduler/queue"] = draw(st.sampled_from(["default-queue", "default"]))
        if draw(st.booleans()):
            notes = {"kai.scheduler/topology": "t"}
            notes["kai.scheduler/topology-required-placement"] = "rack"
    elif system == "kueue":
        labels[QUEUE] = draw(st.sampled_from(["user-queue", "default", "nowhere"]))
        if draw(st.booleans()):
            template["metadata"]["annotations"] = {TOPOLOGY: "rack"}
    kind = draw(st.sampled_from(["Job", "Pod", "Deployment", "JobSet", "CronJob"]))
    more = {"labels": labels, "annotations": notes}
    if kind == "Pod":
        more["annotations"] = notes | template["metadata"].get("annotations", {})
        return manifest("v1", "Pod", "new", template["spec"], **more)
    if kind == "Deployment":
        return manifest(
            "apps/v1", "Deployment", "new", {"replicas": count, "template": template}, **more
        )
    if kind == "JobSet":
        jobs = [{"name": "w", "replicas": count, "template": {"spec": {"template": template}}}]
        return manifest(
            "jobset.x-k8s.io/v1alpha2", "JobSet", "new", {"replicatedJobs": jobs}, **more
        )
    spec = {"parallelism": count, "template": template}
    if kind == "CronJob":
        template = {"spec": spec, "metadata": more}
        return manifest("batch/v1", "CronJob", "new", {"jobTemplate": template}, **more)
    return manifest("batch/v1", "Job", "new", spec, **more)


RACKS = [
    dumps.thing(
        f"{group}/v1", "Topology", "t", namespace="", spec={"levels": [{"nodeLabel": "rack"}]}
    )
    for group in ("kueue.x-k8s.io", "kai.scheduler")
]
HYPER_NODE = dumps.thing(
    "topology.volcano.sh/v1alpha1",
    "HyperNode",
    "h",
    namespace="",
    spec={
        "tier": 1,
        "members": [{"type": "Node", "selector": {"exactMatch": {"name": "n0"}}}],
    },
)


@settings(deadline=None)
@given(
    cluster=drawn_dumps(systems=("kubernetes", "volcano", "kai", "kueue"), most_pods=6),
    new=st.lists(manifests(), min_size=1, max_size=2),
    has_racks=st.booleans(),
    has_class=st.booleans(),
)
def test_submit_says_what_why_says_with_the_object_in_the_dump(
    files, cluster, new, has_racks, has_class
):
    for place, each in enumerate(new):
        each["metadata"]["name"] += str(place)
        each["metadata"].pop("uid", None)
        each["metadata"].pop("creationTimestamp", None)
    for place, node in enumerate(e for e in cluster if e["kind"] == "Node"):
        node["metadata"]["labels"]["rack"] = f"r{place // 2}"
    extra = [*RACKS, HYPER_NODE] if has_racks else []
    told, after = both(files, [*cluster, *extra], [*new, CLASS] if has_class else new)
    if after is None:
        assert "no job in it waits" in told
    else:
        assert told == after


def racks(*cpus):
    """Return nodes, each in a rack of its own."""
    return [
        dumps.node(f"n{n}", cpu, labels={"rack": f"r{n}"}) for n, cpu in enumerate(cpus)
    ] + RACKS


def test_a_job_for_kueue_is_kept_to_a_rack(files):
    template = dumps.template("1")
    template["metadata"]["annotations"] = {TOPOLOGY: "rack"}
    new = job(template=template, labels={QUEUE: "user-queue"})
    queues = [dumps.local_queue(), dumps.cluster_queue()]
    for cpu, said in (("1", "no rack could hold both tasks"), ("2", "it would start")):
        ((told,), after) = both(files, [*racks("1", cpu), *queues], [new])
        assert [told] == after
        assert said in told["text"] + told["once_released"]


def test_a_job_of_volcano_keeps_its_network_topology_and_its_parts(files):
    asked = {"mode": "hard", "highestTierAllowed": 1}
    members = [("n0", "n1"), ("n2",)]
    tiers = [
        dumps.thing(
            "topology.volcano.sh/v1alpha1",
            "HyperNode",
            f"h{number}",
            namespace="",
            spec={
                "tier": 1,
                "members": [
                    {"type": "Node", "selector": {"exactMatch": {"name": name}}} for name in names
                ],
            },
        )
        for number, names in enumerate(members)
    ]
    task = {"name": "w", "replicas": 3, "template": dumps.template("1")}
    spec = {"minAvailable": 3, "tasks": [task], "networkTopology": asked}
    new = manifest("batch.volcano.sh/v1alpha1", "Job", "new", spec)
    nodes = [dumps.node(f"n{n}", "1") for n in range(3)]
    ((told,), after) = both(files, [*nodes, *tiers], [new])
    assert [told] == after
    assert "no HyperNode of tier 1 could hold all 3 tasks even if it were empty" in told["text"]
    # Each part of two needs one domain, not all together.
    parts = {"partitionSize": 2, "totalPartitions": 2, "networkTopology": asked}
    task |= {"replicas": 4, "partitionPolicy": parts}
    spec = {"minAvailable": 4, "tasks": [task]}
    new = manifest("batch.volcano.sh/v1alpha1", "Job", "new", spec)
    for cpu, starts in (("1", False), ("2", True)):
        nodes = [*(dumps.node(f"n{n}", "1") for n in range(2)), dumps.node("n2", cpu)]
        ((told,), after) = both(files, [*nodes, *tiers], [new])
        assert [told] == after
        assert ("it would start" in told["once_released"]) is starts


def kai(kind, count=2, **notes):
    template = dumps.template("1")
    template["spec"]["schedulerName"] = "kai-scheduler"
    about = {
        "labels": {"kai.scheduler/queue": "default-queue"},
        "annotations": {f"kai.scheduler/{key.replace('_', '-')}": v for key, v in notes.items()},
    }
    if kind == "Pod":
        return manifest("v1", "Pod", "new", template["spec"], **about)
    if kind == "Job":
        return job("new", count, template, **about)
    return manifest("apps/v1", kind, "new", {"replicas": count, "template": template}, **about)


@pytest.mark.parametrize(
    ("kind", "jobs", "priority"),
    [
        ("Pod", ["pg-new"], 50),
        ("Deployment", ["pg-new-0", "pg-new-1"], 125),
        ("StatefulSet", ["pg-new"], 50),
        ("Job", ["pg-new"], 50),
    ],
)
def test_kai_makes_groups_of_what_is_submitted(kind, jobs, priority):
    cluster = [*dumps.kai_queues(), dumps.node("n0", "1")]
    dump = read_dump(cluster, submitted=[kai(kind)])
    found = dump.snapshot.jobs
    assert [(each.name, each.priority, each.min_available) for each in found] == [
        (name, priority, 1) for name in jobs
    ]
    assert len(schedule(dump.snapshot).binds) == 1


def test_kai_reads_topologies_of_the_owner(files):
    asked = {"topology": "t", "topology_required_placement": "rack", "batch_min_member": "2"}
    queues = dumps.kai_queues()
    for cpu, waits in (("1", True), ("2", False)):
        ((told,), after) = both(files, [*racks("1", cpu), *queues], [kai("Job", **asked)])
        assert [told] == after
        assert told["waits"] is waits


def test_what_is_submitted_brings_the_preset_of_its_system(files):
    dump = files("cluster.json", [dumps.node("n0", "4")])
    task = {"name": "w", "replicas": 1, "template": dumps.template("1")}
    for preset, new in (
        ("volcano", manifest("batch.volcano.sh/v1alpha1", "Job", "new", {"tasks": [task]})),
        ("kai", kai("Pod")),
        ("kueue", job(labels={QUEUE: "user-queue"})),
    ):
        answer = run("what-if", f"submit {files('new.json', [new])}", "-f", dump, "--json")
        assert answer.data["configuration"].startswith(preset)


def test_a_cron_job_is_submitted_as_the_job_that_it_makes():
    spec = {"jobTemplate": {"spec": {"parallelism": 2, "template": dumps.template("1")}}}
    cron = manifest("batch/v1", "CronJob", "nightly", spec)
    dump = read_dump([dumps.node("n0", "4")], submitted=[cron])
    assert [(each.name, len(each.tasks)) for each in dump.snapshot.jobs] == [("nightly-1", 2)]
    assert dump.find("cronjob/nightly") == "team/nightly-1"


def test_a_level_that_a_change_asks_for_is_decided_by():
    cluster = [*racks("1", "1"), dumps.native_group("g", 2), *dumps.members("g", 2)]
    answer = run("what-if", "job", "g", "required=rack", given=cluster)
    assert "topology" in answer.out.rpartition("configuration:")[2]
    assert answer.status == 1
