"""What a plan means: the settings of its attempts, and its engine."""

from __future__ import annotations

from accord_fleet.engines.engine import Engine, RunSettings
from accord_fleet.errors import FleetError
from accord_fleet.plan import Plan

__all__ = ("engine_for", "settings_for")

LOCAL = "local"


def settings_for(plan: Plan) -> RunSettings:
    """Return what all attempts of a run have in common."""
    return RunSettings(
        agents=plan.agents,
        permissions=plan.permissions,
        sandbox=plan.sandbox,
        providers=plan.providers,
    )


def engine_for(address: str, jobs: int, name: str | None = None) -> Engine:
    """Return the engine for `--on`: `local`, `ray`, or the address of a cluster.

    `name` identifies the run on a cluster. Raise `FleetError` if it is not an address, or Ray is
    not installed.
    """
    if address == LOCAL:
        from accord_fleet.engines.local import LocalEngine

        return LocalEngine(jobs)
    try:
        from accord_fleet.engines.ray import RayEngine
    except ModuleNotFoundError as error:
        raise FleetError(f"--on {address}: Ray is not installed ({error})") from None
    return RayEngine(address, jobs=jobs, name=name)
