"""Runs the tests of each package against its wheel and what that declares, alone: `make alone`.

For each package, an environment below `build/alone` gets the wheel of `dist/` with the extras that
need no other package of this folder, and the tools of the tests. A test file that imports another
one at its beginning is left out and named; a test that needs one is skipped (`tests/needs.py`).
`--changed` takes the packages that changed since the last tag.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
SIBLINGS = {path.parent.name for path in ROOT.glob("packages/*/src/*/__init__.py")}
HELPERS = {path.stem: path for path in ROOT.glob("tests/*.py")}
# What the tests need besides the packages, of the group `dev`.
TOOLS = (
    "h2corn", "hypothesis", "jsonschema", "opentelemetry-sdk", "playwright", "pyte", "pytest",
    "pytest-asyncio", "pytest-timeout", "pytest-xdist", "trustme", "uvicorn", "uvloop",
)  # fmt: skip

# What the tests of one package need besides, of the requirements of all packages.
MORE_TOOLS = {
    # `accord.text.markdown_html` is for packages that require both.
    "accord": ("markdown-it-py",),
    "accord-chat": ("psutil",),
    "accord-check": ("mcp",),
    "accord-terminal": ("opentelemetry-exporter-otlp-proto-http",),
}


def project(package: str) -> dict[str, Any]:
    """Return the table `project` of a package."""
    path = ROOT / "packages" / package / "pyproject.toml"
    return tomllib.loads(path.read_text("utf-8"))["project"]


def own_extras(package: str) -> list[str]:
    """Return the extras of a package that need no sibling which it does not require."""
    about = project(package)
    # An extra that names its own package, as `all` does, is one of others.
    others = {path.name for path in ROOT.glob("packages/*")}
    others.difference_update(map(name_of, about["dependencies"]))
    table = about.get("optional-dependencies", {})
    return [name for name, needs in table.items() if others.isdisjoint(map(name_of, needs))]


def name_of(requirement: str) -> str:
    """Return the name of what is required."""
    return re.split(r"[^\w.-]", requirement, maxsplit=1)[0]


def tools(package: str) -> list[str]:
    """Return the requirements of a package's tests."""
    root = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    found = {name_of(need): need for need in root["dependency-groups"]["dev"]}
    for other in ROOT.glob("packages/*"):
        about = project(other.name)
        for needs in (about["dependencies"], *about.get("optional-dependencies", {}).values()):
            for need in needs:
                found.setdefault(name_of(need), need)
    return [found[name] for name in (*TOOLS, *MORE_TOOLS.get(package, ()))]


def install(package: str, python: Path) -> None:
    """Install a wheel of `dist/` with its extras, and the tools of the tests."""
    # The wheel itself: pip before 24 finds no wheel of the constraints for a name with extras.
    wheel = next(DIST.glob(f"{package.replace('-', '_')}-*.whl"))
    wanted = f"{package}[{','.join(own_extras(package))}] @ {wheel.as_uri()}"
    shutil.rmtree(python.parents[1], ignore_errors=True)
    environment = os.environ | {"VENV": str(python.parents[1])}
    constraints = str(DIST / "constraints.txt")
    subprocess.run(
        ["sh", "tools/venv.sh", "-c", constraints, wanted, *tools(package)],
        cwd=ROOT, env=environment, check=True,
    )  # fmt: skip


@cache
def imports(path: Path) -> frozenset[str]:
    """Return the siblings that a file of tests imports at its beginning, or its helpers do."""
    found: set[str] = set()
    for node in ast.parse(path.read_bytes()).body:
        match node:
            case ast.Import(names=names):
                named = [alias.name for alias in names]
            case ast.ImportFrom(module=str(module), level=0):
                named = [module]
            case _:
                continue
        for name in named:
            first, *rest = name.split(".")
            found |= {first} & SIBLINGS
            helper = _helper(first, rest)
            if helper is not None and helper != path:
                found |= imports(helper)
    return frozenset(found)


def _helper(first: str, rest: list[str]) -> Path | None:
    if first in HELPERS:
        return HELPERS[first]
    for folder in ROOT.glob("packages/*/tests"):
        candidate = folder.joinpath(first, *rest).with_suffix(".py")
        if candidate.is_file():
            return candidate
    return None


def left_out(package: str, python: Path) -> dict[Path, set[str]]:
    """Return the files of tests that need a sibling which is not installed, with its name."""
    code = "import importlib.util as u, sys; print(*[n for n in sys.argv[1:] if u.find_spec(n)])"
    asked = [str(python), "-c", code, *SIBLINGS]
    installed = set(subprocess.check_output(asked, text=True).split())
    files = sorted((ROOT / "packages" / package / "tests").rglob("*.py"))
    needs = {
        path: set(imports(path)) - installed
        for path in files
        if not {"node_modules", ".venvs"} & set(path.parts)
    }
    return {path: names for path, names in needs.items() if names and path.stem != "conftest"}


def run(package: str, options: list[str]) -> int:
    """Install a package alone and run its tests; return the exit status of pytest."""
    python = ROOT / "build" / "alone" / package / "bin" / "python"
    install(package, python)
    out = left_out(package, python)
    print(f"\n== {package}, without {len(out)} files that need siblings", flush=True)
    for path, names in out.items():
        print(f"   {path.relative_to(ROOT)}: {', '.join(sorted(names))}")
    command = [
        str(python), "-m", "pytest", "-q", "-n", "auto", "--dist", "worksteal",
        "-p", "no:cacheprovider", "-m", "not programs",
        *(f"--ignore={path}" for path in out), f"packages/{package}/tests", *options,
    ]  # fmt: skip
    return subprocess.run(command, cwd=ROOT).returncode


def changed() -> list[str] | None:
    """Return the packages that changed since the last tag; None if there is no tag."""
    tag = subprocess.run(
        ["git", "describe", "--tags", "--abbrev=0"], cwd=ROOT, capture_output=True, text=True
    )
    if tag.returncode:
        return None
    names = subprocess.check_output(
        ["git", "diff", "--name-only", tag.stdout.strip(), "--", "packages"], cwd=ROOT, text=True
    )
    found = {name.split("/")[1] for name in names.split()}
    return sorted(name for name in found if (ROOT / "packages" / name).is_dir())


def main() -> int:
    """Run the packages that were asked for; return 1 if a test failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("packages", nargs="*", metavar="PACKAGE")
    parser.add_argument("--changed", action="store_true")
    asked, options = parser.parse_known_args()
    packages = asked.packages or [path.name for path in sorted(ROOT.glob("packages/*"))]
    if asked.changed:
        since = changed()
        if since is None:
            print("alone: there is no tag yet; `make alone` runs every package")
            return 0
        packages = since
    if not (DIST / "constraints.txt").is_file():
        raise SystemExit("alone: no wheels in dist/: `make wheels` first")
    lines: list[str] = []
    for package in packages:
        started = time.monotonic()
        status = run(package, options)
        result = "passed" if status == 0 else "FAILED"
        lines.append(f"{result} {package} {time.monotonic() - started:.0f} s")
    print("", *lines, sep="\n")
    return any(line.startswith("FAILED") for line in lines)


if __name__ == "__main__":
    sys.exit(main())
