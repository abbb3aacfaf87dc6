"""The first node where something holds is found as a plain loop finds it, in fewer questions."""

from __future__ import annotations

from unittest.mock import patch

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from tests.support.clusters import amount, cluster, job, node

from batchsched import Scheduler, SchedulerConfig
from batchsched.placement.equivalence_class import EquivalenceClass
from batchsched.placement.first_fit import FirstFit
from batchsched.placement.linear_scan import LinearScanPlacement

COUNT = 6
INDEX = st.integers(0, COUNT - 1)
EVENTS = st.one_of(
    st.just("find"),
    st.tuples(st.just("flip"), INDEX),
    st.tuples(st.just("elsewhere"), st.sets(INDEX)),
    st.just("anywhere"),
)


class Told:
    """A watch that tells what it was told."""

    def __init__(self) -> None:
        self.noted: list[set[int] | None] = []

    def changed_since(self, position: int, /) -> tuple[int, set[int] | None]:
        noted = self.noted[position:]
        if None in noted:
            return len(self.noted), None
        return len(self.noted), set().union(*[nodes for nodes in noted if nodes is not None])


@given(st.lists(st.booleans(), min_size=COUNT, max_size=COUNT), st.lists(EVENTS, max_size=30))
def test_it_finds_what_a_loop_finds_and_asks_no_other_node(holds, events) -> None:
    changes: list[int] = []
    watch = Told()
    asked: list[int] = []

    def ask(index: int) -> bool:
        asked.append(index)
        return holds[index]

    first = FirstFit(range(COUNT), ask, changes, [watch])
    for event in [*events, "find"]:
        match event:
            case "find":
                asked.clear()
                expected = next((index for index in range(COUNT) if holds[index]), None)
                assert first.find() == expected
                assert len(asked) == len(set(asked))
                assert expected is None or max(asked) == expected
            case ("flip", index):
                holds[index] = not holds[index]
                changes.append(index)
            case ("elsewhere", nodes):
                # Watches are heard when some node has changed: nothing changes by itself.
                holds = [value ^ (index in nodes) for index, value in enumerate(holds)]
                watch.noted.append(nodes)
                changes.append(0)
            case _:
                holds = [not value for value in holds]
                watch.noted.append(None)
                changes.append(0)


def test_a_node_that_does_not_do_is_asked_once_until_it_changes() -> None:
    asked: list[int] = []
    takes = [False, False, True]

    def ask(index: int) -> bool:
        asked.append(index)
        return takes[index]

    changes: list[int] = []
    first = FirstFit(range(3), ask, changes)
    assert [first.find(), first.find()] == [2, 2]
    assert asked == [0, 1, 2, 2]
    takes[1] = True
    changes += [1, 1]
    assert first.find() == 1
    takes[1] = takes[2] = False
    changes += [2, 1, 1]
    assert [first.find(), first.find()] == [None, None]
    assert asked == [0, 1, 2, 2, 1, 1, 2]


@pytest.mark.parametrize("job_count", [1, 60])
def test_backfill_asks_a_full_node_no_more(job_count: int) -> None:
    nodes = [evolve(node(f"n{i:02}", "9C9G"), max_tasks=5) for i in range(12)]
    [task] = job("j", "1C1G").tasks
    tasks = [
        evolve(task, uid=f"t{i}", name=f"t{i}", resreq=amount(""))
        for i in range(len(nodes) * 5 + 3)
    ]
    jobs = [evolve(job(f"j{i}"), tasks=tasks[i::job_count]) for i in range(job_count)]
    snapshot = cluster(nodes, *jobs)
    config = SchedulerConfig.from_mapping({"actions": "backfill"})
    with patch.object(
        EquivalenceClass, "takes_now", autospec=True, side_effect=EquivalenceClass.takes_now
    ) as takes:
        result = Scheduler(config).schedule(snapshot)
    assert result == Scheduler(config, placement=LinearScanPlacement).schedule(snapshot)
    assert len(result.binds) == len(nodes) * 5
    assert takes.call_count == len(result.binds) + len(nodes)
