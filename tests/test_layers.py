"""The shape of the package: layers, sizes, exports, and what importing it costs."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from modules import SOURCE, Module, arrows, bound, circle, read

MODULES = {
    name: module
    for package in ("accord", "accord_coder", "accord_conformance")
    for name, module in read(SOURCE, package).items()
}
ARROWS = arrows(MODULES)


def EVERY(test: Callable[[Module], None]) -> Callable[[], None]:  # noqa: N802  # reads as a mark
    """Let a test look at every module, in one go: they are many, and it is quick."""

    def every() -> None:
        found: list[str] = []
        for module in MODULES.values():
            try:
                test(module)
            except AssertionError as error:
                found.append(f"{module.name}: {error}")
        assert not found, "\n".join(found)

    every.__name__ = test.__name__
    return every


# What of v1 and v2 is no type.
ROLES = ("spec", "remote", "roles")
# The longest prefix decides; a module that none of them covers fails the test.
LAYERS = {
    "accord": 8,
    "accord.errors": 0,
    "accord.version": 0,
    "accord.text": 0,
    "accord.rules.quirks": 0,  # data
    "accord.wire": 1,
    "accord.jsonrpc": 1,
    "accord.v1": 2,
    "accord.v2": 2,
    "accord.rules": 3,
    "accord.connection": 4,
    "accord.transports": 4,
    "accord.roles": 4,
    **{f"accord.{version}.{name}": 5 for version in ("v1", "v2") for name in ROLES},
    "accord.local": 6,
    "accord.types": 6,
    "accord.agent": 6,
    "accord.client": 6,
    "accord.testing": 6,
    "accord.schema": 7,
    # What is written with `from accord import …` is above that module.
    "accord.script_agent": 9,
    "accord_coder": 9,
    "accord_conformance": 9,
    "accord_conformance.pytest_plugin": 9,
    "accord.cli": 10,
    "accord_conformance.cli": 10,
    "accord.__main__": 10,
}
# What an extra installs, for the programs that need it and nothing else.
EXTRAS = {
    "accord.cli": {"click", "markdown_it", "platformdirs", "rich"},
    "accord_conformance.cli": {"click", "rich"},
    "accord_conformance.pytest_plugin": {"pytest"},
    "accord_coder": {"httpx", "httpx2", "keyring", "mcp", "pydantic_ai"},
}
# `accord.v1` and `accord.v2` export types and roles together, so they are where the roles are.
FACES = {"accord.v1": 5, "accord.v2": 5}
# On one layer, but strangers to each other.
STRANGERS = [{"accord.wire", "accord.jsonrpc"}, {"accord.v1", "accord.v2"}]
OUTSIDE_WORLD = {
    "asyncio",
    "concurrent",
    "http",
    "logging",
    "multiprocessing",
    "select",
    "selectors",
    "signal",
    "socket",
    "ssl",
    "subprocess",
    "threading",
    "urllib",
}
ACP_METHOD = re.compile(
    r"(auth|document|elicitation|fs|mcp|nes|providers|proxy|session|terminal|tool_call)/\w+"
    r"|authenticate|initialize|logout"
)
MOST_LINES = 800
# Over 500 lines needs a reason.
LONG_FOR_A_REASON: dict[str, str] = {
    "accord/cli/rich_screen.py": "one line or two over: to be split",
    "accord_conformance/client/agent.py": "one line or two over: to be split",
    "accord/v1/__init__.py": "a list of names, nothing else",
    "accord/v2/__init__.py": "a list of names, nothing else",
}
# Slow to import and of no use to an agent that an editor has just started.
HEAVY = {
    "argparse",
    "email",
    "http.client",
    "multiprocessing",
    "sqlite3",
    "unittest",
    "urllib.request",
    "xml",
}


def layer(name: str) -> int:
    """Return the layer of a module."""
    if name in FACES:
        return FACES[name]
    prefix = unit(name)
    if prefix == "accord" != name:
        raise AssertionError(f"{name} is on no layer: add it to LAYERS")
    return LAYERS[prefix]


def unit(name: str) -> str:
    """Return the longest prefix of a module that stands on a layer of its own."""
    while name not in LAYERS:
        name = name.rpartition(".")[0]
    return name


def package(name: str) -> str:
    """Return the first two parts of a name."""
    return ".".join(name.split(".")[:2])


@EVERY
def test_module_imports_only_downward(module: Module) -> None:
    for target in ARROWS[module.name]:
        assert layer(target) <= layer(module.name), f"{module.name} imports {target}"


def test_no_circle_of_imports() -> None:
    # Types may name each other within a layer; what runs may not wait for itself.
    assert circle(arrows(MODULES, for_types=False)) is None


@pytest.mark.parametrize("pair", STRANGERS, ids=lambda pair: " and ".join(sorted(pair)))
def test_strangers_do_not_import_each_other(pair: set[str]) -> None:
    for name, targets in ARROWS.items():
        here = package(name)
        there = set(map(package, targets))
        if here in pair:
            assert not there & (pair - {here}), f"{name} imports {targets}"


@EVERY
def test_values_and_rules_do_not_touch_the_outside_world(module: Module) -> None:
    if layer(module.name) <= 3:
        tops = {target.partition(".")[0] for target in module.imports()}
        assert not tops & OUTSIDE_WORLD


@EVERY
def test_only_msgspec_is_needed(module: Module) -> None:
    tops = {target.partition(".")[0] for target in module.imports()}
    tops -= EXTRAS.get(unit(module.name), set())
    # typing_extensions is for type checkers alone; `.ci/run` imports the wheel without it.
    allowed = {
        "accord",
        "accord_coder",
        "accord_conformance",
        "msgspec",
        "typing_extensions",
        "__future__",
    }
    assert not tops - allowed - sys.stdlib_module_names


@EVERY
def test_wire_and_jsonrpc_know_no_method_of_the_protocol(module: Module) -> None:
    if unit(module.name) in {"accord.wire", "accord.jsonrpc"}:
        assert not [text for text in strings(module) if ACP_METHOD.fullmatch(text)]


@EVERY
def test_file_is_read_in_one_sitting(module: Module) -> None:
    lines = module.text.count("\n")
    name = module.path.relative_to(SOURCE).as_posix()
    assert lines <= MOST_LINES
    assert lines <= 500 or name in LONG_FOR_A_REASON, f"{name}: {lines} lines"


@EVERY
def test_module_says_in_one_line_what_it_is(module: Module) -> None:
    if module.is_empty:
        return
    first = (first_docstring(module) or "").partition("\n")[0]
    assert re.fullmatch(r"[\"A-Z`0-9].*[.:]", first), f"{module.name}: {first!r}"


@EVERY
def test_exports_are_exact(module: Module) -> None:
    if module.is_empty or not module.is_public:
        return
    try:
        loaded = importlib.import_module(module.name)
    except ImportError as error:
        if "Windows" not in str(error):
            raise
        return
    exported = getattr(loaded, "__all__", None)
    assert isinstance(exported, tuple), f"{module.name} has no tuple __all__"
    assert len(exported) == len(set(exported))
    missing = sorted(set(bound(module.tree.body)) - set(exported))
    assert not missing, f"{module.name}: export them or give them an underscore: {missing}"
    extra = [name for name in exported if not hasattr(loaded, name)]
    assert not extra


@pytest.mark.parametrize("name", ["accord", "accord.v1", "accord.v2"])
def test_import_brings_msgspec_and_nothing_heavy(name: str) -> None:
    code = (
        "import sys; before = set(sys.modules)\n"
        f"import {name}\n"
        "print(*sorted(set(sys.modules) - before), sep='\\n')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    tops = {name.partition(".")[0] for name in loaded}
    # msgspec itself loads typing_extensions where it is installed.
    assert tops - sys.stdlib_module_names <= {"accord", "msgspec", "typing_extensions"}
    assert not loaded & HEAVY


def test_circle_is_found_and_named() -> None:
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]


def test_imports_in_functions_and_for_types_count(tmp_path: Path) -> None:
    package = tmp_path / "accord"
    package.mkdir()
    (package / "low.py").write_text("")
    (package / "high.py").write_text(
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    from accord import low\n"
        "def later():\n    import accord.other\n"
    )
    (package / "other.py").write_text("")
    modules = read(tmp_path)
    assert arrows(modules)["accord.high"] == {"accord.low", "accord.other"}
    assert arrows(modules, for_types=False)["accord.high"] == {"accord.other"}


def strings(module: Module) -> list[str]:
    """Return the string constants of a module."""
    return [
        node.value
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]


def first_docstring(module: Module) -> str | None:
    """Return the docstring of a module."""
    return ast.get_docstring(module.tree)
