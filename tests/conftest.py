"""What all tests share: Hypothesis without a clock, and with the same examples in any company."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

# A busy machine is no reason for a property test to fail, and neither is luck: the examples are
# the same in each run. `--hypothesis-profile=search` draws others, as many as before, and
# `--hypothesis-seed=N` with it says which.
_unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("batchsched", _unhurried, derandomize=True)
settings.register_profile("search", _unhurried, print_blob=True)
settings.load_profile("batchsched")

# Hypothesis mixes in numbers and texts that it finds in the source of loaded modules. Which modules
# are loaded depends on which tests run in the same process, and so would the examples.
if hasattr(providers, "_get_local_constants"):
    _nothing = providers.Constants()
    providers._get_local_constants = lambda: _nothing


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Expect the tests of `known_failures.txt` to fail."""
    lines = Path(__file__).with_name("known_failures.txt").read_text(encoding="utf-8").splitlines()
    known = dict(line.rsplit(": ", 1) for line in lines[3:] if line)
    for item in items:
        for name, reason in known.items():
            if name in item.nodeid:
                item.add_marker(pytest.mark.xfail(reason=reason, strict=False))
