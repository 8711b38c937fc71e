"""The judge of against.py is right about servers whose faults are known."""
from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import unittest
from typing import Optional

from against import Judge
from test_mcp_ref import (DEADLINE, HERE, LEGACY, PROCESS_ENV, PROCESS_FIXTURE, PYTHON, ProcessCase,
                          transcripts)

# A server that is right, and ways to break it.

JUDGE_RIGHT = r'''
import json, sys
def write(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
for line in sys.stdin:
    message = json.loads(line)
    method, id = message.get("method"), message.get("id")
    if id is None or method is None:
        continue
    if method == "initialize":
        write(id=id, result={"protocolVersion": "2025-11-25", "capabilities": {},
                             "serverInfo": {"name": "x", "version": "1"}})
    elif method == "ping":
        write(id=id, result={})
    else:
        write(id=id, error={"code": -32601, "message": "unknown"})
'''
JUDGE_RULES = transcripts(r'''
== A ping is answered  MUST
> {"jsonrpc":"2.0","id":7,"method":"ping"}
< {"jsonrpc":"2.0","id":7,"result":{}}
== A notification is not answered  MUST
> {"jsonrpc":"2.0","method":"notifications/other"}
== An unknown method is -32601  SHOULD raw
> {"jsonrpc":"2.0","id":"a","method":"other"}
< {"jsonrpc":"2.0","id":"a","error":{"code":-32601,"message":"..."}}
== A message is short  OURS
> {"jsonrpc":"2.0","id":1,"method":"other"}
< {"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"unknown"}}
''')
JUDGE_PING, JUDGE_LAST = "write(id=id, result={})", "else:\n        write(id"
JUDGE_BROKEN = [  # why, what is replaced (None: all), by what, what the report says, status
    ("it is right", "", "", "MUST: 3 ok", 0),
    ("it hangs at a ping", JUDGE_PING, "import time; time.sleep(99)", "it is silent", 1),
    ("it says more than it must", "result={}", "result={'more': 1}", "MUST: 3 ok", 0),
    ("it logs, and tells of changes", JUDGE_PING, "write(method='notifications/message', params="
     "{}); write(method='notifications/tools/list_changed'); " + JUDGE_PING, "MUST: 3 ok", 0),
    ("it pings", JUDGE_PING, "write(id=0, method='ping'); " + JUDGE_PING, "MUST: 3 ok", 0),
    ("it breaks a SHOULD", "-32601", "-32600", "SHOULD: 1 FAIL", 0),
    ("it words an error otherwise", '"unknown"', '"what?"', "OURS: 1 note", 0),
    ("a banner", "import json", "print('Welcome!')\nimport json", "b'Welcome!'", 1),
    ("it requests what is not offered", JUDGE_PING, "write(id=0, method='roots/list'); "
     + JUDGE_PING, "FAIL MUST   A ping is answered", 1),
    ("ids become strings", JUDGE_PING, "write(id=str(id), result={})", '^ id', 1),
    ("it answers notifications", "if id is None", "if id is None and write(id=0, result={})",
     "FAIL MUST   A notification is not answered", 1),
    ("it answers twice", JUDGE_PING, "write(id=id, result={}); " + JUDGE_PING, "FAIL MUST", 1),
    ("it is silent at times", JUDGE_PING, "id == 'ping' or id.endswith('x') or " + JUDGE_PING,
     "FAIL MUST   A ping", 1),
    ("it lists what it does not declare", JUDGE_LAST, "elif method == 'tools/list':\n        write("
     "id=id, result={'tools': [{'name': 'a'}]})\n    " + JUDGE_LAST, "FAIL MUST   What a se", 1),
    ("it dies of a ping", JUDGE_PING, "sys.exit(5)", "it ended with status 5", 1),
    ("it floods at a ping", JUDGE_PING, "while True: write(method='x')", "FAIL MUST", 1),
    ("it dies", None, "import sys; sys.exit(3)", "it ended with status 3", 2),
    ("it never answers", None, "import sys; [0 for line in sys.stdin]", "it is silent", 2),
    ("it does not read", None, "import time; time.sleep(99)", "it is silent", 2),
    ("it closes its stdout", None, "import os, time; os.close(1); time.sleep(99)", "closed its", 2),
    ("it floods", None, "while True: print('{}')", "not spoken", 2),
    ("it logs without end", None, "while 1: print('{\"method\":\"notifications/message\"}')",
     "not spoken", 2),
    ("a line has no end", None, "while True: print('x' * 65536, end='')", "without end", 2),
    ("it prints junk", None, "import sys\nfor line in sys.stdin: print('?', flush=True)",
     "it is silent", 2),
    ("it speaks another revision", '"2025-11-25"', '"1999-01-01"', "another revision", 2),
]


class TestAgainst(ProcessCase):
    """The judge of other servers is right about servers whose faults are known."""

    def test_broken_servers(self) -> None:
        """Each fault is reported, none is waited for, and what may be otherwise is none."""
        def check(old: Optional[str], new: str, said: str, status: int) -> None:
            code = new if old is None else JUDGE_RIGHT.replace(old, new, 1)
            silent = said in ("it is silent", "not spoken")  # then short waits are enough
            revisions = LEGACY[-2:] if status == 0 else LEGACY[-1:]  # it speaks the last
            judge = Judge([sys.executable, "-ISc", code], JUDGE_RULES, revisions,
                          (0.5 if silent and status == 2 else DEADLINE,
                           0.5 if silent else DEADLINE, 6 * DEADLINE))
            got = judge.run()
            report = "\n".join(judge.lines)
            self.assertEqual(got, status, report)
            self.assertIn(said, report)

        self.beside(check, JUDGE_BROKEN)

    def test_the_fixture_is_right(self) -> None:
        """The command line that README.md names judges our server by all that is applicable."""
        with open(os.path.join(HERE, "README.md"), encoding="utf-8") as file:
            script, against = re.findall(r"`python3 (\S+) (--against) -- COMMAND`", file.read())[0]
        this, serve = [*PYTHON, os.path.join(HERE, script)], PROCESS_FIXTURE
        for arguments, status, said in (
                (["--revision", "2025-11-25", "--", *serve], 0, r"(?m)^MUST: \d+ ok$"),
                (["--revision", "1999-01-01", "--", *serve], 2, "^usage"), ([], 2, "^usage"),
                (["--", "./no such command"], 2, "cannot be started")):
            with self.subTest(arguments=arguments[:2]):
                done = subprocess.run([*this, against, *arguments], stdout=subprocess.PIPE,
                                      cwd=tempfile.gettempdir(), env=PROCESS_ENV, timeout=60)
                self.assertEqual(done.returncode, status, done.stdout)
                self.assertRegex(done.stdout.decode(), said)

    def test_serve_serves_the_fixture(self) -> None:
        serve = [*PYTHON, "-c", "import test_mcp_ref as this; this.main(['--serve'])"]
        done = subprocess.run(serve, input=b'{"jsonrpc":"2.0","id":7,"method":"ping"}',
                              env=PROCESS_ENV, stdout=subprocess.PIPE, timeout=60)
        self.assertEqual(b'{"jsonrpc":"2.0","id":7,"result":{}}\n', done.stdout)


if __name__ == "__main__":
    unittest.main()
