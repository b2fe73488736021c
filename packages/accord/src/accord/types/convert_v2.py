"""Conversion of content to and from version 2."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from accord import v2
from accord.types.content import ContentBlock, ResourceLink
from accord.types.convert import ContentConverter
from accord.types.diffs import git_patch
from accord.types.tool_calls import Diff, ToolCallLocation, ToolContent
from accord.wire.base import Unknown
from accord.wire.codec import convert, to_builtins


class _ConverterV2(ContentConverter[v2.ContentBlock, v2.ToolCallContent, v2.ToolCallLocation]):
    def diff_to_wire(self, diff: Diff) -> v2.ToolCallContent:
        patch = diff.patch
        change: v2.DiffChange = v2.DiffModify(path=diff.path)
        if patch is None:
            patch = git_patch(diff.path, diff.old, diff.new)
            if diff.old is None:
                change = v2.DiffAdd(path=diff.path)
            elif diff.new is None:
                change = v2.DiffDelete(path=diff.path)
        others = [v2.DiffModify(path=path) for path in diff.others]
        return v2.Diff(
            changes=[change, *others], patch=v2.DiffPatch(format="git_patch", text=patch)
        )

    def diff_from_wire(self, content: v2.ToolCallContent) -> Diff | None:
        """Return the first changed file, the paths of the others and the whole patch."""
        match content:
            case v2.Diff(changes=[first, *_]) if not isinstance(first, Unknown):
                paths = dict.fromkeys(path for change in content.changes for path in _paths(change))
                del paths[first.path]
                patch = content.patch.text if content.patch else None
                return Diff(first.path, patch=patch, others=tuple(paths))
            case _:
                return None

    def link_to_wire(self, link: ResourceLink) -> dict[str, Any]:
        return {"icons": convert(list(link.icons), list[v2.Icon])} if link.icons else {}

    def link_from_wire(self, block: v2.ResourceLink) -> dict[str, Any]:
        return {"icons": tuple(map(to_builtins, block.icons))} if block.icons else {}


def _paths(change: v2.DiffChange) -> Iterator[str]:
    """Yield the paths of a change, also of one of an unknown kind."""
    match change:
        case Unknown(raw=raw):
            paths = (raw.get("path"), raw.get("oldPath"))
            yield from (path for path in paths if isinstance(path, str))
        case v2.DiffMove() | v2.DiffCopy():
            yield from (change.path, change.old_path)
        case _:
            yield change.path


_converter = _ConverterV2(v2)
content_to_wire: Callable[[ContentBlock], v2.ContentBlock] = _converter.content_to_wire
content_from_wire: Callable[[v2.ContentBlock], ContentBlock] = _converter.content_from_wire
tool_content_to_wire: Callable[[ToolContent], v2.ToolCallContent] = _converter.tool_content_to_wire
tool_content_from_wire: Callable[[v2.ToolCallContent], ToolContent] = (
    _converter.tool_content_from_wire
)
location_to_wire: Callable[[Iterable[ToolCallLocation]], list[v2.ToolCallLocation]] = (
    _converter.locations_to_wire
)
