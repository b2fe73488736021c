"""Conversion of content to and from version 1."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from accord import v1
from accord.types.content import ContentBlock
from accord.types.convert import ContentConverter
from accord.types.tool_calls import Diff, ToolCallLocation, ToolContent


class _ConverterV1(ContentConverter[v1.ContentBlock, v1.ToolCallContent, v1.ToolCallLocation]):
    def diff_to_wire(self, diff: Diff) -> v1.ToolCallContent:
        return v1.Diff(path=diff.path, old_text=diff.old, new_text=diff.new or "")

    def diff_from_wire(self, content: v1.ToolCallContent) -> Diff | None:
        match content:
            case v1.Diff(path=path, old_text=old, new_text=new):
                return Diff(path, old, new)
            case _:
                return None


_converter = _ConverterV1(v1)
content_to_wire: Callable[[ContentBlock], v1.ContentBlock] = _converter.content_to_wire
content_from_wire: Callable[[v1.ContentBlock], ContentBlock] = _converter.content_from_wire
tool_content_to_wire: Callable[[ToolContent], v1.ToolCallContent] = _converter.tool_content_to_wire
tool_content_from_wire: Callable[[v1.ToolCallContent], ToolContent] = (
    _converter.tool_content_from_wire
)
location_to_wire: Callable[[Iterable[ToolCallLocation]], list[v1.ToolCallLocation]] = (
    _converter.locations_to_wire
)
