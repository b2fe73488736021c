"""A typed proxy of one version (`accord.v1.Proxy`, `accord.v2.Proxy`) in a chain."""

from __future__ import annotations

from typing import Any, cast

from msgspec import Raw

from accord.errors import InvalidRequest, LocalProtocolError
from accord.proxy.ordered import RequestHandler
from accord.proxy.overrides import Overrides, request_override
from accord.proxy.proxy_stage import ProxyStage
from accord.proxy.stage import Direction
from accord.roles.proxy import TypedProxy, proxied_methods


class StagedTypedProxy:
    """Calls the methods that a typed proxy overrides."""

    def __init__(self, proxy: TypedProxy) -> None:
        self._proxy = proxy
        self.name: str = type(proxy).__name__
        self._methods = {method.call: method for method in proxied_methods(proxy)}
        self._initialize_method = self._methods.pop("initialize", None)

    async def start(self) -> None:
        """Accept the proxy: the types of its methods are those of the version."""

    def edit_initialize(self, params: Raw, version: int) -> Raw:
        """Raise `InvalidRequest` for another version."""
        self._check(version)
        return params

    def edit_initialized(self, result: Raw, version: int) -> Raw:
        """Raise `InvalidRequest` for another version."""
        self._check(version)
        return result

    def _check(self, version: int) -> None:
        own = self._proxy.spec.version
        if version != own:
            raise InvalidRequest(
                f"The proxy {self.name} supports version {own} of the protocol, and the chain"
                f" has version {version}",
                data={"supported": [own], "requested": version},
            )

    def initialize_handler(self) -> RequestHandler | None:
        """Return the handler of `initialize`, if it is overridden."""
        method = self._initialize_method
        if method is None:
            return None
        label = f"{self.name}.initialize"
        return request_override(method, self._initialize, label, Direction.TO_AGENT)

    def _initialize(self, params: Any, forward: Any) -> Any:
        async def checked(changed: Any = None) -> Any:
            if changed is not None and changed.protocol_version != params.protocol_version:
                raise LocalProtocolError("A proxy must not change protocolVersion")  # R-PROXY-14
            return await forward(changed)

        proxy: Any = self._proxy
        return proxy.initialize(params, checked)

    def describe(self) -> dict[str, list[str]]:
        """Return the overridden methods."""
        cls = type(self._proxy)
        extensions = [
            name
            for name in ("extension_request", "extension_notification")
            if getattr(cls, name) is not getattr(TypedProxy, name)
        ]
        first = ["initialize"] if self._initialize_method else []
        return {"handles": [*first, *self._methods, *extensions]}

    def overrides(self, version: int, stage: ProxyStage, initialized: Raw) -> tuple[Overrides, ...]:
        """Return the overridden methods of both directions."""
        to_agent, to_client = Overrides(Direction.TO_AGENT), Overrides(Direction.TO_CLIENT)
        for call, method in self._methods.items():
            side = to_agent if method.to == "agent" else to_client
            side.add(method, getattr(self._proxy, call), f"{self.name}.{call}")
        add_extensions(self._proxy, TypedProxy, to_agent, to_client)
        return to_agent, to_client


def typed_stage(proxy: TypedProxy) -> ProxyStage:
    """Return a stage with a typed proxy, for one chain."""
    return ProxyStage(StagedTypedProxy(proxy))


def add_extensions(proxy: object, base: type[object], *sides: Overrides) -> None:
    """Add the handlers of extension methods that a proxy overrides."""
    cls, own, default = cast("Any", (type(proxy), proxy, base))
    for side in sides:
        side.label = f"{cls.__name__}.extension_request"
        if cls.extension_request is not default.extension_request:
            side.extension_request = own.extension_request
        if cls.extension_notification is not default.extension_notification:
            side.extension_notification = own.extension_notification
