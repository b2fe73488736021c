"""Validators for the types of a schema that share what is prepared for it once."""

from __future__ import annotations

from typing import Any

from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

_URI = "urn:schema"
# With the schemas themselves: their ids are not used again.
_registries: dict[int, tuple[Any, Registry[Any]]] = {}


def validator_of(schema: dict[str, Any], name: str) -> Draft202012Validator:
    """Return the validator of a type in `$defs`."""
    if id(schema) not in _registries:
        resource: Resource[Any] = DRAFT202012.create_resource({"$defs": schema["$defs"]})
        _registries[id(schema)] = schema, Registry().with_resource(_URI, resource).crawl()
    _, registry = _registries[id(schema)]
    return Draft202012Validator({"$ref": f"{_URI}#/$defs/{name}"}, registry=registry)
