"""`make interop`: our server with clients of others, and our client with servers of others.

    python .ci/interop/run.py [PATTERN]      only the pairs whose name matches

peers.json lists the clients and servers. The checks are in checks.py. A pair talks over pipes or
over HTTP. Each check of each pair prints one line. The last line is `N passed, N failed`, and the
exit status is 1 if anything failed. No process is left running.
"""
from __future__ import annotations

import contextlib
import fnmatch
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import applications  # noqa: E402
import installed  # noqa: E402
from checks import CHECKS, MODERN, Ended, Talk  # noqa: E402
from installed import started  # noqa: E402

ENVIRONMENTS = ("sdk1", "sdk2", "time")
START = 30.0  # seconds for a server to listen
GRACE = 10.0  # seconds for a client or server to leave
LOOPBACK = "127.0.0.1"
NOISE = re.compile("(Fatal Python error|Exception in thread|Exception ignored|Exception occurred "
                   "during processing of request).*", re.DOTALL)


def peers(folder: str, port: int) -> Any:
    """Read peers.json, and fill in the places that are in braces."""
    places = {name: installed.python(name) for name in ENVIRONMENTS}
    places.update(python=sys.executable, node=installed.node(), here=str(HERE), folder=folder,
                  root=str(installed.ROOT), node_folder=str(installed.NODE_FOLDER), port=str(port))
    text = (HERE / "peers.json").read_text()
    for name, value in places.items():
        text = text.replace(f"{{{name}}}", value)
    return json.loads(text)


def contents(file: Path) -> str:
    return file.read_text(errors="replace").strip() if file.exists() else ""


def await_listening(server: Any, port: int) -> None:
    limit = time.monotonic() + START
    while time.monotonic() < limit and server.poll() is None:
        with contextlib.suppress(OSError):
            return socket.create_connection((LOOPBACK, port), GRACE).close()
        time.sleep(0.02)  # no server says when its port is open


class Pair:
    """A client and a server, and what is wrong with their conversation."""

    def __init__(self, client_name: str, server_name: str, folder: Path) -> None:
        self.folder = folder
        with socket.create_server((LOOPBACK, 0)) as listener:
            self.port = listener.getsockname()[1]  # is free
        (folder / "lines").write_text("".join(f"line {n}\n" for n in range(1, 100)))
        table = peers(str(folder), self.port)
        self.client = table["clients"][client_name]
        self.server = table["servers"][server_name]
        profile = table["profiles"][self.server["profile"]]
        self.profile = {"connect": {}, "tools": 1,
                        **table["profiles"].get(profile.get("like"), {}), **profile}
        self.revision = min(self.client["revision"], self.server.get("revision", MODERN))
        self.over_http = server_name.endswith("over HTTP")
        self.ours_is_client = client_name.startswith("ours")
        self.faults: dict[str, str] = {}  # check: what is wrong, or ""

    def judge(self) -> dict[str, str]:
        """Run all checks, and return the faults."""
        self.faults["close"] = self.talk_over_http() if self.over_http else self.talk_over_pipes()
        ours = self.folder / ("client" if self.ours_is_client else "stderr")
        noise = NOISE.search(contents(ours))
        self.faults["quiet"] = noise[0] if noise else ""
        log = contents(self.folder / "log")
        if log:
            flags = [flag for line in log.splitlines() for flag in json.loads(line)["flags"]]
            self.faults["wiretap"] = "; ".join(flags)
        return self.faults

    def talk(self, address: list[str]) -> str:
        """Do all checks. Return what is wrong with the end of the client."""
        with open(self.folder / "client", "wb") as stderr, started(
                [*self.client["run"], *address], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=stderr) as client:
            talk = Talk(client, self.profile, self.revision, strict=not self.ours_is_client)
            lacks = [*self.client.get("lacks", ()),
                     *self.server.get("lacks", {}).get(self.revision, ())]
            for name, check in CHECKS.items():
                if name in self.profile and name not in lacks:
                    self.faults[name] = ""
                    try:
                        check(talk, self.profile[name])
                    except Exception as error:
                        self.faults[name] = repr(error)
                        if name == "connect" or isinstance(error, Ended):
                            break  # the other checks would only repeat this fault
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                client.stdin.close()
                client.wait(GRACE)
            words = contents(self.folder / "client")[-300:]
            return f"the client left with {client.poll()}: {words}" if client.poll() != 0 else ""

    def talk_over_pipes(self) -> str:
        """The client starts the server, and the end of stdin has to be enough to end it."""
        witness = [sys.executable, str(HERE / "witness.py"), str(self.folder)]
        wrong = self.talk([*witness, *self.server["run"]])
        servers = {int(note.stem): note.read_text().split()
                   for note in self.folder.glob("*.server")}
        for pid, end in servers.items():
            if not end:  # a server may be in a session of its own
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        if wrong:
            return wrong
        if not servers or not all(servers.values()):
            return f"no server was started, or one has not ended: {servers}"
        for status, *signalled in servers.values():
            if signalled and not self.client.get("spares"):
                return "the end of stdin was not enough for the server"
            if not signalled and status != "0":
                return f"the server left with {status}: {contents(self.folder / 'stderr')[-300:]}"
        return ""

    def talk_over_http(self) -> str:
        """The judge starts the server, and ends it by SIGTERM."""
        with open(self.folder / "stderr", "wb") as output, started(
                self.server["run"], stdin=subprocess.DEVNULL, stdout=output,
                stderr=output) as server:
            await_listening(server, self.port)
            wrong = self.talk([f"http://{LOOPBACK}:{self.port}/mcp"])
            server.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                server.wait(GRACE)
            if not wrong and server.poll() not in (-signal.SIGTERM, 128 + signal.SIGTERM):
                wrong = f"after SIGTERM the server left with {server.poll()}"
        return wrong


def outcomes(pattern: str) -> Iterator[tuple[str, str]]:
    """Judge all pairs; yield (pair and check, fault)."""
    table = peers("", 0)
    for server, row in table["servers"].items():
        for client in table["clients"]:
            pair = f"{client} -> {server}"
            if fnmatch.fnmatch(pair, f"*{pattern}*") and any(
                    fnmatch.fnmatch(client, wanted) for wanted in row["clients"]):
                with tempfile.TemporaryDirectory(prefix="interop-") as folder:
                    for check, fault in Pair(client, server, Path(folder)).judge().items():
                        yield f"{pair}: {check}", fault
    yield from applications.outcomes(pattern)


def main(pattern: str = "") -> int:
    installed.begin("make interop", "four minutes", *ENVIRONMENTS, "node")
    for file in HERE.glob("*/*.mjs"):  # Node finds packages beside the file that imports them
        place = installed.NODE_FOLDER / file.parent.name
        place.mkdir(exist_ok=True)
        shutil.copy(file, place)
    return installed.report(outcomes(pattern))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
