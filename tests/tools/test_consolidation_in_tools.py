"""A cycle that moves tasks: compared, recorded and replayed, and foretold."""

from __future__ import annotations

import json

from attrs import evolve
from tests.actions.test_consolidate import c1, scheduler, waiting

from batchsched import CycleResult, Snapshot, TaskStatus, compare
from batchsched.live import TimePassed
from batchsched.tools import Forecast, Record, Recorder, forecast, replay, what_if

MOVES = scheduler().config
STAYS = scheduler(maxMoves=0).config


# Compared


def test_a_comparison_says_who_moves_and_why() -> None:
    told = compare(STAYS, MOVES, c1())
    kinds = {
        change.task: (change.kind, change.after.what, change.after.node) for change in told.changes
    }
    assert kinds == {"a-1": ("moved", "moved", "n2"), "c-1": ("promised", "promised", "n1")}
    assert told.parting is not None
    assert told.parting.before == "nothing more is decided"
    assert told.parting.after == "consolidate moves a-1 from n1 to n2, promises c-1 room on n1"
    assert told.parting.why == ("action 'consolidate' is configured otherwise",)
    assert told.parting.actions == ("consolidate",)
    assert "1 task of 1 job moves to another node" in str(told)


def test_the_other_way_round_it_stays() -> None:
    told = compare(MOVES, STAYS, c1())
    assert {change.task: change.kind for change in told.changes} == {
        "a-1": "stays",
        "c-1": "no longer promised",
    }
    assert "1 task of 1 job no longer moves" in str(told)


def test_an_action_that_only_one_side_has_is_the_cause() -> None:
    actions = [each for each in MOVES.actions if each.name != "consolidate"]
    told = compare(evolve(MOVES, actions=actions), MOVES, c1())
    assert told.parting is not None
    assert told.parting.why == ("action 'consolidate' runs only after",)


def test_a_configuration_that_moves_can_be_tried() -> None:
    told = what_if(c1(), MOVES, config=STAYS)
    assert [move.task_uid for move in told.result.moves] == ["a-1"]
    assert {change.task: change.kind for change in told.difference.changes} == {
        "a-1": "moved",
        "c-1": "promised",
    }


# Recorded


def recorded() -> tuple[Record, list[CycleResult]]:
    recorder = Recorder(c1(), MOVES)
    results = [recorder.cycle()]
    recorder.apply(TimePassed(5.0))
    results.append(recorder.cycle())
    return recorder.record, results


def test_a_record_of_a_move_is_replayed_with_the_same_decisions() -> None:
    record, (first, second) = recorded()
    assert [(move.task_uid, move.to_node) for move in first.moves] == [("a-1", "n2")]
    # What was decided has happened by then: a and c start where they were promised room.
    assert {bind.task_uid: bind.node_name for bind in second.binds} == {"a-1": "n2", "c-1": "n1"}
    again = Record.from_dict(json.loads(json.dumps(record.to_dict())))
    assert again == record
    for each in (record, again):
        told = replay(each)
        assert (told.cycles, told.differs_at) == (2, None)


def test_a_replay_that_moves_nothing_differs_there() -> None:
    told = replay(recorded()[0], config=STAYS)
    assert told.differs_at == 0
    assert told.difference is not None
    assert {change.task: change.kind for change in told.difference.changes} == {
        "a-1": "stays",
        "c-1": "no longer promised",
    }


# Foretold


def running_since(start: float, now: float, snapshot: Snapshot) -> Snapshot:
    """What runs has run since then, and takes 100 seconds, as does all else."""
    jobs = [
        evolve(
            one,
            estimate=100.0,
            tasks=[
                evolve(task, start_time=start) if task.status is TaskStatus.RUNNING else task
                for task in one.tasks
            ],
        )
        for one in snapshot.jobs
    ]
    return evolve(snapshot, jobs=jobs, now=now)


def median(told: Forecast, job: str) -> float | None:
    return told.jobs[f"default/{job}"].median


def test_a_forecast_moves_what_the_scheduler_would_move() -> None:
    world = running_since(50.0, 100.0, c1())
    assert median(forecast(world, config=STAYS), "c") == 150
    told = forecast(world, config=MOVES).jobs["default/c"]
    assert (told.median, dict(told.nodes), told.evicted) == (100, {"c-1": "n1"}, ())


def test_in_a_forecast_what_moved_begins_again() -> None:
    """A, moved at 100, ends at 200 and not at 150: a node is whole for z only when c ends."""
    given = c1()
    more = [*given.jobs, waiting("z", 7, creation_time=1.0)]
    world = running_since(50.0, 100.0, evolve(given, jobs=more))
    assert median(forecast(world, config=MOVES), "c") == 100
    assert median(forecast(world, config=MOVES), "z") == 200
    assert forecast(world, config=MOVES) == forecast(world, config=MOVES)
