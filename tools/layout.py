"""Finds the packages of the repository, their sources and their tests, for the tools that count.

Paths are relative to the root of the repository.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class Package:
    """One package that can be installed: `packages/NAME` with `src` and `tests`."""

    name: str

    @property
    def source(self) -> str:
        """The folder that is an entry of `sys.path`."""
        return f"packages/{self.name}/src"

    @property
    def tests(self) -> str:
        """The folder of its tests."""
        return f"packages/{self.name}/tests"


def below(path: str, folder: str) -> bool:
    """Return whether a path is a folder (or file) or below it."""
    return PurePosixPath(path).is_relative_to(folder)


def tracked(root: Path = ROOT) -> list[str]:
    """Return the tracked files that exist, sorted."""
    names = subprocess.run(
        ["git", "ls-files", "-z"], cwd=root, capture_output=True, text=True, check=True
    ).stdout.split("\0")
    return sorted(name for name in names if name and (root / name).is_file())


def packages(root: Path = ROOT) -> tuple[Package, ...]:
    """Return the packages, sorted by name."""
    return tuple(Package(path.parent.name) for path in sorted((root / "packages").glob("*/src")))


def import_package(path: str) -> str:
    """Return the import package of a Python file in the sources, or an empty string."""
    parts = path.split("/")
    return parts[3] if len(parts) > 4 and parts[0] == "packages" and parts[2] == "src" else ""


def test_folder(path: str) -> str:
    """Return the folder of tests that a file is in, or an empty string."""
    parts = path.split("/")
    if parts[0] == "packages" and len(parts) > 3 and parts[2] == "tests":
        return "/".join(parts[: 4 if len(parts) > 4 else 3])
    if parts[0] == "tests":
        return "/".join(parts[: 2 if len(parts) > 2 else 1])
    return ""
