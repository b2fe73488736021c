"""`accord chain --explain`: what the proxies of a chain say that they do."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from accord import Agent, AvailableCommand, Proxy, RequestError, Turn, chain, tool, v2
from accord.proxy import chain as explain_module
from accord.proxy.chain import description_lines, explain
from accord.proxy.handlers import DESCRIBE, TypedStage
from accord.proxy.stage import Port, RawRequest, RawResponse, Stage
from needs import needs


class Glossary(Proxy):
    commands = (AvailableCommand("terms", "Lists the terms"),)

    async def prompt(self, turn: Any, forward: Any) -> Any:
        return await forward()

    def update(self, event: Any) -> Any:
        return event

    @tool
    async def lookup(self, term: str) -> str:
        """What the team means by a term."""
        return term


class Closing(v2.Proxy):
    async def initialize(self, params: Any, forward: Any) -> Any:
        return await forward()

    async def close_session(self, params: Any, forward: Any) -> Any:
        return await forward()

    def extension_notification(self, method: str, params: Any) -> Any:
        return params


class Silent(Agent):
    async def prompt(self, turn: Turn) -> None:
        """Say nothing."""


class _Answering(Stage):
    """Answers what it is asked about itself, or does not."""

    def __init__(self, answer: bytes | None) -> None:
        self._answer = answer

    def request_from_client(self, request: RawRequest) -> None:
        if request.method != DESCRIBE:
            self.agent.request(request)
        elif self._answer is not None:
            request.answer(RawResponse(result=Raw(self._answer)))


class _Says:
    def __init__(self, answer: bytes | None) -> None:
        self._answer = answer

    def stage(self) -> Stage:
        return _Answering(self._answer)


def _lines(picture: str) -> list[str]:
    """Return the lines that proxies have said."""
    said = [line.removeprefix("  │    ") for line in picture.splitlines() if "│    " in line]
    return [line for line in said if "change" not in line]


async def test_proxies_say_what_they_handle_and_add() -> None:
    picture = await explain(chain(Glossary(), Closing(), Silent).components)
    assert _lines(picture) == [
        "handles: prompt, update",
        "gives the agent the tools: lookup",
        "adds the slash commands: terms",
        "handles: initialize, close_session, extension_notification",
    ]


async def test_steering_is_shown_and_withheld_by_a_proxy_of_prompts() -> None:
    class Steered(Silent):
        steering = True

    class Passes(Proxy):
        """Overrides nothing."""

    advertised = "\n  _meta.steering.supported\n"
    assert advertised in await explain(chain(Passes(), Steered).components)
    assert advertised not in await explain(chain(Passes(), Silent).components)
    picture = await explain(chain(Glossary(), Steered).components)
    assert "changes to the client:\n  │      - _meta.steering.supported\n" in picture
    assert advertised not in picture


async def test_capabilities_that_the_client_sees_are_listed() -> None:
    picture = await explain(chain(Glossary(), Silent).components)
    _, _, seen = picture.partition("The client sees an agent of protocol version 2:\n")
    assert "  session" in seen
    assert all(line.startswith("  ") for line in seen.splitlines())


@needs("accord_terminal")
async def test_proxies_of_a_chain_that_is_a_component_are_named(tmp_path: Path) -> None:
    program = tmp_path / "two.py"
    program.write_text(
        "import sys, accord\n"
        "class One(accord.Proxy):\n"
        "    async def close_session(self, session_id, forward):\n"
        "        await forward()\n"
        "class Two(One):\n"
        "    def update(self, event):\n"
        "        return event\n"
        "(One() if 'one' in sys.argv else Two()).run()\n"
    )
    one, two = (f"'{sys.executable}' '{program}' {name}" for name in ("one", "two"))
    inner = [sys.executable, "-m", "accord", "chain", one, two]
    picture = await explain(chain(inner, Silent).components)
    assert _lines(picture) == [
        "One:",
        "  handles: close_session",
        "Two:",
        "  handles: update, close_session",
    ]


ANSWERS = [
    (b"null", []),
    (b"[]", []),
    (b'{"proxies":{}}', []),
    (b'{"proxies":[1,{"handles":3,"tools":[]}]}', []),
    (b'{"proxies":[{"handles":["a\\u001b[2J",4,"b\\nc"]}]}', ["handles: a\\x1b[2J, b\\nc"]),
    (b'{"proxies":[{"name":"\\u202ex"},{"name":1,"tools":["t"]}]}', ["\\u202ex:", "gives t"]),
]


async def test_answer_of_a_component_is_not_trusted() -> None:
    for answer, lines in ANSWERS:
        picture = await explain(chain(_Says(answer), Silent).components)
        shown = [line.replace("gives the agent the tools: ", "gives ") for line in _lines(picture)]
        assert shown == lines, (answer, lines)


async def test_component_that_does_not_answer_is_shown_without_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(explain_module, "_DESCRIBE_S", 0.01)
    picture = await explain(chain(_Says(None), Silent).components)
    assert _lines(picture) == []
    assert "changes nothing in the handshake" in picture


class _Hostile:
    """Adds a capability whose name would change the terminal."""

    def stage(self) -> Stage:
        return _Adding()


class _Adding(Stage):
    def request_from_client(self, request: RawRequest) -> None:
        def answered(response: RawResponse) -> None:
            result = json.loads(bytes(response.result or b"{}"))
            result["_meta"] = {"\x1b[2J\n": 1}
            request.answer(RawResponse.of_result(result))

        is_first = request.method == "initialize"
        self.agent.request(request.derive(answered) if is_first else request)


async def test_names_of_capabilities_are_not_trusted() -> None:
    picture = await explain(chain(_Hostile(), Silent).components)
    assert "+ _meta.\\x1b[2J\\n = 1\n" in picture


def test_error_of_the_agent_does_not_hide_what_the_proxy_says() -> None:
    stage = TypedStage(Closing())
    stage.agent = Port(_unexpected, lambda one: one.fail(RequestError()), _unexpected, _unexpected)
    responses: list[RawResponse] = []
    stage.request_from_client(RawRequest(DESCRIBE, Raw(b"{}"), responses.append))
    assert list(description_lines(responses[0])) == [
        "handles: initialize, close_session, extension_notification"
    ]


def _unexpected(*_args: object) -> Any:
    raise AssertionError("nothing else passes")
