"""What is called about the connections of a server: the access log, and OpenTelemetry."""

from __future__ import annotations

from accord.remote.access_log import AccessLog
from accord.remote.monitored import Observer


def default_observers() -> list[Observer]:
    """Return the observers of a server; OpenTelemetry only if its API is installed."""
    try:
        from accord.remote.telemetry import Telemetry
    except ModuleNotFoundError as exc:
        if (exc.name or "").partition(".")[0] != "opentelemetry":
            raise
        return [AccessLog()]
    return [AccessLog(), Telemetry()]
