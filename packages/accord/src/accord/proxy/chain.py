"""A chain of proxies and an agent, as one agent for `connect`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from accord.proxy.conductor import conduct
from accord.proxy.hop import HopObserver
from accord.proxy.parts import Component, ComponentLike, component_of
from accord.proxy.served import ServedTransport
from accord.transports.base import Transport


class Chain:
    """A chain, made by `chain`. Calling it returns a transport, so that `connect` accepts it."""

    def __init__(
        self, components: Sequence[Component], observers: Sequence[HopObserver] = ()
    ) -> None:
        self.components: tuple[Component, ...] = tuple(components)
        self._observers = observers

    def __repr__(self) -> str:
        return f"<Chain {' → '.join(part.name for part in self.components)}>"

    def __call__(self) -> Transport:
        """Return a transport to a new chain; its components start with `initialize`."""
        return ServedTransport(partial(conduct, self.components, observers=self._observers))

    def observed(self, *observers: HopObserver) -> Chain:
        """Return the chain with observers: `observer(hop, "received" or "sent", frame)`.

        `hop` is the name of the component at the other end of the connection, or "client".
        """
        return Chain(self.components, (*self._observers, *observers))


def chain(*components: ComponentLike | Chain) -> Chain:
    """Return the chain of these components, for `connect`: proxies, and an agent as the last.

    A component is a Python file, a command (one string, or its words), an address (`ws://…`), a
    `Proxy` or an `Agent` of this process or its class, another chain, or what `component` returns.
    Objects run in this process, commands in their own. The components start when the client
    connects. The end of one ends the chain: pending requests fail with an error that names it.

    Raises `ValueError` without components.
    """
    parts: list[Component] = []
    for one in components:
        if isinstance(one, Chain):
            parts += one.components
        else:
            parts.append(component_of(one))
    if not parts:
        raise ValueError("chain(…): expected components, the last one is the agent")
    return Chain(parts)
