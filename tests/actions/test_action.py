"""What actions share: which tasks there are to place, and whose turn they have."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.books import opened
from tests.support.clusters import cluster, job, node

import batchsched.actions
from batchsched import Session
from batchsched.action import has_task_to_place, jobs_by_queue, tasks_to_place


def session() -> Session:
    return opened(
        cluster(
            [node("n1", "9C9G")],
            job("a", "1C1G@n1", "1C1G", "", "1C1G"),
            job("b", "", "1C1G@n1", minimum=1, queue="r"),
            job("c", "1C1G@n1"),
            job("d", "0C1G"),
            queues=("q", "r"),
        ),
        ["priority"],
    )


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a", ["a-2", "a-4"]),
        ("b", []),  # what waits asks for nothing, and what asks for something runs
        ("c", []),
        ("d", ["d-1"]),
    ],
)
def test_tasks_to_place_are_those_that_wait_and_ask_for_something(
    name: str, expected: list[str]
) -> None:
    of = session()
    one = of.jobs[f"default/{name}"]
    assert [task.uid for task in tasks_to_place(of, one)] == expected
    assert has_task_to_place(one) is bool(expected)


def test_jobs_stay_in_order_within_their_queue() -> None:
    of = session()
    by_queue = jobs_by_queue(reversed(of.jobs.values()))
    assert {queue.name: [one.info.name for one in jobs] for queue, jobs in by_queue.items()} == {
        "q": ["d", "c", "a"],
        "r": ["b"],
    }


def test_actions_need_nothing_of_a_session_but_itself() -> None:
    folder = Path(batchsched.actions.__file__).parent
    files = sorted(folder.rglob("*.py"))
    assert len(files) > 10
    assert [file.name for file in files if "ledger" in file.read_text(encoding="utf-8")] == []
