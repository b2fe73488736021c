"""Models of providers, from the client through pipes to HTTP on this machine."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="the extra `coder` is not installed")

from accord import (
    AudioContent,
    EmbeddedResource,
    ImageContent,
    Notice,
    Thought,
    ToolCall,
    UsageChanged,
)
from accord.errors import AuthRequired, RequestError
from accord_coder.agent import Coder
from accord_coder.models.remote import RetryPolicy
from accord_coder.settings import Settings
from coder.harness import BOTH, coder_session
from coder.models.provider import (
    Breaks,
    Ends,
    Fails,
    Provider,
    Says,
    SendsBytes,
    Stalls,
    serve_provider,
)

Make = Callable[..., Any]
# Retries, their limits and cancels are those of the coder, whatever the format of the provider is.
ONE_FORMAT = pytest.mark.parametrize("coder_for", ["chat"], indirect=True)
SECRET = "sk-do-not-tell-anybody"


@pytest.fixture(params=["chat", "messages"])
def coder_for(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Create a coder that uses a provider in one of the two formats."""
    for name in ("ACCORD_API_KEY", "ANTHROPIC_API_KEY", "ACCORD_MODEL"):
        monkeypatch.delenv(name, raising=False)
    chat = request.param == "chat"
    monkeypatch.setenv("ACCORD_API_KEY" if chat else "ANTHROPIC_API_KEY", SECRET)

    def make(provider: Provider, patience: RetryPolicy | None = None, **settings: Any) -> Coder:
        model = "compatible:m" if chat else "anthropic:claude-sonnet-5-5"
        address = provider.url if chat else provider.root
        coder = Coder(Settings(model=model, base_url=address, **settings))
        coder.retry_policy = patience or RetryPolicy(sleep=_no_time)
        return coder

    make.chat = chat  # type: ignore[attr-defined]
    return make


async def _no_time(_seconds: float) -> None:
    await asyncio.sleep(0)


class Waits:
    """Records the delays and returns immediately."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


def notices(harness: Any) -> str:
    return "".join(event.title for event in harness.events if isinstance(event, Notice))


def thoughts(harness: Any) -> str:
    return "".join(event.text for event in harness.events if isinstance(event, Thought))


@BOTH
async def test_answer_and_thinking_are_streamed(
    version: int, tmp_path: Path, coder_for: Make
) -> None:
    async with (
        serve_provider(Says("Good morning.", thinking="A greeting.")) as provider,
        coder_session(version, cwd=tmp_path, coder=coder_for(provider)) as harness,
    ):
        assert await harness.prompt("Hello") == "Good morning."
        assert harness.stop_reason == "end_turn"
        assert thoughts(harness) == "A greeting."
        pieces = [event for event in harness.events if type(event).__name__ == "Text"]
        assert len(pieces) == 2


async def test_parallel_tool_calls_run_and_are_answered_together(
    tmp_path: Path, coder_for: Make
) -> None:
    (tmp_path / "a.txt").write_text("eins\n")
    (tmp_path / "b.txt").write_text("zwei\n")
    uses = [("read", {"path": "a.txt"}), ("read", {"path": "b.txt"})]
    async with (
        serve_provider(Says("I look.", uses=uses), Says("Done.")) as provider,
        coder_session(cwd=tmp_path, coder=coder_for(provider)) as harness,
    ):
        assert (await harness.prompt("Read both")).endswith("Done.")
        assert [call.status for call in harness.calls] == ["completed", "completed"]
        assert [call.raw_input for call in harness.calls] == [given for _, given in uses]
        reported = str(provider.requests[1].body["messages"])
        assert "eins" in reported
        assert "zwei" in reported


async def test_thinking_is_returned_with_its_signature(tmp_path: Path, coder_for: Make) -> None:
    if coder_for.chat:  # type: ignore[attr-defined]
        pytest.skip("Chat Completions signs nothing")
    (tmp_path / "a.txt").write_text("eins\n")
    says = Says(thinking="I must read.", uses=[("read", {"path": "a.txt"})])
    async with (
        serve_provider(says, Says("Done.")) as provider,
        coder_session(cwd=tmp_path, coder=coder_for(provider)) as harness,
    ):
        await harness.prompt("Read")
        first = provider.requests[1].body["messages"][1]["content"][0]
        assert (first["thinking"], first["signature"]) == ("I must read.", "signed")


@BOTH
async def test_usage_context_and_cost_are_reported(
    version: int, tmp_path: Path, coder_for: Make
) -> None:
    async with (
        serve_provider(
            Says("One.", tokens=(1000, 10)), Says("Two.", tokens=(2000, 20))
        ) as provider,
        coder_session(version, cwd=tmp_path, coder=coder_for(provider)) as harness,
    ):
        await harness.prompt("one")
        await harness.prompt("two")
        reported = [event.usage for event in harness.events if isinstance(event, UsageChanged)]
        assert [usage.used for usage in reported] == [1010, 2020]
        if coder_for.chat:  # type: ignore[attr-defined]
            assert reported[-1].size == 128_000  # the price of `m` is unknown
            assert reported[-1].cost is None
        else:
            assert reported[-1].size == 1_000_000
            assert reported[-1].cost.amount > reported[0].cost.amount > 0


STOPS = {
    "max_tokens": ("length", "max_tokens"),
    "refusal": ("content_filter", "refusal"),
}


def stop_of(reason: str, coder_for: Make) -> str:
    """Return what a model calls this stop reason."""
    return STOPS[reason][0 if coder_for.chat else 1]  # type: ignore[attr-defined]


@BOTH
async def test_turn_has_the_stop_reason_of_the_model(
    version: int, tmp_path: Path, coder_for: Make
) -> None:
    replies = [Says("I will n", stop=stop_of(reason, coder_for)) for reason in STOPS]
    async with (
        serve_provider(*replies) as provider,
        coder_session(version, cwd=tmp_path, coder=coder_for(provider)) as harness,
    ):
        for reason in STOPS:
            await harness.prompt("Go")
            assert harness.stop_reason == reason


async def test_refused_prompt_is_not_sent_again(tmp_path: Path, coder_for: Make) -> None:
    stop = stop_of("refusal", coder_for)
    async with (
        serve_provider(Says("No.", stop=stop), Says("Yes.")) as provider,
        coder_session(cwd=tmp_path, coder=coder_for(provider)) as harness,
    ):
        await harness.prompt("Something bad")
        await harness.prompt("Something good")
        assert "bad" not in str(provider.requests[1].body["messages"])


async def test_tool_call_truncated_by_the_limit_does_not_run(
    tmp_path: Path, coder_for: Make
) -> None:
    stop = stop_of("max_tokens", coder_for)
    says = Says("Now", uses=[("read", {"path": "a.txt"})], stop=stop)
    async with (
        serve_provider(says, Says("Well.")) as provider,
        coder_session(cwd=tmp_path, coder=coder_for(provider)) as harness,
    ):
        await harness.prompt("Go")
        assert harness.stop_reason == "max_tokens"
        assert not [event for event in harness.events if isinstance(event, ToolCall)]
        assert await harness.prompt("Go on") == "Well."


@ONE_FORMAT
async def test_turn_ends_after_the_maximum_number_of_requests(
    tmp_path: Path, coder_for: Make
) -> None:
    (tmp_path / "a.txt").write_text("eins\n")
    says = Says(uses=[("read", {"path": "a.txt"})])
    async with (
        serve_provider(says, says) as provider,
        coder_session(cwd=tmp_path, coder=coder_for(provider, max_requests=2)) as harness,
    ):
        await harness.prompt("Read on and on")
        assert harness.stop_reason == "max_turn_requests"


async def test_temporary_error_is_retried_and_reported(tmp_path: Path, coder_for: Make) -> None:
    statuses = (429, 500, 529, 503)
    replies = [(Fails(status), Fails(status), Says("At last.")) for status in statuses]
    waits = Waits()
    async with (
        serve_provider(*chain.from_iterable(replies)) as provider,
        coder_session(cwd=tmp_path, coder=coder_for(provider, RetryPolicy(sleep=waits))) as harness,
    ):
        for status in statuses:
            assert await harness.prompt("Hello") == "At last.", status
            first, second = waits.seconds
            assert first < second
            reported = [event for event in harness.events if isinstance(event, Notice)]
            assert [event.severity for event in reported] == ["warning"] * 2
            assert all("Trying again" in event.title for event in reported)
            waits.seconds.clear()
            harness.events.clear()


@ONE_FORMAT
@BOTH
async def test_retry_waits_as_long_as_the_provider_asks(
    version: int, tmp_path: Path, coder_for: Make
) -> None:
    waits = Waits()
    async with (
        serve_provider(Fails(429, headers={"Retry-After": "7"}), Says("Now.")) as provider,
        coder_session(
            version, cwd=tmp_path, coder=coder_for(provider, RetryPolicy(sleep=waits))
        ) as harness,
    ):
        assert await harness.prompt("Hello") == "Now."
        assert waits.seconds == [7.0]
        assert "in 7 s" in notices(harness)


@ONE_FORMAT
async def test_too_long_wait_is_an_error(tmp_path: Path, coder_for: Make) -> None:
    async with (
        serve_provider(Fails(429, headers={"Retry-After": "3600"})) as provider,
        coder_session(cwd=tmp_path, coder=coder_for(provider)) as harness,
    ):
        with pytest.raises(RequestError, match="limits the rate"):
            await harness.prompt("Hello")


@ONE_FORMAT
async def test_number_of_retries_is_limited(tmp_path: Path, coder_for: Make) -> None:
    patience = RetryPolicy(max_attempts=3, sleep=_no_time)
    async with (
        serve_provider(*[Fails(500)] * 3) as provider,
        coder_session(cwd=tmp_path, coder=coder_for(provider, patience)) as harness,
    ):
        with pytest.raises(RequestError, match="not available"):
            await harness.prompt("Hello")


async def test_connection_lost_before_the_response_is_retried(
    tmp_path: Path, coder_for: Make
) -> None:
    async with (
        serve_provider(Breaks(Says("x")), Says("Here.")) as provider,
        coder_session(cwd=tmp_path, coder=coder_for(provider)) as harness,
    ):
        assert await harness.prompt("Hello") == "Here."


async def test_connection_lost_during_the_response_is_an_error_and_the_session_continues(
    tmp_path: Path, coder_for: Make
) -> None:
    uses = [("read", {"path": "a.txt"})]
    async with (
        serve_provider(Breaks(Says("Half of it", uses=uses), 6), Says("Whole.")) as provider,
        coder_session(cwd=tmp_path, coder=coder_for(provider)) as harness,
    ):
        with pytest.raises(RequestError, match="lost during the answer"):
            await harness.prompt("Hello")
        assert await harness.prompt("Again") == "Whole."
        assert "Half of" in str(provider.requests[1].body["messages"])


async def test_stream_that_ends_early_is_an_error(tmp_path: Path, coder_for: Make) -> None:
    text = Says("Half of it")
    tools = Says("Half of it", uses=[("read", {"path": "a.txt"})])
    # The events before the stop reason.
    wholes = {"text": 4, "tools": 6} if coder_for.chat else {"text": 7, "tools": 11}  # type: ignore[attr-defined]
    ends = [Ends(text, events) for events in range(1, wholes["text"])]
    ends += [Ends(tools, events) for events in range(1, wholes["tools"])]
    async with (
        serve_provider(*ends, Says("Whole.")) as provider,
        coder_session(cwd=tmp_path, coder=coder_for(provider)) as harness,
    ):
        for end in ends:
            with pytest.raises(RequestError, match=r"incomplete|malformed|lost"):
                await harness.prompt(f"Hello {end}")
        assert await harness.prompt("Again") == "Whole."


async def test_model_that_stalls_is_an_error(tmp_path: Path, coder_for: Make) -> None:
    patience = RetryPolicy(stall_timeout_s=0.1, sleep=_no_time)
    async with (
        serve_provider(Stalls(Says("Half of it"), 5), Says("Whole.")) as provider,
        coder_session(cwd=tmp_path, coder=coder_for(provider, patience)) as harness,
    ):
        with pytest.raises(RequestError, match="stopped responding"):
            await harness.prompt("Hello")
        assert await harness.prompt("Again") == "Whole."


@BOTH
async def test_cancel_closes_the_stream_immediately(
    version: int, tmp_path: Path, coder_for: Make
) -> None:
    async with (
        serve_provider(Stalls(Says("Half of it"), 5), Says("Whole.")) as provider,
        coder_session(version, cwd=tmp_path, coder=coder_for(provider)) as harness,
    ):
        async with harness.session.prompt("Hello") as turn:
            await provider.reached.wait()
            await turn.cancel()
            async for _ in turn:
                pass
        assert turn.stop_reason == "cancelled"
        await provider.left.wait()
        assert await harness.prompt("Again") == "Whole."


@ONE_FORMAT
async def test_cancel_ends_the_wait_before_a_retry(tmp_path: Path, coder_for: Make) -> None:
    waiting = asyncio.Event()

    async def wait(_seconds: float) -> None:
        waiting.set()
        await asyncio.Event().wait()

    async with (
        serve_provider(Fails(429), Says("Fine.")) as provider,
        coder_session(cwd=tmp_path, coder=coder_for(provider, RetryPolicy(sleep=wait))) as harness,
    ):
        async with harness.session.prompt("Hello") as turn:
            await waiting.wait()
            await turn.cancel()
            async for _ in turn:
                pass
        assert turn.stop_reason == "cancelled"
        assert await harness.prompt("Again") == "Fine."


@BOTH
async def test_rejected_key_requires_a_login_and_is_not_shown(
    version: int, tmp_path: Path, coder_for: Make, caplog: pytest.LogCaptureFixture
) -> None:
    refuses = Fails(401, f"Incorrect key {SECRET}", "authentication_error", "invalid_api_key")
    async with (
        serve_provider(refuses) as provider,
        coder_session(version, cwd=tmp_path, coder=coder_for(provider)) as harness,
    ):
        with pytest.raises(AuthRequired) as caught:
            await harness.prompt("Hello")
        assert "rejected the API key" in caught.value.message
        assert SECRET not in str(vars(caught.value))
        assert SECRET not in caplog.text
        assert SECRET in str(provider.requests[0].headers)


async def test_forbidden_requires_a_login_only_if_the_provider_says_so(
    tmp_path: Path, coder_for: Make
) -> None:
    cases = [
        ("permission_error", "Your region is not served", False),
        ("authentication_error", "Who are you?", True),
        ("forbidden", "Authentication is required", True),
    ]
    async with (
        serve_provider(*(Fails(403, said, kind) for kind, said, _ in cases)) as provider,
        coder_session(cwd=tmp_path, coder=coder_for(provider)) as harness,
    ):
        for kind, said, is_login in cases:
            with pytest.raises(RequestError) as caught:
                await harness.prompt("Hello")
            assert isinstance(caught.value, AuthRequired) is is_login, kind
            assert (said in caught.value.message) is not is_login


async def test_key_that_is_not_a_valid_header_is_rejected_and_not_shown(
    tmp_path: Path, coder_for: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ACCORD_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(name, "sk-two\nlines")
    async with (
        serve_provider() as provider,
        coder_session(cwd=tmp_path, coder=coder_for(provider)) as harness,
    ):
        with pytest.raises(AuthRequired, match="invalid characters") as caught:
            await harness.prompt("Hello")
        assert "sk-two" not in str(caught.value)


async def test_newline_after_a_key_is_ignored(
    tmp_path: Path, coder_for: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ACCORD_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(name, f"{SECRET}\n")
    async with (
        serve_provider(Says("Here.")) as provider,
        coder_session(cwd=tmp_path, coder=coder_for(provider)) as harness,
    ):
        assert await harness.prompt("Hello") == "Here."
        headers = provider.requests[0].headers
        assert SECRET in (headers.get("x-api-key"), headers.get("authorization", "")[7:])


async def test_error_text_of_the_provider_is_shown_without_the_key(
    tmp_path: Path, coder_for: Make
) -> None:
    refuses = Fails(400, f"Bad request of {SECRET}", "invalid_request_error")
    async with (
        serve_provider(refuses) as provider,
        coder_session(cwd=tmp_path, coder=coder_for(provider)) as harness,
    ):
        with pytest.raises(RequestError, match="Bad request of …"):
            await harness.prompt("Hello")


async def test_malformed_response_is_an_error_and_the_session_continues(
    tmp_path: Path, coder_for: Make
) -> None:
    streams = [
        b"data: []\n\n",
        b"data: 5\n\ndata: null\n\n",
        b"event: message_start\ndata: []\n\n",
        b"<html>Please log in</html>",
        b"\n\n",
    ]
    async with (
        serve_provider(*map(SendsBytes, streams), Says("Here.")) as provider,
        coder_session(cwd=tmp_path, coder=coder_for(provider)) as harness,
    ):
        for stream in streams:
            with pytest.raises(RequestError, match="malformed response"):
                await harness.prompt(f"Hello {stream!r}")
        assert await harness.prompt("Still there?") == "Here."


async def test_lone_surrogate_does_not_stop_the_session(tmp_path: Path, coder_for: Make) -> None:
    (tmp_path / os.fsdecode(b"caf\xe9.txt")).write_text("an old name\n")  # not valid UTF-8
    uses = [("list", {"path": "."})]
    async with (
        serve_provider(Says("Half: \ud83d", "Or \ud83d", uses), Says("Done.")) as provider,
        coder_session(cwd=tmp_path, coder=coder_for(provider)) as harness,
    ):
        assert (await harness.prompt("What is \ud83d?")).endswith("Done.")
        asked = str(provider.requests[1].body["messages"])
        assert "What is \N{REPLACEMENT CHARACTER}?" in asked
        assert "Half: \N{REPLACEMENT CHARACTER}" in asked
        assert "caf\N{REPLACEMENT CHARACTER}.txt" in asked


async def test_image_is_sent_to_the_model_as_an_image(tmp_path: Path, coder_for: Make) -> None:
    async with (
        serve_provider(Says("A dot.")) as provider,
        coder_session(cwd=tmp_path, coder=coder_for(provider)) as harness,
    ):
        resource = EmbeddedResource("file:///notes.txt", "the notes")
        await harness.prompt("What is this?", ImageContent(b"\x89PNG", "image/png"), resource)
        asked = str(provider.requests[0].body["messages"])
        assert "iVBORw" in asked  # in base64
        assert "the notes" in asked


async def test_audio_is_sent_as_text_to_models_without_audio(
    tmp_path: Path, coder_for: Make
) -> None:
    if coder_for.chat:  # type: ignore[attr-defined]
        pytest.skip("compatible models may take sounds")
    async with (
        serve_provider(Says("I cannot hear it.")) as provider,
        coder_session(cwd=tmp_path, coder=coder_for(provider)) as harness,
    ):
        await harness.prompt("Listen", AudioContent(b"RIFF", "audio/wav"))
        assert "cannot hear" in str(provider.requests[0].body["messages"])


@ONE_FORMAT
@pytest.mark.slow
async def test_many_failed_and_cancelled_turns_leave_nothing(
    tmp_path: Path, coder_for: Make
) -> None:
    chance = random.Random(3)
    (tmp_path / "a.txt").write_text("eins\n")
    half = Says("Half of it", uses=[("read", {"path": "a.txt"})])
    kinds = (Fails(429), Breaks(half, 3), Stalls(half, 4), Breaks(half), Says("Whole."))
    replies = [*kinds] * 3
    chance.shuffle(replies)

    async def turn_of(harness: Any, provider: Provider) -> None:
        async with harness.session.prompt("Go") as turn:
            if chance.random() < 0.5:
                for _ in range(chance.randrange(200)):
                    await asyncio.sleep(0)
                await turn.cancel()
            with suppress(RequestError):
                async for _ in turn:
                    pass

    before = {task.get_name() for task in asyncio.all_tasks()}
    async with serve_provider(*replies) as provider:
        coder = coder_for(provider, RetryPolicy(stall_timeout_s=0.05, sleep=_no_time))
        async with coder_session(2, cwd=tmp_path, coder=coder) as harness:
            while provider.replies:
                with suppress(RequestError):
                    await turn_of(harness, provider)
            ended = {call.status for call in harness.calls}
            assert ended <= {"completed", "failed", "cancelled"}
    assert {task.get_name() for task in asyncio.all_tasks()} <= before
