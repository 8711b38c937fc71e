"""A conversation between a client and a server, with every line of it explained.

Look at: Client.trace, which sees each line of both directions; all that is printed comes
from the lines themselves. Only what is wrong on purpose is said by the tour.
Try: a step of your own in TOUR; a server of your own in SERVER; a pipe into `head`.

    python3 examples/demo.py
    NO_COLOR=1 COLUMNS=120 python3 examples/demo.py
"""

from __future__ import annotations

import json
import os
import queue
import shutil
import sys
import textwrap
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # see 01_hello.py

import mcp_ref
from mcp_ref import META, Client, RpcError, classify, decode

SERVER = [sys.executable, mcp_ref.__file__]  # the demo server
BOLD, BLUE, ORANGE = "1", "38;5;32", "38;5;166"  # to be read on black and on white
ENDS = {">": ("client --> server", BLUE), "<": ("client <-- server", ORANGE)}
NARROWEST, WIDEST = 40, 132  # columns
Json = dict[str, Any]

# --- Layout ---------------------------------------------------------------------------


def flat(value: Any) -> str:
    """Write JSON on one line, and {"...": 0} as the mark {...}."""
    return json.dumps(value, separators=(",", ":")).replace('"...":0', "...")


def wrap(text: str, width: int, pad: str, hang: str) -> list[str]:
    """Break text between words alone."""
    return textwrap.wrap(text, width, initial_indent=pad, subsequent_indent=hang,
                         break_long_words=False, break_on_hyphens=False)


def layout(value: Any, width: int, lead: str = "", tail: str = "", depth: int = 1
           ) -> list[str]:
    """Lay JSON out in lines of at most width, broken between members or words."""
    pad = "  " * depth
    whole = f"{pad}{lead}{flat(value)}{tail}"
    if len(whole) <= width:
        return [whole]
    if not value or not isinstance(value, (dict, list)):
        return wrap(whole.strip(), width, pad, pad + "  ")
    members = ([(f"{flat(name)}:", one) for name, one in value.items()]
               if isinstance(value, dict) else [("", one) for one in value])
    opening, closing = ("{", "}") if isinstance(value, dict) else ("[", "]")
    lines, joins = [pad + lead + opening], True
    for number, (name, member) in enumerate(members, 1):
        end = "," if number < len(members) else closing + tail
        first, *more = layout(member, width, name, end, depth + 1)
        if len(lines[-1] + first.strip()) <= width and joins and (
                not more or name and len(lines) == 1):
            lines[-1] += first.strip()
            lines += [row[2:] for row in more] if number == len(members) else more
        else:
            lines += [first, *more]
        joins = not more
    return lines


# --- Explanation ----------------------------------------------------------------------

REQUESTS = {  # and notifications: what they mean
    "initialize":
        "Open a session. The client speaks {protocolVersion} and offers {has}. Each "
        "request has an id, here {id}, and its response has the same.",
    "notifications/initialized":
        "The session is open. A notification has no id, and so it is never answered.",
    "server/discover":
        "What is the server? Each request has an id, here {id}, and its response has "
        "the same. There is no handshake and no session: this request says by itself, "
        "in _meta, that it is of version {version}, who the client is, and what it can "
        "do. So does each that follows.",
    "tools/list": "Which tools are there? Id {id}.",
    "tools/call": "Call the tool {name}{with}. Id {id}.",
    "tools/call, progress":
        "Call the tool {name}{with}. Id {id}. The client wants to hear of its "
        "progress, under the token {token}.",
    "tools/call, again":
        "Call {name} once more: a new request, with id {id}, the answer of the user, "
        "and requestState as it came.",
    "elicitation/create":
        "A request in the other direction: while the call waits, its tool asks the "
        "user. The server counts ids of its own: its {id} is not the {id} of the "
        "client.",
    "notifications/cancelled":
        "The client does not wait for id {requestId} any more ({what}). The server "
        "stops working on it and must not answer: nobody waits for a response.",
    "notifications/progress":
        "Progress, {progress} of {total}. The token, {progressToken}, says that it is "
        "about id {about}.",
    "?": "There is no method {method}: this is wrong on purpose. Id {id}."}
RESPONSES = {  # what they mean, by the method of the request
    "initialize": "agreed, the session speaks {protocolVersion}. The server has {has}.",
    "server/discover":
        "the server speaks {versions} without a handshake. It has {has}.",
    "tools/list":
        "{names}, each with a JSON Schema of its arguments. The application shows them "
        "to its model.",
    "tools/call": "the tool has returned {text}, as text for the model.",
    "structuredContent":
        "the tool has returned {text}, as text for the model, and as JSON for "
        "programs.",
    "isError":
        "a result, marked isError, and not an error. The model reads what is wrong, "
        "and can call again with better arguments.",
    "inputRequests":
        "it needs input first. The client asks its user, and calls again. Meanwhile "
        "the server remembers nothing: what it has to know is in requestState, signed.",
    "elicitation/create":
        "the user has answered{with}. The id is that of the server's request.",
    "error":
        "error {code}. The request itself is wrong, so there is no result. The "
        "application reads this, not the model."}

def listed(words: Any) -> str:
    """Join words: a, b and c."""
    *most, last = [str(word) for word in words] or ["nothing"]
    return f"{', '.join(most)} and {last}" if most else last


def given(arguments: Any) -> str:
    """Write arguments as in a call."""
    words = [f"{name}={flat(value)}" for name, value in (arguments or {}).items()]
    return f" with {listed(words)}" if words else ""


class Explainer:
    """Says what each message of one connection means."""

    def __init__(self) -> None:
        self.pending: dict[tuple[str, Any], str] = {}  # (arrow, id) -> what it is
        self.tokens: dict[Any, Any] = {}  # of progress -> id of the request
        self.cancelled: list[Any] = []  # ids
        self.known: set[str] = set()  # what _meta has shown
        self.counts = {"request": 0, "response": 0, "notification": 0}
        self.remark = ""  # of the tour, on the next request

    def explain(self, arrow: str, message: Json) -> str:
        """Say what a message means."""
        kind, _ = classify(message)
        self.counts[kind] += 1
        if kind == "response":
            return self.explain_response(arrow, message)
        method, params = message["method"], message.get("params") or {}
        rid, meta = message.get("id"), params.get("_meta", {})
        token = meta.get("progressToken")
        key = method if method in REQUESTS else "?"
        if "inputResponses" in params:
            key += ", again"
        elif token is not None:
            key += ", progress"
            self.tokens[token] = rid
        what = self.pending.pop((">", params.get("requestId")), "")
        if what:
            self.cancelled.append(params["requestId"])
        if kind == "request":
            self.pending[arrow, rid] = f"{method} {params.get('name', '')}".strip()
        words = REQUESTS[key].format(**{
            **params, "method": method, "id": rid, "token": token, "what": what,
            "has": listed(params.get("capabilities", ())),
            "version": meta.get(META + "protocolVersion"),
            "with": given(params.get("arguments")),
            "about": self.tokens.get(params.get("progressToken"))})
        remark, self.remark = self.remark, ""
        return f"{words} {remark}".strip()

    def explain_response(self, arrow: str, message: Json) -> str:
        other = "<" if arrow == ">" else ">"
        what = self.pending.pop((other, message["id"]), "an unknown request")
        result: Json = message["error" if "error" in message else "result"]
        keys = [key for key in RESPONSES if key in result or key in message]
        words = RESPONSES[keys[0] if keys else what.split()[0]].format(**{
            **result, "has": listed(result.get("capabilities", ())),
            "versions": listed(result.get("supportedVersions", ())),
            "names": listed(tool["name"] for tool in result.get("tools", ())),
            "with": given(result.get("content") if "action" in result else None),
            "text": flat(result["content"][0]["text"]) if what[:5] == "tools"
            and result.get("content") else ""})
        return f"Response to id {message['id']}, {what}: {words}"

    def shorten(self, value: Any) -> Any:
        """Leave out what _meta has shown before, and most of an opaque string."""
        if isinstance(value, list):
            return [self.shorten(one) for one in value]
        if not isinstance(value, dict):
            return value
        short = {name: self.shorten(one) for name, one in value.items()}
        if "requestState" in value:
            short["requestState"] = value["requestState"][:16] + "..."
        if "_meta" in value:
            facts = {name: flat({name: one}) for name, one in value["_meta"].items()}
            old = [name for name in facts if facts[name] in self.known]
            self.known.update(facts[name] for name in facts if META in name)
            short["_meta"] = {name: value["_meta"][name] for name in facts
                              if name not in old} | ({"...": 0} if old else {})
        return short


# --- The tour -------------------------------------------------------------------------

Step = tuple[str, Callable[[Client], Any]]  # a remark, and what to do
ADD: Json = {"name": "add", "arguments": {"a": 1, "b": 2}}
LONG: Json = {"name": "count", "arguments": {"to": 99}}
STEPS: list[Step] = [
    ("", lambda client: client.list_tools()),
    ("", lambda client: client.call_tool("add", {"a": 1, "b": 2})),
    ("These arguments are wrong on purpose: b is no integer.",
     lambda client: client.call_tool("add", {"a": 1, "b": "two"})),
    ("", lambda client: client.request("no/such")),
    ("", lambda client: client.call_tool(
        "count", {"to": 2}, on_progress=lambda *how: None)),
    ("It will be cancelled at once, and so have no response.",
     lambda client: client.start("tools/call", LONG).cancel()),
    ("It will ask the user for a name.", lambda client: client.call_tool("greet"))]
BATCH: list[Step] = [
    ("", lambda client: client.batch([("tools/call", ADD), ("no/such", None)]))]
TOUR = [
    ("2025-11-25", "legacy: a handshake opens a session", STEPS),
    ("2026-07-28", "modern: each request stands alone", STEPS),
    ("2025-03-26", "legacy, the one version with batches", BATCH)]


class Screen:
    """Prints blocks, as wide as the terminal."""

    def __init__(self) -> None:
        columns = shutil.get_terminal_size((80, 24)).columns
        self.width = min(max(columns, NARROWEST), WIDEST)
        self.colour = (sys.stdout.isatty() and not os.environ.get("NO_COLOR")
                       and os.environ.get("TERM", "dumb") != "dumb")

    def paint(self, text: str, style: str) -> str:
        return f"\033[{style}m{text}\033[0m" if self.colour else text

    def title(self, text: str) -> None:
        rows = wrap(f"=== {text} ===", self.width, "", "")
        print("", *[self.paint(row, BOLD) for row in rows], "", sep="\n", flush=True)

    def prose(self, text: str, pad: str = "", hang: str = "") -> None:
        print(*wrap(text, self.width, pad, hang), sep="\n", flush=True)

    def line(self, arrow: str, message: Any, told: list[str]) -> None:
        """Print one line of the wire below its explanation."""
        label, style = ENDS[arrow]
        first, *more = wrap(told[0], self.width, f"{label}  ", " " * len(label) + "  ")
        print(self.paint(label, style) + first[len(label):], *more, sep="\n")
        for one in told[1:]:
            self.prose(one, "  - ", "    ")
        for row in layout(message, self.width):
            print(self.paint(row, style))
        print(flush=True)


def converse(screen: Screen, version: str, steps: list[Step]) -> Explainer:
    """Let a client and the server talk; explain the lines of each step after it."""
    traced: queue.SimpleQueue[tuple[str, bytes]] = queue.SimpleQueue()
    explainer = Explainer()

    def show() -> None:
        while not traced.empty():
            arrow, line = traced.get()
            message = decode(line)
            if isinstance(message, list):
                told = [explainer.explain(arrow, one) for one in message]
                told.insert(0, f"{len(told)} responses in one line, in any order."
                            if arrow == "<" else
                            f"A batch: {len(told)} messages in one line. Only {version} "
                            "has batches. Each message is handled by itself.")
            else:
                told = [explainer.explain(arrow, message)]
            screen.line(arrow, explainer.shorten(message), told)

    client = Client(SERVER, protocol_version=version, on_elicit=lambda params: {
        "action": "accept", "content": {"name": "Ada"}})
    client.trace = lambda arrow, line: traced.put((arrow, line))
    with client:
        show()
        for explainer.remark, step in steps:
            with suppress(RpcError):  # it is among the lines
                step(client)
            show()
    return explainer


def tour(screen: Screen) -> None:
    """Show each part of TOUR, then what was shown."""
    screen.prose(
        "A client and a server talk. The client is this process; the server is its "
        "child, and they talk over its stdin and stdout. Each block is one line on the "
        "wire: what it means, then its JSON, laid out. The mark ... stands for what is "
        "left out: what _meta has shown before, and most of an opaque string.")
    summary = []
    for version, title, steps in TOUR:
        screen.title(f"{version}, {title}")
        seen = converse(screen, version, steps)
        screen.prose("The client closes the server's stdin, and the server ends.")
        counts = ", ".join(f"{kind}s: {count}" for kind, count in seen.counts.items())
        summary.append(f"{version}, {title}; {counts}." + "".join(
            f" Id {rid} was cancelled: no response." for rid in seen.cancelled))
    screen.title("What was shown")
    for words in (
            *summary,
            "A response is known by the id of its request, progress by its token. A "
            "notification and a cancelled call have no response.",
            "What the handshake agrees on holds for a session (legacy). Without one, "
            "each request says it in _meta (modern).",
            "What goes wrong in a tool is a result, for the model. A wrong request is "
            "an error, for the application.",
            "A tool asks its user by a request of the server (legacy), or by a result "
            "after which the client calls again (modern).",
            "Next: the course in examples/README.md. The lines of your own server: "
            "`python3 mcp_ref.py --trace inspect -- COMMAND`."):
        screen.prose(words, "- ", "  ")


def main() -> int:
    try:
        tour(Screen())
    except BrokenPipeError:  # `demo | head`: nobody reads any more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
