"""What agents try in a sandbox, as real processes."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from accord_fleet.sandbox.settings import SandboxSettings
from fleet.sandboxes import NEEDS_SANDBOX, run_inside, start_inside

pytestmark = NEEDS_SANDBOX


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "scratch" / "w1"
    folder.mkdir(parents=True)
    return folder.resolve()


def test_files_outside_cannot_be_read_or_written(workspace: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    other = workspace.parent / "w2"
    other.mkdir()
    (other / "answer").write_text("of another attempt")
    (workspace / "link").symlink_to(secret)
    (workspace / "own").write_text("own")
    said = run_inside(
        workspace,
        f"""
        import os, pathlib
        home = pathlib.Path(os.environ["HOME"])
        for path in ({str(secret)!r}, "link", {str(other / "answer")!r}, "/etc/shadow",
                     "/etc/ssl/private", "/proc/1/root{secret}", home / ".bashrc", home / ".ssh"):
            try:
                os.listdir(path) if os.path.isdir(path) else open(path).read()
                print("READ", path)
            except OSError:
                pass
        for path in ("/usr/new", "/etc/new", "/new", "/run/new",
                     "/proc/sys/kernel/core_pattern", {sys.executable!r}, {str(other / "b")!r}):
            try:
                open(path, "a").close()
                print("WROTE", path)
            except OSError:
                pass
        try:
            os.link({str(secret)!r}, "hard")
            print("LINKED")
        except OSError:
            pass
        print(open("own").read(), sorted(os.listdir(".")), os.listdir(".."))
        open("made", "w").write("made")
        os.makedirs(home / ".cache")
        open(os.environ["TMPDIR"] + "/private", "w").close()
        open({str(tmp_path / "private")!r}, "w").close()
        """,
    )
    assert said == "own ['link', 'own'] ['w1']\n"
    assert (workspace / "made").read_text() == "made"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["scratch", "secret"]
    assert secret.read_text() == "secret"


def test_other_processes_are_neither_seen_nor_ended(workspace: Path) -> None:
    said = run_inside(
        workspace,
        f"""
        import os, signal
        pids = sorted(int(name) for name in os.listdir("/proc") if name.isdigit())
        print(len(pids) <= 3, os.getpid() < 5)
        try:
            os.kill({os.getpid()}, signal.SIGKILL)
        except ProcessLookupError:
            print("no such process")
        try:
            os.kill(-1, 0)
        except OSError:
            pass
        """,
    )
    assert said.splitlines() == ["True True", "no such process"]


def test_environment_has_only_what_was_listed(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLEET_SECRET", "do-not-tell")
    said = run_inside(workspace, "import os; print(dict(os.environ))", env={"LISTED": "yes"})
    assert "do-not-tell" not in said
    assert "'LISTED': 'yes'" in said


@pytest.mark.parametrize("mode", ["no-network", "models"])
def test_services_of_this_machine_and_other_hosts_are_not_reached(
    workspace: Path, mode: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        port = listening.getsockname()[1]
        said = run_inside(
            workspace,
            f"""
            import socket
            for address in (("127.0.0.1", {port}), ("198.51.100.1", 443)):
                try:
                    socket.create_connection(address, timeout=5)
                    print("CONNECTED", address)
                except OSError as error:
                    print(type(error).__name__)
            """,
            SandboxSettings(mode=mode),  # type: ignore[arg-type]
        )
        assert said.splitlines() == ["ConnectionRefusedError", "OSError"]
        with pytest.raises(BlockingIOError):
            listening.accept()


def test_network_is_only_open_when_asked(workspace: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        program = f"import socket; socket.create_connection(('127.0.0.1', {port})); print('ok')"
        assert run_inside(workspace, program, SandboxSettings(mode="network")) == "ok\n"


def test_daemon_ends_with_the_agent(workspace: Path) -> None:
    """It has a session of its own and another parent, and it ignores signals."""
    os.mkfifo(workspace / "fifo")
    ours = os.open(workspace / "fifo", os.O_RDONLY | os.O_NONBLOCK)
    try:
        said = run_inside(
            workspace,
            """
            import os, signal
            ready, told = os.pipe()
            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0:
                    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                        signal.signal(number, signal.SIG_IGN)
                    fifo = os.open("fifo", os.O_WRONLY)
                    os.environ.clear()
                    for fd in (0, 1, 2):
                        os.close(fd)
                    os.write(told, b"x")
                    signal.pause()
                os._exit(0)
            os.read(ready, 1)
            print("left")
            """,
        )
        assert said == "left\n"
        os.set_blocking(ours, True)
        assert os.read(ours, 1) == b""  # the end: nobody has it open any more
    finally:
        os.close(ours)


def test_everything_ends_when_the_sandbox_is_killed(workspace: Path) -> None:
    os.mkfifo(workspace / "fifo")
    ours = os.open(workspace / "fifo", os.O_RDONLY | os.O_NONBLOCK)
    program = "import os, signal; f = open('fifo', 'w'); print('ok', flush=True); signal.pause()"
    try:
        with start_inside(workspace, program) as process:
            assert process.stdout.readline() == "ok\n"
            process.kill()
        os.set_blocking(ours, True)
        assert os.read(ours, 1) == b""
    finally:
        os.close(ours)


FORK_BOMB = """
import os, signal
children = []
try:
    while len(children) < 100:
        pid = os.fork()
        if pid == 0:
            signal.pause()
        children.append(pid)
except BlockingIOError:
    print(len(children) < 30)
"""


@pytest.mark.skipif(os.geteuid() == 0, reason="the kernel does not count processes of root")
def test_fork_bomb_is_bounded(workspace: Path) -> None:
    settings = SandboxSettings(mode="no-network", processes=30)
    assert run_inside(workspace, FORK_BOMB, settings) == "True\n"


AS_NOBODY = f"""
import os, sys, tempfile
from pathlib import Path
try:
    from accord_fleet.sandbox.settings import SandboxError, SandboxSettings
    from fleet.sandboxes import run_inside
    from accord_fleet.sandbox.bubblewrap import sandbox_host
    sandbox_host()
except (ImportError, SandboxError) as error:
    sys.exit("skip: %s" % error)
with tempfile.TemporaryDirectory() as folder:
    workspace = Path(folder).resolve() / "w"
    workspace.mkdir()
    settings = SandboxSettings(mode="no-network", processes=30)
    print(os.geteuid(), run_inside(workspace, {FORK_BOMB!r}, settings), end="")
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_fork_bomb_of_a_user_without_rights_is_bounded() -> None:
    # The user needs an interpreter that it can run: that of the tests may be in the home of root.
    python = shutil.which("python3", path="/usr/local/bin:/usr/bin:/bin")
    if python is None:
        pytest.skip("the system has no python3")
    done = subprocess.run(
        [python, "-I", "-c", f"import sys; sys.path[:0] = {sys.path!r}\n{AS_NOBODY}"],
        user=65534,
        group=65534,
        extra_groups=[],
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent"},
        cwd="/",
        capture_output=True,
        text=True,
        timeout=60,
    )
    if "skip: " in done.stderr:
        pytest.skip(f"as another user: {done.stderr.strip().rpartition('skip: ')[2]}")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "65534 True\n"


def test_files_cannot_grow_without_bound_and_no_core_is_written(workspace: Path) -> None:
    said = run_inside(
        workspace,
        """
        import os, resource, signal
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        with open("big", "wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(65536))
            except OSError as error:
                print(error.strerror, os.path.getsize("big"))
        print(resource.getrlimit(resource.RLIMIT_CORE), resource.getrlimit(resource.RLIMIT_NOFILE))
        try:
            with open(os.environ["TMPDIR"] + "/full", "wb", buffering=0) as file:
                while True:
                    file.write(bytes(65536))
        except OSError as error:
            print(error.strerror)
        """,
        SandboxSettings(mode="no-network", file_bytes=2**20, tmp_bytes=2**19, files=99),
    )
    assert said.splitlines() == [
        "File too large 1048576",
        "(0, 0) (99, 99)",
        "No space left on device",
    ]


def test_another_user_without_capabilities_and_further_namespaces(workspace: Path) -> None:
    said = run_inside(
        workspace,
        """
        import ctypes
        status = open("/proc/self/status").read()
        names = ("Uid", "Gid", "Cap", "NoNew")
        print([line.split()[1] for line in status.splitlines() if line.startswith(names)])
        print(ctypes.CDLL(None, use_errno=True).unshare(0x10000000))
        """,
    )
    zero = "0" * 16
    assert said.splitlines() == [str(["1000", "1000", *[zero] * 5, "1"]), "-1"]
