"""Lets the sessions of one agent wait for one login."""

from __future__ import annotations

import asyncio


class LoginGate:
    """One login of an agent at a time: its other sessions wait for the result."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.ended = 0
        self.has_succeeded = False
