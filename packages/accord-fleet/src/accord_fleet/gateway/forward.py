"""The providers' side of the gateway: limits, retries, and responses as they arrive."""

from __future__ import annotations

import logging
import random
import re
import time
from collections.abc import Iterable
from urllib.parse import parse_qsl, urlencode

import httpx2
import msgspec

from accord.remote.access import Send
from accord_fleet.gateway.account import Account
from accord_fleet.gateway.http import Refusal
from accord_fleet.gateway.limiter import Limiter
from accord_fleet.gateway.providers import KEY_HEADERS, Provider
from accord_fleet.gateway.retry_after import RETRIED, retry_after_s
from accord_fleet.gateway.usage import TokenCount, UsageReader

log: logging.Logger = logging.getLogger("accord.fleet")

_BYTES_PER_TOKEN = 4
_FIRST_OUTPUT = 500  # tokens of a response, before one was counted
_WEIGHT = 0.1  # of the newest response in the average
_REFUSAL_BYTES = 256 * 1024

_Headers = Iterable[tuple[bytes, bytes]]
_Request = tuple[str, str, bytes, _Headers]

_HOP_BY_HOP = {
    *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection"),
    *("te", "trailer", "transfer-encoding", "upgrade"),
}
# The key replaces the token; the counts need a response that is not compressed.
_NOT_SENT = _HOP_BY_HOP | {
    *("host", "content-length", "accept-encoding", "authorization", "x-api-key"),
    *("x-goog-api-key", "cookie", "expect", "forwarded", "x-forwarded-for"),
}
_NOT_RETURNED = _HOP_BY_HOP | {"set-cookie"}
_GOOGLE_MODEL = re.compile(r"/models/([^/:]+)")


class RetrySettings(msgspec.Struct, frozen=True, kw_only=True):
    """How long a request is repeated that the provider refuses for its rate."""

    retries: int = 8
    longest_s: float = 600.0
    """A longer `Retry-After` is passed on to the agent, and the key pauses for this time."""
    first_s: float = 1.0
    """The pause if the provider names none; it doubles with each refusal."""


class _Model(msgspec.Struct):
    model: object = ""


class Forwarder:
    """Sends the requests of all agents of this machine to their providers."""

    def __init__(
        self, client: httpx2.AsyncClient, limiter: Limiter, settings: RetrySettings
    ) -> None:
        self._client = client
        self._limiter = limiter
        self._settings = settings
        self._outputs: dict[str, float] = {}  # average tokens of responses, by provider

    async def forward(
        self, account: Account, key: str, caller: str, request: _Request, body: bytes, send: Send
    ) -> None:
        """Send a request, and its response as it arrives; raise `Refusal` if there is none."""
        provider = account.provider
        model = _model_of(request[1], body)
        expected = TokenCount(
            input=len(body) // _BYTES_PER_TOKEN,
            output=round(self._outputs.get(provider.name, _FIRST_OUTPUT)) if body else 0,
        )
        response = await self._send(provider, key, caller, request, body, expected.total)
        reader = UsageReader()
        passed = 0
        try:
            await send(_start_of(response))
            async for data in response.aiter_raw():
                passed += len(data)
                reader.feed(data)
                await send({"type": "http.response.body", "body": data, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        except httpx2.HTTPError as exc:
            # The agent sees a response that ends too early, as it would without the gateway.
            log.warning("! %s: the response ended early: %s", provider.name, _kind_of(exc))
            raise ConnectionResetError("the provider ended the response early") from exc
        finally:
            await response.aclose()
            await self._count(account, model, response, reader, expected, passed)

    async def _send(
        self,
        provider: Provider,
        key: str,
        caller: str,
        request: _Request,
        body: bytes,
        tokens: int,
    ) -> httpx2.Response:
        settings = self._settings
        wait_s = settings.first_s
        for left in range(settings.retries, -1, -1):
            await self._limiter.acquire(provider.name, caller, tokens)
            try:
                outgoing = self._client.build_request(
                    request[0],
                    _url(provider, request),
                    content=body,
                    headers=_headers(provider, key, request),
                )
                response = await self._client.send(outgoing, stream=True)
            except (httpx2.HTTPError, httpx2.InvalidURL) as exc:
                await self._limiter.settle(provider.name, -tokens)
                message = f"{provider.name} cannot be reached: {_kind_of(exc)}"
                raise Refusal(502, message, "unreachable") from None
            if response.status_code not in RETRIED:
                return response
            told_s = retry_after_s(response.headers, time.time())
            pause_s = wait_s * (1 + random.random() / 4) if told_s is None else told_s
            wait_s = min(wait_s * 2, 60.0)
            await self._limiter.settle(provider.name, -tokens)
            await self._limiter.pause(provider.name, min(pause_s, settings.longest_s))
            log.info(
                "= %s refused a request with %d: all pause %.1f s",
                provider.name,
                response.status_code,
                pause_s,
            )
            if not left or pause_s > settings.longest_s:
                return response
            await response.aclose()
        raise AssertionError  # the last turn of the loop returns

    async def _count(
        self,
        account: Account,
        model: str,
        response: httpx2.Response,
        reader: UsageReader,
        expected: TokenCount,
        passed: int,
    ) -> None:
        name = account.provider.name
        count = reader.count
        if count is None and (not response.is_success or not expected.input):
            if response.status_code not in RETRIED:
                await self._limiter.settle(name, -expected.total)
            return
        if count is not None:
            before = self._outputs.get(name, float(_FIRST_OUTPUT))
            self._outputs[name] = before + _WEIGHT * (count.output - before)
            account.add(model, count)
        else:
            # A stream without a count: events are several times longer than their text.
            count = TokenCount(
                input=expected.input, output=min(passed // (8 * _BYTES_PER_TOKEN), expected.output)
            )
            account.add(model, count, estimated=True)
        await self._limiter.settle(name, count.total - expected.total)


def _url(provider: Provider, request: _Request) -> str:
    _, path, query, _ = request
    pairs = parse_qsl(query.decode("latin-1"), keep_blank_values=True)
    kept = urlencode([(name, value) for name, value in pairs if name != "key"])
    return provider.base_url.rstrip("/") + path + (f"?{kept}" if kept else "")


def _headers(provider: Provider, key: str, request: _Request) -> list[tuple[str, str]]:
    sent = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in request[3]]
    kept = [pair for pair in sent if pair[0].lower() not in _NOT_SENT]
    name, form = KEY_HEADERS[provider.api]
    return [*kept, ("accept-encoding", "identity"), (name, form.format(key=key))]


def _start_of(response: httpx2.Response) -> dict[str, object]:
    headers = [(name.lower(), value) for name, value in response.headers.raw]
    kept = [pair for pair in headers if pair[0].decode("latin-1") not in _NOT_RETURNED]
    return {"type": "http.response.start", "status": response.status_code, "headers": kept}


def _model_of(path: str, body: bytes) -> str:
    if (found := _GOOGLE_MODEL.search(path)) is not None:
        return found[1]
    try:
        model = msgspec.json.decode(body, type=_Model).model
    except msgspec.DecodeError:
        return ""
    return model if isinstance(model, str) else ""


def _kind_of(exc: Exception) -> str:
    """Return what happened, without anything of the request."""
    return type(exc).__name__
