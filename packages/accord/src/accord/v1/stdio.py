"""Serves version 1 on stdin and stdout."""

from __future__ import annotations

import asyncio

from accord.roles.handshake import serve
from accord.transports.stdio import stdio
from accord.v1.roles import AgentRole

__all__ = ("run",)


def run(agent: AgentRole) -> None:
    """Serve one client on stdin and stdout until it disconnects."""
    asyncio.run(serve(stdio(restore=False), agent))
