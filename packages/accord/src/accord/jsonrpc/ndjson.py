"""Newline-delimited JSON: splits bytes into lines of bounded size."""

from __future__ import annotations

from accord.jsonrpc.head import HEAD_BYTES


class LineReader:
    """Splits a byte stream into lines of at most `limit` bytes.

    The bytes of a longer line are dropped; its beginning is added to `refused` as soon as the limit
    is exceeded. Blank lines and carriage returns are white space to the JSON decoder.
    """

    def __init__(self, limit: int) -> None:
        self.refused: list[bytes] = []  # the caller removes its items
        self._limit = limit
        self._partial_line = bytearray()  # of an incomplete line
        self._skipping = False

    def feed(self, data: bytes) -> list[bytes | bytearray]:
        """Return the lines that are complete now."""
        lines: list[bytes | bytearray] = []
        if self._partial_line or self._skipping:
            end = data.find(b"\n")
            self._hold(data if end < 0 else data[:end])
            if end < 0:
                return lines
            if not self._skipping:
                # Returned as it is, because copying a large line takes time.
                lines.append(self._partial_line)
                self._partial_line = bytearray()
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
        """Return the last line if it has no newline (R-STDIO-11)."""
        last, self._partial_line = self._partial_line, bytearray()
        return [last] if last else []

    def _hold(self, data: bytes) -> None:
        if self._skipping:
            return
        if len(self._partial_line) + len(data) > self._limit:
            head = self._partial_line[:HEAD_BYTES]
            head += data[: HEAD_BYTES - len(head)]
            self.refused.append(bytes(head))
            self._partial_line = bytearray()
            self._skipping = True
        else:
            self._partial_line += data
