"""Simulations that are advanced step by step are those that run at once."""

from __future__ import annotations

from random import Random

import pytest

from batchsched import SchedulerConfig
from batchsched.simulation import (
    Conservative,
    Easy,
    Fcfs,
    Increments,
    Job,
    JobCancelled,
    LeastAttainedService,
    NodeDown,
    NodeUp,
    Policy,
    PolicyError,
    Scheduled,
    Simulation,
    SimulationError,
    Start,
    Wake,
    Workload,
    simulate,
)


def workload(seed: int = 1) -> Workload:
    draw = Random(seed)
    jobs = []
    for number in range(30):
        run = draw.randint(0, 50)
        jobs.append(
            Job(
                id=number,
                submit=draw.randint(0, 100),
                run=run,
                processors=draw.randint(1, 4),
                requested=max(1, run + draw.randint(-5, 20)),
            )
        )
    return Workload(jobs).on(nodes=4)


class Restless(Policy):
    """Starts one job at a time, and asks to decide again at once."""

    def decide(self, view):
        for job in view.waiting:
            places = view.place(job)
            if places is not None:
                yield Start(job.id, places)
                yield Wake(view.now)
                return


POLICIES = [Fcfs(), Easy(corrector=Increments()), Conservative(), Scheduled(), Restless()]
GIVEN = {
    "plain": {},
    "instant": {"passes": "instant", "end_at_request": False},
    "incidents": {
        "incidents": [NodeDown(at=20, node=0), NodeUp(at=60, node=0), JobCancelled(at=30, job=5)]
    },
}


def by_events(simulation: Simulation, draw: Random) -> None:
    while simulation.to_event():
        assert simulation.next_time is None or simulation.next_time >= simulation.now


def by_times(simulation: Simulation, draw: Random) -> None:
    while not simulation.is_over:
        simulation.to_time(simulation.now + draw.choice([0, 0.5, 1, 7, 40]))


def by_decisions(simulation: Simulation, draw: Random) -> None:
    while (view := simulation.to_decision()) is not None:
        assert simulation.to_decision() is view is simulation.view
        assert simulation.is_due
        simulation.decide()


def by_all(simulation: Simulation, draw: Random) -> None:
    for _ in range(40):
        draw.choice(
            [
                simulation.to_event,
                simulation.to_decision,
                lambda: simulation.to_time(simulation.now + 3),
                lambda: simulation.view.waiting,
                lambda: simulation.is_over,
            ]
        )()


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("steps", [by_events, by_times, by_decisions, by_all])
@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_law_steps_of_any_kind_lead_to_the_same_run(policy, steps, given):
    at_once = simulate(workload(), policy, engine="general", **GIVEN[given])
    simulation = Simulation(workload(), policy, **GIVEN[given])
    steps(simulation, Random(3))
    run = simulation.finish()
    assert simulation.is_over
    assert run.outcome == at_once.outcome
    assert run.metrics() == at_once.metrics()


def test_others_may_decide_in_place_of_the_policy():
    """What EASY decides, handed over as decisions, is what EASY does."""
    simulation = Simulation(workload(), Easy())
    deciding = Easy().begin(workload())
    while (view := simulation.to_decision()) is not None:
        simulation.decide(list(deciding.decide(view)))
    assert simulation.finish().outcome == simulate(workload(), Easy(), engine="general").outcome


def test_a_configuration_stands_for_the_scheduler():
    simulation = Simulation(workload(), SchedulerConfig())
    simulation.to_time(50)
    assert simulation.now == 50
    assert repr(simulation) == f"<Simulation of {Scheduled()} at 50 s>"
    whole = simulate(workload(), SchedulerConfig())
    assert simulation.finish().jobs == whole.jobs


def test_what_cannot_be_is_an_error_and_nothing_happens():
    with pytest.raises(SimulationError, match="policy: expected a policy without an engine of its"):
        Simulation(workload(), LeastAttainedService())
    with pytest.raises(SimulationError, match="workload: expected a workload with a machine"):
        Simulation(Workload([Job(id=1, submit=0, run=1, processors=1)]), Fcfs())
    simulation = Simulation(workload(), Fcfs())
    with pytest.raises(SimulationError, match="no decision is due at 0 s"):
        simulation.decide([])
    simulation.to_time(10)
    with pytest.raises(SimulationError, match="time: expected 10 s or later"):
        simulation.to_time(9)
    assert simulation.to_decision() is not None
    with pytest.raises(PolicyError, match="does not wait"):
        simulation.decide([Start("x")])
