"""A change of a file as git shows it, but with absolute paths and no prefixes (R-TOOL-24)."""

from __future__ import annotations

__all__ = ("git_patch",)

_ESCAPES = {7: "a", 8: "b", 9: "t", 10: "n", 11: "v", 12: "f", 13: "r", 34: '"', 92: "\\"}


def git_patch(path: str, old: str | None, new: str | None) -> str:
    """Return the change of one file; None stands for a file that is not there."""
    shown = _quoted(path)
    lines = [f"diff --git {shown} {shown}"]
    if old is None:
        lines.append("new file mode 100644")
    if new is None:
        lines.append("deleted file mode 100644")
    hunks = _hunks(old or "", new or "")
    if hunks:
        # Git ends an unquoted path with a tab where it has a space, so that it can be read back.
        label = f"{shown}\t" if " " in shown and not shown.startswith('"') else shown
        lines.append("--- /dev/null" if old is None else f"--- {label}")
        lines.append("+++ /dev/null" if new is None else f"+++ {label}")
        lines += hunks
    return "\n".join(lines) + "\n"


def _hunks(old: str, new: str) -> list[str]:
    from difflib import unified_diff

    lines: list[str] = []
    diff = unified_diff(_lines(old), _lines(new))
    for index, line in enumerate(diff):
        if index < 2:
            continue
        if line.endswith("\n"):
            lines.append(line[:-1])
        else:
            lines += [line, "\\ No newline at end of file"]
    return lines


def _lines(text: str) -> list[str]:
    """Split at line feeds only, as git does."""
    parts = text.split("\n")
    lines = [f"{part}\n" for part in parts[:-1]]
    return [*lines, parts[-1]] if parts[-1] else lines


def _quoted(path: str) -> str:
    """Write a path as git does: quoted where it has bytes that are not plain ASCII."""
    data = path.encode("utf-8", "surrogateescape")
    if all(31 < byte < 127 and byte not in (34, 92) for byte in data):
        return path
    return '"' + "".join(_escaped(byte) for byte in data) + '"'


def _escaped(byte: int) -> str:
    if byte in _ESCAPES:
        return f"\\{_ESCAPES[byte]}"
    return chr(byte) if 31 < byte < 127 else f"\\{byte:03o}"
