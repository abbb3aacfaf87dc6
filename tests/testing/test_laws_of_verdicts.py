"""`check_plugin` holds verdicts to what `claimant_key` promises of them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import pytest
from tests.support.opening import Opened, OpensA, violation_of

from batchsched import TaskStatus
from batchsched.plugin import QueueState, TaskState, Verdict
from batchsched.testing import check_plugin

pytestmark = pytest.mark.slow

VICTIM, PROTECTED = Verdict.VICTIM, Verdict.PROTECTED


class NobodyMatters(Opened):
    def claimant_key(self, claimant: TaskState, /) -> Hashable:
        return None


class GivesAll(NobodyMatters):
    def reclaimable(
        self, claimant: TaskState, candidates: Sequence[TaskState], /
    ) -> Sequence[Verdict]:
        return [VICTIM for _ in candidates]


class ReadsTheCluster(NobodyMatters):
    def preemptable(
        self, claimant: TaskState, candidates: Sequence[TaskState], /
    ) -> Sequence[Verdict]:
        waiting = sum(task.status is TaskStatus.PENDING for task in self.view.tasks.values())
        return [VICTIM if waiting % 2 else PROTECTED for _ in candidates]


class ReclaimReadsTheCluster(ReadsTheCluster):
    reclaimable = ReadsTheCluster.preemptable
    preemptable = None  # type: ignore[assignment]


class PreemptReadsTheQueue(NobodyMatters):
    """A queue's account is none of those that `preemptable` may read."""

    def preemptable(
        self, claimant: TaskState, candidates: Sequence[TaskState], /
    ) -> Sequence[Verdict]:
        verdicts: list[Verdict] = []
        for candidate in candidates:
            assert candidate.job is not None
            assert candidate.job.queue is not None
            ready = sum(job.ready_count for job in candidate.job.queue.jobs)
            verdicts.append(VICTIM if ready > 2 else PROTECTED)
        return verdicts


class ReadsTheClaimantsAccount(Opened):
    """Its key says who claims, and not what that job has."""

    def claimant_key(self, claimant: TaskState, /) -> Hashable:
        assert claimant.job is not None
        return claimant.job.uid

    def preemptable(
        self, claimant: TaskState, candidates: Sequence[TaskState], /
    ) -> Sequence[Verdict]:
        assert claimant.job is not None
        return [VICTIM if claimant.job.ready_count else PROTECTED for _ in candidates]


class ShieldsByAGenerator(GivesAll):
    """The scheduler asks for the number of answers, which a generator does not tell."""

    def shielded(self, claimant: TaskState, candidates: Sequence[TaskState], /) -> object:
        return (False for _ in candidates)


def _queue_of(task: TaskState) -> QueueState:
    assert task.job is not None
    assert task.job.queue is not None
    return task.job.queue


def _ready(queue: QueueState) -> int:
    return sum(job.ready_count for job in queue.jobs)


READS = "read of the cluster only"


@pytest.mark.filterwarnings("ignore:Generating overly large repr")  # it is not shrunk
@pytest.mark.parametrize(
    ("kind", "point", "law"),
    [
        (ReadsTheCluster, "preemptable", READS),
        (ReclaimReadsTheCluster, "reclaimable", READS),
        (PreemptReadsTheQueue, "preemptable", READS),
        (ReadsTheClaimantsAccount, "preemptable", READS),
        (ShieldsByAGenerator, "shielded", "answers with"),
    ],
)
def test_a_broken_plugin_is_caught(kind: type[Opened], point: str, law: str) -> None:
    violation = violation_of(OpensA(kind))
    assert violation.extension_point == point
    assert law in violation.law


class ReadsTheClusterWithoutAKey(Opened):
    """Correct: without a key it has promised nothing."""

    preemptable = ReadsTheCluster.preemptable
    reclaimable = ReadsTheCluster.preemptable


class ReadsWhatItMay(Opened):
    """Correct: reads the claimant's account by its key, and those of candidates and queues."""

    def claimant_key(self, claimant: TaskState, /) -> Hashable:
        assert claimant.job is not None
        return claimant.job.ready_count, claimant.info.priority

    def preemptable(
        self, claimant: TaskState, candidates: Sequence[TaskState], /
    ) -> Sequence[Verdict]:
        mine = self.claimant_key(claimant)
        return [
            VICTIM if (task.job and task.job.ready_count, task.info.priority) > mine else PROTECTED  # type: ignore[operator]
            for task in candidates
        ]

    def reclaimable(
        self, claimant: TaskState, candidates: Sequence[TaskState], /
    ) -> Sequence[Verdict]:
        return [VICTIM if _ready(_queue_of(task)) > 1 else PROTECTED for task in candidates]


@pytest.mark.parametrize("kind", [ReadsTheClusterWithoutAKey, ReadsWhatItMay])
def test_what_reads_no_more_than_it_may_is_not_blamed(kind: type[Opened]) -> None:
    check_plugin(OpensA(kind), max_examples=30)


def test_truths_of_numpy_are_taken() -> None:
    numpy = pytest.importorskip("numpy")

    class Answers(ReadsWhatItMay):
        def shielded(
            self, claimant: TaskState, candidates: Sequence[TaskState], /
        ) -> Sequence[bool]:
            return numpy.zeros(len(candidates), dtype=bool)  # type: ignore[no-any-return]

    check_plugin(OpensA(Answers), max_examples=20)
