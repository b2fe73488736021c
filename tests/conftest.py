"""What all tests share: how hypothesis searches, and where slow tests live."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# A machine that is busy makes an example slow, not wrong.
settings.register_profile("local", deadline=None)
settings.register_profile(
    "ci",
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("ci" if os.environ.get("CI") else "local")
