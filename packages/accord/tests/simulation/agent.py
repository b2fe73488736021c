"""The agent of a run: each prompt selects a turn of the program."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from msgspec import Struct

from accord import Agent, MemoryStore, PlanEntry, RequestError, SelectOption
from accord.agent import store as stores
from accord.errors import FrameTooLarge, NotOffered
from accord.types.session import AvailableCommand, OptionChoice
from simulation import program as p
from simulation.world import PLANNED_CODE, Branch, Planned, World

__all__ = ("FaultyStore", "SimulatedAgent")


class Form(Struct):
    """The form that the agent sends."""

    name: str
    sure: bool = False


class FaultyStore(MemoryStore):
    """Answers late, and sometimes fails as with a full disk."""

    def __init__(self, spec: p.Store, chance: random.Random) -> None:
        super().__init__()
        self._spec = spec
        self._chance = chance
        self.failing = True

    async def _fault(self) -> None:
        spec, chance = self._spec, self._chance
        if spec.delay_s:
            await asyncio.sleep(spec.delay_s * chance.random())
        if self.failing and spec.fails_one_in and chance.randrange(spec.fails_one_in) == 0:
            raise OSError(28, "No space left on device")

    async def create(self, session: Any, entries: Sequence[bytes] = ()) -> None:
        await self._fault()
        await super().create(session, entries)

    async def get(self, session_id: str) -> Any:
        await self._fault()
        return await super().get(session_id)

    async def update(self, session: Any) -> None:
        await self._fault()
        await super().update(session)

    async def append(self, session_id: str, entry: bytes) -> None:
        await self._fault()
        await super().append(session_id, entry)

    async def read(self, session_id: str) -> list[bytes]:
        await self._fault()
        return await super().read(session_id)

    async def list(self, **given: Any) -> stores.SessionPage:
        await self._fault()
        return await super().list(**given)

    async def delete(self, session_id: str) -> None:
        await self._fault()
        await super().delete(session_id)


class SimulatedAgent(Agent):
    """Runs the turns of a program."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.unstable = world.program.unstable
        if (spec := world.program.store) is not None:
            chance = random.Random(f"store {world.program.seed}")
            self.store = FaultyStore(spec, chance)

    async def open_session(self, session: Any) -> None:
        choices = (OptionChoice("ask", "Ask"), OptionChoice("code", "Code"))
        mode = SelectOption(id="mode", name="Mode", value="ask", choices=choices, category="mode")
        await session.set_options([mode])
        await session.set_commands([AvailableCommand("test", "Test")])

    async def set_option(self, session: Any, option_id: str, value: str | bool) -> None:
        await asyncio.sleep(0.01)

    async def close_session(self, session: Any) -> None:
        self.world.closed.add(session.id)

    async def extension_request(self, method: str, params: Any, client: Any) -> Any:
        return params

    async def prompt(self, turn: Any) -> Any:
        world = self.world
        number = int(turn.text.split()[1])
        spec: p.Prompt = world.turns[number]
        player = _Player(world, turn, world.branch(turn.session.id, number), number)
        world.counts["turns"] += 1
        world.busy += 1
        try:
            return await player.acts(spec.acts)
        except asyncio.CancelledError:
            world.interrupted.add(number)
            raise
        finally:
            world.busy -= 1


class _Stopped(Exception):
    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class _Player:
    """Runs a list of acts, in a turn or in a subagent."""

    def __init__(self, world: World, verbs: Any, branch: Branch, number: int) -> None:
        self.world = world
        self.verbs = verbs
        self.branch = branch
        self.number = number

    async def acts(self, acts: Sequence[Any]) -> Any:
        """Run the acts; return the stop reason."""
        try:
            for act in acts:
                await self.act(act)
        except _Stopped as stopped:
            return stopped.reason
        return None

    @asynccontextmanager
    async def showing(self, *, kept: bool = True, later: bool = False) -> AsyncGenerator[Any, None]:
        """Yield the label of a new piece, and record whether it was sent."""
        piece, label = self.branch.next(kept=kept)
        try:
            yield label
        except FrameTooLarge:
            piece.state = "unknown"  # not sent; a store can have it
            return
        except BaseException:
            piece.state = "unknown"
            raise
        # In version 1 the text of a tool call is sent later, and completely each time.
        may_be_too_large = later and self.world.small_frames
        piece.state = "unknown" if may_be_too_large else "sent"

    async def show(
        self, pieces: int, size: int, pause_s: float, show: Any, *, later: bool = False
    ) -> None:
        for _ in range(pieces):
            async with self.showing(later=later) as label:
                await show(label + "x" * size)
            if pause_s:
                await asyncio.sleep(pause_s)

    async def act(self, act: Any, call: Any = None) -> None:  # a table
        verbs = self.verbs
        self.world.counts[f"act {type(act).__name__}"] += 1
        match act:
            case p.Say(pieces, size, thought, pause_s):
                await self.show(pieces, size, pause_s, verbs.think if thought else verbs.say)
            case p.Stream(pieces, size, pause_s):
                await self.show(pieces, size, pause_s, call.append_text, later=True)
            case p.Sleep(seconds):
                await asyncio.sleep(seconds)
            case p.Tool(acts, cancellable):
                await self.tool(acts, cancellable)
            case p.Diff(size):
                async with self.showing(later=True) as label:
                    await call.add_diff("/simulation/a.txt", None, label + "x" * size)
            case p.Ask():
                await call.permission()
            case p.Read(size):
                if verbs._core.client_adapter.reads_files:
                    await self.allowed(verbs.files.read(f"read-{size}.txt"))
            case p.Write(size):
                if verbs._core.client_adapter.writes_files:
                    await self.allowed(verbs.files.write("written.txt", "y" * size))
            case p.Run(seconds, lines, timeout_s):
                argv = ("simulated", str(seconds), str(lines))
                await self.allowed(verbs.terminals.run(*argv, timeout_s=timeout_s))
            case p.Fail():
                await call.fail("It failed")
            case p.Plan(markdown):
                async with self.showing(kept=False) as label:
                    if markdown:
                        await verbs.plan_markdown(label)
                    else:
                        await verbs.plan([PlanEntry(label), PlanEntry("next")])
            case p.Title():
                await verbs.set_title(f"Title {self.number}")
            case p.Notice():
                await verbs.show_notice("A notice")
            case p.Option(value):
                await verbs.session.set_option("mode", value)
            case p.Elicit():
                with suppress(NotOffered):
                    await self.allowed(verbs.elicit_form(Form, "Who?"))
            case p.Stubborn(seconds, pieces):
                try:
                    await asyncio.sleep(seconds)
                except asyncio.CancelledError:
                    await asyncio.sleep(seconds)
                    await self.show(pieces, 0, 0.0, verbs.say)
                    raise
            case p.Stop(reason):
                raise _Stopped(reason)
            case p.Raise(mistake):
                self.world.mistaken.add(self.number)
                if mistake:
                    raise Planned("a mistake of the agent")
                raise RequestError("planned", code=PLANNED_CODE)
            case p.Background(acts):
                player = self.inside(in_turn=False)

                async def work(call: Any) -> None:
                    self.world.busy += 1
                    try:
                        await player.in_tool(acts, call)
                    finally:
                        self.world.busy -= 1

                await verbs.run_in_background("Background", work)
            case p.Subagent(acts):
                await self.subagent(acts)
            case p.Parallel(branches):
                await self.parallel(branches)
            case p.Extension(notify, size):
                params = {"text": "z" * size}
                if notify:
                    await self.allowed(verbs.notify_extension("_simulation/told", params))
                else:
                    await self.allowed(verbs.call_extension("_simulation/asked", params))
            case _:
                raise AssertionError(act)

    async def allowed(self, call: Awaitable[Any]) -> Any:
        """Await a call to the client; an error response is not a mistake of the agent."""
        try:
            return await call
        except (RequestError, OSError, FrameTooLarge):
            return None

    def inside(self, *, in_turn: bool = True) -> _Player:
        """Return a player for acts that run concurrently."""
        in_turn = in_turn and self.branch.in_turn
        branch = self.world.branch(self.branch.session_id, self.number, in_turn=in_turn)
        return _Player(self.world, self.verbs, branch, self.number)

    async def tool(self, acts: Sequence[Any], cancellable: bool) -> None:
        from accord.agent.work import WorkCancelled

        with suppress(WorkCancelled):
            async with self.verbs.tool("Tool", name="tool", cancellable=cancellable) as call:
                await self.in_tool(acts, call)

    async def in_tool(self, acts: Sequence[Any], call: Any) -> None:
        for act in acts:
            await self.act(act, call)
            if isinstance(act, p.Fail):
                return  # later updates are not sent

    async def subagent(self, acts: Sequence[Any]) -> None:
        async with self.verbs.subagent("Subagent") as child:
            # For clients without subagents, their output is in a tool call of the parent.
            branch = self.world.branch("", self.number, in_turn=False)
            player = _Player(self.world, child, branch, self.number)
            for act in acts:
                await player.act(act)

    async def parallel(self, branches: Sequence[Sequence[Any]]) -> None:
        async def one(acts: Sequence[Any]) -> None:
            player = self.inside()
            for act in acts:
                await player.act(act)

        async with asyncio.TaskGroup() as group:
            for acts in branches:
                group.create_task(one(acts), name="simulated branch")
