"""Three policies on one workload: a table, the confidence of the differences, and pictures.

    python examples/simulate.py [--swf FILE] [--nodes N] [--jobs N] [--seeds N] [--plots FOLDER]

Without `--swf` it generates a workload. With it, it reads a log in the Standard Workload Format,
packed with gzip or not, such as those of the Parallel Workloads Archive
(https://www.cs.huji.ac.il/labs/parallel/workload/); each seed draws a log's users again.
With `--plots`, and if matplotlib is installed, it writes pictures into a folder.
"""

# Matplotlib does not declare the types of its many options.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import argparse
import gzip
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from batchsched.simulation import (
    Conservative,
    Easy,
    Run,
    SweepTable,
    Workload,
    WorkloadError,
    generate,
    read_swf,
    resampled_by_users,
    simulate,
    sweep,
)

POLICIES = {
    "EASY": Easy(),
    "EASY-SJBF": Easy(backfill="shortest"),
    "conservative": Conservative(),
}
SHOWN = 5
"""How many problems of a log are printed."""


def lines_of(path: Path) -> Iterator[str]:
    """Yield the lines of a file, packed or not."""
    if path.suffix == ".gz":
        with gzip.open(path, "rt", encoding="utf-8", errors="replace") as file:
            yield from file
    else:
        with path.open(encoding="utf-8", errors="replace") as file:
            yield from file


def read(path: Path, nodes: int | None) -> Workload:
    """Read a log, print its problems, and leave out jobs that do not fit."""
    workload, problems = read_swf(lines_of(path))
    print(f"{path.name}: {len(workload):,} jobs, {len(problems):,} problems")
    for problem in problems[:SHOWN]:
        print(f"  {problem}")
    if len(problems) > SHOWN:
        print(f"  and {len(problems) - SHOWN:,} more")
    if nodes is not None:
        workload = workload.on(nodes=nodes)
    machine = workload.machine
    if machine is None:
        sys.exit("the log does not say how large its machine was: give --nodes")
    fitting = workload.where(
        lambda job: (job.processors or 0) <= machine.processors and job.requested is not None
    )
    if len(fitting) < len(workload):
        print(f"left out: {len(workload) - len(fitting):,} jobs, too large or without a time limit")
    return fitting


def variants_of(workload: Workload | None, arguments: argparse.Namespace) -> dict[str, Workload]:
    """Return the workloads of the sweep: other seeds, or users of the log drawn again."""
    seeds = range(1, arguments.seeds + 1)
    if workload is None:
        return {
            f"seed {seed}": generate(jobs=arguments.jobs, nodes=arguments.nodes or 128, seed=seed)
            for seed in seeds
        }
    try:
        return {f"users {seed}": resampled_by_users(workload, seed=seed) for seed in seeds}
    except WorkloadError as error:
        print(f"no resampling: {error}")
        return {"log": workload}


def show(runs: Sequence[Run], table: SweepTable) -> None:
    """Print the runs, and how the policies compare."""
    for run in runs:
        print(f"\n{run}")
    print(f"\n{table}\n\nmean bounded slowdown, compared with EASY:")
    for pair in table.paired("bsld", baseline="EASY"):
        print(f"  {pair}")


def draw(runs: Sequence[Run], table: SweepTable, folder: Path) -> None:
    """Write pictures into a folder."""
    try:
        from matplotlib import rc_context  # noqa: PLC0415 - only with --plots

        from batchsched.simulation import plots  # noqa: PLC0415
    except ImportError as error:
        print(f"\nno pictures: {error}")
        return
    folder.mkdir(parents=True, exist_ok=True)
    easy = runs[0]
    first = easy.workload.submits[0]
    figures = {
        "queue": plots.queue_and_utilisation(easy),
        "gantt": plots.gantt(easy, start=first + 2 * 86400, end=first + 4 * 86400),
        "waits": plots.waits(runs),
        "shares": plots.shares(easy, by="user"),
        "comparison": plots.comparison(table, "bsld"),
    }
    # The same pictures give the same files.
    with rc_context({"svg.hashsalt": "batchsched"}):
        for name, figure in figures.items():
            figure.savefig(folder / f"simulation-{name}.svg", metadata={"Date": None})
    print(f"\npictures: {', '.join(f'simulation-{name}.svg' for name in figures)} in {folder}")


def main(argv: Sequence[str] | None = None) -> int:
    """Do what the arguments say; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--swf", type=Path, metavar="FILE", help="a log to read")
    parser.add_argument("--nodes", type=int, help="processors of the machine (128, or the log's)")
    parser.add_argument("--jobs", type=int, default=1000, help="how many jobs to make up (1000)")
    parser.add_argument("--seeds", type=int, default=5, help="how many workloads to compare on (5)")
    parser.add_argument("--plots", type=Path, metavar="FOLDER", help="where pictures go")
    arguments = parser.parse_args(argv)
    log = None if arguments.swf is None else read(arguments.swf, arguments.nodes)
    variants = variants_of(log, arguments)
    shown = log if log is not None else next(iter(variants.values()))
    runs = [simulate(shown, policy) for policy in POLICIES.values()]
    table = sweep(policies=POLICIES, variants=variants)
    show(runs, table)
    if arguments.plots is not None:
        draw(runs, table, arguments.plots)
    return 0


if __name__ == "__main__":
    sys.exit(main())
