"""What the library must reach, and whether it does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import median

from attrs import frozen

from benchmarks.cycle import BETWEEN, OPEN, Run
from benchmarks.measurement import Measurement, Ratio

__all__ = ["TARGETS", "Target", "verdicts"]

MB = 1_000_000


@frozen(kw_only=True)
class Target:
    """A figure that a workload must reach."""

    workload: str
    what: str
    bound: float
    is_most: bool
    """Whether the figure may be at most the bound; if not, it must be at least that."""
    figure: Callable[[Measurement], float | None]
    unit: str = "x"

    def is_reached(self, figure: float) -> bool:
        """Return whether a figure is on the right side of the bound."""
        return figure <= self.bound if self.is_most else figure >= self.bound


def _at_most(
    workload: str,
    what: str,
    bound: float,
    figure: Callable[[Measurement], float | None],
    unit: str = "x",
) -> Target:
    return Target(workload=workload, what=what, bound=bound, is_most=True, figure=figure, unit=unit)


def _at_least(
    workload: str,
    what: str,
    bound: float,
    figure: Callable[[Measurement], float | None],
    unit: str = "x",
) -> Target:
    return Target(
        workload=workload, what=what, bound=bound, is_most=False, figure=figure, unit=unit
    )


def of_runs(measurement: Measurement, value: Callable[[Run], float]) -> float:
    """Return the median of a value over all runs."""
    return median(value(run) for run in measurement.runs)


def _evicting(run: Run) -> float:
    return run.parts["preempt"] + run.parts["reclaim"]


def _evicting_to_allocate(measurement: Measurement) -> float:
    return of_runs(measurement, lambda run: _evicting(run) / run.parts["allocate"])


def _evicting_to_allocate_alone(measurement: Measurement) -> float:
    return of_runs(measurement, _evicting) / median(measurement.allocate_alone)


def _cycles_a_second(measurement: Measurement) -> float:
    return of_runs(measurement, lambda run: run.cycles / (run.seconds + run.parts[BETWEEN]))


def _to_opening(measurement: Measurement) -> float:
    return of_runs(measurement, lambda run: run.seconds / run.parts[OPEN])


def _median(ratio: Ratio | None) -> float | None:
    return None if ratio is None else ratio.median


def _to_plain(measurement: Measurement) -> float:
    return measurement.plain.median


TARGETS = (
    _at_least("openb", "faster than the plain loop", 50, _to_plain),
    _at_least("gangs-1000", "faster than the plain loop", 100, _to_plain),
    _at_most(
        "gangs-10000",
        "time of the whole cycle to the replay's",
        4,
        lambda measured: measured.replay_cycle.median,
    ),
    _at_most(
        "gangs-10000",
        "time of the actions alone to the replay's (the stricter reading)",
        4,
        lambda measured: _median(measured.replay_actions),
    ),
    _at_most(
        "gangs-10000",
        "time per task to that at 1,000 nodes",
        1.5,
        lambda measured: _median(measured.growth),
    ),
    _at_most(
        "gangs-10000",
        "peak memory of the process",
        600,
        lambda measured: measured.peak_memory / MB,
        " MB",
    ),
    _at_least("unique-shapes", "faster than the plain loop", 5, _to_plain),
    _at_most(
        "busy",
        "time of preempt and reclaim to allocate's in the same cycle",
        2,
        _evicting_to_allocate,
    ),
    _at_most(
        "busy",
        "time of preempt and reclaim to allocate's in a cycle without them",
        2,
        _evicting_to_allocate_alone,
    ),
    _at_least("affinity", "faster than the plain loop", 20, _to_plain),
    _at_least(
        "simulation",
        "cycles a second, with making the next snapshot",
        150,
        _cycles_a_second,
        "/s",
    ),
    _at_least(
        "simulation-all-actions",
        "cycles a second, with making the next snapshot",
        150,
        _cycles_a_second,
        "/s",
    ),
    _at_most("nothing-fits", "time of the cycle to that of opening", 3, _to_opening),
    _at_most(
        "nothing-fits-all-actions",
        "time of the cycle to that of opening (not asked for)",
        3,
        _to_opening,
    ),
)
"""What was asked for, and next to it the stricter or wider readings."""


def verdicts(measurements: Mapping[str, Measurement]) -> list[tuple[Target, float]]:
    """Return the figure for each target whose workload was measured."""
    judged: list[tuple[Target, float]] = []
    for target in TARGETS:
        measurement = measurements.get(target.workload)
        if measurement is not None:
            figure = target.figure(measurement)
            if figure is not None:
                judged.append((target, figure))
    return judged
