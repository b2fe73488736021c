"""The state of a graph between turns: one thread for each session.

`Thread` hides where the state is. With a checkpointer of the author, it is there, under the id of
the session. Without one, or with an `InMemorySaver`, it is in memory and stored with the session at
the end of each turn, its messages one by one, so that a long conversation is not written again.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

try:
    from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
    from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.graph import END
    from langgraph.types import StateSnapshot
except ImportError as error:
    raise ImportError(
        f"{error}; this bridge needs langgraph 1.2: pip install 'langgraph>=1.2'"
    ) from error

CANCELLED = "This call was cancelled, or did not end. It has no result."


class Thread:
    """The state of one session's graph. Open it with `Thread.open`."""

    def __init__(self, session_id: str, own: _SessionSaver | None) -> None:
        self.id = session_id
        self._own = own
        self.graph: Any = None
        self.notes: dict[str, Any] = {}
        """What a turn leaves for the next one, as JSON; stored with the state."""

    @classmethod
    async def open(cls, session_id: str, graph: Any, remembered: Any) -> Thread:
        """Return the thread of a session that is new, loaded or a copy of another one."""
        kept: list[Any] = remembered or []
        tail: dict[str, Any] = dict(kept[-1]) if kept else {}
        saver = graph.checkpointer
        if isinstance(saver, BaseCheckpointSaver) and not isinstance(saver, InMemorySaver):
            thread = cls(session_id, None)
            await thread.use(graph)
            source = tail.get("thread", session_id)
            if source != session_id:
                await thread._copy_from(source)
        else:
            serde = saver.serde if isinstance(saver, InMemorySaver) else None
            thread = cls(session_id, _SessionSaver(serde))
            await thread.use(graph)
            if "spaces" in tail:
                thread._own.load(session_id, kept)
        thread.notes = tail.get("notes", {})
        return thread

    async def use(self, graph: Any) -> None:
        """Continue with this graph, which was made again with other tools or another model."""
        if self._own is not None:
            self.graph = graph.copy({"checkpointer": self._own})
            return
        self.graph = graph
        try:
            await graph.checkpointer.aget_tuple(self.config)
        except NotImplementedError:  # for programs without asyncio, such as `SqliteSaver`
            self.graph = graph.copy({"checkpointer": _InThreads(graph.checkpointer)})

    @property
    def config(self) -> dict[str, Any]:
        return {"configurable": {"thread_id": self.id}}

    async def state(self) -> StateSnapshot:
        """Return the state, with what the graph would do next."""
        return await self.graph.aget_state(self.config)

    async def stop(self) -> None:
        """Give up what the graph would do next; what its tasks have completed is kept."""
        if is_open(await self.state()):
            await self.graph.aupdate_state(self.config, None, as_node=END)

    async def go_back(self, before: StateSnapshot) -> None:
        """Make the state what it was before a turn."""
        if before.created_at is None:
            await self.graph.checkpointer.adelete_thread(self.id)
        else:
            await self.graph.aupdate_state(before.config, None, as_node="__copy__")

    async def stored(self) -> list[Any]:
        """Return what `open` continues from, as JSON."""
        if self._own is None:
            return [{"thread": self.id, "notes": self.notes}]
        state = await self.state()
        messages, spaces = self._own.dump(self.id, self._deltas(state), every=is_open(state))
        return [*messages, {"spaces": spaces, "notes": self.notes}]

    def _deltas(self, state: StateSnapshot) -> Mapping[str, Any]:
        """Return the channels of which a checkpoint has the changes only, with their values."""
        return {
            name: state.values[name]
            for name, channel in self.graph.channels.items()
            if type(channel).__name__ == "DeltaChannel" and name in state.values
        }

    async def _copy_from(self, source: str) -> None:
        """Copy the state of another thread, unless this one has a state."""
        saver: BaseCheckpointSaver[Any] = self.graph.checkpointer
        if await saver.aget_tuple(self.config) is not None:
            return
        try:
            await saver.acopy_thread(source, self.id)
        except NotImplementedError:
            found = [each async for each in saver.alist({"configurable": {"thread_id": source}})]
            is_delta = any(type(c).__name__ == "DeltaChannel" for c in self.graph.channels.values())
            last: dict[str, CheckpointTuple] = {}
            for each in found:  # the newest first
                last.setdefault(each.config["configurable"].get("checkpoint_ns", ""), each)
            for each in reversed(found if is_delta else list(last.values())):
                await _copy(saver, each, self.id)


async def _copy(saver: BaseCheckpointSaver[Any], each: CheckpointTuple, thread_id: str) -> None:
    space = each.config["configurable"].get("checkpoint_ns", "")
    place: dict[str, Any] = {"thread_id": thread_id, "checkpoint_ns": space}
    if each.parent_config is not None:
        place["checkpoint_id"] = each.parent_config["configurable"]["checkpoint_id"]
    versions = each.checkpoint["channel_versions"]
    stored = await saver.aput({"configurable": place}, each.checkpoint, each.metadata, versions)
    writes: dict[str, list[tuple[str, Any]]] = {}
    for task_id, channel, value in each.pending_writes or ():
        writes.setdefault(task_id, []).append((channel, value))
    for task_id, of_task in writes.items():
        await saver.aput_writes(stored, of_task, task_id)


def is_open(state: StateSnapshot) -> bool:
    """Return whether there is something to continue; some releases leave `next` empty then."""
    return bool(state.next or state.interrupts)


# The calls that have no result.


def dangling(messages: Any) -> list[dict[str, Any]]:
    """Return the calls of the last reply that have no result: models refuse such a history."""
    if not isinstance(messages, Sequence):
        return []
    answered = {each.tool_call_id for each in messages if isinstance(each, ToolMessage)}
    for each in reversed(messages):
        if isinstance(each, AIMessage):
            calls: list[Any] = [*each.tool_calls, *each.invalid_tool_calls]
            return [call for call in calls if call["id"] and call["id"] not in answered]
    return []


def without_result(calls: Sequence[Mapping[str, Any]], why: str = CANCELLED) -> list[ToolMessage]:
    """Return a message for each call, in the place of its result."""
    return [
        ToolMessage(why, tool_call_id=call["id"], name=call["name"] or "unknown", status="error")
        for call in calls
    ]


# Checkpointers.


class _SessionSaver(InMemorySaver):
    """The checkpoints of one session in memory, of which the last can be stored."""

    def __init__(self, serde: Any = None) -> None:
        super().__init__(serde=serde)

    def dump(
        self, thread_id: str, deltas: Mapping[str, Any], *, every: bool
    ) -> tuple[list[Any], dict[str, Any]]:
        """Return the messages and the last checkpoints, as JSON; the others are forgotten.

        Checkpoints of subgraphs that belong to a task are stored if there are tasks to continue.
        """
        messages: list[Any] = []
        spaces: dict[str, Any] = {}
        for space, checkpoints in self.storage.get(thread_id, {}).items():
            if not checkpoints or not (every or ":" not in space):
                continue
            last = max(checkpoints)
            checkpoint, metadata, _ = checkpoints[last]
            blobs: dict[str, Any] = {}
            versions = self.serde.loads_typed(checkpoint)["channel_versions"]
            for channel, version in versions.items():
                blob = self.blobs.get((thread_id, space, channel, version))
                if not space and channel in deltas:
                    blob = self.serde.dumps_typed(deltas[channel])
                if blob is None:
                    continue
                if not space and channel == "messages" and blob[0] != "empty":
                    value = self.serde.loads_typed(blob)
                    if isinstance(value, list) and all(isinstance(m, BaseMessage) for m in value):
                        messages = [_text(self.serde.dumps_typed(each)) for each in value]
                        blobs[channel] = [version]
                        continue
                blobs[channel] = [version, *_text(blob)]
            writes = [
                [task, index, channel, *_text(value), path]
                for (_, index), (task, channel, value, path) in self.writes.get(
                    (thread_id, space, last), {}
                ).items()
            ]
            spaces[space] = {
                "id": last, "checkpoint": _text(checkpoint), "metadata": _text(metadata),
                "blobs": blobs, "writes": writes,
            }  # fmt: skip
        self.load(thread_id, [*messages, {"spaces": spaces}])
        return messages, spaces

    def load(self, thread_id: str, kept: Sequence[Any]) -> None:
        """Have what `dump` has returned, and nothing else."""
        self.delete_thread(thread_id)
        for space, stored in kept[-1]["spaces"].items():
            for channel, (version, *blob) in stored["blobs"].items():
                if blob:
                    value = _typed(blob)
                else:
                    each = [self.serde.loads_typed(_typed(item)) for item in kept[:-1]]
                    value = self.serde.dumps_typed(each)
                self.blobs[thread_id, space, channel, version] = value
            last = stored["id"]
            self.storage[thread_id][space][last] = (
                _typed(stored["checkpoint"]), _typed(stored["metadata"]), None,
            )  # fmt: skip
            for task, index, channel, kind, data, path in stored["writes"]:
                self.writes[thread_id, space, last][task, index] = (
                    task, channel, _typed((kind, data)), path,
                )  # fmt: skip


def _text(typed: tuple[str, bytes]) -> list[str]:
    return [typed[0], base64.b64encode(typed[1]).decode()]


def _typed(stored: Sequence[str]) -> tuple[str, bytes]:
    return stored[0], base64.b64decode(stored[1])


class _InThreads(BaseCheckpointSaver[Any]):
    """A checkpointer that has no methods for asyncio, used in threads."""

    def __init__(self, saver: BaseCheckpointSaver[Any]) -> None:
        super().__init__(serde=saver.serde)
        self._saver = saver
        for name in ("get_tuple", "list", "put", "put_writes", "get_next_version"):
            setattr(self, name, getattr(saver, name))

    async def aget_tuple(self, config: Any) -> CheckpointTuple | None:
        return await asyncio.to_thread(self._saver.get_tuple, config)

    async def alist(self, config: Any, **more: Any) -> AsyncIterator[CheckpointTuple]:
        for each in await asyncio.to_thread(lambda: list(self._saver.list(config, **more))):
            yield each

    async def aput(self, *args: Any) -> Any:
        return await asyncio.to_thread(self._saver.put, *args)

    async def aput_writes(self, *args: Any) -> None:
        await asyncio.to_thread(self._saver.put_writes, *args)

    async def adelete_thread(self, thread_id: str) -> None:
        await asyncio.to_thread(self._saver.delete_thread, thread_id)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        await asyncio.to_thread(self._saver.copy_thread, source_thread_id, target_thread_id)

    async def aget_delta_channel_history(self, **more: Any) -> Any:
        return await asyncio.to_thread(lambda: self._saver.get_delta_channel_history(**more))
