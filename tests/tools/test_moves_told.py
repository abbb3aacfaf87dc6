"""Moves in answers: what is told of a job that waits for one, and of one that moves."""

from __future__ import annotations

import json
from pathlib import Path

from attrs import evolve
from tests.actions.test_consolidate import c1, running, scheduler, waiting
from tests.support.clusters import cluster, job, node
from tests.support.program import run

from batchsched import Snapshot, next_snapshot
from batchsched.tools import explain, standings

MOVER = scheduler()
STARTS_ONCE = "default/c waits, promised: promised room on n1, starts once job default/a moves"


def told(snapshot: Snapshot) -> dict[str, str]:
    """What is said of each job after a cycle."""
    result = MOVER.schedule(snapshot)
    said = standings(snapshot, result, config=MOVER.config)
    return {each.job.partition("/")[2]: each.text for each in said}


def after(snapshot: Snapshot, still: tuple[str, ...] = ()) -> Snapshot:
    """The cluster after a cycle, in which these tasks have not stopped yet."""
    result = MOVER.schedule(snapshot)
    return next_snapshot(snapshot, result, now=snapshot.now + 1, still_releasing=still)


def test_who_waits_is_told_who_moves_and_who_moves_is_told_for_whom() -> None:
    assert told(c1()) == {
        "a": "default/a runs: 1 task on n1; 1 task of it moves to n2 in this cycle, "
        "for job default/c",
        "b": "default/b runs: 1 task on n2",
        "c": f"{STARTS_ONCE} from n1 to n2",
    }


def test_it_is_told_until_it_has_left() -> None:
    snapshot = c1()
    for _ in range(2):
        snapshot = after(snapshot, still=("a-1",))
        assert told(snapshot) == {
            "a": "default/a waits, promised: promised room on n2; "
            "what moves there still has to leave n1",
            "b": "default/b runs: 1 task on n2",
            "c": f"{STARTS_ONCE} from n1 to n2",
        }
    assert told(after(snapshot)) == {
        "a": "default/a starts now: 1 task on n2",
        "b": "default/b runs: 1 task on n2",
        "c": "default/c starts now: 1 task on n1",
    }


def test_of_a_gang_the_task_is_named_that_moves() -> None:
    nodes = [node("n1", "8C8G"), node("n2", "8C8G")]
    said = told(cluster(nodes, job("a", "2C2G@n1", "2C2G@n2"), waiting("c", 8)))
    assert said["a"].endswith("; 1 task of it moves to n2 in this cycle, for job default/c")
    assert said["c"].endswith("promised room on n1, starts once task a-1 moves from n1 to n2")


def test_all_that_move_are_named() -> None:
    nodes = [node("n1", "8C8G"), node("n2", "5C5G")]
    given = cluster(
        nodes, running("a", "n1", 2), running("b", "n1", 2), running("d", "n2", 1), waiting("c", 8)
    )
    assert told(given)["c"].endswith(
        "promised room on n1, "
        "starts once job default/a moves from n1 to n2, job default/b from n1 to n2"
    )


def test_one_for_whom_some_leave_and_others_move_waits_for_both() -> None:
    given = c1()
    given = evolve(given, jobs=[*given.jobs, job("e", "1C1G!n1", minimum=1)])
    assert told(given)["c"].endswith(
        "promised room on n1, waits for e-1 to leave, starts once job default/a moves from n1 to n2"
    )


def test_an_explanation_begins_with_it() -> None:
    given = c1()
    found = explain(given, MOVER.schedule(given), "default/c", config=MOVER.config)
    assert found.summary == f"{STARTS_ONCE} from n1 to n2"
    assert str(found).startswith(found.summary)
    assert found.to_dict()["text"] == found.summary


def test_the_program_says_why(tmp_path: Path) -> None:
    snapshot, config = tmp_path / "cluster.json", tmp_path / "config.json"
    snapshot.write_text(json.dumps(c1().to_dict()))
    config.write_text(json.dumps(MOVER.config.to_dict()))
    ended = run("why", "c", "-f", snapshot, "--config", config, "--width", 200)
    assert ended.lines[0] == f"{STARTS_ONCE} from n1 to n2"
