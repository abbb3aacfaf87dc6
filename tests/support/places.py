"""In how many modules the same thing is named: ``python -m tests.support.places``.

What a snapshot consists of, what a cycle decides, each extension point and each shortcut should
stand in few modules of the library: who adds one more touches as many. Counted are modules that

- read a part of something that is called a snapshot, or pass it by its name to one that is made
  (`evolve` makes one of something that is called so);
- read a decision of something that is called a result, or pass it by its name likewise;
- name an extension point as an attribute or a string (plugins that have it are not counted);
- name a shortcut as a member of `Shortcut`.

The testing kit, which is there for every one of them, is left out.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from statistics import median

from attrs import fields

import batchsched
from batchsched import Snapshot
from batchsched.model.result import DECISIONS
from batchsched.session.points import RULES
from batchsched.state.shortcuts import Shortcut

LIBRARY = Path(batchsched.__file__).parent


def _of(owner: str, maker: str) -> Callable[[ast.AST], Iterator[str]]:
    """Return a function that lists what a piece of code names of an owner."""

    def named(node: ast.AST) -> Iterator[str]:
        match node:
            case ast.Attribute(value=ast.Name(id=name) | ast.Attribute(attr=name), attr=part):
                if name.strip("_").endswith(owner):
                    yield part
            case ast.Call(func=ast.Name(id=name)) if name == maker:
                yield from (each.arg for each in node.keywords if each.arg is not None)
            case ast.Call(func=ast.Name(id="evolve"), args=[ast.Name(id=name)]):
                if name.strip("_").endswith(owner):
                    yield from (each.arg for each in node.keywords if each.arg is not None)
            case _:
                pass

    return named


def _word(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Attribute(attr=word) | ast.Constant(value=str(word)):
            yield word
        case _:
            pass


KINDS: dict[str, tuple[Iterable[str], Callable[[ast.AST], Iterator[str]], tuple[str, ...]]] = {
    "part of a snapshot": (
        [each.name for each in fields(Snapshot) if not each.name.startswith("_")],
        _of("snapshot", "Snapshot"),
        ("testing",),
    ),
    "decision": (
        [row.field for row in DECISIONS],
        _of("result", "CycleResult"),
        ("testing",),
    ),
    "extension point": (RULES, _word, ("testing", "plugins")),
    "shortcut": ([each.name for each in Shortcut], _of("Shortcut", ""), ("testing",)),
}
"""What is counted; what lists the names in a piece of code; the folders that are left out."""


def places() -> dict[str, dict[str, list[str]]]:
    """Return, for each kind of thing, the modules that name each of the things."""
    trees = {
        path.relative_to(LIBRARY): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(LIBRARY.rglob("*.py"))
    }
    found: dict[str, dict[str, list[str]]] = {}
    for kind, (words, named, left_out) in KINDS.items():
        of_kind = found[kind] = {word: [] for word in words}
        for path, tree in trees.items():
            if path.parts[0] in left_out:
                continue
            for word in {word for node in ast.walk(tree) for word in named(node)}:
                if word in of_kind:
                    of_kind[word].append(str(path))
    return found


if __name__ == "__main__":
    for kind, of_kind in places().items():
        counts = {word: len(modules) for word, modules in of_kind.items()}
        most = max(counts, key=lambda word: (counts[word], word))
        print(f"{kind}: {median(counts.values()):g} in the middle, {most} {counts[most]}")
        for word, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
            print(f"    {count:3} {word}")
