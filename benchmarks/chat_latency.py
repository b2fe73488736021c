"""Measures `accord chat`: the time from a key to the screen, while the agent does its worst.

`python benchmarks/chat_latency.py [--only NAME] [--save FILE] [--compare SRC] [--rounds N]`. The
chat runs with a real agent process in a pseudo-terminal of 80 × 24; a key is typed every 100 ms,
and the time until its letter is written to the terminal is measured. `--compare` also measures the
chat of another source folder, in turns.

Two numbers are given for each key: by the clock, and without the time in which the chat was ready
to run but other programs had the processors. The second one is that of an idle machine.
"""

from __future__ import annotations

import argparse
import os
import pty
import select
import shlex
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable
from fcntl import ioctl
from pathlib import Path

import machine
import pyte

KEYS = 60
KEY_S = 0.1  # between two keys
WAIT_S = 60.0
BOUND_MS = 50.0
LEAVES = b"\x1b[?1049l"  # the screen of the program
MESSAGES = 10_000
RATE = 5_000
PROMPT_BYTES = 600_000  # more than the pipe and the buffer of the connection hold
AGENT = """
import asyncio, threading, time
from accord import Agent, Turn

LINE = "Line {} of a text with **some** words, as they come from a model.\\n"
TEXT = "".join(LINE.format(n) + ("\\n" if n % 5 == 4 else "") for n in range(160_000))[:10_000_000]

class Worst(Agent):
    async def prompt(self, turn: Turn) -> None:
        what, *numbers = turn.text[:100].split()
        await getattr(self, what)(turn, *map(int, numbers))

    async def stream(self, turn, messages, rate):
        for number in range(messages // 2):
            async with turn.tool(f"Call {number}") as call:
                await call.start()
            await turn.say(f"Message {number} with **some** words in it.")
        await turn.set_title("READY")
        loop = asyncio.get_running_loop()
        begin, sent = loop.time(), 0
        while loop.time() - begin < 60:
            due = int((loop.time() - begin) * rate)
            while sent < due:
                sent += 1
                await turn.say("word " if sent % 40 else "word\\n\\n")
            await asyncio.sleep(0.005)

    async def flood(self, turn):
        await turn.set_title("READY")
        sent = 0
        while True:
            sent += 1
            await turn.say("word " if sent % 40 else "word\\n\\n")

    async def calls(self, turn):
        await turn.set_title("READY")
        while True:
            async with turn.tool("Call") as call:
                for n in range(100):
                    await call.append_text(f"output {n}\\n")

    async def frozen(self, turn):
        await turn.set_title("READY")
        # Reads nothing more, and does not end with its input.
        asyncio.get_running_loop().call_later(0.2, time.sleep, 600)

    async def text(self, turn):
        await turn.set_title("READY")
        await asyncio.sleep(1)
        await turn.say(TEXT)
        await asyncio.sleep(60)

    async def line(self, turn):
        await turn.set_title("READY")
        await asyncio.sleep(1)
        await turn.say("x" * 10_000_000)
        await asyncio.sleep(60)

    async def output(self, turn):
        await turn.set_title("READY")
        await asyncio.sleep(1)
        async with turn.tool("Output", kind="execute") as call:
            await call.append_text(TEXT)
            await asyncio.sleep(60)

    async def diff(self, turn):
        await turn.set_title("READY")
        await asyncio.sleep(1)
        async with turn.tool("Diff", kind="edit") as call:
            await call.add_diff("/file.txt", TEXT[:5_000_000], TEXT.replace("words", "text"))
            await asyncio.sleep(60)

Worst().run()
"""


class Chat:
    """The program in a pseudo-terminal, and its screen."""

    def __init__(self, folder: Path, source: Path | None) -> None:
        agent = folder / "agent.py"
        agent.write_text(AGENT)
        self.terminal, inner = pty.openpty()
        ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        command = shlex.join([sys.executable, str(agent)])
        env = {**os.environ, "XDG_STATE_HOME": str(folder), "TERM": "xterm-256color"}
        if source is not None:
            env["PYTHONPATH"] = str(source)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "accord", "chat", "--new", "--agent", command],
            stdin=inner,
            stdout=inner,
            stderr=inner,
            cwd=folder,
            env=env,
            start_new_session=True,
        )
        os.close(inner)
        self.has_left = False  # the terminal is the shell's again
        self.screen = pyte.Screen(80, 24)
        self._stream = pyte.ByteStream(self.screen)

    def read(self, wait_s: float) -> bool:
        """Take over what the program writes; return whether there was anything."""
        if not select.select([self.terminal], [], [], wait_s)[0]:
            return False
        try:
            data = os.read(self.terminal, 1 << 16)
        except OSError:
            return False  # it has ended
        self._stream.feed(data)
        self.has_left = self.has_left or LEAVES in data
        return True

    def read_for(self, wait_s: float) -> None:
        """Read for some time: what waits in the terminal would delay the next key."""
        end = time.monotonic() + wait_s
        while (left := end - time.monotonic()) > 0:
            self.read(left)

    @property
    def shown(self) -> str:
        return "\n".join(self.screen.display)

    def until(self, condition: Callable[[], bool]) -> float:
        """Wait until something is true; return how long it took."""
        began = time.perf_counter()
        while not condition():
            if time.perf_counter() - began > WAIT_S:
                raise SystemExit(self.shown)
            self.read(0.02)
        return time.perf_counter() - began

    def type(self, text: str) -> None:
        data = text.encode()
        while data:  # the terminal holds little, and the program writes to it, too
            self.read(0)
            if select.select([], [self.terminal], [], 0.01)[1]:
                data = data[os.write(self.terminal, data[:1024]) :]

    @property
    def waited_s(self) -> float:
        """How long the main thread was ready to run, but had no processor."""
        pid = self.process.pid
        try:
            return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[1]) / 1e9
        except OSError:
            return 0.0

    def alone(self, key: str, condition: Callable[[], bool]) -> float:
        """Type a key; return the time until its effect, without waiting for a processor."""
        waited, began = self.waited_s, time.perf_counter()
        self.type(key)
        self.until(condition)
        return max(0.0, time.perf_counter() - began - (self.waited_s - waited))

    def latency(self, typed: str) -> tuple[float, float]:
        """Type the last letter of a text; return the time until the prompt has all of it."""
        waited, began = self.waited_s, time.perf_counter()
        self.type(typed[-1])
        self.until(lambda: f"❯ {typed}" in "\n".join(self.screen.display[-12:]))
        took = time.perf_counter() - began
        return took, max(0.0, took - (self.waited_s - waited))

    def latencies(self) -> list[tuple[float, float]]:
        found: list[tuple[float, float]] = []
        letters = "abcdefghijklmnopqrstuvwxyz"
        for number in range(KEYS):
            typed = (letters * 3)[: number % 40 + 1]
            if number and number % 40 == 0:
                self.type("\x15")  # clears the line
                self.read(0.3)
            found.append(self.latency(typed))
            self.read_for(KEY_S)
        return found

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(20)
        os.close(self.terminal)


SCENARIOS = {
    "idle": "nothing happens",
    "stream": f"{MESSAGES:,} entries, {RATE:,} updates/s",
    "flood": "text as fast as the chat reads it",
    "calls": "tool calls as fast as the chat reads them",
    "frozen": f"the agent reads nothing, and a prompt of {PROMPT_BYTES:,} bytes is sent to it",
    "text": "10 MB of Markdown in one update",
    "line": "10 MB without a space in one update",
    "output": "10 MB of output in one update of a tool call",
    "diff": "10 MB of new text and 5 MB of old text in one diff",
}


def measure(name: str, source: Path | None) -> dict[str, list[float]]:
    """Return the times of keys, of cancelling and of quitting, in milliseconds."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as made:
        chat = Chat(Path(made), source)
        try:
            chat.until(lambda: "❯" in chat.shown and "F1 help" in chat.shown)
            time.sleep(1.0)
            if name != "idle":
                chat.type(f"stream {MESSAGES} {RATE}\r" if name == "stream" else f"{name}\r")
                chat.until(lambda: "READY" in chat.shown)
                chat.read_for(0.9)
            if name == "frozen":
                chat.type("\x1b[200~" + "many words " * (PROMPT_BYTES // 11) + "\x1b[201~\r")
                chat.until(lambda: "Esc cancels" in chat.shown)
            found = chat.latencies()
            times = {
                "clock": [1000 * clock for clock, _ in found],
                "alone": [1000 * alone for _, alone in found],
                "memory": [machine.memory_mb(chat.process.pid)],
            }
            if name != "idle":
                # Escape alone is known as a key after 0.1 s only.
                times["cancel"] = [
                    1000 * chat.alone("\x03", lambda: "Esc cancels" not in chat.shown)
                ]
            times["quit"] = [1000 * chat.alone("\x11", lambda: chat.has_left)]
            began = time.perf_counter()
            while chat.process.poll() is None and time.perf_counter() - began < WAIT_S:
                chat.read(0.02)
            times["exit"] = [times["quit"][0] + 1000 * (time.perf_counter() - began)]
            return times
        finally:
            chat.close()


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


def row(name: str, times: dict[str, list[float]]) -> str:
    clock, alone = times["clock"], times["alone"]
    cells = [
        *(f"{statistics.median(one):.0f}" for one in (alone, clock)),
        *(f"{percentile(one, 0.95):.0f}" for one in (alone, clock)),
        *(f"{max(one):.0f}" for one in (alone, clock)),
        *(f"{max(times[key]):.0f}" if key in times else "" for key in ("cancel", "quit", "exit")),
        f"{max(times['memory']):.0f}",
        str(len(clock)),
    ]
    return f"| {name} | {' | '.join(cells)} |"


def go_first() -> None:
    """Let this program have a processor when it needs one: it is not what is measured."""
    try:
        Path("/proc/self/autogroup").write_text("-20")
    except OSError:
        sys.stderr.write("Other programs delay what is read here: root could prevent that\n")


def main() -> None:
    go_first()
    parser = argparse.ArgumentParser(description="Measure the time from a key to the screen.")
    parser.add_argument("--only", help="names of the measurements, separated by commas")
    parser.add_argument("--save", type=Path, help="write the table to this file")
    parser.add_argument("--compare", type=Path, help="a source folder with another version")
    parser.add_argument("--rounds", type=int, default=1)
    given = parser.parse_args()
    sources = {"": None} if given.compare is None else {"": None, " (other)": given.compare}
    found: dict[str, dict[str, list[float]]] = {}
    loads: list[float] = []
    for _ in range(given.rounds):
        for name in given.only.split(",") if given.only else SCENARIOS:
            for label, source in sources.items():
                loads.append(os.getloadavg()[0])
                times = found.setdefault(f"{SCENARIOS[name]}{label}", {})
                for key, values in measure(name, source).items():
                    times.setdefault(key, []).extend(values)
                sys.stderr.write(f"{row(name + label, times)}\n")
    lines = [
        "# Keys of `accord chat`",
        "",
        f"{time.strftime('%Y-%m-%d %H:%M UTC', time.gmtime())}. {machine.description()}.",
        f"Load average {min(loads):.1f} to {max(loads):.1f}: the programs of others.",
        "Milliseconds from a key to its letter on the screen: `alone` without the time in which",
        "other programs had the processors, `clock` with it. `cancel`: from Ctrl+C until the turn",
        "is being cancelled; `quit`: from Ctrl+Q until the terminal is the shell's again, both",
        "alone; `exit`: until the process has ended, and its agent with it. Memory in MiB.",
        "",
        "| | median alone | clock | 95 % alone | clock | worst alone | clock "
        "| cancel | quit | exit | memory | keys |",
        f"|---|{'--:|' * 11}",
        *(row(name, times) for name, times in found.items()),
        "",
    ]
    text = "\n".join(lines)
    if given.save is not None:
        given.save.write_text(text, "utf-8")
    sys.stdout.write(text)
    missed = [name for name, times in found.items() if percentile(times["alone"], 0.95) > BOUND_MS]
    if missed:
        sys.stdout.write(f"95 % above {BOUND_MS:.0f} ms: {'; '.join(missed)}\n")


if __name__ == "__main__":
    main()
