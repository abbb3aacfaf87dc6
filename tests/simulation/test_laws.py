"""Laws of the policies on a pool, on random workloads; each test is named after its law."""

from __future__ import annotations

import pickle
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batchsched.simulation import (
    Conservative,
    Doubling,
    Easy,
    Fcfs,
    Increments,
    JobId,
    LastTwo,
    Perfect,
    Policy,
    Requested,
    Run,
    Scaled,
    ShortestFirst,
    Ties,
    ToRequest,
    View,
    Workload,
    simulate,
)

from .reference import Plain, plain_starts
from .workloads import workloads

pytestmark = pytest.mark.slow

POLICIES: list[Policy] = [
    Fcfs(),
    ShortestFirst(),
    Easy(),
    Easy(backfill="shortest"),
    Easy(predictor=Perfect()),
    Easy(predictor=Scaled(2)),
    Easy(predictor=Scaled(0.5)),
    Easy(predictor=LastTwo(), corrector=Doubling(), backfill="shortest"),
    Easy(predictor=LastTwo(), corrector=ToRequest(), on_arrival="if-it-fits"),
    Easy(predictor=LastTwo(), corrector=Increments()),
    Conservative(),
    Conservative(predictor=Perfect()),
    Conservative(predictor=Scaled(0.5)),
    Conservative(predictor=LastTwo(), corrector=Doubling()),
]
TIES = st.sampled_from(
    [
        Ties(),
        Ties(due_first=False),
        Ties(order=("end", "arrival", "correction", "promise")),
        Ties(seed=1),
        Ties(seed=2),
    ]
)
few = settings(max_examples=15)  # for each policy
any_policy = pytest.mark.parametrize("policy", POLICIES, ids=str)


class EasyInFull(Policy):
    """EASY by its text, through the protocol for policies of one's own."""

    predictor = Requested()

    def decide(self, view: View) -> Iterable[JobId]:
        free = view.free
        queue = list(view.waiting)
        ends = [(job.expected_end or 0, job.processors) for job in view.running]
        while queue and queue[0].processors <= free:
            job = queue.pop(0)
            free -= job.processors
            ends.append((view.now + (job.estimate or 0), job.processors))
            yield job.id
        if not queue:
            return
        needed = queue[0].processors
        times = sorted({max(end, view.now) for end, _ in ends})
        by = {time: sum(n for end, n in ends if max(end, view.now) <= time) for time in times}
        shadow = next(time for time in times if free + by[time] >= needed)
        extra = free + by[shadow] - needed
        for job in queue[1:]:
            if job.processors > free:
                continue
            if view.now + (job.estimate or 0) > shadow:
                if job.processors > extra:
                    continue
                extra -= job.processors
            free -= job.processors
            yield job.id


def busy_at_most(run: Run) -> int:
    return int(max(run.series()["busy"]))


@any_policy
@few
@given(workload=workloads(bounds=False), ties=TIES, passes=st.sampled_from(["event", "instant"]))
def test_no_policy_oversubscribes_and_everybody_runs(
    policy: Policy, workload: Workload, ties: Ties, passes: str
) -> None:
    run = simulate(workload, policy, ties=ties, passes=passes)  # type: ignore[arg-type]
    assert run.unfinished == {}
    for start, submit, end, time in zip(
        run.outcome.starts, workload.submits, run.outcome.ends, run.runs, strict=True
    ):
        assert start is not None
        assert start >= submit
        assert end == start + time
    assert busy_at_most(run) <= run.machine.processors


@pytest.mark.parametrize(
    ("policy", "plain", "factor"),
    [
        (Fcfs(), "fcfs", 1),
        (ShortestFirst(), "sjf", 1),
        (Easy(), "easy", 1),
        (Easy(predictor=Scaled(2)), "easy", 2),
        (Easy(predictor=Scaled(0.5)), "easy", 0.5),
        (Easy(backfill="shortest"), "easy_sjbf", 1),
        (Easy(backfill="shortest", predictor=Scaled(0.5)), "easy_sjbf", 0.5),
        (Conservative(), "conservative", 1),
        (Conservative(predictor=Scaled(2)), "conservative", 2),
        (Conservative(predictor=Scaled(0.25)), "conservative", 0.25),
        (Conservative(predictor=Scaled(0.5)), "conservative", 0.5),
        (Conservative(predictor=Scaled(0.75)), "conservative", 0.75),
        (Conservative(predictor=Scaled(0.25), corrector=Increments()), "conservative", 0.25),
        (Conservative(predictor=Scaled(0.5), corrector=Doubling()), "conservative", 0.5),
        (Easy(predictor=Scaled(0.5), corrector=Doubling()), "easy", 0.5),
        (EasyInFull(), "easy", 1),
    ],
    ids=str,
)
@settings(max_examples=100)
@given(workload=workloads(bounds=False))
def test_starts_are_those_of_the_plain_loop(
    policy: Policy, plain: str, factor: float, workload: Workload
) -> None:
    corrector = getattr(policy, "corrector", None)
    starts = plain_starts(workload, plain, factor, corrector)
    assert simulate(workload, policy).starts_by_id() == starts


@any_policy
@few
@given(workload=workloads(bounds=False), data=st.data())
def test_the_order_of_the_input_does_not_matter(
    policy: Policy, workload: Workload, data: st.DataObject
) -> None:
    shuffled = Workload(data.draw(st.permutations(list(workload))), machine=workload.machine)
    assert shuffled == workload
    assert simulate(shuffled, policy).jobs == simulate(workload, policy).jobs


@given(workload=workloads())
def test_the_head_of_easy_starts_no_later_than_its_first_shadow_time(workload: Workload) -> None:
    promised: dict[JobId, float] = {}

    class Watched(EasyInFull):
        def decide(self, view: View) -> Iterable[JobId]:
            started = list(super().decide(view))
            left = [job for job in view.waiting if job.id not in started]
            if left:
                ends = sorted(
                    [(job.expected_end or 0, job.processors) for job in view.running]
                    + [
                        (view.now + (job.estimate or 0), job.processors)
                        for job in view.waiting
                        if job.id in started
                    ]
                )
                free = view.processors - sum(size for _, size in ends)
                for end, size in ends:
                    free += size
                    if free >= left[0].processors:
                        promised.setdefault(left[0].id, max(end, view.now))
                        break
            return started

    starts = simulate(workload, Watched()).starts_by_id()
    assert all(starts[job] <= time for job, time in promised.items())


@given(workload=workloads())
def test_no_job_starts_later_than_conservative_backfilling_promised(workload: Workload) -> None:
    """What is promised at arrival is the start if everything runs for as long as it requested."""
    starts = simulate(workload, Conservative()).starts_by_id()
    arrived: list[JobId] = []
    for job in workload:
        arrived.append(job.id)
        # Those who have arrived, with what is known of the past: who ended early by now.
        known = workload.where(lambda other: other.id in arrived)
        promise = promise_of(known, job.id, job.submit)
        assert starts[job.id] <= promise


def promise_of(workload: Workload, job: JobId, now: float) -> float:
    promises: list[float] = []

    class Watched(Plain):
        def earliest(self, job_: object, now_: float) -> float:
            time = super().earliest(job_, now_)  # type: ignore[arg-type]
            if getattr(job_, "id", None) == job and now_ == now and not promises:
                promises.append(time)
            return time

    Watched(workload, "conservative").run()
    return promises[0]


@given(workload=workloads())
def test_conservative_backfilling_with_exact_estimates_starts_nobody_later_than_fcfs(
    workload: Workload,
) -> None:
    # What takes no time cannot be planned for, and holds up others all the same.
    workload = workload.where(lambda job: job.run > 0)
    fcfs = simulate(workload, Fcfs()).starts_by_id()
    conservative = simulate(workload, Conservative(predictor=Perfect())).starts_by_id()
    assert all(conservative[job] <= fcfs[job] for job in fcfs)


@any_policy
@few
@given(workload=workloads(bounds=False))
def test_runs_can_be_pickled(policy: Policy, workload: Workload) -> None:
    run = simulate(workload, policy)
    assert pickle.loads(pickle.dumps(run)).jobs == run.jobs


@any_policy
@few
@given(workload=workloads())
def test_a_later_clock_gives_the_same_waits(policy: Policy, workload: Workload) -> None:
    later = Workload.from_columns(
        {
            "id": workload.ids,
            "submit": [submit + 1000 for submit in workload.submits],
            "run": workload.runs,
            "processors": workload.processors,
            "requested": workload.requested,
            "user": workload.users,
        },
        machine=workload.machine,
    )
    assert simulate(later, policy).jobs["wait"] == simulate(workload, policy).jobs["wait"]


@any_policy
@few
@given(workload=workloads())
def test_figures_agree_with_one_another(policy: Policy, workload: Workload) -> None:
    run = simulate(workload, policy)
    series, metrics = run.series(), run.metrics()
    assert series["queued"][-1] == series["running"][-1] == series["busy"][-1] == 0
    assert min(series["queued"]) >= 0
    area = sum(
        queued * (after - time)
        for queued, time, after in zip(
            series["queued"], series["time"], series["time"][1:], strict=False
        )
    )
    assert area == pytest.approx(metrics["wait"] * len(workload))
    assert 0 <= metrics["utilisation"] <= 1
    assert metrics["wait"] == metrics["pending"]
    shares = run.shares("queue", step=7)
    total = sum(sum(column) for name, column in shares.items() if name != "time")
    work = sum(run * size for run, size in zip(run.runs, workload.processors, strict=True))
    assert total * 7 * run.machine.processors == pytest.approx(work)


@any_policy
@few
@given(workload=workloads())
def test_series_say_at_each_time_what_the_jobs_did_then(policy: Policy, workload: Workload) -> None:
    run = simulate(workload, policy)
    series = run.series()
    columns = (run.jobs[name] for name in ("submit", "start", "end", "processors"))
    jobs = list(zip(*columns, strict=True))
    assert series["time"] == sorted({time for job in jobs for time in job[:3]})
    for row, time in enumerate(series["time"]):
        waiting = [size for submit, start, _, size in jobs if submit <= time < start]
        running = [size for _, start, end, size in jobs if start <= time < end]
        assert (series["queued"][row], series["queued_processors"][row]) == (
            len(waiting),
            sum(waiting),
        )
        assert (series["running"][row], series["busy"][row]) == (len(running), sum(running))
    sampled = run.series(step=3)
    for row, time in enumerate(sampled["time"]):
        last = max(at for at, begin in enumerate(series["time"]) if begin <= time)
        assert [sampled[name][row] for name in series if name != "time"] == [
            series[name][last] for name in series if name != "time"
        ]
