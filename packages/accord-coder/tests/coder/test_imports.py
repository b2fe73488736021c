"""Imports of the coder: only public names of Accord, and no cycles."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import accord_coder

ROOT = Path(accord_coder.__file__).parent
# The packages with public modules, and their public names.
PUBLIC_PACKAGES = ("accord.types", "accord.local", "accord.text")
PUBLIC_MODULES = (
    "accord",
    "accord.agent",
    "accord.errors",
    "accord.installed",
    "accord.mcp",
    "accord.program",  # for the entry points of programs
    "accord.script_agent.agent",  # the other agent of `accord agent`
)


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): ast.parse(path.read_text("utf-8")) for path in ROOT.rglob("*.py")}


def imports(tree: ast.AST, *, of: str) -> Iterator[tuple[str, str]]:
    """Yield module and name of each import from a package."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names):
                for alias in names:
                    if alias.name.split(".")[0] == of:
                        yield alias.name, ""
            case ast.ImportFrom(module=str() as module, names=names):
                if module.split(".")[0] == of:
                    for alias in names:
                        yield module, alias.name
            case _:
                pass


def test_only_public_names_of_accord_are_imported() -> None:
    for tree in MODULES.values():
        for source, name in imports(tree, of="accord"):
            package = ".".join(source.split(".")[:2])
            assert source in PUBLIC_MODULES or package in PUBLIC_PACKAGES, (source, name)
            found = importlib.import_module(source)
            public = getattr(found, "__all__", None) or [
                one for one in vars(found) if one[0] != "_"
            ]
            assert name in public, (source, name)


def test_private_attributes_of_accord_are_not_used() -> None:
    for module, tree in MODULES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr.startswith("_"):
                owner = ast.unparse(node.value)
                own = owner in ("self", "os", "url", "message", "building")
                assert own or node.attr.startswith("__"), f"{module}: {owner}.{node.attr}"


def test_no_import_cycles_exist_even_for_types() -> None:
    edges: dict[str, set[str]] = {}
    for module, tree in MODULES.items():
        edges[module] = {
            f"{source}.{name}" if f"{source}.{name}" in MODULES else source
            for source, name in imports(tree, of="accord_coder")
        } - {module}
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, " -> ".join((*path[path.index(module) :], module))
        if module not in done:
            for target in sorted(edges[module]):
                visit(target, (*path, module))
            done.add(module)

    for module in MODULES:
        visit(module, ())
