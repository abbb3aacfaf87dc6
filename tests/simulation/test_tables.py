"""The tables of simulations, as libraries read them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from batchsched import NodeInfo, Resource
from batchsched.simulation import (
    Easy,
    Fcfs,
    Job,
    JobCancelled,
    Machine,
    NodeDown,
    NodeUp,
    Run,
    Scheduled,
    Workload,
    simulate,
    sweep,
)

JOBS = [
    Job(id=1, submit=0, run=10, processors=1, requested=20, user=7, queue="a"),
    Job(id=2, submit=0.5, run=3.25, processors=2, requested=5),
    Job(id=3, submit=4, run=2, processors=2, requested=5, user=None, queue="b"),
    Job(id=4, submit=4, run=2, processors=1, requested=5),
]
WORKLOAD = Workload(JOBS).on(nodes=2)
INCIDENTS = [NodeDown(at=1.5, node=0), NodeUp(at=6, node=0), JobCancelled(at=2, job=4)]
ON_NODES = simulate(WORKLOAD, Scheduled(), incidents=INCIDENTS)
RUNS = {
    "fast": simulate(WORKLOAD, Easy()),
    "general": simulate(WORKLOAD, Easy(), engine="general", incidents=INCIDENTS),
    "scheduled": ON_NODES,
    "uneven": simulate(
        Workload(
            JOBS,
            machine=Machine.of(
                [
                    NodeInfo(name="n1", allocatable=Resource(milli_cpu=2000, memory=5)),
                    NodeInfo(name="n2", allocatable=Resource(milli_cpu=1500, memory=4)),
                ]
            ),
        ),
        Fcfs(),
    ),
}


def tables(run: Run) -> dict[str, Mapping[str, list[Any]]]:
    return {
        "jobs": run.jobs,
        "series": run.series(),
        "sampled": run.series(0.5),
        "shares": run.shares("user", step=0.75),
        "nodes": run.nodes(),
        "placements": run.placements(),
    }


def read(how: str) -> Callable[[Mapping[str, list[Any]]], Any]:
    library = pytest.importorskip(how)
    reading: Callable[[Mapping[str, list[Any]]], Any] = {
        "pandas": lambda: library.DataFrame,
        "polars": lambda: library.DataFrame,
        "pyarrow": lambda: library.table,
    }[how]()
    return reading


@pytest.mark.parametrize("name", RUNS)
def test_each_column_has_one_plain_type(name):
    for table in tables(RUNS[name]).values():
        for column in table.values():
            kinds = {type(each) for each in column} - {type(None)}
            assert len(kinds) <= 1
            assert kinds <= {int, float, str}


@pytest.mark.parametrize("how", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize("name", RUNS)
def test_libraries_read_every_table(how, name):
    reading = read(how)
    for table in tables(RUNS[name]).values():
        read_table = reading(table)
        assert list(read_table.columns if how != "pyarrow" else read_table.column_names) == [*table]


@pytest.mark.parametrize("how", ["pandas", "polars", "pyarrow"])
def test_libraries_read_the_table_of_a_sweep(how):
    whole = Workload([Job(id=1, submit=0, run=10, processors=1, requested=20)]).on(nodes=2)
    table = sweep(policies={"easy": Easy(), "fcfs": Fcfs()}, variants={"w": whole, "x": WORKLOAD})
    columns = table.columns()
    for column in columns.values():
        assert len({type(each) for each in column} - {type(None)}) <= 1
    assert read(how)(columns).shape == (4, len(columns))


@pytest.mark.parametrize("name", RUNS)
def test_an_outcome_that_is_read_is_the_one_that_was_written(name):
    run = RUNS[name]
    again = Run.from_dict(json.loads(json.dumps(run.to_dict())))
    assert again.outcome == run.outcome
    assert again.outcome.nodes == run.outcome.nodes
    assert [*map(dict, tables(again).values())] == [*map(dict, tables(run).values())]
