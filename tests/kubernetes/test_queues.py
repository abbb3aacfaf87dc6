"""Queues of Volcano, KAI Scheduler and Kueue become one tree."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest
from tests.support.kubernetes_objects import as_python_client, node, pod, pod_group

from batchsched import (
    KubernetesObjectError,
    Queue,
    QueueStatus,
    Resource,
    ResourceLimit,
    Scheduler,
    SchedulerConfig,
    schedule,
)
from batchsched.kubernetes import read_objects

GIB = 2**30
GPU = "nvidia.com/gpu"

Object = dict[str, object]


def volcano(
    name: str, annotations: Mapping[str, str] | None = None, state: str = "", **spec: object
) -> Object:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name, "annotations": dict(annotations or {})},
        "spec": spec,
        "status": {"state": state} if state else {},
    }


def kai(name: str, **spec: object) -> Object:
    version = "scheduling.run.ai/v2"
    return {"apiVersion": version, "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def kueue(kind: str, name: str, *quotas: Object, **spec: object) -> Object:
    flavors = [{"name": "default", "resources": list(quotas)}]
    groups = {"resourceGroups": [{"flavors": flavors}]} if quotas else {}
    version = "kueue.x-k8s.io/v1beta2"
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name},
        "spec": groups | spec,
    }


def cpu(nominal: str, **more: object) -> Object:
    return {"name": "cpu", "nominalQuota": nominal, **more}


def read(*queues: Object) -> tuple[dict[str, Queue], list[str]]:
    """The queues by name, and the notices as strings."""
    snapshot, notices = read_objects(nodes=[node()], pods=[], queues=list(queues))
    return {queue.name: queue for queue in snapshot.queues}, [str(notice) for notice in notices]


class TestVolcano:
    def test_a_parent_that_is_no_text_is_told_once(self) -> None:
        with pytest.raises(KubernetesObjectError) as caught:
            read(volcano("p", parent=5))
        assert str(caught.value) == "queues['p'].spec.parent: expected a string, got 5"

    def test_amounts_parent_and_priority(self) -> None:
        queues, notices = read(
            volcano("research", parent="root", priority=3, weight=2),
            volcano(
                "vision",
                parent="research",
                capability={"cpu": "8", "memory": "1Gi"},
                deserved={"cpu": "4500m", GPU: "2"},
                guarantee={"resource": {"cpu": 2}},
            ),
        )
        assert notices == []
        assert queues == {
            "research": Queue(name="research", priority=3, weight=2),
            "vision": Queue(
                name="vision",
                parent="research",
                limit=ResourceLimit(milli_cpu=8000, memory=GIB),
                deserved=Resource(milli_cpu=4500, scalars={GPU: 2000}),
                guarantee=Resource(milli_cpu=2000),
            ),
        }

    def test_the_root_is_the_cluster(self) -> None:
        queues, _ = read(volcano("root", capability={"cpu": "1"}), volcano("a", parent="root"))
        assert queues == {"a": Queue(name="a")}

    def test_without_a_tree_root_is_a_name_like_others(self) -> None:
        assert set(read(volcano("root"), volcano("a"))[0]) == {"root", "a"}

    def test_a_parent_that_was_not_given_is_noticed(self) -> None:
        queues, notices = read(volcano("a", parent="dept"))
        assert queues["a"].parent is None
        assert notices == [
            "1 x Queue spec.parent: queue 'dept' was not given: the queue has no parent (a)"
        ]

    def test_queues_whose_parents_form_a_cycle_have_none(self) -> None:
        queues, notices = read(volcano("a", parent="b"), volcano("b", parent="a"))
        assert [queue.parent for queue in queues.values()] == [None, None]
        assert "its parents form a cycle: the queue has no parent" in notices[0]

    def test_guarantees_below_a_queue_are_cut_to_its_limit(self) -> None:
        queues, notices = read(
            volcano("dept", capability={"cpu": "8"}),
            volcano("a", parent="dept", guarantee={"resource": {"cpu": "9", "memory": "1Gi"}}),
            volcano("b", parent="dept", guarantee={"resource": {"cpu": "3"}}),
        )
        # In proportion: 9 and 3 of 12 become 6 and 2 of 8. Memory has no limit.
        assert queues["a"].guarantee == Resource(milli_cpu=6000, memory=GIB)
        assert queues["b"].guarantee == Resource(milli_cpu=2000)
        cut = "1 x Queue spec.guarantee.resource: the guarantee of cpu is cut from"
        why = "the queues below 'dept' are guaranteed more together than its limit of 8"
        assert notices == [f"{cut} 3 to 2: {why} (b)", f"{cut} 9 to 6: {why} (a)"]

    def test_guarantees_are_cut_to_the_smallest_limit_above_them(self) -> None:
        queues, notices = read(
            volcano("top", capability={"cpu": "4"}),
            volcano("dept", parent="top", capability={"cpu": "8"}),
            volcano("a", parent="dept", guarantee={"resource": {"cpu": "6"}}),
            volcano("b", parent="dept", guarantee={"resource": {"cpu": "2"}}),
            volcano("c", parent="top"),
        )
        assert queues["a"].guarantee == Resource(milli_cpu=3000)
        assert queues["b"].guarantee == Resource(milli_cpu=1000)
        assert all("below 'top'" in notice for notice in notices)
        assert len(notices) == 2

    def test_a_guarantee_is_cut_to_the_limit_of_its_queue(self) -> None:
        queues, notices = read(
            volcano("a", capability={GPU: "2"}, guarantee={"resource": {GPU: "3"}}),
        )
        assert queues["a"].guarantee == Resource(scalars={GPU: 2000})
        assert notices == [
            (
                f"1 x Queue spec.guarantee.resource: the guarantee of {GPU} is cut from 3 to 2, "
                "the limit of the queue (a)"
            )
        ]

    def test_a_guarantee_that_is_cut_is_a_fault_if_everything_must_be_supported(self) -> None:
        queue = volcano("a", capability={"cpu": "2"}, guarantee={"resource": {"cpu": "3"}})
        with pytest.raises(KubernetesObjectError) as caught:
            read_objects(nodes=[], pods=[], queues=[queue], strict=True)
        assert str(caught.value) == (
            "queues['a'].spec.guarantee.resource: the guarantee of cpu is cut from 3 to 2, the "
            "limit of the queue"
        )

    def test_hierarchy_annotations(self) -> None:
        def annotated(name: str, path: str, weights: str) -> Object:
            keys = "volcano.sh/hierarchy", "volcano.sh/hierarchy-weights"
            return volcano(name, dict(zip(keys, (path, weights), strict=True)))

        queues, notices = read(
            annotated("q1", "root/science/vision", "1/2/4"),
            annotated("q2", "root/science/speech", "1/2/3"),
            annotated("q3", "root/sales", "1/6"),
            annotated("q4", "root/sales/north", "1/6/1"),
        )
        assert notices == []
        assert queues == {
            "root/science": Queue(name="root/science", weight=2),
            "q1": Queue(name="q1", parent="root/science", weight=4),
            "q2": Queue(name="q2", parent="root/science", weight=3),
            "q3": Queue(name="q3", weight=6),
            "q4": Queue(name="q4", parent="q3"),
        }

    @pytest.mark.parametrize(
        "weights", ["1/2", "1/2/4/8", "1/2/0", "1/2/x", "1/-2/4", "1/2/", "\u0661/\u0662/\u0663"]
    )
    def test_weights_of_a_hierarchy_that_make_no_sense_are_ignored_and_noticed(
        self, weights: str
    ) -> None:
        keys = "volcano.sh/hierarchy", "volcano.sh/hierarchy-weights"
        annotations = dict(zip(keys, ("root/science/vision", weights), strict=True))
        queues, [notice] = read(volcano("q", annotations, weight=7))
        assert queues == {
            "root/science": Queue(name="root/science", weight=1),
            "q": Queue(name="q", parent="root/science", weight=7),
        }
        assert notice == (
            "1 x Queue metadata.annotations['volcano.sh/hierarchy-weights']: ignored: expected "
            "whole numbers above 0, as many as the hierarchy has parts (q)"
        )

    def test_pods_of_queues_below_a_closed_one_do_not_start(self) -> None:
        snapshot, notices = read_objects(
            nodes=[node()],
            pods=[pod()],
            pod_groups=[pod_group()],
            queues=[volcano("x", state="Closing"), volcano("q", parent="x")],
        )
        assert [queue.state for queue in snapshot.queues] == [QueueStatus.OPEN, QueueStatus.CLOSED]
        assert schedule(snapshot).binds == ()
        assert notices == ()


class TestKai:
    RESOURCES: Mapping[str, object] = {
        "cpu": {"quota": 2000, "limit": 4000, "overQuotaWeight": 3},
        "memory": {"quota": -1, "limit": -1, "overQuotaWeight": 3},
        "gpu": {"quota": 1.5, "limit": -1, "overQuotaWeight": 3},
    }

    def test_quotas_limits_and_weights(self) -> None:
        queues, notices = read(
            kai("dept", resources=self.RESOURCES),
            kai("team", parentQueue="dept", priority=7, resources={"cpu": {"quota": 5}}),
        )
        assert notices == [
            (
                "1 x Queue spec.resources.memory.quota: -1 is read as: it deserves all that its "
                "parent has, or the cluster if it has no parent, and has no limit (dept)"
            )
        ]
        assert queues["dept"] == Queue(
            name="dept",
            weight=3,
            priority=100,
            deserved=ResourceLimit(milli_cpu=2000, scalars={GPU: 1500}),
            limit=ResourceLimit(milli_cpu=4000),
        )
        # What is not given is 0, also a limit.
        assert queues["team"] == Queue(
            name="team",
            parent="dept",
            priority=7,
            weight=0,
            deserved=Resource(milli_cpu=5),
            limit=ResourceLimit(milli_cpu=5, memory=0, scalars={GPU: 0}),
        )

    def test_what_is_not_lent_is_guaranteed(self) -> None:
        queues, _ = read(kai("a", resources={"memory": {"quota": 8, "lendingLimit": 3}}))
        assert queues["a"].guarantee == Resource(memory=5_000_000)

    def test_guarantees_below_a_limit_are_cut(self) -> None:
        queues, notices = read(
            kai("dept", resources={"gpu": {"quota": 2, "limit": 2}}),
            kai("a", parentQueue="dept", resources={"gpu": {"quota": 3, "lendingLimit": 0}}),
        )
        assert queues["a"].guarantee == Resource(scalars={GPU: 2000})
        assert notices == [
            (
                f"1 x Queue spec.resources: the guarantee of {GPU} is cut from 3 to 2: "
                "the queues below 'dept' are guaranteed more together than its limit of 2 (a)"
            )
        ]

    def test_weights_that_differ_are_noticed_and_parts_become_whole(self) -> None:
        resources = {"cpu": {"overQuotaWeight": 1}, "gpu": {"overQuotaWeight": 0.5}}
        queues, notices = read(
            kai("a", resources=resources), kai("b", resources={"gpu": {"overQuotaWeight": 2}})
        )
        assert (queues["a"].weight, queues["b"].weight) == (1, 4)
        assert len(notices) == 1
        assert "overQuotaWeight of gpu is used" in notices[0]

    def test_a_queue_without_an_api_group_is_known_by_its_fields(self) -> None:
        given = {"metadata": {"name": "a"}, "spec": {"parentQueue": "b"}}
        queues, notices = read(given)
        assert (queues["a"].priority, queues["a"].parent) == (100, None)
        assert notices[0].startswith("1 x Queue spec.parentQueue: queue 'b' was not given")

    def test_numbers_that_are_none_are_faults(self) -> None:
        resources = {"cpu": {"quota": -2, "limit": "4"}, "gpu": {"overQuotaWeight": -1}}
        with pytest.raises(KubernetesObjectError) as caught:
            read(kai("a", resources=resources))
        assert [fault.path for fault in caught.value.faults] == [
            "queues['a'].spec.resources.cpu.quota",
            "queues['a'].spec.resources.cpu.limit",
            "queues['a'].spec.resources.gpu.overQuotaWeight",
        ]


class TestKueue:
    def test_cluster_queues_and_cohorts(self) -> None:
        queues, notices = read(
            kueue("Cohort", "company", cpu("2")),
            kueue("Cohort", "research", parentName="company"),
            kueue(
                "ClusterQueue",
                "vision",
                cpu("4", borrowingLimit="2", lendingLimit="1"),
                cohortName="research",
                stopPolicy="HoldAndDrain",
            ),
            kueue("ClusterQueue", "speech", cpu("3"), cohort="research", namespaceSelector={}),
            kueue("ClusterQueue", "alone", cpu("1")),
        )
        assert list(notices) == []
        assert queues == {
            "company": Queue(
                name="company",
                deserved=Resource(milli_cpu=9000),
                limit=ResourceLimit(milli_cpu=9000),
            ),
            "research": Queue(name="research", parent="company", deserved=Resource(milli_cpu=7000)),
            "vision": Queue(
                name="vision",
                parent="research",
                deserved=Resource(milli_cpu=4000),
                limit=ResourceLimit(milli_cpu=6000),
                guarantee=Resource(milli_cpu=3000),
                state=QueueStatus.DRAINING,
            ),
            "speech": Queue(name="speech", parent="research", deserved=Resource(milli_cpu=3000)),
            "alone": Queue(
                name="alone",
                deserved=Resource(milli_cpu=1000),
                limit=ResourceLimit(milli_cpu=1000),
            ),
        }

    def test_a_cohort_that_is_only_named_is_added_and_names_may_be_the_same(self) -> None:
        queues, notices = read(kueue("ClusterQueue", "a", cohortName="a"))
        assert notices == []
        assert {name: queue.parent for name, queue in queues.items()} == {
            "a": "cohort/a",
            "cohort/a": None,
        }

    def test_a_cohort_keeps_what_its_subtree_does_not_lend(self) -> None:
        queues, _ = read(
            kueue("Cohort", "x", cpu("1", lendingLimit="2"), parentName="top"),
            kueue("ClusterQueue", "a", cpu("4"), cohortName="x"),
        )
        assert queues["x"].guarantee == Resource(milli_cpu=3000)

    def test_flavors_are_added_up_and_noticed(self) -> None:
        def flavor(amount: str, **more: object) -> Object:
            return {"resources": [cpu(amount, **more)]}

        groups = [{"flavors": [flavor("2", borrowingLimit="1"), flavor("3")]}]
        queues, notices = read(
            kueue("ClusterQueue", "a", resourceGroups=groups, cohortName="c"),
        )
        assert queues["a"].deserved == Resource(milli_cpu=5000)
        assert queues["a"].limit is None  # one flavor may be borrowed without end
        assert "flavors are not distinguished" in notices[0]

    def test_weights(self) -> None:
        queues, _ = read(
            kueue("ClusterQueue", "a", fairSharing={"weight": "1500m"}, cohortName="c"),
            kueue("ClusterQueue", "b", cohortName="c"),
        )
        assert (queues["a"].weight, queues["b"].weight) == (3, 2)

    @pytest.mark.parametrize(
        "field",
        ["preemption", "admissionChecks", "flavorFungibility", "namespaceSelector"],
    )
    def test_what_is_not_honoured_is_noticed(self, field: str) -> None:
        _, notices = read(kueue("ClusterQueue", "a", **{field: {"x": "y"}}))
        assert [text.split(":")[0] for text in notices] == [f"1 x ClusterQueue spec.{field}"]

    def test_a_policy_that_is_none_is_a_fault(self) -> None:
        with pytest.raises(KubernetesObjectError, match="expected None, Hold or HoldAndDrain"):
            read(kueue("ClusterQueue", "a", stopPolicy="Stop"))


def test_guarantees_that_are_cut_leave_a_tree_that_can_be_scheduled() -> None:
    """Whatever queues guarantee, where limits are: the snapshot is sound, and no more is cut."""
    rng = random.Random(7)
    cut = 0
    for _ in range(200):
        given = []
        for number in range(rng.randint(2, 7)):
            spec: Object = {"guarantee": {"resource": {"cpu": rng.randint(0, 9), GPU: 1}}}
            if rng.random() < 0.5:
                spec["capability"] = {"cpu": rng.randint(1, 12), GPU: rng.randint(1, 3)}
            if number and rng.random() < 0.8:
                spec["parent"] = f"q{rng.randrange(number)}"
            given.append(volcano(f"q{number}", **spec))
        queues, notices = read(*given)
        cut += bool(notices)
        again, no_more = read(*map(_as_volcano, queues.values()))
        assert no_more == []
        assert again == queues
    assert cut > 100


def _as_volcano(queue: Queue) -> Object:
    spec: Object = {"guarantee": {"resource": _amounts(queue.guarantee)}}
    if queue.limit is not None:
        spec["capability"] = _amounts(queue.limit)
    if queue.parent is not None:
        spec["parent"] = queue.parent
    return volcano(queue.name, **spec)


def _amounts(given: Resource | ResourceLimit) -> dict[str, str]:
    return {name: f"{amount}m" for name, amount in given.dimensions() if amount}


EVERYTHING = [
    volcano("v", deserved={"cpu": "1"}),
    volcano("w", {"volcano.sh/hierarchy": "root/x/w"}),
    kai("k", resources=TestKai.RESOURCES),
    kueue("Cohort", "research", cpu("1"), parentName="company"),
    kueue("ClusterQueue", "vision", cpu("4", borrowingLimit="2"), cohortName="research"),
]


def test_the_order_of_objects_and_the_notation_of_keys_do_not_matter() -> None:
    shuffled = list(EVERYTHING)
    random.Random(3).shuffle(shuffled)
    assert read(*EVERYTHING) == read(*shuffled)
    assert read(*EVERYTHING) == read(*(as_python_client(one) for one in EVERYTHING))


def test_jobs_of_a_tree_are_scheduled() -> None:
    snapshot, _ = read_objects(
        nodes=[node(cpu="2")],
        pods=[pod(f"p{number}", group="g1") for number in range(3)],
        pod_groups=[pod_group(minMember=0)],
        queues=[volcano("x", capability={"cpu": "1"}), volcano("q", parent="x")],
    )
    tiers = [{"plugins": [{"name": "capacity"}, {"name": "predicates"}]}]
    config = SchedulerConfig.from_mapping({"actions": "allocate", "tiers": tiers})
    result = Scheduler(config).schedule(snapshot)
    assert result.queues["x"].limit == ResourceLimit(milli_cpu=1000)
