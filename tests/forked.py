"""Starts Python programs by a fork of a small process that has imported what they import.

A new interpreter that imports Accord takes 0.3 to 0.5 s of CPU; a fork takes 0.02 s. The program is
a child of the tests' process as before, with its own arguments, environment, streams, signals,
session and exit status. It is not forked from the tests' process: that is large, and has threads.
Only the start of the interpreter is left out: tests of what is imported at a start, and of an
environment that Python itself reads (PYTHONPATH), get a real one.
"""

from __future__ import annotations

import asyncio
import atexit
import contextvars
import ctypes
import faulthandler
import gc
import logging
import marshal
import os
import platform
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
import warnings
import weakref
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import accord
from accord.agent.agent import serve
from accord.script_agent.agent import ScriptAgent
from accord.transports import stdio
from accord.transports.memory import pair

if sys.platform != "win32":
    import fcntl
if TYPE_CHECKING:
    import pytest
if find_spec("accord_terminal"):
    from accord_terminal.toolkit import questions
else:  # the tests of a package alone
    questions = None

__all__ = ("STARTS", "Popen", "fork_here", "forked_programs", "forked_starts")

STARTS = (
    "FORKED_STARTS"  # in the environment: a folder with a file for each process that was forked
)
MODULES = (
    "accord",
    "accord.program",
    "accord_fleet.grader_functions",
    "accord_terminal.sessions.owner.program",
)
_IMPORTED_EARLY = (
    "accord.agent.store.sqlite",
    "accord.agent.store.stored_sessions",
    "accord.agent.v1_handlers",
    "accord.agent.v2",
    "accord.agent.v2_handlers",
    "accord.agent.v2_role",
    "accord.client.v1",
    "accord.client.v2",
    "accord.mcp.consumer",
    "accord.program",
    "accord.script_agent.agent",
    "accord.script_agent.commands",
    "accord.script_agent.registry",
    "accord.text.reason",
    "accord.transports.memory",
    "accord_conformance.cli.check_agent",
    "accord_conformance.cli.check_chain",
    "accord_conformance.cli.check_client",
    "accord_coder.agent",
    "accord_coder.command",
    "accord_coder.commands",
    "accord_coder.models.demo",
    "accord_coder.prompt",
    "accord_fleet.command.run_fleet",
    "accord_terminal.ask.command",
    "accord_terminal.ask.conversation",
    "accord_terminal.ask.run",
    "accord_terminal.ask.screen",
    "accord_terminal.ask.views",
    "accord_terminal.click_group",
    "accord_terminal.sessions.cli.control",
    "accord_terminal.sessions.cli.listing",
    "accord_terminal.sessions.cli.prompt",
    "accord_terminal.sessions.cli.transfer",
    "accord_terminal.sessions.cli.watch",
    "accord_terminal.sessions.compare",
    "accord_terminal.sessions.named",
    "accord_terminal.sessions.owner.program",
    "accord_terminal.toolkit.login",
    "accord_terminal.toolkit.markdown",
    "accord_terminal.toolkit.questions",
    "accord_terminal.toolkit.terminal_output",
    "accord_terminal.toolkit.text",
    "accord_terminal.toolkit.tool_rows",
    "mcp.server.mcpserver",
    "rich.markdown",
    "rich.syntax",
)
Popen = subprocess.Popen  # which starts interpreters
_environment = {name: value for name, value in os.environ.items() if name.startswith("PYTHON")}
# A program that leaves them out can be forked: they change nothing there.
_WITHOUT_EFFECT = {"PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED"}


# Popen's options that a program forked by the server cannot have.
_OWN_FORK = ("preexec_fn", "shell", "user", "group", "extra_groups")
_CLONE = {"x86_64": 56, "aarch64": 220}.get(platform.machine())
_CLONE_PARENT = 0x8000
forks_more = True
"""Whether programs that were forked start others by forks, too."""
names_too = False
"""Whether `python` and `accord` are this Python and its program, as after `activate`."""
inherits_patches = False
"""Whether programs are forked from this process itself, with what a test has patched."""


class _ForkedPopen(Popen[Any]):
    """A `Popen` whose process runs a Python program instead of starting Python."""

    _program: list[str] | None = None  # what the server forks

    def __init__(self, args: Any, *more: Any, **options: Any) -> None:
        words = _words(args)
        env = options.get("env")
        if more or words is None or not _is_forkable(words, os.environ if env is None else env):
            super().__init__(args, *more, **options)
            return
        if _Server.is_wanted and not (
            inherits_patches
            or any(options.get(name) for name in _OWN_FORK)
            or Path(options.get("executable") or words[0]).parent != Path(sys.executable).parent
            or not options.get("close_fds", True)
            or not Path(options.get("cwd") or ".").is_dir()
        ):
            self._program = words
            super().__init__(args, **options)
            return
        before = options.get("preexec_fn")
        kept = tuple(options.get("pass_fds", ()))

        def run() -> None:
            if before is not None:
                before()
            _become(words, None if env is None else dict(env), kept)

        with warnings.catch_warnings():
            # Of a fork in a process with threads: those of pytest hold no locks of a program.
            warnings.simplefilter("ignore", DeprecationWarning)
            super().__init__(args, **{**options, "preexec_fn": run})

    def _execute_child(self, *given: Any) -> None:
        if self._program is None:
            super()._execute_child(*given)  # type: ignore[misc]
            return
        _, _, _, _, kept, cwd, env, _, _, _, *pipes, _, _, _, _, umask, in_session, group = given
        streams = [own if fd == -1 else fd for own, fd in enumerate((pipes[0], pipes[3], pipes[5]))]
        variables = os.environ if env is None else env
        if _Server.running is None:
            _Server.running = _Server()
        self.pid = _Server.running.start(
            [
                names_too,
                self._program,
                os.fspath(cwd or Path.cwd()),
                {os.fsdecode(name): os.fsdecode(value) for name, value in variables.items()},
                sorted(map(int, kept)),
                bool(in_session),
                group,
                umask,
                forks_more,
            ],
            [*streams, *sorted(map(int, kept))],
        )
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]


class _Server:
    """The process that forks programs for this one; it ends with it."""

    is_wanted = False
    running: _Server | None = None  # from the first program on

    def __init__(self) -> None:
        self._connection, theirs = socket.socketpair()
        code = (
            "import sys; sys.path.insert(0, sys.argv[2]); import forked; del sys.path[0];"
            "forked._serve(int(sys.argv[1]))"
        )
        words = [sys.executable, "-c", code, str(theirs.fileno()), str(Path(__file__).parent)]
        with theirs:
            self.process = Popen(words, pass_fds=[theirs.fileno()])
        self._connection.settimeout(50)
        assert self._connection.recv(1) == b"+", "the process that forks programs has not started"
        self._lock = threading.Lock()
        atexit.register(self._end)

    def start(self, wanted: list[Any], descriptors: list[int]) -> int:
        """Return the process id of a program; it is a child of this process."""
        data = marshal.dumps(wanted)
        with self._lock:
            socket.send_fds(self._connection, [len(data).to_bytes(4, "big")], descriptors)
            self._connection.sendall(data)
            return int.from_bytes(self._connection.recv(4, socket.MSG_WAITALL), "big")

    def _end(self) -> None:
        self._connection.close()
        self.process.wait(10)


def _serve(descriptor: int) -> NoReturn:
    """Fork programs until the other side of the connection is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _prepare()
    assert threading.active_count() == 1
    subprocess.Popen = _ForkedPopen
    gc.collect()
    gc.freeze()
    connection = socket.socket(fileno=descriptor)
    connection.sendall(b"+")
    while True:
        size, descriptors, _, _ = socket.recv_fds(connection, 4, 200)
        if not size:
            os._exit(0)
        wanted = marshal.loads(connection.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL))
        pid = _fork_for_parent()
        if pid == 0:
            _start(wanted, descriptors)
        for fd in descriptors:
            os.close(fd)
        connection.sendall(pid.to_bytes(4, "big"))


def _fork_for_parent() -> int:
    """Fork as `os.fork` does, but for the parent of this process: it can wait for the child."""
    python = ctypes.pythonapi
    python.PyOS_BeforeFork()
    pid = ctypes.PyDLL(None).syscall(_CLONE, _CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0)
    if pid == 0:
        python.PyOS_AfterFork_Child()
    else:
        python.PyOS_AfterFork_Parent()
    return pid


def _start(wanted: list[Any], descriptors: list[int]) -> NoReturn:
    global names_too
    names_too, words, cwd, env, kept, in_session, group, umask, more = wanted
    subprocess.Popen = _ForkedPopen if more else Popen
    targets = (0, 1, 2, *kept)
    above = [fcntl.fcntl(fd, fcntl.F_DUPFD, max(targets) + 1) for fd in descriptors]
    for fd, target in zip(above, targets, strict=True):
        os.dup2(fd, target)
    os.chdir(cwd)
    if in_session:
        os.setsid()
    elif group is not None and group >= 0:
        os.setpgid(0, group)
    if umask >= 0:
        os.umask(umask)
    _become(words, env, tuple(kept))


@contextmanager
def forked_programs(*, more: bool = True, names: bool = False) -> Generator[None]:
    """Let this process start Python programs by forks; with `more`, those start others so, too.

    With `names`, also those that are started as `python` and `accord`. Nothing changes on Windows.
    """
    global forks_more, names_too
    if sys.platform == "win32":
        yield
        return
    forks_more, names_too = more, names
    if _CLONE is None:
        _prepare()
    else:
        _Server.is_wanted = True
    subprocess.Popen = _ForkedPopen
    try:
        yield
    finally:
        subprocess.Popen = Popen
        names_too = False


@cache
def _prepare() -> None:
    """Import what programs import, and let the library compile its codecs, once for all forks."""
    for name in _IMPORTED_EARLY:
        if find_spec(name.partition(".")[0]):
            with suppress(ModuleNotFoundError):  # of an extra that is not installed
                import_module(name)
    if find_spec("accord_conformance"):
        import_module("accord_conformance.rules.manifest").requirements()
    talking = threading.Thread(target=lambda: asyncio.run(_talk()))  # a loop may run in this one
    talking.start()
    talking.join()


async def _talk() -> None:
    for version in (1, 2):
        ours, theirs = pair()
        serving = asyncio.create_task(serve(ScriptAgent(), theirs))
        async with accord.connect(
            ours, versions=(version,), permissions=lambda _: "allow"
        ) as agent:
            session = await agent.new_session("/")
            for prompt in ("echo word", "permission"):
                async with session.prompt(prompt) as turn:
                    await turn.wait()
        await serving


def fork_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the programs of a test be forks of this process itself, with what the test patches."""
    _prepare()
    monkeypatch.setattr(sys.modules[__name__], "inherits_patches", True)


def forked_starts(folder: Path) -> dict[int, list[str]]:
    """Return the command lines of the running processes that have noted their start here."""
    found: dict[int, list[str]] = {}
    server = "self" if _Server.running is None else str(_Server.running.process.pid)
    own = Path("/proc", "self" if inherits_patches else server, "cmdline").read_bytes()
    for file in folder.iterdir():
        with suppress(OSError):
            # A zombie has no command line, and another process with this number a different one.
            if Path(f"/proc/{file.name}/cmdline").read_bytes() == own:
                found[int(file.name)] = file.read_text().split("\0")
    return found


def _words(args: Any) -> list[str] | None:
    if isinstance(args, (str, bytes, os.PathLike)):
        return None
    words = [os.fspath(word) for word in args]
    if names_too and words[:1] in (["python"], ["python3"]):
        words[0] = sys.executable
    elif names_too and words[:1] == ["accord"]:
        words[:1] = [sys.executable, "-m", "accord"]
    return words


def _is_forkable(words: Sequence[str], env: Mapping[str, str]) -> bool:
    python = {name: value for name, value in env.items() if name.startswith("PYTHON")}
    missing = {name: _environment[name] for name in _environment.keys() & _WITHOUT_EFFECT}
    if words[:1] != [sys.executable] or missing | python != _environment:
        return False
    rest = words[3:] if words[1:3] == ["-W", "error"] else words[1:]
    match rest[1:] if rest[:1] == ["-P"] else rest:
        case ["-m", str(module), *_]:
            return module in MODULES or (names_too and module == "pytest")
        case ["-c", str(code), *rest]:
            return "os.execv(sys.argv[1], sys.argv[1:])" in code and _is_forkable(rest, env)
        case [str(file), *_]:
            return file.endswith(".py")
    return False


def _become(words: list[str], env: dict[str, str] | None, kept: tuple[int, ...]) -> NoReturn:
    """Be the program, in a process that was just forked; streams and session are those of it."""
    status = 1
    try:
        _forget_the_parent(kept)
        if env is not None:
            os.environ.clear()
            os.environ.update(env)
        _note(words)
        os.register_at_fork(after_in_child=lambda: _note(words))
        try:
            contextvars.Context().run(_run, words)
            status = 0
        except SystemExit as left:
            status = _status(left)
        except KeyboardInterrupt:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
    except BaseException:  # noqa: BLE001  # as the interpreter does
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(BaseException):
                stream.flush()
        os._exit(status)


def _forget_the_parent(kept: tuple[int, ...]) -> None:
    """Drop what a new interpreter would not have."""
    _Server.running, _Server.is_wanted = None, False  # of the parent
    gc.freeze()  # what the parent has dropped, but not yet collected, would close our files
    faulthandler.disable()
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        if signal.getsignal(number) not in (signal.SIG_DFL, None):
            signal.signal(number, signal.SIG_DFL)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    start = 3
    for fd in (*sorted(kept), os.sysconf("SC_OPEN_MAX")):
        if fd >= 3:
            os.closerange(start, fd)
            start = fd + 1
    if (loop := asyncio._get_running_loop()) is not None:
        if (task := asyncio.current_task()) is not None:
            asyncio.tasks._leave_task(loop, task)
        asyncio._set_running_loop(None)
    stdio._StandardStreams.taken = False
    if questions is not None:
        questions._keyboard = questions._Keyboard()
    atexit._clear()
    weakref.finalize._registry.clear()  # type: ignore[attr-defined]
    weakref.finalize._registered_with_atexit = False  # type: ignore[attr-defined]
    tempfile.tempdir = None  # TMPDIR may be another one
    logging.root.handlers.clear()
    logging.root.setLevel(logging.WARNING)
    warnings.resetwarnings()
    sys.excepthook, sys.unraisablehook = sys.__excepthook__, sys.__unraisablehook__
    threading.excepthook = threading.__excepthook__
    sys.stdin = sys.__stdin__ = _stream(0, "r")
    sys.stdout = sys.__stdout__ = _stream(1, "w")
    sys.stderr = sys.__stderr__ = _stream(2, "w")


def _stream(fd: int, mode: str) -> Any:
    try:
        os.fstat(fd)
    except OSError:
        return None
    file = open(fd, f"{mode}b", closefd=False)  # noqa: SIM115
    return TextIOWrapper(
        file,
        encoding="utf-8",
        errors="backslashreplace" if fd == 2 else "strict",
        line_buffering=fd == 2 or (mode == "w" and os.isatty(fd)),
    )


def _note(words: list[str]) -> None:
    if folder := os.environ.get(STARTS):
        with suppress(OSError):  # the test has ended
            Path(folder, str(os.getpid())).write_text("\0".join(words))


def _run(words: list[str]) -> None:
    is_safe = words[1:2] == ["-P"]  # does not import from the working directory
    match words[2:] if is_safe else words[1:]:
        case ["-m", module, *rest]:
            sys.argv = [module, *rest]
            if not is_safe:
                sys.path.insert(0, str(Path.cwd()))
            if module == "accord":
                sys.exit(import_module("accord.program").main())
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # it is imported already
                runpy.run_module(module, run_name="__main__", alter_sys=True)
        case ["-c", code, *rest]:
            sys.argv = ["-c", *rest]
            os.execv = _execute
            exec(code, {"__name__": "__main__"})
        case ["-W", "error", *rest]:
            warnings.simplefilter("error")
            _run([words[0], *rest])
        case [file, *rest]:
            sys.argv = [file, *rest]
            sys.path.insert(0, str(Path(file).parent.resolve()))
            runpy.run_path(file, run_name="__main__")
        case _:
            raise AssertionError(words)


def _execute(_: str, words: list[str]) -> NoReturn:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # as a new interpreter does
    _run(words)
    sys.exit()


def _status(left: SystemExit) -> int:
    if left.code is None or isinstance(left.code, int):
        return (left.code or 0) & 0xFF
    print(left.code, file=sys.stderr)
    return 1
