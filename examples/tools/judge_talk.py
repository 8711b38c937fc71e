"""Processes of a server, and conversations with them, for judge.py.

A Connection is one process of the server. A Talk plays one rule on a connection, and
raises Broken at the first line that breaks the rule.
"""
from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import itertools
import json
import os
import queue
import re
import signal
import subprocess
import threading
import time
from typing import Any, Callable, NamedTuple

import common
from line_checker import MODERN_ERA, NOTES, LineChecker  # it puts mcp_ref.py on the path
from mcp_ref import Client
from test_mcp_ref import (Play, Transcript, difference,
                          fixture_server, hello, modern_meta)

SILENCE = 0.3  # seconds after which the judge asks whether the server is still there
GRACE = 0.4  # seconds that a line may be later than the answer to that question
LONGEST_LINE = 1 << 24  # bytes
MOST_OF_ERROR = 500  # bytes of a line of stderr
FRAME = re.compile(r"\s+at ")  # begins a line of a stack trace in JavaScript and Java
MOST_LINES = 5000  # lines that the server may be ahead of the judge
OVER = b"\0"  # follows the last line
UNFLUSHED = "It answers only at the end of the input: flush stdout after each line."
WRONG_COMMAND = ("It writes text and no message, so the command may be wrong. The text "
                 "begins:")
BARRIER = "judge-barrier-"  # begins the ids of requests that every server answers
SLOW = ("tools/call", "prompts/get", "resources/read", "completion/complete")
PAUSE = b"\0pause\0"  # stands between two parts of a line that are written apart
PAUSED = 0.05  # seconds; a server that waits for input has read the first part by then

COMMON = ("echo", "add")  # tools that transcripts with special tools may need as well
fixture = fixture_server()


@fixture.tool
def shout(text: str) -> str:
    """Print the text to stdout, here and in a child process. Return the text."""
    return text  # only its entry counts


@fixture.tool
def wait(seconds: float) -> str:
    """Wait for some seconds."""
    return "done"


with Client(fixture, protocol_version="2024-11-05") as client:  # without outputSchema
    FIXTURE = {tool["name"]: tool for tool in client.list_tools()}  # name -> its entry
SPECIAL = FIXTURE.keys() - {*COMMON}  # the transcripts that need these tools are played


def special(tool: Any) -> bool:
    """Tell whether a tool is one of the fixture, by its name and its description."""
    if type(tool) is not dict or tool.get("name") not in FIXTURE:
        return False
    ours = FIXTURE[tool["name"]]["description"]
    return str(tool.get("description")).split() == str(ours).split()


def called(text: str) -> set[str]:
    """Return the names of the tools that the lines of a rule call."""
    return {*re.findall(r'"tools/call","params":\{"name":"(\w+)"', text)}


def padded_ping(name: str, padding: bytes) -> bytes:
    """Return a request with the id name, and padding in its `_meta`."""
    head = f'{{"jsonrpc":"2.0","id":"{name}","method":"$any","params":'
    return head.encode() + b'{"_meta":{"judge":"' + padding + b'"}}}'


BYTES = {  # what <NAME> stands for in a rule
    "NOT UTF-8": b"\xff\xfe\x80",
    "DEEP JSON": b"[" * 100_000 + b"]" * 100_000,
    "A PING OF 1 MB": padded_ping("1 MB", b"x" * 1_000_000),
    "A PING OF 100 KB": padded_ping("100 kB", b"x" * 100_000),
    "A PING IN TWO WRITES":  # with an id that the response has to repeat
        padded_ping("cut", b"").replace(b"cut", b"c\xc3" + PAUSE + b"\xa4t"),
    "TWO PINGS IN ONE WRITE":
        padded_ping("one", b"") + b"\n" + padded_ping("two", b"")}


class Waits(NamedTuple):
    """How long the judge waits, in seconds."""
    # for the first answer of a process whose start was not measured yet
    first: float = 15.0
    answer: float = 3.0  # for an answer that needs no code of the server's author
    call: float = 15.0  # for the answer of a tool, a prompt or a resource
    end: float = 3.0  # for the end of a process whose stdin has ended
    total: float = 50.0  # for all rules; what was not judged until then is left out
    until: float = float("inf")  # when that is, by the clock time.monotonic()


class Broken(Exception):
    """A rule does not hold. It says what was expected, and what came."""

    def __init__(self, expected: str, got: str) -> None:
        super().__init__(f"expected {expected}, got {got}")
        self.expected = expected
        self.got = got


class Lack(NamedTuple):
    """Why a rule cannot be judged."""
    kind: str  # "capability", "feature", "call", "tool" or "time"
    what: str


class Verdict(NamedTuple):
    """The outcome of a rule in one revision."""
    outcome: str  # one of RANK
    lack: Lack | None = None
    said: tuple[str, ...] = ()  # the conversation up to the fault
    broken: Broken | None = None
    stderr: tuple[str, ...] = ()  # its last lines, if the process has ended


class Connection:
    """One process of the server.

    Threads read and write, so that no server can block the judge.
    """

    def __init__(self, command: list[str], revision: str, waits: Waits,
                 start: float = 0.0, barrier: str = "") -> None:
        """start is the measured time of a start. The server answers the barrier."""
        self.revision = revision
        self.waits = waits
        self.start = start
        self.barrier = barrier or first_method(revision)
        self.began = time.monotonic()
        self.child: Any = subprocess.Popen(
            common.found(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, start_new_session=True,
            env={name: value for name, value in os.environ.items()
                 if name != "PYTHONUNBUFFERED"})  # it hides that a flush is missing
        self.checker = LineChecker("Server", revision)
        self.lines: queue.Queue[bytes] = queue.Queue()
        self.errors: collections.deque[str] = collections.deque(maxlen=5)  # of stderr
        self.requests: dict[str, Any] = {}  # the text of an id -> the message
        self.last = ""  # the request that was sent last
        self.asked: list[str] = []  # for each finding of the checker: the request before
        self.noise: list[str] = []  # lines without a message since the last message
        self.tolerant = False  # mend the envelopes; the checker reports their faults
        self.ids: Any = None  # makes ids unique if several rules share the connection
        self.opening: Any = {}  # the result of initialize, once there is one
        self.fresh = True  # nothing has been read yet
        self.ended = ""  # why no line will come any more
        self.barriers = itertools.count(1)
        self.writer = concurrent.futures.ThreadPoolExecutor(1)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.error_reader = threading.Thread(target=self.read_errors, daemon=True)
        self.reader.start()
        self.error_reader.start()

    def names(self) -> dict[str, Any]:
        """Return further variables for a transcript, as Play expects."""
        return {}

    def scaled(self, seconds: float) -> float:
        """Return a limit that grows with the load of the machine.

        The time that the process took to start, in seconds, is the measure.
        """
        return seconds * (1 + self.start)

    def crash(self) -> tuple[str, ...]:
        """Return the end of stderr if the process has ended."""
        if self.child.poll() is None:
            return ()
        self.error_reader.join(1)
        return tuple(self.errors)

    # Writing

    def give(self, line: bytes) -> None:
        if self.ids:
            line = self.ids.out(line)
        self.send(line)

    def send(self, line: bytes) -> None:
        """Send a line whose ids are unique, and note its requests."""
        for whole in line.replace(PAUSE, b"").split(b"\n"):
            message = parsed(whole)
            self.checker.heard(message)
            if type(message) is dict and "method" in message:
                self.requests[str(message.get("id"))] = message
                self.last = json.dumps(message)
        self.writer.submit(self.write, line + b"\n")

    def write(self, data: bytes) -> None:
        with contextlib.suppress(OSError, ValueError):  # the process has ended
            for index, part in enumerate(data.split(PAUSE)):
                if index:
                    time.sleep(PAUSED)
                self.child.stdin.write(part)
                self.child.stdin.flush()

    def end_input(self) -> None:
        self.writer.submit(self.child.stdin.close)

    def ask_barrier(self) -> str:
        """Send a request that every server answers. Return its id."""
        name = f"{BARRIER}{next(self.barriers)}"
        message: Any = {"jsonrpc": "2.0", "id": name, "method": self.barrier}
        if self.revision in MODERN_ERA:
            message["params"] = {"_meta": modern_meta(None, self.revision)}
        self.send(json.dumps(message).encode())
        return name

    # Reading

    def read(self) -> None:
        with self.child.stdout as out:
            for line in iter(lambda: out.readline(LONGEST_LINE), b""):
                self.lines.put(line.rstrip(b"\n"))
                if len(line) == LONGEST_LINE or self.lines.qsize() > MOST_LINES:
                    self.ended = "it writes without end"
                    break
        self.lines.put(OVER)

    def read_errors(self) -> None:
        with self.child.stderr as out:
            for line in iter(lambda: out.readline(LONGEST_LINE), b""):
                text = line[:MOST_OF_ERROR].decode("utf-8", "replace").rstrip()
                if text and not FRAME.match(text):
                    self.errors.append(text)

    def next(self, seconds: float) -> bytes | None:
        """Return the next line after checking it, None after some time, or OVER."""
        try:
            line = self.lines.get(timeout=max(seconds, 0.001))
        except queue.Empty:
            return None
        if line == OVER:
            self.lines.put(OVER)
            if not self.ended:
                self.ended = "it closed its stdout"
                if self.wait_end(1):
                    self.ended = f"the process ended with status {self.child.returncode}"
            return OVER
        if self.fresh:
            self.fresh = False
            self.start = max(self.start, time.monotonic() - self.began)
        if line.strip():
            self.checker.said(line)
            missing = len(self.checker.findings) - len(self.asked)
            self.asked += [self.request_of(parsed(line))] * missing
        return line

    def request_of(self, answer: Any) -> str:
        """Return the request that a message answers, or the last one before it."""
        if type(answer) is dict and answer.get("id") is not None:
            asked = self.request(answer["id"])
            return json.dumps(asked) if asked else ""
        return self.last

    def request(self, rid: Any) -> Any:
        """Return the request that an id belongs to, whatever its type has become."""
        if type(rid) is float and rid.is_integer():
            rid = int(rid)
        return self.requests.get(str(rid))

    def message(self, patient: bool, wanted: Callable[[Any], bool]) -> bytes | None:
        """Return the next line whose message is wanted, or None if there will be none.

        After a short silence a request that the server answers at once goes out. When
        its response is here, nothing else will come. A patient caller waits longer, for
        code of the author.
        """
        barrier = ""
        answered = 0.0
        extra = 0.0
        if self.fresh:
            extra = 3 * self.start or self.waits.first
        seconds = self.waits.call if patient else self.waits.answer
        limit = min(time.monotonic() + extra + self.scaled(seconds), self.waits.until)
        self.noise = []
        while True:
            now = time.monotonic()
            if now > limit + SILENCE:  # there are lines, but none that is wanted
                return None
            until = limit
            if answered:
                until = answered + self.scaled(GRACE)
            elif not barrier and not patient:
                until = min(limit, now + extra + SILENCE)
            line = self.next(until - now)
            if line == OVER:
                return None
            if line is None:
                if barrier or patient:
                    self.ended = "" if answered else "it is silent"
                    return None
                barrier = self.ask_barrier()
                continue
            message = parsed(line)
            if self.known(line, message):
                continue
            if self.tolerant and self.mend(message):
                line = json.dumps(message).encode()
            if self.ids:
                line = self.ids.come(line)
                message = parsed(line)
            if barrier and type(message) is dict and message.get("id") == barrier:
                answered = time.monotonic()
            elif type(message) not in (dict, list):
                self.noise.append(line.decode("utf-8", "replace"))
            elif wanted(message):
                return line

    def known(self, line: bytes, message: Any) -> bool:
        """Tell whether the line checker reports a line that belongs to no rule.

        These are requests, notifications and second responses that are wrong in
        themselves, and responses without a request.
        """
        faults = [one for one in self.checker.findings if one.line is line
                  and one.slug and one.slug not in NOTES]
        if type(message) is not dict or not faults:
            return False
        if any("second response" in one.text for one in faults):
            return True
        if not self.tolerant:
            return "method" in message
        # mend() repairs the envelope
        worse = any(one.slug != "stdio.stdout-only-messages" for one in faults)
        rid = message.get("id")
        stray = rid is not None and self.request(rid) is None
        return worse and ("method" in message or stray)

    def mend(self, message: Any) -> bool:
        """Repair the envelope of a message. Return whether it needed that.

        The line checker has reported the fault. Without this, one fault of the envelope
        would break every rule.
        """
        if type(message) is not dict:
            return False
        before = json.dumps(message)
        message["jsonrpc"] = "2.0"
        if "method" in message:
            return json.dumps(message) != before
        for member, other in (("error", "result"), ("result", "error")):
            if message.get(member, "") is None and other in message:
                del message[member]
        rid = message.get("id")
        if type(rid) in (str, int, float):
            message["id"] = (self.request(rid) or message).get("id")
        return json.dumps(message) != before

    def rest(self) -> None:
        """Check the lines that have arrived and were not taken."""
        while self.next(0) not in (None, OVER):
            pass

    def texts(self) -> list[str]:
        """Return the lines so far that are not a message."""
        return [finding.line.decode("utf-8", "replace").rstrip()
                for finding in self.checker.findings
                if type(parsed(finding.line)) is not dict]

    def has_wire(self, descriptor: int) -> bool:
        """Tell whether 0 or 1 of the process is the wire. False if that is not known.

        Only Linux says so. If the process has children, it may be a mere launcher.
        """
        pipe = (self.child.stdin, self.child.stdout)[descriptor]
        process = f"/proc/{self.child.pid}"
        with contextlib.suppress(OSError):
            with open(f"{process}/task/{self.child.pid}/children") as children:
                return not children.read() and (
                    os.readlink(f"{process}/fd/{descriptor}")
                    == os.readlink(f"/proc/self/fd/{pipe.fileno()}"))
        return False

    # The end

    def wait_end(self, seconds: float) -> bool:
        """Return whether the process ends in this time without a signal."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.child.wait(seconds)
            return True
        return False

    def close(self) -> None:
        """End stdin, and after a short time the process and its children."""
        self.end_input()
        if not self.wait_end(SILENCE):
            with contextlib.suppress(OSError):
                if os.name == "posix":
                    os.killpg(self.child.pid, signal.SIGKILL)
            self.child.kill()
            self.child.wait()
        self.writer.shutdown()
        self.reader.join(1)
        self.error_reader.join(0.1)
        self.rest()


def answers_at_end(end: Connection) -> bool:
    """Close stdin of a silent server. Return whether it answers now."""
    if not end.fresh or not end.requests or end.child.poll() is not None:
        return False
    end.end_input()
    line = end.next(end.waits.end)
    return type(parsed(line or b"")) is dict


def first_method(revision: str) -> str:
    """Return a method that every server of a revision should answer at once."""
    return "server/discover" if revision in MODERN_ERA else "ping"


def parsed(line: bytes) -> Any:
    """Return the JSON value of a line, or None."""
    with contextlib.suppress(ValueError, RecursionError):
        return json.loads(line.decode("utf-8-sig"))
    return None


class Talk(Play):
    """Plays one rule on a connection."""

    end: Connection

    def __init__(self, rule: Transcript, end: Connection,
                 names: dict[str, Any]) -> None:
        """names has the values that a rule may use besides those of test_mcp_ref.py."""
        super().__init__(rule, end.revision, end, ours=False)
        if end.ids:
            end.ids.next()
        self.space.update(names)
        self.allowed: list[Any] = []  # patterns of lines that may arrive at any time
        self.expected = " ".join(text for mark, text in rule.steps
                                 if mark[0] == "<" or text.startswith("<?"))
        self.patient = False  # a request was sent that needs code of the author

    def step(self, mark: str, text: str) -> None:
        if text.startswith("<?"):
            self.allowed.append(json.loads(text[2:]))
        elif mark == ">" and not text:
            self.said.append("> (the end of stdin)")
            self.end.end_input()
        elif mark == "<" and not text:
            self.said.append("< (the end of the process)")
            seconds = self.end.scaled(self.end.waits.end)
            if not self.end.wait_end(seconds):
                raise Broken("that the process ends",
                             f"a process that still runs after {seconds:.1f} s")
        elif mark == "=":
            spoken = self.space["revisions"]
            self.space["legacy"] = [one for one in spoken if one not in MODERN_ERA]
            code, _, words = text.partition("  # ")
            if not eval(code, self.space):
                wanted, _, got = words.partition(" | ")
                last = shown(self.space.get("last"), 60)
                raise Broken(wanted or f"that {code}", got or last)
        else:
            super().step(mark, text)

    # To the server

    def open(self) -> None:
        if not self.modern and not self.end.opening:
            got = self.ask("initialize", hello(self.revision, self.offers))
            self.end.opening = got.get("result", {})
            if self.end.opening.get("protocolVersion") != self.revision:
                raise Broken(f"protocolVersion {self.revision}", shown(got, 60))
            self.give('{"jsonrpc":"2.0","method":"notifications/initialized"}')
            self.said = ["  (a session is open)"]

    def completed(self, text: str) -> bytes:
        name = text[1:-1]
        if not text.startswith("<") or name not in BYTES:
            return bytes(super().completed(text))
        method = str(self.space["any"]).encode()
        line = BYTES[name].replace(b"$any", method)
        if not self.modern:
            return line
        meta = json.dumps(modern_meta()).encode()
        begin = b'"_meta":{'
        return line.replace(begin, begin + meta[1:-1] + b",")

    def filled(self, value: Any) -> Any:
        """Replace each "$x" by its value, and "$x~" by that value with a change."""
        if not isinstance(value, str) or not re.fullmatch(r"\$\w+~", value):
            return super().filled(value)
        text = str(self.space[value[1:-1]])
        middle = len(text) // 2
        other = "B" if text[middle:middle + 1] == "A" else "A"
        return text[:middle] + other + text[middle + 1:]

    def say(self, mark: str, line: bytes) -> None:
        message = parsed(line)
        if type(message) is dict and message.get("method") in SLOW:
            self.patient = True
        text = line.replace(PAUSE, b"")[:5000].decode("utf-8", "backslashreplace")
        self.said.append(f"{mark} {text}")
        self.end.give(line)

    # From the server

    def wanted(self, message: Any) -> bool:
        """Tell whether a message belongs to the rule.

        Answer a request that may come at any time.
        """
        for one in self.allowed:
            if difference(one, message, {}, False) is None:
                return False
        if type(message) is not dict:
            return True
        if str(message.get("id")).startswith(BARRIER):
            return False  # it is late
        method = str(message.get("method"))
        if self.modern or "method" not in message or f'"{method}"' in self.expected:
            return True
        if "id" not in message:
            log = method == "notifications/message"
            return not log and not method.endswith("/list_changed")
        answers: dict[str, Any] = {"ping": {}}
        if self.offers:
            answers["roots/list"] = {"roots": []}
        if method not in answers:
            return True
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": answers[method]}
        self.end.give(json.dumps(answer).encode())
        return False

    def take(self, why: str) -> Any:
        """Return the next message that belongs to the rule."""
        line = self.end.message(self.patient, self.wanted)
        if line is None:
            raise self.nothing(why)
        self.said.append(f"< {line[:5000].decode('utf-8', 'replace')}")
        self.space["last"] = parsed(line)
        return self.space["last"]

    def nothing(self, wanted: str) -> Broken:
        """Say that no message came, and quote the lines that are none."""
        noise = self.end.noise[-3:]
        self.said += [f"< {text[:5000]}" for text in noise]
        but = ", and lines that are not JSON" if noise else ""
        return Broken(wanted, (self.end.ended or "no answer") + but)

    def expect(self, texts: list[str]) -> None:
        left = [json.loads(text) for text in texts]
        while left:
            got = self.take(wish(left[0]))
            trials = []
            for want in left:
                names = dict(self.names)
                path = self.compared(want, self.stripped(got, want), names)
                if path is None:
                    self.names = names
                    left.remove(want)
                    break
                trials.append((len(path), want, path))
            else:
                _, want, path = max(trials, key=lambda trial: trial[0])
                raise explained(want, got, path, self.names)
        self.space.update(self.names)

    def compared(self, want: Any, got: Any, names: dict[str, Any]) -> list[Any] | None:
        """Compare two messages.

        Others may add members to results, and write 1 as 1.0.
        """
        path: list[Any] | None = super().compared(relaxed(want), integers(got), names)
        return path

    def stripped(self, got: Any, want: Any) -> Any:
        """Remove what every modern message has. line_checker.py judges it."""
        if type(got) is not dict or type(want) is not dict:
            return got
        got = json.loads(json.dumps(got))
        if got.get("params") == {} and "params" not in want:
            del got["params"]
        result = got.get("result")
        wanted = want.get("result") or {}
        if self.modern and type(result) is dict and "resultType" not in wanted:
            if result.get("resultType") == "complete":
                del result["resultType"]
        return got

    def silence(self) -> None:
        """Send a request that every server answers.

        No other line may come before its response.
        """
        if (">", "") in self.transcript.steps:
            return  # nothing can be asked after the end of stdin
        barrier = self.end.ask_barrier()
        line = self.end.message(False, lambda got: (
            type(got) is dict and got.get("id") == barrier or self.wanted(got)))
        if line is None:
            raise self.nothing("that the server goes on")
        got = parsed(line)
        if type(got) is not dict or got.get("id") != barrier:
            self.said.append(f"< {line[:5000].decode('utf-8', 'replace')}")
            raise Broken("no such line", shown(got, 60))

    def ask(self, method: str, params: Any = None) -> Any:
        """Send a request of the judge's own.

        Return the whole response, or raise Broken.
        """
        name = f"judge {next(self.end.barriers)}"
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": name, "method": method}
        if params is not None:
            message["params"] = params
        if self.modern:
            message["params"] = {"_meta": modern_meta(self.offers), **(params or {})}
        self.say(">", json.dumps(message).encode())
        wanted = f"the response to {method}"
        for _ in range(100):
            got = self.take(wanted)
            if type(got) is dict and "method" not in got and got.get("id") == name:
                return got
        raise Broken(wanted, "100 other lines")


# --- Comparing, and saying what differs -----------------------------------------------


def relaxed(value: Any, depth: int = 0) -> Any:
    """Allow further members in each object inside a message."""
    if type(value) is list:
        return [relaxed(item, depth) for item in value]
    if type(value) is dict:
        more = {"...": 0} if depth else {}
        return {name: relaxed(item, depth + 1) for name, item in value.items()} | more
    return value


def integers(value: Any, depth: int = 0) -> Any:
    """Write 1.0 as 1, which is the same integer in JSON Schema. Ids stay unchanged."""
    if type(value) is list:
        return [integers(item, depth) for item in value]
    if type(value) is dict:
        return {name: integers(item, depth + 1) for name, item in value.items()}
    if type(value) is float and depth > 1 and value % 1 == 0:
        return int(value)
    return value


def explained(want: Any, got: Any, path: list[Any], names: dict[str, Any]) -> Broken:
    """Say in words how a message differs from the one that was expected."""
    if type(got) is dict and type(want) is dict:
        for member in ("error", "result"):
            if member in got and member not in want:
                said = f"the {member} {shown(got[member], 120)}"
                return Broken(wish(want), said)
    where = ".".join(map(str, path)) or "the line"
    wanted = at_path(want, path)
    found = at_path(got, path)
    text = "no such member" if found is MISSING else shown(found, 60)
    if wanted is MISSING:
        return Broken(f"no member {where}", text)
    return Broken(f"{where}: {named(wanted, names)}", text)


def wish(want: Any) -> str:
    """Describe an expected message in words."""
    if type(want) is list:
        return f"an array with {len(want)} responses"
    if "method" in want:
        return f"a message with the method {want['method']}"
    error = want.get("error")
    if type(error) is dict and type(error.get("code")) is int:
        return f"a response with the error {error['code']}"
    if error:
        return "a response with an error"
    return "a response with a result" if "result" in want else "a response"


MISSING = object()


def at_path(value: Any, path: list[Any]) -> Any:
    """Return the value at a path, or MISSING."""
    for step in path:
        try:
            value = value[step]
        except (LookupError, TypeError):
            return MISSING
    return value


def named(want: Any, names: dict[str, Any]) -> str:
    """Describe an expected value in words."""
    if isinstance(want, str) and want.startswith("$"):
        want = names.get(want[1:].rstrip("?"), "...")
    return "a value" if want == "..." else shown(want, 200)


def shown(value: Any, most: int) -> str:
    """Return a value as JSON, cut after some characters. "..." stands for any value."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    text = text.replace(',"...":0', "").replace('"...":0', "").replace('"..."', "...")
    return text if len(text) <= most else text[:most] + "..."
