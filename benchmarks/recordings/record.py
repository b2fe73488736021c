"""Records updates as `accord trace record` does, and prints how many it takes a second."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

from accord.jsonrpc.message import LineReader
from accord_trace import Recording

UPDATE = (
    '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"session-0","update":'
    '{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"word %d "}}}}\n'
)
BLOCK = 64 * 1024


def main(count: int) -> None:
    data = "".join(UPDATE % number for number in range(count)).encode()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "r.acp.jsonl")
        start, used = time.perf_counter(), time.process_time()
        with Recording(path) as recording:
            hop, lines = recording.hop(), LineReader(1 << 26)
            for at in range(0, len(data), BLOCK):
                hop.frames("to_client", lines.feed(data[at : at + BLOCK]))
        elapsed, used = time.perf_counter() - start, time.process_time() - used
        assert path.read_bytes().count(b"session/update") == count
    numbers = {"per_s": count / elapsed, "cpu_us": used / count * 1e6}
    print("RESULT", json.dumps(numbers))


if __name__ == "__main__":
    main(int(sys.argv[1]))
