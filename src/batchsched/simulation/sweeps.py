"""Sweeps: many runs, optionally in other processes, and comparisons of policies."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from typing import Protocol, TypeVar, cast, final

from attrs import evolve, frozen

from batchsched.errors import Fault
from batchsched.model.cluster import NodeInfo
from batchsched.model.validation.arguments import checks_arguments
from batchsched.model.validation.values import is_text, shown
from batchsched.simulation.checks import (
    SimulationError,
    faults_of_count,
    faults_unless,
    is_number,
    refuse,
)
from batchsched.simulation.engine import Policy
from batchsched.simulation.metrics import Margin, confidence_interval, mean
from batchsched.simulation.record import of_one_type
from batchsched.simulation.run import Run, simulate
from batchsched.simulation.settings import Passes, Ties
from batchsched.simulation.work import CPU
from batchsched.simulation.workload import Workload

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
    """Its figures by name; empty if it failed."""
    key: str = ""
    """What it is known by when a sweep is resumed: the names, and a digest of the workload and the
    settings."""
    error: str | None = None
    """Why it failed; None if it did not."""


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
    left_out: int = 0
    """How many workloads are left out, because one of the two failed there."""

    @property
    def is_significant(self) -> bool:
        """Whether the interval excludes 0."""
        return self.interval is not None and not self.interval[0] <= 0 <= self.interval[1]

    def __str__(self) -> str:
        count = len(self.differences)
        without = f", {self.left_out} left out, as a run failed" if self.left_out else ""
        if self.interval is None:
            of = "one workload" if count == 1 else "no workload"
            return f"{self.policy} - {self.baseline}: {self.mean:+,.4g} ({of}{without})"
        low, high = self.interval
        return (
            f"{self.policy} - {self.baseline}: {self.mean:+,.4g} "
            f"(95 %: {low:+,.4g} to {high:+,.4g}; {count} workloads{without})"
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

    def columns(self) -> dict[str, list[float | str | None]]:
        """Return the table as columns, as pandas and polars take them."""
        names = dict.fromkeys(name for row in self.rows for name in row.metrics)
        columns: dict[str, list[float | str | None]] = {
            "policy": [row.policy for row in self.rows],
            "variant": [row.variant for row in self.rows],
        }
        for name in names:
            columns[name] = [row.metrics.get(name) for row in self.rows]
        if any(row.error is not None for row in self.rows):
            columns["error"] = [row.error for row in self.rows]
        return {name: of_one_type(column) for name, column in columns.items()}

    def __eq__(self, other: object) -> bool:
        return self.rows == other.rows if isinstance(other, SweepTable) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    @checks_arguments(SimulationError)
    def values(self, metric: str, policy: str) -> list[float]:
        """Return the values of a metric of a policy, for each workload where it did not fail.

        Raises:
            SimulationError: There is no metric or policy of this name.
        """
        return list(self._by_variant(metric, policy).values())

    def _by_variant(self, metric: str, policy: str) -> dict[str, float]:
        if policy not in self.policies:
            raise SimulationError.at(
                "policy", f"expected one of {', '.join(self.policies)}; got {shown(policy)}"
            )
        rows = [self._by_names[policy, variant] for variant in self.variants]
        rows = [row for row in rows if row.error is None]
        missing = [row for row in rows if metric not in row.metrics]
        if missing:
            known = ", ".join(missing[0].metrics)
            raise SimulationError.at("metric", f"expected one of {known}; got {shown(metric)}")
        return {row.variant: row.metrics[metric] for row in rows}

    @checks_arguments(SimulationError)
    def paired(self, metric: str, *, baseline: str) -> list[Pair]:
        """Compare each policy with a baseline, workload by workload.

        Because the differences on each workload are averaged, the variation between workloads does
        not blur the comparison. Workloads where one of the two failed are left out, and counted.

        Raises:
            SimulationError: There is no metric or policy of this name.
        """
        base = self._by_variant(metric, baseline)
        pairs: list[Pair] = []
        for policy in self.policies:
            if policy == baseline:
                continue
            own = self._by_variant(metric, policy)
            both = [variant for variant in self.variants if variant in own and variant in base]
            differences = tuple(own[variant] - base[variant] for variant in both)
            interval = confidence_interval(differences) if len(differences) > 1 else None
            left_out = len(self.variants) - len(both)
            pairs.append(Pair(policy, baseline, differences, mean(differences), interval, left_out))
        return pairs

    def __str__(self) -> str:
        ended = [row for row in self.rows if row.error is None]
        names = dict.fromkeys(name for row in ended for name in row.metrics)
        usual = [name for name in SHOWN if name in names] or list(names)[: len(SHOWN)]
        shown = [name for name in usual if all(name in row.metrics for row in ended)]
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
        lines += [
            f"failed: {row.policy}{f' on {row.variant}' if row.variant else ''}: {row.error}"
            for row in self.rows
            if row.error is not None
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
    passes: Passes | None = None,
    settings: Mapping[str, object] | None = None,
    warm_up: Margin | None = None,
    cool_down: Margin | None = None,
    metrics: Callable[[Run], Mapping[str, float]] | None = None,
    done: Iterable[Row] = (),
    on_row: Callable[[Row], object] | None = None,
) -> SweepTable:
    """Run each policy on each workload, and return the metrics of all runs.

    Runs are independent and can be pickled, so any executor can run them: for example
    `concurrent.futures.ProcessPoolExecutor()`, or dask's `Client.get_executor()`. The result does
    not depend on the executor or on the order in which runs end. A run that fails becomes a row
    with its `error`, and the others go on. To resume a sweep that was interrupted, keep the rows
    that `on_row` gets, and give them as `done`.

    Args:
        workload: The workload, if there is only one; otherwise give `variants`.
        policies: The policies by name; given as a list, each is named by its `str`.
        variants: Workloads by name: other seeds, loads, machines.
        executor: Runs the simulations. None: one after the other in this process.
        tau: See `Run.metrics`.
        ties: See `simulate`.
        passes: See `simulate`.
        settings: Further arguments of `simulate`, such as `incidents`.
        warm_up: See `Run.metrics`.
        cool_down: See `Run.metrics`.
        metrics: Returns the figures of a run, instead of `Run.metrics`.
        done: Rows of an earlier sweep; those with the same key are not run again.
        on_row: Called here with each row when it is ready; not with those of `done`.

    Raises:
        SimulationError: Not exactly one of `workload` and `variants` is given, or two policies
            have the same name.
    """
    named_policies = _named(policies)
    if (workload is None) == (variants is None):
        raise SimulationError.at(
            "workload", "expected either a workload or variants (workloads by name)"
        )
    accepted = simulate.__kwdefaults__ or {}
    unknown = [name for name in settings or {} if not is_text(name) or name not in accepted]
    what = f"expected one of {', '.join(accepted)}; got"
    refuse(SimulationError, [Fault("settings", f"{what} {shown(name)}") for name in unknown])
    named = {"": workload} if workload is not None else dict(variants or {})
    given = {"ties": ties, "passes": passes, **(settings or {})}
    counted = {"tau": tau, "warm_up": warm_up, "cool_down": cool_down}
    digests = {name: _digest(each, {**given, **counted}) for name, each in named.items()}
    keys = {
        (policy, variant): f"{policy}/{variant}/{digests[variant]}"
        for policy in named_policies
        for variant in named
    }
    known = {row.key: row for row in done}
    rows = {task: known[key] for task, key in keys.items() if key in known}
    calls = {
        (policy, variant): partial(
            _figures, named[variant], named_policies[policy], given, counted, metrics
        )
        for policy, variant in keys
        if (policy, variant) not in rows
    }

    def ready(task: tuple[str, str], answer: _Answer) -> None:
        figures, error = answer
        rows[task] = row = Row(*task, figures, keys[task], error)
        if on_row is not None:
            on_row(row)

    if executor is None:
        for task, call in calls.items():
            ready(task, call())
    else:
        _run_elsewhere(executor, calls, ready)
    return SweepTable([rows[task] for task in keys])


_Answer = tuple[dict[str, float], str | None]
"""The figures of a run, and why it failed."""


def _run_elsewhere(
    executor: Executor,
    calls: Mapping[tuple[str, str], Callable[[], _Answer]],
    ready: Callable[[tuple[str, str], _Answer], object],
) -> None:
    """Run all calls with an executor; tell each answer as soon as it is known to be there."""
    left = {task: executor.submit(call) for task, call in calls.items()}
    while left:
        first = next(iter(left))
        # Those that have ended meanwhile are told, too, as far as futures say so.
        for task in [first, *list(left)[1:]]:
            has_ended = getattr(left[task], "done", None)
            if task == first or (has_ended is not None and has_ended()):
                future = left.pop(task)
                answer: _Answer
                try:
                    answer = future.result()
                except Exception as error:  # whatever the executor raises: a process has died
                    answer = ({}, f"{type(error).__name__}: {error}")
                ready(task, answer)


def _digest(workload: Workload, given: Mapping[str, object]) -> str:
    """Return a digest of a workload and of the arguments of its runs."""
    digest = blake2b(digest_size=8)
    for name, column in workload.columns().items():
        digest.update(f"{name} {column}".encode())
    digest.update(f"{workload.machine} {workload.machine and workload.machine.infos}".encode())
    for name in sorted(given):
        try:
            text = f"{name} {given[name]!r}"
        except Exception as cause:  # what has no text has no digest, and is no argument
            raise SimulationError.at("settings", f"{name}: it has no text") from cause
        digest.update(_ADDRESS.sub("", text).encode())
    return digest.hexdigest()


_ADDRESS = re.compile(" at 0x[0-9a-fA-F]+")


# How many nodes are needed


@frozen
class NodesNeeded:
    """The fewest nodes with which jobs wait at most so long, and what was tried."""

    longest_wait: float
    """How long a job may wait, in seconds."""
    nodes: int | None
    """The fewest nodes; None: more than were tried."""
    waits: Mapping[int, float | None]
    """The longest wait for each number of nodes that was tried; None: not all jobs could run."""

    def __str__(self) -> str:
        lines = [
            f"{nodes:>6,} nodes: "
            + ("some jobs never run" if wait is None else f"the longest wait is {wait:,.0f} s")
            for nodes, wait in self.waits.items()
        ]
        found = "more than were tried" if self.nodes is None else f"{self.nodes:,}"
        return "\n".join([*lines, f"nodes needed for {self.longest_wait:,.0f} s: {found}"])


@checks_arguments(SimulationError)
def nodes_needed(
    workload: Workload,
    policy: Policy,
    *,
    longest_wait: float,
    shape: NodeInfo | int = 1,
    least: int = 1,
    most: int = 1000,
    executor: Executor | None = None,
    at_once: int = 8,
    settings: Mapping[str, object] | None = None,
) -> NodesNeeded:
    """Return the fewest nodes with which no job waits longer than this.

    All numbers are tried from `least` on: the longest wait may grow with a node more, so that
    bisection could miss them.

    Cost: a simulation for each number.

    Args:
        workload: The jobs; their machine does not matter.
        policy: The policy that decides.
        longest_wait: How long a job may wait, in seconds.
        shape: The nodes: one of them, or the number of processors of each.
        least: The number to begin with; numbers with too few processors for a job are passed by.
        most: The last number that is tried.
        executor: See `sweep`.
        at_once: How many numbers are tried at a time, for executors.
        settings: Further arguments of `simulate`.

    Raises:
        SimulationError: Numbers out of range.

    >>> from batchsched.simulation import Easy, generate
    >>> found = nodes_needed(generate(jobs=200, nodes=16, seed=1), Easy(), longest_wait=3600)
    >>> found.nodes, round(found.waits[16])
    (53, 69389)
    """
    is_right = is_number(longest_wait, least=0)
    refuse(
        SimulationError,
        faults_of_count("least", least, 1),
        faults_of_count("most", most, 1),
        faults_of_count("at_once", at_once, 1),
        faults_unless(is_right, "longest_wait", "seconds, 0 or more", longest_wait),
    )
    each = shape if isinstance(shape, int) else int(shape.allocatable.milli_cpu // CPU)
    largest = max(workload.processors, default=1)
    first = max(least, -(-largest // max(each, 1)))
    waits: dict[int, float | None] = {}
    for begin in range(first, most + 1, at_once):
        machines = {
            f"{nodes:,}": workload.on(nodes=nodes, per_node=shape)
            if isinstance(shape, int)
            else workload.on(nodes=[evolve(shape, name=f"node-{n:06}") for n in range(nodes)])
            for nodes in range(begin, min(begin + at_once, most + 1))
        }
        table = sweep(
            policies={"policy": policy}, variants=machines, executor=executor, settings=settings
        )
        for nodes, row in enumerate(table.rows, begin):
            failed = row.error is not None or row.metrics["unfinished"]
            waits[nodes] = wait = None if failed else row.metrics["wait_max"]
            if wait is not None and wait <= longest_wait:
                return NodesNeeded(longest_wait, nodes, waits)
    return NodesNeeded(longest_wait, None, waits)


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
    workload: Workload,
    policy: Policy,
    given: Mapping[str, object],
    counted: Mapping[str, object],
    metrics: Callable[[Run], Mapping[str, float]] | None,
) -> _Answer:
    try:
        run = simulate(workload, policy, **given)  # type: ignore[arg-type]
        figures = run.metrics(**counted) if metrics is None else metrics(run)  # type: ignore[arg-type]
        return dict(figures), None
    except Exception as error:  # one run that fails must not lose the others
        return {}, f"{type(error).__name__}: {error}"
