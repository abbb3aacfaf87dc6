"""A busy machine is no reason for a property test to fail."""

from hypothesis import HealthCheck, settings

settings.register_profile("batchsched", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("batchsched")
