"""Finds the official schema files, which are not part of this repository."""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from schema.model_of_schema import SchemaModel

HERE = Path(__file__).parent
PACKAGE = HERE / "node_modules" / "@agentclientprotocol" / "sdk" / "schema"
VERSIONS = ("v1", "v2")


def folder() -> Path:
    """Return the directory for v1/schema.json and the three other files."""
    return Path(os.environ.get("ACCORD_SCHEMA_DIR") or PACKAGE)


def path(version: str, *, unstable: bool) -> Path:
    """Return the path of one schema file."""
    return folder() / version / ("schema.unstable.json" if unstable else "schema.json")


def available() -> bool:
    """Return whether all four schemas exist."""
    return all(path(v, unstable=u).is_file() for v in VERSIONS for u in (False, True))


def demanded() -> bool:
    """Return whether a missing schema is a failure."""
    return os.environ.get("CI") == "true" or os.environ.get("ACCORD_REQUIRE_SCHEMA") == "1"


def require() -> None:
    """Skip the test without the schemas, or fail it if they are required."""
    if available():
        return
    reason = (
        f"no schemas in {folder()}: run `sh schema/install.sh` in packages/accord/tests (needs npm)"
    )
    if demanded():
        pytest.fail(reason)
    pytest.skip(reason)


@cache
def load(version: str, *, unstable: bool) -> dict[str, Any]:
    """Return one schema."""
    schema: dict[str, Any] = json.loads(path(version, unstable=unstable).read_text("utf-8"))
    return schema


@cache
def model(version: str, *, unstable: bool) -> SchemaModel:
    """Return one schema as shapes."""
    return SchemaModel(load(version, unstable=unstable))
