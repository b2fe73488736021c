r"""Bytes as text that a person writes: `\n`, `\xff`, `\u2028`."""

from __future__ import annotations

import re

_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|(.?))", re.DOTALL)
_NAMED = {"n": b"\n", "r": b"\r", "t": b"\t", "0": b"\0", "\\": b"\\"}


def bytes_of_text(text: str, *, escapes: bool) -> bytes:
    r"""Return the UTF-8 bytes of a text, with escapes replaced if they are allowed.

    `\xHH` is one byte, `\uHHHH` one code point, lone surrogates included. Raise `ValueError` for
    an unknown escape.
    """
    if not escapes:
        return text.encode("utf-8", "surrogatepass")
    parts: list[bytes] = []
    end = 0
    for match in _ESCAPE.finditer(text):
        parts.append(text[end : match.start()].encode("utf-8", "surrogatepass"))
        end = match.end()
        byte, point, name = match.groups()
        if byte is not None:
            parts.append(bytes.fromhex(byte))
        elif point is not None:
            parts.append(chr(int(point, 16)).encode("utf-8", "surrogatepass"))
        elif name in _NAMED:
            parts.append(_NAMED[name])
        else:
            raise ValueError(
                f"Unknown escape '{match[0]}' at character {match.start() + 1}: "
                r"expected \n, \r, \t, \0, \\, \xHH or \uHHHH"
            )
    parts.append(text[end:].encode("utf-8", "surrogatepass"))
    return b"".join(parts)
