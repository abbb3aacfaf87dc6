"""What all tests share: Hypothesis without a clock, and with the same examples in any company."""

from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

# A busy machine is no reason for a property test to fail.
settings.register_profile("batchsched", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("batchsched")

# Hypothesis mixes in numbers and texts that it finds in the source of loaded modules. Which modules
# are loaded depends on which tests run in the same process, and so would the examples.
if hasattr(providers, "_get_local_constants"):
    _nothing = providers.Constants()
    providers._get_local_constants = lambda: _nothing
