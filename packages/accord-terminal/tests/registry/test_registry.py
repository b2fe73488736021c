"""The index is loaded once per version, and a broken one never replaces a good one."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

import accord_terminal.agents.registry
from accord_terminal.agents.registry import RegistryError, load_catalogue
from registry.server import Registry, entry
from requirement import requirement

NPX = {"package": "a@1.0.0"}
pytestmark = requirement("R-REG-14")


def test_index_is_loaded_again_only_if_it_has_changed(registry: Registry) -> None:
    registry.offer(entry("a", npx=NPX))
    assert list(load_catalogue(registry.url).agents) == ["a"]
    assert list(load_catalogue(registry.url).agents) == ["a"]
    asked = [row for row in registry.requests if row[0] == "/registry.json"]
    assert asked == [("/registry.json", None, 200), ("/registry.json", '"1"', 304)]
    registry.offer(entry("b", npx=NPX), etag='"2"')
    assert list(load_catalogue(registry.url).agents) == ["b"]


@pytest.mark.parametrize("broken", [b"<html>", b"", b'{"agents": [{}]}', b'{"agents": [{"id": "'])
def test_broken_index_leaves_the_last_good_one(registry: Registry, broken: bytes) -> None:
    registry.offer(entry("a", npx=NPX))
    load_catalogue(registry.url)
    registry.index, registry.etag = broken, '"broken"'
    for _ in range(2):
        catalogue = load_catalogue(registry.url)
        assert list(catalogue.agents) == ["a"]
        assert "using the last good copy of registry.json" in catalogue.warnings[0]


def test_without_a_network_the_last_good_copy_is_used(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.offer(entry("a", npx=NPX))
    registry.quarantine = b'{"a": "bad"}'
    load_catalogue(registry.url)
    monkeypatch.setattr(accord_terminal.agents.registry, "fetch", _unreachable)
    catalogue = load_catalogue(registry.url)
    assert catalogue.quarantine == {"a": "bad"}
    assert list(catalogue.agents) == ["a"]


def _unreachable(*_: object, **__: object) -> None:
    raise accord_terminal.agents.registry.FetchError("Network is unreachable")


def test_without_a_copy_the_reason_is_named(registry: Registry) -> None:
    registry.index = b"<html>"
    with pytest.raises(RegistryError, match=r"Cannot load the registry .*: it is not JSON"):
        load_catalogue(registry.url)


def test_server_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accord_terminal.agents.registry, "TIME_LIMIT_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/registry.json"
        with pytest.raises(RegistryError, match="did not answer in time"):
            load_catalogue(url)


def test_index_that_is_cut_off_is_broken(registry: Registry) -> None:
    registry.offer(entry("a", npx=NPX))
    load_catalogue(registry.url)
    registry.cut.add("/registry.json")
    registry.etag = '"2"'
    assert "the connection ended after" in load_catalogue(registry.url).warnings[0]


def test_index_that_is_too_large_is_refused(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.offer(entry("a", npx=NPX))
    monkeypatch.setattr(accord_terminal.agents.registry, "_MAX_BYTES", 10)
    with pytest.raises(RegistryError, match="it has more than"):
        load_catalogue(registry.url)


def test_registry_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "registry.json"
    path.write_text(json.dumps({"version": "1.0.0", "agents": [entry("a", npx=NPX)]}))
    (tmp_path / "quarantine.json").write_text('{"b": "x"}')
    catalogue = load_catalogue(str(path))
    assert (list(catalogue.agents), catalogue.quarantine) == (["a"], {"b": "x"})
    assert catalogue.warnings == ()


@pytest.mark.parametrize("url", ["http://example.com/r.json", "ftp://127.0.0.1/r.json"])
def test_registry_needs_https(url: str) -> None:
    with pytest.raises(RegistryError, match="expected https://"):
        load_catalogue(url)


@pytest.mark.parametrize("to", ["http://example.com/x", "file:///etc/passwd"])
def test_redirect_to_something_else_is_refused(registry: Registry, to: str) -> None:
    registry.redirects["/registry.json"] = to
    with pytest.raises(RegistryError, match=r"expected https://|is not allowed"):
        load_catalogue(registry.url)


def test_copy_that_is_damaged_is_loaded_again(registry: Registry, data: Path) -> None:
    registry.offer(entry("a", npx=NPX))
    load_catalogue(registry.url)
    for path in (data / "registries").iterdir():
        path.write_bytes(b"{")
    assert list(load_catalogue(registry.url).agents) == ["a"]


def test_copy_that_this_version_cannot_read_is_loaded_again(registry: Registry, data: Path) -> None:
    registry.offer(entry("a", npx=NPX))
    load_catalogue(registry.url)
    for path in (data / "registries").iterdir():
        copy = json.loads(path.read_bytes())
        path.write_text(json.dumps({**copy, "data": '{"agents": [{}]}'}))
    assert list(load_catalogue(registry.url).agents) == ["a"]
