"""Who is owed what: the scenarios of its page, and its laws over drawn clusters."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from tests.support.nightly import a_thousand_at_night
from tests.support.program import run

from batchsched import (
    ConfigError,
    Hold,
    HoldKind,
    JobInfo,
    NodeInfo,
    Queue,
    Resource,
    SchedulerConfig,
    Snapshot,
    TaskInfo,
    TaskStatus,
    UnknownNameError,
    schedule,
)
from batchsched.testing import snapshots
from batchsched.tools import Audit, audit

CPU = Resource(milli_cpu=1000)
RECLAIM = SchedulerConfig.from_mapping({"actions": "reclaim, allocate"})


def running(*names: str, queue: str = "b", least: int = 0) -> JobInfo:
    tasks = [
        TaskInfo(uid=n, name=n, resreq=CPU, status=TaskStatus.RUNNING, node_name="n") for n in names
    ]
    return JobInfo(name=names[0], queue=queue, min_available=least, tasks=tasks)


def waits(size: int) -> JobInfo:
    return JobInfo(name="a", queue="a", tasks=[TaskInfo(uid="a", name="a", resreq=size * CPU)])


def cluster(*jobs: JobInfo) -> Snapshot:
    queues = [Queue(name=name, deserved=4 * CPU) for name in "ab"]
    return Snapshot(nodes=[NodeInfo(name="n", allocatable=8 * CPU)], queues=queues, jobs=jobs)


SINGLES = [running(f"b{number}") for number in range(8)]


def cpus(told: Audit, queue: str) -> dict[str, float]:
    each = told.queues[queue]
    parts = ("holds", "share", "deserved", "wants", "owed", "beyond", "on_loan")
    return {part: getattr(each, part).milli_cpu / 1000 for part in parts}


def test_a_queue_is_owed_what_it_asks_for_within_its_share() -> None:
    told = audit(cluster(*SINGLES, waits(3)), config=RECLAIM)
    assert cpus(told, "a") == {
        "holds": 0, "share": 3, "deserved": 4, "wants": 3, "owed": 3, "beyond": 0, "on_loan": 0,
    }  # fmt: skip
    assert cpus(told, "b") == {
        "holds": 8, "share": 5, "deserved": 4, "wants": 8, "owed": 0, "beyond": 3, "on_loan": 3,
    }  # fmt: skip
    [pair] = told.pairs
    assert (pair.owed, pair.holding, pair.amounts) == ("a", "b", 3 * CPU)
    assert (pair.tasks, pair.jobs) == (("b7", "b6", "b5"), ("default/a",))
    assert told.waiting == ()
    [line] = told.lines()
    assert line == (
        "a is owed 3 cpu; b holds 3 cpu beyond its share, 3 cpu on loan; "
        "this cycle takes 3 cpu (job default/a)"
    )


def test_a_gang_is_on_loan_as_a_whole() -> None:
    gang = running(*(f"b{number}" for number in range(8)), least=8)
    told = audit(cluster(gang, waits(1)), config=RECLAIM)
    assert cpus(told, "a")["owed"] == 1
    assert (cpus(told, "b")["beyond"], cpus(told, "b")["on_loan"]) == (1, 8)
    assert [pair.amounts for pair in told.pairs] == [8 * CPU]


def test_where_nobody_waits_nothing_is_owed() -> None:
    told = audit(cluster(*SINGLES), config=RECLAIM)
    assert cpus(told, "b")["share"] == 8
    assert (told.pairs, list(told.lines())) == ((), ["No queue is owed anything."])
    assert cpus(told, "a")["owed"] == cpus(told, "b")["beyond"] == 0


def test_where_no_action_takes_that_is_told() -> None:
    told = audit(cluster(*SINGLES, waits(3)))
    assert (cpus(told, "a")["owed"], cpus(told, "b")["beyond"]) == (3, 3)
    assert told.pairs == ()
    [job] = told.waiting
    assert (job.queue, job.standing.job, job.why) == (
        "a",
        "default/a",
        "no action takes from other queues",
    )
    assert next(told.lines()).endswith(
        "; this cycle takes nothing: no action takes from other queues"
    )


def test_without_shares_of_queues_it_says_which_plugins_have_them() -> None:
    config = SchedulerConfig.from_mapping({"tiers": [{"plugins": ["gang", "drf", "predicates"]}]})
    with pytest.raises(ConfigError, match="capacity or proportion"):
        audit(cluster(), config=config)


def test_what_only_lacks_admission_counts() -> None:
    held = evolve(waits(3), holds=[Hold(HoldKind.NOT_ADMITTED, "Kueue")])
    told = audit(cluster(*SINGLES, held), config=RECLAIM)
    assert (cpus(told, "a")["owed"], dict(told.kept_out)) == (3, {"default/a": "Kueue"})


def test_queues_above_others_have_the_sums_and_one_may_be_asked_about() -> None:
    below = cluster(*SINGLES, waits(3))
    root = Queue(name="root", deserved=8 * CPU)
    queues = [root, *(evolve(queue, parent="root") for queue in below.queues)]
    told = audit(evolve(below, queues=[*queues, Queue(name="other")]), config=RECLAIM)
    assert (cpus(told, "root")["owed"], cpus(told, "root")["beyond"]) == (3, 3)
    assert list(told.of("root").queues) == ["a", "b", "root"]
    assert [pair.owed for pair in told.of("b").pairs] == ["a"]
    with pytest.raises(UnknownNameError, match="c"):
        told.of("c")


TIERS = [
    [{"plugins": ["priority", "gang"]}, {"plugins": ["predicates", "capacity"]}],
    [{"plugins": ["priority", "gang"]}, {"plugins": ["predicates", "proportion"]}],
]
CONFIGS = [
    RECLAIM,
    SchedulerConfig.from_mapping({"actions": "allocate, reclaim, preempt"}),
    *(SchedulerConfig.from_mapping({"actions": "reclaim, allocate", "tiers": t}) for t in TIERS),
]


def laws(snapshot: Snapshot, config: SchedulerConfig) -> None:
    told, result = audit(snapshot, config=config), schedule(snapshot, config=config)
    job_of = {task.uid: job for job in snapshot.jobs for task in job.tasks}
    names = {name for each in told.queues.values() for name, _ in each.wants.dimensions()}
    for each in told.queues.values():
        if each.is_leaf:
            for name in names:
                asks = max(0, each.wants.get(name) - each.holds.get(name))
                assert 0 <= each.owed.get(name) <= asks
                assert each.beyond.get(name) == max(0, each.holds.get(name) - each.share.get(name))
    for name, each in told.queues.items():
        children = [other for other in told.queues.values() if other.parent == name]
        if children:
            for dimension in names:
                for part in ("owed", "beyond", "on_loan"):
                    total = sum(getattr(child, part).get(dimension) for child in children)
                    assert getattr(each, part).get(dimension) == total
    taken = [uid for pair in told.pairs for uid in pair.tasks]
    for_others = {
        each.task_uid
        for each in result.evictions
        if job_of[each.task_uid].queue != job_of[each.for_task_uid].queue
    }
    assert len(taken) == len(set(taken))
    assert set(taken) == for_others
    assert json.loads(json.dumps(told.to_dict())) == told.to_dict()


@a_thousand_at_night(40)
@given(snapshots(), st.sampled_from(CONFIGS))
def test_law_what_is_owed_taken_and_summed(snapshot: Snapshot, config: SchedulerConfig) -> None:
    laws(snapshot, config)


SIZES = st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 3), st.booleans()), max_size=6)


@a_thousand_at_night(60)
@given(SIZES, SIZES)
def test_law_a_queue_that_takes_was_owed_at_least_that(
    runs: list[tuple[str, int, bool]], asks: list[tuple[str, int, bool]]
) -> None:
    jobs: list[JobInfo] = []
    left = 8
    for number, (queue, size, whole) in enumerate(runs):
        if size <= left:
            left -= size
            names = [f"r{number}-{n}" for n in range(size)]
            jobs.append(running(*names, queue=queue, least=size if whole else 0))
    for number, (queue, size, _) in enumerate(asks):
        task = TaskInfo(uid=f"w{number}", name=f"w{number}", resreq=size * CPU)
        jobs.append(JobInfo(name=f"w{number}", queue=queue, tasks=[task]))
    snapshot = cluster(*jobs)
    told = audit(snapshot, config=RECLAIM)
    assert audit(cluster(*reversed(jobs)), config=RECLAIM) == told
    for pair in told.pairs:
        smallest = min(
            task.resreq.milli_cpu for uid in pair.jobs for task in snapshot.job(uid).tasks
        )
        assert told.queues[pair.owed].owed.milli_cpu >= smallest


def test_the_program_answers() -> None:
    given = json.dumps(cluster(*SINGLES, waits(3)).to_dict()).encode()
    ended = run("audit", "--width", "100", given=given)
    assert ended.status == 1
    assert ended.lines[0].startswith("a is owed 3 cpu; b holds 3 cpu beyond its share")
    assert "QUEUE" in ended.out
    of_b = run("audit", "b", "--json", given=given)
    assert (of_b.status, list(of_b.data["queues"])) == (0, ["b"])
    assert run("audit", "c", given=given).status == 2


def test_arrows_show_what_goes_from_whom_to_whom(tmp_path: Path) -> None:
    by, page = tmp_path / "config.json", tmp_path / "page.html"
    by.write_text(json.dumps({"actions": "reclaim, allocate"}))
    given = json.dumps(cluster(*SINGLES, waits(3)).to_dict()).encode()
    ended = run("audit", "--config", by, "--width", "100", given=given)
    assert ["b", "=" * 16 + ">", "a", "3", "cpu"] in [line.split() for line in ended.lines]
    assert run("audit", "--config", by, "--html", page, given=given).status == 1
    text = page.read_text()
    assert text.count('<polygon class="flow"') == text.count('<rect class="flow"') == 1
    assert "What goes from whom to whom" in text
    nobody = json.dumps(cluster(*SINGLES).to_dict()).encode()
    assert run("audit", "--config", by, "--html", page, given=nobody).status == 0
    assert "<polygon" not in page.read_text()
