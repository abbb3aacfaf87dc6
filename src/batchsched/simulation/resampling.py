"""Workloads resampled from one log, so that results do not depend on a single sequence of events.

Source: Zakay and Feitelson, "Workload Resampling for Performance Evaluation of Parallel Job
Schedulers", Concurrency and Computation 26(12), 2014.
"""

from __future__ import annotations

from collections.abc import Iterable

from batchsched.errors import Fault
from batchsched.simulation.problems import WorkloadError
from batchsched.simulation.randomness import RandomNumbers
from batchsched.simulation.workload import JobId, Workload

__all__ = ["resampled_by_users", "resampled_by_weeks"]

WEEK = 7 * 86400


def resampled_by_weeks(workload: Workload, *, weeks: int, seed: int) -> Workload:
    """Return a workload of `weeks` weeks, each drawn from the complete weeks of a log.

    Weeks are counted from the first submission, and may be drawn more than once. Jobs get new ids
    and no dependencies.

    Raises:
        WorkloadError: The log has no complete week, or `weeks` is less than 1.

    >>> from batchsched.simulation import generate
    >>> log = generate(jobs=3000, nodes=32, seed=1)
    >>> resampled_by_weeks(log, weeks=3, seed=2).submits[-1] < 3 * 7 * 86400
    True
    """
    if weeks < 1:
        raise WorkloadError([Fault("weeks", f"expected 1 or more, got {weeks!r}")])
    whole = _weeks(workload)
    if whole < 1:
        raise WorkloadError(
            [Fault("workload", "expected a log of a week or more, got a shorter one")]
        )
    numbers = RandomNumbers(seed)
    first = workload.submits[0]
    by_week: list[list[int]] = [[] for _ in range(whole)]
    for job, submit in enumerate(workload.submits):
        week = int((submit - first) // WEEK)
        if week < whole:
            by_week[week].append(job)
    drawn = [numbers.below(whole) for _ in range(weeks)]
    return _assembled(
        workload,
        (
            (job, workload.submits[job] - first + (place - week) * WEEK, None)
            for place, week in enumerate(drawn)
            for job in by_week[week]
        ),
    )


def resampled_by_users(workload: Workload, *, seed: int, users: int | None = None) -> Workload:
    """Return a workload of users drawn from a log, each with all of that user's jobs.

    The jobs of each user are shifted by a random number of weeks, wrapping around at the end of the
    log, so that the hour and the day of the week are preserved and coincidences between users are
    not. Users may be drawn more than once; users and jobs get new ids. Jobs without a user, and
    those after the last complete week, are left out. Jobs have no dependencies.

    Args:
        workload: The log.
        seed: The seed of the choice of users and of their shifts.
        users: The number of users; None: as many as the log has. More users mean more load.

    Raises:
        WorkloadError: The log has no complete week or no users, or `users` is less than 1.
    """
    whole = _weeks(workload)
    by_user: dict[JobId, list[int]] = {}
    for job, user in enumerate(workload.users):
        if user is not None:
            by_user.setdefault(user, []).append(job)
    if whole < 1 or not by_user:
        raise WorkloadError(
            [Fault("workload", "expected a log of a week or more whose jobs have users")]
        )
    if users is not None and users < 1:
        raise WorkloadError([Fault("users", f"expected 1 or more, got {users!r}")])
    numbers = RandomNumbers(seed)
    names = list(by_user)
    first, length = workload.submits[0], whole * WEEK
    chosen: list[tuple[int, float, JobId | None]] = []
    for number in range(1, (users or len(names)) + 1):
        name = names[numbers.below(len(names))]
        moved = numbers.below(whole) * WEEK
        for job in by_user[name]:
            since = workload.submits[job] - first
            if since < length:
                chosen.append((job, (since + moved) % length, number))
    return _assembled(workload, chosen)


def _weeks(workload: Workload) -> int:
    if not len(workload):
        return 0
    return int((workload.submits[-1] - workload.submits[0]) // WEEK)


def _assembled(workload: Workload, chosen: Iterable[tuple[int, float, JobId | None]]) -> Workload:
    """Build a workload from jobs of another, with new submission times and, if given, users."""
    rows = sorted(chosen, key=lambda row: (row[1], row[2] or 0, row[0]))
    columns: dict[str, list[object]] = {
        "id": list(range(1, len(rows) + 1)),
        "submit": [submit for _, submit, _ in rows],
    }
    for name in ("run", "processors", "requested", "group", "queue", "application", "labels"):
        column = workload.column(name)
        columns[name] = [column[job] for job, _, _ in rows]
    users = workload.users
    columns["user"] = [users[job] if user is None else user for job, _, user in rows]
    return Workload.from_columns(columns, machine=workload.machine)
