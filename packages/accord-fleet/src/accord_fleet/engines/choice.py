"""The engine of a plan: this machine, or a cluster."""

from __future__ import annotations

import importlib.util
import re

from accord.installed import install_command
from accord_fleet.engine import Engine
from accord_fleet.engines.local import LocalEngine
from accord_fleet.engines.ray import RayEngine
from accord_fleet.plan import Plan

_HOST = r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])"
_ADDRESS = re.compile(rf"local|ray|(?:ray://)?{_HOST}:[0-9]{{1,5}}")


def why_not_usable(engine: str) -> str | None:
    """Return what is wrong with the name of an engine, without connecting; None if nothing."""
    if not _ADDRESS.fullmatch(engine):
        return (
            "--on: expected `local`, `ray`, `ray://HOST:PORT` or `HOST:PORT`, such as"
            f" `ray://head:10001`, got {engine!r}"
        )
    if engine != "local" and importlib.util.find_spec("ray") is None:
        return f"--on {engine}: Ray is not installed: {install_command('fleet')}"
    return None


def engine_for(plan: Plan, jobs: int) -> Engine:
    """Return the engine that a plan names, for so many attempts at the same time."""
    if plan.engine == "local":
        return LocalEngine(jobs)
    # Resumed runs have the same name: the attempts of the earlier process are ended first.
    name = f"{plan.digest[:16]}-{plan.created:.6f}"
    return RayEngine(plan.engine, jobs=jobs, name=name)
