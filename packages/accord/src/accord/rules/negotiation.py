"""The protocol version of a connection, from the params and the result of `initialize`.

supported      requested 0   1          2          above 2
v1             1             1          1          1
v2             refused       refused    2          2
v1 and v2      refused       1          2          2

`AgentLifecycle` says when `initialize` is allowed on the agent's side.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final, Literal, TypeAlias

from accord.errors import InvalidParams, InvalidRequest, UnsupportedVersion, VersionNotOffered
from accord.rules.quirks import tolerates
from accord.text.excerpt import excerpt
from accord.text.lenient_json import is_object, whole
from accord.version import ProtocolVersion

_V1_KEYS = ("agentCapabilities", "agentInfo")


def requested_version(params: Any) -> int:
    """Return the version that `initialize` requests; raise `InvalidParams` (R-INIT-10)."""
    if not is_object(params):
        raise _invalid("Expected `object`", "$")
    if "protocolVersion" not in params:
        raise _invalid("Object missing required field `protocolVersion`", "$")
    version = whole(params["protocolVersion"])
    if type(version) is not int or not 0 <= version <= 65_535:
        raise _invalid("Expected an integer from 0 to 65535", "$.protocolVersion")
    return version


def _invalid(reason: str, path: str) -> InvalidParams:
    data = {"path": path, "reason": reason}
    return InvalidParams(f"Invalid params: {reason} at {path}", data=data)


def select(requested: int, offered: Collection[ProtocolVersion]) -> ProtocolVersion:
    """Return the version an agent chooses; raise `VersionNotOffered` (R-INIT-06, R-INIT-31)."""
    if 2 not in offered:
        return 1
    fitting = [version for version in offered if version <= requested]
    if not fitting:
        raise VersionNotOffered(data={"requested": requested, "supported": sorted(offered)})
    return 2 if 2 in fitting else 1


@tolerates("false-v2")
def is_false_v2(result: dict[str, Any]) -> bool:
    """Return True if a result has version 2, but the body of version 1, as some agents send."""
    has_v2_body = is_object(result.get("info"))
    return not has_v2_body and any(key in result for key in _V1_KEYS)


def negotiated_version(result: Any, offered: Collection[ProtocolVersion]) -> ProtocolVersion:
    """Return the version in the result of `initialize` (R-INIT-14, R-INIT-32).

    Raise `UnsupportedVersion` if this side does not support it.
    """
    if not is_object(result):
        raise UnsupportedVersion("The result of initialize is not an object", raw=result)
    version = whole(result.get("protocolVersion"))
    if version == 2 and is_false_v2(result):
        version = 1
    for ours in offered:
        if type(version) is int and version == ours:
            return ours
    if type(version) is not int:
        got = "nothing" if "protocolVersion" not in result else repr(version)
        raise UnsupportedVersion(
            f"Expected a number at $.protocolVersion of what initialize returned, got {got}",
            raw=result,
        )
    numbers = " and ".join(f"{number}" for number in sorted(offered))
    raise UnsupportedVersion(
        f"The agent speaks protocol version {version!r}, this client {numbers}", raw=result
    )


def v1_params_of(params: dict[str, Any]) -> dict[str, Any]:
    """Return v2-shaped `initialize` params as a v1 agent reads them (R-ROUTE-06).

    Params that also have the keys of v1 are read by these (A-42).
    """
    if "clientCapabilities" in params or params.keys().isdisjoint(("info", "capabilities")):
        return params
    offered = params.get("capabilities")
    capabilities = offered if is_object(offered) else {}
    auth = capabilities.get("auth")
    terminal = auth.get("terminal") if is_object(auth) else None
    translated: dict[str, Any] = {
        "fs": {"readTextFile": False, "writeTextFile": False},
        "terminal": False,
        "session": {"configOptions": {"boolean": {}}},
        "plan": {},
        "auth": {"terminal": is_object(terminal)},
    }
    for key in ("elicitation", "_meta"):
        if key in capabilities:
            translated[key] = capabilities[key]
    v1: dict[str, Any] = {
        "protocolVersion": params.get("protocolVersion"),
        "clientCapabilities": translated,
    }
    if is_object(params.get("info")):
        v1["clientInfo"] = params["info"]
    if "_meta" in params:
        v1["_meta"] = params["_meta"]
    return v1


def v2_params_of(raw: dict[str, Any]) -> dict[str, Any]:
    """Return the params of a future version as those of version 2 (R-INIT-37)."""
    info = raw.get("info")
    parts = info if is_object(info) else {}
    named = {
        key: parts[key] if isinstance(parts.get(key), str) else "unknown"
        for key in ("name", "version")
    }
    return {**raw, "info": {**parts, **named}}


# The lifecycle: the table is the rule, and only this class changes the state.

State: TypeAlias = Literal["new", "initializing", "ready", "in use"]

# Whether `initialize` is allowed, by state and by the version spoken so far.
_INITIALIZE: Final[dict[tuple[State, ProtocolVersion | None], bool]] = {
    ("new", None): True,
    ("initializing", None): False,  # R-INIT-34
    ("initializing", 1): False,
    ("initializing", 2): False,
    ("ready", 1): True,  # R-INIT-39
    ("ready", 2): True,  # R-INIT-33
    ("in use", 1): True,  # R-INIT-39
    ("in use", 2): False,  # R-INIT-34
}


class AgentLifecycle:
    """The state of an agent's connection."""

    def __init__(self) -> None:
        self.state: State = "new"
        self.version: ProtocolVersion | None = None
        self._before: State = "new"

    def begin(self, requested: int) -> None:
        """Begin an `initialize`; raise `InvalidRequest` if it is not allowed."""
        if not _INITIALIZE[self.state, self.version]:
            when = "while it is being handled" if self.state == "initializing" else "any more"
            raise InvalidRequest(f"initialize may not be sent {when}")
        if self.version == 2 and requested < 2:
            raise InvalidRequest("initialize may not ask for less than the version spoken")
        self._before, self.state = self.state, "initializing"

    def fail(self) -> None:
        """Return to the state before a failed `initialize` (R-INIT-30)."""
        self.state = self._before

    def complete(self, version: ProtocolVersion) -> None:
        """Finish a successful `initialize`."""
        self.version = version
        self.state = "in use" if self._before == "in use" else "ready"

    def use(self) -> None:
        """Note a request other than `initialize`."""
        self.state = "in use"

    @staticmethod
    def too_early(method: str) -> InvalidRequest:
        """Return the error for requests before `initialize` succeeded (R-INIT-30, R-INIT-35)."""
        return InvalidRequest(f"initialize comes before {excerpt(method)}")
