"""The life of a chain: it begins with its connections, and ends when one of them ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from accord.errors import ConnectionLost, InternalError, RequestError
from accord.proxy.ends import AgentEnd, ClientEnd, wire
from accord.proxy.hop import Hop, HopObserver, Hops
from accord.proxy.stage import Stage
from accord.text.excerpt import excerpt
from accord.transports.base import Transport

log: logging.Logger = logging.getLogger("accord.proxy")

EXIT_S = 5.0  # for a component to report how it ended


class ComponentLost(ConnectionLost):
    """A component of a chain has ended; `component` is its name."""

    def __init__(self, component: str, reason: Exception | None) -> None:
        text = "it disconnected" if reason is None else str(reason)
        super().__init__(
            f"component {component!r} has ended: {text}",
            exit_status=getattr(reason, "exit_status", None),
            stderr=getattr(reason, "stderr", None),
        )
        self.component = component


class Life:
    """Owns the connections of a chain until the first of them ends."""

    def __init__(self, observers: Sequence[HopObserver] = ()) -> None:
        self.hops: Hops = Hops(self._hop_ended, observers)
        self._ended: asyncio.Future[tuple[Hop | None, Exception | None]] = (
            asyncio.get_running_loop().create_future()
        )

    def end(self, error: Exception) -> None:
        """End with this error, if no connection has ended: the other ones could not be made."""
        if not self._ended.done():
            self._ended.set_result((None, error))

    def _hop_ended(self, hop: Hop, error: Exception | None) -> None:
        hop.has_ended = True
        if not self._ended.done():
            self._ended.set_result((hop, error))

    async def wait(self, client: Hop, members: Callable[[], Sequence[Hop]]) -> Exception | None:
        """Wait for the end; return None if the client has ended the chain.

        If another connection ends, every pending request fails with an error that names it, before
        this returns what happened. `members` returns the connections other than the client's.
        Return the error of `end`.
        """
        hop, error = await self._ended
        if hop is None:
            return error
        if hop is client:
            client.refuse_calls(lambda: InternalError("the client has disconnected"))
            await client.finish()
            if error is not None:
                log.debug("= the client is gone: %s", error)
            return None
        lost = ComponentLost(hop.name, await _exit_error(hop) or error)
        hops = (client, *members())
        for one in hops:
            one.fail_calls(lambda: error_of(lost))
        for one in hops:
            one.fail_received(lambda: error_of(lost))
        self.hops.write()
        return lost


def error_of(lost: ComponentLost) -> RequestError:
    """Return the error that requests get when a component has ended (R-PROXY-17, R-PROXY-22)."""
    return InternalError(str(lost), data={"component": excerpt(lost.component)})


async def _exit_error(hop: Hop) -> Exception | None:
    try:
        async with asyncio.timeout(EXIT_S):
            return await hop.transport.exit_error()
    except TimeoutError:
        return None


async def close_all(closing: Sequence[Awaitable[None]]) -> None:
    """Close everything at the same time; errors are logged."""
    for result in await asyncio.gather(*closing, return_exceptions=True):
        if isinstance(result, Exception):
            log.error("! could not close a part of a chain: %s", result, exc_info=result)


async def join(
    client: Transport,
    stages: Sequence[Stage],
    agent: Transport,
    observers: Sequence[HopObserver] = (),
) -> Exception | None:
    """Connect a client and an agent by stages in this process, until one of them disconnects.

    Return None if the client has, and how the agent ended otherwise. Raise `TransportError` if one
    of them cannot be reached. Both transports are closed.
    """
    life = Life(observers)
    ends = ClientEnd("client", client, life.hops), AgentEnd("agent", agent, life.hops)
    wire(ends[0], stages, ends[1], life.hops)
    ends[0].neighbours, ends[1].neighbours = [ends[1].pauses], [ends[0].pauses]
    try:
        for stage in stages:
            await stage.start()
        await ends[1].start()
        await ends[0].start()
        return await life.wait(ends[0], lambda: ends[1:])
    finally:
        await close_all([end.aclose() for end in ends] + [stage.aclose() for stage in stages])
