"""Make the golden cases of the plugin capacity, and let the reference decide them.

    python -m tests.support.capacity_cases [--first SEED] FILE.jsonl.gz

Clusters are drawn at random; of those that show something, as many are kept as `_WANTED` says,
after all has been taken out of them that they do not need to show it.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

from batchsched import CycleResult, Scheduler, SchedulerConfig, Snapshot, WhyPending
from tests.reference import reference_schedule
from tests.support import golden

Case = dict[str, Any]

_WANTED = {
    "a gang goes as a whole": 60,
    "several are taken from": 50,
    "surplus goes": 40,
    "somebody is evicted": 50,
    "a limit holds": 30,
    "above its share": 30,
    "something is bound": 40,
}
"""How many cases of each kind; a case is of the first kind that it shows."""
_DAY = "2026-01-01T{:02}:00:00Z"


def main() -> None:
    """Write the cases into a file."""
    parser = argparse.ArgumentParser(description="Make the golden cases of capacity.")
    parser.add_argument("--first", type=int, default=0, metavar="SEED")
    parser.add_argument("file", type=Path)
    options = parser.parse_args()
    lines = [
        json.dumps({"name": f"capacity-{number:05}"} | case, separators=(",", ":"))
        for number, case in enumerate(_cases(options.first))
    ]
    text = "".join(f"{line}\n" for line in lines)
    with options.file.open("wb") as file, gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
        packed.write(text.encode())


def _cases(first: int) -> Iterator[Case]:
    left = Counter(_WANTED)
    seed = first
    while left.total():
        case = _drawn(Random(f"capacity/{seed}"))
        seed += 1
        kind = _kind(case)
        if kind is None or not left[kind]:
            continue
        left[kind] -= 1
        yield _decided(_shrunk(case, kind))


def _schedule(case: Case) -> tuple[Snapshot, CycleResult]:
    snapshot = golden.snapshot_of(case)  # type: ignore[arg-type]
    return snapshot, Scheduler(SchedulerConfig.from_mapping(case["conf"])).schedule(snapshot)


def _kind(case: Case) -> str | None:
    """Return what a case shows, if anything."""
    snapshot, result = _schedule(case)
    jobs = {task.uid: job for job in snapshot.jobs for task in job.tasks}
    evicted = [eviction.task_uid for eviction in result.evictions]
    reasons = {reason.why for reason in result.pending.values()}
    gone = Counter(jobs[uid].uid for uid in evicted)
    shows: Mapping[str, Callable[[], bool]] = {
        "a gang goes as a whole": lambda: any(
            count > 1 and count >= snapshot.job(uid).min_available > 1
            for uid, count in gone.items()
        ),
        "several are taken from": lambda: len({jobs[uid].queue for uid in evicted}) > 1,
        "surplus goes": lambda: any(
            count < sum(task.node_name is not None for task in snapshot.job(uid).tasks)
            for uid, count in gone.items()
        ),
        "somebody is evicted": lambda: bool(evicted),
        "a limit holds": lambda: WhyPending.QUEUE_LIMIT in reasons,
        "above its share": lambda: any(
            "more than its share" in reason.text for reason in result.pending.values()
        ),
        "something is bound": lambda: bool(result.binds) and len(snapshot.queues) > 1,
    }
    return next((kind for kind, is_shown in shows.items() if is_shown()), None)


def _shrunk(case: Case, kind: str) -> Case:
    """Take out groups, queues and nodes as long as the case shows the same."""
    names = [("podGroups", group["metadata"]["name"]) for group in case["podGroups"]]
    names += [("queues", queue["metadata"]["name"]) for queue in case["queues"]]
    for what, name in names:
        smaller = _without(case, what, name)
        if smaller is not None and _kind(smaller) == kind:
            case = smaller
    return case


def _without(case: Case, what: str, name: str) -> Case | None:
    smaller = dict(case)
    smaller[what] = [one for one in case[what] if one["metadata"]["name"] != name]
    if what == "podGroups":
        smaller["pods"] = [pod for pod in case["pods"] if _group_of(pod) != name]
    elif any(group["spec"]["queue"] == name for group in case["podGroups"]) or any(
        queue["spec"].get("parent") == name for queue in case["queues"]
    ):
        return None
    return smaller


def _group_of(pod: Case) -> str:
    return str(pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"])


def _decided(case: Case) -> Case:
    """Add what the reference decides."""
    snapshot = golden.snapshot_of(case)  # type: ignore[arg-type]
    result = reference_schedule(snapshot, case["conf"])
    names = {task.uid: task.full_name for job in snapshot.jobs for task in job.tasks}
    tasks = {
        names[uid]: {"status": outcome.status.value}
        | ({"node": outcome.node_name} if outcome.node_name else {})
        for uid, outcome in sorted(result.tasks.items())
    }
    return case | {
        "expected": {
            "tasks": tasks,
            "binds": {names[bind.task_uid]: bind.node_name for bind in result.binds},
            "evictions": sorted(names[eviction.task_uid] for eviction in result.evictions),
            "phases": {uid: outcome.phase.value for uid, outcome in sorted(result.jobs.items())},
        }
    }


# Drawing


def _drawn(random: Random) -> Case:
    queues = _queues(random)
    parents = {queue["spec"].get("parent") for queue in queues}
    leaves = [name for q in queues if (name := q["metadata"]["name"]) not in parents]
    names = [f"n{number}" for number in range(random.randint(1, 3))]
    used = {name: Counter[str]() for name in names}
    groups: list[Case] = []
    pods: list[Case] = []
    for number in range(random.randint(2, 8)):
        _add_group(random, f"j{number}", random.choice(leaves), used, groups, pods)
    nodes = [_node(random, name, used[name]) for name in names]
    return {
        "conf": _conf(random),
        "nodes": nodes,
        "queues": queues,
        "priorityClasses": [{"metadata": {"name": "high"}, "value": 100}],
        "podGroups": groups,
        "pods": pods,
    }


def _conf(random: Random) -> Case:
    actions = random.choice(
        [
            *(["reclaim"], ["reclaim"], ["reclaim", "allocate"], ["allocate", "reclaim"]),
            *(["reclaim", "allocate", "backfill", "preempt"], ["allocate", "backfill"]),
        ]
    )
    arguments = random.choice([{}, {}, {}, {"tolerance": 0.25}, {"level": True}])
    at_minimum = random.choice(["whole-job", "whole-job", "whole-job", "protect"])
    tiers = [
        [
            {"name": "priority"},
            {"name": "gang", "arguments": {"atMinimum": at_minimum}},
            {"name": "conformance"},
        ],
        [
            {"name": "predicates"},
            {"name": "capacity", "arguments": arguments} if arguments else {"name": "capacity"},
            {"name": "nodeorder"},
        ],
    ]
    return {"actions": actions, "tiers": [{"plugins": plugins} for plugins in tiers]}


def _queues(random: Random) -> list[Case]:
    """Draw a tree of up to four levels, of which no guarantee is more than a limit."""
    queues: list[Case] = []
    depths: dict[str, int] = {}
    for number in range(random.randint(2, 7)):
        name = f"q{number}"
        spec: Case = {"weight": random.choice([1, 1, 2, 3, 5])}
        above = [other for other, depth in depths.items() if depth < 4]
        parent = random.choice([None, *above]) if above else None
        if parent is not None:
            spec["parent"] = parent
        depths[name] = 1 if parent is None else depths[parent] + 1
        if random.random() < 0.4:
            spec["deserved"] = _amounts(random, 6)
        guarantee = _amounts(random, 2) if random.random() < 0.2 else {}
        if guarantee:
            spec["guarantee"] = {"resource": guarantee}
        elif random.random() < 0.2 and number > 3:
            spec["capability"] = {"cpu": str(random.randint(1, 6))}
        if random.random() < 0.2:
            spec["priority"] = random.choice([1, 2])
        created = _DAY.format(random.randint(0, 3))
        queues.append({"metadata": {"name": name, "creationTimestamp": created}, "spec": spec})
    inner = {queue["spec"].get("parent") for queue in queues}
    for queue in queues:
        if queue["metadata"]["name"] in inner:  # guarantees below it might be more
            queue["spec"].pop("capability", None)
    return queues


def _amounts(random: Random, most: int) -> Case:
    amounts = {"cpu": str(random.randint(1, most))}
    if random.random() < 0.4:
        amounts["nvidia.com/gpu"] = str(random.randint(1, 2))
    return amounts


def _add_group(
    random: Random,
    name: str,
    queue: str,
    used: Mapping[str, Counter[str]],
    groups: list[Case],
    pods: list[Case],
) -> None:
    count = random.choice([1, 1, 1, 2, 2, 3, 4])
    minimum = random.choice([1, count, count, random.randint(1, count)])
    request = {"cpu": str(random.choice([1, 1, 1, 2, 3]))}
    if random.random() < 0.3:
        request["nvidia.com/gpu"] = str(random.choice([1, 1, 2]))
    running = random.choice([0, 0, count, count, minimum])
    created = _DAY.format(random.randint(0, 5))
    spec = {"minMember": minimum, "queue": queue}
    if random.random() < 0.15:
        spec["priorityClassName"] = "high"
    metadata = {"namespace": "a", "name": name, "creationTimestamp": created}
    groups.append({"metadata": metadata, "spec": spec})
    home = random.choice(sorted(used))
    for number in range(count):
        pod_spec: Case = {
            "schedulerName": "kube-batch",
            "containers": [{"name": "c", "resources": {"requests": request}}],
        }
        if random.random() < 0.1:
            pod_spec["nodeSelector"] = {"kubernetes.io/hostname": home}
        if number < running:
            on = home if "nodeSelector" in pod_spec else random.choice(sorted(used))
            pod_spec["nodeName"] = on
            used[on].update({what: int(amount) for what, amount in request.items()})
        pods.append(
            {
                "metadata": {
                    "namespace": "a",
                    "name": f"{name}-{number}",
                    "uid": f"{name}-{number}",
                    "creationTimestamp": created,
                    "annotations": {"scheduling.k8s.io/group-name": name},
                },
                "spec": pod_spec,
                "status": {"phase": "Running" if number < running else "Pending"},
            }
        )


def _node(random: Random, name: str, used: Mapping[str, int]) -> Case:
    """A node with what runs there, and little more."""
    allocatable: dict[str, str] = {
        "cpu": str(max(1, used.get("cpu", 0) + random.choice([0, 0, 0, 1, 2]))),
        "memory": "64Gi",
        "pods": "110",
    }
    gpus = used.get("nvidia.com/gpu", 0) + random.choice([0, 0, 1])
    if gpus:
        allocatable["nvidia.com/gpu"] = str(gpus)
    labels = {"kubernetes.io/hostname": name}
    conditions: Sequence[Case] = [{"type": "Ready", "status": "True"}]
    return {
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": allocatable, "conditions": conditions},
    }


if __name__ == "__main__":
    main()
