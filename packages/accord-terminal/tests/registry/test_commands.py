"""`accord agents`: what is printed, and `--agent NAME` starts what was installed."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from accord.program import main
from accord_terminal.install import editor_command
from accord_terminal.toolkit.agent_names import (
    complete_name,
    find_agent,
    installed_file,
    load_settings,
    named_agents,
    settings_path,
)
from needs import needs
from registry.server import Registry, binary, entry, tar
from requirement import requirement

SCRIPT = f'#!/bin/sh\nexec "{sys.executable}" -m accord agent script "$@"\n'.encode()


def offer(registry: Registry, version: str = "1.0.0", **more: object) -> None:
    archive = tar({"bin/tiny": SCRIPT})
    address = registry.add(f"tiny-{version}.tgz", archive)
    row = binary(address, archive, **more)
    registry.offer(
        entry(version=version, binary=row),
        entry("packaged", npx={"package": "packaged@1.0.0"}),
        etag=f'"{version}"',
    )


@pytest.fixture
def offered(registry: Registry) -> Registry:
    offer(registry)
    return registry


Out = pytest.CaptureFixture[str]


def test_search_shows_what_could_be_installed(offered: Registry, capsys: Out) -> None:
    assert main(["agents", "search"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "  tiny      1.0.0  binary  The agent tiny"
    assert main(["agents", "search", "nothing"]) == 1
    assert main(["agents", "search", "TINY", "agent", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["name"], row["kind"], row["kinds"]) == ("tiny", "binary", ["binary"])


def test_search_fits_a_narrow_terminal(
    offered: Registry, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    main(["agents", "search"])
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 40


def test_show_says_what_installing_would_do(offered: Registry, capsys: Out) -> None:
    assert main(["agents", "show", "tiny"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Tiny 1.0.0\nThe agent tiny\n")
    assert f"binary:     {offered.address}/tiny-1.0.0.tgz" in out
    assert "Installed:  no" in out
    assert main(["agents", "show", "tin"]) == 1
    assert "no agent 'tin'; similar: tiny" in capsys.readouterr().err


def test_installed_agent_is_used_by_its_name_everywhere(offered: Registry, capsys: Out) -> None:
    assert main(["agents", "install", "tiny"]) == 0
    assert "Installed tiny 1.0.0" in capsys.readouterr().out
    assert main(["ask", "echo hello", "--agent", "tiny", "--quiet"]) == 0
    assert capsys.readouterr().out == "hello\n"
    agent = find_agent("tiny", load_settings())
    assert agent.source == "installed"
    assert editor_command(agent).args[-3:] == ("agents", "run", "tiny")


@needs("accord_fleet", "accord_inspector")
def test_installed_agent_is_used_by_its_name_in_other_packages(offered: Registry) -> None:
    from accord_fleet.agent_words import spec_from_word
    from accord_inspector.command import agent_target

    assert main(["agents", "install", "tiny"]) == 0
    argv = find_agent("tiny", load_settings()).argv
    assert spec_from_word("tiny").command == argv
    target = agent_target("tiny")
    assert target is not None
    assert target.words == list(argv)


@needs("accord_coder")
def test_run_is_the_agent_with_more_arguments(offered: Registry) -> None:
    offer(offered, env={"NOTE": "1"}, args=["--help"])
    assert main(["agents", "install", "tiny"]) == 0
    ended = subprocess.run(
        [sys.executable, "-m", "accord", "agents", "run", "tiny"],
        capture_output=True,
        check=True,
        env=dict(os.environ),
    )
    assert b"usage: accord agent" in ended.stdout


def test_run_of_an_unknown_agent_is_an_error(capsys: Out) -> None:
    assert main(["agents", "run", "nobody"]) == 1
    assert "Unknown agent 'nobody'" in capsys.readouterr().err


def test_agent_of_the_settings_comes_before_an_installed_one(
    offered: Registry, capsys: Out
) -> None:
    settings_path().parent.mkdir(parents=True)
    settings_path().write_text('[agents.tiny]\ncommand = "mine --acp"')
    assert main(["agents", "install", "tiny"]) == 0
    assert "your settings file also defines an agent tiny" in capsys.readouterr().err
    assert find_agent("tiny", load_settings()).argv == ("mine", "--acp")


def test_update_installs_what_is_newer(offered: Registry, capsys: Out) -> None:
    main(["agents", "install", "tiny"])
    assert main(["agents", "update"]) == 0
    assert "tiny 1.0.0 is up to date" in capsys.readouterr().out
    offer(offered, "1.1.0")
    assert main(["agents", "update", "tiny"]) == 0
    assert "tiny 1.0.0 → 1.1.0" in capsys.readouterr().out
    assert main(["agents", "update", "nobody"]) == 1


def test_update_that_fails_keeps_the_version(offered: Registry, capsys: Out) -> None:
    main(["agents", "install", "tiny"])
    offer(offered, "1.1.0")
    offered.files["/tiny-1.1.0.tgz"] = b"something else"
    assert main(["agents", "update"]) == 1
    assert "wrong checksum" in capsys.readouterr().err
    assert main(["ask", "echo still", "--agent", "tiny", "--quiet"]) == 0


def test_list_has_version_and_kind(offered: Registry, capsys: Out) -> None:
    main(["agents", "install", "tiny"])
    capsys.readouterr()
    assert main(["agents"]) == 0
    listed = capsys.readouterr().out
    assert main(["agents", "list"]) == 0
    assert capsys.readouterr().out == listed
    line = next(line for line in listed.splitlines() if " tiny " in line)
    assert line.split() == ["tiny", "installed", "1.0.0", "(binary)"]
    assert main(["agents", "list", "--json"]) == 0
    row = next(row for row in json.loads(capsys.readouterr().out) if row["name"] == "tiny")
    assert (row["source"], row["version"]) == ("installed", "1.0.0")


def test_removed_agent_is_gone_with_its_files(offered: Registry, data: Path, capsys: Out) -> None:
    main(["agents", "install", "tiny"])
    assert main(["agents", "remove", "tiny"]) == 0
    assert "tiny" not in named_agents(load_settings())
    assert not (data / "agents" / "tiny").exists()
    assert main(["agents", "remove", "tiny"]) == 1
    assert "tiny is not installed" in capsys.readouterr().err


def test_second_installation_does_nothing(offered: Registry, capsys: Out) -> None:
    main(["agents", "install", "tiny"])
    assert main(["agents", "install", "tiny"]) == 0
    assert "Nothing to do: tiny 1.0.0 is installed" in capsys.readouterr().out


@requirement("R-REG-15")
def test_agent_that_comes_into_quarantine_is_hidden_and_not_started(
    offered: Registry, capsys: Out
) -> None:
    main(["agents", "install", "tiny"])
    offered.quarantine = b'{"tiny": "it steals"}'
    capsys.readouterr()
    main(["agents", "search"])
    assert "tiny" not in capsys.readouterr().out
    assert "tiny" not in named_agents(load_settings())
    for words in (["ask", "x", "--agent", "tiny"], ["agents", "run", "tiny"]):
        assert main(words) != 0
        assert "tiny is in quarantine: it steals" in capsys.readouterr().err
    assert main(["agents"]) == 0
    assert "in quarantine  it steals" in capsys.readouterr().out
    assert main(["agents", "install", "tiny"]) == 1
    assert main(["agents", "install", "tiny", "--force"]) == 0
    assert main(["ask", "echo x", "--agent", "tiny", "--quiet"]) == 0
    offered.quarantine = b"{}"
    main(["agents", "search"])
    assert main(["ask", "echo x", "--agent", "tiny", "--quiet"]) == 0


def test_archive_without_checksum_is_a_warning(registry: Registry, capsys: Out) -> None:
    address = registry.add("tiny.tgz", tar({"bin/tiny": SCRIPT}))
    registry.offer(entry(binary=binary(address)))
    assert main(["agents", "install", "tiny"]) == 0
    assert "the registry has no checksum" in capsys.readouterr().err


def test_bundled_name_cannot_be_taken(registry: Registry, capsys: Out) -> None:
    address = registry.add("tiny.tgz", tar({"bin/tiny": SCRIPT}))
    registry.offer(entry("accord", binary=binary(address)))
    assert main(["agents", "install", "accord"]) == 1
    assert "the name of a bundled agent" in capsys.readouterr().err


def test_damaged_list_is_named(data: Path, capsys: Out) -> None:
    data.mkdir()
    (data / "agents.json").write_text("{")
    assert main(["ask", "x"]) == 2
    assert "Cannot read the list of installed agents" in capsys.readouterr().err


def test_unreachable_registry_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: Out) -> None:
    monkeypatch.setenv("ACCORD_REGISTRY", "http://127.0.0.1:1/registry.json")
    assert main(["agents", "search"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("Error: Cannot load the registry http://127.0.0.1:1/registry.json: ")
    assert error.count("\n") == 1


def test_named_agent_is_served_and_ends_a_chain(offered: Registry, tmp_path: Path) -> None:
    main(["agents", "install", "tiny"])
    accord = [sys.executable, "-m", "accord"]
    asked = [*accord, "ask", "echo hello", "--quiet", "--agent"]
    chain = shlex.join([*accord, "chain", "tiny"])
    assert subprocess.run([*asked, chain], capture_output=True, check=True).stdout == b"hello\n"
    place = f"unix:{tmp_path / 's'}"
    with subprocess.Popen(
        [*accord, "serve", "tiny", "--unix", str(tmp_path / "s")],
        stderr=subprocess.PIPE,
        text=True,
    ) as server:
        try:
            assert server.stderr is not None
            assert any("Serving on" in line for line in server.stderr)
            done = subprocess.run([*asked, place], capture_output=True, check=True)
            assert done.stdout == b"hello\n"
        finally:
            server.terminate()


def test_names_are_completed(offered: Registry) -> None:
    main(["agents", "install", "tiny"])
    assert complete_name(None, None, "ti") == ["tiny"]
    installed_file().write_text("{")
    assert complete_name(None, None, "ti") == []
