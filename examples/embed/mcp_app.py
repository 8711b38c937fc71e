"""Serve MCP from inside an application that has an event loop.

The application calls serve():

    from mcp_app import serve
    close = serve(server, run_on_main)

The host starts this file, which connects to the application:

    python3 mcp_app.py NAME [--pid N] [--silence SECONDS]

Copy this file and mcp_ref.py into one folder of the application. NAME is the name of
the Server. run_on_main(job) is a function of the application. It returns at once, and
the application calls job() later, on its main thread. README.md has this function for
many applications, and describes what goes over the connection.

serve() listens on a free port of this machine. It writes the port and a random key into
a discovery file in the folder ~/.mcp_apps, which only this user can read. On Windows,
the permissions of the user's profile protect it. The environment variable
MCP_APPS_FOLDER names another folder.

The first part of this file is the application, the second is the bridge, which the host
starts, and the third belongs to both.
"""

from __future__ import annotations

import argparse
import atexit
import concurrent.futures
import functools
import hmac
import json
import logging
import os
import secrets
import shutil
import socket
import stat
import struct
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, Optional, cast
from urllib.parse import quote

if TYPE_CHECKING or not __package__:
    from mcp_ref import (
        INTERNAL_ERROR, LISTS, META, METHODS, PAGE_LIMIT, READY, REVISIONS,
        ConnectionClosed, Context, McpPeer, PendingRequest, Registration,
        RequestCancelled, RequestTimeout, Requests, RpcError, Server, ServerSession,
        SharedOutbox, Subscriptions, ToolError, spawn, text)
else:  # the files belong to a package
    from .mcp_ref import (
        INTERNAL_ERROR, LISTS, META, METHODS, PAGE_LIMIT, READY, REVISIONS,
        ConnectionClosed, Context, McpPeer, PendingRequest, Registration,
        RequestCancelled, RequestTimeout, Requests, RpcError, Server, ServerSession,
        SharedOutbox, Subscriptions, ToolError, spawn, text)

Json = dict[str, Any]
RunOnMain = Callable[[Callable[[], None]], Any]

HANDSHAKE_SECONDS = 5.0  # that the application waits for each half of a proof
MOST_UNPROVEN = 8  # connections without a proof
STALL_SECONDS = 30  # without progress of a write, after which a connection ends
LABEL = "mcp_app/label"  # a method: which document is open


def serve(server: Server, run_on_main: RunOnMain, busy_after: float = 30.0,
          label: Optional[Callable[[], str]] = None) -> Callable[[], None]:
    """Serve a server to bridges, and return a function that ends this.

    The functions of the server run on the main thread. A call that has not begun after
    busy_after seconds is refused, and never begins. A call that has begun may take any
    time. label() returns the name of the open document, or another word that tells the
    instances of the application apart. It runs on the main thread as well. OSError
    means that the discovery file cannot be written, RuntimeError that this interpreter
    allows no threads.
    """
    app = App(server, run_on_main, busy_after, label)
    app.open()
    return app.close


def host_config(server: Server, python: Optional[str] = None) -> Json:
    """Return what the configuration of a host needs, such as for a button "Copy".

    Name a Python that the host can start, unless the one that runs this will do.
    """
    name = server.info["name"]
    entry: Json = {"command": python or find_python(),
                   "args": [os.path.abspath(__file__), name]}
    folder = os.environ.get("MCP_APPS_FOLDER")
    if folder:
        entry["env"] = {"MCP_APPS_FOLDER": os.path.abspath(os.path.expanduser(folder))}
    return {"mcpServers": {name: entry}}


def find_python() -> str:
    """Return the path of a Python. sys.executable may be the application itself."""
    if Path(sys.executable or "").name.lower().startswith("python"):
        return sys.executable
    bundled = Path(sys.exec_prefix, "python.exe" if os.name == "nt" else "bin/python3")
    if bundled.is_file():
        return str(bundled)
    return shutil.which("python3") or "python3"


def write_lists(server: Server) -> Path:
    """Write what a server offers into a file beside this one, and return its path.

    A host that starts before the application has ever run lists this. Call it when you
    release the plug-in, and ship the file.
    """
    path = shipped_lists(server.info["name"])
    content = {"info": server.info, "instructions": server.instructions or "",
               "lists": {kind: list(server.entries(kind).values())
                         for kind in LISTS.values()}}
    path.write_text(json.dumps(content, indent=1), "utf-8")
    return path


# The application.


class App:
    """Listens for bridges, and serves each of them on a thread."""

    def __init__(self, server: Server, run_on_main: RunOnMain, busy_after: float,
                 label: Optional[Callable[[], str]]) -> None:
        self.run_on_main = run_on_main
        self.busy_after = busy_after
        self.label = label
        self._server = server
        self._key = secrets.token_bytes(32)
        self._pid = os.getpid()
        self._closed = threading.Event()
        self._lock = threading.Lock()  # guards the dict
        # Whether each connection has proved itself, in the order of their arrival.
        self._connections: dict[Connection, bool] = {}
        self._folder = private_folder()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._port = self._listener.getsockname()[1]
        name = f"{quote(server.info['name'], ' ')}.{self._pid}-{self._port}.app.json"
        self._file = self._folder / name

    def open(self) -> None:
        """Accept connections. The discovery file comes last, when all else works."""
        try:
            spawn(self._accept)
            write_private(self._file, {
                "name": self._server.info["name"], "pid": self._pid, "port": self._port,
                "key": self._key.hex(), "machine": socket.gethostname()})
        except BaseException:
            self.close()
            raise
        atexit.register(self.close)
        if hasattr(os, "register_at_fork"):
            # It cannot be unregistered, so it must not keep a closed App alive.
            reference = weakref.ref(self)
            os.register_at_fork(after_in_child=lambda: abandon(reference()))

    def close(self) -> None:
        """Remove the discovery file, and end all connections."""
        if os.getpid() != self._pid:  # a forked child: all this belongs to the parent
            return
        atexit.unregister(self.close)
        self._closed.set()
        with suppress(OSError):
            self._file.unlink()
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            connection.end()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes _accept()
        self._listener.close()

    def abandon(self) -> None:
        """Leave the sockets to the parent, in a forked child. A bridge sees the end of
        the parent only if no other process has them open."""
        for connection in list(self._connections):  # no other thread runs in a child
            connection.abandon()
        with suppress(OSError):
            os.close(self._listener.detach())

    def _accept(self) -> None:
        while not self._closed.is_set():
            try:
                accepted, _ = self._listener.accept()
            except OSError:  # the listener is closed, or too many files are open
                self._closed.wait(1.0)
                continue
            try:
                spawn(functools.partial(self._serve, accepted))
            except RuntimeError:  # no thread can be started now
                accepted.close()

    def _serve(self, accepted: socket.socket) -> None:
        with accepted, suppress(OSError), Connection(accepted) as connection:
            self._make_room_for(connection)
            try:
                if connection.has_key(self._key, "app", "bridge", HANDSHAKE_SECONDS):
                    with self._lock:
                        self._connections[connection] = True
                    if not self._closed.is_set():
                        self._serve_lines(connection)
            finally:
                with self._lock:
                    del self._connections[connection]

    def _make_room_for(self, connection: Connection) -> None:
        """Note a connection. If too many have no proof, the oldest of these end."""
        with self._lock:
            self._connections[connection] = False
            unproven = [one for one, is_proven in self._connections.items()
                        if not is_proven]
        for one in unproven[:-MOST_UNPROVEN]:
            one.end()

    def _serve_lines(self, connection: Connection) -> None:
        session: Any = self._server.connect(
            connection.send, session_type=functools.partial(AppSession, self))
        try:
            for line in connection.lines(session.bounds.line):
                session.receive(line)
        finally:
            session.close()
            for request in session.unanswered():  # the bridge has ended
                session.cancel_incoming(request.request_id)


def abandon(app: Optional[App]) -> None:
    if app is not None:
        app.abandon()


class Here(threading.local):
    """A fact about each thread."""

    hands_over = False  # it leaves its lines to another thread


class HandoverOutbox(SharedOutbox):
    """An outbox that some threads never write, because the other side may not read.

    A thread that sets here.hands_over leaves its lines to a new thread. Otherwise a
    host that does not read would stop the main thread of the application.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.here = Here()

    def flush(self, change: Optional[Callable[..., Any]] = None, about: Any = None,
              line: bytes = b"") -> None:
        if not self.here.hands_over:
            super().flush(change, about, line)
            return
        if change is not None:
            with self.lock:
                change(about, line)
        self.flush_soon()


class AppSession(ServerSession):
    """A session whose handlers run on the main thread of the application.

    Each request that runs a function also gets a new thread. This thread waits for the
    main thread, and then it writes the response.
    """

    outbox_type: Any = HandoverOutbox

    def __init__(self, app: App, *args: Any) -> None:
        super().__init__(*args)
        self._app = app

    def admit_request(self, request: Any) -> Any:
        handler: Any = self._label
        if request.method != LABEL or self._app.label is None:
            handler = super().admit_request(request)
        if handler is None:
            return None
        return functools.partial(self._call_on_main, handler)

    def _label(self, context: Any) -> Json:
        assert self._app.label is not None
        return {"label": self._app.label()}

    def _call_on_main(self, handler: Callable[[Any], Any], context: Any) -> Any:
        """Run a handler on the main thread, and return its result.

        The lock of the Future decides whether the job begins or is refused: a job that
        has begun cannot be cancelled, and a cancelled job does not begin.
        """
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()

        def job() -> None:
            self.outbox.here.hands_over = True
            if context.cancelled:
                future.cancel()
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(handler(context))
                except BaseException as error:
                    future.set_exception(error)

        reason = "the application is busy; nothing was done"
        try:
            self._app.run_on_main(job)
            concurrent.futures.wait([future], self._app.busy_after)
        except Exception as error:
            reason = f"the application has not accepted the call: {error}"
        if future.cancel():
            return failure(context, reason)
        return future.result()


def failure(context: Any, reason: str) -> Json:
    """Return the result of a tool that has failed, so that the model reads the reason.

    Other methods have no such result. For them, this raises RpcError.
    """
    if context.method != "tools/call":
        raise RpcError(INTERNAL_ERROR, reason)
    result: Json = {"content": [text(reason)], "isError": True}
    if REVISIONS[context.revision].modern:
        result["resultType"] = "complete"
    return result


# The bridge.
#
# It answers the handshake, ping and lists itself, so a host can start it before the
# application. Until then, it lists what the application had in its last run, or what
# the plug-in has shipped. It sends list_changed if a list is another one when the
# application has started, and it survives a restart of the application.
#
# The bridge has two peers. HostSession is the server side towards the host. AppPeer is
# the client side towards the application. A message keeps its params on the way, so
# both peers of a request use the same revision.

PROOF_SECONDS = 1.0  # that the bridge waits for each half of a proof
POLL_SECONDS = 0.25  # between two looks for an application that does not run
LONGEST_PAUSE = 8.0  # seconds between two attempts to reach a process that is silent
FIRST_LOOK_SECONDS = 3.0  # the host waits at most so long for the first look
SILENCE_SECONDS = 120.0  # that a call waits without a sign of life
LIST_SECONDS = 5.0  # for each page of a list
KEYS = {"tools": "name", "prompts": "name", "resources": "uri",
        "resourceTemplates": "uriTemplate"}  # of the items of lists
MODERN = [row.version for row in REVISIONS.values() if row.modern][-1]
NO_FUNCTION: Any = None  # of the tools whose calls are relayed
log = logging.getLogger("mcp_app")


class Instance(NamedTuple):
    """A running application, as its discovery file describes it."""

    file: Path
    started: float  # when the file was written
    name: str
    pid: int  # 0: not known
    port: int
    key: bytes
    machine: str  # where the file was written; "" is not known

    @property
    def id(self) -> str:
        return f"{self.pid}-{self.port}"


class Failure(NamedTuple):
    """Why an instance could not be reached, and when to try again."""

    error: OSError
    pause: float  # seconds
    retry_at: float  # by time.monotonic()


class WatchedResources(Subscriptions):
    """The subscriptions of the host. The bridge subscribes to the same resources."""

    session: HostSession

    def subscribe(self, uri: str) -> None:
        super().subscribe(uri)
        self.session.watch([uri])


class HostSession(ServerSession):
    """The side of the bridge that the host sees."""

    outbox_type: Any = HandoverOutbox
    server: Bridge
    uris: frozenset[str] = frozenset()  # of the resources that the host has watched

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.subscriptions = WatchedResources(self)

    def acknowledge(self, context: Any, granted: Json) -> None:
        super().acknowledge(context, granted)
        self.watch(granted.get("resourceSubscriptions", []))

    def admit_request(self, request: Any) -> Any:
        """Answer the handshake, ping, lists and the tools of the bridge here. Relay
        what needs a function of the application."""
        handler = super().admit_request(request)
        if handler is not None and not self.server.has_function(request):
            return self._relay_to_app
        if request.method == "logging/setLevel":
            self.server.update_app()
        return handler

    def handle_notification(self, method: str, params: Any) -> None:
        super().handle_notification(method, params)
        if method == "notifications/initialized":
            self.server.update_app()

    def watch(self, uris: list[str]) -> None:
        """Tell the application, too, which resources the host watches."""
        if not self.uris.issuperset(uris):
            self.uris = self.uris.union(uris)  # a new set, so readers need no lock
            self.server.update_app()

    def _relay_to_app(self, context: Any) -> Json:
        """Let the application compute the result. This is the job of a thread.

        A modern tool that asks the user returns the question as its result. The host
        repeats the call with the answer and with requestState, which only the instance
        that has asked can read. So the bridge puts the id of the instance in front.
        """
        title = self.server.title
        app = self.server.find_app()
        if app is None:
            return failure(context, self.server.why_not())
        process = f"process {app.instance.pid}"
        if self.server.changes_something(context):
            replaced = app.take_replaced()
            if replaced is not None:
                return failure(context, f"process {replaced} of {title} has ended, and "
                               f"{process} is another one that runs; nothing was done. "
                               f"Call again to use {process}")
        params = dict(context.params)
        if context.meta:  # the session has taken it out of params
            params["_meta"] = context.meta
        if "requestState" in params:
            instance, _, params["requestState"] = params["requestState"].partition(":")
            if instance != app.instance.id:
                return failure(context, f"{title} was restarted while the question was "
                               "open; call again")
        try:
            pending = relay(context, app.requests, params)
            if not app.lives_until_answer(pending):
                pending.cancel()
                return failure(context, f"{process} of {title} does not answer; what "
                               "the call has done is unknown")
            result: Json = pending.result()
        except ConnectionClosed:
            return failure(context, f"the connection to {process} of {title} ended "
                           "during the call; what the call has done is unknown")
        except RequestCancelled:  # by the host, which gets no response
            return {}
        if "requestState" in result:
            result["requestState"] = f"{app.instance.id}:{result['requestState']}"
        return result


class AppPeer(McpPeer):
    """The side of the bridge that the application sees.

    The requests of the host are sent in the revision of the host. The bridge also
    sends requests that the host has not sent, such as lists. They are modern, and so
    need no handshake.
    """

    def __init__(self, bridge: Bridge, instance: Instance,
                 connection: Connection) -> None:
        super().__init__(connection.send)  # each relayed request gets a thread
        self.instance = instance
        self.ended = False
        self.others: frozenset[str] = frozenset()  # that ran when this one ended
        self.changed = threading.Event()  # a list has changed, or the connection ended
        self._bridge = bridge
        self._connection = connection
        self._has_handshake = False  # the one of a legacy host
        self._heard = 0.0  # when read() had the last line, by time.monotonic()
        self._replaced: Optional[int] = None  # see replace()
        self._subscription: Optional[PendingRequest] = None

    def read(self) -> None:
        """Receive lines until the connection ends. This is the job of a thread."""
        self._bridge.host.outbox.here.hands_over = True
        with self._connection, suppress(OSError):
            for line in self._connection.lines(self.bounds.line):
                self._heard = time.monotonic()
                self.receive(line)
        self.others = frozenset(one.id for one in read_instances()[0])
        self.ended = True
        self.close()
        for request in self.unanswered():  # such as a question to the user
            self.cancel_incoming(request.request_id)
        self.changed.set()

    def end(self) -> None:
        self._connection.end()

    def replace(self, old: AppPeer) -> None:
        """Note if this process ran beside the one that the host has talked to. A
        process that started later is a restart, and no surprise."""
        is_other = self.instance.pid != old.instance.pid
        if is_other and self.instance.id in old.others:
            with self._lock:
                self._replaced = old.instance.pid

    def take_replaced(self) -> Optional[int]:
        """Return the process that this one has replaced unseen, but only once."""
        with self._lock:
            replaced = self._replaced
            self._replaced = None
        return replaced

    def lives_until_answer(self, pending: PendingRequest) -> bool:
        """Wait for a response. Return False after a long time without a sign of life.

        The thread that reads in the application answers even if a tool keeps the main
        thread busy, unless the process is stopped, or C code holds the interpreter.
        """
        silence = self._bridge.silence
        began = time.monotonic()
        while not pending.wait(silence / 4):
            if time.monotonic() - max(began, self._heard) > silence:
                return False
            self.request("server/discover", as_modern({}))
        return True

    def ask(self, method: str, params: Json) -> Json:
        """Send a modern request of the bridge, and return its result."""
        result: Json = self.request(method, as_modern(params)).result(LIST_SECONDS)
        return result

    def ask_label(self) -> str:
        """Return the label of the instance, or why there is none."""
        try:
            return str(self.request(LABEL).result(PROOF_SECONDS)["label"])
        except RequestTimeout:
            return "busy"
        except (OSError, RpcError, ValueError, KeyError, TypeError):
            return "no label"

    def tell_about(self, host: HostSession) -> None:
        """Repeat the handshake of a legacy host, its log level and its subscriptions.

        The application acts in the order of arrival, so nothing is waited for.
        """
        about = host.client_meta
        if host.state == READY and host.row is not None:
            if not self._has_handshake:
                self._has_handshake = True
                self.request("initialize", {
                    "protocolVersion": host.row.version,
                    "clientInfo": about[META + "clientInfo"],
                    "capabilities": about[META + "clientCapabilities"]})
                self.notify("notifications/initialized")
            self.request("logging/setLevel", {"level": about[META + "logLevel"]})
        earlier = self._subscription
        self._subscription = self.request("subscriptions/listen", as_modern({
            "notifications": {"toolsListChanged": True, "promptsListChanged": True,
                              "resourcesListChanged": True,
                              "resourceSubscriptions": sorted(host.uris)}}))
        if earlier is not None:
            earlier.cancel()

    def read_list(self, method: str) -> list[Json]:
        """Return the items of all pages. ValueError means that the list has no end."""
        items: list[Json] = []
        params: Json = {}
        cursors = set()
        while True:
            page = self.ask(method, params)
            items += page[LISTS[method]]
            cursor = page.get("nextCursor")
            if cursor is None:
                return items
            if cursor in cursors:
                raise ValueError(f"{method}: the application repeats the cursor "
                                 f"{cursor!r:.40}, so the list has no end")
            cursors.add(cursor)
            if len(cursors) >= PAGE_LIMIT:
                raise ValueError(f"{method}: the list has more than {PAGE_LIMIT} pages")
            params = {"cursor": cursor}

    def admit_request(self, request: Any) -> Any:
        return self._relay_to_host

    def _relay_to_host(self, request: Any) -> Any:
        try:
            host = self._bridge.host
            return relay(request, host.requests, request.params).result()
        except (ConnectionClosed, RequestCancelled) as error:
            reason = f"the host has not answered: {error}"
            raise RpcError(INTERNAL_ERROR, reason) from None

    def handle_notification(self, method: str, params: Any) -> None:
        """Act on the bridge's own subscription, and relay other notifications."""
        super().handle_notification(method, params)
        host = self._bridge.host
        params = params or {}
        if META + "subscriptionId" in params.get("_meta", {}):
            if method == "notifications/resources/updated":
                self._bridge.resource_updated(params["uri"])
            elif method.endswith("list_changed"):
                self.changed.set()
        elif method == "notifications/progress":
            for request in host.unanswered():
                meta = getattr(request, "meta", {})  # missing while it is admitted
                if meta.get("progressToken") == params.get("progressToken"):
                    cast(Context, request).notify(method, **params)
        elif method == "notifications/message" and not host.outbox.is_full():
            host.notify(method, params)


class Bridge(Server):
    """The server of the bridge. It has the lists of the application."""

    host: HostSession

    def __init__(self, name: str, pid: Optional[int] = None,
                 silence: float = SILENCE_SECONDS) -> None:
        super().__init__(name, "1.0", capabilities=[
            "tools", "prompts", "resources", "completions"])
        self.silence = silence
        self._name = name
        self._pid = pid
        self._looked = threading.Event()  # the first look for the application is over
        self._telling = threading.Lock()  # held to tell the application about the host
        self._connecting = threading.Lock()  # held to connect; guards what follows
        self._app: Optional[AppPeer] = None  # the newest connection; it may have ended
        self._memory: Json = {"lists": {}}  # what the application had; see _use()
        self._failures: dict[str, Failure] = {}  # by the id of an instance
        self._troubles: list[str] = []  # why the application could not be reached
        self._warnings: set[str] = set()  # that were logged
        self.tool(annotations={"readOnlyHint": True})(self.status)
        self.tool(self.choose_instance)
        self._own_tools = self.tables["tools"]
        for path in (memory_file, shipped_lists):
            with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
                self._use(json.loads(path(name).read_text("utf-8")))
                break

    @property
    def title(self) -> str:
        """The name of the application, for people."""
        return str(self.info.get("title") or self._name)

    def connect(self, send: Any, start: Any = spawn,
                session_type: Any = ServerSession) -> HostSession:
        """Open the only session, and look for the application from now on."""
        session = super().connect(send, start, HostSession)
        assert isinstance(session, HostSession)
        self.host = session
        spawn(self._stay_connected)
        self._looked.wait(FIRST_LOOK_SECONDS)
        return session

    # Questions of the sessions.

    def find_app(self) -> Optional[AppPeer]:
        """Return the connection to the application. None: it cannot be reached.

        A call does not wait for the next look of _stay_connected(). It looks itself, so
        that the first call after a restart works.
        """
        app = self._app
        if app is not None and not app.ended:
            return app
        with self._connecting:
            if self._app is None or self._app.ended:
                self._connect_app()
            app = self._app
        return None if app is None or app.ended else app

    def why_not(self) -> str:
        """Return what to do if find_app() has returned None."""
        with self._connecting:
            troubles = "; ".join(self._troubles)
        process = "" if self._pid is None else f", process {self._pid},"
        if troubles:
            return f"{self.title}{process} cannot be reached: {troubles}"
        others = {one.name for one in read_instances()[0]} - {self._name}
        return (f"{self.title}{process} is not running; start it and call again. Its "
                f"name was searched in {folder_name()}. Other names there: "
                f"{', '.join(sorted(others)) or 'none'}")

    def has_function(self, context: Any) -> bool:
        """Tell whether a request calls a tool of the bridge itself."""
        if context.method != "tools/call":
            return False
        tool = self._registration(context)
        return tool is not None and tool.function is not NO_FUNCTION

    def changes_something(self, context: Any) -> bool:
        """Tell whether a request calls a tool that may do more than read."""
        if context.method != "tools/call":
            return False
        tool = self._registration(context)
        hints = tool.definition.get("annotations") if tool is not None else None
        return (hints or {}).get("readOnlyHint") is not True

    def _registration(self, context: Any) -> Optional[Registration]:
        return self.tables["tools"].get(context.params["name"])

    def update_app(self) -> None:
        """Tell the application what the host has said about itself."""
        with self._telling, suppress(ConnectionClosed):
            if self._app is not None:
                self._app.tell_about(self.host)

    # The tools of the bridge.

    def status(self) -> str:
        """Tell whether the application runs, and which instances of it run.

        If it does not run, the result says what to start.
        """
        app = self.find_app()
        if app is None:
            return self.why_not()
        lines = [f"{self.title} runs. choose_instance sends calls to another instance."]
        with self._connecting:
            for one in self._instances():
                if one.id == app.instance.id:
                    lines.append(f"{one.id}: {app.ask_label()} (calls go here)")
                else:
                    lines.append(f"{one.id}: {self._label_of(one)}")
        return "\n".join(lines)

    def choose_instance(self, instance: str) -> str:
        """Send calls to another running instance of the application.

        status lists the instances.
        """
        with self._connecting:
            for one in self._instances():
                if one.id == instance:
                    self._choose(one)
                    return f"calls go to {instance} now"
        raise ToolError(f"{instance!r:.40} does not run. {self.status()}")

    def _choose(self, instance: Instance) -> None:
        app = self._app
        if app is None or app.ended or app.instance.id != instance.id:
            try:
                app = self._connect_instance(instance)
            except OSError as error:
                raise ToolError(str(error)) from None
        app.take_replaced()  # the host knows by now

    def _label_of(self, instance: Instance) -> str:
        """Return the label of an instance that calls do not go to."""
        try:
            peer = AppPeer(self, instance, self._open(instance))
        except OSError as error:
            return str(error)
        spawn(peer.read)
        try:
            return peer.ask_label()
        finally:
            peer.end()

    # The connection to the application. Callers hold self._connecting.

    def _stay_connected(self) -> None:
        """Connect whenever the application appears. Read its lists when they change.
        This is the job of a thread, which holds no lock."""
        while True:
            app = self.find_app()
            self._looked.set()
            if app is None:
                time.sleep(POLL_SECONDS)
                continue
            app.changed.wait()
            app.changed.clear()
            with self._connecting:
                if not app.ended:
                    self._read_lists(app)

    def _connect_app(self) -> None:
        """Connect to the newest instance that proves itself."""
        self._troubles = []
        for instance in self._instances():
            try:
                self._connect_instance(instance)
                return
            except ConnectionError:  # it has ended, or it is ending just now
                pass
            except OSError as error:
                self._note(str(error))

    def _connect_instance(self, instance: Instance) -> AppPeer:
        """Relay to an instance from now on. OSError means that it cannot be reached."""
        old = self._app
        app = AppPeer(self, instance, self._open(instance))
        if old is not None:
            app.replace(old)
        spawn(app.read)
        with self._telling, suppress(ConnectionClosed):
            app.tell_about(self.host)
            self._app = app  # from now on, other threads relay requests to it
        if old is not None:
            old.end()
        self._read_lists(app)
        return app

    def _open(self, instance: Instance) -> Connection:
        """Connect to an instance. OSError says why that has failed, now or just before.

        ConnectionRefusedError means that the instance has ended. Its file is removed,
        unless the file is of another machine that has the same home folder. After each
        failure, the pause before the next attempt is longer.
        """
        failure = self._failures.get(instance.id)
        if failure is not None and time.monotonic() < failure.retry_at:
            raise failure.error.with_traceback(None)
        try:
            connection = open_connection(instance)
        except OSError as error:
            pid = instance.pid
            reason = OSError(f"process {pid} runs but does not answer: {error}")
            if isinstance(error, ConnectionRefusedError) or not is_running(pid):
                reason = ConnectionRefusedError(f"process {pid} has ended")
                if instance.machine == socket.gethostname():
                    with suppress(OSError):
                        instance.file.unlink()
            elif isinstance(error, ConnectionError):  # it is ending just now
                reason = error
            pause = POLL_SECONDS
            if failure is not None:
                pause = min(2 * failure.pause, LONGEST_PAUSE)
            self._failures[instance.id] = Failure(
                reason, pause, time.monotonic() + pause)
            raise reason from None
        self._failures.pop(instance.id, None)
        return connection

    def _instances(self) -> list[Instance]:
        """Return the instances of this application, in the order of read_instances().
        """
        instances, faults = read_instances()
        for fault in faults:
            self._note(fault)
        return [one for one in instances
                if one.name == self._name and self._pid in (None, one.pid)]

    def _note(self, trouble: str) -> None:
        if trouble not in self._troubles:
            self._troubles.append(trouble)
        if trouble not in self._warnings:
            self._warnings.add(trouble)
            log.warning("%s", trouble)

    # The lists of the application. Callers hold self._connecting.

    def _read_lists(self, app: AppPeer) -> None:
        """Ask what the application has. Tell the host which lists have changed."""
        known = self._memory["lists"]
        lists: Json = {}
        try:
            about = app.ask("server/discover", {})
            for method, kind in LISTS.items():
                lists[kind] = []
                if METHODS[method].capability in about["capabilities"]:
                    lists[kind] = app.read_list(method)
            info = about.get("_meta", {}).get(META + "serverInfo", self.info)
            self._use({"info": info, "lists": lists,
                       "instructions": about.get("instructions", "")})
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            # They are read again when the application says that they have changed.
            self._note(f"the lists of {self.title} cannot be used: {error!r}")
            return
        except (OSError, RpcError) as error:
            self._note(f"the lists of {self.title} cannot be read: {error}")
            time.sleep(POLL_SECONDS)
            app.changed.set()  # try again
            return
        for method, kind in LISTS.items():
            if lists[kind] != known.get(kind, []):
                self.host.subscriptions.publish(
                    f"notifications/{method.split('/')[0]}/list_changed")
        self.host.outbox.flush_soon()
        try:
            write_private(memory_file(self._name), self._memory)
        except OSError as error:
            self._note(f"the lists of {self.title} cannot be stored: {error}")

    def _use(self, memory: Json) -> None:
        """List what the application has, or what it had in its last run. A tool of the
        application hides one of the bridge that has the same name."""
        tables = {
            kind: {item[KEYS[kind]]: Registration(number, item, NO_FUNCTION)
                   for number, item in enumerate(items, 1)}
            for kind, items in memory["lists"].items()}
        for name, tool in self._own_tools.items():
            tables["tools"].setdefault(name, tool)
        instructions = memory["instructions"].strip() or None
        self.tables = tables  # at once, so that no list is incomplete
        self.info = memory["info"]
        self.instructions = instructions
        self._memory = memory


def relay(request: Any, other: Requests, params: Any) -> PendingRequest:
    """Send a request on to another peer.

    If the request is cancelled, the request that it has become is cancelled as well.
    """
    pending = other.request(request.method, params)
    request.at_cancel += (pending.cancel,)
    if request.cancelled:  # just before the line above
        pending.cancel()
    return pending


def as_modern(params: Json) -> Json:
    """Add what a modern request says about its client."""
    return {**params, "_meta": {
        META + "protocolVersion": MODERN, META + "clientCapabilities": {},
        META + "clientInfo": {"name": "mcp_app", "version": "1.0"}}}


def open_connection(instance: Instance) -> Connection:
    """Connect to an instance. OSError means that it does not answer, or that it does
    not have the key of its discovery file."""
    address = ("127.0.0.1", instance.port)
    connection = Connection(socket.create_connection(address, PROOF_SECONDS))
    try:
        if not connection.has_key(instance.key, "bridge", "app", PROOF_SECONDS):
            raise PermissionError("it does not have the key of its file")
    except OSError:
        connection.close()
        raise
    return connection


def main(argv: Optional[list[str]] = None) -> None:
    """Be the bridge."""
    parser = argparse.ArgumentParser(description="Connect a host to an application.")
    parser.add_argument("name", help="the name of the Server in the application")
    parser.add_argument("--pid", type=int, help="the process id of the application")
    parser.add_argument(
        "--silence", type=float, default=SILENCE_SECONDS, metavar="SECONDS",
        help="a call fails after so long without a sign of life (default: %(default)s)")
    arguments = parser.parse_args(argv)
    Bridge(arguments.name, arguments.pid, arguments.silence).run()


# Both sides: the folder, its files, and the connection.


def folder_name() -> Path:
    """Return the path that the user has chosen, or ~/.mcp_apps."""
    path = os.path.expanduser(os.environ.get("MCP_APPS_FOLDER") or "~/.mcp_apps")
    if path.startswith("~"):
        raise FileNotFoundError("this user has no home folder; let the environment "
                                "variable MCP_APPS_FOLDER name a folder")
    return Path(path)


def private_folder() -> Path:
    """Return the folder of the discovery files, which only this user can read.

    A folder that others can read keeps its rights. Then the files are in a folder in
    it.
    """
    folder = folder_name()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    check_owner(folder)
    if os.name == "posix" and folder.stat().st_mode & 0o077:
        folder = folder / "private"
        folder.mkdir(mode=0o700, exist_ok=True)
        check_owner(folder)
    return folder


def check_owner(path: Path) -> None:
    """Raise PermissionError if a path is a link or belongs to another user.

    The folder is private, so other users cannot replace a file after this check.
    """
    info = path.lstat()
    is_foreign = hasattr(os, "getuid") and info.st_uid != os.getuid()
    if is_foreign or stat.S_ISLNK(info.st_mode):
        raise PermissionError(f"{path} is a link or belongs to another user")


def read_instances() -> tuple[list[Instance], list[str]]:
    """Read all discovery files. Return what they describe, and what is wrong.

    Instances whose process runs come first, and the newest of them before others.
    """
    instances = []
    faults = []
    try:
        files = list(private_folder().glob("*.app.json"))
    except OSError as error:
        return [], [str(error)]
    for file in files:
        try:
            instances.append(read_instance(file))
        except FileNotFoundError:  # the application has just ended
            pass
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            faults.append(f"{file.name}: {error!r}")
    instances.sort(key=lambda one: (is_running(one.pid), one.started), reverse=True)
    return instances, faults


def read_instance(file: Path) -> Instance:
    """Read a discovery file. Other editions may add members, or leave some out."""
    check_owner(file)
    record = json.loads(file.read_text("utf-8"))
    pid = int(record.get("pid", 0))
    port = int(record["port"])
    if not 0 <= pid < 2**31 or not 0 < port < 2**16:
        raise ValueError(f"pid {pid} or port {port} is out of range")
    return Instance(file, file.stat().st_mtime, str(record["name"]), pid, port,
                    bytes.fromhex(record["key"]), str(record.get("machine", "")))


def is_running(pid: int) -> bool:
    """Tell whether a process runs, as far as this can be seen. An application in a
    sandbox may have another pid there."""
    if os.name == "nt":  # os.kill() would end the process
        return True
    try:
        os.kill(pid, 0)  # 0 is the pid of this process group
    except ProcessLookupError:
        return False
    except OSError:  # it belongs to another user
        pass
    return True


def memory_file(name: str) -> Path:
    """Return the file with the lists of the last run."""
    return private_folder() / f"{quote(name, ' ')}.lists.json"


def shipped_lists(name: str) -> Path:
    """Return the file with the lists that the plug-in has shipped."""
    return Path(__file__).with_name(f"{quote(name, ' ')}.lists.json")


def write_private(path: Path, content: Json) -> None:
    """Write a JSON file. A reader sees the old file or the new one, but never a part.
    """
    descriptor, temporary = tempfile.mkstemp(dir=path.parent)  # with the mode 0600
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            json.dump(content, file)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


class Connection:
    """A socket, over which lines go after both sides have proved that they have a key.
    """

    challenge = 32  # bytes; a proof has the same size

    def __init__(self, connected: socket.socket) -> None:
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        limit: Any = struct.pack("ll", STALL_SECONDS, 0)
        if os.name == "nt":
            limit = 1000 * STALL_SECONDS
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        self._socket = connected
        self._file = connected.makefile("rb")

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def has_key(self, key: bytes, own_role: str, other_role: str,
                timeout: float) -> bool:
        """Prove that this side has the key. Return whether the other side has it, too.

        Each side sends a challenge of random bytes. The proof of a side is the HMAC of
        its role and of both challenges. The key itself is not sent. OSError means that
        the other side has sent nothing for timeout seconds.
        """
        self._socket.settimeout(timeout)
        own = secrets.token_bytes(self.challenge)
        self._socket.sendall(own)
        other = self._file.read(self.challenge)
        self._socket.sendall(proof(key, own_role, own, other))
        expected = proof(key, other_role, other, own)
        has_key = hmac.compare_digest(self._file.read(self.challenge), expected)
        self._socket.settimeout(None)
        return has_key

    def send(self, line: bytes) -> None:
        """Write a line. OSError means that the other side is gone or does not read.
        Then the connection has ended."""
        try:
            self._socket.sendall(line + b"\n")
        except OSError:
            self.end()
            raise

    def lines(self, longest: int) -> Iterator[bytes]:
        """Yield lines until the end. The receiver refuses a line that is longer than
        longest bytes, so the rest of such a line is dropped."""
        is_rest = False
        while True:
            line = self._file.readline(longest + 1)
            if not line:
                return
            if not is_rest:
                yield line.rstrip(b"\n")
            is_rest = not line.endswith(b"\n")

    def end(self) -> None:
        """Wake the threads that use the connection: they find that it has ended."""
        with suppress(OSError):  # it has ended already
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._file.close()
        self._socket.close()

    def abandon(self) -> None:
        """Close the socket in this process only. Another process has it, too."""
        with suppress(OSError):
            os.close(self._socket.detach())


def proof(key: bytes, role: str, own: bytes, other: bytes) -> bytes:
    return hmac.new(key, role.encode() + own + other, "sha256").digest()


if __name__ == "__main__":
    main()
