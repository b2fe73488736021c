"""`accord web`: serves the page, and pairs, lists and revokes devices."""

from __future__ import annotations

import os
import sys
import threading
import webbrowser
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from accord.remote.access import Access
from accord.text.excerpt import one_line
from accord.transports.registry import is_loopback
from accord_terminal.sessions.records import SessionsError, Store
from accord_terminal.toolkit.endpoint import Endpoint, endpoint_options
from accord_web.app import WebApp, WebSettings
from accord_web.devices import CODE_S, ROLES, Devices, terminal_picture, web_file

PORT = 8770
_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
_OPTIONS = ("host", "port", "tls_cert", "tls_key", "hosts", "log_format")

_role_option = click.option(
    "--role",
    type=click.Choice(ROLES),
    default="full",
    show_default=True,
    help="What the device may do: watch, also answer and cancel, or everything.",
)


@click.group("web", invoke_without_command=True)
@click.option(
    "--root",
    "roots",
    metavar="FOLDER",
    type=_FOLDER,
    multiple=True,
    help="Folder below which a device may start sessions. Repeatable. Default: the current one.",
)
@click.option(
    "--agent",
    "agents",
    metavar="NAME",
    multiple=True,
    help="Agent that a device may start. Repeatable. Default: those of the settings.",
)
@click.option(
    "--public-url",
    metavar="URL",
    help="Address by which browsers reach this server, such as https://home.example of a proxy "
    "with TLS. Its host is allowed.",
)
@_role_option
@click.option("--no-open", is_flag=True, help="Do not open the page in the browser.")
@endpoint_options(PORT, only=_OPTIONS)
@click.pass_context
def command(
    ctx: click.Context,
    roots: tuple[Path, ...],
    agents: tuple[str, ...],
    public_url: str | None,
    role: Any,
    no_open: bool,
    **listen: Any,
) -> int | None:
    """Show the sessions of this machine in a browser and on a phone.

    \b
    accord web                                          here, in the browser
    accord web --host 0.0.0.0 --allow-host my-laptop.lan --tls-cert c.pem --tls-key k.pem
    accord web --public-url https://home.example        for a proxy with TLS

    The address that is printed pairs one device, within five minutes. `accord web pair` prints
    another one. The page can do what a shell can: others reach it only over TLS.
    """
    if ctx.invoked_subcommand is not None:
        return None
    endpoint = Endpoint(**listen, login=False)
    public = _checked_url(public_url)
    if not is_loopback(endpoint.host) and endpoint.tls_cert is None:
        raise click.UsageError(
            f"--host {endpoint.host}: others can reach this address, so it needs TLS: give "
            "--tls-cert and --tls-key, or listen on 127.0.0.1 and let a proxy with TLS pass "
            "requests on (--public-url)"
        )
    hosts = (*endpoint.hosts, endpoint.host, *([urlsplit(public).netloc] if public else []))
    origins = [f"https://{host}:{endpoint.port}" for host in hosts] if endpoint.tls_cert else []
    if public:
        origins.append(public)
    settings = WebSettings(
        roots=tuple(root.resolve() for root in roots or (Path(),)),
        agents=agents,
        public_url=public,
    )
    try:
        devices = Devices(web_file())
        app = WebApp(
            Store(),
            devices,
            Access(authenticate=lambda _: None, hosts=hosts, origins=origins),
            settings,
        )
    except (SessionsError, OSError, ValueError) as error:
        raise click.ClickException(str(error)) from None

    def announce(address: str) -> list[str]:
        shown = public or _named(address, endpoint)
        opens = f"{shown}/pair#{devices.new_code(role)}"
        if not no_open and is_loopback(endpoint.host) and not public:
            _open_browser(opens)
        lines = [
            f"Sessions of this machine: {shown}",
            f"Pair a device ({role}) within {CODE_S / 60:.0f} minutes, once: {opens}",
        ]
        if sys.stderr.isatty() and (public or not is_loopback(endpoint.host)):
            lines.append(terminal_picture(opens))
        return lines

    endpoint.serve(app, lambda: 0, announce)
    return 0


def _named(address: str, endpoint: Endpoint) -> str:
    """Return the address by which a device reaches this server: one of all has no name."""
    parts = urlsplit(address)
    if parts.hostname in ("0.0.0.0", "::") and endpoint.hosts:  # what was given
        name = endpoint.hosts[0]
        return f"{parts.scheme}://{name}" + ("" if ":" in name else f":{parts.port}")
    return address


def _checked_url(url: str | None) -> str | None:
    if url is None:
        return None
    parts = urlsplit(url)
    if parts.scheme not in ("https", "http") or not parts.netloc or parts.path.strip("/"):
        raise click.UsageError(f"--public-url: expected https://HOST, got {url!r}")
    if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        raise click.UsageError(f"--public-url: expected https for others, got {url!r}")
    return f"{parts.scheme}://{parts.netloc}"


@command.command("pair")
@click.option("--address", metavar="URL", help="Address of the server, such as https://my-laptop.")
@_role_option
def pair_command(address: str | None, role: Any) -> int:
    """Print a code that pairs one more device, as an address and a QR code."""
    base = _checked_url(address) or f"http://127.0.0.1:{PORT}"
    opens = f"{base}/pair#{_devices().new_code(role)}"
    click.echo(f"Open this address on the device ({role}) within {CODE_S / 60:.0f} minutes, once:")
    click.echo(opens)
    if sys.stdout.isatty():
        click.echo(terminal_picture(opens))
    return 0


@command.group("devices")
def devices_command() -> None:
    """List and revoke the devices that were paired."""


@devices_command.command("list")
def list_command() -> int:
    """List the devices that were paired."""
    found = _devices().all()
    if not found:
        click.echo("No device is paired")
    for device in found:
        seen = datetime.fromtimestamp(device.seen_at).strftime("%Y-%m-%d %H:%M")
        click.echo(f"{device.number:>3}  {device.role:<6}  {seen}  {one_line(device.name, 60)}")
    return 0


@devices_command.command("revoke")
@click.argument("number", type=int)
def revoke_command(number: int) -> int:
    """Forget the device NUMBER: it cannot see or do anything from now on."""
    if not _devices().revoke(number):
        raise click.ClickException(f"No device has the number {number}: `accord web devices list`")
    click.echo(f"Revoked the device {number}")
    return 0


def _devices() -> Devices:
    try:
        return Devices(web_file())
    except (SessionsError, OSError) as error:
        raise click.ClickException(str(error)) from None


def _open_browser(address: str) -> None:
    """Open the page, unless this is a terminal without windows."""
    has_windows = sys.platform in ("darwin", "win32") or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY")
    )
    if has_windows:
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
