"""Times from one cycle to the next: of starts, of what was attained, of eligibility, of plans."""

from attrs import evolve

from batchsched import (
    Bind,
    CycleResult,
    Dependency,
    Eviction,
    JobEvent,
    JobInfo,
    NodeInfo,
    Plan,
    Queue,
    Resource,
    Snapshot,
    TaskInfo,
    TaskStatus,
    next_snapshot,
    schedule,
)

CPU = Resource(milli_cpu=1000)


def task(uid: str, **more: object) -> TaskInfo:
    return TaskInfo(uid=uid, name=uid, resreq=CPU, **more)


def snapshot(*jobs: JobInfo, now: float = 10.0) -> Snapshot:
    node = NodeInfo(name="n1", allocatable=Resource(milli_cpu=4000))
    return Snapshot(nodes=[node], queues=[Queue(name="q")], jobs=jobs, now=now)


def job(name: str, *tasks: TaskInfo, **more: object) -> JobInfo:
    return JobInfo(name=name, queue="q", tasks=tasks, **more)


def one(found: Snapshot) -> TaskInfo:
    [[only]] = [of.tasks for of in found.jobs]
    return only


RUNS = task("t", status=TaskStatus.RUNNING, node_name="n1", start_time=4.0, attained_service=1.0)


def test_what_is_bound_holds_its_resources_since_the_time_of_the_cycle() -> None:
    first = snapshot(job("j", task("t")))
    running = next_snapshot(first, schedule(first), now=15)
    assert (one(running).status, one(running).start_time) == (TaskStatus.RUNNING, 10.0)
    bound = next_snapshot(first, schedule(first), now=15, not_started=["t"])
    assert (one(bound).status, one(bound).start_time) == (TaskStatus.BOUND, 10.0)
    assert one(next_snapshot(bound, None, now=20)).start_time == 10.0


def test_a_run_that_ends_adds_to_what_was_attained() -> None:
    first = snapshot(job("j", RUNS))
    for event in ("succeeded", "failed", "gone"):
        after = one(next_snapshot(first, None, now=20, **{event: ["t"]}))
        assert (after.attained_service, after.start_time) == (17.0, None)


def test_a_task_that_is_evicted_attains_until_it_leaves() -> None:
    first = snapshot(job("j", RUNS, min_available=0))
    evicted = Eviction(task_uid="t", node_name="n1", action="preempt", for_task_uid="t")
    leaving = next_snapshot(first, CycleResult(evictions=[evicted]), now=20, still_releasing=["t"])
    assert (one(leaving).start_time, one(leaving).attained_service) == (4.0, 1.0)
    left = next_snapshot(leaving, None, now=22)
    assert (one(left).start_time, one(left).attained_service) == (None, 19.0)


def test_a_replacement_is_told_what_was_attained() -> None:
    seen = []

    def replacement(gone: TaskInfo) -> None:
        seen.append(gone.attained_service)

    next_snapshot(snapshot(job("j", RUNS)), None, now=20, gone=["t"], replacement=replacement)
    assert seen == [17.0]


def test_a_run_whose_start_is_unknown_adds_nothing() -> None:
    first = snapshot(job("j", evolve(RUNS, start_time=None)))
    assert one(next_snapshot(first, None, now=20, gone=["t"])).attained_service == 1.0


def test_a_start_in_the_future_adds_nothing() -> None:
    first = snapshot(job("j", evolve(RUNS, start_time=50.0)))
    assert one(next_snapshot(first, None, now=20, gone=["t"])).attained_service == 1.0


AFTER_J = [Dependency(job="default/j", on=JobEvent.SUCCEEDED)]


def test_the_eligible_time_is_set_when_dependencies_first_hold() -> None:
    first = snapshot(job("j", RUNS), job("k", task("u"), depends_on=AFTER_J))
    waits = next_snapshot(first, None, now=20)
    assert waits.jobs[1].eligible_time is None
    held = next_snapshot(waits, None, now=30, succeeded=["t"])
    assert held.jobs[1].eligible_time == 30
    # What held once is enough: the other job may be removed then.
    assert next_snapshot(held, None, now=40, removed_jobs=["default/j"]).jobs[0].eligible_time == 30


def test_dependencies_that_hold_before_the_other_job_is_removed_have_held() -> None:
    first = snapshot(job("j", RUNS), job("k", task("u"), depends_on=AFTER_J))
    together = next_snapshot(first, None, now=30, succeeded=["t"], removed_jobs=["default/j"])
    assert together.jobs[0].eligible_time == 30
    gone = next_snapshot(first, None, now=30, removed_jobs=["default/j"])
    assert gone.jobs[0].eligible_time is None


def test_a_job_whose_dependencies_held_all_along_has_waited_since_it_came() -> None:
    done = job("j", task("t", status=TaskStatus.SUCCEEDED))
    waits = job("k", task("u"), depends_on=AFTER_J, creation_time=7)
    assert next_snapshot(snapshot(done, waits), None, now=20).jobs[1].eligible_time == 7
    arrived = next_snapshot(snapshot(done), None, now=20, new_jobs=[waits])
    assert arrived.jobs[1].eligible_time == 7


def test_a_job_that_comes_in_the_place_of_a_removed_one_waits_for_its_own_dependencies() -> None:
    again = job("k", task("u"), depends_on=AFTER_J, plan=Plan(start=60.0))
    first = snapshot(job("j", RUNS), job("k", task("u")))
    decided = CycleResult(planned={"default/k": Plan(start=40.0)})
    after = next_snapshot(
        first, decided, now=20, removed_jobs=["default/k"], new_jobs=[again]
    ).jobs[1]
    assert after.eligible_time is None
    assert after.plan == again.plan


def test_plans_are_those_of_the_last_cycle() -> None:
    plan = Plan(start=40.0, nodes={"t": "n1"})
    first = snapshot(job("j", task("t"), plan=Plan(start=60.0)))
    assert next_snapshot(first, None, now=20).jobs[0].plan == Plan(start=60.0)
    planned = CycleResult(planned={"default/j": plan})
    assert next_snapshot(first, planned, now=20).jobs[0].plan == plan
    started = CycleResult(binds=[Bind(task_uid="t", node_name="n1")])
    assert next_snapshot(first, started, now=20).jobs[0].plan is None
