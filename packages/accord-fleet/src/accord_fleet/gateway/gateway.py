"""The gateway between agents and the providers of models, in the order of a request.

A request of an agent is read, with a token that only the gateway accepts; it counts towards its
attempt (`Account`), waits for the limits of its key, and is forwarded with the key (`Forwarder`).
The response passes as it arrives, while its tokens are counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import logging
import os
import random
import re
import secrets
import sys
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from json import JSONDecoder
from typing import Any, cast
from urllib.parse import parse_qsl, urlencode

import httpx2
import msgspec

from accord.remote.access import Receive, Scope, Send
from accord.remote.server import ServerOptions, Stop, run_server
from accord.remote.sockets import address_of, open_tcp
from accord_fleet.gateway.limiter import Limiter
from accord_fleet.gateway.providers import KEY_HEADERS, Api, Provider
from accord_fleet.scratch import socket_folder
from accord_fleet.splice import serve_relay
from accord_fleet.types import LimitName, Limits, Usage

# Requests of agents, errors in the form of each API, disconnects.

_BODY_BYTES = 64 * 2**20

_ANTHROPIC_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    413: "request_too_large",
}
_GOOGLE_STATUSES = {401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 502: "UNAVAILABLE"}


class Refusal(Exception):
    """A response of the gateway itself."""

    def __init__(self, status: int, message: str, code: str) -> None:
        super().__init__(message)
        self.status: int = status
        self.code: str = f"accord_{code}"


def token_of(scope: Scope) -> str:
    """Return the token of a request, wherever the API has its key; "" if there is none."""
    for name, value in scope["headers"]:
        text = value.decode("latin-1").strip()
        if name in (b"x-api-key", b"x-goog-api-key"):
            return text
        if name == b"authorization" and text[:7].lower() == "bearer ":
            return text[7:].strip()
    query = dict(parse_qsl(scope["query_string"].decode("latin-1")))
    return query.get("key", "")


async def read_body(receive: Receive) -> bytes:
    """Return the body of a request; raise `Refusal` if it is too large."""
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise asyncio.CancelledError  # the agent has disconnected
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > _BODY_BYTES:
            raise Refusal(413, f"Expected a request of at most {_BODY_BYTES:,} bytes", "size")
        if not message.get("more_body", False):
            return b"".join(parts)


async def until_disconnect(work: Coroutine[Any, Any, None], receive: Receive) -> None:
    """Do the work; cancel it when the agent disconnects."""
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_disconnected(receive))
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (working, leaving):
            task.cancel()
        await asyncio.wait((working, leaving))
    if not working.cancelled():
        working.result()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def refuse(send: Send, refusal: Refusal, api: Api) -> None:
    """Send an error in the form of the API."""
    message = f"accord model gateway: {refusal}"
    error: dict[str, Any]
    match api:
        case "anthropic":
            kind = _ANTHROPIC_TYPES.get(refusal.status, "api_error")
            error = {"type": "error", "error": {"type": kind, "message": message}}
        case "google":
            status = _GOOGLE_STATUSES.get(refusal.status, "INVALID_ARGUMENT")
            error = {"error": {"code": refusal.status, "message": message, "status": status}}
        case _:
            kind = "invalid_request_error" if refusal.status < 500 else "server_error"
            error = {"error": {"message": message, "type": kind, "code": refusal.code}}
    body = json.dumps(error).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


# The tokens of responses, in JSON and in server-sent events.

_START = re.compile(rb'(?<!\\)"usage(?:Metadata|_metadata)?"\s*:\s*\{')
_MARK = b'"usage'
_OBJECT_BYTES = 16 * 1024  # longer ones are not read
_OVERLAP = 64  # longer than what leads to the object
_decode = JSONDecoder().raw_decode

# The names of the same count in the APIs.
_INPUT = ("input_tokens", "prompt_tokens", "promptTokenCount")
_OUTPUT = ("output_tokens", "completion_tokens", "candidatesTokenCount")
_ALSO_OUTPUT = ("thoughtsTokenCount",)
_ALSO_INPUT = ("cache_creation_input_tokens", "cache_read_input_tokens", "toolUsePromptTokenCount")
_CACHED = ("cache_read_input_tokens", "cachedContentTokenCount")
_DETAILS = ("prompt_tokens_details", "input_tokens_details")


class TokenCount(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens of one response. `cached` of the input tokens were read from a cache."""

    input: int = 0
    output: int = 0
    cached: int = 0

    @property
    def total(self) -> int:
        """Input and output together."""
        return self.input + self.output


class UsageReader:
    """Reads the counts of one response from its bytes; `feed` takes them as they arrive.

    In streams the last value of each count is valid. Texts cannot be mistaken for a count: quotes
    in them are escaped.
    """

    def __init__(self) -> None:
        self._held = b""
        self._counts: dict[str, int] = {}

    def feed(self, data: bytes) -> None:
        """Read the next bytes."""
        held = self._held + data
        while True:
            at = held.find(_MARK)
            if at < 0:
                self._held = held[-_OVERLAP:]
                return
            if (found := _START.search(held, max(at - 1, 0))) is None:
                self._held = held[max(at - 1, len(held) - _OVERLAP) :]
                return
            begin = found.end() - 1
            text = held[begin : begin + _OBJECT_BYTES].decode("utf-8", "replace")
            try:
                value, _ = _decode(text)
            except ValueError:
                if len(held) - begin < _OBJECT_BYTES:
                    self._held = held[max(found.start() - 1, 0) :]
                    return  # the rest of the object is still to come
            else:
                self._add(value)
            held = held[found.end() :]

    @property
    def count(self) -> TokenCount | None:
        """The tokens so far; None if the response has none."""
        if not self._counts:
            return None
        get = self._counts.get
        return TokenCount(
            input=get("input", 0) + sum(get(name, 0) for name in _ALSO_INPUT),
            output=get("output", 0) + sum(get(name, 0) for name in _ALSO_OUTPUT),
            cached=get("cached", 0),
        )

    def _add(self, usage: dict[str, Any]) -> None:
        for kind, names in (("input", _INPUT), ("output", _OUTPUT), ("cached", _CACHED)):
            for name in names:
                self._set(kind, usage.get(name))
        for name in (*_ALSO_INPUT, *_ALSO_OUTPUT):
            self._set(name, usage.get(name))
        for name in _DETAILS:
            if isinstance(details := usage.get(name), dict):
                self._set("cached", cast("dict[str, Any]", details).get("cached_tokens"))

    def _set(self, name: str, value: object) -> None:
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            self._counts[name] = value


# What an attempt has used, and what it may use.

OnLimit = Callable[[LimitName, str], None]
"""Is called with the limit that was reached, and a sentence with its value."""

_MILLION = 1_000_000


class Account(msgspec.Struct, kw_only=True):
    """Counts the requests, tokens and cost of one attempt."""

    provider: Provider
    limits: Limits = Limits()
    on_limit: OnLimit | None = None
    requests: int = 0
    uncounted: int = 0
    """Requests whose response had no count: their tokens are an estimate."""
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None

    def add(self, model: str, count: TokenCount, *, estimated: bool = False) -> None:
        """Count a response."""
        self.requests += 1
        self.uncounted += estimated
        self.input_tokens += count.input
        self.output_tokens += count.output
        if (price := self.provider.price(model)) is not None:
            cached = min(count.cached, count.input)
            rate = price.input if price.cached is None else price.cached
            cost = (count.input - cached) * price.input + cached * rate
            self.cost = (self.cost or 0.0) + (cost + count.output * price.output) / _MILLION
        if (reached := self.reached()) is not None and self.on_limit is not None:
            self.on_limit(*reached)

    def reached(self) -> tuple[LimitName, str] | None:
        """Return the limit that is used up, and a sentence about it."""
        used = self.input_tokens + self.output_tokens
        most, most_cost = self.limits.tokens, self.limits.cost
        if most is not None and used >= most:
            return "tokens", f"The attempt has used {used:,} of {most:,} tokens"
        if most_cost is not None and self.cost is not None and self.cost >= most_cost:
            currency = self.provider.currency
            return "cost", f"The attempt has cost {self.cost:.4f} of {most_cost:.4f} {currency}"
        return None

    def usage(self) -> Usage:
        """Return the counts; None where nothing was counted."""
        if not self.requests:
            return Usage()
        return Usage(
            input_tokens=self.input_tokens,
            output_tokens=self.output_tokens,
            total_tokens=self.input_tokens + self.output_tokens,
            cost=self.cost,
            currency=None if self.cost is None else self.provider.currency,
        )


# When a provider that refused a request can be asked again.

RETRIED = frozenset({429, 503, 529})
"""Statuses of a refusal that ends by itself: too many requests, unavailable, overloaded."""

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
# Of providers: how much is left, and when it is full again.
_RESETS = (
    ("anthropic-ratelimit-requests-remaining", "anthropic-ratelimit-requests-reset"),
    ("anthropic-ratelimit-tokens-remaining", "anthropic-ratelimit-tokens-reset"),
    ("anthropic-ratelimit-input-tokens-remaining", "anthropic-ratelimit-input-tokens-reset"),
    ("anthropic-ratelimit-output-tokens-remaining", "anthropic-ratelimit-output-tokens-reset"),
    ("x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"),
    ("x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"),
)


def retry_after_s(headers: Mapping[str, str], now: float) -> float | None:
    """Return the seconds to wait; None if the headers (in lower case) do not tell.

    `now` is in seconds since 1970. `Retry-After` takes precedence over the headers of providers;
    of those, the latest reset of what is used up counts.
    """
    if (text := headers.get("retry-after-ms")) is not None:
        try:
            return max(float(text) / 1000, 0.0)
        except ValueError:
            pass
    if (seconds := _moment(headers.get("retry-after", ""), now)) is not None:
        return seconds
    used_up = [
        seconds
        for left, reset in _RESETS
        if headers.get(left, "").strip() in ("0", "0.0")
        and (seconds := _moment(headers.get(reset, ""), now)) is not None
    ]
    return max(used_up, default=None)


def _moment(text: str, now: float) -> float | None:
    """Return the seconds until a moment: seconds, `6m0s`, an HTTP date or RFC 3339."""
    text = text.strip()
    try:
        return max(float(text), 0.0)
    except ValueError:
        pass
    parts = _DURATION.findall(text)
    if parts and "".join(map("".join, parts)) == text:
        return sum(float(number) * _UNITS_S[unit] for number, unit in parts)
    for read in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            moment = read(text)
        except ValueError:
            continue
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return max(moment.timestamp() - now, 0.0)
    return None


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


_CONNECT_S = 30.0
_READ_S = 900.0  # between two parts of a response


class GatewayAccess:
    """The access of one process of an agent: a token that is worth nothing elsewhere."""

    def __init__(self, provider: Provider, url: str, hidden: Iterable[str]) -> None:
        self.provider: Provider = provider
        self.token: str = f"accord-{secrets.token_hex(16)}"
        self.account: Account = Account(provider=provider)
        self._url = url
        self._hidden = tuple(hidden)

    @property
    def env(self) -> dict[str, str | None]:
        """Variables for the agent's process: the address of the gateway and the token.

        The variables with keys are removed.
        """
        places = {"url": f"{self._url}/{self.provider.name}", "token": self.token}
        changes: dict[str, str | None] = dict.fromkeys(self._hidden)
        for name, value in self.provider.env.items():
            for place, text in places.items():
                value = value.replace(f"{{{place}}}", text)
            changes[name] = value
        return changes

    def begin(self, limits: Limits, on_limit: OnLimit | None = None) -> None:
        """Begin an attempt: it has used nothing yet, and it may use what `limits` say.

        `on_limit` is called when it has used up its tokens or its cost. Its further requests are
        refused.
        """
        self.account = Account(provider=self.provider, limits=limits, on_limit=on_limit)

    def usage(self) -> Usage:
        """Return what the attempt has used so far; None where nothing was counted."""
        return self.account.usage()


class ModelGateway:
    """A reverse proxy on the loopback of this machine and on a Unix socket; an ASGI application.

    It alone has the keys. Agents get its address and a token, which it replaces by the key.
    """

    def __init__(
        self, providers: Sequence[Provider], keys: Mapping[str, str], forwarder: Forwarder
    ) -> None:
        self.url: str = ""
        """The address on the loopback."""
        self.socket: str = ""
        """The path of the Unix socket, for sandboxes."""
        self.keys: Mapping[str, str] = keys
        self._providers = {provider.name: provider for provider in providers}
        self._forwarder = forwarder
        self._accesses: dict[str, GatewayAccess] = {}

    @property
    def port(self) -> int:
        """The port on the loopback."""
        return int(self.url.rpartition(":")[2])

    @property
    def secrets(self) -> tuple[str, ...]:
        """The keys and the tokens of agents, to remove them from texts."""
        return (*self.keys.values(), *self._accesses)

    @contextlib.asynccontextmanager
    async def open(self, provider: str) -> AsyncGenerator[GatewayAccess]:
        """Admit one process of an agent to a provider in the block."""
        hidden = [each.key for each in self._providers.values()]
        access = GatewayAccess(self._providers[provider], self.url, hidden)
        self._accesses[access.token] = access
        try:
            yield access
        finally:
            del self._accesses[access.token]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request of an agent."""
        if scope["type"] != "http":
            return  # neither the life of the server nor WebSockets
        try:
            access, path = self._admit(scope)
        except Refusal as refusal:
            await refuse(send, refusal, "openai")
            return
        api = access.provider.api
        try:
            if (reached := access.account.reached()) is not None:
                raise Refusal(403, f"{reached[1]}: the fleet sends no more requests", "limit")
            body = await read_body(receive)
            answer = self._forwarder.forward(
                access.account,
                self.keys[access.provider.name],
                access.token,
                (scope["method"], path, scope["query_string"], scope["headers"]),
                body,
                send,
            )
            await until_disconnect(answer, receive)
        except Refusal as refusal:
            await refuse(send, refusal, api)

    async def drain(self, timeout_s: float) -> None:
        """Do nothing: the agents have ended before the gateway."""

    async def disconnect(self, timeout_s: float) -> None:
        """Do nothing: the server closes its connections."""

    def _admit(self, scope: Scope) -> tuple[GatewayAccess, str]:
        raw: bytes = scope.get("raw_path") or scope["path"].encode()
        name, _, path = raw.decode("latin-1").lstrip("/").partition("/")
        token = token_of(scope)
        access = self._accesses.get(token) if token else None
        if access is None or not hmac.compare_digest(access.token, token):
            raise Refusal(401, "Expected a token of this fleet's model gateway", "authentication")
        if name != access.provider.name:
            raise Refusal(403, f"The token is for {access.provider.name}, not for {name}", "token")
        if ".." in path.replace("%2e", ".").replace("%2E", ".").split("/"):
            raise Refusal(400, "Expected a path without `..`", "path")
        return access, f"/{path}"


@contextlib.asynccontextmanager
async def open_gateway(
    providers: Sequence[Provider],
    limiter: Limiter,
    *,
    environ: Mapping[str, str] = os.environ,
    retry: RetrySettings | None = None,
) -> AsyncGenerator[ModelGateway]:
    """Serve the gateway in the block; raise `ProviderError` if a key is missing."""
    keys = {provider.name: provider.key_value(environ) for provider in providers}
    stop, listening = Stop(), asyncio.Event()
    timeout = httpx2.Timeout(_READ_S, connect=_CONNECT_S, pool=None)
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=64)
    async with contextlib.AsyncExitStack() as stack:
        client = await stack.enter_async_context(httpx2.AsyncClient(timeout=timeout, limits=limits))
        forwarder = Forwarder(client, limiter, retry or RetrySettings())
        gateway = ModelGateway(providers, keys, forwarder)
        tcp = open_tcp("127.0.0.1", 0)
        host, port = address_of(tcp)
        gateway.url = f"http://{host}:{port}"
        options = ServerOptions(passed=[tcp], drain_s=0.0)
        async with asyncio.TaskGroup() as group:
            group.create_task(
                run_server(gateway, options, lambda _: listening.set(), stop)
            ).add_done_callback(lambda _: listening.set())
            await listening.wait()
            try:
                if sys.platform != "win32":
                    # A relay, because the server of a Unix socket does not run in Ray's event loop.
                    path = stack.enter_context(socket_folder()) / "gateway.sock"
                    gateway.socket = str(path)
                    await stack.enter_async_context(serve_relay(path, host, gateway.port))
                yield gateway
            finally:
                stop.requested.set()
