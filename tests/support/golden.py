"""Compare the scheduler with the golden cases.

    python -m tests.support.golden [--shuffle SEED] [--again] [FILE.jsonl.gz ...]

Prints how many cases of each file match and the first differences; the exit status is 1 if
there are any. Without files, all in `tests/golden` are checked.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NotRequired, TypedDict

if TYPE_CHECKING:
    from batchsched import CycleResult, Snapshot

KubernetesObjects = list[dict[str, object]]


class ExpectedTask(TypedDict):
    status: str
    node: NotRequired[str]


class Expected(TypedDict):
    tasks: dict[str, ExpectedTask]
    binds: dict[str, str]
    evictions: list[str]
    phases: dict[str, str]
    backfilled: NotRequired[list[str]]


class Case(TypedDict):
    name: str
    conf: dict[str, object]
    nodes: KubernetesObjects
    queues: KubernetesObjects
    priorityClasses: KubernetesObjects
    podGroups: KubernetesObjects
    pods: KubernetesObjects
    now: NotRequired[str]
    expected: Expected


def golden_files() -> list[Path]:
    """Return the files of golden cases, in order of name."""
    return sorted((Path(__file__).parents[1] / "golden").glob("*.jsonl.gz"))


def load_cases(path: str | Path) -> Iterator[Case]:
    """Yield the cases of a file."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            case: Case = json.loads(line)
            yield case


def snapshot_of(case: Case, *, shuffle: int | None = None) -> Snapshot:
    """Return a case's snapshot, with everything in it given in the order that a seed shuffles."""
    from attrs import evolve  # noqa: PLC0415 - with the library, which tests may do without

    from batchsched.kubernetes import snapshot_from_objects  # noqa: PLC0415

    chance = None if shuffle is None else random.Random(f"{shuffle}/{case['name']}")

    def shuffled(items: Sequence[object]) -> list[object]:
        return list(items) if chance is None else chance.sample(items, len(items))

    objects: dict[str, KubernetesObjects] = {
        "nodes": case["nodes"],
        "pods": case["pods"],
        "pod_groups": case["podGroups"],
        "queues": case["queues"],
        "priority_classes": case["priorityClasses"],
    }
    snapshot = snapshot_from_objects(
        **{name: shuffled(given) for name, given in objects.items()}, now=case.get("now")
    )
    if chance is None:
        return snapshot
    return evolve(
        snapshot,
        nodes=shuffled(snapshot.nodes),
        queues=shuffled(snapshot.queues),
        jobs=shuffled([evolve(job, tasks=shuffled(job.tasks)) for job in snapshot.jobs]),
    )


def differences(case: Case, result: CycleResult, snapshot: Snapshot) -> list[str]:
    """Return where a result is not what the case expects, a line each."""
    expected = case["expected"]
    names = {task.uid: task.full_name for job in snapshot.jobs for task in job.tasks}
    found: list[str] = []

    def compare(what: str, want: Mapping[str, str], got: Mapping[str, str]) -> None:
        found.extend(
            f"{what} {name}: expected {want.get(name, 'none')}, got {got.get(name, 'none')}"
            for name in sorted(want.keys() | got.keys())
            if want.get(name) != got.get(name)
        )

    compare(
        "task",
        {
            name: _standing(task["status"], task.get("node"))
            for name, task in expected["tasks"].items()
        },
        {
            names[uid]: _standing(outcome.status.value, outcome.node_name)
            for uid, outcome in result.tasks.items()
        },
    )
    compare(
        "bind", expected["binds"], {names[bind.task_uid]: bind.node_name for bind in result.binds}
    )
    if len({bind.task_uid for bind in result.binds}) != len(result.binds):
        found.append("binds: a task is bound twice")
    evicted = sorted(names[eviction.task_uid] for eviction in result.evictions)
    if evicted != sorted(expected["evictions"]):
        found.append(f"evictions: expected {sorted(expected['evictions'])}, got {evicted}")
    compare(
        "phase",
        expected["phases"],
        {uid: outcome.phase.value for uid, outcome in result.jobs.items()},
    )
    if "backfilled" in expected:
        backfilled = sorted(names[bind.task_uid] for bind in result.binds if bind.is_backfill)
        if backfilled != sorted(expected["backfilled"]):
            wanted = sorted(expected["backfilled"])
            found.append(f"backfilled: expected {wanted}, got {backfilled}")
    return found


def _standing(status: str, node: str | None) -> str:
    # A task that ended is on no node; the cases keep the name of the node that it ran on.
    return f"{status} on {node}" if node and status not in ("Succeeded", "Failed") else status


def run(case: Case, *, shuffle: int | None = None, again: bool = False) -> list[str]:
    """Return where the scheduler's result is not what the case expects.

    With `shuffle`, everything is given in shuffled order too. With `again`, the same scheduler
    decides each snapshot twice. All results must be equal.
    """
    from batchsched import Scheduler, SchedulerConfig  # noqa: PLC0415

    scheduler = Scheduler(SchedulerConfig.from_mapping(case["conf"]))
    snapshot = snapshot_of(case)
    result = scheduler.schedule(snapshot)
    found = differences(case, result, snapshot)
    if again and scheduler.schedule(snapshot) != result:
        found.append("the second result of the same scheduler is another")
    if shuffle is not None:
        shuffled = scheduler.schedule(snapshot_of(case, shuffle=shuffle))
        if shuffled != result:
            found.append("the result is another if everything is given in shuffled order")
            found.extend(f"shuffled: {line}" for line in differences(case, shuffled, snapshot))
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Check files and print what was found; return the exit status."""
    parser = argparse.ArgumentParser(description="Compare the scheduler with the golden cases.")
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE.jsonl.gz")
    parser.add_argument("--shuffle", type=int, metavar="SEED", help="give everything shuffled too")
    parser.add_argument("--again", action="store_true", help="decide every case twice")
    parser.add_argument("--show", type=int, default=5, metavar="N", help="cases to show in full")
    options = parser.parse_args(arguments)
    matching = total = shown = 0
    for path in options.files or golden_files():
        of_file = matching_of_file = 0
        for case in load_cases(path):
            of_file += 1
            try:
                found = run(case, shuffle=options.shuffle, again=options.again)
            except Exception:
                found = traceback.format_exc().splitlines()
            if not found:
                matching_of_file += 1
            elif shown < options.show:
                shown += 1
                print(case["name"])
                for line in found:
                    print(f"    {line}")
        print(f"{path.name}: {matching_of_file} of {of_file} match", flush=True)
        matching += matching_of_file
        total += of_file
    print(f"{matching} of {total} match")
    return 0 if matching == total else 1


if __name__ == "__main__":
    sys.exit(main())
