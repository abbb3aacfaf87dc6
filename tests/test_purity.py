"""The library decides by the snapshot alone: its source cannot do anything else.

No clock, no randomness, no environment, no files, no threads, no printing, and no order
that depends on identities or hashes. The source's syntax trees are read: a module may import
only what is listed here, and may not call what would let the world in or out.
"""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest

IMPORTABLE = {
    # the two dependencies
    "attrs",
    "sortedcontainers",
    # the package itself
    "batchsched",
    # pure parts of the standard library: each gives the same answers everywhere
    "__future__",
    "abc",
    "array",
    "ast",
    "bisect",
    "collections",
    "contextlib",
    "copy",
    "dataclasses",
    "decimal",
    "difflib",
    "enum",
    "fractions",
    "functools",
    "heapq",
    "inspect",
    "itertools",
    "math",
    "numbers",
    "operator",
    "re",
    "string",
    "textwrap",
    "types",
    "typing",
}
IMPORTABLE_FROM = {
    "sys": {"float_info"},  # the limits of floating-point numbers
}
"""Names that may be imported from modules that may otherwise not be."""
IMPORTABLE_IN = {
    "kubernetes": {"datetime"},  # to read timestamps
    "files.py": {"datetime"},  # to read timestamps
    "plots.py": {"matplotlib"},
    "fast.py": {"numpy"},
    "arrays.py": {"numpy"},
    "estimates.py": {"hashlib"},  # draws that depend on names and seeds alone
    "generation.py": {"hashlib"},  # draws that depend on names and seeds alone
    "__init__.py": {"importlib"},  # what is loaded when it is first used, by where it stands
    "texts.py": {"importlib"},  # the package whose classes `help` shows
    "registry.py": {"importlib"},  # built-in plugins and actions, by where they stand
    "sweeps.py": {"hashlib"},
    "randomness.py": {"struct"},  # with the order of bytes given
}
"""What a module, or the modules of a folder, may import besides."""
NOT_CALLABLE = {
    "__import__",
    "breakpoint",
    "compile",
    "delattr",
    "eval",
    "exec",
    "exit",
    "globals",
    "input",
    "locals",
    "open",
    "print",
    "quit",
    "vars",
}
CALLABLE_IN = {
    # Remembered results are looked up by identity; nothing is ordered by it.
    "id": {
        "model/validation/snapshot.py",
        "placement/kinds.py",
        "session/cycle.py",
        "session/reasons.py",
        "state/vectors.py",
    },
    # The hashes of values that are hashable; nothing is ordered by them.
    "hash": {
        "model/immutable.py",
        "model/resources.py",
        "placement/kinds.py",
        "session/victims.py",
    },
}
"""Functions whose answers differ from run to run, and the files that may call them."""
CLOCK_METHODS = {"now", "today", "utcnow"}
"""What `datetime` and `date` would read the clock with."""


def impurities(source: str, file: Path) -> Iterator[str]:
    """Yield what a source may not do, with its line."""
    allowed = set(IMPORTABLE)
    for folder, names in IMPORTABLE_IN.items():
        if folder in file.parts:
            allowed |= names
    dated = {"datetime", "date"} & _imported_names(source)
    for node in ast.walk(ast.parse(source)):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] not in allowed:
                    yield f"{file}:{line}: imports {alias.name}"
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if node.level:
                yield f"{file}:{line}: imports relative to itself"
            elif module.split(".")[0] not in allowed:
                for alias in node.names:
                    if alias.name not in IMPORTABLE_FROM.get(module, ()):
                        yield f"{file}:{line}: imports {alias.name} from {module}"
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            if node.id in NOT_CALLABLE:
                yield f"{file}:{line}: uses {node.id}"
            files = CALLABLE_IN.get(node.id)
            if files is not None and file.as_posix() not in files:
                yield f"{file}:{line}: uses {node.id}"
        elif (
            isinstance(node, ast.Attribute)
            and node.attr in CLOCK_METHODS
            and isinstance(node.value, ast.Name)
            and node.value.id in dated
        ):
            yield f"{file}:{line}: reads the clock with {node.value.id}.{node.attr}"


def _imported_names(source: str) -> set[str]:
    return {
        alias.asname or alias.name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def package() -> Path:
    """Return the folder of the package that the tests import, which may be an installed one."""
    found = importlib.util.find_spec("batchsched")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent


def sources() -> list[Path]:
    """Return the files of the package, without those that help in testing."""
    folder = package()
    files = [file.relative_to(folder) for file in folder.rglob("*.py")]
    return sorted(file for file in files if file.parts[0] != "testing")


def test_there_are_sources_to_check() -> None:
    assert Path("scheduler.py") in sources()
    assert Path("plugins/drf.py") in sources()


@pytest.mark.parametrize("file", sources(), ids=str)
def test_a_module_depends_on_nothing_but_its_arguments(file: Path) -> None:
    source = (package() / file).read_text(encoding="utf-8")
    assert list(impurities(source, file)) == []


@pytest.mark.parametrize(
    "source",
    [
        "import os",
        "import os.path as p",
        "import collections, time",
        "from random import Random",
        "from datetime import datetime",
        "from sys import argv",
        "from sys import float_info, stdout",
        "from . import model",
        "import logging",
        "def late():\n    import socket",
        "if TYPE_CHECKING:\n    import threading",
        "print('x')",
        "write = print",
        "open('f')",
        "eval('1')",
        "items.sort(key=id)",
        "sorted(items, key=lambda item: hash(item))",
        "__import__('os')",
    ],
)
def test_the_check_finds_what_is_impure(source: str) -> None:
    assert list(impurities(source, Path("plugins/new.py")))


def test_the_check_finds_a_clock_where_timestamps_are_read() -> None:
    source = "from datetime import UTC, datetime\nnow = datetime.now(UTC)"
    assert list(impurities(source, Path("kubernetes/objects.py"))) == [
        "kubernetes/objects.py:2: reads the clock with datetime.now"
    ]


@pytest.mark.parametrize(
    ("source", "file"),
    [
        ("from collections.abc import Mapping", "new.py"),
        ("from datetime import datetime\ndatetime.fromisoformat(text)", "kubernetes/objects.py"),
        ("from sys import float_info", "resources.py"),
        ("known = cache.get(id(resource))", "state/vectors.py"),
        ("self.id, job.print, node.open()", "new.py"),
        ("class Job:\n    id: int", "new.py"),
    ],
)
def test_the_check_lets_pass_what_is_pure(source: str, file: str) -> None:
    assert list(impurities(source, Path(file))) == []
