"""Ports for programs that cannot choose one themselves, or whose address is in a configuration."""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack, suppress

__all__ = ("free_ports",)

# Below the ports that systems give to connections, so that none of these can take one first.
_RANGE = range(20_000, 32_000)


def free_ports(count: int) -> list[int]:
    """Return different ports of 127.0.0.1 that nobody listens on."""
    chance = random.SystemRandom()  # other workers choose at the same time
    with ExitStack() as stack:
        ports: set[int] = set()
        while len(ports) < count:
            port = chance.choice(_RANGE)
            with suppress(OSError):
                stack.enter_context(socket.create_server(("127.0.0.1", port)))
                ports.add(port)
        return list(ports)
