"""Early spellings of version 1 are decoded as the current ones."""

from __future__ import annotations

from typing import Any

import pytest

from accord import v1
from accord.v1.early_spellings import (
    LEGACY_METHODS,
    SET_SESSION_MODEL,
    SetSessionModelRequest,
    model_option,
    translate_early,
)
from accord.v1.methods import METHODS
from accord.wire.codec import convert, to_builtins
from quirk import quirk

PARAMS = {method.name: method.params for method in METHODS if method.is_request} | {
    "session/update": v1.SessionNotification
}


def read(method: str, params: Any) -> Any:
    """Return the params of an early message as the type of its current method."""
    name, now = translate_early(method, params)
    return convert(now, PARAMS[name])


def test_every_early_name_represents_a_method_and_is_not_one() -> None:
    assert set(LEGACY_METHODS.values()) <= PARAMS.keys()
    assert not LEGACY_METHODS.keys() & PARAMS.keys()


@quirk("early-methods")
@pytest.mark.parametrize(
    ("early", "now"),
    [
        ("fs/readTextFile", "fs/read_text_file"),
        ("fs/writeTextFile", "fs/write_text_file"),
        ("terminal/waitForExit", "terminal/wait_for_exit"),
        ("unstable_resumeSession", "session/resume"),
    ],
)
def test_early_name_is_decoded(early: str, now: str) -> None:
    params = {"sessionId": "s"}
    assert translate_early(early, params) == (now, params)


def test_message_without_early_spellings_is_unchanged() -> None:
    for method in ("session/prompt", "session/new", "session/update", "_mine/method"):
        for params in ({}, {"prompt": [1], "mcpServers": [1], "update": []}, None, []):
            name, same = translate_early(method, params)
            assert name == method
            assert same is params


@quirk("mode-key")
def test_mode_is_decoded_from_its_early_key() -> None:
    assert read("session/set_mode", {"sessionId": "s", "mode": "plan"}) == (
        v1.SetSessionModeRequest(session_id="s", mode_id="plan")
    )


def test_current_key_takes_precedence_over_its_early_spelling() -> None:
    params = {"sessionId": "s", "mode": "old", "modeId": "new"}
    assert translate_early("session/set_mode", params)[1] is params


@quirk("mcp-server-shapes")
@pytest.mark.parametrize(
    "method", ["session/new", "session/load", "session/resume", "session/fork"]
)
def test_maps_and_missing_lists_of_servers_become_lists(method: str) -> None:
    servers = [
        {"name": "a", "command": "/a", "env": {"K": "V"}},
        {"type": "http", "name": "b", "url": "u", "headers": {"H": "W"}},
        {"type": "sse", "name": "c", "url": "u"},
        {"type": "acp", "name": "d", "serverId": "1"},
    ]
    before = [dict(server) for server in servers]
    seen = read(method, {"sessionId": "s", "cwd": "/", "mcpServers": servers})
    assert seen.mcp_servers == [
        v1.McpServerStdio(
            name="a", command="/a", args=[], env=[v1.EnvVariable(name="K", value="V")]
        ),
        v1.McpServerHttp(name="b", url="u", headers=[v1.HttpHeader(name="H", value="W")]),
        v1.McpServerSse(name="c", url="u", headers=[]),
        v1.McpServerAcp(name="d", server_id="1"),
    ]
    assert servers == before


def test_early_name_of_resume_can_have_early_servers() -> None:
    servers = [{"name": "a", "command": "/a"}]
    params = {"sessionId": "s", "cwd": "/", "mcpServers": servers}
    assert read("unstable_resumeSession", params).mcp_servers[0].args == []


@quirk("context-block")
def test_context_block_is_an_embedded_resource() -> None:
    block = {"type": "context", "resource": {"uri": "file:///a", "text": "t"}}
    resource = v1.EmbeddedResource(resource=v1.TextResourceContents(uri="file:///a", text="t"))
    prompt = [{"type": "text", "text": "x"}, block]
    seen = read("session/prompt", {"sessionId": "s", "prompt": prompt})
    assert seen.prompt == [v1.TextContent(text="x"), resource]
    chunk = {"sessionUpdate": "user_message_chunk", "content": block}
    seen = read("session/update", {"sessionId": "s", "update": chunk})
    assert seen.update == v1.UserMessageChunk(content=resource)


@quirk("current-mode-key")
def test_current_mode_is_decoded_from_its_early_key() -> None:
    update = {"sessionUpdate": "current_mode_update", "modeId": "ask"}
    seen = read("session/update", {"sessionId": "s", "update": update})
    assert seen.update == v1.CurrentModeUpdate(current_mode_id="ask")


def test_update_without_a_tag_is_not_guessed() -> None:
    params = {"sessionId": "s", "update": {"kind": "text", "text": "x"}}
    assert translate_early("session/update", params)[1] is params


MODELS = {
    "currentModelId": "m1",
    "availableModels": [
        {"modelId": "m1", "name": "One", "description": "small"},
        {"modelId": "m2", "name": "Two"},
        {"name": "without an id"},
    ],
}


def test_models_of_a_setup_response_are_a_config_option() -> None:
    option = model_option(MODELS)
    assert option == v1.SessionConfigSelect(
        id="model",
        name="Model",
        category="model",
        current_value="m1",
        options=[
            v1.SessionConfigSelectOption(value="m1", name="One", description="small"),
            v1.SessionConfigSelectOption(value="m2", name="Two"),
        ],
    )


@pytest.mark.parametrize("models", [None, [], "m1", {"availableModels": []}])
def test_malformed_models_are_ignored(models: Any) -> None:
    assert model_option(models) is None


def test_setting_the_model_sets_its_option() -> None:
    request = SetSessionModelRequest(session_id="s", model_id="m2")
    assert read(SET_SESSION_MODEL.name, to_builtins(request)) == (
        v1.SetSessionConfigOptionId(session_id="s", config_id="model", value="m2")
    )


def test_list_that_no_program_ever_sent_is_not_searched() -> None:
    """A frame full of empty objects costs as much as decoding it, not a hundred times as much."""
    params = {"cwd": "/x", "mcpServers": [{"name": "a", "command": "b"}] * 1001}
    assert translate_early("session/new", params) == ("session/new", params)
    assert translate_early("session/new", params)[1] is params
