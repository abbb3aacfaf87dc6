"""The example of the README is run, and gives what the README says that it gives."""

from __future__ import annotations

import runpy
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


def test_the_description_of_the_package_has_no_link_into_the_repository() -> None:
    """Where a package is listed, there are no files beside its description."""
    pytest.importorskip("hatchling")
    hook = runpy.run_path(str(ROOT / "hatch_build.py"))
    text = hook["without_links"]((ROOT / "README.md").read_text(encoding="utf-8"))
    targets = [part.split(")")[0] for part in text.split("](")[1:]]
    assert [each for each in targets if not each.startswith(("https://", "#"))] == []
    assert "[tutorial]" not in text.lower()
    assert "tutorial" in text.lower()
