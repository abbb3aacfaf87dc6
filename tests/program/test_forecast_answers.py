"""The command when: sentences, tables, bars, and where run times are from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support import dumps
from tests.support.program import run

DUMP = Path(__file__).parents[2] / "examples" / "dumps" / "kubernetes.json"


def ended_job(name: str, hours: int, **more: Any) -> dict[str, Any]:
    """A Job that took so many hours."""
    status = {
        "startTime": "2026-11-19T00:00:00Z",
        "completionTime": f"2026-11-19T{hours:02}:00:00Z",
        **more,
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "team", "uid": name},
        "status": status,
    }


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """A file with Jobs of the program that runs in the dump, since two hours."""
    runs = [ended_job(f"sweep{n}", n) for n in range(1, 8)]
    failed = {"type": "Failed", "status": "True", "lastTransitionTime": "2026-11-19T08:00:00Z"}
    runs.append(ended_job("sweep8", 0, completionTime=None, conditions=[failed]))
    file = tmp_path / "jobs.json"
    file.write_text(json.dumps({"kind": "List", "items": [*runs, {"kind": "Job", "status": 5}]}))
    return file


def test_a_sentence_says_when_a_job_starts_and_after_whom() -> None:
    told = run("when", "my-job", "-f", DUMP, "--run-time", "3h")
    assert told.status == 0
    assert told.lines[0] == "team/my-job starts in about 1 h, after team/sweep"


def test_a_history_makes_an_interval_of_what_is_longer_than_the_age(history: Path) -> None:
    told = run("when", "my-job", "-f", DUMP, "--history", history, "--width", 200)
    assert told.lines[0] == (
        "team/my-job starts in about 2 h (in 10 of 10 futures between 1 h and 6 h), "
        "after team/sweep"
    )
    assert "run times: 8 jobs that ended, estimates and limits of jobs" in told.out
    data = run("when", "my-job", "-f", DUMP, "--history", history, "--json").data
    [job] = data["jobs"].values()
    assert len(job["starts"]) == 10
    assert data["lines"] == [told.lines[0]]
    more = run("when", "my-job", "-f", DUMP, "--history", history, "--samples", 3, "--json").data
    assert more["samples"] == 3


def test_without_a_run_time_what_has_no_end_is_named_with_what_to_say() -> None:
    told = run("when", "-f", DUMP)
    assert told.status == 1
    assert told.lines[0] == "3 jobs wait; none of them starts."
    assert "1 job has no known end" in told.out
    assert "--run-time TIME says" in told.out


def test_a_table_tells_all_and_a_page_shows_bars(tmp_path: Path, history: Path) -> None:
    told = run("when", "-f", DUMP, "--history", history, "--width", 120)
    assert told.lines[0].startswith("3 jobs wait; 1 of them starts within about ")
    assert any(line.startswith("team/my-job") and "|" in line for line in told.lines)
    page = tmp_path / "when.html"
    assert run("when", "-f", DUMP, "--history", history, "--html", page).status == 1
    text = page.read_text()
    assert '<rect class="span"' in text
    assert '<rect class="median"' in text
    assert "<title>earliest, median and latest</title>" in text


@pytest.mark.parametrize("text", ["soon", "", "2 h", "-1h", "h"])
def test_a_run_time_that_is_none_is_told(text: str) -> None:
    told = run("when", "-f", DUMP, f"--run-time={text}")
    assert told.status == 2
    assert "--run-time: expected a duration" in told.err


def test_names_and_files_that_are_not_there_are_told() -> None:
    assert run("when", "nobody", "-f", DUMP).status == 2
    assert run("when", "-f", DUMP, "--history", "nowhere.json").status == 2


def test_what_is_evicted_is_told_by_name_and_not_by_uid() -> None:
    objects = [
        dumps.node("n1", "1"),
        dumps.native_group("hi", 1, priority=9),
        *dumps.members("hi", 1, priority=9),
        dumps.pod("plain", on="n1"),
    ]
    ended = run("when", "hi", "--run-time", "1h", "--width", "200", given=objects)
    assert "evicting team/plain" in ended.lines[0]
