"""Lists the public names of all packages, sorted, so that a later list shows what is lost.

Public is what docs/reference/stability.md says: `__all__` of the modules that it names and of each
import package, and every name that the API reference lists. With `--members`, the public methods
and attributes of these classes follow, those of the types of protocol versions excepted: the schema
proof compares them with the official schema.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import pydoc
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import layout

REFERENCE = "docs/reference"
OF_VERSIONS = ("accord.v1.", "accord.v2.")


def listed(root: Path) -> tuple[set[str], set[str]]:
    """Return the modules whose `__all__` is public, and the names that pages list."""
    packages = {layout.import_package(name) for name in layout.tracked(root)} - {""}
    pages = sorted((root / REFERENCE / "api").glob("*.md"))
    text = "".join(page.read_text("utf-8") for page in pages)
    names = set(re.findall(r"^(?:::: |\| `)([\w.]+)", text, re.MULTILINE))
    stability = (root / REFERENCE / "stability.md").read_text("utf-8")
    quoted = set(re.findall(r"`([a-z]\w*(?:\.\w+)*)`", stability))
    quoted = {name for name in quoted if name.partition(".")[0] in packages}
    modules = {name for name in quoted | names if inspect.ismodule(pydoc.locate(name))}
    return modules | packages, (names | quoted) - modules


def public_names(root: Path) -> list[str]:
    """Return all public names; raise LookupError for a listed name that cannot be imported."""
    modules, names = listed(root)
    found = set(names)
    for module in modules:
        face = importlib.import_module(module)
        exported = getattr(face, "__all__", ())
        found |= {f"{module}.{name}" for name in exported}
    found = {name for name in found if "." in name}
    if missing := sorted(name for name in found if pydoc.locate(name) is None and not none(name)):
        raise LookupError(f"public names that cannot be imported: {', '.join(missing)}")
    return sorted(found)


def none(name: str) -> bool:
    """Return whether a name exists with the value None."""
    module, _, attribute = name.rpartition(".")
    return hasattr(pydoc.locate(module), attribute)


def members(names: Iterable[str]) -> Iterator[str]:
    """Yield the public members of classes that an import package of ours defines."""
    for name in names:
        value = pydoc.locate(name)
        if not inspect.isclass(value) or name.startswith(OF_VERSIONS):
            continue
        own = [base for base in value.__mro__ if base.__module__.startswith("accord")]
        fields = {field for base in own for field in (*vars(base), *base.__annotations__)}
        yield from sorted(f"{name}.{field}" for field in fields if not field.startswith("_"))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="List the public names of all packages.")
    parser.add_argument("--members", action="store_true", help="list members of classes instead")
    parser.add_argument("--root", type=Path, default=layout.ROOT, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    names = public_names(options.root)
    print("\n".join(members(names) if options.members else names))
    return 0


if __name__ == "__main__":
    sys.exit(main())
