"""The building blocks of wire types: base classes, marks, and numbers."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar, get_args

import msgspec
from msgspec import UNSET, Meta, Struct, StructMeta, UnsetType, field

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:
    from typing import dataclass_transform

__all__ = (
    "DEFAULT_ON_ERROR",
    "DEFAULT_ON_NULL",
    "OPEN",
    "SKIP_INVALID",
    "UNSET",
    "UNSTABLE",
    "Bare",
    "ByShape",
    "Int32",
    "Int64",
    "KeepsMore",
    "Known",
    "Lenient",
    "LenientList",
    "Mark",
    "Members",
    "NullAsEmpty",
    "Open",
    "OpenEnum",
    "Other",
    "Patch",
    "UInt16",
    "UInt32",
    "UInt64",
    "Unknown",
    "UnsetType",
    "Unstable",
    "Wire",
    "WireMeta",
    "always",
    "field",
    "keeps_more",
    "replace",
    "with_more",
)

T = TypeVar("T")


class Mark:
    """An annotation of a type, for the codec and the schema proof."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name: str = name

    def __repr__(self) -> str:
        return self.name


DEFAULT_ON_ERROR = Mark("DEFAULT_ON_ERROR")
SKIP_INVALID = Mark("SKIP_INVALID")
DEFAULT_ON_NULL = Mark("DEFAULT_ON_NULL")
UNSTABLE = Mark("UNSTABLE")
OPEN = Mark("OPEN")

# An invalid value reads as the field's default (catalogue 3.5, rule 1).
Lenient = Annotated[T, DEFAULT_ON_ERROR]
# Invalid items are omitted (rule 3).
LenientList = Annotated[list[T], SKIP_INVALID]
# null reads as an empty list or map; other values must be valid (rule 4).
NullAsEmpty = Annotated[T, DEFAULT_ON_NULL]
# Only in the unstable schema: sent only by programs that opted in.
Unstable = Annotated[T, UNSTABLE]

Int32: TypeAlias = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Int64: TypeAlias = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
UInt16: TypeAlias = Annotated[int, Meta(ge=0, le=2**16 - 1)]
UInt32: TypeAlias = Annotated[int, Meta(ge=0, le=2**32 - 1)]
UInt64: TypeAlias = Annotated[int, Meta(ge=0)]  # msgspec has no upper bound above int64


class Unknown:
    """A variant that this version of the protocol does not define, as received."""

    __slots__ = ("raw", "tag")
    __match_args__ = ("tag", "raw")

    tag: str
    raw: dict[str, Any]

    def __init__(self, tag: str, raw: dict[str, Any]) -> None:
        object.__setattr__(self, "tag", tag)
        object.__setattr__(self, "raw", raw)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"immutable type: {type(self).__name__!r}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unknown) and self.tag == other.tag and self.raw == other.raw

    def __hash__(self) -> int:
        return hash((Unknown, self.tag))

    def __repr__(self) -> str:
        return f"Unknown({self.tag!r}, {self.raw!r})"


class Known:
    """The values of an open enum that the protocol defines."""

    __slots__ = ("values",)

    def __init__(self, values: tuple[str, ...]) -> None:
        self.values: tuple[str, ...] = values


class Other:
    """The `shape` that unknown variants must still fit."""

    __slots__ = ("shape",)

    def __init__(self, shape: Any) -> None:
        self.shape: Any = shape


class Members:
    """The members of a union that msgspec cannot distinguish."""

    __slots__ = ("union",)

    def __init__(self, union: Any) -> None:
        self.union: Any = union


if TYPE_CHECKING:
    # A union that reads variants with unknown tags as `Unknown`.
    Open: TypeAlias = T | Unknown
    # A string enum that accepts unknown values.
    OpenEnum: TypeAlias = T | str
    # A union that only the tolerant converter can decode.
    ByShape = Annotated[T, "decoded by shape"]
else:

    class Open:
        """At run time the closed union, marked: msgspec decodes it natively.

        A union of one member is not: msgspec would decode a single class without its tag.
        """

        def __class_getitem__(cls, union):
            return Annotated[ByShape[union] if isinstance(union, type) else union, OPEN]

    class OpenEnum:
        """At run time a string, marked with the known values."""

        def __class_getitem__(cls, literal):
            return Annotated[str, Known(get_args(literal))]

    class ByShape:
        """At run time a struct that never decodes natively, marked with the members.

        If all members have the same tag, the struct gets it, so that a tagged union can contain it.
        """

        def __class_getitem__(cls, union):
            tags = {_tag(member) for member in get_args(union) or (union,)}
            tag_field, tag = tags.pop() or (None, None) if len(tags) == 1 else (None, None)
            return Annotated[_undecodable(tag_field, tag), Members(union)]


def _tag(member: Any) -> tuple[str | None, str | int | None] | None:
    config = getattr(getattr(member, "__origin__", member), "__struct_config__", None)
    return config and (config.tag_field, config.tag)


def _undecodable(tag_field: str | None, tag: str | int | None) -> Any:
    def refuse(_self: Any) -> None:
        raise ValueError("this union is decoded by the tolerant converter")

    return msgspec.defstruct(
        "Undecodable", [], namespace={"__post_init__": refuse}, tag_field=tag_field, tag=tag
    )


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
class WireMeta(StructMeta):
    """Makes every wire type keyword-only, frozen and camelCase."""

    def __new__(
        mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **config: Any
    ) -> Any:
        config = {
            "kw_only": True,
            "frozen": True,
            "omit_defaults": True,
            "rename": "camel",
        } | config
        return super().__new__(mcls, name, bases, namespace, **config)


class Bare(Struct, metaclass=WireMeta):
    """Base class of the wire types without `_meta`."""


class Wire(Bare):
    """Base class of the wire types; `meta` has the metadata of `_meta`."""

    meta: Lenient[dict[str, Any] | None] = field(name="_meta", default=None)


class Patch(Bare):
    """Base class of updates whose `_meta` has three states: `UNSET` keeps it, `None` clears it."""

    meta: Lenient[dict[str, Any] | None | UnsetType] = field(name="_meta", default=UNSET)


_MORE = "more_"
_MAX_KEYS = 64  # of one value; each becomes a field


class KeepsMore(Bare, forbid_unknown_fields=True):
    """Base class of the wire types that keep unknown keys, in `more`.

    msgspec rejects such values, because it could not encode them. The tolerant converter makes a
    subclass in which the keys are fields: so they are encoded in place, and copies keep them.
    """

    @property
    def more(self) -> dict[str, Any]:
        """The keys that this version of the protocol does not define, as received."""
        fields = msgspec.structs.fields(self)
        return {
            info.encode_name: getattr(self, info.name)
            for info in fields
            if info.name.startswith(_MORE)
        }


def keeps_more(cls: type[Struct]) -> bool:
    """Return True if a wire type keeps unknown keys."""
    return issubclass(cls, KeepsMore)


def with_more(cls: type[Struct], fields: dict[str, Any], more: dict[str, Any]) -> Any:
    """Return a value of a `KeepsMore` class with keys that it does not define."""
    keys = tuple(more)[:_MAX_KEYS]
    values = {f"{_MORE}{number}": more[key] for number, key in enumerate(keys)}
    return _class_with(cls, keys)(**fields, **values)


@lru_cache(maxsize=64)
def _class_with(cls: type[Struct], keys: tuple[str, ...]) -> Any:
    names = [f"{_MORE}{number}" for number in range(len(keys))]
    namespace: dict[str, Any] = {
        "__annotations__": dict.fromkeys(names, Any),
        "__module__": cls.__module__,
        "__doc__": cls.__doc__,
        **{name: field(name=key) for name, key in zip(names, keys, strict=True)},
    }
    return WireMeta(cls.__name__, (cls,), namespace)


def always(value: T) -> T:
    """Return a field with this default that is encoded nevertheless."""
    return field(default_factory=lambda: value)


def replace(value: T, **changes: Any) -> T:
    """Return a copy of a wire value with some fields changed."""
    return msgspec.structs.replace(value, **changes)  # type: ignore[type-var]  # T is a Struct
