"""The bridge's end of the judge's remote control: JSON lines on stdin and stdout.

A bridge is a small program around one client library. The judge tells it what to do and
answers for the user; the library does the talking to the server.

    judge:   {"id": 1, "do": "tools/call", "with": {...}}
             {"answer": 2, "result": {...}}
    bridge:  {"id": 1, "result": ...} or {"id": 1, "error": {...}}
             {"event": "notifications/message", "params": {...}}
             {"ask": 2, "method": "roots/list", "params": {...}}

Every `do` runs as a task of its own, so several lines at once are a burst. The end of
stdin means: close the client and leave.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from collections.abc import Awaitable, Mapping
from typing import Any, Callable

Action = Callable[..., Awaitable[Any]]
LONGEST_LINE = 1 << 24


def wire(value: Any) -> Any:
    """Return what the library handed over as it would stand on the wire."""
    if hasattr(value, "model_dump"):
        return value.model_dump(by_alias=True, mode="json", exclude_none=True)
    return value


def is_url(address: str) -> bool:
    """Tell where the server listens from the command that runs it."""
    return address.startswith("http://")


class Remote:
    """One bridge's side of the conversation with the judge."""

    def __init__(self) -> None:
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._numbers = itertools.count(1)

    def say(self, **line: Any) -> None:
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()

    def event(self, method: str, params: Any = None) -> None:
        self.say(event=method, params=wire(params) or {})

    async def ask(self, method: str, params: Any = None) -> Any:
        """Return what the judge answers for the user."""
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        self.say(ask=number, method=method, params=wire(params) or {})
        return await answer

    async def serve(self, actions: Mapping[str, Action]) -> None:
        """Do what the judge says until it closes our stdin."""
        lines = asyncio.StreamReader(limit=LONGEST_LINE)
        await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(lines), sys.stdin
        )
        running = set()
        while line := await lines.readline():
            told = json.loads(line)
            if "answer" in told:
                self._answers.pop(told["answer"]).set_result(told["result"])
                continue
            task = asyncio.ensure_future(self._do(actions, told))
            running.add(task)
            task.add_done_callback(running.discard)
        for task in running:  # what the judge did not care to wait for
            task.cancel()

    async def _do(self, actions: Mapping[str, Action], told: dict[str, Any]) -> None:
        try:
            result = await actions[told["do"]](**told["with"])
        except (
            Exception
        ) as error:  # whatever the library raises is for the judge to judge
            cause = getattr(error, "error", error)
            failure = {
                "code": getattr(cause, "code", None),
                "message": str(error),
                "kind": type(error).__name__,
            }
            self.say(id=told["id"], error=failure)
        else:
            self.say(id=told["id"], result=wire(result))
