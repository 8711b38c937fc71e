"""Test that against.py gives the right verdict on servers with known faults."""
from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
import tempfile
import textwrap
import unittest
from typing import Any, Iterator

import against
from test_mcp_ref import (DEADLINE, HERE, LEGACY, PROCESS_ENV, PROCESS_FIXTURE, PYTHON, ProcessCase,
                          transcripts)

JUDGE_RULES = transcripts(r'''
== A ping is answered  MUST
> {"jsonrpc":"2.0","id":7,"method":"ping"}
< {"jsonrpc":"2.0","id":7,"result":{}}
== A notification is not answered  MUST
> {"jsonrpc":"2.0","method":"notifications/other"}
== An unknown method gets the error -32601  SHOULD raw
> {"jsonrpc":"2.0","id":"a","method":"other"}
< {"jsonrpc":"2.0","id":"a","error":{"code":-32601,"message":"..."}}
== The message of an error is one word  OURS
> {"jsonrpc":"2.0","id":1,"method":"other"}
< {"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"unknown"}}
''')


def judge_servers() -> Iterator[Any]:
    """Yield (title, program, status, words of the report) for each row of against.txt."""
    with open(os.path.join(HERE, ".ci", "against.txt"), encoding="utf-8") as file:
        rows = file.read().split("\n== ")[1:]
    right = ""
    for row in rows:
        title, *body, told = row.strip("\n").split("\n")
        program, (status, _, said) = textwrap.dedent("\n".join(body)), told.partition(" ")
        if program.startswith("- "):
            old, new = program[2:].replace("\n  ", "\n").split("\n+ ")
            assert old.replace("PING", "write(id=id, result={})") in right, title
            program = right.replace(*(one.replace("PING", "write(id=id, result={})")
                                      for one in (old, new)), 1)
        right = right or program
        yield title, program, int(status), said


class TestAgainst(ProcessCase):
    """The judge gives the right verdict on servers with known faults."""

    def test_each_server_of_against_txt_gets_its_verdict_in_time(self) -> None:
        """A server whose behaviour is unusual but allowed has no fault."""
        def check(program: str, status: int, said: str) -> None:
            silent = said in ("it is silent", "not spoken")  # short waits are enough for these
            revisions = LEGACY[-2:] if status == 0 else LEGACY[-1:]  # the server speaks the last
            judge = against.Judge([sys.executable, "-ISc", program], JUDGE_RULES, revisions,
                                  (0.5 if silent and status == 2 else DEADLINE,
                                   0.5 if silent else DEADLINE, 6 * DEADLINE))
            got = judge.run()
            report = "\n".join(judge.lines)
            self.assertEqual(got, status, report)
            self.assertIn(said, report)

        self.beside(check, judge_servers())

    def test_the_fixture_has_no_fault(self) -> None:
        """The command line of README.md judges our server by all rules that apply to it."""
        with open(os.path.join(HERE, "README.md"), encoding="utf-8") as file:
            script, option = re.findall(r"`python3 (\S+) (--against) -- COMMAND`", file.read())[0]
        for arguments, status, said in (
                (["--revision", "2025-11-25", "--", *PROCESS_FIXTURE], 0, r"(?m)^MUST: \d+ ok$"),
                (["--", "./no such command"], 2, "cannot be started")):
            done = subprocess.run([*PYTHON, os.path.join(HERE, script), option, *arguments],
                                  stdout=subprocess.PIPE, cwd=tempfile.gettempdir(),
                                  env=PROCESS_ENV, timeout=60)
            self.assertEqual(done.returncode, status, done.stdout)
            self.assertRegex(done.stdout.decode(), said)

    def test_an_invalid_command_line_gets_the_usage(self) -> None:
        for arguments in ["--revision", "1999-01-01", "--", "true"], []:
            with contextlib.redirect_stdout(io.StringIO()) as out:
                self.assertEqual(2, against.main(arguments))
            self.assertRegex(out.getvalue(), "^usage")

    def test_the_option_serve_runs_the_fixture(self) -> None:
        serve = [*PYTHON, "-c", "import test_mcp_ref as this; this.main(['--serve'])"]
        done = subprocess.run(serve, input=b'{"jsonrpc":"2.0","id":7,"method":"ping"}',
                              env=PROCESS_ENV, stdout=subprocess.PIPE, timeout=60)
        self.assertEqual(b'{"jsonrpc":"2.0","id":7,"result":{}}\n', done.stdout)


if __name__ == "__main__":
    unittest.main()
