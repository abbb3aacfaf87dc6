"""What is counted over all that leave together: budgets of tasks, and limits over time.

A *budget* says how many of some tasks may be down. When a cycle begins, its *allowance* is what is
on nodes beyond the minimum, or the maximum that may be down less what is down already. Each task
that leaves takes one; what is discarded gives it back.

A *limit* says how many evictions there may be in a window of time. What counts is a pair of jobs in
one cycle, the claimant's and the victim's, however many tasks go: the pairs in the ledger that are
young enough, and those of this cycle. So of a job that is a victim of the claimant's job already,
further tasks may go.

Both are asked about a set of tasks that would leave together; a task alone is the set of that task.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from itertools import chain

from attrs import define, field, frozen

from batchsched.model.cluster import Budget, PastEviction, TaskStatus
from batchsched.plugin.arguments import Arguments
from batchsched.plugin.extension_points import Refused
from batchsched.plugin.queues import QueueTree
from batchsched.state.records import JobState, TaskState

SCOPES = ("cluster", "claimant-queue", "queue", "job")

Pair = tuple[JobState, JobState]
"""The job of a victim, and that of the claimant."""


class Budgets:
    """The budgets of a cycle: what they still allow."""

    def __init__(self, budgets: Sequence[Budget], tasks: Iterable[TaskState]) -> None:
        """Count the tasks of budgets. O(tasks x budgets of their namespace)."""
        self._budgets = budgets
        self._of_task: dict[str, tuple[int, ...]] = {}
        """For each task on a node that counts for any, the positions of its budgets."""
        self._down = set[str]()
        """The UIDs of those of them that leave in this cycle."""
        self.left = [0] * len(budgets)
        """What each budget still allows."""
        in_namespace: dict[str, list[int]] = {}
        for position, budget in enumerate(budgets):
            in_namespace.setdefault(budget.namespace, []).append(position)
        there, down = [0] * len(budgets), [0] * len(budgets)
        known: dict[tuple[str, Mapping[str, str]], tuple[int, ...]] = {}
        for task in tasks:
            info = task.info
            asked = in_namespace.get(info.namespace)
            if asked is None:
                continue
            key = info.namespace, info.labels
            mine = known.get(key)
            if mine is None:
                mine = known[key] = tuple([p for p in asked if budgets[p].counts(info)])
            if not mine:
                continue
            if task.status.occupies:
                self._of_task[info.uid] = mine
                counted = there
            elif info.status.ended:
                continue
            else:
                counted = down
            for position in mine:
                counted[position] += 1
        for position, budget in enumerate(budgets):
            if budget.min_available is not None:
                allowed = there[position] - budget.min_available
            else:
                allowed = (budget.max_unavailable or 0) - down[position]
            self.left[position] = max(0, allowed)
        self._at_open = tuple(self.left)

    @property
    def has_soft(self) -> bool:
        """Whether any of them is broken where nothing else serves."""
        return not all(budget.hard for budget in self._budgets)

    @property
    def state(self) -> Hashable:
        """What the answers depend on, besides the tasks: what was taken from which."""
        if tuple(self.left) == self._at_open:
            return None
        return tuple(self.left)

    def broken(self, tasks: Iterable[TaskState], *, hard: bool) -> Budget | None:
        """Return the first budget that would be broken if tasks left together; None: none.

        Args:
            tasks: the tasks, each once.
            hard: whether hard budgets are asked, or the others.

        """
        needed: dict[int, int] = {}
        for task in tasks:
            if task.status is TaskStatus.RUNNING:  # what has not started is not down
                for position in self._of_task.get(task.uid, ()):
                    needed[position] = needed.get(position, 0) + 1
        wrong = [
            position
            for position, count in needed.items()
            if self._budgets[position].hard is hard and count > self.left[position]
        ]
        return self._budgets[min(wrong)] if wrong else None

    def note(self, task: TaskState) -> None:
        """Note whether a task that was on a node leaves it, or does not after all.

        What moves leaves, too: it is down until it has started again.
        """
        is_down, was_down = not task.status.occupies, task.uid in self._down
        if is_down == was_down:
            return
        if is_down:
            self._down.add(task.uid)
        else:
            self._down.discard(task.uid)
        for position in self._of_task.get(task.uid, ()):
            self.left[position] += 1 if was_down else -1


@frozen
class Limit:
    """The most evictions in a window of time, by what is counted together."""

    name: str
    scope: str
    most: int
    window: float
    queue: str
    """Only victims in this queue and below count, or claimants for ``claimant-queue``; empty: all.
    """


def read_limits(arguments: Arguments, name: str) -> tuple[Limit, ...]:
    """Read limits from an argument: a list of ``{name, scope, most, window, queue}``."""
    limits: list[Limit] = []
    for row in arguments.rows(name):
        limit = Limit(
            name=row.text("name", default=""),
            scope=row.choice("scope", SCOPES, default="cluster"),
            most=row.integer("most", default=0, minimum=0),
            window=row.number("window", default=0, minimum=0),
            queue=row.text("queue", default=""),
        )
        if not limit.name.strip():
            row.refuse("name", "expected a name, as reasons tell it")
        if limit.name in {other.name for other in limits}:
            row.refuse("name", f"expected each name once, got {limit.name!r} again")
        for needed in ("scope", "most", "window"):
            if not row.is_given(needed):
                row.refuse(needed, "is missing")
        if row.is_given("window") and limit.window == 0:
            row.refuse("window", "expected more than 0 seconds, got 0")
        if limit.queue and limit.scope == "cluster":
            row.refuse("queue", "goes with the scopes claimant-queue, queue and job, not cluster")
        limits.append(limit)
    return tuple(limits)


@define(eq=False)
class CountedEvictions:
    """How often limits were used: by the ledger, and by this cycle."""

    limits: Sequence[Limit]
    _tree: QueueTree
    _now: float
    _evicted: Callable[[], Sequence[Pair]]
    """Returns the pairs of this cycle so far, those of the present statement too."""
    _past: dict[tuple[str, str], list[float]] = field(
        init=False, factory=dict[tuple[str, str], list[float]]
    )
    """By limit and key, the times of the entries of the ledger that count, in order."""
    _pairs: list[Pair] = field(init=False, factory=list[Pair])
    """The pairs of this cycle that are counted below."""
    _present: Counter[tuple[str, str]] = field(init=False, factory=Counter[tuple[str, str]])
    """By limit and key, how many of them count."""
    _victims: dict[str, set[str]] = field(init=False, factory=dict[str, set[str]])
    """The jobs that lose tasks for each job, by UID."""
    _below: dict[tuple[str, str], bool] = field(init=False, factory=dict[tuple[str, str], bool])

    def read(self, ledger: Iterable[PastEviction]) -> None:
        """Count the entries of the ledger. O(entries x limits)."""
        for past in ledger:
            for limit in self.limits:
                if self._now - past.time < limit.window:
                    key = self._key(limit, past.job, past.queue, past.for_queue)
                    if key is not None:
                        self._past.setdefault((limit.name, key), []).append(past.time)

    @property
    def state(self) -> Hashable:
        """What the answers depend on, besides the tasks and the claimant's job."""
        self._count()
        return frozenset((victim.uid, claimant.uid) for victim, claimant in self._pairs)

    def _count(self) -> None:
        """Count the pairs of this cycle, the new ones alone where the others are as they were."""
        pairs = self._evicted()
        known = len(self._pairs)
        if len(pairs) < known or pairs[:known] != self._pairs:
            known = 0
            self._present.clear()
            self._victims.clear()
        for victim, claimant in pairs[known:]:
            self._victims.setdefault(claimant.uid, set()).add(victim.uid)
            for limit in self.limits:
                key = self._key(limit, victim.uid, _queue_of(victim), _queue_of(claimant))
                if key is not None:
                    self._present[limit.name, key] += 1
        self._pairs = [*pairs]

    def _key(self, limit: Limit, job: str, queue: str, for_queue: str) -> str | None:
        """Return what counts together with an eviction for a limit; None: it does not count."""
        asked = for_queue if limit.scope == "claimant-queue" else queue
        if limit.queue and not self._is_in(asked, limit.queue):
            return None
        return {
            "cluster": "",
            "claimant-queue": for_queue,
            "queue": queue,
            "job": job,
        }[limit.scope]

    def _is_in(self, queue: str, above: str) -> bool:
        known = self._below.get((queue, above))
        if known is None:
            position = self._tree.position.get(queue)
            path = () if position is None else self._tree.path(position)
            known = self._below[queue, above] = any(self._tree.names[p] == above for p in path)
        return known

    def refuses_claims_of(self, claimant: JobState) -> Refused | None:
        """Return the limit that lets a job evict nobody any more, whoever it may be."""
        self._count()
        asked = [each for each in self.limits if each.scope in ("cluster", "claimant-queue")]
        queue = _queue_of(claimant)
        for limit in asked:
            key = self._key(limit, "", "", queue)
            if key is None:
                continue
            counted = self._counted(limit, key)
            if len(counted) + 1 > limit.most:
                return self._refused(limit, counted, 1)
        return None

    def refuses(self, claimant: JobState, victims: Collection[JobState]) -> Refused | None:
        """Return the limit that would be exceeded if tasks of some jobs left for a job."""
        self._count()
        already = self._victims.get(claimant.uid, ())
        new = [job for job in victims if job.uid not in already]
        if not new:
            return None
        for_queue = _queue_of(claimant)
        for limit in self.limits:
            together: dict[str, int] = {}
            for job in new:
                key = self._key(limit, job.uid, _queue_of(job), for_queue)
                if key is not None:
                    together[key] = together.get(key, 0) + 1
            for key, more in together.items():
                counted = self._counted(limit, key)
                if len(counted) + more > limit.most:
                    return self._refused(limit, counted, more)
        return None

    def _counted(self, limit: Limit, key: str) -> Sequence[float]:
        """Return the times of what counts for a limit, the oldest first."""
        place = limit.name, key
        return [*self._past.get(place, ()), *[self._now] * self._present[place]]

    @staticmethod
    def _refused(limit: Limit, counted: Sequence[float], more: int) -> Refused:
        """Return the refusal, until enough of what counts is too old."""
        too_many = len(counted) + more - limit.most
        rule = f"limit {limit.name}"
        if too_many > len(counted):
            return Refused(rule)
        return Refused(rule, counted[too_many - 1] + limit.window)


def _queue_of(job: JobState) -> str:
    return job.info.queue


def tasks_once(tasks: Iterable[TaskState]) -> Collection[TaskState]:
    """Return tasks, each once."""
    return {task.uid: task for task in tasks}.values()


def jobs_of(tasks: Iterable[TaskState]) -> Collection[JobState]:
    """Return the jobs of the tasks that run, each once: what has not started is not evicted."""
    jobs: Mapping[str, JobState] = {
        task.job.uid: task.job
        for task in tasks
        if task.job is not None and task.status is TaskStatus.RUNNING
    }
    return jobs.values()


def all_tasks(jobs: Iterable[JobState], others: Iterable[TaskState]) -> Iterable[TaskState]:
    """Return the tasks of jobs and others."""
    return chain(*(job.tasks for job in jobs), others)
