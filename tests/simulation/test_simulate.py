"""What is refused, what is said, and that simulations end."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from batchsched.errors import SerialisationError, UnknownNameError
from batchsched.simulation import (
    Checkpoint,
    Consolidated,
    Easy,
    Fcfs,
    Increments,
    Job,
    JobId,
    Jobs,
    LastTwo,
    LeastAttainedService,
    Percent,
    Perfect,
    Policy,
    PolicyError,
    Requested,
    Run,
    Scaled,
    Scheduled,
    Seconds,
    SimulationError,
    Ties,
    View,
    Workload,
    WorkloadError,
    generate,
    read_muri,
    read_philly,
    read_swf,
    simulate,
)


def job(number: int, **changed: object) -> Job:
    given = {"submit": 0, "run": 10, "processors": 1, "requested": 10} | changed
    return Job(id=number, **given)  # type: ignore[arg-type]


def started(workload: Workload, **given: object) -> list[object]:
    return list(simulate(workload, Easy(), **given).jobs["start"])  # type: ignore[arg-type]


# Workloads


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"submit": -1}, r"jobs\[1\].submit: expected a time in seconds, 0 or later, got -1"),
        ({"submit": float("inf")}, r"jobs\[1\].submit: .*got inf"),
        ({"run": -5}, r"jobs\[1\].run: expected a time in seconds, 0 or more, got -5"),
        ({"run": float("nan")}, r"jobs\[1\].run: .*got nan"),
        ({"processors": 0}, r"jobs\[1\].processors: expected a whole number, 1 or more, got 0"),
        ({"processors": 1.0}, r"jobs\[1\].processors: .*got 1.0"),
        ({"processors": True}, r"jobs\[1\].processors: .*got True"),
        ({"requested": 0}, r"jobs\[1\].requested: .*above 0, or None, got 0"),
        ({"after": 7}, r"jobs\[1\].after: expected the id of a job in this workload, got 7"),
        ({"after": 1}, r"jobs\[1\].after: jobs depend on each other: 1 after 1"),
        ({"after": 2}, r"jobs depend on each other: 1 after 2 after 1"),
    ],
)
def test_jobs_that_cannot_be_are_refused(changed: dict[str, object], said: str) -> None:
    with pytest.raises(WorkloadError, match=said):
        Workload([job(1, **changed), job(2, after=1)])


def test_all_faults_are_said_at_once() -> None:
    with pytest.raises(WorkloadError) as caught:
        Workload([job(1, submit=-1, run=-1), job(2, processors=0)])
    assert len(caught.value.faults) == 3


def test_ids_are_of_one_kind_and_each_its_own() -> None:
    with pytest.raises(WorkloadError, match="expected unique ids"):
        Workload([job(1), job(1)])
    with pytest.raises(WorkloadError, match="all whole numbers or all text, got int, str"):
        Workload([job(1), Job(id="a", submit=0, run=1, processors=1)])


def test_columns_must_fit_together() -> None:
    with pytest.raises(WorkloadError, match="processors: expected a column of this name, got none"):
        Workload.from_columns({"id": [1], "submit": [0], "run": [1]})
    with pytest.raises(WorkloadError, match="runtime: unknown column"):
        Workload.from_columns({"id": [], "submit": [], "run": [], "processors": [], "runtime": []})
    with pytest.raises(WorkloadError, match="columns of equal length"):
        Workload.from_columns({"id": [1], "submit": [], "run": [], "processors": []})


def test_a_workload_can_be_cut_scaled_and_put_on_another_machine() -> None:
    workload = Workload([job(n, submit=10 * n) for n in range(1, 5)]).on(nodes=2)
    assert workload.between(20, 40).ids == (2, 3)
    assert workload.first(2).ids == (1, 2)
    assert workload.with_load(2).submits == (10, 15, 20, 25)
    assert workload.load == pytest.approx(40 / 60)
    assert workload.with_requests(lambda job: job.run * 3).requested == (30, 30, 30, 30)
    assert workload.on(nodes=3, per_node=2).machine is not None
    assert Workload([]).on(nodes=1).load == 0
    with pytest.raises(WorkloadError, match="nodes: expected a whole number, 1 or more, got 0"):
        workload.on(nodes=0)
    with pytest.raises(WorkloadError, match="factor: expected a number above 0"):
        workload.with_load(0)


def test_jobs_left_without_the_one_they_follow_follow_none() -> None:
    workload = Workload([job(1), job(2, after=1, think=5)])
    assert workload.where(lambda job: job.id == 2).after == (None,)
    assert list(workload) == [job(1), job(2, after=1, think=5)]


# What simulate refuses


def test_a_workload_without_a_machine_is_refused() -> None:
    with pytest.raises(
        SimulationError, match=r"expected a workload with a machine, got none; use workload.on"
    ):
        simulate(Workload([job(1)]), Easy())


def test_jobs_larger_than_the_machine_are_refused_all_at_once() -> None:
    workload = Workload([job(n, processors=5) for n in range(30)]).on(nodes=4)
    with pytest.raises(SimulationError) as caught:
        simulate(workload, Easy())
    assert len(caught.value.faults) == 21
    assert "jobs[0].processors: expected at most the machine's 4 processors, got 5" in str(
        caught.value
    )
    assert "10 more are larger than the machine" in str(caught.value)


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ({"workload": "jobs"}, "workload: expected a Workload, got 'jobs'"),
        ({"policy": "easy"}, r"policy: expected a policy such as Easy\(\), got 'easy'"),
        (
            {"policy": Easy(predictor="x")},
            "predictor: expected an object with the method begin.*, got 'x'",
        ),  # type: ignore[arg-type]
        (
            {"policy": Easy(corrector=3)},
            "corrector: expected an object with the method correct.*, got 3",
        ),  # type: ignore[arg-type]
        ({"policy": Scheduled(config="x")}, "config: expected a SchedulerConfig, got 'x'"),  # type: ignore[arg-type]
        (
            {"checkpoint": Checkpoint(restart="x")},
            r"checkpoint.restart: expected an object with the method seconds.*, such as ByDist",
        ),  # type: ignore[arg-type]
        ({"policy": Scheduled(queues=("q",))}, r"queues\[0\]: expected a Queue, got 'q'"),  # type: ignore[arg-type]
        ({"ties": Ties(seed=1), "passes": "twice"}, "passes: expected 'event' or 'instant'"),
    ],
)
def test_what_is_no_workload_or_policy_is_refused(what: dict[str, Any], message: str) -> None:
    given = {"workload": Workload([job(1)]).on(nodes=4), "policy": Easy()} | what
    with pytest.raises(SimulationError, match=message):
        simulate(**given)


def test_a_backfilled_job_that_ends_when_the_first_one_starts_takes_nothing_from_it() -> None:
    # Job 2 starts at 10, and leaves one processor: job 4 may have it, as job 3 is gone by then.
    jobs = [
        job(1, processors=2),
        job(2, processors=3),
        job(3),
        job(4, run=100, requested=100),
        job(5, run=100, requested=100),
    ]
    run = simulate(Workload(jobs).on(nodes=4), Easy())
    assert run.jobs["start"] == [0, 10, 0, 0, 20]


def test_what_ends_after_the_first_job_starts_does_not_hold_up_others() -> None:
    # Job 3 starts when job 1 ends, and until then job 4 does not disturb it; job 2 runs on.
    jobs = [
        job(1, processors=2),
        job(2, run=50, requested=50),
        job(3, processors=3),
        job(4),
    ]
    run = simulate(Workload(jobs).on(nodes=4), Easy())
    assert run.jobs["start"] == [0, 0, 10, 0]


def test_one_text_is_no_log() -> None:
    with pytest.raises(WorkloadError, match="lines: expected lines, got one string"):
        read_swf("; MaxProcs: 4")


def test_predictions_need_what_they_are_made_of() -> None:
    workload = Workload([job(1, requested=None), job(2)]).on(nodes=1)
    for predictor in (Requested(), Scaled(2), LastTwo()):
        with pytest.raises(SimulationError, match="1 of 2 jobs have none, the first is job 1"):
            simulate(workload, Easy(predictor=predictor))
    assert simulate(workload, Easy(predictor=Perfect())).unfinished == {}
    assert simulate(workload, Fcfs()).unfinished == {}


def nothing(**given: Any) -> Run:
    return simulate(Workload().on(nodes=1), Easy(), **given)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Workload().first(-1), "count: expected a whole number, 0 or more, got -1"),
        (lambda: generate(jobs=1, nodes=0, seed="x"), "seed: expected a whole number, got 'x'"),
        (lambda: generate(jobs=1, nodes=0, seed="x"), "nodes: expected a whole number, 1 or more"),
        (lambda: read_swf([b"1 2"]), "lines[0]: expected text, got b'1 2'; open the file as text"),
        (lambda: read_philly("a,b"), "rows: expected rows, got one string"),
        (lambda: read_muri(["a"]), "rows[0]: expected a mapping, as csv.DictReader gives it"),
    ],
)
def test_what_makes_no_workload_is_refused(make: Any, said: str) -> None:
    with pytest.raises(WorkloadError) as caught:
        make()
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Ties(order=("end",)), "Ties.order: expected each of"),
        (lambda: Ties(seed=1.5), "Ties.seed: expected a whole number or None, got 1.5"),
        (lambda: Easy(backfill="longest"), "Easy.backfill: expected 'arrival' or 'shortest'"),
        (lambda: Scaled(0), "Scaled.factor: expected a number above 0, got 0"),
        (lambda: Increments((5, 3)), "Increments.seconds: expected rising numbers"),
        (lambda: Percent(-1), "Percent.share: expected a number from 0 to 100, got -1"),
        (lambda: Percent(101), "Percent.share: expected a number from 0 to 100, got 101"),
        (lambda: Jobs("all"), "Jobs.count: expected a number, 0 or more, got 'all'"),
        (
            lambda: LeastAttainedService(limits=(5, 3)),
            "LeastAttainedService.limits: expected rising numbers of processor seconds",
        ),
        (lambda: nothing(ties="no"), "ties: expected Ties(...), got 'no'"),
        (lambda: nothing(progress=3), "progress: expected a function of two numbers, or None"),
        (lambda: nothing(end_at_request=1), "end_at_request: expected True or False, got 1"),
        (
            lambda: nothing().metrics(tau=0, warm_up=5),
            "warm_up: expected Jobs(...), Percent(...), Seconds(...) or None, got 5",
        ),
        (lambda: nothing().series("a day"), "step: expected seconds above 0, got 'a day'"),
        (lambda: nothing().shares("job"), "by: expected 'user' or 'queue', got 'job'"),
        (lambda: nothing().compare("log"), "starts: expected a Run, or a mapping from job ids"),
        (lambda: simulate(Workload(), "easy"), "policy: expected a policy such as Easy()"),
        (
            lambda: simulate(Workload().on(nodes=1), Easy(), passes="second"),
            "passes: expected 'event' or 'instant', got 'second'",
        ),
        (
            lambda: simulate(Workload().on(nodes=1), Easy()).metrics(tau=0),
            "tau: expected a number of seconds above 0, got 0",
        ),
        (
            lambda: simulate(Workload().on(nodes=1), Easy()).series(step=-1),
            "step: expected seconds above 0, got -1",
        ),
    ],
)
def test_arguments_that_cannot_be_are_refused(make: object, said: str) -> None:
    with pytest.raises(SimulationError) as caught:
        make()  # type: ignore[operator]
    assert said in str(caught.value)


# That simulations end


class Lazy(Policy):
    """Starts jobs of one processor only."""

    def decide(self, view: View) -> Iterable[JobId]:
        return [each.id for each in view.waiting[: view.free] if each.processors == 1 and view.free]


def test_a_run_in_which_nothing_can_start_any_more_ends_and_says_why() -> None:
    workload = Workload([job(1), job(2, processors=2), job(3, after=2)]).on(nodes=2)
    run = simulate(workload, Lazy())
    assert run.jobs["start"] == [0, None, None]
    assert run.unfinished == {
        2: "Lazy did not start it, with 2 processors free for its 2, and nothing else will happen",
        3: "it depends on job 2, which has not ended",
    }
    assert run.jobs["outcome"] == ["ended", "never started", "never started"]
    assert "2 jobs never ended" in str(run)
    assert run.metrics()["jobs"] == 1
    assert "never started: it depends on" in run.why(3)
    assert "0 -1 -1 -1 -1 -1 2 10 -1 5" in list(run.to_swf())[-2]


def test_a_gang_that_no_nodes_can_hold_ends_the_run() -> None:
    # Three nodes of 2: five processors are two whole nodes and one more; no single node has 3.
    workload = Workload([job(1, processors=5), job(2)]).on(nodes=3, per_node=2)
    run = simulate(workload, Fcfs(placement=Consolidated()))
    assert run.unfinished == {}
    run = simulate(workload.on(nodes=2, per_node=3), Fcfs(placement=Consolidated()))
    assert run.unfinished == {}


class Wrong(Policy):
    def __init__(self, decided: list[JobId]) -> None:
        self.decided = decided

    def decide(self, view: View) -> Iterable[JobId]:
        return self.decided


@pytest.mark.parametrize(
    ("decided", "said"),
    [
        ([9], "Wrong, at 0 s: job 9 does not wait: there is no such job yet"),
        ([1, 1], "Wrong, at 0 s: job 1 does not wait"),
        ([1, 2], "Wrong, at 0 s: job 2 does not fit"),
    ],
)
def test_policies_that_decide_what_cannot_be_are_named(decided: list[JobId], said: str) -> None:
    workload = Workload([job(1, processors=2), job(2, processors=2)]).on(nodes=3)
    with pytest.raises(PolicyError, match=said):
        simulate(workload, Wrong(decided), passes="instant")


def test_correctors_must_say_more_than_what_has_passed() -> None:
    class Stubborn:
        def correct(self, first: float, last: float, count: int, requested: float) -> float:
            return last

    workload = Workload([job(1, requested=20)]).on(nodes=1)
    policy = Easy(predictor=Scaled(0.1), corrector=Stubborn())
    with pytest.raises(
        PolicyError, match=r"to return more than the 2\.0 s that the job has run, got 2\.0 s"
    ):
        simulate(workload, policy)


# What is said of a run


def test_the_queue_of_an_example() -> None:
    # Four processors: 1 leaves one free, 2 waits for all, 3 fits beside 1 and ends in time.
    workload = Workload(
        [
            job(1, processors=3, run=100, requested=120),
            job(2, submit=1, processors=4, run=100, requested=100),
            job(3, submit=2, run=50, requested=60),
            job(4, submit=3, run=200, requested=300),
        ]
    ).on(nodes=4)
    run = simulate(workload, Easy())
    assert run.jobs["start"] == [0, 100, 2, 200]
    assert run.why(2) == (
        "job 2 (4 processors, submitted at 1 s) waited for 99 s, until 100 s.\n"
        "When it was submitted, 1 of 4 processors were free, and 0 jobs were ahead of it.\n"
        "While it waited, jobs that were ahead started on 0 processors in all, and 1 later jobs "
        "started before it (job 3).\n"
        "When it started, job 1 had just ended."
    )
    assert run.why(3).endswith("started when it was submitted.")
    with pytest.raises(UnknownNameError, match="expected the id of a job of this run, got 9"):
        run.why(9)
    comparison = run.compare({1: 0, 2: 100, 3: 200, 4: 3, 5: 0})
    assert (comparison.equal, comparison.compared) == (2, 4)
    assert (comparison.only_here, comparison.only_there) == (0, 1)
    assert comparison.first is not None
    assert comparison.first.job == 3
    assert comparison.first.state.free == 1
    assert "starts here at 2 s, there at 200 s" in str(comparison)
    assert run.series()["queued"][:5] == [0, 1, 1, 2, 2]
    assert run.series(step=100)["busy"] == [3, 4, 1, 1, 0]
    assert run.shares("user", step=100) == {"time": [0, 100, 200, 300, 400]}


def test_warm_up_and_cool_down_leave_out_those_that_end_first_and_last() -> None:
    workload = Workload([job(n, submit=10 * n) for n in range(10)]).on(nodes=1)
    run = simulate(workload, Easy())
    for warm_up, left in ((Jobs(3), 7), (Percent(25), 8), (Seconds(31), 7), (Jobs(99), 0)):
        assert run.metrics(warm_up=warm_up)["jobs"] == left
    for cool_down, left in ((Jobs(3), 7), (Percent(25), 8), (Seconds(30), 7)):
        assert run.metrics(cool_down=cool_down)["jobs"] == left


def test_jobs_end_at_their_request_unless_told_otherwise() -> None:
    workload = Workload([job(1, run=50, requested=30)]).on(nodes=1)
    run = simulate(workload, Easy())
    assert (run.jobs["end"], run.jobs["outcome"]) == ([30], ["ended at request"])
    run = simulate(workload, Easy(), end_at_request=False)
    assert (run.jobs["end"], run.jobs["outcome"]) == ([50], ["ended"])


def test_ties_decide_and_are_named() -> None:
    # At 10 a job ends early and a wide one comes: who is first decides whether 3 gets by.
    workload = Workload(
        [
            job(1, processors=2, requested=30),
            job(2, submit=1, processors=2, run=5, requested=5),
            job(3, submit=10, run=50, requested=50),
        ]
    ).on(nodes=2)
    assert "one pass after each event" in str(simulate(workload, Easy()))
    sensitivity = simulate(workload, Easy()).tie_sensitivity(orders=8, seed=3)
    assert sensitivity.orders == 8
    assert sensitivity["wait"].least <= sensitivity["wait"].here <= sensitivity["wait"].greatest
    assert str(sensitivity).startswith("8 random orders of ties")
    with pytest.raises(SimulationError, match="orders: expected a whole number, 1 or more, got 0"):
        simulate(workload, Easy()).tie_sensitivity(orders=0)
    with pytest.raises(SimulationError, match="got 'waits'"):
        simulate(workload, Easy()).tie_sensitivity(metrics=["waits"])


def test_progress_is_told() -> None:
    told: list[tuple[int, int]] = []
    workload = Workload([job(n, submit=n, run=1) for n in range(2500)]).on(nodes=2)
    simulate(workload, Easy(), progress=lambda ended, jobs: told.append((ended, jobs)))
    assert told == [(1000, 2500), (2000, 2500), (2500, 2500)]


def test_an_empty_workload_gives_an_empty_run() -> None:
    run = simulate(Workload().on(nodes=3), Easy())
    assert run.metrics()["jobs"] == 0
    assert run.series()["time"] == []
    assert run.jobs["id"] == []
    assert "0 jobs on 3 processors" in str(run)


def test_a_run_that_was_read_back_tells_what_it_cannot_do_and_what_is_wrong() -> None:
    jobs = [Job(id=1, submit=0, run=5, processors=1, requested=9)]
    written = simulate(Workload(jobs).on(nodes=1), Easy()).to_dict()
    with pytest.raises(SimulationError, match=r"policy: only the name of 'EASY .*' is known"):
        Run.from_dict(written).tie_sensitivity()
    outcome = {**written["outcome"], "unfinished": [[7, "x"]], "engin": "fast"}  # type: ignore[dict-item]
    with pytest.raises(SimulationError) as raised:
        Run.from_dict({**written, "runs": "5", "outcome": outcome})
    assert [fault.path for fault in raised.value.faults] == ["runs", "outcome.engin"]
    del outcome["engin"]
    with pytest.raises(SimulationError) as raised:
        Run.from_dict({**written, "runs": [5, 6], "outcome": outcome})
    assert [str(fault) for fault in raised.value.faults] == [
        "runs: expected one for each of 1 jobs, got 2",
        "outcome.unfinished: expected numbers of jobs, got 7",
    ]


def test_costs_of_ones_own_cannot_be_written() -> None:
    class Own:
        def seconds(self, *_: object) -> float:
            return 1

    job = Job(id=1, submit=0, run=5, processors=1, checkpoint=Checkpoint(restart=Own()))
    with pytest.raises(SerialisationError, match=r"checkpoint\[0\].restart: .*Own.* cannot"):
        Workload([job]).to_dict()


@pytest.mark.parametrize(
    ("nodes", "per_node", "told"),
    [(1, 1, "1 processor"), (3, 1, "3 processors"), (1, 2000, "1 node of 2,000 processors")],
)
def test_a_machine_is_told_in_numbers_of_nodes_or_processors(
    nodes: int, per_node: int, told: str
) -> None:
    job = Job(id=1, submit=0, run=5, processors=1, requested=5)
    run = simulate(Workload([job]).on(nodes=nodes, per_node=per_node), Easy())
    assert f": 1 job on {told}\n" in str(run)
