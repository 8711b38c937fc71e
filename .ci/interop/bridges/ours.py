"""Bridge: our own client.    ours.py FOLDER auto|REVISION URL|COMMAND...

FOLDER is where mcp_ref.py stands.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from remote import Action, Remote, is_url

sys.path[:0] = [sys.argv[1], f"{sys.argv[1]}/examples/http"]

from http_client import HttpTransport  # noqa: E402
from mcp_ref import META_LEVEL, REVISIONS, Client  # noqa: E402

PATIENCE = 20.0
ROOTS = [{"uri": Path(__file__).resolve().parent.parent.as_uri(), "name": "root"}]


class Actions:
    """What the judge can have done; every method blocks, on a thread of its own."""

    def __init__(self, client: Client, remote: Remote) -> None:
        self.client = client
        self.remote = remote
        self.level: str | None = (
            None  # for the next call, where levels go with requests
        )

    def about(self) -> Any:
        return {
            "revision": self.client.protocol_version,
            "server": self.client.server_info,
            "capabilities": self.client.server_capabilities,
        }

    def progress(self, done: float, total: float | None, message: str | None) -> None:
        told = {"progress": done, "total": total, "message": message}
        self.remote.event("progress", told)

    def call(self, name: str, arguments: dict[str, Any]) -> Any:
        level, self.level = self.level, None
        if level is None:
            return self.client.call_tool(name, arguments, on_progress=self.progress)
        params = {"name": name, "arguments": arguments, "_meta": {META_LEVEL: level}}
        return self.client.request("tools/call", params)

    def log(self, level: str) -> None:
        if REVISIONS[self.client.protocol_version].modern:
            self.level = level
        else:
            self.client.request("logging/setLevel", {"level": level})

    def subscribe(self, **wanted: Any) -> None:
        self.client.subscribe(**wanted)


def actions_of(client: Client, remote: Remote) -> dict[str, Action]:
    actions = Actions(client, remote)
    blocking: dict[str, Callable[..., Any]] = {
        "about": actions.about,
        "tools/list": lambda: {"tools": client.list_tools()},
        "tools/call": actions.call,
        "resources/list": lambda: {"resources": client.list_resources()},
        "resources/templates/list": lambda: {
            "resourceTemplates": client.list_resource_templates()
        },
        "resources/read": client.read_resource,
        "prompts/list": lambda: {"prompts": client.list_prompts()},
        "prompts/get": client.get_prompt,
        "completion/complete": lambda **asked: {"completion": client.complete(**asked)},
        "logging/setLevel": actions.log,
        "ping": client.ping,
        "subscribe": actions.subscribe,
    }

    def threaded(function: Callable[..., Any]) -> Action:
        return lambda **arguments: in_thread(lambda: function(**arguments))

    return {name: threaded(function) for name, function in blocking.items()}


def in_thread(function: Callable[[], Any]) -> asyncio.Future[Any]:
    return asyncio.get_running_loop().run_in_executor(None, function)


async def main(mode: str, *command: str) -> None:
    remote = Remote()
    loop = asyncio.get_running_loop()

    def user(method: str) -> Callable[[dict[str, Any]], Any]:
        def answer(params: dict[str, Any]) -> Any:
            asked = asyncio.run_coroutine_threadsafe(remote.ask(method, params), loop)
            return asked.result(PATIENCE)

        return answer

    client = Client(
        HttpTransport(command[0]) if is_url(command[0]) else list(command),
        protocol_version=None if mode == "auto" else mode,
        on_notification=remote.event,
        on_elicit=user("elicitation/create"),
        on_sample=user("sampling/createMessage"),
        roots=ROOTS,
    )
    await in_thread(client.connect)
    try:
        await remote.serve(actions_of(client, remote))
    finally:
        await in_thread(client.close)
    try:
        left = os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return  # nobody left behind, not even a zombie
    sys.exit(f"close() left a child behind: {left}")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[2:]))
