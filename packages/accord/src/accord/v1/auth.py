"""Authentication: login, logout and status (v1)."""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias

from accord.v1.ids import AuthMethodId
from accord.wire.base import ByShape, Lenient, LenientList, NullAsEmpty, OpenEnum, Wire
from accord.wire.method import Method

__all__ = (
    "AuthAccount",
    "AuthMethod",
    "AuthMethodAgent",
    "AuthMethodTerminal",
    "AuthState",
    "AuthStatusRequest",
    "AuthStatusResponse",
    "AuthStatusUpdateNotification",
    "AuthenticateRequest",
    "AuthenticateResponse",
    "LogoutRequest",
    "LogoutResponse",
)


class AuthMethodTerminal(Wire, tag_field="type", tag="terminal"):
    """A login in a terminal: the agent's own command, run with these `args` and `env` added."""

    id: AuthMethodId
    name: str
    description: Lenient[str | None] = None
    args: NullAsEmpty[list[str]] = []
    env: NullAsEmpty[dict[str, str]] = {}


class AuthMethodAgent(Wire):
    """A login that the agent handles itself when `authenticate` is called."""

    id: AuthMethodId
    name: str
    description: Lenient[str | None] = None


# A malformed terminal entry is an error, not an agent login.
AuthMethod: TypeAlias = ByShape[AuthMethodTerminal | AuthMethodAgent]


class AuthenticateRequest(Wire):
    """Logs in with a method of type agent."""

    method_id: AuthMethodId


class AuthenticateResponse(Wire):
    """The result of a successful login."""


class LogoutRequest(Wire):
    """Log out."""


class LogoutResponse(Wire):
    """The user is logged out."""


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
    """Whether a user is logged in, and the accounts."""

    __unstable__: ClassVar[bool] = True

    state: AuthState  # any other value counts as unknown
    accounts: Lenient[LenientList[AuthAccount]] = []


class AuthStatusUpdateNotification(Wire):
    """The login changed."""

    __unstable__: ClassVar[bool] = True

    state: AuthState  # any other value counts as unknown
    accounts: Lenient[LenientList[AuthAccount]] = []


METHODS: tuple[Method, ...] = (
    Method(
        name="authenticate",
        call="authenticate",
        params=AuthenticateRequest,
        result=AuthenticateResponse,
        to="agent",  # with an id from `authMethods`, which is not a capability
    ),
    Method(
        name="logout",
        call="logout",
        params=LogoutRequest,
        result=LogoutResponse,
        to="agent",
        gate="agent.auth.logout",
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
