"""Ask type checkers for the type of everything public, and find no `Any` in the answers.

    python tests/typing/pull_public_api.py [--show]

It writes a module with a `reveal_type` for each public name of each public module of the
installed `batchsched`, and for each public attribute and method of the classes among them,
and has mypy and pyright check it. The exit status is 1 if an answer has an `Any` (or
pyright's `Unknown`) in it, or a type variable that nothing sets, or is missing.

A doctest run may import this module: it does nothing until it is run.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from enum import EnumMeta
from pathlib import Path
from types import FunctionType, ModuleType
from typing import TypeVar

ANY = re.compile(r"\b(Any|Unknown)\b")
MYPY_ANSWER = re.compile(r":(\d+): note: Revealed type is (.*)$")
PYRIGHT_ANSWER = re.compile(r":(\d+):\d+ - information: Type of \"(?:.*?)\" is \"(.*)\"$")


PYPROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"


def public_modules() -> Iterator[ModuleType]:
    """Yield the public modules, as `pyproject.toml` lists them."""
    project = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))
    for name in project["tool"]["batchsched"]["public-modules"]:
        yield importlib.import_module(name)


def project_modules() -> list[ModuleType]:
    """Return all modules of the project that the public ones need."""
    list(public_modules())
    return [module for name, module in sys.modules.items() if name.split(".")[0] == "batchsched"]


def public_names(module: ModuleType) -> list[str]:
    """Return the names that a module makes public."""
    given: object = getattr(module, "__all__", None)
    if isinstance(given, list | tuple):
        return sorted(str(name) for name in given)
    return sorted(
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    )


def public_members(kind: type) -> Iterator[tuple[str, bool]]:
    """Yield the members that a class of the project makes public; with whether on instances."""
    seen: set[str] = set()
    for base in kind.__mro__:
        if not base.__module__.startswith("batchsched"):
            continue
        slots: object = vars(base).get("__slots__", ())
        names = [*vars(base), *vars(base).get("__annotations__", ())]
        names += [str(slot) for slot in slots] if isinstance(slots, list | tuple) else []
        for name in names:
            if name.startswith("_") or name in seen:
                continue
            seen.add(name)
            value = inspect.getattr_static(kind, name, None)
            is_on_class = isinstance(value, FunctionType | classmethod | staticmethod)
            yield name, not is_on_class


def parameters_of(kind: type) -> str:
    """Return type arguments for a generic class: the upper bounds of its parameters."""
    parameters: list[object] = list(getattr(kind, "__parameters__", ()))
    for base in vars(kind).get("__orig_bases__", ()):
        # The base of a NamedTuple is a function, which has none.
        of_base: tuple[object, ...] = getattr(base, "__parameters__", ())
        parameters.extend(item for item in of_base if item not in parameters)
    bounds: list[str] = []
    for parameter in parameters:
        bound: object = getattr(parameter, "__bound__", None)
        if isinstance(bound, type):
            bounds.append(f"{bound.__module__}.{bound.__qualname__}")
        else:
            bounds.append("object")
    return f"[{', '.join(bounds)}]" if bounds else ""


def questions() -> Iterator[tuple[str, str]]:
    """Yield what is asked about, and the line that asks."""
    known: set[int] = set()
    for module in public_modules():
        for name in public_names(module):
            value: object = getattr(module, name)
            path = f"{module.__name__}.{name}"
            arguments = parameters_of(value) if isinstance(value, type) else ""
            yield path, f"reveal_type({path}{arguments})"
            if not isinstance(value, type) or id(value) in known:
                continue
            if not value.__module__.startswith("batchsched"):
                continue
            known.add(id(value))
            typed = f"{path}{parameters_of(value)}"
            if not isinstance(value, EnumMeta):
                yield f"{path}.__init__", f"reveal_type({typed}.__init__)"
            for member, is_on_instance in public_members(value):
                if is_on_instance:
                    yield f"{path}.{member}", f"lambda it: reveal_type(it.{member})|{typed}"
                else:
                    yield f"{path}.{member}", f"reveal_type({typed}.{member})"


def type_variables() -> re.Pattern[str]:
    """Return what finds a type variable of the project, or of the standard library's stubs.

    What is generic starts its answer with a list of its variables. Anything else should have
    none; one that is there comes of a converter that is generic, and refuses all arguments.
    """
    names = {
        name
        for module in project_modules()
        for name, value in vars(module).items()
        if isinstance(value, TypeVar)
    }
    return re.compile(rf"(?<![\w.])({'|'.join(sorted(names))}|_[KTV]\w{{0,5}})(?![\w.`=:])")


def written(asked: Sequence[tuple[str, str]]) -> str:
    """Return the module that asks; each question is on a line of its own."""
    # The bounds of type variables stand in other modules than public ones.
    lines = ["# ruff: noqa", *sorted({f"import {module.__name__}" for module in project_modules()})]
    for number, (_, question) in enumerate(asked):
        if question.startswith("lambda it: "):
            expression, typed = question.removeprefix("lambda it: ").split("|")
            lines += [f"def question_{number}(it: {typed}) -> None:", f"    {expression}"]
        else:
            lines.append(question)
    return "\n".join(lines) + "\n"


def answers(command: Sequence[str], pattern: re.Pattern[str]) -> tuple[dict[int, str], list[str]]:
    """Return a checker's answers by line, and its complaints."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found: dict[int, str] = {}
    complaints: list[str] = []
    for line in done.stdout.splitlines():
        answer = pattern.search(line)
        if answer:
            found[int(answer[1])] = answer[2]
        elif " error: " in line or " error - " in line or ": error" in line:
            complaints.append(line)
    return found, complaints


def main(arguments: Sequence[str] | None = None) -> int:
    """Ask, judge the answers and print what is wrong; return the exit status."""
    parser = argparse.ArgumentParser(description="Find no Any in the public API.")
    parser.add_argument("--show", action="store_true", help="print all answers")
    options = parser.parse_args(arguments)
    asked = list(questions())
    variables = type_variables()
    bad = 0
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "public_api.py"
        text = written(asked)
        file.write_text(text, encoding="utf-8")
        at_line = [n for n, line in enumerate(text.splitlines(), 1) if "reveal_type" in line]
        config = Path(place) / "pyrightconfig.json"
        config.write_text(
            '{"typeCheckingMode": "strict", "reportUnusedImport": false}', encoding="utf-8"
        )
        mypy = [sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={place}"]
        pyright = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "-p", place]
        for checker, command, pattern in (
            ("mypy", [*mypy, str(file)], MYPY_ANSWER),
            ("pyright", pyright, PYRIGHT_ANSWER),
        ):
            found, complaints = answers(command, pattern)
            missing = 0
            # Pyright solves variables where it can, and shows no list of those that are left.
            loose = variables if checker == "mypy" else re.compile(r"(?!)")
            for (path, _), line in zip(asked, at_line, strict=True):
                answer = found.get(line)
                if answer is None:
                    missing += 1
                    print(f"{checker} says nothing of {path}")
                    continue
                if options.show:
                    print(f"{checker}: {path}: {answer}")
                if ANY.search(answer):
                    bad += 1
                    print(f"{checker}: {path} has an Any: {answer}")
                if loose.search(answer) and not answer.startswith('"def ['):
                    bad += 1
                    print(f"{checker}: {path} has a type variable that nothing sets: {answer}")
            for complaint in complaints[:20]:
                print(f"{checker}: {complaint}")
            bad += missing + len(complaints)
            print(f"{checker}: {len(found)} answers to {len(asked)} questions")
    print("no Any in the public API" if not bad else f"{bad} problems")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
