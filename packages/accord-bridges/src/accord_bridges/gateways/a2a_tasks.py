"""What A2A callers leave with a gateway: tasks, contexts and push notifications.

They are in the gateway's database. Each belongs to an agent and a principal, and is unknown to
others. A task whose gateway has died is found failed by the next one.
"""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
import sqlite3
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import httpx
from a2a.types import (
    ListTasksRequest,
    ListTasksResponse,
    Message,
    Part,
    Role,
    StreamResponse,
    Task,
    TaskPushNotificationConfig,
    TaskState,
    TaskStatusUpdateEvent,
)
from a2a.utils.errors import InvalidParamsError, TaskNotFoundError
from google.protobuf.json_format import MessageToDict

from accord.remote.access import Principal
from accord_bridges.gateways.alive import Alive

log: logging.Logger = logging.getLogger("accord.gateway")

FINAL = frozenset(
    {
        TaskState.TASK_STATE_COMPLETED,
        TaskState.TASK_STATE_FAILED,
        TaskState.TASK_STATE_CANCELED,
        TaskState.TASK_STATE_REJECTED,
    }
)
_KEPT = 10_000  # tasks that have ended
_PAGE, _MAX_PAGE = 50, 100
_ID = 500  # characters of an id that a caller chooses
_PUSHES = 8  # of a task
_PUSH_CHARS = 4096  # of a URL or a secret
_PUSH_S = 10.0
_SCHEME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")  # of HTTP authentication
_RETRIES_S = (1.0, 4.0)
_WAITING = 100  # notifications of a task
_LEAVE_S = 3.0


class StoredTasks:
    """The tasks of callers, and the sessions of their contexts: as long as a context has a task."""

    def __init__(self, database: sqlite3.Connection, folder: Path) -> None:
        self._database = database
        self._alive = Alive(folder, "a2a")
        database.executescript(
            "CREATE TABLE IF NOT EXISTS a2a_tasks (id TEXT PRIMARY KEY, agent TEXT NOT NULL,"
            " principal TEXT NOT NULL, context TEXT NOT NULL, gateway TEXT NOT NULL,"
            " state INTEGER NOT NULL, at INTEGER NOT NULL, task BLOB NOT NULL);"
            "CREATE INDEX IF NOT EXISTS a2a_by_time ON a2a_tasks (agent, principal, at, id);"
            "CREATE INDEX IF NOT EXISTS a2a_by_context ON a2a_tasks (context, agent, principal);"
            "CREATE TABLE IF NOT EXISTS a2a_contexts (context TEXT NOT NULL, agent TEXT NOT NULL,"
            " principal TEXT NOT NULL, session TEXT NOT NULL,"
            " PRIMARY KEY (context, agent, principal));"
            "CREATE TABLE IF NOT EXISTS a2a_pushes (task TEXT NOT NULL, id TEXT NOT NULL,"
            " config BLOB NOT NULL, PRIMARY KEY (task, id));"
        )
        self._fail_interrupted()

    def _fail_interrupted(self) -> None:
        """End the tasks of gateways that have died."""
        marks = ", ".join("?" * len(FINAL))
        rows = self._database.execute(
            f"SELECT gateway, agent, principal, task FROM a2a_tasks WHERE state NOT IN ({marks})",
            tuple(FINAL),
        ).fetchall()
        dead = self._alive.dead({row[0] for row in rows})
        for gateway, agent, principal, data in rows:
            if gateway not in dead:
                continue
            task = Task.FromString(data)
            session = MessageToDict(task.metadata)["acp"]["sessionId"]
            text = (
                "The gateway ended while this task was running. What the agent has done is in the"
                f" session {session}: send a message with the same contextId to continue"
            )
            task.status.Clear()
            task.status.state = TaskState.TASK_STATE_FAILED
            task.status.timestamp.GetCurrentTime()
            task.status.message.CopyFrom(agent_message(task, [Part(text=text)]))
            self.put(task, agent, principal)
        self._alive.forget(dead)

    def close(self) -> None:
        """Leave the tasks to the next gateway."""
        self._alive.close()

    def put(self, task: Task, agent: str, principal: str) -> None:
        """Store a task as it is now."""
        final = task.status.state in FINAL
        self._database.execute(
            "INSERT INTO a2a_tasks VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET"
            " gateway = excluded.gateway, state = excluded.state, at = excluded.at,"
            " task = excluded.task",
            (
                task.id,
                agent,
                principal,
                task.context_id,
                self._alive.name,
                task.status.state,
                task.status.timestamp.ToNanoseconds(),
                task.SerializeToString(),
            ),
        )
        if final:
            marks = ", ".join("?" * len(FINAL))
            old = (
                f"SELECT id, context, agent, principal FROM a2a_tasks WHERE state IN ({marks})"
                " ORDER BY at DESC LIMIT -1 OFFSET ?"
            )
            for task_id, *of in self._database.execute(old, (*FINAL, _KEPT)).fetchall():
                self._database.execute("DELETE FROM a2a_pushes WHERE task = ?", (task_id,))
                self._database.execute("DELETE FROM a2a_tasks WHERE id = ?", (task_id,))
                self._database.execute(  # without its last task
                    "DELETE FROM a2a_contexts WHERE (context, agent, principal) = (?, ?, ?) AND NOT"
                    " EXISTS (SELECT 1 FROM a2a_tasks AS t WHERE t.context = a2a_contexts.context"
                    " AND t.agent = a2a_contexts.agent AND t.principal = a2a_contexts.principal)",
                    of,
                )

    def get(self, task_id: str, agent: str, principal: Principal) -> Task:
        """Return a task. Raises `TaskNotFoundError`."""
        row = self._database.execute(
            "SELECT principal, task FROM a2a_tasks WHERE id = ? AND agent = ?", (task_id, agent)
        ).fetchone()
        if row is None or not (principal.all_sessions or row[0] == principal.name):
            raise TaskNotFoundError(f"Unknown task {task_id[:80]!r}")
        return Task.FromString(row[1])

    def page(self, params: ListTasksRequest, agent: str, principal: Principal) -> ListTasksResponse:
        """Return tasks, the last ones first. Raises `InvalidParamsError`."""
        size = params.page_size if params.HasField("page_size") else _PAGE
        if not 1 <= size <= _MAX_PAGE:
            raise InvalidParamsError(f"pageSize: expected 1 to {_MAX_PAGE}, got {size}")
        where = ["agent = ?"]
        values: list[str | int] = [agent]
        if not principal.all_sessions:
            where.append("principal = ?")
            values.append(principal.name)
        if params.context_id:
            where.append("context = ?")
            values.append(params.context_id)
        if params.status:
            where.append("state = ?")
            values.append(params.status)
        if params.HasField("status_timestamp_after"):
            where.append("at >= ?")
            values.append(params.status_timestamp_after.ToNanoseconds())
        chosen = " AND ".join(where)
        [total] = self._database.execute(
            f"SELECT count(*) FROM a2a_tasks WHERE {chosen}", values
        ).fetchone()
        if params.page_token:
            at, _, last = params.page_token.partition(".")
            if not at.isdecimal():
                raise InvalidParamsError("pageToken: expected the nextPageToken of a response")
            chosen += " AND (at, id) < (?, ?)"
            values += [int(at[:19]), last]
        rows = self._database.execute(
            f"SELECT at, id, task FROM a2a_tasks WHERE {chosen} ORDER BY at DESC, id DESC LIMIT ?",
            (*values, size + 1),
        ).fetchall()
        more = rows[size - 1] if len(rows) > size else None
        return ListTasksResponse(
            tasks=[Task.FromString(row[2]) for row in rows[:size]],
            next_page_token="" if more is None else f"{more[0]}.{more[1]}",
            page_size=size,
            total_size=total,
        )

    # The sessions of contexts whose ids the callers have chosen.

    def session_of(self, context: str, agent: str, principal: Principal) -> str | None:
        """Return the session of a context that its caller has named."""
        row = self._database.execute(
            "SELECT session FROM a2a_contexts WHERE context = ? AND agent = ? AND principal = ?",
            (context, agent, principal.name),
        ).fetchone()
        return None if row is None else row[0]

    def name_context(self, context: str, agent: str, principal: Principal, session: str) -> None:
        """Note the session of a context."""
        self._database.execute(
            "INSERT OR REPLACE INTO a2a_contexts VALUES (?, ?, ?, ?)",
            (context, agent, principal.name, session),
        )

    # Push notifications.

    def put_push(self, config: TaskPushNotificationConfig) -> None:
        """Store where a task is reported. Raises `InvalidParamsError` if there are too many."""
        others = [one for one in self.pushes(config.task_id) if one.id != config.id]
        if len(others) >= _PUSHES:
            raise InvalidParamsError(f"A task has at most {_PUSHES} push notification configs")
        self._database.execute(
            "INSERT OR REPLACE INTO a2a_pushes VALUES (?, ?, ?)",
            (config.task_id, config.id, config.SerializeToString()),
        )

    def pushes(self, task_id: str) -> list[TaskPushNotificationConfig]:
        """Return where a task is reported."""
        rows = self._database.execute(
            "SELECT config FROM a2a_pushes WHERE task = ? ORDER BY id", (task_id,)
        )
        return [TaskPushNotificationConfig.FromString(row[0]) for row in rows]

    def delete_push(self, task_id: str, config_id: str) -> None:
        """Remove a config; an unknown one is ignored."""
        self._database.execute(
            "DELETE FROM a2a_pushes WHERE task = ? AND id = ?", (task_id, config_id)
        )


def check_id(where: str, given: str) -> None:
    """Raise `InvalidParamsError` for an id of a caller that is too long to be kept."""
    if len(given) > _ID:
        raise InvalidParamsError(
            f"{where}: expected at most {_ID} characters, got {len(given)}: {given[:80]!r}…"
        )


def agent_message(task: Task, parts: Iterable[Part]) -> Message:
    """Return a message of the agent in a task."""
    return Message(
        message_id=secrets.token_hex(16),
        context_id=task.context_id,
        task_id=task.id,
        role=Role.ROLE_AGENT,
        parts=parts,
    )


def push_origin(text: str) -> tuple[str, str, int]:
    """Return the scheme, the host and the port of HOST[:PORT], or of http://HOST[:PORT].

    Raises `ValueError`.
    """
    try:
        url = httpx.URL(text if "://" in text else f"https://{text}")
    except httpx.InvalidURL:
        url = httpx.URL("")
    is_host = re.fullmatch(r"[\w.:-]+", url.host, re.ASCII) is not None
    if url.scheme not in ("http", "https") or not is_host or url.path != "/" or url.query:
        raise ValueError(
            f"Expected HOST, HOST:PORT or http://HOST:PORT for push notifications, got {text!r}"
        )
    return _origin(url)


def _origin(url: httpx.URL) -> tuple[str, str, int]:
    return url.scheme, url.host.lower(), url.port or (443 if url.scheme == "https" else 80)


class Notifier:
    """Sends the states of tasks to the URLs of callers, on hosts that the operator allows.

    A URL must have an allowed scheme, host and port. Redirects are not followed, responses are not
    read, and proxies of the environment are not used.
    """

    def __init__(self, stored: StoredTasks, hosts: Sequence[str]) -> None:
        self._stored = stored
        self._allowed = {push_origin(host) for host in hosts}
        self._queues: dict[str, deque[StreamResponse]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._client: httpx.AsyncClient | None = None

    @property
    def is_on(self) -> bool:
        """Whether the operator allows any host."""
        return bool(self._allowed)

    def check(self, config: TaskPushNotificationConfig) -> None:
        """Raise `InvalidParamsError` unless notifications may be sent to a URL."""
        check_id("id", config.id)
        login = config.authentication
        if (
            login.scheme
            and re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}", login.scheme) is None
        ):
            raise InvalidParamsError(
                "authentication.scheme: expected a scheme of HTTP, such as Bearer, got"
                f" {login.scheme[:80]!r}"
            )
        given = (config.url, config.token, login.credentials)
        if any(len(text) > _PUSH_CHARS for text in given):
            raise InvalidParamsError(
                f"A push notification config has more than {_PUSH_CHARS} chars"
            )
        if any(not (char.isascii() and char.isprintable()) for text in given for char in text):
            raise InvalidParamsError("A push notification config has characters of other headers")
        if not self._allows(config.url):
            raise InvalidParamsError(
                "url: expected a URL on a host that the operator of this gateway allows"
                " (--push-host)"
            )

    def _allows(self, text: str) -> bool:
        try:
            url = httpx.URL(text)
        except httpx.InvalidURL:
            return False
        return not url.userinfo and bool(url.host) and _origin(url) in self._allowed

    def notify(self, task_id: str, event: TaskStatusUpdateEvent) -> None:
        """Send an event to the URLs of a task, after those before it."""
        if not self._allowed or not self._stored.pushes(task_id):
            return
        waiting = self._queues.get(task_id)
        if waiting is None:
            waiting = self._queues[task_id] = deque(maxlen=_WAITING)
            sending = asyncio.create_task(self._send_all(task_id, waiting), name="accord push")
            self._tasks.add(sending)
            sending.add_done_callback(self._tasks.discard)
        waiting.append(StreamResponse(status_update=event))

    async def _send_all(self, task_id: str, waiting: deque[StreamResponse]) -> None:
        try:
            while waiting:
                event = waiting.popleft()
                content = MessageToDict(event)
                for config in self._stored.pushes(task_id):
                    if not self._allows(config.url):  # another gateway may have stored it
                        continue
                    try:
                        await self._send(config, content)
                    except Exception as error:  # noqa: BLE001  # the others are sent
                        log.warning("! a push notification failed: %s", type(error).__name__)
        finally:
            del self._queues[task_id]

    async def _send(self, config: TaskPushNotificationConfig, content: object) -> None:
        headers = {"A2A-Version": "1.0"}
        if config.token:
            headers["X-A2A-Notification-Token"] = config.token
        login = config.authentication
        if login.scheme and login.credentials:
            headers["Authorization"] = f"{login.scheme} {login.credentials}"
        if self._client is None:
            self._client = httpx.AsyncClient(
                follow_redirects=False, trust_env=False, timeout=_PUSH_S
            )
        for pause in (0.0, *_RETRIES_S):
            await asyncio.sleep(pause)
            with suppress(httpx.HTTPError, httpx.InvalidURL, TimeoutError):
                sending = self._client.stream("POST", config.url, json=content, headers=headers)
                async with asyncio.timeout(_PUSH_S), sending as response:
                    if response.is_success:
                        return
                    if response.status_code < 500:
                        break
        host = httpx.URL(config.url).host
        log.info("! a push notification was not accepted by %s", host)

    async def aclose(self) -> None:
        """Send what waits, for some seconds."""
        if self._tasks:
            await asyncio.wait([*self._tasks], timeout=_LEAVE_S)
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait([*self._tasks])
        if self._client is not None:
            await self._client.aclose()
