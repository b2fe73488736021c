"""`initialize`: versions, capabilities, and the required methods."""

from __future__ import annotations

from typing import Any

from accord.rules.negotiation import is_false_v2
from accord.text.lenient_json import is_object
from accord.v2.content import UnsupportedProtocolVersionErrorData
from accord_conformance.judges.base import Judge
from accord_conformance.traffic.connection_state import SETUP_METHODS
from accord_conformance.traffic.message import Request
from accord_conformance.traffic.strict_types import find_problems, format_value

# The keys of capabilities and names that only one of the versions has.
_KEYS = {1: {"agentCapabilities", "agentInfo"}, 2: {"capabilities", "info"}}
OTHER_KEYS = {1: _KEYS[2], 2: _KEYS[1]}

_BASELINE = ("session/new", "session/prompt")
_SESSION = ("session/new", "session/list", "session/resume", "session/close", "session/prompt")


class Handshake(Judge):
    """R-INIT, as observed in a conversation."""

    rules = (
        "R-INIT-01",
        "R-INIT-05",
        "R-INIT-06",
        "R-INIT-12",
        "R-INIT-19",
        "R-INIT-20",
        "R-INIT-23",
        "R-INIT-27",
        "R-INIT-30",
        "R-INIT-31",
        "R-INIT-34",
    )

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._asked = False  # initialize was sent
        self._early: list[Request] = []
        self._used = False  # another request was sent since `initialize` succeeded
        self._too_late: list[Request] = []
        self._failed: Request | None = None  # requested another version than 1

    def on_request(self, call: Request) -> None:
        if call.sender != "client":
            return
        if call.method == "initialize":
            self._asked = True
            if self._used and self.state.version == 2:
                self._too_late.append(call)
            return
        if self.state.initialized is not None:
            self._used = True
        elif not self._asked:
            self._early.append(call)
        if call.method in SETUP_METHODS and self._is_from_the_start():
            self.judge(
                "R-INIT-01",
                self.state.initialized is not None,
                call,
                expected="a response to `initialize` before any other request",
                got=f"{call.method} before it",
            )

    def _is_from_the_start(self) -> bool:
        first = self.state.frames[0]
        return self.state.initialized is not None or b'"method"' in first.text

    def on_response(self, call: Request) -> None:
        if call.sender != "client":
            return
        if call.method == "initialize":
            self._initialize(call)
            return
        if call in self._early:
            self.judge(
                "R-INIT-30",
                call.code == -32600,
                call,
                expected="-32600 before `initialize`",
                got="a result" if call.ok else format_value(call.code),
                by="agent",
            )
        if call.method in _BASELINE:
            self._serves("R-INIT-23", call)
        if call.method in _SESSION and self._offers_session():
            self._serves("R-INIT-27", call)

    def _offers_session(self) -> bool:
        return getattr(self.state.capabilities["agent"], "session", None) is not None

    def _serves(self, rule: str, call: Request) -> None:
        self.judge(
            rule,
            call.code != -32601,
            call,
            expected=f"{call.method} is supported",
            got="-32601, unknown method",
        )

    def _initialize(self, call: Request) -> None:
        requested = call.params.get("protocolVersion") if is_object(call.params) else None
        if call in self._too_late:
            self.judge(
                "R-INIT-34",
                call.code == -32600,
                call,
                expected="-32600 after any other request",
                got="a result" if call.ok else format_value(call.code),
            )
            return
        if not call.ok:
            self._refused(call)
            return
        result: dict[str, Any] = call.result if is_object(call.result) else {}
        answered = result.get("protocolVersion")
        if isinstance(requested, int) and isinstance(answered, int):
            self._version(call, requested, answered)
        if answered == 1 and requested != 1:
            self.judge("R-INIT-06", True)
        elif answered == 1 and self._failed is not None:
            # It has version 1 after all.
            self.judge(
                "R-INIT-06",
                False,
                self._failed,
                call,
                expected="a result with version 1 for an unsupported version",
                got=f"error {format_value(self._failed.code)}",
            )
        if answered == 2 and is_false_v2(result):
            self.judge(
                "R-INIT-06",
                False,
                call,
                expected="version 1, because the result has the form of version 1",
                got="version 2",
            )
        elif answered in (1, 2):
            self.judge(
                "R-INIT-12",
                OTHER_KEYS[answered].isdisjoint(result),
                call,
                expected=f"a result in the form of version {answered}",
                got="keys of another version",
            )
        if answered == 1 and not is_of_other_version(result):
            self._infos(call, result)

    def _version(self, call: Request, requested: int, answered: int) -> None:
        if not 1 <= requested <= 65_535:
            return  # an agent of v1 answers 1 in any case
        if answered < requested <= 2:
            return  # its versions are unknown
        self.judge(
            "R-INIT-05",
            answered <= requested,
            call,
            expected=f"version {requested} or lower",
            got=format_value(answered),
        )

    def _infos(self, call: Request, result: dict[str, Any]) -> None:
        missing = "nothing"
        if "agentInfo" not in result or result["agentInfo"] is None:
            self.judge("R-INIT-19", False, call, expected="`agentInfo`", got=missing)
        params = call.params if is_object(call.params) else {}
        says = params.get("clientInfo") is not None or params.get("info") is not None
        self.judge("R-INIT-20", says, call, expected="`clientInfo`", got=missing)

    def _refused(self, call: Request) -> None:
        error = call.response.error if call.response else None
        requested = call.params.get("protocolVersion") if is_object(call.params) else None
        if isinstance(requested, int) and 1 < requested <= 65_535 and call.code != -32022:
            self._failed = call
        if call.code == -32022 and is_object(error):
            data = error.get("data")
            self.judge(
                "R-INIT-31",
                not find_problems(UnsupportedProtocolVersionErrorData, data),
                call,
                expected="`data` with `requested` and `supported`",
                got=format_value(data),
            )


def is_of_other_version(result: dict[str, Any]) -> bool:
    """Return whether an `initialize` result has the shape of the version that it does not name."""
    version = result.get("protocolVersion")
    if version not in (1, 2):
        return False
    other = not OTHER_KEYS[version].isdisjoint(result) and _KEYS[version].isdisjoint(result)
    return other or (version == 2 and is_false_v2(result))
