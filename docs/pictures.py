"""Makes the pictures of `accord ask` in docs/images from real runs: `python docs/pictures.py`.

Names of pictures may follow; without them all are made.
"""

from __future__ import annotations

import fcntl
import html
import os
import pty
import select
import struct
import subprocess
import sys
import tempfile
import termios
import textwrap
from pathlib import Path
from typing import Any

import pyte

IMAGES = Path(__file__).parent / "images"
ASK = [sys.executable, "-m", "accord", "ask"]
LINES = 60
WAIT_S = 30.0
CELL, LINE, EDGE = 8.4, 18, 16  # of a picture, in pixels
SPACE = "&#160;"  # browsers join plain spaces
GROUND, INK = "#1d1f28", "#d8dae3"
COLOURS = {
    "brightblack": "#868b9c", "black": "#6b7080",
    "red": "#f2777a", "green": "#8fd18a", "brown": "#e8c268",
    "blue": "#79a9f2", "magenta": "#cf9ae8", "cyan": "#6ccfd6", "white": "#eceef5",
}  # fmt: skip
PROJECT = {
    "README.md": "# Shop\n\nA small shop.\n",
    "shop.py": textwrap.dedent(
        '''\
        """Prices of a small shop."""


        def price(net, rate=0.19):
            return net * (1 + rate)


        def label(name, net):
            return f"{name}: {price(net)}"
        '''
    ),
    "check.py": textwrap.dedent(
        """\
        from shop import label

        assert label("tea", 10) == "tea: 11.90", label("tea", 10)
        print("1 check passed")
        """
    ),
}
PROMPT = "replace shop.py 'price(net)}' 'price(net):.2f}'; run python check.py; read shop.py 5-10"
# Name of a picture, columns, the prompt's options, what is typed and where the picture is taken.
PICTURES: list[tuple[str, int, list[str], str | None]] = [
    ("ask", 80, ["--yes"], None),
    ("ask-narrow", 60, ["--yes"], None),
    ("ask-wide", 200, ["--yes"], None),
    ("ask-permission", 80, [], "Choose 1 to"),
    ("ask-running", 80, ["--yes"], "Plan 1/3"),
]


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    names = sys.argv[1:]
    for name, columns, options, until in PICTURES:
        if names and name not in names:
            continue
        screen = run([*ASK, *options, PROMPT], columns, until)
        (IMAGES / f"{name}.svg").write_text(svg(screen), "utf-8")
        sys.stderr.write(f"{name}.svg\n")


def run(argv: list[str], columns: int, until: str | None) -> Any:
    """Run a program at a terminal until it exits or shows a text; return the screen."""
    screen: Any = pyte.Screen(columns, LINES)
    stream: Any = pyte.ByteStream(screen)
    with tempfile.TemporaryDirectory() as folder:
        for file, text in PROJECT.items():
            (Path(folder) / file).write_text(text, "utf-8")
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, columns, 0, 0))
        env = {key: os.environ[key] for key in ("PATH", "LANG", "VIRTUAL_ENV") if key in os.environ}
        env |= {"TERM": "xterm", "HOME": folder, "PYTHONDONTWRITEBYTECODE": "1"}
        env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{env.get('PATH', os.defpath)}"
        program = subprocess.Popen(
            argv, stdin=theirs, stdout=theirs, stderr=theirs, cwd=folder, env=env,
            start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        try:
            while select.select([ours], [], [], WAIT_S)[0]:
                try:
                    data = os.read(ours, 65536)
                except OSError:  # it has ended
                    break
                stream.feed(data.replace(b"\x1b[2m", b"\x1b[90m"))  # it knows nothing faint
                if until is not None and until in "\n".join(screen.display):
                    break
        finally:
            program.terminate()
            program.wait(WAIT_S)
            os.close(ours)
    return screen


def svg(screen: Any) -> str:
    """Return a picture of a screen."""
    used = max(number for number, line in enumerate(screen.display) if line.strip()) + 1
    width = round(screen.columns * CELL) + 2 * EDGE
    height = used * LINE + 2 * EDGE
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}">',
        f'<rect width="100%" height="100%" rx="8" fill="{GROUND}"/>',
        f'<g font-family="ui-monospace,Menlo,Consolas,DejaVu Sans Mono,monospace" font-size="14" '
        f'fill="{INK}">',
    ]
    for number in range(used):
        y = EDGE + number * LINE + 14
        parts += [
            f'<text x="{EDGE + start * CELL:.1f}" y="{y}" textLength="{len(text) * CELL:.1f}"'
            f"{style}>{html.escape(text).replace(' ', SPACE)}</text>"
            for start, text, style in runs(screen.buffer[number], screen.columns)
        ]
    return "\n".join([*parts, "</g></svg>", ""])


def runs(line: Any, columns: int) -> list[tuple[int, str, str]]:
    """Return the pieces of a line: where each begins, its text and its style."""
    pieces: list[tuple[int, str, str]] = []
    for column in range(columns):
        cell = line[column]
        style = style_of(cell)
        # Fonts lack the dots of the spinner: what follows them in one piece would look different.
        if pieces and pieces[-1][2] == style and not "\u2800" <= pieces[-1][1][-1] <= "\u28ff":
            start, text, _ = pieces[-1]
            pieces[-1] = start, text + cell.data, style
        else:
            pieces.append((column, cell.data, style))
    trimmed = [(start, text.rstrip(), style) for start, text, style in pieces]
    return [piece for piece in trimmed if piece[1]]


def style_of(cell: Any) -> str:
    style = ""
    if cell.fg != "default":
        style += f' fill="{COLOURS.get(cell.fg, INK)}"'
    if cell.bold:
        style += ' font-weight="bold"'
    if cell.italics:
        style += ' font-style="italic"'
    return style


if __name__ == "__main__":
    main()
