"""The structure of the packages: layers, sizes, exports, and what importing them costs."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

import layers
from layers import PAGES, PURE, SEAMS, may_import, page_with_table, unit
from modules import ROOT, SOURCES, Module, arrows, bound, cycles, read

MODULES = {name: module for folder in SOURCES.values() for name, module in read(folder).items()}


@cache
def every_arrow() -> dict[str, set[str]]:
    """Return what each module imports; only the tests that ask pay for reading it."""
    return arrows(MODULES)


def EVERY(test: Callable[[Module], None]) -> Callable[[], None]:  # noqa: N802  # reads as a mark
    """Run a test on all modules at once: they are many, and each check is fast."""

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


# Imports that point upward, and packages with cycles of imports for types. Remove what is fixed;
# add nothing.
STILL_UPWARD: set[tuple[str, str]] = set()
# Packages of extras, which only the programs that need them may import.
EXTRAS = {
    "accord.agent.store.postgres": {"asyncpg"},
    "accord.mcp.consumer_connections": {"httpx2", "mcp"},
    "accord.mcp.consumer_transport": {"anyio", "mcp", "pydantic"},
    "accord.mcp.forwarding": {"mcp"},
    "accord.mcp.http_bridge": {"mcp", "uvicorn"},
    "accord.mcp.lifespan": {"mcp"},
    "accord.mcp.server_backend": {"anyio", "mcp", "pydantic"},
    "accord.mcp.servers": {"mcp", "pydantic"},
    "accord.mcp.stdio_bridge": {"anyio", "mcp", "pydantic"},
    "accord.remote.http2_streams": {"h2", "hypercorn", "priority"},
    "accord.remote.listener": {"hypercorn"},
    "accord.remote.listener_socket": {"websockets"},
    "accord.remote.telemetry": {"opentelemetry"},
    "accord.remote.server": {"hypercorn"},
    "accord_trace.json_path": {"jsonpath_rfc9535"},
    "accord_trace.otlp_sender": {"opentelemetry"},
    "accord.transports.http1": {"h11"},
    "accord.transports.http2": {"h2"},
    "accord.transports.http_proxied": {"httpx2"},
    "accord.transports.websocket": {"websockets"},
    "accord.transports.websocket_base": {"websockets"},
    "accord.transports.websocket_frames": {"websockets"},
    "accord.text.markdown_html": {"markdown_it"},
    "accord.program": {"click"},  # for types
    "accord_terminal": {"click", "filelock", "markdown_it", "platformdirs", "rich"},
    "accord_coder.completion": {"click"},
    "accord_conformance.cli": {"click", "rich"},
    "accord_conformance.network.raw_socket": {"websockets"},
    "accord_conformance.pytest_plugin": {"pytest"},
    "accord_chat": {
        "PIL",
        "click",
        "filelock",
        "platformdirs",
        "rich",
        "textual",
    },
    "accord_fleet.progress": {"rich"},
    "accord_fleet.report.terminal": {"rich"},
    "accord_fleet.command": {"click"},
    "accord_fleet.gateway": {"httpx2"},
    "accord_fleet.process_watcher": {"psutil"},
    "accord_fleet.engines.ray_files": {"filelock"},
    "accord_fleet.descendants": {"psutil"},
    "accord_inspector": {"click", "jsonpath_rfc9535", "psutil", "starlette"},
    "accord_fleet.workspaces.git_mirrors": {"filelock", "platformdirs"},
    "accord_fleet.scratch": {"filelock"},
    "accord_fleet.dataset.dataset": {"pyarrow"},
    "accord_fleet.dataset.lock": {"filelock", "psutil"},
    "accord_fleet.dataset.rows": {"pyarrow"},
    "accord_fleet.dataset.segments": {"pyarrow"},
    "accord_fleet.dataset.status": {"pyarrow"},
    "accord_fleet.dataset.storage_fsspec": {"fsspec"},
    "accord_fleet.tasks.parquet_rows": {"pyarrow"},
    "accord_conformance.pytest_entry": {"pytest"},
    "accord_coder": {
        "filelock",
        "httpx2",
        "keyring",
        "mcp",
        "platformdirs",
        "pydantic_ai",
        "tomlkit",
    },
}
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
# A file over 500 lines needs a reason.
LONG_FOR_A_REASON: dict[str, str] = {
    "accord/text/secret_places.py": "one walk: values, command lines and texts contain each other",
    "accord_conformance/agent/run.py": "one run: versions, connections, scenarios, outcomes",
    "accord/client/connect.py": "one subject: the connection to an agent, and the agent",
    "accord/testing.py": "the contracts of transports and of stores: a list of tests",
}
# Modules that are slow to import and that an agent does not need at its start.
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


def package(name: str) -> str:
    """Return the package of a module, or its folder in `accord`."""
    first, _, rest = name.partition(".")
    return f"accord.{rest.partition('.')[0]}" if first == "accord" and rest else first


@EVERY
def test_module_is_in_the_table_of_layers(module: Module) -> None:
    try:
        unit(module.name)
    except LookupError as error:
        raise AssertionError(*error.args) from None


def test_imports_point_downward() -> None:
    upward = {
        (name, target)
        for name, targets in every_arrow().items()
        for target in targets
        if not may_import(name, target)
    }
    assert upward == STILL_UPWARD


def test_no_cycle_of_imports_at_run_time() -> None:
    assert cycles(arrows(MODULES, for_types=False)) == []


def test_no_cycle_of_imports_for_types() -> None:
    assert cycles(every_arrow()) == []


def test_top_level_of_accord_contains_only_these() -> None:
    top = {path.stem for path in SOURCES["accord"].glob("*.py")}
    assert top == {
        "__init__",
        "__main__",
        "errors",
        "installed",
        "program",
        "version",
        "schema",
        "testing",
    }


def test_accord_does_not_import_the_packages_built_on_it() -> None:
    above = {
        (name, package(target))
        for name, targets in every_arrow().items()
        for target in targets
        if name.partition(".")[0] == "accord" != target.partition(".")[0]
    }
    assert not above


NES = "accord_conformance.nes"


def test_nothing_imports_the_folder_of_nes() -> None:
    importers = {
        name
        for name, targets in every_arrow().items()
        for target in targets
        if target.startswith("accord_conformance.nes")
        and not name.startswith("accord_conformance.nes")
    }
    assert not importers


def test_imports_inside_functions_are_in_the_seams() -> None:
    lazy = {module.name for module in MODULES.values() if any(module.lazy())}
    assert lazy == SEAMS.keys(), "import at the top of the module, or in a seam"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_page_shows_the_table_of_layers(page: Path) -> None:
    text = page.read_text("utf-8")
    assert text == page_with_table(text), "run `make reference`"


@EVERY
def test_values_and_rules_do_no_io(module: Module) -> None:
    if any(unit(module.name) in layer.units for layer in PURE):
        # The parser of URLs does no I/O.
        names = (name for name in module.imports() if not name.startswith("urllib.parse"))
        assert not {name.partition(".")[0] for name in names} & OUTSIDE_WORLD


@EVERY
def test_msgspec_is_the_only_dependency(module: Module) -> None:
    tops = {target.partition(".")[0] for target in module.imports()}
    for name, extra in EXTRAS.items():
        if module.name == name or module.name.startswith(f"{name}."):
            tops -= extra
    # Only type checkers import typing_extensions; `.ci/run` imports the wheel without it.
    own = {name.partition(".")[0] for name in MODULES}
    allowed = {"msgspec", "typing_extensions", "__future__"}
    assert not tops - own - allowed - sys.stdlib_module_names


@EVERY
def test_wire_and_jsonrpc_contain_no_protocol_method(module: Module) -> None:
    if package(module.name) in {"accord.wire", "accord.jsonrpc"}:
        assert not [text for text in strings(module) if ACP_METHOD.fullmatch(text)]


@EVERY
def test_file_is_not_too_long(module: Module) -> None:
    lines = module.text.count("\n")
    name = module.path.relative_to(ROOT).as_posix().partition("/src/")[2]
    assert lines <= MOST_LINES
    assert lines <= 500 or name in LONG_FOR_A_REASON, f"{name}: {lines} lines"


@EVERY
def test_module_has_a_docstring_with_one_summary_line(module: Module) -> None:
    if module.is_empty:
        return
    first = (first_docstring(module) or "").partition("\n")[0]
    assert re.fullmatch(r"[\"A-Z`0-9].*[.:]", first), f"{module.name}: {first!r}"


@EVERY
def test_exports_are_exact(module: Module) -> None:
    if module.is_empty or not module.is_public or module.name == "accord_conformance.pytest_entry":
        return  # pytest finds its hooks by their names
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
def test_import_loads_msgspec_and_nothing_heavy(name: str) -> None:
    code = (
        "import sys; before = set(sys.modules)\n"
        f"import {name}\n"
        "print(*sorted(set(sys.modules) - before), sep='\\n')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    tops = {name.partition(".")[0] for name in loaded}
    # msgspec imports typing_extensions if it is installed.
    assert tops - sys.stdlib_module_names <= {"accord", "msgspec", "typing_extensions"}
    assert not loaded & HEAVY


def test_every_cycle_is_found() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"e", "a"}, "e": {"d"}, "f": {"f"}}
    assert cycles(graph) == [["b", "c"], ["d", "e"]]


def test_exact_and_longest_names_decide_the_unit() -> None:
    assert unit("accord.v1") == unit("accord.v1.roles") != unit("accord.v1.session")
    assert may_import("accord.v1.roles", "accord.roles.binding")
    assert not may_import("accord.v1.session", "accord.roles.binding")
    assert not may_import("accord.v1.session", "accord.v2.session")
    assert not may_import("accord.agent.agent", "accord")
    with pytest.raises(LookupError):
        unit("accord.unheard_of")


def test_only_the_text_between_the_marks_is_generated() -> None:
    page = f"before\n{layers.START}\nold\n{layers.END}\nafter\n"
    new = page_with_table(page)
    assert new.startswith("before\n")
    assert new.endswith("after\n")
    assert "`accord/roles/`" in new
    assert "old" not in new
    with pytest.raises(ValueError, match="exactly once"):
        page_with_table("no marks")


def test_every_import_inside_a_function_is_found(tmp_path: Path) -> None:
    package = tmp_path / "accord"
    package.mkdir()
    (package / "some.py").write_text(
        "import importlib, json\n"
        "class A:\n    import os\n    def a(self):\n        import re\n"
        "async def b():\n    def c():\n        from json import dumps\n"
        "def d(name):\n    return importlib.import_module(name)\n"
        "def f():\n    return json.loads('1')\n"
    )
    some = read(tmp_path / "accord")["accord.some"]
    assert len(list(some.lazy())) == 3


def test_imports_in_functions_and_for_types_are_counted(tmp_path: Path) -> None:
    package = tmp_path / "accord"
    package.mkdir()
    (package / "low.py").write_text("")
    (package / "high.py").write_text(
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    from accord import low\n"
        "def later():\n    import accord.other\n"
    )
    (package / "other.py").write_text("")
    modules = read(tmp_path / "accord")
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
