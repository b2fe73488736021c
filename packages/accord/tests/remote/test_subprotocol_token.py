"""A token in the list of subprotocols, for web pages, which cannot set headers of a WebSocket."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Subprotocol

import accord
from accord import Agent, Turn
from remote.servers import hypercorn, listener
from requirement import requirement

TOKEN = "a-token-of-a-test>>>???~~~"
ENCODED = "acp.bearer." + urlsafe_b64encode(TOKEN.encode()).decode().rstrip("=")


class Echo(Agent):
    async def prompt(self, turn: Turn) -> None:
        await turn.say(turn.text)


async def selected(address: str, *offered: str, **headers: str) -> str | None:
    """Connect; return the subprotocol that the server selects."""
    options: dict[str, Any] = {"additional_headers": headers, "compression": None}
    names = [Subprotocol(name) for name in offered] or None
    async with connect(f"ws://{address}/acp", subprotocols=names, **options) as socket:
        return socket.subprotocol


@requirement("R-WS-18", "R-WS-11")
@pytest.mark.parametrize("serve", [listener, hypercorn])
async def test_offered_token_logs_in_and_is_not_echoed(serve: Any) -> None:
    async with serve(accord.asgi(Echo, token=TOKEN, subprotocol_token=True)) as address:
        assert await selected(address, "acp.bearer", ENCODED) == "acp.bearer"
        assert await selected(address, Authorization=f"Bearer {TOKEN}") is None


OTHER_OFFERS = [
    ("acp.bearer",),
    (ENCODED,),
    (ENCODED, "acp.bearer"),
    ("acp.bearer", ENCODED, "other"),
    ("acp.bearer", ENCODED[:-3]),
    ("acp.bearer", "acp.bearer."),
    ("acp.bearer", "acp.bearer.!!"),
    ("acp.bearer", ENCODED + "AAAA"),
]


@requirement("R-WS-18")
async def test_other_offers_do_not_log_in() -> None:
    async with listener(accord.asgi(Echo, token=TOKEN, subprotocol_token=True)) as address:
        for offered in OTHER_OFFERS:
            with pytest.raises(InvalidStatus) as refused:
                await selected(address, *offered)
            assert refused.value.response.status_code == 401, offered


@requirement("R-WS-18")
async def test_it_is_off_by_default() -> None:
    async with listener(accord.asgi(Echo, token=TOKEN)) as address:
        with pytest.raises(InvalidStatus) as refused:
            await selected(address, "acp.bearer", ENCODED)
        assert refused.value.response.status_code == 401


@requirement("R-WS-18")
async def test_hook_gets_the_token_as_a_header() -> None:
    seen: list[dict[str, list[str]]] = []

    def authenticate(request: accord.RemoteRequest) -> accord.Principal:
        seen.append(request.headers)
        return accord.Principal("ada")

    app = accord.asgi(Echo, authenticate=authenticate, subprotocol_token=True)
    async with listener(app) as address:
        assert await selected(address, "acp.bearer", ENCODED) == "acp.bearer"
    assert seen[0]["authorization"] == [f"Bearer {TOKEN}"]
    assert "sec-websocket-protocol" not in seen[0]
