"""Predictions of run times, and their corrections.

Sources: Mu'alem and Feitelson, "Utilization, Predictability, Workloads, and User Runtime Estimates
in Scheduling the IBM SP2 with Backfilling", IEEE TPDS 12(6), 2001 (requested times, doubled ones);
Tsafrir, Etsion, Feitelson, "Backfilling Using System-Generated Predictions Rather Than User Runtime
Estimates", IEEE TPDS 18(6), 2007 (the last two jobs of a user, corrections); Gaussier, Glesser,
Reis, Trystram, "Improving Backfilling by Using Machine Learning to Predict Running Times", SC 2015
(the corrections compared).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from attrs import field, frozen

from batchsched.errors import Fault
from batchsched.model.immutable import AsTuple
from batchsched.model.validation.values import shown
from batchsched.simulation.checks import (
    JobId,
    PolicyError,
    SimulationError,
    are_rising,
    faults_of_part,
    faults_unless,
    is_number,
    refuse,
)
from batchsched.simulation.workload import Workload


class Prediction(Protocol):
    """The predictions of one simulation, which may learn from jobs that have ended.

    Jobs are identified by their index in the workload, in order of submission. If it has a method
    `watch`, that is called once, at the beginning, with an object that is always current: `now`,
    and `running`, the start of each job that runs and whose end has not been processed, by index.
    """

    def predict(self, job: int) -> float:
        """Return the predicted run time of a job when it is submitted, in seconds; 0 or more."""
        ...

    def ended(self, job: int, run: float) -> None:
        """Called when a job has ended after running for this many seconds."""


class Predictor(Protocol):
    """A method to predict run times."""

    def begin(self, workload: Workload, runs: Sequence[float]) -> Prediction:
        """Return the predictions for a new simulation.

        Args:
            workload: The jobs.
            runs: The true run times, which a realistic predictor must not use.
        """
        ...


class Corrector(Protocol):
    """A method to correct the prediction of a job that has run for that long and not ended."""

    def correct(self, first: float, last: float, count: int, requested: float) -> float:
        """Return the new prediction of its whole run time in seconds; more than `last`.

        Args:
            first: The prediction when the job was submitted.
            last: The prediction that has just proved too short.
            count: The number of corrections before this one.
            requested: The requested time of the job.
        """
        ...


@frozen
class Requested:
    """The time that the user requested."""

    def begin(self, workload: Workload, runs: Sequence[float]) -> Prediction:  # noqa: ARG002
        """Return the requested times.

        Raises:
            SimulationError: Some jobs have no requested time.
        """
        return _Fixed(_requests(workload, "Requested()"))

    def __str__(self) -> str:
        return "requested time"


@frozen
class Perfect:
    """The true run time of the job, which is known only in simulations."""

    def begin(self, workload: Workload, runs: Sequence[float]) -> Prediction:  # noqa: ARG002
        """Return the true times."""
        return _Fixed(runs)

    def __str__(self) -> str:
        return "true run time"


@frozen
class Scaled:
    """Another prediction, multiplied by a factor.

    Doubling the requested times gives better results on most logs, because jobs that end early
    then leave gaps for backfilling.
    """

    factor: float = 2
    of: Predictor = field(factory=Requested)

    def __attrs_post_init__(self) -> None:
        is_right = is_number(self.factor, least=0, above=True)
        faults = faults_unless(is_right, "Scaled.factor", "a number above 0", self.factor)
        refuse(SimulationError, faults)

    def begin(self, workload: Workload, runs: Sequence[float]) -> Prediction:
        """Return the other predictions, scaled.

        Raises:
            SimulationError: The other predictor cannot predict.
        """
        return _ScaledPrediction(self.factor, self.of.begin(workload, runs))

    def __str__(self) -> str:
        return f"{self.factor:g} x {self.of}"


@frozen
class LastTwo:
    """The mean run time of the user's last two ended jobs, at most the requested time.

    Rounded down (`//`), and at least 1 s. The requested time for users of whom fewer than two jobs
    have ended, and for jobs without a user. (EASY++ of Tsafrir, Etsion, Feitelson.)
    """

    def begin(self, workload: Workload, runs: Sequence[float]) -> Prediction:  # noqa: ARG002
        """Return predictions that learn from jobs that have ended.

        Raises:
            SimulationError: Some jobs have no requested time.
        """
        return _OfUsers(_requests(workload, "LastTwo()"), workload.users)

    def __str__(self) -> str:
        return "mean of the user's last two jobs"


@frozen
class Doubling:
    """Twice the last prediction, even beyond the requested time."""

    def correct(self, first: float, last: float, count: int, requested: float) -> float:  # noqa: ARG002
        """Return twice the last prediction."""
        return 2 * last

    def __str__(self) -> str:
        return "doubling"


@frozen
class ToRequest:
    """The requested time."""

    def correct(self, first: float, last: float, count: int, requested: float) -> float:  # noqa: ARG002
        """Return the requested time."""
        return requested

    def __str__(self) -> str:
        return "requested time"


@frozen
class Increments:
    """The first prediction plus an increment, at most the requested time.

    The default is the list of Tsafrir, Etsion and Feitelson: a minute more, then 5, 15, 30, then
    1 hour, 2, 5, 10, 20, 50 and 100, each counted from the first prediction.
    """

    seconds: tuple[float, ...] = field(
        default=(60, 300, 900, 1800, 3600, 7200, 18000, 36000, 72000, 180000, 360000),
        converter=AsTuple[float],
    )

    def __attrs_post_init__(self) -> None:
        is_right, what = are_rising(self.seconds) and bool(self.seconds), "rising numbers above 0"
        faults = faults_unless(is_right, "Increments.seconds", what, self.seconds)
        refuse(SimulationError, faults)

    def correct(self, first: float, last: float, count: int, requested: float) -> float:
        """Return the first prediction and the next increment; after the last, the request."""
        corrected = requested
        if count < len(self.seconds):
            corrected = min(first + self.seconds[count], requested)
        return corrected if corrected > last else requested

    def __str__(self) -> str:
        return "increments"


class _Fixed:
    def __init__(self, times: Sequence[float]) -> None:
        self._times = times

    def predict(self, job: int) -> float:
        return self._times[job]

    def ended(self, job: int, run: float) -> None:
        pass


class _ScaledPrediction:
    def __init__(self, factor: float, of: Prediction) -> None:
        self._factor = factor
        self._of = of
        self.ended = of.ended

    def predict(self, job: int) -> float:
        return self._factor * self._of.predict(job)


class _OfUsers:
    def __init__(self, requests: Sequence[float], users: Sequence[JobId | None]) -> None:
        self._requests = requests
        self._users = users
        self._runs = dict[JobId, tuple[float | None, float]]()

    def predict(self, job: int) -> float:
        request = self._requests[job]
        user = self._users[job]
        before, last = self._runs.get(user, (None, 0)) if user is not None else (None, 0)
        if before is None:
            return request
        return min(request, max(1, (before + last) // 2))

    def ended(self, job: int, run: float) -> None:
        user = self._users[job]
        if user is not None:
            _, last = self._runs.get(user, (None, None))
            self._runs[user] = (last, run)


class Clock(Protocol):
    """The time of a simulation, and what runs."""

    now: float
    unended: dict[int, float]
    """The start of each running job whose end has not been processed."""


class _Watched:
    """The running jobs, for predictions: always current."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    @property
    def now(self) -> float:
        return self._clock.now

    @property
    def running(self) -> Mapping[int, float]:
        return self._clock.unended


def faults_of_beliefs(predictor: object, corrector: object) -> Iterator[Fault]:
    """Yield what is wrong with a predictor and a corrector; None: there is none."""
    if predictor is not None:
        yield from faults_of_part("predictor", predictor, "begin", "Requested()")
    if corrector is not None:
        yield from faults_of_part("corrector", corrector, "correct", "Doubling()")


def prediction_of(
    predictor: Predictor | None, workload: Workload, runs: Sequence[float], clock: Clock
) -> Prediction | None:
    """Return the predictions for a new simulation, which may watch what runs."""
    if predictor is None:
        return None
    prediction = predictor.begin(workload, runs)
    watch = getattr(prediction, "watch", None)
    if watch is not None:
        watch(_Watched(clock))
    return prediction


def predicted(prediction: Prediction, job: int, workload: Workload) -> float:
    """Return the predicted run time of a job.

    Raises:
        SimulationError: It is no time.
    """
    seconds = prediction.predict(job)
    if not seconds >= 0:
        message = f"expected a predicted run time of 0 s or more, got {shown(seconds)}"
        raise SimulationError.at(f"jobs[{workload.ids[job]!r}]", message)
    return seconds


def corrected(
    corrector: Corrector, first: float, last: float, count: int, requested: float | None
) -> float:
    """Return the corrected prediction of a run time.

    The last one, if the job has run for its requested time: no corrector knows more, and it is
    assumed to end at once, as without one.

    Raises:
        PolicyError: It is not longer than the last one.
    """
    estimate = corrector.correct(first, last, count, requested or 0)
    if not estimate > last:
        if requested is not None and last >= requested:
            return last
        raise PolicyError(
            f"expected the corrector {corrector} to return more than the {last!r} s that "
            f"the job has run, got {shown(estimate)} s"
        )
    return estimate


def _requests(workload: Workload, who: str) -> Sequence[float]:
    requests = [time for time in workload.requested if time is not None]
    if len(requests) < len(workload):
        without = [
            each
            for each, time in zip(workload.ids, workload.requested, strict=True)
            if time is None
        ]
        raise SimulationError.at(
            "workload",
            f"{who} needs a requested time for every job; {len(without):,} of "
            f"{len(workload):,} jobs have none, the first is job {without[0]!r}. Use "
            "Perfect(), or workload.with_requests(...)",
        )
    return requests
