"""The complete comparison of one version, stable or unstable: types, methods, directions."""

from __future__ import annotations

from typing import Any

from accord.wire.describe import describe
from schema import allowed
from schema import model_of_types as types
from schema.compare import Comparison, Finding
from schema.methods_of_schema import ENVELOPES, methods_of_schema
from schema.model_of_schema import SchemaModel


def prove(version: str, schema: SchemaModel, *, unstable: bool) -> dict[str, Finding]:
    """Return every difference between the wire types and one schema, by name."""
    comparison = Comparison()
    _methods(comparison, version, schema, unstable)
    # Inherited fields are compared with the class that defines them.
    reached = {base for cls in comparison.classes for base in cls.__mro__}
    public = {
        name: tp
        for name, tp in types.public(version).items()
        if unstable or not types.is_unstable(tp)
    }
    other = allowed.OTHER_NAMES[version]
    public = {
        other.get(name, name): tp for name, tp in public.items() if name not in other.values()
    }
    for name, tp in public.items():
        # A class was compared where it is used, together with the fields of its variant.
        if name in schema.defs and tp not in reached:
            comparison.shapes(schema.shape(name), describe(tp, unstable=unstable), name)
    findings = dict(comparison.findings)

    def note(where: str, respect: str, ours: Any, theirs: Any) -> None:
        finding = Finding(where, respect, ours, theirs)
        findings[finding.key] = finding

    for name in schema.defs.keys() - public.keys() - set(ENVELOPES):
        note(name, "definition", "no such name", "present")
    for name, tp in public.items():
        if types.is_class(tp) and tp not in reached and name not in schema.defs:
            note(name, "class", "present", "reached from no method")
    return findings


def _methods(comparison: Comparison, version: str, schema: SchemaModel, unstable: bool) -> None:
    theirs = methods_of_schema(schema)
    ours = {
        (method.name, method.is_request): method
        for method in types.methods(version)
        if (unstable or not method.unstable)
    }
    for name, is_request in theirs.keys() ^ ours.keys():
        kind = "request" if is_request else "notification"
        present = (name, is_request) in ours
        comparison.find(
            name, kind, "present" if present else "absent", "absent" if present else "present"
        )
    for key in theirs.keys() & ours.keys():
        their, our = theirs[key], ours[key]
        comparison.same(key[0], "direction", their.to, our.to)
        for name, tp in ((their.params, our.params), (their.result, our.result)):
            if name is not None:
                comparison.shapes(schema.shape(name), describe(tp, unstable=unstable), name)
