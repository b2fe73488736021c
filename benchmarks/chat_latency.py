"""Measures `accord chat`: the time from a key to the screen, while an agent streams.

`python benchmarks/chat_latency.py [MESSAGES] [UPDATES PER SECOND]`. The chat runs with a real agent
process in a pseudo-terminal of 80 × 24; a key is typed every 100 ms, and the time until its letter
is written to the terminal is measured.
"""

from __future__ import annotations

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
from fcntl import ioctl
from pathlib import Path

import psutil
import pyte

KEYS = 60
WAIT_S = 300.0
AGENT = """
import asyncio, sys
from accord import Agent, Turn

class Stream(Agent):
    async def prompt(self, turn: Turn) -> None:
        messages, rate = map(int, turn.text.split())
        for number in range(messages // 2):
            async with turn.tool(f"Call {number}") as call:
                await call.start()
            await turn.say(f"Message {number} with **some** words in it.")
        await turn.set_title("READY")
        if rate:
            loop = asyncio.get_running_loop()
            begin, sent = loop.time(), 0
            while loop.time() - begin < 20:
                due = int((loop.time() - begin) * rate)
                while sent < due:
                    sent += 1
                    await turn.say("word " if sent % 40 else "word\\n\\n")
                await asyncio.sleep(0.005)

Stream().run()
"""


class Chat:
    """The program in a pseudo-terminal, and its screen."""

    def __init__(self, folder: Path) -> None:
        agent = folder / "agent.py"
        agent.write_text(AGENT)
        self.terminal, inner = pty.openpty()
        ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        command = shlex.join([sys.executable, str(agent)])
        self.process = subprocess.Popen(
            [sys.executable, "-m", "accord", "chat", "--new", "--agent", command],
            stdin=inner,
            stdout=inner,
            stderr=inner,
            cwd=folder,
            env={**os.environ, "XDG_STATE_HOME": str(folder), "TERM": "xterm-256color"},
            start_new_session=True,
        )
        os.close(inner)
        self.screen = pyte.Screen(80, 24)
        self._stream = pyte.ByteStream(self.screen)

    def read(self, wait_s: float) -> bool:
        """Take over what the program writes; return whether there was anything."""
        if not select.select([self.terminal], [], [], wait_s)[0]:
            return False
        self._stream.feed(os.read(self.terminal, 1 << 16))
        return True

    def until(self, text: str) -> None:
        end = time.monotonic() + WAIT_S
        while text not in "\n".join(self.screen.display):
            if time.monotonic() > end:
                raise SystemExit("\n".join(self.screen.display))
            self.read(0.1)

    def type(self, text: str) -> None:
        os.write(self.terminal, text.encode())

    def latency_s(self, typed: str) -> float:
        """Type the last letter of a text; return the time until the prompt has all of it."""
        began = time.perf_counter()
        self.type(typed[-1])
        while f"❯ {typed}" not in "\n".join(self.screen.display[-10:]):
            self.read(0.5)
            if time.perf_counter() - began > 30:
                raise SystemExit("\n".join(self.screen.display))
        return time.perf_counter() - began

    def latencies(self) -> list[float]:
        found: list[float] = []
        letters = "abcdefghijklmnopqrstuvwxyz"
        for number in range(KEYS):
            typed = (letters * 3)[: number % 40 + 1]
            if number and number % 40 == 0:
                self.type("\x15")  # clears the line
                self.read(0.3)
            found.append(self.latency_s(typed))
            end = time.monotonic() + 0.1
            while (left := end - time.monotonic()) > 0:
                self.read(left)
        return found


def report(name: str, found: list[float]) -> None:
    ordered = sorted(found)
    print(
        f"{name}: median {statistics.median(found) * 1000:.0f} ms, "
        f"95 % {ordered[int(len(ordered) * 0.95)] * 1000:.0f} ms, "
        f"worst {ordered[-1] * 1000:.0f} ms ({len(found)} keys)"
    )


def main() -> None:
    messages = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    rate = int(sys.argv[2]) if len(sys.argv) > 2 else 5_000
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    with tempfile.TemporaryDirectory() as made:
        chat = Chat(Path(made))
        try:
            chat.until("❯")
            chat.until("F1 help")
            time.sleep(1.0)
            report("empty and idle", chat.latencies())
            chat.type("\x15")
            chat.type(f"{messages} {rate}\r")
            chat.until("READY")
            report(f"{messages} entries, {rate} updates/s", chat.latencies())
            memory = psutil.Process(chat.process.pid).memory_info().rss
            print(f"memory of the chat: {memory / 1e6:.0f} MB")
        finally:
            chat.process.terminate()
            chat.process.wait(20)
            os.close(chat.terminal)


if __name__ == "__main__":
    main()
