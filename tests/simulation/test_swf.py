"""Logs in the Standard Workload Format: what is read, and what is said of what cannot be."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchsched.simulation import Easy, Fcfs, Job, Machine, generate, read_swf, simulate

from .workloads import workloads

GOOD = "1 10 5 100 4 -1 -1 8 120 -1 1 7 2 3 1 2 -1 -1"


def row(**changed: object) -> str:
    """Return a line of a good job with some fields changed, by number: f4=-1."""
    words = GOOD.split()
    for name, value in changed.items():
        words[int(name[1:]) - 1] = str(value)
    return " ".join(words)


def test_a_line_becomes_a_job() -> None:
    workload, problems = read_swf(["; MaxNodes: 4", "; MaxProcs: 16", "", GOOD])
    assert problems == []
    assert list(workload) == [
        Job(
            id=1, submit=10, run=100, processors=8, requested=120, user=7, group=2, application=3,
            queue=1, partition=2, status=1,
        )
    ]  # fmt: skip
    assert workload.machine == Machine(nodes=4, per_node=4)
    assert workload.header == {"MaxNodes": "4", "MaxProcs": "16"}


def test_what_is_not_known_is_none() -> None:
    line = "1 10 -1 100 4 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1"
    workload, problems = read_swf([line])
    assert problems == []
    assert list(workload) == [Job(id=1, submit=10, run=100, processors=4)]
    assert workload.machine is None


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("1 10 5", "expected 18 numbers, got 3 (left out)"),
        (row(f4="x"), "field 4: expected a number, got 'x' (left out)"),
        (row(f4="nan"), "field 4: expected a number, got 'nan' (left out)"),
        (row(f4="1e999"), "field 4: expected a number, got '1e999' (left out)"),
        (row(f5="1.5"), "field 5: expected a whole number, got '1.5' (left out)"),
        (row(f1=-3), "job -3: expected a number of 0 or more (left out)"),
        (row(f2=-1), "job 1: expected a submission at 0 or later, got -1 (left out)"),
        (row(f4=-1), "job 1: its run time is unknown: -1 (left out)"),
        (
            row(f4=-20),
            "job 1: its run time is negative: -20 (left out)",
        ),
        (
            row(f5=-1, f8=0),
            "job 1: its number of processors is unknown: 0 requested, -1 allocated (left out)",
        ),
        (row(f9=0), "job 1: its requested time is 0 s; read as unknown"),
        (row(f9=50), "job 1: it runs for 100 s, longer than the 50 s requested"),
        (row(f8=17), "job 1: it needs 17 processors, but MaxProcs is 16"),
        (
            row(f17=9),
            "job 1: its preceding job, 9, is not in the log; ignored the dependency",
        ),
        (
            row(f17=1),
            "job 1: its preceding job, 1, is not an earlier job; ignored the dependency",
        ),
        (f"{GOOD} 5", "expected 18 numbers, got 19; ignored the rest"),
    ],
)
def test_every_deviation_is_listed_with_its_line(line: str, said: str) -> None:
    workload, problems = read_swf(["; MaxProcs: 16", row(f1=0, f2=0), line])
    assert [str(problem) for problem in problems] == [f"line 3: {said}"]
    assert len(workload) == (1 if problems[0].left_out else 2)


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ("; MaxProcs: many", "MaxProcs: expected a whole number above 0, got 'many'"),
        ("; MaxRecords: 7", "MaxRecords: expected 7 jobs, got 1"),
        ("; MaxJobs: 7", "MaxJobs: expected 7 jobs, got 1"),
        ("; Version: 1.0", "expected version 2 of the format, got '1.0'"),
    ],
)
def test_a_head_that_is_odd_is_listed(header: str, said: str) -> None:
    _, problems = read_swf([header, GOOD])
    assert [str(problem) for problem in problems] == [f"line 1: {said}"]


def test_a_second_job_of_one_number_is_left_out() -> None:
    workload, problems = read_swf([GOOD, row(f2=99)])
    assert workload.submits == (10,)
    assert [problem.line for problem in problems] == [2]


def test_lines_out_of_order_are_listed_and_sorted() -> None:
    workload, problems = read_swf([row(f1=1, f2=20), row(f1=2, f2=10)])
    assert workload.ids == (2, 1)
    assert [str(problem) for problem in problems] == [
        "line 2: job 2: it is submitted at 10, before the previous job (20)"
    ]


def test_decimals_are_read() -> None:
    workload, problems = read_swf([row(f2="10.5", f4="100.0")])
    assert problems == []
    assert (workload.submits, workload.runs) == ((10.5,), (100,))


def test_preceding_jobs_are_waited_for() -> None:
    lines = ["; MaxProcs: 16", row(f1=1, f2=0), row(f1=2, f2=5, f17=1, f18=30)]
    workload, problems = read_swf(lines)
    assert problems == []
    run = simulate(workload, Easy())
    assert run.jobs["submit"] == [0, 130]
    assert run.jobs["start"] == [0, 130]
    assert run.jobs["wait"] == [0, 0]


@given(st.lists(st.text(alphabet="0123456789 -.;:exMaxProcsnif", max_size=60), max_size=8))
def test_no_text_makes_reading_fail(lines: list[str]) -> None:
    workload, problems = read_swf(lines)
    assert all(1 <= problem.line <= len(lines) for problem in problems)
    assert len(workload) <= len(lines)


@given(st.lists(st.lists(st.integers(-3, 40), min_size=18, max_size=18), max_size=8))
def test_whatever_the_numbers_what_is_kept_can_be_simulated(numbers: list[list[int]]) -> None:
    lines = ["; MaxProcs: 50", *(" ".join(map(str, each)) for each in numbers)]
    workload, problems = read_swf(lines)
    left_out = {problem.line for problem in problems if problem.left_out}
    assert len(workload) == len(numbers) - len(left_out)
    assert simulate(workload, Fcfs()).unfinished == {}


@given(workload=workloads())
def test_a_run_written_as_a_log_reads_back_as_the_same_jobs(workload: object) -> None:
    run = simulate(workload, Fcfs())  # type: ignore[arg-type]
    again, problems = read_swf(run.to_swf())
    assert problems == []
    assert again.machine == run.machine
    for name in ("id", "submit", "processors", "requested", "user"):
        assert again.column(name) == run.workload.column(name)
    assert list(again.runs) == list(run.runs)


def test_a_workload_written_as_a_log_reads_back_as_the_same_jobs() -> None:
    log = generate(jobs=50, nodes=8, seed=1)
    again, problems = read_swf(log.to_swf())
    assert problems == []
    for name in ("id", "submit", "run", "processors", "requested", "user"):
        assert again.column(name) == log.column(name)
    assert again.machine == log.machine


def test_numbers_of_very_many_digits_are_problems() -> None:
    digits = "9" * 100_000
    _, problems = read_swf([f"; MaxProcs: {digits}", f"; MaxJobs: {digits}", f"{digits} " * 18])
    assert [problem.line for problem in problems] == [1, 3]
