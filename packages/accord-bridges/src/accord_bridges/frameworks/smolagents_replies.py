"""What the models of smolagents say, shown while they say it.

smolagents streams the model's output as it is. Here, thoughts before code are told from the code,
calls are shown while their arguments arrive, and the argument of `final_answer` is the answer.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias

from smolagents import CodeAgent
from smolagents.models import agglomerate_stream_deltas

Work: TypeAlias = Any  # the `Work` of `smolagents`, which imports this module


class Model:
    """The model of an agent; what it says is shown as it arrives."""

    def __init__(self, model: Any, work: Work) -> None:
        self._model, self._work = model, work

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def generate(self, messages: Any, stop_sequences: Any = None, **more: Any) -> Any:
        work = self._work
        said = _said(work, stop_sequences)
        more["stop_sequences"] = stop_sequences
        message = work.threads.work(partial(self._ask, said, messages, more))
        if (used := message.token_usage) is not None:
            counts = {"input": used.input_tokens, "output": used.output_tokens}
            work.post(partial(work.shown.used, **counts))
        return message

    __call__ = generate

    def _ask(self, said: _Said, messages: Any, more: dict[str, Any]) -> Any:
        model = self._model
        structured = more.get("response_format") is not None
        if structured or not self._work.turn.streams or not hasattr(model, "generate_stream"):
            message = model.generate(messages, **more)
            said.whole(message)
            return message
        deltas: list[Any] = []
        stream = model.generate_stream(messages, **more)
        try:
            for delta in stream:
                deltas.append(delta)
                said.add(delta)
        finally:
            if inspect.isgenerator(stream):
                stream.close()
        said.end()
        return agglomerate_stream_deltas(deltas)


def _said(work: Work, stop_sequences: Any) -> _Said:
    """Return what shows a reply: to a plan, to a step, or to the last request of all."""
    if stop_sequences is None:
        return _Said(work, work.shown.say, is_answer=True)
    if "<end_plan>" in stop_sequences:
        return _Said(work, work.shown.think)
    if not isinstance(work.agent, CodeAgent):
        return _Said(work, work.shown.say)
    return _Code(work, work.shown.think)


class _Said:
    """Shows one reply of the model."""

    def __init__(self, work: Work, show: Callable[..., Any], *, is_answer: bool = False) -> None:
        self._work, self._post, self._show = work, work.post, show
        self._is_answer = is_answer
        self._calls: dict[int, str | Answer] = {}
        work.said = work.told = ""
        work.streamed = []
        self._post(work.shown.message, work.turn.new_id("message"))

    def add(self, delta: Any) -> None:
        """Show a delta."""
        if delta.content:
            self.text(delta.content)
        for call in delta.tool_calls or ():
            self._add_call(call)

    def text(self, text: str) -> None:
        if self._is_answer:
            self._work.said += text
        else:
            self._work.told += text
        self._post(self._show, text)

    def whole(self, message: Any) -> None:
        """Show a reply that has not been streamed."""
        if isinstance(message.content, str) and message.content:
            self.text(message.content)
        self.end()

    def end(self) -> None:
        """Show what was held back."""

    def _add_call(self, delta: Any) -> None:
        work, function = self._work, delta.function
        call = self._calls.get(delta.index)
        if call is None:
            if function is None or not function.name:
                return
            if function.name == "final_answer" and work.streams_answer:
                call = Answer()
            elif work.is_shown(function.name):
                call = work.turn.new_id("call")
                work.streamed.append(call)
                self._post(work.shown.begin_call, call, function.name)
            else:
                call = ""
            self._calls[delta.index] = call
        if function is None or not function.arguments:
            return
        if isinstance(call, Answer):
            if text := call.add(function.arguments):
                work.said += text
                self._post(work.shown.say, text)
        elif call:
            self._post(work.shown.add_arguments, call, function.arguments)


class _Code(_Said):
    """Shows a reply of a `CodeAgent`: the text before the code; the code is shown as a call."""

    _PREFIX = "Thought:"

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._marks = (self._work.agent.code_block_tags[0], "```py")
        self._held = ""
        self._is_first = True
        self._is_code = False

    def text(self, text: str) -> None:
        if self._is_code:
            return
        self._held += text
        if self._is_first:
            start = self._held.lstrip()
            if len(start) < len(self._PREFIX) and self._PREFIX.startswith(start):
                return
            self._held = start.removeprefix(self._PREFIX).lstrip()
            self._is_first = False
        held = self._held
        at = min((n for n in map(held.find, self._marks) if n >= 0), default=-1)
        if at >= 0:
            self._is_code = True
            self._held = ""
            self._tell(held[:at].rstrip())
            return
        kept = max(_overlap(held, mark) for mark in self._marks)
        kept += len(held) - kept - len(held[: len(held) - kept].rstrip())
        self._held = held[len(held) - kept :]
        self._tell(held[: len(held) - kept])

    def whole(self, message: Any) -> None:
        content = message.content
        with suppress(TypeError, ValueError, KeyError):  # `use_structured_outputs_internally`
            content = json.loads(content)["thought"]
        if isinstance(content, str):
            self.text(content)
        self.end()

    def end(self) -> None:
        held, self._held = self._held.rstrip(), ""
        if not self._is_code:
            self._tell("" if self._is_first and self._PREFIX.startswith(held) else held)

    def _tell(self, text: str) -> None:
        if text:
            self._post(self._show, text)


def _overlap(text: str, mark: str) -> int:
    """Return how many characters at the end of a text may be the beginning of a mark."""
    return next((n for n in range(len(mark) - 1, 0, -1) if text.endswith(mark[:n])), 0)


class Answer:
    """The final answer while the model writes it, as the JSON of arguments."""

    _START = re.compile(r'\s*\{\s*"answer"\s*:\s*"')
    _WHOLE = re.compile(
        r'(?:[^"\\]|\\["\\/bfnrt]|\\u(?![dD][89abAB])[0-9a-fA-F]{4}'
        r"|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})*"
    )

    def __init__(self) -> None:
        self._held = ""
        self._is_in = False

    def add(self, piece: str) -> str:
        """Return the text that is complete with this piece of JSON."""
        self._held += piece
        if not self._is_in:
            if (start := self._START.match(self._held)) is None:
                return ""
            self._is_in = True
            self._held = self._held[start.end() :]
        elif self._held[:1] == '"':
            return ""
        found = self._WHOLE.match(self._held)
        assert found is not None, "it matches nothing, too"
        self._held = self._held[found.end() :]
        return str(json.loads(f'"{found.group()}"', strict=False))
