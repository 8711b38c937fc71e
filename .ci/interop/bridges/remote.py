"""The bridge's end of the judge's remote control.

A bridge is a small program around a client library or a host. It takes its orders from stdin. Each
line is {"user": {METHOD: RESULT}, "do": [[ACTION, ARGUMENTS], ...]}. The actions of a line are done
side by side. `user` answers what the server asks meanwhile. The bridge writes {"outcomes": [...]}
to stdout, with {"result": ...} or {"error": {"code", "message", "kind"}} for each action. For each
notification it writes {"event": METHOD, "params": ...}. At the end of stdin the client closes.
"""
from __future__ import annotations

import asyncio
import inspect
import json
import sys
import threading
from collections.abc import Awaitable, Mapping
from typing import Any, Callable

Action = Callable[..., Any]  # may be a coroutine function; another function runs on a thread


def wire(value: Any) -> Any:
    """Return a value of the library as it stands on the wire."""
    if hasattr(value, "model_dump"):
        return value.model_dump(by_alias=True, mode="json", exclude_none=True)
    return value


def is_url(address: str) -> bool:
    """Tell the URL of a server from the command that runs it."""
    return address.startswith("http://")


class Remote:
    def __init__(self) -> None:
        self.user: dict[str, Any] = {}
        self.printing = threading.Lock()

    def say(self, message: dict[str, Any]) -> None:
        with self.printing:
            print(json.dumps(message), flush=True)

    def event(self, method: str, params: Any = None) -> None:
        """Pass a notification on. Any thread may call this."""
        self.say({"event": method, "params": wire(params) or {}})

    async def progress(self, done: float, *more: Any) -> None:
        self.event("progress", {"progress": done})

    async def play(self, actions: Mapping[str, Action]) -> None:
        """Do what the judge says until stdin ends."""
        while line := await asyncio.to_thread(sys.stdin.readline):
            step = json.loads(line)
            self.user = step["user"]
            self.say({"outcomes": await asyncio.gather(*[
                self.outcome(actions, name, arguments) for name, arguments in step["do"]])})

    async def outcome(self, actions: Mapping[str, Action], name: str, arguments: Any) -> Any:
        try:
            result = await asyncio.to_thread(actions[name], **arguments)
            return {"result": wire(await result if inspect.isawaitable(result) else result)}
        except Exception as error:  # the judge decides whether this error is right
            cause = getattr(error, "error", error)
            return {"error": {"code": getattr(cause, "code", None), "message": str(error),
                              "kind": type(error).__name__}}


def run(main: Callable[..., Awaitable[None]]) -> None:
    """Run main(remote, *arguments of the command line)."""
    async def begin() -> None:
        await main(Remote(), *sys.argv[1:])

    asyncio.run(begin())
