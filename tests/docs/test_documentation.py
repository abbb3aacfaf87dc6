"""Every example of the documentation is run, and gives what the page says that it gives."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest
from attrs import fields
from sybil import Sybil
from sybil.example import SybilFailure
from sybil.parsers.myst import PythonCodeBlockParser

from batchsched.plugin import ExtensionPoints

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
README = ROOT / "README.md"
PUBLIC = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["batchsched"][
    "public-modules"
]
"""The modules that users may import from; all others are internal."""
PAGES = sorted(DOCS.rglob("*.md"))
LONG = ("answers.md", "how-to-test-a-policy.md", "simulation.md")
"""The pages whose examples take long."""
NEEDS = {"pandas.md": "pandas"}
"""What the examples of a page import besides the library; `tasks.py extras` installs it."""
FENCE = re.compile(r"^ *(`{3,})(\w*)$", re.MULTILINE)
PYTHON_LIKE = ("py", "python3", "pycon", "doctest")


def name_of(page: Path) -> str:
    return str(page.relative_to(DOCS))


def examples_of(page: Path) -> Sybil:
    return Sybil([PythonCodeBlockParser()], path=str(page.parent), filenames=[page.name])


def run(page: Path) -> None:
    for example in examples_of(page).parse(page).examples():
        example.evaluate()


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=[pytest.mark.slow] if page.name in LONG else []) for page in PAGES],
    ids=name_of,
)
def test_examples_give_what_the_page_says(page: Path) -> None:
    if page.name in NEEDS:
        pytest.importorskip(NEEDS[page.name])
    run(page)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_example_is_hidden_from_the_tests(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    languages = [match[2] for match in FENCE.finditer(text)]
    assert not set(languages) & set(PYTHON_LIKE), "name the language of examples `python`"
    found = list(examples_of(page).parse(page).examples())
    assert bool(found) == ("python" in languages)
    at_the_margin = re.findall(r"^```python$", text, re.MULTILINE)
    assert languages.count("python") == len(at_the_margin), "examples stand at the left margin"


INLINE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
MEMBER = re.compile(r"^([A-Za-z]+)\.([a-z_]+)\b")
BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
OBJECTS = {
    "session": "Session",
    "statement": "Statement",
    "cluster": "Cluster",
    "result": "CycleResult",
    "snapshot": "Snapshot",
    "run": "Run",
    "workload": "Workload",
}
"""How pages call objects of classes."""


@cache
def members_of(name: str) -> frozenset[str] | None:
    """Return the attributes of a public class and of its objects; None: there is no such class."""
    for module in PUBLIC:
        cls = getattr(importlib.import_module(module), name, None)
        if isinstance(cls, type):
            found = {*dir(cls)}
            for each in (base for base in cls.__mro__ if base.__module__.startswith("batchsched")):
                found |= {*getattr(each, "__annotations__", ())}
                found |= {*re.findall(r"\bself\.(\w+)\b", inspect.getsource(each))}
            return frozenset(found)
    return None


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_members_that_a_page_names_exist(page: Path) -> None:
    missing = []
    for code in INLINE.findall(BLOCK.sub("", page.read_text(encoding="utf-8"))):
        if found := MEMBER.match(code):
            members = members_of(OBJECTS.get(found[1], found[1]))
            missing += [] if members is None or found[2] in members else [code]
    assert missing == []


def test_the_page_on_plugins_has_every_extension_point() -> None:
    page = (DOCS / "writing-plugins.md").read_text(encoding="utf-8")
    points = [field.name for field in fields(ExtensionPoints)]
    assert [point for point in points if f"`{point}(" not in page] == []


def test_public_modules_are_those_that_are_there() -> None:
    for name in PUBLIC:
        assert importlib.util.find_spec(name) is not None, name


@pytest.mark.parametrize("page", [*PAGES, README], ids=lambda page: page.name)
def test_pages_import_from_public_modules_only(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    imported = re.findall(r"^(?:>>> )?(?:from|import) (batchsched[\w.]*)", text, re.MULTILINE)
    assert set(imported) <= set(PUBLIC)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_reference_pages_show_names_of_public_modules_only(page: Path) -> None:
    shown = re.findall(r":: (batchsched[\w.]*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    # What needs an extra cannot be imported with the other public modules.
    assert set(shown) <= {*PUBLIC, "batchsched.simulation.plots"}


def test_an_example_that_gives_something_else_fails(tmp_path: Path) -> None:
    page = tmp_path / "wrong.md"
    page.write_text("```python\n>>> 1 + 1\n3\n```\n", encoding="utf-8")
    with pytest.raises(SybilFailure, match=r"(?s)Expected:.*3.*Got:.*2"):
        run(page)
