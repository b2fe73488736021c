"""An extension of griffe: shows the constructors of classes as users see them.

The fields of a `msgspec.Struct` are its constructor. With a heading for each of a thousand fields,
a page would hide the types; a field with its own docstring still has one. A constructor that takes
private types is not for users, and is hidden.
"""

from __future__ import annotations

import inspect
import pydoc
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import griffe
from msgspec import Struct

PAGES = Path(__file__).parent / "reference" / "api"


class Constructors(griffe.Extension):
    """Gives each struct a constructor, and hides those that only the library can call."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Change all classes of a package, once all of it is loaded."""
        classes = {cls.path: cls for cls in _classes(pkg)}
        structs = {cls: struct for path, cls in classes.items() if (struct := _struct(path))}
        fields = {cls: _fields(struct, classes) for cls, struct in structs.items()}
        private = {cls.name for cls in classes.values()} - _documented()
        for cls in classes.values():
            if cls not in structs:
                _describe_attributes(cls)
                _hide_constructor(cls, private)
        _remove_labels(pkg)
        for cls, struct in structs.items():
            try:
                signature = inspect.signature(struct)
            except NameError:  # a private struct, whose types are imported for type checkers only
                continue
            if fields[cls].keys() >= signature.parameters.keys():  # no base of another package
                _add_constructor(cls, signature, fields[cls])


def _classes(scope: griffe.Module | griffe.Class) -> Iterator[griffe.Class]:
    for member in scope.members.values():
        if isinstance(member, griffe.Module):
            yield from _classes(member)
        elif isinstance(member, griffe.Class):
            yield member
            yield from _classes(member)


def _remove_labels(scope: griffe.Module | griffe.Class) -> None:
    """Remove the labels that say where an attribute is defined."""
    for member in scope.members.values():
        if isinstance(member, griffe.Attribute):
            member.labels -= {"class-attribute", "instance-attribute", "module-attribute"}
        elif isinstance(member, griffe.Module | griffe.Class):
            _remove_labels(member)


def _documented() -> set[str]:
    """Return the names of the classes on the pages of the API reference."""
    text = "\n".join(page.read_text("utf-8") for page in PAGES.glob("*.md"))
    return set(re.findall(r"^::: [\w.]*?(\w+)$", text, re.MULTILINE))


def _struct(path: str) -> type[Struct] | None:
    try:
        value = pydoc.locate(path)
    except pydoc.ErrorDuringImport:  # a module of another system
        return None
    return value if isinstance(value, type) and issubclass(value, Struct) else None


def _fields(struct: type[Struct], classes: dict[str, griffe.Class]) -> dict[str, griffe.Attribute]:
    """Return the fields of a struct, those of its bases included."""
    bases = (classes.get(f"{base.__module__}.{base.__qualname__}") for base in struct.__mro__[::-1])
    return {
        name: member
        for base in bases
        if base is not None
        for name, member in base.members.items()
        if isinstance(member, griffe.Attribute) and name in struct.__struct_fields__
    }


def _add_constructor(
    cls: griffe.Class, signature: inspect.Signature, fields: dict[str, griffe.Attribute]
) -> None:
    shown = [griffe.Parameter("self", kind=griffe.ParameterKind.positional_or_keyword)]
    for name, parameter in signature.parameters.items():
        field = fields[name]
        kind = griffe.ParameterKind[parameter.kind.name.lower()]
        default = None if parameter.default is parameter.empty else field.value
        shown.append(
            griffe.Parameter(name, annotation=field.annotation, kind=kind, default=default)
        )
        if field.parent is cls and not field.has_docstring:
            del cls.members[name]
    cls.set_member("__init__", griffe.Function("__init__", parameters=griffe.Parameters(*shown)))


def _describe_attributes(cls: griffe.Class) -> None:
    """Give `self.x = x` the type of the parameter, and hide the first values of attributes."""
    constructor = cls.members.get("__init__")
    if not isinstance(constructor, griffe.Function):
        return
    types = {parameter.name: parameter.annotation for parameter in constructor.parameters}
    for member in cls.members.values():
        if isinstance(member, griffe.Attribute) and "class-attribute" not in member.labels:
            member.annotation = member.annotation or types.get(str(member.value))
            member.value = None


def _hide_constructor(cls: griffe.Class, private: set[str]) -> None:
    constructor = cls.members.get("__init__")
    if isinstance(constructor, griffe.Function):
        taken = " ".join(str(parameter.annotation) for parameter in constructor.parameters)
        if private.intersection(re.findall(r"\w+", taken)):
            del cls.members["__init__"]
