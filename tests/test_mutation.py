"""The measurement of how many small wrong changes the tests notice."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mutants
import mutation
import pytest

from project import ROOT

TOOLS = ROOT / "tools"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs PID namespaces")

SOURCE = '''\
"""A tiny package."""

from __future__ import annotations

LIMIT = 3


def allows(count: int) -> bool:
    """Return whether a count is below the limit."""
    return count < LIMIT


def describe(count: int) -> str:
    if count == 1:
        return "one"
    return "many"


def unused(count: int) -> int:
    return count + 1
'''
NOTICES = """\
from tiny import allows, describe

def test_limit():
    assert allows(2) and not allows(3)

def test_one():
    assert describe(1) == "one"

def test_many():
    describe(2)
"""

# Without the plugins of other packages, which take a second to import, in each of 16 runs.
SETTINGS = """\
[tool.pytest.ini_options]
addopts = ["--disable-plugin-autoload", "-p", "pytest_timeout"]
"""


def changes(text: str) -> set[tuple[int, str, str]]:
    finder = mutants._Finder("a.py", text)
    return {(found.line, found.operator, found.new) for found in finder.run()}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("return a < b", {("comparison", "(a <= b)"), ("returned value", "return None")}),
        ("return a and b", {("boolean", "(a or b)"), ("returned value", "return None")}),
        ("x = not a", {("boolean", "(a)")}),
        ("x = a + 2", {("arithmetic", "(a - 2)"), ("constant", "3")}),
        ("x = True", {("constant", "False")}),
        ("x = 'a'", {("constant", '""')}),
        ("x = f'{a + 1}'", {("constant", '""')}),
        ("a.close()", {("removed statement", "pass")}),
        ("await a.close()", {("removed statement", "pass")}),
        ("a.b = c", {("removed statement", "pass")}),
        ("x = f(a, b=c)", {("removed argument", "f(a)")}),
        ("raise KeyError(a)", {("removed statement", "pass"), ("exception type", "Exception")}),
        ("if a: return", {("condition", "(not (a))")}),
        ("x = [b for b in c if b]", {("condition", "(not (b))")}),
        ("for b in c: break", {("loop", "continue")}),
    ],
)
def test_changes_of_a_line(line: str, expected: set[tuple[str, str]]) -> None:
    found = changes(f"async def f(a, b, c):\n    {line}\n")
    assert {(operator, new) for _, operator, new in found} == expected


def test_except_clauses_lose_one_exception_or_all() -> None:
    text = "def f(a):\n    try:\n        g = a\n    except (KeyError, OSError):\n        g = 0\n"
    assert (4, "exception type", "(OSError,)") in changes(text)
    text = text.replace("(KeyError, OSError)", "KeyError")
    assert (4, "exception type", "ZeroDivisionError") in changes(text)


@pytest.mark.parametrize(
    "text",
    [
        '"""Text."""\n',
        "def f(a: int | None = None) -> 'str':\n    '''Text.'''\n    return\n",
        "if TYPE_CHECKING:\n    x = 1 + 2\n",
        "__all__ = ['a']\n",
        "def f(a):\n    assert a == 1\n",
        "def f(a):\n    _logger.debug('text %d', 1)\n    x = cast('int', a)\n"[:10]
        + "\n    pass\n",
        "Kind = int | str\n",
        "if sys.platform == 'win32':\n    x = 1\nelse:\n    y = z\n",
        "if sys.platform != 'win32':\n    raise ImportError\nx = 1\n",
    ],
)
def test_what_a_reader_or_a_type_checker_uses_is_not_changed(text: str) -> None:
    assert changes(text) == set()


def test_mutants_keep_their_names_and_their_order_when_code_moves() -> None:
    texts = [("a.py", SOURCE)]
    moved = [("b/c.py", f"import os\n\n\n{SOURCE.partition('annotations')[2]}")]
    before = [found.id for found in mutants.mutants(texts, seed=3)]
    assert before == [found.id for found in mutants.mutants(moved, seed=3)]
    assert before != [found.id for found in mutants.mutants(texts, seed=4)]
    lines = [found.line for found in mutants.mutants(texts, seed=3)]
    assert len(lines) == len(set(lines)), "one mutant of a line"


def test_all_mutants_of_a_module_are_valid() -> None:
    text = (TOOLS / "mutants.py").read_text("utf-8")
    found = mutants.mutants([("mutants.py", text)], seed=1)
    assert len(found) > 100
    assert all(mutants.is_valid(text, mutant) for mutant in found)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with a package of which one function is tested well, one half, one not."""
    root = tmp_path / "repository"
    source = root / "packages" / "accord-coder" / "src" / "tiny"
    tests = root / "packages" / "accord-coder" / "tests"
    source.mkdir(parents=True)
    tests.mkdir(parents=True)
    (source / "__init__.py").write_text(SOURCE)
    (tests / "test_tiny.py").write_text(NOTICES)
    (root / "pyproject.toml").write_text(SETTINGS)
    for command in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", *command], cwd=root, check=True)
    return root


@pytest.fixture
def measure(
    repository: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    def run(step: str, *options: str) -> str:
        where = ["--root", str(repository), "--work", str(tmp_path / "work")]
        capfd.readouterr()
        assert mutation.main([step, "--package", "accord-coder", *where, *options]) == 0
        return capfd.readouterr().out

    return run


def results(tmp_path: Path) -> dict[tuple[int, str], dict[str, Any]]:
    lines = (tmp_path / "work" / "accord-coder" / "results.jsonl").read_text().splitlines()
    whole = [json.loads(line) for line in lines if line.endswith("}")]
    return {(one["line"], one["outcome"]): one for one in whole}


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_score_of_a_package(repository: Path, tmp_path: Path, measure: Callable[..., str]) -> None:
    before = {path: path.read_bytes() for path in repository.rglob("*.py")}
    measure("map")
    measure("run", "--count", "2")
    assert len(results(tmp_path)) == 2
    path = tmp_path / "work" / "accord-coder" / "results.jsonl"
    path.write_text(path.read_text() + '{"id": "cut')  # as if it had been killed
    said = measure("run")
    assert "6 mutants, 4 of them to run" in said
    found = results(tmp_path)
    assert {key for key in found if key[0] != 5} == {
        (10, "noticed"), (14, "noticed"), (15, "noticed"), (16, "survived"), (20, "not reached"),
    }  # fmt: skip
    assert found[10, "noticed"]["by"].endswith("test_tiny.py::test_limit")
    assert (5, "noticed") in found, "a constant is reached by all tests of its module"
    assert "| accord-coder | 6 | 4 | 0 | 1 | 1 | 0 | 66.7% |" in said
    assert ":16 " in said
    assert ":20 " in said
    assert before == {path: path.read_bytes() for path in repository.rglob("*.py")}
    assert measure("report") == said[said.index("| package") :]
