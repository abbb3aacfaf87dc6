"""Drawn at random: workloads, from a model or from the users and weeks of others, and failures.

Source of resampling, so that results do not depend on a single sequence of events: Zakay and
Feitelson, "Workload Resampling for Performance Evaluation of Parallel Job Schedulers", Concurrency
and Computation 26(12), 2014.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from hashlib import sha256
from itertools import accumulate
from math import ceil, cos, exp, log, log2, pi
from math import gamma as gamma_function

from batchsched.errors import Fault
from batchsched.model.validation.arguments import checks_arguments
from batchsched.model.validation.values import is_of
from batchsched.simulation.checks import (
    JobId,
    SimulationError,
    WorkloadError,
    faults_of_count,
    faults_of_seed,
    faults_unless,
    is_number,
    refuse,
)
from batchsched.simulation.jobs import Machine
from batchsched.simulation.randomness import Draw, RandomNumbers, exponential, gamma, uniform
from batchsched.simulation.settings import Incident, NodeDown, NodeUp, faults_of_time
from batchsched.simulation.workload import Workload

DAY = 86400
LONGEST = 60 * 3600
LIMITS = tuple(60 * m for m in (5, 10, 15, 30, 60, 120, 240, 360, 720, 1080, 1440, 2880, 3600))
"""The time limits that users choose from, in seconds; the largest equals the longest run time."""


def generate(
    *,
    jobs: int,
    nodes: int,
    seed: int,
    load: float = 0.8,
    users: int = 40,
    serial: float = 0.25,
    power_of_two: float = 0.6,
    daily_cycle: float = 0.8,
) -> Workload:
    """Generate a synthetic workload for a machine of equal processors.

    It has the shapes that Lublin and Feitelson found in logs ("The Workload on Parallel
    Supercomputers: Modeling the Characteristics of Rigid Jobs", JPDC 63(11), 2003): many sizes are
    1 or powers of two, and their logarithm is uniform in two stages; the logarithm of run times
    follows one of two gamma distributions, for larger jobs more often the longer one; arrivals
    follow the hours of the day. The parameters are this library's own, so the result does not
    replace their model. Users request the next common time limit above a multiple of the run time.

    Equal arguments give equal workloads, everywhere.

    Args:
        jobs: The number of jobs.
        nodes: The number of processors.
        seed: The seed of all random choices.
        load: The share of the machine that the jobs keep busy, 0.001 to 1000; see `Workload.load`.
        users: The number of users; the first submits the most jobs (Zipf's law).
        serial: The share of jobs with one processor.
        power_of_two: The share of the other jobs whose size is a power of two.
        daily_cycle: How much the arrival rate falls from 14:00 to 2:00: 0 not at all, 1 to zero.

    Raises:
        WorkloadError: Invalid arguments. All faults at once.

    >>> workload = generate(jobs=1000, nodes=64, seed=1)
    >>> workload == generate(jobs=1000, nodes=64, seed=1)
    True
    >>> round(workload.load, 1)
    0.8
    """
    shares = {"serial": serial, "power_of_two": power_of_two, "daily_cycle": daily_cycle}
    is_load = is_number(load, least=_LEAST_LOAD, most=_MOST_LOAD)
    refuse(
        WorkloadError,
        faults_of_count("jobs", jobs, 0),
        faults_of_count("nodes", nodes, 1),
        faults_of_count("users", users, 1),
        faults_of_seed(seed),
        faults_unless(is_load, "load", f"a number from {_LEAST_LOAD} to {_MOST_LOAD:,}", load),
        *(
            faults_unless(is_number(share, least=0, most=1), name, "a share from 0 to 1", share)
            for name, share in shares.items()
        ),
    )
    draw = uniform(seed)
    sizes = _sizes(draw, jobs, nodes, serial, power_of_two)
    runs = _runs(draw, [size / nodes for size in sizes])
    work = sum(size * run for size, run in zip(sizes, runs, strict=True))
    return Workload.from_columns(
        {
            "id": range(1, jobs + 1),
            "submit": _submits(draw, jobs, work / (load * nodes), daily_cycle),
            "run": runs,
            "processors": sizes,
            "requested": _requests(draw, runs),
            "user": _users(draw, jobs, users),
        },
        machine=Machine(nodes),
    )


_LEAST_LOAD = 0.001
_MOST_LOAD = 1000
"""Shares of the machine that jobs can be spread for: times stay numbers that mean something."""


def _sizes(draw: Draw, jobs: int, nodes: int, serial: float, power_of_two: float) -> list[int]:
    low, high = 0.8, log2(nodes)
    middle = max(high - 2.5, (low + high) / 2)

    def size() -> int:
        if nodes == 1 or draw() < serial:
            return 1
        if high <= low:
            return min(2, nodes)
        begin, end = (low, middle) if draw() < 0.86 else (middle, high)  # noqa: PLR2004
        logarithm = begin + (end - begin) * draw()
        if draw() < power_of_two:
            logarithm = round(logarithm)
        return max(1, min(nodes, round(2**logarithm)))

    return [size() for _ in range(jobs)]


def _runs(draw: Draw, shares: Iterable[float]) -> list[int]:
    short, long = gamma(draw, 4.2, 0.94), gamma(draw, 312, 0.03)
    logarithms = ((short if draw() < 0.78 - 0.54 * share else long)() for share in shares)
    return [max(1, min(LONGEST, round(exp(min(each, 20))))) for each in logarithms]


def _requests(draw: Draw, runs: Iterable[int]) -> list[int]:
    wanted = (run * (1 + exponential(draw, 1.5)) for run in runs)
    return [LIMITS[min(bisect_left(LIMITS, each), len(LIMITS) - 1)] for each in wanted]


def _submits(draw: Draw, jobs: int, time: float, cycle: float) -> list[int]:
    """Return arrivals of a Poisson process with a daily cycle, from 0 to about `time`."""
    if jobs < 2:  # noqa: PLR2004
        return [0] * jobs
    times: list[float] = []
    for _ in range(jobs):
        while True:
            moment = time * draw()
            rate = 1 - cycle * (1 - cos(2 * pi * (moment / DAY - 14 / 24))) / 2
            if draw() < rate:
                times.append(moment)
                break
    times.sort()
    # Stretch the times from the first to the last submission, so that the load is as requested.
    first, span = times[0], times[-1] - times[0]
    scale = time / span if span else 0.0
    return [round((moment - first) * scale) for moment in times]


def _users(draw: Draw, jobs: int, users: int) -> list[int]:
    sums = list(accumulate(1 / rank for rank in range(1, users + 1)))
    total = sums[-1]
    return [bisect_right(sums, draw() * total) + 1 for _ in range(jobs)]


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
    faults = (*_faults_of_log(workload), *faults_of_count("weeks", weeks, 1))
    refuse(WorkloadError, faults, faults_of_seed(seed))
    whole = _weeks(workload)
    if whole < 1:
        raise WorkloadError.at("workload", "expected a log of a week or more, got a shorter one")
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
    faults = (*_faults_of_log(workload), *faults_of_seed(seed))
    refuse(WorkloadError, faults, faults_of_count("users", 1 if users is None else users, 1))
    whole = _weeks(workload)
    by_user: dict[JobId, list[int]] = {}
    for job, user in enumerate(workload.users):
        if user is not None:
            by_user.setdefault(user, []).append(job)
    if whole < 1 or not by_user:
        raise WorkloadError.at("workload", "expected a log of a week or more whose jobs have users")
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


def _faults_of_log(workload: object) -> Iterator[Fault]:
    return faults_unless(is_of(workload, Workload), "workload", "a Workload", workload)


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


# Failures of nodes


@checks_arguments(SimulationError)
def failures(
    nodes: Iterable[str], *, mtbf: float, repair: float, until: float, seed: int, shape: float = 1
) -> tuple[Incident, ...]:
    """Return incidents: nodes that fail and come back, drawn at random.

    The times of a node depend on its name, the seed and the other numbers alone. From 0, and from
    each repair, the time to the next failure follows a Weibull distribution, and each repair takes
    an exponentially distributed time; both in whole seconds, at least 1.

    Args:
        nodes: Their names.
        mtbf: The mean time from a repair to the next failure, in seconds.
        repair: The mean time of a repair, in seconds.
        until: Nodes fail before this time; repairs may end later.
        seed: The seed of all random choices.
        shape: The shape of the Weibull distribution: 1 is the exponential distribution; with less,
            failures come in bursts.

    Raises:
        SimulationError: Numbers out of range. All faults at once.

    >>> down, up = failures(["n1"], mtbf=1000, repair=100, until=500, seed=1)
    >>> down.at, up.at
    (337, 421)
    """
    faults = list(faults_of_seed(seed))
    for name, value in (("mtbf", mtbf), ("repair", repair), ("shape", shape)):
        is_right = is_number(value, least=0.01 if name == "shape" else 0, above=name != "shape")
        faults += faults_unless(is_right, name, "a number above 0", value)
    refuse(SimulationError, faults, faults_of_time("until", until))
    found: list[Incident] = []
    for name in sorted(nodes):
        count = 0

        def draw(mean: float, shape: float, name: str = name) -> int:
            nonlocal count
            digest = sha256(f"{seed}/{name}/{count}".encode()).digest()
            count += 1
            share = (int.from_bytes(digest[:8], "big") + 0.5) / 2**64
            seconds: float = mean / gamma_function(1 + 1 / shape) * (-log(share)) ** (1 / shape)
            return max(1, ceil(seconds))

        time = draw(mtbf, shape)
        while time < until:
            found.append(NodeDown(at=time, node=name))
            time += draw(repair, 1)
            found.append(NodeUp(at=time, node=name))
            time += draw(mtbf, shape)
    return tuple(found)
