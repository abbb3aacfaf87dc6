"""The sensitivity of the metrics of a run to the order of ties."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import evolve, frozen

from batchsched.errors import Fault
from batchsched.simulation.metrics import metrics_of
from batchsched.simulation.problems import SimulationError
from batchsched.simulation.record import Record
from batchsched.simulation.statistics import mean
from batchsched.simulation.ties import Ties

__all__ = ["Spread", "TieSensitivity", "sensitivity_of"]


@frozen
class Spread:
    """A metric of a run, and of the same run with random orders of ties."""

    here: float
    """The value in this run."""
    values: tuple[float, ...]
    """The value for each random order."""

    @property
    def least(self) -> float:
        """The smallest of all values."""
        return min(self.here, *self.values)

    @property
    def greatest(self) -> float:
        """The largest of all values."""
        return max(self.here, *self.values)

    @property
    def percent(self) -> float:
        """Largest minus smallest value, in per cent of the value in this run."""
        return 100 * (self.greatest - self.least) / self.here if self.here else 0.0


@frozen
class TieSensitivity:
    """How much each metric varies with the order of ties."""

    orders: int
    """The number of random orders."""
    spreads: Mapping[str, Spread]
    """The values by the name of the metric."""

    def __getitem__(self, name: str) -> Spread:
        return self.spreads[name]

    def __str__(self) -> str:
        lines = [
            f"{self.orders} random orders of ties",
            f"{'':<12} {'here':>14} {'least':>14} {'mean':>14} {'greatest':>14} {'spread':>8}",
        ]
        lines += [
            f"{name:<12} {spread.here:>14,.4f} {spread.least:>14,.4f} {mean(spread.values):>14,.4f}"
            f" {spread.greatest:>14,.4f} {spread.percent:>6.2f} %"
            for name, spread in self.spreads.items()
        ]
        return "\n".join(lines)


def sensitivity_of(run: Record, orders: int, seed: int, metrics: Sequence[str]) -> TieSensitivity:
    """Simulate again with random orders of ties, and collect the metrics."""
    if orders < 1:
        raise SimulationError([Fault("orders", f"expected 1 or more, got {orders!r}")])
    here = metrics_of(run)
    unknown = [name for name in metrics if name not in here]
    if unknown:
        raise SimulationError(
            [
                Fault("metrics", f"expected one of {', '.join(here)}; got {name!r}")
                for name in unknown
            ]
        )
    values: dict[str, list[float]] = {name: [] for name in metrics}
    for number in range(orders):
        # Calls with neighbouring seeds use disjoint seeds of ties.
        ties = Ties(seed=seed * 1_000_003 + number)
        settings = evolve(run.settings, ties=ties, progress=None)
        outcome = run.policy.run(run.workload, run.runs, settings)
        figures = metrics_of(
            Record(
                workload=run.workload,
                policy=run.policy,
                settings=settings,
                runs=run.runs,
                outcome=outcome,
            )
        )
        for name in metrics:
            values[name].append(figures[name])
    return TieSensitivity(
        orders, {name: Spread(here[name], tuple(each)) for name, each in values.items()}
    )
