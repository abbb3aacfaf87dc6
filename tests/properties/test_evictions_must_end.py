"""Why evictions end with the plugin capacity: the laws (i) to (iv), in clusters that are full.

Each leaf has words; see `tests.support.words`. In any order of placements, preemptions, claims and
whole cycles, the words for fair shares together with those for nominal shares only ever rise,
except where a claim takes what a fair share covers so that a queue gets what it deserves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from attrs import evolve, frozen
from hypothesis import event, given, settings
from hypothesis import strategies as st
from tests.plugins.capacity.worlds import (
    capacity_config,
    capacity_scheduler,
    job,
    node,
    troubled,
)
from tests.support.words import Amounts, Leaf, Measure, Unit, Word, served, settled, sum_of

from batchsched import (
    CycleResult,
    Eviction,
    JobInfo,
    Queue,
    Resource,
    ResourceLimit,
    SchedulerConfig,
    Snapshot,
    explain,
)

pytestmark = pytest.mark.slow

ALONE = ("allocate", "preempt", "reclaim")
WHOLE = (
    "reclaim allocate preempt backfill",
    "allocate preempt reclaim",
    "preempt allocate reclaim backfill",
)


def with_room(snapshot: Snapshot, cpus: int) -> Snapshot:
    """The same with some idle resources, so that gangs find places for some of their tasks."""
    first, *others = snapshot.nodes
    larger = evolve(first, allocatable=first.allocatable + Resource(milli_cpu=1000 * cpus))
    return evolve(snapshot, nodes=[larger, *others])


WORLDS = st.builds(with_room, st.integers(0, 1 << 30).map(troubled), st.sampled_from([0, 0, 1, 2]))
ORDERS = st.lists(st.sampled_from((*ALONE, *ALONE, *WHOLE)), min_size=2, max_size=6)


@frozen
class Step:
    """What one cycle did, with the measure of the cluster before and when all has come about."""

    actions: str
    snapshot: Snapshot
    result: CycleResult
    before: Measure
    after: Measure

    @property
    def alike(self) -> list[str]:
        """The leaves with the same broken jobs before and after: of others words do not compare."""
        changed = self.before.broken ^ self.after.broken
        queue_of = {job.uid: job.queue for job in self.snapshot.jobs}
        changed_in = {queue_of[uid] for uid in changed}
        return [name for name in self.before.leaves if name not in changed_in]

    def changes(self, *, nominal: bool = False) -> list[tuple[Word, Word]]:
        """The words of these leaves before and after."""
        before = self.before.nominal_words() if nominal else self.before.fair_words()
        after = self.after.nominal_words() if nominal else self.after.fair_words()
        return [(before[name], after[name]) for name in self.alike]

    def rises(self) -> bool:
        """Whether a word rises, if none falls: of F, or if these stay as they are, of N."""
        fair, nominal = self.changes(), self.changes(nominal=True)
        assert all(after >= before for before, after in fair), "a word for F falls"
        if any(after > before for before, after in fair):
            return True
        if len(self.alike) < len(self.before.leaves):
            return True  # a broken job became whole, or is gone
        assert all(after >= before for before, after in nominal), "a word for N falls"
        return any(after > before for before, after in nominal)

    def victims(self, action: str) -> list[tuple[Eviction, Unit]]:
        """The evictions of an action, with the units to which the victims belonged."""
        return [
            (eviction, self.before.unit_of(eviction.task_uid))
            for eviction in self.result.evictions
            if eviction.action == action
        ]

    def takes_what_is_covered(self) -> bool:
        """Whether a claim takes what a fair share covers, to meet what another queue deserves."""
        return any(self.before.leaf_of(v).rank(v) == 0 for _, v in self.victims("reclaim"))


def history(snapshot: Snapshot, orders: Sequence[str], **arguments: object) -> Iterator[Step]:
    """Run cycles, each with some actions; what is decided comes about before the next."""
    for actions in orders:
        result = capacity_scheduler(*actions.split(), **arguments).schedule(snapshot)
        then = settled(snapshot, result)
        yield Step(
            actions, snapshot, result, Measure.of(snapshot, result), Measure.of(then, result)
        )
        snapshot = then


@settings(max_examples=80)
@given(WORLDS, ORDERS)
def test_i_placing_lowers_no_word(snapshot: Snapshot, orders: Sequence[str]) -> None:
    for step in history(snapshot, [*orders, "allocate"]):
        if not step.result.evictions:
            fair = step.changes()
            assert all(after >= before for before, after in fair)
            assert all(after >= before for before, after in step.changes(nominal=True))


@settings(max_examples=150)
@given(WORLDS, ORDERS)
def test_ii_a_claim_raises_the_word_of_its_right_and_takes_nothing_that_it_covers(
    snapshot: Snapshot, orders: Sequence[str]
) -> None:
    for step in history(snapshot, [*orders, "reclaim"]):
        claims = step.victims("reclaim")
        if step.actions != "reclaim" or not claims:
            continue
        alone = len(served(step.snapshot, step.result)) == 1
        event(f"one claim alone: {alone}")
        if not step.takes_what_is_covered():
            assert step.rises()
        if not alone:
            continue  # what was placed before a claim may have changed what is covered
        job = served(step.snapshot, step.result)[0]
        leaf = step.before.leaves[job.queue]
        for _, victim in claims:
            assert victim not in step.before.leaf_of(victim).met_units
            assert not victim.is_fixed
        name = job.queue
        raises_fair = step.after.fair_words()[name] > step.before.fair_words()[name]
        if name in step.alike and not raises_fair:
            assert all(step.before.leaf_of(v).rank(v) == 2 for _, v in claims)
            assert step.after.nominal_words()[name] > step.before.nominal_words()[name]
        if step.takes_what_is_covered():
            event("takes what is covered")
            assert stays_within(leaf, step.snapshot, job, leaf.met)


def stays_within(leaf: Leaf, snapshot: Snapshot, job: JobInfo, share: Amounts) -> bool:
    """Whether a leaf would hold no more than a share with what a job lacks at least."""
    held = sum_of(task for unit in leaf.units for task in unit.tasks)
    waiting = [task for task in job.tasks if not task.status.occupies][:1]
    return all(
        held.get(name, 0) + amount <= share.get(name, 0)
        for name, amount in sum_of(waiting).items()
        if amount
    )


@settings(max_examples=150)
@given(WORLDS, ORDERS)
def test_iii_a_preemption_raises_a_word_or_a_priority(
    snapshot: Snapshot, orders: Sequence[str]
) -> None:
    for step in history(snapshot, [*orders, "preempt"]):
        if step.actions != "preempt" or not step.result.evictions:
            continue
        rises = step.rises()
        event(f"raises a word: {rises}")
        jobs = {task.uid: job for job in step.snapshot.jobs for task in job.tasks}
        for eviction, victim in step.victims("preempt"):
            claimant = jobs[eviction.for_task_uid]
            assert victim.job.priority < claimant.priority
            if rises:
                continue
            assert step.before.leaf_of(victim).rank(victim) == 2


@settings(max_examples=80)
@given(WORLDS, ORDERS)
def test_iv_a_broken_job_becomes_whole_or_goes_once(
    snapshot: Snapshot, orders: Sequence[str]
) -> None:
    """A gang is not broken by what it only holds, such as what others of its queue gave up for it.

    Preempt may leave a gang with that alone, too little to start, and nothing of it is bound.
    """
    for step in history(snapshot, orders):
        assert step.after.broken <= step.before.broken
        event(f"one less is broken: {step.after.broken < step.before.broken}")
        evicted = {eviction.task_uid for eviction in step.result.evictions}
        for uid in step.before.broken:
            [job] = [job for job in step.snapshot.jobs if job.uid == uid]
            there = {task.uid for task in job.tasks if task.status.occupies}
            assert not evicted & there or there <= evicted


@settings(max_examples=60)
@given(WORLDS, ORDERS)
def test_where_nothing_is_deserved_whole_cycles_raise_the_words(
    snapshot: Snapshot, orders: Sequence[str]
) -> None:
    """Nothing is claimed then so that a queue gets what it deserves, whoever has a share of it."""
    queues = [evolve(queue, deserved=Resource(), guarantee=Resource()) for queue in snapshot.queues]
    for step in history(evolve(snapshot, queues=queues), [*orders, *WHOLE]):
        rises = step.rises()
        event(f"rises: {rises}, evicts: {bool(step.result.evictions)}")


@pytest.mark.parametrize(("surplus", "gone"), [(2, []), (3, ["runs-02", "runs-01"])])
def test_surplus_that_is_covered_stays_beside_surplus_that_is_not(
    surplus: int, gone: list[str]
) -> None:
    """A need that the fair share does not cover takes surplus that it does not cover, and no more.

    The queue may not hold more than it does, so that two surplus tasks would have to go. The fair
    share covers the more important job and the first of the surplus. The need comes before all
    surplus in value order, since its job is more important, but is too large beside the other.
    """
    queue = Queue(name="a", limit=ResourceLimit(milli_cpu=4000))
    jobs = [
        evolve(job("a", "leads", size=2, on="n1"), priority=2),
        job("a", "runs", surplus, size=2, minimum=0, on="n1"),
        evolve(job("a", "waits", size=3), priority=1),
    ]
    snapshot = Snapshot(nodes=[node("n1", 9)], queues=[queue], jobs=jobs)
    result = capacity_scheduler("preempt").schedule(snapshot)
    assert [eviction.task_uid for eviction in result.evictions] == gone


def test_a_gang_does_not_uncover_others_by_what_it_has_placed_so_far() -> None:
    """One of its tasks finds a place; the other may not take that of a job that is covered."""
    queues = [
        Queue(name="a", deserved=Resource(milli_cpu=2000)),
        Queue(name="b", deserved=Resource(milli_cpu=3000)),
    ]
    jobs = [
        job("a", "runs", on="n1"),
        evolve(job("a", "gang", 2, minimum=2), priority=3),
        job("b", "runs-too", on="n1"),
        job("b", "fits-nowhere", only="elsewhere"),
    ]
    snapshot = Snapshot(nodes=[node("n1", 3)], queues=queues, jobs=jobs)
    result = capacity_scheduler("preempt").schedule(snapshot)
    assert result.queues["a"].fair_share == Resource(milli_cpu=1200)
    assert not result.evictions


@settings(max_examples=60)
@given(WORLDS)
def test_reasons_add_up(snapshot: Snapshot) -> None:
    """Each candidate of a claim that failed has one reason, which `explain` tells as well."""
    result = capacity_scheduler("reclaim").schedule(snapshot)
    reports = [report for reason in result.pending.values() for report in reason.evictions]
    for report in reports:
        assert sum(report.out.values()) == report.candidates, report
    event(f"failed claims: {bool(reports)}")
    config = SchedulerConfig.from_mapping(capacity_config("reclaim"))
    failed = {uid: reason for uid, reason in result.pending.items() if reason.evictions}
    for uid, reason in list(failed.items())[:2]:
        told = explain(snapshot, result, uid, config=config, try_changes=False)
        assert told.reason == reason
        assert all(report.text in str(told) for report in reason.evictions)
