"""`make interop`: our server under foreign clients, our client on foreign servers.

    python .ci/interop/run.py [PATTERN]      pairs by name, all by default

On pipes, over HTTP and behind the wiretap: the same steps (checks.py), with another way to connect.
Who plays is a table, peers.json. One line for each pair and step; the last line says `N passed, N
failed`, and the exit status is 1 when anything failed. Nothing is left running, however it ends.
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
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import applications  # noqa: E402
import installed  # noqa: E402
from checks import MODERN, Step, as_told, core, extended  # noqa: E402

TIME_FOR_A_PAIR = 240.0
START = 30.0  # seconds for a server to listen
GRACE = 10.0  # seconds for a server to leave
LOOPBACK = "127.0.0.1"
ENVIRONMENTS = ("sdk1", "sdk2", "fastmcp", "time")
NOISE = re.compile("(Fatal Python error|Exception in thread|Exception ignored|Exception occurred "
                   "during processing of request).*", re.DOTALL)


class Pair(NamedTuple):
    name: str
    client: dict[str, Any]
    server: dict[str, Any]
    profile: dict[str, Any]
    revision: str

    def steps(self) -> list[Step]:
        lacks = [*self.client.get("lacks", ()), *self.server.get("lacks", {}).get(self.revision, ())]
        steps = [*core(self.profile, self.revision, self.client.get("burst", 20)),
                 *extended(self.profile, self.revision)]
        return [step for step in steps if step.name not in lacks]


def pairs() -> Iterator[Pair]:
    """Yield foreign clients on our servers, and our clients on foreign servers."""
    text = (HERE / "peers.json").read_text()
    places = {name: installed.python(name) for name in ENVIRONMENTS}
    places.update(python=sys.executable, node=installed.node(), here=str(HERE),
                  root=str(installed.ROOT), node_folder=str(installed.NODE_FOLDER))
    for name, value in places.items():
        text = text.replace(f"{{{name}}}", value)
    peers = json.loads(text)
    for server_name, server in peers["servers"].items():
        profile = peers["profiles"][server["profile"]]
        profile = {**peers["profiles"].get(profile.get("like"), {}), **profile}
        for client_name, client in peers["clients"].items():
            modern = {client["revision"], server.get("revision", MODERN)} == {MODERN}
            revision = MODERN if modern else min(client["revision"], "2025-11-25")
            same = "revision" in server and client["revision"] != MODERN  # as "ours auto"
            if server.get("ours", False) is client.get("ours", False) or (
                    server.get("tapped") and not client.get("sdk") or client.get("ours") and same):
                continue
            if server_name not in client.get("servers", [server_name]) or (
                    client_name not in server.get("clients", [client_name])):
                continue
            yield Pair(f"{client_name} -> {server_name}", client, server, profile, revision)


def notes(folder: Path, word: str) -> dict[int, int]:
    """Return what the witness noted: the processes, with their status if it is "end"."""
    file = folder / "notes"
    lines = [line.split() for line in file.read_text().splitlines()] if file.exists() else []
    return {int(pid): int([*status, 0][0]) for noted, pid, *status in lines if noted == word}


def running(folder: Path) -> set[int]:
    return notes(folder, "start").keys() - notes(folder, "end").keys()


def said(file: Path) -> str:
    """Return the last words that are in a file."""
    return (file.read_text(errors="replace").strip().splitlines() or ["nothing"])[-1][-300:]


@contextlib.contextmanager
def started(command: list[str], folder: Path, **options: Any) -> Iterator[Any]:
    """Run a client or server; in the end kill whatever is still there of it."""
    process = subprocess.Popen(command, start_new_session=True, **options)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for pid in running(folder):  # in a session of their own, some of them
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def await_listening(server: Any, port: int) -> None:
    limit = time.monotonic() + START
    while time.monotonic() < limit and server.poll() is None:
        with contextlib.suppress(OSError):
            return socket.create_connection((LOOPBACK, port), GRACE).close()
        time.sleep(0.02)  # nobody announces that a port is open


def talk(pair: Pair, address: list[str], folder: Path, faults: dict[str, list[str]]) -> None:
    """Have the client do all steps, and close; collect what is wrong by step."""
    steps = pair.steps()
    told = [one for step in steps for one in as_told(step, pair.profile.get("form"))]
    with open(folder / "client", "wb") as stderr, started(
            [*pair.client["run"], *address], folder, stdin=subprocess.PIPE, stderr=stderr,
            stdout=subprocess.PIPE) as client:
        try:
            out = client.communicate(json.dumps(told).encode(), TIME_FOR_A_PAIR)[0]
        except subprocess.TimeoutExpired as error:
            out = error.stdout or b""
        status = "nothing" if client.poll() is None else client.poll()
    outcomes = []
    for line in out.splitlines():
        with contextlib.suppress(ValueError):  # a library may print to stdout
            outcomes += json.loads(line)
    for step in steps:
        wrong = faults.setdefault(step.name, [])
        for row in step.rows:
            outcome = outcomes.pop(0) if outcomes else {}
            try:
                fine = row.holds(outcome)
            except (KeyError, TypeError, ValueError, AttributeError):
                fine = False
            if not fine:
                wrong.append(f"{row.action} {row.arguments}: {outcome or 'no answer in time'}")
        if step.name == "connect" and wrong:
            break  # the rest would only say so again
    faults["close"] = [f"the client left with {status}: {said(folder / 'client')}"] if status else []


def judge_piped(pair: Pair, folder: Path, faults: dict[str, list[str]]) -> None:
    """The client starts the server, and closing stdin has to be enough."""
    witness = [sys.executable, str(HERE / "witness.py"), str(folder)]
    talk(pair, [*witness, *pair.server["run"]], folder, faults)
    ended, signalled = notes(folder, "end"), notes(folder, "signal")
    if not ended or running(folder):
        faults["close"].append(f"servers ended {ended}, still there {running(folder)}")
    if signalled and not pair.client.get("spares"):
        faults["close"].append("the end of stdin was not enough for the server")
    if any(status for pid, status in ended.items() if pid not in signalled):
        faults["close"].append(f"server statuses {ended}: {said(folder / 'stderr')}")


def judge_hosted(pair: Pair, folder: Path, faults: dict[str, list[str]]) -> None:
    """The judge starts the server, and ends it by SIGTERM."""
    with socket.create_server((LOOPBACK, 0)) as taken:
        port = taken.getsockname()[1]
    command = [part.replace("{port}", str(port)) for part in pair.server["run"]]
    with open(folder / "stderr", "wb") as output, started(
            command, folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output) as server:
        await_listening(server, port)
        talk(pair, [f"http://{LOOPBACK}:{port}/mcp"], folder, faults)
        server.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(GRACE)
        if server.poll() not in (-signal.SIGTERM, 128 + signal.SIGTERM):
            faults["close"].append(f"after SIGTERM the server left with {server.poll()}")


def judge(pair: Pair, folder: Path) -> dict[str, list[str]]:
    """Return for each step of a pair what is wrong."""
    (folder / "lines").write_text("".join(f"line {n}\n" for n in range(1, 100)))
    pair = pair._replace(**json.loads(json.dumps(
        {"server": pair.server, "profile": pair.profile}).replace("{folder}", str(folder))))
    faults: dict[str, list[str]] = {}
    (judge_hosted if pair.server.get("http") else judge_piped)(pair, folder, faults)
    ours = folder / ("stderr" if pair.server.get("ours") else "client")
    noise = NOISE.search(ours.read_text(errors="replace") if ours.exists() else "")
    faults["quiet"] = [noise[0]] if noise else []
    if pair.server.get("tapped"):
        entries = [json.loads(line) for line in (folder / "log").read_text().splitlines()]
        faults["wiretap"] = [flag for entry in entries for flag in entry["flags"]]
    return faults


def prepare() -> None:
    installed.begin("make interop", "four minutes", *ENVIRONMENTS, "node")
    for name in ENVIRONMENTS:
        installed.venv(name)
    installed.node_packages()
    for file in HERE.glob("*/*.mjs"):  # they stand beside what they import
        place = installed.NODE_FOLDER / file.parent.name
        place.mkdir(exist_ok=True)
        shutil.copy(file, place)


def main(pattern: str = "") -> int:
    prepare()
    passed = failed = 0
    for pair in pairs():
        if fnmatch.fnmatch(pair.name, f"*{pattern}*"):
            with tempfile.TemporaryDirectory(prefix="interop-") as folder:
                for step, wrong in judge(pair, Path(folder)).items():
                    words = "; ".join(wrong).replace("\n", " | ")[:500]
                    print(f"{pair.name}: {step}: {f'FAIL {words}' if wrong else 'ok'}", flush=True)
                    passed, failed = passed + (not wrong), failed + bool(wrong)
    for name, step, outcome in applications.outcomes(pattern):
        print(f"{name}: {step}: {outcome}", flush=True)
        passed, failed = passed + (outcome == "ok"), failed + outcome.startswith("FAIL")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
