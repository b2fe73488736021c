"""Version negotiation: the table, agents that falsely claim v2, and v2 params for v1."""

from __future__ import annotations

from typing import Any

import pytest

from accord import v1
from accord.errors import InvalidParams, UnsupportedVersion, VersionNotOffered
from accord.rules.negotiation import (
    is_false_v2,
    negotiated_version,
    requested_version,
    select,
    v1_params_of,
)
from accord.wire.codec import convert
from quirk import quirk
from requirement import requirement

REFUSED = None


@requirement("R-INIT-05", "R-INIT-06", "R-INIT-10", "R-INIT-12", "R-INIT-31", "R-ROUTE-02")
@pytest.mark.parametrize(
    ("offered", "requested", "selected"),
    [
        ((1,), 0, 1),
        ((1,), 1, 1),
        ((1,), 2, 1),
        ((1,), 3, 1),
        ((1,), 65_535, 1),
        ((2,), 0, REFUSED),
        ((2,), 1, REFUSED),
        ((2,), 2, 2),
        ((2,), 3, 2),
        ((2,), 65_535, 2),
        ((1, 2), 0, REFUSED),
        ((1, 2), 1, 1),
        ((1, 2), 2, 2),
        ((1, 2), 3, 2),
        ((1, 2), 65_535, 2),
        ((2, 1), 1, 1),
    ],
)
def test_agent_selects_the_version_of_the_table(
    offered: Any, requested: int, selected: int | None
) -> None:
    if selected is REFUSED:
        with pytest.raises(VersionNotOffered) as caught:
            select(requested, offered)
        assert caught.value.code == -32022
        assert caught.value.data == {"requested": requested, "supported": sorted(offered)}
    else:
        assert select(requested, offered) == selected


# In JSON Schema 1.0 is an integer.
@pytest.mark.parametrize("version", [0, 1, 2, 65_535, 1.0, 2.0, 65_535.0])
def test_requested_version_is_read(version: float) -> None:
    found = requested_version({"protocolVersion": version, "more": 1})
    assert found == version
    assert type(found) is int


@requirement("R-INIT-10")
@pytest.mark.parametrize(
    "version", ["1", "2025-01-01", 1.5, -1.0, 1e300, -1, 65_536, True, None, [], {}]
)
def test_version_that_is_not_an_integer_from_0_to_65535_is_invalid(version: Any) -> None:
    with pytest.raises(InvalidParams) as caught:
        requested_version({"protocolVersion": version})
    assert caught.value.data["path"] == "$.protocolVersion"


@pytest.mark.parametrize("params", [None, [], 1, "x", {}])
def test_initialize_without_a_version_is_invalid(params: Any) -> None:
    with pytest.raises(InvalidParams) as caught:
        requested_version(params)
    assert caught.value.data["path"] == "$"


# The response of the agent.

V1_BODY: dict[str, Any] = {"agentCapabilities": {}, "agentInfo": {"name": "a", "version": "0"}}
V2_BODY: dict[str, Any] = {"capabilities": {}, "info": {"name": "a", "version": "0"}}


@requirement("R-INIT-14", "R-INIT-32")
@pytest.mark.parametrize(
    ("result", "version"),
    [
        ({"protocolVersion": 1}, 1),
        ({"protocolVersion": 1, **V1_BODY}, 1),
        ({"protocolVersion": 2, **V2_BODY}, 2),
        ({"protocolVersion": 1.0}, 1),
        ({"protocolVersion": 2.0, **V2_BODY}, 2),
        ({"protocolVersion": 2.0, **V1_BODY}, 1),
        ({"protocolVersion": 2}, 2),  # not a v1 body either; v2 then reports the missing `info`
        ({"protocolVersion": 2, **V1_BODY}, 1),
        ({"protocolVersion": 2, "agentCapabilities": {}}, 1),
        ({"protocolVersion": 2, **V1_BODY, **V2_BODY}, 2),
    ],
)
def test_response_selects_the_version(result: Any, version: int) -> None:
    assert negotiated_version(result, (1, 2)) == version


@quirk("false-v2")
@pytest.mark.parametrize(
    ("body", "false"), [(V1_BODY, True), (V2_BODY, False), ({}, False), (V1_BODY | V2_BODY, False)]
)
def test_false_v2_is_recognised_by_its_body(body: Any, false: bool) -> None:
    assert is_false_v2({"protocolVersion": 2, **body}) is false


@requirement("R-INIT-07", "R-INIT-32")
@pytest.mark.parametrize(
    ("offered", "result"),
    [
        ((1,), {"protocolVersion": 2, **V2_BODY}),
        ((2,), {"protocolVersion": 1, **V1_BODY}),
        ((2,), {"protocolVersion": 2, **V1_BODY}),
        ((1, 2), {"protocolVersion": 0}),
        ((1, 2), {"protocolVersion": 3, **V2_BODY}),
        ((1, 2), {"protocolVersion": "1"}),
        ((1, 2), {"protocolVersion": 1.5}),
        ((1, 2), {"protocolVersion": True}),
        ((1, 2), {"protocolVersion": None}),
        ((1, 2), {}),
        ((1, 2), None),
        ((1, 2), []),
        ((1, 2), 1),
    ],
)
def test_version_that_the_client_does_not_support_is_an_error(offered: Any, result: Any) -> None:
    with pytest.raises(UnsupportedVersion) as caught:
        negotiated_version(result, offered)
    assert caught.value.raw == result


# Params of v2 for v1.


@requirement("R-ROUTE-06", "R-INIT-13", "R-ROUTE-04")
def test_v2_params_are_translated_for_v1() -> None:
    params = {
        "protocolVersion": 2,
        "info": {"name": "c", "version": "1", "title": "C"},
        "capabilities": {
            "auth": {"terminal": {}},
            "elicitation": {"form": {}},
            "_meta": {"x": 1},
            "session": {"notices": {}, "compaction": {}},
            "subagents": {},
            "fs": {"readTextFile": True},
            "terminal": True,
        },
        "_meta": {"y": 2},
    }
    assert v1_params_of(params) == {
        "protocolVersion": 2,
        "clientInfo": {"name": "c", "version": "1", "title": "C"},
        "clientCapabilities": {
            "fs": {"readTextFile": False, "writeTextFile": False},
            "terminal": False,
            "session": {"configOptions": {"boolean": {}}},
            "plan": {},
            "auth": {"terminal": True},
            "elicitation": {"form": {}},
            "_meta": {"x": 1},
        },
        "_meta": {"y": 2},
    }


@requirement("R-ROUTE-06")
@pytest.mark.parametrize("auth", [None, {}, {"terminal": None}, {"terminal": True}, 1, []])
def test_terminal_login_needs_its_marker(auth: Any) -> None:
    translated = v1_params_of({"protocolVersion": 2, "info": {}, "capabilities": {"auth": auth}})
    assert translated["clientCapabilities"]["auth"] == {"terminal": False}


@requirement("R-ROUTE-06", "R-ROUTE-05")
@pytest.mark.parametrize("info", [None, 1, [], {}, {"name": "c"}, {"name": 1, "version": "1"}])
def test_malformed_info_is_absent_in_v1(info: Any) -> None:
    params = v1_params_of({"protocolVersion": 9, "info": info, "capabilities": None})
    assert convert(params, v1.InitializeRequest).client_info is None


@pytest.mark.parametrize(
    "params",
    [
        {"protocolVersion": 1},
        {"protocolVersion": 1, "clientCapabilities": {"terminal": True}, "clientInfo": None},
        {"protocolVersion": 3, "clientCapabilities": {"fs": {"readTextFile": True}}},
        # Keys of v1 take precedence over all other keys (R-GEN-08).
        {"protocolVersion": 1, "clientCapabilities": {"terminal": True}, "info": {}},
        {"protocolVersion": 2, "clientCapabilities": {"terminal": True}, "capabilities": {}},
    ],
)
@requirement("R-GEN-08")
def test_v1_params_are_unchanged(params: Any) -> None:
    assert v1_params_of(params) is params
