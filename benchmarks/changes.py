"""What a cycle of a living cluster costs by what changed, where jobs wait that cannot start.

    python -m benchmarks.changes [ROW ...]
    python -m benchmarks.beside REVISION --only changes:borrow-800,changes:kth-1

The rows `borrow-N` have one node of 16 GPUs, three queues that borrow from one another, the
actions reclaim, allocate and preempt, and no reasons, while N jobs of three shapes wait. Nothing
changes in `borrow-N-still`; in `borrow-N` one job arrives or one ends; in `borrow-N-mixed` the
shapes come in any order. Each cycle of `undone-800` follows a trial in which a job came, and which
was undone. In `gangs-N-ACTIONS`, N nodes of 8 GPUs each run a gang of 7,
five gangs of 2 N wait in two queues, and a gang of 2 comes; nothing is evicted. That is a whole
cycle, from scratch, of `allocate`, or with `preempt`, `reclaim` or both besides. In `fifty` nine
jobs arrive on 50 nodes, eight end, and one gives up. In `simulated` the default configuration
decides where 2,000 made-up jobs start on 50 nodes. `generate`, `easy` and `series` make 100,000
jobs up, simulate them on 100 processors under EASY, and ask for the series over time. The rows
`kth-N` replay the first 2,000 jobs of the log KTH-SP2 on N nodes with the action `plan`, if the
folder in BATCHSCHED_TRACES has it, else as many made-up jobs. The seconds of these rows are those
of a job.
It imports the library alone, in names that earlier commits have, too, so that `beside` can run it
on both sides.
"""

from __future__ import annotations

import gc
import gzip
import hashlib
import os
import sys
from collections.abc import Callable
from functools import partial
from inspect import signature
from math import log
from pathlib import Path
from random import Random
from statistics import linear_regression
from time import process_time

from batchsched import (
    CycleResult,
    JobInfo,
    NodeInfo,
    Queue,
    Resource,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    TaskInfo,
    TaskStatus,
)
from batchsched.live import Cluster, Event, JobArrived, JobRemoved, TimePassed
from batchsched.simulation import Easy, Scheduled, generate, read_swf, simulate

__all__ = ["ROWS", "main", "measure"]

SHAPES = (2, 4, 8)
CYCLES = 24
LOG = "kth_sp2/KTH-SP2-filtered-28481.swf.gz"
PLAN = {
    "actions": [{"name": "plan", "arguments": {"keep": False}}],
    "tiers": [{"plugins": [{"name": "gang"}]}],
}


def resource(size: int) -> Resource:
    return Resource(
        milli_cpu=4000 * size, memory=size << 34, scalars={"nvidia.com/gpu": 1000 * size}
    )


class Living:
    """A living cluster on which jobs of one task come and go."""

    def __init__(
        self, nodes: int, queues: list[Queue], actions: str, *, seed: int, plain: bool = False
    ) -> None:
        self.random = Random(seed)
        self._queues = queues
        self._count = 0
        self.waiting: list[str] = []
        """The jobs that wait, the first that came first."""
        self.running: list[str] = []
        node = resource(16)
        self.cluster = Cluster(
            nodes=[
                NodeInfo(name=f"n{i:02}", allocatable=node, max_tasks=110) for i in range(nodes)
            ],
            queues=queues,
        )
        config = SchedulerConfig.from_mapping({"actions": actions})
        self._live = Scheduler(config, plain=plain).attach(self.cluster)
        self._digest = hashlib.sha256()
        # Earlier commits know nothing else.
        is_known = "at_once" in signature(Cluster.carry_out).parameters
        self._carry_out: Callable[[CycleResult], None] = self.cluster.carry_out
        if is_known:
            self._carry_out = partial(self.cluster.carry_out, at_once=True)

    def arrival(self, size: int) -> Event:
        name, queue = f"j{self._count:05}", self._queues[self._count % len(self._queues)]
        self._count += 1
        self.waiting.append(name)
        task = TaskInfo(uid=name, name=name, resreq=resource(size))
        return JobArrived(
            JobInfo(
                name=name,
                queue=queue.name,
                min_available=1,
                creation_time=self.cluster.now + self._count / 1000,
                tasks=[task],
            )
        )

    def end(self) -> Event:
        return self._removed(self.running)

    def give_up(self) -> Event:
        return self._removed(self.waiting)

    def _removed(self, jobs: list[str]) -> Event:
        return JobRemoved(f"default/{jobs.pop(self.random.randrange(len(jobs)))}")

    def ask(self, size: int) -> None:
        """Ask in a trial what a cycle would decide if a job came."""
        with self.cluster.trial():
            self.cluster.apply(self.arrival(size))
            self._live.schedule(reasons=False)
        self.waiting.pop()

    def cycle(self, *events: Event) -> float:
        """Apply events, decide and carry out; return the seconds of processor time."""
        begin = process_time()
        self.cluster.apply(*events, TimePassed(self.cluster.now + 1))
        result = self._live.schedule(reasons=False)
        self._carry_out(result)
        spent = process_time() - begin
        self._note(result)
        return spent

    def _note(self, result: CycleResult) -> None:
        moves = [(bind.task_uid, bind.node_name) for bind in result.binds]
        gone = [eviction.task_uid for eviction in result.evictions]
        self._digest.update(repr((moves, gone)).encode())
        for uid, _ in moves:
            self.waiting.remove(uid)
            self.running.append(uid)
        for uid in gone:
            self.running.remove(uid)
            self.waiting.append(uid)

    @property
    def digest(self) -> str:
        return self._digest.hexdigest()


def borrowing(waiting: int, *, is_mixed: bool = False, plain: bool = False) -> Living:
    """Return three teams that borrow from one another on one node, until nothing changes."""
    queues = [
        Queue(name=f"team-{i}", deserved=Resource(scalars={"nvidia.com/gpu": gpus * 1000}))
        for i, gpus in enumerate((8, 4, 4))
    ]
    living = Living(1, queues, "reclaim, allocate, preempt", seed=1, plain=plain)
    sizes = [SHAPES[number * 3 // waiting] for number in range(waiting)]
    if is_mixed:
        living.random.shuffle(sizes)
    living.cycle(*map(living.arrival, sizes))
    for _ in range(4):  # until nothing is evicted any more
        living.cycle()
    gc.collect()
    return living


def borrow(
    waiting: int, *, is_still: bool = False, is_mixed: bool = False, plain: bool = False
) -> dict[str, object]:
    """Measure cycles of three teams that borrow from one another."""
    living = borrowing(waiting, is_mixed=is_mixed, plain=plain)
    spent: list[float] = []
    for number in range(CYCLES):
        events: list[Event] = []
        if not is_still:
            size = living.random.choice(SHAPES)
            events = [living.end() if number % 2 else living.arrival(size)]
        spent.append(living.cycle(*events))
    return _found(spent, living.digest)


def undone(waiting: int) -> dict[str, object]:
    """Measure the cycles after trials in which a job came, and which were undone."""
    living = borrowing(waiting)
    spent: list[float] = []
    for number in range(CYCLES):
        living.ask(SHAPES[number % 3])
        spent.append(living.cycle())
    return _found(spent, living.digest)


GANGS = {
    "allocate": "allocate",
    "preempt": "allocate, preempt",
    "reclaim": "allocate, reclaim",
    "both": "allocate, reclaim, preempt",
}
"""The actions of the rows `gangs-N-ACTIONS`, by the end of the row's name."""


def gangs(nodes: int, actions: str) -> dict[str, object]:
    """Measure cycles where gangs wait that no eviction can start."""

    def gang(name: str, queue: str, size: int, node: str | None = None, at: int = 0) -> JobInfo:
        status = TaskStatus.PENDING if node is None else TaskStatus.RUNNING
        names = [f"{name}-{number:04}" for number in range(size)]
        return JobInfo(
            name=name,
            queue=queue,
            min_available=size,
            creation_time=at,
            tasks=[
                TaskInfo(uid=each, name=each, resreq=resource(1), status=status, node_name=node)
                for each in names
            ],
        )

    half = Resource(scalars={"nvidia.com/gpu": 4000 * nodes})
    names = [f"n{number:04}" for number in range(nodes)]
    snapshot = Snapshot(
        nodes=[NodeInfo(name=name, allocatable=resource(8)) for name in names],
        queues=[Queue(name=name, deserved=half) for name in "ab"],
        jobs=[
            *(gang(f"on-{name}", "ab"[at % 2], 7, name) for at, name in enumerate(names)),
            *(gang(f"waits-{at}", "ab"[at % 2], 2 * nodes, at=at) for at in range(5)),
            gang("comes", "a", 2, at=5),
        ],
    )
    config = SchedulerConfig.from_mapping({"actions": actions})
    spent: list[float] = []
    digest = hashlib.sha256()
    Scheduler(config).schedule(Snapshot(nodes=[], queues=[], jobs=[]))  # what is imported on use
    for _ in range(3):
        scheduler = Scheduler(config)
        gc.collect()
        begin = process_time()
        result = scheduler.schedule(snapshot)
        spent.append(process_time() - begin)
    digest.update(repr([(bind.task_uid, bind.node_name) for bind in result.binds]).encode())
    digest.update(repr([eviction.task_uid for eviction in result.evictions]).encode())
    return _found(spent, digest.hexdigest())


def fifty() -> dict[str, object]:
    """Measure fifty nodes where nine jobs arrive, eight end and one gives up in each cycle."""
    queues = [Queue(name=f"team-{i}", weight=i + 1) for i in range(3)]
    living = Living(50, queues, "allocate, backfill", seed=2)
    for _ in range(8):
        living.cycle(*(living.arrival(living.random.choice(SHAPES)) for _ in range(24)))
    gc.collect()
    spent: list[float] = []
    for _ in range(8 * CYCLES):
        come = [living.arrival(living.random.choice(SHAPES)) for _ in range(9)]
        spent.append(living.cycle(*come, *(living.end() for _ in range(8)), living.give_up()))
    return _found(spent, living.digest)


def simulated() -> dict[str, object]:
    """Measure a simulation in which the default configuration decides, of 2,000 jobs."""
    jobs = 2000
    made = generate(jobs=jobs, nodes=50, seed=1)
    gc.collect()
    begin = process_time()
    run = simulate(made, Scheduled())
    spent = process_time() - begin
    return _found([spent / jobs], hashlib.sha256(repr(run.jobs["start"]).encode()).hexdigest())


def made_up(what: str) -> dict[str, object]:
    """Measure a step of a simulation of many jobs under EASY: making them up, it, or its series."""
    jobs = 100_000
    gc.collect()
    times = [process_time()]
    made = generate(jobs=jobs, nodes=100, seed=1)
    times.append(process_time())
    run = simulate(made, Easy())
    times.append(process_time())
    series = run.series()
    times.append(process_time())
    step = ("generate", "easy", "series").index(what)
    found: object = (made.columns(), run.jobs["start"], series)[step]
    digest = hashlib.sha256(repr(found).encode()).hexdigest()
    return _found([(times[step + 1] - times[step]) / jobs], digest)


def _log() -> Path:
    return Path(os.environ.get("BATCHSCHED_TRACES", "")) / LOG


def kth(nodes: int, jobs: int = 2000) -> dict[str, object]:
    """Measure a log on equal nodes of together 100 processors."""
    path = _log()
    if path.exists():
        with gzip.open(path, "rt", encoding="utf-8") as file:
            jobs_of_log = read_swf(file)[0].first(jobs)
    else:
        jobs_of_log = generate(jobs=jobs, nodes=100, seed=1)
    jobs_of_log = jobs_of_log.on(nodes=nodes, per_node=100 // nodes)
    gc.collect()
    begin = process_time()
    run = simulate(jobs_of_log, Scheduled(config=SchedulerConfig.from_mapping(PLAN)))
    spent = process_time() - begin
    return _found([spent / jobs], hashlib.sha256(repr(run.jobs["start"]).encode()).hexdigest())


def _found(spent: list[float], digest: str) -> dict[str, object]:
    """Return what `beside` reads."""
    spent = sorted(spent)
    return {
        "seconds": spent[len(spent) // 2],
        "p99": spent[min(len(spent) - 1, round(0.99 * len(spent)))],
        "worst": spent[-1],
        "digest": digest,
    }


ROWS: dict[str, Callable[[], dict[str, object]]] = {
    **{f"borrow-{n}-still": partial(borrow, n, is_still=True) for n in (50, 200, 800)},
    **{f"borrow-{n}": partial(borrow, n) for n in (50, 200, 800)},
    "borrow-800-mixed": partial(borrow, 800, is_mixed=True),
    "undone-800": partial(undone, 800),
    **{
        f"gangs-{nodes}-{end}": partial(gangs, nodes, actions)
        for nodes in (20, 100, 300)
        for end, actions in GANGS.items()
    },
    "fifty": fifty,
    "simulated": simulated,
    **{what: partial(made_up, what) for what in ("generate", "easy", "series")},
    "kth-1": partial(kth, 1),
    "kth-100": partial(kth, 100),
}
"""What is measured, by name."""


DIGESTS = {
    **dict.fromkeys(
        ("borrow-50-still", "borrow-200-still", "borrow-800-still"), "512662590f4e8295"
    ),
    "borrow-50": "0a1cb0050156f2aa",
    **dict.fromkeys(("borrow-200", "borrow-800"), "74186cd33e090d4c"),
    "borrow-800-mixed": "94f3e9115746badf",
    "undone-800": "512662590f4e8295",
    **{f"gangs-{nodes}-{end}": "c53343e89c159f06" for nodes in (20, 100, 300) for end in GANGS},
    "fifty": "9bcc4bf60e25729e",
    "simulated": "ac4b51f39a17a129",
    "generate": "bf0fb3819b89c6da",
    "easy": "52fc4fb87c88bf05",
    "series": "fa3452e16857abdf",
    **dict.fromkeys(("kth-1", "kth-100"), "00174402c34c7774"),
}
"""How the digest of the decisions of each row begins; of `kth-N` those on the log."""


def measure(name: str) -> dict[str, object]:
    """Measure a row once: the median of its cycles, and the digest of what they decided."""
    return ROWS[name]()


def growth(took: list[tuple[int, float]]) -> float:
    """Return the exponent of the power of the number that fits best what each number took."""
    numbers, times = zip(*((log(number), log(seconds)) for number, seconds in took), strict=True)
    return linear_regression(numbers, times).slope


def main(names: list[str]) -> None:
    """Print the rows that are named, or all.

    Raises:
        ValueError: a row has decided anything differently.
    """
    gangs_took: dict[str, list[tuple[int, float]]] = {}
    for name in names or ROWS:
        found = measure(name)
        is_known = not name.startswith("kth") or _log().exists()
        if is_known and not str(found["digest"]).startswith(DIGESTS[name]):
            raise ValueError(f"{name}: expected the digest {DIGESTS[name]}, got {found['digest']}")
        seconds = float(str(found["seconds"]))
        print(f"{name:18} {1000 * seconds:9.3f} ms  {found['digest']}")
        if name.startswith("gangs-"):
            _, nodes, end = name.split("-")
            gangs_took.setdefault(end, []).append((int(nodes), seconds))
    for end, took in gangs_took.items():
        if len(took) > 1:
            print(f"gangs-N-{end} grows as N to the {growth(took):.2f}")


if __name__ == "__main__":
    main(sys.argv[1:])
