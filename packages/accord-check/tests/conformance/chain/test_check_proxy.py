"""`accord check proxy` with real processes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from accord.program import main

PROXY = str(Path(__file__).with_name("base_proxy.py"))


def run(*words: str) -> int:
    return main(["check", "proxy", *words])


def test_correct_proxy_passes_and_every_report_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {name: tmp_path / name for name in ("json", "junit", "markdown", "html")}
    options = [word for name, path in files.items() for word in (f"--{name}", str(path))]
    traces = tmp_path / "frames"
    only = ["--only", "handshake/forward", "--only", "forward/requests"]
    status = run(*options, "--trace", str(traces), *only, "--", sys.executable, PROXY, "rust")
    out = capsys.readouterr().out
    assert status == 0, out
    assert "Passed:" in out
    report = json.loads(files["json"].read_text("utf-8"))
    assert [one["side"] for one in report["reports"]] == ["proxy", "proxy"]
    rules = {rule["id"]: rule["outcome"] for rule in report["reports"][0]["rules"]}
    assert rules["R-PROXY-13"] == "passed"
    assert rules["R-PROXY-18"] == "not exercised"
    assert not any(name.startswith(("R-SESS", "R-MOA-02")) for name in rules)
    assert ElementTree.parse(files["junit"]).getroot().tag == "testsuites"
    frames = [
        json.loads(line)
        for path in traces.iterdir()
        for line in path.read_text("utf-8").splitlines()
    ]
    assert {frame["from"] for frame in frames} == {"conductor", "proxy"}


def test_program_that_is_no_proxy_fails_with_its_last_words(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = "import sys; print('no model', file=sys.stderr); sys.exit(3)"
    assert run("--version", "1", "--timeout", "5", "--", sys.executable, "-c", code) == 1
    out = capsys.readouterr().out
    assert "the proxy disconnected" in out
    assert "no model" in out


def test_proxy_that_changes_prompts_passes_when_the_method_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = tmp_path / "proxy.py"
    changed.write_text(
        "import sys\n"
        f"sys.path.insert(0, {str(Path(PROXY).parent)!r})\n"
        "import base_proxy\n"
        "class Changing(base_proxy.BaseProxy):\n"
        "    def send_on(self, fields, method, *, towards_client):\n"
        "        if method == 'session/prompt':\n"
        "            fields = {**fields, 'params': fields['params'].replace('hello', 'bye')}\n"
        "        super().send_on(fields, method, towards_client=towards_client)\n"
        "base_proxy.BaseProxy = Changing\n"
        "base_proxy.main()\n",
        "utf-8",
    )
    words = ["--version", "1", "--only", "forward/protocol", "--", sys.executable, str(changed)]
    assert run(*words) == 1
    assert "R-PROXY-15" in capsys.readouterr().out
    assert run("--changes", "session/prompt", *words) == 0


def test_unknown_scenario_and_missing_command_are_usage_errors() -> None:
    assert run("--only", "nothing", "--", "true") == 2
    assert run("--", "a-command-that-does-not-exist") == 2
    assert run() == 2
