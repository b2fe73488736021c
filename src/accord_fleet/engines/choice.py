"""The engine of a plan: this machine, or a cluster."""

from __future__ import annotations

from accord_fleet.engines.engine import Engine
from accord_fleet.engines.local import LocalEngine
from accord_fleet.engines.ray import RayEngine
from accord_fleet.plan import Plan

__all__ = ("engine_for",)


def engine_for(plan: Plan, jobs: int) -> Engine:
    """Return the engine that a plan names, for so many attempts at the same time."""
    if plan.engine == "local":
        return LocalEngine(jobs)
    # Resumed runs have the same name: the attempts of the earlier process are ended first.
    name = f"{plan.digest[:16]}-{plan.created:.6f}"
    return RayEngine(plan.engine, jobs=jobs, name=name)
