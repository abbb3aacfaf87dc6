"""Sweeps: many runs, optionally in other processes, and comparisons of policies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Protocol, TypeVar, cast, final

from attrs import frozen

from batchsched.model.validation.arguments import checks_arguments
from batchsched.model.validation.values import shown
from batchsched.simulation.metrics import confidence_interval, mean
from batchsched.simulation.policy import Passes, Policy, Ties
from batchsched.simulation.run import simulate
from batchsched.simulation.workload import SimulationError, Workload

SHOWN = ("bsld", "wait", "response", "utilisation")


_AnswerT = TypeVar("_AnswerT")
_AnswerT_co = TypeVar("_AnswerT_co", covariant=True)


class _Future(Protocol[_AnswerT_co]):
    def result(self) -> _AnswerT_co:
        """Return the result of the call."""
        ...


class Executor(Protocol):
    """Runs functions elsewhere: any `concurrent.futures.Executor`, or an object like one."""

    def submit(self, fn: Callable[[], _AnswerT], /) -> _Future[_AnswerT]:
        """Schedule a call of a function."""
        ...


@frozen
class Row:
    """The metrics of one run of a sweep."""

    policy: str
    """The name of the policy."""
    variant: str
    """The name of the workload."""
    metrics: Mapping[str, float]


@frozen
class Pair:
    """A policy compared with another on the same workloads."""

    policy: str
    baseline: str
    differences: tuple[float, ...]
    """The metric of the policy minus that of the baseline, for each workload."""
    mean: float
    """The mean of the differences."""
    interval: tuple[float, float] | None
    """The 95 % confidence interval of the mean (Student's t distribution, which assumes that
    workloads are drawn independently); None for fewer than two workloads."""

    @property
    def is_significant(self) -> bool:
        """Whether the interval excludes 0."""
        return self.interval is not None and not self.interval[0] <= 0 <= self.interval[1]

    def __str__(self) -> str:
        if self.interval is None:
            return f"{self.policy} - {self.baseline}: {self.mean:+,.4g} (one workload)"
        low, high = self.interval
        return (
            f"{self.policy} - {self.baseline}: {self.mean:+,.4g} "
            f"(95 %: {low:+,.4g} to {high:+,.4g}; {len(self.differences)} workloads)"
        )


@final
class SweepTable:
    """The metrics of all runs of a sweep; `print` shows a table of means."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = tuple(rows)
        """One row for each policy and workload, in the order given."""
        self._by_names = {(row.policy, row.variant): row for row in rows}

    @property
    def policies(self) -> tuple[str, ...]:
        """The names of the policies."""
        return tuple(dict.fromkeys(row.policy for row in self.rows))

    @property
    def variants(self) -> tuple[str, ...]:
        """The names of the workloads."""
        return tuple(dict.fromkeys(row.variant for row in self.rows))

    def columns(self) -> dict[str, list[float | str]]:
        """Return the table as columns, as pandas and polars take them."""
        names = dict.fromkeys(name for row in self.rows for name in row.metrics)
        columns: dict[str, list[float | str]] = {
            "policy": [row.policy for row in self.rows],
            "variant": [row.variant for row in self.rows],
        }
        for name in names:
            columns[name] = [row.metrics.get(name, float("nan")) for row in self.rows]
        return columns

    @checks_arguments(SimulationError)
    def values(self, metric: str, policy: str) -> list[float]:
        """Return the values of a metric of a policy, one for each workload.

        Raises:
            SimulationError: There is no metric or policy of this name.
        """
        if policy not in self.policies:
            raise SimulationError.at(
                "policy", f"expected one of {', '.join(self.policies)}; got {shown(policy)}"
            )
        rows = [self._by_names[policy, variant] for variant in self.variants]
        missing = [row for row in rows if metric not in row.metrics]
        if missing:
            known = ", ".join(missing[0].metrics)
            raise SimulationError.at("metric", f"expected one of {known}; got {shown(metric)}")
        return [row.metrics[metric] for row in rows]

    @checks_arguments(SimulationError)
    def paired(self, metric: str, *, baseline: str) -> list[Pair]:
        """Compare each policy with a baseline, workload by workload.

        Because the differences on each workload are averaged, the variation between workloads does
        not blur the comparison.

        Raises:
            SimulationError: There is no metric or policy of this name.
        """
        base = self.values(metric, baseline)
        pairs: list[Pair] = []
        for policy in self.policies:
            if policy == baseline:
                continue
            differences = [
                value - other
                for value, other in zip(self.values(metric, policy), base, strict=True)
            ]
            interval = confidence_interval(differences) if len(differences) > 1 else None
            pairs.append(Pair(policy, baseline, tuple(differences), mean(differences), interval))
        return pairs

    def __str__(self) -> str:
        shown = [name for name in SHOWN if all(name in row.metrics for row in self.rows)]
        width = max(map(len, self.policies), default=0)
        count = len(self.variants)
        lines = [
            f"means over {count} workload{'s' if count != 1 else ''}",
            f"{'':<{width}} " + " ".join(f"{name:>14}" for name in shown),
        ]
        lines += [
            f"{policy:<{width}} "
            + " ".join(f"{mean(self.values(name, policy)):>14,.4f}" for name in shown)
            for policy in self.policies
        ]
        return "\n".join(lines)


@checks_arguments(SimulationError)
def sweep(
    workload: Workload | None = None,
    *,
    policies: Mapping[str, Policy] | Iterable[Policy],
    variants: Mapping[str, Workload] | None = None,
    executor: Executor | None = None,
    tau: float = 10,
    ties: Ties | None = None,
    passes: Passes = "event",
) -> SweepTable:
    """Run each policy on each workload, and return the metrics of all runs.

    Runs are independent and can be pickled, so any executor can run them: for example
    `concurrent.futures.ProcessPoolExecutor()`, or dask's `Client.get_executor()`. The result does
    not depend on the executor or on the order in which runs end.

    Args:
        workload: The workload, if there is only one; otherwise give `variants`.
        policies: The policies by name; given as a list, each is named by its `str`.
        variants: Workloads by name: other seeds, loads, machines.
        executor: Runs the simulations. None: one after the other in this process.
        tau: See `Run.metrics`.
        ties: See `simulate`.
        passes: See `simulate`.

    Raises:
        SimulationError: Not exactly one of `workload` and `variants` is given, two policies have
            the same name, or a run is impossible.
    """
    named_policies = _named(policies)
    if (workload is None) == (variants is None):
        raise SimulationError.at(
            "workload", "expected either a workload or variants (workloads by name)"
        )
    named = {"": workload} if workload is not None else dict(variants or {})
    tasks = [(policy, variant) for policy in named_policies for variant in named]
    runs = [
        partial(_figures, named[variant], named_policies[policy], tau, ties, passes)
        for policy, variant in tasks
    ]
    if executor is None:
        results = [run() for run in runs]
    else:
        futures = [executor.submit(run) for run in runs]
        results = [future.result() for future in futures]
    return SweepTable(
        [
            Row(policy, variant, metrics)
            for (policy, variant), metrics in zip(tasks, results, strict=True)
        ]
    )


def _named(policies: Mapping[str, Policy] | Iterable[Policy]) -> Mapping[str, Policy]:
    if isinstance(policies, Mapping):
        return cast("Mapping[str, Policy]", policies)
    listed = list(policies)
    named = {str(policy): policy for policy in listed}
    if len(named) < len(listed):
        raise SimulationError.at(
            "policies", "expected policies with different names; give names: policies={...}"
        )
    return named


def _figures(
    workload: Workload, policy: Policy, tau: float, ties: Ties | None, passes: Passes
) -> dict[str, float]:
    return dict(simulate(workload, policy, ties=ties, passes=passes).metrics(tau))
