"""Login and logout."""

from __future__ import annotations

from typing import Any

from accord.text.lenient_json import is_array, is_object
from accord_conformance.judges.base import Judge
from accord_conformance.judges.paths import items
from accord_conformance.traffic.message import Request
from accord_conformance.traffic.strict_types import format_value

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
