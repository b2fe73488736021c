"""Runs the tests of each package against its wheel and what that declares, alone: `make alone`.

For each package, an environment below `build/alone` gets the wheel of `dist/` with its own optional
dependencies, and the tools of the tests. A test file that imports a sibling which the package does
not require is left out and named. `--changed` takes the packages that changed since the last tag.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
SIBLINGS = {path.parent.name for path in ROOT.glob("packages/*/src/*/__init__.py")}
HELPERS = {path.stem: path for path in ROOT.glob("tests/*.py")}
# What the tests need besides the packages, of the group `dev`.
TOOLS = (
    "h2corn", "hypothesis", "jsonschema", "opentelemetry-sdk", "playwright", "pyte", "pytest",
    "pytest-asyncio", "pytest-timeout", "pytest-xdist", "trustme", "uvicorn", "uvloop",
)  # fmt: skip


def project(package: str) -> dict[str, object]:
    """Return the table `project` of a package."""
    path = ROOT / "packages" / package / "pyproject.toml"
    found: dict[str, object] = tomllib.loads(path.read_text("utf-8"))["project"]
    return found


def own_extras(package: str) -> list[str]:
    """Return the extras of a package that need no sibling."""
    table = project(package).get("optional-dependencies", {})
    assert isinstance(table, dict)
    return [name for name, needs in table.items() if not any("accord" in need for need in needs)]


def install(package: str, python: Path) -> None:
    """Install a wheel of `dist/` with its extras, and the tools of the tests."""
    group = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["dependency-groups"]["dev"]
    tools = [need for need in group if re.split(r"[^\w.-]", need, maxsplit=1)[0] in TOOLS]
    # The wheel itself: pip before 24 finds no wheel of the constraints for a name with extras.
    wheel = next(DIST.glob(f"{package.replace('-', '_')}-*.whl"))
    wanted = f"{package}[{','.join(own_extras(package))}] @ {wheel.as_uri()}"
    if python.is_file():
        subprocess.run([sys.executable, "-m", "venv", "--clear", python.parents[1]], check=True)
    environment = os.environ | {"VENV": str(python.parents[1])}
    constraints = str(DIST / "constraints.txt")
    subprocess.run(
        ["sh", "tools/venv.sh", "-c", constraints, wanted, *tools],
        cwd=ROOT, env=environment, check=True,
    )  # fmt: skip


@cache
def imports(path: Path) -> frozenset[str]:
    """Return the siblings that a file of tests imports, directly or through helpers."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        match node:
            case ast.Import(names=names):
                named = [alias.name for alias in names]
            case ast.ImportFrom(module=str(module), level=0):
                named = [module]
            case _:
                continue
        for name in named:
            first, *rest = name.split(".")
            if first == "requirement":  # it does without the kit
                continue
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
    return sorted({name.split("/")[1] for name in names.split()})


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
    failed = [package for package in packages if run(package, options)]
    if failed:
        print(f"alone: failed in {', '.join(failed)}", file=sys.stderr)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
