"""The client of step 3. It starts a server, lists its tools or calls one, and ends it.

    python3 3_client.py -- python3 3_calls.py
    python3 3_client.py add '{"a":1,"b":2}' -- python3 3_calls.py

Add --lines before the tool to see each line of the wire. README.md explains this step.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from typing import Any, Dict, Iterator, List

Json = Dict[str, Any]

LEGACY = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
CLIENT_INFO = {"name": "steps", "version": "1.0"}
SECONDS_TO_END = 2.0


class ServerError(Exception):
    """The server has sent an error, or something that is not MCP, or it has ended."""


class Client:
    """A connection to a server that runs in another process."""

    def __init__(self, command: List[str], shows_lines: bool = False) -> None:
        self.shows_lines = shows_lines
        self.next_id = 1
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)

    def write(self, message: Json) -> None:
        assert self.process.stdin
        line = json.dumps({"jsonrpc": "2.0", **message})
        self.show(">", line)
        self.process.stdin.write(line.encode("ascii") + b"\n")
        self.process.stdin.flush()

    def messages(self) -> Iterator[Json]:
        """Yield each message of the server, and skip what is not a message."""
        assert self.process.stdout
        for line in self.process.stdout:
            self.show("<", line.decode("utf-8", "replace").rstrip())
            try:
                message = json.loads(line)
            except (ValueError, RecursionError):
                message = None
            if type(message) is dict:
                yield message
            else:  # many servers print to stdout by mistake
                print(f"not a message: {line[:80]!r}", file=sys.stderr)

    def show(self, mark: str, line: str) -> None:
        if self.shows_lines:
            print(mark, line, file=sys.stderr)

    def request(self, method: str, params: Json) -> Json:
        """Send a request, and return its result."""
        request_id = self.next_id
        self.next_id += 1
        self.write({"id": request_id, "method": method, "params": params})
        for message in self.messages():
            if "method" in message:
                self.answer(message)
            elif message.get("id") == request_id:
                return self.result_of(message)
        raise ServerError(f"the server has ended before it answered {method}")

    def result_of(self, response: Json) -> Json:
        error = response.get("error")
        if type(error) is dict:
            raise ServerError(f"{error.get('message')} ({error.get('code')})")
        result = response.get("result")
        if type(result) is not dict:
            raise ServerError(f"a response without a result: {response}")
        return result

    def answer(self, message: Json) -> None:
        """Answer a request of the server. This client offers nothing but ping."""
        if message["method"] == "ping":
            self.write({"id": message.get("id"), "result": {}})
        elif "id" in message:
            error = {"code": -32601, "message": "not offered"}
            self.write({"id": message["id"], "error": error})

    def open(self) -> Json:
        """Agree on a revision. Return the result of initialize."""
        result = self.request("initialize", {
            "protocolVersion": LEGACY[-1], "capabilities": {},
            "clientInfo": CLIENT_INFO})
        if result.get("protocolVersion") not in LEGACY:
            raise ServerError(f"no common revision: {result.get('protocolVersion')}")
        self.write({"method": "notifications/initialized"})
        return result

    def tools(self) -> Iterator[Json]:
        """Yield the definition of each tool. A long list comes in several pages."""
        params: Json = {}
        while True:
            page = self.request("tools/list", params)
            yield from page["tools"]
            if page.get("nextCursor") in (None, params.get("cursor")):
                return
            params = {"cursor": page["nextCursor"]}

    def close(self) -> None:
        """End the server: close its stdin, and kill it if that does not help."""
        assert self.process.stdin and self.process.stdout
        try:
            self.process.stdin.close()
        except OSError:
            pass  # the server has ended, so a line could not be written
        try:
            self.process.wait(SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


def run(client: Client, tool: str, arguments: Json) -> int:
    """Call a tool, or list all tools. Return the exit status."""
    print("revision", client.open()["protocolVersion"], flush=True)
    if not tool:
        for one in client.tools():
            print(f"{one['name']}: {one.get('description')}")
        return 0
    result = client.request("tools/call", {"name": tool, "arguments": arguments})
    for block in result["content"]:
        print(block.get("text", block))
    return 1 if result.get("isError") else 0


def main() -> int:
    cut = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    parser = argparse.ArgumentParser(
        usage="3_client.py [--lines] [TOOL [ARGUMENTS]] -- COMMAND...")
    parser.add_argument("--lines", action="store_true")
    parser.add_argument("tool", nargs="?", default="")
    parser.add_argument("arguments", nargs="?", type=json.loads, default={})
    options = parser.parse_args(sys.argv[1:cut])
    command = sys.argv[cut + 1:]
    if not command:
        parser.error("the command of the server is missing")
    try:
        client = Client(command, options.lines)
    except OSError as error:
        print(f"cannot start {command[0]}: {error.strerror}", file=sys.stderr)
        return 1
    try:
        return run(client, options.tool, options.arguments)
    except KeyboardInterrupt:
        return 130
    except (ServerError, OSError) as error:
        print(error, file=sys.stderr)
    except (LookupError, AttributeError, TypeError) as error:
        print(f"a result of the server lacks something: {error!r}", file=sys.stderr)
    finally:
        client.close()
    return 1


if __name__ == "__main__":
    sys.exit(main())
