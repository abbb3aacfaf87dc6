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
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
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


class _Selectors:
    """The budgets of a namespace, by what tasks must have to count for them."""

    def __init__(self) -> None:
        self._by_label: dict[tuple[str, str], list[int]] = {}
        self._others: list[int] = []
        """The budgets that ask for no label with one value."""

    def add(self, position: int, budget: Budget) -> None:
        """Add a budget by its position."""
        label = next(iter(budget.selector.match_labels.items()), None)
        (self._others if label is None else self._by_label.setdefault(label, [])).append(position)

    def that_may_count(self, labels: Mapping[str, str]) -> Iterator[int]:
        """Yield the budgets for which tasks with some labels may count. O(labels + budgets)."""
        yield from self._others
        for label in labels.items():
            yield from self._by_label.get(label, ())


class Budgets:
    """The budgets of a cycle: what they still allow."""

    def __init__(self, budgets: Sequence[Budget], tasks: Iterable[TaskState]) -> None:
        """Count the tasks of budgets. O(tasks + sets of labels x budgets that may be meant)."""
        self._budgets = budgets
        self._of_task: dict[str, tuple[int, ...]] = {}
        """For each task on a node that counts for any, the positions of its budgets."""
        self._down = set[str]()
        """The UIDs of those of them that leave in this cycle."""
        self._taken: dict[int, int] = {}
        """By position, how much less a budget allows than when the cycle began."""
        selectors: dict[str, _Selectors] = {}
        for position, budget in enumerate(budgets):
            selectors.setdefault(budget.namespace, _Selectors()).add(position, budget)
        there, down = [0] * len(budgets), [0] * len(budgets)
        known: dict[str, dict[Mapping[str, str], tuple[int, ...]]] = {}
        for task in tasks:
            info = task.info
            asked = selectors.get(info.namespace)
            if asked is None:
                continue
            of_labels = known.setdefault(info.namespace, {})
            mine = of_labels.get(info.labels)
            if mine is None:
                may_count = asked.that_may_count(info.labels)
                mine = tuple([p for p in may_count if budgets[p].counts(info)])
                of_labels[info.labels] = mine
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
        self._left = [
            max(
                0,
                (budget.max_unavailable or 0) - is_down
                if budget.min_available is None
                else is_there - budget.min_available,
            )
            for budget, is_there, is_down in zip(budgets, there, down, strict=True)
        ]
        """How many tasks may still leave, by position; below 0 where one was broken."""
        self._least_left = min(self._left, default=0)
        """At most what the tightest budget has left: mostly nothing else need be looked at."""

    @property
    def has_soft(self) -> bool:
        """Whether any of them is broken where nothing else serves."""
        return not all(budget.hard for budget in self._budgets)

    @property
    def state(self) -> Hashable:
        """What the answers depend on, besides the tasks: what was taken from which."""
        return frozenset(self._taken.items())

    def broken(self, tasks: Collection[TaskState], *, hard: bool) -> Budget | None:
        """Return the first budget that would be broken if tasks left together; None: none.

        O(1) where each budget allows as many, else O(tasks x budgets of each).

        Args:
            tasks: the tasks, each once.
            hard: whether hard budgets are asked, or the others.

        """
        if len(tasks) <= self._least_left:
            return None
        needed: dict[int, int] = {}
        for task in tasks:
            if task.status is TaskStatus.RUNNING:  # what has not started is not down
                for position in self._of_task.get(task.uid, ()):
                    needed[position] = needed.get(position, 0) + 1
        wrong = [
            position
            for position, count in needed.items()
            if self._budgets[position].hard is hard and count > self._left[position]
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
        taken, less = self._taken, 1 if is_down else -1
        for position in self._of_task.get(task.uid, ()):
            taken[position] = taken.get(position, 0) + less
            if not taken[position]:
                del taken[position]
            self._left[position] -= less
            self._least_left = min(self._least_left, self._left[position])


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
    _is_stale: bool = field(init=False, default=True)
    """Whether the pairs of this cycle may be others than those that are counted."""
    _slack: int = field(init=False, default=0)
    """How many more pairs no limit refuses, whichever they are, at least."""
    _state: frozenset[tuple[str, str]] = field(init=False, factory=frozenset[tuple[str, str]])

    def read(self, ledger: Iterable[PastEviction]) -> None:
        """Count the entries of the ledger. O(entries x limits)."""
        for past in ledger:
            for limit in self.limits:
                if self._now - past.time < limit.window:
                    key = self._key(limit, past.job, past.queue, past.for_queue)
                    if key is not None:
                        self._past.setdefault((limit.name, key), []).append(past.time)
        self._slack = self._least_slack()

    def _least_slack(self) -> int:
        """Return how many more pairs each limit allows by the ledger alone. O(keys)."""
        most = {limit.name: limit.most for limit in self.limits}
        used = (most[name] - len(times) for (name, _), times in self._past.items())
        return max(0, min(chain(most.values(), used), default=0))

    def changed(self) -> None:
        """Note that a task has left its node, or has not after all. O(1)."""
        self._is_stale = True

    def state_for(self, claimant: JobState) -> Hashable:
        """Return what the answers for a job depend on, besides the tasks and its queue."""
        self._count()
        return self._state, claimant.uid if claimant.uid in self._victims else ""

    def _count(self) -> None:
        """Count the pairs of this cycle, the new ones alone where the others are as they were."""
        if not self._is_stale:
            return
        self._is_stale = False
        pairs = self._evicted()
        known = len(self._pairs)
        if len(pairs) < known or pairs[:known] != self._pairs:
            known = 0
            self._present.clear()
            self._victims.clear()
            self._slack = self._least_slack()
        elif len(pairs) == known:
            return
        for victim, claimant in pairs[known:]:
            self._victims.setdefault(claimant.uid, set()).add(victim.uid)
            for limit in self.limits:
                key = self._key(limit, victim.uid, _queue_of(victim), _queue_of(claimant))
                if key is not None:
                    place = limit.name, key
                    self._present[place] += 1
                    count = self._present[place] + len(self._past.get(place, ()))
                    self._slack = max(0, min(self._slack, limit.most - count))
        self._pairs = [*pairs]
        self._state = frozenset([(victim.uid, claimant.uid) for victim, claimant in pairs])

    def _key(self, limit: Limit, job: str, queue: str, for_queue: str) -> str | None:
        """Return what counts together with an eviction for a limit; None: it does not count."""
        asked = for_queue if limit.scope == "claimant-queue" else queue
        if limit.queue and not self._is_in(asked, limit.queue):
            return None
        match limit.scope:
            case "claimant-queue":
                return for_queue
            case "queue":
                return queue
            case "job":
                return job
            case _:
                return ""

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
            if self._exceeds(limit, key, 1):
                return self._refused(limit, key, 1)
        return None

    def refuses(self, claimant: JobState, victims: Collection[JobState]) -> Refused | None:
        """Return the limit that would be exceeded if tasks of some jobs left for a job.

        O(1) where no limit is near, else O(jobs x limits).
        """
        self._count()
        if len(victims) <= self._slack:
            return None
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
                if self._exceeds(limit, key, more):
                    return self._refused(limit, key, more)
        return None

    def _exceeds(self, limit: Limit, key: str, more: int) -> bool:
        """Return whether so many more would be more than a limit allows. O(1)."""
        place = limit.name, key
        return len(self._past.get(place, ())) + self._present[place] + more > limit.most

    def _refused(self, limit: Limit, key: str, more: int) -> Refused:
        """Return the refusal, until enough of what counts is too old."""
        place = limit.name, key
        past, present = self._past.get(place, ()), self._present[place]
        last = len(past) + present + more - limit.most - 1
        """The position, from the oldest, of what has to be too old."""
        rule = f"limit {limit.name}"
        if last >= len(past) + present:
            return Refused(rule)
        return Refused(rule, (past[last] if last < len(past) else self._now) + limit.window)


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
