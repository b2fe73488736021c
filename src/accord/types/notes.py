"""Annotations and `_meta` of content, which both versions write alike."""

from __future__ import annotations

from typing import Any

from accord.types.content import Annotations

__all__ = ("annotations_from_wire", "annotations_to_wire")


def annotations_to_wire(types: Any, content: Any) -> dict[str, Any]:
    """Return the annotations and `_meta` of content as a version writes them, if there are any."""
    found: dict[str, Any] = {}
    if (annotations := content.annotations) is not None:
        audience = annotations.audience
        found["annotations"] = types.Annotations(
            audience=None if audience is None else list(audience),
            last_modified=annotations.last_modified,
            priority=annotations.priority,
            meta=annotations.meta,
        )
    if content.meta is not None:
        found["meta"] = content.meta
    return found


def annotations_from_wire(block: Any) -> dict[str, Any]:
    """Return the annotations and `_meta` of a content block, if there are any."""
    found: dict[str, Any] = {}
    if (annotations := block.annotations) is not None:
        audience = annotations.audience
        found["annotations"] = Annotations(
            audience=None if audience is None else tuple(map(str, audience)),
            priority=annotations.priority,
            last_modified=annotations.last_modified,
            meta=annotations.meta,
        )
    if block.meta is not None:
        found["meta"] = block.meta
    return found
