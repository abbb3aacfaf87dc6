"""`check_plugin` finds what leaks from cycle to cycle, and blames nothing else for it."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any

import pytest
from tests.support.opening import violation_of

from batchsched.plugin import JobState, Plugin, QueueState, SessionView, TaskState
from batchsched.testing import check_plugin


class RanksJobs:
    """What a plugin opens that knows the key of each job beforehand."""

    def __init__(self, keys: dict[str, int]) -> None:
        self.keys = keys

    def job_order_key(self, job: JobState, /) -> int:
        return self.keys[job.uid]


class Leaks:
    """Holds that there was an earlier cycle."""

    def __init__(self) -> None:
        self.cycles = 0

    def open(self, view: SessionView, /) -> object:
        self.cycles += 1
        return VotesAlways(self.cycles > 1)


class VotesAlways:
    def __init__(self, vote: bool) -> None:
        self.vote = vote

    def job_ready(self, job: JobState, /) -> bool:
        return self.vote


class TurnsTheOrderRound:
    """Every other cycle is the same."""

    def __init__(self) -> None:
        self.sign = 1

    def open(self, view: SessionView, /) -> object:
        self.sign = -self.sign
        return RanksJobs({uid: self.sign * rank for rank, uid in enumerate(view.jobs)})


class PutsThoseSeenFirst:
    def __init__(self) -> None:
        self.seen: set[str] = set()

    def open(self, view: SessionView, /) -> object:
        keys = {uid: 0 if uid in self.seen else 1 for uid in view.jobs}
        self.seen.update(view.jobs)
        return RanksJobs(keys)


class PutsThoseSeenElsewhereFirst:
    """Knows them from cycles on other snapshots only, so that the same one shows nothing."""

    def __init__(self) -> None:
        self.seen: dict[str, SessionView] = {}

    def open(self, view: SessionView, /) -> object:
        mine = [job.info for job in view.jobs.values()]

        def is_known(uid: str) -> bool:
            then = self.seen.get(uid)
            return then is not None and [job.info for job in then.jobs.values()] != mine

        keys = {uid: 0 if is_known(uid) else 1 for uid in view.jobs}
        for uid in view.jobs:
            self.seen.setdefault(uid, view)
        return RanksJobs(keys)


class PutsThoseFirstThatWaited:
    """Takes note of it in `close`, after the actions."""

    def __init__(self) -> None:
        self.waited: set[str] = set()

    def open(self, view: SessionView, /) -> object:
        waited = self.waited

        class Object(RanksJobs):
            def close(self) -> tuple[()]:
                waited.update(uid for uid, job in view.jobs.items() if not job.ready_count)
                return ()

        return Object({uid: 0 if uid in waited else 1 for uid in view.jobs})


class FailsInTheSecondCycle:
    def __init__(self) -> None:
        self.cycles = 0

    def open(self, view: SessionView, /) -> object:
        self.cycles += 1
        return RanksJobs(dict.fromkeys(view.jobs if self.cycles < 2 else (), 0))


LEAKS: list[Callable[[], Plugin]] = [
    Leaks,
    TurnsTheOrderRound,
    PutsThoseSeenFirst,
    PutsThoseSeenElsewhereFirst,
    PutsThoseFirstThatWaited,
]


@pytest.mark.filterwarnings("ignore:Generating overly large repr")  # it is not shrunk
@pytest.mark.parametrize("kind", LEAKS)
@pytest.mark.parametrize("is_made", [False, True])
def test_a_leak_is_caught(kind: Callable[[], Plugin], is_made: bool) -> None:
    plugin: Any = (lambda arguments: kind()) if is_made else kind()
    violation = violation_of(plugin)
    assert violation.law == "no state leaks from cycle to cycle"
    assert violation.extension_point in ("job_order_key", "job_ready")
    assert ", after a cycle on " in violation.seen
    assert "new plugin" not in violation.seen


@pytest.mark.filterwarnings("ignore:Generating overly large repr")
def test_a_failure_of_a_later_cycle_is_caught() -> None:
    violation = violation_of(lambda arguments: FailsInTheSecondCycle())
    assert violation.extension_point == "job_order_key"
    assert "KeyError: '" in violation.seen


@pytest.mark.filterwarnings("ignore:Generating overly large repr")
def test_a_leak_of_a_plugin_that_cannot_be_copied_is_caught() -> None:
    class Locks(TurnsTheOrderRound):
        def __init__(self) -> None:
            super().__init__()
            self.lock = Lock()

    assert violation_of(Locks()).law == "no state leaks from cycle to cycle"


MISSING = object()


class KnowsOneObject:
    """Correct, but its copies do otherwise: what they hold is not the one object."""

    def __init__(self) -> None:
        self.limit: object = MISSING

    def open(self, view: SessionView, /) -> object:
        return VotesAlways(self.limit is MISSING)


class LosesWhenCopied:
    """Correct, but its copies fail."""

    def __init__(self) -> None:
        self.lost = 1

    def __getstate__(self) -> dict[str, int]:
        return {}

    def open(self, view: SessionView, /) -> object:
        return RanksJobs(dict.fromkeys(view.jobs, self.lost))


class RemembersWhatItFoundOut:
    """Correct: what it keeps from cycle to cycle changes no answer."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.lengths: dict[str, int] = {}

    def open(self, view: SessionView, /) -> object:
        for uid in view.jobs:
            self.lengths.setdefault(uid, len(uid))
        return RanksJobs(self.lengths)


class CountsInTheCycle:
    """Correct: what it counts it counts anew in each cycle."""

    def open(self, view: SessionView, /) -> object:
        placed = dict.fromkeys(view.queues, 0)

        class Object:
            def overused(self, queue: QueueState, /) -> bool:
                return placed[queue.name] > 2

            def on_allocate(self, task: TaskState, /) -> None:
                self._count(task, 1)

            def on_deallocate(self, task: TaskState, /) -> None:
                self._count(task, -1)

            def _count(self, task: TaskState, change: int) -> None:
                if task.job is not None and task.job.queue is not None:
                    placed[task.job.queue.name] += change

        return Object()


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", [KnowsOneObject, LosesWhenCopied, RemembersWhatItFoundOut, CountsInTheCycle]
)
def test_what_does_not_leak_is_not_blamed(kind: Callable[[], Plugin]) -> None:
    check_plugin(kind(), max_examples=15)
