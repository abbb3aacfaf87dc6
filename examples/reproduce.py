"""Published results, reproduced from their logs.

    python examples/reproduce.py kth-sp2 FOLDER
    python examples/reproduce.py helios FOLDER
    python examples/reproduce.py muri FOLDER

`FOLDER` has the files as their sources have them, packed with gzip or not: for `kth-sp2`
`KTH-SP2_log.swf` (also known as `KTH-SP2-filtered-28481.swf`), for the others `trace1.csv` to
`trace4.csv`. "Results you can reproduce" in the documentation says where to get each.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

from batchsched.simulation import (
    MURI_START_COSTS,
    ByModel,
    Conservative,
    Consolidated,
    Doubling,
    Easy,
    Fcfs,
    Increments,
    LastTwo,
    LeastAttainedService,
    Perfect,
    Policy,
    Scaled,
    ShortestFirst,
    Srsf,
    Srtf,
    SrtfInRounds,
    ToRequest,
    Workload,
    read_muri,
    read_swf,
    simulate,
)


def learned(corrector: Doubling | ToRequest | Increments) -> Easy:
    """Return EASY with learned run times and no other order."""
    return Easy(predictor=LastTwo(), corrector=corrector, on_arrival="if-it-fits")


def easy_plus_plus(corrector: Doubling | ToRequest | Increments) -> Easy:
    """Return EASY++."""
    return Easy(predictor=LastTwo(), corrector=corrector, backfill="shortest")


# Mean bounded slowdown and mean response time: Gaussier et al., SC 2015, from the file of all their
# results.
KTH_SP2: list[tuple[str, Policy, float, float]] = [
    ("EASY, requested time", Easy(), 92.57653973362949, 15696.798181243601),
    ("EASY, true run time", Easy(predictor=Perfect()), 71.7223851124418, 15187.607703381202),
    (
        "EASY, twice the requested time",
        Easy(predictor=Scaled(2)),
        79.9302510862489,
        14900.169411186398,
    ),
    ("EASY-SJBF, requested time", Easy(backfill="shortest"), 69.40540058030349, 14764.0026684456),
    (
        "EASY-SJBF, true run time",
        Easy(backfill="shortest", predictor=Perfect()),
        49.8477189313406,
        14295.9468417542,
    ),
    (
        "EASY-SJBF, twice the requested time",
        Easy(backfill="shortest", predictor=Scaled(2)),
        58.9125322399729,
        14063.917594185601,
    ),
    ("EASY++, doubling", easy_plus_plus(Doubling()), 64.527474221916, 15085.663003405802),
    ("EASY++, requested time", easy_plus_plus(ToRequest()), 62.8568827272923, 14513.686633194098),
    ("EASY++, increments", easy_plus_plus(Increments()), 63.5006771704074, 15095.780028791101),
    ("EASY, learned, doubling", learned(Doubling()), 76.9224423223752, 15352.4152592957),
    ("EASY, learned, requested time", learned(ToRequest()), 65.7235894400489, 14647.1387942839),
    ("EASY, learned, increments", learned(Increments()), 85.4429055860284, 16041.5189424529),
]
# Mean response ("JCT") and mean pending time ("queue"): Hu et al., SC 2021.
HELIOS = {
    "7f04ca": ((133826, 1412), (133271, 857), (132980, 565)),
    "2869ce": ((70215, 21171), (56388, 7344), (53128, 4071)),
    "0e4a51": ((233539, 101473), (168747, 36682), (146023, 13953)),
    "ee9e8c": ((243144, 127270), (130493, 14619), (122609, 6720)),
}
# The file, seconds from the beginning of 2017 to its first job, nodes of 8 GPUs.
CLUSTERS = {
    "7f04ca": (1, 19_862_418, 32),
    "2869ce": (3, 22_523_039, 16),
    "0e4a51": (4, 23_235_862, 32),
    "ee9e8c": (2, 22_125_631, 64),
}
# Mean response with SRTF, SRSF and Tiresias: Zhao et al., SIGCOMM 2022.
MURI = {
    1: (1370603.198, 980140.5699, 3330371.307),
    2: (2665607.375, 2213949.687, 7396368.514),
    3: (193081.796, 185021.8802, 347213.2481),
    4: (581982.9002, 487167.1688, 1319382.936),
}


def lines_of(folder: Path, *names: str) -> Iterator[str]:
    """Yield the lines of the first file that exists, packed or not."""
    for name in names:
        packed = folder / f"{name}.gz"
        if packed.exists():
            with gzip.open(packed, "rt", encoding="utf-8") as file:
                yield from file
            return
        if (folder / name).exists():
            yield from (folder / name).read_text(encoding="utf-8").splitlines()
            return
    sys.exit(f"{folder} has none of {', '.join(names)}, packed or not")


def show(name: str, value: float, published: float) -> None:
    """Print a figure next to the published one."""
    print(f"{name:<46} {value:>16.6f} {published:>16.6f} {value / published - 1:>+11.1e}")


def kth_sp2(folder: Path) -> None:
    """Print all rows of KTH-SP2."""
    workload, _ = read_swf(lines_of(folder, "KTH-SP2_log.swf", "KTH-SP2-filtered-28481.swf"))
    for name, policy, slowdown, response in KTH_SP2:
        figures = simulate(workload.on(nodes=100), policy).metrics(tau=10)
        show(f"{name}: bsld", figures["bsld"], slowdown)
        show(f"{name}: response", figures["response"], response)
    # From an independent replay, which gives fewer digits.
    figures = simulate(workload.on(nodes=100), Conservative()).metrics(tau=10)
    show("conservative, requested time: bsld", figures["bsld"], 88.99727497)
    show("conservative, requested time: wait", figures["wait"], 7310.55)


def helios(folder: Path) -> None:
    """Print Helios's table on four virtual clusters of Philly."""
    policies: dict[str, Policy] = {
        "FIFO": Fcfs(placement=Consolidated()),
        "SJF": ShortestFirst(predictor=Perfect(), placement=Consolidated()),
        "SRTF": SrtfInRounds(),
    }
    begin, end = seconds(2017, 10, 1, 0, 0), seconds(2017, 11, 30, 23, 59)
    for cluster, (number, start, nodes) in CLUSTERS.items():
        workload = philly(folder, number, run="duration", start=start).between(begin, end + 1)
        row = zip(policies.items(), HELIOS[cluster], strict=True)
        for (name, policy), (response, pending) in row:
            run = simulate(workload.on(nodes=nodes, per_node=8), policy, passes="instant")
            # The table has whole seconds, cut off.
            show(f"{cluster}, {name}: response", int(run.metrics()["response"]), response)
            show(f"{cluster}, {name}: pending", int(run.metrics()["pending"]), pending)


def muri(folder: Path) -> None:
    """Print Muri's table on four virtual clusters of Philly."""
    cost = ByModel(MURI_START_COSTS)
    policies: dict[str, Policy] = {
        "SRTF": Srtf(event_cost=cost),
        "SRSF": Srsf(event_cost=cost),
        "Tiresias": LeastAttainedService(event_cost=cost),
    }
    for number, row in MURI.items():
        workload = philly(folder, number, run="iterations", start=0).on(nodes=8, per_node=8)
        for (name, policy), published in zip(policies.items(), row, strict=True):
            response = simulate(workload, policy).metrics()["response"]
            show(f"trace{number}, {name}: response", response, published)


def philly(folder: Path, number: int, *, run: str, start: float) -> Workload:
    """Read one of the four virtual clusters."""
    rows = csv.DictReader(lines_of(folder, f"trace{number}.csv"))
    return read_muri(rows, run="duration" if run == "duration" else "iterations", start=start)[0]


def seconds(year: int, month: int, day: int, hour: int, minute: int) -> float:
    """Return the seconds from the beginning of 2017 to this moment."""
    # The location of the cluster does not matter: all times are of its clock.
    return (datetime(year, month, day, hour, minute) - datetime(2017, 1, 1)).total_seconds()


RESULTS = {"kth-sp2": kth_sp2, "helios": helios, "muri": muri}


def main(argv: Sequence[str] | None = None) -> int:
    """Do what the arguments say; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("results", choices=RESULTS)
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args(argv)
    print(f"{'':<46} {'here':>16} {'published':>16} {'difference':>11}")
    RESULTS[arguments.results](arguments.folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
