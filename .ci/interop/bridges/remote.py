"""The bridge's end of the judge's remote control.

A bridge is a small program around one client library, which does the talking to a server. On stdin
stands what it has to do: a JSON array of steps, {"user": {METHOD: RESULT}, "do": [{"action": NAME,
"with": {...}}, ...]}. What stands in one step is done side by side, and `user` answers what a
server asks meanwhile. Each step done is a line on stdout, an array: {"result": ...} or {"error":
{"code", "message", "kind"}} of each action. Then the client closes.
"""
from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Mapping
from typing import Any, Callable

Action = Callable[..., Awaitable[Any]]
PATIENCE = 20.0  # seconds for notifications to come


def wire(value: Any) -> Any:
    """Return what the library handed over as it would stand on the wire."""
    if hasattr(value, "model_dump"):
        return value.model_dump(by_alias=True, mode="json", exclude_none=True)
    return value


def is_url(address: str) -> bool:
    """Tell where the server listens from the command that runs it."""
    return address.startswith("http://")


class Remote:
    def __init__(self) -> None:
        self.steps = json.load(sys.stdin)
        self.user: dict[str, Any] = {}
        self.events: list[tuple[str, Any]] = []
        self.news = asyncio.Event()

    def event(self, method: str, params: Any = None) -> None:
        """Take note of a notification, on the thread of the loop."""
        self.events.append((method, wire(params) or {}))
        self.news.set()

    async def progress(self, done: float, total: Any = None, message: Any = None) -> None:
        self.event("progress", {"progress": done})

    async def heard(self, event: str, count: int) -> list[Any]:
        """Wait for so many notifications of a method; return the params of all that came."""
        while len(found := [params for method, params in self.events if method == event]) < count:
            self.news.clear()
            await asyncio.wait_for(self.news.wait(), PATIENCE)
        return found

    async def play(self, actions: Mapping[str, Action]) -> None:
        """Do all steps."""
        actions = {**actions, "heard": self.heard}
        for step in self.steps:
            self.user = step["user"]
            outcomes = await asyncio.gather(*[self.outcome(actions, one) for one in step["do"]])
            print(json.dumps(outcomes), flush=True)

    async def outcome(self, actions: Mapping[str, Action], told: dict[str, Any]) -> Any:
        try:
            return {"result": wire(await actions[told["action"]](**told["with"]))}
        except Exception as error:  # whatever the library raises is for the judge to judge
            cause = getattr(error, "error", error)
            return {"error": {"code": getattr(cause, "code", None), "message": str(error),
                              "kind": type(error).__name__}}


def run(main: Callable[..., Awaitable[None]]) -> None:
    """Run main(remote, mode, URL | COMMAND...), from the command line."""
    async def begin() -> None:
        await main(Remote(), *sys.argv[1:])

    asyncio.run(begin())
