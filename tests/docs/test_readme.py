"""The example of the README is run, and gives what the README says that it gives."""

from __future__ import annotations

from pathlib import Path

import pytest
from sybil import Sybil
from sybil.parsers.myst import PythonCodeBlockParser

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_examples_give_what_the_page_says(name: str) -> None:
    page = ROOT / name
    document = Sybil([PythonCodeBlockParser()], path=str(ROOT), filenames=[name]).parse(page)
    for example in document.examples():
        example.evaluate()
    assert bool(list(document.examples())) == ("```python" in page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_files_that_a_page_points_to_exist(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    targets = [part.split(")")[0].split("#")[0] for part in text.split("](")[1:]]
    assert [target for target in targets if not (ROOT / target).exists()] == []
