"""Records the clients that start here without an account, with Accord's agents: `make recordings`.

The SDKs' clients run the turn of tests/interop/README.md; acp-http-client runs its own, over HTTP.
What is of this machine is replaced.

    python tests/recordings/record_clients.py     all clients that are installed
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from interop.turns import HERE as INTEROP  # noqa: E402
from interop.turns import PEERS, Peer, start, tapped  # noqa: E402
from recordings.agents import Known  # noqa: E402
from recordings.record import Place, write  # noqa: E402

OUT = HERE / "clients"
NODE = shutil.which("node") or "node"
HTTP_CLIENT = INTEROP / "real" / "node_modules" / "acp-http-client" / "package.json"
TOKEN = "the-token-of-the-recordings"


def record(name: str, argv: tuple[str, ...], talk: Callable[[Path], None]) -> None:
    """Record one client; the file is complete, or not written.

    `talk` runs it in a folder, and leaves the frames of its agent in `frames.log` there.
    """
    with tempfile.TemporaryDirectory(prefix="accord-recording-") as folder:
        known = Known(name, argv)
        place = Place(Path(folder), "http://127.0.0.1:1")
        place.prepare(known)
        talk(place.project)
        log = (place.project / "frames.log").read_bytes()
        OUT.mkdir(exist_ok=True)
        # The log has no times.
        frames = [
            (number / 1000, "to_agent" if line[:1] == b">" else "to_client", line[2:].rstrip(b"\n"))
            for number, line in enumerate(log.splitlines(keepends=True))
        ]
        write(known, place, frames, OUT / f"{name}.acp.jsonl")  # pyright: ignore[reportArgumentType]
    print(f"{name}: recorded")


def sdk(client: Peer, version: int) -> Callable[[Path], None]:
    def talk(folder: Path) -> None:
        done = start(client, PEERS[version]["accord"], folder)
        if done.returncode != 0:
            raise ValueError(f"exit status {done.returncode}\n{done.stderr}")

    return talk


def http(folder: Path) -> None:
    accord = [sys.executable, "-m", "accord"]
    agent = tapped(folder / "frames.log", [*accord, "agent", "script"])
    env = {**os.environ, "ACCORD_TOKEN": TOKEN}
    with subprocess.Popen(
        [*accord, "serve", "--port", "0", "--", *agent],
        env=env,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as server:
        try:
            assert server.stdout is not None
            line = next(line for line in server.stdout if "http://" in line)
            found = re.search(r"http://[^\s?]+", line)
            assert found is not None
            script = str(INTEROP / "real" / "acp_http_client.mjs")
            subprocess.run([NODE, script, found[0]], cwd=folder, env=env, check=True, timeout=60)
        finally:
            server.terminate()


def main() -> int:
    for version, peers in PEERS.items():
        for key, client in peers.items():
            name = f"{key}-sdk" + ("-v2" if version == 2 else "")
            if key == "accord":
                continue
            if all(path.exists() for path in client.needs):
                record(name, tuple(client.start_client()), sdk(client, version))
            else:
                print(f"{name}: not installed")
    if HTTP_CLIENT.exists():
        version = json.loads(HTTP_CLIENT.read_text("utf-8"))["version"]
        print(f"acp-http-client {version}")
        record("acp-http-client", (NODE,), http)
    return 0


if __name__ == "__main__":
    sys.exit(main())
