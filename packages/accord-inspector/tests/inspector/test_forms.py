"""Forms exist for every method, and their params are valid."""

from __future__ import annotations

import json

import jsonschema
import pytest

from accord.v1 import METHODS as METHODS_V1
from accord.v2 import METHODS as METHODS_V2
from accord_inspector.forms import (
    FormProblem,
    Suggestions,
    Version,
    check_params,
    form_of,
    methods,
)

FACTS = Suggestions(sessions=["s-2", "s-1"], cwd="/home/me", fields={"modeId": ["plan"]})
VERSIONS: tuple[Version, ...] = (1, 2)


def test_every_method_of_both_versions_can_be_sent_in_its_direction() -> None:
    for version, table in ((1, METHODS_V1), (2, METHODS_V2)):
        sent = {(entry.method, entry.kind) for entry in methods(version)}
        assert sent == {
            (method.name, "request" if method.is_request else "notification") for method in table
        }
    cancel = [one.direction for one in methods(1) if one.method == "$/cancel_request"]
    assert cancel == ["to_agent", "to_client"]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_params_of_every_form_are_valid(version: Version) -> None:
    for entry in methods(version):
        form = form_of(version, entry.method, entry.direction, FACTS)
        assert check_params(version, entry.method, entry.direction, form.params) == [], entry
        jsonschema.Draft202012Validator(form.schema).validate(form.params)
        # The page needs no other definitions.
        for reference in set(json.dumps(form.schema).split('"#/$defs/')[1:]):
            assert reference.split('"')[0] in form.schema["$defs"], entry


def test_params_use_what_is_known_of_the_agent() -> None:
    assert form_of(1, "session/prompt", "to_agent", FACTS).params == {
        "sessionId": "s-2",
        "prompt": [{"type": "text", "text": "Hello"}],
    }
    assert form_of(1, "session/new", "to_agent", FACTS).params == {
        "cwd": "/home/me",
        "mcpServers": [],
    }
    assert form_of(1, "session/set_mode", "to_agent", FACTS).params == {
        "sessionId": "s-2",
        "modeId": "plan",
    }
    assert form_of(2, "initialize", "to_agent", FACTS).params["protocolVersion"] == 2


def test_a_problem_has_its_place() -> None:
    wrong = {"sessionId": "s", "prompt": [{"type": "text", "text": 3}]}
    assert check_params(1, "session/prompt", "to_agent", wrong) == [
        FormProblem("Expected `str`, got `int`", ["prompt", 0, "text"])
    ]


def test_an_unknown_method_is_named() -> None:
    with pytest.raises(LookupError, match="Version 2 does not define 'fs/read_text_file'"):
        form_of(2, "fs/read_text_file", "to_client", FACTS)
