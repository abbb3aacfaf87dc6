"""Plots of runs and sweeps (extra ``plots``, which installs matplotlib).

Each function returns a figure, and neither shows it nor writes files: use
`figure.savefig("queue.svg")`.

>>> from batchsched.simulation import Easy, generate, simulate
>>> from batchsched.simulation.plots import queue_and_utilisation
>>> run = simulate(generate(jobs=200, nodes=32, seed=1), Easy())
>>> figure = queue_and_utilisation(run)
>>> [axes.get_ylabel() for axes in figure.axes]
['jobs waiting', 'utilisation']
"""

# Matplotlib does not declare the types of its many options.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

try:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
except ImportError as error:
    raise ImportError(
        "batchsched.simulation.plots needs matplotlib, which comes with the extra plots: "
        "pip install matplotlib"
    ) from error

from batchsched.simulation.metrics import confidence_interval, mean, quantile
from batchsched.simulation.run import Run
from batchsched.simulation.sweeps import NodesNeeded, SweepTable
from batchsched.simulation.work import CPU

DAY = 86400
SHOWN = 8
"""The number of users or queues that get a colour of their own."""
_NAMES_IN_A_LINE = 40
"""The letters of a legend beside one another that the narrowest picture has room for."""


def queue_and_utilisation(run: Run, *, step: float | None = None) -> Figure:
    """Plot the number of waiting jobs and the utilisation of the machine over time.

    Args:
        run: The run.
        step: The seconds between points; None: 1/300 of the whole time.
    """
    series = run.series(step or _step(run))
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True)
    days = _days(series["time"])
    upper.step(days, series["queued"], where="post", linewidth=1)
    upper.set_ylabel("jobs waiting")
    upper.set_ylim(bottom=0)
    lower.fill_between(days, series["utilisation"], step="post", alpha=0.6)
    lower.set_ylabel("utilisation")
    lower.set_ylim(0, 1)
    lower.set_xlabel("days")
    upper.set_title(str(run.policy))
    return figure


def gantt(
    run: Run,
    *,
    start: float | None = None,
    end: float | None = None,
    by: Literal["processor", "node"] = "processor",
) -> Figure:
    """Plot the processors, or the nodes, of each job over time.

    The simulator only counts processors, so this function assigns them: each job gets the lowest
    free ones, in its node if they are shown by node. A job may appear in several pieces.

    Args:
        run: The run.
        start: The first time shown, in seconds on the clock of the workload; None: the beginning.
        end: The last time shown; None: the last end.
        by: What is shown: the processors of the machine, or those of each node by its name.
    """
    figure, axes = _one_picture()
    nodes = run.nodes_of_run
    whole = by == "processor"
    sizes = [int(capacity[0] // CPU) for capacity in nodes.capacity]
    lows = [sum(sizes[:node]) for node in range(len(sizes))]
    free = [list(range(sum(sizes)))] if whole else [list(range(size)) for size in sizes]
    events: list[tuple[float, int, int]] = []
    for number, (_, begin, finish, *_) in enumerate(nodes.pieces):
        # At equal times, ends are processed before starts, to free their processors.
        events += [(finish, 0, number), (begin, 1, number)] if finish > begin else []
    places: dict[int, list[int]] = {}
    for _, begins, number in sorted(events):
        job, begin, finish, node, _, amounts = nodes.pieces[number]
        row, low = (0, 0) if whole else (node, lows[node])
        if not begins:
            free[row] = sorted(free[row] + places.pop(number))
            continue
        size = -(-amounts[0] // CPU)
        places[number], free[row] = free[row][:size], free[row][size:]
        if (end is None or begin < end) and (start is None or finish > start):
            for first, height in _pieces(places[number]):
                axes.broken_barh(
                    [(begin / DAY, (finish - begin) / DAY)],
                    (low + first, height),
                    facecolors=f"C{job % 10}",
                    edgecolor="white",
                    linewidth=0.3,
                )
    axes.set_ylim(0, sum(sizes))
    axes.set_xlim(None if start is None else start / DAY, None if end is None else end / DAY)
    axes.set_xlabel("days")
    axes.set_ylabel("processors" if whole else "nodes")
    if not whole:
        middles = [low + size / 2 for low, size in zip(lows, sizes, strict=True)]
        axes.set_yticks(middles, nodes.names)
    axes.set_title(str(run.policy))
    return figure


def waits(runs: Run | Sequence[Run], *, classes: Sequence[int] = (1, 4, 16, 64)) -> Figure:
    """Plot the waiting times of jobs by size: median, quartiles, and the middle 90 %.

    Args:
        runs: One run, or several to show side by side.
        classes: The largest size of each class except the last.
    """
    listed = [runs] if isinstance(runs, Run) else list(runs)
    figure, axes = _one_picture()
    names = _class_names(classes)
    width = 0.8 / len(listed)
    for place, run in enumerate(listed):
        by_class: list[list[float]] = [[] for _ in names]
        for size, wait in zip(run.workload.processors, run.jobs["wait"], strict=True):
            if isinstance(wait, int | float):
                by_class[sum(size > limit for limit in classes)].append(wait / 3600)
        for number, hours in enumerate(by_class):
            _draw_box(axes, number + (place - (len(listed) - 1) / 2) * width, hours, width, place)
        axes.plot([], [], color=f"C{place}", linewidth=6, alpha=0.6, label=str(run.policy))
    axes.set_xticks(range(len(names)), names)
    axes.set_xlabel("processors of a job")
    axes.set_ylabel("hours of waiting")
    axes.set_yscale("symlog", linthresh=0.1)
    axes.set_ylim(bottom=0)
    names_beside = sum(len(str(run.policy)) for run in listed) <= _NAMES_IN_A_LINE
    figure.legend(loc="outside upper center", ncols=len(listed) if names_beside else 1)
    return figure


def shares(run: Run, *, by: Literal["user", "queue"] = "queue", step: float = DAY) -> Figure:
    """Plot the share of the machine that each user or queue held over time.

    The largest get a colour each; the others are summed up.
    """
    columns = run.shares(by, step)
    days = _days(columns.pop("time"))
    if by == "queue":
        for above in run.outcome.parents.values():  # they include the queues below them
            columns.pop(above, None)
    largest = sorted(columns, key=lambda name: (-sum(columns[name]), name))
    stacked = {name: columns[name] for name in largest[:SHOWN]}
    if len(largest) > SHOWN:
        others = [columns[name] for name in largest[SHOWN:]]
        stacked["others"] = [sum(values) for values in zip(*others, strict=True)]
    figure, axes = _one_picture()
    if stacked:
        # Each value applies to a whole step, including the last one.
        until = [*days, days[-1] + step / DAY]
        held = [[*values, values[-1]] for values in stacked.values()]
        axes.stackplot(until, *held, labels=list(stacked), step="post")
        figure.legend(loc="outside right upper", title=by)
    axes.set_ylim(0, 1)
    axes.set_xlabel("days")
    axes.set_ylabel("share of the machine")
    axes.set_title(str(run.policy))
    return figure


def nodes_needed(found: NodesNeeded) -> Figure:
    """Plot the longest wait by the number of nodes, and how long a job may wait."""
    figure, axes = _one_picture()
    hours = {nodes: wait / 3600 for nodes, wait in found.waits.items() if wait is not None}
    axes.plot(list(hours), list(hours.values()), ".-")
    axes.axhline(found.longest_wait / 3600, color="0.5", linestyle="--", linewidth=1)
    if found.nodes is not None:
        axes.plot(found.nodes, hours[found.nodes], "o", color="C1")
    axes.set_xlabel("nodes")
    axes.set_ylabel("longest wait (hours)")
    axes.set_ylim(bottom=0)
    return figure


def comparison(table: SweepTable, metric: str = "bsld") -> Figure:
    """Plot a metric for each policy of a sweep: all values, the mean, and its 95 % interval."""
    figure, axes = _one_picture()
    for place, policy in enumerate(table.policies):
        values = table.values(metric, policy)
        axes.plot([place] * len(values), values, ".", color="0.6", markersize=5)
        middle = mean(values)
        if len(values) > 1:
            low, high = confidence_interval(values)
            reach = [[middle - low], [high - middle]]
            axes.errorbar(place, middle, yerr=reach, fmt="o", color="C0", capsize=5)
        else:
            axes.plot(place, middle, "o", color="C0")
    axes.set_xticks(range(len(table.policies)), table.policies)
    axes.set_xlim(-0.5, len(table.policies) - 0.5)
    axes.set_ylabel(metric)
    axes.set_ylim(bottom=0)
    axes.set_title(f"means over {len(table.variants)} workloads, with 95 % intervals")
    return figure


def _one_picture() -> tuple[Figure, Axes]:
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    return figure, figure.subplots()


def _step(run: Run) -> float:
    ends = [end for end in run.outcome.ends if end is not None]
    if not ends:
        return 1
    return max((max(ends) - run.workload.submits[0]) / 300, 1)


def _days(times: Sequence[float]) -> list[float]:
    return [(time - times[0]) / DAY for time in times]


def _pieces(processors: Sequence[int]) -> list[tuple[int, int]]:
    """Group neighbouring processors; return the first of each group and its size."""
    pieces: list[tuple[int, int]] = []
    for processor in processors:
        if pieces and sum(pieces[-1]) == processor:
            pieces[-1] = (pieces[-1][0], pieces[-1][1] + 1)
        else:
            pieces.append((processor, 1))
    return pieces


def _class_names(classes: Sequence[int]) -> list[str]:
    lows = [1, *(limit + 1 for limit in classes)]
    names = [
        f"{low}" if low == high else f"{low}-{high}"
        for low, high in zip(lows, classes, strict=False)
    ]
    return [*names, f"{lows[-1]}-"]


def _draw_box(axes: Axes, place: float, hours: Sequence[float], width: float, colour: int) -> None:
    if not hours:
        return
    ordered = sorted(hours)
    low, quarter, middle, three_quarters, high = (
        quantile(ordered, share) for share in (0.05, 0.25, 0.5, 0.75, 0.95)
    )
    axes.vlines(place, low, high, color=f"C{colour}", linewidth=1)
    axes.bar(
        place, three_quarters - quarter, width * 0.8, bottom=quarter, color=f"C{colour}", alpha=0.6
    )
    axes.hlines(middle, place - width * 0.4, place + width * 0.4, color="black", linewidth=1.5)
