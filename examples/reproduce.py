"""Published results, reproduced from their logs.

    python examples/reproduce.py kth-sp2 FOLDER
    python examples/reproduce.py kth-sp2-online FOLDER
    python examples/reproduce.py helios FOLDER
    python examples/reproduce.py muri FOLDER
    python examples/reproduce.py elasticflow FOLDER
    python examples/reproduce.py openb FOLDER
    python examples/reproduce.py cea-curie FOLDER
    python examples/reproduce.py tiresias FOLDER
    python examples/reproduce.py kueue FOLDER

`FOLDER` has the files as their sources have them, packed with gzip or not: for `kth-sp2`...
`KTH-SP2_log.swf` (also known as `KTH-SP2-filtered-28481.swf`), for `helios` and `muri`
`trace1.csv` to `trace4.csv`, for `elasticflow` `jobs.csv` and `speeds.csv`, for `openb` the node
list, the pod lists and `orders/`, for `cea-curie` `curie_sample_EasyBackfillScheduler.swf`, for
`tiresias` `60_jobs.json`, for `kueue` `baseline.json`. "Results you can reproduce" in the
documentation says where to get each.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import combinations
from math import ceil, cos, exp, log, log2, pi, sin, sqrt
from operator import mul
from pathlib import Path
from typing import Any, Protocol

from attrs import evolve

from batchsched import (
    JobInfo,
    NodeInfo,
    Queue,
    Resource,
    ResourceLimit,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    TaskInfo,
)
from batchsched.devices import Device, DeviceClaim, DeviceRequest
from batchsched.simulation import (
    MURI_START_COSTS,
    ByModel,
    Checkpoint,
    Conservative,
    Consolidated,
    Decides,
    Decision,
    Doubling,
    Easy,
    Fcfs,
    Increments,
    Job,
    JobId,
    LastTwo,
    LeastAttainedService,
    Perfect,
    Policy,
    Prediction,
    Resize,
    Run,
    RunningJob,
    Scaled,
    Scheduled,
    ShortestFirst,
    Speed,
    Srsf,
    Srtf,
    SrtfInRounds,
    Start,
    Stop,
    ToRequest,
    View,
    WaitingJob,
    Wake,
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
SCHEDULES: dict[str, Policy] = {
    "pyss_schedule_EASY_reqtime.swf": Easy(),
    "pyss_schedule_EASY_2x_perfect.swf": Easy(predictor=Scaled(2, of=Perfect())),
}
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


def lines_of(folder: Path, *names: str, may_lack: bool = False) -> Iterator[str]:
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
    if may_lack:
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
    run = simulate(workload.on(nodes=100), Conservative())
    figures = run.metrics(tau=10)
    show("conservative, requested time: bsld", figures["bsld"], 88.99727497)
    show("conservative, requested time: wait", figures["wait"], 7310.55)
    starts = dict[JobId, float]()
    for line in lines_of(folder, "starts_conservative.csv", may_lack=True):
        if line[0].isdigit():
            job, start = map(int, line.split(","))
            starts[job] = start
    if starts:
        print(f"starts_conservative.csv: {run.compare(starts)}")
    for name, policy in SCHEDULES.items():
        starts = starts_of(lines_of(folder, name, may_lack=True))
        if starts:
            print(f"{name}: {simulate(workload.on(nodes=100), policy).compare(starts)}")


def starts_of(lines: Iterable[str]) -> dict[JobId, float]:
    """Return the start of each job of a log: its submission and wait."""
    starts = dict[JobId, float]()
    for line in lines:
        if not line.startswith(";"):
            job, submit, wait, *_ = map(int, line.split())
            starts[job] = submit + wait
    return starts


def cea_curie(folder: Path) -> None:
    """Print how many starts of EASY on the sample of CEA-Curie are equal."""
    lines = list(lines_of(folder, "curie_sample_EasyBackfillScheduler.swf"))
    workload, _ = read_swf(lines)
    for passes in ("event", "instant"):
        run = simulate(workload, Easy(), passes="event" if passes == "event" else "instant")
        equal = run.compare(starts_of(lines)).equal
        print(f"EASY, a pass an {passes}: {equal:,} of {len(workload):,} starts are equal")


def tiresias(folder: Path) -> None:
    """Print how many ends of Tiresias's example are equal under each policy."""
    given = json.loads("".join(lines_of(folder, "60_jobs.json")))
    jobs = [
        Job(id=job["id"], submit=job["submit"], run=job["run"], processors=job["gpus"])
        for job in given["jobs"]
    ]
    policies: dict[str, Policy] = {
        "fifo": Fcfs(),
        "shortest": Srtf(placement=None),
        "shortest-gpu": Srsf(placement=None),
        "dlas-gpu": LeastAttainedService(),
    }
    for name, policy in policies.items():
        run = simulate(Workload(jobs).on(nodes=given["gpus"]), policy)
        ends = {str(job): end for job, end in zip(run.jobs["id"], run.jobs["end"], strict=True)}
        equal = sum(ends[job] == end for job, end in given["ends"][name].items())
        print(f"{name}: {equal} of {len(jobs)} ends are equal")


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


# Run times learned online on KTH-SP2 (Gaussier et al., SC 2015).

Curve = tuple[str, float]
"""The kind of a loss curve (abs, square or exp), and its parameter."""


class Online:
    """A linear model of 154 features, learned by normalised adaptive descent from each ended job.

    Source: Ross, Mineiro, Langford, "Normalized Online Learning", UAI 2013.
    """

    def __init__(
        self,
        over: Curve,
        under: Curve,
        threshold: float,
        weight: Callable[[float, int], float] = lambda _run, _size: 1,
    ) -> None:
        self.over, self.under, self.threshold, self.weight = over, under, threshold, weight

    def begin(self, workload: Workload, runs: Sequence[float]) -> Prediction:  # noqa: ARG002
        """Return predictions that know nothing yet."""
        return Learning(self, workload)

    def __str__(self) -> str:
        return "learned online"

    def slope(self, error: float, run: float, size: int) -> float:
        """Return the derivative of the loss by the prediction, which is `error` too long."""
        beyond = error - self.threshold
        if not beyond:
            return 0
        kind, factor = self.over if beyond > 0 else self.under
        slope = factor
        if kind == "square":
            slope = 2 * factor * abs(beyond)
        elif kind == "exp":
            slope = factor * exp(factor * abs(beyond))
        return (slope if beyond > 0 else -slope) * self.weight(run, size)


class Watched(Protocol):
    """What a prediction is given to watch."""

    @property
    def now(self) -> float:
        """The time."""
        ...

    @property
    def running(self) -> Mapping[int, float]:
        """The start of each running job."""
        ...


class Learning:
    """The model during one simulation."""

    def __init__(self, of: Online, workload: Workload) -> None:
        self.of = of
        self.users, self.sizes, self.submits = workload.users, workload.processors, workload.submits
        self.requested = [request or 0 for request in workload.requested]
        self.ended_jobs = dict[JobId | None, list[tuple[float, float, int]]]()
        """By user: submission, run time and size of all ended jobs, in order."""
        self.last_end = dict[JobId | None, float]()
        self.features_of = dict[int, list[float]]()
        self.weights: list[float] = []
        self.scales: list[float] = []
        self.squares: list[float] = []
        self.norm, self.count = 1e-9, 1

    def watch(self, state: Watched) -> None:
        """Keep what shows the running jobs."""
        self.state = state

    def predict(self, job: int) -> float:
        """Return the predicted run time in whole seconds."""
        features = self.features_of[job] = self.features(job)
        if not self.weights:
            self.weights = [0.0] * len(features)
            self.scales, self.squares = ([1e-9] * len(features) for _ in range(2))
        product = sum(map(mul, self.weights, features))
        return min(self.requested[job], max(1, int(abs(product))))

    def features(self, job: int) -> list[float]:
        """Return what is known of a job that arrives now."""
        now, user, request, size = (
            self.state.now, self.users[job], self.requested[job], self.sizes[job]
        )  # fmt: skip
        ended = self.ended_jobs.get(user, [])
        last = [
            min(request, run if submit + run > now else now - submit)
            for submit, run, _ in ended[:-4:-1]
        ]
        two = three = last[0] if last else request
        if len(last) > 1:
            two = three = 0.5 * (last[0] + last[1])
        if len(last) > 2:
            three = 0.33 * sum(last)
        mine = [
            (other, now - start)
            for other, start in self.state.running.items()
            if self.users[other] == user and start < now
        ]
        ages = [age for _, age in mine]
        turns = [2 * pi * (now % period) / period for period in (86400, 604800)]
        features: list[float] = [
            1,
            *(last + [request] * 3)[:3],
            request,
            two,
            three,
            sum(run for _, run, _ in ended) / len(ended) if ended else 0,
            now - self.last_end[user] if ended else 0,
            size * len(ended) / sum(each for *_, each in ended) if ended else 0,
            sum(self.sizes[other] for other, _ in mine),
            sum(ages),
            len(mine),
            max(ages, default=0),
            *(function(turn) for turn in turns for function in (cos, sin)),
            size,
        ]
        pairs = [one * other for one, other in combinations(features[1:17], 2)]
        return [*features, *pairs, *(each * each for each in features[1:])]

    def ended(self, job: int, run: float) -> None:
        """Learn from a job that has ended."""
        features = self.features_of.pop(job)
        weights, scales, squares = self.weights, self.scales, self.squares
        for place, feature in enumerate(features):
            if abs(feature) > scales[place]:
                weights[place] *= scales[place] / abs(feature)
                scales[place] = abs(feature)
        self.norm += sum((each / scale) ** 2 for each, scale in zip(features, scales, strict=True))
        error = sum(map(mul, weights, features)) - run
        slope = self.of.slope(error, run, self.sizes[job])
        for place, feature in enumerate(features):
            step = slope * feature + 4e9 * weights[place]
            squares[place] += step * step
            rate = sqrt(self.norm * squares[place] / self.count) * scales[place]
            weights[place] -= 5000 * step / rate
        self.count += 2
        user = self.users[job]
        self.ended_jobs.setdefault(user, []).append((self.submits[job], run, self.sizes[job]))
        self.last_end[user] = self.state.now


def online(
    corrector: Doubling | ToRequest | Increments,
    over: Curve,
    under: Curve,
    threshold: float,
    weight: Callable[[float, int], float] = lambda _run, _size: 1,
    *,
    sjbf: bool = True,
) -> Easy:
    """Return EASY, or EASY++, with run times that are learned online."""
    return Easy(
        predictor=Online(over, under, threshold, weight),
        corrector=corrector,
        backfill="shortest" if sjbf else "arrival",
        on_arrival="always" if sjbf else "if-it-fits",
    )


ONE, LARGE, EXP = ("abs", 1.0), ("abs", 10000.0), ("exp", 0.0001)
ONLINE: list[tuple[str, Policy, float, float]] = [
    (
        "EASY++, increments, square",
        online(Increments(), ("square", 100), ONE, 60),
        45.7974779431659,
        13580.9109581826,
    ),
    (
        "EASY++, doubling, square",
        online(Doubling(), ("square", 100), ONE, 600),
        50.2552614955741,
        13739.8170359187,
    ),
    (
        "EASY++, requested time, square",
        online(ToRequest(), ("square", 10000), ONE, 0),
        50.557487044865894,
        13751.878094168,
    ),
    (
        "EASY, doubling, square/exp",
        online(Doubling(), ("square", 1), EXP, 600, sjbf=False),
        60.747354746465206,
        14385.5887082616,
    ),
    (
        "EASY, increments, square/abs, weighted",
        online(
            Increments(), ("square", 100), LARGE, 0, lambda run, m: 1 + log(m * run), sjbf=False
        ),
        61.13600114115479,
        14179.680523858,
    ),
    (
        "EASY, requested time, exp/abs, weighted",
        online(
            ToRequest(),
            ("exp", 1e-05),
            LARGE,
            0,
            lambda run, m: 11 + log(1 / (run * m)),
            sjbf=False,
        ),
        62.1648183005684,
        14139.9886591061,
    ),
    (
        "EASY++, increments, abs",
        online(Increments(), LARGE, ONE, 0),
        51.9792623233059,
        13760.8490923774,
    ),
    (
        "EASY++, increments, abs/exp",
        online(Increments(), ("abs", 100), EXP, 0),
        52.5874110909685,
        14044.668866963899,
    ),
    (
        "EASY++, requested time, abs/square",
        online(ToRequest(), LARGE, ("square", 1), 0),
        57.1992421825539,
        14232.6567536252,
    ),
    (
        "EASY++, requested time, exp/abs",
        online(ToRequest(), EXP, ONE, 0),
        55.5232870631456,
        13788.201572978502,
    ),
    (
        "EASY++, increments, exp/exp",
        online(Increments(), EXP, EXP, 0),
        52.6812442026575,
        14005.1814191917,
    ),
    (
        "EASY++, doubling, exp/square",
        online(Doubling(), ("exp", 1e-05), ("square", 1), 0),
        56.8975763922388,
        14501.578947368402,
    ),
]


def kth_sp2_online(folder: Path) -> None:
    """Print rows of KTH-SP2 with run times that are learned online."""
    workload, _ = read_swf(lines_of(folder, "KTH-SP2_log.swf", "KTH-SP2-filtered-28481.swf"))
    for name, policy, slowdown, response in ONLINE:
        figures = simulate(workload.on(nodes=100), policy).metrics(tau=10)
        show(f"{name}: bsld", figures["bsld"], slowdown)
        show(f"{name}: response", figures["response"], response)


# ElasticFlow, figure 10: 128 GPUs, sizes chosen from tables of speeds (Gu et al., ASPLOS 2023).

GPUS, GAP, LARGEST, NEVER = 128, 240, 64, float("inf")
"""The GPUs, the least seconds between two decisions, and the largest size of a job."""


class Apart(ABC):
    """Decides at most each `GAP` seconds; what comes earlier waits for the next decision."""

    last = -float(GAP)
    has_waited = False

    def decide(self, view: View, /) -> list[Decision]:
        """Decide, or wait until it may."""
        if not self.is_due(view):
            return []
        self.has_waited = view.now - self.last < GAP
        if self.has_waited:
            return [Wake(self.last + GAP)]
        self.last = view.now
        return self.change(view)

    def is_due(self, view: View) -> bool:  # noqa: ARG002
        """Return whether anything has happened that needs a decision."""
        return True

    @abstractmethod
    def change(self, view: View) -> list[Decision]:
        """Return who runs from now on."""


class LargestFirst(Apart):
    """In order of deadline each job takes the largest size of its table that is left."""

    def change(self, view: View) -> list[Decision]:
        """Return the sizes of all jobs."""
        free, decided = GPUS, list[Decision]()
        places = {job.id: job.places for job in view.running}
        jobs = [*view.waiting, *(job.job for job in view.running)]
        for job in sorted(jobs, key=lambda job: (job.deadline or 0, job.id)):
            assert job.speed is not None
            most = min(LARGEST, int(job.labels["batch"]), free)
            size = max((each for each in job.speed.tasks if each <= most), default=0)
            free -= size
            if size and job.id not in places:
                decided.append(Start(job.id, [("gpus", size)]))
            elif size and places[job.id] != (("gpus", size),):
                decided.append(Resize(job.id, [("gpus", size)]))
            elif not size and job.id in places:
                decided.append(Stop(job.id))
        return decided


class Deadlines(Policy):
    """ElasticFlow's EDF."""

    checkpoint = Checkpoint(every=0)
    passes = "instant"

    def begin(self, workload: Workload, /) -> Decides:  # noqa: ARG002
        """Return what decides in a new simulation."""
        return LargestFirst()

    def decide(self, view: View, /) -> list[Decision]:
        """Decide at a first pass."""
        return LargestFirst().decide(view)


class Tiresias(Policy):
    """Tiresias as ElasticFlow's simulator has it."""

    predictor = Perfect()
    passes = "instant"

    def begin(self, workload: Workload, /) -> Decides:  # noqa: ARG002
        """Return what decides in a new simulation."""
        return Queues()

    def decide(self, view: View, /) -> list[Decision]:
        """Decide at a first pass."""
        return Queues().decide(view)


class Queues(Apart):
    """Three queues by attained service; starts cost, and each 240th decision starts all again."""

    limits = (3250, 7200)
    every = 240

    def __init__(self) -> None:
        self.decisions = 2  # the count of the published log is two ahead
        self.level = dict[JobId, int]()
        self.sizes = dict[JobId, int]()
        self.untold: list[tuple[float, int]] = []
        """Times and sizes of jobs that have ended, of which decisions have not been told."""
        self.unpaid = dict[JobId, float]()
        """The cost of the job that would end first, which pays it only if it is decided again."""
        self.looks_again = NEVER

    def is_due(self, view: View) -> bool:
        """Return whether a job came or ended, or reached the limit of its queue."""
        for cause in view.causes:
            if cause.kind == "end":
                self.untold.append((view.now, self.sizes.pop(cause.what)))
        came = any(cause.kind == "arrival" for cause in view.causes)
        return came or bool(self.untold) or self.has_waited or view.now >= self.looks_again

    def change(self, view: View) -> list[Decision]:
        """Return who starts, and who pays."""
        self.decisions += 1
        # It is told the ends of one second; other jobs that have ended hold their GPUs meanwhile.
        first = min((time for time, _ in self.untold), default=0)
        self.untold = [each for each in self.untold if each[0] != first]
        free = GPUS - sum(size for _, size in self.untold)
        running = {job.id: job for job in view.running}
        jobs = [*view.waiting, *(job.job for job in view.running)]
        for job in jobs:
            level = self.level.get(job.id, 0)
            done = running[job.id].done if job.id in running else 0
            while level < len(self.limits) and done * job.need >= self.limits[level]:
                level += 1
            self.level[job.id] = level
        jobs.sort(key=lambda job: (self.level[job.id], job.id not in running, job.submit, job.id))
        chosen: list[WaitingJob] = []
        for job in jobs:
            if job.need <= free:
                free -= job.need
                chosen.append(job)
        return [*self.starts(chosen, running), Wake(self.next_look(view.now, chosen, running))]

    def starts(
        self, chosen: Sequence[WaitingJob], running: Mapping[JobId, RunningJob]
    ) -> list[Decision]:
        """Return the starts of jobs, and what those that run have to pay."""
        again = self.decisions % self.every == 0
        owed = {job.id: self.unpaid.pop(job.id, 0.0) for job in chosen}
        self.unpaid.clear()
        left = {
            job.id: (job.estimate or 0) - (running[job.id].done if job.id in running else 0)
            for job in chosen
        }
        ends_first = min(left, key=lambda each: left[each] + owed[each], default=None)
        decided = list[Decision]()
        for job in chosen:
            cost = 0.0
            if again or job.id not in running:
                cost = 2 + 2 * (1 + log2(job.need)) + (27 if again else 0)
            if job.id == ends_first and not again:
                self.unpaid[job.id], cost = cost, 0.0
            self.sizes[job.id] = job.need
            places, cost = [("gpus", job.need)], cost + owed[job.id]
            if job.id not in running:
                decided.append(Start(job.id, places, cost))
            elif cost:
                decided.append(Resize(job.id, places, cost))
        return decided

    def next_look(
        self, now: float, chosen: Sequence[WaitingJob], running: Mapping[JobId, RunningJob]
    ) -> float:
        """Return when the next job may reach the limit of its queue."""
        self.looks_again = NEVER
        for job in chosen:
            level = self.level[job.id]
            if level < len(self.limits):
                done = running[job.id].done if job.id in running else 0
                # The published one takes seconds from GPU-seconds here.
                seconds = ceil((self.limits[level] - done) / job.need)
                self.looks_again = min(self.looks_again, now + seconds)
        self.has_waited = bool(self.untold)
        return now + GAP if self.untold else self.looks_again


def elasticflow_jobs(folder: Path, *, elastic: bool) -> tuple[Workload, list[dict[str, str]]]:
    """Return the jobs of ElasticFlow's figure 10, and the rows of their file.

    Args:
        folder: Where the files are.
        elastic: Whether they take any size of their table; or that which was asked for.
    """
    speeds: dict[tuple[str, str], dict[int, float]] = {}
    for row in csv.DictReader(lines_of(folder, "speeds.csv")):
        table = speeds.setdefault((row["model"], row["batch"]), {})
        table[int(row["gpus"])] = float(row["iterations_per_second"])
    one = Resource(milli_cpu=1000)
    tasks = [TaskInfo(uid=f"{n:02}", name=f"{n:02}", resreq=one) for n in range(LARGEST)]
    rows = list(csv.DictReader(lines_of(folder, "jobs.csv")))
    jobs = [
        Job(
            id=int(row["job"]),
            submit=int(row["submit"]),
            run=int(row["iterations" if elastic else "length"]),
            deadline=int(row["deadline"]),
            speed=Speed(tasks=speeds[row["model"], row["batch"]]) if elastic else None,
            info=JobInfo(
                name="job",
                queue="default",
                min_available=1 if elastic else int(row["gpus"]),
                tasks=tasks if elastic else tasks[: int(row["gpus"])],
                labels={"batch": row["batch"]},
            ),
        )
        for row in rows
    ]
    gpus = NodeInfo(name="gpus", allocatable=Resource(milli_cpu=1000 * GPUS))
    return Workload(jobs).on(nodes=[gpus]), rows


def elasticflow(folder: Path) -> None:
    """Print ElasticFlow's figure 10: means, and how many starts and ends are equal."""
    for name, policy, published in (
        ("edf", Deadlines(), 63318.75),
        ("tiresias", Tiresias(), 51045.95),
    ):
        workload, rows = elasticflow_jobs(folder, elastic=name == "edf")
        run = simulate(workload, policy, round_ends=1)
        show(f"{name}: response", run.metrics()["response"], published)
        logged = {(row["job"], row[f"{name}_start"], row[f"{name}_end"]) for row in rows}
        here = zip(*(map(str, run.jobs[column]) for column in ("id", "start", "end")), strict=True)
        equal = len(logged & set(here))
        on_time = len(rows) - int(run.metrics()["late"])
        print(f"{name}: {equal} of {len(rows)} starts and ends are equal, {on_time} jobs on time")


OPENB = {
    "default": {42: 95.29, 43: 95.32, 44: 95.44},
    "gpuspec33": {42: 94.39, 43: 94.52, 44: 94.59},
}
"""By list and seed, the percentage of GPUs that the published program of FGD allocates."""
GPU = "nvidia.com/gpu"
FGD = SchedulerConfig.from_mapping(
    {
        "actions": ["allocate"],
        "tiers": [
            {
                "plugins": [
                    {"name": "predicates"},
                    {"name": "devices", "arguments": {"order": "scored"}},
                    {"name": "placement", "arguments": {"strategy": "fgd"}},
                ]
            }
        ],
    }
)


def openb_snapshot(folder: Path, pods: str, seed: int) -> Snapshot:
    """Return all nodes of openb, empty, and the tasks of a list in their order of arrival."""
    nodes = [
        NodeInfo(
            name=row["sn"],
            allocatable=openb_amount(row, int(row["gpu"]) * 1000),
            devices=[
                Device(
                    name=f"gpu-{number}",
                    attributes={"model": row["model"]},
                    capacity={"milli": 1000},
                    shared=True,
                )
                for number in range(int(row["gpu"]))
            ],
        )
        for row in csv.DictReader(lines_of(folder, "openb_node_list_gpu_node.csv"))
    ]
    tasks = [
        openb_task(row) for row in csv.DictReader(lines_of(folder, f"openb_pod_list_{pods}.csv"))
    ]
    tasks.sort(key=lambda task: task.name)
    order: list[int] = json.loads("".join(lines_of(folder, f"orders/{pods}.json")))[str(seed)]
    jobs = [
        JobInfo(
            name=f"{place:05}",
            queue="q",
            creation_time=place,
            tasks=[evolve(tasks[number], uid=f"{place:05}")],
        )
        for place, number in enumerate(order)
    ]
    return Snapshot(nodes=nodes, jobs=jobs, queues=[Queue(name="q")], now=len(jobs))


def openb_amount(row: Mapping[str, str], gpus: int) -> Resource:
    """Return the resources of a node or pod."""
    memory = int(row["memory_mib"]) << 20
    return Resource(
        milli_cpu=int(row["cpu_milli"]), memory=memory, scalars={GPU: gpus} if gpus else {}
    )


def openb_task(row: Mapping[str, str]) -> TaskInfo:
    """Return a pod as a task: whole GPUs are asked for without a capacity."""
    count, milli = int(row["num_gpu"]), int(row["gpu_milli"])
    models = ", ".join(f'"{model}"' for model in row["gpu_spec"].split("|") if model)
    request = DeviceRequest(
        name="gpu",
        count=count,
        select=[f'device.attributes[""].model in [{models}]'] if models else [],
        capacity={} if milli == 1000 else {"milli": milli},
    )
    return TaskInfo(
        uid=row["name"],
        name=row["name"],
        resreq=openb_amount(row, count * milli),
        claims=[DeviceClaim(name="gpus", requests=[request])] if count else [],
    )


def openb_allocated(snapshot: Snapshot) -> float:
    """Return the percentage of all GPUs that one cycle under fgd allocates."""
    result = Scheduler(FGD).schedule(snapshot)
    there = sum(node.allocatable.get(GPU) for node in snapshot.nodes)
    bound = sum(snapshot.task(bind.task_uid).resreq.get(GPU) for bind in result.binds)
    return 100 * bound / there


def openb(folder: Path) -> None:
    """Print the percentage of GPUs that are allocated under fgd, beside that of its program."""
    for pods, published in OPENB.items():
        for seed, percent in published.items():
            allocated = openb_allocated(openb_snapshot(folder, pods, seed))
            show(f"{pods}, seed {seed}: GPUs allocated (%)", allocated, percent)


def kueue_cohort(record: Mapping[str, Any], share: float = 1) -> Workload:
    """Return the workloads of one cohort of a performance record of Kueue; times in milliseconds.

    Args:
        record: The record.
        share: Which share of each set.
    """
    [group] = record["cohorts"]
    jobs = [
        Job(
            id=f"{queue}-{one['class']}-{number:03}",
            submit=(number + 1) * each["interval"],
            run=one["run"],
            processors=one["cpu"] * one["pods"] // 1000,
            priority=one["priority"],
            queue=f"queue-{queue}",
            labels={"class": one["class"]},
        )
        for queue in range(group["queues"])
        for each in group["sets"]
        for one in each["workloads"]
        for number in range(round(each["count"] * share))
    ]
    quota = Resource(milli_cpu=group["nominal"] * group["queues"])
    return Workload(jobs).on(nodes=[NodeInfo(name="node", allocatable=quota)])


def kueue_policy(record: Mapping[str, Any], *, borrows: bool, evicts: bool) -> Scheduled:
    """Return the scheduler with the queues of a cohort.

    Args:
        record: The performance record.
        borrows: Whether a queue may hold more than its nominal quota, as the record says.
        evicts: Whether quota is reclaimed, and lower priorities are preempted in a queue.
    """
    [group] = record["cohorts"]
    nominal, borrowing = group["nominal"], group["borrowing"] if borrows else 0
    whole = nominal * group["queues"]
    queues = [
        Queue(
            name="cohort",
            deserved=Resource(milli_cpu=whole),
            limit=ResourceLimit(milli_cpu=whole),
        )
    ]
    queues += [
        Queue(
            name=f"queue-{number}",
            parent="cohort",
            deserved=Resource(milli_cpu=nominal),
            limit=ResourceLimit(milli_cpu=nominal + borrowing),
        )
        for number in range(group["queues"])
    ]
    gang = {"name": "gang", "arguments": {"atMinimum": "whole-job"}}
    config = SchedulerConfig.from_mapping(
        {
            "actions": ["reclaim", "allocate", "preempt"] if evicts else ["allocate"],
            "tiers": [{"plugins": ["priority", gang, "capacity", "predicates"]}],
        }
    )
    return Scheduled(config, queues=queues)


def kueue(folder: Path) -> None:
    """Print what one cohort of Kueue's record takes here, beside what the record says."""
    record = json.loads("".join(lines_of(folder, "baseline.json")))
    there = record["recorded"]
    workload = kueue_cohort(record)
    row = "{:<34} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}"
    print(row.format("", "ended", "used", "small", "medium", "large", "evictions"))
    waits = (f"{there['admission'][each] / 1000:.1f} s" for each in ("small", "medium", "large"))
    print(row.format("record", f"{there['wall'] / 1000:.1f} s", f"{there['usage']} %", *waits, ""))
    for evicts in (False, True):
        for borrows in (True, False):
            policy = kueue_policy(record, borrows=borrows, evicts=evicts)
            run = simulate(workload, policy, passes="instant")
            name = "borrows" if borrows else "does not borrow"
            print(row.format(name + (", evicts" if evicts else ""), *kueue_figures(run)))


def kueue_figures(run: Run) -> list[str]:
    """Return the end, the utilisation, the mean wait of each class, and the evictions of a run."""
    waits: dict[str, list[float]] = {"small": [], "medium": [], "large": []}
    for labels, start, submit in zip(
        run.workload.labels, run.outcome.starts, run.workload.submits, strict=True
    ):
        assert start is not None
        waits[labels["class"]].append((start - submit) / 1000)
    figures = run.metrics()
    end = max(end for end in run.outcome.ends if end is not None)
    means = (f"{sum(each) / len(each):.1f} s" for each in waits.values())
    evictions = sum(run.outcome.preemptions or ())
    return [f"{end / 1000:.1f} s", f"{figures['utilisation']:.1%}", *means, f"{evictions:,}"]


RESULTS = {
    "kth-sp2": kth_sp2,
    "kth-sp2-online": kth_sp2_online,
    "helios": helios,
    "muri": muri,
    "elasticflow": elasticflow,
    "openb": openb,
    "cea-curie": cea_curie,
    "tiresias": tiresias,
    "kueue": kueue,
}


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
