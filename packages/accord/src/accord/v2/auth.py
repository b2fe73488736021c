"""Logging in and out, and who is logged in (v2)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, TypeAlias

from accord.v2.ids import AuthMethodId
from accord.v2.mcp import EnvVariable
from accord.wire.base import Lenient, LenientList, NullAsEmpty, Open, OpenEnum, Other, Wire
from accord.wire.method import Method

__all__ = (
    "AuthAccount",
    "AuthMethod",
    "AuthMethodAgent",
    "AuthMethodBase",
    "AuthMethodTerminal",
    "AuthState",
    "AuthStatusRequest",
    "AuthStatusResponse",
    "AuthStatusUpdateNotification",
    "LoginAuthRequest",
    "LoginAuthResponse",
    "LogoutAuthRequest",
    "LogoutAuthResponse",
)


class AuthMethodBase(Wire):
    """The fields of auth methods of every type."""

    method_id: AuthMethodId
    name: str


class AuthMethodTerminal(AuthMethodBase, tag_field="type", tag="terminal"):
    """A login in a terminal: the agent's own command, run with these `args` and `env` added."""

    description: Lenient[str | None] = None
    args: NullAsEmpty[list[str]] = []
    env: NullAsEmpty[list[EnvVariable]] = []


class AuthMethodAgent(AuthMethodBase, tag_field="type", tag="agent"):
    """A login that the agent handles itself when `auth/login` is called."""

    description: Lenient[str | None] = None


AuthMethod: TypeAlias = Annotated[Open[AuthMethodTerminal | AuthMethodAgent], Other(AuthMethodBase)]


class LoginAuthRequest(Wire):
    """Logs in with a method that the agent advertised, never with a terminal one."""

    method_id: AuthMethodId


class LoginAuthResponse(Wire):
    """Logged in."""


class LogoutAuthRequest(Wire):
    """Logs out."""


class LogoutAuthResponse(Wire):
    """Logged out."""


AuthState: TypeAlias = OpenEnum[
    Literal["authenticated", "unauthenticated", "not_required", "unknown"]
]


class AuthAccount(Wire):
    """An account, for display only; keep it out of logs."""

    __unstable__: ClassVar[bool] = True

    label: str
    active: Lenient[bool | None] = None
    name: Lenient[str | None] = None
    email: Lenient[str | None] = None
    organization: Lenient[str | None] = None


class AuthStatusRequest(Wire):
    """Asks whether a user is logged in."""

    __unstable__: ClassVar[bool] = True


class AuthStatusResponse(Wire):
    """Whether a user is logged in, and the accounts; an unknown `state` counts as "unknown"."""

    __unstable__: ClassVar[bool] = True

    state: AuthState
    accounts: Lenient[LenientList[AuthAccount]] = []


class AuthStatusUpdateNotification(Wire):
    """The auth status changed."""

    __unstable__: ClassVar[bool] = True

    state: AuthState
    accounts: Lenient[LenientList[AuthAccount]] = []


METHODS: tuple[Method, ...] = (
    # Logging in and out needs an agent that listed auth methods; no capability says so.
    Method(
        name="auth/login",
        call="login",
        params=LoginAuthRequest,
        result=LoginAuthResponse,
        to="agent",
    ),
    Method(
        name="auth/logout",
        call="logout",
        params=LogoutAuthRequest,
        result=LogoutAuthResponse,
        to="agent",
    ),
    Method(
        name="auth/status",
        call="auth_status",
        params=AuthStatusRequest,
        result=AuthStatusResponse,
        to="agent",
        unstable=True,
        gate="agent.auth.status",
    ),
    Method(
        name="auth/status_update",
        call="auth_status_update",
        params=AuthStatusUpdateNotification,
        to="client",
        unstable=True,
        gate="agent.auth.status",
    ),
)
