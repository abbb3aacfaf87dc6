"""The summary table of a run."""

from __future__ import annotations

from batchsched.simulation.metrics import metrics_of
from batchsched.simulation.record import Record

__all__ = ["summary_of"]


def summary_of(run: Record) -> str:
    """Return the summary of a run as a table, with the settings that affect it."""
    metrics = metrics_of(run)
    lines = [
        f"{run.policy}: {len(run.workload):,} jobs on {run.machine}",
        f"{'':<18} {'mean':>12} {'median':>12} {'99 %':>12} {'longest':>12}",
        f"{'wait (s)':<18} "
        + _row(metrics["wait"], metrics["wait_median"], metrics["wait_p99"], metrics["wait_max"]),
        f"{'response (s)':<18} "
        + _row(
            metrics["response"],
            metrics["response_median"],
            metrics["response_p99"],
            metrics["response_max"],
        ),
        f"{'bounded slowdown':<18} "
        + " ".join(
            f"{metrics[name]:>{width},.2f}"
            for name, width in (("bsld", 12), ("bsld_median", 12), ("bsld_max", 25))
        ),
        f"utilisation {metrics['utilisation']:.1%}, makespan {metrics['makespan']:,.0f} s",
        f"bounded slowdown: mean of max(1, response / max(run time, {metrics.tau:g} s))",
        f"rules: {run.settings}",
    ]
    for name, what in (
        ("ended_at_request", "were stopped at their requested time"),
        ("unfinished", "never ended"),
    ):
        if metrics[name]:
            lines.append(f"{metrics[name]:,.0f} jobs {what}")
    return "\n".join(lines)


def _row(*figures: float) -> str:
    return " ".join(f"{figure:>12,.0f}" for figure in figures)
