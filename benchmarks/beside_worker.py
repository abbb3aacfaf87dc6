"""Measures one side for `benchmarks.beside`, once for each line that it reads.

It imports nothing but what earlier revisions have, too: the catalogue of its own side.
"""

from __future__ import annotations

import gc
import hashlib
import json
import sys
from collections.abc import Callable
from functools import partial
from inspect import signature
from pathlib import Path
from runpy import run_path
from time import process_time
from typing import Any

WARM_UP = 5


def without_numpy() -> None:
    """Let every import of NumPy fail."""
    sys.modules["numpy"] = None  # type: ignore[assignment]


MOVES = ("binds", "evictions", "pipelined", "conditional", "reserved")


def canonical(result: Any) -> bytes:
    """Return what a result decides, in what every commit tells of it."""
    moves = {
        name: [(each.task_uid, each.node_name) for each in getattr(result, name)] for name in MOVES
    }
    return json.dumps(moves, separators=(",", ":")).encode()


def workload(name: str, scale: float) -> Callable[[], dict[str, Any]]:
    """Return what runs a workload of the catalogue once."""
    from batchsched import Scheduler
    from benchmarks.catalogue import WORKLOADS

    scenario = WORKLOADS[name].make(scale)

    def run() -> dict[str, Any]:
        scheduler = Scheduler(scenario.config)
        advance = None if scenario.advance is None else scenario.advance()
        snapshot = scenario.snapshot
        digest = hashlib.sha256()
        seconds = 0.0
        gc.collect()
        for _ in range(min(scenario.cycles, 300)):
            begin = process_time()
            result = scheduler.schedule(snapshot)
            seconds += process_time() - begin
            if advance is not None:
                snapshot = advance(snapshot, result)
            digest.update(canonical(result))
        return {"seconds": seconds, "digest": digest.hexdigest()}

    return run


def axis(name: str, scale: float) -> Callable[[], dict[str, Any]]:
    """Return what runs one cycle at the far end of an axis."""
    from batchsched import Scheduler, SchedulerConfig
    from benchmarks.axes import AXES

    [chosen] = [each for each in AXES if each.name == name]
    snapshot = chosen.make(int(chosen.largest * scale))
    config = SchedulerConfig.from_mapping({"actions": chosen.actions})

    def run() -> dict[str, Any]:
        scheduler = Scheduler(config)
        gc.collect()
        begin = process_time()
        result = scheduler.schedule(snapshot, reasons=False)
        seconds = process_time() - begin
        return {"seconds": seconds, "digest": hashlib.sha256(canonical(result)).hexdigest()}

    return run


def living(name: str, scale: float) -> Callable[[], dict[str, Any]]:
    """Return what runs the cycles of a row of `steady`, each time from its beginning."""
    from batchsched.live import Cluster, TimePassed
    from benchmarks.steady import ROWS, State, scheduler_of

    row_name, _, shares = name.partition("/")
    [row] = [each for each in ROWS if each.name == row_name]
    start = row.start(scale)
    # Earlier commits know nothing else.
    is_known = "at_once" in signature(Cluster.carry_out).parameters
    at_once = {"at_once": True} if is_known else {}

    def run() -> dict[str, Any]:
        scheduler = scheduler_of(row, shares or "capacity")
        cluster = Cluster(start)
        begin = process_time()
        live = scheduler.attach(cluster)
        attaching = process_time() - begin
        begin = process_time()
        live.schedule()
        first = process_time() - begin
        gc.collect()
        state = State(cluster.snapshot(), 1)
        digest = hashlib.sha256()
        spent: list[float] = []
        for number in range(row.cycles):
            events = [*row.happening(state, number), TimePassed(cluster.now + 1)]
            begin = process_time()
            if row.is_trial:
                with cluster.trial():
                    cluster.apply(*events)
                    result = live.schedule(reasons=row.reasons)
                    inside = process_time()
                    digest.update(repr((result.binds, result.evictions)).encode())
                    begin += process_time() - inside
            else:
                cluster.apply(*events)
                result = live.schedule(reasons=row.reasons)
                cluster.carry_out(result, **at_once)
            spent.append(process_time() - begin)
            if not row.is_trial:
                digest.update(repr((result.binds, result.evictions)).encode())
                state.running += [bind.task_uid for bind in result.binds]
        spent = sorted(spent[min(WARM_UP, len(spent) - 1) :])
        return {
            "seconds": spent[len(spent) // 2],
            "p99": spent[min(len(spent) - 1, round(0.99 * len(spent)))],
            "worst": spent[-1],
            "first": first,
            "attach": attaching,
            "digest": digest.hexdigest(),
        }

    return run


def changing(name: str, _scale: float) -> Callable[[], dict[str, Any]]:
    """Return what measures a row of `changes`, which earlier revisions may lack: it is ours."""
    measure: Callable[[str], dict[str, Any]] = run_path(
        str(Path(__file__).with_name("changes.py"))
    )["measure"]
    return partial(measure, name)


def all_names() -> list[str]:
    """Return what can be measured, but for what is run by hand."""
    from benchmarks.axes import AXES
    from benchmarks.catalogue import WORKLOADS
    from benchmarks.steady import BY_HAND, ROWS, SHARES

    rows = [row.name for row in ROWS if row.name not in BY_HAND]
    return [
        *WORKLOADS,
        *(f"axis:{each.name}" for each in AXES),
        *(f"steady:{row}/{shares}" for row in rows for shares in SHARES),
    ]


def main() -> None:
    """Measure what the arguments name, once for each line of the input."""
    if sys.argv[1] == "--list":
        print(*all_names(), sep="\n")
        return
    name, scale = sys.argv[1], float(sys.argv[2])
    if "--numpy" not in sys.argv:
        without_numpy()
    kind, _, rest = name.rpartition(":")
    run = {"": workload, "axis": axis, "steady": living, "changes": changing}[kind](rest, scale)
    for _ in sys.stdin:
        print(json.dumps(run()), flush=True)


if __name__ == "__main__":
    main()
