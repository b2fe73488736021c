"""Judges of what two sides agree on: versions, capabilities, login, providers of models."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from accord.errors import DecodeError
from accord.rules.gates import is_open
from accord.rules.negotiation import is_false_v2
from accord.text.lenient_json import is_array, is_object
from accord.v1.methods import PARAM_GATES as NEEDS_V1
from accord.v2.content import UnsupportedProtocolVersionErrorData
from accord.v2.methods import PARAM_GATES as NEEDS_V2
from accord.wire.codec import convert
from accord.wire.protocol import Method
from accord_conformance.judges.base import Evidence, Judge, items
from accord_conformance.traffic.connection_state import SETUP_METHODS, methods, update_of
from accord_conformance.traffic.message import (
    Notification,
    Request,
    Side,
    find_problems,
    format_value,
    other,
)

# `initialize`: versions, capabilities, and the required methods.

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


# Capabilities: a side uses only what the other side advertises.

# By version and method; R-INIT-29 is for all others.
_OF_METHOD: dict[tuple[int, str], str] = {
    (1, "session/load"): "R-SESS-07",
    (1, "session/resume"): "R-SESS-11",
    (1, "session/close"): "R-SESS-20",
    (1, "session/list"): "R-LIST-01",
    (1, "logout"): "R-AUTH-25",
    (1, "fs/read_text_file"): "R-FS-01",
    (1, "fs/write_text_file"): "R-FS-01",
    **{
        (version, method): rule
        for version in (1, 2)
        for method, rule in {
            "session/delete": "R-LIST-12",
            "session/fork": "R-SESS-24",
            "session/archive": "R-ARCH-01",
            "session/unarchive": "R-ARCH-01",
            "session/status": "R-STATUS-01",
            "session/set_title": "R-TITLE-01",
            "auth/status": "R-ASTAT-01",
            "auth/status_update": "R-ASTAT-06",
            "elicitation/create": "R-ELIC-02",
            "elicitation/complete": "R-ELIC-02",
        }.items()
    },
    **{
        (1, f"terminal/{name}"): "R-TERM-01"
        for name in ("create", "output", "wait_for_exit", "kill", "release")
    },
}
_OF_UPDATE = {
    "notice": ("R-NOTICE-01", "client.session.notices"),
    "compaction_update": ("R-COMP-01", "client.session.compaction"),
    "compaction_summary_chunk": ("R-COMP-01", "client.session.compaction"),
    "plan_update": ("R-PLAN-08", "client.plan"),
    "plan_removed": ("R-PLAN-08", "client.plan"),
    "subagent_update": ("R-SUBAG-01", "client.subagents"),
    "session_message": ("R-SUBAG-01", "client.subagents"),
    "session_message_chunk": ("R-SUBAG-01", "client.subagents"),
}
_OF_PARAMS = (
    ("agent.session_capabilities.additional_directories", "R-DIR-01"),
    ("agent.session.additional_directories", "R-DIR-01"),
    ("agent.session_capabilities.system_prompt", "R-SYSP-01"),
    ("agent.session.system_prompt", "R-SYSP-01"),
    ("agent.session_capabilities.archive", "R-ARCH-01"),
    ("agent.session.archive", "R-ARCH-01"),
    ("agent.mcp_capabilities.acp", "R-MOA-01"),
    ("agent.session.mcp.acp", "R-MOA-01"),
    ("agent.mcp_capabilities", "R-MCP-02"),
    ("agent.session.mcp", "R-MCP-03"),
    ("agent.prompt_capabilities", "R-PROMPT-02"),
    ("agent.session.prompt", "R-PROMPT-02"),
)
_UNGATED = "agent.session.unknown"
# Other rules cover whether these are served: R-INIT-27, R-AUTH-04, R-CONF-18, R-PROV-01, R-MOA-09.
_JUDGED_ELSEWHERE = {
    *((2, f"session/{name}") for name in ("new", "list", "resume", "close", "prompt")),
    *((2, name) for name in ("auth/login", "auth/logout", "session/set_config_option")),
    *((version, f"providers/{name}") for version in (1, 2) for name in ("list", "set", "disable")),
    *((version, "mcp/message") for version in (1, 2)),
}


class Gates(Judge):
    """Methods, updates and parts of params that need a capability."""

    rules = tuple(
        sorted(
            {"R-INIT-29", "R-CONF-08", "R-ERR-01"}
            | {rule for rule, _ in _OF_UPDATE.values()}
            | {rule for _, rule in _OF_PARAMS}
        )
    )

    @classmethod
    def judged_rules(cls) -> Collection[str]:
        return {*cls.rules, *_OF_METHOD.values()}

    def on_request(self, call: Request) -> None:
        if call.method != "initialize":
            self._method(call.method, call.sender, call, is_request=True)
            self._params(call)

    def on_notification(self, note: Notification) -> None:
        self._method(note.method, note.sender, note, is_request=False)
        if note.method != "session/update" or self.state.version is None:
            return
        update = update_of(note)
        kind = update.get("sessionUpdate")
        if isinstance(kind, str) and kind in _OF_UPDATE:
            rule, gate = _OF_UPDATE[kind]
            if self.state.version == 1:
                self._gate(rule, gate, f"the update {kind}", note.sender, note)
        if kind == "config_option_update":
            self._booleans(update, note)

    def on_response(self, call: Request) -> None:
        if call.sender == "client" and is_object(call.result):
            self._booleans(call.result, call)
        if call.code == -32601:
            self._not_found(call)

    def _not_found(self, call: Request) -> None:
        """Judge that a side serves the methods that it advertises."""
        version = self.state.version
        if version is None or None in self.state.capabilities.values():
            return
        if (version, call.method) in _JUDGED_ELSEWHERE:
            return
        for method in methods(version):
            gate = method.gate
            if method.name != call.method or not method.is_request or not gate:
                continue
            owner: Side = "agent" if gate.startswith("agent.") else "client"
            if call.method == "elicitation/create":
                gate = _elicitation_gate(call) or gate
            if owner != call.sender and is_open(gate, self.state.capabilities):
                self.judge(
                    "R-ERR-01",
                    False,
                    self.state.initialized,
                    call,
                    expected=f"{call.method} is served, as {_wire(gate)} offers it",
                    got="-32601, unknown method",
                    by=owner,
                )

    def _booleans(self, value: dict[str, Any], seen: Evidence) -> None:
        if any(option.get("type") == "boolean" for option in items(value, "configOptions")):
            gate = "client.session.config_options.boolean"
            self._gate("R-CONF-08", gate, "an option of type boolean", "agent", seen)

    def _method(self, name: str, sender: Side, seen: Evidence, *, is_request: bool) -> None:
        version = self.state.version
        if version is None:
            return
        for method in methods(version):
            if method.name == name and method.is_request is is_request and method.gate:
                rule = _OF_METHOD.get((version, name), "R-INIT-29")
                gate = method.gate
                if name == "elicitation/create":
                    gate = _elicitation_gate(seen) or gate
                self._gate(rule, gate, name, sender, seen)

    def _params(self, call: Request) -> None:
        version = self.state.version
        needs = NEEDS_V1 if version == 1 else NEEDS_V2
        if version is None:
            return
        for method in methods(version):
            if method.name == call.method and method.call in needs:
                self._needs(method, needs[method.call], call)

    def _needs(self, method: Method, needs: Any, call: Request) -> None:
        try:
            params = convert(call.params, method.params)
        except DecodeError:
            return  # the judge of wire types reports it
        for what, gate in needs(params):
            if gate == _UNGATED:
                continue
            rule = next((rule for path, rule in _OF_PARAMS if gate.startswith(path)), "R-INIT-29")
            self._gate(rule, gate, what, call.sender, call)

    def _gate(self, rule: str, gate: str, what: str, by: Side, seen: Evidence) -> None:
        if None in self.state.capabilities.values():
            return
        opened = is_open(gate, self.state.capabilities)
        owner: Side = "agent" if gate.startswith("agent.") else "client"
        offered = "" if owner == by else f", offered by the {other(by)}"
        self.judge(
            rule,
            opened,
            self.state.initialized,
            seen,
            expected=f"{what} only with the capability {_wire(gate)}{offered}",
            got=f"{what} without it",
            by=by,
        )


def add_gate_rules(rules: Mapping[tuple[int, str], str]) -> None:
    """Add the rules that methods of an extension break, by version and method."""
    _OF_METHOD.update(rules)


def _elicitation_gate(seen: Evidence) -> str | None:
    params = seen.params if isinstance(seen, Request) else None
    mode = params.get("mode") if is_object(params) else None
    return f"client.elicitation.{mode}" if mode in ("form", "url") else None


def _wire(gate: str) -> str:
    """Return a gate in the spelling of the wire."""
    _, *path = gate.split(".")
    words = (name.split("_") for name in path)
    return ".".join(first + "".join(word.title() for word in rest) for first, *rest in words)


# Login and logout.

_LOGIN = ("authenticate", "auth/login")


class Auth(Judge):
    """R-AUTH and R-ASTAT."""

    rules = (
        "R-AUTH-04",
        "R-AUTH-05",
        "R-AUTH-06",
        "R-AUTH-07",
        "R-AUTH-08",
        "R-AUTH-09",
        "R-AUTH-10",
        "R-AUTH-13",
        "R-AUTH-21",
        "R-AUTH-24",
        "R-AUTH-26",
        "R-ASTAT-02",
    )

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._logged_in: Request | None = None
        self._logged_out: Request | None = None
        self._needed = False  # a session was refused because it requires a login

    def on_request(self, call: Request) -> None:
        if call.sender != "client" or self.state.version is None:
            return
        if call.method in ("auth/login", "auth/logout"):
            self.judge(
                "R-AUTH-05",
                bool(self.state.auth_methods),
                call,
                expected="no login or logout without `authMethods`",
                got=call.method,
            )
        if call.method not in _LOGIN:
            return
        ident = call.params.get("methodId") if is_object(call.params) else None
        method = self._method(ident)
        if call.method == "authenticate":
            self.judge(
                "R-AUTH-07",
                method is not None,
                call,
                expected="the id of an advertised method",
                got=format_value(ident),
            )
        if method is not None:
            self.judge(
                "R-AUTH-08",
                method.get("type") != "terminal",
                call,
                expected="an id whose method is not of type terminal",
                got=format_value(ident),
            )

    def _method(self, ident: Any) -> dict[str, Any] | None:
        for method in self.state.auth_methods:
            if is_object(method) and ident in (method.get("id"), method.get("methodId")):
                return method
        return None

    def on_response(self, call: Request) -> None:
        if call.sender != "client":
            return
        match call.method:
            case "initialize":
                if call.ok and is_object(call.result):
                    for method in items(call.result, "authMethods"):
                        self._offered(call, method)
            case "authenticate":
                self._login(call)
            case "auth/login":
                self._is_served(call)
                self._login(call)
            case "logout":
                self._logout(call)
            case "auth/logout":
                self._is_served(call)
                self._logout(call)
            case "auth/status":
                self.judge(
                    "R-ASTAT-02",
                    call.code != -32000,
                    call,
                    expected="a response that does not require a login",
                    got="-32000",
                )
            case "session/new":
                self._new_session(call)
            case _:
                pass

    def _is_served(self, call: Request) -> None:
        """Judge that an agent with `authMethods` serves login and logout."""
        if not self.state.auth_methods:
            return
        self.judge(
            "R-AUTH-04",
            call.code != -32601,
            call,
            expected=f"{call.method} is supported",
            got="-32601, unknown method",
        )
        if not self._has_auth():
            self.judge(
                "R-AUTH-06",
                call.code != -32601,
                self.state.initialized,
                call,
                expected=f"{call.method} is supported also without `capabilities.auth`",
                got="-32601, unknown method",
                by="agent",
            )

    def _logout(self, call: Request) -> None:
        self._logged_in = None
        self._logged_out = call if call.ok else None

    def _new_session(self, call: Request) -> None:
        if self._logged_out is not None and self._needed:
            self.judge(
                "R-AUTH-26",
                call.code == -32000,
                self._logged_out,
                call,
                expected="-32000 after the logout, as before the login",
                got="a result" if call.ok else format_value(call.code),
            )
        elif self._logged_in is not None:
            self.judge(
                "R-AUTH-10",
                call.code != -32000,
                self._logged_in,
                call,
                expected="no auth error after a successful login",
                got="-32000",
            )
        else:
            self._needed |= call.code == -32000

    def _has_auth(self) -> bool:
        """Return whether the agent's capabilities have `auth`."""
        call = self.state.initialized
        result = call.result if call is not None and is_object(call.result) else {}
        capabilities = result.get("capabilities")
        return is_object(capabilities) and capabilities.get("auth") is not None

    def _login(self, call: Request) -> None:
        ident = call.params.get("methodId") if is_object(call.params) else None
        if self._method(ident) is None and isinstance(ident, str):
            self.judge(
                "R-AUTH-09",
                not call.ok,
                call,
                expected="an error for an id that was not advertised",
                got="a result",
            )
        elif call.ok:
            self._logged_in, self._logged_out = call, None

    def _offered(self, call: Request, method: dict[str, Any]) -> None:
        kind = method.get("type")
        self.judge(
            "R-AUTH-24",
            kind != "env_var",
            call,
            expected="no method of the former type env_var",
            got=format_value(method),
            by="agent",
        )
        if kind != "terminal":
            return
        self.judge(
            "R-AUTH-13",
            _opted_in(call.params),
            call,
            expected="a method of type terminal only for clients that opted in",
            got=format_value(method),
        )
        env = method.get("env")
        if is_array(env):
            names = [item.get("name") for item in env if is_object(item)]
            self.judge(
                "R-AUTH-21",
                len(names) == len(set(map(repr, names))),
                call,
                expected="each name once in `env`",
                got=format_value(names),
            )


def _opted_in(params: Any) -> bool:
    """Return whether a client supports login at a terminal, as either version spells it."""
    if not is_object(params):
        return False
    for key in ("clientCapabilities", "capabilities"):
        capabilities = params.get(key)
        auth = capabilities.get("auth") if is_object(capabilities) else None
        terminal = auth.get("terminal") if is_object(auth) else None
        if terminal is True or is_object(terminal):
            return True
    return False


# Providers of models.


class Providers(Judge):
    """R-PROV."""

    rules = ("R-PROV-02", "R-PROV-05", "R-PROV-08", "R-PROV-09")

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._required: dict[str, bool] = {}  # of the listed providers, by id
        self._disabled: dict[str, Request] = {}

    def on_request(self, call: Request) -> None:
        if (
            call.sender == "client"
            and call.method.startswith("providers/")
            and is_object(call.params)
        ):
            self.judge(
                "R-PROV-02",
                self.state.initialized is not None,
                call,
                expected="`initialize` before this request",
                got=call.method,
            )

    def on_response(self, call: Request) -> None:
        if call.sender != "client" or not is_object(call.params):
            return
        ident = str(call.params.get("providerId"))
        match call.method:
            case "providers/list" if call.ok and is_object(call.result):
                self._list(call)
            case "providers/set" if call.ok:
                self._disabled.pop(ident, None)
            case "providers/disable":
                self._disable(ident, call)
            case _:
                pass

    def _disable(self, ident: str, call: Request) -> None:
        if self._required.get(ident) is True:
            self.judge(
                "R-PROV-08",
                call.code == -32602,
                call,
                expected="-32602 for a required provider",
                got="a result" if call.ok else format_value(call.code),
            )
        elif ident not in self._required and self._required:
            self.judge(
                "R-PROV-09",
                call.ok,
                call,
                expected="a result for an unknown provider",
                got=f"error {format_value(call.code)}",
            )
        if call.ok and ident in self._required:
            self._disabled[ident] = call

    def _list(self, call: Request) -> None:
        providers = items(call.result, "providers")
        for provider in providers:
            self._required[str(provider.get("providerId"))] = provider.get("required") is True
        by_id = {str(provider.get("providerId")): provider for provider in providers}
        for ident, disabled in self._disabled.items():
            self.judge(
                "R-PROV-05",
                ident in by_id and by_id[ident].get("current") is None,
                disabled,
                call,
                expected=f"{format_value(ident)} in the list, without `current`",
                got=format_value(by_id.get(ident)),
            )
