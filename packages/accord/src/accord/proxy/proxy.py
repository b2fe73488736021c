"""The base class of proxies."""

from __future__ import annotations

from accord.local.run import run_program
from accord.proxy.hooks import ProxyHooks, check_proxy_hooks
from accord.proxy.multiplexed import serve_stages
from accord.proxy.proxy_stage import ProxyStage
from accord.proxy.stage import Stage
from accord.proxy.staged_proxy import StagedProxyObject
from accord.proxy.typed_proxy import typed_stage
from accord.roles.proxy import TypedProxy
from accord.transports.base import Transport, TransportFactory, opened
from accord.transports.stdio import stdio


class Proxy(ProxyHooks):
    """A component between a client and an agent; one class serves both versions.

    Whatever is not overridden passes as the bytes that were received. `forward` passes a request
    on and returns its result; it raises `RequestError` if the other side responds with an error.
    A `RequestError` that a method raises is the response. Any other exception is logged, and the
    response is `Internal error` with the name of the proxy and of the method.

    `v1.Proxy` and `v2.Proxy` have every method of one version, with its own types.
    """

    def __init_subclass__(cls, **more: object) -> None:
        super().__init_subclass__(**more)
        check_proxy_hooks(cls)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def stage(self) -> Stage:
        """Return a stage with this proxy, for one chain; `accord.chain` calls it."""
        return ProxyStage(StagedProxyObject(self))

    def run(self, transport: TransportFactory | Transport | None = None) -> None:
        """Be a proxy program until the conductor disconnects, on stdin and stdout by default.

        A program that is not started by a conductor, such as `accord chain`, refuses `initialize`
        with an error that says so (R-PROXY-03). A function is called on the event loop.
        """
        run_proxy(self, transport)


def run_proxy(
    proxy: Proxy | TypedProxy, transport: TransportFactory | Transport | None = None
) -> None:
    """Be a proxy program until the conductor disconnects, like `Proxy.run`.

    It also runs a proxy of one version (`accord.v1.Proxy`, `accord.v2.Proxy`).
    """
    if transport is None:
        transport = stdio(restore=False)

    async def serve() -> None:
        stage = typed_stage(proxy) if isinstance(proxy, TypedProxy) else proxy.stage()
        await serve_stages([stage], await opened(transport))

    run_program(serve())
