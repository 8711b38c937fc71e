"""Who plays with whom: clients, servers, and the revision that each pair must find."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Callable

from checks import LEGACY, MODERN, REPLY, UPDATED, Call, Profile
from checks import ROOT as CLIENT_ROOT
from environment import HERE, ROOT, module, node, python, script, versions

VERSIONS = versions()


@dataclass(frozen=True)
class Client:
    """A client library behind its bridge. `newest` is what it speaks as started."""

    name: str
    command: list[str]
    newest: str
    lacks: frozenset[str] = frozenset()
    burst: int = 20
    spares: bool = False  # starts a server just to probe it, and ends that by SIGTERM
    forgets: bool = False  # deletes no session: the server has to let it expire


@dataclass(frozen=True)
class Server:
    name: str
    command: list[str]
    newest: str
    profile: Profile
    http: bool = False  # listens at {port}; otherwise a client runs it on pipes


@dataclass(frozen=True)
class Pair:
    client: Client
    server: Server
    ours: str = ""  # the file with our side's stderr

    @property
    def name(self) -> str:
        carrier = " over HTTP" if self.server.http else ""
        return f"{self.client.name} -> {self.server.name}{carrier}"

    @property
    def revision(self) -> str:
        return min(self.client.newest, self.server.newest)


def adding(tool: str) -> tuple[Call, Callable[[int], Call]]:
    def call(number: int) -> Call:
        return tool, {"a": number, "b": 1000}, str(number + 1000)

    return call(7), call


ADD, ADDS = adding("add")
SUM, SUMS = adding("get-sum")


TEXT = "test://static-text"
CHANGE: dict[str, Call] = {
    "notifications/tools/list_changed": ("test_trigger_tool_change", {}, "")
}
UPDATE: dict[str, Call] = {UPDATED: ("test_trigger_resource_update", {}, "")}


def fixture(**more: Any) -> Profile:
    """Return the profile of a server with the names of the conformance fixtures."""
    names: dict[str, Any] = {
        "call": ADD,
        "burst": ADDS,
        "failing": ("test_error_handling", {}, ""),
        "resource": (TEXT, "content of the static text"),
        "binary": "test://static-binary",
        "template": ("test://template/{id}/data", "test://template/123/data", "123"),
        "prompt": (
            "test_prompt_with_arguments",
            {"arg1": "A1", "arg2": "B2"},
            ("A1", "B2"),
        ),
        "completion": (
            {"type": "ref/prompt", "name": "test_prompt_with_arguments"},
            {"name": "arg1", "value": "test"},
            ("testing", "tested"),
        ),
        "progress": ("test_tool_with_progress", {}, ""),
        "logging": ("test_tool_with_logging", {}, ""),
        "elicitation": ("test_elicitation", {"message": "Who?"}, "Ada"),
        "sampling": ("test_sampling", {"prompt": "Capital of France?"}, REPLY),
        "roots": ("test_list_roots", {}, CLIENT_ROOT),
        "changes": CHANGE,
    }
    return Profile(**{**names, **more})


def region(number: int) -> Call:
    return "test_x_mcp_header", {"region": f"no. {number}"}, f"region: no. {number}"


DEMO = Profile(
    call=ADD, burst=ADDS, failing=("add", {"a": "x", "b": 1}, ""), strict=True
)
EVERY_FEATURE = fixture(
    call=region(0),
    burst=region,
    completion=(
        {"type": "ref/prompt", "name": "test_prompt_with_arguments"},
        {"name": "arg2", "value": "a"},
        ("apple", "apricot", "amber"),
    ),
    roots=("test_input_required_result_list_roots", {}, CLIENT_ROOT),
    changes={
        **CHANGE,
        "notifications/prompts/list_changed": ("test_trigger_prompt_change", {}, ""),
        "notifications/resources/list_changed": ("trigger_resource_change", {}, ""),
        UPDATED: ("touch_watched_resource", {}, ""),
    },
    watched=("test://watched-resource",),
    strict=True,
)


def our_servers() -> Iterator[Server]:
    everything = str(ROOT / ".ci/everything.py")
    carrier = [sys.executable, str(ROOT / "examples/http/http_server.py")]
    hosted = [*carrier, "--port", "{port}", everything]
    for file, profile in (
        ("mcp_ref.py", DEMO),
        (".ci/everything.py", EVERY_FEATURE),
    ):
        yield Server(file, [sys.executable, str(ROOT / file)], MODERN, profile)
    yield Server(".ci/everything.py", hosted, MODERN, EVERY_FEATURE, http=True)


def sdk_servers() -> Iterator[Server]:
    def of(
        name: str, package: str, command: list[str], http: bool = False, **more: Any
    ) -> Server:
        title, newest = f"{name} {VERSIONS[package]} server", MODERN if more else LEGACY
        return Server(title, command, newest, fixture(**more), http)

    package = "@modelcontextprotocol/server"
    all_changes: dict[str, Any] = {"changes": {**CHANGE, **UPDATE}, "watched": (TEXT,)}
    one = [python("sdk1"), script("servers/python_sdk_1.py")]
    two = [python("sdk2"), script("servers/python_sdk_2.py")]
    three = [node(), script("servers/typescript_sdk_2.mjs")]
    yield of("python-sdk", "sdk1", one)
    yield of("python-sdk", "sdk2", two, **all_changes)
    yield of("typescript-sdk", package, three, **all_changes)
    yield of("python-sdk", "sdk1", [*one, "{port}"], http=True)
    yield of("python-sdk", "sdk2", [*two, "{port}"], http=True, **all_changes)


def other_servers() -> Iterator[Server]:
    def of(name: str, arguments: list[str], profile: Profile) -> Server:
        package = f"@modelcontextprotocol/{name}"
        script = module(f"{package}/dist/index.js")
        command = [*arguments[:-1], node(), script, *arguments[-1:]]
        return Server(f"{name} {VERSIONS[package]}", command, LEGACY, profile)

    yield of("server-everything", [], EVERYTHING)
    yield of("server-filesystem", [str(HERE)], FILESYSTEM)
    yield of(
        "server-memory",
        ["/usr/bin/env", "MEMORY_FILE_PATH={folder}/memory", "stdio"],
        MEMORY,
    )
    package = "server-everything"
    main = module(f"@modelcontextprotocol/{package}/dist/index.js")
    loopback = ["--import", script("servers/loopback.mjs")]
    command = ["/usr/bin/env", "PORT={port}", node(), *loopback, main, "streamableHttp"]
    title = f"{package} {VERSIONS['@modelcontextprotocol/' + package]}"
    yield Server(title, command, LEGACY, EVERYTHING, http=True)
    command = [python("time"), "-m", "mcp_server_time", "--local-timezone", "UTC"]
    yield Server(f"mcp-server-time {VERSIONS['time']}", command, MODERN, TIME)


EVERYTHING = Profile(
    call=SUM,
    burst=SUMS,
    failing=("get-sum", {"a": "x", "b": 1}, ""),
    resource=("demo://resource/static/document/features.md", "Features"),
    template=(
        "demo://resource/dynamic/text/{resourceId}",
        "demo://resource/dynamic/text/7",
        "7",
    ),
    prompt=("args-prompt", {"city": "Paris"}, ("Paris",)),
    completion=(
        {"type": "ref/prompt", "name": "completable-prompt"},
        {"name": "department", "value": "S"},
        ("Sales", "Support"),
    ),
    progress=(
        "trigger-long-running-operation",
        {"duration": 0.3, "steps": 3},
        "completed",
    ),
    logging=("toggle-simulated-logging", {}, ""),
    elicitation=("trigger-elicitation-request", {}, "Ada"),
    sampling=("trigger-sampling-request", {"prompt": "Capital of France?"}, REPLY),
    roots=("get-roots-list", {}, CLIENT_ROOT),
    changes={UPDATED: ("toggle-subscriber-updates", {}, "")},
    watched=("demo://resource/static/document/features.md",),
)


def reading(number: int) -> Call:
    file = HERE / "package.json"
    line = number % 3
    arguments = {"path": str(file), "head": line + 1}
    return "read_text_file", arguments, file.read_text().split("\n")[line]


FILESYSTEM = Profile(
    call=reading(1), burst=reading, failing=("read_text_file", {"path": "/"}, "denied")
)


def remembering(number: int) -> Call:
    entity = {"name": f"entity {number}", "entityType": "number", "observations": []}
    return "create_entities", {"entities": [entity]}, f"entity {number}"


MEMORY = Profile(
    call=("search_nodes", {"query": "entity"}, "entities"),
    burst=remembering,
    failing=("search_nodes", {}, ""),
    resource=("memory://knowledge-graph", "entities"),
)


def converting(number: int) -> Call:
    arguments = {
        "source_timezone": "UTC",
        "time": f"12:{number:02}",
        "target_timezone": "Asia/Tokyo",
    }
    return "convert_time", arguments, f"T21:{number:02}"


TIME = Profile(
    call=converting(34),
    burst=converting,
    failing=("get_current_time", {"timezone": "Nowhere/Land"}, "Nowhere"),
)


CONVERSATIONS = frozenset(  # what one run of a command line tool cannot do
    ("completion", "progress", "logging", "elicitation", "sampling", "roots", "changes")
)


def clients() -> Iterator[Client]:
    def of(
        name: str, package: str, run: list[str], newest: str, mode: str, **more: Any
    ) -> Client:
        return Client(
            f"{name} {VERSIONS[package]} {mode}", [*run, mode], newest, **more
        )

    one = [python("sdk1"), script("bridges/python_sdk_1.py")]
    two = [python("sdk2"), script("bridges/python_sdk_2.py")]
    fast = [python("fastmcp"), script("bridges/fastmcp_client.py")]
    script_1 = [node(), script("bridges/typescript_sdk_1.mjs")]
    script_2 = [node(), script("bridges/typescript_sdk_2.mjs")]
    inspector = [
        sys.executable,
        script("bridges/inspector.py"),
        node(),
        module("@modelcontextprotocol/inspector/clients/launcher/build/index.js"),
    ]
    yield of("python-sdk", "sdk1", one, LEGACY, "legacy")
    yield of("python-sdk", "sdk2", two, MODERN, "auto")
    yield of("python-sdk", "sdk2", two, LEGACY, "legacy")
    yield of("fastmcp", "fastmcp", fast, MODERN, "auto", lacks=frozenset(["changes"]))
    package = "@modelcontextprotocol/sdk"
    yield of("typescript-sdk", package, script_1, LEGACY, "legacy")
    package = "@modelcontextprotocol/client"
    yield of("typescript-sdk", package, script_2, MODERN, "auto", spares=True)
    yield of("typescript-sdk", package, script_2, LEGACY, "legacy")
    package = "@modelcontextprotocol/inspector"
    one_shot_only: dict[str, Any] = {
        "lacks": CONVERSATIONS,
        "burst": 3,
        "forgets": True,
    }
    yield of("inspector", package, inspector, LEGACY, "legacy", **one_shot_only)
    yield of("inspector", package, inspector, MODERN, "auto", **one_shot_only)


def our_clients() -> Iterator[Client]:
    for mode, newest in (("auto", MODERN), (LEGACY, LEGACY)):
        yield Client(
            f"ours {mode}",
            [sys.executable, script("bridges/ours.py"), str(ROOT), mode],
            newest,
        )


def judges() -> Iterator[Pair]:
    """Yield foreign clients on foreign servers: failures are the judge's own."""
    servers = [*sdk_servers(), *other_servers()]
    yield from (Pair(client, server) for server in servers for client in clients())


def pairs() -> Iterator[Pair]:
    """Yield foreign clients on our servers, and our client on foreign servers."""
    for server in our_servers():
        yield from (Pair(client, server, "stderr") for client in clients())
    for server in (*sdk_servers(), *other_servers()):
        for client in our_clients():
            if client.newest == MODERN or server.newest == MODERN:
                yield Pair(client, server, "client")
