"""Reads the modules of the package and what they import, without running them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCES = {
    path.name: path
    for path in sorted(ROOT.glob("packages/*/src/*"))
    if (path / "__init__.py").exists()
}
"""The folder of each import package."""


@dataclass(frozen=True)
class Module:
    """One file of the package."""

    name: str
    path: Path

    @cached_property
    def text(self) -> str:
        return self.path.read_text("utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, str(self.path))

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"

    @property
    def is_public(self) -> bool:
        return not any(part.startswith("_") for part in self.name.split("."))

    @property
    def is_empty(self) -> bool:
        """Whether the file only creates the package."""
        return not self.tree.body

    def imports(self, *, for_types: bool = True) -> Iterator[str]:
        """Yield the dotted name of every import; `for_types` adds those for type checkers."""
        for node in statements(self.tree.body, for_types=for_types):
            match node:
                case ast.Import(names=names):
                    yield from (alias.name for alias in names)
                case ast.ImportFrom(level=0, module=str(module), names=names):
                    yield module
                    yield from (f"{module}.{alias.name}" for alias in names)
                case ast.ImportFrom():
                    raise AssertionError(f"{self.name}: relative import, line {node.lineno}")
                case _:
                    pass

    def lazy(self) -> Iterator[ast.AST]:
        """Yield every import inside a function, by name or by a table of names."""
        functions = (ast.FunctionDef, ast.AsyncFunctionDef)
        outer = [node for node in statements(self.tree.body) if isinstance(node, functions)]
        found = {
            id(node): node
            for function in outer
            for node in ast.walk(function)
            if isinstance(node, ast.Import | ast.ImportFrom) or _imports_by_name(node)
        }
        yield from found.values()


def statements(body: Iterable[ast.stmt], *, for_types: bool = True) -> Iterator[ast.stmt]:
    """Yield statements and nested ones; `for_types` adds those for type checkers only."""
    for node in body:
        if (
            not for_types
            and isinstance(node, ast.If)
            and isinstance(node.test, ast.Name)
            and node.test.id == "TYPE_CHECKING"
        ):
            yield from statements(node.orelse, for_types=for_types)
            continue
        yield node
        for field in ("body", "orelse", "finalbody"):
            yield from statements(getattr(node, field, ()), for_types=for_types)
        for part in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
            yield from statements(part.body, for_types=for_types)


def read(folder: Path) -> dict[str, Module]:
    """Return the modules of the folder of an import package by dotted name."""
    found: dict[str, Module] = {}
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = Module(name, path)
    return found


def arrows(modules: dict[str, Module], *, for_types: bool = True) -> dict[str, set[str]]:
    """Return for each module the modules of the same package that it imports."""
    return {
        name: {
            target
            for target in module.imports(for_types=for_types)
            if target in modules and target != name
        }
        - _only_passed_through(module, modules)
        for name, module in modules.items()
    }


def cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Return the groups of modules that import each other, directly or through others.

    These are the strongly connected components with more than one member, by Tarjan's algorithm.
    """
    index: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        index[name] = lowest[name] = len(index)
        stack.append(name)
        for target in sorted(graph.get(name, ())):
            if target not in index:
                visit(target)
                lowest[name] = min(lowest[name], lowest[target])
            elif target in stack:
                lowest[name] = min(lowest[name], index[target])
        if lowest[name] == index[name]:
            start = stack.index(name)
            if len(stack) - start > 1:
                found.append(sorted(stack[start:]))
            del stack[start:]

    for name in sorted(graph):
        if name not in index:
            visit(name)
    return sorted(found)


def _only_passed_through(module: Module, modules: dict[str, Module]) -> set[str]:
    """Return the packages that a module names only on the way to a submodule.

    `from accord import v1` names `accord` on the way to `accord.v1`.
    """
    packages: set[str] = set()
    used: set[str] = set()
    for node in statements(module.tree.body):
        if isinstance(node, ast.ImportFrom) and node.module in modules:
            targets = {f"{node.module}.{alias.name}" for alias in node.names}
            (packages if targets <= modules.keys() else used).add(node.module)
        elif isinstance(node, ast.Import):
            used.update(alias.name for alias in node.names)
    return packages - used


def _imports_by_name(node: ast.AST) -> bool:
    """Return whether a node calls `import_module` or loads an entry point."""
    if not isinstance(node, ast.Call):
        return False
    name = getattr(node.func, "id", getattr(node.func, "attr", ""))
    return name in ("import_module", "__import__", "entry_points")


def bound(body: Iterable[ast.stmt]) -> Iterator[str]:
    """Yield the public functions and classes that statements define, inside `if` and `try` too."""
    for node in body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                if not name.startswith("_"):
                    yield name
            case ast.ClassDef(name=name):
                if not name.startswith("_"):
                    yield name
            case ast.If(body=first, orelse=second):
                yield from bound(first)
                yield from bound(second)
            case ast.Try(body=first, handlers=handlers, orelse=second):
                yield from bound(first)
                for handler in handlers:
                    yield from bound(handler.body)
                yield from bound(second)
            case _:
                pass
