"""Runs `accord trace` on a terminal of a given width."""

from __future__ import annotations

import os
import subprocess
import sys

__all__ = ("on_a_terminal",)


def on_a_terminal(columns: int, *words: str, status: int = 0, **env: str) -> str:
    """Return what a command of `accord trace` writes to a terminal of this width."""
    import termios  # not on Windows

    terminal, output = os.openpty()
    termios.tcsetwinsize(output, (24, columns))
    argv = [sys.executable, "-m", "accord", "trace", *words]
    without = ("COLUMNS", "NO_COLOR")
    clean = {name: value for name, value in os.environ.items() if name not in without}
    with subprocess.Popen(argv, stdout=output, env={**clean, **env}) as running:
        os.close(output)
        data = b""
        try:
            while part := os.read(terminal, 65536):
                data += part
        except OSError:  # the program has ended
            pass
        assert running.wait(20) == status
    os.close(terminal)
    return data.decode()
