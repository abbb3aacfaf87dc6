"""The commands `simulate`, `record` and `replay`."""

import csv
import gzip
import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.program.test_changes import CLUSTER, job
from tests.support import dumps
from tests.support.program import Terminal, run

from batchsched import Scheduler, SchedulerConfig
from batchsched.live import JobArrived
from batchsched.simulation import Conservative, Easy, Fcfs, read_swf, simulate
from batchsched.tools import Record, Recorder
from batchsched_cli.program import main

LOG = [
    "; MaxProcs: 4",
    "1 0 -1 100 3 -1 -1 3 120 -1 1 1 1 -1 -1 -1 -1 -1",
    "2 1 -1 100 4 -1 -1 4 100 -1 1 2 1 -1 -1 -1 -1 -1",
    "3 2 -1  50 1 -1 -1 1  60 -1 1 1 1 -1 -1 -1 -1 -1",
]


@pytest.fixture
def log(tmp_path):
    file = tmp_path / "log.swf"
    file.write_text("\n".join(LOG))
    return file


# simulate


def test_the_usual_policies_stand_side_by_side(log):
    ended = run("simulate", log)
    assert (ended.status, ended.err) == (0, "")
    assert " ".join(" ".join(ended.lines[:2]).split()) == (
        "A job waits least under easy, 33 s on average, and longest under fcfs, 1 min 39 s "
        "(3 jobs on 4 processors)."
    )
    head, *rows = ended.lines[-8:]
    assert head.split()[:4] == ["METRIC", "fcfs", "easy", "conservative"]
    assert rows[0].split()[:7] == ["wait", "99", "s", "33", "s", "33", "s"]


def test_metrics_are_those_of_the_library(log):
    workload, _ = read_swf(LOG)
    data = run("simulate", log, "--json").data
    for name, policy in (("fcfs", Fcfs()), ("easy", Easy()), ("conservative", Conservative())):
        expected = dict(simulate(workload, policy).metrics())
        assert data["policies"][name] == {"policy": str(policy), **expected}
    assert data["jobs"] == 3


def test_a_bar_shows_on_a_terminal_how_far_a_simulation_is(log, monkeypatch):
    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    assert main(["simulate", str(log), "--policy", "easy"]) == 0
    drawn, erased = shown.getvalue().split("\r")[1:3]
    assert drawn.strip() == f"easy [{'#' * 30}] 3 of 3 jobs"
    assert erased.isspace()


def test_policies_and_metrics_may_be_chosen(log):
    words = ["--policy", "srtf", "--policy", "easy++", "--metrics", "bsld,wait_max"]
    ended = run("simulate", log, *words)
    head, *rows = ended.lines[-3:]
    assert head.split()[:3] == ["METRIC", "srtf", "easy++"]
    assert [row.split()[0] for row in rows] == ["bsld", "wait_max"]


def test_many_policies_stand_below_one_another(log):
    names = ["fcfs", "easy", "easy-sjbf", "conservative", "srtf", "srsf", "las"]
    words = [word for name in names for word in ("--policy", name)]
    ended = run("simulate", log, *words, "--width", 60)
    head, *rows = ended.lines[-8:]
    assert head.split() == ["POLICY", "wait", "response", "bsld", "utilisation", "makespan"]
    assert [row.split()[0] for row in rows] == names
    assert all(len(line) <= 60 for line in ended.lines)


def test_a_configuration_is_a_policy(log, tmp_path):
    file = tmp_path / "mine.json"
    file.write_text(json.dumps({"actions": "allocate"}))
    data = run("simulate", log, "--policy", "default", "-c", file, "--json").data
    assert list(data["policies"]) == ["default", str(file)]
    assert data["policies"][str(file)]["policy"] == "scheduler (allocate)"


def test_jobs_are_written_as_a_table(log, tmp_path):
    out = tmp_path / "jobs.csv"
    assert run("simulate", log, "--policy", "fcfs", "--policy", "easy", "--out", out).status == 0
    rows = list(csv.DictReader(out.read_text().splitlines()))
    starts = {(row["policy"], row["id"]): row["start"] for row in rows}
    assert (len(rows), starts["fcfs", "3"], starts["easy", "3"]) == (6, "200", "2")


def test_one_run_is_written_as_a_log(log, tmp_path):
    out = tmp_path / "run.swf"
    assert run("simulate", log, "--policy", "easy", "--out", out).status == 0
    assert run("simulate", out, "--policy", "fcfs", "--metrics", "jobs").lines[-1].split()[1] == "3"
    ended = run("simulate", log, "--out", out)
    assert (ended.status, "a log has one run" in ended.err) == (2, True)


def test_a_log_may_be_compressed_and_on_another_machine(log, tmp_path):
    packed = tmp_path / "log.swf.gz"
    packed.write_bytes(gzip.compress(log.read_bytes()))
    assert run("simulate", packed).out == run("simulate", log).out
    words = ["simulate", log, "--nodes"]
    assert "(3 jobs on 2 nodes of 3 processors)." in run(*words, "2x3", "--width", 200).out
    ended = run(*words, "3", "--width", 200)
    assert "(2 jobs on 3 processors)." in ended.out
    assert ended.err == "note: 1 job larger than 3 processors left out\n"


def test_notes_have_no_control_characters(tmp_path):
    file = tmp_path / "log.swf"
    file.write_text("\n".join([LOG[0], "; MaxNodes: \x1b[31m", *LOG[1:], "4 \x1b[31m"]))
    ended = run("simulate", file)
    assert (ended.status, "\x1b" in ended.err) == (0, False)
    assert ended.err.startswith("note: ")


def test_jobs_without_a_time_limit_are_told(tmp_path):
    file = tmp_path / "log.swf"
    file.write_text("\n".join([*LOG, LOG[3].replace("3 2 ", "4 2 ").replace(" 60 ", " -1 ")]))
    ended = run("simulate", file, "--width", 200)
    assert ended.err == "note: 1 job without a time limit left out\n"
    assert "(3 jobs on" in ended.out


PHILLY = "timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-09 07:01:55,66.0,1,66.0,11cb48\n"


def test_a_published_trace_is_read(tmp_path):
    file = tmp_path / "philly.csv"
    file.write_text(PHILLY)
    ended = run("simulate", file, "--nodes", "2")
    assert ended.out.startswith(
        "A job waits 0 s on average under each policy (1 job on 2 processors)."
    )
    assert "get the true run times" in ended.err
    ended = run("simulate", file)
    assert (ended.status, "how large its machine was: give --nodes" in ended.err) == (2, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--policy", "esay"], "no policy, preset or file is called esay; did you mean easy"),
        (["--metrics", "wiat,bsldd"], "no metric is called wiat; did you mean wait"),
        (["--nodes", "0"], "--nodes: expected a number of nodes, or nodes x processors"),
        (["--nodes", "2x"], "got '2x'"),
        (["--nodes", "3", "--metrics", "nothing"], "no metric is called nothing"),
    ],
)
def test_what_a_simulation_cannot_use_is_told(log, words, said):
    ended = run("simulate", log, *words)
    assert (ended.status, ended.out, said in ended.err) == (2, "", True)


@pytest.mark.parametrize(
    "content", [b"", b"\xff\xfe", b"hello world", b"a,b\n1,2", b"; MaxProcs: 4"]
)
def test_a_file_that_is_no_log_is_told(content, tmp_path):
    file = tmp_path / "log"
    file.write_bytes(content)
    ended = run("simulate", file)
    assert (ended.status, ended.out) == (2, "")
    assert run("simulate", tmp_path / "missing").err.endswith("No such file or directory\n")


# record and replay


def test_recorded_cycles_are_decided_the_same(tmp_path):
    file = tmp_path / "cycles.jsonl"
    for number, make in enumerate((dumps.kai_gangs, dumps.native_gang), 1):
        ended = run("record", file, given=make())
        assert ended.status == 0
        assert ended.out.startswith(f"Cycle {number} is recorded in")
    ended = run("replay", file)
    assert (ended.status, ended.out) == (
        0,
        "This version decides the same in 2 of 2 recorded cycles.\n",
    )
    assert run("replay", file, "--json").data == {
        "format": "batchsched.replay",
        "version": 1,
        "cycles": 2,
        "differs_at": None,
        "difference": None,
    }


def test_a_record_that_was_changed_names_the_first_cycle_that_differs(tmp_path):
    file = tmp_path / "cycles.jsonl"
    for _ in range(3):
        run("record", file, given=dumps.kai_gangs())
    lines = file.read_text().splitlines()
    changed = json.loads(lines[1])
    assert changed["cycles"][0]["result"]["binds"]
    changed["cycles"][0]["result"]["binds"].pop()
    file.write_text("\n".join([lines[0], json.dumps(changed), lines[2]]))
    ended = run("replay", file, "--width", 500)
    assert ended.status == 1
    assert ended.lines[0] == f"This version decides otherwise, first in cycle 2 of {file}."
    data = run("replay", file, "--json").data
    assert (data["cycles"], data["differs_at"]) == (2, 1)
    assert data["difference"]["changes"]


def test_another_configuration_may_decide_otherwise(tmp_path):
    file, none = tmp_path / "cycles.jsonl", tmp_path / "none.json"
    none.write_text(json.dumps({"actions": "backfill", "tiers": [{"plugins": ["gang"]}]}))
    run("record", file, given=dumps.kai_gangs())
    assert run("replay", file, "-c", "default").status == 0
    ended = run("replay", file, "-c", none, "--width", 500)
    assert (ended.status, ended.lines[0]) == (
        1,
        f"Configuration {none} decides otherwise, first in cycle 1 of {file}.",
    )


def test_a_record_of_the_library_is_replayed(tmp_path):
    recorder = Recorder(CLUSTER)
    recorder.cycle()
    recorder.apply(JobArrived(job("more", "vision", 1, 1)))
    recorder.cycle()
    file = tmp_path / "record.json"
    file.write_text(json.dumps(recorder.record.to_dict(), indent=1))
    assert run("replay", file).out.endswith("in 2 of 2 recorded cycles.\n")


def test_what_is_recorded_is_the_cycle_of_the_cluster(tmp_path):
    file = tmp_path / "cycles.jsonl"
    given = json.dumps(CLUSTER.to_dict()).encode()
    data = run("record", file, "-c", "default", "--json", given=given).data
    expected = Scheduler(SchedulerConfig()).schedule(CLUSTER)
    assert data["result"] == json.loads(json.dumps(expected.to_dict()))
    record = Record.from_dict(json.loads(file.read_text()))
    assert (record.snapshot, record.cycles[0].result) == (CLUSTER, expected)


def test_an_empty_file_takes_records_and_has_none(tmp_path):
    file = tmp_path / "cycles.jsonl"
    file.touch()
    ended = run("replay", file)
    assert (ended.status, ended.err) == (2, f"batchsched: {file}: there are no records\n")
    assert run("record", file, given=dumps.kai_gangs()).status == 0
    assert run("replay", file).status == 0


def test_nothing_is_appended_to_what_is_no_record(tmp_path):
    file = tmp_path / "notes.txt"
    for content in ("buy milk", '{"kind": "Pod"}'):
        file.write_text(content)
        ended = run("record", file, given=dumps.kai_gangs())
        assert (ended.status, file.read_text()) == (2, content)
        assert run("replay", file).status == 2
    ended = run("record", tmp_path / "x.gz", given=dumps.kai_gangs())
    assert (ended.status, "not compressed" in ended.err) == (2, True)
    assert run("replay", tmp_path / "missing").status == 2


# Whatever they are given


RECORD = Recorder(CLUSTER)
RECORD.cycle()
CONTENT = json.dumps(RECORD.record.to_dict())
VALUES = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just([]) | st.just({})
)


def places_in(value):
    """Yield each dict or list with each of its keys."""
    for key in value if isinstance(value, dict) else range(len(value)):
        yield value, key
        if isinstance(value[key], dict | list):
            yield from places_in(value[key])


@given(data=st.data())
def test_every_record_is_replayed_or_refused(data, tmp_path_factory):
    content = json.loads(CONTENT)
    holder, key = data.draw(st.sampled_from(list(places_in(content))))
    holder[key] = data.draw(VALUES)
    file = tmp_path_factory.getbasetemp() / "changed.json"
    file.write_text(json.dumps(content)[: data.draw(st.integers(1, 1 << 20))])
    ended = run("replay", file)
    assert ended.status in (0, 1, 2)
    assert bool(ended.err.startswith("batchsched: ")) == (ended.status == 2)


@given(st.lists(st.sampled_from(LOG) | st.text(max_size=40), max_size=6), st.binary(max_size=9))
def test_every_log_is_simulated_or_refused(tmp_path_factory, lines, more):
    file = tmp_path_factory.getbasetemp() / "drawn.swf"
    file.write_bytes("\n".join(lines).encode("utf-8", "surrogatepass") + more)
    ended = run("simulate", file, "--policy", "easy")
    assert ended.status in (0, 2)
    assert (ended.status == 2) == (ended.out == "")
