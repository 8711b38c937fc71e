"""What mcp_ref.py does over real pipes when things go wrong: servers, clients, the command line.

A server is a process here: its pipes fill up and break, its tools do their worst, the other end
stops or is killed. What is said over the pipes otherwise, test_mcp_ref.py holds.
"""
from __future__ import annotations

import concurrent.futures
import contextlib
import io
import itertools
import json
import os
import queue
import re
import select
import shlex
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import unittest
from typing import Any, Callable, Dict, Iterator, Tuple

import mcp_ref
from mcp_ref import Bounds, Client, ConnectionClosed, RequestTimeout
from test_mcp_ref import (DEADLINE, HERE, LEGACY, OFFERS, PROCESS_ENV, PYTHON, Memory, Process,
                          ProcessCase, fixture_server, hello)

PROCESS_SERVER = r"""
import os, sys, threading
from mcp_ref import Bounds, Context, Server
server, inside = Server("process", "1.0", OPTIONS), []

@server.tool
def execute(code: str, context: Context) -> str:
    "Run Python; the result is what it calls `out`."
    names = {**globals(), "context": context, "out": "done"}
    exec(code, names)
    return str(names["out"])
"""
PROCESS_HERE = "os.write(2, b'here\\n'); "  # code of a tool
PROCESS_STUCK = PROCESS_HERE + "threading.Event().wait()"
PROCESS_HOLD = PROCESS_HERE + "os.read(GATE, 1)"  # until the test closes child.gate


def process_line(rid: Any, method: str = "ping", **params: Any) -> bytes:
    """Write a request."""
    return json.dumps({"jsonrpc": "2.0", "id": rid, "method": method, "params": params}).encode()


def process_run(rid: Any, code: str) -> bytes:
    return process_line(rid, "tools/call", name="execute", arguments={"code": code})


def process_text(response: Any) -> str:
    """Return the text of a tool's result."""
    return str(response["result"]["content"][0]["text"])


PROCESS_HELLO = [process_line("hello", "initialize", **hello(LEGACY[-1], OFFERS)),
                 b'{"jsonrpc":"2.0","method":"notifications/initialized"}']


class ProcessChild(Process):
    """PROCESS_SERVER in a process, after the handshake; or another main part.

    Its stdout goes through a `cat`, the relay, which can be stopped and killed as a client can.
    """

    def __init__(self, options: str = "", before: str = "", main: str = "",
                 drain: float = 2 * DEADLINE, env: Any = {}) -> None:
        gate, end = os.pipe()
        script = "\n".join((PROCESS_SERVER.replace("OPTIONS", options), f"GATE = {gate}", before,
                            main or f"server.run({drain})"))
        self.relay = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.child = subprocess.Popen(
            [*PYTHON, "-c", script], stdin=subprocess.PIPE, stdout=self.relay.stdin, bufsize=0,
            stderr=subprocess.PIPE, env={**PROCESS_ENV, **env}, pass_fds=[gate])
        assert self.relay.stdin and self.child.stdin
        self.relay.stdin.close(), os.close(gate)
        self.stdin, self.gate = self.child.stdin, open(end, "wb", 0)
        self.chunk, self.kept, self.said = 0, b"", ""
        self.lines, self.errors = queue.Queue(), queue.Queue()  # type: ignore[var-annotated]
        for pipe in (self.relay.stdout, self.lines), (self.child.stderr, self.errors):
            threading.Thread(target=self.pour, args=pipe, daemon=True).start()
        if not main:
            self.send(*PROCESS_HELLO)
            self.until("hello")

    def pour(self, stream: Any, lines: Any) -> None:
        """Put the lines of a stream into a queue, and then None."""
        with stream:
            for line in stream:
                lines.put(line.rstrip(b"\n"))
        lines.put(None)

    def send(self, *lines: bytes) -> None:
        """Write lines at once."""
        self.write(b"".join(line + b"\n" for line in lines))

    def run(self, code: str, rid: Any = "run") -> None:
        """Let the server run Python, and wait until that says that it is here."""
        self.send(process_run(rid, code))
        self.says("here")

    def out(self, code: str) -> str:
        """Let the server run Python; return the result."""
        self.send(process_run("out", code))
        return process_text(self.until("out"))

    def until(self, *names: Any) -> Any:
        """Return the next message with one of these ids or methods; others are passed over."""
        for line in iter(lambda: self.take(DEADLINE), None):
            message = json.loads(line)
            if message.get("method", message.get("id")) in names:
                return message
        raise AssertionError(f"{names} did not come; {self.said}")

    def says(self, words: str) -> None:
        """Read stderr until it has these words, or to its end."""
        for line in iter(lambda: self.errors.get(timeout=DEADLINE), None):
            self.said += line.decode() + "\n"
            if words in line.decode():
                break

    def ends(self) -> int:
        """Wait until it has ended, and its stderr with it; return its status."""
        self.says("\n")
        return self.child.wait(DEADLINE)

    def end(self) -> Dict[Any, Any]:
        """Close its stdin; return what it still writes, by id. Its status has to be 0."""
        self.stdin.close()
        lines = [json.loads(line) for line in iter(lambda: self.take(DEADLINE), None)]
        if self.ends():
            raise AssertionError(f"status {self.child.returncode}: {self.said}")
        return {message.get("id"): message for message in lines}

    def close(self, seconds: float = DEADLINE) -> int:
        """Leave nothing running."""
        for process in (self.child, self.relay):
            process.kill()
            process.wait(seconds)
        self.stdin.close(), self.gate.close()
        return self.child.returncode


class FaultCase(ProcessCase):
    """A test with servers in processes."""

    def start(self, *args: Any, **options: Any) -> ProcessChild:
        child = ProcessChild(*args, **options)
        self.addCleanup(child.close)
        return child


# --- One process ----------------------------------------------------------------------------------


class TestStdio(FaultCase):
    """A server over its own stdin and stdout."""

    def test_what_is_not_a_message_never_comes_out_on_stdout(self) -> None:
        """Neither what Python prints, nor a C library, nor a child; and their input is at its end.
        [stdio.stdout-only-messages]"""
        code = r"""
import ctypes, subprocess
print("1 print")
sys.stdout.write("2 write\n")
print("3 __stdout__", file=sys.__stdout__, flush=True)
os.write(1, b"4 descriptor\n")
subprocess.run([sys.executable, "-S", "-c", "print('5 child')"], check=True)
os.system("echo 6 shell; cat")
ctypes.CDLL(None).puts(b"7 C")
ctypes.CDLL(None).fflush(None)
try:
    out = input()
except EOFError:
    out = f"{sys.stdin.read()!r} {os.read(0, 1)}" """
        child = self.start()
        self.assertEqual(["'' b''", "'' b''"], [child.out(code), child.out(code)])
        child.send(process_line(1))
        self.assertEqual({1}, {*child.end()})
        said = "1 print,2 write,3 __stdout__,4 descriptor,5 child,6 shell,7 C".split(",")
        self.assertEqual(sorted(2 * said), sorted(child.said.splitlines()))

    def test_a_child_process_of_a_tool_does_not_inherit_the_servers_stdout(self) -> None:
        """Not by any descriptor, though it gets all that can be inherited. The host sees the end
        of the stdout when the server ends, while that child lives. [stdio.stdout-only-messages]"""
        script = """import os
for fd in range(1, 256):
    try:
        os.write(fd, b"said by the child\\n")
    except OSError:  # there is no such descriptor, or it can only be read
        pass
os.write(2, b"here\\n")
os.read(GATE, 1)
os.write(2, b"the child lived on\\n")"""
        # The server has GATE from the test, and passes it on; the test closes the other end.
        before = f"import shlex, subprocess\nchild = [*{PYTHON!r}, '-c', {script!r}]"
        before += "\nchild[-1] = child[-1].replace('GATE', str(GATE))"

        def check(way: str) -> None:
            child = self.start(before=before)
            child.run(way, "started")
            self.assertIn(b'"done"', child.lines.get(timeout=DEADLINE))
            child.stdin.close()
            self.assertIsNone(child.lines.get(timeout=DEADLINE))  # stdout is at its end
            self.assertEqual(0, child.child.wait(DEADLINE))
            child.gate.close()
            child.says("the child lived on")
            self.assertIn("the child lived on", child.said)

        self.beside(check, [
            ("subprocess", "inside.append(subprocess.Popen(child, close_fds=False))"),
            ("a shell", "os.system(shlex.join(child) + ' &')")])

    # Workers.

    def test_as_many_calls_as_workers_run_at_once_and_no_more(self) -> None:
        """50 of 70 calls wait beside each other, until all may go on."""
        child = self.start("workers=50")
        code = f"inside.append(1)\n{PROCESS_HOLD}\ninside.append(-1)"
        child.send(*(process_run(rid, code) for rid in range(70)))
        for _ in range(50):
            child.says("here")
        child.send(process_line("now"))
        child.until("now")
        child.gate.close()
        self.assertEqual(50, max(itertools.accumulate(json.loads(child.out("out = inside")))))

    def test_calls_are_taken_up_in_order_of_arrival(self) -> None:
        """A cancelled one is not begun; without workers all run on the thread that called run().
        [cancel.receiver-stops]"""
        for workers in (1, 0):
            child = self.start(f"workers={workers}")
            child.run(PROCESS_HOLD)
            child.send(
                *(process_run(n, f"inside.append({n})") for n in range(100)),
                b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}',
                process_line("now"))
            child.until("now")
            child.gate.close()
            self.assertEqual(str([*range(7), *range(8, 100)]), child.out("out = inside"))
            self.assertEqual(str(workers == 0), child.out(
                "out = threading.current_thread() is threading.main_thread()"))

    def test_a_ping_beside_a_stuck_call_is_answered_at_once(self) -> None:
        """[ping.answered]"""
        child, times = self.start(), []
        for number in range(9):
            child.run(PROCESS_STUCK, f"stuck {number}")
            began = time.monotonic()
            child.send(process_line(number))
            child.until(number)
            times.append(time.monotonic() - began)
        self.assertLess(sorted(times)[-2], 0.2)

    def test_each_async_call_has_an_event_loop_of_its_own(self) -> None:
        for workers in (4, 0):
            child = self.start(f"workers={workers}", before="""import asyncio
@server.tool
async def loop() -> int:
    "Count the event loops."
    inside.append(asyncio.get_running_loop())
    await asyncio.sleep(0)
    return len({*map(id, inside)})""")
            child.send(*(process_line(rid, "tools/call", name="loop") for rid in range(9)))
            self.assertEqual(9, max(int(process_text(one)) for one in child.end().values()))

    # The end.

    def test_a_tool_that_does_not_return_is_named_and_left_behind(self) -> None:
        """However it waits, though no thread can be started. [stdio.shutdown.server-eof-exit]"""
        def check(code: str, *more: str) -> None:
            child = self.start(drain=0.1)
            child.run(code)
            child.send(*(process_run(rid, code) for rid, code in enumerate(more)))
            self.assertEqual({*range(len(more))}, {*child.end()})
            self.assertIn("execute", child.said)
            self.assertNotIn("Traceback", child.said)

        self.beside(check, [
            ("in Python", PROCESS_STUCK, "1"), ("in C", PROCESS_HOLD, "1"),
            ("no thread", PROCESS_STUCK, "threading.stack_size(1 << 48)", *["1"] * 9)])

    def test_a_signal_ends_it_promptly_and_quietly_with_128_and_its_number(self) -> None:
        """Idle, beside a tool that does not return, on the thread that runs such a tool, and if the
        tool swallows it. What waits behind the tool is not begun. A second signal is ignored."""
        swallow = f"try: {PROCESS_STUCK}\nexcept BaseException: pass"

        def check(workers: int, code: str, *numbers: int) -> None:
            child = self.start(f"workers={workers}")
            if code:
                child.run(code)
            if code and not workers:
                child.send(process_run("next", "os.write(2, b'begun')"), process_line("now"))
                child.until("now")
            for number in numbers:
                child.child.send_signal(number)
            self.assertIn(child.ends() - 128, numbers)
            self.assertNotRegex(child.said, "Traceback|begun")
            self.assertIn("execute" if code == PROCESS_STUCK else "", child.said)

        self.beside(check, [(f"{case}", *case) for case in itertools.product(
            (64, 0), ("", PROCESS_STUCK), (signal.SIGTERM, signal.SIGINT))] + [
                ("swallowed", 0, swallow, signal.SIGTERM),
                ("at once", 64, "", signal.SIGSTOP, signal.SIGINT, signal.SIGTERM, signal.SIGCONT)])

    # A client that does not read.

    def test_who_does_not_read_holds_up_neither_a_cancellation_nor_the_end(self) -> None:
        """With 1 MiB unread. [cancel.receiver-stops] [stdio.shutdown.server-eof-exit]"""
        child = self.start(drain=0.1)
        child.relay.send_signal(signal.SIGSTOP)
        child.run(PROCESS_HERE + "out = 'x' * (1 << 20)")
        child.run(PROCESS_HERE + "event = threading.Event()\nwhile not context.cancelled:\n"
                  "    event.wait(0.01)\nos.write(2, b'cancelled\\n')", 7)
        child.send(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}')
        child.says("cancelled")
        child.stdin.close()
        self.assertEqual(0, child.ends())

    def test_who_does_not_read_holds_up_no_other_client_of_the_server(self) -> None:
        stuck, over, server = threading.Event(), threading.Event(), fixture_server()
        self.addCleanup(over.set)
        lines = [*PROCESS_HELLO, process_line(0, "resources/subscribe", uri="fixture://text")]

        def send(line: bytes) -> None:
            if stuck.is_set() or b'"stuck"' in line:
                stuck.set()
                over.wait(3 * DEADLINE)

        def check(name: str, arguments: Any, *expected: Any) -> None:
            other = Memory(server)
            for line in (*lines, process_line(1, "tools/call", name=name, arguments=arguments)):
                other.give(line)
            missing = {*expected}
            while missing:
                got = json.loads(other.take(DEADLINE) or "null")
                self.assertIsNotNone(got, missing)
                missing.discard(got.get("method", got.get("id")))

        deaf = server.connect(send, Memory(server).start)
        for line in (*lines, process_line("stuck", "resources/read", uri="fixture://text")):
            deaf.receive(line)
        self.assertTrue(stuck.wait(DEADLINE))
        self.beside(check, [("a call", "echo", {"text": "x"}, "hello", 0, 1),
                            ("a resource changes", "update", {"uri": "fixture://text"},
                             "hello", 0, 1, "notifications/resources/updated")])

    # run() in a program that goes on.

    def test_run_gives_back_what_it_took(self) -> None:
        """Descriptors, streams, signal handlers, threads. What a tool printed does not come out on
        stdout afterwards either. [stdio.stdout-only-messages]"""
        host = f"""
import io, signal
LINES = {[*PROCESS_HELLO, process_run(1, "print('printed'); signal.signal(15, print)")]}

def facts():
    for one in {{*threading.enumerate()}} - {{threading.main_thread(), threading.current_thread()}}:
        one.join(5)
    return [os.listdir("/dev/fd"), os.fstat(0).st_ino, os.fstat(1).st_ino, sys.stdin, sys.stdout,
            signal.getsignal(2), signal.getsignal(15), threading.active_count()]

def once():
    source, sink = os.pipe()
    os.write(sink, b"\\n".join(LINES)), os.close(sink)
    os.dup2(source, 0), os.close(source)
    before = facts()
    server.run()
    os.write(1, b'{{"id":%d}}\\n' % (before == facts()))
"""
        def check(code: str, *ids: Any) -> None:
            child = self.start(main=host + code)
            got = [json.loads(line)["id"] for line in iter(lambda: child.take(DEADLINE), None)]
            self.assertEqual(([*ids], 0), (got, child.ends()))

        once = ["hello", 1, 1]
        self.beside(check, [
            ("twice", "once(), once()", *2 * once),
            ("in a thread", "one = threading.Thread(target=once)\none.start(), one.join()", *once),
            ("tools on this thread",
             "server = Server('', '', workers=0)\nserver.tool(execute)\nonce()", *once),
            ("no stdin", "os.close(0)\nserver.run()\nprint('{\"id\":1}')", 1),
            ("own stdout", "for sys.stdout in (None, io.StringIO()): once(), once()", *4 * once)])


# --- Faults ---------------------------------------------------------------------------------------

class TestFaults(FaultCase):
    """What goes wrong around a server or inside of it, and what must be seen then."""

    # What the other end does, at each moment.

    def killed(self, child: ProcessChild) -> None:
        """It ends by itself: its input is at its end."""
        child.relay.kill(), child.stdin.close()
        self.assertEqual(0, child.ends())

    def closes_stdout(self, child: ProcessChild) -> None:
        """It ends as soon as it has something to write."""
        child.relay.kill(), child.relay.wait()
        child.send(process_line(1))
        self.assertEqual(0, child.ends())

    def floods_and_closes_stdin(self, child: ProcessChild) -> None:
        """All that was received is answered, with an error where a response of the client is
        missing. Blank lines, CRLF, and a last line without an end do not matter."""
        child.write(b"\n\r\n \n" + b"\r\n".join(process_line(n) for n in range(1000)) + b"\n")
        child.send(*(process_run(n, "threading.Event().wait(0.01)") for n in range(1000, 1200)))
        child.write(process_line(1200))
        answers = child.end()
        self.assertEqual({*range(1201)}, {*answers} - {"owed"})
        self.assertIs(True, answers.get("owed", {"result": {"isError": True}})["result"]["isError"])

    def sends_half_a_line(self, child: ProcessChild) -> None:
        """It is waited for, and refused if the rest never comes."""
        child.write(process_line("late")[:-9])
        child.write(process_line("late")[-9:] + b"\n" + process_line("never")[:-9])
        child.until("late")
        self.assertEqual(-32700, child.end()[None]["error"]["code"])

    def stops_and_goes_on(self, child: ProcessChild) -> None:
        """Every line comes, whole."""
        texts = {n: f"{n}\n" * 50_000 for n in range(4)}  # in all less than bounds.line
        child.relay.send_signal(signal.SIGSTOP)
        child.send(*(process_run(n, f"out = {text!r}") for n, text in texts.items()))
        child.run(PROCESS_HERE)
        child.relay.send_signal(signal.SIGCONT)
        answers = child.end()
        self.assertEqual(texts, {n: process_text(answers[n]) for n in texts})

    def flood(self, child: ProcessChild) -> int:
        """Write pings as long as they are taken; return how many bytes were."""
        stdin, data, taken = child.stdin.fileno(), (process_line(1) + b"\n") * 9999, 0
        os.set_blocking(stdin, False)
        while taken < 1 << 24 and select.select([], [stdin], [], 0.5)[1]:
            taken += os.write(stdin, data[taken % len(data):])
        os.set_blocking(stdin, True)
        return taken

    def reads_late(self, child: ProcessChild) -> None:
        """While more than bounds.line bytes wait to be written, no further line is read: here not
        before the other end goes on. Then all that it has sent is answered."""
        child.relay.send_signal(signal.SIGSTOP)
        for n in range(2):  # one is being written, the other waits
            child.run(PROCESS_HERE + "out = 'x' * (1 << 21)", f"large {n}")
        taken, size = self.flood(child), len(process_line(1)) + 1
        self.assertLess(taken, 1 << 19)  # the pipe, and what is read at once
        child.relay.send_signal(signal.SIGCONT)
        child.write((process_line(1) + b"\n")[taken % size:] + process_line("last") + b"\n")
        ids = [child.until(1, "large 0", "large 1", "last")["id"] for _ in range(taken // size + 4)]
        self.assertEqual(["large 0", "large 1", "last"], sorted({*ids} - {1}))
        self.assertEqual("last", ids[-1])

    def never_reads(self, child: ProcessChild) -> None:
        """The server reads no more either, and a signal still ends it."""
        child.relay.send_signal(signal.SIGSTOP)
        self.assertLess(self.flood(child), 1 << 24)
        child.child.terminate()
        self.assertEqual(128 + signal.SIGTERM, child.ends())

    def test_whatever_the_other_end_does_at_any_moment_is_borne(self) -> None:
        """[stdio.newline-delimited] [stdio.no-embedded-newline] [stdio.shutdown.server-eof-exit]"""
        def check(fault: Callable[[ProcessChild], None], moment: str) -> None:
            child = self.start("bounds=Bounds(line=1 << 20)")
            if moment == "a response is owed":
                child.run(PROCESS_HERE + "context.list_roots()", "owed")
            if moment == "all is answered":
                child.out("")
            fault(child)

        self.beside(check, [
            (f"{fault.__name__}, {moment}", fault, moment) for fault in (
                self.killed, self.closes_stdout, self.floods_and_closes_stdin,
                self.sends_half_a_line, self.stops_and_goes_on, self.reads_late,
                self.never_reads)
            for moment in ("nothing is requested", "a response is owed", "all is answered")])

    # What a tool does.

    def test_mischief_of_a_tool_harms_no_response_and_no_end(self) -> None:
        """The mischief is in mischief.txt."""
        with open(os.path.join(HERE, ".ci", "mischief.txt"), encoding="utf-8") as file:
            rows = re.findall(r"^== (.*?)(: an error)?\n((?:    .*\n)+)", file.read(), re.M)
        self.assertGreater(len(rows), 15)

        def check(workers: int) -> None:
            child = self.start(f"workers={workers}")
            for why, fails, code in rows:
                code = textwrap.dedent(code)
                child.send(process_run(1, code), process_run(2, "out = 'x'"), process_line(3))
                got = {one["id"]: one["result"] for one in [child.until(1, 2, 3) for _ in range(3)]}
                self.assertEqual((fails != "", "x", {}), (
                    got[1].get("isError", False), got[2]["content"][0]["text"], got[3]), why)
                self.assertNotRegex(str(got[1]), "Traceback|" + os.path.dirname(json.__file__))
            child.stdin.close()
            self.assertEqual(0, child.child.wait(DEADLINE))

        self.beside(check, [(f"workers={workers}", workers) for workers in (64, 0)])


class TestSurroundings(FaultCase):
    """What a server costs, and what it bears from the system around it."""

    def test_waiting_costs_no_cpu(self) -> None:
        """Neither for a line nor for a call."""
        child, spent = self.start(before="import resource"), []
        child.run(PROCESS_HOLD)
        for seconds in (0.2, 0.6):
            with self.assertRaises(subprocess.TimeoutExpired):
                child.child.wait(seconds)  # let time pass
            spent.append(json.loads(child.out(
                "used = resource.getrusage(resource.RUSAGE_SELF)\n"
                "out = [used.ru_utime + used.ru_stime, used.ru_nvcsw]")))
        self.assertLess(spent[1][0] - spent[0][0], 0.05)  # seconds
        self.assertLess(spent[1][1] - spent[0][1], 60)  # one thread that looks every 5 ms makes 120

    @unittest.skipIf(sys.implementation.name == "pypy", "tracemalloc is of CPython")
    def test_of_a_line_beyond_the_bound_no_more_is_kept_than_shows_it(self) -> None:
        child = self.start("bounds=Bounds(line=1 << 16)", before="import tracemalloc as memory")
        child.out("memory.start()")
        child.send(b"x" * 20_000_000)
        self.assertEqual(-32700, child.until(None)["error"]["code"])
        self.assertLess(int(child.out("out = memory.get_traced_memory()[1]")), 2_000_000)

    @unittest.skipUnless(sys.platform == "linux", "a limit that other systems do not keep")
    @unittest.skipIf(sys.implementation.name == "pypy", "PyPy aborts if its heap cannot grow")
    def test_a_message_without_memory_for_it_costs_one_error(self) -> None:
        """A result, and a line that comes in. [base.error.internal] [base.error.parse]"""
        env = {"MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": "65536"}  # without reserves
        child = self.start(env=env, before="""
import logging, resource, traceback
threading.stack_size(1 << 18)
large = "x" * (40 << 20)""")
        child.out("""
with open("/proc/self/statm") as file:
    size = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + (20 << 20),) * 2)""")
        child.send(process_run(1, "out = large"), b"[" + b"x" * (40 << 20) + b"]", process_line(2))
        codes = {rid: one.get("error", {}).get("code") for rid, one in child.end().items()}
        self.assertEqual({1: -32603, None: -32700, 2: None}, codes)

    def test_a_server_bears_how_it_is_started(self) -> None:
        """Without a stdin there is nothing to do, without a stdout there is nobody to serve. What
        cannot be flushed to stderr at the end, Python itself says with status 120."""
        def check(shell: str, count: int) -> None:
            if "/dev/full" in shell and not os.path.exists("/dev/full"):
                self.skipTest("there is no /dev/full")
            if "ulimit" in shell and "-S" not in PYTHON:
                self.skipTest("coverage could not write what it measures")
            with tempfile.NamedTemporaryFile() as file:
                done = subprocess.run(
                    ["sh", "-c", shell, "sh", *PYTHON, "-c", script], input=lines, timeout=DEADLINE,
                    env={**PROCESS_ENV, "FILE": file.name}, stdout=-1, stderr=-1)
            self.assertIn(done.returncode, (0, 120) if count and "&-" not in shell else (0,))
            self.assertEqual({"hello", 1, 2} if count else set(),
                             {json.loads(line)["id"] for line in done.stdout.splitlines()})
            self.assertNotIn(b"Traceback", done.stderr)

        lines = b"\n".join((*PROCESS_HELLO, process_run(1, "os.write(1, b'out')"), process_line(2)))
        script = PROCESS_SERVER.replace("OPTIONS", "") + "server.run()"
        self.beside(check, [
            ("no stderr", 'exec "$@" 2>&-', 3), ("no stdin", 'exec "$@" <&-', 0),
            ("neither", 'exec "$@" <&- 2>&-', 0), ("no stdout", 'exec "$@" >&-', 0),
            ("a full disk behind stderr", 'exec "$@" 2>/dev/full', 3),
            ("stderr of limited size", 'ulimit -f 0; exec "$@" 2>"$FILE"', 3),
            ("stdout of limited size", 'ulimit -f 0; exec "$@" >"$FILE"', 0)])

    def test_a_signal_that_a_shell_has_ignored_ends_it_all_the_same(self) -> None:
        script = PROCESS_SERVER.replace("OPTIONS", "") + "server.run()"
        done = subprocess.run(
            ["sh", "-c", 'trap "" INT; exec "$@"', "sh", *PYTHON, "-c", script], stdout=-1,
            input=b"\n".join((*PROCESS_HELLO, process_run(1, "os.kill(os.getpid(), 2)"))),
            env=PROCESS_ENV, timeout=DEADLINE)
        self.assertEqual(130, done.returncode)

    def test_descriptors_may_be_non_blocking_and_beyond_1023(self) -> None:
        """A line that does not fit into the pipe comes whole, both ways. Whoever shares them may
        make them so at any time."""
        child = self.start(main="""
import resource
shared = os.dup(0), os.dup(1)
try:
    resource.setrlimit(resource.RLIMIT_NOFILE, (1200, 1200))
    [os.dup(2) for _ in range(1050)]
except (ValueError, OSError):
    print("limited", flush=True)
server.run()""")
        child.send(*PROCESS_HELLO)
        limited = child.take(DEADLINE) == b"limited"
        child.out("out = [os.set_blocking(one, False) for one in shared]")
        child.send(process_run(1, f"out = {'x' * 300_000!r}"))
        self.assertEqual("x" * 300_000, process_text(child.until(1)))
        child.end()
        if limited:
            self.skipTest("no descriptors beyond 1023: others were non-blocking")

    def test_a_client_may_stop_or_be_killed_in_the_middle_of_a_call(self) -> None:
        """Its response waits until it goes on; no server outlives it. A server that is ended by its
        tool is named with its status. [stdio.shutdown.server-initiated]"""
        server = [*PYTHON, "-c", PROCESS_SERVER.replace("OPTIONS", "") + "server.run(0.1)"]
        stop = "import signal\nos.kill(os.getppid(), signal.%s)\n" + PROCESS_HERE

        def check(code: str, *seen: Any) -> None:
            child = self.start(main=f"""
from mcp_ref import Client, ConnectionClosed
with Client({server!r}) as client:
    try:
        print(len(str(client.call_tool("execute", {{"code": {code!r}}}))) > 200_000, flush=True)
    except ConnectionClosed as error:
        print("status 9" in str(error), flush=True)""")
            child.says("here")
            child.child.send_signal(signal.SIGCONT)
            self.assertEqual(seen, (child.take(DEADLINE), child.ends()))

        self.beside(check, [
            ("stopped", stop % "SIGSTOP" + "out = 'x' * 200_000", b"True", 0),
            ("killed", stop % "SIGKILL" + "threading.Event().wait()", None, -signal.SIGKILL),
            ("os._exit", PROCESS_HERE + "os._exit(9)", b"True", 0)])

    def test_no_line_of_the_log_can_be_forged(self) -> None:
        """By what a client sends or a tool raises."""
        child = self.start()
        child.send(*(json.dumps({"jsonrpc": "2.0", **one}).encode() for one in (
            {"id": PROCESS_EVIL, "error": {"code": 1, "message": PROCESS_EVIL}},
            {"id": 9, "result": PROCESS_EVIL}, {"method": PROCESS_EVIL},
            {"method": "notifications/cancelled", "params": {PROCESS_EVIL: PROCESS_EVIL}})),
            process_run(1, f"raise ValueError({PROCESS_EVIL!r})"), process_line(2, PROCESS_EVIL))
        child.end()
        self.assertIn("forged", child.said)
        self.assertEqual([], re.findall(PROCESS_BAD, child.said, re.M))


# --- The client and its process -------------------------------------------------------------------

CLIENT_SCRIPT = r"""
import json, os, signal, subprocess, sys
def answer(**more):
    result = {"content": [], **more}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
def ends(how):
    with open(sys.argv[1], "a") as file:
        file.write(how)
    os._exit(0)
for line in sys.stdin:
    message = json.loads(line)
    if message["method"] == "initialize":
        info = {"name": "script", "version": "1"}
        answer(protocolVersion="2025-11-25", capabilities={}, serverInfo=info)
    elif message["method"] == "tools/call":
        exec(message["params"]["name"])
ends("EOF")
"""
CLIENT_GRANDCHILD = "subprocess.Popen([sys.executable, '-c', 'import sys; sys.stdin.read()'])"


@unittest.skipUnless(os.name == "posix", "signals of POSIX")
class TestClientProcess(unittest.TestCase):
    """A server in a process of its own; it runs the name of a tool as Python code."""

    def spawn(self, file: str = os.devnull, **options: Any) -> Client:
        return Client([sys.executable, "-I", "-S", "-c", CLIENT_SCRIPT, file], **{
            "timeout": DEADLINE, "protocol_version": "2025-11-25", "close_timeout": 0.2, **options})

    def assert_gone(self, pid: int) -> None:
        """Wait until there is no such process, not even as a zombie."""
        with self.assertRaises(ProcessLookupError):
            for _ in range(int(DEADLINE / 0.01)):
                os.kill(pid, 0)
                time.sleep(0.01)

    def test_the_end_of_a_server_is_told_to_whoever_waits(self) -> None:
        """SHOULD: After all that it wrote, and with its status; connect() starts it again.
        [stdio.crash-restart]"""
        for code, status in (("os._exit(7)", "7"), ("os.kill(os.getpid(), 9)", "signal 9"),
                             ("os.write(1, b'{\"half'); os._exit(7)", "7"),
                             (CLIENT_GRANDCHILD + "; os._exit(7)", "7"),
                             ("os.close(1); signal.pause()", "")):
            with self.subTest(code), self.spawn() as client:
                pending = client.start("tools/call", {"name": "pass"})
                self.assertRaisesRegex(ConnectionClosed, status, client.call_tool, code)
                self.assertRaisesRegex(ConnectionClosed, status, pending.result, DEADLINE)
                self.assertRaises(ConnectionClosed, client.call_tool, "answer()")
                self.assertEqual(3000000, len(client.connect().call_tool(
                    "answer(long='x' * 3000000); os._exit(7)")["long"]))

    def test_what_waits_for_a_server_that_does_not_read_is_bounded(self) -> None:
        with self.spawn(bounds=Bounds(line=100_000)) as client:
            client.start("tools/call", {"name": "signal.pause()"})
            with self.assertRaisesRegex(ConnectionClosed, "does not read"):
                for _ in range(100):
                    client.start("x/one", {"x": "x" * 10_000})

    def test_long_requests_and_short_ones_arrive(self) -> None:
        with Client([*PYTHON, "-m", "mcp_ref"], PROCESS_ENV, timeout=DEADLINE) as client:
            calls = [client.start("tools/call", {"name": "add", "arguments": {
                "a": n, "b": 0, **({"c": "x" * 500_000} if n % 2 else {})}}) for n in range(8)]
            for n, call in enumerate(calls):
                words = call.result(DEADLINE)["content"][0]["text"]
                self.assertEqual("arguments.c: unknown; known: a, b" if n % 2 else str(n), words)

    def test_close_is_eof_then_sigterm_then_sigkill(self) -> None:
        """SHOULD: [stdio.shutdown.close-stdin] [stdio.shutdown.sigterm-sigkill]
        [stdio.shutdown.force]"""
        on_term = "signal.signal(15, %s); answer(pid=os.getpid()); "
        stay = "sys.stdin.read(); [signal.pause() for _ in iter(int, 1)]"
        for code, timeout, how in (
                (on_term % "lambda *why: ends('SIGTERM')", DEADLINE, "EOF"),
                (on_term % "lambda *why: ends('SIGTERM')" + stay, 0.1, "SIGTERM"),
                (on_term % "signal.SIG_IGN" + stay, 0.1, ""),
                (on_term % "signal.SIG_DFL" + "os.kill(os.getpid(), signal.SIGSTOP)", 0.1, "")):
            with self.subTest(code), tempfile.NamedTemporaryFile("r") as file:
                with self.spawn(file.name, close_timeout=timeout) as client:
                    pid, began = client.call_tool(code)["pid"], time.monotonic()
                self.assertLess(time.monotonic() - began, DEADLINE / 2)
                self.assert_gone(pid)
                self.assertEqual(how, file.read())

    def test_close_reaps_a_server_that_it_had_to_kill(self) -> None:
        """OURS: When it returns there is no such process any more, not even a zombie."""
        code = ("signal.signal(15, signal.SIG_IGN); answer(pid=os.getpid()); "
                "sys.stdin.read(); [signal.pause() for _ in iter(int, 1)]")
        for _ in range(5):
            with self.spawn(close_timeout=0.05) as client:
                pid = client.call_tool(code)["pid"]
            self.assertRaises(ProcessLookupError, os.kill, pid, signal.SIGKILL)

    def test_an_interrupt_inside_connect_leaves_no_process(self) -> None:
        """OURS: The server interrupts its client, and answers nothing."""
        self.addCleanup(signal.signal, signal.SIGINT, signal.signal(
            signal.SIGINT, signal.default_int_handler))
        with tempfile.NamedTemporaryFile("r") as file:
            client = Client([sys.executable, "-c", "import os, sys\nsys.stdin.readline()\n"
                             "with open(sys.argv[1], 'w') as file: print(os.getpid(), file=file)\n"
                             "os.kill(os.getppid(), 2)\nsys.stdin.read()", file.name])
            self.assertRaises(KeyboardInterrupt, client.connect)
            self.assert_gone(int(file.read()))

    def test_a_server_that_does_not_read_can_be_closed_under_whoever_writes(self) -> None:
        """OURS: Its pipe is full, and the other half of the line is yet to come."""
        with self.spawn() as client, concurrent.futures.ThreadPoolExecutor(2) as pool:
            client.start("tools/call", {"name": "signal.pause()"})
            stuck = pool.submit(client.call_tool, "x", {"a": "x" * 9999999})
            self.assertRaises(concurrent.futures.TimeoutError, stuck.result, 0.3)
            pool.submit(client.close).result(DEADLINE / 2)
            self.assertIsInstance(stuck.exception(DEADLINE / 2), ConnectionClosed)

    def test_the_timeout_of_a_call_bounds_its_writing(self) -> None:
        """OURS: To a server that never reads, too. It is still there, and closed at the end."""
        with self.spawn() as client:
            client.start("tools/call", {"name": "signal.pause()"})
            for size in (9_999_999, 10, 10):
                began = time.monotonic()
                with self.assertRaises(RequestTimeout):
                    client.call_tool("x", {"a": "x" * size}, timeout=0.2)
                self.assertLess(time.monotonic() - began, DEADLINE / 2)

    def test_a_server_has_the_env_and_cwd_that_it_is_given_and_the_clients_stderr(self) -> None:
        """SHOULD NOT: What comes there is no failure. [stdio.stderr-not-error] Nor does a client
        that was not closed hold up the end of its process."""
        done = subprocess.run([sys.executable, "-c", f"""
from mcp_ref import Client
client = Client([{sys.executable!r}, "-I", "-S", "-c", {CLIENT_SCRIPT!r}, {os.devnull!r}],
                env={{"K": "v"}}, cwd="/", protocol_version="2025-11-25").connect()
code = "os.write(2, b'x' * 99999); answer(at=[os.getcwd(), os.environ['K'], 'PATH' in os.environ])"
print(*client.call_tool(code)["at"])
"""], env={**os.environ, "PYTHONPATH": HERE}, capture_output=True, timeout=DEADLINE)
        self.assertEqual((0, b"/ v False\n", b"x" * 99999),
                         (done.returncode, done.stdout, done.stderr))


# --- Command line ---------------------------------------------------------------------------------

PROCESS_EVIL = "said\nforged: line\r\x1b[2J\x9b31m\u2028\x00"  # nothing to be repeated as it is
PROCESS_BAD = "^forged|[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029]"  # so nothing printed is like this
PROCESS_WORDS = {  # of a command line -> what is started
    "MCP": ["-m", "mcp_ref"], "FILE": [os.path.abspath(mcp_ref.__file__)],
    "SERVER": [*PYTHON, "-m", "mcp_ref"], "DEAD": [*PYTHON, "-c", "raise SystemExit(7)"],
    "NOISY": [*PYTHON, "-c", "import mcp_ref\nprint('flushed', flush=True), print('buffered')\n"
              "mcp_ref.Server('noisy', '1').run()"],
    "FOREIGN": [*PYTHON, "-c", """
import json, sys
known = {"initialize": {"protocolVersion": "2025-11-25", "serverInfo": {"name": "other"},
                        "capabilities": {"tools": {}, "resources": {}, "prompts": {}}},
         "tools/list": {"tools": [{"name": "a", "inputSchema": None}]},
         "resources/list": {"resources": [{"uri": "x:a", "name": "a"}]},
         "prompts/list": {"prompts": [{"name": "b", "arguments": None},
                                      {"name": "c", "arguments": [{"name": "who"}]}]}}
for message in map(json.loads, sys.stdin):
    result = known.get(message["method"])
    body = {"result": result} if result else {"error": {"code": -32601, "message": "unknown"}}
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **body}), flush=True)
"""],
    "ODD": [*PYTHON, "-c", f"""
from typing import Optional
from mcp_ref import Context, RpcError, Server
server = Server("caf\u00e9", "1")
@server.tool
def odd() -> dict:
    "Return an object."
    return {{"odd": [1]}}
@server.tool
def evil(when: Optional[int] = None) -> str:
    "Fail with what a terminal must not get."
    raise RpcError(1, {PROCESS_EVIL!r})
@server.tool
def ask(name: str, context: Context) -> str:
    "Ask for this and a number, or to visit a page."
    fields = {{name: {{"type": "string"}}, "n": {{"type": "integer"}}, "way": {{"enum": ["up"]}}}}
    got = context.elicit("Please:", {{"type": "object", "properties": fields}},
                         url=None if name else "https://a.example/")
    return " ".join([got["action"], *map(repr, got.get("content", {{}}).values())])
@server.resource("odd://{{name}}")
def each(name: str) -> str:
    "Read it.\\nTwice."
server.run()"""]}
PROCESS_STDIN = {"HELLO": b"\n".join(PROCESS_HELLO), "PING": process_line(7), "JUNK": b"a\xff",
                 "": b""}


def process_commands() -> Iterator[Any]:
    """Read commands.txt: (title, arguments, stdin, status, regular expressions of the output)."""
    with open(os.path.join(HERE, ".ci", "commands.txt"), encoding="utf-8") as file:
        for row in file.read().split("\n== ")[1:]:
            title, line, told, errors = row.strip().split("\n")
            words, _, stdin = line[2:].partition(" < ")
            status, _, out = told.partition(" ")
            yield title, words, PROCESS_STDIN[stdin], int(status), out, errors[2:]


class TestCommandLine(FaultCase):
    """The file as a program."""

    def command(self, line: str, *more: str, **options: Any) -> Any:
        """Start Python with arguments."""
        words = [one for word in shlex.split(line) for one in PROCESS_WORDS.get(word, [word])]
        child = subprocess.Popen([*PYTHON, *words, *more], **{
            "stdin": -1, "stdout": -1, "stderr": -1, "start_new_session": True, **options,
            "env": {**PROCESS_ENV, "PYTHONIOENCODING": "ascii", **options.get("env", {})}})
        self.addCleanup(child.__exit__, None, None, None)
        self.addCleanup(child.kill)
        return child

    def told(self, child: Any, stdin: bytes = b"") -> Tuple[int, str, str]:
        """Wait for a command and what it started; return its status, stdout and stderr."""
        out, errors = [(data or b"").decode() for data in child.communicate(stdin, DEADLINE)]
        self.assertRaises(ProcessLookupError, os.killpg, child.pid, 0)  # nothing is left running
        self.assertEqual([], re.findall("Traceback|" + PROCESS_BAD, out + errors, re.M))
        return child.returncode, out, errors

    def test_what_it_prints_and_how_it_ends(self) -> None:
        def check(line: str, stdin: bytes, status: int, out: str, errors: str) -> None:
            told = self.told(self.command(line), stdin)
            self.assertEqual(status, told[0])
            self.assertRegex(told[1], out)
            self.assertRegex(told[2], errors)

        self.beside(check, process_commands())

    def test_trace_escapes_control_characters(self) -> None:
        """Of what a server and a client read: nobody can steer the terminal, or forge a line."""
        evil = PROCESS_EVIL.replace("\n", "\x7f").encode()
        shown = r"(?m)^ +[\d.]+ < +said\\x7fforged: line\\r\\x1b\[2J\\x9b31m\\u2028\\x00$"
        print_it = f"import sys\nsys.stdout.buffer.write({evil!r} + b'\\n')"

        def check(line: str, *more: str) -> None:
            child = self.command(line, *more, env={"PYTHONIOENCODING": "utf-8"})
            _, _, errors = self.told(child, evil + b"\n")  # where no control character may be
            self.assertRegex(errors, shown)

        self.beside(check, [("a server", "MCP --trace"),
                            ("a client", "MCP --trace inspect --", *PYTHON, "-c", print_it)])

    def test_a_command_line_that_makes_no_sense_is_told_the_usage(self) -> None:
        for line in ("inspect", "inspect --", "call", "call x", "call -- x", "call a {} b -- x",
                     "-- x", "--no-such", "--trace nonsense", "--version x"):
            with self.subTest(line), contextlib.redirect_stdout(io.StringIO()) as out, \
                    contextlib.redirect_stderr(io.StringIO()) as errors:
                self.assertEqual((2, ""), (mcp_ref.main(line.split()), out.getvalue()))
                self.assertRegex(errors.getvalue(), "^usage: ")

    def test_it_bears_that_nobody_reads_or_writes(self) -> None:
        """No stdin, no stderr, a stdout that is closed soon: no traceback, nothing left running."""
        for line in ("--help", "inspect -- SERVER", "--trace call odd -- ODD"):
            child = self.command(f"MCP {line}", stdin=subprocess.DEVNULL)
            child.stdout.close()
            child.stdout = None
            self.told(child)
        done = subprocess.run(["sh", "-c", 'exec "$@" <&- 2>&-', "sh", *PYTHON, "-m", "mcp_ref",
                               "--trace", "call", "odd", "--", *PROCESS_WORDS["ODD"]],
                              env=PROCESS_ENV, timeout=DEADLINE, stdout=subprocess.PIPE)
        self.assertEqual((0, {"odd": [1]}), (
            done.returncode, json.loads(done.stdout)["structuredContent"]))

    def test_a_terminal_gets_a_hint_on_stderr(self) -> None:
        master, slave = os.openpty()
        self.addCleanup(os.close, master)
        child = self.command("MCP", stdin=slave)
        os.close(slave)
        self.assertTrue(select.select([child.stderr], [], [], DEADLINE)[0])
        self.assertEqual(b"mcp_ref demo is an MCP server: it waits for JSON-RPC messages on stdin; "
                         b"connect an MCP client to it, or press Ctrl-C\n", child.stderr.readline())
        os.write(master, process_line(1) + b"\n\x04")  # Ctrl-D
        self.assertEqual((0, 1), (child.wait(DEADLINE), json.loads(child.stdout.read())["id"]))

    def test_a_user_at_a_terminal_is_asked(self) -> None:
        """An empty line declines; a page is shown, and accepted by y or yes."""
        def check(name: str, typed: bytes, answer: str, shown: str) -> None:
            master, slave = os.openpty()
            self.addCleanup(os.close, master)
            os.write(master, typed)
            child = self.command("MCP call ask", json.dumps({"name": name}), "--",
                                 *PROCESS_WORDS["ODD"], stdin=slave)
            os.close(slave)
            status, out, errors = self.told(child)
            self.assertEqual((0, answer), (status, json.loads(out)["content"][0]["text"]))
            self.assertRegex(errors, shown)

        self.beside(check, [(f"{case}", *case) for case in (
            ("who", b"5\n5\nup\n", "accept '5' 5 'up'",
             r"who \(string\): n \(integer\): way \(\['up'\]\): $"),
            ("who", b"\n", "decline", r"who \(string\): $"),
            ("", b"y\n", "accept", "https://a.example/"), ("", b"Yes\n", "accept", r"\[y/N\]"),
            ("", b"\n", "decline", r"\[y/N\] $"))])

    def test_control_c_ends_a_command_quietly_with_130_and_what_it_started(self) -> None:
        """Here a server that never answers the first request."""
        # A shell lets what it starts in the background ignore SIGINT, and so would the child.
        self.addCleanup(signal.signal, signal.SIGINT, signal.signal(
            signal.SIGINT, signal.default_int_handler))
        slow = "import os, sys\nos.write(2, b'here'), sys.stdin.read()"
        child = self.command("MCP inspect --", *PYTHON, "-c", slow)
        self.assertTrue(select.select([child.stderr], [], [], DEADLINE)[0])
        child.send_signal(signal.SIGINT)
        self.assertEqual((130, "", "here"), self.told(child))


if __name__ == "__main__":
    unittest.main()
