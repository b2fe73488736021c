"""Checks the arguments of `connect`, `ask` and the methods that open sessions."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from msgspec import Struct

from accord.connection.limits import Limits
from accord.text.excerpt import excerpt, nearest_keyword
from accord.transports.reconnect_settings import Reconnect
from accord.types.session import Implementation, SystemPrompt
from accord.types.validation import require_type, type_error

log: logging.Logger = logging.getLogger("accord.client")

_CALLBACKS = ("on_elicit_form", "on_elicit_url", "on_auth_status", "on_stderr", "on_stdout_noise")
_MCP = (
    'a list of MCP servers, such as [McpServerStdio("name", "/path/of/command")]; the classes'
    " are exported by accord"
)


def check_options(given: Mapping[str, Any]) -> None:
    """Raise `TypeError` or `ValueError` for an option of `connect` that cannot be used."""
    for name in _CALLBACKS:
        if given[name] is not None and not callable(given[name]):
            raise _error(name, "a function", given[name])
    files = given["files"]
    is_source = callable(getattr(files, "read", None)) and callable(getattr(files, "write", None))
    if files not in (None, "ro", "rw") and not is_source:
        raise _error(
            "files", '"ro", "rw", None, or an object with the methods `read` and `write`', files
        )
    env = given["env"]
    if env is not None and not isinstance(env, Mapping):
        raise _error("env", 'a dict, such as {"NAME": "value"}', env)
    for name, value in cast("Mapping[Any, Any]", env or {}).items():
        if not isinstance(name, str) or not isinstance(value, str | None):
            # The value may be a secret.
            raise TypeError(
                "connect(env=…): expected names and values that are strings, or None to remove a "
                f"variable, got {type(value).__name__} as the value of {excerpt(repr(name), 60)}"
            )
    require_type("connect(limits=…)", given["limits"], Limits, type(None))
    require_type("connect(reconnect=…)", given["reconnect"], bool, Reconnect)
    require_type("connect(client_info=…)", given["client_info"], Implementation, type(None))
    require_type("connect(initialize_timeout_s=…)", given["initialize_timeout_s"], int, float)
    versions, observers = given["versions"], given["observers"]
    if isinstance(versions, str) or not isinstance(versions, Iterable):
        raise _error("versions", "a list of versions, such as (1,) or (1, 2)", versions)
    if not isinstance(observers, Sequence):
        raise _error("observers", "a list of functions", observers)


def check_known(function: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raise `TypeError` for a keyword argument that a function does not have."""
    names = set(known)
    for name in given:
        if name not in names:
            near = nearest_keyword(name, names)
            meant = "" if near is None else f"; did you mean {near!r}?"
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}{meant}")


def check_session(
    cwd: object,
    directories: object,
    mcp_servers: object,
    system_prompt: object,
    meta: object,
) -> None:
    """Raise `TypeError` for an argument of the methods that open sessions."""
    require_type("cwd=…", cwd, str, os.PathLike)
    given = directories
    if isinstance(directories, str | os.PathLike) or not isinstance(directories, Iterable):
        # The characters of a text would be directories, `/` among them.
        raise type_error("additional_directories=…", given, str, expected="a list of ")
    for server in _listed(mcp_servers):
        if not isinstance(server, Struct):
            raise TypeError(f"mcp_servers=…: expected {_MCP}, got {excerpt(repr(server), 100)}")
    require_type("system_prompt=…", system_prompt, str, SystemPrompt, type(None))
    if meta is not None and not isinstance(meta, dict):
        raise type_error("meta=…", meta, dict, type(None))


def existing_directory(cwd: str | os.PathLike[str], *, is_local: bool) -> None:
    """Raise `NotADirectoryError` for a relative path that is not a directory of this machine.

    An absolute path may be one of a container; for a local process it is logged.
    """
    path = Path(cwd)
    if path.is_dir():
        return
    if not path.is_absolute():
        raise NotADirectoryError(
            f"cwd=…: expected a directory, but {excerpt(str(path.absolute()), 300)} "
            f"{'is a file' if path.exists() else 'does not exist'}"
        )
    if is_local:
        log.warning("! the directory of the session does not exist on this machine: %s", path)


def _listed(servers: Any) -> Iterable[Any]:
    is_one = isinstance(servers, str | bytes | Struct) or hasattr(servers, "keys")
    if is_one or not hasattr(servers, "__iter__"):
        raise TypeError(f"mcp_servers=…: expected {_MCP}, got {excerpt(repr(servers), 100)}")
    return cast("Iterable[Any]", servers)


def _error(name: str, expected: str, value: object) -> TypeError:
    kind = "None" if value is None else f"{type(value).__name__}: {excerpt(repr(value), 60)}"
    return TypeError(f"connect({name}=…): expected {expected}, got {kind}")
