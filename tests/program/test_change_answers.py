"""The commands `compare`, `check` and `shrink`."""

import json
import sys

import pytest
from attrs import evolve
from tests.program.test_changes import CLUSTER, GATE, job
from tests.support.program import run

from batchsched import (
    JobInfo,
    NodeInfo,
    Queue,
    QueueStatus,
    Resource,
    ResourceLimit,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    TaskInfo,
    TaskStatus,
    check_config,
)
from batchsched.tools import JobStatus, standings
from batchsched_cli.reading import PRESETS

NO_PREDICATES = {"actions": "allocate", "tiers": [{"plugins": [{"name": "gang"}]}]}


def asked(*words, cluster=CLUSTER):
    return run(*words, given=json.dumps(cluster.to_dict()).encode())


def written(tmp_path, name, content):
    file = tmp_path / name
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return file


# compare


@pytest.mark.parametrize("name", ["default", "kai", "kueue", "kubernetes"])
def test_a_configuration_decides_like_itself(name):
    ended = asked("compare", name, name)
    assert (ended.status, ended.lines[0]) == (0, "Both make the same decisions.")


def test_compare_tells_what_differs(tmp_path):
    none = written(tmp_path, "none.json", {"actions": "backfill", "tiers": [{"plugins": ["gang"]}]})
    cluster = Snapshot(
        nodes=CLUSTER.nodes, queues=CLUSTER.queues, jobs=[job("one", "vision", 1, 1)]
    )
    ended = asked("compare", "default", none, cluster=cluster)
    assert (ended.status, ended.lines[0]) == (
        1,
        "1 task of 1 job waits that starts now; nothing is evicted",
    )
    data = asked("compare", "default", none, "--json", cluster=cluster).data
    assert [change["kind"] for change in data["changes"]] == ["no longer starts"]
    assert data["configurations"][1].startswith(str(none))


CONFIG = """
actions: "allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: PLUGIN}, {name: nodeorder}]
"""


def test_the_limit_of_a_queue_is_the_cause(tmp_path):
    pytest.importorskip("yaml")
    files = [
        written(tmp_path, f"{plugin}.yaml", CONFIG.replace("PLUGIN", plugin))
        for plugin in ("proportion", "capacity")
    ]
    limit = ResourceLimit(milli_cpu=2000)
    task = small_job("elastic", 6)
    cluster = Snapshot(
        nodes=[NodeInfo(name="rome", allocatable=Resource(milli_cpu=8000))],
        queues=[Queue(name="dept", limit=limit), Queue(name="vision", parent="dept")],
        jobs=[evolve(task, min_available=1)],
    )
    ended = run("compare", *files, "--width", 200, given=json.dumps(cluster.to_dict()).encode())
    assert ended.status == 1
    assert ended.lines[0] == "4 tasks of 1 job wait that start now; nothing is evicted"
    because = ended.out[ended.out.index("because") :].partition("By queue")[0]
    assert "queue 'dept' would hold 3 cpu, 1 more than its limit" in because
    assert "alone gives the whole change: plugin 'capacity' instead of 'proportion'" in because


def test_a_configuration_that_is_not_there_is_told():
    ended = asked("compare", "default", "kay")
    assert ended.status == 2
    assert "no file, and no preset, is called kay; did you mean kai?" in ended.err
    assert asked("compare", "default").status == 2


# check


def test_check_tells_what_the_library_finds(tmp_path):
    file = written(tmp_path, "scheduler.json", NO_PREDICATES)
    ended = run("check", file)
    assert ended.status == 1
    assert "NoPredicates at tiers" in ended.lines
    data = run("check", file, "--json").data
    found = [finding.to_dict() for finding in check_config(NO_PREDICATES)]
    assert data["findings"] == json.loads(json.dumps(found))
    assert run("check", "-c", file).out == ended.out


def test_check_needs_no_cluster_and_reads_none_unasked():
    for words in (["check", "default"], ["check"]):
        assert run(*words, given=b"").lines == ["Nothing is found wrong with default."]


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_no_mistake(name):
    ended = run("check", name, "--json", given=b"")
    assert (ended.status, ended.data["findings"]) == (0, [])


def test_the_same_in_a_file_of_ones_own_is_a_choice_that_is_told(tmp_path):
    file = written(tmp_path, "mine.json", PRESETS["kueue"])
    assert (
        run("check", file, "--width", 300).lines[0]
        == f"1 finding in {file}: CapacityWithoutReclaim."
    )


def test_queues_that_do_not_suit_a_preset_are_found(tmp_path):
    limit = ResourceLimit(milli_cpu=1000)
    vision = Queue(name="vision", deserved=Resource(milli_cpu=4000), limit=limit)
    cluster = written(tmp_path, "c.json", Snapshot(queues=[vision]).to_dict())
    ended = run("check", "kueue", "-f", cluster)
    assert (ended.status, ended.lines[0]) == (1, "1 finding in kueue: DeservedBeyondLimit.")


def test_check_tells_whether_a_finding_shows_on_a_cluster(tmp_path):
    cluster = written(tmp_path, "cluster.json", CLUSTER.to_dict())
    config = written(tmp_path, "scheduler.json", NO_PREDICATES)
    assert any("on this cluster it" in line for line in run("check", config, "-f", cluster).lines)


def test_many_findings_take_at_most_a_screen(tmp_path):
    plugins = [{"name": f"mine-{place}"} for place in range(30)]
    file = written(tmp_path, "wrong.json", {"actions": "allocate", "tiers": [{"plugins": plugins}]})
    ended = run("check", file)
    assert ended.status == 1
    assert len(ended.lines) <= 40
    shown = sum(line.startswith("UnknownPlugin") for line in ended.lines)
    assert ended.lines[-1] == f"and {32 - shown} more parts: --all shows the rest"
    every = run("check", file, "--all").lines
    assert sum(line.startswith("UnknownPlugin") for line in every) == 30 > shown > 3


def test_what_cannot_be_built_is_a_finding(tmp_path):
    file = written(tmp_path, "scheduler.json", {"actions": "allocate", "tiers": 3})
    ended = run("check", file)
    assert (ended.status, "Invalid at tiers" in ended.lines) == (1, True)


def test_what_only_other_schedulers_have_is_no_finding(tmp_path):
    content = {"actions": "enqueue, reclaim, allocate, backfill"}
    file = written(tmp_path, "volcano.json", content)
    ended = run("check", file)
    assert ended.status == 0
    assert ended.out.startswith("Nothing is found wrong with")
    assert "Not modelled here, which is no mistake" in ended.lines
    assert "  action enqueue at actions[0]: does not run: every job is considered in" in ended.out
    [told] = run("check", file, "--json").data["not_modelled"]
    assert (told["name"], told["place"]) == ("enqueue", "actions[0]")


def test_a_finding_tells_the_configuration_to_use(tmp_path):
    tiers = [
        {"plugins": [{"name": "priority"}, {"name": "gang"}]},
        {"plugins": [{"name": "predicates"}, {"name": "nodeorder"}]},
    ]
    file = written(tmp_path, "protected.json", {"actions": "allocate, preempt", "tiers": tiers})
    ended = run("check", file, "--width", 200)
    assert "  to use: allocate, preempt; priority, gang (atMinimum: whole-job) | " in ended.out


def test_a_sound_configuration_has_no_findings(tmp_path):
    file = written(tmp_path, "sound.json", {"actions": "reclaim, allocate, backfill"})
    ended = run("check", file, "--width", 200)
    assert (ended.status, ended.out) == (0, f"Nothing is found wrong with {file}.\n")


# shrink


def small_job(name, count, *, queue="vision", on=None, holds=()):
    task = TaskInfo(
        uid=name,
        name=name,
        resreq=Resource(milli_cpu=1000),
        node_name=on,
        status=TaskStatus.RUNNING if on else TaskStatus.PENDING,
        holds=holds,
    )
    tasks = [evolve(task, uid=f"{name}-{i}", name=f"{name}-{i}") for i in range(count)]
    return JobInfo(name=name, queue=queue, min_available=count, tasks=tasks)


SMALL = Snapshot(
    nodes=[NodeInfo(name="rome", allocatable=Resource(milli_cpu=2000))],
    queues=[Queue(name="vision"), Queue(name="old", state=QueueStatus.CLOSED)],
    jobs=[
        small_job("train", 1, on="rome"),
        small_job("bert", 2),
        small_job("held", 1, holds=(GATE,)),
        small_job("legacy", 1, queue="old"),
    ],
)


@pytest.mark.parametrize(
    ("test", "state"),
    [
        ("waits bert", JobStatus.ROOM),
        ("state held Gated", JobStatus.GATED),
        ("state legacy queue closed", JobStatus.QUEUE_CLOSED),
    ],
)
def test_the_test_holds_on_the_smallest_cluster(test, state):
    ended = asked("shrink", "--while", test, "-c", "default", "--json", cluster=SMALL)
    assert ended.status == 0
    small = Snapshot.from_dict(ended.data)
    result = Scheduler(SchedulerConfig()).schedule(small)
    assert state in {each.state for each in standings(small, result)}
    assert len(small.jobs) == (2 if state is JobStatus.ROOM else 1)
    assert not {job.name for job in small.jobs} & {job.name for job in SMALL.jobs}
    assert all(not job.labels for job in small.jobs)


def test_the_smallest_cluster_is_told():
    ended = asked("shrink", "--while", "state legacy QueueClosed", "-c", "default", cluster=SMALL)
    assert " ".join(" ".join(ended.lines[:2]).split()) == (
        "The smallest cluster found for which the test holds (state legacy QueueClosed) has 0 "
        "nodes, 1 queue, 1 job and 1 task."
    )
    assert "before: 1 node, 2 queues, 4 jobs and 5 tasks" in ended.lines
    assert "the job of the test is called default/j1 in it" in ended.lines


def test_a_budget_ends_the_search():
    words = ["shrink", "--while", "waits bert", "-c", "default", "--budget", "9"]
    ended = asked(*words, cluster=SMALL)
    assert ended.status == 0
    assert "it may become smaller with more than 9 questions: --budget" in ended.out
    assert asked(*words[:-1], "1", cluster=SMALL).status == 2


def test_a_test_may_be_several_words_after_the_option():
    ended = asked("shrink", "--while", "state", "held", "gated", "-c", "default", cluster=SMALL)
    assert ended.status == 0


def test_a_job_that_starts_is_shrunk_too():
    cluster = Snapshot(
        nodes=CLUSTER.nodes, queues=CLUSTER.queues, jobs=[job("one", "vision", 1, 1)]
    )
    data = asked("shrink", "--while", "starts one", "-c", "default", "--json", cluster=cluster).data
    assert len(Scheduler(SchedulerConfig()).schedule(Snapshot.from_dict(data)).binds) == 1


def test_a_test_that_does_not_hold_at_first_is_told():
    ended = asked("shrink", "--while", "starts bert", "-c", "default")
    assert (ended.status, ended.out) == (
        1,
        "The test does not hold on this cluster: starts bert.\n",
    )
    assert asked("shrink", "--while", "waits train").status == 1


def test_a_function_may_be_the_test(tmp_path, monkeypatch):
    module = tmp_path / "of_mine.py"
    module.write_text(
        "def many(snapshot):\n    return len(snapshot.nodes) > 1\n"
        "def wrong(snapshot):\n    return snapshot.nothing\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    data = asked("shrink", "--while", "of_mine:many", "--json").data
    assert len(data["nodes"]) == 2
    for test, said in (
        ("of_mine:few", "has no attribute 'few'"),
        ("not_there:few", "No module named 'not_there'"),
        ("of_mine:wrong", "it raised AttributeError"),
    ):
        ended = asked("shrink", "--while", test)
        assert (ended.status, said in ended.err) == (2, True)


@pytest.mark.parametrize(
    ("test", "said"),
    [
        ("wiats bert", "did you mean waits?"),
        ("state bert gatd", "no state is called gatd; did you mean gated?"),
        ("waits brt", "no job is called brt; did you mean team/bert?"),
        ("waits", "expected one of waits JOB"),
        ("waits", "got 'waits'\n"),  # what is written right needs no suggestion
    ],
)
def test_a_test_that_is_not_known_is_told(test, said):
    ended = asked("shrink", "--while", test)
    assert (ended.status, said in ended.err) == (2, True)
    assert asked("shrink").status == 2
