"""What commands that the agent runs are given of its own environment."""

from __future__ import annotations

__all__ = ("without_keys",)


def without_keys() -> dict[str, str | None]:
    """Return the change that takes out the keys of models: commands have no use for them."""
    from accord.coder.models.sources import KEY_VARIABLES

    return dict.fromkeys(KEY_VARIABLES)
