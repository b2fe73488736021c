"""Plans of sandboxes: what is shown, what is missing, and what is said about it."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest

from accord_fleet.sandbox.bubblewrap import (
    Exits,
    SandboxHost,
    SandboxPlan,
    plan_sandbox,
    program_files,
    sandbox_host,
)
from accord_fleet.sandbox.settings import SandboxError, SandboxSettings

HOST = SandboxHost(
    bwrap="/usr/bin/bwrap",
    namespaces=("--unshare-user", "--unshare-pid"),
    links=(("usr/bin", "/bin"),),
    directories=("/usr",),
    resolv_conf=None,
    home="/home/u",
    is_root=False,
    python="/usr/bin/python3",
    python_directories=("/usr",),
)


def plan(settings: SandboxSettings, workspace: str = "/scratch/w1", **more: object) -> SandboxPlan:
    values: dict[str, object] = {
        "workspace": workspace,
        "command": [sys.executable],
        "env": {"A": "1"},
        "inherited": {"PATH": "/usr/bin", "SECRET": "s", "LANG": "C"},
        "exits": Exits(),
        **more,
    }
    return plan_sandbox(settings, HOST, **values)  # type: ignore[arg-type]


def test_environment_is_exact() -> None:
    planned = plan(SandboxSettings(mode="no-network"))
    assert planned.env == {
        "PATH": "/usr/bin",
        "LANG": "C",
        "HOME": "/home/u",
        "TMPDIR": "/tmp",
        "USER": "user",
        "LOGNAME": "user",
        "A": "1",
    }
    changes = planned.env_changes({"SECRET": "s", "PATH": "x"})
    assert changes["SECRET"] is None
    assert changes["PATH"] == "/usr/bin"


def test_no_value_of_a_variable_is_in_the_command_line() -> None:
    planned = plan(SandboxSettings(mode="no-network"), env={"KEY": "sk-secret"})
    assert "sk-secret" not in " ".join(planned.argv)


def test_chosen_files_of_the_home_are_shown(tmp_path: Path) -> None:
    (tmp_path / "token").touch()
    host = msgspec.structs.replace(HOST, home=str(tmp_path))
    planned = plan_sandbox(
        SandboxSettings(mode="models", read=("~/token",)),
        host,
        workspace="/scratch/w",
        command=[sys.executable],
        env={},
        inherited={},
        exits=Exits(gateway="/g.sock", gateway_port=4000),
    )
    text = " ".join(planned.argv)
    assert f"--ro-bind {tmp_path}/token {tmp_path}/token" in text
    assert "--ro-bind /g.sock /run/accord/gateway.sock" in text
    assert "--forward 4000=/run/accord/gateway.sock" in text
    assert "network: the model gateway only" in planned.active


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (SandboxSettings(mode="models", read=("here",)), "Expected an absolute path"),
        (SandboxSettings(mode="models", read=("/nowhere",)), "/nowhere to agents: it does not"),
        (SandboxSettings(mode="models", read=("/",)), "it contains the workspaces"),
        (SandboxSettings(mode="network", allow_hosts=("a.example",)), "in the sandbox `models`"),
        (SandboxSettings(mode="models", allow_hosts=("a b",)), "Expected a host to allow"),
    ],
)
def test_wrong_settings_are_explained(settings: SandboxSettings, message: str) -> None:
    with pytest.raises(SandboxError, match=message):
        plan(settings)


def test_command_that_does_not_exist_is_explained() -> None:
    with pytest.raises(SandboxError, match=r"Expected a program on PATH .* 'no-such-agent'"):
        plan(SandboxSettings(mode="models"), command=["no-such-agent"])


def test_what_is_not_isolated_is_said() -> None:
    planned = plan(SandboxSettings(mode="network"))
    assert planned.inactive[0] == "network: agents reach everything that this machine reaches"
    assert "--unshare-net" not in planned.argv


def test_program_in_a_virtual_environment_needs_it_and_its_base(tmp_path: Path) -> None:
    base, venv, source = tmp_path / "base", tmp_path / "venv", tmp_path / "source"
    for folder in (base / "bin", base / "lib", venv / "bin", source):
        folder.mkdir(parents=True)
    site = venv / "lib" / "python3.12" / "site-packages"
    site.mkdir(parents=True)
    (site / "link.pth").write_text(f"{source}\nimport x\n")
    (base / "bin" / "python3").write_text("")
    (base / "bin" / "python3").chmod(0o755)
    (venv / "bin" / "python").symlink_to(base / "bin" / "python3")
    (venv / "pyvenv.cfg").write_text(f"home = {base / 'bin'}\n")
    agent = venv / "bin" / "agent"
    agent.write_text(f"#!{venv / 'bin' / 'python'}\n")
    agent.chmod(0o755)
    found = program_files("agent", str(venv / "bin"))
    assert {str(venv), str(base), str(source)} <= set(found)


def test_program_of_node_needs_its_modules_and_node(tmp_path: Path) -> None:
    modules = tmp_path / "lib" / "node_modules"
    script = modules / "agent" / "node_modules" / "inner" / "cli.js"
    script.parent.mkdir(parents=True)
    script.write_text("#!/usr/bin/env node\n")
    script.chmod(0o755)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "agent").symlink_to("../lib/node_modules/agent/node_modules/inner/cli.js")
    node = tmp_path / "node" / "bin" / "node"
    node.parent.mkdir(parents=True)
    (tmp_path / "node" / "lib").mkdir()
    node.write_text("")
    node.chmod(0o755)
    found = program_files("agent", f"{tmp_path / 'bin'}:{node.parent}")
    assert {str(modules), str(tmp_path / "node"), str(tmp_path / "bin" / "agent")} <= set(found)


@pytest.fixture
def fresh_host() -> None:
    sandbox_host.cache_clear()


@pytest.mark.usefixtures("fresh_host")
def test_missing_bubblewrap_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SandboxError, match="`bwrap` is not on PATH"):
        sandbox_host()


@pytest.mark.usefixtures("fresh_host")
def test_other_systems_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(SandboxError, match="Linux only; this machine has darwin"):
        sandbox_host()


@pytest.mark.usefixtures("fresh_host")
def test_forbidden_namespaces_are_explained(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(SandboxError, match=r"uid map: Permission denied.*user namespaces"):
        sandbox_host()
