"""The changes of `what-if`: each does what it says, and what cannot be understood is told."""

import json

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from tests.support.program import run
from tests.support.shown_dumps import DUMPS as SHOWN

from batchsched import (
    Budget,
    Dependency,
    Hold,
    HoldKind,
    JobEvent,
    JobInfo,
    LabelSelector,
    NodeInfo,
    Queue,
    QueueStatus,
    Resource,
    ResourceLimit,
    Snapshot,
    Taint,
    TaintEffect,
    TaskInfo,
    TaskStatus,
    Topology,
    TopologyRequest,
    what_if,
)
from batchsched.live import TaskSucceeded

GPU = "nvidia.com/gpu"
GATE = Hold(HoldKind.GATE, "example.com/license")


def gpus(number):
    return Resource(milli_cpu=1000 * number, memory=number << 30, scalars={GPU: 1000 * number})


def node(name, zone, number=4, **more):
    labels = {"zone": zone, "kubernetes.io/hostname": name}
    return NodeInfo(name=name, allocatable=gpus(number), labels=labels, **more)


def job(name, queue, count, number, *, on=None, holds=(), least=None, **more):
    tasks = [
        TaskInfo(
            uid=f"{name}-{i}",
            name=f"{name}-{i}",
            namespace="team",
            resreq=gpus(number),
            node_name=on,
            status=TaskStatus.RUNNING if on else TaskStatus.PENDING,
            holds=holds,
        )
        for i in range(count)
    ]
    return JobInfo(
        name=name,
        namespace="team",
        queue=queue,
        min_available=count if least is None else least,
        tasks=tasks,
        **more,
    )


CLUSTER = Snapshot(
    nodes=[node("gpu-1", "a"), node("gpu-2", "a"), node("small", "b", 1)],
    queues=[
        Queue(name="research"),
        Queue(name="vision"),
        Queue(name="old", state=QueueStatus.CLOSED),
    ],
    jobs=[
        job("train", "vision", 2, 2, on="gpu-1"),
        job("bert", "research", 2, 4),
        job("held", "research", 1, 1, holds=(GATE,)),
        job("legacy", "old", 1, 1),
    ],
)
"""On two nodes with four GPUs each, `bert` needs both, and `train` has one of them."""


def asked(*changes, cluster=CLUSTER, options=()):
    content = json.dumps(cluster.to_dict()).encode()
    return run("what-if", *changes, "-c", "default", "--width", "150", *options, given=content)


def told(ended):
    """Return what the answer says that the changes do."""
    lines = ended.out.splitlines()
    start = lines.index("If") + 1
    end = next(i for i, line in enumerate(lines[start:], start) if not line.startswith("  "))
    return [line.strip() for line in lines[start:end]]


BERT_STARTS = "2 tasks of 1 job start that wait now; nothing is evicted"


@pytest.mark.parametrize(
    ("changes", "status", "what", "answer"),
    [
        ("end train", 1, "end job team/train", BERT_STARTS),
        ("end Train", 2, None, None),
        ("end train-0", 0, "end task train-0 of job team/train", "1 task of 1 job ends"),
        ("end bert", 0, "remove job team/bert", "2 tasks of 1 job are gone"),
        ("add-node gpu-2", 1, "1 more node like gpu-2", BERT_STARTS),
        ("add-node gpu-2x3", 1, "3 more nodes like gpu-2", BERT_STARTS),
        ("add-node gpu-2x12", 1, "12 more nodes like gpu-2", BERT_STARTS),
        ("remove-node small", 0, "remove node small", "Both make the same decisions"),
        ("cordon zone=a", 0, "cordon 2 nodes: gpu-1, gpu-2", "Both make the same decisions"),
        ("queue vision weight=3", 0, "queue vision: weight 3 instead of 1", "Both make"),
        ("job bert min=1", 1, "job team/bert: minimum 1 instead of 2", "1 task of 1 job starts"),
        ("job bert priority=9", 0, "job team/bert: priority 9 instead of 0", "Both make"),
        ("release held", 1, "release job team/held", "1 task of 1 job starts that waits now"),
        ("queue old state=open", 1, "queue old: state open instead of closed", "1 task of 1 job"),
        ("job legacy queue=vision", 1, "job team/legacy: queue vision instead of old", "1 task"),
        ("cycle", 0, "a cycle runs", "Both make the same decisions"),
    ],
)
def test_each_change_does_what_it_says(changes, status, what, answer):
    ended = asked(*changes.split())
    assert ended.status == status
    if what is not None:
        assert ended.out.startswith(answer)
        assert told(ended) == [what]


def test_the_answer_is_that_of_the_library():
    ended = asked("end", "train", options=["--json"])
    changes = [TaskSucceeded("train-0"), TaskSucceeded("train-1")]
    expected = what_if(CLUSTER, *changes)
    data = ended.data
    assert [data.pop(key) for key in ("format", "version")] == ["batchsched.what-if", 1]
    assert data.pop("configuration").startswith("default (allocate, backfill;")
    assert data == json.loads(json.dumps(expected.to_dict()))


@pytest.mark.parametrize("words", ["end my-job", "add-node gpu-1x2", "cycle release my-job"])
@pytest.mark.parametrize("make", SHOWN.values(), ids=lambda make: make.__name__)
def test_the_order_of_objects_changes_no_answer(make, words):
    objects = make()
    ended = run("what-if", *words.split(), given=objects)
    assert ended.status in (0, 1)
    assert run("what-if", *words.split(), given=objects[::-1]) == ended


def test_what_ran_on_a_removed_node_waits_again():
    ended = asked("remove-node", "gpu-1")
    assert ended.status == 1
    assert told(ended) == ["2 tasks leave node gpu-1, and wait again", "remove node gpu-1"]
    assert "train-0  Running on gpu-1  starts on gpu-2" in ended.out


def test_a_cordoned_node_takes_tasks_again():
    cluster = Snapshot(
        nodes=[node("gpu-1", "a", unschedulable=True)],
        queues=CLUSTER.queues,
        jobs=[job("one", "vision", 1, 1)],
    )
    assert asked("cordon", "gpu-1", cluster=cluster).status == 0
    ended = asked("uncordon", "gpu-1", cluster=cluster)
    assert (ended.status, told(ended)) == (1, ["uncordon gpu-1"])


def test_a_new_node_is_empty_and_in_service():
    taints = [Taint(key="node.kubernetes.io/not-ready", effect=TaintEffect.NO_SCHEDULE)]
    broken = node("gpu-1", "a", taints=taints, conditions={"Ready": "False"}, unschedulable=True)
    cluster = Snapshot(
        nodes=[broken, node("gpu-1-new-1", "a", 1)],
        queues=CLUSTER.queues,
        jobs=[job("one", "vision", 1, 4)],
    )
    ended = asked("add-node", "gpu-1", cluster=cluster)
    assert "one-0  waits   starts on gpu-1-new-2" in ended.out


def test_amounts_of_queues_change_one_by_one():
    limit = ResourceLimit(milli_cpu=8000, scalars={GPU: 8000})
    queues = [Queue(name="research", limit=limit), Queue(name="vision", deserved=None)]
    cluster = Snapshot(nodes=CLUSTER.nodes, queues=queues, jobs=CLUSTER.jobs[:1])
    fields = ["limit.gpu=6", "limit.memory=1Gi", "limit.cpu=none", "guarantee.cpu=500m"]
    [changed] = told(asked("queue", "research", *fields, cluster=cluster))
    assert changed.startswith("queue research: limit 1 GiB of memory, 6 GPUs instead of 8 GPUs")
    assert changed.endswith("guarantee 500m cpu instead of nothing")
    ended = asked("queue", "vision", f"deserved.{GPU}=2", cluster=cluster)
    assert "deserved 2 GPUs instead of all that its parent has" in ended.out


def test_a_queue_that_becomes_reclaimable_is_lent_more_than_it_deserves():
    deserved = Resource(milli_cpu=1000)
    queues = [Queue(name="research", deserved=deserved, reclaimable=False), Queue(name="vision")]
    waits = JobInfo(
        name="waits",
        queue="research",
        tasks=[TaskInfo(uid="w", name="w", resreq=Resource(milli_cpu=2000))],
    )
    cluster = Snapshot(nodes=CLUSTER.nodes, queues=queues, jobs=[waits])
    ended = asked("queue", "research", "reclaimable=true", cluster=cluster, options=["--json"])
    assert [bind["task_uid"] for bind in ended.data["result"]["binds"]] == ["w"]
    [changed] = told(asked("queue", "research", "reclaimable=true", cluster=cluster))
    assert changed == "queue research: reclaimable yes instead of no"


WEB = LabelSelector(match_labels={"app": "web"})


def guarded(*budgets):
    """A job of higher priority waits for the only node, where a task of a budget runs."""
    low = evolve(job("low", "vision", 1, 4, on="gpu-1"), min_available=1)
    low = evolve(low, tasks=[evolve(task, labels={"app": "web"}) for task in low.tasks])
    high = job("high", "vision", 1, 4, priority=9)
    queues = [Queue(name="vision")]
    return Snapshot(nodes=[node("gpu-1", "a")], queues=queues, jobs=[low, high], budgets=budgets)


def with_budget(*changes, budgets, tmp_path):
    gang = {"name": "gang", "arguments": {"atMinimum": "whole-job"}}
    plugins = ["priority", gang, "protection", "predicates"]
    path = tmp_path / "evicting.json"
    path.write_text(json.dumps({"actions": "allocate, preempt", "tiers": [{"plugins": plugins}]}))
    given = json.dumps(guarded(*budgets).to_dict()).encode()
    return run("what-if", *changes, "-c", str(path), "--width", "150", given=given)


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ("max_unavailable=1", "max_unavailable 1 instead of 0"),
        ("min_available=0", "min_available 0 instead of none, max_unavailable none instead of 0"),
        ("hard=false", "hard no instead of yes"),
    ],
)
def test_a_budget_that_allows_more_lets_a_task_go(fields, what, tmp_path):
    budget = Budget(name="web", namespace="team", selector=WEB, max_unavailable=0)
    ended = with_budget("budget", "web", fields, budgets=[budget], tmp_path=tmp_path)
    assert ended.status == 1
    assert told(ended) == [f"budget team/web: {what}"]
    assert "low-0" in ended.out


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ("web max_unavailable=-1", "budget web max_unavailable: expected 0 or more, got -1"),
        ("web hard=perhaps", "budget web hard: expected true or false, got 'perhaps'"),
        ("web hart=true", "budget web: no field is called hart; did you mean hard?"),
        ("wep hard=true", "no budget is called wep; did you mean web?"),
        ("two hard=true", "budget two: there are several; give a/two or b/two"),
    ],
)
def test_what_is_wrong_with_a_budget_is_told(changes, said, tmp_path):
    budgets = [Budget(name="web", namespace="team", selector=WEB, max_unavailable=0)]
    budgets += [
        Budget(name="two", namespace=space, selector=WEB, max_unavailable=0) for space in "ab"
    ]
    ended = with_budget("budget", *changes.split(), budgets=budgets, tmp_path=tmp_path)
    assert ended.status == 2
    assert said in ended.err


def test_a_limit_keeps_a_job_waiting():
    assert asked("end", "train", "queue", "research", "limit.gpu=4").out.startswith("2 tasks of 1")
    ended = asked("queue", "research", "limit.gpu=4", "end", "train", options=["--json"])
    assert ended.data["result"]["binds"] == []


def test_later_changes_are_about_what_earlier_ones_left():
    ended = asked("queue", "vision", "weight=3", "queue", "vision", "priority=2")
    assert told(ended) == [
        "queue vision: weight 3 instead of 1",
        "queue vision: priority 2 instead of 0",
    ]
    ended = asked("end", "train", "cycle", "end", "bert")
    assert told(ended) == ["end job team/train", "a cycle runs", "end 2 tasks of job team/bert"]
    ended = asked("add-node", "gpu-2", "cordon", "gpu-2-new-1")
    assert told(ended) == ["1 more node like gpu-2", "cordon gpu-2-new-1"]


def test_a_change_may_be_one_word():
    assert told(asked("end train", "queue vision weight=3")) == [
        "end job team/train",
        "queue vision: weight 3 instead of 1",
    ]


def test_what_depends_on_an_ended_job_may_start():
    depends = [Dependency(job="team/part", on=JobEvent.SUCCEEDED)]
    part = job("part", "vision", 2, 2, least=1)
    after = job("after", "research", 1, 1, depends_on=depends)
    cluster = Snapshot(nodes=CLUSTER.nodes[:1], queues=CLUSTER.queues, jobs=[part, after])
    ended = asked("cycle", "end part", cluster=cluster, options=["--json"])
    assert [bind["task_uid"] for bind in ended.data["result"]["binds"]] == ["after-0"]


def test_another_configuration_decides_from_there_on(tmp_path):
    file = tmp_path / "none.json"
    file.write_text(json.dumps({"actions": "backfill", "tiers": [{"plugins": ["gang"]}]}))
    one = Snapshot(nodes=CLUSTER.nodes, queues=CLUSTER.queues, jobs=[job("one", "vision", 1, 1)])
    alone = asked("config", file, cluster=one)
    assert "The first decision that differs" in alone.lines
    assert "  because action 'allocate' runs only before" in alone.lines
    ended = asked("end", "train", "config", file)
    assert ended.status == 0
    assert told(ended)[1].startswith("another configuration: backfill; gang")


def test_a_job_is_released_from_closed_queues_above_it():
    queues = [
        Queue(name="all", state=QueueStatus.CLOSED),
        Queue(name="below", parent="all", state=QueueStatus.DRAINING),
    ]
    held = job("held", "below", 1, 1, holds=(GATE,))
    cluster = Snapshot(nodes=CLUSTER.nodes, queues=queues, jobs=[held])
    ended = asked("release", "held", cluster=cluster)
    assert (ended.status, told(ended)) == (
        1,
        [
            "queue below: state open instead of draining",
            "queue all: state open instead of closed",
            "release job team/held",
        ],
    )
    assert ended.out.startswith("1 task of 1 job starts that waits now")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ("end trian", "no job is called trian; did you mean team/train?"),
        ("ende train", "no change is called ende; did you mean end?"),
        ("end", "expected `end JOB|TASK|CLAIM`, got nothing after end"),
        ("move sweep", "expected `move TASK to=NODE...`, got no field of sweep"),
        ("cordon gpu-11", "no node is called gpu-11; did you mean gpu-1, gpu-2?"),
        ("cordon zone=c", "no node has the label zone=c; did you mean zone=b, zone=a?"),
        ("add-node gpu-1x0", "add-node gpu-1x0: expected 1 to 10000 nodes, got 0"),
        ("queue vision", "expected `queue NAME FIELD=VALUE...`, got no field of vision"),
        ("queue visoin weight=1", "no queue is called visoin; did you mean vision?"),
        ("queue vision wieght=1", "queue vision: no field is called wieght; did you mean weight?"),
        ("queue vision weight=x", "queue vision weight: expected a whole number, got 'x'"),
        ("queue vision weight=-1", "batchsched: queue vision weight=-1: queues['vision'].weight: "),
        ("queue vision limit.gpus=1", "no node has gpus; did you mean gpu?"),
        ("queue vision limit.gpu=-1", "expected an amount of 0 or more, or none, got -1"),
        ("queue vision limit.gpu=1X", "queue vision limit.gpu: expected a quantity, got '1X'"),
        ("queue vision reclaimable=1", "queue vision reclaimable: expected true or false, got '1'"),
        ("queue vision state=shut", "expected open or closed or draining, got 'shut'"),
        ("job bert prio=1", "job bert: no field is called prio; did you mean priority?"),
        ("job bert queue=none", "no queue is called none"),
        ("release nobody", "no job is called nobody"),
        ("budget web max_unavailable=1", "no budget is called web"),
        ("cordn gpu-1", "no change is called cordn; did you mean cordon, uncordon?"),
        ("config defalt", "no file, and no preset, is called defalt; did you mean default?"),
        ("cycle cycel", "no change is called cycel; did you mean cycle?"),
        ("end train end train", "end train: it has ended already"),
        ("end bert end bert", "team/bert"),
    ],
)
def test_what_cannot_be_understood_is_told(changes, said):
    ended = asked(*changes.split())
    assert (ended.status, ended.out) == (2, "")
    assert said in ended.err
    assert asked(*changes.split(), options=["--json"]).data["error"]


def test_all_faults_are_told_at_once():
    ended = asked("end", "x", "cordon", "y", "queue", "z", "weight=1", "jump", "high")
    assert [line.partition(" ")[2] for line in ended.err.splitlines()][:3] == [
        "no job is called x",
        "no node is called y",
        "no queue is called z",
    ]
    assert len(ended.err.splitlines()) == 4


WORDS = [
    *("end", "add-node", "remove-node", "cordon", "uncordon", "queue", "job", "release", "cycle"),
    *("train", "bert-0", "held", "legacy", "gpu-1", "gpu-2x2", "zone=a", "vision", "old"),
    *("weight=2", "weight=-1", "limit.gpu=2", "state=open", "min=1", "queue=old", "priority=1"),
]


@given(st.lists(st.sampled_from(WORDS) | st.text(max_size=8), min_size=1, max_size=6))
def test_all_words_are_answered_or_told(words):
    ended = asked("--", *words)
    assert ended.status in (0, 1, 2)
    assert bool(ended.err.startswith("batchsched:")) == (ended.status == 2)
    assert (ended.status == 2) == (ended.out == "")


# Tasks that run, and those that start in a cycle of the changes


def two_nodes(*jobs):
    nodes = [node(name, "a") for name in ("gpu-1", "gpu-2")]
    return Snapshot(nodes=nodes, queues=[Queue(name="vision")], jobs=jobs)


@pytest.mark.parametrize(
    ("changes", "answer"),
    [
        ("remove-node gpu-1", "1 task of 1 job starts on another node; nothing is evicted"),
        ("remove-node gpu-1 cycle", "1 task of 1 job starts on another node; nothing is evicted"),
        (
            "remove-node gpu-1 cordon gpu-2",
            "1 task of 1 job waits that runs now; nothing is evicted",
        ),
    ],
)
def test_a_task_whose_node_goes_moves_or_waits(changes, answer):
    ended = asked(*changes.split(), cluster=two_nodes(job("runs", "vision", 1, 2, on="gpu-1")))
    assert (ended.status, ended.lines[0]) == (1, answer)


def test_what_starts_now_and_in_a_cycle_of_the_changes_differs_in_nothing():
    ended = asked("cycle", cluster=two_nodes(job("starts", "vision", 1, 2)))
    assert (ended.status, ended.lines[0]) == (0, "Both make the same decisions.")


def test_what_starts_in_a_cycle_of_the_changes_starts():
    jobs = job("waits", "vision", 2, 4), job("runs", "vision", 1, 4, on="gpu-1")
    ended = asked("end", "runs", "cycle", cluster=two_nodes(*jobs))
    assert ended.status == 1
    assert ended.lines[0] == "2 tasks of 1 job start that wait now; nothing is evicted"


def test_a_job_that_prefers_another_level_is_still_spread_evenly():
    nodes = [
        NodeInfo(name=name, allocatable=gpus(3), labels={"rack": name, "shelf": name})
        for name in ("n1", "n2")
    ]
    tasks = [TaskInfo(uid=f"t{number}", name=f"t{number}", resreq=gpus(1)) for number in range(4)]
    even = TopologyRequest("network", preferred="shelf", balanced=True)
    spread = JobInfo(name="spread", queue="vision", tasks=tasks, min_available=4, topology=even)
    network = Topology("network", levels=["rack", "shelf"])
    queues = [Queue(name="vision")]
    cluster = Snapshot(nodes=nodes, queues=queues, jobs=[spread], topologies=[network])
    ended = asked("job", "spread", "preferred=rack", cluster=cluster, options=["--json"])
    binds = ended.data["result"]["binds"]
    assert sorted(bind["node_name"] for bind in binds) == ["n1", "n1", "n2", "n2"]
