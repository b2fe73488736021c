"""The typed roles, remotes and proxies are what the tables of the versions say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import generate_roles
import pytest
from counts import is_generated

from accord import v1, v2
from accord.wire.protocol import Method
from project import ROOT

FILES = [
    (path, text)
    for number in (1, 2)
    for path, text in generate_roles.Version(number).files().items()
]


@pytest.mark.parametrize(("path", "text"), FILES, ids=lambda value: str(value)[-20:])
def test_generated_file_is_current(path: Path, text: str) -> None:
    assert path.read_text("utf-8") == text, "make reference"
    assert is_generated(text)


def test_generated_files_are_formatted() -> None:
    files = [str(path) for path, _ in FILES]
    ruff = [sys.executable, "-m", "ruff", "format", "--check", *files]
    done = subprocess.run(ruff, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("version", [v1, v2], ids=["v1", "v2"])
def test_every_method_is_served_called_and_proxied(version: object) -> None:
    sides = {"agent": ("AgentRole", "RemoteAgent"), "client": ("ClientRole", "RemoteClient")}
    methods: tuple[Method, ...] = vars(version)["METHODS"]
    for method in methods:
        for name in (*sides.get(method.to, ()), *(("Proxy",) if method.to in sides else ())):
            if method.name == "initialize" and name == "RemoteAgent":
                continue  # the handshake sends it
            function = getattr(getattr(version, name), method.call)
            assert function.__doc__, f"{name}.{method.call}"


def test_row_without_docstring_is_refused() -> None:
    version = generate_roles.Version(2)
    version.methods = tuple(
        Method(name=row.name, call=row.call, params=row.params, result=row.result, to=row.to)
        for row in version.methods
    )
    with pytest.raises(LookupError, match="needs a `doc`"):
        version.files()


def test_long_signature_is_broken_like_the_formatter_breaks_it() -> None:
    short = generate_roles.signature("def run", ["self", "params: t.Run"], "None")
    assert short == "def run(self, params: t.Run) -> None:"
    two = generate_roles.signature("def run", ["self", f"params: t.{'A' * 70}"], "None")
    assert two.splitlines()[1:] == [f"    self, params: t.{'A' * 70}", ") -> None:"]
    many = generate_roles.signature("def run", ["self", f"params: t.{'A' * 90}"], "None")
    assert many.splitlines()[1:] == ["    self,", f"    params: t.{'A' * 90},", ") -> None:"]
