"""Every example of the documentation is run, and gives what the page says that it gives."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from sybil import Sybil
from sybil.parsers.myst import PythonCodeBlockParser

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
FENCE = re.compile(r"^ *(`{3,})(\w*)$", re.MULTILINE)
PYTHON_LIKE = ("py", "python3", "pycon", "doctest")


def name_of(page: Path) -> str:
    return str(page.relative_to(DOCS))


def examples_of(page: Path) -> Sybil:
    return Sybil([PythonCodeBlockParser()], path=str(page.parent), filenames=[page.name])


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_examples_give_what_the_page_says(page: Path) -> None:
    document = examples_of(page).parse(page)
    for example in document.examples():
        example.evaluate()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_example_is_hidden_from_the_tests(page: Path) -> None:
    fences = [match[2] for match in FENCE.finditer(page.read_text(encoding="utf-8"))]
    assert not set(fences) & set(PYTHON_LIKE), "name the language of examples `python`"
    parsed = sum(
        1 for _ in re.finditer(r"^```python$", page.read_text(encoding="utf-8"), re.MULTILINE)
    )
    assert fences.count("python") == parsed, "examples stand at the left margin"


def test_an_example_that_gives_something_else_fails(tmp_path: Path) -> None:
    page = tmp_path / "wrong.md"
    page.write_text("```python\n>>> 1 + 1\n3\n```\n", encoding="utf-8")
    with pytest.raises(Exception, match=r"(?s)Expected:.*3.*Got:.*2"):
        for example in examples_of(page).parse(page).examples():
            example.evaluate()
