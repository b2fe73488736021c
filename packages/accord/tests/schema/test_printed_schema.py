"""`python -m accord.schema`: the printed schema judges instances as the official one does."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from functools import cache
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from accord.schema import json_schema, main
from schema import model_of_types as types
from schema import official, verdict
from schema.judged import by_type, load
from schema.validators import validator_of

EACH_VERSION = pytest.mark.parametrize("version", official.VERSIONS)
EACH_PART = pytest.mark.parametrize("unstable", [False, True], ids=["stable", "unstable"])

# Where the printed schema differs from the official one, about lenient values.
FORGIVEN = {
    "CreateElicitationRequest/lenient-form-toolCallId-number": "we say its type beside both ids",
    "CreateElicitationRequest/lenient-url-toolCallId-number": "we say its type beside both ids",
    "CreateElicitationRequest/lenient-other-toolCallId-number": "we say its type beside both ids",
    "SessionUpdate/lenient-state_update-idle-error-text": "we say its type for all stop reasons",
    "CreateElicitationResponse/lenient-other-_meta-text": "we keep unknown variants as they are",
    "DiffChange/lenient-other-fileType-number": "we keep unknown variants as they are",
    "DiffChange/lenient-other-mimeType-number": "we keep unknown variants as they are",
}


@cache
def printed(version: str, unstable: bool) -> dict[str, Any]:
    return json_schema(version, unstable=unstable)


@cache
def validator(version: str, unstable: bool, name: str) -> Draft202012Validator | None:
    """Return the validator for instances of a type, if the schema defines it."""
    schema = printed(version, unstable)
    if name not in schema["$defs"]:
        return None
    return validator_of(schema, name)


@cache
def counterpart(version: str, unstable: bool, name: str) -> Draft202012Validator | None:
    schema = official.load(version, unstable=unstable)
    if name not in schema["$defs"]:
        return None
    return validator_of(schema, name)


@pytest.mark.slow  # the validator takes seconds
@EACH_PART
@EACH_VERSION
def test_printed_schema_judges_as_the_official_one(version: str, unstable: bool) -> None:
    official.require()
    compared = 0
    for name in sorted({row.type for row in load() if row.version == version}):
        ours = validator(version, unstable, verdict.OTHER_CLASS.get(name, name))
        theirs = counterpart(version, unstable, name)
        assert ours is None or theirs is not None, name
        if ours is None or theirs is None:
            # Unstable as a whole, or used by no method: the proof of the types covers it.
            continue
        compared += 1
        for row in by_type()[version, name]:
            # The printed schema has the bounds that the official schema expresses by the name of a
            # format.
            bounded = row.name.endswith(("-high", "-low"))
            # The data has the verdict of the unstable schema (test_data_is_up_to_date).
            accepted = row.accepted if unstable else theirs.is_valid(row.value)
            agree = ours.is_valid(row.value) is (accepted and not bounded)
            assert agree is (row.name not in FORGIVEN), row.name
    assert compared > 40


def test_every_exception_is_in_the_data() -> None:
    assert {row.name for row in load()} >= FORGIVEN.keys()


@pytest.mark.slow
@EACH_PART
@EACH_VERSION
def test_printed_schema_is_valid_in_its_draft(version: str, unstable: bool) -> None:
    schema = printed(version, unstable)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    if unstable:  # the stable one is a part of it
        Draft202012Validator.check_schema(schema)
    text = json.dumps(schema)
    for name in schema["$defs"]:
        node: dict[str, Any] = schema["$defs"][name]
        assert "x-method" in node or f'"#/$defs/{name}"' in text, f"{name} is used nowhere"


@EACH_PART
@EACH_VERSION
def test_every_method_and_side_is_marked_as_in_the_official_schema(
    version: str, unstable: bool
) -> None:
    official.require()
    theirs = official.load(version, unstable=unstable)["$defs"]
    assert marks(printed(version, unstable)["$defs"]) == marks(theirs)


@EACH_VERSION
def test_every_class_has_its_docstring_as_description(version: str) -> None:
    for name, node in printed(version, True)["$defs"].items():
        tp = types.public(version).get(name)
        if types.is_class(tp) and "x-method" not in node:
            assert node["description"] == inspect.getdoc(tp)


@EACH_VERSION
def test_command_prints_json(version: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([version, "--unstable"]) == 0
    assert json.loads(capsys.readouterr().out) == printed(version, True)


@pytest.mark.parametrize("arguments", [[], ["v3"], ["v1", "v2"], ["v1", "--all"]], ids=" ".join)
def test_usage_error_is_explained(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "usage: python -m accord.schema" in capsys.readouterr().err


def test_module_runs_as_a_program() -> None:
    command = [sys.executable, "-W", "error", "-m", "accord.schema", "v2"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == printed("v2", False)


def marks(defs: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """Return the method and the side of each message."""
    return {
        name: (node["x-method"], node["x-side"])
        for name, node in defs.items()
        if "x-method" in node
    }


def test_closed_output_is_not_an_error() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "accord.schema", "v1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as printing:
        assert printing.stdout is not None
        assert printing.stderr is not None
        assert printing.stdout.readline() == b"{\n"
        printing.stdout.close()
        assert printing.stderr.read() == b""
    assert printing.returncode == 0
