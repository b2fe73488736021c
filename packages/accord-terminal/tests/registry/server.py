"""A registry on loopback: an index with an ETag, archives, and everything that goes wrong."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from accord_terminal.agents.installation import own_target

# A program that speaks ACP in the fewest words.
AGENT = """\
#!/bin/sh
# version {version}
while read -r line; do
  case "$line" in *'"initialize"'*) echo '{{"jsonrpc":"2.0","id":'"$(
    echo "$line" | sed 's/.*"id":\\([0-9]*\\).*/\\1/'
  )"',"result":{{"protocolVersion":1,"agentCapabilities":{{}},"authMethods":[],'\
'"agentInfo":{{"name":"tiny","version":"{version}"}}}}}}';; esac
done
"""


@dataclass
class Registry:
    """What the server answers, and what it was asked."""

    address: str = ""
    index: bytes = b""
    quarantine: bytes | None = None
    etag: str = '"1"'
    files: dict[str, bytes] = field(default_factory=dict)
    cut: set[str] = field(default_factory=set)  # paths whose connection ends in the middle
    slow: set[str] = field(default_factory=set)  # paths that end when the server ends
    redirects: dict[str, str] = field(default_factory=dict)
    requests: list[tuple[str, str | None, int]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"{self.address}/registry.json"

    def offer(self, *agents: dict[str, Any], etag: str = '"1"') -> None:
        self.index = json.dumps({"version": "1.0.0", "agents": list(agents)}).encode()
        self.etag = etag

    def add(self, name: str, data: bytes) -> str:
        """Serve a file; return its URL."""
        self.files[f"/{name}"] = data
        return f"{self.address}/{name}"


def entry(name: str = "tiny", version: str = "1.0.0", **distribution: Any) -> dict[str, Any]:
    return {
        "id": name,
        "name": name.capitalize(),
        "version": version,
        "description": f"The agent {name}",
        "distribution": distribution,
    }


def binary(archive: str, data: bytes | None = None, **more: Any) -> dict[str, Any]:
    row = {"archive": archive, "cmd": "./bin/tiny", **more}
    if data is not None:
        row["sha256"] = hashlib.sha256(data).hexdigest()
    return {own_target(): row}


def tar(files: dict[str, bytes | tarfile.TarInfo], mode: str = "w:gz") -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode=mode) as archive:  # type: ignore[call-overload]
        for name, content in files.items():
            if isinstance(content, tarfile.TarInfo):
                archive.addfile(content)
                continue
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return made.getvalue()


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def zipped(files: dict[str, bytes], attributes: int = 0) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            info = zipfile.ZipInfo(name)
            info.external_attr = attributes << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, content)
    return made.getvalue()


def tiny(version: str = "1.0.0") -> bytes:
    return AGENT.format(version=version).encode()


@contextmanager
def serving() -> Iterator[Registry]:
    registry = Registry()
    ended = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        """Answers from the registry."""

        def do_GET(self) -> None:
            known = self.headers.get("If-None-Match")
            data: bytes | None = registry.files.get(self.path)
            etag = None
            if self.path == "/registry.json":
                data, etag = registry.index, registry.etag
            elif self.path == "/quarantine.json":
                data = registry.quarantine
            status = 200
            if self.path in registry.redirects:
                status, data = 302, b""
            elif data is None:
                status, data = 404, b""
            elif etag is not None and known == etag:
                status, data = 304, b""
            registry.requests.append((self.path, known, status))
            self.send_response(status)
            if status == 302:
                self.send_header("Location", registry.redirects[self.path])
            if etag is not None:
                self.send_header("ETag", etag)
            if status != 304:
                self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if self.path in registry.slow:
                self.wfile.write(data[: len(data) // 2])
                self.wfile.flush()
                ended.wait()
                return
            self.wfile.write(data[: len(data) // 2] if self.path in registry.cut else data)

        def log_message(self, *_: Any) -> None:  # type: ignore[override]
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    registry.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield registry
    finally:
        ended.set()
        server.shutdown()
        thread.join()
        server.server_close()
