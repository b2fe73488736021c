"""A rule about fields of messages: which members of wire types, and what may be wrong there.

A rule names members as Python does, so renaming a type or a member fails at import.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from accord_conformance.traffic.strict_types import ProblemKind, TypeProblem, VisitedKey, owner_of

MALFORMED: frozenset[ProblemKind] = frozenset(("missing", "type", "value", "bounds"))
_KEYS: frozenset[ProblemKind] = frozenset(("keys",))


class Place(Struct, frozen=True):
    """One key of a wire type (`owner`), as JSON spells it."""

    owner: Any
    key: str

    def fits(self, at: VisitedKey) -> bool:
        """Return whether a rule about this place is about a key of a message."""
        return (at.owner, at.key) == (self.owner, self.key)


class _Members(Place, frozen=True):
    """Every key of a wire type, and the object itself."""

    def fits(self, at: VisitedKey) -> bool:
        return at.owner == self.owner


class _Inside(Place, frozen=True):
    """A key and everything in its value."""

    def fits(self, at: VisitedKey) -> bool:
        here = (self.owner, self.key)
        return (at.owner, at.key) == here or here in at.within


class _Below(Place, frozen=True):
    """Every key in the value of a key."""

    def fits(self, at: VisitedKey) -> bool:
        return bool(at.key) and (self.owner, self.key) in at.within


class _KeyIn(Place, frozen=True):
    """A key of the object in a field, or of each object in its list, whatever its type."""

    inner: str = ""

    def fits(self, at: VisitedKey) -> bool:
        return at.key == self.inner and at.within[-1:] == ((self.owner, self.key),)


class _Absent(Place, frozen=True):
    """A key that a wire type must not have."""


def fields(owner: type[Struct], *names: str) -> tuple[Place, ...]:
    """Return members of a wire type, by their names in Python."""
    return tuple(Place(owner_of(owner), _key(owner, name)) for name in names)


def tag(*owners: type[Struct]) -> tuple[Place, ...]:
    """Return the key of wire types that tells the variants of a union apart."""
    return tuple(Place(owner, str(owner.__struct_config__.tag_field)) for owner in owners)


def members_of(*owners: type[Struct]) -> tuple[Place, ...]:
    """Return all members of wire types."""
    return tuple(_Members(owner, "") for owner in owners)


def inside(owner: type[Struct], *names: str) -> tuple[Place, ...]:
    """Return members of a wire type, and everything in their values."""
    return tuple(_Inside(owner_of(owner), _key(owner, name)) for name in names)


def below(owner: type[Struct], *names: str) -> tuple[Place, ...]:
    """Return everything in the values of members of a wire type."""
    return tuple(_Below(owner_of(owner), _key(owner, name)) for name in names)


def key_in(owner: type[Struct], name: str, *keys: str) -> tuple[Place, ...]:
    """Return keys of the objects that a member holds; not all variants need to have them."""
    return tuple(_KeyIn(owner, _key(owner, name), key) for key in keys)


def absent(owner: type[Struct], *keys: str) -> tuple[Place, ...]:
    """Return keys that a wire type must not have."""
    if clash := set(keys) & set(owner.__struct_encode_fields__):
        raise TypeError(f"{owner.__name__} has {', '.join(sorted(clash))}")
    return tuple(_Absent(owner, key) for key in keys)


def _key(owner: type[Struct], name: str) -> str:
    names = dict(zip(owner.__struct_fields__, owner.__struct_encode_fields__, strict=True))
    if name not in names:
        raise TypeError(f"{owner.__module__}.{owner.__name__} has no member {name}")
    return names[name]


class FieldRule(Struct, frozen=True):
    """A rule about fields: which problems break it, and where."""

    rule: str
    places: tuple[Place, ...]
    kinds: frozenset[ProblemKind] = MALFORMED

    def broken_by(self, problem: TypeProblem) -> bool:
        """Return whether a problem breaks the rule."""
        at = VisitedKey(problem.owner, problem.key, problem.within)
        return problem.what in self.kinds and any(
            place.fits(at)
            for place in self.places
            if (problem.what == "extra") is isinstance(place, _Absent)
        )

    def applies_to(self, visit: VisitedKey) -> bool:
        """Return whether a key of a message exercises the rule."""
        if self.kinds == _KEYS:
            return not visit.key and any(place.owner == visit.owner for place in self.places)
        return any(
            not visit.key and place.owner == visit.owner
            if isinstance(place, _Absent)
            else place.fits(visit)
            for place in self.places
        )
