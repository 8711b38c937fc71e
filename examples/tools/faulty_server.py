"""A small MCP server that can break one rule: `faulty_server.py [--fault NAME]`.

test_judge.py judges it with each of its faults. Without a fault it keeps all rules. It
speaks 2025-03-26, 2025-11-25 and 2026-07-28, and its tools are `add` and some special
tools of the judge. `faulty_server.py --list` prints the names of all faults.
"""
from __future__ import annotations

import json
import os
import queue
import sys
import threading
import time
from typing import Any

FAULTS = {  # name -> what the server does wrong
    "zero-id": "the id 0 is never answered", "empty-id": 'the id "" is never answered',
    "digits-id": "an id of digits comes back as a number",
    "string-id": "each id comes back as a string",
    "null-id": "a request with the id null is served",
    "true-id": "a request with the id true is served",
    "true-cancels": "a cancellation of true cancels the request 1",
    "number-ends": "a line with a number ends the server",
    "bytes-end": "a line that is not UTF-8 ends the server",
    "depth-ends": "deep JSON ends the server", "nan-read": "NaN is read as a number",
    "nan-written": "NaN is written", "bom": "the output begins with a byte order mark",
    "answers-notification": "an unknown notification is answered",
    "silent-end": "nothing that arrives right before the end of stdin is answered",
    "stays": "the process does not end when its stdin ends",
    "print": "a tool prints to stdout",
    "child": "a child process of a tool writes to stdout",
    "banner": "it prints a banner",
    "late-batch": "batches are served in every revision",
    "no-version": "the result of initialize lacks protocolVersion",
    "undeclared-log": "it sends log messages, but does not declare logging",
    "undeclared-change": "it reports changes of a list without declaring listChanged",
    "undeclared-tools": "it lists tools, but does not declare tools",
    "null-request": "its own request has the id null",
    "unasked-request": "it asks a client that offers nothing for roots",
    "progress-back": "progress goes back",
    "progress-late": "progress comes after the response",
    "no-listen": "subscriptions/listen is missing", "no-ttl": "lists lack ttlMs",
    "remembers": "it remembers the capabilities of an earlier modern request",
    "no-ping": "ping is never answered", "unknown-ping": "it has no ping", "hang": "it hangs when it gets a ping",
    "twice": "each response comes twice", "loses": "some requests are not answered",
    "exits": "it ends when it gets a ping",
    "flood": "it writes without end when it gets a ping",
    "wrong-code": "an unknown method gets the error -32600",
    "no-content": "a call has no content",
    "bad-output": "structured content does not fit the output schema",
    "null-arguments": "a call with null as its arguments ends it",
    "lost-calls": "calls that wait at the end of stdin get no result",
    "refuses-page": "the second page of a list is refused",
    "endless-pages": "each page of a list names the same next one",
    "picky-initialize": "initialize is refused if the client has a title",
    "refuses-revision": "initialize gets an error if it names an unknown revision",
    "cut-character": "a character whose bytes arrive apart is lost",
    "chunks": "each piece that arrives is taken for a line",
    "short-lines": "a line is cut after 64 KiB",
    "trace": "an error message holds a stack trace",
    "modern-initialize": "initialize is served with the _meta of a modern request",
    "no-handshake": "requests are served before initialize",
    "early-requests": "requests are served before notifications/initialized",
    "pure-lax": "it has no legacy sessions, and serves a request without _meta",
    "forgets-session": "a modern request ends the legacy session",
    "early-elicitation": "it asks the user in a revision without elicitation",
    "changed-state": "a requestState is not checked",
    "needless-state": "a requestState is not checked, and has no effect",
    "foreign-state": "a requestState is not bound to the arguments of its call",
    "int-schema": "an inputSchema has the type int",
    "blank-name": "the name of a tool has a blank",
    "twin-name": "two tools have the same name",
    "stray-progress": "progress is reported without a token",
    "token-back": "progress of a call goes back",
    "old-result-type": "a legacy result has a resultType",
    "early-structure": "there is structured content before 2025-06-18",
    "fourth-call": "it hangs from the fourth call on",
    "error-null": 'each response with a result has "error": null, too',
    "no-jsonrpc": "responses lack jsonrpc",
    "leaky-shout": "what the tool shout prints reaches stdout",
    "dead": "it ends at once", "mute": "it never writes", "deaf": "it never reads",
    "closed": "it closes its stdout", "endless": "it writes messages without end",
    "endless-line": "it writes one line without end"}
FAULT = sys.argv[2] if sys.argv[1:2] == ["--fault"] else ""
MODERN = "2026-07-28"
META = "io.modelcontextprotocol/"
REVISIONS = ["2025-03-26", "2025-11-25", MODERN]
NUMBERS = {"type": "object", "properties": {"a": {"type": "integer"},
                                            "b": {"type": "integer"}},
           "required": ["a", "b"]}
TEXT = {"type": "object", "properties": {"text": {"type": "string"}},
        "required": ["text"]}
NAME = {"type": "object", "properties": {"name": {"type": "string"}},
        "required": ["name"]}
WORD = {"type": "object", "properties": {"key": {"type": "string"}},
        "required": ["key"]}
TOOLS: list[Any] = [
    {"name": "add", "description": "Add two integers.", "inputSchema": NUMBERS,
     "outputSchema": {"type": "object", "properties": {"sum": {"type": "integer"}},
                      "required": ["sum"]}},
    {"name": "count", "description":
     "Report progress 1, 2 and so on up to `to`, with the messages "
     '"step 1", "step 2" ...',
     "inputSchema": {"type": "object", "properties": {"to": {"type": "integer"}}}},
    {"name": "echo", "description": "Return the text.", "inputSchema": TEXT},
    {"name": "shout", "inputSchema": TEXT, "description":
     "Print the text to stdout, here and in a child process. Return the text."},
    {"name": "ask", "inputSchema": TEXT, "description":
     'Ask the user for a name, with this message. Return "accept Ada", or "decline".'},
    {"name": "roots", "description":
     "Return the URIs of the client's roots, separated by spaces.",
     "inputSchema": {"type": "object", "properties": {}}},
    {"name": "hold", "inputSchema": WORD,
     "description": 'Report progress 1 and wait for '
     'release(key), then return "released".\n\nWhen the call is cancelled, report '
     'progress 2 and log "late". The client must not receive\neither of them. The key '
     "is a letter from a to h."},
    {"name": "release", "inputSchema": WORD,
     "description": "Let one call of hold(key) return: one "
     "that is waiting, or the next one that begins."}]
NOT_LEGACY = ("roots",)  # tools that a legacy session does not have
SECRET = os.urandom(16)
GATES = {key: threading.Semaphore(0) for key in "abcdefgh"}
CANCELLED: set[str] = set()
LOCK = threading.Lock()


class Wrong(Exception):
    """An error response."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.error = {"code": code, "message": message,
                      **({"data": data} if data else {})}


def write(message: Any) -> None:
    if isinstance(message, dict):
        message = {"jsonrpc": "2.0", **message}
        if FAULT == "error-null" and "result" in message:
            message["error"] = None
        if FAULT == "no-jsonrpc":
            del message["jsonrpc"]
    with LOCK:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


class Session:
    """One connection."""

    def __init__(self) -> None:
        self.revision = ""  # of the legacy session, once it is open
        self.initialized = False
        self.offered: Any = {}  # the capabilities of the client of the session
        self.remembered: Any = {}
        self.requests = 0
        self.calls = 0
        self.questions: dict[str, Any] = {}  # id of an own request -> id of its call
        self.threads: list[threading.Thread] = []

    def line(self, data: bytes) -> None:
        """Serve one line."""
        try:
            text = data.decode(errors="replace" if FAULT == "nan-read" else "strict")
            message = json.loads(text, parse_constant=None if FAULT == "nan-read"
                                 else self.refuse)
        except RecursionError:
            if FAULT == "depth-ends":
                raise
            return self.error(None, -32700, "Too deep")
        except ValueError as error:
            if FAULT == "bytes-end" and isinstance(error, UnicodeDecodeError):
                raise
            return self.error(None, -32700, "Not JSON")
        if isinstance(message, list) and (self.revision == "2025-03-26" or
                                          FAULT == "late-batch"):
            return self.batch(message)
        if isinstance(message, (int, float)) and FAULT == "number-ends":
            print("a number\nends the server", file=sys.stderr)
            sys.exit(1)
        answer = self.message(message)
        if answer and FAULT == "lost-calls" and "tools/call" in str(message):
            thread = threading.Timer(0.1, write, (answer,))
            thread.daemon = True
            thread.start()
        elif answer:
            write(answer)
            if FAULT == "twice":
                write(answer)

    @staticmethod
    def refuse(name: str) -> Any:
        raise ValueError(name)

    def error(self, rid: Any, code: int, text: str) -> None:
        early = self.revision and self.revision < "2025-11-25"
        name = {"id": rid} if rid is not None or early else {}
        write({**name, "error": {"code": code, "message": text}})

    def batch(self, members: list[Any]) -> None:
        if not members:
            return self.error(None, -32600, "An empty batch")
        answers = [answer for answer in map(self.message, members) if answer]
        if answers:
            write([{"jsonrpc": "2.0", **one} for one in answers])

    def message(self, message: Any) -> Any:
        """Serve one message. Return its response, or None."""
        if not isinstance(message, dict):
            return self.invalid(None)
        rid = message.get("id")
        valid = type(rid) in (str, int) or FAULT == "null-id" and rid is None or (
            FAULT == "true-id" and rid is True)
        if message.get("jsonrpc") != "2.0" or "id" in message and not valid:
            return self.invalid(rid if type(rid) in (str, int) else None)
        if "result" in message or "error" in message:
            return self.response(message)
        if not isinstance(message.get("method"), str):
            return self.invalid(rid)
        if not isinstance(message.get("params", {}), dict):
            return {"id": rid, "error": {"code": -32602, "message": "Bad params"}}
        if "id" not in message:
            return self.notification(message)
        return self.request(message, rid)

    def invalid(self, rid: Any) -> Any:
        early = self.revision and self.revision < "2025-11-25"
        name = {"id": rid} if rid is not None or early else {}
        return {**name, "error": {"code": -32600, "message": "Not a request"}}

    def response(self, message: Any) -> Any:
        """Finish the call that asked for a response."""
        call = self.questions.pop(str(message.get("id")), None)
        if call is None or "result" not in message:
            return None
        return {"id": call, "result": text(spoken(message["result"]))}

    def notification(self, message: Any) -> Any:
        if message["method"] == "notifications/cancelled":
            rid = message.get("params", {}).get("requestId")
            if FAULT == "true-cancels" and rid is True:
                rid = 1
            CANCELLED.add(json.dumps(rid))
        elif message["method"] == "notifications/initialized":
            self.initialized = True
        elif FAULT == "answers-notification" and "judge" in message["method"]:
            return {"id": 0, "result": {}}
        return None

    def request(self, message: Any, rid: Any) -> Any:
        if (FAULT, rid) in (("zero-id", 0), ("empty-id", "")) and rid is not False:
            return None
        self.requests += 1
        if FAULT == "loses" and self.requests % 7 == 0:
            return None
        try:
            result = self.result(message, message["method"], message.get("params", {}),
                                 rid)
        except Wrong as wrong:
            return {"id": self.echoed(rid), "error": wrong.error}
        return None if result is None else {"id": self.echoed(rid), "result": result}

    @staticmethod
    def echoed(rid: Any) -> Any:
        if FAULT == "digits-id" and isinstance(rid, str) and rid.isdigit():
            return int(rid)
        return str(rid) if FAULT == "string-id" else rid

    def result(self, message: Any, method: str, params: Any, rid: Any) -> Any:
        meta = params.get("_meta", {})
        modern = META + "protocolVersion" in meta or method == "server/discover"
        if FAULT == "pure-lax" and not modern and method == "tools/list":
            return {"tools": TOOLS}
        if modern and not (FAULT == "modern-initialize" and method == "initialize"):
            if FAULT == "forgets-session":
                self.revision = ""
            return self.modern(method, params, meta, rid)
        result = self.legacy(method, params, rid)
        if result is not None and FAULT == "old-result-type":
            result["resultType"] = "complete"
        return result

    def legacy(self, method: str, params: Any, rid: Any) -> Any:
        """Serve a request of a legacy session."""
        if method == "initialize" and FAULT != "pure-lax":
            return self.initialize(params)
        if method == "ping" and FAULT != "unknown-ping":
            return self.ping()
        if method in ("tools/list", "tools/call"):
            self.check_time()
            if method == "tools/list":
                return self.page(params, [tool for tool in self.tools()
                                          if tool["name"] not in NOT_LEGACY])
            return self.call(params, rid, {})
        raise Wrong(-32600 if FAULT == "wrong-code" else -32601, failure())

    def check_time(self) -> None:
        ready = self.revision and (self.initialized or FAULT == "early-requests")
        if not ready and FAULT != "no-handshake":
            raise Wrong(-32600, "The session is not open")

    def tools(self) -> list[Any]:
        tools = [dict(tool) for tool in TOOLS]
        if FAULT == "twin-name":
            tools.append(tools[0])
        if FAULT == "blank-name":
            tools.append({**tools[0], "name": "add two"})
        if FAULT == "int-schema":
            tools[0]["inputSchema"] = {"type": "object",
                                       "properties": {"a": {"type": "int"}}}
        if self.revision == "2025-03-26":
            del tools[0]["outputSchema"]
        return tools

    @staticmethod
    def page(params: Any, tools: list[Any]) -> Any:
        """Return all tools, or a page if a fault is about pages."""
        paged = FAULT in ("refuses-page", "endless-pages")
        cursor = params.get("cursor")
        if cursor is not None and not (cursor == "2" and FAULT == "endless-pages"):
            raise Wrong(-32602, "Unknown cursor")
        return {"tools": tools[:3], "nextCursor": "2"} if paged else {"tools": tools}

    def initialize(self, params: Any) -> Any:
        asked = params.get("protocolVersion")
        picky = FAULT == "picky-initialize" and "title" in params["clientInfo"]
        if picky or FAULT == "refuses-revision" and asked not in REVISIONS:
            raise Wrong(-32602, "Invalid params")
        self.revision = asked if asked in REVISIONS[:-1] else "2025-11-25"
        self.offered = params.get("capabilities", {})
        tools: Any = {} if FAULT == "undeclared-tools" else {"tools": {}}
        return {**({} if FAULT == "no-version" else {"protocolVersion": self.revision}),
                "capabilities": tools, "serverInfo": {"name": "faulty", "version": "1"}}

    def ping(self) -> Any:
        if FAULT == "exits":
            sys.exit(5)
        if FAULT == "hang":
            time.sleep(99)
        while FAULT == "flood":
            write({"method": "x"})
        if FAULT == "no-ping":
            return None
        for fault, message in (
                ("undeclared-log", {"method": "notifications/message", "params": {
                    "level": "info", "data": "ping"}}),
                ("undeclared-change", {"method": "notifications/tools/list_changed"}),
                ("null-request", {"id": None, "method": "ping"}),
                ("unasked-request", {"id": f"r{self.requests}",
                                     "method": "roots/list"})):
            if FAULT == fault and self.revision:
                write(message)
        return {}

    def modern(self, method: str, params: Any, meta: Any, rid: Any) -> Any:
        """Serve a request of the modern revision."""
        wanted = meta.get(META + "protocolVersion")
        if META + "clientCapabilities" not in meta:
            raise Wrong(-32602, "clientCapabilities is missing")
        if wanted != MODERN:
            raise Wrong(-32022, "Unsupported", {"supported": REVISIONS,
                                                "requested": wanted})
        cached = {} if FAULT == "no-ttl" else {"ttlMs": 0, "cacheScope": "public"}
        if method == "server/discover":
            result: Any = {"supportedVersions": REVISIONS, "ttlMs": 0,
                           "cacheScope": "public",
                           "capabilities": {"tools": {}}}
        elif method == "tools/list":
            result = {**self.page(params, self.tools()), **cached}
        elif method == "tools/call":
            result = self.call(params, rid, meta)
        elif method == "subscriptions/listen" and FAULT != "no-listen":
            write({"method": "notifications/subscriptions/acknowledged", "params": {
                "_meta": {META + "subscriptionId": rid}, "notifications": {}}})
            return None
        else:
            raise Wrong(-32601, "Unknown method")
        return None if result is None else {
            "resultType": "complete", **result,
            "_meta": {META + "serverInfo": {"name": "faulty", "version": "1"}}}

    def call(self, params: Any, rid: Any, meta: Any) -> Any:
        """Call a tool."""
        name = params.get("name")
        given = params.get("arguments", {})
        if given is None:
            if FAULT == "null-arguments":
                sys.exit(1)
            given = {}
        self.calls += 1
        if FAULT == "fourth-call" and self.calls > 3:
            time.sleep(99)
        if name == "roots":
            return self.roots(params, meta)
        if name == "ask":
            return self.ask(given, params, rid, meta)
        if name == "shout":
            return self.shout(given["text"])
        if name == "echo":
            good = isinstance(given.get("text"), str)
            return text(given["text"]) if good else {**text("text is a string"),
                                                     "isError": True}
        if name == "hold":
            thread = threading.Thread(target=self.hold,
                                      args=(given["key"], params, rid, meta))
            thread.start()
            self.threads.append(thread)
            return None
        if name == "release":
            GATES[given["key"]].release()
            return text("ok")
        if name == "count":
            return self.count(given["to"], params, rid, meta)
        if name != "add":
            raise Wrong(-32602, "Unknown tool")
        if type(given.get("a")) is not int or type(given.get("b")) is not int:
            return {**text("a and b are integers"), "isError": True}
        if FAULT == "print":
            print("adding")
        if FAULT == "child":
            os.spawnv(os.P_WAIT, sys.executable,
                      [sys.executable, "-c", "print('adding')"])
        if FAULT == "nan-written":
            return {**text("nan"), "structuredContent": {"sum": float("nan")}}
        token = params.get("_meta", {}).get("progressToken")
        if FAULT == "stray-progress" or FAULT == "token-back" and token is not None:
            for step in (2, 1) if FAULT == "token-back" else (1,):
                write({"method": "notifications/progress", "params": {
                    "progressToken": "x" if token is None else token,
                    "progress": step}})
        number: Any = "many" if FAULT == "bad-output" else given["a"] + given["b"]
        result = {**text(json.dumps({"sum": number})),
                  "structuredContent": {"sum": number}}
        if FAULT == "no-content":
            del result["content"]
        if self.revision == "2025-03-26" and not meta and FAULT != "early-structure":
            del result["structuredContent"]
        return result

    @staticmethod
    def shout(words: str) -> Any:
        child = None if FAULT == "leaky-shout" else sys.stderr
        print(words, file=sys.stderr)
        import subprocess  # the judge starts this program hundreds of times
        subprocess.run([sys.executable, "-c", f"print({words!r})"], stdout=child,
                       stdin=subprocess.DEVNULL, check=True)
        return text(words)

    def ask(self, given: Any, params: Any, rid: Any, meta: Any) -> Any:
        """Ask the user for a name, in both eras."""
        question = {"message": given["text"], "requestedSchema": NAME}
        if not meta:
            late = self.revision >= "2025-06-18" or FAULT == "early-elicitation"
            if not late or "elicitation" not in self.offered:
                return {**text("the client cannot ask"), "isError": True}
            name = f"q{self.requests}"
            self.questions[name] = rid
            write({"id": name, "method": "elicitation/create", "params": question})
            return None
        if "elicitation" not in meta[META + "clientCapabilities"]:
            raise Wrong(-32021, "elicitation is needed",
                        {"requiredCapabilities": {"elicitation": {}}})
        bound = b"" if FAULT == "foreign-state" else given["text"].encode()
        state = str(hash(SECRET + bound))
        answer = params.get("inputResponses", {}).get("name")
        given_state = params.get("requestState")
        if given_state and given_state != state and FAULT not in (
                "changed-state", "needless-state"):
            raise Wrong(-32602, "The requestState is not valid")
        if answer and (given_state or FAULT == "needless-state"):
            return text(spoken(answer))
        asked = {"method": "elicitation/create", "params": question}
        return {"resultType": "input_required", "requestState": state,
                "inputRequests": {"name": asked}}

    def roots(self, params: Any, meta: Any) -> Any:
        given = params.get("inputResponses", {}).get("r")
        if given:
            return text(" ".join(root["uri"] for root in given["roots"]))
        offered = meta.get(META + "clientCapabilities", {})
        if FAULT == "remembers":
            self.remembered.update(offered)
            offered = self.remembered
        if "roots" in offered:
            return {"resultType": "input_required",
                    "inputRequests": {"r": {"method": "roots/list"}}}
        if meta:
            raise Wrong(-32021, "roots are needed",
                        {"requiredCapabilities": {"roots": {}}})
        return {**text("no roots"), "isError": True}

    def count(self, to: int, params: Any, rid: Any, meta: Any) -> Any:
        token = params.get("_meta", {}).get("progressToken")
        steps = [*range(1, to + 1)]
        for step in reversed(steps) if FAULT == "progress-back" else steps:
            progress = {"method": "notifications/progress", "params": {
                "progressToken": token, "progress": step, "total": to,
                "message": f"step {step}"}}
            if token is not None and FAULT != "progress-late":
                write(progress)
        if FAULT == "progress-late":
            threading.Timer(0.05, write, (progress,)).start()
        return text(f"counted to {to}")

    def hold(self, key: str, params: Any, rid: Any, meta: Any) -> None:
        token = params.get("_meta", {}).get("progressToken")
        if token is not None:
            write({"method": "notifications/progress",
                   "params": {"progressToken": token, "progress": 1}})
        while json.dumps(rid) not in CANCELLED:
            if GATES[key].acquire(timeout=0.01) and json.dumps(rid) not in CANCELLED:
                info = {META + "serverInfo": {"name": "faulty", "version": "1"}}
                extra: Any = {"resultType": "complete", "_meta": info} if meta else {}
                return write({"id": rid, "result": {**extra, **text("released")}})


def spoken(answer: Any) -> str:
    """Return an answer of the user in words."""
    return " ".join([answer["action"], *answer.get("content", {}).values()])


def failure() -> str:
    if FAULT == "trace":
        return "Traceback (most recent call last):\n  File \"server.py\", line 1"
    return "Unknown method"


def text(words: str) -> Any:
    return {"content": [{"type": "text", "text": words}]}


def begin() -> None:
    """Do what a fault does at the start."""
    if FAULT == "banner":
        print("Welcome!", flush=True)
    elif FAULT == "bom":
        sys.stdout.buffer.write(b"\xef\xbb\xbf")
    elif FAULT == "dead":
        sys.exit(3)
    elif FAULT == "closed":
        os.close(1)
        time.sleep(99)
    elif FAULT == "deaf":
        time.sleep(99)
    while FAULT == "endless":
        write({"method": "notifications/message"})
    while FAULT == "endless-line":
        sys.stdout.write("x" * 65536)


def late_lines() -> Any:
    """Yield the lines of stdin a little later.

    End the process at once when stdin ends.
    """
    lines: queue.Queue[bytes] = queue.Queue()

    def read() -> None:
        for line in sys.stdin.buffer:
            lines.put(line)
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    while True:
        line = lines.get()
        time.sleep(0.05)
        yield line


def pieces() -> Any:
    """Yield what each read() finds, in lines that a fault makes wrong."""
    rest = b""
    while True:
        piece = os.read(0, 1 << 20)
        if not piece:
            return
        if FAULT == "cut-character":
            piece = piece.decode(errors="replace").encode()
        if FAULT == "chunks":
            yield piece
            continue
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            yield from (line[at:at + 65536] for at in range(0, len(line), 65536)
                        ) if FAULT == "short-lines" else (line,)


LINES = {"silent-end": late_lines, "cut-character": pieces, "chunks": pieces,
         "short-lines": pieces}


def main() -> None:
    begin()
    session = Session()
    lines = LINES[FAULT]() if FAULT in LINES else sys.stdin.buffer
    for line in lines:
        if FAULT != "mute":
            session.line(line)
    if FAULT == "lost-calls":
        os._exit(0)
    if FAULT == "stays":
        time.sleep(99)
    for key in GATES.values():
        key.release()
    for thread in session.threads:
        thread.join(1)


if __name__ == "__main__":
    if sys.argv[1:] == ["--list"]:
        print("\n".join(f"{name:21}{why}" for name, why in FAULTS.items()))
    else:
        main()
