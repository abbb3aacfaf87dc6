"""What is covered, kept up to date, is what going through all units from the first gives."""

from __future__ import annotations

from fractions import Fraction
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.plugins.capacity.worlds import amount, job

from batchsched import NodeInfo, Queue, Scheduler, Snapshot, TaskStatus
from batchsched.live import Cluster, TaskSucceeded
from batchsched.plugins.capacity import cover
from batchsched.plugins.capacity.cover import Cover
from batchsched.plugins.capacity.loan_index import LoanIndex
from batchsched.plugins.capacity.node_loans import NodeLoans
from batchsched.state.records import JobState, TaskState
from batchsched.state.units import EvictionUnit

Jobs = dict[str, list[EvictionUnit]]


def task_of(uid: str, size: tuple[int, ...], *, backfill: bool, node: int) -> TaskState:
    fields = {"uid": uid, "resreq": size, "is_backfill": backfill, "status": TaskStatus.RUNNING}
    return cast("TaskState", SimpleNamespace(**fields, node=SimpleNamespace(index=node)))


def units_of_job(uid: str, random: Random) -> list[EvictionUnit]:
    """A core, or none, and up to five tasks besides, of which each uses little or much."""
    owner = cast("JobState", SimpleNamespace(uid=uid))
    found: list[EvictionUnit] = []
    for number in range(random.randrange(7)):
        kind = 0 if number == 0 and random.random() < 0.8 else 2
        size = (random.choice((0, 1, 1, 2, 9)), random.choice((0, 0, 1, 5)))
        backfill = random.random() < 0.1
        task = task_of(f"{uid}-{number}", size, backfill=backfill, node=random.randrange(4))
        value = (kind, (random.randrange(3), task.uid))
        found.append(EvictionUnit(owner, [task], [task], value))
    return found


def by_a_plain_loop(
    jobs: Jobs, share: list[int | Fraction]
) -> tuple[set[EvictionUnit], tuple[int, ...]]:
    covered: set[EvictionUnit] = set()
    exposed: set[str] = set()
    used = [0, 0]
    for unit in sorted((u for units in jobs.values() for u in units), key=lambda u: u.value):
        if unit.is_backfill or (not unit.is_core and unit.job.uid in exposed):
            continue
        if all(not a or u + a <= s for a, u, s in zip(unit.size, used, share, strict=True)):
            covered.add(unit)
            used = [u + a for u, a in zip(used, unit.size, strict=True)]
        elif unit.is_core:
            exposed.add(unit.job.uid)
    return covered, (used[0], used[1])


@pytest.mark.parametrize("block", [1, 2, 64])
@settings(max_examples=40)
@given(seed=st.integers(0, 2**32))
def test_what_is_covered_is_what_a_plain_loop_over_all_units_covers(block: int, seed: int) -> None:
    random = Random(seed)
    jobs = {f"j{number}": units_of_job(f"j{number}", random) for number in range(8)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cover, "_SIZE", block)
        found = Cover(jobs.items(), 2)
        for _ in range(12):
            share: list[int | Fraction] = [random.randrange(40), random.randrange(25)]
            if random.random() < 0.3:
                share = [each * Fraction(11, 10) for each in share]
            changed = random.sample(sorted(jobs), random.randrange(3))
            for uid in changed:
                kept = [unit for unit in jobs[uid] if random.random() < 0.5]
                values = {unit.value for unit in kept}
                new = [unit for unit in units_of_job(uid, random) if unit.value not in values]
                if any(unit.is_core for unit in kept):
                    new = [unit for unit in new if not unit.is_core]
                jobs[uid] = kept + new
                found.replace(uid, jobs[uid])
            before = {u for units in jobs.values() for u in units if u in found}
            told = found.update(cast("list[int]", share))
            expected, size = by_a_plain_loop(jobs, share)
            assert {u for units in jobs.values() for u in units if u in found} == expected
            assert found.size == size
            assert len(told) == len(set(told))
            assert set(told) == before ^ expected
            for uid, units in jobs.items():
                cores = [u for u in units if u.is_core and not u.is_backfill]
                assert found.is_exposed(uid) == any(core not in expected for core in cores)


@given(seed=st.integers(0, 2**32))
@settings(max_examples=30)
def test_loans_are_those_that_a_plain_search_of_all_units_finds(seed: int) -> None:
    random = Random(seed)
    units = [u for number in range(9) for u in units_of_job(f"j{number}", random)]
    here = set(random.sample(units, len(units) // 2))
    loans = NodeLoans(0, (unit for unit in units if unit in here), LoanIndex())
    for _ in range(20):
        for unit in random.sample(units, min(3, len(units))):
            if random.random() < 0.5:
                loans.add(unit)
                here.add(unit)
            else:
                loans.discard(unit)
                here.discard(unit)
    on = {u: {t.node.index for t in u.tasks if t.node is not None} for u in here}
    assert set(loans.nodes) == {node for nodes in on.values() for node in nodes}
    for node in range(4):
        expected = sorted((u for u in here if node in on[u]), key=lambda u: u.value)
        assert list(loans.on_node(node)) == expected[::-1]
    for unit in units:
        assert loans.has_victim(unit.tasks[0].uid) == (unit in here)


def test_only_blocks_of_which_something_else_may_come_are_gone_through_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    jobs = [job("a", f"a{number:03}", 10, on="n1") for number in range(60)]
    snapshot = Snapshot(
        nodes=[NodeInfo(name="n1", allocatable=amount(700))],
        queues=[Queue(name="a"), Queue(name="b")],
        jobs=[*jobs, job("b", "b", 1, size=500)],
    )
    cluster = Cluster(snapshot)
    live = Scheduler().attach(cluster)
    first = live.schedule()
    assert first.queues["a"].on_loan.milli_cpu > 0
    cluster.carry_out(first)
    gone_through: list[int] = []
    plain: Any = vars(Cover)["_go_through"]

    def counted(self: Cover, block: Any, *more: object) -> None:
        gone_through.append(len(block.units))
        plain(self, block, *more)

    monkeypatch.setattr(Cover, "_go_through", counted)
    cluster.apply(TaskSucceeded("a030-05"))
    second = live.schedule()
    assert second == Scheduler().schedule(cluster.snapshot())
    whole = sum(gone_through)
    gone_through.clear()
    cluster.carry_out(second)
    cluster.apply(TaskSucceeded("a031-05"))
    live.schedule()
    assert 0 < sum(gone_through) < 600 < whole
