"""What `why` advises, `what-if` confirms, in words that follow from the advice (law C8)."""

import re

import pytest
from tests.support import dumps
from tests.support.dumps import DUMPS
from tests.support.program import run
from tests.support.shown_dumps import DUMPS as SHOWN

WORDS = (
    (r"(\d+) more nodes? like (\S+)", "add-node {1}x{0}"),
    (r"end job (\S+)", "end {0}"),
    (r"job (\S+): minimum (\d+) instead of .*", "job {0} min={1}"),
    (r"job (\S+): priority (\d+) instead of .*", "job {0} priority={1}"),
    (r"queue (\S+): limit (\d+) GPUs instead of .*", "queue {0} limit.gpu={1}"),
    (r"release: .*|its (?:group|queue) .*", "release {job}"),
)
"""Kinds of advice, and the words for `what-if`."""


def words_of(advice, job):
    for pattern, words in WORDS:
        found = re.fullmatch(pattern, advice)
        if found is not None:
            return words.format(*found.groups(), job=job).split()
    raise AssertionError(f"no words are known for the advice {advice!r}")


@pytest.mark.parametrize("make", [*DUMPS.values(), *SHOWN.values()], ids=lambda make: make.__name__)
def test_no_change_is_advised_that_what_if_does_not_confirm(make):
    for standing in run("jobs", "--json", "--all", given=make()).data["jobs"]:
        if not standing["waits"]:
            continue
        job = standing["job"]
        told = run("why", job, "--json", given=make())
        assert told.status == 1
        for advice in told.data["would_start"]:
            ended = run("what-if", *words_of(advice, job), "--json", given=make())
            assert ended.status == 1, advice
            changes = ended.data["difference"]["changes"]
            started = {each["job"] for each in changes if each["kind"] == "starts"}
            assert job in started, advice


# Advice that nobody can follow


def with_port(pod):
    (container,) = pod["spec"]["containers"]
    container["ports"] = [{"containerPort": 9100, "hostPort": 9100, "protocol": "TCP"}]
    return pod


@pytest.mark.parametrize("words", [(), ("--scheduler", "default-scheduler")])
@pytest.mark.parametrize("kind", ["DaemonSet", "Node"])
def test_nobody_is_advised_to_end_what_its_node_starts_again(kind, words):
    """Neither does a new node help, on which it runs too."""
    owner = dumps.thing("v1", kind, "n1", namespace="" if kind == "Node" else "team")
    exporter = with_port(dumps.pod("exporter", on="n1", owner=owner))
    waits = with_port(dumps.pod("g-0", schedulingGroup={"podGroupName": "g"}))
    given = [dumps.native_group("g", 1), waits, exporter, dumps.node("n1")]
    told = run("why", "g", "--json", *words, given=given).data
    assert told["would_start"] == []
    assert told["state"] == "NeverFits"
    assert told["tried"]


@pytest.mark.parametrize(
    ("kind", "is_advised"),
    [("RayJob", False), ("LeaderWorkerSet", False), ("MPIJob", False), ("Job", True)],
)
def test_a_lower_minimum_is_advised_where_somebody_can_lower_it(kind, is_advised):
    owner = dumps.thing("v1", kind, "train")
    group = dumps.kai_group("g", minMember=2)
    notes = {"pod-group-name": "g"}
    pods = [
        dumps.pod(f"p-{i}", cpu="3", scheduler="kai-scheduler", notes=notes, owner=owner)
        for i in range(2)
    ]
    given = [owner, dumps.kai_queue("default-queue"), group, *pods, dumps.node("n1")]
    told = run("why", "g", "--json", given=given).data
    assert any("minimum 1" in each for each in told["would_start"]) is is_advised
    assert "1 more node like n1" in told["would_start"]
