"""Test that mcp_ref.py is a complete server when it is cut off after any of its parts.

Each cut serves the fixture of test_mcp_ref.py in a process that has no other file of this
repository. The fixture leaves out the functions that the cut cannot offer. The transcripts that
need only what the cut offers are played against it.
"""
from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest
from typing import Any, Iterable, Iterator, NamedTuple

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import cuts  # noqa: E402
try:
    import layers  # noqa: E402
except ImportError:  # PyPy 3.9 has no symtable
    layers = None  # type: ignore[assignment]

sys.path[:0] = [cuts.ROOT, os.path.dirname(cuts.JUDGE)]

import judge  # noqa: E402
import test_mcp_ref as suite  # noqa: E402
from test_mcp_ref import DEADLINE, LEGACY, Play, Transcript  # noqa: E402

CUTS = cuts.read_cuts()
PYTHON = [sys.executable, "-S", "-W", "error"]
LEAST = 40  # transcripts that the first cut has to play
NEEDS = {**judge.NEEDS, "io.modelcontextprotocol/logLevel": "logging"}  # text: capability
PROGRAM = '''
# The fixture for a cut. Its source comes from test_mcp_ref.py.
from __future__ import annotations
import dataclasses, inspect, os, re, sys, threading
from typing import Any, Dict, List
import {module} as mcp_ref
from {module} import {server_class} as CutServer

DEADLINE = {deadline}
contexts = [one for one in vars(mcp_ref).values() if isinstance(one, type)
            and one.__module__ == mcp_ref.__name__ and hasattr(one, "progress")]
Context = getattr(mcp_ref, "Context", None)
if not hasattr(Context, "progress") and contexts:
    Context = contexts[-1]


class Server(CutServer):
    """The server of the cut, which leaves out the functions that it cannot offer."""

    def tool(self, function=None, **options):
        if function is None:
            return lambda function: self.tool(function, **options)
        missing = [name for name, owner in (
            ("context", Context), ("server", CutServer), ("mcp_ref", mcp_ref))
            for attribute in re.findall(r"\\b%s\\.(\\w+)" % name, inspect.getsource(function))
            if not hasattr(owner, attribute)]
        if not missing:
            try:
                return super().tool(function, **options)
            except TypeError as error:  # the cut refuses a hint
                print("left out:", error, file=sys.stderr)
        return function

    def __getattr__(self, name):
        if name in ("resource", "prompt", "completion"):
            return lambda *args, **options: lambda function: function
        raise AttributeError(name)


{place}

{fixture}

if sys.argv[1] == "fixture":
    server = fixture_server()

    @server.tool
    def noise(text: str) -> str:
        """Write the text to stdout."""
        print(text)
        sys.stdout.flush()
        os.write(1, text.encode())
        return "ok"
else:
    server = CutServer("empty", "1.0")
server.run()
'''
CHANGES = """
# Print the tables and constants of the first cut that are different in the second cut. A table of
# the second cut may have more rows.
import collections.abc, re
import {0} as before, {1} as after

CONSTANTS = str, bytes, int, float, tuple, list, set, frozenset, type(None)

def text_of(value):
    return re.sub(r"\\bcut\\d+\\b|0x[0-9a-f]+", "", repr(value))

def same(one, other):
    return one == other or text_of(one) == text_of(other)

for name, value in vars(before).items():
    other = getattr(after, name, None)
    if isinstance(value, collections.abc.Mapping) and isinstance(other, collections.abc.Mapping):
        others = {{text_of(key): row for key, row in other.items()}}
        changed = [f"{{name}}[{{key}}]" for key, row in value.items()
                   if text_of(key) not in others or not same(row, others[text_of(key)])]
    elif isinstance(value, (collections.abc.Mapping, *CONSTANTS)):
        changed = [] if same(value, other) else [name]
    else:
        continue
    if changed and not name.startswith("_"):
        print(*changed, sep="\\n")
"""
# Goes on after the listing of the title page: calls what it has added.
EXTENDED = """
import json, typing

server = cut1.ToolServer("extended", "1.0")

@server.tool(input_schema={"type": "object", "properties": {"all": {"maxItems": 1}}})
def count(all: list):
    return len(all)

@server.tool
def differ(words: frozenset) -> str:
    return str(len(words))

session = server.connect(lambda line: print(line.decode()))
meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}}
for number, (method, params) in enumerate([
        ("example/echo", {"text": "hi"}),
        ("tools/call", {"name": "differ", "arguments": {"words": ["a", "a"]}}),
        ("tools/call", {"name": "count", "arguments": {"all": [1, 2]}})]):
    session.receive(json.dumps({"jsonrpc": "2.0", "id": number, "method": method,
                                "params": {**params, "_meta": meta}}).encode())
"""
FOLDER = ""  # has the cuts and their programs


def setUpModule() -> None:
    global FOLDER
    FOLDER = tempfile.mkdtemp(prefix="test_cuts")
    unittest.addModuleCleanup(shutil.rmtree, FOLDER, True)
    cuts.write_cuts(FOLDER, CUTS)
    for cut in CUTS:
        text = PROGRAM.format(
            module=cut.module, server_class=cuts.server_class(cut), deadline=DEADLINE,
            place=suite.source_of("Place"), fixture=suite.source_of("fixture_server"))
        with open(program(cut), "w", encoding="utf-8") as file:
            file.write(text)


def program(cut: cuts.Cut) -> str:
    return os.path.join(FOLDER, f"fixture{cut.number}.py")


def environment() -> dict[str, str]:
    """Return an environment in which a process does not find the whole module.

    The coverage of the cuts is not measured, because its warnings would be errors.
    """
    return {name: value for name, value in suite.PROCESS_ENV.items()
            if name != "PYTHONPATH" and not name.startswith("COVERAGE")}


class CutProcess(suite.Process):
    """The fixture of a cut in a process, or an empty server."""

    def __init__(self, cut: cuts.Cut, server: str = "fixture") -> None:
        with tempfile.NamedTemporaryFile(dir=FOLDER, suffix=".log", delete=False) as log:
            self.log = log.name
            super().__init__([*PYTHON, program(cut), server], cwd=FOLDER, env=environment(),
                             stderr=log)
        self.ids = suite.Ids()

    def read(self) -> None:
        super().read()
        self.lines.put(None)  # type: ignore[arg-type]  # so that no test waits for more lines

    def stderr(self) -> str:
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return file.read()[-2000:]

    def give(self, line: bytes) -> None:
        super().give(self.ids.out(line))

    def take(self, seconds: float) -> bytes | None:
        line = super().take(seconds)
        return line and self.ids.come(line)

    def ask(self, rid: Any, method: str, params: Any = None) -> Any:
        """Send a request, and return the response. No other line may come before it."""
        more = {} if params is None else {"params": params}
        self.give(json.dumps({"jsonrpc": "2.0", "id": rid, "method": method, **more}).encode())
        return self.answer()

    def answer(self) -> Any:
        line = self.take(3 * DEADLINE)  # includes starting Python
        if line is None:
            raise AssertionError(f"no line arrived; stderr ends with\n{self.stderr()}")
        return json.loads(line)


class Offers(NamedTuple):
    """The features of the fixture of a cut."""
    tools: set[str]
    capabilities: dict[str, Any]
    resources: set[str]  # URIs of resources and of templates


def offers_of(cut: cuts.Cut) -> Offers:
    """Ask the fixture of a cut what it offers."""
    child = CutProcess(cut)
    try:
        meta = {"_meta": suite.modern_meta()}
        lists: list[Any] = []
        for method, member in judge.LISTS.items():
            lists += child.ask(method, method, meta).get("result", {}).get(member, [])
        result = child.ask("discover", "server/discover", meta)["result"]
    finally:
        child.close()
    return Offers({one["name"] for one in lists if "inputSchema" in one}, result["capabilities"],
                  {one.get("uri", one.get("uriTemplate")) for one in lists} - {None})


def is_sent(transcript: Transcript) -> bool:
    """Tell whether a transcript can be played against a server in another process."""
    code = [text for mark, text in transcript.steps if mark in "!="]
    return "client" not in transcript.words and transcript.server in ("fixture", "empty") and all(
        mark != "!" for mark, _ in transcript.steps) and not re.search(
            r"\bserver\.|\bsession\.|\bend\.", "\n".join(code))


def calls_of(value: Any) -> Iterator[Any]:
    """Yield the params of the tools/call requests in a message or a batch."""
    for one in value if isinstance(value, list) else [value]:
        if isinstance(one, dict) and one.get("method") == "tools/call":
            yield one.get("params")


def lack(transcript: Transcript, revision: str, offers: Offers, everything: Offers) -> str:
    """Return what a transcript needs and the cut does not offer, or "".

    A transcript needs the tools and resources of the fixture that it names, and the capabilities
    to which its methods belong. The empty server offers nothing, in each cut.
    """
    if transcript.server == "empty":
        return ""
    text = "\n".join(text for _, text in transcript.steps)
    for name in sorted(everything.tools - offers.tools):
        if f'"name":"{name}"' in text:
            return f"the tool {name}"
    needed = [NEEDS[word] for word in re.findall(r'"([\w./]+)"', text) if word in NEEDS
              and not (revision not in LEGACY and word in judge.GONE)]
    for mark, step in transcript.steps:
        for declared in re.findall(r'"capabilities":(\{.*)', step) if mark[0] == "<" else ():
            needed += paths_of(json.JSONDecoder().raw_decode(declared)[0])
    facts = judge.Facts(revision)
    facts.opening = {"capabilities": offers.capabilities}
    return next((f"the capability {name}" for name in needed if not facts.has(name)), "")


def paths_of(declared: Any, above: str = "") -> Iterator[str]:
    """Yield the names in the value of `capabilities`, such as tools and tools.listChanged."""
    for name, value in declared.items() if isinstance(declared, dict) else ():
        if name != "...":
            yield above + name
            yield from paths_of(value, f"{above}{name}.")


def playable(offers: Offers, everything: Offers) -> Iterator[tuple[str, list[Transcript]]]:
    """Yield the transcripts that can be played, in groups that share a connection."""
    shared: dict[Any, list[Transcript]] = {}
    for one in filter(is_sent, suite.TRANSCRIPTS):
        revisions = [revision for revision in one.revisions
                     if not lack(one, revision, offers, everything)]
        for revision in revisions:
            if "raw" not in one.words or revision not in LEGACY:
                group = shared.setdefault((revision, one.server, "offers" in one.words), [])
                group.append(one)
            elif revision == max(set(revisions) & {*LEGACY}):  # its own process, and only one
                yield revision, [one]
    for (revision, _, _), group in shared.items():
        yield revision, group


@unittest.skipUnless(CUTS, "mcp_ref.py has no parts: no line begins with '# Part 1: '")
class TestCuts(suite.ProcessCase):
    """Each cut is a complete server."""

    def each(self, check: Any) -> None:
        self.beside(check, [(f"the cut after part {cut.number}", cut) for cut in CUTS])

    def python(self, code: str) -> str:
        """Run Python code beside the cuts. Return what it writes. The exit status has to be 0."""
        done = subprocess.run([*PYTHON, "-c", code], cwd=FOLDER, env=environment(),
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=3 * DEADLINE)
        output = done.stdout.decode("utf-8", "replace")
        self.assertEqual(0, done.returncode, output)
        return output

    def test_the_first_cut_can_be_extended_as_the_title_page_says(self) -> None:
        """With a method, a keyword and a hint."""
        page = CUTS[0].text.partition("Here\nare a method, a keyword and a hint:\n")[2]
        listing = textwrap.dedent(page[:page.index("\n\n\n")]).replace("mcp_core", "cut1")
        output = self.python(f"import cut1\n{listing}\n{EXTENDED}")
        responses = [json.loads(line) for line in output.splitlines()]
        self.assertEqual("hi", responses[0]["result"]["text"])
        self.assertEqual("1", suite.text_of(responses[1]["result"]))
        self.assertIn("at most 1 items", suite.text_of(responses[2]["result"]))

    def test_only_messages_are_written_to_the_stdout_of_a_cut(self) -> None:
        def check(cut: cuts.Cut) -> None:
            child = CutProcess(cut)
            self.addCleanup(child.close)
            response = child.ask(1, "tools/call", {
                "name": "noise", "arguments": {"text": "{}\n"}, "_meta": suite.modern_meta()})
            self.assertEqual("ok", suite.text_of(response["result"]))
            self.assertEqual(0, child.close())
            self.assertIsNone(child.take(0))

        self.each(check)

    def test_an_open_stream_ends_with_a_response_when_the_input_ends(self) -> None:
        """It does not hold up the end of the server. [2026-07-28 basic/patterns/subscriptions]"""
        def check(cut: cuts.Cut) -> None:
            child = CutProcess(cut, "empty")
            self.addCleanup(child.close)
            began = child.ask(1, "subscriptions/listen", {
                "notifications": {}, "_meta": suite.modern_meta()})
            self.assertEqual("notifications/subscriptions/acknowledged", began["method"])
            self.assertEqual(0, child.close())
            self.assertEqual("notifications/cancelled", child.answer()["method"])
            self.assertEqual("complete", child.answer()["result"]["resultType"])
            self.assertNotIn("no response", child.stderr())

        self.each(check)

    def test_each_cut_plays_the_transcripts_whose_features_it_has(self) -> None:
        """No cut plays fewer transcripts than the cut before, and the whole module plays all."""
        offers = [offers_of(cut) for cut in CUTS]
        for before, after in zip(offers, offers[1:]):
            self.assertLessEqual(before.tools, after.tools)
            self.assertLessEqual(before.resources, after.resources)
            self.assertLessEqual({*before.capabilities}, {*after.capabilities})
        played: list[set[str]] = []
        cases: list[Any] = []
        failures: list[Any] = []
        for cut, offered in zip(CUTS, offers):
            groups = [*playable(offered, offers[-1])]
            played.append({one.title for _, group in groups for one in group})
            if cut is not CUTS[-1]:  # test_mcp_ref.py plays them with the whole module
                cases += [(f"cut {cut.number}, {revision}", cut, revision, group, failures)
                          for revision, group in groups]
        print("transcripts that the cuts play:", *map(len, played), flush=True)
        self.beside(self.play_all, cases)
        if failures:
            self.fail("\n".join(f"{head}: {text}" for head, text in failures))
        self.assertGreaterEqual(len(played[0]), LEAST)
        for less, more in zip(played, played[1:]):
            self.assertEqual(set(), less - more)
        self.assertEqual({one.title for one in suite.TRANSCRIPTS if is_sent(one)}, played[-1])

    def play_all(self, cut: cuts.Cut, revision: str, group: Iterable[Transcript],
                 failures: list[Any]) -> None:
        """Play transcripts against one process. After a mismatch, go on with a new process."""
        child = None
        for one in group:
            if child is None:
                child = CutProcess(cut, one.server)
                self.addCleanup(child.close)
                talk = Play(one, revision, child, deadline=3 * DEADLINE)
            else:
                talk = Play(one, revision, child, deadline=3 * DEADLINE)
                talk.open = lambda: None  # type: ignore[method-assign]
            child.ids.next()
            try:
                talk.run()
            except suite.Mismatch as error:
                failures.append((f"the cut after part {cut.number}", str(error)))
                child.close()
                child = None
        if child is not None and child.close() != 0:
            failures.append((f"the cut after part {cut.number}", f"status in {revision}"))

    def test_a_part_adds_rows_and_changes_no_row_and_no_constant_of_an_earlier_part(self) -> None:
        for before, after in zip(CUTS, CUTS[1:]):
            self.assertEqual("", self.python(CHANGES.format(before.module, after.module)))

    @unittest.skipIf(layers is None, "there is no symtable here")
    def test_the_parts_only_add(self) -> None:
        self.assertEqual([], layers.faults_of(CUTS))


SMALL = '''"""A title page."""
from __future__ import annotations

import json

# ====
# Part 1: A server
# ====

LIMIT = 5


def read(text: str, later: str = "") -> {hint}:
    size = len(text)  # not the function of part 2
    return {value}


class Server:
    kind = "small"

    def run(self) -> None:
        pass

    def size(self) -> int:
        return 1


# ====
# Part 2: More
# ====

import time


def size(text: str) -> int:
    return LIMIT


class BigServer(Server):
    {member}

{statement}
'''


def small(hint: str = "int", value: str = "size", member: str = "own = 1", statement: str = ""
          ) -> str:
    return SMALL.format(hint=hint, value=value, member=member, statement=statement)


@unittest.skipIf(layers is None, "there is no symtable here")
class TestTools(unittest.TestCase):
    """The tools find the parts of a module, and what is wrong with them."""

    def faults(self, allowed: Any = {}, **fault: str) -> list[str]:
        """Return what the layer check finds in the small module with one fault."""
        return layers.faults_of(cuts.cuts_of(small(**fault)), allowed)

    def test_the_layer_check_accepts_a_part_that_only_adds(self) -> None:
        """A local name may equal a name of a later part. A module may be imported twice."""
        for member in ("own = 1", "def start(self) -> None: ..."):
            for statement in ("", "import json", "EXTRA = LIMIT", "BigServer.more = 5"):
                self.assertEqual([], self.faults(member=member, statement=statement))
        self.assertEqual([], self.faults({("BigServer", "Server"): {"run"}},
                                         member="def run(self) -> None: ..."))

    def test_the_layer_check_finds_each_use_of_a_later_name(self) -> None:
        for fault in (
                {"value": "BigServer().own"}, {"value": "[size for one in text][0](BigServer)"},
                {"value": "(lambda: BigServer)()"}, {"value": "time.time()"},
                {"hint": "BigServer"}, {"hint": "list[BigServer | None]"}):
            with self.subTest(**fault):
                found, = self.faults(**fault)
                self.assertRegex(found, "the cut after part 1 uses (BigServer|time),")

    def test_the_layer_check_finds_each_replacement(self) -> None:
        for fault, words in (
                ({"statement": "LIMIT = 6"}, "assigns LIMIT of part 1 again"),
                ({"statement": "def read() -> None: ..."}, "assigns read of part 1 again"),
                ({"statement": "Server.kind = 'big'"}, "sets Server.kind of part 1"),
                ({"member": "kind = 'big'"}, "BigServer overrides Server.kind of part 1"),
                ({"member": "def run(self) -> None: ..."}, "BigServer overrides Server.run")):
            with self.subTest(**fault):
                found, = self.faults(**fault)
                self.assertIn(words, found)

    def test_the_layer_check_finds_a_row_of_its_table_that_is_not_needed(self) -> None:
        self.assertEqual(["ALLOWED: BigServer does not override Server.run"],
                         self.faults({("BigServer", "Server"): {"run"}}))

    def test_a_cut_is_what_sed_leaves_without_the_ruler(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "module.py")
            with open(path, "w", encoding="utf-8") as file:
                file.write(small())
            first, whole = cuts.read_cuts(path)
        self.assertEqual(small().split("# ====\n# Part 2")[0], first.text)
        self.assertEqual((1, "A server", small()), (first.number, first.title, whole.text))
        self.assertEqual(["Server", "BigServer"], [*map(cuts.server_class, (first, whole))])

    def test_a_module_whose_parts_sed_would_cut_elsewhere_is_refused(self) -> None:
        for line in ("# Part 3 is not here", "# Part 2: Twice", "# Part 4: Too early", "# Parts"):
            self.assertRaises(ValueError, cuts.read_parts, small(statement=line))
        self.assertEqual([], cuts.read_parts("# Part I: JSON-RPC\n"))


if __name__ == "__main__":
    unittest.main()
