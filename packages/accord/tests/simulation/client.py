"""A client of a run: it runs its program, and checks the updates it receives."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import accord
from accord import InternalError, LocalProtocolError, RequestError, TransportError
from accord.connection.limits import Limits
from accord.errors import BacklogExceeded, CancelTimeout, FrameTooLarge, RequestCancelled
from accord.transports.base import FRAME_BYTES
from simulation import program as p
from simulation.oracles import Taker, all_acts, check_backlogs, check_transcripts, judge_turn
from simulation.world import PLANNED_CODE, World

__all__ = ("SimulatedClient",)

CALL_S = 120.0  # for any call that is not a prompt, in addition to the time on the network
_NOT_NOW = (
    "still running",
    "loaded again",
    "has no modes",
    "has no option",
    "cannot be cancelled",
    "cannot cancel",
)


class _Left(Exception):
    """Raised to leave a turn."""


class _Texts:
    """The files of a client: reads and writes are delayed, and only in memory."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._texts: dict[str, str] = {}

    async def read(self, path: str) -> str:
        await asyncio.sleep(self._chance.choice((0.0, 0.0, 0.01)))
        if path in self._texts:
            return self._texts[path]
        name, _, size = path.rpartition("/")[2].partition("-")
        if name != "read":
            raise FileNotFoundError(path)
        return "r" * int(size.removesuffix(".txt"))

    async def write(self, path: str, text: str) -> None:
        await asyncio.sleep(self._chance.choice((0.0, 0.0, 0.01)))
        self._texts[path] = text


class SimulatedClient:
    """One connection, its actors, and their sessions."""

    def __init__(self, world: World, number: int, spec: p.Client) -> None:
        self.world = world
        self.number = number
        self.spec = spec
        self.chance = random.Random(f"client {world.program.seed} {number}")
        self.agent: accord.ConnectedAgent = None  # type: ignore[assignment]
        self.actors = [_Actor(self, index, actor) for index, actor in enumerate(spec.actors)]
        self.sessions: dict[str, Any] = {}  # the last session object of each
        self.whole: dict[str, bool] = {}  # whether the transcript must be complete
        self.leaving = asyncio.Event()

    @property
    def is_cut(self) -> bool:
        return self.number in self.world.cut

    async def run(
        self, transport: Callable[[], Any], settle: Callable[[], Awaitable[None]]
    ) -> None:
        """Connect, run the actors, check the results, and leave."""
        spec, world = self.spec, self.world
        await asyncio.sleep(spec.starts_after_s)
        limits = Limits(
            backlog_messages=spec.waiting,
            backlog_bytes=spec.waiting_bytes,
            max_backlog_messages=spec.max_waiting,
        )
        connecting = accord.connect(
            transport,
            permissions=self._decide,
            files=_Texts(self.chance) if spec.files else None,
            terminals=spec.terminals,
            on_elicit_form=self._fill_in if spec.forms else None,
            extensions={"_simulation/asked": self._asked, "_simulation/told": self._told},
            unstable=spec.unstable,
            limits=limits,
            versions=spec.versions,
        )
        entered = False
        left_at = 0.0
        try:
            async with connecting as self.agent:
                entered = True
                world.trace("connected", self.agent.version)
                world.counts[f"v{self.agent.version}"] += 1
                await self._act()
                if not self.is_cut:
                    await settle()
                check_transcripts(world, self)
                check_backlogs(world, self, settled=not self.is_cut)
                left_at = world.loop.time()
        except Exception as error:  # noqa: BLE001  # judged
            left_at = left_at or world.loop.time()
            if entered or not self.is_cut:
                self.unexpected("connect", error)
        if left_at and world.loop.time() - left_at > CALL_S:
            world.fail("leaving takes too long", f"{world.loop.time() - left_at:.0f} s")

    async def _act(self) -> None:
        acting = [
            asyncio.create_task(actor.run(), name=f"simulated actor {actor.number}")
            for actor in self.actors
        ]
        if not acting:
            return
        leaving = asyncio.create_task(self.leaving.wait(), name="simulated leave")
        every = asyncio.create_task(asyncio.wait(acting), name="simulated actors")
        await asyncio.wait([every, leaving], return_when=asyncio.FIRST_COMPLETED)
        for task in acting:
            task.cancel()
        leaving.cancel()
        await every
        for task in acting:
            if not task.cancelled() and (error := task.exception()) is not None:
                self.unexpected("actor", error)

    # Calls of the client.

    async def call(self, name: str, call: Awaitable[Any], *, session: Any = None) -> Any:
        """Await a call; it must end in time, and only in an allowed way."""
        world = self.world
        world.counts[f"call {name}"] += 1
        began_s = world.loop.time()
        try:
            result = await call
        except Exception as error:  # noqa: BLE001  # judged
            self.unexpected(name, error, session)
            result = None
        took_s = world.loop.time() - began_s
        world.trace("call", name, took_s)
        longest_s = CALL_S + self.spec.slow_user_s + self.spec.network.longest_s(1_000_000)
        if took_s > longest_s:
            world.fail(f"call: {name} takes too long", f"{took_s:.0f} s, not {longest_s:.0f} s")
        return result

    def unexpected(self, name: str, error: BaseException, session: Any = None) -> None:
        """Report an error unless the program explains it."""
        world = self.world
        world.trace("error", name, type(error).__name__)
        world.counts[f"error {type(error).__name__}"] += 1
        small_frames = self.spec.network.frame_bytes < FRAME_BYTES
        match error:
            case BacklogExceeded() if self.spec.max_waiting < 1000:
                return
            case FrameTooLarge() | InternalError() if small_frames:
                return
            case CancelTimeout():
                return  # judged elsewhere: only a turn that can take long ends like this
            case TimeoutError() if name == "connect" and self.spec.network.longest_s(5000) > 60:
                return
            case TransportError() if self.is_cut or self.leaving.is_set():
                return
            case LocalProtocolError() if any(text in str(error) for text in _NOT_NOW):
                return
            case RequestError(code=code):
                if code == PLANNED_CODE or world.lenient:
                    return
                if session is not None and session.id in world.closed:
                    return
                if "A turn is running" in str(error):
                    return
                if (
                    isinstance(error, RequestCancelled)
                    and session
                    and session.id in world.may_be_cancelled
                ):
                    return  # queued after a turn that another object of the session cancelled
            case _:
                pass
        kind = f"{name}: {type(error).__name__}"
        if isinstance(error, RequestError):
            kind += f" {error.code}"
        world.fail(kind, repr(error))

    # Requests of the agent.

    async def _decide(self, request: accord.PermissionRequest) -> Any:
        await asyncio.sleep(self.spec.slow_user_s)
        if self.spec.asks_back and not self.is_cut:
            await self.call("new_session in a policy", self.agent.new_session("/simulation"))
        return self.chance.choice(("allow", "allow", "reject", "allow_always", "cancel", None))

    async def _fill_in(self, form: Any) -> Any:
        await asyncio.sleep(self.spec.slow_user_s)
        return self.chance.choice(({"name": "A"}, {"name": "B", "sure": True}, None))

    def _asked(self, params: Any) -> Any:
        return {"size": len(params["text"])}

    async def _told(self, params: Any) -> None:
        await asyncio.sleep(self.chance.choice((0.0, 0.5)))


class _Actor:
    """Runs its steps one after the other."""

    def __init__(self, client: SimulatedClient, number: int, spec: p.Actor) -> None:
        self.client = client
        self.world = client.world
        self.number = number
        self.spec = spec
        self.session: Any = None

    async def run(self) -> None:
        for step in self.spec.steps:
            await self.step(step)

    def _of(self, other: int | None) -> Any:
        if other is None:
            return self.session
        actors = self.client.actors
        return actors[other % len(actors)].session

    async def step(self, step: Any) -> None:  # a table
        client, world = self.client, self.world
        agent, call = client.agent, client.call
        if client.is_cut and not isinstance(step, p.New | p.Prompt):
            return
        session = self.session
        match step:
            case p.New():
                await self._open(await call("new_session", agent.new_session("/simulation")))
            case p.Prompt():
                await self._prompt(step)
            case p.Wait(seconds):
                await asyncio.sleep(seconds)
            case p.Leave():
                world.cut.add(client.number)
                client.leaving.set()
            case p.ListSessions() if agent.supports("list_sessions"):
                await call("list_sessions", self._list())
            case p.Load(of, replay) if agent.supports("load_session"):
                await self._load(of, replay=replay)
            case p.Extension(notify, size):
                params = {"text": "z" * size}
                if notify:
                    await call("notify", agent.notify_extension("_simulation/told", params))
                else:
                    await call("extension", agent.call_extension("_simulation/asked", params))
            case _ if session is None:
                return
            case p.Close() if agent.supports("close_session"):
                world.closed.add(session.id)
                self.session = None
                await call("close", session.close(), session=session)
            case p.Delete() if agent.supports("delete_session"):
                world.closed.add(session.id)
                self.session = None
                await call("delete", agent.delete_session(session.id), session=session)
            case p.Fork() if agent.supports("fork_session"):
                forked = agent.fork_session(session.id, "/simulation")
                await self._open(await call("fork", forked, session=session), whole=False)
            case p.Status() if agent.supports("session_status"):
                await call("status", session.status(), session=session)
            case p.Rename() if agent.supports("set_session_title"):
                await call("rename", session.rename("A title"), session=session)
            case p.SetMode(value):
                await call("set_mode", session.set_mode(value), session=session)
            case p.Cancel(of):
                if (other := self._of(of)) is not None:
                    world.counts["cancels"] += 1
                    world.may_be_cancelled.add(other.id)
                    await call("cancel", other.cancel(), session=other)
            case p.CancelTool(of):
                if (other := self._of(of)) is not None:
                    for tool in other.transcript.tool_calls:
                        if tool.cancellable and not tool.is_final:
                            await call(
                                "cancel_tool_call", _ended_or(other.cancel_tool_call(tool.id))
                            )
                            break
            case _:
                pass

    async def _list(self) -> None:
        async for _ in self.client.agent.list_sessions():
            pass

    async def _open(self, session: Any, *, whole: bool = True) -> None:
        if session is not None:
            self.session = session
            self.client.sessions[session.id] = session
            self.client.whole[session.id] = whole
            self.world.trace("opened", session.id)

    async def _load(self, of: int | None, *, replay: bool) -> None:
        client, world = self.client, self.world
        other = self.session if of is None else world.session_of(of)
        if other is None:
            return
        owned = other.id in client.sessions
        if not owned:
            world.closed.add(other.id)  # where it was open; from now on the state is unknown
        world.may_be_cancelled.add(other.id)  # a turn of it on this client ends
        if owned and other.id not in world.closed:
            world.loaded.add(other.id)
        stored = replay and world.program.store is not None
        whole = stored and client.whole.get(other.id, True)
        client.whole[other.id] = False  # updates in between reach neither object
        loading = client.agent.load_session(other.id, "/simulation", replay=replay)
        loaded = await client.call("load_session", loading, session=other)
        await self._open(loaded, whole=whole)

    async def _prompt(self, step: p.Prompt) -> None:
        if self.session is None:
            await self.step(p.New())
        if self.session is None:
            return
        playing = asyncio.create_task(
            _Play(self, self.session, step).run(), name=f"simulated turn of {self.number}"
        )
        try:
            if step.drop_after_s is None:
                await playing
                return
            await asyncio.wait([playing], timeout=step.drop_after_s)
            if not playing.done():
                self.world.may_be_cancelled.add(self.session.id)
                playing.cancel()
                await asyncio.wait([playing])
            if not playing.cancelled():
                playing.result()
        except asyncio.CancelledError:
            playing.cancel()
            await asyncio.wait([playing])
            raise


class _Play:
    """One turn, from the client's side."""

    def __init__(self, actor: _Actor, session: Any, step: p.Prompt) -> None:
        self.actor = actor
        self.world = actor.world
        self.session = session
        self.step = step
        self.number = len(self.world.turns)
        self.world.turns.append(step)

    async def run(self) -> None:
        step, world, session = self.step, self.world, self.session
        turn = session.prompt(f"turn {self.number} " + "p" * step.size)
        taker = Taker(world, session.id, self.number)
        first = len(world.branches)
        cancelling: asyncio.Task[None] | None = None
        try:
            async with turn:
                if step.cancel_after_s is not None:
                    cancelling = asyncio.create_task(
                        self._cancel_later(turn), name="simulated cancel"
                    )
                if step.take == "events":
                    await self._take(turn, taker)
                    if turn.error is None and not self._is_replaced:
                        own = [b for b in world.branches[first:] if b.turn == self.number]
                        taker.complete(own)
                elif step.take == "wait":
                    await turn.wait()
        except _Left:
            pass
        except Exception as error:  # noqa: BLE001  # judged
            if isinstance(error, CancelTimeout) and not self._may_be_slow():
                world.fail("a cancelled turn does not end")
            if not isinstance(error, RequestError) or self.number not in world.mistaken:
                self.actor.client.unexpected("prompt", error, session)
        finally:
            if cancelling is not None:
                cancelling.cancel()
                await asyncio.wait([cancelling])
        world.trace("turn", self.number, turn.stop_reason)
        if turn.error is None and not self.actor.client.is_cut and turn.stop_reason is not None:
            judge_turn(world, self.number, session.id, turn.stop_reason)

    async def _take(self, turn: Any, taker: Taker) -> None:
        step, count = self.step, 0
        async for event in turn:
            count += 1
            taker.see(event)
            check_backlogs(self.world, self.actor.client)
            for inside in step.inside:
                if inside.at == count:
                    await self._inside(inside.step)
            if step.cancel_at == count:
                await self._cancel(turn)
            if step.leave_at == count:
                self.world.may_be_cancelled.add(self.session.id)
                raise _Left
            if step.pace_s and count <= step.paced:
                await asyncio.sleep(step.pace_s)

    @property
    def _is_replaced(self) -> bool:
        """Return whether another object, or none, receives the events of the session."""
        return self.actor.client.is_cut or self.session.id in self.world.loaded

    def _may_be_slow(self) -> bool:
        """Return True if a cancelled turn can take longer than the client waits."""
        network, store = self.actor.client.spec.network, self.world.program.store
        return (
            any(isinstance(act, p.Stubborn) for act in all_acts(self.step.acts))
            or network.longest_s(100_000) > 3
            or (store is not None and store.delay_s > 0.1)
        )

    async def _inside(self, step: Any) -> None:
        if isinstance(step, p.New | p.Load | p.Fork | p.Prompt | p.Close):
            # In a new session; the turn continues.
            other = _Actor(self.actor.client, self.actor.number, p.Actor())
            other.session = None if isinstance(step, p.Prompt) else self.session
            await other.step(step)
        else:
            await self.actor.step(step)

    async def _cancel_later(self, turn: Any) -> None:
        assert self.step.cancel_after_s is not None
        await asyncio.sleep(self.step.cancel_after_s)
        await self._cancel(turn)

    async def _cancel(self, turn: Any) -> None:
        self.world.counts["cancels"] += 1
        self.world.may_be_cancelled.add(self.session.id)
        await self.actor.client.call("turn.cancel", turn.cancel(), session=self.session)


async def _ended_or(call: Awaitable[None]) -> None:
    """Await a cancel of something that might just have ended."""
    with suppress(RequestError):
        await call
