"""Synthetic workloads for examples, tests and sweeps."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from math import cos, exp, log2, pi

from batchsched.errors import Fault
from batchsched.simulation.problems import WorkloadError, is_number
from batchsched.simulation.randomness import RandomNumbers
from batchsched.simulation.workload import Machine, Workload

__all__ = ["generate"]

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
        load: The share of the machine that the jobs keep busy; see `Workload.load`.
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
    _check(jobs, nodes, seed, users, load, (serial, power_of_two, daily_cycle))
    machine = Machine(nodes)
    numbers = RandomNumbers(seed)
    sizes = [_size(numbers, nodes, serial, power_of_two) for _ in range(jobs)]
    runs = [_run(numbers, size / nodes) for size in sizes]
    work = sum(size * run for size, run in zip(sizes, runs, strict=True))
    return Workload.from_columns(
        {
            "id": range(1, jobs + 1),
            "submit": _submits(numbers, jobs, work / (load * nodes), daily_cycle),
            "run": runs,
            "processors": sizes,
            "requested": [_request(numbers, run) for run in runs],
            "user": _users(numbers, jobs, users),
        },
        machine=machine,
    )


def _check(
    jobs: int, nodes: int, seed: int, users: int, load: float, shares: Sequence[float]
) -> None:
    faults: list[Fault] = []
    if type(jobs) is not int or jobs < 0:
        faults.append(Fault("jobs", f"expected a whole number, 0 or more, got {jobs!r}"))
    if type(nodes) is not int or nodes < 1:
        faults.append(Fault("nodes", f"expected a whole number, 1 or more, got {nodes!r}"))
    if type(users) is not int or users < 1:
        faults.append(Fault("users", f"expected a whole number, 1 or more, got {users!r}"))
    if type(seed) is not int:
        faults.append(Fault("seed", f"expected a whole number, got {seed!r}"))
    if not is_number(load, least=0, above=True):
        faults.append(Fault("load", f"expected a number above 0, got {load!r}"))
    for name, share in zip(("serial", "power_of_two", "daily_cycle"), shares, strict=True):
        if not is_number(share, least=0, most=1):
            faults.append(Fault(name, f"expected a share from 0 to 1, got {share!r}"))
    if faults:
        raise WorkloadError(faults)


def _size(numbers: RandomNumbers, nodes: int, serial: float, power_of_two: float) -> int:
    if nodes == 1 or numbers.uniform() < serial:
        return 1
    low, high = 0.8, log2(nodes)
    middle = max(high - 2.5, (low + high) / 2)
    if high <= low:
        return min(2, nodes)
    first = numbers.uniform() < 0.86  # noqa: PLR2004
    begin, end = (low, middle) if first else (middle, high)
    logarithm = begin + (end - begin) * numbers.uniform()
    if numbers.uniform() < power_of_two:
        logarithm = round(logarithm)
    return max(1, min(nodes, round(2**logarithm)))


def _run(numbers: RandomNumbers, share: float) -> int:
    short = numbers.uniform() < 0.78 - 0.54 * share
    logarithm = numbers.gamma(4.2, 0.94) if short else numbers.gamma(312, 0.03)
    return max(1, min(LONGEST, round(exp(min(logarithm, 20)))))


def _request(numbers: RandomNumbers, run: int) -> int:
    wanted = run * (1 + numbers.exponential(1.5))
    return next((limit for limit in LIMITS if limit >= wanted), LONGEST)


def _submits(numbers: RandomNumbers, jobs: int, time: float, cycle: float) -> list[int]:
    """Return arrivals of a Poisson process with a daily cycle, from 0 to about `time`."""
    if jobs < 2:  # noqa: PLR2004
        return [0] * jobs
    times: list[float] = []
    for _ in range(jobs):
        while True:
            moment = time * numbers.uniform()
            rate = 1 - cycle * (1 - cos(2 * pi * (moment / DAY - 14 / 24))) / 2
            if numbers.uniform() < rate:
                times.append(moment)
                break
    times.sort()
    # Stretch the times from the first to the last submission, so that the load is as requested.
    first, scale = times[0], time / (times[-1] - times[0])
    return [round((moment - first) * scale) for moment in times]


def _users(numbers: RandomNumbers, jobs: int, users: int) -> list[int]:
    sums = list(accumulate(1 / rank for rank in range(1, users + 1)))
    total = sums[-1]
    return [bisect_right(sums, numbers.uniform() * total) + 1 for _ in range(jobs)]
