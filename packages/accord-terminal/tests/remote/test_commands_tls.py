"""Commands that serve and connect with certificates of an own CA."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

import accord
from needs import needs
from remote.commands import run
from remote.test_commands import ACCORD, ask, check, serving
from remote.test_tls import Files
from requirement import requirement


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


AGENT = """
from accord import Agent, Turn

class Gardener(Agent):
    async def prompt(self, turn: Turn) -> None:
        await turn.say(f"Planted: {turn.text}.")
"""


@requirement("R-SEC-11")
def test_program_serves_and_asks_over_tls(
    files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gardener.py").write_text(AGENT)
    made = files.certificate("localhost")
    options = ("--tls-cert", str(made["tls_cert"]), "--tls-key", str(made["tls_key"]))
    with serving(tmp_path, *options) as (url, token, _process):
        assert url.startswith("wss://")
        url = url.replace("127.0.0.1", "localhost")
        refused = ask(url, token, "--quiet")
        assert refused.returncode == 1
        assert "certificate is not accepted" in refused.stderr
        monkeypatch.setenv("SSL_CERT_FILE", str(files.ca))
        asked = ask(url, token, "--quiet")
        assert (asked.returncode, asked.stdout) == (0, "Planted: a rose.\n"), asked.stderr
        asked = ask(url.replace("wss:", "https:"), token, "--quiet")
        assert (asked.returncode, asked.stdout) == (0, "Planted: a rose.\n"), asked.stderr


@requirement("R-SEC-11")
@needs("accord_conformance")
def test_programs_trust_the_certificates_of_a_file(files: Files, tmp_path: Path) -> None:
    (tmp_path / "gardener.py").write_text(AGENT)
    made = files.certificate("localhost")
    options = ("--tls-cert", str(made["tls_cert"]), "--tls-key", str(made["tls_key"]))
    trusted = ("--ca-file", str(files.ca))
    with serving(tmp_path, *options) as (url, token, _process):
        url = url.replace("127.0.0.1", "localhost")
        checked = check(url, token, *trusted)
        assert checked.returncode == 0, checked.stdout + checked.stderr
        bridge = [*ACCORD, "bridge", url.replace("wss:", "https:"), *trusted]
        bridged = accord.ask(bridge, "a rose", env={"ACCORD_TOKEN": token})
        assert bridged.text == "Planted: a rose."


@pytest.mark.parametrize("wrong", ["key", "certificate"])
def test_file_that_is_no_certificate_is_explained(files: Files, tmp_path: Path, wrong: str) -> None:
    (tmp_path / "gardener.py").write_text(AGENT)
    made = files.certificate("localhost")
    (tmp_path / "text").write_text("no certificate")
    cert = tmp_path / "text" if wrong == "certificate" else made["tls_cert"]
    key = tmp_path / "text" if wrong == "key" else made["tls_key"]
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    files_of = ["--tls-cert", str(cert), "--tls-key", str(key)]
    served = run(["serve", "--port", str(port), *files_of, "gardener:Gardener"], folder=tmp_path)
    assert served.returncode in (1, 2), served.stderr
    assert "Traceback" not in served.stderr
    assert "certificate" in served.stderr
