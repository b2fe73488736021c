"""The verdict of the official schema and of the codec on an instance of a type."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator

from accord.errors import DecodeError
from accord.wire.codec import decode, encode
from schema import model_of_types as types
from schema import official
from schema.validators import validator_of

# Names of the schema that differ from ours: without the tag of an update.
OTHER_CLASS = {"ToolCallUpdate": "ToolCallDetails"}


def type_of(version: str, name: str) -> Any:
    """Return the wire type for a name of the schema."""
    return types.public(version)[OTHER_CLASS.get(name, name)]


def read(version: str, name: str, value: Any) -> Any:
    """Return the decoded value; raise `DecodeError`."""
    return decode(json.dumps(value).encode(), type_of(version, name))


def written(value: Any) -> Any:
    """Return the encoded value as JSON."""
    return json.loads(encode(value))


def refuses(version: str, name: str, value: Any) -> bool:
    """Return whether the codec rejects an instance."""
    try:
        read(version, name, value)
    except DecodeError:
        return True
    return False


def is_valid(version: str, name: str, value: Any) -> bool:
    """Return whether the official schema accepts an instance."""
    schema = official.load(version, unstable=True)
    return _validator(version, name, id(schema)).is_valid(value)


@cache
def _validator(version: str, name: str, _schema: int) -> Draft202012Validator:
    schema = official.load(version, unstable=True)
    return validator_of(schema, name)
