"""The public names of the package can be listed, completed and imported."""

from __future__ import annotations

import ast
import importlib
import inspect
import subprocess
import sys

import pytest

import accord


@pytest.mark.parametrize("name", ["accord", "accord.agent", "accord.v1", "accord.v2"])
def test_every_public_name_is_in_dir_before_its_first_use(name: str) -> None:
    code = f"import {name} as face; print(*dir(face))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(importlib.import_module(name).__all__) - set(done.stdout.split())


@pytest.mark.parametrize("name", ["accord", "accord.agent", "accord.mcp", "accord_trace"])
def test_type_checkers_see_the_names_that_are_imported_lazily(name: str) -> None:
    module = pytest.importorskip(name, reason=f"needs {name}")
    (block,) = (
        node for node in ast.parse(inspect.getsource(module)).body if isinstance(node, ast.If)
    )
    seen: dict[str, str | None] = {}
    for node in block.body:
        assert isinstance(node, ast.ImportFrom)
        for alias in node.names:
            assert alias.asname == alias.name, "only `X as X` says that a name is exported"
            seen[alias.name] = node.module
    assert seen == module._LAZY


def test_every_public_name_can_be_imported() -> None:
    for name in vars(accord)["__all__"]:
        assert getattr(accord, name) is not None


def test_mcp_servers_of_every_transport_are_exported() -> None:
    assert accord.McpServerSse(name="s", url="https://a.example/sse").url == "https://a.example/sse"
