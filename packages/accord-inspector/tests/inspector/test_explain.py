"""The explanation of messages: types, fields, rules, differences."""

from __future__ import annotations

from typing import Any

import pytest

from accord_inspector.explain import Explanation, explain


def request(method: str, params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def doc_at(found: Explanation, path: str) -> Any:
    return found.docs[found.places[path]]


def test_each_field_has_its_type_and_the_docstring_of_its_class() -> None:
    prompt = [{"type": "text", "text": "hello"}]
    value = request("session/prompt", {"sessionId": "s", "prompt": prompt})
    found = explain("request", "session/prompt", value, version=1, direction="to_agent")
    assert found.title == "PromptRequest"
    assert "the response arrives when the turn has ended" in found.doc
    assert doc_at(found, "$.params.sessionId").type == "string"
    assert doc_at(found, "$.params.sessionId").required
    assert doc_at(found, "$.params.prompt[0]").type == "TextContent"
    assert doc_at(found, "$.params.prompt[0]").doc == "Text, read as Markdown."
    assert "R-CONT-01" in doc_at(found, "$.params.prompt[0].type").rules
    assert found.rules["R-CONT-01"].url.startswith("https://agentclientprotocol.com/")
    assert found.problems == []


def test_differences_have_the_path_at_which_they_are() -> None:
    prompt = [{"type": "text", "txt": "x"}, {"type": "video"}]
    value = request("session/prompt", {"sessionId": 3, "prompt": prompt})
    found = explain("request", "session/prompt", value, version=1)
    assert {(one.path, one.what, one.rule) for one in found.problems} == {
        ("$.params.sessionId", "type", "R-INIT-08"),
        ("$.params.prompt[0].text", "missing", "R-CONT-01"),
        ("$.params.prompt[0].txt", "extra", "R-GEN-12"),
        ("$.params.prompt[1].type", "value", "R-CONT-01"),
    }
    assert found.rules.keys() >= {"R-INIT-08", "R-CONT-01", "R-GEN-12"}


@pytest.mark.parametrize(("version", "count"), [(1, 1), (2, 0)])
def test_message_is_explained_in_the_agreed_version(version: int, count: int) -> None:
    update = {"sessionUpdate": "state_update", "state": "idle"}
    value = request("session/update", {"sessionId": "s", "update": update})
    found = explain("notification", "session/update", value, version=version)
    assert len(found.problems) == count
    assert found.version == version


def test_without_an_agreed_version_the_one_that_fits_is_used() -> None:
    update = {"sessionUpdate": "state_update", "state": "idle"}
    value = request("session/update", {"sessionId": "s", "update": update})
    assert explain("notification", "session/update", value, version=None).version == 2


def test_initialize_is_explained_in_the_version_that_it_requests() -> None:
    value = request("initialize", {"protocolVersion": 2, "capabilities": {}, "info": {"name": 5}})
    found = explain("request", "initialize", value, version=None)
    assert found.version == 2
    assert "$.params.info.name" in {one.path for one in found.problems}


def test_response_has_the_type_of_the_result_of_its_request() -> None:
    value = {"jsonrpc": "2.0", "id": 1, "result": {"stopReason": "because"}}
    found = explain("response", "session/prompt", value, version=1, direction="to_client")
    assert found.title == "PromptResponse"
    assert [one.path for one in found.problems] == ["$.result.stopReason"]


def test_error_codes_are_explained() -> None:
    value = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32601, "message": "no"}}
    found = explain("response", "session/prompt", value, version=1)
    assert "does not have this method" in doc_at(found, "$.error.code").doc


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("_mine/do", "method of an extension"),
        ("fs/read_text_file", "method of version 1; version 2 was agreed"),
        ("session/dance", "Version 2 does not define"),
    ],
)
def test_unknown_methods_are_named(method: str, expected: str) -> None:
    found = explain("request", method, request(method, {}), version=2)
    assert expected in found.notes[0]
    assert found.title == ""


def test_wrong_direction_is_named() -> None:
    value = request("session/prompt", {"sessionId": "s", "prompt": []})
    found = explain("request", "session/prompt", value, version=1, direction="to_client")
    assert "other direction" in found.notes[1]


@pytest.mark.parametrize("value", [None, [], 3, "text"])
def test_frames_that_are_not_messages_have_no_explanation(value: Any) -> None:
    assert explain("invalid", "", value, version=1).places == {}


def test_huge_messages_are_explained_in_part() -> None:
    prompt = [{"type": "text", "text": "x"}] * 5000
    value = request("session/prompt", {"sessionId": "s", "prompt": prompt})
    found = explain("request", "session/prompt", value, version=1)
    assert len(found.places) == 3000
    assert len(found.docs) < 20
