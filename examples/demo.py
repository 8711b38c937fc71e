"""A conversation between a client and a server, with an explanation of every line.

The explanations are computed from the lines themselves. Only the remarks in STEPS say
what will happen next, or which argument is wrong on purpose. On a terminal, the demo
stops before each part.

With a command after --, the client talks to another server. It lists what the server
offers, and calls only tools that need no arguments and declare that they only read.

Look at: client.trace in `converse`. It is called for each line that the client sends or
receives.
Try: add a step to STEPS. Give the command of your own server.

    python3 examples/demo.py
    NO_COLOR=1 COLUMNS=120 python3 examples/demo.py
    python3 examples/demo.py -- python3 examples/steps/4_stdout.py
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # see 01_hello.py

import mcp_ref
from mcp_ref import (
    META, METHODS, Client, RpcError, classify, decode, fault_of_response)

SERVER = [sys.executable, mcp_ref.__file__]  # mcp_ref.py is also a small demo server
# These colours can be read on a black and on a white background.
BOLD = "1"
BLUE = "38;5;32"
ORANGE = "38;5;166"
LABELS = {">": ("client --> server", BLUE), "<": ("client <-- server", ORANGE)}
OF_SENDER = {">": "", "<": " of the server"}
NARROWEST = 40  # columns
WIDEST = 132
OMITTED = "..."  # as the name of a member: some members are left out here
Json = dict[str, Any]

# --- Layout ---------------------------------------------------------------------------


def compact(value: Any) -> str:
    """Write JSON on one line. The member {"...": 0} becomes the mark {...}."""
    return json.dumps(value, separators=(",", ":")).replace(f'"{OMITTED}":0', OMITTED)


def wrap(text: str, width: int, first_indent: str = "", indent: str = "") -> list[str]:
    """Break text into lines. Words stay whole, even if they are too long.

    Control characters, and marks that change the direction of text, are escaped, so
    that a server cannot steer the terminal.
    """
    escaped = "".join(character if character.isprintable() or character == "\n"
                      else ascii(character)[1:-1] for character in text)
    return textwrap.wrap(escaped, width, initial_indent=first_indent,
                         subsequent_indent=indent, break_long_words=False,
                         break_on_hyphens=False)


def layout(value: Any, width: int, before: str = "", after: str = "",
           depth: int = 1) -> list[str]:
    """Spread JSON over lines of at most `width` columns.

    Lines are broken between members, and in long strings between words. `before` and
    `after` are put around the value: the name of the member, a comma, brackets.
    """
    indent = "  " * depth
    one_line = f"{indent}{before}{compact(value)}{after}"
    if len(one_line) <= width:
        return [one_line]
    if isinstance(value, dict) and value:
        brackets = "{}"
        members = [(f"{compact(name)}:", member) for name, member in value.items()]
    elif isinstance(value, list) and value:
        brackets = "[]"
        members = [("", member) for member in value]
    else:
        return wrap(one_line.strip(), width, indent, indent + "  ")

    lines = [indent + before + brackets[0]]
    may_join = True  # whether the next member may continue the last line
    for number, (name, member) in enumerate(members, 1):
        end = "," if number < len(members) else brackets[1] + after
        rows = layout(member, width, name, end, depth + 1)
        is_one_row = len(rows) == 1
        if is_one_row and may_join and len(lines[-1]) + len(rows[0].strip()) <= width:
            lines[-1] += rows[0].strip()
        else:
            lines += rows
        may_join = is_one_row
    return lines


def join_words(words: Iterable[object]) -> str:
    """Join words: "a, b and c"."""
    strings = [str(word) for word in words]
    if len(strings) < 2:
        return "".join(strings) or "nothing"
    return f"{', '.join(strings[:-1])} and {strings[-1]}"


# --- Explanations ---------------------------------------------------------------------

CAPABILITIES = {
    "elicitation": "elicitation (the server may ask the user for input)",
    "logging": "logging (it can send log messages)",
    "tools": "tools (functions that the client can call)"}


def explain_capabilities(capabilities: Json) -> str:
    return join_words(CAPABILITIES.get(name, name) for name in capabilities)


def explain_arguments(arguments: Json) -> str:
    """Return arguments as in a sentence: " with a=1 and b=2"."""
    if not arguments:
        return ""
    words = [f"{name}={compact(value)}" for name, value in arguments.items()]
    return f" with {join_words(words)}"


class Explainer:
    """Explains the messages of one connection, in the order of the wire."""

    def __init__(self) -> None:
        self.remark = ""  # about the next request
        self._pending: dict[tuple[str, Any], str] = {}  # (arrow, id) -> method and tool
        self._requests: dict[Any, Any] = {}  # progress token -> id of the request
        self._shown_meta: set[str] = set()  # members of _meta, as JSON
        self._has_explained_ids = False

    def explain(self, arrow: str, message: Json) -> str:
        """Return the explanation of a message. arrow is ">" if the client sent it."""
        kind, fault = classify(message)
        if kind == "response":
            fault = fault_of_response(message)
        if fault is not None:
            return f"This is not a valid message: {fault}."
        explain_kind = {"request": self._explain_request,
                        "notification": self._explain_notification,
                        "response": self._explain_response}[kind]
        try:
            return explain_kind(arrow, message)
        except (LookupError, TypeError, AttributeError) as error:
            return (f"This is a {kind} with a part that is missing or has an "
                    f"unexpected type: {error!r:.60}.")

    def _explain_request(self, arrow: str, message: Json) -> str:
        rid = message["id"]
        method = message["method"]
        params = message.get("params", {})
        token = params.get("_meta", {}).get("progressToken")
        name = method
        if method == "tools/call":
            name = f"{method} {params['name']}"
        self._pending[arrow, rid] = name
        sentences = [self._request_words(rid, method, params)]
        if not self._has_explained_ids:
            self._has_explained_ids = True
            sentences.append("This message is a request, because it has a method and "
                             f"an id, here {rid}. Its response will have the same id.")
        if token is not None:
            self._requests[token] = rid
            sentences.append(f"The progressToken {token} in _meta asks for reports of "
                             "progress.")
        if self.remark:
            sentences.append(self.remark)
            self.remark = ""
        return f"Request {rid}{OF_SENDER[arrow]}: {' '.join(sentences)}"

    def _request_words(self, rid: Any, method: str, params: Json) -> str:
        """Explain a request by its method."""
        if method == "initialize":
            offered = explain_capabilities(params["capabilities"])
            return (f"The client opens a session. It proposes revision "
                    f"{params['protocolVersion']}, and it offers {offered}.")
        if method == "server/discover":
            version = params["_meta"][META + "protocolVersion"]
            return ("The client asks which revisions and capabilities the server has. "
                    "Like every modern request, this one says in _meta which revision "
                    f"it uses ({version}), which client sends it, and which "
                    "capabilities this client has.")
        if method == "tools/list":
            return "The client asks for the list of tools."
        if method == "tools/call" and "inputResponses" in params:
            return (f"The client calls {params['name']} again, as a new request with a "
                    "new id. It adds the answer of the user, and sends requestState "
                    "back unchanged.")
        if method == "tools/call":
            arguments = explain_arguments(params.get("arguments", {}))
            return f"The client calls the tool {params['name']}{arguments}."
        if method == "elicitation/create":
            return ("The tool needs input from the user, so the server sends a request "
                    "to the client. Meanwhile the tool waits. Each side numbers its "
                    f"own requests, so request {rid} of the server and request {rid} "
                    "of the client are different requests.")
        if method in METHODS:
            return f"The client calls the method {method}."
        return (f"The client calls the method {method}, which does not exist. This "
                "request is wrong on purpose.")

    def _explain_notification(self, arrow: str, message: Json) -> str:
        method = message["method"]
        params = message.get("params", {})
        if method == "notifications/initialized":
            words = ("The client confirms that the session is open. This message is a "
                     "notification, because it has a method and no id. It gets no "
                     "response.")
        elif method == "notifications/cancelled":
            rid = params["requestId"]
            name = self._pending.pop((">", rid))
            words = (f"The client cancels request {rid} ({name}). The server stops the "
                     "work, and sends no response.")
        elif method == "notifications/progress":
            token = params["progressToken"]
            progress = str(params["progress"])
            if "total" in params:
                progress += f" of {params['total']}"
            words = (f"The tool reports progress: {progress}. The progressToken "
                     f"{token} shows that the report is about request "
                     f"{self._requests[token]}.")
        else:
            words = f"This is {method}."
        return f"Notification: {words}"

    def _explain_response(self, arrow: str, message: Json) -> str:
        rid = message.get("id")
        asker = "<" if arrow == ">" else ">"
        name = self._pending.pop((asker, rid), "no such request is waiting")
        words = self._result_words(name, message)
        return f"Response to request {rid}{OF_SENDER[asker]} ({name}): {words}"

    def _result_words(self, name: str, message: Json) -> str:
        """Explain an error, or a result by the method of its request."""
        if "error" in message:
            return (f"The server refuses the request with error "
                    f"{message['error']['code']}. The response has an error instead of "
                    "a result. An error is for the application, not for the model.")
        result = message["result"]
        if name == "initialize":
            offered = explain_capabilities(result["capabilities"])
            return (f"The server agrees to revision {result['protocolVersion']}. It "
                    f"offers {offered}.")
        if name == "server/discover":
            offered = explain_capabilities(result["capabilities"])
            versions = join_words(result["supportedVersions"])
            return (f"The server supports revision {versions} without a handshake. It "
                    f"offers {offered}.")
        if name == "tools/list":
            names = join_words(tool["name"] for tool in result["tools"])
            return (f"The server has the tools {names}, each with a JSON Schema of its "
                    "arguments. The application shows this list to its model, which "
                    "decides when to call a tool.")
        if name == "elicitation/create":
            arguments = explain_arguments(result.get("content", {}))
            return f"The user has answered{arguments}. The tool continues."
        if "inputRequests" in result:
            return ("The tool needs input from the user. This result ends the request "
                    "and asks for the input. The client will ask the user and call the "
                    "tool again. The server does not remember the first call. The "
                    "second one contains all that the server needs, including "
                    "requestState, which the server has signed.")
        if result.get("isError"):
            return ("The call has failed. It still has a result, marked with isError, "
                    "so that the model can read the reason and call again with better "
                    "arguments.")
        if "content" not in result:
            return "The server sends the result."
        blocks = [f"{compact(one['text']):.200}" if one["type"] == "text"
                  else f"a block of type {one['type']}" for one in result["content"]]
        words = f"The tool has returned {join_words(blocks)} as content for the model."
        if "structuredContent" in result:
            words += " structuredContent holds the same value as JSON, for programs."
        return words

    def shorten(self, message: Any) -> Any:
        """Leave out members of _meta shown before, and most of requestState."""
        return json.loads(json.dumps(message), object_hook=self._shorten_object)

    def _shorten_object(self, members: Json) -> Json:
        if isinstance(members.get("requestState"), str):
            members["requestState"] = members["requestState"][:16] + OMITTED
        meta = members.get("_meta")
        if isinstance(meta, dict):
            new = {name: value for name, value in meta.items()
                   if compact({name: value}) not in self._shown_meta}
            self._shown_meta.update(
                compact({name: value}) for name, value in new.items()
                if name.startswith(META))  # progress tokens are always shown
            if len(new) < len(meta):
                new[OMITTED] = 0
            members["_meta"] = new
        return members


# --- The tour -------------------------------------------------------------------------


class Step(NamedTuple):
    """Something that the client does."""
    run: Callable[[Client], Any]
    remark: str = ""  # for the explanation of its request


class Part(NamedTuple):
    """A part of the tour: a connection with one revision of MCP."""
    version: str
    title: str
    introduction: str


def answer(question: Json) -> Json:
    """Take the part of the user, who types a name into a form."""
    return {"action": "accept", "content": {"name": "Ada"}}


LONG: Json = {"name": "count", "arguments": {"to": 99}}
STEPS = [
    Step(lambda client: client.list_tools()),
    Step(lambda client: client.call_tool("add", {"a": 1, "b": 2})),
    Step(lambda client: client.call_tool("add", {"a": 1, "b": "two"}),
         "The argument b is wrong on purpose, because it is not an integer."),
    Step(lambda client: client.request("no/such")),
    Step(lambda client: client.call_tool(  # a call with on_progress gets reports
        "count", {"to": 2}, on_progress=lambda *report: None)),
    Step(lambda client: client.start("tools/call", LONG).cancel(),
         "The client will cancel this call at once, so it gets no response."),
    Step(lambda client: client.call_tool("greet"),
         "This tool asks the user for a name."),
]
TOUR = [
    Part("2025-11-25", "2025-11-25 (legacy): a handshake opens a session",
         "The revisions up to 2025-11-25 are called legacy here. A connection begins "
         "with a handshake, which opens a session. Both sides remember what they have "
         "agreed on until the session ends."),
    Part("2026-07-28", "2026-07-28 (modern): each request stands alone",
         "The revisions from 2026-07-28 on are called modern here. They need neither a "
         "handshake nor a session, because each request contains all that the server "
         "has to know."),
]
INTRODUCTION = [
    "The Model Context Protocol (MCP) connects an application that uses a language "
    "model with servers that offer tools. The application has one client for each "
    "server. Below, a client and a server have a conversation. The client is this "
    "process, and the server is its child process. The client writes lines to the "
    "server's stdin, and reads lines from the server's stdout.",
    "Each block shows one line: first an explanation, and then the JSON of the line, "
    "spread over several rows. The messages are those of JSON-RPC 2.0. The mark ... "
    "stands for members of _meta that were shown before, and for the rest of a long "
    "requestState."]
SUMMARY = [
    "A response has the id of its request. A report of progress has the progressToken "
    "that the request gave.",
    "A notification gets no response, and neither does a cancelled request.",
    "In a legacy revision, the handshake settles revision and capabilities for the "
    "whole session. In a modern revision, each request states them in _meta.",
    "If a tool fails, the client gets a result with isError, for the model. If a "
    "request is wrong, the client gets an error, for the application.",
    "If a tool needs input from the user, a legacy server sends a request to the "
    "client. A modern server sends a result that asks for the input, and the client "
    "calls the tool again.",
    "Next: read the course in examples/README.md. To let this client talk to your own "
    "server, run `python3 examples/demo.py -- COMMAND`."]


def look_around(client: Client) -> None:
    """Ask for every list that the server offers, and call the tools that only read and
    need no arguments."""
    tools = client.list_tools()
    if "resources" in client.server_capabilities:
        client.list_resources()
        client.list_resource_templates()
    if "prompts" in client.server_capabilities:
        client.list_prompts()
    for tool in tools:
        only_reads = tool.get("annotations", {}).get("readOnlyHint") is True
        if only_reads and not tool["inputSchema"].get("required"):
            client.call_tool(tool["name"])


STEPS_ELSEWHERE = [
    Step(look_around),
    Step(lambda client: client.call_tool("no_such_tool"),
         "No tool has this name. This request is wrong on purpose."),
    Step(lambda client: client.request("no/such")),
]


class Screen:
    """Prints the tour, as wide as the terminal."""

    def __init__(self) -> None:
        columns = shutil.get_terminal_size((80, 24)).columns
        self.width = min(max(columns, NARROWEST), WIDEST)
        self.has_colours = (sys.stdout.isatty()
                            and not os.environ.get("NO_COLOR")
                            and os.environ.get("TERM", "dumb") != "dumb")
        self.can_stop = bool(sys.stdin) and sys.stdin.isatty() and sys.stdout.isatty()

    def may_go_on(self) -> bool:
        """Wait for the reader. Return False if the tour ends here."""
        if not self.can_stop:
            return True
        print(self.paint("[Enter: go on; q: end] ", BOLD), end="", flush=True)
        answer = sys.stdin.readline()  # "" is Ctrl-D
        return answer != "" and answer.strip().lower() != "q"

    def paint(self, text: str, style: str) -> str:
        return f"\033[{style}m{text}\033[0m" if self.has_colours else text

    def title(self, text: str) -> None:
        rows = [self.paint(row, BOLD) for row in wrap(f"=== {text} ===", self.width)]
        print("", *rows, "", sep="\n", flush=True)

    def paragraph(self, text: str, bullet: str = "") -> None:
        rows = wrap(text, self.width, bullet, " " * len(bullet))
        print(*rows, sep="\n", flush=True)

    def line(self, arrow: str, explanation: str, shown: list[str]) -> None:
        """Print the rows that show one line of the wire, below its explanation."""
        label, style = LABELS[arrow]
        rows = wrap(explanation, self.width, f"{label}  ", " " * len(label) + "  ")
        rows[0] = self.paint(label, style) + rows[0][len(label):]
        rows += [self.paint(row, style) for row in shown]
        print(*rows, "", sep="\n", flush=True)


def converse(screen: Screen, version: str, command: list[str],
             steps: list[Step]) -> None:
    """Let a client and a server talk. Print the lines of each step after it."""
    lines: queue.SimpleQueue[tuple[str, bytes]] = queue.SimpleQueue()
    explainer = Explainer()

    def print_lines() -> None:
        while not lines.empty():
            arrow, line = lines.get()
            try:
                message = decode(line)
            except RpcError as error:
                text = line[:1_000].decode("utf-8", "backslashreplace")
                screen.line(arrow, f"This line is not a message: {error.message}.",
                            wrap(text, screen.width, "  ", "  "))
                continue
            explanation = explainer.explain(arrow, message)
            screen.line(arrow, explanation,
                        layout(explainer.shorten(message), screen.width))

    client = Client(command, protocol_version=version, on_elicit=answer)
    client.trace = lambda arrow, line: lines.put((arrow, line))
    try:
        with client:
            print_lines()
            for step in steps:
                explainer.remark = step.remark
                with contextlib.suppress(RpcError):  # it is printed as part of its line
                    step.run(client)
                print_lines()
    except (RpcError, OSError, ValueError, RuntimeError) as error:
        print_lines()
        screen.paragraph(f"The client gives up in this revision: {error}")
    screen.paragraph("The client closes the server's stdin. Then the server ends.")


def tour(screen: Screen, command: list[str], steps: list[Step]) -> None:
    """Print an index, all parts of the tour, and a summary.

    On a terminal, stop before each of them.
    """
    for paragraph in INTRODUCTION:
        screen.paragraph(paragraph)
        print()
    screen.paragraph("The parts of this tour:")
    for title in [*(part.title for part in TOUR), "Summary"]:
        screen.paragraph(title, "- ")
    for part in TOUR:
        if not screen.may_go_on():
            return
        screen.title(part.title)
        screen.paragraph(part.introduction)
        print()
        converse(screen, part.version, command, steps)
    if screen.may_go_on():
        screen.title("Summary")
        for words in SUMMARY:
            screen.paragraph(words, "- ")


def main() -> int:
    command = sys.argv[2:]
    if sys.argv[1:2] not in ([], ["--"]) or (sys.argv[1:] and not command):
        print("usage: demo.py [-- COMMAND...]", file=sys.stderr)
        return 2
    if command and shutil.which(command[0]) is None:
        print(f"demo.py: there is no program {command[0]!r}", file=sys.stderr)
        return 1
    try:
        tour(Screen(), command or SERVER, STEPS_ELSEWHERE if command else STEPS)
    except BrokenPipeError:
        # `demo.py | head` closes the pipe. At its end, Python writes what is left in
        # the buffer of stdout, which would fail again. So stdout becomes /dev/null.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
