"""The differences between two shapes, with their paths."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from accord.wire.describe import Field, Kind, List, Mapping, Object, Shape


@dataclass(frozen=True)
class Finding:
    """One difference: its place, its aspect, and the values of both sides."""

    where: str
    respect: str
    ours: Any
    schema: Any

    @property
    def key(self) -> str:
        return f"{self.where} {self.respect}"

    def __str__(self) -> str:
        return f"{self.key}: ours {self.ours!r}, schema {self.schema!r}"


@dataclass
class Comparison:
    """Compares shapes; each pair of objects once."""

    findings: dict[str, Finding] = field(default_factory=dict)
    classes: set[type] = field(default_factory=set)
    _seen: set[tuple[int, int]] = field(default_factory=set)
    _kept: list[Any] = field(default_factory=list)

    def shapes(self, schema: Shape, ours: Shape, where: str) -> None:
        """Compare the alternatives of two shapes."""
        theirs, mine = dict(_keyed(schema)), dict(_keyed(ours))
        for key in theirs.keys() - mine.keys():
            self.find(where, f"alternative {key}", "absent", "present")
        for key in mine.keys() - theirs.keys():
            self.find(where, f"alternative {key}", "present", "absent")
        for key in sorted(theirs.keys() & mine.keys()):
            self._kinds(theirs[key], mine[key], where)

    def _kinds(self, schema: Kind, ours: Kind, where: str) -> None:
        match schema, ours:
            case Object(), Object():
                self.objects(schema, ours, _label(schema, where))
            case List(), List():
                self.same(where, "minItems", schema.min_items, ours.min_items)
                self.same(where, "skip-invalid-items", schema.skip, ours.skip)
                self.shapes(schema.item, ours.item, f"{where}[]")
            case Mapping(), Mapping():
                self.shapes(schema.value, ours.value, f"{where}{{}}")
            case _:
                for name in schema.__struct_fields__:
                    self.same(where, name, getattr(schema, name), getattr(ours, name))

    def objects(self, schema: Object, ours: Object, where: str) -> None:
        """Compare two objects, unless they were compared before."""
        if ours.cls is not None:
            self.classes.add(ours.cls)
        if (id(schema), id(ours)) in self._seen:
            return
        self._seen.add((id(schema), id(ours)))
        self._kept += [schema, ours]  # keeps their ids from being reused
        theirs, mine = _relevant(schema), _relevant(ours)
        for key in theirs.keys() - mine.keys():
            self.find(f"{where}.{key}", "field", "absent", "present")
        for key in mine.keys() - theirs.keys():
            self.find(f"{where}.{key}", "field", "present", "absent")
        for key in theirs.keys() & mine.keys():
            self._fields(theirs[key], mine[key], f"{where}.{key}")
        self.same(where, "tags", schema.tags, ours.tags)
        self.same(where, "known tags", schema.rest, ours.rest)
        self.same(where, "exactly one of", schema.one_of, ours.one_of)
        self.same(where, "at least one of", schema.any_of, ours.any_of)
        if schema.name and ours.name and ours.name not in _names(schema):
            self.find(where, "name", ours.name, schema.name)

    def _fields(self, schema: Field, ours: Field, where: str) -> None:
        self.same(where, "required", schema.required, ours.required)
        self.same(where, "default-on-error", schema.on_error, ours.on_error)
        self.same(where, "default-on-null", schema.on_null, ours.on_null)
        self.same(where, "default", _filled_default(schema), _filled_default(ours))
        self.shapes(schema.shape, ours.shape, where)

    def same(self, where: str, respect: str, schema: Any, ours: Any) -> None:
        """Add a finding if the values differ."""
        if schema != ours:
            self.find(where, respect, ours, schema)

    def find(self, where: str, respect: str, ours: Any, schema: Any) -> None:
        """Add a finding."""
        finding = Finding(where, respect, ours, schema)
        self.findings.setdefault(finding.key, finding)


def _keyed(shape: Shape) -> Iterator[tuple[str, Kind]]:
    """Yield the alternatives with a key that each shares with its counterpart."""
    untold: dict[str, int] = {}
    for kind in shape:
        if isinstance(kind, Object) and (kind.tags or kind.rest):
            key = ", ".join(f"{tag}={value}" for tag, value in sorted(kind.tags))
            if kind.rest:
                key += f" {kind.rest.tag_field}=?"
            yield key.strip(), kind
        else:
            key = type(kind).__name__
            untold[key] = untold.get(key, 0) + 1
            yield f"{key}#{untold[key]}" if untold[key] > 1 else key, kind


def _label(schema: Object, where: str) -> str:
    label = schema.name or where
    for _, value in sorted(schema.tags):
        label += f"[{value}]"
    return label + "[?]" if schema.rest else label


def _names(schema: Object) -> set[str | None]:
    """Return the possible names of a class for this object: its own, or that of a tag."""
    return {schema.name, *(_pascal(value) for _, value in schema.tags)}


def _pascal(tag: str) -> str:
    return "".join(word[:1].upper() + word[1:] for word in tag.split("_"))


def _relevant(kind: Object) -> dict[str, Field]:
    """Return the fields; for an unknown variant, which stays raw, its required ones."""
    if kind.rest is None:
        return kind.fields
    return {k: f for k, f in kind.fields.items() if f.required or not f.on_error}


def _filled_default(field: Field) -> Any:
    return _filled(field.shape, field.default)


def _filled(shape: Shape, value: Any) -> Any:
    """Return a default with all nested defaults, as both sides can omit them."""
    objects = [kind for kind in shape if isinstance(kind, Object)]
    if not isinstance(value, dict) or len(objects) != 1:
        return value
    filled = {
        key: _filled(field.shape, value.get(key, field.default))
        for key, field in objects[0].fields.items()
    }
    return {key: entry for key, entry in filled.items() if entry not in (None, [])}
