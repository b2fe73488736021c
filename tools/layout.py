"""Finds the packages of the repository, their sources and their tests, for the tools that count.

Two layouts are known: `src/NAME` with `tests/`, and `packages/*/src/NAME` with `packages/*/tests`.
Paths are relative to the root of the repository.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parent.parent
# What `src/` holds of each package of `packages/`, and the tests of it in `tests/`.
SOURCES = {
    "accord": ["accord"],
    "accord-trace": ["accord/trace"],
    "accord-terminal": [
        "accord/cli",
        "accord_terminal.agents",
        "accord_terminal.editors",
        "accord_terminal.sessions",
    ],
    "accord-chat": ["accord_chat"],
    "accord-coder": ["accord_coder"],
    "accord-check": ["accord_conformance", "accord_conformance.pytest_entry"],
    "accord-inspector": ["accord_inspector"],
    "accord-fleet": ["accord_fleet"],
}
TESTS = {
    "accord": [
        *("agent", "client", "connection", "jsonrpc", "local", "mcp", "proxy", "remote", "roles"),
        *("rules", "schema", "script_agent", "text", "transports", "v1", "v2", "wire"),
        *("test_errors.py", "test_outside.py", "test_public_names.py"),
    ],
    "accord-trace": ["trace"],
    "accord-terminal": ["cli", "doctor", "editors", "registry", "sessions_named"],
    "accord-chat": ["chat"],
    "accord-coder": ["coder"],
    "accord-check": ["conformance"],
    "accord-inspector": ["inspector"],
    "accord-fleet": ["fleet"],
}


@dataclass(frozen=True)
class Package:
    """One package that can be installed."""

    name: str
    sources: tuple[str, ...]
    tests: tuple[str, ...]

    def has(self, path: str, others: tuple[Package, ...] = ()) -> bool:
        """Return whether a source file belongs to the package: the longest folder decides."""
        own = max((len(folder) for folder in self.sources if below(path, folder)), default=0)
        return own > 0 and all(
            len(folder) <= own
            for package in others
            for folder in package.sources
            if below(path, folder)
        )


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
    """Return the packages of the layout in use, the new ones first if both exist."""
    found = [
        Package(
            folder.name,
            tuple(
                path.relative_to(root).as_posix()
                for path in sorted((folder / "src").iterdir())
                if path.is_dir() and any(path.rglob("*.py"))
            ),
            ((folder / "tests").relative_to(root).as_posix(),),
        )
        for folder in sorted((root / "packages").glob("*"))
        if (folder / "src").is_dir()
    ]
    moved = {package.name for package in found}
    for name, sources in SOURCES.items():
        kept = tuple(f"src/{part}" for part in sources if (root / "src" / part).exists())
        if kept and name not in moved:
            tests = tuple(
                f"tests/{part}" for part in TESTS[name] if (root / "tests" / part).exists()
            )
            found.append(Package(name, kept, tests))
    return tuple(found)


def source_folders(root: Path = ROOT) -> list[str]:
    """Return the folders that are entries of `sys.path`."""
    found = [
        path.relative_to(root).as_posix() for path in sorted((root / "packages").glob("*/src"))
    ]
    return [*(["src"] if (root / "src").is_dir() else []), *found]


def import_package(path: str) -> str:
    """Return the import package of a Python file in the sources, or an empty string."""
    parts = path.split("/")
    if parts[0] == "src" and len(parts) > 2:
        return parts[1]
    if parts[0] == "packages" and len(parts) > 4 and parts[2] == "src":
        return parts[3]
    return ""


def test_folder(path: str) -> str:
    """Return the folder of tests that a file is in, or an empty string."""
    parts = path.split("/")
    if parts[0] == "packages" and len(parts) > 3 and parts[2] == "tests":
        return "/".join(parts[: 4 if len(parts) > 4 else 3])
    if parts[0] == "tests":
        return "/".join(parts[: 2 if len(parts) > 2 else 1])
    return ""
