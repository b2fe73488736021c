"""Newline-delimited JSON: bytes in, lines out, with a bound on what is held."""

from __future__ import annotations

from accord.jsonrpc.head import HEAD_BYTES

__all__ = ("LineReader",)


class LineReader:
    """Cuts a byte stream into lines of at most `limit` bytes.

    A longer line is not held: its bytes are dropped until it ends. Its beginning is added to
    `refused` as soon as the limit is passed. Blank lines and carriage returns are left to the JSON
    decoder, for which they are white space.
    """

    def __init__(self, limit: int) -> None:
        self.refused: list[bytes] = []  # to be taken out by the caller
        self._limit = limit
        self._begun = bytearray()  # of a line whose end has not come
        self._skipping = False

    def feed(self, data: bytes) -> list[bytes | bytearray]:
        """Return the lines that are whole now."""
        lines: list[bytes | bytearray] = []
        if self._begun or self._skipping:
            end = data.find(b"\n")
            self._hold(data if end < 0 else data[:end])
            if end < 0:
                return lines
            if not self._skipping:
                # Handed over as it is: a large line is not copied once more.
                lines.append(self._begun)
                self._begun = bytearray()
            self._skipping = False
            data = data[end + 1 :]
        whole = data.split(b"\n")
        if rest := whole.pop():
            self._hold(rest)
        if len(data) > self._limit:
            self.refused += [line[:HEAD_BYTES] for line in whole if len(line) > self._limit]
            whole = [line for line in whole if len(line) <= self._limit]
        lines += whole
        return lines

    def finish(self) -> list[bytes | bytearray]:
        """Return the last line, if it had no newline (R-STDIO-11)."""
        last, self._begun = self._begun, bytearray()
        return [last] if last else []

    def _hold(self, data: bytes) -> None:
        if self._skipping:
            return
        if len(self._begun) + len(data) > self._limit:
            head = self._begun[:HEAD_BYTES]
            head += data[: HEAD_BYTES - len(head)]
            self.refused.append(bytes(head))
            self._begun = bytearray()
            self._skipping = True
        else:
            self._begun += data
