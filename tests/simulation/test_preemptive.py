"""Policies that preempt: laws, and a plain loop of rounds."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batchsched.simulation import (
    ByDistance,
    Consolidated,
    FirstFit,
    Job,
    LeastAttainedService,
    Machine,
    NoCost,
    NodeChoice,
    Policy,
    SimulationError,
    Srsf,
    Srtf,
    SrtfInRounds,
    Workload,
    simulate,
)

from .workloads import workloads

POLICIES: list[Policy] = [
    Srtf(),
    Srsf(),
    Srtf(event_cost=ByDistance(1, 2, 3)),
    LeastAttainedService(limits=(2, 9)),
    SrtfInRounds(),
    SrtfInRounds(length=2, preemption_cost=NoCost()),
]
few = settings(max_examples=60)


@pytest.mark.parametrize("policy", POLICIES, ids=str)
@few
@given(workload=workloads(), per_node=st.integers(1, 3))
def test_nothing_is_oversubscribed_and_everybody_ends(
    policy: Policy, workload: Workload, per_node: int
) -> None:
    run = simulate(workload.on(nodes=6, per_node=per_node), policy)
    assert run.unfinished == {}
    series = run.series()
    assert max(series["busy"]) <= run.machine.processors
    assert series["busy"][-1] == series["queued"][-1] == 0
    for held, time, start, submit in zip(
        run.held, run.runs, run.outcome.starts, workload.submits, strict=True
    ):
        assert held >= time
        assert start is not None
        assert start >= submit
    spans: dict[int, float] = {}
    for job, start, end in run.intervals:
        assert start >= spans.get(job, 0)
        spans[job] = end


@few
@given(workload=workloads())
def test_without_costs_no_work_is_lost(workload: Workload) -> None:
    for policy in (Srtf(), Srsf(), LeastAttainedService(limits=(2, 9))):
        run = simulate(workload, policy)
        assert run.held == pytest.approx(list(run.runs))


@few
@given(workload=workloads())
def test_on_one_processor_the_mean_response_is_the_least_possible(workload: Workload) -> None:
    """Shortest remaining time first is optimal for one processor (Schrage 1968)."""
    one = Workload(
        [Job(id=job.id, submit=job.submit, run=job.run, processors=1) for job in workload]
    ).on(nodes=1)
    best = simulate(one, Srtf()).metrics()["response"]
    for policy in (LeastAttainedService(limits=(2, 9)), SrtfInRounds(preemption_cost=NoCost())):
        assert best <= simulate(one, policy).metrics()["response"] + 1e-9


@few
@given(workload=workloads(), length=st.sampled_from([1, 2, 3]))
def test_rounds_that_are_left_out_would_change_nothing(workload: Workload, length: int) -> None:
    policy = SrtfInRounds(length=length, preemption_cost=ByDistance(1, 2, 3))
    run = simulate(workload.on(nodes=3, per_node=2), policy)
    assert run.jobs["end"] == every_round(run.workload, policy)


def every_round(workload: Workload, policy: SrtfInRounds) -> list[Any]:
    """Return when jobs end, computed round by round."""
    machine = workload.machine
    assert machine is not None
    jobs = list(workload)
    nodes = policy.placement.begin(machine)
    left = [job.run for job in jobs]
    ends: list[Any] = [None] * len(jobs)
    waiting: list[int] = []
    places: dict[int, Any] = {}
    now = jobs[0].submit
    arrived = 0
    while None in ends:
        for index in list(places):
            if left[index] < 0:
                ends[index] = now
                nodes.give_back(places.pop(index))
        while arrived < len(jobs) and jobs[arrived].submit <= now:
            waiting.append(arrived)
            arrived += 1
        quota = machine.processors
        stopped, wanted = [], []
        for index in sorted(waiting + list(places), key=lambda each: left[each]):
            if jobs[index].processors <= quota:
                quota -= jobs[index].processors
                if index in waiting:
                    wanted.append(index)
            elif index in places:
                stopped.append(index)
        for index in stopped:
            nodes.give_back(places.pop(index))
            waiting.append(index)
            left[index] += policy.preemption_cost.seconds(
                jobs[index].processors, machine.per_node, {}
            )
        for index in wanted:
            found = nodes.take(jobs[index].processors)
            if found is not None:
                places[index] = found
                waiting.remove(index)
        for index in places:
            left[index] -= policy.length
        now += policy.length
    return ends


@pytest.mark.parametrize("placement", [Consolidated(), FirstFit()], ids=str)
@given(
    sizes=st.lists(st.integers(1, 9), max_size=12),
    leaves=st.lists(st.integers(0, 20), max_size=12),
)
def test_places_are_free_ones_and_as_many_as_asked_for(
    placement: NodeChoice, sizes: list[int], leaves: list[int]
) -> None:
    nodes = placement.begin(Machine(nodes=3, per_node=4))
    used = [0, 0, 0]
    held = []
    for size, leave in zip(sizes, leaves + [99] * 12, strict=False):
        places = nodes.take(size)
        if places is not None:
            held.append(places)
            for node, count in places:
                used[node] += count
                assert used[node] <= 4
            assert sum(count for _, count in places) >= size
            assert len(places) == -(-size // 4)
        if leave < len(held):
            gone = held.pop(leave)
            nodes.give_back(gone)
            for node, count in gone:
                used[node] -= count


def test_what_can_never_be_placed_ends_the_run_and_is_named() -> None:
    class Nowhere:
        def begin(self, machine: Machine) -> Nowhere:
            return self

        def take(self, processors: int) -> None:
            return None

        def give_back(self, places: object) -> None:
            raise AssertionError

    workload = Workload([Job(id=1, submit=0, run=5, processors=2)]).on(nodes=2)
    for policy in (Srtf(placement=Nowhere()), SrtfInRounds(placement=Nowhere())):
        run = simulate(workload, policy)
        assert run.unfinished == {
            1: "its 2 processors cannot be placed on 2 processors, even if nothing else runs"
        }
        assert run.jobs["outcome"] == ["never started"]


def test_rounds_need_a_length() -> None:
    with pytest.raises(SimulationError, match=r"SrtfInRounds.length: expected seconds above 0"):
        SrtfInRounds(length=0)
