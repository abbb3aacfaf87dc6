"""What is remembered of loans is what the definition finds, whatever came and went."""

from __future__ import annotations

from collections.abc import Collection
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.plugins.capacity.worlds import (
    amount,
    capacity_config,
    capacity_scheduler,
    crowded,
    job,
    node,
)

from batchsched import (
    JobInfo,
    Queue,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    Taint,
    TaintEffect,
    TaskStatus,
    next_snapshot,
)
from batchsched.plugin import EvictionUnit, JobState, NodeState, TaskState
from batchsched.plugins.capacity import plugin
from batchsched.plugins.capacity.accounts import QueueAccounts, Share
from batchsched.plugins.capacity.coverage import (
    Cover,
    Coverage,
    RememberedCoverage,
    by_value,
    covered_units,
)
from batchsched.state.vectors import Vector, total_of

Jobs = dict[str, list[EvictionUnit]]


def task_of(uid: str, size: tuple[int, ...], *, backfill: bool) -> TaskState:
    fields = {
        "uid": uid,
        "resreq": size,
        "is_backfill": backfill,
        "status": TaskStatus.RUNNING,
        "may_be_reclaimed": True,
    }
    return cast("TaskState", SimpleNamespace(**fields))


def units_of_job(uid: str, random: Random) -> list[EvictionUnit]:
    """A core, or none, and up to five tasks besides, of which each uses little or much."""
    owner = cast("JobState", SimpleNamespace(uid=uid))
    found: list[EvictionUnit] = []
    for number in range(random.randrange(7)):
        kind = 0 if number == 0 and random.random() < 0.8 else 2
        size = (random.choice((0, 1, 1, 2, 9)), random.choice((0, 0, 1, 5)))
        task = task_of(f"{uid}-{number}", size, backfill=random.random() < 0.1)
        value = (kind, (random.randrange(3), task.uid))
        unit = EvictionUnit(owner, [task], [task], value)
        if random.random() < 0.1:
            unit.fix()
        found.append(unit)
    return found


def changed(job: list[EvictionUnit], uid: str, random: Random) -> list[EvictionUnit]:
    kept = [unit for unit in job if random.random() < 0.5]
    values = {unit.value for unit in kept}
    has_core = any(unit.is_core for unit in kept)
    new = [unit for unit in units_of_job(uid, random) if unit.value not in values]
    return kept + [unit for unit in new if not (has_core and unit.is_core)]


@settings(max_examples=100)
@given(seed=st.integers(0, 2**32))
def test_what_is_covered_after_changes_is_what_going_through_all_units_covers(seed: int) -> None:
    random = Random(seed)
    jobs: Jobs = {f"j{number}": units_of_job(f"j{number}", random) for number in range(8)}
    cover = Cover((unit for units in jobs.values() for unit in units), 2)
    share = random.randrange(40), random.randrange(25)
    for _ in range(12):
        if random.random() < 0.5:
            share = random.randrange(40), random.randrange(25)
        for uid in random.sample(sorted(jobs), random.randrange(3)):
            now = changed(jobs[uid], uid, random)
            for unit in jobs[uid]:
                if unit not in now:
                    cover.remove(unit)
            for unit in now:
                if unit not in jobs[uid]:
                    cover.add(unit)
            jobs[uid] = now
        everyone = [unit for units in jobs.values() for unit in units]
        before = {unit for unit in everyone if unit in cover}
        told = cover.update(share)
        expected = covered_units(share, sorted(everyone, key=by_value))
        assert {unit for unit in everyone if unit in cover} == set(expected)
        assert cover.size == tuple(sum(unit.size[d] for unit in expected) for d in (0, 1))
        assert len(told) == len(set(told))
        assert set(told) == before ^ set(expected)


def nearly_full(random: Random) -> Snapshot:
    """A nearly full cluster of jobs on several nodes; some gangs that wait find room in part."""
    nodes = [node(f"n{number}", random.randrange(4, 9)) for number in range(5)]
    places = []
    for where in nodes:
        left = where.allocatable.milli_cpu
        while left:
            size = min(left, random.choice((1000, 1000, 2000, 3000)))
            if random.random() < 0.9:
                places.append((where.name, size / 1000))
            left -= size
    random.shuffle(places)
    queues = [Queue(name=top, weight=random.randrange(1, 4)) for top in ("x", "y")]
    for top in ("x", "y"):
        queues += [
            Queue(name=f"{top}{number}", parent=top, deserved=amount(random.randrange(7)))
            for number in (1, 2, 3)
        ]
    lenders, claimants = ("x1", "x2", "y1"), ("x3", "y2", "y3")
    jobs: list[JobInfo] = []
    while places:
        mine = places[: random.choice((1, 2, 4))]
        places = places[len(mine) :]
        template = job(random.choice(lenders), f"r{len(jobs):02}", len(mine))
        tasks = [
            evolve(task, resreq=amount(size), status=TaskStatus.RUNNING, node_name=where)
            for task, (where, size) in zip(template.tasks, mine, strict=True)
        ]
        minimum = random.randrange(len(mine) + 1)
        jobs.append(evolve(template, tasks=tasks, min_available=minimum))
    for number in range(12):
        count = random.choice((1, 1, 2, 3))
        size = random.randrange(1, 5)
        name = f"w{number}"
        minimum = random.randrange(1, count + 1)
        jobs.append(job(random.choice(claimants), name, count, size=size, minimum=minimum))
    return Snapshot(nodes=nodes, queues=queues, jobs=jobs)


class Compared(RememberedCoverage):
    """Compares each answer with that of the definition."""

    def __init__(self, *state: Any) -> None:
        super().__init__(*state)
        self.seen: dict[tuple[int, bool], tuple[Vector, int]] = {}
        """By node, what may be on loan at most, and how many changes were recorded by then."""

    def plain(self) -> Coverage:
        state = self._accounts, self._queues, self._key, self._protects_any, self._tolerance
        return Coverage(*state)

    def beyond(
        self, leaf: int, node: NodeState | None, share: Share = Share.FAIR
    ) -> list[EvictionUnit]:
        found = super().beyond(leaf, node, share)
        expected = self.plain().beyond(leaf, node, share)
        assert [told(unit) for unit in found] == [told(unit) for unit in expected]
        return found

    def nodes(self, leaf: int, share: Share = Share.FAIR) -> set[int]:
        found = set(super().nodes(leaf, share))
        assert found >= set(self.plain().nodes(leaf, share))
        return found

    def may_have_on_loan(self, leaf: int) -> bool:
        may_have_on_loan = super().may_have_on_loan(leaf)
        assert may_have_on_loan or not self.plain().beyond(leaf, None)
        return may_have_on_loan

    def covered(self, leaf: int, share: Share) -> list[EvictionUnit]:
        found = super().covered(leaf, share)
        assert [told(unit) for unit in found] == [
            told(unit) for unit in self.plain().covered(leaf, share)
        ]
        return found

    def covers(self, leaf: int, unit: EvictionUnit, share: Share = Share.FAIR) -> bool:
        found = super().covers(leaf, unit, share)
        assert found is self.plain().covers(leaf, unit, share)
        return found

    def covers_core(self, leaf: int, job: JobState, share: Share = Share.FAIR) -> bool:
        found = super().covers_core(leaf, job, share)
        assert found is self.plain().covers_core(leaf, job, share)
        for each in Share:  # also those that this claim does not ask for
            self.covered(leaf, each)
        return found

    def covered_size(self, leaf: int) -> Vector:
        found = super().covered_size(leaf)
        assert found == self.plain().covered_size(leaf)
        return found

    def may_keep_share(self, leaf: int) -> bool:
        may_keep = super().may_keep_share(leaf)
        if not may_keep:  # then no unit could go without the leaf falling below its share
            assert leaf not in self.backfilling
            share, held = self._accounts.share, self._accounts.held
            for unit in self.plain().beyond(leaf, None):
                assert any(
                    amount and held[d][leaf] - amount < share[d][leaf]
                    for d, amount in enumerate(unit.size)
                )
        return may_keep

    def at_most(
        self, node: NodeState, leaves: Collection[int] | None = None, *, is_surplus: bool
    ) -> Vector:
        found = super().at_most(node, leaves, is_surplus=is_surplus)
        if leaves is None:
            before, position = self.seen.get((node.index, is_surplus), ((), 0))
            if before and found != before:
                assert node.index in self.changes[position:]
            self.seen[node.index, is_surplus] = found, len(self.changes)
        if all(known.is_current for known in self._leaves.values()):
            units = [
                unit
                for leaf in self._leaves
                if leaves is None or leaf in leaves
                for unit in self.plain().beyond(leaf, node)
                if unit.is_surplus or unit.is_backfill or not is_surplus
            ]
            here = {v.uid: v.resreq for unit in units for v in unit.victims if v.node is node}
            assert total_of(here.values(), (0,) * len(found)) == found
        return found

    def follow(self, accounts: QueueAccounts) -> None:
        super().follow(accounts)
        self.seen.clear()


def told(unit: EvictionUnit) -> tuple[object, ...]:
    return unit.value[0], list(unit.tasks), list(unit.victims), unit.size, unit.job.uid


ORDERS = st.sampled_from([["reclaim"], ["reclaim", "allocate"], ["allocate", "reclaim", "preempt"]])


@settings(max_examples=60)
@given(
    st.integers(0, 2**32).map(Random).map(nearly_full) | crowded(states=True),
    ORDERS,
    st.sampled_from(["whole-job", "protect"]),
    st.sampled_from([0, 0, 0.1]),
)
def test_each_answer_about_loans_is_that_of_the_definition(
    snapshot: Snapshot, actions: list[str], at_minimum: str, tolerance: float
) -> None:
    conf = capacity_config(*actions, at_minimum=at_minimum, tolerance=tolerance)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plugin, "RememberedCoverage", Compared)
        scheduler = Scheduler(SchedulerConfig.from_mapping(conf), warm=True)
        for _ in range(3):
            result = scheduler.schedule(snapshot)
            snapshot = next_snapshot(snapshot, result, now=snapshot.now + 1)


def test_a_node_is_open_again_once_a_gang_has_given_its_place_back() -> None:
    # One cpu is idle and two are on loan. The gang's first task takes the idle one, and then its
    # second finds too little; once the first has left, a single task of that size does not.
    gang = job("first", "gang", 2, minimum=2)
    small, large = gang.tasks
    gang = evolve(gang, tasks=[evolve(small, priority=9), evolve(large, resreq=amount(3))])
    jobs = [
        job("own", "own", size=2, on="n1"),
        job("lender", "loan", size=2, on="n1"),
        gang,
        job("second", "single", size=3),
    ]
    queues = [
        Queue(name="own", deserved=amount(2)),
        Queue(name="lender", weight=0),
        Queue(name="first", deserved=amount(4), priority=2),
        Queue(name="second", deserved=amount(3), priority=1),
    ]
    # A second node, which takes nobody, makes room for all that is deserved.
    closed = Taint(key="closed", effect=TaintEffect.NO_SCHEDULE)
    nodes = [node("n1", 5), node("n2", 20, taints=[closed])]
    result = capacity_scheduler("reclaim").schedule(Snapshot(nodes=nodes, queues=queues, jobs=jobs))
    assert [eviction.task_uid for eviction in result.evictions] == ["loan-00"]
    assert [promise.task_uid for promise in result.pipelined] == ["single-00"]
