"""The result of a simulation, with metrics, series, comparisons and explanations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Literal

from attrs import frozen

from batchsched.simulation.comparison import Comparison, compared
from batchsched.simulation.explanation import explained
from batchsched.simulation.metrics import Metrics, Part, metrics_of
from batchsched.simulation.record import Record
from batchsched.simulation.sensitivity import TieSensitivity, sensitivity_of
from batchsched.simulation.series import series_of, shares_of
from batchsched.simulation.summary import summary_of
from batchsched.simulation.swf_output import swf_lines
from batchsched.simulation.workload import JobId

__all__ = ["Column", "Run"]

Column = list[float | str | None]


@frozen(kw_only=True, slots=False, repr=False, eq=False)
class Run(Record):
    """The result of a simulation: when each job started and ended, and figures computed from that.

    `print(run)` shows a table. Columns are lists of equal length, as pandas and polars take them:
    `pandas.DataFrame(run.jobs)`.
    """

    @cached_property
    def _jobs(self) -> dict[str, Column]:
        outcome, workload = self.outcome, self.workload
        columns: dict[str, Sequence[float | str | None]] = {
            "id": workload.ids,
            "submit": self.submitted,
            "start": outcome.starts,
            "end": outcome.ends,
            "wait": [
                None if start is None or submit is None else start - submit
                for start, submit in zip(outcome.starts, self.submitted, strict=True)
            ],
            "run": self.runs,
            "processors": workload.processors,
            "requested": workload.requested,
            "user": workload.users,
            "queue": workload.queues,
            "outcome": [
                outcome.endings.get(job) or _outcome(start, end, ended_early=run < would)
                for job, (start, end, run, would) in enumerate(
                    zip(outcome.starts, outcome.ends, self.runs, workload.runs, strict=True)
                )
            ],
        }
        if outcome.predicted is not None:
            columns["predicted"] = outcome.predicted
        if outcome.preemptions is not None:
            columns["preemptions"] = outcome.preemptions
        return {name: list(column) for name, column in columns.items()}

    @property
    def jobs(self) -> dict[str, Column]:
        """The jobs as columns, in order of submission; times in seconds.

        `id`, `submit`, `start`, `end`, `wait`, `run`, `processors`, `requested`, `user`, `queue`,
        `outcome`; `predicted` if the policy predicts, `preemptions` if it preempts.
        """
        return dict(self._jobs)

    @property
    def unfinished(self) -> dict[JobId, str]:
        """Id of each job that never started or never ended to the reason."""
        return {self.workload.ids[job]: why for job, why in sorted(self.outcome.unfinished.items())}

    def metrics(
        self,
        tau: float = 10,
        *,
        warm_up: Part | None = None,
        cool_down: Part | None = None,
        queue: str | None = None,
    ) -> Metrics:
        """Return the metrics of the run by name: `run.metrics()["bsld"]`.

        Args:
            tau: The lower bound of run times in slowdowns, in seconds.
            warm_up: The jobs that end first and are left out, because the machine was not yet busy:
                `Percent(1)`, `Jobs(100)` or `Seconds(3600)`.
            cool_down: The same for the jobs that end last.
            queue: Count only jobs of this queue and of those below it. The makespan is still that
                of all jobs, and utilisation is the share of the whole machine that these jobs held.

        Raises:
            SimulationError: tau is not a number above 0, or no job is in that queue.
        """
        return metrics_of(self, tau, warm_up, cool_down, queue)

    def series(
        self, step: float | None = None, *, queue: str | None = None
    ) -> dict[str, list[float]]:
        """Return the waiting and running jobs over time, as columns.

        `time`, `queued` (jobs), `queued_processors` (that they need), `running` (jobs), `busy`
        (processors), `utilisation` (their share). Each row applies until the time of the next.

        Args:
            step: The seconds between rows, from the first submission on. None: a row for each
                time at which something changes.
            queue: Count only jobs of this queue and of those below it.

        Raises:
            SimulationError: step is not a number above 0, or no job is in that queue.
        """
        return series_of(self, step, queue)

    def shares(
        self, by: Literal["user", "queue"] = "user", step: float = 86400
    ) -> dict[str, list[float]]:
        """Return the share of the machine that each user or queue held in each step of time.

        The columns are `time`, the beginning of each step, and one for each user or queue; jobs
        that name none are left out. In a tree of queues, inner queues have columns too: the sums
        over the queues below them.
        """
        return shares_of(self, by, step)

    def compare(self, starts: Mapping[JobId, float] | Run) -> Comparison:
        """Compare the starts with those of another run, or with given starts by job id."""
        return compared(self, starts.starts_by_id() if isinstance(starts, Run) else starts)

    def why(self, job: JobId) -> str:
        """Explain why a job waited as long as it did.

        Raises:
            KeyError: No job of the run has this id.
        """
        return explained(self, job)

    def tie_sensitivity(
        self, orders: int = 20, seed: int = 1, metrics: Iterable[str] = ("bsld", "wait", "response")
    ) -> TieSensitivity:
        """Run again with random orders of ties; return how much metrics vary from that alone.

        Cost: `orders` simulations.
        """
        return sensitivity_of(self, orders, seed, tuple(metrics))

    def to_swf(self) -> Iterator[str]:
        """Yield the lines of a log of this run in the Standard Workload Format.

        Waiting times are those of the run. Jobs that never ended have status 5 (cancelled) and no
        run time. If ids are names, jobs get numbers in order of submission.
        """
        return swf_lines(self)

    def __repr__(self) -> str:
        return f"<Run: {self.policy} on {self.workload!r}>"

    def __str__(self) -> str:
        return summary_of(self)


def _outcome(start: float | None, end: float | None, *, ended_early: bool) -> str:
    if start is None:
        return "never started"
    if end is None:
        return "never ended"
    return "ended at request" if ended_early else "ended"
