"""In which of several clusters a job does best: the scenarios of its page, and its laws."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import pytest
from attrs import evolve
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.support.nightly import a_thousand_at_night
from tests.support.program import run

from batchsched import (
    ArgumentError,
    EventError,
    JobInfo,
    NodeInfo,
    Queue,
    Resource,
    SchedulerConfig,
    Snapshot,
    TaskInfo,
    TaskStatus,
    schedule,
)
from batchsched.live import Cluster, JobArrived
from batchsched.testing import snapshots
from batchsched.tools import AsEstimated, DispatchState, dispatch, dispatch_all, what_if

CPU = Resource(milli_cpu=1000)
CONFIG = SchedulerConfig.from_mapping({"actions": "allocate, preempt"})


def job(name: str, cpus: int, priority: int = 0, node: str | None = None) -> JobInfo:
    status = TaskStatus.PENDING if node is None else TaskStatus.RUNNING
    task = TaskInfo(uid=name, name=name, resreq=cpus * CPU, status=status, node_name=node)
    return JobInfo(name=name, queue="q", priority=priority, tasks=[task])


def cluster(cpus: int, *jobs: JobInfo, queue: str = "q") -> Snapshot:
    nodes = [NodeInfo(name="n", allocatable=cpus * CPU)]
    return Snapshot(nodes=nodes, queues=[Queue(name=queue)], jobs=jobs)


def configs(*names: str) -> Mapping[str, SchedulerConfig]:
    return dict.fromkeys(names, CONFIG)


J = job("j", 2, priority=5)
FREE = cluster(4)


def test_where_it_starts_goes_before_where_others_must_leave() -> None:
    full = cluster(2, job("r", 2, node="n"))
    found = dispatch(J, {"full": full, "free": FREE}, configs=configs("free", "full"))
    assert found.ranking == ("free", "full")
    assert (found.answers["free"].state, found.answers["free"].left) == (DispatchState.STARTS, 0.5)
    assert found.answers["full"].state is DispatchState.PROMISED
    assert found.answers["full"].evicts == ("r",)


def test_where_another_would_have_started_goes_last() -> None:
    race = cluster(2, job("w", 2))
    found = dispatch(J, {"race": race, "free": FREE}, configs=configs("free", "race"))
    assert found.ranking == ("free", "race")
    assert found.answers["race"].state is DispatchState.STARTS
    assert found.answers["race"].displaces == ("w",)


def test_of_equal_clusters_the_name_decides() -> None:
    assert dispatch(J, {"b": FREE, "a": FREE}).ranking == ("a", "b")


def test_where_no_node_is_large_enough_it_never_starts() -> None:
    found = dispatch(J, {"small": cluster(1)})
    assert found.answers["small"].state is DispatchState.NEVER
    assert "never fits" in found.answers["small"].text
    assert found.best is None
    assert str(found).startswith("default/j can start in no cluster of 1.")


def test_the_fuller_cluster_goes_first_so_that_the_other_stays_free() -> None:
    found = dispatch(J, {"empty": cluster(8), "used": cluster(8, job("r", 5, node="n"))})
    assert found.ranking == ("used", "empty")


def test_a_cluster_without_its_queue_or_that_has_it_already_never_starts_it() -> None:
    found = dispatch(
        J,
        {"other": cluster(4, queue="qq"), "there": cluster(4, evolve(J, queue="q"))},
        queue={"there": "q"},
    )
    assert found.answers["other"].text == "there is no queue 'q'; did you mean qq?"
    assert found.answers["there"].text == "a job default/j is there already"
    by_queue = dispatch(J, {"other": cluster(4, queue="qq")}, queue={"other": "qq"})
    assert by_queue.answers["other"].state is DispatchState.STARTS
    assert by_queue.answers["other"].queue == "qq"


def test_what_is_not_there_is_told_at_once() -> None:
    with pytest.raises(ArgumentError) as caught:
        dispatch(J, {"free": FREE}, queue={"fre": "q"}, configs=configs("fee"), samples=0)
    assert [str(fault) for fault in caught.value.faults] == [
        "samples: expected at least 1, got 0",
        "configs: there is no cluster 'fee'; did you mean free?",
        "queue: there is no cluster 'fre'; did you mean free?",
    ]
    with pytest.raises(ArgumentError, match="listed twice"):
        dispatch_all([J, J], {"free": FREE})
    with pytest.raises(EventError):
        dispatch(evolve(J, min_available=-1), {"free": FREE})


def test_each_job_is_sent_where_room_is_left_by_those_before_it() -> None:
    jobs = [job("c", 2), job("b", 2, priority=1), job("a", 2, priority=2)]
    found = dispatch_all(jobs, {"x": cluster(4), "y": cluster(2)})
    # a fills y to the brim; b and c go to x.
    assert [(uid, told.best) for uid, told in found.items()] == [
        ("default/a", "y"),
        ("default/b", "x"),
        ("default/c", "x"),
    ]
    assert found["default/c"].answers["y"].state is DispatchState.WAITS


def test_a_living_cluster_stays_as_it_is() -> None:
    living = Cluster(FREE)
    found = dispatch_all([J], {"free": living})
    assert found["default/j"].best == "free"
    assert living.snapshot() == FREE


def test_where_it_waits_everywhere_the_shorter_wait_goes_first() -> None:
    running = {
        name: evolve(
            (r := job("r", 4, priority=9, node="n")),
            estimate=seconds,
            tasks=[evolve(r.tasks[0], start_time=0.0)],
        )
        for name, seconds in (("long", 900.0), ("short", 60.0))
    }
    clusters = {name: cluster(4, each) for name, each in running.items()}
    assert dispatch(J, clusters).ranking == ("long", "short")
    found = dispatch(J, clusters, estimates=AsEstimated())
    assert found.ranking == ("short", "long")
    assert [found.answers[name].waits for name in found.ranking] == [60.0, 900.0]


def test_the_program_ranks_the_clusters_that_are_given() -> None:
    dumps = Path(__file__).parents[2] / "examples" / "dumps"
    files = ["-f", str(dumps / "kueue.json"), "-f", str(dumps / "kubernetes.json")]
    manifest = str(dumps.parent / "train.json")
    ended = run("where", manifest, *files, "--json")
    [told] = json.loads(ended.out)["jobs"]
    assert (ended.status, told["ranking"], told["best"]) == (1, ["kueue", "kubernetes"], "kueue")
    assert told["answers"]["kueue"]["queue"] == "research"
    assert told["answers"]["kubernetes"]["state"] == "Never"
    assert run("where", manifest).status == 2
    ended = run("where", manifest, *files, "--run-time", "1h", "--json")
    assert json.loads(ended.out)["jobs"][0]["answers"]["kueue"]["waits"] == 3600.0
    assert "given twice" in run("where", manifest, *files[:2], *files[:2]).err


WORLDS = st.lists(snapshots(), min_size=2, max_size=3)
"""Some small clusters, to which the same job is sent."""


def submitted(world: Snapshot, cpus: int, priority: int) -> JobInfo:
    sent = job("sent", cpus, priority)
    return evolve(sent, queue=min(queue.name for queue in world.queues))


@given(worlds=WORLDS, cpus=st.integers(0, 4), priority=st.integers(0, 9))
@a_thousand_at_night(60)
def test_each_answer_is_that_of_what_if_and_no_other_cluster_changes_it(
    worlds: list[Snapshot], cpus: int, priority: int
) -> None:
    assume(all(world.queues for world in worlds))
    clusters = {f"c{number}": world for number, world in enumerate(worlds)}
    sent = submitted(worlds[0], cpus, priority)
    of = configs(*clusters)
    found = dispatch(sent, clusters, configs=of)
    assert dispatch(sent, dict(reversed(clusters.items())), configs=of) == found
    for name, world in clusters.items():
        answer = found.answers[name]
        alone = dispatch(sent, {name: world}, configs={name: CONFIG})
        assert alone.answers == {name: answer}
        if sent.queue not in {queue.name for queue in world.queues}:
            assert answer.state is DispatchState.NEVER
            continue
        told = what_if(world, JobArrived(sent), config=CONFIG)
        assert (answer.state is DispatchState.STARTS) is any(
            bind.task_uid == "sent" for bind in told.result.binds
        )
        if not told.kept_out:
            before = schedule(world, config=CONFIG)
            gone = {each.task_uid for each in told.result.evictions}
            assert set(answer.evicts) == gone - {each.task_uid for each in before.evictions}


@given(worlds=WORLDS, cpus=st.integers(0, 4), priority=st.integers(0, 9))
@a_thousand_at_night(60)
def test_of_one_state_the_less_harm_goes_first(
    worlds: list[Snapshot], cpus: int, priority: int
) -> None:
    assume(all(world.queues for world in worlds))
    clusters = {f"c{number}": world for number, world in enumerate(worlds)}
    found = dispatch(submitted(worlds[0], cpus, priority), clusters, configs=configs(*clusters))
    ranked = [found.answers[name] for name in found.ranking]
    places = [list(DispatchState).index(answer.state) for answer in ranked]
    assert places == sorted(places)
    for first, second in pairwise(ranked):
        assert first.state is not second.state or first.harm <= second.harm


@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=6),
    priorities=st.lists(st.integers(0, 2), min_size=6, max_size=6),
    cpus=st.integers(1, 9),
)
@a_thousand_at_night(60)
def test_on_one_cluster_it_starts_what_one_cycle_starts(
    sizes: list[int], priorities: list[int], cpus: int
) -> None:
    config = SchedulerConfig.from_mapping(
        {"actions": "allocate", "tiers": [{"plugins": ["priority", "gang", "predicates"]}]}
    )
    jobs = [job(f"j{at}", size, priorities[at]) for at, size in enumerate(sizes)]
    found = dispatch_all(jobs, {"one": cluster(cpus)}, configs={"one": config})
    started = {
        uid for uid, told in found.items() if told.answers["one"].state is DispatchState.STARTS
    }
    at_once = schedule(cluster(cpus, *jobs), config=config)
    assert started == {f"default/{bind.task_uid}" for bind in at_once.binds}
