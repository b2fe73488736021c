"""The face of the package: all names can be listed, completed and imported."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

import accord


@pytest.mark.parametrize("name", ["accord", "accord.agent", "accord.v1", "accord.v2"])
def test_every_public_name_is_listed_before_it_is_used(name: str) -> None:
    code = f"import {name} as face; print(*dir(face))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(importlib.import_module(name).__all__) - set(done.stdout.split())


def test_every_public_name_can_be_had() -> None:
    for name in accord.__all__:
        assert getattr(accord, name) is not None


def test_servers_of_every_transport_can_be_named() -> None:
    assert accord.McpServerSse(name="s", url="https://a.example/sse").url == "https://a.example/sse"
