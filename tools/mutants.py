"""Finds small wrong changes that could be made to Python files, and puts them in a fixed order.

A line has at most one mutant. Names and order follow from the seed and the text of the line with
its function, not from files and line numbers: after a move of code the same mutants come first.
Any number of mutants from the beginning is a random sample of the lines.
"""

from __future__ import annotations

import ast
import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE,
    ast.GtE: ast.Gt, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
# Assignments that only name things, and calls and arguments that are for readers or type checkers.
NAMES_ONLY = {"__all__", "__slots__", "__match_args__"}
FOR_TYPES = {"cast", "TypeVar", "ParamSpec", "NewType", "getLogger", "assert_never", "reveal_type"}
LOGS = {"debug", "info", "warning", "error", "exception", "log"}
FOR_READERS = {"help", "short_help", "epilog", "metavar"}
MAKES_OBJECTS = {"__init__", "__new__", "__post_init__", "__setattr__"}
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Mutant:
    """One change: the bytes from `start` to `end` of a file become `new`."""

    file: str
    line: int
    first: int
    """The first and the last line whose execution reaches the mutant."""
    last: int
    function: str
    """The names of the classes and functions around it; empty at the level of the module."""
    at_import: bool
    """Whether the line runs when the module is imported, not when a function is called."""
    operator: str
    old: str
    new: str
    start: int
    end: int
    id: str = ""

    def record(self) -> dict[str, Any]:
        """Return the fields that results contain."""
        fields = asdict(self)
        return {
            name: fields[name]
            for name in ("id", "file", "line", "function", "operator", "old", "new")
        }


def mutants(files: Iterable[tuple[str, str]], seed: int) -> list[Mutant]:
    """Return a mutant for each line that can have one, in the order of the seed.

    `files` are paths with their texts. Mutants that are not valid Python are left out.
    """
    seen: Counter[str] = Counter()
    found: list[tuple[str, Mutant]] = []
    for file, text in sorted(files):
        by_line: dict[int, tuple[str, Mutant]] = {}
        for mutant in _Finder(file, text).run():
            line = text.splitlines()[mutant.line - 1].strip()
            parts = (mutant.function, line, mutant.operator, mutant.old, mutant.new)
            content = "\0".join(parts)
            seen[content] += 1
            name = _hash(f"{content}\0{seen[content]}")[:12]
            key = _hash(f"{seed}\0{name}")
            if mutant.line not in by_line or key < by_line[mutant.line][0]:
                by_line[mutant.line] = (key, replace(mutant, id=name))
        found += by_line.values()
    return [mutant for _, mutant in sorted(found, key=lambda pair: pair[0])]


def is_valid(text: str, mutant: Mutant) -> bool:
    """Return whether the mutated file compiles."""
    try:
        compile(apply(text, mutant), mutant.file, "exec")
    except (SyntaxError, ValueError):
        return False
    return True


def apply(text: str, mutant: Mutant) -> str:
    """Return the mutated text of the file."""
    data = text.encode()
    return (data[: mutant.start] + mutant.new.encode() + data[mutant.end :]).decode()


def read(root: Path, names: Iterable[str]) -> list[tuple[str, str]]:
    """Return paths with texts."""
    return [(name, (root / name).read_text("utf-8")) for name in names]


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


class _Finder:
    """Walks through one file and collects its mutants."""

    def __init__(self, file: str, text: str) -> None:
        self._file = file
        self._data = text.encode()
        self._tree = ast.parse(text)
        self._starts = [0]
        for line in self._data.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._names: list[str] = []
        self._in_function = False
        self._makes_object = False
        self._reach = (1, 1)
        self._found: list[Mutant] = []

    def run(self) -> list[Mutant]:
        if not any(_refuses_all_but_windows(statement) for statement in self._tree.body):
            self._body(self._tree.body)
        return self._found

    # Statements.

    def _body(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            if not _is_text(statement):
                self._statement(statement)

    def _statement(self, node: ast.stmt) -> None:
        bodies = [
            part for name in ("body", "orelse", "finalbody") if (part := getattr(node, name, None))
        ]
        last = node.end_lineno or node.lineno
        if bodies or isinstance(node, ast.Match):
            inner = node.cases[0].pattern if isinstance(node, ast.Match) else bodies[0][0]
            last = max(node.lineno, inner.lineno - 1)
        self._reach = (node.lineno, last)
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._function(node)
                return
            case ast.ClassDef():
                self._names.append(node.name)
                outer, self._in_function = self._in_function, False
                self._body(node.body)
                self._in_function = outer
                self._names.pop()
                return
            case ast.Assert() | ast.Import() | ast.ImportFrom() | ast.Global() | ast.Nonlocal():
                return
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                self._body(node.orelse)
                return
            case ast.If(test=test) if (other := _is_windows(test)) is not None:
                self._body(node.orelse if other else node.body)
                return
            case ast.If(test=test) | ast.While(test=test):
                self._negated(test, "condition")
            case ast.Assign(targets=[ast.Name(id=name)]) if name in NAMES_ONLY:
                return
            case ast.AnnAssign(value=value):
                if value is not None:
                    self._expression(value)
                return
            case ast.Expr(value=value):
                call = value.value if isinstance(value, ast.Await) else value
                if isinstance(call, ast.Call) and not _is_for_types(call):
                    self._add(node, "removed statement", "pass")
            case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]) | ast.Delete():
                if self._in_function and not self._makes_object:
                    self._add(node, "removed statement", "pass")
            case ast.AugAssign(op=op):
                self._add(node, "removed statement", "pass")
                if other := ARITHMETIC.get(type(op)):
                    changed = copy(node)
                    changed.op = other()
                    self._add(node, "arithmetic", ast.unparse(changed))
            case ast.Return(value=value):
                if value is not None and not isinstance(value, ast.Constant):
                    self._add(node, "returned value", "return None")
            case ast.Raise(exc=exception):
                self._add(node, "removed statement", "pass")
                name = exception.func if isinstance(exception, ast.Call) else exception
                if isinstance(name, ast.Name | ast.Attribute) and _last(name)[:1].isupper():
                    self._add(name, "exception type", "Exception")
            case ast.Continue():
                self._add(node, "loop", "break")
            case ast.Break():
                self._add(node, "loop", "continue")
            case _:
                pass
        self._children(node)

    def _function(self, node: Function) -> None:
        for default in (*node.args.defaults, *filter(None, node.args.kw_defaults)):
            self._expression(default)
        if any(_last(mark) == "overload" for mark in node.decorator_list):
            return
        outer = self._in_function, self._makes_object
        self._names.append(node.name)
        self._in_function, self._makes_object = True, node.name in MAKES_OBJECTS
        self._body(node.body)
        self._names.pop()
        self._in_function, self._makes_object = outer

    def _children(self, node: ast.AST) -> None:
        reach = self._reach
        for name, value in ast.iter_fields(node):
            if name in ("body", "orelse", "finalbody") and isinstance(value, list):
                self._body(value)
                self._reach = reach
                continue
            for child in value if isinstance(value, list) else [value]:
                match child:
                    case ast.expr():
                        self._expression(child)
                    case ast.ExceptHandler():
                        self._handler(child)
                    case ast.match_case():
                        self._reach = (child.pattern.lineno, child.pattern.end_lineno or 1)
                        if child.guard is not None:
                            self._negated(child.guard, "condition")
                            self._expression(child.guard)
                        self._body(child.body)
                    case ast.AST():
                        self._children(child)
                    case _:
                        pass
                self._reach = reach

    def _handler(self, node: ast.ExceptHandler) -> None:
        self._reach = (node.lineno, node.lineno)
        match node.type:
            case None:
                pass
            case ast.Tuple(elts=elements) if len(elements) > 1:
                for element in elements:
                    kept = ", ".join(
                        ast.unparse(other) for other in elements if other is not element
                    )
                    self._add(node.type, "exception type", f"({kept},)")
            case kind:
                self._add(kind, "exception type", "ZeroDivisionError")
        self._body(node.body)

    # Expressions.

    def _expression(self, node: ast.expr) -> None:
        match node:
            case ast.Compare(ops=ops):
                for index, op in enumerate(ops):
                    changed = copy(node)
                    changed.ops = [*ops[:index], COMPARISONS[type(op)](), *ops[index + 1 :]]
                    self._change(node, "comparison", changed)
            case ast.BoolOp(op=op):
                changed = copy(node)
                changed.op = ast.Or() if isinstance(op, ast.And) else ast.And()
                self._change(node, "boolean", changed)
            case ast.UnaryOp(op=ast.Not() | ast.USub() as op, operand=operand):
                self._change(node, "boolean" if isinstance(op, ast.Not) else "arithmetic", operand)
            case ast.BinOp(op=op):
                is_type = isinstance(op, ast.BitOr) and not self._in_function
                if (other := ARITHMETIC.get(type(op))) and not is_type:
                    changed = copy(node)
                    changed.op = other()
                    self._change(node, "arithmetic", changed)
                if is_type:
                    return
            case ast.IfExp(test=test):
                self._negated(test, "condition")
            case ast.Constant(value=value):
                self._constant(node, value)
            case ast.JoinedStr():
                self._add(node, "constant", '""')
                return
            case ast.Call():
                self._call(node)
                return
            case ast.Lambda(body=body):
                outer, self._in_function = self._in_function, True
                self._expression(body)
                self._in_function = outer
                return
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                for loop in node.generators:
                    for test in loop.ifs:
                        self._negated(test, "condition")
            case _:
                pass
        self._children(node)

    def _call(self, node: ast.Call) -> None:
        name = _last(node.func)
        if _is_for_types(node) or (name in LOGS and "log" in ast.unparse(node.func)):
            return
        for keyword in node.keywords:
            if keyword.arg and keyword.arg not in FOR_READERS:
                changed = copy(node)
                changed.keywords = [other for other in node.keywords if other is not keyword]
                self._add(node, "removed argument", ast.unparse(changed), line=keyword.value.lineno)
        self._expression(node.func)
        for argument in node.args:
            self._expression(argument)
        for keyword in node.keywords:
            if keyword.arg not in FOR_READERS:
                self._expression(keyword.value)

    def _constant(self, node: ast.Constant, value: object) -> None:
        match value:
            case bool():
                new = repr(not value)
            case int():
                new = repr(value + 1)
            case float():
                new = repr(value * 2 or 1.0)
            case str():
                new = '""' if value else '"mutant"'
            case bytes():
                new = 'b""' if value else 'b"mutant"'
            case _:
                return
        self._add(node, "constant", new)

    def _negated(self, node: ast.expr, operator: str) -> None:
        self._add(node, operator, f"(not ({ast.unparse(node)}))")

    def _change(self, node: ast.expr, operator: str, changed: ast.expr) -> None:
        self._add(node, operator, f"({ast.unparse(changed)})")

    def _add(self, node: ast.stmt | ast.expr, operator: str, new: str, line: int = 0) -> None:
        start = self._starts[node.lineno - 1] + node.col_offset
        end = self._starts[(node.end_lineno or 1) - 1] + (node.end_col_offset or 0)
        old = self._data[start:end].decode()
        self._found.append(
            Mutant(
                self._file, line or node.lineno, *self._reach, ".".join(self._names),
                not self._in_function, operator, old, new, start, end,
            )
        )  # fmt: skip


def _is_windows(test: ast.expr) -> bool | None:
    """Return whether a condition is true on Windows only, or false there only; else None.

    Mutants are judged on Linux, which does not run the other branch.
    """
    match ast.unparse(test):
        case "sys.platform == 'win32'" | "os.name == 'nt'" | "os.name != 'posix'":
            return True
        case "sys.platform != 'win32'" | "os.name != 'nt'" | "os.name == 'posix'":
            return False
        case _:
            return None


def _refuses_all_but_windows(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.If)
        and _is_windows(node.test) is False
        and isinstance(node.body[-1], ast.Raise)
    )


def _is_text(node: ast.stmt) -> bool:
    """Return whether a statement is a docstring or another bare constant."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_for_types(node: ast.Call) -> bool:
    return _last(node.func) in FOR_TYPES


def _last(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Call(func=function):
            return _last(function)
        case _:
            return ""


def chosen(files: list[tuple[str, str]], seed: int, count: int) -> Iterator[Mutant]:
    """Yield the first valid mutants of the order."""
    texts = dict(files)
    for mutant in mutants(files, seed):
        if count <= 0:
            return
        if is_valid(texts[mutant.file], mutant):
            count -= 1
            yield mutant
