"""Tests of wiretap.py.

The wiretap changes nothing that it passes on, it records everything, and it explains each fault.
"""
from __future__ import annotations

import contextlib
import glob
import io
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from typing import Any, List, Optional, Tuple

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import wiretap  # noqa: E402  (it puts the folder of mcp_ref on the path)
import mcp_ref  # noqa: E402
from mcp_ref import REVISIONS, Client  # noqa: E402
from wiretap import undeclared  # noqa: E402

DEADLINE = 60.0
PROGRAM = os.path.join(HERE, "wiretap.py")
ECHO = """
import os, sys
os.write(2, b"up\\n")
for chunk in iter(lambda: os.read(0, 65536), b""):
    while chunk:
        chunk = chunk[os.write(1, chunk):]
os.write(2, b"down\\n")
sys.exit(7)
"""

# A recorded session is a list of lines, which come 10 ms after each other. "> line" is a line from
# the client, and "< line" a line from the server. ">>" and "<<" begin a short form of a message:
# the id, or "-" if it has none, and then the method with its params, or "= result", or "! code
# data". A "~" before the method or the "=" makes the message modern. "@ 3" sets the clock to 3 s.
# "|" is the end of the server's input, and "|<" of its output. "E line" is a line of stderr. The
# last line may say how the server ended: "! 1" is an exit status, "! TERM" means that the host sent
# SIGTERM, "! none" that the server could not be started.
META = ('"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
        '"io.modelcontextprotocol/clientCapabilities":{}}')
HELLO = ['>> 0 initialize {"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{}}',
         '<< 0 = {"protocolVersion":"2025-11-25","capabilities":{"tools":{}},'
         '"serverInfo":{"name":"s","version":"1"}}', ">> - notifications/initialized"]
BATCHING = [line.replace("2025-11-25", "2025-03-26") for line in HELLO]
MODERN = [">> 1 ~server/discover", '<< 1 ~= {"supportedVersions":["2026-07-28"],"capabilities":'
          '{"tools":{}},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"m","version":"2"}}}']
CALL = '>> 2 tools/call {"name":"a"}'
TOLD = '<< 2 = {"content":[]}'
CANCEL = '>> - notifications/cancelled {"requestId":2}'
PING = [">> 3 ping", "<< 3 = {}"]
NEW_CALL, NEW_TOLD = CALL.replace("tools", "~tools"), TOLD.replace("=", "~=")
NEEDS_INPUT = ('<< 2 = {"resultType":"input_required","requestState":"s","inputRequests":'
               '{"a":{"method":"elicitation/create"}}}')
TRACKED = '>> 2 tools/call {"name":"a","_meta":{"progressToken":"t"}}'
PROGRESS = '<< - notifications/progress {"progressToken":"t","progress":1}'


def expand(text: str) -> str:
    """Write out the JSON of a short line."""
    rid, what, *rest = text.split(" ", 2)
    name = "" if rid == "-" else f'"id":{rid},'
    if what == "!":
        code, _, data = rest[0].partition(" ")
        body = f'"error":{{"code":{code},"message":"no","data":{data or "{}"}}}'
    elif what.lstrip("~") == "=":
        complete = '{"resultType":"complete",' if what[0] == "~" else "{"
        body = f'"result":{complete}{rest[0][1:]}'.replace(",}", "}")
    else:
        params = rest[0] if rest else "{}"
        if what[0] == "~":
            params = "{" + ",".join(filter(None, (params[1:-1], META))) + "}"
        body = f'"method":"{what.lstrip("~")}","params":{params}'
    return '{"jsonrpc":"2.0",%s%s}' % (name, body)


def hear(lines: List[str], status: Optional[int] = 0) -> List[Any]:
    """Give a recorded session to the wiretap. Return the log entries."""
    watch, at = wiretap.Watch(), 0.0
    entries = [{**watch.entry(at, "", "start"), "about": "python3 server.py"}]
    for line in lines:
        way, rest = line[0], expand(line[3:]) if line[1:2] == line[0] else line[2:]
        way = "stderr" if way == "E" else way
        at = float(rest) if way == "@" else at + 0.01
        if way == "|":
            watch.ended[line[1:] or ">"] = at
        elif way == "!":
            last = {"none": (127, "No such file"), "TERM": (-15, "", 15)}.get(rest)
            return [*entries, watch.end(at, *last) if last else watch.end(at, int(rest))]
        elif way != "@":
            entries.append(watch.read(at, way, rest.encode("latin-1")))
    watch.ended.setdefault(">", at + 0.01)
    return [*entries, watch.end(at + 0.02, status)]


def faults(lines: List[str]) -> List[str]:
    return [flag for entry in hear(lines) for flag in entry["flags"]]


def told(lines: List[str]) -> str:
    return "\n".join(wiretap.report(hear(lines)))


FINE = [*HELLO, CALL, TOLD]
STRAY = "output on stdout that is not a message: "
TEXT = "text, perhaps from a call of print()"
UNREADABLE = "an error without an id: the other side could not read a message"
NOT_AN_ID = " is not a string or an integer"
LIST = [">> 1 tools/list", '<< 1 = {"tools":[]}']
BOTH = [f"{way} [{','.join(expand(line[3:]) for line in pair)}]"
        for way, pair in ((">", (CALL, PING[0])), ("<", (TOLD, PING[1])))]
# A broken session and its fault. At least one row for each symptom also has a session that
# follows the remedy, which has no faults.
FAULTS: List[Tuple[Any, ...]] = [
    ([*HELLO, CALL, TOLD.replace("[]", '"M\xfcnchen"'), TOLD],
     STRAY + "bytes that are not UTF-8; does the program use a code page?",
     [*HELLO, CALL, TOLD.replace("[]", '"M\xc3\xbcnchen"')]),
    (["< {\x00}\x00"], STRAY + "NUL bytes; is it UTF-16 instead of UTF-8?"),
    ([*HELLO, CALL, "< Content-Length: 46\r", TOLD],
     STRAY + "a Content-Length header; MCP sends no headers", FINE),
    (["< {"], STRAY + "a part of JSON on several lines"),
    ([*HELLO, CALL, "< looking for a", TOLD], STRAY + TEXT, FINE),
    (["< "], STRAY + "an empty line"),
    (['< {"a":NaN}'], STRAY + "Parse error: NaN is not JSON"),
    (["> exit", *HELLO], "input that is not a message: " + TEXT, HELLO),
    (['< \xef\xbb\xbf{"jsonrpc":"2.0","method":"notifications/x"}'],
     "the line begins with a byte order mark"),
    # Requests that hang, and servers that end.
    ([MODERN[0], "@ 10", CANCEL.replace("2}", "1}"), *HELLO],
     "no response to server/discover 1: given up after 10.0 s",
     [MODERN[0], "<< 1 ! -32601", *HELLO]),
    ([*HELLO, CALL, "@ 1.53", CANCEL, "@ 9", CANCEL],
     "no response to tools/call a 2: given up after 1.5 s", [*HELLO, CALL, CANCEL]),
    ([*HELLO, CALL, "|", "! 0"], "no response to tools/call a 2 for 0.0 s",
     [*HELLO, CALL, "|", "@ 1", TOLD, "! 0"]),
    (["! none"], "the server was not started: No such file", ["|", "! 0"]),
    ([HELLO[0], "! 3"], "the server ended with status 3, before its input ended",
     [*MODERN, "! TERM"]),
    # A host closes its end when it has read the end of the output.
    ([HELLO[0], "|<", "|", "! 3"], "the server ended with status 3, before its input ended",
     [*FINE, "|", "|<", "! 0"]),
    ([*HELLO, "E old", "@ 7", CALL, "|<", "|", "! 3"], "the server ended with status 3 during "
     "tools/call a 2; stderr ends with: old", FINE),
    ([*FINE, "! 3"], "the server ended with status 3 between two requests", FINE),
    ([*HELLO, "|", "@ 9", "! -9"], "the server was ended by signal 9, 9.0 s after its input ended",
     [*HELLO, "|", "! -9"]),
    # Ids.
    ([*HELLO, LIST[0], '<< "1" = {}'], 'id changed: the response has "1", the request 1',
     [*HELLO, CALL.replace("2", '"2"'), TOLD.replace("2", '"2"')]),
    ([*HELLO, ">> 1.0 ping"], "the id 1.0" + NOT_AN_ID,
     [*HELLO, ">> 1 ping", "<< 1 = {}"]),
    ([*HELLO, *LIST, *LIST], "duplicate id: an earlier request has the id 1",
     [*HELLO, *LIST, CALL, TOLD]),
    ([*MODERN, NEW_CALL, NEW_CALL, NEW_TOLD], "duplicate id: an earlier request has the id 2"),
    ([*HELLO, *LIST, LIST[1]], "the response has the id 1, which no open request has", FINE),
    ([*HELLO, TRACKED, TOLD, PROGRESS], 'the progress has the token "t", which no open request has',
     [*HELLO, TRACKED, PROGRESS, TOLD]),
    ([*HELLO, "<< - ! -32700"], UNREADABLE, HELLO),
    # Order, names and kinds.
    ([*HELLO[:2], *LIST, HELLO[2]],
     "out of order: tools/list came before notifications/initialized", [*HELLO, *LIST]),
    ([*HELLO[:2], "<< 1 x", ">> 1 = {}", HELLO[2]],
     "out of order: x came before notifications/initialized"),
    ([HELLO[0], HELLO[2], HELLO[1]], "handshake cut short: initialize has no response yet"),
    (HELLO[:2], "handshake cut short: notifications/initialized is missing"),
    (LIST, "out of order: tools/list came before initialize and has no _meta",
     [NEW_CALL, NEW_TOLD]),
    (["> " + expand(MODERN[0][3:]).replace("2026", "2031"),
      '<< 1 ! -32022 {"supported":["2026-07-28"],"requested":"2031-07-28"}'],
     'the server does not support 2031-07-28; it supports ["2026-07-28"]', MODERN),
    ([HELLO[0], HELLO[1].replace("2025-11-25", "1.0"), HELLO[2]],
     'initialize cannot agree on the protocol version "1.0"'),
    ([*HELLO, ">> - initialized"],
     "the notification initialized does not begin with notifications/", HELLO),
    ([*HELLO, ">> - tools/list"], "tools/list has no id, so it gets no response"),
    ([*HELLO, ">> 1 notifications/list", LIST[1]],
     "notifications/list is a notification and must not have an id"),
    ([*HELLO, "<< 1 tools/list", ">> 1 = {}"], "the server must not send tools/list"),
    ([*HELLO, *BOTH], "2025-11-25 has no batches", [*BATCHING, *BOTH]),
    ([*HELLO, '> {"jsonrpc":"1.0","id":2,"method":"ping"}'], 'jsonrpc is not "2.0"', FINE),
    (["< 7"], "the message is not an object"),
    ([*HELLO, CALL, '< {"jsonrpc":"2.0","id":2,"error":[]}', TOLD],
     "an error needs an integer as its code and a string as its message", FINE),
    # Capabilities.
    ([*MODERN, NEW_CALL, '<< 2 ! -32021 {"requiredCapabilities":{"elicitation":{}}}'],
     undeclared("tools/call", "elicitation", ">"),
     [*MODERN, "> " + expand(NEW_CALL[3:]).replace('ties":{', 'ties":{"elicitation":{}'),
      NEEDS_INPUT]),
    ([*MODERN, NEW_CALL, NEEDS_INPUT], undeclared("elicitation/create", "elicitation", ">")),
    ([*HELLO, "<< 1 roots/list", ">> 1 = {}"], undeclared("roots/list", "roots", ">")),
    ([*HELLO, ">> 1 prompts/list", LIST[1]], undeclared("prompts/list", "prompts", "<")),
    ([*HELLO, "<< - notifications/message"],
     undeclared("notifications/message", "logging", "<")),
    # Eras.
    ([*HELLO, NEW_CALL, NEW_TOLD], "eras mixed: a modern request in a legacy session",
     [*MODERN, NEW_CALL, NEW_TOLD]),
    ([*MODERN, CALL, TOLD], "eras mixed: a legacy request in a modern session"),
    ([*MODERN, NEW_CALL, TOLD], "eras mixed: the result of a modern request has no resultType"),
    ([*MODERN, "<< 1 x", ">> 1 = {}"],
     "eras mixed: a modern server sends no requests; it asks in the result of a call"),
    ([*MODERN, HELLO[2]], "out of order: notifications/initialized came before initialize",
     [*MODERN, '>> 2 ~subscriptions/listen {"notifications":{}}', "@ 9", CANCEL])]
SOUND: List[List[str]] = [  # more sessions without faults
    [*BATCHING, "> [" + expand(PING[0][3:]) + "]", "< [" + expand(PING[1][3:]) + "]",
     "<< 1 ping", ">> 1 = {}"],
    # JSON allows blanks after a value, so a carriage return may stand before the newline.
    [*HELLO, CALL, "< " + expand(TOLD[3:]) + "\r"],
    # After an error, initialize may come again.
    [HELLO[0], "<< 0 ! -32602", *(line.replace(" 0 ", " 1 ") for line in HELLO)],
    [*MODERN, *MODERN], [*MODERN, ">> 2 ~subscriptions/listen"],
    [*HELLO, PING[0], CALL, "@ 5", TOLD, PING[1]],
    [">> 0 ping", "<< 0 = {}", *(line.replace(" 0 ", " 1 ") for line in HELLO)]]


class WiretapTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def command(self, *options: str, code: str = ECHO) -> List[str]:
        """Return a command: the wiretap before a server, whose Python code is given."""
        options = options or ("--log", self.path("log"))
        return [sys.executable, PROGRAM, *options, "--", sys.executable, "-c", code]

    def start(self, command: List[str]) -> Any:
        """Start a process. It is killed at the deadline, so that no test waits for ever."""
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        alarm = threading.Timer(DEADLINE, process.kill)
        alarm.start()
        self.addCleanup(process.__exit__, None, None, None)
        self.addCleanup(process.kill)
        self.addCleanup(alarm.cancel)
        return process

    def play(self, command: List[str], data: bytes = b"", stdout: int = -1) -> Any:
        return subprocess.run(command, input=data, stdout=stdout, stderr=-1, timeout=DEADLINE)

    def report(self, *arguments: str) -> Tuple[int, str, str]:
        """Run --report with these arguments. Return status, stdout and stderr."""
        with contextlib.redirect_stdout(io.StringIO()) as out, \
                contextlib.redirect_stderr(io.StringIO()) as errors:
            status = wiretap.main(["--report", *arguments])
        return status, out.getvalue(), errors.getvalue()

    def entries(self) -> List[Any]:
        with open(self.path("log"), encoding="ascii") as file:
            return [json.loads(line) for line in file]

    def log(self, *sessions: List[str]) -> str:
        """Write a log of some sessions, which begin an hour apart. Return its path."""
        with open(self.path("log"), "w", encoding="ascii") as file:
            for number, lines in enumerate(sessions):
                for entry in hear(lines):
                    entry.update({"epoch": 1.79e9 + 3600 * number} if entry["n"] == 1 else {})
                    file.write(json.dumps({"session": str(number), **entry}) + "\n")
        return self.path("log")


class TestTheSessionIsUnchanged(WiretapTest):
    def test_bytes_stderr_and_exit_status_pass_unchanged(self) -> None:
        data = (b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n{"broken": \r\n\n\x00\xff\xfe{}[]\n'
                + b"x" * 300_000 + b'\n[]\n"last line without newline')
        bare = self.play([sys.executable, "-c", ECHO], data)
        full = "/dev/full" if os.path.exists("/dev/full") else self.folder
        for name, path in (("fine", self.path("log")), ("full", full),
                           ("not there", self.path("no/folder"))):
            with self.subTest(name):
                ours = self.play(self.command("--log", path), data)
                self.assertEqual((bare.stdout, bare.returncode), (ours.stdout, ours.returncode))
                said = [line for line in ours.stderr.splitlines(True)
                        if not line.startswith(b"wiretap: ")]
                self.assertEqual(bare.stderr, b"".join(said))
                self.assertEqual(name == "fine", ours.stderr == bare.stderr)

    def test_bytes_pass_at_once_without_waiting_for_a_newline(self) -> None:
        process = self.start(self.command())
        for part in (b"{", b'"a"', b"\n", b"}"):
            process.stdin.write(part)
            process.stdin.flush()
            self.assertEqual(part, process.stdout.read(len(part)))

    @unittest.skipUnless(os.name == "posix", "a shell closes stderr")
    def test_a_host_may_have_closed_stderr(self) -> None:
        """Neither the server's stderr nor a complaint reaches stdout."""
        for options in (["--log", self.path("log")], ["--log", self.folder]):
            done = self.play(["sh", "-c", 'exec "$@" 2>&-', "sh", *self.command(*options)], b"x\n")
            self.assertEqual((b"x\n", 7), (done.stdout, done.returncode))

    def test_the_end_of_either_direction_is_passed_on(self) -> None:
        process = self.start(self.command(
            code="import os; os.close(1); os.read(0, 1); os._exit(3)"))
        self.assertEqual(b"", process.stdout.read())  # the server still runs
        self.assertIsNone(process.poll())
        process.stdin.close()
        self.assertEqual(3, process.wait(DEADLINE))

    def test_the_wiretap_ends_although_a_grandchild_keeps_the_pipe_open(self) -> None:
        process = self.start(self.command(code=(
            "import os, subprocess, sys\nsubprocess.Popen([sys.executable, '-c', "
            "'import os; os.read(0, 1)'], stdin=0, stdout=1, stderr=2)\n"
            "os.write(1, b'x' * 100000)\nos._exit(5)")))
        self.assertEqual(b"x", process.stdout.read(1))
        with self.assertRaises(subprocess.TimeoutExpired):
            process.wait(1.0)  # it waits for a slow reader, but not for the grandchild
        self.assertEqual(b"x" * 99_999, process.stdout.read(99_999))
        self.assertEqual(5, process.wait(DEADLINE))

    def test_a_missing_command_has_the_exit_status_of_a_shell_and_is_reported(self) -> None:
        done = self.play([sys.executable, PROGRAM, "--log", self.path("log"), "--",
                          self.path("none")])
        self.assertEqual((b"", 127), (done.stdout, done.returncode))
        fault, = self.entries()[-1]["flags"]
        self.assertRegex(fault, "the server was not started: .*(No such f|not find|not found)")

    @unittest.skipUnless(os.name == "nt", "only Windows needs the whole name of npx.cmd")
    def test_a_command_is_looked_up_as_a_shell_of_windows_does(self) -> None:
        with open(self.path("hello.cmd"), "w", encoding="ascii") as file:
            file.write("@echo hello\r\n")
        path = os.pathsep.join((self.folder, os.environ["PATH"]))
        done = subprocess.run(
            [sys.executable, PROGRAM, "--log", self.path("log"), "--", "hello"], input=b"",
            stdout=subprocess.PIPE, env={**os.environ, "PATH": path}, timeout=DEADLINE)
        self.assertEqual((0, b"hello"), (done.returncode, done.stdout.strip()))

    @unittest.skipIf(os.name == "nt", "Windows has other signals")
    def test_signals_reach_the_server_and_a_signal_that_ends_it_ends_the_wiretap(self) -> None:
        code = ("import os, signal\nasked = {signal.SIGTERM, signal.SIGINT}\n"
                "assert not signal.pthread_sigmask(signal.SIG_BLOCK, asked)\n"
                "os.write(1, b'up')\nos._exit(40 + signal.sigwait(asked))")
        # A shell makes its background processes ignore SIGINT, and a child would inherit that.
        self.addCleanup(signal.signal, signal.SIGINT, signal.signal(
            signal.SIGINT, signal.default_int_handler))
        for number in (signal.SIGTERM, signal.SIGINT):
            process = self.start(self.command(code=code))
            process.stdout.read(2)
            # A thread that does not block the signal would end the wiretap. Only Linux tells.
            for path in glob.glob(f"/proc/{process.pid}/task/*/status"):
                with open(path, encoding="ascii") as file:
                    blocked = int(re.findall(r"SigBlk:\s+(\w+)", file.read())[0], 16)
                is_main = path.split("/")[4] == str(process.pid)
                self.assertTrue(is_main or blocked >> number - 1 & 1, path)
            process.send_signal(number)
            self.assertEqual(40 + number, process.wait(DEADLINE))
            self.assertEqual([], self.entries()[-1]["flags"])  # because the host sent the signal
        for number in (signal.SIGKILL, signal.SIGTERM):
            died = self.start(self.command(
                code=f"import os; os.kill(os.getpid(), {int(number)})"))
            self.assertEqual(-number, died.wait(DEADLINE))

    def test_a_killed_wiretap_leaves_its_log_and_closes_the_input_of_the_server(self) -> None:
        here = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(here.close)
        here.settimeout(DEADLINE)
        code = (f"import os, socket\nhost = socket.create_connection({here.getsockname()!r})\n"
                "while os.read(0, 99): os.write(1, b'up')\nhost.sendall(b'EOF')")
        process = self.start(self.command(code=code))
        end, _ = here.accept()
        self.addCleanup(end.close)
        end.settimeout(DEADLINE)
        process.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        process.stdin.flush()
        self.assertEqual(b"up", process.stdout.read(2))
        until = time.monotonic() + DEADLINE
        while len(self.entries()) < 2:  # the log is written on another thread
            self.assertLess(time.monotonic(), until)
        process.kill()
        self.assertEqual(b"EOF", end.recv(9))
        self.assertEqual(["start", "request"], [one["kind"] for one in self.entries()][:2])

    def test_stderr_is_recorded_and_names_the_cause_of_an_early_end(self) -> None:
        """An exception at import is such a cause. A crash may end its last line or not."""
        process = self.start(self.command(code="import no_such_module"))
        self.assertEqual(1, process.wait(DEADLINE))
        entries = self.entries()
        said = [one["text"] for one in entries if one["kind"] == "stderr"]
        cause = "ModuleNotFoundError: No module named 'no_such_module'"
        self.assertEqual(("Traceback (most recent call last):", cause), (said[0], said[-1]))
        self.assertEqual(["the server ended with status 1, before its input ended; stderr ends "
                          f"with: {cause}"], entries[-1]["flags"])
        self.assertIn("stderr ends with: last", told([HELLO[0], "E fine", "E last\r", "E ", "! 3"]))

    def test_a_client_sees_no_difference_between_a_server_and_its_wiretap(self) -> None:
        module = os.path.abspath(mcp_ref.__file__)
        serve = f"import runpy, sys\nrunpy.run_path({module!r}, run_name='__main__')"
        for version in REVISIONS:
            said = []
            for server in ([sys.executable, module], self.command(code=serve)):
                with Client(server, timeout=DEADLINE, protocol_version=version) as client:
                    said.append([client.protocol_version, client.server_info,
                                 client.list_tools(), client.call_tool("add", {"a": 1, "b": 2})])
            self.assertEqual(*said)
        entries = self.entries()
        self.assertEqual([], [one["flags"] for one in entries if one["flags"]])
        self.assertEqual(len(REVISIONS), len({one["session"] for one in entries}))
        self.assertLessEqual(len(REVISIONS), sum("server" in one for one in entries))


class TestTheRecordIsComplete(WiretapTest):
    def test_each_log_entry_has_kind_time_size_and_text_of_a_message(self) -> None:
        answer = TOLD.replace("[]", '[{"type":"text","text":"no a"}],"isError":true')
        ask, answered = (expand(line[3:]) for line in (CALL, answer))
        entries = hear([*HELLO, CALL, answer])[4:6]
        self.assertEqual([
            {"n": 5, "at": 0.04, "way": ">", "kind": "request", "id": 2, "method": "tools/call",
             "name": "a", "size": len(ask), "flags": [], "text": ask},
            {"n": 6, "at": 0.05, "way": "<", "kind": "isError", "id": 2, "of": 5,
             "method": "tools/call", "name": "a", "about": "no a", "ms": 10.0, "flags": [],
             "size": len(answered), "text": answered}], entries)
        self.assertEqual("< tools/call a 2 isError no a", wiretap.label(entries[1]))

    def test_each_fault_is_reported_with_a_remedy_and_the_remedy_removes_it(self) -> None:
        legacy, probed = "a legacy server, not a fault", [MODERN[0], "<< 1 ! -32601", *HELLO]
        covered = {wiretap.symptom(legacy)}  # it is explained, but it is not a fault
        self.assertEqual(([], True), (faults(probed), legacy in told(probed)))
        for broken, fault, *sound in FAULTS:
            row = wiretap.symptom(fault)
            with self.subTest(fault):
                self.assertIn(fault, faults(broken))
                self.assertEqual({fault}, {*faults(broken)})
                self.assertIn(self.advice(fault), told(broken))
                for lines in sound:
                    self.assertEqual([], faults(lines))
                    covered.add(row)
        self.assertEqual({*range(len(wiretap.SYMPTOMS))}, covered)
        for lines in SOUND:
            self.assertEqual([], faults(lines))
            self.assertNotIn("no response", told(lines))

    def test_random_messages_never_stop_the_watch(self) -> None:
        chance = random.Random(7)
        methods = [*wiretap.METHODS, *wiretap.INPUT_METHODS, "x", 7, "notifications/progress",
                   "notifications/cancelled", "notifications/initialized"]
        values = [None, True, 1, 1.0, "1", [], {}, [[]], {"name": {}}, {"requestId": []},
                  {"resultType": "input_required", "inputRequests": {"a": 1}},
                  {"code": -32022, "message": "m", "data": []}, {"_meta": {"progressToken": []}},
                  json.loads("{%s}" % META),
                  {"protocolVersion": [], "capabilities": 1, "serverInfo": [1]},
                  {"progressToken": {}}, {"content": [1], "isError": True}]
        watch = wiretap.Watch()
        for _ in range(3000):
            message = {"jsonrpc": "2.0"}
            for key in chance.sample(["id", "method", "params", "result", "error"], 3):
                message[key] = chance.choice(methods if key == "method" else values)
            line = json.dumps(chance.choice([message, message, [message], [message, 1]]))
            self.assertTrue(wiretap.label(watch.read(0.1, chance.choice("<>"), line.encode())))
        self.assertEqual("end", watch.end(9.0, 0)["kind"])

    # The log.

    def test_lines_do_not_depend_on_how_the_bytes_are_divided_into_chunks(self) -> None:
        data = ("\n".join(expand(line[3:]) for line in [*HELLO, CALL]) + "\nlast").encode()
        whole, parts = wiretap.Watch(), wiretap.Watch()
        once = [*whole.feed(0.0, ">", data), *whole.feed(0.0, ">", b"")]
        pieces = [*(data[i:i + 1] for i in range(len(data))), b""]
        self.assertEqual(once, [one for piece in pieces for one in parts.feed(0.0, ">", piece)])
        self.assertIn("the last line does not end with a newline", once[-1]["flags"])

    def test_a_line_that_is_too_long_is_a_fault_and_is_not_kept_in_memory(self) -> None:
        watch, chunk = wiretap.Watch(), b'{"a":' + b" " * (1 << 24)
        for _ in range(5):
            self.assertEqual([], list(watch.feed(0.0, "<", chunk)))
        self.assertLess(len(watch.partial_line["<"]), 5 << 24)
        self.assertIn("the line is longer than", next(watch.feed(0.0, "<", b"\n"))["flags"][0])

    def test_a_report_of_an_empty_or_missing_log_fails_with_a_message(self) -> None:
        for content, status, said in (("", 1, "no sessions"), ("not an entry\n", 1, "no sessions"),
                                      (None, 2, "cannot read")):
            if content is not None:
                with open(self.path("log"), "w", encoding="ascii") as file:
                    file.write(content)
            name = self.path("none" if content is None else "log")
            done = self.report(name, "--html", self.path("page"))
            self.assertEqual((status, ""), done[:2])
            self.assertIn(said, done[2])
            self.assertFalse(os.path.exists(self.path("page")))

    def test_a_report_ends_without_a_message_if_its_reader_has_left(self) -> None:
        nobody, pipe = os.pipe()
        os.close(nobody)
        done = self.play([sys.executable, PROGRAM, "--report", self.log(HELLO)], stdout=pipe)
        os.close(pipe)
        self.assertEqual((0, b""), (done.returncode, done.stderr))

    def advice(self, fault: str) -> str:
        """Return the lines of the report that explain a fault."""
        row = wiretap.SYMPTOMS[wiretap.symptom(fault)]
        return "\n".join(" " * 16 + line for line in row.explanation())

    def test_the_report_shows_faults_the_slowest_calls_and_the_end_of_stderr(self) -> None:
        hello = [line.replace('"capabilities":{}', '"capabilities":{"sampling":{}}')
                 for line in HELLO]
        lines = [*hello, TRACKED.replace('"a"', '"ask"'), PROGRESS, PROGRESS,
                 "<< 7 sampling/createMessage", ">> 7 = {}", r">> 3 x\u001b[2J", TOLD, "< oops",
                 "E a\x1b[2J"]
        self.assertEqual(r"""
s 1
  python3 server.py
  the server ended with status 0

Faults
      0.110 s   < "oops": %s
%s
      0.140 s   no response to x\x1b[2J 3 for 0.1 s
%s

Calls, the slowest first
      0.090 s   > x\x1b[2J 3                                       no response
      0.040 s   > tools/call ask 2                                 60.0 ms
      0.010 s   > initialize 2025-11-25 0                          10.0 ms
      0.070 s   < sampling/createMessage 7                         10.0 ms

The last lines of stderr
      0.120 s   a\x1b[2J""".strip() % (
            STRAY + TEXT, self.advice(STRAY), self.advice("no response to x")), told(lines))
        many = [text for number in range(1, 25) for text in (
            f">> {number} ping", f"<< {number} = {{}}")]
        said = told([*HELLO, *many])
        self.assertIn("\n                and 5 more\n", said)
        self.assertEqual(19, said.count("> ping"))
        said = told([*HELLO, *["< oops"] * 7])
        self.assertEqual((5, 1), (said.count(TEXT), said.count("remedy")))
        self.assertIn("and 2 more of this kind", said)

    # The page.

    def page(self, *sessions: List[str]) -> str:
        """Write the page of a log by the command, and return it."""
        log = self.log(*sessions)
        with open(log, "a", encoding="ascii") as file:
            file.write('{"session": "c", "n": 1, "at')  # the recorder was killed
        status, out, errors = self.report(log, "--html", self.path("page"))
        self.assertEqual((0, len(sessions)), (status, out.count("Calls, the slowest first")))
        self.assertIn("wiretap: skipped a line that is not a log entry", errors)
        with open(self.path("page"), encoding="utf-8") as page:
            return page.read()

    def test_the_page_has_the_faults_of_all_sessions_and_the_latest_one_is_open(self) -> None:
        hung = [*HELLO, CALL, "@ 2", CANCEL]
        page = self.page(*[HELLO] * 120, hung, MODERN)
        self.assertRegex(page, r"<title>m 2, 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d - wiretap</title>")
        self.assertEqual((122, 1), (page.count('class="session"'), page.count("session\" open")))
        fault = "no response to tools/call a 2: given up after 2.0 s"
        self.assertIn(f'<a href="#s120-5">{fault}</a><span>cause   the tool is slow', page)
        self.assertRegex(page, 'class="[^"]* faults" id="s120-5"')
        self.assertIn("<i>10.0 ms</i>", page)
        self.assertIn("<i>cancelled</i>", page)

    @unittest.skipUnless(os.name == "posix", "Windows has no permission bits")
    def test_only_the_user_may_read_a_log_and_a_page(self) -> None:
        """Messages may hold secrets."""
        old = os.umask(0)
        self.addCleanup(os.umask, old)
        names = self.path("log"), self.path("page")
        self.play(self.command())
        self.report(names[0], "--html", names[1])
        self.assertEqual([0o600] * 2, [os.stat(name).st_mode & 0o777 for name in names])

    def test_the_page_loads_nothing_and_shows_hostile_strings_as_text(self) -> None:
        hostile = "</script><img src=x onerror=alert(1)></title><!-- {style} \u202e\0 \""
        line = "> " + json.dumps({"jsonrpc": "2.0", "id": hostile, "method": hostile})
        page = self.page([HELLO[0], HELLO[1].replace('"s"', json.dumps(hostile)), line])
        self.assertEqual((0, 1, 0, 0), tuple(
            map(page.count, ("</script>", "</title>", "<img", "\u202e"))))
        self.assertIn("&lt;img src=x onerror=alert(1)&gt;", page)
        self.assertIn("default-src 'none'; img-src data:;\n style-src 'unsafe-inline'\">", page)
        for word in ("http:", "https:", "@import", "url(", "<script", "onclick"):
            self.assertNotIn(word, page)


if __name__ == "__main__":
    unittest.main()
