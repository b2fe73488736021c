"""Accord on a cluster that has none: the driver sends its own, with what that requires."""

from __future__ import annotations

import importlib
import importlib.metadata
import platform
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from accord_fleet.engine import RunSettings

OWN_PACKAGES = ("accord", "accord_trace", "accord_terminal", "accord_coder", "accord_fleet")
"""What slots and the bundled agents import."""

_DISTRIBUTIONS = tuple(name.replace("_", "-") for name in OWN_PACKAGES)
# Of these extras, nodes need what the driver has.
_EXTRAS = ("", "models", "remote", "zstd")


class Found(NamedTuple):
    """What a node has."""

    python: str
    ray: str
    accord: str | None
    missing: list[str]
    """The requirements that it does not fulfil."""


def own_requirements() -> list[str]:
    """Return what Accord requires of what is installed here, without Ray."""
    parse: Any = importlib.import_module("packaging.requirements").Requirement  # Ray requires it
    wanted: dict[str, None] = {}
    for text in chain.from_iterable(
        importlib.metadata.requires(name) or () for name in _DISTRIBUTIONS
    ):
        requirement = parse(text)
        if requirement.name in _DISTRIBUTIONS:
            continue
        marker = requirement.marker
        if marker and not any(marker.evaluate({"extra": extra}) for extra in _EXTRAS):
            continue
        if requirement.name == "ray" or not _is_installed(requirement.name):
            continue
        extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
        wanted[f"{requirement.name}{extras}{requirement.specifier}"] = None
    return list(wanted)


def _is_installed(name: str) -> bool:
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def probe(requirements: list[str]) -> Callable[[], Found]:
    """Return a function that Ray sends by value: the nodes may have no Accord.

    It returns a tuple as `Found`.
    """

    def found() -> Any:
        parse: Any = importlib.import_module("packaging.requirements").Requirement
        try:
            own = importlib.import_module("accord").__version__
        except ImportError:
            own = None
        missing: list[str] = []
        for text in requirements:
            requirement = parse(text)
            try:
                version = importlib.metadata.version(requirement.name)
            except importlib.metadata.PackageNotFoundError:
                missing.append(text)
            else:
                if not requirement.specifier.contains(version, prereleases=True):
                    missing.append(text)
        ray = importlib.import_module("ray").__version__
        python = ".".join(platform.python_version_tuple()[:2])
        return python, ray, own, missing

    return found


def own_packages(missing: list[str]) -> dict[str, Any]:
    """Return a runtime environment with Accord as it is installed here, and what is missing."""
    folders = [str(Path(importlib.import_module(name).__path__[0])) for name in OWN_PACKAGES]
    folders += map(_metadata_folder, _DISTRIBUTIONS)  # names the commands of `accord`
    environment: dict[str, Any] = {"py_modules": folders}
    if missing:
        environment["pip"] = {"packages": missing, "pip_check": False}
    return environment


def _metadata_folder(name: str) -> str:
    """Return the folder with the metadata of an installed package."""
    distribution = importlib.metadata.distribution(name)
    file = next(file for file in distribution.files or () if file.name == "METADATA")
    return str(Path(str(distribution.locate_file(file))).parent)


def with_python(settings: RunSettings, driver: str, here: str) -> RunSettings:
    """Let agents that run in the driver's Python run in that of this node."""
    agents = tuple(
        msgspec.structs.replace(agent, command=(here, *agent.command[1:]))
        if agent.command[0] == driver
        else agent
        for agent in settings.agents
    )
    return msgspec.structs.replace(settings, agents=agents)
