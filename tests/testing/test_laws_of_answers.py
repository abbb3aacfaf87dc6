"""`check_plugin` refuses the answers that the scheduler refuses, and keys that have no order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Sequence
from fractions import Fraction
from typing import Any

import pytest
from hypothesis.strategies import SearchStrategy
from tests.support.opening import Opened, OpensA, violation_of

from batchsched import Snapshot, TaskStatus, Unfit, UnfitReason
from batchsched.plugin import (
    Fit,
    JobState,
    Need,
    NodeScore,
    NodeSet,
    NodeState,
    Part,
    QueueState,
    SessionView,
    TaskState,
    Verdict,
)
from batchsched.plugins.devices import DevicesPlugin
from batchsched.testing import VacuityWarning, check_plugin, snapshots, with_devices

pytestmark = pytest.mark.slow

NO = Unfit(UnfitReason.REFUSED_BY_PLUGIN, plugin="under-test", detail="no")


class KeysOfSets(Opened):
    """Some sets are neither equal, nor is one the less."""

    def job_order_key(self, job: JobState, /) -> object:
        return frozenset(task.uid for task in job.tasks)


class KeysOfDifferentTypes(Opened):
    """Neighbours compare; others do not."""

    def job_order_key(self, job: JobState, /) -> object:
        return {"j1": 1, "j2": 2, "j3": 3}.get(job.info.name, "more")


class NanInATuple(Opened):
    nan = float("nan")

    def job_order_key(self, job: JobState, /) -> object:
        return self.nan, job.uid


class NanFurtherDown(Opened):
    nan = float("nan")

    def task_order_key(self, task: TaskState, /) -> object:
        return 1, (self.nan, task.uid)


class NormalisesToNan(Opened):
    def node_scores(self) -> Iterable[NodeScore]:
        yield NodeScore(
            score=lambda task, node: node.index,
            normalise=lambda raw, lowest, highest: float("nan"),
        )


class ScoresAreTexts(Opened):
    def node_scores(self) -> Iterable[NodeScore]:
        yield NodeScore(score=lambda task, node: node.name)  # type: ignore[arg-type, return-value]


class ScoresAreTooLarge(Opened):
    def node_scores(self) -> Iterable[NodeScore]:
        yield NodeScore(score=lambda task, node: 10**400)


class OverusedIsNothing(Opened):
    def overused(self, queue: QueueState, /) -> None:
        return None


class ClaimantKeyHoldsAList(Opened):
    def claimant_key(self, claimant: TaskState, /) -> object:
        return (claimant.uid, [])

    def preemptable(
        self, claimant: TaskState, candidates: Sequence[TaskState], /
    ) -> Sequence[Verdict]:
        return [Verdict.PASS for _ in candidates]


class OffersTexts(Opened):
    def candidate_nodes(self, need: Need, within: NodeSet, /) -> Iterable[NodeSet]:
        return ["rack"]  # type: ignore[list-item]


class OffersPartsTwice(Opened):
    def candidate_nodes(self, need: Need, within: NodeSet, /) -> Iterable[NodeSet]:
        part = Part(tuple(need.tasks), within)
        yield within.with_parts([part, part])


class ConditionalIsNotCounted(Opened):
    """Counts what it was not told of when it came, but not once it goes."""

    def __init__(self, view: object) -> None:
        self.placed: dict[str, int] = {}

    def job_order_key(self, job: JobState, /) -> int:
        return self.placed.get(job.uid, 0)

    def on_allocate(self, task: TaskState, /) -> None:
        if task.status is not TaskStatus.CONDITIONAL:
            self._count(task, 1)

    def on_deallocate(self, task: TaskState, /) -> None:
        self._count(task, -1)

    def _count(self, task: TaskState, change: int) -> None:
        assert task.job is not None
        self.placed[task.job.uid] = self.placed.get(task.job.uid, 0) + change


class ReservationsAreKeptAsPlacements(Opened):
    """Takes a reserved task for a placed one, once it is told of any."""

    def __init__(self, view: object) -> None:
        self.reserved_before = False

    def overused(self, queue: QueueState, /) -> bool:
        self.reserved_before |= any(job.count(TaskStatus.RESERVED) for job in queue.jobs)
        return self.reserved_before


@pytest.mark.filterwarnings("ignore:Generating overly large repr")  # it is not shrunk
@pytest.mark.parametrize(
    ("kind", "point", "law", "seen"),
    [
        (KeysOfSets, "job_order_key", "compare", "neither is less than the other"),
        (KeysOfDifferentTypes, "job_order_key", "compare", "'<' not supported"),
        (NanInATuple, "job_order_key", "requires", "not equal to itself"),
        (NanFurtherDown, "task_order_key", "requires", "not equal to itself"),
        (NormalisesToNan, "node_scores", "requires", "is nan, which is not finite"),
        (ScoresAreTexts, "node_scores", "requires", "is 'n1', which is not a number"),
        (ScoresAreTooLarge, "node_scores", "requires", "too large for a float"),
        (OverusedIsNothing, "overused", "requires", "expected a bool, got None"),
        (ClaimantKeyHoldsAList, "claimant_key", "requires", "cannot be hashed"),
        (OffersTexts, "candidate_nodes", "requires", "wrong set: 'rack' is not a NodeSet"),
        (OffersPartsTwice, "candidate_nodes", "requires", "not each is needed, and once"),
        (ConditionalIsNotCounted, "job_order_key", "is discarded", "was undone"),
        (ReservationsAreKeptAsPlacements, "overused", "is discarded", "was undone"),
    ],
)
def test_a_broken_plugin_is_caught(kind: type[Opened], point: str, law: str, seen: str) -> None:
    violation = violation_of(OpensA(kind))
    assert violation.extension_point == point
    assert law in violation.law
    assert seen in violation.seen


class FractionsAndTruths(Opened):
    """What the scheduler takes: any real number, and keys that compare with one another."""

    def job_order_key(self, job: JobState, /) -> object:
        return (Fraction(job.ready_count, 3), None, job.uid)

    def queue_order_key(self, queue: QueueState, /) -> object:
        return Fraction(1, 3) if queue.name.endswith("1") else 0.5

    def node_scores(self) -> Iterable[NodeScore]:
        yield NodeScore(score=lambda task, node: Fraction(node.index, 7))  # type: ignore[arg-type, return-value]
        yield NodeScore(score=lambda task, node: node.index == 0)


def test_unusual_answers_that_the_scheduler_takes_are_taken() -> None:
    check_plugin(OpensA(FractionsAndTruths), max_examples=15)


def test_what_the_scheduler_takes_of_numpy_is_taken() -> None:
    numpy = pytest.importorskip("numpy")

    class Answers(Opened):
        def overused(self, queue: QueueState, /) -> bool:
            return numpy.bool_(not queue.jobs)  # type: ignore[no-any-return]

        def job_order_key(self, job: JobState, /) -> float:
            return numpy.float32(job.ready_count)  # type: ignore[no-any-return]

        def node_scores(self) -> Iterable[NodeScore]:
            yield NodeScore(score=lambda task, node: numpy.int64(1))
            yield NodeScore(score=lambda task, node: numpy.float32(1))

    check_plugin(OpensA(Answers), max_examples=15)


def test_what_the_scheduler_refuses_of_numpy_is_refused() -> None:
    numpy = pytest.importorskip("numpy")

    class Votes(Opened):
        def job_ready(self, job: JobState, /) -> bool:
            return numpy.bool_(True)  # type: ignore[no-any-return]

    violation = violation_of(OpensA(Votes))
    assert violation.extension_point == "job_ready"
    assert "which is neither a Vote nor a bool" in violation.seen


class FewOfEach(Opened):
    """A limit of how many tasks of a user there are at a time."""

    def __init__(self, view: SessionView) -> None:
        super().__init__(view)
        self.running = Counter[str]()
        for task in view.tasks.values():
            if task.status.charged:
                self.on_allocate(task)

    def on_allocate(self, task: TaskState, /) -> None:
        if task.job is not None:
            self.running[task.job.info.user] += 1

    def on_deallocate(self, task: TaskState, /) -> None:
        if task.job is not None:
            self.running[task.job.info.user] -= 1

    def allocatable(self, queue: QueueState, need: Need, /) -> Unfit | None:
        return NO if self.running[need.job.info.user] + len(need.tasks) > self.most else None

    most = 2


class ForgetsWhoLeaves(FewOfEach):
    def on_deallocate(self, task: TaskState, /) -> None:
        pass


class RefusesNothing(FewOfEach):
    most = 1000


class AnswersALimitWithABool(FewOfEach):
    def allocatable(self, queue: QueueState, need: Need, /) -> Any:
        return True


def test_limits_of_what_queues_may_take_are_asked_before_and_after_changes() -> None:
    check_plugin(OpensA(FewOfEach), max_examples=60)
    assert violation_of(OpensA(ForgetsWhoLeaves)).extension_point == "allocatable"
    assert violation_of(OpensA(AnswersALimitWithABool)).extension_point == "allocatable"


def test_a_limit_that_never_refused_is_told_of() -> None:
    with pytest.warns(VacuityWarning, match="allocatable: it answered None everywhere"):
        check_plugin(OpensA(RefusesNothing), max_examples=60)


class Seats(Opened):
    """Gives each task one of two seats of its node."""

    def choice_signature(self, task: TaskState, /) -> Hashable | None:
        return "any"

    def choose(
        self,
        task: TaskState,
        node: NodeState,
        fit: Fit,
        /,
        *,
        gone: Collection[TaskState] = (),
        kept: Hashable | None = None,
    ) -> Hashable | Unfit | None:
        there = [
            other
            for other in node.tasks.values()
            if other not in gone
            and not (other.status is TaskStatus.RELEASING and fit is Fit.LATER)
            and not (other.is_backfill and fit is Fit.CONDITIONALLY)
        ]
        taken = {other.choices.get("seats") for other in there}
        free = [seat for seat in (1, 2) if seat not in taken and kept in (None, seat)]
        return free[0] if free and len(there) < 2 else NO


@pytest.mark.parametrize("examples", [snapshots(max_nodes=2), None], ids=["drawn", "default"])
def test_plugins_that_choose_are_asked_where_a_cycle_would_ask(
    examples: SearchStrategy[Snapshot] | None,
) -> None:
    check_plugin(OpensA(Seats), name="seats", examples=examples, max_examples=100)


def test_the_plugin_devices_keeps_the_laws_of_plugins() -> None:
    drawn = with_devices(snapshots(max_nodes=3, max_jobs=4, max_tasks=3))
    check_plugin(DevicesPlugin.from_arguments, name="more-devices", examples=drawn)
