"""Connect a host to an application that uses mcp_app.py.

    python3 mcp_app_bridge.py NAME [--pid N]

A host starts this program as its server. NAME is the name of the Server in the
application. The bridge finds the application by its discovery file, connects to it, and
relays: a request of the host becomes a request to the application, and the other way
round. If several instances of the application run, the bridge takes the newest, or the
one with the process id N.

The bridge itself answers the handshake, ping and lists. So a host can start it before
the application. Until then, it lists what the application had in its last run, and a
call says that the application has to be started. When the application has started, the
bridge sends list_changed. It also survives a restart of the application.

The bridge has two peers. HostSession is the server side towards the host. AppPeer is
the client side towards the application. A message keeps its params on the way, so both
peers of a request use the same revision.
"""

from __future__ import annotations

import argparse
import logging
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Optional, cast
from urllib.parse import quote

from mcp_app import (
    HANDSHAKE_SECONDS, authenticate, end, failure, private_folder, read_private,
    write_private)
from mcp_ref import (
    INTERNAL_ERROR, LISTS, META, METHODS, PAGE_LIMIT, READY, REVISIONS,
    ConnectionClosed, Context, McpPeer, PendingRequest, Registration, RequestCancelled,
    Requests, RpcError, Server, ServerSession, Subscriptions, spawn)

POLL_SECONDS = 0.25  # between two looks for an application that does not run
FIRST_LOOK_SECONDS = 3.0  # the host waits at most so long for the first look
KEYS = {"tools": "name", "prompts": "name", "resources": "uri",
        "resourceTemplates": "uriTemplate"}  # of the items of lists
MODERN = [row.version for row in REVISIONS.values() if row.modern][-1]
NO_FUNCTION: Any = None  # not called, because calls are relayed
log = logging.getLogger("mcp_app_bridge")
Json = dict[str, Any]


class Instance(NamedTuple):
    """A running application, as its discovery file describes it."""

    file: Path
    started: float  # when the file was written
    name: str
    pid: int
    port: int
    key: str  # in hexadecimal
    machine: str

    @property
    def id(self) -> str:
        return f"{self.pid}-{self.port}"


def relay(request: Any, other: Requests, params: Any) -> Any:
    """Send a request on to another peer, and return its result.

    If the request is cancelled, the request that it has become is cancelled as well.
    """
    pending = other.request(request.method, params)
    request.at_cancel += (pending.cancel,)
    if request.cancelled:  # just before the line above
        pending.cancel()
    return pending.result()


class WatchedResources(Subscriptions):
    """The subscriptions of the host. The bridge subscribes to the same resources."""

    session: HostSession

    def subscribe(self, uri: str) -> None:
        super().subscribe(uri)
        self.session.watch([uri])

class HostSession(ServerSession):
    """The side of the bridge that the host sees."""

    server: Bridge
    uris: frozenset[str] = frozenset()  # of the resources that the host has watched

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.subscriptions = WatchedResources(self)

    def acknowledge(self, context: Any, granted: Json) -> None:
        super().acknowledge(context, granted)
        self.watch(granted.get("resourceSubscriptions", []))

    def admit_request(self, request: Any) -> Any:
        """Answer the handshake, ping and lists here. Relay what needs a function."""
        handler = super().admit_request(request)
        if handler is not None:
            return self._relay_to_app
        if request.method == "logging/setLevel":
            self.server.update_app()
        return None

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
        app = self.server.find_app()
        if app is None:
            return failure(context, self.server.why_not())
        params = dict(context.params)
        if context.meta:  # the session has taken it out of params
            params["_meta"] = context.meta
        if "requestState" in params:
            instance, _, params["requestState"] = params["requestState"].partition(":")
            if instance != app.instance.id:
                return failure(context, f"{self.server.title} was restarted while the "
                               "question was open; call again")
        try:
            result: Json = relay(context, app.requests, params)
        except ConnectionClosed:
            return failure(context, f"{self.server.title} ended during the call; what "
                           "it has done is unknown")
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

    def __init__(self, bridge: Bridge, instance: Instance, connection: socket.socket,
                 lines: Any) -> None:
        super().__init__(self._send_line)  # each relayed request gets a thread
        self.instance = instance
        self.ended = False
        self.changed = threading.Event()  # a list has changed, or the connection ended
        self._has_handshake = False  # the one of a legacy host
        self._bridge = bridge
        self._connection = connection
        self._lines = lines
        self._subscription: Optional[PendingRequest] = None

    def _send_line(self, line: bytes) -> None:
        self._connection.sendall(line + b"\n")

    def read(self) -> None:
        """Receive lines until the connection ends. This is the job of a thread."""
        with self._connection, self._lines, suppress(OSError):
            for line in self._lines:
                self.receive(line)
        self.ended = True
        self.close()
        for request in self.unanswered():  # such as a question to the user
            self.cancel_incoming(request.request_id)
        self.changed.set()

    def ask(self, method: str, params: Json) -> Json:
        """Send a modern request of the bridge, and return its result."""
        result: Json = self.request(method, as_modern(params)).result(HANDSHAKE_SECONDS)
        return result

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
            return relay(request, self._bridge.host.requests, request.params)
        except (ConnectionClosed, RequestCancelled) as error:
            reason = f"the host has not answered: {error}"
            raise RpcError(INTERNAL_ERROR, reason) from None

    def handle_notification(self, method: str, params: Any) -> None:
        """Act on the bridge's own subscription, and relay other notifications."""
        super().handle_notification(method, params)
        params = params or {}
        if META + "subscriptionId" in params.get("_meta", {}):
            if method == "notifications/resources/updated":
                self._bridge.resource_updated(params["uri"])
            elif method.endswith("list_changed"):
                self.changed.set()
        elif method == "notifications/progress":
            for request in self._bridge.host.unanswered():
                meta = getattr(request, "meta", {})  # missing while it is admitted
                if meta.get("progressToken") == params.get("progressToken"):
                    cast(Context, request).notify(method, **params)
        elif method == "notifications/message":
            self._bridge.host.notify(method, params)


class Bridge(Server):
    """The server of the bridge. It has the lists of the application."""

    host: HostSession

    def __init__(self, name: str, pid: Optional[int] = None) -> None:
        super().__init__(name, "1.0", capabilities=[
            "tools", "prompts", "resources", "completions"])
        self._name = name
        self._pid = pid
        self._others: list[int] = []  # process ids of other instances
        self._trouble = ""  # why the application could not be reached
        self._warnings: set[str] = set()  # that were logged
        self._memory: Json = {"lists": {}}  # what the application had; see _use()
        self._looked = threading.Event()  # the first look for the application is over
        self._connecting = threading.Lock()  # held to connect, and to read lists
        self._telling = threading.Lock()  # held to tell the application about the host
        self._app: Optional[AppPeer] = None  # the newest connection; it may have ended
        with suppress(OSError, ValueError, KeyError, TypeError):
            self._use(read_private(self._memory_file()))

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
        process = "" if self._pid is None else f", process {self._pid},"
        trouble = f" ({self._trouble})" if self._trouble else ""
        return (f"{self.title}{process} is not running or cannot be reached{trouble}; "
                "start it and call again")

    def update_app(self) -> None:
        """Tell the application what the host has said about itself."""
        with self._telling, suppress(ConnectionClosed):
            if self._app is not None:
                self._app.tell_about(self.host)

    # The connection to the application.

    def _stay_connected(self) -> None:
        """Connect whenever the application appears. Read its lists when they change."""
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
                    self._read_lists(app, self._memory["lists"])

    def _connect_app(self) -> None:
        """Connect to the newest instance that can be reached.

        All instances are tried, because the instructions name those that run. The
        caller holds self._connecting.
        """
        reached = []
        self._trouble = ""
        for instance in self._instances():
            try:
                reached.append((instance, *open_connection(instance)))
            except ConnectionRefusedError:  # it has ended without removing its file
                with suppress(OSError):
                    instance.file.unlink()
            except ConnectionError:  # it is ending just now
                pass
            except (OSError, ValueError, TypeError) as error:
                self._note(f"process {instance.pid}: {error}")
        for _, connection, lines in reached[1:]:
            with connection, lines:
                end(connection)
        if reached:
            self._others = [instance.pid for instance, _, _ in reached[1:]]
            app = AppPeer(self, *reached[0])
            spawn(app.read)
            with self._telling, suppress(ConnectionClosed):
                app.tell_about(self.host)
                self._app = app  # from now on, other threads relay requests to it
            self._read_lists(app, known={})

    def _instances(self) -> list[Instance]:
        """Read the discovery files of the application, the newest one first."""
        found = []
        try:
            files = list(private_folder().glob("*.app.json"))
        except OSError as error:
            self._note(str(error))
            return []
        for file in files:
            try:
                one = Instance(file, file.stat().st_mtime, **read_private(file))
            except FileNotFoundError:  # the application has just ended
                continue
            except (OSError, ValueError, TypeError) as error:
                self._note(f"{file.name}: {error}")
                continue
            is_wanted = one.name == self._name and self._pid in (None, one.pid)
            if is_wanted and one.machine == socket.gethostname():
                found.append(one)
        return sorted(found, key=lambda one: one.started, reverse=True)

    def _note(self, trouble: str) -> None:
        self._trouble = trouble
        if trouble not in self._warnings:
            self._warnings.add(trouble)
            log.warning("%s", trouble)

    # The lists of the application.

    def _memory_file(self) -> Path:
        return private_folder() / f"{quote(self._name, ' ')}.lists.json"

    def _read_lists(self, app: AppPeer, known: Json) -> None:
        """Ask what the application has. Tell the host which lists are not as known.

        The caller holds self._connecting.
        """
        lists: Json = {}
        try:
            about = app.ask("server/discover", {})
            for method, kind in LISTS.items():
                lists[kind] = []
                if METHODS[method].capability in about["capabilities"]:
                    lists[kind] = app.read_list(method)
            self._use({"info": about["_meta"][META + "serverInfo"], "lists": lists,
                       "instructions": about.get("instructions", "")})
        except ValueError as error:
            # They are read again when the application says that they have changed.
            self._note(f"the lists of {self.title} cannot be used: {error}")
            return
        except (OSError, RpcError) as error:
            self._note(f"the lists of {self.title} cannot be read: {error}")
            time.sleep(POLL_SECONDS)
            app.changed.set()  # try again
            return
        for method, kind in LISTS.items():
            if lists[kind] != known.get(kind):
                self.host.subscriptions.publish(
                    f"notifications/{method.split('/')[0]}/list_changed")
        self.host.outbox.flush()
        try:
            write_private(self._memory_file(), self._memory)
        except OSError as error:
            self._note(f"the lists of {self.title} cannot be stored: {error}")

    def _use(self, memory: Json) -> None:
        """List what the application has, or what it had in its last run."""
        tables = {
            kind: {item[KEYS[kind]]: Registration(number, item, NO_FUNCTION)
                   for number, item in enumerate(items, 1)}
            for kind, items in memory["lists"].items()}
        instructions = memory["instructions"]
        if self._others:
            instructions += (
                f"\n\nSeveral instances of {self.title} run, and this is the newest. "
                f"The process ids of the others are {self._others}. The option --pid "
                "of mcp_app_bridge.py selects one of them.")
        self.tables = tables  # at once, so that no list is incomplete
        self.info = memory["info"]
        self.instructions = instructions.strip() or None
        self._memory = memory


def open_connection(instance: Instance) -> tuple[socket.socket, Any]:
    """Connect to an instance, and check that it has the key of its discovery file."""
    key = bytes.fromhex(instance.key)
    address = ("127.0.0.1", instance.port)
    connection = socket.create_connection(address, HANDSHAKE_SECONDS)
    connection.settimeout(None)  # authenticate() has its own timer
    lines = connection.makefile("rb")
    try:
        if not authenticate(connection, lines, key, "bridge", "app"):
            raise PermissionError("it does not answer, or has another key")
    except OSError:
        with connection, lines:
            raise
    return connection, lines


def as_modern(params: Json) -> Json:
    """Add what a modern request says about its client."""
    return {**params, "_meta": {
        META + "protocolVersion": MODERN, META + "clientCapabilities": {},
        META + "clientInfo": {"name": "mcp_app_bridge", "version": "1.0"}}}


def main(argv: Optional[list[str]] = None) -> None:
    parser = argparse.ArgumentParser(description="Connect a host to an application.")
    parser.add_argument("name", help="the name of the Server in the application")
    parser.add_argument("--pid", type=int, help="the process id of the application")
    arguments = parser.parse_args(argv)
    Bridge(arguments.name, arguments.pid).run()


if __name__ == "__main__":
    main()
