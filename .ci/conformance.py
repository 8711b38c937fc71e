"""`make conformance`: the official suite against our HTTP server and our HTTP client.

Every scenario of the revisions below, in the stable release of the suite and in the newest one,
except authorization and extensions, which the suite does not list by revision. One line for each
scenario, then totals; the exit status is 1 when anything failed. A warning counts as a failure:
nothing is expected to fail. The releases are pinned in interop/package.json.

As `conformance.py URL` this is the client that the suite runs. MCP_CONFORMANCE_SCENARIO says which
conversation is to be led, MCP_CONFORMANCE_PROTOCOL_VERSION in which revision, and
MCP_CONFORMANCE_CONTEXT with what.
"""
from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import installed

HTTP = installed.ROOT / "examples" / "http"
sys.path[:0] = [str(installed.ROOT), str(HTTP)]

from http_client import HttpTransport  # noqa: E402

from mcp_ref import Client  # noqa: E402

RELEASES = ("conformance-stable", "conformance-newest")
REVISIONS = ("2025-06-18", "2025-11-25", "2026-07-28")
LONGEST = 300.0  # seconds that all scenarios of a revision may take
CLIENT = f"exec {sys.executable} {Path(__file__).resolve()}"
VERSION = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION", "2025-11-25")
CONTEXT = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
CALLS: dict[str, dict[str, dict[str, Any]]] = {  # scenario: the tools to call, with arguments
    "tools_call": {"add_numbers": {"a": 5, "b": 3}},
    "elicitation-sep1034-client-defaults": {"test_client_elicitation_defaults": {}},
    "sse-retry": {"test_reconnection": {}},
    "sep-2322-client-request-state": {
        f"test_mrtr_{name}": {} for name in ("echo_state", "unrelated", "no_state",
                                             "no_result_type")},
}


def accept(params: dict[str, Any]) -> dict[str, Any]:
    """Accept a form as it is; what must be there and has no default is a yes."""
    schema = params["requestedSchema"]
    missing = [name for name in schema.get("required", schema["properties"])
               if "default" not in schema["properties"][name]]
    return {"action": "accept", "content": dict.fromkeys(missing, True)}


def converse(client: Client, scenario: str) -> None:
    """Lead the conversation of a client; each begins with the list of tools."""
    tools = {tool["name"]: tool for tool in client.list_tools()}
    calls = list(CALLS.get(scenario, {}).items())
    calls += [(call["name"], call["arguments"]) for call in CONTEXT.get("toolCalls", ())]
    if scenario in ("http-invalid-tool-headers", "http-standard-headers"):
        calls += [(name, {}) for name in tools]
    if scenario == "json-schema-2020-12-preservation":
        schema = tools["json_schema_2020_12_tool"]["inputSchema"]
        calls.append(("json_schema_echo", {"schema": schema}))
    for name, arguments in calls:
        client.call_tool(name, arguments)
    if scenario == "http-standard-headers":
        for resource in client.list_resources():
            client.read_resource(resource["uri"])
        for prompt in client.list_prompts():
            client.get_prompt(prompt["name"])


def run(release: str, *arguments: str) -> str:
    """Run the suite and return what it prints; what hangs is killed as a whole."""
    suite = str(installed.NODE_FOLDER / "node_modules" / release / "dist/index.js")
    with installed.started([installed.node(), suite, *arguments], text=True,
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT) as process:
        try:
            return str(process.communicate(timeout=LONGEST)[0])
        except subprocess.TimeoutExpired:
            return f"not done after {LONGEST} s"


def faults(folder: Path) -> Iterator[str]:
    """Read the results of a scenario; yield what is wrong."""
    words = folder / "stderr.txt"
    if words.exists() and "Traceback" in words.read_text():
        yield words.read_text()[-300:]
    checks: list[Any] = json.loads((folder / "checks.json").read_text())
    if not any(check["status"] == "SUCCESS" for check in checks):
        yield "nothing was checked"
    for check in checks:
        if check["status"] in ("FAILURE", "WARNING"):
            yield f"{check['id']}: {check['status']} {check.get('errorMessage', '')}"


def outcomes(url: str) -> Iterator[tuple[str, str]]:
    """Run all scenarios. Yield the name of each, and what is wrong."""
    for release in RELEASES:
        for revision in REVISIONS:
            for side, target in (("server", ("--url", url)), ("client", ("--command", CLIENT))):
                listed = run(release, "list", f"--{side}", "--spec-version", revision)
                names = re.findall(rf"^  - (?!auth/)(\S+) .*\b{revision}\b", listed, re.M)
                if not names:
                    continue  # this release does not know the revision
                with tempfile.TemporaryDirectory(prefix="conformance-") as folder:
                    said = run(release, side, *target, "--suite", "all", "--spec-version", revision,
                               "-o", folder)
                    for name in names:
                        results = [*Path(folder).glob(f"{name}-2*"),
                                   *Path(folder).glob(f"server-{name}-2*")]
                        wrong = list(faults(results[0])) if results else [said[-300:]]
                        yield f"{release} {revision} {side} {name}", "; ".join(wrong)


def main() -> int:
    installed.begin("make conformance", "half a minute", "node")
    command = [sys.executable, str(HTTP / "http_server.py"), "--port", "0",
               str(installed.CI / "everything.py")]
    with installed.started(command, text=True, stdout=subprocess.PIPE,
                           stderr=subprocess.DEVNULL) as server:
        return installed.report(outcomes(server.stdout.readline().split()[-1]))


if __name__ == "__main__":
    if sys.argv[1:]:
        with Client(HttpTransport(sys.argv[1]), protocol_version=VERSION, timeout=20.0,
                    on_elicit=accept) as one:
            converse(one, os.environ["MCP_CONFORMANCE_SCENARIO"])
    else:
        sys.exit(main())
