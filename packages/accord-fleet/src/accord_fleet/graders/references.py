"""References to Python functions: `file.py:name` or `package.module:name`."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from accord_fleet.errors import FleetError


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
