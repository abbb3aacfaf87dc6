"""A pytest plugin for mutation runs: what is slow for what it would find is left out.

Property tests draw few examples, and the same each time; some tests are not run at all.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, settings

FEW_EXAMPLES = 10

settings.register_profile(
    "mutation",
    max_examples=FEW_EXAMPLES,
    phases=[Phase.explicit, Phase.generate],  # a mutant that is found out need not be understood
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)

SLOW = (
    "test_l2_small_starving_jobs_",
    "test_numpy_is_needed_for_nothing_else",
    "test_s1_a_starving_job_waits_",
    "test_the_library_does_not_import_numpy_",
)
"""How the names of tests begin that are not run."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    slow = [item for item in items if item.name.startswith(SLOW)]
    if slow:
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if not item.name.startswith(SLOW)]
    for item in items:
        # Tests and state machines that ask for more examples get no more either.
        test = getattr(item, "obj", None)
        asked = getattr(test, "_hypothesis_internal_use_settings", None)
        if asked is not None and asked.max_examples > FEW_EXAMPLES:
            few = settings(asked, max_examples=FEW_EXAMPLES)
            test._hypothesis_internal_use_settings = few  # type: ignore[union-attr]
        machine = getattr(item, "cls", None)
        if item.name == "runTest" and isinstance(getattr(machine, "settings", None), settings):
            machine.settings = settings(machine.settings, max_examples=FEW_EXAMPLES)
