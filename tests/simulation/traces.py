"""Where published logs are: in the folder that the environment names, or the tests are skipped."""

from __future__ import annotations

import csv
import gzip
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

VARIABLE = "BATCHSCHED_TRACES"


def trace(name: str) -> Path:
    """Return the path of a file of the traces; skip the test if there is none."""
    folder = os.environ.get(VARIABLE)
    if folder is None:
        pytest.skip(
            f"{VARIABLE} names no folder: published results are NOT checked "
            "(see docs/results-you-can-reproduce.md for where the files are)"
        )
    path = Path(folder) / name
    if not path.exists():
        pytest.skip(f"{path} does not exist: published results are NOT checked")
    return path


def lines(name: str) -> Iterator[str]:
    """Yield the lines of a file that gzip has packed."""
    with gzip.open(trace(name), "rt", encoding="utf-8") as file:
        yield from file


def rows(name: str) -> Iterator[dict[str, str]]:
    """Yield the rows of a packed table, as mappings."""
    yield from csv.DictReader(lines(name))
