"""What the commands of `accord agents` share: the registry, and errors as messages."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import click

from accord.errors import AccordError
from accord_terminal.agents.installation import note_quarantine
from accord_terminal.agents.registry import (
    DEFAULT_REGISTRY,
    REGISTRY_VARIABLE,
    Catalogue,
    load_catalogue,
)

F = TypeVar("F", bound=Callable[..., Any])

_OPTION = click.option(
    "--registry",
    metavar="URL",
    envvar=REGISTRY_VARIABLE,
    default=DEFAULT_REGISTRY,
    help="Another registry, as URL or file. Default: ACCORD_REGISTRY, or the public one.",
)


def registry_option(function: F) -> F:
    """Add the option `--registry`."""
    return _OPTION(function)


def reports_errors(function: F) -> F:
    """Turn errors into messages and the status 1."""

    @functools.wraps(function)
    def wrapped(*args: Any, **given: Any) -> Any:
        try:
            return function(*args, **given)
        except AccordError as error:
            raise click.ClickException(str(error)) from None

    return wrapped  # type: ignore[return-value]  # it has the same signature


def catalogue_of(registry: str, *, quiet: bool = False) -> Catalogue:
    """Load a registry, print its warnings, and note which installed agents are in quarantine."""
    catalogue = load_catalogue(registry)
    if not quiet:
        for text in catalogue.warnings:
            warn(text)
    note_quarantine(catalogue.url, catalogue.quarantine)
    return catalogue


def warn(text: str) -> None:
    """Print a warning on stderr."""
    click.echo(f"accord agents: warning: {text}", err=True)
