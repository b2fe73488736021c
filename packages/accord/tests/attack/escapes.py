"""Paths out of the directories of a session: none of them may read or change files outside."""

from __future__ import annotations

import os
import random
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from accord.local.files import Roots

__all__ = ("WAYS", "attack")

SECRET = "the password is swordfish"
INSIDE = "inside"
_UPS = ["..", "../..", "./..", ".//..//.", "../../..", "x/../..", "link/..", "folder/../.."]
_TAILS = [
    "secret",
    "other/secret",
    "./secret",
    "secret/",
    "secret/.",
    "SECRET",
    "secret\0",
    "secret\n",
]
_HEADS = [
    "",
    "./",
    "/",
    "//",
    "folder/",
    "deep/er/",
    "link/",
    "loop/",
    "out/",
    "ro\u0308ot/",
    "~/",
    "$HOME/",
]


class _World:
    """A root with all kinds of links in it, next to a secret."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.root = base / "root"
        self.other = base / "other"
        for folder in (self.root / "folder", self.root / "deep" / "er", self.other, base / "root2"):
            folder.mkdir(parents=True)
        self.secrets = [base / "secret", self.other / "secret", base / "root2" / "secret"]
        for secret in self.secrets:
            secret.write_text(SECRET)
        (self.root / "a").write_text(INSIDE)
        for name, target in {
            "out": base,
            "link": self.other,
            "link2": self.other / "secret",
            "loop": self.root / "loop",
            "chain": self.root / "link2",
            "relative": Path("..") / "secret",
            "far": Path("folder") / ".." / ".." / "other" / "secret",
            "new": self.other / "new",
            "proc": Path("/proc/self/root"),
            "fd": Path("/dev/fd"),
        }.items():
            (self.root / name).symlink_to(target)
        os.link(self.base / "secret", self.root / "hard")
        os.link(self.other / "secret", self.root / "folder" / "hard")
        self.before = self.outside()

    def outside(self) -> dict[str, str]:
        """Return the contents of all files outside, by name."""
        return {
            str(path.relative_to(self.base)): path.read_text() if path.is_file() else "folder"
            for path in sorted(self.base.rglob("*"))
            if not path.is_relative_to(self.root)
        }


def _ways(rng: random.Random, world: _World) -> Iterator[str]:
    """Yield paths, most of which lead outside."""
    absolute = [str(secret) for secret in world.secrets]
    names = [
        "hard",
        "folder/hard",
        "link2",
        "chain",
        "relative",
        "far",
        "new",
        "loop",
        "out/secret",
    ]
    names += ["proc" + str(world.base / "secret"), "fd/0", "fd/../environ"]
    while True:
        match rng.randrange(6):
            case 0:
                yield rng.choice(absolute)
            case 1:
                yield rng.choice(names)
            case 2:
                yield rng.choice(_HEADS) + rng.choice(_UPS) + "/" + rng.choice(_TAILS)
            case 3:
                padding = rng.choice(["./", "folder/../", "x/../", "/"]) * rng.choice((1, 50, 1500))
                yield padding + rng.choice([*names, "../secret"])
            case 4:
                path = str(rng.choice(world.secrets))
                yield rng.choice(
                    [
                        path.upper(),
                        path.replace("/", "//"),
                        f"{world.root}/..{path}",
                        f"file://{path}",
                        path.replace("s", "\u017f"),
                        path.replace("/", "\\"),
                        path.replace("/", "%2f"),
                        path + "\0.txt",
                    ]
                )
            case _:
                yield rng.choice(_HEADS) + rng.choice(names) + rng.choice(["", "/..", "/../secret"])


WAYS = 25  # in one attack


def attack(seed: int) -> int:
    """Try the paths, with and without a thread that exchanges directories and links."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        world = _World(Path(os.path.realpath(name)))
        roots = Roots([str(world.root), str(world.root / "folder")])
        stop = threading.Event()
        racing = rng.random() < 0.5
        racer = threading.Thread(target=_exchange, args=(world.root, world.base, stop))
        if racing:
            racer.start()
        try:
            ways = _ways(rng, world)
            for _ in range(WAYS):
                path = "swap/secret" if racing and rng.random() < 0.5 else next(ways)
                _try(roots, path, rng)
        finally:
            stop.set()
            if racing:
                racer.join(30)
        assert world.outside() == world.before, "something outside has changed"
        assert list(world.root.rglob(".accord-*")) == [], "a temporary file was left"
    return WAYS


def _try(roots: Roots, path: str, rng: random.Random) -> None:
    # An error of the system or the roots is expected; any other is a defect.
    with suppress(OSError, UnicodeDecodeError):
        match rng.randrange(5):
            case 0 | 1:
                text = roots.read(path, *rng.choice([(), (1, 1)]))
                assert SECRET not in text, f"read {path!r}"
            case 2:
                roots.write(path, "gotcha")
            case 3:
                if not path.startswith(("a", "swap")):
                    roots.remove(path)
            case _:
                roots.move(*rng.choice([("a", path), (path, "b")]))


def _exchange(root: Path, base: Path, stop: threading.Event) -> None:
    """Replace `swap` in turn by a directory with a harmless `secret` and a link to the real one."""
    folder, link, swap = root / "swap-folder", root / "swap-link", root / "swap"
    with suppress(OSError):
        folder.mkdir()
        (folder / "secret").write_text(INSIDE)
        link.symlink_to(base)
    while not stop.is_set():
        for source in (folder, link):
            with suppress(OSError):
                source.rename(swap)
                swap.rename(source)
