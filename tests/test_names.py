"""Public names: one name, one meaning."""

from __future__ import annotations

import importlib
import tomllib
from pathlib import Path

import batchsched

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))


def test_a_public_name_means_the_same_in_all_public_modules() -> None:
    meanings: dict[str, dict[int, str]] = {}
    for module_name in PROJECT["tool"]["batchsched"]["public-modules"]:
        module = importlib.import_module(module_name)
        for name in module.__all__:
            meanings.setdefault(name, {})[id(getattr(module, name))] = module_name
    assert len(meanings) > len(batchsched.__all__)
    assert {name: list(of.values()) for name, of in meanings.items() if len(of) > 1} == {}
