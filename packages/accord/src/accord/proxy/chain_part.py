"""What the parts of a `Proxy` in one chain share."""

from __future__ import annotations

from msgspec import Struct

from accord.proxy.hooks import ProxyHooks
from accord.proxy.proxied_sessions import ProxiedSessions
from accord.proxy.proxy_stage import ProxyStage
from accord.proxy.versions import ProxiedVersion


class ProxyInChain(Struct, frozen=True):
    """A proxy, the version of its chain, and what it knows about the sessions."""

    proxy: ProxyHooks
    version: ProxiedVersion
    sessions: ProxiedSessions
    stage: ProxyStage


class ChainPart:
    """The base of what calls the hooks of a proxy."""

    def __init__(self, chain: ProxyInChain) -> None:
        self._proxy: ProxyHooks = chain.proxy
        self._version: ProxiedVersion = chain.version
        self._sessions: ProxiedSessions = chain.sessions
        self._stage: ProxyStage = chain.stage
