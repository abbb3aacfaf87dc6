"""The targets of the library, and whether it reaches them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import median

from attrs import frozen

from benchmarks.cycle import BETWEEN, DEFAULT, OPEN, Run
from benchmarks.measurement import EngineMeasurement, Measurement, Ratio

__all__ = ["TARGETS", "Target", "of_runs", "verdicts"]

MB = 1_000_000


@frozen(kw_only=True)
class Target:
    """A figure that a workload must reach."""

    workload: str
    what: str
    bound: float
    is_most: bool
    """Whether the figure may be at most the bound; if not, it must be at least that."""
    figure: Callable[[EngineMeasurement], float | None]
    unit: str = "x"
    ratio: Callable[[EngineMeasurement], Ratio | None] | None = None
    """The ratio that the figure is the median of, if it is one."""
    is_to_plain: bool = False
    """Whether it is compared with the plain loop."""
    note: str = ""
    """A note for readers of the figure."""

    def doubts(self, measurement: Measurement, engine: str = DEFAULT) -> list[str]:
        """Return reasons not to trust the verdict on an engine."""
        found: list[str] = []
        if measurement.scale < 1:
            found.append("not at full size")
        if self.is_to_plain and measurement.plain_scale < measurement.scale:
            found.append(f"the plain loop only at {measurement.plain_size}")
        ratio = None if self.ratio is None else self.ratio(measurement.engines[engine])
        if ratio is not None:
            if len({self.is_reached(each) for each in ratio.rounds}) > 1:
                found.append("single rounds lie on both sides")
            if len(ratio.rounds) < 3:
                found.append(f"only {len(ratio.rounds)} round(s)")
        return found

    def is_reached(self, figure: float) -> bool:
        """Return whether a figure is on the right side of the bound."""
        return figure <= self.bound if self.is_most else figure >= self.bound


def _figure(
    workload: str,
    what: str,
    bound: float,
    figure: Callable[[EngineMeasurement], float | None],
    unit: str = "x",
    *,
    is_most: bool = True,
    note: str = "",
) -> Target:
    return Target(
        workload=workload,
        what=what,
        bound=bound,
        is_most=is_most,
        figure=figure,
        unit=unit,
        note=note,
    )


def _ratio(
    workload: str, what: str, bound: float, ratio: Callable[[EngineMeasurement], Ratio | None]
) -> Target:
    return Target(
        workload=workload,
        what=what,
        bound=bound,
        is_most=True,
        figure=lambda measured: _median(ratio(measured)),
        ratio=ratio,
    )


def _faster(workload: str, bound: float) -> Target:
    return Target(
        workload=workload,
        what="faster than the plain loop",
        bound=bound,
        is_most=False,
        figure=lambda measured: measured.plain.median,
        ratio=lambda measured: measured.plain,
        is_to_plain=True,
    )


def of_runs(measured: EngineMeasurement, value: Callable[[Run], float]) -> float:
    """Return the median of a value over all runs."""
    return median(value(run) for run in measured.runs)


def _evicting(run: Run) -> float:
    return run.parts["preempt"] + run.parts["reclaim"]


def _evicting_to_allocate(measured: EngineMeasurement) -> float:
    return of_runs(measured, lambda run: _evicting(run) / run.parts["allocate"])


def _evicting_to_allocate_alone(measured: EngineMeasurement) -> float:
    return of_runs(measured, _evicting) / median(measured.allocate_alone)


def _cycles_a_second(measured: EngineMeasurement) -> float:
    return of_runs(measured, lambda run: run.cycles / (run.seconds + run.parts[BETWEEN]))


def _to_opening(measured: EngineMeasurement) -> float:
    return of_runs(measured, lambda run: run.seconds / run.parts[OPEN])


def _median(ratio: Ratio | None) -> float | None:
    return None if ratio is None else ratio.median


TARGETS = (
    _faster("openb", 50),
    _faster("gangs-1000", 100),
    _ratio(
        "gangs-10000",
        "time of the whole cycle to the replay's",
        4,
        lambda measured: measured.replay_cycle,
    ),
    _ratio(
        "gangs-10000",
        "time of the actions alone to the replay's (the stricter reading)",
        4,
        lambda measured: measured.replay_actions,
    ),
    _ratio(
        "gangs-10000",
        "time per task to that at 1,000 nodes",
        1.5,
        lambda measured: measured.growth,
    ),
    _figure(
        "gangs-10000",
        "peak memory of the process",
        600,
        lambda measured: measured.peak_memory / MB,
        " MB",
    ),
    _faster("unique-shapes", 5),
    _figure(
        "busy",
        "time of preempt and reclaim to allocate's in the same cycle",
        2,
        _evicting_to_allocate,
        note=(
            "Both figures of (d) have the same numerator. In the first, allocate runs in the "
            "same cycle. There reclaim stands before it in the configured order, and reclaim's "
            "own ladder, before it evicts anybody, places what fits. So reclaim does allocate's "
            "work besides its own, allocate finds next to nothing left to do, and the figure "
            "cannot be small."
        ),
    ),
    _figure(
        "busy",
        "time of preempt and reclaim to allocate's in a cycle without them (not asked for)",
        2,
        _evicting_to_allocate_alone,
        note=(
            "In the second figure of (d), allocate runs in another cycle on the same snapshot, "
            "with nothing but allocate and backfill configured. There it does this work itself."
        ),
    ),
    _faster("affinity", 20),
    _figure(
        "simulation",
        "cycles a second, with making the next snapshot",
        150,
        _cycles_a_second,
        "/s",
        is_most=False,
    ),
    _figure(
        "simulation-all-actions",
        "cycles a second, with making the next snapshot (not asked for)",
        150,
        _cycles_a_second,
        "/s",
        is_most=False,
    ),
    _figure("nothing-fits", "time of the cycle to that of opening", 3, _to_opening),
    _figure(
        "nothing-fits-all-actions",
        "time of the cycle to that of opening (not asked for)",
        3,
        _to_opening,
    ),
)
"""What was asked for, and next to it the stricter or wider readings."""


def verdicts(measurements: Mapping[str, Measurement]) -> list[tuple[Target, dict[str, float]]]:
    """Return each engine's figure for each target whose workload was measured."""
    judged: list[tuple[Target, dict[str, float]]] = []
    for target in TARGETS:
        measurement = measurements.get(target.workload)
        if measurement is None:
            continue
        figures = {name: target.figure(each) for name, each in measurement.engines.items()}
        if any(figure is not None for figure in figures.values()):
            known = {name: figure for name, figure in figures.items() if figure is not None}
            judged.append((target, known))
    return judged
