"""Evictions per start in closed worlds are counted alike with any tree."""

import json
from pathlib import Path

import pytest
from benchmarks.beside import ROOT
from benchmarks.closed_worlds import outcomes, row
from tests.support.clusters import cluster, job, node

FULL = cluster(
    [node("n1", "1C0G"), node("n2", "1C0G")],
    job("lo", "1C0G@n1", priority=1),
    job("mid", "1C0G@n2", priority=5),
    job("hi", "1C0G", priority=9),
)


@pytest.mark.slow
def test_worlds_of_a_file_live_until_they_come_to_rest(tmp_path: Path) -> None:
    file = tmp_path / "worlds.jsonl"
    known = [{"actions": "allocate, preempt"}, FULL.to_dict()]
    unknown = [{"actions": "levitate"}, FULL.to_dict()]
    file.write_text("".join(json.dumps(world) + "\n" for world in (known, unknown)))
    assert outcomes(file, ROOT) == [(1, 1, 1), None]


def test_a_row_has_evictions_per_start() -> None:
    found = [(1, 2, 1), (0, 2, 0), (2, 2, 30)]
    assert row("now", found) == ("now", "3", "2", "3", "6", "0.5000", "1")
