"""Functions in Python that grade: references to them, the process that calls them, verdicts.

`python -m accord_fleet.grader_functions` is that process: what a function does to its interpreter,
its memory or its threads ends with it. stdin has a pickled `Call` or `Check`. The verdict is one
JSON object on stdout; what the function prints goes to stderr.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import json
import math
import numbers
import os
import pickle
import re
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from accord.text.lenient_json import is_object
from accord_fleet.types import FleetError, GradedAttempt, Usage, Verdict

# References to functions: `file.py:name` or `package.module:name`.


def split_reference(text: str) -> tuple[str, str]:
    """Return the file or module, and the name in it; raise `FleetError`."""
    place, colon, name = text.rpartition(":")
    if not colon or not place or not all(part.isidentifier() for part in name.split(".")):
        raise FleetError(f"Expected file.py:name or package.module:name, got {text!r}")
    return place, name


def load_object(text: str) -> Any:
    """Import a file or a module and return what the reference names.

    The folder of a file is searched for its imports. Raises `FleetError` for what does not exist,
    and whatever the module raises.
    """
    place, name = split_reference(text)
    module: Any = _load_file(Path(place)) if place.endswith(".py") else _load_module(place)
    found = module
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise FleetError(f"{place} has no {name!r}") from None
    return found


def reference_to(function: Callable[..., Any]) -> str:
    """Return the reference to a function at the top of a module; raise `FleetError` for others."""
    name = getattr(function, "__qualname__", "")
    module = sys.modules.get(getattr(function, "__module__", ""))
    file = getattr(module, "__file__", None)
    if not name or "<" in name or module is None or file is None:
        raise FleetError(
            f"Expected a grader that is defined at the top of a file, got {function!r}:"
            " it runs in a process of its own, which imports it"
        )
    if "." in module.__name__:
        return f"{module.__name__}:{name}"
    return f"{Path(file).resolve()}:{name}"


def _load_module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise FleetError(f"The module {name} does not exist") from None
        raise


def _load_file(path: Path) -> Any:
    if not path.is_file():
        raise FleetError(f"The file {path} does not exist")
    name = path.stem
    folder = str(path.parent.resolve())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise FleetError(f"The file {path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(name, module)
    spec.loader.exec_module(module)
    return module


# Verdicts from what functions, commands and agents say.

_SEARCHED = 64 * 1024  # characters at the end of a text
_OBJECT = re.compile(r'\{\s*"')
_CANDIDATES = 200  # a text that opens more objects costs no more time
_SHOWN = 100  # characters of a value in a message
_KEYS = ("passed", "score", "error")
_FIELDS: dict[str, tuple[str, type | tuple[type, ...]]] = {
    "passed": ("true or false", bool),
    "score": ("a number", numbers.Real),
    "reason": ("a text", str),
    "error": ("a text", str),
    "details": ("an object", dict),
}

_decoder = json.JSONDecoder()


class NotAVerdict(ValueError):
    """A value is not a verdict; the message says what was expected."""


def verdict_of(value: Any) -> Verdict:
    """Return the verdict that a grader returned.

    True and False pass and fail. A number is a score; 1 or more passes. An object has `passed` or
    `score`, and may have `reason` and `details`. Raises `NotAVerdict`, with all that is wrong.
    """
    if isinstance(value, bool):
        return Verdict(passed=value)
    if isinstance(value, numbers.Real):
        return _scored(Verdict(score=_finite(value)))
    if isinstance(value, Verdict):
        value = {name: getattr(value, name) for name in Verdict.__struct_fields__}
    if not is_object(value) or all(value.get(key) is None for key in _KEYS):
        raise NotAVerdict(
            "expected a bool, a number or a verdict with `passed` or `score`, got"
            f" {type(value).__name__} {str(value)[:_SHOWN]}"
        )
    if wrong := [each for name in _FIELDS if (each := _why_wrong(name, value.get(name)))]:
        raise NotAVerdict(f"expected {'; '.join(wrong)}")
    given = {name: value[name] for name in _FIELDS if value.get(name) is not None}
    if "score" in given:
        given["score"] = _finite(given["score"])
    usage = value.get("usage")
    return _scored(Verdict(**given, usage=usage if isinstance(usage, Usage) else Usage()))


def last_verdict(text: str) -> Verdict | None:
    """Return the verdict of the last JSON object in a text that has `passed`, `score` or `error`.

    Raises `NotAVerdict` if these have values that make no verdict.
    """
    text = text[-_SEARCHED:]
    last: Any = None
    end = 0
    for match in [*_OBJECT.finditer(text)][-_CANDIDATES:]:
        if match.start() < end:
            continue  # inside of the object before
        with contextlib.suppress(ValueError, RecursionError):
            value, end = _decoder.raw_decode(text, match.start())
            if any(value.get(key) is not None for key in _KEYS):
                last = value
    return None if last is None else verdict_of(last)


def _why_wrong(name: str, value: Any) -> str | None:
    """Return what was expected and what came; None if the value is right or missing."""
    words, types = _FIELDS[name]
    is_right = isinstance(value, types) and isinstance(value, bool) == (name == "passed")
    if value is None or is_right:
        return None
    return f"`{name}` to be {words}, got {_shown(value)}"


def _shown(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)[:_SHOWN]
    except (TypeError, ValueError, RecursionError):
        return f"{type(value).__name__} {str(value)[:_SHOWN]}"


def _finite(score: Any) -> float:
    try:
        value = float(score)
    except OverflowError:
        value = math.inf
    if not math.isfinite(value):
        raise NotAVerdict(f"expected a finite score, got {value}")
    return value


def _scored(verdict: Verdict) -> Verdict:
    if verdict.passed is None and verdict.score is not None and verdict.error is None:
        return msgspec.structs.replace(verdict, passed=verdict.score >= 1)
    return verdict


class Call(msgspec.Struct, frozen=True):
    """A call of a grader."""

    function: str
    attempt: GradedAttempt
    sys_path: tuple[str, ...]
    memory_bytes: int


class Check(msgspec.Struct, frozen=True):
    """A check whether graders can be imported."""

    functions: tuple[str, ...]
    sys_path: tuple[str, ...]


def main() -> None:
    """Read a call from stdin, and write the verdict."""
    with os.fdopen(os.dup(1), "wb") as out:
        os.dup2(2, 1)
        given = pickle.load(sys.stdin.buffer)
        sys.path[:] = [*given.sys_path, *(path for path in sys.path if path not in given.sys_path)]
        match given:
            case Call():
                result: Any = _graded(given)
            case _:
                result = {name: _why_not_callable(name) for name in given.functions}
        out.write(msgspec.json.encode(result))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # what the function left running does not delay the verdict


def _graded(call: Call) -> Verdict:
    _limit_memory(call.memory_bytes)
    try:
        function = load_object(call.function)
        os.chdir(call.attempt.workspace)
        value = function(call.attempt)
        if inspect.isawaitable(value):
            # Half of the time that this process takes to start, and most functions need none of it.
            import asyncio

            value = asyncio.run(_awaited(value))
        return verdict_of(value)
    except FleetError as error:
        return Verdict(error=str(error))
    except NotAVerdict as error:
        return Verdict(error=f"{call.function}: {error}")
    except MemoryError:
        return Verdict(error=f"{call.function} needs more than {call.memory_bytes} bytes of memory")
    except (Exception, SystemExit) as error:  # noqa: BLE001  # any exception of the grader
        return Verdict(error=_described(call.function, error))


async def _awaited(value: Any) -> Any:
    return await value


def _described(function: str, error: BaseException) -> str:
    last = traceback.extract_tb(error.__traceback__)[-1:]
    where = "".join(f" ({Path(frame.filename).name}, line {frame.lineno})" for frame in last)
    what = "".join(traceback.format_exception_only(error)).strip()
    return f"{function} raised {what}{where}"


def _why_not_callable(function: str) -> str | None:
    try:
        found = load_object(function)
    except FleetError as error:
        return str(error)
    except (Exception, SystemExit) as error:  # noqa: BLE001  # any exception of the module
        return f"{function} cannot be imported: {_described(function, error)}"
    return None if callable(found) else f"{function} is not a function"


def _limit_memory(limit: int) -> None:
    """Limit the memory, and let the system end this process first when memory runs out."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


if __name__ == "__main__":
    # Calls are pickled under the module's name: their classes are not those of `__main__`.
    from accord_fleet import grader_functions

    grader_functions.main()
