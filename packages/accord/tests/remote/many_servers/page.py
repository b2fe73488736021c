"""The blocks of docs/how-to/run-many-servers.md: the tests run what the page shows."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from project import ROOT

__all__ = ("LEASE_S", "agent_module", "haproxy_config", "serve_arguments")

PAGE = ROOT / "docs" / "how-to" / "run-many-servers.md"

LEASE_S = 3.0

_CERTIFICATE = "/etc/haproxy/agents.pem"
_BIND = ":443"
_HOST = "10.0.0.1"  # and a digit


def _block(language: str, contained: str) -> str:
    blocks = re.findall(rf"```{language}\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    (found,) = [block for block in blocks if contained in block]
    return found


def agent_module() -> str:
    """Return the module with the agent, with a lease that expires during a test."""
    code = _block("python", "class Counter")
    return _replaced(code, 'os.environ["SESSIONS"])', f'os.environ["SESSIONS"], lease_s={LEASE_S})')


def haproxy_config(bind: str, certificate: Path, servers: list[str]) -> str:
    """Return the configuration with other addresses, and another path of the certificate."""
    config = _replaced(_block("haproxy", "backend"), f"bind {_BIND} ", f"bind {bind} ")
    config = _replaced(config, _CERTIFICATE, str(certificate))
    for number, address in enumerate(servers, 1):
        config = _replaced(config, f"{_HOST}{number}:8765", address)
    assert _HOST not in config
    return config


def serve_arguments(host: str, port: int, token_file: Path) -> list[str]:
    """Return the arguments of `accord` on a server, with another address."""
    command = _block("console", "accord serve").splitlines()[-1].removeprefix("$ ")
    command = _replaced(command, f"{_HOST}1", host)
    command = _replaced(command, "/etc/accord/token", str(token_file))
    return [*shlex.split(command)[1:], "--port", str(port)]


def _replaced(text: str, old: str, new: str) -> str:
    assert text.count(old) == 1, f"the page has {old!r} {text.count(old)} times"
    return text.replace(old, new)
