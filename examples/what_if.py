"""What would happen if? Prints what the next cycle would decide, and how this differs from now.

python examples/what_if.py cluster.json --end training/bert-3 --priority training/gpt=100
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from attrs import evolve

from batchsched import NodeInfo, Resource, Snapshot, what_if
from batchsched.kubernetes import parse_quantity
from batchsched.live import (
    JobChanged,
    JobRemoved,
    NodeAdded,
    NodeChanged,
    QueueChanged,
    TaskSucceeded,
)
from batchsched.tools import starts
from batchsched.tools.trials import Change
from cluster_files import job_named, parser_for, read_cluster, read_config, run, show


def pair(text: str) -> tuple[str, str]:
    """Return the parts on both sides of the first equals sign."""
    name, sign, value = text.partition("=")
    if not sign:
        raise ValueError(f"expected NAME=VALUE, got {text!r}")
    return name, value


def number(text: str) -> int:
    """Return a whole number."""
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"expected a whole number, got {text!r}") from None


def resource(text: str) -> Resource:
    """Parse a string such as ``cpu=8,memory=32Gi,nvidia.com/gpu=4``."""
    amounts = {name: parse_quantity(value) for name, value in map(pair, text.split(","))}
    cpu, memory = amounts.pop("cpu", 0), amounts.pop("memory", 0)
    return Resource(
        milli_cpu=int(cpu * 1000),
        memory=int(memory),
        scalars={name: int(amount * 1000) for name, amount in amounts.items()},
    )


def node(text: str) -> NodeAdded:
    """Return the node that ``NAME=cpu=8,memory=32Gi`` adds."""
    name, amounts = pair(text)
    return NodeAdded(NodeInfo(name=name, allocatable=resource(amounts)))


Maker = Callable[[Snapshot, str], Change]


def _job(snapshot: Snapshot, text: str) -> tuple[str, int]:
    name, value = pair(text)
    return job_named(snapshot, name), number(value)


def _priority(snapshot: Snapshot, text: str) -> Change:
    uid, value = _job(snapshot, text)
    return JobChanged(uid, priority=value)


def _least(snapshot: Snapshot, text: str) -> Change:
    uid, value = _job(snapshot, text)
    return JobChanged(uid, min_available=value)


def _weight(snapshot: Snapshot, text: str) -> Change:
    name, value = pair(text)
    return QueueChanged(evolve(snapshot.queue(name), weight=number(value)))


def _cordoned(snapshot: Snapshot, text: str, *, is_so: bool) -> Change:
    return NodeChanged(evolve(snapshot.node(text), unschedulable=is_so))


CHANGES: dict[str, tuple[str, str, Maker]] = {
    "end": ("TASK", "it has succeeded", lambda s, t: TaskSucceeded(job_named(s, t))),
    "remove": ("JOB", "it is withdrawn", lambda s, t: JobRemoved(job_named(s, t))),
    "priority": ("JOB=NUMBER", "it has another priority", _priority),
    "min-available": ("JOB=NUMBER", "fewer tasks must start together", _least),
    "weight": ("QUEUE=NUMBER", "it has another weight", _weight),
    "add-node": ("NAME=cpu=8,memory=32Gi", "a node comes", lambda _s, t: node(t)),
    "cordon": ("NODE", "it takes no more tasks", lambda s, t: _cordoned(s, t, is_so=True)),
    "uncordon": ("NODE", "it takes tasks again", lambda s, t: _cordoned(s, t, is_so=False)),
    "with-config": ("FILE", "another configuration decides", lambda _s, t: read_config(t)),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Do what the arguments say; return the exit status."""
    parser = parser_for(
        "What would happen if?",
        "0 if it was answered, and with --starts if that starts; 1 with --starts if it does not",
    )
    for name, (metavar, said, _) in CHANGES.items():
        parser.add_argument(f"--{name}", metavar=metavar, action="append", default=[], help=said)
    parser.add_argument("--starts", metavar="JOB", help="whether this job or task would start")
    arguments = parser.parse_args(argv)

    def answer() -> int:
        snapshot, config = read_cluster(arguments), read_config(arguments.config)
        changes: list[Change] = []
        for name, (_, _, make) in CHANGES.items():
            given: list[str] = getattr(arguments, name.replace("-", "_"))
            changes += [make(snapshot, text) for text in given]
        found = what_if(snapshot, *changes, config=config)
        show(found, as_json=arguments.json)
        if arguments.starts is None:
            return 0
        is_reached = starts(snapshot, job_named(snapshot, arguments.starts))(found.result)
        if not arguments.json:
            print(f"{arguments.starts} {'starts' if is_reached else 'does not start'}")
        return int(not is_reached)

    return run(answer)


if __name__ == "__main__":
    sys.exit(main())
