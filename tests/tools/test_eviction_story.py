"""Why a task was evicted: the scenarios of its page, and its laws over drawn clusters."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from tests.support.nightly import a_thousand_at_night
from tests.support.program import run

from batchsched import (
    ArgumentError,
    JobInfo,
    NodeInfo,
    Queue,
    Resource,
    ResourceLimit,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    TaskInfo,
    TaskStatus,
    UnknownNameError,
    schedule,
)
from batchsched.live import JobRemoved
from batchsched.testing import configs, snapshots
from batchsched.tools import (
    Broken,
    CalledIn,
    EvictionStory,
    LetGo,
    Limit,
    Priority,
    Record,
    RecordedCycle,
    Recorder,
    SameJob,
    Share,
    explain,
    explain_eviction,
)

CPU = Resource(milli_cpu=1000)


def config(actions: str, tiers: Sequence[object] = ()) -> SchedulerConfig:
    given = {"actions": actions, **({"tiers": tiers} if tiers else {})}
    return SchedulerConfig.from_mapping(given)


PREEMPT, RECLAIM = config("preempt, allocate"), config("reclaim, allocate")


def job(name: str, runs: int = 0, asks: int = 0, **more: object) -> JobInfo:
    tasks = [
        TaskInfo(
            uid=f"{name}-{n}", name=f"{name}-{n}", resreq=CPU,
            status=TaskStatus.RUNNING, node_name="n",
        )
        for n in range(runs)
    ]  # fmt: skip
    if asks:
        # After those that run, in order of UID.
        last = f"{name}-w" if runs else name
        tasks.append(TaskInfo(uid=last, name=last, resreq=asks * CPU))
    return JobInfo(**{"name": name, "queue": "q", "tasks": tasks, **more})  # type: ignore[arg-type]


def cluster(size: int, *jobs: JobInfo) -> Snapshot:
    names = dict.fromkeys(job.queue for job in jobs)
    queues = [Queue(name=name, deserved=(size // 2) * CPU) for name in names]
    return Snapshot(nodes=[NodeInfo(name="n", allocatable=size * CPU)], queues=queues, jobs=jobs)


LO_AND_HI = cluster(1, job("lo", 1), job("hi", asks=1, priority=9))


def recorded(snapshot: Snapshot, by: SchedulerConfig, cycles: int = 2) -> Record:
    recorder = Recorder(snapshot, by)
    for _ in range(cycles):
        recorder.cycle()
    return recorder.record


def test_it_left_for_a_job_of_higher_priority_which_started() -> None:
    story = explain_eviction(recorded(LO_AND_HI, PREEMPT), "lo-0")
    assert (story.cycle, story.action, story.node) == (0, "preempt", "n")
    assert (story.job, story.for_task, story.for_job) == ("default/lo", "hi", "default/hi")
    assert story.rule == Priority(claimant=9, victim=0)
    fate = story.claimant
    assert (fate.state, fate.cycle, fate.node) == ("started", 1, "n")
    assert list(story.lines()) == [
        "lo-0 (job default/lo) was evicted from n in cycle 0, by preempt, for hi (job default/hi)",
        "rule: its job has priority 0, the other one 9",
        "it helped: job default/hi started on n in cycle 1",
    ]


def test_its_queue_held_more_than_its_share() -> None:
    jobs = [job(f"b{n}", 1, queue="b", min_available=0) for n in range(8)]
    snapshot = cluster(8, *jobs, job("a", asks=3, queue="a"))
    record = recorded(snapshot, RECLAIM)
    for uid in ("b7-0", "b6-0", "b5-0"):
        story = explain_eviction(record, uid)
        rule = story.rule
        assert isinstance(rule, Share)
        assert (rule.right, rule.holder, rule.held, rule.share) == ("fair", "b", 8 * CPU, 5 * CPU)
        assert (rule.claimant, rule.claimant_held) == ("a", Resource())
        assert (rule.claimant_asked, rule.claimant_share) == (3 * CPU, 3 * CPU)
        # What b deserves is less than its share.
        assert dict(story.stayed) == {
            "covered by the fair share of queue 'b'": 4,
            "could have gone instead": 1,
        }
        assert story.with_job == ()
    assert rule.text == (
        "queue b held 8 cpu, more than its fair share of 5 cpu; "
        "queue a held nothing of its share of 3 cpu, and asked for 3 cpu"
    )


def test_a_gang_loses_what_it_does_not_need_alone() -> None:
    snapshot = cluster(3, job("e", 3, min_available=2), job("a", asks=1, priority=9))
    story = explain_eviction(recorded(snapshot, PREEMPT), "e-2")
    assert (story.with_job, story.rule) == ((), Priority(claimant=9, victim=0))
    assert sum(story.stayed.values()) == 2


def test_a_gang_that_needs_all_its_tasks_leaves_as_one() -> None:
    snapshot = cluster(3, job("e", 3, min_available=3), job("a", asks=1, priority=9))
    story = explain_eviction(recorded(snapshot, PREEMPT), "e-2")
    assert sorted(story.with_job) == ["e-0", "e-1"]


def test_it_was_in_vain_if_the_other_job_is_removed() -> None:
    recorder = Recorder(LO_AND_HI, PREEMPT)
    recorder.cycle()
    assert explain_eviction(recorder.record, "lo-0").claimant.state == "promised"
    recorder.apply(JobRemoved("default/hi"))
    recorder.cycle()
    fate = explain_eviction(recorder.record, "lo-0").claimant
    assert (fate.state, fate.why) == ("in vain", "job default/hi was removed")


def test_later_records_tell_what_came_of_it() -> None:
    first = recorded(LO_AND_HI, PREEMPT, 1)
    runs = cluster(1, job("hi", 1, priority=9))
    running = evolve(runs.jobs[0], tasks=[evolve(runs.jobs[0].tasks[0], uid="hi", name="hi")])
    after = Record(config=PREEMPT, snapshot=evolve(runs, jobs=[running]))
    assert explain_eviction(first, "lo-0", later=[after]).claimant.cycle == 1
    none = Record(config=PREEMPT, snapshot=evolve(runs, jobs=[]))
    assert explain_eviction(first, "lo-0", later=[none]).claimant.state == "in vain"


def test_a_task_takes_the_place_of_one_of_its_own_job() -> None:
    both = job("j", 1, asks=1)
    tasks = [both.tasks[0], evolve(both.tasks[1], priority=5)]
    snapshot = cluster(1, evolve(both, tasks=tasks, min_available=0))
    story = explain_eviction(recorded(snapshot, PREEMPT, 1), "j-0")
    assert story.rule == SameJob(claimant=5, victim=1)


def test_only_a_limit_was_short() -> None:
    snapshot = cluster(2, job("lo", 1), job("hi", asks=1, priority=9))
    queue = evolve(snapshot.queues[0], limit=ResourceLimit(milli_cpu=1000))
    story = explain_eviction(recorded(evolve(snapshot, queues=[queue]), PREEMPT, 1), "lo-0")
    assert isinstance(story.rule, Limit)
    assert (story.rule.claimant, story.rule.victim) == (9, 0)
    assert "limit" in story.rule.limit


def test_of_two_broken_jobs_one_is_completed_first() -> None:
    nodes = [NodeInfo(name=name, allocatable=CPU) for name in ("m", "n")]
    one, other = job("a", 1, asks=1, min_available=2), job("b", 1, asks=1, min_available=2)
    moved = [evolve(other.tasks[0], node_name="m"), other.tasks[1]]
    snapshot = Snapshot(
        nodes=nodes, queues=[Queue(name="q")], jobs=[one, evolve(other, tasks=moved)]
    )
    record = recorded(snapshot, config("allocate, preempt"), 1)
    [eviction] = record.cycles[0].result.evictions
    assert explain_eviction(record, eviction.task_uid).rule == Broken()


def test_what_runs_in_backfill_is_called_in() -> None:
    lent = job("lent", 1)
    marked = evolve(lent, tasks=[evolve(lent.tasks[0], is_backfill=True)])
    by = SchedulerConfig.from_mapping(
        {"actions": "allocate",
         "configurations": [{"name": "allocate", "arguments": {"evictBackfill": True}}]}
    )  # fmt: skip
    record = recorded(cluster(1, marked, job("a", asks=1)), by, 1)
    assert explain_eviction(record, "lent-0").rule == CalledIn()


def test_plugins_let_it_go_where_neither_priorities_nor_shares_count() -> None:
    by = config("reclaim", [{"plugins": ["gang", "conformance", "predicates"]}])
    snapshot = cluster(1, job("b", 1, queue="b", min_available=0), job("a", asks=1, queue="a"))
    story = explain_eviction(recorded(snapshot, by, 1), "b-0")
    assert story.rule == LetGo(plugins=("gang", "conformance"))
    assert story.to_dict()["rule"] == {"kind": "LetGo", "plugins": ["gang", "conformance"]}


def test_why_tells_the_rule_of_what_this_cycle_evicts() -> None:
    result = schedule(LO_AND_HI, config=PREEMPT)
    told = explain(LO_AND_HI, result, "default/lo", config=PREEMPT)
    line = "preempt evicts lo-0 from n for hi (job default/hi): its job has priority 0, the other"
    assert line in str(told)
    assert explain(LO_AND_HI, result, "default/hi", config=PREEMPT).evicted == ()


def test_what_cannot_be_told_is_said() -> None:
    record = recorded(LO_AND_HI, PREEMPT)
    with pytest.raises(UnknownNameError, match="no cycle of the record evicts a task 'hi'"):
        explain_eviction(record, "hi")
    with pytest.raises(UnknownNameError, match=r"cycle 1 does not evict .* cycles that do: 0"):
        explain_eviction(record, "lo-0", cycle=1)
    other = evolve(record, config=config("allocate"))
    with pytest.raises(ArgumentError, match="cycle 0 decides otherwise now"):
        explain_eviction(other, "lo-0")


def test_a_result_alone_is_enough() -> None:
    result = Scheduler(PREEMPT).schedule(LO_AND_HI)
    record = Record(config=PREEMPT, snapshot=LO_AND_HI, cycles=[RecordedCycle(result=result)])
    assert explain_eviction(record, "lo-0").claimant.state == "promised"


# Laws


def laws(snapshot: Snapshot, by: SchedulerConfig) -> None:
    recorder = Recorder(snapshot, by)
    results = [recorder.cycle() for _ in range(3)]
    record = recorder.record
    for cycle, result in enumerate(results):
        for each in result.evictions:
            story = explain_eviction(record, each.task_uid, cycle=cycle)
            about_eviction(story, each.action, each.for_task_uid, cycle)
            for_whom = {other.task_uid: other.for_task_uid for other in result.evictions}
            # What leaves with it leaves for the same task.
            assert {for_whom[uid] for uid in story.with_job} <= {each.for_task_uid}
            for uid in story.with_job:
                other = explain_eviction(record, uid, cycle=cycle)
                assert {uid, *other.with_job} == {each.task_uid, *story.with_job}
            in_vain(story, record, snapshot)


def about_eviction(story: EvictionStory, action: str, claimant: str, cycle: int) -> None:
    assert (story.action, story.for_task, story.cycle) == (action, claimant, cycle)
    assert story.rule != LetGo(plugins=())
    if isinstance(story.rule, Share):
        assert story.rule.dimensions
        for name in story.rule.dimensions:
            assert story.rule.held.get(name) > story.rule.share.get(name)
    assert json.loads(json.dumps(story.to_dict())) == story.to_dict()


def in_vain(story: EvictionStory, record: Record, snapshot: Snapshot) -> None:
    tasks = {task.uid for task in snapshot.job(story.for_job).tasks}
    later = [each.result for each in record.cycles[story.cycle + 1 :]]
    starts = any(bind.task_uid in tasks for result in later for bind in result.binds)
    own, last = record.cycles[story.cycle].result, record.cycles[-1].result
    starts = starts or any(bind.task_uid == story.for_task for bind in own.binds)
    promises = (*last.pipelined, *last.conditional, *last.reserved, *last.kept_promises)
    promised = any(promise.task_uid in tasks for promise in promises)
    assert (story.claimant.state == "in vain") == (not starts and not promised)


BY_SHARES = [
    config("allocate, reclaim, preempt"),
    config("reclaim, preempt, allocate"),
    config("reclaim, allocate, preempt", [
        {"plugins": ["priority", "gang"]}, {"plugins": ["drf", "predicates", "proportion"]},
    ]),
]  # fmt: skip
CONFIGS = st.one_of(st.sampled_from(BY_SHARES), configs())


@a_thousand_at_night(40)
@given(snapshots(), CONFIGS)
def test_law_each_eviction_has_its_story(snapshot: Snapshot, by: SchedulerConfig) -> None:
    laws(snapshot, by)


# The program


def test_the_program_answers(tmp_path: Path) -> None:
    jobs = [job(f"b{n}", 1, queue="b", min_available=0) for n in range(8)]
    record = recorded(cluster(8, *jobs, job("a", asks=3, queue="a")), RECLAIM)
    path = tmp_path / "cycles.jsonl"
    before = recorded(LO_AND_HI, PREEMPT)
    texts = [json.dumps(each.to_dict()) for each in (before, record)]
    path.write_text("\n".join(texts))
    ended = run("why", "b7-0", "--record", str(path), "--width", "100")
    assert (ended.status, ended.lines[0]) == (
        0,
        "b7-0 (job default/b7) was evicted from n in cycle 3, by reclaim, for a (job default/a)",
    )
    assert "it helped: job default/a started on n in cycle 4" in ended.out
    answer = run("why", "lo-0", "--record", str(path), "--json").data
    assert (answer["cycle"], answer["rule"]["kind"]) == (0, "Priority")
    unknown = run("why", "b7-1", "--record", str(path))
    assert (unknown.status, "did you mean b7-0" in unknown.err) == (2, True)
    assert run("why", "--record", str(path)).status == 2
