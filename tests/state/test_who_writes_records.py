"""Records of tasks, jobs, queues and nodes are written by the ledger, and by nobody else."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest

from batchsched.plugin import JobState, NodeState, QueueState, TaskState

FIELDS = frozenset().union(
    *(set(record.__slots__) for record in (JobState, NodeState, QueueState, TaskState))
)
REMEMBERED = {
    "ends": "actions/profile.py",
    "kind": "placement/kinds.py",
    "likeness": "session/failures.py",
    "order_key": "session/plugins.py",
    "waits_in": "session/orders.py",
}
"""The fields that readers keep on a record, and who writes them."""
OTHERS = frozenset({"account", "draft", "goal", "use"})
"""What plugins call their own accounts, readers drafts of jobs, and turns goals: these have fields
of the same names."""


def writes(source: str, file: str) -> Iterator[str]:
    """Yield what a module writes to a record, with its line."""
    for node in ast.walk(ast.parse(source)):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign | ast.Delete):
            targets = node.targets
        elif isinstance(node, ast.AugAssign | ast.AnnAssign):
            targets = [node.target]
        for target in targets:
            for part in ast.walk(target):
                if (
                    isinstance(part, ast.Attribute)
                    and isinstance(part.ctx, ast.Store | ast.Del)
                    and part.attr in FIELDS
                    and ast.unparse(part.value) not in {"self", "cls", *OTHERS}
                    and not ast.unparse(part.value).startswith("self._accounts")
                    and REMEMBERED.get(part.attr) != file
                ):
                    yield f"{file}:{node.lineno}: {ast.unparse(node)}"


def modules() -> list[str]:
    found = importlib.util.find_spec("batchsched")
    assert found is not None
    assert found.origin is not None
    folder = Path(found.origin).parent
    files = sorted(file.relative_to(folder).as_posix() for file in folder.rglob("*.py"))
    # The simulator has books of its own, and so have the rows of causes, the areas of racks and the
    # pass over plain clusters.
    own = ("simulation/", "causes.py", "plugins/topology/areas.py", "live/one_pass.py")
    others = ("state/", "testing/", *own)
    return [str(folder / file) for file in files if not file.startswith(others)]


@pytest.mark.slow
def test_only_the_ledger_writes_records() -> None:
    found: list[str] = []
    for path in modules():
        file = path.rpartition("batchsched/")[2]
        found += writes(Path(path).read_text(encoding="utf-8"), file)
    assert found == []


@pytest.mark.parametrize(
    "source",
    [
        "task.status = TaskStatus.RUNNING",
        "job.backfilling += 1",
        "session.task(uid).node.idle = ()",
        "del node.tasks",
        "task.kind = 3",
        "left, node.idle = 1, ()",
    ],
)
def test_the_check_finds_what_is_written(source: str) -> None:
    assert len(list(writes(source, "actions/new.py"))) == 1
