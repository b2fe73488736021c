"""The recordings of attempts in a dataset."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

from accord_fleet.dataset.storage import Storage

TRACES = "traces"
_ZSTD = b"\x28\xb5\x2f\xfd"
_GZIP = b"\x1f\x8b"


def trace_name(
    task: str, agent: str, attempt: int, end: str = ".acp.jsonl", *, mark: str = ""
) -> str:
    """Return the name of a recording in the dataset; `mark` is that of the lock.

    A folder for each task would take longer to make than the recording to write.
    """
    of = f"{_part(task)}.{mark}" if mark else _part(task)
    return f"{TRACES}/{_part(agent)}-{attempt}/{of}{end}"


def trace_name_for(key: tuple[str, str, int], trace: bytes, *, mark: str = "") -> str:
    """Return the name of a recording with these contents."""
    return trace_name(*key, _end_of(trace), mark=mark)


def store_trace(
    storage: Storage, key: tuple[str, str, int], trace: Path | bytes, *, mark: str = ""
) -> str:
    """Move a finished recording into the dataset, and return its name.

    A recording of the same attempt with the same mark is replaced. Raises `OSError`.
    """
    if isinstance(trace, bytes):
        name = trace_name_for(key, trace, mark=mark)
        storage.put(name, trace)
        return name
    with trace.open("rb") as file:
        name = trace_name(*key, _end_of(file.read(4)), mark=mark)
    storage.move_in(trace, name)
    return name


def _end_of(head: bytes) -> str:
    if head.startswith(_ZSTD):
        return ".acp.jsonl.zst"
    return ".acp.jsonl.gz" if head.startswith(_GZIP) else ".acp.jsonl"


def _part(name: str) -> str:
    """Return a part of a path for any name; different names have different parts."""
    safe = quote(name, safe=" @+=,").strip()
    return f"%2E{safe[1:]}" if safe.startswith(".") else safe
