"""Which tests reach behind the public faces of the library: ``python -m tests.support.reach``.

A test function reaches internals if it uses a name that was imported from an internal module, in
its own file or by way of what it calls there, its fixtures, `tests.support` or any other module of
the tests; or if it reads a private attribute of the library (`thing._name`). The invariants that
the tests add to those of the testing kit are built on the kit's: who checks them reaches nothing.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from functools import cache
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((TESTS.parent / "pyproject.toml").read_text(encoding="utf-8"))
PUBLIC = frozenset(PROJECT["tool"]["batchsched"]["public-modules"])
"""The modules that users import from; all others are internal."""

INVARIANTS = "tests.support.invariants"

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign


class Module:
    """A file of the tests: what it imports, and what its definitions use."""

    def __init__(self, path: Path) -> None:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        self.imports: dict[str, tuple[str, str | None]] = {}
        """Name to the module, and the name there; None: it is the module."""
        self.defined: dict[str, list[ast.stmt]] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module is not None and not node.level:
                for alias in node.names:
                    self.imports[alias.asname or alias.name] = node.module, alias.name
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    self.imports[(alias.asname or alias.name).partition(".")[0]] = alias.name, None
        for node in tree.body:
            for name in _names_defined(node):
                self.defined.setdefault(name, []).append(node)
        self.always = [
            name for name, nodes in self.defined.items() if any(_is_autouse(node) for node in nodes)
        ]
        """The fixtures that every test of the file uses."""

    def tests(self) -> list[tuple[str, ast.AST, list[str]]]:
        """Return the test functions, each with the names of the classes around it."""
        found: list[tuple[str, ast.AST, list[str]]] = []
        for nodes in self.defined.values():
            for node in nodes:
                if isinstance(node, ast.FunctionDef) and node.name.startswith("test"):
                    found.append((node.name, node, []))
                elif isinstance(node, ast.ClassDef):
                    found += [
                        (f"{node.name}.{each.name}", each, [node.name])
                        for each in node.body
                        if isinstance(each, ast.FunctionDef) and each.name.startswith("test")
                    ]
        return found


def _names_defined(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Assign):
        return [each.id for t in node.targets for each in ast.walk(t) if isinstance(each, ast.Name)]
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return [node.target.id]
    return []


def _is_autouse(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef) and any(
        isinstance(each, ast.keyword) and each.arg == "autouse"
        for decorator in node.decorator_list
        for each in ast.walk(decorator)
    )


@cache
def module_named(name: str) -> Module | None:
    """Return a module of the tests or benchmarks, or None if it is neither."""
    base = TESTS.parent / name.replace(".", "/")
    for path in (base.with_suffix(".py"), base / "__init__.py"):
        if path.is_file() and name.partition(".")[0] in ("tests", "benchmarks", "examples"):
            return Module(path)
    return None


@cache
def uses(node: ast.AST) -> tuple[str | None, tuple[str, ...]]:
    """Return a private attribute that a piece of code reads, or None, and the names it uses."""
    used: dict[str, None] = {}
    for each in ast.walk(node):
        if isinstance(each, ast.Name):
            used[each.id] = None
        elif isinstance(each, ast.arg):
            used[each.arg] = None  # a fixture
        elif (
            isinstance(each, ast.Attribute)
            and each.attr.startswith("_")
            and not each.attr.endswith("_")  # `__eq__`, and `_repr_html_` of notebooks
            and not (isinstance(each.value, ast.Name) and each.value.id in ("self", "cls"))
        ):
            return f"._{each.attr.lstrip('_')}", ()
    return None, tuple(used)


def reached(module: Module, node: ast.AST, seen: set[tuple[int, str]]) -> str | None:
    """Return an internal name that a piece of code uses, also by way of what it calls, or None."""
    private, used = uses(node)
    if private is not None:
        return private
    for name in used:
        found = reached_by_name(module, name, seen)
        if found is not None:
            return found
    return None


def reached_by_name(module: Module, name: str, seen: set[tuple[int, str]]) -> str | None:
    """Return an internal name that a name of a module stands for or leads to, or None."""
    if (id(module), name) in seen:
        return None
    seen.add((id(module), name))
    for node in module.defined.get(name, ()):
        found = reached(module, node, seen)
        if found is not None:
            return found
    if name in module.imports:
        source, there = module.imports[name]
        if source.partition(".")[0] == "batchsched":
            whole = source if there is None else f"{source}.{there}"
            return None if source in PUBLIC or whole in PUBLIC else whole
        other = None if source == INVARIANTS else module_named(source)
        if other is not None and there is not None:
            return reached_by_name(other, there, seen)
        if there is not None and module_named(f"{source}.{there}") is not None:
            return None  # a module as a whole: what is used of it is not followed
    return None


def count_reaching(*, tell: bool = False) -> dict[str, tuple[int, int]]:
    """Return for each folder how many test functions there are, and how many reach internals."""
    count: dict[str, tuple[int, int]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        module = Module(path)
        folder = path.relative_to(TESTS).parts[0]
        for name, node, around in module.tests():
            seen: set[tuple[int, str]] = set()
            found = reached(module, node, seen)
            for other in (*around, *module.always):
                found = found or reached_by_name(module, other, seen)
            tests, reaching = count.get(folder, (0, 0))
            count[folder] = tests + 1, reaching + (found is not None)
            if found is not None and tell:
                print(f"{path.relative_to(TESTS)}::{name} {found}")
    return count


def main() -> int:
    """Print how many test functions reach internals, folder by folder, and which if asked."""
    count = count_reaching(tell="-v" in sys.argv)
    for folder, (tests, reaching) in count.items():
        print(f"{folder:24} {tests:5} {reaching:5} {reaching / tests:5.0%}")
    tests, reaching = map(sum, zip(*count.values(), strict=True))
    print(f"{reaching} of {tests} test functions reach internals: {reaching / tests:.1%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
