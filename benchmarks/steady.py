"""The cost of a cycle where little changes: a living cluster, compared with cycles from scratch.

    python -m benchmarks.steady [--scale 1] [--only ROW,ROW] [--shares capacity,proportion]
    python -m benchmarks.steady --memory

Each row begins with a running cluster, and changes a few things in each cycle: jobs come,
tasks end, and the event of the row. The cost of a cycle includes the events, the
cycle, and carrying it out. "From scratch" is to build the same snapshot again and to decide on it
with `Scheduler.schedule`; this is done for some of the cycles, and the result must be equal in
full to that of the living cluster. Each row is measured with `capacity`, as in the default tiers,
and with `proportion` in its place. "Books" is what no scheduler can spare: the same jobs enter the
ledger, and the same tasks end and are placed there, with all listeners, but nobody decides where.
Times are processor time, the median of the cycles but the first five. ``--memory`` runs ten
thousand small cycles instead, and reports the memory in use after a tenth of them, and after all.
"""

from __future__ import annotations

import argparse
import gc
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from random import Random
from statistics import median
from time import process_time

from attrs import evolve, frozen

from batchsched import (
    Bind,
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
    next_snapshot,
)
from batchsched.live import (
    Cluster,
    EndedJobsRemoved,
    Event,
    JobArrived,
    NodeAdded,
    NodeChanged,
    NodeRemoved,
    TaskSucceeded,
    TimePassed,
)
from batchsched.state.live_ledger import LiveLedger
from batchsched_cli.openb import make_snapshot, read_shapes
from benchmarks.workloads.nodes import GIB
from benchmarks.workloads.simulation import History, simulation

__all__ = ["BY_HAND", "ROWS", "Row", "main", "measure", "memory"]

ALL_ACTIONS = "reclaim, allocate, backfill, preempt, reserve"
COMPARED = 2
"""The number of cycles that are compared with cycles from scratch."""
WARM_UP = 5


class State:
    """Facts about a cluster that would cost more than a cycle to find out from it."""

    def __init__(self, snapshot: Snapshot, seed: int) -> None:
        self.random = Random(seed)
        self.ended = 0
        """How many ended tasks have not been replaced yet."""
        self.queues = len(snapshot.queues)
        self.nodes = list(snapshot.nodes[:1000])
        self.patterns = [job for job in snapshot.jobs if job.tasks][:1000]
        self.running = [
            task.uid
            for job in snapshot.jobs
            for task in job.tasks
            if task.status is TaskStatus.RUNNING
        ]

    def end(self) -> TaskSucceeded:
        """End a random running task."""
        at = self.random.randrange(len(self.running))
        self.running[at], self.running[-1] = self.running[-1], self.running[at]
        return TaskSucceeded(self.running.pop())


Happening = Callable[[State, int], list[Event]]
"""The events before a cycle, besides time, given its number."""


@frozen(kw_only=True)
class Row:
    """A cluster and its events."""

    name: str
    start: Callable[[float], Snapshot]
    """Make the cluster, given a scale."""
    happening: Happening
    actions: str = "allocate, backfill"
    cycles: int = 40
    reasons: bool = True
    """Whether the reasons of pending tasks are computed."""
    is_trial: bool = False
    """Whether each cycle is a trial, which is rolled back."""
    has_books: bool = False
    """Whether the books alone are measured too: jobs come and tasks end, and nothing else."""


@frozen
class Measured:
    """Seconds a cycle."""

    live: float
    scratch: float
    waiting: int
    books: float | None


def busy_cluster(
    scale: float, *, nodes: int, running: int, queues: int = 3, waiting: int = 0
) -> Snapshot:
    """Return equal nodes with jobs of ten tasks that run, and gangs of twenty that fit nowhere."""
    nodes, running, waiting = (int(count * scale) for count in (nodes, running, waiting))
    jobs = [
        job_of(f"r{j}", f"q{j % queues}", 10, Resource(milli_cpu=4000, memory=16 * GIB))
        for j in range(running // 10)
    ]
    jobs = [
        evolve(
            job,
            min_available=1,
            tasks=[
                evolve(task, status=TaskStatus.RUNNING, node_name=f"n{(j * 10 + k) % nodes:05}")
                for k, task in enumerate(job.tasks)
            ],
        )
        for j, job in enumerate(jobs)
    ]
    for j in range(waiting // 20):
        large = Resource(milli_cpu=63_000 - 100 * (j % 50), memory=200 * GIB)
        jobs.append(job_of(f"w{j}", f"q{j % queues}", 20, large))
    return Snapshot(
        nodes=[node_of(f"n{i:05}") for i in range(nodes)],
        queues=[Queue(name=f"q{i}", weight=i % 5 + 1) for i in range(queues)],
        jobs=jobs,
    )


def node_of(name: str, *, unschedulable: bool = False) -> NodeInfo:
    allocatable = Resource(milli_cpu=64_000, memory=256 * GIB)
    return NodeInfo(name=name, allocatable=allocatable, max_tasks=110, unschedulable=unschedulable)


def job_of(name: str, queue: str, size: int, request: Resource) -> JobInfo:
    tasks = [TaskInfo(uid=f"{name}-{k}", name=f"{name}-{k}", resreq=request) for k in range(size)]
    return JobInfo(name=name, queue=queue, min_available=size, tasks=tasks)


def ten_and_ten(state: State, number: int) -> list[Event]:
    """A job of ten tasks comes, and ten tasks end."""
    request = Resource(milli_cpu=4000, memory=16 * GIB)
    queue = f"q{state.random.randrange(state.queues)}"
    come = job_of(f"c{number}", queue, 10, request)
    return [JobArrived(come), *(state.end() for _ in range(10))]


def with_a_node(state: State, number: int) -> list[Event]:
    """The same, and a node is cordoned or opened, comes, or goes, in turn."""
    node = state.nodes[number]
    event: Event = NodeChanged(evolve(node, unschedulable=not node.unschedulable))
    if number % 3 == 1:
        event = NodeAdded(node_of(f"{node.name}x", unschedulable=True))
    elif number % 3 == 2:
        event = NodeRemoved(f"{state.nodes[number - 1].name}x")
    return [*ten_and_ten(state, number), event]


def ten_nodes(_state: State, number: int) -> list[Event]:
    """What if there were ten nodes more?"""
    return [NodeAdded(node_of(f"t{number:04}-{k}")) for k in range(10)]


def openb_filled(scale: float) -> Snapshot:
    """Return openb's nodes with its tasks running, except every twentieth, which has left."""
    snapshot = make_snapshot(read_shapes(), scale)
    filled = next_snapshot(snapshot, Scheduler().schedule(snapshot), now=snapshot.now)
    running = [j for j in filled.jobs if all(t.status is TaskStatus.RUNNING for t in j.tasks)]
    kept = [job for position, job in enumerate(running) if position % 20]
    return evolve(filled, jobs=kept)


def one_of_openb(state: State, number: int) -> list[Event]:
    """A task ends, and one of the same shapes comes."""
    pattern = state.random.choice(state.patterns)
    name = f"come{number:06}"
    tasks = [
        evolve(task, uid=f"{name}-{k}", name=name, status=TaskStatus.PENDING, node_name=None)
        for k, task in enumerate(pattern.tasks)
    ]
    return [JobArrived(evolve(pattern, name=name, tasks=tasks)), state.end()]


def simulated(_scale: float) -> Snapshot:
    """Return the cluster of the workload `simulation`, as it begins."""
    return simulation(1, nodes=50, tasks=200, cycles=1).snapshot


def as_simulated(state: State, number: int) -> list[Event]:
    """A twentieth of what runs ends, and jobs with as many tasks come."""
    history = History(number, 0, f"come{number}")
    count = min(len(state.running), round(state.random.gauss(len(state.running) / 20, 3)))
    state.ended += count
    arrivals = history.arrivals(state.ended, 60.0 * number)
    # A job may have more tasks than were wanted; fewer come in the next cycles then.
    state.ended -= sum(len(job.tasks) for job in arrivals)
    ended = [state.end() for _ in range(count)]
    return [*map(JobArrived, arrivals), *ended, EndedJobsRemoved()]


_LARGE = partial(busy_cluster, nodes=10_000, running=100_000)

ROWS = (
    Row(name="large", start=_LARGE, happening=ten_and_ten, has_books=True),
    Row(
        name="small",
        start=partial(busy_cluster, nodes=1000, running=10_000),
        happening=ten_and_ten,
        has_books=True,
    ),
    Row(
        name="waiting",
        start=partial(busy_cluster, nodes=10_000, running=100_000, waiting=10_000),
        happening=ten_and_ten,
        cycles=20,
    ),
    # Most of its kinds of tasks come for the first time in the first hundred cycles.
    Row(name="openb", start=openb_filled, happening=one_of_openb, cycles=400),
    Row(name="simulation", start=simulated, happening=as_simulated, cycles=400),
    Row(
        name="simulation-bare",
        start=simulated,
        happening=as_simulated,
        cycles=400,
        reasons=False,
    ),
    Row(name="all-actions", start=_LARGE, happening=ten_and_ten, actions=ALL_ACTIONS),
    Row(name="nodes", start=_LARGE, happening=with_a_node, cycles=24),
    Row(
        name="queues-1000",
        start=partial(busy_cluster, nodes=10_000, running=100_000, queues=1000),
        happening=ten_and_ten,
    ),
    Row(
        name="queues-10000",
        start=partial(busy_cluster, nodes=10_000, running=100_000, queues=10_000),
        happening=ten_and_ten,
        cycles=20,
    ),
    Row(name="trial", start=_LARGE, happening=ten_nodes, is_trial=True, cycles=20),
    Row(
        name="largest",
        start=partial(busy_cluster, nodes=50_000, running=500_000),
        happening=ten_and_ten,
        cycles=20,
    ),
    Row(
        name="million",
        start=partial(busy_cluster, nodes=100_000, running=1_000_000),
        happening=ten_and_ten,
        cycles=20,
    ),
)
"""The rows of the table. Full sizes need up to 3 GB, those of `BY_HAND` more."""

BY_HAND = ("million",)
"""The rows that are measured only where they are named: they take minutes to make."""


SHARES = ("capacity", "proportion")
"""The plugins that compute shares."""


def scheduler_of(row: Row, shares: str) -> Scheduler:
    """Return a scheduler with the default tiers, except for the plugin that computes shares."""
    config = SchedulerConfig.from_mapping({"actions": row.actions})
    if shares == "capacity":
        return Scheduler(config)
    tiers = [
        evolve(
            tier,
            plugins=[
                evolve(option, name=shares) if option.name == "capacity" else option
                for option in tier.plugins
            ],
        )
        for tier in config.tiers
    ]
    return Scheduler(evolve(config, tiers=tiers))


def measure(
    row: Row,
    scale: float,
    *,
    shares: str = "capacity",
    cycles: int | None = None,
    seed: int = 1,
) -> Measured:
    """Run a row; return the cost of its cycles."""
    scheduler = scheduler_of(row, shares)
    cluster = Cluster(row.start(scale))
    live = scheduler.attach(cluster)
    live.schedule()
    gc.collect()
    spent: list[float] = []
    scratch: list[float] = []
    books: list[float] = []
    waiting = 0
    number = row.cycles if cycles is None else cycles
    for seconds, compared, waits, of_books in islice(
        _cycles(row, scheduler, cluster, partial(live.schedule, reasons=row.reasons), seed, number),
        number,
    ):
        spent.append(seconds)
        waiting = waits
        if compared is not None:
            scratch.append(compared)
        if of_books is not None:
            books.append(of_books)
    return Measured(
        live=_usual(spent),
        scratch=median(scratch),
        waiting=waiting,
        books=_usual(books) if books else None,
    )


def _usual(spent: list[float]) -> float:
    return median(spent[min(WARM_UP, len(spent) - 1) :])


class Books:
    """The ledger of a cluster with its listeners, where cycles are entered as they were decided."""

    def __init__(self, scheduler: Scheduler, cluster: Cluster) -> None:
        self._ledger = scheduler.keep(cluster.content).session().ledger

    def enter(self, events: list[Event], binds: Sequence[Bind]) -> float:
        """Enter jobs, ended tasks and binds; return the seconds that it took."""
        ledger = self._ledger
        assert isinstance(ledger, LiveLedger)
        begin = process_time()
        for event in events:
            if isinstance(event, JobArrived):
                job = ledger.enter_job(event.job)
                job.in_session = True
            elif isinstance(event, TaskSucceeded):
                task = ledger.tasks[event.uid]
                ledger.move(task, TaskStatus.SUCCEEDED, None, is_backfill=False)
        for bind in binds:
            task, node = ledger.tasks[bind.task_uid], ledger.node_named[bind.node_name]
            ledger.move(task, TaskStatus.ALLOCATED, node, is_backfill=False)
        for bind in binds:
            ledger.bind(ledger.tasks[bind.task_uid])
        for bind in binds:
            task = ledger.tasks[bind.task_uid]
            ledger.move(task, TaskStatus.RUNNING, task.node, is_backfill=False)
        return process_time() - begin


def _cycles(
    row: Row,
    scheduler: Scheduler,
    cluster: Cluster,
    schedule: Callable[[], CycleResult],
    seed: int,
    count: int,
) -> Iterator[tuple[float, float | None, int, float | None]]:
    """Yield, of each cycle, its cost, that from scratch, the waiting tasks, that of the books."""
    before = cluster.snapshot()
    books = Books(scheduler, cluster) if row.has_books else None
    state = State(before, seed)
    for number in range(count):
        events = [*row.happening(state, number), TimePassed(cluster.now + 1)]
        is_compared = number >= count - COMPARED
        begin = process_time()
        if row.is_trial:
            with cluster.trial():
                cluster.apply(*events)
                result = schedule()
                inside = process_time()
                snapshot = cluster.snapshot() if is_compared else before
                begin += process_time() - inside
        else:
            cluster.apply(*events)
            result = schedule()
            inside = process_time()
            snapshot = cluster.snapshot() if is_compared else before
            begin += process_time() - inside
            cluster.carry_out(result, at_once=True)
            state.running += [bind.task_uid for bind in result.binds]
        seconds = process_time() - begin
        compared: float | None = None
        if is_compared:
            begin = process_time()
            evolve(snapshot)  # the cost of a newly created snapshot
            expected = scheduler.schedule(snapshot, reasons=row.reasons)
            compared = process_time() - begin
            if result != expected:
                raise AssertionError(f"{row.name}: cycle {number} is not that from scratch")
        of_books = None if books is None else books.enter(events, result.binds)
        yield seconds, compared, len(result.pending), of_books


def memory(cycles: int = 10_000) -> tuple[int, int]:
    """Return the bytes in use after a tenth of some cycles, and after all of them.

    Ten tasks come and ten end in each cycle, whatever has ended is removed, and a node comes or
    goes.
    """
    nodes = 40
    cluster = Cluster(busy_cluster(1, nodes=nodes, running=10 * nodes, waiting=10 * nodes))
    live = Scheduler().attach(cluster)
    state = State(cluster.snapshot(), seed=1)
    held: list[int] = []
    tracemalloc.start()
    for number in range(cycles):
        node = node_of("n00007x", unschedulable=True)
        change = NodeRemoved(node.name) if number % 2 else NodeAdded(node)
        events = [*ten_and_ten(state, number), change]
        cluster.apply(*events, EndedJobsRemoved(), TimePassed(number))
        result = live.schedule()
        cluster.carry_out(result, at_once=True)
        state.running += [bind.task_uid for bind in result.binds]
        if number + 1 in (cycles // 10, cycles):
            del events, result
            gc.collect()
            held.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    return held[0], held[1]


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.steady", description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="the part of the full sizes")
    parser.add_argument("--only", help="names of rows, with commas between them")
    parser.add_argument(
        "--shares", default=",".join(SHARES), help="who deals out shares, with commas between them"
    )
    parser.add_argument("--memory", action="store_true", help="whether memory grows, instead")
    given = parser.parse_args(arguments)
    if given.memory:
        early, late = memory()
        print(
            f"{early:,} bytes after 1,000 cycles, {late:,} after 10,000: {late / early:.2f} times"
        )
        return
    usual = [row.name for row in ROWS if row.name not in BY_HAND]
    names = usual if given.only is None else given.only.split(",")
    print("| row | shares | from scratch, ms | live, ms | times | waiting tasks | books, ms |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: |")
    for row in ROWS:
        for shares in given.shares.split(",") if row.name in names else ():
            found = measure(row, given.scale, shares=shares)
            times = found.scratch / found.live
            print(
                f"| {row.name} | {shares} | {found.scratch * 1e3:,.1f} | {found.live * 1e3:,.2f} "
                f"| {times:,.0f} | {found.waiting:,} "
                f"| {'' if found.books is None else f'{found.books * 1e3:,.2f}'} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
