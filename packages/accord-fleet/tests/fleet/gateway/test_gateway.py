"""The model gateway, over HTTP to a provider on this machine."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from accord_fleet.gateway.gateway import GatewayAccess, ModelGateway, RetrySettings, open_gateway
from accord_fleet.gateway.limiter import KeyLimits, LocalLimiter
from accord_fleet.gateway.providers import KNOWN_PROVIDERS, Price, Provider, ProviderError
from accord_fleet.scratch import socket_folder
from accord_fleet.types import Limits
from coder.models.provider import Fails, Reply, Says, SendsBytes, Stalls, serve_provider
from coder.models.provider import Provider as FakeProvider

KEY = "sk-real-key-of-the-fleet"
BODY = {"model": "claude-x", "max_tokens": 100, "messages": [{"role": "user", "content": "hi"}]}


class RecordingLimiter(LocalLimiter):
    """Records the pauses, and does not wait for them."""

    def __init__(self) -> None:
        super().__init__({"anthropic": KeyLimits(tokens_per_minute=1e9)})
        self.pauses: list[float] = []
        self.settled: list[int] = []

    async def pause(self, key: str, seconds: float) -> None:
        self.pauses.append(seconds)

    async def settle(self, key: str, tokens: int) -> None:
        self.settled.append(tokens)


class Setup:
    def __init__(
        self,
        fake: FakeProvider,
        gateway: ModelGateway,
        access: GatewayAccess,
        client: httpx2.AsyncClient,
        limiter: RecordingLimiter,
    ) -> None:
        self.fake, self.gateway, self.access = fake, gateway, access
        self.client, self.limiter = client, limiter

    async def post(self, body: Any = None, **headers: str) -> httpx2.Response:
        url = f"{self.access.env['ANTHROPIC_BASE_URL']}/v1/messages"
        given = {"x-api-key": self.access.token, "anthropic-version": "2023-06-01", **headers}
        return await self.client.post(url, json=body or BODY, headers=given)


@asynccontextmanager
async def setup(*replies: Reply, **retry: Any) -> AsyncGenerator[Setup]:
    limiter = RecordingLimiter()
    async with serve_provider(*replies) as fake, httpx2.AsyncClient(trust_env=False) as client:
        provider = Provider(
            name="anthropic",
            api="anthropic",
            base_url=fake.root,
            key="FLEET_KEY",
            env=KNOWN_PROVIDERS["anthropic"].env,
            prices={"claude-*": Price(input=10.0, output=50.0)},
        )
        async with (
            open_gateway(
                [provider], limiter, environ={"FLEET_KEY": KEY}, retry=RetrySettings(**retry)
            ) as gateway,
            gateway.open("anthropic") as access,
        ):
            yield Setup(fake, gateway, access, client, limiter)


async def test_token_is_replaced_by_the_key_and_tokens_are_counted() -> None:
    async with setup(Says("Hello", tokens=(100, 20))) as it:
        response = await it.post(cookie="a=b", authorization="")
        assert response.status_code == 200
        assert response.headers["content-type"] == "text/event-stream"
        assert '"stop_reason": "end_turn"' in response.text
        (sent,) = it.fake.requests
        assert sent.path == "/v1/messages"
        assert sent.body == BODY
        assert sent.headers["x-api-key"] == KEY
        assert sent.headers["anthropic-version"] == "2023-06-01"
        assert sent.headers["accept-encoding"] == "identity"
        assert not {"cookie", "authorization"} & set(sent.headers)
        assert it.access.token not in str(sent)
        usage = it.access.usage()
        assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (100, 20, 120)
        assert usage.cost == pytest.approx((100 * 10 + 20 * 50) / 1e6)
        assert usage.currency == "USD"


async def test_events_are_passed_on_before_the_response_ends() -> None:
    async with setup(Stalls(Says("Hello"), events=2)) as it:
        url = f"{it.access.env['ANTHROPIC_BASE_URL']}/v1/messages"
        headers = {"x-api-key": it.access.token}
        async with it.client.stream("POST", url, json=BODY, headers=headers) as response:
            first = await anext(response.aiter_raw())
            assert first.startswith(b"event: message_start")
            await it.fake.reached.wait()
        # The agent has disconnected in the middle: so does the gateway.
        await it.fake.left.wait()
        assert it.access.usage().input_tokens == 100


async def test_gateway_listens_on_a_unix_socket_too() -> None:
    async with setup(Says("Hello")) as it:
        transport = httpx2.AsyncHTTPTransport(uds=it.gateway.socket)
        async with httpx2.AsyncClient(transport=transport) as client:
            url = "http://127.0.0.1/anthropic/v1/messages"
            headers = {"authorization": f"Bearer {it.access.token}"}
            response = await client.post(url, json=BODY, headers=headers)
            assert response.status_code == 200


def test_gateway_runs_in_the_event_loop_of_ray_with_its_socket() -> None:
    uvloop = pytest.importorskip("uvloop", reason="uvloop is not installed")

    async def run() -> None:
        provider = KNOWN_PROVIDERS["anthropic"]
        environ = {provider.key: KEY}
        async with open_gateway((provider,), LocalLimiter({}), environ=environ) as gateway:
            transport = httpx2.AsyncHTTPTransport(uds=gateway.socket)
            async with httpx2.AsyncClient(transport=transport) as client:
                response = await client.post("http://127.0.0.1/anthropic/v1/messages", json=BODY)
                assert response.status_code == 401

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())


async def test_refusal_for_the_rate_pauses_the_key_and_the_agent_sees_a_slow_response() -> None:
    replies = (
        Fails(429, headers={"Retry-After": "7"}),
        Fails(529, type="overloaded_error"),
        Fails(503, headers={"Retry-After": "Thu, 01 Jan 1970 00:00:30 GMT"}),
        Says("Hello"),
    )
    async with setup(*replies, first_s=3.0) as it:
        response = await it.post()
        assert response.status_code == 200
        assert '"text": "llo"' in response.text
        assert it.limiter.pauses[0] == 7.0
        assert 6.0 <= it.limiter.pauses[1] <= 7.5  # the second one: twice the first pause
        assert it.limiter.pauses[2] == 0.0
        assert len(it.fake.requests) == 4
        # What the refused requests would have used was taken back.
        estimate = -it.limiter.settled[0]
        assert it.limiter.settled == [-estimate] * 3 + [120 - estimate]


async def test_refusal_is_passed_on_after_the_last_retry() -> None:
    async with setup(*(Fails(429, "Slow down."),) * 3, retries=2) as it:
        response = await it.post()
        assert response.status_code == 429
        assert response.json()["error"]["message"] == "Slow down."
        assert len(it.limiter.pauses) == 3
        assert it.access.usage().total_tokens is None


async def test_refusal_for_an_hour_is_passed_on_at_once() -> None:
    async with setup(Fails(429, headers={"Retry-After": "3600"}), longest_s=600) as it:
        response = await it.post()
        assert response.status_code == 429
        assert response.headers["retry-after"] == "3600"
        assert it.limiter.pauses == [600]


async def test_attempt_over_its_tokens_gets_a_clear_error_and_the_next_attempt_begins_anew() -> (
    None
):
    async with setup(Says("Hello", tokens=(100, 20)), Says("Again")) as it:
        reached: list[tuple[str, str]] = []
        it.access.begin(Limits(tokens=110), lambda *limit: reached.append(limit))
        assert (await it.post()).status_code == 200
        assert reached == [("tokens", "The attempt has used 120 of 110 tokens")]
        response = await it.post()
        assert response.status_code == 403
        assert response.json() == {
            "type": "error",
            "error": {
                "type": "permission_error",
                "message": "accord model gateway: The attempt has used 120 of 110 tokens:"
                " the fleet sends no more requests",
            },
        }
        assert len(it.fake.requests) == 1
        it.access.begin(Limits(cost=1.0))
        assert (await it.post()).status_code == 200


async def test_attempt_over_its_cost_gets_a_clear_error() -> None:
    async with setup(Says("Hello", tokens=(100, 20))) as it:
        it.access.begin(Limits(cost=0.001))
        await it.post()
        message = (await it.post()).json()["error"]["message"]
        assert "The attempt has cost 0.0020 of 0.0010 USD" in message


@pytest.mark.parametrize("token", ["", KEY, "accord-" + "0" * 32])
async def test_request_without_a_token_of_the_fleet_is_refused(token: str) -> None:
    async with setup() as it:
        assert (await it.post(**{"x-api-key": token})).status_code == 401
        assert not it.fake.requests


async def test_token_ends_with_its_agent() -> None:
    async with setup() as it:
        async with it.gateway.open("anthropic") as other:
            token = other.token
        assert (await it.post(**{"x-api-key": token})).status_code == 401


@pytest.mark.parametrize("path", ["/openai/v1/x", "/anthropic/../x", "/anthropic/%2e%2e/x"])
async def test_other_providers_and_parent_paths_are_refused(path: str) -> None:
    async with setup() as it:
        reader, writer = await asyncio.open_connection("127.0.0.1", it.gateway.port)
        head = f"GET {path} HTTP/1.1\r\nHost: x\r\nx-api-key: {it.access.token}\r\n\r\n"
        writer.write(head.encode())
        assert (await reader.readline()).split()[1] in (b"400", b"403")
        writer.close()
        await writer.wait_closed()


async def test_key_in_the_query_is_replaced() -> None:
    """Google's API takes the key as a parameter, which must not reach the provider twice."""
    async with setup(Fails(400)) as it:
        url = f"{it.access.env['ANTHROPIC_BASE_URL']}/v1beta/models/g:generate"
        response = await it.client.post(url, params={"key": it.access.token, "alt": "sse"}, json={})
        assert response.status_code == 400
        assert it.fake.requests[0].headers["x-api-key"] == KEY


async def test_provider_that_cannot_be_reached_is_a_clear_error_without_the_key() -> None:
    provider = msg = KNOWN_PROVIDERS["openai"]
    provider = Provider(
        name="openai", api="openai", base_url="http://127.0.0.1:9", key="K", env=msg.env
    )
    limiter = RecordingLimiter()
    async with (
        open_gateway([provider], limiter, environ={"K": KEY}) as gateway,
        gateway.open("openai") as access,
        httpx2.AsyncClient(trust_env=False) as client,
    ):
        headers = {"authorization": f"Bearer {access.token}"}
        response = await client.get(f"{access.env['OPENAI_BASE_URL']}/models", headers=headers)
    assert response.status_code == 502
    assert response.json()["error"]["message"] == (
        "accord model gateway: openai cannot be reached: ConnectError"
    )
    assert KEY not in response.text


async def test_stream_without_a_count_is_estimated() -> None:
    stream = b'data: {"type": "text", "text": "' + b"x" * 4000 + b'"}\n\n'
    async with setup(SendsBytes(stream)) as it:
        await it.post()
        usage = it.access.usage()
        assert usage.input_tokens == len(json.dumps(BODY, separators=(",", ":"))) // 4
        assert 100 < (usage.output_tokens or 0) < 200
        assert it.access.account.uncounted == 1


async def test_missing_key_names_its_variable() -> None:
    with pytest.raises(ProviderError, match="environment variable ANTHROPIC_API_KEY, which is not"):
        async with open_gateway([KNOWN_PROVIDERS["anthropic"]], RecordingLimiter(), environ={}):
            raise AssertionError


def test_path_of_the_socket_is_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = tmp_path / ("x" * 90)
    deep.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    with socket_folder() as folder:
        assert len(str(folder)) < 80
        assert folder.stat().st_mode & 0o777 == 0o700
    assert not folder.exists()
    assert not list(deep.iterdir())
