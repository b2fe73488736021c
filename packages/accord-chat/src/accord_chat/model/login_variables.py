"""The variables that legacy logins of the type `env_var` need, from the answer to `initialize`.

The type is no longer in the protocol (R-AUTH-24): such a method decodes as one of the agent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from accord.text import lenient_json

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_MARK = b"env_var"


def login_variables(frame: bytes | bytearray | memoryview) -> dict[str, tuple[str, ...]]:
    """Return the names of the variables by the id of the method; usually there are none."""
    data = bytes(frame)
    if _MARK not in data:
        return {}
    try:
        message = lenient_json.loads(data)
    except ValueError:
        return {}
    result = message.get("result") if lenient_json.is_object(message) else None
    methods = result.get("authMethods") if lenient_json.is_object(result) else None
    if not lenient_json.is_array(methods):
        return {}
    return dict(found for method in methods for found in _variables(method))


def _variables(method: Any) -> Iterator[tuple[str, tuple[str, ...]]]:
    if not lenient_json.is_object(method) or method.get("type") != "env_var":
        return
    given = method.get("vars")
    rows: list[Any] = list(given) if lenient_json.is_array(given) else []
    rows.append({"name": method.get("varName")})
    names = [
        row["name"]
        for row in rows
        if lenient_json.is_object(row) and _is_name(row) and row.get("optional") is not True
    ]
    if isinstance(method.get("id"), str) and names:
        yield method["id"], tuple(names)


def _is_name(row: Mapping[str, Any]) -> bool:
    name = row.get("name")
    return isinstance(name, str) and _NAME.fullmatch(name) is not None
