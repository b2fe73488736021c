"""Agents are installed completely or not at all, and nothing leads out of their folder."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import accord_terminal.agents.installation
from accord_terminal.agents.installation import Progress, choose_kind, install, installable_kinds
from accord_terminal.agents.registry import InstallError, load_catalogue
from accord_terminal.toolkit.agent_names import installed_file, load_installed
from registry.server import Registry, binary, entry, link, tar, tiny, zipped
from requirement import requirement

pytestmark = requirement("R-REG-13")


def install_tiny(registry: Registry, *, force: bool = False) -> list[str]:
    catalogue = load_catalogue(registry.url)
    done = install(catalogue, catalogue.find("tiny"), "binary", force=force)
    return done.argv


def offer(
    registry: Registry, data: bytes, name: str = "tiny.tar.gz", version: str = "1.0.0"
) -> None:
    address = registry.add(name, data)
    registry.offer(entry(version=version, binary=binary(address, data)), etag=f'"{version}"')


def state(data: Path) -> dict[str, bytes]:
    """Return all files of the user's data, without copies of indexes and the lock."""
    return {
        str(path.relative_to(data)): path.read_bytes()
        for path in sorted(data.rglob("*"))
        if path.is_file() and path.suffix != ".lock" and "registries" not in path.parts
    }


@pytest.mark.parametrize(
    ("name", "archive"),
    [
        ("tiny.tar.gz", tar({"bin/tiny": tiny(), "bin/also": link("bin/also", "tiny")})),
        ("tiny.tbz2", tar({"./bin/tiny": tiny()}, "w:bz2")),
        ("tiny.zip", zipped({"bin/tiny": tiny(), "lib/": b""})),
        ("tiny-linux", tiny()),
    ],
)
@requirement("R-REG-07")
def test_archive_of_each_format_becomes_a_program(
    registry: Registry, data: Path, name: str, archive: bytes
) -> None:
    offer(registry, archive, name)
    argv = install_tiny(registry)
    assert Path(argv[0]).read_bytes() == tiny()
    assert Path(argv[0]).stat().st_mode & stat.S_IXUSR
    assert Path(argv[0]).is_relative_to(data / "agents" / "tiny")
    assert load_installed()["tiny"].argv == argv


def test_arguments_and_variables_are_kept(registry: Registry) -> None:
    archive = tar({"bin/tiny": tiny()})
    address = registry.add("tiny.tgz", archive)
    row = binary(address, archive, args=["--acp"], env={"MODE": "x", "PATH": "/evil"})
    registry.offer(entry(binary=row))
    assert install_tiny(registry)[1:] == ["--acp"]
    assert load_installed()["tiny"].env == {"MODE": "x"}


OUTSIDE = tarfile.TarInfo("../../outside")
DEVICE = tarfile.TarInfo("bin/device")
DEVICE.type = tarfile.CHRTYPE
BAD_ARCHIVES = {
    "tar-up.tar.gz": tar({"bin/tiny": tiny(), "up": OUTSIDE}),
    "tar-absolute.tar.gz": tar({"/accord-outside": b"x"}),
    "tar-link.tar.gz": tar({"bin/tiny": link("bin/tiny", "../../../../etc/passwd")}),
    "tar-link-absolute.tar.gz": tar({"bin/tiny": link("bin/tiny", "/bin/sh")}),
    "tar-hardlink.tar.gz": tar({"bin/tiny": link("bin/tiny", "../../x", tarfile.LNKTYPE)}),
    "tar-behind.tar.gz": tar({"bin": link("bin", "lib"), "bin/tiny": tiny()}),
    "tar-device.tar.gz": tar({"bin/tiny": tiny(), "device": DEVICE}),
    "tar-damaged.tar.gz": tar({"bin/tiny": os.urandom(5000)})[:3000],
    "tar-none.tar.gz": b"not a tar",
    "tar-empty.tar.gz": tar({"bin/other": tiny()}),
    "zip-up.zip": zipped({"../outside": b"x", "bin/tiny": tiny()}),
    "zip-absolute.zip": zipped({"/accord-outside": b"x"}),
    "zip-backslash.zip": zipped({"..\\outside": b"x"}),
    "zip-link.zip": zipped({"bin/tiny": b"/bin/sh"}, stat.S_IFLNK | 0o777),
    "zip-damaged.zip": zipped({"bin/tiny": tiny()})[:-30],
    "zip-none.zip": b"not a zip",
    "zip-twice.zip": zipped({"bin/tiny": tiny(), "bin/./tiny": tiny()}),
}


@pytest.mark.parametrize("name", BAD_ARCHIVES)
def test_bad_archive_leaves_the_version_before(
    registry: Registry, data: Path, tmp_path: Path, name: str
) -> None:
    offer(registry, tar({"bin/tiny": tiny()}))
    install_tiny(registry)
    before = state(data)
    offer(registry, BAD_ARCHIVES[name], name, "2.0.0")
    with pytest.raises(InstallError):
        install_tiny(registry)
    assert state(data) == before
    assert not list(tmp_path.rglob("outside*"))
    assert not Path("/accord-outside").exists()


def test_wrong_checksum_leaves_the_version_before(registry: Registry, data: Path) -> None:
    offer(registry, tar({"bin/tiny": tiny()}))
    install_tiny(registry)
    before = state(data)
    offer(registry, tar({"bin/tiny": tiny("2.0.0")}), "two.tar.gz", "2.0.0")
    registry.files["/two.tar.gz"] = tar({"bin/tiny": b"evil"})
    with pytest.raises(InstallError, match=r"two.tar.gz has the wrong checksum"):
        install_tiny(registry)
    assert state(data) == before


def test_download_that_is_cut_leaves_the_version_before(registry: Registry, data: Path) -> None:
    offer(registry, tar({"bin/tiny": tiny()}))
    install_tiny(registry)
    before = state(data)
    address = registry.add("two.tar.gz", tar({"bin/tiny": tiny("2.0.0")}))
    registry.offer(entry(version="2.0.0", binary=binary(address)), etag='"2"')
    registry.cut.add("/two.tar.gz")
    with pytest.raises(InstallError, match="the connection ended after"):
        install_tiny(registry)
    assert state(data) == before


@pytest.mark.parametrize("kind", ["tar", "zip", "files"])
def test_huge_archive_is_stopped(
    registry: Registry, data: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(accord_terminal.agents.installation, "MAX_BYTES", 1 << 20)
    monkeypatch.setattr(accord_terminal.agents.installation, "MAX_FILES", 10)
    zeros = bytes(4 << 20)
    archive = {
        "tar": tar({"bin/tiny": zeros}),
        "zip": zipped({"bin/tiny": zeros}),
        "files": tar({f"{number}": b"" for number in range(20)}),
    }[kind]
    offer(registry, archive, "big.zip" if kind == "zip" else "big.tgz")
    with pytest.raises(InstallError, match="The archive has more than"):
        install_tiny(registry)
    assert state(data) == {}


def test_download_that_is_too_large_is_stopped(
    registry: Registry, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accord_terminal.agents.installation, "MAX_ARCHIVE_BYTES", 100)
    offer(registry, tar({"bin/tiny": os.urandom(1000)}))
    with pytest.raises(InstallError, match="it has more than"):
        install_tiny(registry)
    assert state(data) == {}


@pytest.mark.parametrize("address", ["http://example.com/x.tgz", "ftp://127.0.0.1/x.tgz"])
def test_archive_needs_https(registry: Registry, address: str) -> None:
    registry.offer(entry(binary=binary(address)))
    with pytest.raises(InstallError, match="https://"):
        install_tiny(registry)


def test_command_outside_of_the_archive_is_refused(registry: Registry) -> None:
    archive = tar({"bin/tiny": tiny()})
    address = registry.add("tiny.tgz", archive)
    registry.offer(entry(binary=binary(address, cmd="../../../../../bin/sh")))
    with pytest.raises(InstallError, match="has no program"):
        install_tiny(registry)


@pytest.fixture
def small_disk(data: Path) -> Iterator[Path]:
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("only root of Linux can mount a small file system")
    data.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(data)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no file system can be mounted: {done.stderr.strip()}")
    try:
        yield data
    finally:
        subprocess.run(["umount", str(data)], check=True)


@pytest.mark.parametrize("size", [400_000, 600_000])
def test_full_disk_leaves_the_version_before(
    registry: Registry, small_disk: Path, size: int
) -> None:
    offer(registry, tar({"bin/tiny": tiny()}))
    install_tiny(registry)
    before = state(small_disk)
    offer(registry, tar({"bin/tiny": os.urandom(size)}), "two.tgz", "2.0.0")
    with pytest.raises(InstallError, match="No space left on device"):
        install_tiny(registry)
    assert state(small_disk) == before


def test_new_version_keeps_the_one_that_may_run_and_deletes_older_ones(
    registry: Registry, data: Path
) -> None:
    for number in range(1, 4):
        version = f"{number}.0.0"
        offer(registry, tar({"bin/tiny": tiny(version)}), f"{number}.tgz", version)
        argv = install_tiny(registry)
    assert Path(argv[0]).read_bytes() == tiny("3.0.0")
    kept = [path.name.split("-")[0] for path in (data / "agents" / "tiny").iterdir()]
    assert sorted(kept) == ["2.0.0", "3.0.0"]


def test_leftovers_of_killed_installations_are_deleted_after_a_day(
    registry: Registry, data: Path
) -> None:
    old, young = (data / "agents" / "tiny" / name for name in (".1.0.0-binary-a", "1.0.0-npx-b"))
    for folder in (old, young):
        folder.mkdir(parents=True)
    os.utime(old, (0, 0))
    offer(registry, tar({"bin/tiny": tiny()}))
    install_tiny(registry)
    assert not old.exists()
    assert young.exists()


def test_installations_at_once_are_all_listed(registry: Registry) -> None:
    archive = tar({"bin/tiny": tiny()})
    address = registry.add("tiny.tgz", archive)
    names = [f"agent-{letter}" for letter in "abcd"]
    registry.offer(*(entry(name, binary=binary(address, archive)) for name in names))
    command = [sys.executable, "-m", "accord", "agents", "install"]
    running = [subprocess.Popen([*command, name], stdout=subprocess.DEVNULL) for name in names]
    assert [process.wait(30) for process in running] == [0, 0, 0, 0]
    assert sorted(load_installed()) == names


@requirement("R-REG-15")
def test_agent_in_quarantine_is_installed_only_by_force(registry: Registry) -> None:
    offer(registry, tar({"bin/tiny": tiny()}))
    registry.quarantine = b'{"tiny": "it steals"}'
    with pytest.raises(InstallError, match="tiny is in quarantine: it steals"):
        install_tiny(registry)
    install_tiny(registry, force=True)
    assert not load_installed()["tiny"].is_blocked


def test_list_that_is_damaged_is_not_overwritten(registry: Registry, data: Path) -> None:
    offer(registry, tar({"bin/tiny": tiny()}))
    installed_file().parent.mkdir(parents=True)
    installed_file().write_text("{")
    with pytest.raises(Exception, match="Cannot read the list of installed agents"):
        install_tiny(registry)
    assert installed_file().read_text() == "{"
    assert not list((data / "agents").rglob("tiny"))[1:]


@requirement("R-REG-16")
def test_kinds_come_in_order_and_the_user_may_choose(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, registry: Registry
) -> None:
    package = {"package": "a"}
    registry.offer(
        entry("all", binary=binary("https://x/y.tgz"), uvx=package, npx=package),
        entry(
            "other", binary={"plan9-mips": {"archive": "x", "cmd": "y"}}, uvx=package, npx=package
        ),
    )
    agents = load_catalogue(registry.url).agents
    monkeypatch.setenv("PATH", str(tmp_path))
    assert choose_kind(agents["all"]) == "binary"
    with pytest.raises(InstallError, match="uvx: uv not in PATH; npx: node and npm not in PATH"):
        choose_kind(agents["other"])
    for name in ("node", "npm", "uv"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    assert choose_kind(agents["other"]) == "uvx"
    assert choose_kind(agents["all"], "npx") == "npx"
    (tmp_path / "uv").unlink()
    assert choose_kind(agents["other"]) == "npx"
    assert list(installable_kinds(agents["all"])) == ["binary", "uvx", "npx"]
    with pytest.raises(InstallError, match="uv not in PATH"):
        choose_kind(agents["all"], "uvx")


def test_list_is_private(registry: Registry) -> None:
    offer(registry, tar({"bin/tiny": tiny()}))
    install_tiny(registry)
    assert installed_file().stat().st_mode & 0o077 == 0
    assert json.loads(installed_file().read_text())["tiny"]["kind"] == "binary"


def test_installation_that_is_cancelled_leaves_what_was_there(
    registry: Registry, data: Path
) -> None:
    offer(registry, tar({"bin/tiny": tiny()}))
    install_tiny(registry)
    before = state(data)
    offer(registry, tar({"bin/tiny": tiny("2.0.0")}), version="2.0.0")
    seen: list[Progress] = []

    def cancel(progress: Progress) -> None:
        seen.append(progress)
        raise InstallError("cancelled")

    catalogue = load_catalogue(registry.url)
    with pytest.raises(InstallError, match="cancelled"):
        install(catalogue, catalogue.find("tiny"), "binary", on_progress=cancel)
    assert state(data) == before
    assert [progress.step for progress in seen] == ["downloading"]
    assert seen[0].done == seen[0].total != 0


def test_progress_in_words() -> None:
    assert str(Progress("downloading", 1_500_000, 3_000_000)) == "downloading 1.5 of 3.0 MB (50 %)"
    assert str(Progress("downloading", 1_500_000)) == "downloading 1.5 MB"
    assert str(Progress("extracting")) == "extracting"
