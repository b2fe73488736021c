"""An image is dropped on a real terminal, and sent to an agent that sends it back."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from chat.fake_terminal import FakeTerminal
from chat.images import picture

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("how", [["--protocol", "1"], ["-s", "fix"]])
def test_dropped_image_is_sent_and_comes_back(tmp_path: Path, how: list[str]) -> None:
    image = tmp_path / "my shot.png"
    image.write_bytes(picture(640, 480))
    words = ["-m", "accord", "chat", "--agent", "script", *how]
    environment = {
        "COLORTERM": "truecolor",
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "ACCORD_CONFIG": str(tmp_path),
    }
    terminal = FakeTerminal(words, tmp_path, environment, size=(80, 40))
    try:
        terminal.sees("Ask · Small", "F1 help")
        terminal.type(b"\x1b[200~'%s' \x1b[201~" % os.fsencode(image))
        terminal.sees("▣ my shot.png · image/png", "Alt+X removes")
        assert not terminal.kitty_commands()
        terminal.type(b"echo what is this\r")
        shown = "▣ my shot.png · image/png · 640×480 pixels"
        terminal.until(lambda: terminal.text.count(shown) == 2)
        terminal.sees("▌ echo what is this", f"▌ {shown}", "  what is this", "▀▀▀▀▀▀▀▀")
    finally:
        terminal.close()
        if "fix" in how:
            subprocess.run(
                [sys.executable, "-m", "accord", "session", "close", "-s", "fix"],
                cwd=tmp_path,
                env={**os.environ, **environment},
                capture_output=True,
                timeout=30,
            )
