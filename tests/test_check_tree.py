"""The check that finds machine-specific content in the repository."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

PATH = Path(__file__).parent.parent / "tools" / "check_tree.py"
_spec = importlib.util.spec_from_file_location("check_tree", PATH)
assert _spec
assert _spec.loader
check_tree = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(check_tree)


@pytest.mark.parametrize(
    "name",
    ["uv.lock", "tests/interop/package-lock.json", "poetry.lock", "yarn.lock", "pnpm-lock.yaml"],
)
def test_lock_file_is_found(name: str) -> None:
    assert list(check_tree.problems(name, ""))


@pytest.mark.parametrize(
    "name", ["packages/accord/src/accord/clock.py", "tests/test_lock_file.py", "docs/lock.md"]
)
def test_other_file_names_pass(name: str) -> None:
    assert not list(check_tree.problems(name, ""))


@pytest.mark.parametrize(
    "line",
    ["cwd = '" + "/ro" + "ot/x'", "open('/t" + "mp/log')", "https:/" + "/packages.invalid/simple"],
)
def test_machine_specific_line_is_found_with_its_number(line: str) -> None:
    (found,) = check_tree.problems("a.py", f"# fine\n{line}\n")
    assert found.startswith("a.py:2: ")


@pytest.mark.parametrize(
    "line",
    [
        "/" + "ho" + "me/you/project",
        "https://example.com/x",
        "ws:" + "//localhost:8080",
        "$HOME" + "/wo" + "rk/a",
    ],
)
def test_example_passes(line: str) -> None:
    assert not list(check_tree.problems("a.py", line))
