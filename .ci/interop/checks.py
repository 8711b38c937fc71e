"""What is asked of every pair: the steps, in order."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Callable

from judge import HERE, Answer, Bridge, Refusal

MODERN = "2026-07-28"
LEGACY = "2025-11-25"
# The codes of an unknown resource; one client has a class for it with its own code.
MISSING = {MODERN: (-32602,), LEGACY: (-32002, "ResourceNotFoundError")}
UPDATED = "notifications/resources/updated"
PNG = b"\x89PNG"
ROOT = HERE.as_uri()
REPLY = "The capital of France is Paris."

Call = tuple[str, dict[str, Any], str]  # tool, arguments, what its text must contain


@dataclass(frozen=True)
class Profile:
    """What a server offers under which names. None: it has nothing of the kind."""

    call: Call
    burst: Callable[[int], Call]
    failing: Call | None = None
    strict: bool = False  # held to the codes of the specification, as ours is
    resource: tuple[str, str] | None = None  # uri, a part of its text
    binary: str | None = None  # uri of a PNG
    template: tuple[str, str, str] | None = None  # form, an expansion, part of its text
    prompt: tuple[str, dict[str, str], Sequence[str]] | None = None
    completion: tuple[dict[str, str], dict[str, str], Sequence[str]] | None = None
    progress: Call | None = None
    logging: Call | None = None
    elicitation: Call | None = None
    sampling: Call | None = None
    roots: Call | None = None
    changes: Mapping[str, Call] = field(
        default_factory=dict
    )  # event -> the call that causes it
    watched: Sequence[str] = ()


@dataclass(frozen=True)
class Table:
    """One pair at work: client, server, and the revision that they must find."""

    bridge: Bridge
    server: Profile
    revision: str
    burst: int
    stranger: Bridge  # changes things: another client, where a server can have two


def text_of(result: dict[str, Any]) -> str:
    return "\n".join(block.get("text", "") for block in result["content"])


def expect(condition: object, complaint: object) -> None:
    if not condition:
        raise AssertionError(str(complaint))


def offers(table: Table, capability: str, feature: str = "") -> bool:
    """Return what the server declared; a strict one must have declared it."""
    declared = table.bridge.do("about")["capabilities"].get(capability)
    offered = declared is not None and (not feature or declared.get(feature) is True)
    expect(
        offered or not table.server.strict, f"{capability} {feature} is not declared"
    )
    return offered


def expect_refused(
    table: Table, codes: Sequence[object], action: str, **arguments: Any
) -> None:
    try:
        result = table.bridge.do(action, **arguments)
    except Refusal as refusal:
        strict = table.server.strict and isinstance(refusal.code, int)
        found = {refusal.code, refusal.kind} & set(codes)
        expect(not strict or found, f"{refusal}, expected one of {codes}")
    else:
        expect(not table.server.strict and result.get("isError"), f"accepted: {result}")


def expect_text(table: Table, call: Call) -> None:
    tool, arguments, part = call
    result = table.bridge.do("tools/call", name=tool, arguments=arguments)
    expect(not result.get("isError") and part in text_of(result), f"{tool}: {result}")


# The core: what every pair must do.


def connect(table: Table) -> None:
    revision = table.bridge.do("about")["revision"]
    expect(revision == table.revision, f"they speak {revision}, not {table.revision}")


def list_tools(table: Table) -> None:
    tools = {tool["name"]: tool for tool in table.bridge.do("tools/list")["tools"]}
    expect(table.server.call[0] in tools, f"only {sorted(tools)}")
    for name, tool in tools.items():
        expect(
            tool["inputSchema"]["type"] == "object", f"{name}: {tool['inputSchema']}"
        )


def call_tool(table: Table) -> None:
    expect_text(table, table.server.call)


def error(table: Table) -> None:
    expect_refused(table, (-32602,), "tools/call", name="no-such-tool", arguments={})
    if table.server.failing:
        tool, arguments, part = table.server.failing
        result = table.bridge.do("tools/call", name=tool, arguments=arguments)
        expect(result.get("isError") and part in text_of(result), f"{tool}: {result}")
    expect_text(table, table.server.call)


def burst(table: Table) -> None:
    calls = [table.server.burst(number) for number in range(table.burst)]
    started = [
        table.bridge.start("tools/call", name=tool, arguments=arguments)
        for tool, arguments, _ in calls
    ]
    for number, (tool, arguments, part) in zip(started, calls):
        answer = text_of(table.bridge.result(number))
        expect(part in answer, f"{tool} {arguments}: {answer}")


# The rest of the protocol.


def resources(table: Table) -> None:
    assert table.server.resource
    uri, part = table.server.resource
    listed = [each["uri"] for each in table.bridge.do("resources/list")["resources"]]
    expect(uri in listed, f"only {listed}")
    (content,) = table.bridge.do("resources/read", uri=uri)["contents"]
    expect(content["uri"] == uri and part in content["text"], content)
    expect_refused(
        table, MISSING[table.revision], "resources/read", uri="test://no-such-thing"
    )


def binary(table: Table) -> None:
    (content,) = table.bridge.do("resources/read", uri=table.server.binary)["contents"]
    expect(base64.b64decode(content["blob"], validate=True).startswith(PNG), content)


def template(table: Table) -> None:
    assert table.server.template
    form, uri, part = table.server.template
    listed = table.bridge.do("resources/templates/list")["resourceTemplates"]
    expect(form in [each["uriTemplate"] for each in listed], f"only {listed}")
    (content,) = table.bridge.do("resources/read", uri=uri)["contents"]
    expect(content["uri"] == uri and part in content["text"], content)


def prompt(table: Table) -> None:
    assert table.server.prompt
    name, arguments, parts = table.server.prompt
    listed = {each["name"]: each for each in table.bridge.do("prompts/list")["prompts"]}
    expect(name in listed, f"only {sorted(listed)}")
    declared = {each["name"] for each in listed[name].get("arguments", ())}
    expect(set(arguments) <= declared, f"arguments {declared}")
    result = table.bridge.do("prompts/get", name=name, arguments=arguments)
    texts = " ".join(message["content"]["text"] for message in result["messages"])
    expect(all(part in texts for part in parts), result)
    expect_refused(table, (-32602,), "prompts/get", name="no-such-prompt", arguments={})


def completion(table: Table) -> None:
    assert table.server.completion
    ref, argument, wanted = table.server.completion
    found = table.bridge.do("completion/complete", ref=ref, argument=argument)[
        "completion"
    ]
    expect(list(found["values"]) == list(wanted), found)


def progress(table: Table) -> None:
    assert table.server.progress
    before = len(table.bridge.events("progress"))
    expect_text(table, table.server.progress)
    table.bridge.await_event("progress")
    values = [each["progress"] for each in table.bridge.events("progress")[before:]]
    expect(len(values) >= 2 and values == sorted(set(values)), f"progress {values}")


def logging(table: Table) -> None:
    assert table.server.logging
    if table.revision == MODERN or offers(table, "logging"):
        table.bridge.do("logging/setLevel", level="debug")
    expect_text(table, table.server.logging)
    said = table.bridge.await_event("notifications/message")
    expect(said["level"] and said["data"], said)
    expect_text(
        table, table.server.logging
    )  # for server-everything: a switch, now off again


def filled(schema: dict[str, Any]) -> Any:
    """Return a value that an elicitation schema allows, its default if it has one."""
    formats = {
        "email": "ada@example.org",
        "uri": "https://example.org",
        "date": "1815-12-10",
    }
    text = formats.get(schema.get("format", ""), "Ada")
    kinds: dict[str, Any] = {
        "string": schema.get("enum", [text])[0],
        "integer": 42,
        "number": 2.5,
        "boolean": True,
        "array": [],
    }
    return schema.get("default", kinds[schema["type"]])


def accept(params: dict[str, Any]) -> dict[str, Any]:
    properties = params["requestedSchema"]["properties"]
    content = {name: filled(schema) for name, schema in properties.items()}
    return {"action": "accept", "content": content}


USER = {
    "elicitation/create": accept,
    "roots/list": lambda _params: {"roots": [{"uri": ROOT, "name": "root"}]},
    "sampling/createMessage": lambda _params: {
        "role": "assistant",
        "content": {"type": "text", "text": REPLY},
        "model": "interop",
        "stopReason": "endTurn",
    },
}


def always(action: str) -> Answer:
    return lambda _params: {"action": action}


def elicitation(table: Table) -> None:
    assert table.server.elicitation
    expect_text(table, table.server.elicitation)
    tool, arguments, _ = table.server.elicitation
    for action in ("decline", "cancel"):
        table.bridge.user["elicitation/create"] = always(action)
        result = table.bridge.do("tools/call", name=tool, arguments=arguments)
        expect(action in text_of(result), f"after {action}: {result}")
    table.bridge.user["elicitation/create"] = accept


def sampling(table: Table) -> None:
    assert table.server.sampling
    expect_text(table, table.server.sampling)


def roots(table: Table) -> None:
    assert table.server.roots
    expect_text(table, table.server.roots)


def changes(table: Table) -> None:
    updates = offers(table, "resources", "subscribe")
    watched = list(table.server.watched) if updates else []
    table.bridge.do("subscribe", uris=watched, tools=True, prompts=True, resources=True)
    elsewhere = replace(table, bridge=table.stranger)
    for event, call in table.server.changes.items():
        kind = event.split("/")[1]
        if not (updates if event == UPDATED else offers(table, kind, "listChanged")):
            continue
        expect_text(elsewhere, call)
        params = table.bridge.await_event(event)
        expect(event != UPDATED or params["uri"] in watched, params)
        expect_text(elsewhere, call)  # for server-everything: a switch, now off again


Step = Callable[[Table], None]
CORE: Mapping[str, Step] = {
    "connect": connect,
    "list": list_tools,
    "call": call_tool,
    "error": error,
    "burst": burst,
}
EXTENDED: Mapping[str, Step] = {  # each named as the field of Profile that it needs
    "resource": resources,
    "binary": binary,
    "template": template,
    "prompt": prompt,
    "completion": completion,
    "progress": progress,
    "logging": logging,
    "elicitation": elicitation,
    "sampling": sampling,
    "roots": roots,
    "changes": changes,
}
