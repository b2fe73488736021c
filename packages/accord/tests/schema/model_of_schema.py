"""The official schema as shapes of `accord.wire.describe`.

Every keyword of the schema is supported here, known to assert nothing, or an error: no new keyword
of the schema is overlooked.
"""

from __future__ import annotations

from typing import Any

from accord.wire.describe import (
    Anything,
    Boolean,
    Field,
    Integer,
    Kind,
    List,
    Mapping,
    Null,
    Number,
    Object,
    Rest,
    Shape,
    Text,
)

# They describe, or repeat other keywords; none of them rejects a value.
SILENT = {
    "$schema",
    "contentEncoding",
    "description",
    "discriminator",
    "title",
    "unevaluatedProperties",
    "x-docs-ignore",
    "x-method",
    "x-side",
}
KNOWN = SILENT | {
    "$ref",
    "additionalProperties",
    "allOf",
    "anyOf",
    "const",
    "default",
    "enum",
    "format",
    "items",
    "maximum",
    "minItems",
    "minLength",
    "minimum",
    "not",
    "oneOf",
    "properties",
    "required",
    "type",
    "x-deserialize-default-on-error",
    "x-deserialize-default-on-null",
    "x-deserialize-skip-invalid-items",
}
# The format of a number is a bound; uint64 has no upper bound here, as in msgspec.
BOUNDS: dict[str, tuple[int | None, int | None]] = {
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "uint16": (0, 2**16 - 1),
    "uint32": (0, 2**32 - 1),
    "uint64": (0, None),
}
NUMERIC = {*BOUNDS, "double"}
# Formats of strings are annotations in JSON Schema, and no reason to reject a message.
TEXTUAL = {"date-time", "regex", "uri"}

Node = dict[str, Any]


class SchemaModel:
    """One schema file, with its definitions by name."""

    def __init__(self, schema: Node) -> None:
        self.defs: dict[str, Node] = schema["$defs"]
        self.root = schema
        self._cache: dict[str, Shape] = {}

    def shape(self, name: str) -> Shape:
        """Return the shape of a definition."""
        if name not in self._cache:
            self._cache[name] = self._named(self.of(self.defs[name]), name)
        return self._cache[name]

    def of(self, node: Node) -> Shape:
        """Return the shape of any part of the schema."""
        unknown = node.keys() - KNOWN
        if unknown:
            raise ValueError(f"the schema says {sorted(unknown)}, which the proof does not know")
        parts: list[Shape] = []
        if "$ref" in node:
            parts.append(self.shape(node["$ref"].removeprefix("#/$defs/")))
        parts += [self.of(part) for part in node.get("allOf", ())]
        own = self._own(node)
        if own is not None:
            parts.insert(0, own)
        for key in ("anyOf", "oneOf"):
            if key in node:
                parts.append(self._union(node, key, exactly_one=key == "oneOf"))
        shape = parts[0] if parts else (Anything(),)
        for part in parts[1:]:
            shape = tuple(_merge(left, right) for left in shape for right in part)
        if "not" in node:
            shape = tuple(_exclude(kind, node["not"]) for kind in shape)
        return _plain_any(_join_texts(_join_integers(shape)))

    def _union(self, node: Node, key: str, *, exactly_one: bool) -> Shape:
        """Return the members of a union, or the one object that represents them all."""
        shapes = [self.of(part) for part in node[key]]
        members = [member for shape in shapes for member in shape]
        own = node.get("properties", {})
        tag = next((key for m in members for key in _tags(m) if key in own), None)
        if tag is not None:
            return (_optional_tag(members, tag, node),)
        objects = [m for m in members if isinstance(m, Object)]
        if own and len(objects) == len(members) and not any(m.tags or m.rest for m in objects):
            return (_scope(objects, exactly_one=exactly_one),)
        return tuple(members)

    def _named(self, shape: Shape, name: str) -> Shape:
        return tuple(
            Object(name, k.fields, k.tags, k.rest, None, k.one_of, k.any_of)
            if isinstance(k, Object) and k.name is None and k.rest is None
            else k
            for k in shape
        )

    def _own(self, node: Node) -> Shape | None:
        """Return the shape of the node's own keywords, without references and unions."""
        if "const" in node or "enum" in node:
            values = node.get("enum", [node.get("const")])
            if node["type"] == "integer":
                return (Integer(min(values), max(values)),)
            assert node["type"] == "string", node
            return (Text(frozenset(values)),)
        if "type" not in node:
            return None
        kinds = node["type"] if isinstance(node["type"], list) else [node["type"]]
        return tuple(self._kind(kind, node) for kind in kinds)

    def _kind(self, kind: str, node: Node) -> Kind:
        low, high = node.get("minimum"), node.get("maximum")
        form = node.get("format")
        assert form is None or form in NUMERIC | TEXTUAL, node
        match kind:
            case "null":
                return Null()
            case "boolean":
                return Boolean()
            case "string":
                return Text(min_length=node.get("minLength", 0))
            case "number":
                return Number(low, high)
            case "integer":
                least, most = BOUNDS[form] if form else (None, None)
                return Integer(
                    least if low is None else low,
                    most if high is None else high,
                )
            case "array":
                return List(
                    self.of(node["items"]),
                    node.get("minItems", 0),
                    node.get("x-deserialize-skip-invalid-items", False),
                )
            case "object":
                return self._object(node)
        raise ValueError(f"unknown type {kind!r}")

    def _object(self, node: Node) -> Mapping | Object:
        extra = node.get("additionalProperties")
        properties: dict[str, Node] = node.get("properties", {})
        if extra is not None and not properties:
            return Mapping((Anything(),) if extra is True else self.of(extra))
        required = set(node.get("required", ()))
        assert required <= properties.keys() or "anyOf" in node, node
        fields = {key: self._field(part, key in required) for key, part in properties.items()}
        tags = frozenset(
            (key, part["const"])
            for key, part in properties.items()
            if "const" in part and key in required
        )
        return Object(None, fields, tags)

    def _field(self, node: Node, required: bool) -> Field:
        shape = self.of(node)
        return Field(
            shape,
            required,
            default=node["default"] if "default" in node else _absent(shape, required),
            on_error=node.get("x-deserialize-default-on-error", False),
            on_null=node.get("x-deserialize-default-on-null", False),
        )


def _absent(shape: Shape, required: bool) -> Any:
    """Return the meaning of an absent key if the schema does not define it: the empty value."""
    if required:
        return None
    if [List] == [type(kind) for kind in shape]:
        return []
    if [Mapping] == [type(kind) for kind in shape]:
        return {}
    return None


def _tags(kind: Kind) -> set[str]:
    if not isinstance(kind, Object):
        return set()
    return {key for key, _ in kind.tags} | ({kind.rest.tag_field} if kind.rest else set())


def _merge(left: Kind, right: Kind) -> Kind:
    if isinstance(left, Anything):
        return right
    if isinstance(right, Anything):
        return left
    if not (isinstance(left, Object) and isinstance(right, Object)):
        if left == right:
            return left
        raise ValueError(f"cannot be both {left} and {right}")
    return Object(
        left.name or right.name,
        {**left.fields, **right.fields},
        left.tags | right.tags,
        left.rest or right.rest,
        None,
        left.one_of | right.one_of,
        left.any_of | right.any_of,
    )


def _exclude(kind: Kind, node: Node) -> Kind:
    """Read `not any of {tag: known}`, the schema's form of an open union."""
    assert isinstance(kind, Object)
    assert node.keys() == {"anyOf"}
    known: dict[str, set[str]] = {}
    for part in node["anyOf"]:
        ((tag_field, constant),) = part["properties"].items()
        assert part["required"] == [tag_field]
        known.setdefault(tag_field, set()).add(constant["const"])
    ((tag_field, values),) = known.items()
    assert kind.fields[tag_field] == Field((Text(),), required=True), kind
    return Object(
        None,
        kind.fields,
        kind.tags,
        Rest(tag_field, frozenset(values)),
        None,
        kind.one_of,
        kind.any_of,
    )


def _optional_tag(members: list[Kind], tag: str, node: Node) -> Object:
    """Return variants as one object if the tag can be absent, as in an open enum."""
    objects = [member for member in members if isinstance(member, Object)]
    assert len(objects) == len(members)
    values = frozenset(value for member in objects for key, value in member.tags if key == tag)
    assert any(member.rest and member.rest.known == values for member in objects)
    fields: dict[str, Field] = {}
    for member in objects:
        for key, field in member.fields.items():
            assert key == tag or not field.required
            fields[key] = field
    own = node["properties"][tag]
    fields[tag] = Field(
        (Text(values, open=True), Null()),
        on_error=own.get("x-deserialize-default-on-error", False),
    )
    return Object(None, fields)


def _scope(objects: list[Object], *, exactly_one: bool) -> Object:
    """Return objects that differ in one key each as one object with a rule across the keys."""
    fields: dict[str, Field] = {}
    keys: set[str] = set()
    for member in objects:
        (key,) = [name for name, field in member.fields.items() if field.required]
        keys.add(key)
        fields |= member.fields
        # Where one key is enough, a malformed other one counts as absent.
        fields[key] = Field(member.fields[key].shape, on_error=not exactly_one)
    rule = frozenset(keys)
    empty = frozenset[str]()
    return Object(
        None,
        fields,
        one_of=rule if exactly_one else empty,
        any_of=empty if exactly_one else rule,
    )


def _join_texts(shape: Shape) -> Shape:
    """Join the constants of an enum, and the free string that makes it open."""
    texts = [kind for kind in shape if isinstance(kind, Text)]
    if len(texts) < 2:
        return shape
    values = frozenset(value for text in texts for value in text.values or ())
    joined = Text(values or None, open=any(text.values is None for text in texts))
    rest = tuple(kind for kind in shape if not isinstance(kind, Text))
    return (joined, *rest)


def _join_integers(shape: Shape) -> Shape:
    """Remove integer constants that the integer type includes."""
    if Number() in shape:
        # Beyond the bounds of the integer it is decoded as the number.
        shape = tuple(Integer() if isinstance(kind, Integer) else kind for kind in shape)
    integers = [kind for kind in shape if isinstance(kind, Integer)]
    if len(integers) < 2:
        return shape
    widest = integers[-1]
    assert all(widest.low <= i.low <= i.high <= widest.high for i in integers)  # type: ignore[operator]
    return (widest, *(kind for kind in shape if not isinstance(kind, Integer)))


def _plain_any(shape: Shape) -> Shape:
    """Remove scalars and lists next to any JSON; objects have another meaning."""
    if Anything() not in shape:
        return shape
    return tuple(kind for kind in shape if isinstance(kind, Object | Anything | Null))
