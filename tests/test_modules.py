"""What modules export, and what importing the library costs."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from public_names import listed

from project import ROOT, SOURCES

ACP_METHOD = re.compile(
    r"(auth|document|elicitation|fs|mcp|nes|providers|proxy|session|terminal|tool_call)/\w+"
    r"|authenticate|initialize|logout"
)
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


def modules() -> Iterator[tuple[str, Path]]:
    """Yield the dotted name of every module with its file."""
    for folder in SOURCES.values():
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(folder.parent).with_suffix("").parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def bound(body: Iterable[ast.stmt]) -> Iterator[str]:
    """Yield the public functions and classes that statements define, inside `if` and `try` too."""
    for node in body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                if not node.name.startswith("_"):
                    yield node.name
            case ast.If() | ast.Try():
                for part in (node, *getattr(node, "handlers", ())):
                    yield from bound(part.body)
                yield from bound(node.orelse)
            case _:
                pass


def wrong_exports(name: str, tree: ast.Module) -> Iterator[str]:
    """Yield what is wrong with `__all__` of a module that has one."""
    try:
        loaded = importlib.import_module(name)
    except ImportError as error:
        if "Windows" not in str(error):
            raise
        return
    exported = getattr(loaded, "__all__", None)
    if not isinstance(exported, tuple):
        yield f"{name} has no tuple __all__"
        return
    if len(exported) != len(set(exported)):
        yield f"{name}: a name is exported twice"
    if missing := sorted(set(bound(tree.body)) - set(exported)):
        yield f"{name}: export them or give them an underscore: {missing}"
    if extra := [one for one in exported if not hasattr(loaded, one)]:
        yield f"{name}: exported, but not there: {extra}"


def test_faces_have_exact_exports() -> None:
    """Faces are packages and the modules that the reference lists; other modules need no list."""
    wrong: list[str] = []
    public, _ = listed(ROOT)
    for name, path in modules():
        source = path.read_bytes()
        is_face = path.name == "__init__.py" or name in public
        if not is_face and b"__all__" not in source:
            continue
        tree = ast.parse(source)
        if (tree.body and is_face) or any(map(assigns_all, tree.body)):
            wrong += wrong_exports(name, tree)
    assert not wrong, "\n".join(wrong)


def assigns_all(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"


def test_wire_and_jsonrpc_contain_no_protocol_method() -> None:
    found = [
        (name, node.value)
        for name, path in modules()
        if name.startswith(("accord.wire", "accord.jsonrpc"))
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and ACP_METHOD.fullmatch(node.value)
    ]
    assert not found


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
