"""What is asked of every pair: steps of actions, and what must come of each."""
from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any, Callable, NamedTuple

MODERN = "2026-07-28"
UPDATED = "notifications/resources/updated"
MODEL = {"role": "assistant", "model": "interop", "stopReason": "endTurn",
         "content": {"type": "text", "text": "The capital of France is Paris."}}
ROOTS = {"roots": [{"uri": "file:///home/ada", "name": "root"}]}
Holds = Callable[[Any], object]


class Row(NamedTuple):
    """An action of a client, and what must hold of {"result": ...} or {"error": ...}."""
    action: str
    arguments: dict[str, Any]
    holds: Holds


class Step(NamedTuple):
    """Rows are done one after the other, or `together`; the user answers with `action`."""
    name: str
    rows: list[Row]
    action: str = "accept"
    together: bool = False


def fine(holds: Holds = lambda result: True) -> Holds:
    """Make of what must hold for a result what must hold for an outcome."""
    return lambda outcome: "result" in outcome and holds(outcome["result"])


def text_of(result: Any) -> str:
    return "\n".join(block.get("text", "") for block in result["content"])


def call(row: Any, fails: bool = False, part: str = "") -> Row:
    """Call a tool: [name, arguments, what its text must contain]."""
    tool, arguments, said = row
    return Row("tools/call", {"name": tool, "arguments": arguments}, fine(
        lambda result: result.get("isError", False) is fails and (part or said) in text_of(result)))


def listed(kind: str, key: str, name: str) -> Row:
    return Row(f"{kind}/list", {}, fine(lambda result: name in [
        one[key] for entries in result.values() if isinstance(entries, list) for one in entries]))


def content(uri: str, holds: Holds) -> Row:
    """Read a resource of one content."""
    return Row("resources/read", {"uri": uri}, fine(lambda result: (
        len(result["contents"]) == 1 and result["contents"][0]["uri"] == uri
        and holds(result["contents"][0]))))


def refused(strict: bool, codes: Any, action: str, **arguments: Any) -> Row:
    """Ask for what is not there. A server of ours is held to codes of the specification; one
    client has a class for one of them, with a code of its own. Others may set isError."""
    def holds(outcome: Any) -> object:
        if "error" not in outcome:
            return not strict and outcome["result"].get("isError")
        code, kind = outcome["error"]["code"], outcome["error"]["kind"]
        return not strict or not isinstance(code, int) or {code, kind} & {*codes}

    return Row(action, arguments, holds)


def within(declared: Any, capabilities: Any) -> bool:
    """Tell whether capabilities hold all that is to be declared."""
    return all(name in capabilities and (within(value, capabilities[name]) if isinstance(
        value, dict) else capabilities[name] == value) for name, value in declared.items())


def grows(progress: Any) -> bool:
    values = [one["progress"] for one in progress]
    return values == sorted(set(values))


def core(profile: Any, revision: str, burst: int) -> Iterator[Step]:
    """Yield what every pair must do."""
    strict = profile.get("strict", False)
    yield Step("connect", [Row("about", {}, fine(lambda about: about["revision"] == revision and (
        within(profile.get("capabilities", {}), about["capabilities"]))))])
    yield Step("list", [listed("tools", "name", profile["call"][0]), Row(
        "tools/list", {}, fine(lambda result: all(
            tool["inputSchema"]["type"] == "object" for tool in result["tools"])
            and len(result["tools"]) >= profile.get("tools", 0)))])
    yield Step("call", [call(profile["call"])])
    yield Step("error", [refused(strict, [-32602], "tools/call", name="no-such-tool", arguments={}),
                         call(profile["failing"], fails=True), call(profile["call"])])
    many = [json.dumps(profile["burst"]).replace('"{n}"', str(n)).replace("{n}", str(n))
            for n in range(10, 10 + burst)]
    yield Step("burst", [call(json.loads(one)) for one in many], together=True)


def extended(profile: Any, revision: str) -> Iterator[Step]:
    """Yield what only those do that have it in their profile, under the name of the step."""
    strict = profile.get("strict", False)
    if "resource" in profile:
        uri, words = profile["resource"]
        missing = [-32602] if revision == MODERN else [-32002, "ResourceNotFoundError"]
        yield Step("resource", [listed("resources", "uri", uri),
                                content(uri, lambda one: words in one["text"]),
                                refused(strict, missing, "resources/read", uri="test://no-such")])
    if "binary" in profile:
        yield Step("binary", [content(profile["binary"], lambda one: base64.b64decode(
            one["blob"], validate=True).startswith(b"\x89PNG"))])
    if "template" in profile:
        form, expanded, filled = profile["template"]
        yield Step("template", [listed("resources/templates", "uriTemplate", form),
                                content(expanded, lambda one: filled in one["text"])])
    if "prompt" in profile:
        prompt, arguments, parts = profile["prompt"]
        yield Step("prompt", [
            listed("prompts", "name", prompt),
            Row("prompts/get", {"name": prompt, "arguments": arguments}, fine(lambda result: all(
                part in json.dumps(result["messages"]) for part in parts))),
            refused(strict, [-32602], "prompts/get", name="no-such-prompt", arguments={})])
    if "completion" in profile:
        ref, argument, values = profile["completion"]
        yield Step("completion", [Row(
            "completion/complete", {"ref": ref, "argument": argument},
            fine(lambda result: result["completion"]["values"] == values))])
    if "progress" in profile:
        yield Step("progress", [call(profile["progress"]), Row(
            "heard", {"event": "progress", "count": 2}, fine(grows))])
    if "logging" in profile:
        yield Step("logging", [
            Row("logging/setLevel", {"level": "debug"}, fine() if strict else bool),
            call(profile["logging"]),
            Row("heard", {"event": "notifications/message", "count": 1}, fine(
                lambda said: said[0]["level"] and said[0]["data"])),
            call(profile["logging"])])  # for server-everything: a switch, now off again
    if "elicitation" in profile:
        for action, told in (("accept", ""), ("decline", "decline"), ("cancel", "cancel")):
            yield Step("elicitation", [call(profile["elicitation"], part=told)], action)
    for name in ("sampling", "roots"):
        if name in profile:
            yield Step(name, [call(profile[name])])
    if "warned" in profile:  # these schemas are warnings of the Inspector, and none is an error
        yield Step("portable", [Row("portable", {}, fine(lambda result: (
            result["status"] == 0 and sorted(result["warned"]) == sorted(profile["warned"]))))])
    if "app" in profile:
        yield Step("app", [Row("app", {"tool": profile["app"]["toolName"]}, fine(
            lambda info: within(profile["app"], info)))])
    if "changes" in profile:
        watched = profile.get("watched", [])
        yield Step("changes", [Row("subscribe", {
            "uris": watched, "tools": True, "prompts": True, "resources": True}, fine())] + [
                row for event, trigger in profile["changes"].items() for row in (
                    call(trigger), Row("heard", {"event": event, "count": 1}, fine(
                        lambda found, event=event: event != UPDATED or found[0]["uri"] in watched)),
                    call(trigger))])  # as above


def as_told(step: Step, form: Any) -> list[dict[str, Any]]:
    """Write a step as a bridge takes it."""
    answer = {"action": step.action, **({"content": form} if step.action == "accept" else {})}
    user = {"elicitation/create": answer, "sampling/createMessage": MODEL, "roots/list": ROOTS}
    rows = [{"action": row.action, "with": row.arguments} for row in step.rows]
    return [{"user": user, "do": rows}] if step.together else [
        {"user": user, "do": [row]} for row in rows]
