"""Opens and searches a recording, as the inspector does: `search.py FILE`; prints seconds."""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path

from accord_trace import Filter, MessageIndex

FILTERS = {
    "method_s": (Filter(methods=("session/prompt",)), 20_000),
    "session_s": (Filter(sessions=("session-3",), direction="to_client"), 49_500),
    "errors_s": (Filter(errors=True), 200),
    "latency_s": (Filter(min_latency_s=0.01), 10_000),
    "text_s": (Filter(text="needle 77"), 111),
    "json_path_s": (Filter(json_path="$.params.update.toolCallId"), 10_000),
}


def main(path: Path) -> None:
    numbers: dict[str, float] = {}
    start = time.perf_counter()
    index = MessageIndex([path])
    index.advance()
    index.row(0)
    numbers["first_rows_s"] = time.perf_counter() - start
    while not index.advance():
        pass
    numbers["index_s"] = time.perf_counter() - start
    index.close()
    start = time.perf_counter()
    with MessageIndex([path]) as index:
        assert index.advance()
        numbers["open_s"] = time.perf_counter() - start
        for name, (wanted, count) in FILTERS.items():
            start = time.perf_counter()
            found = len(index.select(wanted))
            numbers[name] = time.perf_counter() - start
            if len(index) == 1_000_000:
                assert found == count, (name, found)
    numbers["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    numbers["size_gb"] = path.stat().st_size / 1e9
    print("RESULT", json.dumps(numbers))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
