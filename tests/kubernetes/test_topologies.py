"""Topologies, HyperNodes, and what groups and pods ask of them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support import dumps

from batchsched import Domain, Scheduler, SchedulerConfig, Segment, Topology, TopologyRequest
from batchsched.kubernetes import Dump, read_dump, read_objects

LEVELS = {"levels": [{"nodeLabel": "block"}, {"nodeLabel": "rack"}]}


def topology(group: str, name: str = "net") -> dict[str, Any]:
    return dumps.thing(f"{group}/v1", "Topology", name, spec=LEVELS)


def hyper_node(name: str, tier: int, *members: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    listed = [{"type": kind, "selector": selector} for kind, selector in members]
    spec = {"tier": tier, "members": listed}
    return dumps.thing("topology.volcano.sh/v1alpha1", "HyperNode", name, spec=spec)


def exactly(name: str) -> dict[str, Any]:
    return {"exactMatch": {"name": name}}


HYPER_NODES = [
    hyper_node("s0", 1, ("Node", exactly("n1")), ("Node", {"regexMatch": {"pattern": "^n[23]$"}})),
    hyper_node("s1", 1, ("Node", {"labelMatch": {"matchLabels": {"row": "b"}}})),
    hyper_node(
        "top", 2, ("HyperNode", {"regexMatch": {"pattern": "^s"}}), ("Node", exactly("gone"))
    ),
]


def nodes() -> list[dict[str, Any]]:
    made = [dumps.node(f"n{number}") for number in range(1, 6)]
    for one in made[3:]:
        one["metadata"]["labels"] = {"row": "b"}
    return made


def only_topology(dump: Dump) -> TopologyRequest | None:
    (job,) = dump.snapshot.jobs
    return job.topology


def test_hyper_nodes_are_one_topology_the_first_tier_the_narrowest() -> None:
    (found,) = read_dump([*nodes(), *HYPER_NODES]).snapshot.topologies
    assert found == Topology(
        "HyperNodes",
        ("tier-2", "tier-1"),
        (
            Domain("tier-1", "s0", ("n1", "n2", "n3")),
            Domain("tier-1", "s1", ("n4", "n5")),
            Domain("tier-2", "top", ("n1", "n2", "n3", "n4", "n5")),
        ),
    )


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"mode": "soft"}, TopologyRequest("HyperNodes", preferred="tier-1")),
        (
            {"mode": "hard", "highestTierAllowed": 2},
            TopologyRequest("HyperNodes", required="tier-2", preferred="tier-1"),
        ),
        (
            {"highestTierAllowed": 9},
            TopologyRequest("HyperNodes", required="tier-2", preferred="tier-1"),
        ),
        ({"mode": "hard", "highestTierAllowed": 0}, None),
    ],
)
def test_what_a_group_of_volcano_asks(asked: dict[str, Any], expected: object) -> None:
    group = dumps.volcano_group("g", 1, networkTopology=asked)
    dump = read_dump([*nodes(), *HYPER_NODES, group])
    assert only_topology(dump) == expected
    assert bool(expected) != any("networkTopology" in notice.field for notice in dump.notices)
    asks_nothing = read_dump([*nodes(), dumps.volcano_group("g", 1, networkTopology=asked)])
    assert only_topology(asks_nothing) is None


def test_what_a_group_of_kai_and_its_subgroups_ask() -> None:
    both = {
        "topology": "net",
        "requiredTopologyLevel": "block",
        "preferredTopologyLevel": "rack",
    }
    own = {"topology": "net", "requiredTopologyLevel": "rack"}
    subgroups = [{"name": "a", "minMember": 1, "topologyConstraint": own}, {"name": "b"}]
    group = dumps.kai_group("g", topologyConstraint=both, subGroups=subgroups)
    (job,) = read_dump([topology("kai.scheduler"), group]).snapshot.jobs
    assert job.topology == TopologyRequest("net", required="block", preferred="rack")
    assert [each.topology for each in job.groups] == [TopologyRequest("net", required="rack"), None]


def test_topologies_of_one_name_are_kept_apart() -> None:
    constraint = {"topology": "net", "requiredTopologyLevel": "rack"}
    group = dumps.kai_group("g", topologyConstraint=constraint)
    dump = read_dump([topology("kueue.x-k8s.io"), topology("kai.scheduler"), group])
    assert [each.name for each in dump.snapshot.topologies] == ["net", "net.kai.scheduler"]
    assert only_topology(dump) == TopologyRequest("net.kai.scheduler", required="rack")


def kueue_pods(number: int, indices: list[int], **asked: str) -> list[dict[str, Any]]:
    annotations = {f"kueue.x-k8s.io/podset-{key.replace('_', '-')}": v for key, v in asked.items()}
    pods = []
    for place in range(number):
        pod = dumps.pod(f"p{place}")
        pod["metadata"].setdefault("labels", {}).update(
            {
                "kueue.x-k8s.io/pod-group-name": "g",
                "kueue.x-k8s.io/queue-name": "lq",
                "batch.kubernetes.io/job-completion-index": str(indices[place]),
            }
        )
        pod["metadata"].setdefault("annotations", {}).update(
            {"kueue.x-k8s.io/pod-group-total-count": str(number), **annotations}
        )
        pods.append(pod)
    return pods


def test_pods_ask_by_kueues_annotations_and_have_numbers() -> None:
    asked = {"preferred_topology": "rack", "slice_required_topology": "rack", "slice_size": "2"}
    dump = read_dump([topology("kueue.x-k8s.io"), *kueue_pods(3, [2, 0, 1], **asked)])
    assert only_topology(dump) == TopologyRequest(
        "net", preferred="rack", segments=[Segment(2, "rack")]
    )
    assert [task.index for task in dump.snapshot.jobs[0].tasks] == [2, 0, 1]
    twice = read_dump([topology("kueue.x-k8s.io"), *kueue_pods(3, [2, 0, 0], **asked)])
    assert [task.index for task in twice.snapshot.jobs[0].tasks] == [None] * 3


@pytest.mark.parametrize("is_leaving", [False, True])
def test_only_pods_that_stay_take_numbers(is_leaving: bool) -> None:
    """The replacement of a pod that failed, or leaves, goes where its number belongs."""
    asked = {"required_topology": "block", "slice_required_topology": "rack", "slice_size": "2"}
    *pods, gone = kueue_pods(5, [0, 2, 3, 1, 1], **asked)
    for place, on in enumerate(["n4", "n0", "n1"]):
        pods[place]["spec"]["nodeName"] = on
        pods[place]["status"]["phase"] = "Running"
    gone["status"]["phase"] = "Running" if is_leaving else "Failed"
    gone["spec"]["nodeName"] = "n5"
    if is_leaving:
        gone["metadata"]["deletionTimestamp"] = dumps.NOW
    for pod in (*pods, gone):
        pod["metadata"]["annotations"]["kueue.x-k8s.io/pod-group-total-count"] = "4"
    racks = [dumps.node(f"n{n}", labels={"block": "b", "rack": f"r{n // 2}"}) for n in range(6)]
    queues = [dumps.local_queue("lq"), dumps.cluster_queue()]
    dump = read_dump([topology("kueue.x-k8s.io"), *queues, *racks, *pods, gone])
    (job,) = dump.snapshot.jobs
    assert [task.index for task in job.tasks] == [0, 2, 3, 1, None]
    config = SchedulerConfig.from_mapping(
        {
            "actions": "allocate",
            "tiers": [{"plugins": [{"name": n} for n in ("gang", "predicates", "topology")]}],
        }
    )
    (bound,) = Scheduler(config).schedule(dump.snapshot).binds
    assert bound.node_name in ("n4", "n5")


def test_what_cannot_be_met_is_a_notice() -> None:
    dump = read_dump(kueue_pods(2, [0, 1], preferred_topology="rack"))
    assert only_topology(dump) is None
    assert "ignored: no Topology has rack" in [notice.consequence for notice in dump.notices]
    one = kueue_pods(2, [0, 1], required_topology="rack")
    other = kueue_pods(2, [0, 1], required_topology="block")
    differ = read_dump([one[0], other[1]])
    assert only_topology(differ) is None


def test_sorted_objects_have_topologies_too() -> None:
    snapshot, _ = read_objects(
        nodes=nodes(), pods=[], topologies=[topology("kai.scheduler"), *HYPER_NODES]
    )
    assert [each.name for each in snapshot.topologies] == ["HyperNodes", "net"]


def pod_sets(**asked: tuple[int, dict[str, str]]) -> list[dict[str, Any]]:
    """Pods of one Kueue job in pod sets, each with what its pods ask for."""
    total = sum(number for number, _ in asked.values())
    pods = []
    for name, (number, texts) in asked.items():
        for place, pod in enumerate(kueue_pods(number, list(range(number)), **texts)):
            pod["metadata"]["name"] = f"{name}-{place}"
            pod["metadata"]["uid"] = f"{name}-{place}"
            pod["metadata"]["labels"]["kueue.x-k8s.io/podset"] = name
            pod["metadata"]["annotations"]["kueue.x-k8s.io/pod-group-total-count"] = str(total)
            pods.append(pod)
    return pods


RACK = {"required_topology": "rack"}


def test_each_pod_set_of_kueue_asks_for_a_domain_of_its_own() -> None:
    slices = {"slice_required_topology": "rack", "slice_size": "2", "required_topology": "block"}
    pods = pod_sets(driver=(1, {}), left=(2, RACK), right=(4, slices))
    (job,) = read_dump([topology("kueue.x-k8s.io"), *pods]).snapshot.jobs
    assert job.topology is None
    assert [(each.name, each.min, each.topology) for each in job.groups] == [
        ("driver", 1, None),
        ("left", 2, TopologyRequest("net", required="rack")),
        (
            "right",
            4,
            TopologyRequest("net", required="block", segments=[Segment(2, "rack")]),
        ),
    ]
    assert [(task.group, task.index) for task in job.tasks] == [
        ("driver", None), ("left", None), ("left", None),
        ("right", 0), ("right", 1), ("right", 2), ("right", 3),
    ]  # fmt: skip


def test_pod_sets_with_a_group_name_are_placed_in_one_domain() -> None:
    both = {**RACK, "group_name": "both"}
    pods = pod_sets(leader=(1, both), workers=(2, both))
    dump = read_dump([topology("kueue.x-k8s.io"), *pods])
    assert only_topology(dump) == TopologyRequest("net", required="rack")
    pods = pod_sets(leader=(1, both), workers=(2, both), others=(1, RACK))
    (job,) = read_dump([topology("kueue.x-k8s.io"), *pods]).snapshot.jobs
    assert [(each.name, each.min) for each in job.groups] == [("both", 3), ("others", 1)]
    assert {each.topology for each in job.groups} == {TopologyRequest("net", required="rack")}
    # What they ask for must be the same, and slices are those of all their pods.
    unlike = pod_sets(
        leader=(1, {"group_name": "both"}),
        workers=(2, both | {"slice_size": "2", "slice_required_topology": "rack"}),
    )
    dump = read_dump([topology("kueue.x-k8s.io"), *unlike])
    assert only_topology(dump) == TopologyRequest("net", required="rack")
    assert "pods of other pod sets" in str(dump.notices)
    unlike = pod_sets(leader=(1, both | {"required_topology": "block"}), workers=(2, both))
    dump = read_dump([topology("kueue.x-k8s.io"), *unlike])
    assert only_topology(dump) is None
    assert "placed together ask for different levels" in str(dump.notices)


def of_replica(number: int, count: int, **asked: str) -> list[dict[str, Any]]:
    prefix = "leaderworkerset.sigs.k8s.io/"
    pods = []
    for worker in range(count):
        pod = dumps.pod(f"lws-{number}-{worker}", scheduler="volcano")
        pod["metadata"].setdefault("labels", {}).update(
            {
                f"{prefix}name": "lws",
                f"{prefix}group-index": str(number),
                f"{prefix}worker-index": str(worker),
            }
        )
        annotations = {prefix + key.replace("_", "-"): value for key, value in asked.items()}
        pod["metadata"].setdefault("annotations", {}).update(
            {f"{prefix}size": str(count), **annotations}
        )
        pods.append(pod)
    return pods


def test_replicas_and_subgroups_of_a_leader_worker_set_ask_for_domains() -> None:
    asked = {
        "exclusive_topology": "block",
        "subgroup_exclusive_topology": "rack",
        "subgroup_size": "2",
    }
    dump = read_dump(
        [topology("kueue.x-k8s.io"), *of_replica(0, 4, **asked), *of_replica(1, 3, **asked)]
    )
    (job,) = dump.snapshot.jobs
    assert [each.topology for each in job.groups] == [
        TopologyRequest("net", required="block", segments=[Segment(2, "rack")]),
        TopologyRequest("net", required="block"),
    ]
    assert [task.index for task in job.tasks] == [0, 1, 2, 3, None, None, None]
    assert "the leader is in a subgroup" in str(dump.notices)
    without = read_dump(of_replica(0, 4, **asked))
    assert [each.topology for each in without.snapshot.jobs[0].groups] == [
        TopologyRequest(required="block")
    ]
    assert "no Topology has the level rack of subgroups" in str(without.notices)


def test_subgroups_of_volcano_are_groups_of_pods_that_agree_in_labels() -> None:
    hard = {"mode": "hard", "highestTierAllowed": 1}
    policy = {
        "name": "shard",
        "subGroupSize": 2,
        "minSubGroups": 1,
        "matchLabelKeys": ["shard"],
        "networkTopology": hard,
    }
    group = dumps.volcano_group("g", 2, subGroupPolicy=[policy])
    pods = []
    for number, shard in enumerate(["a", "a", "b", "b", ""]):
        labels = {"shard": shard} if shard else {}
        notes = {"scheduling.k8s.io/group-name": "g"}
        pods.append(dumps.pod(f"p{number}", scheduler="volcano", notes=notes, labels=labels))
    (job,) = read_dump([*nodes(), *HYPER_NODES, group, *pods]).snapshot.jobs
    tier = TopologyRequest("HyperNodes", required="tier-1", preferred="tier-1")
    assert [(each.name, each.parent, each.min, each.topology) for each in job.groups] == [
        ("shard", None, 1, None),
        ("shard/a", "shard", 2, tier),
        ("shard/b", "shard", 2, tier),
        ("-", None, 0, None),
    ]
    assert [task.group for task in job.tasks] == ["shard/a", "shard/a", "shard/b", "shard/b", "-"]
    assert job.min_available == 2


def test_a_leader_worker_set_that_is_submitted_asks_for_the_same() -> None:
    prefix = "leaderworkerset.sigs.k8s.io/"
    manifest = {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {
            "name": "lws",
            "annotations": {f"{prefix}subgroup-exclusive-topology": "rack"},
        },
        "spec": {
            "replicas": 1,
            "leaderWorkerTemplate": {
                "size": 4,
                "subGroupPolicy": {"subGroupSize": 2},
                "workerTemplate": dumps.template(schedulerName="volcano"),
            },
        },
    }
    (job,) = read_dump([topology("kueue.x-k8s.io")], submitted=[manifest]).snapshot.jobs
    assert [each.topology for each in job.groups] == [
        TopologyRequest("net", segments=[Segment(2, "rack")])
    ]
    assert [task.index for task in job.tasks] == [0, 1, 2, 3]
