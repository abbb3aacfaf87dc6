"""The program of the processes: read names and snapshots, and write all answers.

It is run by `check_hash_seeds`, as ``python -m batchsched.testing.hashing.child``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import TypedDict, cast

from batchsched.model.snapshot import Snapshot
from batchsched.testing.hashing.targets import Asked, answers_of

__all__ = ["Order", "carry_out"]


class Order(TypedDict):
    """The input of the process."""

    targets: Sequence[str]
    snapshots: Sequence[Mapping[str, object]]


def carry_out(order: str) -> str:
    """Return all answers, target by target and snapshot by snapshot, as JSON."""
    given = cast("Order", json.loads(order))
    snapshots = [Snapshot.from_dict(each) for each in given["snapshots"]]
    told: list[list[Asked]] = [answers_of(name, snapshots) for name in given["targets"]]
    return json.dumps(told)


if __name__ == "__main__":
    sys.stdout.write(carry_out(sys.stdin.read()))
