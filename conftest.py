"""What all tests share, doctests too: the package's modules, and Hypothesis without a clock.

pytest reads a module file for its doctests without entering it among the imported modules; one
that was not imported before would then exist twice, with classes that are not each other's.
"""

import gc
import importlib
import pkgutil
from contextlib import suppress
from importlib.util import find_spec

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from tests.support.few_examples import limit_examples

import batchsched
import batchsched_cli

for _package in (batchsched, batchsched_cli):
    for _found in pkgutil.walk_packages(_package.__path__, f"{_package.__name__}."):
        with suppress(ImportError):  # what needs an extra that is not installed
            importlib.import_module(_found.name)

# The doctests of plots need the extra `plots`.
collect_ignore = [] if find_spec("matplotlib") else ["src/batchsched/simulation/plots.py"]

# A busy machine is no reason for a property test to fail, and neither is luck: the examples are
# the same in each run. `--hypothesis-profile=search` draws others, as many as before, and
# `--hypothesis-seed=N` with it says which.
_unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("batchsched", _unhurried, derandomize=True)
settings.register_profile("search", _unhurried, print_blob=True)
settings.register_profile("rest", _unhurried, derandomize=True, max_examples=40)
settings.register_profile("quick", _unhurried, derandomize=True, max_examples=5)
settings.load_profile("batchsched")

# Hypothesis mixes in numbers and texts that it finds in the source of loaded modules. Which modules
# are loaded depends on which tests run in the same process, and so would the examples.
if hasattr(providers, "_get_local_constants"):
    _nothing = providers.Constants()
    providers._get_local_constants = lambda: _nothing


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Draw few examples everywhere if the profile is one of few, `quick` say."""
    few = settings.default.max_examples
    if few < settings.get_profile("batchsched").max_examples:
        limit_examples(items, few)


def pytest_collection_finish() -> None:
    """Keep thousands of collected tests, which stay to the end, from every garbage collection."""
    gc.collect()
    gc.freeze()
