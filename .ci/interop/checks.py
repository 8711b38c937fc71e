"""The checks. Each one tells a client what to do with a server, and looks at what comes of it.

A check runs if the profile of the server has a member with the check's name (peers.json), unless
the client or the server lacks the feature. A profile says which tools and resources a check uses.
"""
from __future__ import annotations

import json
import threading
from typing import Any, Callable

MODERN = "2026-07-28"
UPDATED = "notifications/resources/updated"
LONGEST = 60.0  # seconds for actions
PATIENCE = 20.0  # seconds for a notification
MODEL = {"role": "assistant", "model": "interop", "stopReason": "endTurn",
         "content": {"type": "text", "text": "The capital of France is Paris."}}
ROOTS = {"roots": [{"uri": "file:///home/ada", "name": "root"}]}


class Ended(Exception):
    """The client has ended, or was killed because it took too long."""


class Talk:
    """The judge's end of a bridge (bridges/remote.py)."""

    def __init__(self, bridge: Any, profile: Any, revision: str, strict: bool) -> None:
        self.bridge, self.profile, self.revision = bridge, profile, revision
        self.strict = strict  # the server is ours
        self.events: list[tuple[str, Any]] = []

    def until(self, seconds: float, look: Callable[[], Any]) -> None:
        """Read what the client says until look() is true. Kill it if that takes longer."""
        timer = threading.Timer(seconds, self.bridge.kill)
        timer.start()
        try:
            while not look():
                line = self.bridge.stdout.readline()
                if not line:
                    raise Ended("no outcome or notification in time, or the client has ended")
                # A library may print, too.
                message = json.loads(line) if line.startswith(b"{") else {}
                if "event" in message:
                    self.events.append((message["event"], message["params"]))
                self.said = message.get("outcomes", self.said)
        finally:
            timer.cancel()

    def heard(self, event: str, count: int) -> list[Any]:
        """Wait for so many notifications; return the params of all that came."""
        def found() -> list[Any]:
            return [params for method, params in self.events if method == event]

        self.until(PATIENCE, lambda: len(found()) >= count)
        return found()

    def outcomes(self, actions: list[Any], user: str = "accept") -> list[Any]:
        """Let the client do actions side by side. The user accepts, declines or cancels."""
        form = {"content": self.profile.get("form")} if user == "accept" else {}
        answers = {"elicitation/create": {"action": user, **form},
                   "sampling/createMessage": MODEL, "roots/list": ROOTS}
        self.said: Any = None  # the outcomes
        self.bridge.stdin.write(json.dumps({"user": answers, "do": actions}).encode() + b"\n")
        self.bridge.stdin.flush()
        self.until(LONGEST, lambda: self.said)
        return list(self.said)

    def ask(self, action: str, **arguments: Any) -> Any:
        """Let the client do one action; return the result."""
        (outcome,) = self.outcomes([(action, arguments)])
        assert "result" in outcome, outcome
        return outcome["result"]

    def call(self, *rows: Any, fails: bool = False, user: str = "accept") -> None:
        """Call tools side by side. A row is [name, arguments, what its text must contain]."""
        actions = [("tools/call", {"name": row[0], "arguments": row[1]}) for row in rows]
        for row, outcome in zip(rows, self.outcomes(actions, user)):
            assert "result" in outcome, outcome
            result = outcome["result"]
            text = "\n".join(block.get("text", "") for block in result["content"])
            assert result.get("isError", False) is fails and row[2] in text, result

    def refused(self, codes: Any, action: str, **arguments: Any) -> None:
        """Ask for something that does not exist.

        A server of ours has to use the code of the specification. One client has a class instead
        of a code, and another one has no codes. Other servers may return isError.
        """
        (outcome,) = self.outcomes([(action, arguments)])
        error = outcome.get("error", {})
        if not self.strict:
            assert error or outcome["result"].get("isError"), outcome
        elif isinstance(error["code"], int):
            assert error["code"] in codes or error["kind"] in codes, outcome

    def listed(self, kind: str, key: str, value: str) -> None:
        (entries,) = [one for one in self.ask(f"{kind}/list").values() if isinstance(one, list)]
        assert value in [entry[key] for entry in entries], entries

    def content(self, uri: str) -> Any:
        """Read a resource that has one content, and return it."""
        (content,) = self.ask("resources/read", uri=uri)["contents"]
        assert content["uri"] == uri, content
        return content


def connect(talk: Talk, capabilities: Any) -> None:
    about = talk.ask("about")
    assert about["revision"] == talk.revision, about
    assert capabilities.items() <= about["capabilities"].items(), about


def tools(talk: Talk, count: int) -> None:
    found = talk.ask("tools/list")["tools"]
    assert talk.profile["call"][0] in [tool["name"] for tool in found], found
    assert all(tool["inputSchema"]["type"] == "object" for tool in found), found
    assert len(found) >= count, found


def error(talk: Talk, row: Any) -> None:
    talk.refused([-32602], "tools/call", name="no-such-tool", arguments={})
    talk.call(row, fails=True)
    talk.call(talk.profile["call"])


def burst(talk: Talk, row: Any) -> None:
    """Call a tool many times at once. Each call gets its own result."""
    template = json.dumps(row)
    talk.call(*[json.loads(template.replace('"{n}"', str(n)).replace("{n}", str(n)))
                for n in range(10, 30)])


def resource(talk: Talk, row: Any) -> None:
    uri, words = row
    talk.listed("resources", "uri", uri)
    assert words in talk.content(uri)["text"], words
    codes = [-32602] if talk.revision == MODERN else [-32002, "ResourceNotFoundError"]
    talk.refused(codes, "resources/read", uri="test://no-such")


def template(talk: Talk, row: Any) -> None:
    uri_template, uri, words = row
    talk.listed("resources/templates", "uriTemplate", uri_template)
    assert words in talk.content(uri)["text"], words


def prompt(talk: Talk, row: Any) -> None:
    name, arguments, parts = row
    talk.listed("prompts", "name", name)
    messages = json.dumps(talk.ask("prompts/get", name=name, arguments=arguments)["messages"])
    assert all(part in messages for part in parts), messages
    talk.refused([-32602], "prompts/get", name="no-such-prompt", arguments={})


def completion(talk: Talk, row: Any) -> None:
    ref, argument, values = row
    found = talk.ask("completion/complete", ref=ref, argument=argument)
    assert found["completion"]["values"] == values, found


def progress(talk: Talk, row: Any) -> None:
    talk.call(row)
    values = [one["progress"] for one in talk.heard("progress", 2)]
    assert values == sorted(set(values)), values


def logging(talk: Talk, row: Any) -> None:
    (outcome,) = talk.outcomes([("logging/setLevel", {"level": "debug"})])
    assert "result" in outcome or not talk.strict, outcome
    talk.call(row)
    said = talk.heard("notifications/message", 1)[0]
    assert said["level"] and said["data"], said
    talk.call(row)  # this switches the messages of server-everything off


def elicitation(talk: Talk, row: Any) -> None:
    talk.call(row)
    for user in ("decline", "cancel"):
        talk.call([*row[:2], user], user=user)


def portable(talk: Talk, names: list[str]) -> None:
    """The schemas of these tools, and no others, get a warning of the Inspector, not an error."""
    found = talk.ask("portable")
    assert found["status"] == 0 and sorted(found["warned"]) == sorted(names), found


def app(talk: Talk, info: Any) -> None:
    found = talk.ask("app", tool=info["toolName"])
    assert info.items() <= found.items(), found


def changes(talk: Talk, triggers: Any) -> None:
    watched = talk.profile.get("watched", [])
    talk.ask("subscribe", uris=watched, tools=True, prompts=True, resources=True)
    for event, row in triggers.items():
        talk.call(row)
        params = talk.heard(event, 1)[0]
        assert event != UPDATED or params["uri"] in watched, params
        talk.call(row)  # this switches the updates of server-everything off


CHECKS: dict[str, Callable[[Talk, Any], object]] = {
    "connect": connect, "tools": tools, "call": Talk.call, "error": error, "burst": burst,
    "resource": resource, "template": template, "prompt": prompt,
    "completion": completion, "progress": progress, "logging": logging,
    "elicitation": elicitation, "sampling": Talk.call, "roots": Talk.call, "portable": portable,
    "app": app, "changes": changes}
