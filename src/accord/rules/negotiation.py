"""Which protocol version a connection speaks, and how to tell from what came.

offered        asked for 0   1          2          above 2
v1             1             1          1          1
v2             refused       refused    2          2
v1 and v2      refused       1          2          2
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from accord.errors import InvalidParams, UnsupportedVersion, VersionNotOffered
from accord.version import ProtocolVersion

__all__ = ("is_false_v2", "requested_version", "select", "spoken", "v1_params_of")

_V1_KEYS = ("agentCapabilities", "agentInfo")


def requested_version(params: Any) -> int:
    """Return the version that an `initialize` asks for; raise `InvalidParams` (R-INIT-10)."""
    if not isinstance(params, dict):
        raise _invalid("Expected `object`", "$")
    fields: dict[str, Any] = params  # pyright: ignore[reportUnknownVariableType]
    if "protocolVersion" not in fields:
        raise _invalid("Object missing required field `protocolVersion`", "$")
    version = fields["protocolVersion"]
    if type(version) is not int or not 0 <= version <= 65_535:
        raise _invalid("Expected an integer from 0 to 65535", "$.protocolVersion")
    return version


def _invalid(reason: str, path: str) -> InvalidParams:
    data = {"path": path, "reason": reason}
    return InvalidParams(f"Invalid params: {reason} at {path}", data=data)


def select(requested: int, offered: Collection[ProtocolVersion]) -> ProtocolVersion:
    """Return the version the agent answers; raise `VersionNotOffered` (R-INIT-06, R-INIT-31)."""
    if 2 not in offered:
        return 1
    fitting = [version for version in offered if version <= requested]
    if not fitting:
        raise VersionNotOffered(data={"requested": requested, "supported": sorted(offered)})
    return 2 if 2 in fitting else 1


def is_false_v2(result: dict[str, Any]) -> bool:
    """Tell whether a result says version 2 but has the body of version 1, as some agents' do."""
    has_v2_body = isinstance(result.get("info"), dict)
    return not has_v2_body and any(key in result for key in _V1_KEYS)


def spoken(result: Any, offered: Collection[ProtocolVersion]) -> ProtocolVersion:
    """Return the version that an agent's `initialize` result settles (R-INIT-14, R-INIT-32).

    Raise `UnsupportedVersion` for one that this side does not offer.
    """
    if not isinstance(result, dict):
        raise UnsupportedVersion("The result of initialize is no object", raw=result)
    fields: dict[str, Any] = result  # pyright: ignore[reportUnknownVariableType]
    version = fields.get("protocolVersion")
    if version == 2 and is_false_v2(fields):
        version = 1
    for ours in offered:
        if type(version) is int and version == ours:
            return ours
    numbers = " and ".join(f"{number}" for number in sorted(offered))
    raise UnsupportedVersion(
        f"The agent speaks protocol version {version!r}, this client {numbers}", raw=fields
    )


def v1_params_of(params: dict[str, Any]) -> dict[str, Any]:
    """Return v2-shaped `initialize` params as a v1 agent reads them (R-ROUTE-06)."""
    if "info" not in params and "capabilities" not in params:
        return params
    offered = params.get("capabilities")
    capabilities: dict[str, Any] = offered if isinstance(offered, dict) else {}  # pyright: ignore[reportUnknownVariableType]
    auth = capabilities.get("auth")
    terminal: Any = auth.get("terminal") if isinstance(auth, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    translated: dict[str, Any] = {
        "fs": {"readTextFile": False, "writeTextFile": False},
        "terminal": False,
        "session": {"configOptions": {"boolean": {}}},
        "plan": {},
        "auth": {"terminal": isinstance(terminal, dict)},
    }
    for key in ("elicitation", "_meta"):
        if key in capabilities:
            translated[key] = capabilities[key]
    v1: dict[str, Any] = {
        "protocolVersion": params.get("protocolVersion"),
        "clientCapabilities": translated,
    }
    if isinstance(params.get("info"), dict):
        v1["clientInfo"] = params["info"]
    if "_meta" in params:
        v1["_meta"] = params["_meta"]
    return v1
