"""For how long jobs run, as far as somebody knows: what `forecast` asks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Hashable, Mapping, Sequence
from hashlib import sha256

from attrs import field, frozen

from batchsched.errors import ArgumentError, Fault
from batchsched.model.cluster import JobInfo
from batchsched.model.immutable import AsTuple
from batchsched.model.validation.arguments import checks_arguments, field_problems
from batchsched.model.validation.values import (
    LARGEST,
    Problems,
    duration_problems,
    integer_problems,
    is_mapping,
    items_of,
    shown,
)

Key = Callable[[JobInfo], Hashable | None]
"""What jobs have in common that run for about as long; None: nothing."""


class Estimates(ABC):
    """Knows for how long jobs run. Derive from it to bring knowledge of your own."""

    @abstractmethod
    def durations(self, job: JobInfo, age: float | None, /) -> Sequence[float]:
        """Return for how long a job may run in all, in seconds: ascending, each equally likely.

        Args:
            job: the job.
            age: for how many seconds it has run already; None: it waits.

        Returns:
            all that is known; empty: nothing is, and once it runs it does not end.

        """

    def draws_as(self, job: JobInfo, /) -> str:
        """Return in whose name a job draws: in a future all with one name draw one quantile."""
        return job.uid


@frozen
class AsEstimated(Estimates):
    """Each job runs for as long as estimated (`JobInfo.expected_run`)."""

    otherwise: float | None = field(default=None, kw_only=True)
    """For how many seconds jobs run that have no estimate; None: nobody knows."""

    def __attrs_post_init__(self) -> None:
        _refuse(_known_problems("otherwise", self.otherwise))

    def durations(self, job: JobInfo, age: float | None, /) -> Sequence[float]:  # noqa: ARG002
        """Return the estimate. O(tasks)."""
        return _first_known(job.expected_run, self.otherwise)


@frozen
class Fixed(Estimates):
    """Each job runs for as long as is said here; those of which nothing is said, as estimated."""

    seconds: float | Mapping[str, float]
    """For how many seconds jobs run: each, or each of some, by UID."""

    def __attrs_post_init__(self) -> None:
        if is_mapping(self.seconds):
            each = items_of(self.seconds)
            _refuse(*(duration_problems(f"seconds[{shown(uid)}]", n) for uid, n in each))
        else:
            _refuse(duration_problems("seconds", self.seconds))

    def durations(self, job: JobInfo, age: float | None, /) -> Sequence[float]:  # noqa: ARG002
        """Return what is said, or else the estimate. O(tasks)."""
        if isinstance(self.seconds, Mapping):
            return _first_known(self.seconds.get(job.uid), job.expected_run)
        return (self.seconds,)


def _first_known(*durations: float | None) -> tuple[float, ...]:
    return tuple(each for each in durations if each is not None)[:1]


@checks_arguments()
def by_user_and_name(job: JobInfo) -> Hashable:
    """Return the user and the name without digits, which tell runs of one program apart."""
    return job.user, "".join(each for each in job.name if not each.isdigit())


@checks_arguments()
def by_user(job: JobInfo) -> Hashable:
    """Return the user."""
    return job.user


@checks_arguments()
def any_job(job: JobInfo) -> Hashable:  # noqa: ARG001 - it is a key like others
    """Return the same for all jobs."""
    return True


@frozen
class History(Estimates):
    """Jobs run as those like them have run.

    What counts is the first key with at least `least` runs, and of these those that took longer
    than the job has run already; of the last key one is enough. Nobody runs for longer than
    estimated, unless it has. A job that has run for longer than any that is known ends now.

    Predictions from the last runs of a user follow Tsafrir, Etsion and Feitelson, "Backfilling
    using system-generated predictions" (TPDS 2007). Creating it is O(runs x keys x log runs), and
    asking it O(runs that count).

    >>> runs = [(JobInfo(name=f"train-{n}", queue="q", user="ann"), 60 * n) for n in range(1, 7)]
    >>> history = History(runs)
    >>> job = JobInfo(name="train-7", queue="q", user="ann", estimate=300)
    >>> history.durations(job, None), history.durations(job, 200)
    ((60, 120, 180, 240, 300, 300), (240, 300, 300))
    """

    ended: tuple[tuple[JobInfo, float], ...] = field(
        converter=AsTuple[tuple[JobInfo, float]], repr=False
    )
    """Jobs that have ended, and for how many seconds they ran; the last is the newest."""
    keys: tuple[Key, ...] = field(
        default=(by_user_and_name, by_user, any_job), converter=AsTuple[Key], kw_only=True
    )
    """What jobs have in common that run for about as long, the most telling first."""
    least: int = field(default=5, kw_only=True)
    """With how many runs a key counts."""
    newest: int | None = field(default=None, kw_only=True)
    """Of how many runs of a key at most, the newest; None: of all."""
    ratios: bool = field(default=False, kw_only=True)
    """Whether a run counts as a part of its estimate: as half an hour of an estimated hour is to a
    job with an estimate of two hours one hour. Runs without an estimate do not count then, and jobs
    without one have the seconds of all."""
    together: Key | None = field(default=None, kw_only=True)
    """Jobs with the same key draw the same quantile in a future, as `by_user`; None: each its own.
    """
    otherwise: float | None = field(default=None, kw_only=True)
    """For how many seconds jobs run of which nothing is known; None: nobody knows."""
    _runs: Mapping[tuple[int, Hashable, bool], tuple[float, ...]] = field(
        init=False,
        repr=False,
        eq=False,
        factory=dict[tuple[int, Hashable, bool], tuple[float, ...]],
    )
    """Runs in ascending order: by the position of the key, the key, and whether as ratios."""

    def __attrs_post_init__(self) -> None:
        _refuse(field_problems(self))
        numbers = {"least": self.least, "newest": 1 if self.newest is None else self.newest}
        _refuse(
            *(_known_problems(f"ended[{n}][1]", each) for n, (_, each) in enumerate(self.ended)),
            _known_problems("otherwise", self.otherwise),
            *(integer_problems(name, n, "1 or more", least=1) for name, n in numbers.items()),
        )
        found: dict[tuple[int, Hashable, bool], list[float]] = {}
        for job, seconds in self.ended:
            estimate = job.expected_run
            for position, key in enumerate(self.keys):
                of = key(job)
                if of is not None:
                    found.setdefault((position, of, False), []).append(seconds)
                    if estimate:
                        found.setdefault((position, of, True), []).append(seconds / estimate)
        newest = self.newest or 0
        object.__setattr__(
            self, "_runs", {key: tuple(sorted(runs[-newest:])) for key, runs in found.items()}
        )

    def durations(self, job: JobInfo, age: float | None, /) -> Sequence[float]:
        """Return how long jobs like it took that took longer than it has run."""
        estimate = job.expected_run
        scale = estimate if self.ratios and estimate else None
        is_known = False
        for position, key in enumerate(self.keys):
            runs = self._runs.get((position, key(job), scale is not None), ())
            is_known = is_known or bool(runs)
            if scale is not None:
                runs = tuple(scale * ratio for ratio in runs)
            if age is not None:
                runs = runs[bisect_right(runs, age) :]
            if len(runs) >= (1 if position == len(self.keys) - 1 else self.least):
                if estimate is None or (age is not None and age >= estimate):
                    return runs
                return tuple(min(each, estimate) for each in runs)
        known = _first_known(estimate, self.otherwise)
        return known or ((age,) if is_known and age is not None else ())

    def draws_as(self, job: JobInfo, /) -> str:
        """Return in whose name a job draws; see `together`."""
        shared = None if self.together is None else self.together(job)
        return job.uid if shared is None else repr(shared)


def drawn(durations: Sequence[float], name: str, *, seed: int, future: int) -> float:
    """Return one of some durations, each equally likely; it depends on nothing but this. O(1).

    >>> [drawn((10, 20, 30, 40), "a", seed=0, future=k) for k in range(5)]
    [40, 20, 20, 30, 40]
    """
    text = f"{seed}/{name}/{future}".encode(errors="surrogatepass")
    number = int.from_bytes(sha256(text).digest()[:8], "big")
    return durations[(2 * number + 1) * len(durations) >> 65]


def durations_of(estimates: Estimates, job: JobInfo, age: float | None) -> tuple[float, ...]:
    """Return how long a job may run.

    Raises:
        ArgumentError: estimates raised, or said what is no ascending list of durations.

    """
    path = f"estimates.durations({job.uid!r})"
    try:
        found = tuple(estimates.durations(job, age))
    except ArgumentError:
        raise
    except Exception as cause:
        raise ArgumentError([Fault(path, f"raised {cause!r}")]) from cause
    # What is right is seen at once: there may be thousands for each job.
    is_plain = not {*map(type, found)} - {int, float}
    if is_plain and all(0 <= each <= LARGEST for each in found) and list(found) == sorted(found):
        return found
    problems = [
        problem
        for position, each in enumerate(found)
        for problem in duration_problems(f"{path}[{position}]", each)
    ]
    if not problems and list(found) != sorted(found):
        problems = [(path, f"expected ascending durations, got {shown(found)}")]
    if problems:
        raise ArgumentError([Fault(*problem) for problem in problems])
    return found


def _refuse(*problems: Problems) -> None:
    """Raise an error that tells all that is wrong, if anything is."""
    faults = [Fault(*problem) for each in problems for problem in each]
    if faults:
        raise ArgumentError(faults)


def _known_problems(path: str, seconds: object) -> Problems:
    if seconds is not None:
        yield from duration_problems(path, seconds)
