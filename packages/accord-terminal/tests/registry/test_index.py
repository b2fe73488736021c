"""The index is read leniently: what is not understood is skipped and named."""

from __future__ import annotations

import json
from typing import Any

import pytest

from accord_terminal.agents.registry import RegistryError, read_index, read_quarantine
from registry.server import entry
from requirement import requirement


def read(*agents: Any, **more: Any) -> Any:
    return read_index(json.dumps({"version": "1.0.0", "agents": agents, **more}).encode())


NPX = {"package": "@scope/agent@1.2.3", "args": ["--acp"]}


@requirement("R-REG-01", "R-REG-02", "R-REG-04")
@requirement("R-REG-10", "R-REG-11")
def test_unknown_keys_and_kinds_are_skipped() -> None:
    given = entry("a", npx={**NPX, "cmd": "run", "new": 1}, docker={"image": "x"})
    index = read({**given, "new": {}}, extensions=[])
    found = index.agents["a"]
    assert (found.npx.package, found.npx.cmd, found.npx.args) == (
        "@scope/agent@1.2.3",
        "run",
        ("--acp",),
    )
    assert found.warnings == ("unknown kind 'docker'",)


@requirement("R-REG-05", "R-REG-06", "R-REG-11")
@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("text", "entry 1: it is not an object"),
        (entry("A", npx=NPX), "A: `id` is not valid: A"),
        (entry("../x", npx=NPX), "../x: `id` is not valid: ../x"),
        (entry("a", "latest", npx=NPX), "a: `version` is not valid: latest"),
        (entry("a", "1.0.0/../x", npx=NPX), "a: `version` is not valid"),
        ({**entry("a"), "distribution": None}, "a: it has no `distribution`"),
        (entry("a"), "a: nothing in it can be installed"),
        (entry("a", docker={}), "nothing in it can be installed; unknown kind 'docker'"),
        (entry("a", npx={"package": "--global"}), "npx: `package` is not valid"),
        (entry("a", npx={"package": "git+ssh://x"}), "npx: `package` is not valid"),
        (entry("a", npx={"package": "x y"}), "npx: `package` is not valid"),
        (entry("a", uvx={"package": "https://x/y.whl"}), "uvx: `package` is not valid"),
        (entry("a", npx={**NPX, "args": "x"}), "`args` is not a list of strings"),
        (entry("a", npx={**NPX, "env": {"A": 1}}), "`env` is not a map of strings"),
        (entry("a", binary={"linux-x86_64": {"archive": "x"}}), "`cmd` is missing"),
        (
            entry("a", binary={"x": {"archive": "x", "cmd": "y", "sha256": "z"}}),
            "`sha256` is not a checksum",
        ),
    ],
)
def test_entry_that_is_not_understood_is_skipped_and_named(given: Any, why: str) -> None:
    index = read(given, entry("good", npx=NPX))
    assert list(index.agents) == ["good"]
    assert why in index.skipped[0]


@requirement("R-REG-12")
def test_variables_that_change_what_is_loaded_are_dropped() -> None:
    env = {
        "MODE": "acp",
        "PATH": "/x",
        "Path": "/x",
        "LD_PRELOAD": "x",
        "NODE_OPTIONS": "-r x",
        "PYTHONPATH": "x",
        "npm_config_registry": "x",
        "GIT_SSH_COMMAND": "x",
        "https_proxy": "x",
        "A=B": "x",
    }
    found = read(entry("a", npx={**NPX, "env": env})).agents["a"]
    assert found.npx.env == {"MODE": "acp"}
    assert len(found.warnings) == 9
    assert "LD_PRELOAD must not be set by a registry" in found.warnings


def test_texts_are_safe_to_show() -> None:
    given = {**entry("a", npx=NPX), "description": "nice\x1b[2J\n\u202eagent"}
    found = read(given).agents["a"]
    assert "\x1b" not in found.description
    assert "\n" not in found.description
    assert "\u202e" not in found.description


@requirement("R-REG-14")
@pytest.mark.parametrize(
    "data", [b"", b"<html>", b"[]", b'{"agents": {}}', b'{"agents": [1, 2]}', b'{"agents": [{']
)
def test_index_that_cannot_be_read_is_an_error(data: bytes) -> None:
    with pytest.raises(RegistryError):
        read_index(data)


def test_quarantine_is_reasons_by_id() -> None:
    assert read_quarantine(b'{"a": "steals", "b": 1}') == {
        "a": "steals",
        "b": "no reason is given",
    }
    with pytest.raises(RegistryError):
        read_quarantine(b"[]")
