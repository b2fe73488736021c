"""One attempt: workspace, agent, session, turns, grader, recording.

`run_attempt` is its whole life. What goes wrong in it is in the result; nothing is raised.
"""

from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import Awaitable, Iterable
from contextlib import ExitStack, suppress
from pathlib import Path

from accord import Budget, ClientSession, UsageChanged
from accord.client.budget import LimitReached as BudgetReached
from accord.client.budget import SessionMeter, reports_of
from accord.client.permissions import Policy, allow, chain, deny
from accord.errors import AccordError, BudgetExceeded, RequestError, TransportError
from accord.text.excerpt import one_line
from accord.types.session import SelectOption
from accord_fleet.agents import (
    AttemptUsage,
    Direction,
    RunningAgent,
    attempt_name,
    launch_for,
    working_for,
)
from accord_fleet.machine import Machine
from accord_fleet.plan import RunSettings
from accord_fleet.recording import AttemptRecording
from accord_fleet.redaction import StderrTail
from accord_fleet.run import Attempted, Control
from accord_fleet.tasks.read import mcp_servers
from accord_fleet.types import (
    AttemptFailed,
    FailedPart,
    Failure,
    GradedAttempt,
    LimitName,
    LimitReached,
    Limits,
    Permissions,
    Result,
    Status,
    Task,
    Times,
    Verdict,
    WorkItem,
)
from accord_fleet.workspaces.prepare import PreparedFolder, WorkspaceDiff


def policy_for(task: Permissions, settings: RunSettings) -> Policy | None:
    """Return the policy: what is denied first, then what is allowed; None denies everything."""
    both = (task, settings.permissions)
    policies: list[Policy] = [deny(*rules.deny) for rules in both if rules.deny]
    policies += [allow(*rules.allow) for rules in both if rules.allow]
    policies += settings.policy
    return chain(*policies) if policies else None


_SHOWN = 20


async def apply_settings(session: ClientSession, task: Task) -> None:
    """Set the mode and the options of a session.

    Raise `AttemptFailed` with what the agent offers, if it does not offer one of them.
    """
    if task.mode is not None:
        option = session.transcript.mode_option
        if option is None:
            raise AttemptFailed("session", f"The task has the mode {task.mode!r}: {_NO_MODES}")
        _check_choice("mode", option, task.mode)
        await session.set_mode(task.mode)
    for name, value in task.options.items():
        found = {option.id: option for option in session.transcript.options}
        if name not in found:
            offered = _names(found) or "none"
            message = f"Expected an option that the agent offers ({offered}), got {name!r}"
            raise AttemptFailed("session", message)
        option = found[name]
        if isinstance(option, SelectOption):
            _check_choice(f"option {name}", option, value)
        elif not isinstance(value, bool):
            message = f"Expected true or false for the option {name}, got {value!r}"
            raise AttemptFailed("session", message)
        await session.set_option(name, value)


_NO_MODES = "expected an agent with modes, this one has none"


def _check_choice(what: str, option: SelectOption, value: str | bool) -> None:
    offered = [choice.value for choice in option.choices]
    # An agent may take more than it lists, if it lists nothing.
    if offered and value not in offered:
        message = f"Expected a value of the {what} that the agent offers ({_names(offered)})"
        raise AttemptFailed("session", f"{message}, got {value!r}")


def _names(names: Iterable[str]) -> str:
    shown = [one_line(name, 40) for name in names]
    more = f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
    return ", ".join(shown[:_SHOWN]) + more


INITIALIZE_S = 120.0
STDERR_CHARS = 16 * 1024  # of the end of stderr, in the result
ANSWER_CHARS = 1024 * 1024
_FLOOD = 1.25  # times the limit of output: then the agent is not waited for
# The last stop reasons of an attempt: further prompts make no sense.
_FINAL = ("refusal", "cancelled")


async def run_attempt(item: WorkItem, machine: Machine, control: Control) -> Attempted:
    """Run one attempt on this machine; every failure is a result.

    Only cancellation of the caller's task leaves as an exception.
    """
    attempt = _Attempt(item, machine, control)
    with working_for(lambda: attempt.name):
        return await attempt.run()


class _CancelledByUser(Exception):
    pass


class _Attempt:
    """The state of an attempt; the `Listener` of its agent."""

    def __init__(self, item: WorkItem, machine: Machine, control: Control) -> None:
        self._item = item
        self._task = item.task
        self._machine = machine
        self._control = control
        self._spec = machine.settings.agent(item.agent)
        self._limits = item.task.limits
        self._loop = asyncio.get_running_loop()
        self._began = time.time()
        self._zero = time.perf_counter()
        self._workspace: PreparedFolder | None = None
        self._agent: RunningAgent | None = None
        self._session: ClientSession | None = None
        self._recording: AttemptRecording | None = None
        self._usage = AttemptUsage()
        self._meter = _meter(item.task.limits)
        self._output_bytes = 0
        self._reason: Exception | None = None  # why the attempt is stopped
        self._timeout: asyncio.Timeout | None = None
        self._guards = machine.guards
        self._stderr = StderrTail(machine.guards.redactor, STDERR_CHARS)
        self._is_admitted = False
        self._watching = ExitStack()
        self._is_clean = False  # the agent can serve another attempt
        self._stop_reasons: list[str] = []
        self._turns_s: list[float] = []
        self._workspace_s = self._start_s = self._grading_s = self._wall_s = 0.0
        self._answer = ""
        self._tool_calls = 0
        self.name: str = attempt_name(item.task.id, item.agent, item.attempt)
        self.policy: Policy | None = policy_for(self._task.permissions, machine.settings)

    async def run(self) -> Attempted:
        failure: Failure | None = None
        verdict: Verdict | None = None
        diff = WorkspaceDiff()
        status: Status = "finished"
        try:
            try:
                await self._work()
            except _CancelledByUser:
                status = "cancelled"
            except LimitReached as limit:
                status, failure = "limit", Failure(limit=limit.limit, message=str(limit))
            except AttemptFailed as failed:
                status, failure = "failed", Failure(where=failed.where, message=str(failed))
            if self._workspace is not None and status != "cancelled":
                diff = await self._workspace.diff()
                if status == "finished" and self._task.grader is not None:
                    verdict = await self._grade(diff)
        except AttemptFailed as failed:
            status, failure = "failed", Failure(where=failed.where, message=str(failed))
        except Exception:  # noqa: BLE001  # a bug in one attempt must not end the others
            message = f"A bug of accord_fleet or of a part: {traceback.format_exc()}"
            status, failure = "failed", Failure(where="engine", message=message)
        except asyncio.CancelledError:
            status = "cancelled"
            raise
        finally:
            trace = self._finish_recording()
            result = self._result(status, failure, diff, verdict)
            if self._is_admitted:
                self._guards.breaker.after(self._spec, result)
            await self._remove_workspace()
        return Attempted(self._guards.redactor.result(result), trace)

    # The parts, in order.

    async def _work(self) -> None:
        """Do everything up to the last turn, and release the agent."""
        wall_s = self._limits.wall_s
        timer = None
        try:
            with self._control.on_cancel(lambda: self._stop(_CancelledByUser())):
                async with asyncio.timeout(None) as self._timeout:
                    if self._reason is not None:
                        raise self._reason
                    await self._admit()
                    if wall_s is not None:
                        text = f"The attempt took longer than {wall_s:g} s"
                        timer = self._loop.call_later(wall_s, self._limit, "wall_s", text)
                    await self._prepare()
                    await self._start()
                    await self._open_session()
                    await self._run_turns()
                    self._is_clean = True
        except (AttemptFailed, TimeoutError, AccordError):
            if self._reason is not None:
                raise self._reason from None
            raise
        finally:
            self._timeout = None
            if timer is not None:
                timer.cancel()
            self._wall_s = time.perf_counter() - self._zero
            await self._release()
        if self._reason is not None:
            raise self._reason

    async def _admit(self) -> None:
        """Wait while the agent is held back; this does not count as time of the attempt."""
        await self._guards.breaker.before(self._spec)
        self._is_admitted = True
        self._began, self._zero = time.time(), time.perf_counter()

    async def _prepare(self) -> None:
        folder = self._machine.new_folder()
        began = time.perf_counter()
        try:
            self._workspace = await self._machine.workspaces.prepare(self._task, folder)
        except OSError as error:
            raise AttemptFailed("workspace", f"The workspace was not prepared: {error}") from error
        finally:
            self._workspace_s = time.perf_counter() - began

    async def _start(self) -> None:
        assert self._workspace is not None
        began = time.perf_counter()
        if self._machine.settings.records:
            self._recording = AttemptRecording(
                self._machine.new_recording(), self._item, self._guards.redactor
            )
        launch = launch_for(self._spec, self._task, self._workspace.path, self._guards.sandbox)
        pool = self._machine.pool
        try:
            await self._connect(pool.take(self._spec, launch, self, INITIALIZE_S))
        finally:
            self._start_s = time.perf_counter() - began

    async def _connect(self, starting: Awaitable[RunningAgent]) -> None:
        """Wait for an agent; its handshake is in the recording."""
        self._agent = None  # an agent that fails to start is not given back
        name = self._spec.name
        try:
            self._agent = await starting
        except AccordError as error:
            message = f"Expected {name} to answer `initialize`, got: {error}"
            raise AttemptFailed("start", message) from error
        except TimeoutError as error:
            message = f"Expected {name} to answer `initialize` within {INITIALIZE_S:g} s"
            raise AttemptFailed("start", message) from error
        if self._agent.access is not None:
            self._agent.access.begin(self._limits, self._limit)
        elif not self._spec.unmetered:
            _require_reports(self._agent, self._limits)
        if (pid := self._agent.pid) is not None:
            limits = self._guards.limits(self._limits)
            self._watching.close()
            self._watching.enter_context(self._guards.watcher.watch(pid, limits, self._overrun))
        if self._recording is not None and not self._agent.is_new:
            self._recording.repeat(self._agent.handshake)

    async def _open_session(self) -> None:
        began = time.perf_counter()
        try:
            self._session = session = await self._new_session()
            await apply_settings(session, self._task)
        except TransportError as error:
            raise _exited(error, "before the session was open") from error
        except AttemptFailed:
            raise
        except AccordError as error:
            raise AttemptFailed("session", f"Expected a new session, got: {error}") from error
        finally:
            self._start_s += time.perf_counter() - began

    async def _new_session(self) -> ClientSession:
        assert self._agent is not None
        assert self._workspace is not None
        servers = mcp_servers(self._task.mcp_servers)
        folder = self._workspace.path
        try:
            return await self._agent.agent.new_session(folder, mcp_servers=servers)
        except TransportError:
            if self._agent.is_new:
                raise
        # It has ended after the attempt before this one.
        if self._recording is not None:
            self._recording.next_connection()
        await self._connect(self._machine.pool.replace(self._agent, INITIALIZE_S))
        assert self._agent is not None
        return await self._agent.agent.new_session(folder, mcp_servers=servers)

    async def _run_turns(self) -> None:
        for prompt in self._task.prompts:
            await self._run_turn(prompt)
            if self._reason is not None:
                raise self._reason
            if self._stop_reasons[-1] in _FINAL:
                return

    async def _run_turn(self, prompt: str) -> None:
        assert self._session is not None
        turn_s = self._limits.turn_s
        timer = None
        if turn_s is not None:
            timer = self._loop.call_later(
                turn_s, self._limit, "turn_s", f"The turn took longer than {turn_s:g} s"
            )
        began = time.perf_counter()
        meter = self._meter
        if meter is not None:
            try:
                meter.begin_turn()
            except BudgetExceeded as error:
                raise LimitReached(_name_of(error.limit), str(error)) from None
            meter.on_limit = self._budget_reached
        turn = self._session.prompt(prompt, cancel_timeout_s=self._machine.settings.cancel_s)
        try:
            async with turn:
                async for event in turn:
                    if meter is not None:
                        meter.on_event(event)
                    if type(event) is UsageChanged:
                        self._usage.on_context(event.usage)
                        self._check_usage()
        except TransportError as error:
            raise _exited(error, "during the turn") from error
        except RequestError as error:
            message = f"Expected a stop reason, got an error: {error}"
            raise AttemptFailed("turn", message) from error
        except AccordError as error:
            raise AttemptFailed("turn", f"Expected a stop reason, got: {error}") from error
        finally:
            if timer is not None:
                timer.cancel()
            if meter is not None:
                meter.end_turn()
            self._turns_s.append(time.perf_counter() - began)
            if turn.stop_reason is not None and turn.error is None:
                self._stop_reasons.append(turn.stop_reason)
            self._usage.on_turn_end(turn.token_usage)
            # Redacted before it is cut: half a secret is not found later.
            self._answer = self._guards.redactor.text(turn.text)[:ANSWER_CHARS]
        self._check_usage()

    async def _release(self) -> None:
        """Stop the agent, or let it wait for the next attempt."""
        agent, session = self._agent, self._session
        self._watching.close()
        if agent is None:
            return
        if session is not None:
            self._tool_calls = sum(
                type(item).__name__ == "ToolCall" for item in session.transcript.items
            )
        if agent.access is not None:
            self._usage.on_gateway(agent.access.usage())
        await self._machine.pool.give_back(agent, session, is_clean=self._is_clean)

    async def _grade(self, diff: WorkspaceDiff) -> Verdict:
        assert self._workspace is not None
        assert self._task.grader is not None
        began = time.perf_counter()
        trace = None
        if self._recording is not None:
            with suppress(OSError):
                trace = self._recording.close_to_file()
        attempt = GradedAttempt(
            task=self._task,
            workspace=self._workspace.path,
            result=self._result("finished", None, diff, None),
            trace=trace,
        )
        try:
            return await self._machine.graders.grade(self._task.grader, attempt, self._machine.ask)
        finally:
            self._grading_s = time.perf_counter() - began

    async def _remove_workspace(self) -> None:
        if self._workspace is not None:
            with suppress(OSError):
                await self._workspace.remove()

    def _finish_recording(self) -> Path | bytes | None:
        return None if self._recording is None else self._recording.close()

    def _result(
        self,
        status: Status,
        failure: Failure | None,
        diff: WorkspaceDiff,
        verdict: Verdict | None,
    ) -> Result:
        item = self._item
        return Result(
            task=self._task.id,
            agent=item.agent,
            attempt=item.attempt,
            status=status,
            failure=failure,
            stop_reasons=tuple(self._stop_reasons),
            answer=self._answer,
            diff=diff.text,
            files_changed=diff.files,
            tool_calls=self._tool_calls,
            verdict=verdict,
            usage=self._usage.total(),
            times=Times(
                started=self._began,
                workspace_s=self._workspace_s,
                start_s=self._start_s,
                turns_s=tuple(self._turns_s),
                grading_s=self._grading_s,
                wall_s=self._wall_s,
            ),
            stderr=self._stderr.text(),
            machine=self._machine.name,
            tags=self._task.tags,
        )

    # Limits.

    def _limit(self, limit: LimitName, message: str) -> None:
        self._stop(LimitReached(limit, message))

    def _budget_reached(self, reached: BudgetReached) -> None:
        self._limit(_name_of(reached), str(reached))

    def _overrun(self, limit: LimitName, message: str) -> None:
        """Stop at once: what the agent uses is missing for others."""
        self._limit(limit, message)
        if self._agent is not None:
            self._agent.kill()

    def _stop(self, reason: Exception) -> None:
        """Cancel what runs: a turn first gets the time to end."""
        if self._reason is None:
            self._reason = reason
            if self._timeout is not None:
                self._timeout.reschedule(self._loop.time())

    def _check_usage(self) -> None:
        if self._agent is not None and self._agent.access is not None:
            self._usage.on_gateway(self._agent.access.usage())
        if (reached := self._usage.reached(self._limits)) is not None:
            self._limit(*reached)

    def output(self, size_bytes: int) -> None:
        """Count what the agent sends."""
        self._output_bytes += size_bytes
        most = self._limits.output_bytes
        if most is not None and self._output_bytes > most:
            self._limit("output_bytes", f"The agent sent more than {most} bytes")
            if self._agent is not None and self._output_bytes > _FLOOD * most:
                self._agent.kill()

    # What the agent sends: `Listener`.

    def frame(self, direction: Direction, frame: bytes | bytearray) -> None:
        """Record a message."""
        if self._recording is not None:
            self._recording.frame(direction, frame)

    def stderr_line(self, line: str) -> None:
        """Keep the end of stderr."""
        self._stderr.add(line)


def _meter(limits: Limits) -> SessionMeter | None:
    """Return what counts the tool calls and files of an attempt, None without such limits."""
    calls, files = limits.tool_calls, limits.changed_files
    if calls is None and files is None:
        return None
    return SessionMeter((Budget(tool_calls=calls, changed_files=files, per="session"),))


def _name_of(reached: BudgetReached) -> LimitName:
    return "tool_calls" if reached.name == "tool_calls" else "changed_files"


def _require_reports(agent: RunningAgent, limits: Limits) -> None:
    """Raise `AttemptFailed` for a limit of what an agent does not report, and nothing counts."""
    connected = agent.agent
    reports = reports_of(connected.info.name, connected.remote.initialized.meta)
    missing = [
        name
        for name, limit in (("tokens", limits.tokens), ("cost", limits.cost))
        if limit is not None and name not in reports
    ]
    if missing:
        what = " and ".join(missing)
        raise AttemptFailed(
            "start",
            f"The agent {agent.spec.name!r} is not known to report its {what}, so a limit of {what}"
            " has no effect. Limit turn_s, tool_calls or changed_files, name the provider of the"
            " agent, or allow it with `unmetered = true`",
        )


def _exited(error: TransportError, when: str) -> AttemptFailed:
    where: FailedPart = "agent_exit"
    return AttemptFailed(where, f"Expected the agent to stay connected; {when}: {error}")
