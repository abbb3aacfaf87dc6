"""The same snapshot gives the same result in every process and on every Python."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

import pytest

from tests.support.pythons import find_python

# In one process, so that what they compare with is decided once.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("processes")]

TESTS = Path(__file__).parent
NIGHTLY = os.environ.get("BATCHSCHED_NIGHTLY") == "1"
HASH_SEEDS = ["1", "4711", "random"] if NIGHTLY else ["4711"]
THIS_VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"


OF_EACH_FILE = 30 if NIGHTLY else 5
"""How many golden cases are decided."""


def digest_in_a_process(python: str, hash_seed: str) -> str:
    """Return the digest of what a process of its own decides; see `tests.support.golden_digest`."""
    # All that is needed is pure Python, so that another Python can import it from here.
    places: list[str] = []
    for name in ("batchsched", "attrs", "sortedcontainers"):
        found = importlib.util.find_spec(name)
        assert found is not None
        assert found.origin is not None
        places.append(str(Path(found.origin).parent.parent))
    done = subprocess.run(
        [python, "-B", "-m", "tests.support.golden_digest", str(OF_EACH_FILE)],
        capture_output=True,
        text=True,
        check=False,
        cwd=TESTS.parent,
        env={
            **os.environ,
            "PYTHONHASHSEED": hash_seed,
            "PYTHONPATH": os.pathsep.join(dict.fromkeys(places)),
        },
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@lru_cache
def expected() -> str:
    """Return the digest in a process of this Python where hashes are not made random."""
    digest = digest_in_a_process(sys.executable, "0")
    cases, _ = digest.split()
    assert int(cases) >= 10 * OF_EACH_FILE
    return digest


@pytest.mark.parametrize("hash_seed", HASH_SEEDS)
def test_results_do_not_depend_on_the_hashes_of_texts(hash_seed: str) -> None:
    assert digest_in_a_process(sys.executable, hash_seed) == expected()


@pytest.mark.parametrize(
    "version", [version for version in ("3.11", "3.12", "3.13", "3.14") if version != THIS_VERSION]
)
def test_results_do_not_depend_on_the_version_of_python(version: str) -> None:
    python = find_python(version)
    if python is None:
        pytest.skip(f"Python {version} was not found")
    assert digest_in_a_process(python, "2") == expected()
