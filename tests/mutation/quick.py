"""A pytest plugin for mutation runs: what is slow for what it would find is left out.

Property tests draw few examples, and the same each time; some tests are not run at all.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, settings
from tests.support.few_examples import limit_examples

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
    limit_examples(items, FEW_EXAMPLES)
