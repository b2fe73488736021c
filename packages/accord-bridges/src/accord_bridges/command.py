"""`accord run OBJECT`: serves an object of a framework on stdin and stdout, without click.

An editor is waiting: beside the framework, which the user's module imports, little is imported.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
import re
import sys
import traceback
from collections.abc import Sequence
from contextlib import AbstractContextManager
from importlib import import_module
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

from accord.errors import AccordError
from accord.program import write_output

_NAME = re.compile(r"[^\w.-]+")


class RunError(AccordError):
    """The object cannot be served."""


def main(arguments: Sequence[str]) -> int:
    """Serve an object; return the exit status."""
    parser = make_parser()
    try:
        given = parser.parse_args(list(arguments))
    except argparse.ArgumentError as error:
        print(f"{parser.format_usage().rstrip()}\naccord run: {error}", file=sys.stderr)
        return 2
    if given.help:
        return write_output(parser.format_help())
    if given.object is None:
        print(
            f"{parser.format_usage().rstrip()}\naccord run: expected MODULE:OBJECT, FILE.py:OBJECT,"
            " or a URL",
            file=sys.stderr,
        )
        return 2
    try:
        with _OutputIsLog():
            agent = load(given.object, folder=given.dir, **_options(given))
        agent.run()
    except RunError as error:
        print(f"accord run: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="accord run",
        usage="accord run [OPTIONS] OBJECT",
        description="Serve an agent of a framework on stdin and stdout.",
        epilog=(
            "OBJECT is MODULE:OBJECT or FILE.py:OBJECT: an agent of pydantic-ai, openai-agents,"
            " google-adk, agno, LangGraph, smolagents, agent-framework or the Claude Agent SDK, an async"
            " function, or a function that makes one of these. Or it is the URL of an"
            " OpenAI-compatible API, http://…/v1#MODEL."
        ),
        add_help=False,
        exit_on_error=False,
        allow_abbrev=False,
    )
    parser.error = _raise  # argparse exits otherwise
    add = parser.add_argument
    add("object", nargs="?", metavar="OBJECT", help=argparse.SUPPRESS)
    add(
        "--dir", type=Path, metavar="DIR", help="where modules are (default: the working directory)"
    )
    add("--name", metavar="NAME", help="name that clients show (default: that of the object)")
    add(
        "--model",
        action="append",
        default=[],
        metavar="MODEL",
        help="model to choose from; repeat it",
    )
    add(
        "--mode", action="append", default=[], metavar="NAME[=TEXT]",
        help="mode to choose from, with its description; repeat it",
    )  # fmt: skip
    add(
        "--store",
        type=Path,
        metavar="FILE",
        help="SQLite file of the sessions (default: one per OBJECT)",
    )
    add("--no-store", action="store_true", help="forget the sessions when the client disconnects")
    add(
        "--editor-tools",
        action="store_true",
        help="let the model use the editor's files and terminals",
    )
    add("-h", "--help", action="store_true", help="show this message and exit")
    return parser


def _raise(message: str) -> Any:
    raise argparse.ArgumentError(None, message)


def load(target: str, /, *, folder: Path | None = None, **options: Any) -> Any:
    """Import an object and return the agent that runs it. Raises `RunError`.

    `folder` is where modules are, by default the working directory. `options` are those of
    `accord_bridges.Options`; an `accord.Agent` takes none.
    """
    from accord_bridges.kinds import UnknownKind, as_agent

    found = target if "://" in target else import_object(target, folder)
    from accord import Agent

    if isinstance(found, Agent) or (isinstance(found, type) and issubclass(found, Agent)):
        options = {}
    try:
        return as_agent(found, **options)
    except UnknownKind as error:
        raise RunError(f"{target}: {error}") from None
    except ImportError as error:
        raise RunError(str(error)) from None
    except TypeError as error:
        raise RunError(f"{target}: {error}") from None
    except Exception as error:  # noqa: BLE001  # of the user's code
        raise RunError(f"{target}: {_failed(error)}") from None


def load_stored(target: str) -> Any:
    """Do what `load` does, with sessions that are kept as those of `accord run`."""
    return load(target, store=open_store(store_path(target)))


def import_object(name: str, folder: Path | None = None) -> Any:
    """Return the object of MODULE:OBJECT or FILE.py:OBJECT. Raises `RunError`.

    Modules are found in `folder` first, by default the working directory. Without `:OBJECT`, it
    is the only object of the module that can be an agent.
    """
    place, colon, path = _split(name)
    module = _import(place, (folder or Path.cwd()).absolute())
    if not colon:
        return _only_agent(place, module)
    found: Any = module
    for part in path.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise RunError(_no_such(place, part, found)) from None
    return found


def _split(name: str) -> tuple[str, str, str]:
    place, colon, path = name.rpartition(":")
    if not colon or path.endswith(".py") or (len(place) == 1 and path[:1] in "\\/"):  # C:\app.py
        return name, "", ""
    if not place or not path or not all(part.isidentifier() for part in path.split(".")):
        raise RunError(f"expected MODULE:OBJECT, FILE.py:OBJECT, or a URL, got {name!r}")
    return place, colon, path


def _import(place: str, folder: Path) -> ModuleType:
    is_file = place.endswith(".py")
    if is_file:
        file = folder / place
        if not file.is_file():
            raise RunError(f"{place}: no such file (in {folder})")
        sys.path.insert(0, str(file.parent))
    elif not all(part.isidentifier() for part in place.split(".")):
        raise RunError(f"expected MODULE:OBJECT, FILE.py:OBJECT, or a URL, got {place!r}")
    else:
        file = None
        if not folder.is_dir():
            raise RunError(f"{folder}: no such folder")
        sys.path.insert(0, str(folder))
    try:
        if file is None:
            return import_module(place)
        return _import_file(file)
    except ModuleNotFoundError as error:
        if error.name == place.partition(".")[0] and file is None:
            raise RunError(f"no module {place} in {folder} or in this Python") from None
        raise RunError(f"{place} cannot be imported: {_failed(error)}") from None
    except SystemExit as error:
        raise RunError(f"{place} cannot be imported: it has exited with {error.code!r}") from None
    except Exception as error:  # noqa: BLE001  # of the user's code
        raise RunError(f"{place} cannot be imported: {_failed(error)}") from None


def _import_file(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None, "it is a Python file"
    assert spec.loader is not None, "as above"
    module = importlib.util.module_from_spec(spec)
    # As if it was imported by its name, so that its functions can be pickled.
    sys.modules.setdefault(file.stem, module)
    spec.loader.exec_module(module)
    return module


def _failed(error: Exception) -> str:
    """Return an error with the last line of the user's code that led to it."""
    if isinstance(error, SyntaxError) and error.filename:
        line = (error.text or "").strip()
        return f"{error.filename}, line {error.lineno}: {line}\nSyntaxError: {error.msg}"
    frames = traceback.extract_tb(error.__traceback__)
    own = [
        frame
        for frame in frames
        if "site-packages" not in frame.filename and not frame.filename.startswith("<")
    ]
    here = str(Path(__file__).parent)
    own = [frame for frame in own if not frame.filename.startswith((here, sys.base_prefix))]
    reason = "".join(traceback.format_exception_only(error)).strip()
    if not own:
        return reason
    frame = own[-1]
    return f"{frame.filename}, line {frame.lineno}: {frame.line}\n{reason}"


def _no_such(place: str, part: str, found: Any) -> str:
    import difflib

    names = [name for name in dir(found) if not name.startswith("_")]
    near = difflib.get_close_matches(part, names, 1)
    agents = _agents(found) if isinstance(found, ModuleType) else []
    if near:
        advice = f"; did you mean {place}:{near[0]}?"
    elif agents:
        advice = f"; agents in it: {', '.join(f'{place}:{name}' for name in agents)}"
    else:
        advice = ""
    return f"{place} has no {part!r}{advice}"


def _only_agent(place: str, module: ModuleType) -> Any:
    names = _agents(module)
    if len(names) == 1:
        return getattr(module, names[0])
    if not names:
        raise RunError(
            f"{place} has no agent of a known framework; name the object: {place}:OBJECT"
        )
    found = ", ".join(f"{place}:{name}" for name in names)
    raise RunError(f"{place} has several agents: expected one of {found}")


def _agents(module: ModuleType) -> list[str]:
    """Return the names of the objects of frameworks in a module."""
    from accord import Agent
    from accord_bridges.kinds import kind_of

    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and (kind_of(value) is not None or isinstance(value, Agent))
    ]


def _options(given: argparse.Namespace) -> dict[str, Any]:
    modes: dict[str, str] = {}
    for mode in given.mode:
        name, _, about = mode.partition("=")
        if not name:
            raise RunError(f"--mode: expected NAME or NAME=DESCRIPTION, got {mode!r}")
        modes[name] = about
    if given.store is not None and given.no_store:
        raise RunError("expected --store or --no-store, got both")
    store = (
        None if given.no_store else open_store(given.store or store_path(given.object, given.dir))
    )
    options = {"name": given.name, "models": given.model, "modes": modes, "store": store}
    return {**options, "editor_tools": given.editor_tools}


def store_path(name: str, folder: Path | None = None) -> Path:
    """Return the file of the sessions of an object, in the user's folder for state."""
    from accord.local.state import state_folder

    where = "" if "://" in name else str((folder or Path.cwd()).absolute())
    digest = hashlib.sha256(f"{where}:{name}".encode()).hexdigest()[:12]
    short = _NAME.sub("-", name.rpartition("://")[2] if "://" in name else Path(name).name)
    return state_folder() / "run" / f"{short[:40].strip('-')}-{digest}.sqlite3"


def open_store(path: Path) -> Any:
    """Return the store of a file, whose folder is made. Raises `RunError`."""
    from accord import SqliteStore

    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise RunError(f"the sessions cannot be kept in {path}: {error.strerror}") from None
    return SqliteStore(path)


class _OutputIsLog(AbstractContextManager[None]):
    """Sends what modules print when they are imported to stderr: stdout is for messages."""

    def __enter__(self) -> None:
        sys.stdout.flush()
        self._saved = os.dup(1)
        os.dup2(2, 1)

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _where: TracebackType | None,
    ) -> None:
        sys.stdout.flush()
        os.dup2(self._saved, 1)
        os.close(self._saved)
