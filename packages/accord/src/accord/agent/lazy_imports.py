"""Imports parts of the agent's side when they are first used: editors start agents often.

`initialize` needs the role of one version and nothing of what sessions need. No other module of
this package imports inside functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from accord.agent.client_adapter import ClientAdapter
    from accord.agent.handlers import SharedHandlers
    from accord.agent.hooks import AgentHooks
    from accord.agent.role import RoleConnection
    from accord.agent.session_manager import SessionManager
    from accord.version import ProtocolVersion


def role(version: ProtocolVersion, connection: RoleConnection) -> Any:
    """Return the role that serves a version on a connection."""
    if version == 1:
        from accord.agent.v1.role import AgentRoleV1

        return AgentRoleV1(connection)
    from accord.agent.v2.role import AgentRoleV2

    return AgentRoleV2(connection)


def client_adapter(
    version: ProtocolVersion, params: Any, context: Any, *, unstable: bool
) -> ClientAdapter:
    """Return the adapter for a client that has sent `initialize` with these params."""
    if version == 1:
        from accord.agent.v1.client_adapter import ClientAdapterV1

        return ClientAdapterV1(params, context, unstable=unstable)
    from accord.agent.v2.client_adapter import ClientAdapterV2

    return ClientAdapterV2(params, context, unstable=unstable)


def session_manager(
    agent: AgentHooks, adapter: ClientAdapter, *, max_sessions: int, principal: str | None
) -> SessionManager:
    """Return the manager of the sessions of one connection."""
    from accord.agent.session_manager import SessionManager

    stored_sessions = None
    if agent.store is not None:
        from accord.agent.store.stored_sessions import StoredSessions

        stored_sessions = StoredSessions(agent.store, principal)
    return SessionManager(
        agent, adapter, stored_sessions, max_sessions=max_sessions, principal=principal
    )


def handlers(version: ProtocolVersion, manager: SessionManager) -> SharedHandlers:
    """Return what handles all requests but `initialize`."""
    if version == 1:
        from accord.agent.v1.handlers import HandlersV1

        return HandlersV1(manager)
    from accord.agent.v2.handlers import HandlersV2

    return HandlersV2(manager)
