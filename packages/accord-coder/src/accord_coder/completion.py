"""`accord agent` as a click command, to complete it: the command itself runs without click."""

from __future__ import annotations

import click

from accord_coder.command import AGENTS, FLAGS, OPTIONS

_NAME = click.Argument(["name"], type=click.Choice(AGENTS), required=False)

command: click.Command = click.Command(
    "agent",
    params=[
        _NAME,
        *(
            click.Option(
                [f"--{name}"],
                is_flag=name in FLAGS,
                type=click.Choice(choices) if choices else None,
            )
            for name, choices in OPTIONS.items()
        ),
    ],
)
