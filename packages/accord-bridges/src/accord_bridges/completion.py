"""`accord run` as a click command, to complete it: the command itself runs without click."""

from __future__ import annotations

import click

from accord_bridges.command import make_parser

command: click.Command = click.Command(
    "run",
    params=[
        click.Argument(["object"], required=False),
        *(
            click.Option([action.option_strings[-1]], is_flag=action.nargs == 0)
            for action in make_parser()._actions  # noqa: SLF001  # argparse has no other way
            if action.option_strings
        ),
    ],
)
