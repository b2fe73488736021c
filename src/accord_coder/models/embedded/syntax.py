"""The outline of a Python file, by its syntax tree."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator

from accord_coder.models.embedded.kit import plural, shortened, tick

__all__ = ("NotPython", "explanation", "outline")

_BIGGEST = 2_000_000  # characters
_MOST = 120  # rows


class NotPython(Exception):
    """The text is no Python, with the reason."""


def _parse(text: str) -> ast.Module:
    if len(text) > _BIGGEST:
        raise NotPython("it is too long")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of old escapes, say: not what was asked
            return ast.parse(text)
    except SyntaxError as error:
        where = f"line {error.lineno}: " if error.lineno else ""
        raise NotPython(f"{where}{error.msg}") from None
    except (ValueError, RecursionError, MemoryError):
        raise NotPython("it is nested too deeply, or not text") from None


def outline(path: str, text: str) -> str:
    """Return the classes, functions and constants of a file; raise `NotPython`."""
    tree = _parse(text)
    rows = list(_rows(tree.body, 0))
    counts = _counts(tree)
    head = f"{tick(path)}, {plural(len(text.splitlines()), 'line')}: {counts}."
    if not rows:
        return head
    more = f"\n- … and {len(rows) - _MOST} more" if len(rows) > _MOST else ""
    return f"{head}\n\n" + "\n".join(rows[:_MOST]) + more


def explanation(path: str, text: str) -> str:
    """Return what a file is for and made of; raise `NotPython`."""
    tree = _parse(text)
    parts = [f"{tick(path)} is a Python file of {plural(len(text.splitlines()), 'line')}."]
    if doc := ast.get_docstring(tree):
        parts[0] += f" It says of itself: “{shortened(' '.join(doc.split()), 300)}”"
    parts.append(f"It has {_counts(tree)}.")
    if modules := sorted(_imports(tree)):
        shown = ", ".join(map(tick, modules[:20])) + (", …" if len(modules) > 20 else "")
        parts[1] += f" It imports {shown}."
    if any(_is_main(node) for node in tree.body):
        parts[1] += " It can be run as a program."
    rows = list(_rows(tree.body, 0, deep=False))
    if rows:
        more = f"\n- … and {len(rows) - 40} more" if len(rows) > 40 else ""
        parts.append("\n".join(rows[:40]) + more)
    return "\n\n".join(parts)


def _rows(body: list[ast.stmt], level: int, *, deep: bool = True) -> Iterator[str]:
    indent = "  " * level
    for node in body:
        match node:
            case ast.ClassDef(name=name):
                bases = ", ".join(ast.unparse(base) for base in node.bases)
                title = f"class {name}({bases})" if bases else f"class {name}"
                yield f"{indent}- {tick(title)} {_lines(node)}{_doc(node)}"
                if deep and level < 4:
                    yield from _rows(node.body, level + 1)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                word = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
                title = f"{word} {name}({_arguments(node.args)})"
                yield f"{indent}- {tick(shortened(title, 120))} {_lines(node)}{_doc(node)}"
            case ast.Assign(targets=[ast.Name(id=name)]) if level == 0:
                yield f"{indent}- {tick(name)} {_lines(node)}"
            case ast.AnnAssign(target=ast.Name(id=name)):
                kind = shortened(ast.unparse(node.annotation), 60)
                yield f"{indent}- {tick(f'{name}: {kind}')} {_lines(node)}"
            case ast.If() | ast.Try() if level == 0 and not _is_main(node):
                yield from _rows(node.body, level)
            case _:
                pass


def _arguments(arguments: ast.arguments) -> str:
    names = [a.arg for a in [*arguments.posonlyargs, *arguments.args]]
    if arguments.vararg:
        names.append("*" + arguments.vararg.arg)
    elif arguments.kwonlyargs:
        names.append("*")
    names += [a.arg for a in arguments.kwonlyargs]
    if arguments.kwarg:
        names.append("**" + arguments.kwarg.arg)
    return ", ".join(names)


def _lines(node: ast.stmt) -> str:
    last = node.end_lineno or node.lineno
    return f"{node.lineno}" if last == node.lineno else f"{node.lineno}–{last}"


def _doc(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    doc = (ast.get_docstring(node) or "").partition("\n")[0]
    return f": {shortened(doc, 100)}" if doc else ""


def _counts(tree: ast.Module) -> str:
    classes = functions = methods = 0
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(body=body):
                classes += 1
                methods += sum(isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef) for n in body)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                functions += 1
            case _:
                pass
    functions -= methods
    return (
        f"{plural(classes, 'class', 'classes')} with {plural(methods, 'method')}"
        f" and {plural(functions, 'function')}"
        if classes
        else plural(functions, "function")
    )


def _imports(tree: ast.Module) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                found |= {name.name.partition(".")[0] for name in names}
            case ast.ImportFrom(module=str() as module, level=0):
                found.add(module.partition(".")[0])
            case _:
                pass
    return found - {"__future__"}


def _is_main(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and "__main__" in ast.unparse(node.test)
