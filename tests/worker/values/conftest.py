"""Property tests measure behaviour, not the machine: no deadline per example."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "values", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=100
)
settings.load_profile("values")
