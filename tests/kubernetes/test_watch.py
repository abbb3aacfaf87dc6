"""What watching a cluster says of its objects: late, doubled, expired, and read as a dump."""

from __future__ import annotations

from random import Random

import pytest

from batchsched import KubernetesObjectError
from batchsched.kubernetes import WatchedObjects, read_dump
from batchsched.live import Cluster, Reconciler


def node(name: str, version: int, cpu: str = "2") -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "resourceVersion": str(version)},
        "status": {"allocatable": {"cpu": cpu, "pods": "110"}},
    }


def pod(name: str, version: int, node_name: str = "", phase: str = "Pending") -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": f"uid-{name}",
            "resourceVersion": str(version),
        },
        "spec": {
            "schedulerName": "volcano",
            "containers": [{"resources": {"requests": {"cpu": "1"}}}],
            **({"nodeName": node_name} if node_name else {}),
        },
        "status": {"phase": phase},
    }


def listed(kind: str, version: int, *items: dict[str, object]) -> dict[str, object]:
    bare = [{k: v for k, v in item.items() if k not in ("kind", "apiVersion")} for item in items]
    metadata = {"resourceVersion": str(version)}
    return {"apiVersion": "v1", "kind": f"{kind}List", "metadata": metadata, "items": bare}


def said(kind: str, content: dict[str, object]) -> dict[str, object]:
    return {"type": kind, "object": content}


def names(watch: WatchedObjects) -> list[str]:
    return sorted(each["metadata"]["name"] for each in watch.objects())  # type: ignore[index]


def test_objects_come_change_and_go():
    watch = WatchedObjects()
    watch.relist(listed("Node", 5, node("a", 1), node("b", 2)))
    watch.apply(said("ADDED", node("c", 6)), said("MODIFIED", node("a", 7, cpu="4")))
    watch.apply(said("DELETED", node("b", 8)))
    assert names(watch) == ["a", "c"]
    assert watch.versions == {"Node": "8"}
    dump = watch.dump()
    assert dump.snapshot.node("a").allocatable.milli_cpu == 4000
    assert dump.snapshot == read_dump(watch.objects()).snapshot


def test_what_is_late_or_doubled_changes_nothing():
    watch = WatchedObjects()
    watch.apply(said("ADDED", node("a", 10, cpu="4")), said("MODIFIED", node("a", 9, cpu="1")))
    watch.apply(said("ADDED", node("a", 10, cpu="1")))
    assert watch.dump().snapshot.node("a").allocatable.milli_cpu == 4000
    watch.apply(said("DELETED", node("a", 12)), said("MODIFIED", node("a", 11)))
    assert names(watch) == []
    watch.apply(said("ADDED", node("a", 13)), said("DELETED", node("a", 12)))
    assert names(watch) == ["a"]
    assert watch.versions == {"Node": "13"}


def test_what_a_list_no_longer_has_does_not_come_back_by_what_is_late():
    watch = WatchedObjects()
    watch.relist(listed("Node", 5, node("b", 2)))
    watch.apply(said("ADDED", node("a", 3)), said("MODIFIED", node("a", 4)))
    assert names(watch) == ["b"]
    watch.apply(said("ADDED", node("a", 6)))
    assert names(watch) == ["a", "b"]


def test_versions_that_are_no_numbers_count_as_they_come():
    watch = WatchedObjects()
    for version in ("x", "a", "a"):
        content = node("n", 0)
        content["metadata"] = {"name": "n", "resourceVersion": version}
        watch.apply(said("MODIFIED", content))
    assert watch.versions == {"Node": "a"}


def test_a_bookmark_says_only_how_far_the_watch_is():
    watch = WatchedObjects()
    bookmark = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"resourceVersion": "77"}}
    watch.apply(said("BOOKMARK", bookmark))
    assert (watch.versions, watch.objects()) == ({"batch/Job": "77"}, [])


def test_an_expired_watch_is_mended_by_a_list():
    watch = WatchedObjects()
    watch.apply(said("ADDED", node("a", 1)), said("ADDED", pod("p", 2)))
    expired = {"kind": "Status", "code": 410, "message": "too old resource version"}
    with pytest.raises(KubernetesObjectError, match=r"events\[1\]: the watch has expired \(410\)"):
        watch.apply(said("ADDED", node("b", 3)), {"type": "ERROR", "object": expired})
    assert names(watch) == ["a", "p"]
    watch.relist(listed("Node", 30, node("b", 3)))
    assert names(watch) == ["b", "p"]
    assert watch.versions == {"Node": "30", "Pod": "2"}
    # A list starts anew, whatever was known before: versions may begin again after a restore.
    watch.relist(listed("Node", 4, node("a", 1)))
    watch.apply(said("MODIFIED", node("a", 5, cpu="9")))
    assert watch.dump().snapshot.node("a").allocatable.milli_cpu == 9000


def test_all_that_cannot_be_read_is_told_at_once():
    watch = WatchedObjects()
    with pytest.raises(KubernetesObjectError) as told:
        watch.apply(
            said("CHANGED", node("a", 1)),
            {"type": "ADDED"},
            said("ADDED", {"kind": "Node", "metadata": {}}),
            said("ADDED", {"metadata": {"name": "x"}}),
            {"type": "ERROR", "object": {"code": 500, "message": "boom"}},
            7,  # type: ignore[arg-type]
        )
    assert [fault.path for fault in told.value.faults] == [
        "events[0].type", "events[1].object", "events[2].object.metadata.name",
        "events[3].object.kind", "events[4]", "events[5].type",
    ]  # fmt: skip
    for wrong in ({"kind": "List"}, {"kind": "Pod"}, {"kind": "PodList", "items": 5}, 5):
        with pytest.raises(KubernetesObjectError):
            watch.relist(wrong)  # type: ignore[arg-type]
    assert watch.objects() == []


@pytest.mark.parametrize("seed", range(3))
def test_a_reconciled_cluster_is_what_a_dump_of_all_objects_says(seed):
    random = Random(seed)
    watch, kept = WatchedObjects(), Reconciler(Cluster())
    there: dict[str, dict[str, object]] = {}
    for version in range(1, 60):
        name = random.choice("abcdef")
        if name not in there:
            there[name] = pod(name, version) if name > "c" else node(name, version)
            watch.apply(said("ADDED", there[name]))
        elif random.random() < 0.3:
            gone = {**there.pop(name)}
            gone["metadata"] = {**gone["metadata"], "resourceVersion": str(version)}  # type: ignore[dict-item]
            watch.apply(said("DELETED", gone))
        elif name > "c":
            nodes = sorted(set(there) & set("abc"))
            on = random.choice(nodes) if nodes else ""
            there[name] = pod(name, version, on, "Running" if on else "Pending")
            watch.apply(said("MODIFIED", there[name]))
        # Tasks on nodes that are gone are read as waiting for them.
        snapshot = watch.dump(now=0.0).snapshot
        kept.observe_all(snapshot)
        found = kept.cluster.snapshot()
        assert [each.name for each in found.nodes] == [each.name for each in snapshot.nodes]
        tasks = {
            task.uid: (task.status, task.node_name) for job in found.jobs for task in job.tasks
        }
        assert tasks == {
            task.uid: (task.status, task.node_name) for job in snapshot.jobs for task in job.tasks
        }
