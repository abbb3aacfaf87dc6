"""The published results on the log KTH-SP2 are reached to the last digit, and starts exactly."""

from __future__ import annotations

import pytest

from batchsched.simulation import (
    Conservative,
    Doubling,
    Easy,
    Fcfs,
    Increments,
    JobId,
    LastTwo,
    Percent,
    Perfect,
    Policy,
    Scaled,
    ToRequest,
    Workload,
    read_swf,
    simulate,
)

from .traces import lines

pytestmark = pytest.mark.slow

FOLDER = "kth_sp2"
LOG = f"{FOLDER}/KTH-SP2-filtered-28481.swf.gz"


def learned(corrector: Doubling | ToRequest | Increments, *, sjbf: bool) -> Easy:
    return Easy(
        predictor=LastTwo(),
        corrector=corrector,
        backfill="shortest" if sjbf else "arrival",
        on_arrival="always" if sjbf else "if-it-fits",
    )


# By policy: what it is called in the published file of all results.
ROWS: list[tuple[Policy, str]] = [
    (Easy(), "easy_backfill_scheduler_None_None"),
    (Easy(predictor=Perfect()), "easy_prediction_backfill_scheduler_predictorclairvoyant"),
    (Easy(predictor=Scaled(2)), "easy_prediction_backfill_scheduler_predictordoublereqtime"),
    (Easy(backfill="shortest"), "easy_sjbf_scheduler_None_None"),
    (
        Easy(backfill="shortest", predictor=Perfect()),
        "easy_plus_plus_scheduler_predictorclairvoyant",
    ),
    (
        Easy(backfill="shortest", predictor=Scaled(2)),
        "easy_plus_plus_scheduler_predictordoublereqtime",
    ),
    *(
        (learned(corrector, sjbf=sjbf), f"{name}_scheduler_predictortsafrir_{called}")
        for sjbf, name in ((True, "easy_plus_plus"), (False, "easy_prediction_backfill"))
        for corrector, called in (
            (Doubling(), "recursive_doubling"),
            (ToRequest(), "reqtime"),
            (Increments(), "tsafrir"),
        )
    ),
]


@pytest.fixture(scope="module")
def log() -> Workload:
    workload, problems = read_swf(lines(LOG))
    assert [str(problem) for problem in problems] == [
        "line 9: MaxRecords: expected 28490 jobs, got 28481"
    ]
    return workload


def starts_in(name: str) -> dict[JobId, float]:
    starts = dict[JobId, float]()
    for line in lines(f"{FOLDER}/{name}"):
        if not line.startswith(";"):
            job, submit, wait, *_ = map(int, line.split())
            starts[job] = submit + wait
    return starts


@pytest.mark.parametrize(("policy", "name"), ROWS, ids=[name for _, name in ROWS])
def test_a_published_row_is_reached(log: Workload, policy: Policy, name: str) -> None:
    table = f"{FOLDER}/published_metrics_KTH-SP2.txt.gz"
    [row] = [line.split() for line in lines(table) if name in line]
    metrics = simulate(log, policy).metrics(tau=10)
    assert metrics["jobs"] == int(row[2])
    assert metrics["response"] == pytest.approx(float(row[3]), rel=1e-13)
    assert metrics["response_max"] == float(row[4])
    assert metrics["bsld"] == pytest.approx(float(row[9]), rel=1e-13)
    assert metrics["bsld_max"] == pytest.approx(float(row[10]), rel=1e-13)


@pytest.mark.parametrize(
    ("policy", "name"),
    [
        (Easy(), "pyss_schedule_EASY_reqtime.swf.gz"),
        # Twice the true run times, as the last field of the schedule says.
        (Easy(predictor=Scaled(2, of=Perfect())), "pyss_schedule_EASY_2x_perfect.swf.gz"),
    ],
    ids=["requested", "twice the true run time"],
)
def test_all_starts_of_a_published_schedule_are_equal(
    log: Workload, policy: Policy, name: str
) -> None:
    comparison = simulate(log, policy).compare(starts_in(name))
    assert str(comparison) == "28,481 of 28,481 starts are equal"


def test_all_starts_of_conservative_backfilling_are_equal(log: Workload) -> None:
    run = simulate(log, Conservative())
    starts = dict[JobId, float]()
    for line in lines(f"{FOLDER}/starts_conservative.csv.gz"):
        job, start = line.strip().split(",")
        if job != "job":
            starts[int(job)] = int(start)
    assert run.compare(starts).equal == 28_481
    metrics = run.metrics()
    assert f"{metrics['bsld']:.8f}" == "88.99727497"
    assert f"{metrics['wait']:.2f}" == "7310.55"


def test_first_come_first_served_waits_for_days(log: Workload) -> None:
    assert simulate(log, Fcfs()).metrics()["wait"] == pytest.approx(354_000, rel=0.001)


def test_conventions_move_the_figures_as_is_known(log: Workload) -> None:
    run = simulate(log, Easy())
    assert f"{run.metrics(tau=1)['bsld']:.1f}" == "198.0"
    assert f"{run.metrics(tau=60)['bsld']:.2f}" == "32.24"
    assert f"{run.metrics(warm_up=Percent(1))['bsld']:.2f}" == "92.87"
    once = simulate(log, Easy(), passes="instant")
    assert f"{once.metrics()['bsld']:.8f}" == "92.68765374"
    assert once.compare(run).equal == 28_025


def test_the_machine_may_be_given_again(log: Workload) -> None:
    assert simulate(log.on(nodes=100), Easy()).jobs == simulate(log, Easy()).jobs


def test_the_log_as_the_archive_has_it_lists_what_is_odd() -> None:
    workload, problems = read_swf(lines(f"{FOLDER}/KTH-SP2-full-28489.swf.gz"))
    assert len(workload) == 28_489
    assert len([problem for problem in problems if "longer than" in problem.message]) == 475
    assert not any(problem.left_out for problem in problems)
    run = simulate(workload, Easy())
    assert run.metrics()["ended_at_request"] == 475
    assert run.metrics()["unfinished"] == 0


def test_a_run_written_as_a_log_reads_back_as_the_same_jobs(log: Workload) -> None:
    run = simulate(log, Easy())
    again, problems = read_swf(run.to_swf())
    assert problems == []
    assert again.ids == log.ids
    assert again.runs == log.runs
    assert again.users == log.users
    assert again.requested == log.requested
