"""Fails when a tracked file holds what must not leave one machine: lock files, hosts, paths."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

LOCK_FILES = re.compile(
    r"(.+[-.])?lock(file)?(\.(json|ya?ml|toml))?|.*-lock\.\w+|npm-shrinkwrap\.json|\.npmrc|pip\.conf",
    re.IGNORECASE,
)
MACHINE_PATH = re.compile(r"(?<![\w.$}-])/(?:work|root|tmp|Users)/[\w.]|[A-Z]:\\\\?Users\\")
HOST = re.compile(r"\b(?:https?|wss?)://(?:[^\s/@\"'<>]*@)?([\w.-]+)")
# A new link goes in here by hand; so no address of a package registry comes in by accident.
HOSTS = {
    "127.0.0.1",
    "agentclientprotocol.com",
    "cdn.agentclientprotocol.com",
    "api.anthropic.com",
    "api.mistral.ai",
    "api.openai.com",
    "api.telegram.org",
    "codecompanion.olimorris.dev",
    "discord.com",
    "docs.python.org",
    "docs.ray.io",
    "example.com",
    "example.org",
    "generativelanguage.googleapis.com",
    "github.com",
    "harborframework.com",
    "inspect.aisi.org.uk",
    "hooks.slack.com",
    "json-schema.org",
    "opentelemetry.io",
    "peps.python.org",
    "www.apache.org",
    "www.jsonrpc.org",
    "www.w3.org",
}


def problems(name: str, text: str) -> Iterator[str]:
    """Yield what is wrong with one file, with the line."""
    if LOCK_FILES.fullmatch(name.rpartition("/")[2]):
        yield f"{name}: lock files and package managers' settings are not committed"
    for number, line in enumerate(text.splitlines(), 1):
        if MACHINE_PATH.search(line):
            yield f"{name}:{number}: a path of one machine: {line.strip()[:100]}"
        for match in HOST.finditer(line):
            host = match[1].lower().rstrip(".")
            made_up = "." not in host or host.endswith(
                (".example", ".example.com", ".example.org", ".test")
            )
            if host not in HOSTS and not made_up:
                yield f"{name}:{number}: {host} is not in the list of tools/check_tree.py"


def main() -> int:
    """Check every tracked file that is text."""
    names = subprocess.run(["git", "ls-files", "-z"], capture_output=True, text=True, check=True)
    found: list[str] = []
    for name in filter(None, names.stdout.split("\0")):
        path = Path(name)
        data = path.read_bytes() if path.is_file() else b""
        if b"\0" not in data[:1024]:
            found.extend(problems(name, data.decode("utf-8", "replace")))
    print("\n".join(found) or "Nothing of one machine is tracked.")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
