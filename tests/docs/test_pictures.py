"""The pictures of the docs show the current output of the programs."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parent.parent.parent
IMAGES = ROOT / "docs" / "images"
MOST_BYTES = 20_000
MOST_CHAT_BYTES = 50_000
MOST_PNG_BYTES = 160_000  # of pictures of a page


def text_of(svg: str) -> list[str]:
    """Return the lines of a picture, except the last one, which contains a time."""
    lines: dict[str, list[str]] = {}
    for element in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text"):
        lines.setdefault(element.attrib["y"], []).append((element.text or "").strip())
    return [" ".join(parts) for parts in lines.values()][:-1]


def script() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "docs" / "pictures.py"))


def test_each_picture_is_made_by_the_script_and_small(monkeypatch: pytest.MonkeyPatch) -> None:
    if sys.platform == "win32":
        pytest.skip("the script needs a terminal of POSIX")
    files = list(IMAGES.glob("*.svg"))
    monkeypatch.syspath_prepend(ROOT / "docs")
    chats = set(runpy.run_path(str(ROOT / "docs" / "chat_pictures.py"))["PICTURES"])
    assert {file.stem for file in files} == {name for name, *_ in script()["PICTURES"]} | chats
    for file in files:
        most = MOST_CHAT_BYTES if file.stem in chats else MOST_BYTES
        assert file.stat().st_size < most
        assert text_of(file.read_text("utf-8"))


def test_each_picture_is_on_a_page() -> None:
    pages = "".join(page.read_text("utf-8") for page in (ROOT / "docs").rglob("*.md"))
    assert set(re.findall(r"images/([\w-]+\.(?:svg|png))", pages)) == {
        file.name for file in IMAGES.iterdir()
    }
    assert all(file.stat().st_size < MOST_PNG_BYTES for file in IMAGES.glob("*.png"))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="POSIX has terminals")
def test_picture_shows_the_output_of_a_run() -> None:
    made = script()
    ((_, columns, options, until),) = [row for row in made["PICTURES"] if row[0] == "ask"]
    screen = made["run"]([*made["ASK"], *options, made["PROMPT"]], columns, until)
    assert text_of(made["svg"](screen)) == text_of((IMAGES / "ask.svg").read_text("utf-8"))
