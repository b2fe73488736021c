"""A method of the protocol: its name, its types, its direction."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

__all__ = ("Method", "Side")

Side = Literal["agent", "client", "protocol", "proxy"]


class Method(Struct, frozen=True, kw_only=True):
    """One method: `to` is the side that serves it; without `result` it is a notification.

    `call` is its name in Python. `gate` is the capability that it needs, usually of the serving
    side, as a dotted path that starts with `agent.` or `client.`.
    """

    name: str
    call: str
    params: Any
    result: Any = None
    to: Side
    unstable: bool = False
    gate: str | None = None

    @property
    def is_request(self) -> bool:
        return self.result is not None
