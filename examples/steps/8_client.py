"""Step 8: a client. It starts a server, speaks both eras, and ends the server.

New in this step: the other side of the wire. The client numbers its requests. One
thread reads all lines of the server, and gives each response to the request that waits
for it. A response that does not come in time raises TimeoutError.

New: finding out the era. The client first sends the modern `server/discover`. A legacy
server responds with an error, or does not respond. Then the client sends `initialize`.

New: questions to the user. A legacy server sends a request while the call is running. A
modern server ends the call with the question, and the client makes the call again with
the answer. In both cases, the same function asks the user.

New: ending the server. The client closes the server's stdin. If the server does not end
soon, the client sends SIGTERM, and at last SIGKILL.

Before this step, you had to write the lines of the client yourself. To answer a
question, you had to know its id. Now the client does that:

    python3 8_client.py add '{"a":1,"b":2}' -- python3 7_modern.py
    # -> 2026-07-28
    # -> 3
    python3 8_client.py count '{"to":2}' -- python3 5_side_by_side.py
    # -> 2025-11-25
    # -> 1 of 2: step 1
    # -> 2 of 2: step 2
    # -> counted to 2
    echo Ada | python3 8_client.py ask '{"text":"Who are you?"}' -- python3 6_asking.py
    # -> 2025-11-25
    # -> Who are you?
    # -> name:
    # -> accept Ada

The client also works with servers that other people wrote, and with the bare loop:

    python3 8_client.py add '{"a":1,"b":2}' -- python3 ../00_bare_loop.py
    # -> 2025-11-25
    # -> 3

Try: leave out the tool and its arguments, to see the list of tools. Call `add` of
noisy_3.py, which you have made in step 4. Show each line of the wire on stderr. Send a
cancellation when the user presses Ctrl-C. Ctrl-C also ends the server, unless Popen
gets start_new_session=True.
"""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
import traceback
from typing import Any, Callable, Dict, List, NamedTuple, Optional

Json = Dict[str, Any]

LEGACY = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
MODERN = "2026-07-28"
META = "io.modelcontextprotocol/"
CLIENT_INFO = {"name": "steps", "version": "1.0"}
CAPABILITIES: Json = {"elicitation": {}}
METHOD_NOT_FOUND = -32601
INTERNAL_ERROR = -32603
UNSUPPORTED_VERSION = -32022
PROBE_SECONDS = 3.0  # some legacy servers do not answer server/discover at all
MOST_ROUNDS = 20  # of questions in one call, so that no server asks without end


class RpcError(Exception):
    """The error response of a server."""

    def __init__(self, error: Json) -> None:
        super().__init__(f"{error.get('message')} ({error.get('code')})")
        self.code = error.get("code")


class Pending(NamedTuple):
    """A request that has no response yet."""
    responses: queue.SimpleQueue[Json]  # gets one
    on_progress: Optional[Callable[[Json], None]]


class Client:
    """A connection to a server that runs in another process."""

    def __init__(self, command: List[str], on_question: Callable[[Json], Json],
                 timeout: float = 30.0) -> None:
        self.on_question = on_question  # gets the params of elicitation/create
        self.timeout = timeout  # seconds that the server may take for a response
        self.revision: Optional[str] = None
        self.lock = threading.Lock()  # guards the next four
        self.next_id = 1
        self.pending: Dict[int, Pending] = {}  # by the ids of the requests
        self.open_questions = 0  # how many questions the user has not answered yet
        self.has_ended = False  # the server has closed its stdout
        # Writing blocks while the server does not read. Some servers do not read until
        # the client has read their lines. So the thread that reads must not wait for
        # this lock.
        self.write_lock = threading.Lock()
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    # Lines from the server, on a thread.

    def read(self) -> None:
        """Take each line of the server until it closes its stdout."""
        assert self.process.stdout
        for line in self.process.stdout:
            try:
                self.receive(json.loads(line))
            except (ValueError, TypeError, LookupError, AttributeError,
                    RecursionError) as error:
                # Many servers print to stdout by mistake. Their other lines may be
                # right, so the client goes on.
                print(f"not a message: {line[:80]!r} ({error!r})", file=sys.stderr)
        with self.lock:
            self.has_ended = True
            for pending in self.pending.values():
                pending.responses.put({"error": {"message": "the server has ended"}})

    def receive(self, message: Json) -> None:
        """Take one message. Raise an exception if it has a wrong shape."""
        if message.get("method") == "notifications/progress":
            pending = self.find_pending(message["params"]["progressToken"])
            if pending is not None and pending.on_progress is not None:
                pending.on_progress(message["params"])
        elif "method" in message and "id" in message:
            if self.revision == MODERN:
                raise ValueError("a modern server must not send requests")
            # The user may take long, and responses to other requests must not wait.
            threading.Thread(target=self.answer, args=(message,), daemon=True).start()
        elif "method" not in message:
            kind = "error" if "error" in message else "result"
            if type(message.get(kind)) is not dict:
                raise ValueError(f"the {kind} has to be an object")
            pending = self.find_pending(message["id"])
            if pending is not None:
                pending.responses.put(message)

    def find_pending(self, request_id: Any) -> Optional[Pending]:
        """Return the request with this id, or None if the client has given it up."""
        if type(request_id) is not int:  # True and 1.0 would find the request 1
            return None
        with self.lock:
            return self.pending.get(request_id)

    def answer(self, request: Json) -> None:
        """Answer a request of a legacy server."""
        response: Json = {"jsonrpc": "2.0", "id": request["id"]}
        try:
            if request["method"] == "ping":
                response["result"] = {}
            elif request["method"] == "elicitation/create":
                response["result"] = self.answer_question(request["params"])
            else:
                response["error"] = {"code": METHOD_NOT_FOUND, "message": "not offered"}
        except Exception:  # the question may have a wrong shape
            traceback.print_exc()
            response["error"] = {"code": INTERNAL_ERROR, "message": "internal error"}
        try:
            self.write(response)
        except OSError:
            pass  # the server has ended

    def answer_question(self, params: Json) -> Json:
        with self.lock:
            self.open_questions += 1
        try:
            return self.on_question(params)
        finally:
            with self.lock:
                self.open_questions -= 1

    # Lines to the server.

    def write(self, message: Json) -> None:
        assert self.process.stdin
        with self.write_lock:
            self.process.stdin.write(json.dumps(message).encode("ascii") + b"\n")
            self.process.stdin.flush()

    def notify(self, method: str, params: Json) -> None:
        self.write({"jsonrpc": "2.0", "method": method, "params": params})

    def make_meta(self) -> Json:
        """Return what each request of a modern client says about itself."""
        if self.revision != MODERN:
            return {}
        return {META + "protocolVersion": MODERN, META + "clientInfo": CLIENT_INFO,
                META + "clientCapabilities": CAPABILITIES}

    def request(self, method: str, params: Json,
                on_progress: Optional[Callable[[Json], None]] = None) -> Json:
        """Send a request, and return its result. Raise RpcError for an error."""
        pending = Pending(queue.SimpleQueue(), on_progress)
        with self.lock:
            if self.has_ended:
                raise ConnectionError("the server has ended")
            request_id = self.next_id
            self.next_id += 1
            self.pending[request_id] = pending
        meta = self.make_meta()
        if on_progress is not None:
            meta["progressToken"] = request_id
        if meta:
            params = {**params, "_meta": meta}
        try:
            self.write({"jsonrpc": "2.0", "id": request_id, "method": method,
                        "params": params})
            response = self.wait(method, request_id, pending)
        finally:
            with self.lock:
                del self.pending[request_id]
        if "error" in response:
            raise RpcError(response["error"])
        result: Json = response["result"]
        return result

    def wait(self, method: str, request_id: int, pending: Pending) -> Json:
        """Return the response to a request. Raise TimeoutError if it takes too long."""
        is_opening = method in ("server/discover", "initialize")
        seconds = self.timeout
        if method == "server/discover":
            seconds = min(seconds, PROBE_SECONDS)
        while True:
            try:
                return pending.responses.get(timeout=seconds)
            except queue.Empty:
                with self.lock:
                    user_takes_long = self.open_questions > 0
            if not user_takes_long:
                break
        if not is_opening:  # initialize must not be cancelled
            self.notify("notifications/cancelled", {"requestId": request_id})
        raise TimeoutError(f"no response to {method} in {seconds} seconds")

    # MCP.

    def find_modern(self) -> bool:
        """Tell whether the server speaks the modern revision."""
        self.revision = MODERN
        try:
            found = self.request("server/discover", {})
        except TimeoutError:
            return False
        except RpcError as error:
            if error.code == UNSUPPORTED_VERSION:
                raise  # it is modern, but does not speak the revision of this client
            return False
        return MODERN in found.get("supportedVersions", [])

    def open(self) -> None:
        """Find out the era of the server, and agree on a revision."""
        if self.find_modern():
            return
        self.revision = None
        result = self.request("initialize", {
            "protocolVersion": LEGACY[-1], "capabilities": CAPABILITIES,
            "clientInfo": CLIENT_INFO})
        self.revision = result.get("protocolVersion")
        if self.revision not in LEGACY:
            raise ValueError(f"this client does not speak {self.revision}")
        self.notify("notifications/initialized", {})

    def call_tool(self, name: str, arguments: Json,
                  on_progress: Callable[[Json], None]) -> Json:
        """Call a tool. A modern server may ask some questions first."""
        params: Json = {"name": name, "arguments": arguments}
        for _ in range(MOST_ROUNDS):
            result = self.request("tools/call", params, on_progress)
            kind = result.get("resultType", "complete")  # legacy results have no type
            if kind == "complete":
                return result
            if kind != "input_required":
                raise ValueError(f"the result has the unknown type {kind!r}")
            params = {"name": name, "arguments": arguments, "inputResponses": {}}
            if "requestState" in result:  # the client must not look into it
                params["requestState"] = result["requestState"]
            for key, question in result.get("inputRequests", {}).items():
                if question["method"] != "elicitation/create":
                    raise ValueError(f"{question['method']} was not offered")
                params["inputResponses"][key] = self.answer_question(question["params"])
        raise ValueError(f"the server has asked {MOST_ROUNDS} times in one call")

    def close_stdin(self, seconds: float) -> None:
        """Close the stdin of the server, unless a thread cannot finish its writing."""
        assert self.process.stdin
        if self.write_lock.acquire(timeout=seconds):  # `with` has no timeout
            try:
                self.process.stdin.close()
            except OSError:
                pass  # the server has ended already
            finally:
                self.write_lock.release()

    def wait_for_end(self, seconds: float) -> bool:
        """Wait until the server has ended. Return False if that takes too long."""
        try:
            self.process.wait(seconds)
            return True
        except subprocess.TimeoutExpired:
            return False

    def close(self, seconds: float = 2.0) -> None:
        """End the server, and wait until it has ended."""
        assert self.process.stdout
        self.close_stdin(seconds)
        if not self.wait_for_end(seconds):
            self.process.terminate()
        if not self.wait_for_end(seconds):
            self.process.kill()
        self.process.wait()
        # If a thread was writing, stdin is still open. But the server has ended, so the
        # writing has failed, and the lock is free.
        self.close_stdin(seconds)
        self.reader.join(seconds)  # a child of the server may still have its stdout
        if not self.reader.is_alive():
            self.process.stdout.close()


# --- The command line -----------------------------------------------------------------


def ask_user(params: Json) -> Json:
    """Ask on the terminal for each field of a form."""
    print(params["message"])
    content = {}
    try:
        for name, schema in params["requestedSchema"]["properties"].items():
            text = input(f"{name}:\n")
            if schema.get("type") == "string":
                content[name] = text
            else:
                content[name] = json.loads(text)
    except (EOFError, ValueError):
        return {"action": "cancel"}
    return {"action": "accept", "content": content}


def show_progress(params: Json) -> None:
    print(f"{params['progress']} of {params.get('total')}: {params.get('message')}")


def main() -> int:
    """Call a tool, or list the tools. Return the exit status."""
    if "--" not in sys.argv:
        print("usage: 8_client.py [TOOL [ARGUMENTS]] -- COMMAND...", file=sys.stderr)
        return 2
    cut = sys.argv.index("--")
    words = sys.argv[1:cut]
    client = Client(sys.argv[cut + 1:], ask_user)
    try:
        client.open()
        print(client.revision)
        if not words:
            for tool in client.request("tools/list", {})["tools"]:
                print(f"{tool['name']}: {tool.get('description')}")
            return 0
        arguments = json.loads(words[1]) if words[1:] else {}
        result = client.call_tool(words[0], arguments, show_progress)
        for block in result["content"]:
            print(block.get("text", block))
        return 1 if result.get("isError") else 0
    except (RpcError, OSError, ValueError, LookupError) as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        client.close()


if __name__ == "__main__":
    sys.exit(main())
