"""Tests of mcp_app.py: a host, a bridge and an application.

    python3 examples/embed/test_embed.py

Each test starts real processes. The host is a Client, or the test itself on pipes. The
application is fake_app.py. The discovery files are in a folder of the test.
"""

from __future__ import annotations

import contextlib
import hmac
import io
import json
import os
import queue
import re
import shutil
import signal
import socket
import socketserver
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock
from pathlib import Path
from typing import Any, Callable, Iterator

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import fake_app
import mcp_app
from mcp_ref import META, REVISIONS, Client, Peer, RpcError

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BRIDGE = str(HERE / "mcp_app.py")
DEADLINE = 30.0  # seconds that anything may take
LEGACY = "2025-11-25"
MODERN = [version for version, row in REVISIONS.items() if row.modern][-1]
# Runs main() of a module, after some statements. Its stderr goes to a file.
PRELUDE = """
import os, sys
os.dup2(os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT), 2)
{}
import {}
{}.main(sys.argv[2:])
"""
FULL_DISK = """
def replace(*paths): raise OSError("the disk is full")
os.replace = replace
"""
OWN_TOOLS = ["status", "choose_instance"]  # of the bridge
MODERN_RESULT = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
# The methods of an application without Python. None of them looks at its params.
METHODS: dict[str, Any] = {
    "server/discover": lambda *_, **__: {
        **MODERN_RESULT, "supportedVersions": [MODERN], "capabilities": {"tools": {}}},
    "tools/list": lambda *_, **__: {
        **MODERN_RESULT, "tools": [{"name": "any", "inputSchema": {"type": "object"}}]},
    "tools/call": lambda *_, **__: {
        "resultType": "complete", "content": [{"type": "text", "text": "called"}]}}
MODERN_META = {META + "protocolVersion": MODERN, META + "clientCapabilities": {},
               META + "logLevel": "info"}
# What a bridge of mcp_app 4.0.0 sends: for itself, and for a host of 2025-11-25.
OPENING_400: list[dict[str, Any]] = [
    {"id": 1, "method": "tools/list", "params": {"_meta": MODERN_META}},
    {"id": 2, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "clientInfo": {"name": "a", "version": "1"},
        "capabilities": {}}},
    {"method": "notifications/initialized"},
    {"id": 3, "method": "tools/call", "params": {"name": "who"}},
    {"id": 4, "method": "mcp_app/label"}]
Json = dict[str, Any]


class App:
    """A running application."""

    def __init__(self, case: Any, *options: str, name: str = "fake") -> None:
        self.process = subprocess.Popen(
            case.command("fake_app", name, *options), env=case.env, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.pid = self.process.pid
        self._stdin: Any = self.process.stdin
        self._stdout: Any = self.process.stdout
        self._late = threading.Timer(4 * DEADLINE, self.process.kill)
        self._late.start()
        case.addCleanup(self.kill)
        self.expect("serving")

    def expect(self, line: str) -> None:
        """Wait for the next line of the application."""
        found = self._stdout.readline().strip()
        if found != line:
            raise AssertionError(f"expected {line!r}, got {found!r}")

    def say(self, line: str) -> None:
        self._stdin.write(line + "\n")
        self._stdin.flush()

    def quit(self) -> int:
        """End as an application does whose window is closed. Return the status."""
        self._stdin.close()
        return self.process.wait(DEADLINE)

    def kill(self) -> None:
        """End as an application does that crashes."""
        self.process.kill()
        self.process.wait(DEADLINE)
        self._late.cancel()
        with contextlib.suppress(OSError):
            self._stdin.close()
        self._stdout.close()


class Host(Client):
    """A host that has started a bridge. It collects notifications."""

    def __init__(self, case: Any, version: str, *options: str, name: str = "fake",
                 **more: Any) -> None:
        self.seen: queue.SimpleQueue[Any] = queue.SimpleQueue()
        super().__init__(
            case.command("mcp_app", name, *options), env=case.env,
            timeout=DEADLINE, protocol_version=version,
            on_notification=lambda *one: self.seen.put(one), **more)
        case.addCleanup(self.close)
        self.connect()
        self.subscribe(tools=True)

    def expect(self, method: str) -> Json:
        """Wait for a notification, skip others, and return its params."""
        found = ""
        while found != "notifications/" + method:
            found, params = self.seen.get(timeout=DEADLINE)
        return dict(params)

    def say(self, tool: str, **arguments: Any) -> str:
        """Call a tool, and return its text."""
        result = self.call_tool(tool, arguments)
        text = str(result["content"][0]["text"])
        return "error: " + text if result.get("isError") else text

    def say_after_the_end(self, tool: str) -> str:
        """Call a tool after the end of an application.

        The bridge may notice the end only during the call. Then call again.
        """
        text = self.say(tool)
        if "during the call" in text:
            text = self.say(tool)
        return text

    def begin(self, tool: str, **arguments: Any) -> Any:
        return self.start("tools/call", {"name": tool, "arguments": arguments})


def modern_call(tool: str, **arguments: Any) -> bytes:
    """Return a line that calls a tool."""
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": tool, "arguments": arguments, "_meta": MODERN_META}}).encode()


def outcome(client: Client, method: str, params: Json) -> Any:
    """Return the result of a request, or the error."""
    try:
        return client.request(method, params)
    except RpcError as error:
        return error


def all_lists(client: Client) -> list[Any]:
    """Return what the application lists, without the tools of the bridge."""
    tools = [tool for tool in client.list_tools() if tool["name"] not in OWN_TOOLS]
    return [tools, client.list_prompts(), client.list_resources(),
            client.list_resource_templates()]


class EmbedTest(unittest.TestCase):
    """A test with its own folder for discovery files."""

    def setUp(self) -> None:
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name) / "apps"
        self.env = {**os.environ, "MCP_APPS_FOLDER": str(self.folder),
                    "PYTHONPATH": os.pathsep.join([str(ROOT), str(HERE)])}
        self.prelude = ""  # statements that processes run first
        self.addCleanup(self.check_stderr)

    def command(self, module: str, *arguments: str) -> list[str]:
        """Return the command of a process whose stderr goes to a file."""
        code = PRELUDE.format(self.prelude, module, module)
        stderr = self.folder.parent / f"{module}.stderr"
        return [sys.executable, "-c", code, str(stderr), *arguments]

    def stderr_of(self, module: str) -> str:
        file = self.folder.parent / f"{module}.stderr"
        return file.read_text("utf-8") if file.exists() else ""

    def check_stderr(self) -> None:
        self.assertNotIn("Traceback", self.stderr_of("mcp_app"))
        self.assertNotIn("Exception in thread", self.stderr_of("fake_app"))

    def eras(self) -> Iterator[str]:
        for version in (LEGACY, MODERN):
            with self.subTest(version):
                yield version

    def hosts(self, *options: str, **more: Any) -> Iterator[Host]:
        """Yield a host of each era."""
        for version in self.eras():
            yield Host(self, version, *options, **more)

    def assert_reaches(self, app: App, host: Host) -> None:
        self.assertEqual(f"{app.pid} MainThread", host.say("who"))

    def write_record(self, **members: Any) -> Path:
        """Write the discovery file of an application that does not exist."""
        self.folder.mkdir(mode=0o755, exist_ok=True)
        file = self.folder / "fake.1-1.app.json"
        file.write_text(json.dumps({
            "name": "fake", "pid": os.getpid(), "port": 1, "key": "00" * 32,
            "machine": socket.gethostname(), **members}), "utf-8")
        return file

    def be_app(self, methods: Json, key: bytes = bytes(32)) -> None:
        """Be an application for one bridge, which uses nothing of mcp_app.py, and knows
        only some methods."""
        listener = socket.create_server(("127.0.0.1", 0))
        listener.settimeout(DEADLINE)
        self.write_record(port=listener.getsockname()[1], key=key.hex())

        def serve() -> None:
            connection, _ = listener.accept()
            connection.settimeout(DEADLINE)
            with listener, connection, connection.makefile("rwb", 0) as stream:
                self.prove(stream, key, b"app", b"bridge")
                peer = Peer(lambda line: stream.write(line + b"\n"), lambda job: job(), methods)
                for line in stream:
                    peer.receive(line)

        thread = threading.Thread(target=serve)
        thread.start()
        self.addCleanup(thread.join, DEADLINE)

    def prove(self, stream: Any, key: bytes, own_role: bytes, other_role: bytes) -> None:
        """Exchange proofs with the other side."""
        ours = os.urandom(32)
        stream.write(ours)
        theirs = stream.read(32)
        stream.write(hmac.new(key, own_role + ours + theirs, "sha256").digest())
        expected = hmac.new(key, other_role + theirs + ours, "sha256").digest()
        self.assertEqual(expected, stream.read(32))

    def be_bridge(self) -> Any:
        """Connect to the application, and return the file of the connection."""
        record = self.record()
        stream = self.dial(record["port"]).makefile("rwb", 0)
        self.addCleanup(stream.close)
        self.prove(stream, bytes.fromhex(record["key"]), b"bridge", b"app")
        return stream

    def dial(self, port: int) -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", port), DEADLINE)
        self.addCleanup(connection.close)
        return connection

    def file(self) -> Path:
        """Return the discovery file of the application."""
        [file] = self.folder.glob("*.app.json")
        return file

    def record(self) -> Json:
        """Read the discovery file of the application."""
        return dict(json.loads(self.file().read_text("utf-8")))

    def id_of(self, app: App) -> str:
        [file] = self.folder.glob(f"*.{app.pid}-*.app.json")
        return file.name.split(".")[1]

    def eventually(self, holds: Callable[[], Any]) -> None:
        """Wait until a condition holds."""
        deadline = time.monotonic() + DEADLINE
        while not holds():
            self.assertLess(time.monotonic(), deadline)
            threading.Event().wait(0.05)

    def files(self) -> list[str]:
        """Return the kinds of the files in the folder."""
        return sorted(re.sub(r".*\.(\w+\.json)$", r"\1", one.name)
                      for one in self.folder.iterdir())


class TestPassesThrough(EmbedTest):
    def test_a_result_is_the_same_as_without_a_bridge(self) -> None:
        App(self)
        server = fake_app.make_server("fake", threading.Event())
        requests: list[tuple[str, Json]] = [
            ("tools/call", {"name": "picture"}), ("tools/call", {"name": "broken"}),
            ("tools/call", {"name": "log", "arguments": {"x": 1}}),
            ("tools/call", {"name": "missing"}),
            ("resources/read", {"uri": "app://scene"}),
            ("resources/read", {"uri": "app://object/a%20b"}),
            ("resources/read", {"uri": "app://missing"}),
            ("prompts/get", {"name": "describe", "arguments": {"what": "it"}}),
            ("completion/complete", {
                "ref": {"type": "ref/prompt", "name": "describe"},
                "argument": {"name": "what", "value": "c"}})]
        for host in self.hosts():
            direct = Client(server, protocol_version=host.protocol_version)
            with self.assertLogs("mcp_ref"), direct:
                expected = [str(outcome(direct, *one)) for one in requests]
                lists = all_lists(direct)
            self.assertEqual(direct.server_info, host.server_info)
            self.assertEqual(direct.instructions, host.instructions)
            if host.protocol_version == LEGACY:  # see adapted()
                [log] = [tool for tool in lists[0] if tool["name"] == "log"]
                del log["outputSchema"]
            self.assertEqual(lists, all_lists(host))
            self.assertEqual(expected, [str(outcome(host, *one)) for one in requests])

    def test_progress_and_log_messages_arrive_before_the_result(self) -> None:
        app = App(self)
        for host in self.hosts():
            reports: queue.SimpleQueue[Any] = queue.SimpleQueue()
            app.say("go")
            host.call_tool("wait", {"label": "x"},
                           on_progress=lambda *report: reports.put(report))
            app.expect("begun x")
            self.assertEqual((1, 2, "x"), reports.get(timeout=DEADLINE))
            host.call_tool("touch", meta={"io.modelcontextprotocol/logLevel": "info"})
            self.assertEqual("touched", host.expect("message")["data"])

    def test_the_log_level_of_a_legacy_host_reaches_the_application(self) -> None:
        App(self)
        host = Host(self, LEGACY)
        host.request("logging/setLevel", {"level": "error"})
        self.assertEqual("touched", host.say("touch"))
        host.request("logging/setLevel", {"level": "info"})
        host.subscribe(["app://scene"])
        host.say("touch")
        seen: list[str] = []
        while seen[-1:] != ["notifications/resources/updated"]:
            seen.append(host.seen.get(timeout=DEADLINE)[0])
        self.assertEqual(1, seen.count("notifications/message"))

    def test_a_host_hears_once_of_changes_of_lists_and_resources(self) -> None:
        App(self)
        for number, host in enumerate(self.hosts()):
            host.subscribe(["app://scene"])
            host.subscribe(["app://other"])
            host.say("touch")
            host.say("learn", name=f"new{number}")
            kinds: list[str] = []
            while "tools/list_changed" not in kinds:
                kinds.append(host.seen.get(timeout=DEADLINE)[0].partition("/")[2])
            self.assertEqual(1, kinds.count("resources/updated"))
            self.assertNotIn("resources/list_changed", kinds)
            self.assertIn(f"new{number}", [tool["name"] for tool in host.list_tools()])

    def test_a_cancelled_call_ends_in_the_application(self) -> None:
        app = App(self)
        for host in self.hosts():
            call = host.begin("wait", label="first")
            app.expect("begun first")
            waiting = host.begin("wait", label="second")
            waiting.cancel()
            call.cancel()
            app.expect("cancelled first")
            self.assertNotIn("second", host.say("log"))

    def test_a_tool_of_the_application_hides_one_of_the_bridge(self) -> None:
        App(self)
        host = Host(self, MODERN)
        self.assertIn("runs", host.say("status"))
        host.say("learn", name="status")
        host.expect("tools/list_changed")
        self.assertEqual("image", host.call_tool("status")["content"][0]["type"])

    def test_a_question_to_the_user_passes_through(self) -> None:
        App(self)
        for host in self.hosts(on_elicit=lambda params: {
                "action": "accept", "content": {"name": params["message"]}}):
            self.assertEqual("Hello, Who are you?", host.say("ask"))

    def test_an_application_without_python_can_follow_the_page(self) -> None:
        """It uses nothing of mcp_app.py, and knows three methods."""
        readme = (HERE / "README.md").read_text("utf-8")
        proofs = re.findall(r"(?m)^    ([0-9a-f]{64})$", readme)
        key, ours, theirs = bytes(range(32)), b"\x11" * 32, b"\x22" * 32
        self.assertEqual(proofs, [
            hmac.new(key, b"app" + ours + theirs, "sha256").hexdigest(),
            hmac.new(key, b"bridge" + theirs + ours, "sha256").hexdigest()])
        for version in self.eras():
            self.be_app(METHODS, key)
            host = Host(self, version)
            self.assertEqual("called", host.say("any"))
            host.close()

    def test_a_bridge_of_edition_4_works(self) -> None:
        app = App(self)
        stream = self.be_bridge()
        for message in OPENING_400:
            stream.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        answers: dict[int, Json] = {}
        while len(answers) < 4:
            answer = json.loads(stream.readline())
            answers[answer["id"]] = answer
        self.assertEqual(3, len(answers[1]["result"]["tools"]))
        self.assertEqual("2025-11-25", answers[2]["result"]["protocolVersion"])
        [text] = answers[3]["result"]["content"]
        self.assertEqual(f"{app.pid} MainThread", text["text"])
        self.assertEqual(-32601, answers[4]["error"]["code"])  # it expects this


class TestSurvives(EmbedTest):
    def test_an_application_may_start_after_the_host(self) -> None:
        for version in self.eras():
            host = Host(self, version, name=version)
            self.assertEqual(OWN_TOOLS, [tool["name"] for tool in host.list_tools()])
            self.assertRegex(host.say("status"), f"^{version} is not running; start it")
            self.assertRegex(host.say("who"), f"error: {version} is not running")
            is_complete = host.call_tool("who").get("resultType") == "complete"
            self.assertEqual(version == MODERN, is_complete)
            with self.assertRaisesRegex(RpcError, f"{version} is not running"):
                host.read_resource("app://scene")
            host.ping()
            app = App(self, name=version)
            host.expect("tools/list_changed")
            self.assertIn("who", [tool["name"] for tool in host.list_tools()])
            self.assert_reaches(app, host)

    def test_without_the_application_the_lists_are_those_of_its_last_run(self) -> None:
        app = App(self)
        lists = [all_lists(host) for host in self.hosts()]
        self.assertEqual(0, app.quit())
        for host, earlier in zip(self.hosts(), lists):
            self.assertRegex(host.say("who"), "error: Fake App is not running")
            self.assertEqual(earlier, all_lists(host))

    def test_a_call_reaches_a_restarted_application(self) -> None:
        app = App(self)
        hosts = list(self.hosts())
        for end in (app.quit, lambda: app.kill()):
            end()
            app = App(self)
            for host in hosts:
                text = host.say_after_the_end("who")
                self.assertEqual(f"{app.pid} MainThread", text)

    def test_a_call_fails_if_the_application_is_killed_meanwhile(self) -> None:
        for version in self.eras():
            app = App(self)
            host = Host(self, version)
            call = host.begin("wait", label="x")
            app.expect("begun x")
            app.kill()
            result = call.result(DEADLINE)
            self.assertTrue(result["isError"])
            self.assertRegex(result["content"][0]["text"], "ended during the call.*unknown")

    def test_a_question_is_withdrawn_if_its_call_or_the_application_ends(self) -> None:
        """In the modern era, the call has ended when the question is asked."""
        app = App(self)
        asked, withdrawn = threading.Semaphore(0), threading.Semaphore(0)

        def hesitate(params: Json) -> Json:
            asked.release()
            host.expect("cancelled")
            withdrawn.release()
            return {"action": "cancel"}

        host = Host(self, LEGACY, on_elicit=hesitate)
        calls: list[Any] = []
        for end in (lambda: calls[0].cancel(), app.kill):
            calls.append(host.begin("ask"))
            self.assertTrue(asked.acquire(timeout=DEADLINE))
            end()
            self.assertTrue(withdrawn.acquire(timeout=DEADLINE))

    def test_a_call_that_has_not_begun_in_time_is_refused_and_never_runs(self) -> None:
        app = App(self, "0.2")
        for host in self.hosts():
            first = host.begin("wait", label="first")
            app.expect("begun first")
            self.assertEqual("error: the application is busy; nothing was done",
                             host.say("wait", label="late"))
            with self.assertRaisesRegex(RpcError, "is busy"):
                host.read_resource("app://scene")
            app.say("go")
            self.assertEqual("first", first.result(DEADLINE)["content"][0]["text"])
            self.assertNotIn("late", host.say("log"))

    def test_a_plug_in_can_be_switched_off_and_on(self) -> None:
        app = App(self)
        for host in self.hosts():
            app.say("close")
            app.expect("closed")
            text = host.say_after_the_end("who")
            self.assertRegex(text, "error: Fake App is not running")
            self.assertNotIn("app.json", self.files())
            app.say("serve")
            app.expect("serving")
            self.assert_reaches(app, host)
            self.await_rest(host)
            host.close()

    def test_the_calls_of_a_host_that_is_killed_are_cancelled(self) -> None:
        app = App(self)
        other = Host(self, MODERN)
        bridge = self.start_bridge("wait", label="x")
        app.expect("begun x")
        bridge.kill()
        app.expect("cancelled x")
        self.await_rest(other)

    def start_bridge(self, tool: str, **arguments: Any) -> Any:
        """Be a host that has called a tool, and reads nothing so far."""
        bridge = subprocess.Popen(
            self.command("mcp_app", "fake"), env=self.env, bufsize=0,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert bridge.stdin is not None
        self.addCleanup(bridge.__exit__, None, None, None)  # closes the pipes and waits
        self.addCleanup(bridge.kill)
        bridge.stdin.write(modern_call(tool, **arguments) + b"\n")
        return bridge

    def test_a_bridge_that_does_not_read_stops_nothing_and_its_connection_ends(self) -> None:
        for seconds in (1000, 1):
            self.prelude = f"import mcp_app; mcp_app.STALL_SECONDS = {seconds}"
            app = App(self)
            self.be_bridge().write(modern_call("chatter", times=100) + b"\n")
            app.expect("begun chatter")
            app.say("go")
            app.expect("said chatter")
            host = Host(self, MODERN)
            self.assert_reaches(app, host)
            if seconds == 1:
                self.await_rest(host)
            host.close()
            app.quit()

    def test_a_host_that_does_not_read_does_not_stop_the_bridge(self) -> None:
        """It misses log messages, but not the result."""
        self.prelude = "import mcp_app; mcp_app.STALL_SECONDS, mcp_app.DRAIN_SECONDS = 1, 60"
        app = App(self)
        bridge = self.start_bridge("chatter", times=200)
        app.expect("begun chatter")
        app.say("go")
        app.expect("said chatter")
        end = time.monotonic() + 2  # longer than a connection may stall
        other = Host(self, MODERN)
        self.eventually(lambda: other.say("who") and time.monotonic() > end)
        self.assert_reaches(app, other)
        bridge.stdin.close()
        with io.BufferedReader(bridge.stdout) as stdout:
            lines = [*stdout]
        self.assertEqual("said", json.loads(lines[-1])["result"]["content"][0]["text"])
        self.assertLess(len(lines), 200)

    @unittest.skipUnless(hasattr(os, "fork"), "this system has no fork")
    def test_a_forked_child_that_exits_leaves_everything_to_its_parent(self) -> None:
        app = App(self)
        host = Host(self, MODERN)
        app.say("leave")
        app.expect("left")
        self.assertEqual(["app.json", "lists.json"], self.files())
        for one in (host, Host(self, LEGACY)):
            self.assert_reaches(app, one)

    def await_rest(self, host: Host) -> None:
        """Wait until the application has no threads but those of one connection.

        They are the main thread and those that read commands, accept connections, read
        and write the connection, and refuse this call if it is late.
        """
        self.eventually(lambda: int(host.say("load")) <= 6)

    def test_lists_that_cannot_be_read_are_asked_for_again(self) -> None:
        methods = {"server/discover": METHODS["server/discover"]}
        self.be_app(methods)
        host = Host(self, MODERN)
        host.expect("subscriptions/acknowledged")
        methods["tools/list"] = METHODS["tools/list"]
        while "any" not in [tool["name"] for tool in host.list_tools()]:
            host.expect("tools/list_changed")
        self.assertIn("cannot be read", self.stderr_of("mcp_app"))

    def test_if_run_on_main_fails_the_call_fails_with_its_text(self) -> None:
        server = fake_app.make_server("fake", threading.Event())
        with unittest.mock.patch.dict(os.environ, self.env):
            self.addCleanup(mcp_app.serve(server, lambda job: 1 / 0))
        self.assertRegex(Host(self, MODERN).say("who"), "error: .*division by zero")

    def test_a_call_does_not_go_to_another_instance_unseen(self) -> None:
        """An instance that ran all the time is no restart."""
        for version in self.eras():
            other, app = App(self, name=version), App(self, name=version)
            host = Host(self, version, name=version)
            self.assert_reaches(app, host)
            app.kill()
            self.assertRegex(host.say_after_the_end("who"), f"^error: process {app.pid} .*has "
                             f"ended, and process {other.pid} .*nothing was done")
            self.assert_reaches(other, host)
            chosen = App(self, name=version)
            other.kill()
            self.assertRegex(host.say_after_the_end("status"), str(chosen.pid))
            host.say("choose_instance", instance=self.id_of(chosen))
            self.assert_reaches(chosen, host)

    def test_the_newest_instance_is_used_until_another_one_is_chosen(self) -> None:
        old, new = App(self), App(self)
        App(self, name="other")
        for host in self.hosts("--silence", "9"):  # as configurations of 4.0.0 have it
            self.assert_reaches(new, host)
            [first, second] = host.say("status").splitlines()[1:]
            self.assertRegex(first, rf"^{self.id_of(new)}, since .* \(calls go here\)$")
            self.assertRegex(second, f"^{self.id_of(old)}, since [^(]*$")
            for one in (old, old, new):
                self.assertNotIn("error", host.say("choose_instance", instance=self.id_of(one)))
                self.assert_reaches(one, host)
            text = host.say("choose_instance", instance="1-1")
            self.assertRegex(text, "^error: '1-1' does not run")
        old.kill()
        text = host.say("choose_instance", instance=self.id_of(old))
        self.assertEqual(f"error: process {old.pid} has ended", text)

    def test_lines_before_the_end_of_stdin_are_answered(self) -> None:
        app = App(self)
        bridge = self.start_bridge("wait", label="x")
        bridge.stdin.write(b'{"jsonrpc": "2.0", "id": 0, "method": "ping"}\n')
        bridge.stdin.close()
        app.expect("begun x")
        app.say("go")
        self.assertEqual([0, 1], [json.loads(line)["id"] for line in bridge.stdout])
        self.assertEqual(0, bridge.wait(DEADLINE))
        self.assertEqual("", self.stderr_of("mcp_app"))

    @unittest.skipIf(os.name == "nt", "pipes of Windows always block")
    def test_pipes_of_the_host_may_be_non_blocking(self) -> None:
        ours, theirs = os.pipe()
        os.set_blocking(ours, False)
        with open(theirs, "wb", 0) as stdin, subprocess.Popen(
                [sys.executable, BRIDGE, "fake"], env=self.env, stdin=ours,
                stdout=subprocess.PIPE) as bridge:
            os.close(ours)
            assert bridge.stdout is not None
            for number in range(200):  # it waits for most of them
                stdin.write(b'{"jsonrpc": "2.0", "id": %d, "method": "ping"}\n' % number)
                self.assertEqual(number, json.loads(bridge.stdout.readline())["id"])
            stdin.close()
            self.assertEqual(0, bridge.wait(DEADLINE))

    @unittest.skipIf(os.name == "nt", "Windows sends Ctrl-C to all processes of a console")
    def test_an_interrupt_ends_the_bridge_quietly(self) -> None:
        bridge = self.start_bridge("status")
        bridge.stdout.readline()  # now it serves
        bridge.send_signal(signal.SIGINT)
        self.assertEqual(-signal.SIGINT, bridge.wait(DEADLINE))
        self.assertEqual("", self.stderr_of("mcp_app"))


class TestTrusts(EmbedTest):
    def test_the_discovery_file_is_private_and_disappears_at_exit(self) -> None:
        app = App(self)
        self.assertEqual(["app.json"], self.files())
        self.assertEqual({"name", "pid", "port", "key", "machine"}, set(self.record()))
        if os.name == "posix":
            self.assertEqual(0o100600, self.file().stat().st_mode)
            self.assertEqual(0o40700, self.folder.stat().st_mode)
        self.assertEqual(0, app.quit())
        self.assertEqual([], self.files())

    def test_a_connection_without_the_key_is_closed(self) -> None:
        app = App(self)
        for is_mirror in (False, True):  # its own proof does not help
            connection = self.dial(self.record()["port"])
            challenge = connection.recv(32)
            connection.sendall(challenge if is_mirror else bytes(32))
            proof = connection.recv(32)
            self.assertEqual((32, 32), (len(challenge), len(proof)))
            connection.sendall(proof if is_mirror else bytes(32))
            self.assertEqual(b"", connection.recv(99))
        self.assert_reaches(app, Host(self, MODERN))

    def test_the_bridge_trusts_no_application_without_the_key(self) -> None:
        received = []

        class Pretender(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                self.wfile.write(bytes(64))
                received.append(self.rfile.read())

        with socketserver.TCPServer(("127.0.0.1", 0), Pretender) as server:
            threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
            self.write_record(port=server.server_address[1], key="ab" * 32)
            host = Host(self, MODERN)
            self.assertRegex(host.say("who"), "does not have the key")
            host.close()
            server.shutdown()
        self.assertEqual({64}, {len(one) for one in received})  # no key, no request
        self.assertEqual([], [one for one in received if b"\xab" * 8 in one])

    def test_the_file_of_an_application_that_has_ended_is_removed_on_its_own_machine(self) -> None:
        """Several machines may share one home folder."""
        for machine, left in ((socket.gethostname(), []), ("elsewhere", ["app.json"])):
            self.write_record(machine=machine)
            text = f"fake is not running.* searched in {re.escape(str(self.folder))}"
            self.assertRegex(Host(self, MODERN).say("who"), text)
            self.assertEqual(left, self.files())

    def test_a_process_that_does_not_answer_is_named(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            self.write_record(port=silent.getsockname()[1])
            text = Host(self, MODERN).say("who")
        self.assertRegex(text, f"process {os.getpid()} does not answer")

    def test_a_file_may_have_unknown_members_and_lack_others(self) -> None:
        app = App(self)
        known = {name: self.record()[name] for name in ("name", "port", "key")}
        self.file().write_text(json.dumps({**known, "future": {"a": 1}}), "utf-8")
        self.assert_reaches(app, Host(self, MODERN))

    def test_a_file_of_another_program_does_no_harm(self) -> None:
        app = App(self)
        file = self.write_record(key=None)
        for text in ('{"name": "fa', '{"name": "fake", "port": 99999999999999999999, "key": ""}',
                     '{"name": "x", "port": 1e999, "key": ""}', "[" * 100_000,
                     '{"name": "x", "port": "%s", "key": ""}' % ("9" * 5000), '{"port": []}'):
            file.write_text(text, "utf-8")
            with self.subTest(text=text[:50]):
                self.assert_reaches(app, Host(self, MODERN))

    def test_stored_lists_that_cannot_be_read_do_no_harm(self) -> None:
        self.write_record().unlink()
        for text in ("[]", "[" * 100_000, '{"lists": {"templates": [{"uriTemplate": "a:{b}"}]}}'):
            (self.folder / "fake.lists.json").write_text(text, "utf-8")
            with self.subTest(text=text[:99]):
                tools = Host(self, MODERN).list_tools()
                self.assertEqual(OWN_TOOLS, [tool["name"] for tool in tools])

    def test_params_of_any_shape_end_no_bridge(self) -> None:
        app = App(self)
        host = Host(self, MODERN)
        odd: Any
        for odd in (5, [], {}):
            for method, params in (
                    ("tools/call", {"name": odd}),
                    ("tools/call", {"name": "who", "_meta": {META + "protocolVersion": odd}}),
                    ("subscriptions/listen", {"notifications": [odd]}),
                    ("subscriptions/listen", {"notifications": {"resourceSubscriptions": [odd]}})):
                self.assertEqual(-32602, outcome(host, method, params).code, params)
        self.assert_reaches(app, host)

    @unittest.skipIf(os.name == "nt", "names of files in Windows have no newlines")
    def test_the_name_of_a_file_forges_no_line(self) -> None:
        file = self.write_record()
        file.rename(file.with_name("x\n1-1: forged.app.json")).write_text("{", "utf-8")
        self.assertRegex(Host(self, MODERN).say("who"), "x 1-1: forged.app.json: JSON")

    @unittest.skipUnless(hasattr(os, "getuid"), "this system has no user ids")
    def test_a_folder_that_is_a_link_or_that_others_own_or_write_to_is_refused(self) -> None:
        elsewhere = self.folder.parent / "elsewhere"
        elsewhere.mkdir()
        self.folder.symlink_to(elsewhere)
        cases = [(self.folder, 0o700, os.getuid()), (elsewhere, 0o720, os.getuid()),
                 (elsewhere, 0o702, os.getuid())]
        if os.getuid() == 0:
            cases.append((elsewhere, 0o700, 12345))
        for folder, mode, owner in cases:
            with self.subTest(folder=folder, mode=mode, owner=owner):
                elsewhere.chmod(mode)
                os.chown(elsewhere, owner, -1)
                self.env["MCP_APPS_FOLDER"] = str(folder)
                text = "is a link, or other users can write to it"
                self.assertRegex(Host(self, MODERN).say("who"), text)
                self.assert_cannot_serve(text)
                self.assertEqual([], list(elsewhere.iterdir()))

    def test_the_name_of_the_folder_may_begin_with_a_tilde(self) -> None:
        self.env.update(HOME=str(self.folder.parent), MCP_APPS_FOLDER="~/new/apps",
                        USERPROFILE=str(self.folder.parent))
        app = App(self)
        self.assert_reaches(app, Host(self, MODERN))
        self.assertTrue(list((self.folder.parent / "new" / "apps").glob("*.app.json")))
        self.env["MCP_APPS_FOLDER"] = "~no such user/apps"
        self.assert_cannot_serve("determine home directory")
        self.assertRegex(Host(self, MODERN).say("who"), "determine home directory")

    def test_a_line_without_an_end_is_not_kept(self) -> None:
        chunks = [b"x" * 100] * 10**4 + [b"\nnext\nl", b"ast", b""]
        with unittest.mock.patch.object(mcp_app, "LONGEST", 1000):
            lines = [*mcp_app.lines_of(iter(chunks).__next__)]
        self.assertEqual([b"x" * 1100, b"next", b"last"], lines)

    def test_an_application_that_cannot_serve_leaves_no_file(self) -> None:
        self.prelude = FULL_DISK
        self.assert_cannot_serve("the disk is full")
        self.assertEqual([], self.files())

    def test_if_the_disk_is_full_the_bridge_works_but_forgets_the_lists(self) -> None:
        app = App(self)
        self.prelude = FULL_DISK
        host = Host(self, MODERN)
        self.assert_reaches(app, host)
        host.say("learn", name="new")
        host.expect("tools/list_changed")
        self.eventually(lambda: self.files() == ["app.json"])  # no temporary file is left

    def assert_cannot_serve(self, reason: str) -> None:
        with self.assertRaises(AssertionError):
            App(self)
        self.eventually(lambda: reason in self.stderr_of("fake_app"))


class TestReadme(EmbedTest):
    """The listing of the README, with copies of the files beside it."""

    def setUp(self) -> None:
        super().setUp()
        readme = (HERE / "README.md").read_text("utf-8")
        self.listing = re.findall(
            r"```python\n(# plugin\.py\n.*?)```", readme, re.DOTALL)[0]
        self.config = json.loads(re.findall(r"```json\n(.*?)```", readme, re.DOTALL)[0])
        self.copies = self.folder.parent / "plugin"
        self.copies.mkdir()
        for file in (ROOT / "mcp_ref.py", Path(BRIDGE)):
            shutil.copy(file, self.copies)
        del self.env["PYTHONPATH"]

    def assert_adds(self, *plugin: str) -> None:
        """Run the bridge and the plug-in of the README, and call the tool."""
        [server] = self.config["mcpServers"].values()
        places = {"/absolute/path/to/python3": sys.executable,
                  "/absolute/path/to/mcp_app.py": str(self.copies / "mcp_app.py")}
        words = [server["command"], *server["args"]]
        command = [places.get(word, word) for word in words]
        with Client(command, env=self.env, timeout=DEADLINE) as client, subprocess.Popen(
                [sys.executable, *plugin], cwd=self.copies.parent, env=self.env) as app:
            try:
                self.eventually(lambda: client.call_tool(
                    "add", {"a": 1, "b": 2}).get("structuredContent") == 3)
            finally:
                app.kill()

    def test_the_plug_in_and_the_configuration_work(self) -> None:
        (self.copies / "plugin.py").write_text(self.listing, "utf-8")
        self.assert_adds(str(self.copies / "plugin.py"))

    def test_the_older_name_of_the_bridge_works(self) -> None:
        shutil.copy(HERE / "mcp_app_bridge.py", self.copies)
        server = self.config["mcpServers"]["demo"]
        server["args"][0] = str(self.copies / "mcp_app_bridge.py")
        self.test_the_plug_in_and_the_configuration_work()

    def test_the_files_may_belong_to_a_package(self) -> None:
        """The bridge does not import the package, which may need the application."""
        code = 'import sys\nassert "mcp_app" not in sys.argv[0]\n'
        (self.copies / "__init__.py").write_text(code, "utf-8")
        listing = self.listing.replace("from mcp", "from .mcp")
        (self.copies / "plugin.py").write_text(listing, "utf-8")
        self.assert_adds("-m", "plugin.plugin")


if __name__ == "__main__":
    unittest.main()
