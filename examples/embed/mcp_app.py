"""Serve MCP from inside an application that has an event loop.

The application calls serve():

    from mcp_app import serve
    close = serve(server, run_on_main)

The host starts this file, which connects to the application:

    python3 mcp_app.py NAME

Copy this file and mcp_ref.py into one folder of the application. NAME is the name of
the Server. run_on_main(job) is a function of the application. It returns at once, and
the application calls job() later, on its main thread. README.md has this function for
many applications, and describes what goes over the connection.

serve() listens on a free port of this machine. It writes the port and a random key into
a discovery file, which only this user can read.

The first part of this file is the application, the second is the bridge, which the host
starts, and the third belongs to both.
"""

from __future__ import annotations

import argparse
import atexit
import hmac
import itertools
import json
import logging
import os
import queue
import secrets
import signal
import socket
import stat
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, Optional, Union
from urllib.parse import quote

if TYPE_CHECKING or not __package__:
    from mcp_ref import (
        INTERNAL_ERROR, LISTS, META, REVISIONS, Bounds, Client, ConnectionClosed,
        RpcError, Server, ToolError, classify, decode, encode, text)
else:  # the files belong to a package
    from .mcp_ref import (
        INTERNAL_ERROR, LISTS, META, REVISIONS, Bounds, Client, ConnectionClosed,
        RpcError, Server, ToolError, classify, decode, encode, text)

Json = dict[str, Any]
RunOnMain = Callable[[Callable[[], None]], Any]

HANDSHAKE_SECONDS = 5.0  # that the application waits for a proof
STALL_SECONDS = 30  # that the writing of a line may take; then the connection ends
LONGEST = Bounds().line  # bytes of a line, and of what may wait for a reader
CHUNK = 65536  # bytes that are read at once
CHALLENGE = 32  # bytes of a challenge, and of a proof
CANCELLED = "notifications/cancelled"
MODERN = [row.version for row in REVISIONS.values() if row.modern][-1]


def serve(server: Server, run_on_main: RunOnMain,
          busy_after: float = 30.0) -> Callable[[], None]:
    """Serve a server to bridges, and return a function that ends this.

    The functions of the server run on the main thread. A call that has not begun after
    busy_after seconds is refused, and never begins. A call that has begun may take any
    time. OSError means that the discovery file cannot be written, RuntimeError that
    this interpreter allows no threads, or that the user has no home folder.
    """
    app = App(server, run_on_main, busy_after)
    app.open()
    return app.close


# The application.


class App:
    """Listens for bridges, and serves each of them on a thread."""

    def __init__(self, server: Server, run_on_main: RunOnMain,
                 busy_after: float) -> None:
        self.server = server
        self.run_on_main = run_on_main
        self.busy_after = busy_after
        self._key = secrets.token_bytes(32)
        self._pid = os.getpid()
        self._closed = threading.Event()
        self._lock = threading.Lock()  # guards the set
        self._connections: set[Connection] = set()
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
                "name": self.server.info["name"], "pid": self._pid, "port": self._port,
                "key": self._key.hex(), "machine": socket.gethostname()})
        except BaseException:
            self.close()
            raise
        atexit.register(self.close)

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

    def _accept(self) -> None:
        while not self._closed.is_set():
            try:
                accepted, _ = self._listener.accept()
                spawn(partial(self._serve, accepted))
            except (OSError, RuntimeError):  # closed, or too many files or threads
                self._closed.wait(1.0)

    def _serve(self, accepted: socket.socket) -> None:
        with accepted, suppress(OSError), closing(Connection(
                accepted, self._key, "app", "bridge", HANDSHAKE_SECONDS)) as connection:
            with self._lock:
                self._connections.add(connection)
            try:
                if not self._closed.is_set():
                    Guest(self, connection).serve()
            finally:
                with self._lock:
                    self._connections.remove(connection)


class Guest:
    """A bridge that has proved itself."""

    def __init__(self, app: App, connection: Connection) -> None:
        self.app = app
        self.send = connection.send
        self.session = app.server.connect(self.send, self._start)
        self._connection = connection
        self._message: Any = None  # that the session takes in

    def serve(self) -> None:
        """Take in lines until the connection ends. Then cancel what has not ended."""
        try:
            for line in self._connection.lines():
                self._message = message_in(line)
                if not isinstance(self._message, list):  # no bridge sends batches
                    self.session.receive(line)
        finally:
            self.session.close()
            for request in self.session.unanswered():
                self.session.cancel_incoming(request.request_id)

    def _start(self, job: Callable[[], Any]) -> None:
        """Run the job of a request. The session calls this while it takes it in."""
        Call(self, self._message, job).begin()


class Call:
    """A request that waits for the main thread of the application, or runs there.

    The lock is a turnstile, which only the first passes: the main thread, which runs
    the job, or a thread that refuses the call.
    """

    def __init__(self, guest: Guest, message: Json, job: Callable[[], Any]) -> None:
        self._guest = guest
        self._message = message
        self._job = job
        self._turnstile = threading.Lock()
        self._timer = threading.Timer(guest.app.busy_after, self._refuse, [
            "the application is busy; nothing was done"])
        self._timer.daemon = True

    def begin(self) -> None:
        """Hand the job to the main thread."""
        try:
            self._timer.start()
            self._guest.app.run_on_main(self._run)
        except Exception as error:
            self._refuse(f"the application has not accepted the call: {error}")

    def _run(self) -> None:
        if self._has_turn():
            self._job()

    def _refuse(self, reason: str) -> None:
        if self._has_turn():
            # The session forgets the request, so it will not answer it.
            self._guest.session.cancel_incoming(self._message["id"])
            self._guest.send(refusal(self._message, reason))

    def _has_turn(self) -> bool:
        self._timer.cancel()
        return self._turnstile.acquire(blocking=False)


# The bridge.
#
# A host can start it before the application, and it survives a restart of the
# application. It relays the lines of calls unchanged: tools, resources, prompts and
# completions. All other requests of the host go to the desk, which is a Server in the
# bridge. So the handshake, ping and lists need no application. Without one, the bridge
# lists what the application had in its last run. It sends list_changed if a list is
# another one when the application has started.

CONNECT_SECONDS = 3.0  # Windows needs two to see that nothing listens
PROOF_SECONDS = 1.0  # that the bridge waits for the proof of an application
POLL_SECONDS = 0.25  # between two looks for an application that does not run
RETRY_SECONDS = 1.0  # until lists that could not be read are asked for again
FIRST_LOOK_SECONDS = 3.0  # the host waits at most so long for the first look
LIST_SECONDS = 5.0  # for each page of a list
DRAIN_SECONDS = 5.0  # for the calls that have no response at the end of stdin
RELAYED = ("tools/call", "resources/read", "prompts/get", "completion/complete")
OWN_TOOLS = ("status", "choose_instance")
OWN = "mcp_app:"  # the prefix of the ids of requests that the host has not sent
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


class Link:
    """The connection to an application. OSError means that the instance does not
    answer, or that it does not have the key of its discovery file.

    The host and a client of the bridge share the connection, and this object is the
    transport of the client. The client is modern, so it needs no handshake.
    """

    def __init__(self, bridge: Bridge, instance: Instance) -> None:
        connected = socket.create_connection(
            ("127.0.0.1", instance.port), CONNECT_SECONDS)
        try:
            self._connection = Connection(
                connected, instance.key, "bridge", "app", PROOF_SECONDS)
        except OSError:
            connected.close()
            raise
        self.send = self._connection.send
        self.close = self._connection.end
        self.instance = instance
        self.ended = False
        self.ended_at = 0.0  # by time.time()
        self.warning: Optional[str] = None  # another process was replaced unseen
        self.has_lists: Optional[bool] = None  # False: they could not be read
        self.changed = threading.Event()  # a list has changed, or the connection ended
        self.client = Client(self, protocol_version=MODERN, timeout=LIST_SECONDS,
                             on_notification=self._hear)
        # The host uses other ids.
        self.client.ids = map(f"{OWN}{{}}".format, itertools.count())  # type: ignore
        self._bridge = bridge

    def open(self, on_line: Callable[[bytes], Any],
             on_close: Callable[[Exception], Any]) -> None:
        spawn(partial(self._read, on_line, on_close))

    def would_block(self, line: bytes) -> bool:
        return False

    def watch(self, uris: set[str]) -> None:
        """Ask for changes of all lists and of these resources."""
        earlier = list(self.client.subscriptions)
        with suppress(ConnectionClosed):
            self.client.subscribe(
                sorted(uris), tools=True, prompts=True, resources=True)
            for subscription in earlier:
                subscription.cancel()

    def _hear(self, method: str, params: Json) -> None:
        if method == "notifications/resources/updated":
            self._bridge.server.resource_updated(params["uri"])
        elif method.endswith("list_changed"):
            self.changed.set()

    def _read(self, on_line: Callable[[bytes], Any],
              on_close: Callable[[Exception], Any]) -> None:
        """Receive lines until the connection ends. This is the job of a thread."""
        with closing(self._connection), suppress(OSError):
            for line in self._connection.lines():
                message = message_in(line)
                if not isinstance(message, dict):
                    log.warning("a line of the application was lost: %.60r", line)
                elif str(message.get("id")).startswith(OWN) or (
                        META + "subscriptionId" in meta_of(message)):
                    on_line(line)  # only the client has subscribed
                else:
                    self._bridge.take_from_app(self, message, line)
        self._bridge.note_end(self)
        on_close(ConnectionClosed("the connection to the application has ended"))
        self.changed.set()


class HostCall(NamedTuple):
    """A request of the host that the application has to answer."""

    message: Json
    line: bytes
    link: Optional[Link] = None  # None: it was not sent so far


class Bridge:
    """Relays lines between the host and the application."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._out = Outbox(write_stdout)
        self.server = Server(name, "1.0", capabilities=[
            "tools", "prompts", "resources", "completions"])
        self.server.tool(annotations={"readOnlyHint": True})(self.status)
        self.server.tool(self.choose_instance)
        self._desk = self.server.connect(self._out.put, spawn)
        # What the host has said and what it waits for.
        self._lock = threading.RLock()  # guards what follows
        self._opening: dict[str, bytes] = {}  # of a legacy host; see _note()
        self._uris: set[str] = set()  # of resources that the host has watched
        self._calls: dict[Any, HostCall] = {}  # by request id
        self._questions: dict[int, tuple[Link, Any]] = {}  # own id -> that of the app
        self._numbers = itertools.count(1)  # for questions
        self._unanswered = 0  # requests at the desk
        self._link: Optional[Link] = None  # the newest connection; it may have ended
        # The search for the application.
        self._looked = threading.Event()  # the first look for the application is over
        self._connecting = threading.Lock()  # held to connect; guards what follows
        self._offer: Json  # what the application has or had
        self._set_offer(stored_offer(name))

    def run(self) -> None:
        """Serve the host until it closes stdin. Then answer what has come so far."""
        spawn(self._stay_connected)
        self._looked.wait(FIRST_LOOK_SECONDS)
        if sys.platform != "win32":  # node makes the pipes of its servers non-blocking
            os.set_blocking(0, True)
            os.set_blocking(1, True)
        for line in lines_of(partial(os.read, 0, CHUNK)):
            if line.strip():
                self._take(line)
        self._desk.close()
        deadline = time.monotonic() + DRAIN_SECONDS
        while self._calls or self._unanswered or self._out.is_busy():
            if time.monotonic() > deadline:
                break
            time.sleep(0.005)

    @property
    def title(self) -> str:
        """The name of the application, for people."""
        return one_line(self._offer["info"].get("title") or self._name)

    # The lines of the host. This is the main thread.

    def _take(self, line: bytes) -> None:
        message = message_in(line)
        kind, fault = classify(message)
        if fault is not None:
            self._desk.receive(line)
        elif kind == "response":
            self._answer_question(message)
        elif kind == "request" and self._is_relayed(message):
            self._relay(HostCall(message, line))
        elif kind == "request":
            with self._lock:
                self._unanswered += 1
            self._desk.receive(line, partial(self._take_from_desk, message))
        elif message["method"] != CANCELLED or not self._cancel(message, line):
            self._desk.receive(line)
            if message["method"] == "notifications/initialized" and self._opening:
                self._note(message)

    def _is_relayed(self, message: Json) -> bool:
        """Tell whether a request needs a function of the application, which refuses one
        before the handshake or in an unknown revision."""
        name = member(message, "params").get("name")
        if message["method"] == "tools/call" and name in OWN_TOOLS:
            return name in [tool["name"] for tool in self._offer["lists"]["tools"]]
        return message["method"] in RELAYED

    def _relay(self, call: HostCall) -> None:
        """Send a call on. If the application has to be found first, a thread does so.
        """
        with self._lock:
            self._calls[call.message["id"]] = call
            link = self._link
        if link is None or link.ended:
            spawn(lambda: self._relay_to(self._find_app(), call))
        else:
            self._relay_to(link, call)

    def _relay_to(self, link: Union[Link, str], call: HostCall) -> None:
        """Send a call to an application, unless that would surprise the user."""
        with self._lock:
            if call.message["id"] not in self._calls:  # it was cancelled
                return
            if isinstance(link, str):  # there is none
                self._fail(call, link)
            elif link.warning is not None:
                self._fail(call, link.warning)
                link.warning = None
            elif link.ended:
                self._fail(call, f"process {link.instance.pid} of {self.title} has "
                           "ended; call again")
            else:
                self._calls[call.message["id"]] = call._replace(link=link)
                link.send(call.line)

    def _fail(self, call: HostCall, reason: str) -> None:
        """Answer a call, unless it was answered or cancelled before."""
        if self._settle(call.message["id"]) is not None:
            self._out.put(refusal(call.message, reason))

    def _settle(self, request_id: Any) -> Optional[HostCall]:
        """Forget the call with this id, and return it. The caller answers it."""
        if type(request_id) not in (int, str):  # True would be 1
            return None
        with self._lock:
            return self._calls.pop(request_id, None)

    def _cancel(self, message: Json, line: bytes) -> bool:
        """Cancel a call. Return False if the host has not sent it, or to the desk."""
        call = self._settle(member(message, "params").get("requestId"))
        if call is not None and call.link is not None:
            call.link.send(line)
        return call is not None

    def _answer_question(self, message: Json) -> None:
        """Send the answer to a question on, if the application still waits for it."""
        with self._lock:
            question = self._questions.pop(message.get("id", 0), None)
        if question is not None:
            link, request_id = question
            link.send(encode({**message, "id": request_id}))

    # The lines of the application.

    def take_from_app(self, link: Link, message: Json, line: bytes) -> None:
        """Relay a line to the host. The ids of questions are replaced, so that a late
        answer does not reach another application."""
        method = message.get("method")
        if method is None:
            if self._settle(message.get("id")) is not None:
                self._out.put(line)
        elif "id" in message:
            with self._lock:
                number = next(self._numbers)
                self._questions[number] = (link, message["id"])
            self._out.put(encode({**message, "id": number}))
        elif method == CANCELLED:
            self._withdraw(link, member(message, "params").get("requestId"))
        elif not str(method).endswith("list_changed"):  # see _read_lists()
            self._out.put(line)

    def _withdraw(self, link: Link, request_id: Any = None) -> None:
        """Tell the host that one question of an application is void, or all of them."""
        with self._lock:
            void = [number for number, (asker, one) in self._questions.items()
                    if asker is link and request_id in (None, one)]
            for number in void:
                del self._questions[number]
        for number in void:
            self._out.put(encode({"jsonrpc": "2.0", "method": CANCELLED,
                                  "params": {"requestId": number}}))

    def note_end(self, link: Link) -> None:
        """Fail the calls that an application has not answered before its end."""
        with self._lock:
            link.ended = True
            link.ended_at = time.time()
            calls = [one for one in self._calls.values() if one.link is link]
        for call in calls:
            self._fail(call, f"the connection to process {link.instance.pid} of "
                       f"{self.title} ended during the call; what the call has done is "
                       "unknown")
        self._withdraw(link)

    # The desk.

    def _take_from_desk(self, message: Json, line: Optional[bytes]) -> None:
        """Send on what the desk says about a request of the host. None is the end."""
        if line is None:
            with self._lock:
                self._unanswered -= 1
            return
        method = message["method"]
        answer = decode(line)
        result = answer.get("result")
        if answer.get("method") == "notifications/subscriptions/acknowledged":
            granted = answer["params"]["notifications"]
            self._watch(granted.get("resourceSubscriptions", ()))
        elif result is None:
            pass  # an error
        elif method in LISTS:
            result[LISTS[method]] = self._items(message, result[LISTS[method]])
            line = encode(answer)
        elif method == "resources/subscribe":
            self._watch([message["params"]["uri"]])
        elif method in ("initialize", "logging/setLevel"):
            self._note(message)
        self._out.put(line)

    def _items(self, message: Json, own: list[Json]) -> list[Json]:
        """Return the items of a list, for the revision of the host."""
        kind = LISTS[message["method"]]
        version = meta_of(message).get(META + "protocolVersion", self._desk.row.version)
        items = self._offer["lists"][kind]
        names = {one["name"] for one in items}
        return [*(adapted(one, kind, version) for one in items),
                *(one for one in own if one["name"] not in names)]

    def _note(self, message: Json) -> None:
        """Note what a legacy host has told the desk: the handshake, and the log level.
        Each application hears it, too. It has its own ids for the requests."""
        if "id" in message:
            message = {**message, "id": f"mcp_app/{message['method']}"}
        line = encode(message)
        with self._lock:
            self._opening[message["method"]] = line
            if self._link is not None:
                self._link.send(line)

    def _watch(self, uris: Iterable[str]) -> None:
        """Watch resources that the host watches."""
        with self._lock:
            if not self._uris.issuperset(uris):
                self._uris.update(uris)
                if self._link is not None:
                    self._link.watch(self._uris)

    # The tools of the bridge. The desk calls them.

    def status(self) -> str:
        """Tell whether the application runs, and which instances of it run.

        If it does not run, the result says what to start.
        """
        link = self._find_app()
        if isinstance(link, str):
            return link
        lines = [f"{self.title} runs. choose_instance sends calls to another instance."]
        for one in self._instances():
            lines.append(f"{one.id}, since {time.ctime(one.started)}")
            if one.id == link.instance.id:
                lines[-1] += " (calls go here)"
        return "\n".join(lines)

    def choose_instance(self, instance: str) -> str:
        """Send calls to another running instance of the application.

        status lists the instances.
        """
        with self._connecting:
            link = self._link
            if link is None or link.ended or link.instance.id != instance:
                found = [one for one in self._instances() if one.id == instance]
                if not found:
                    raise ToolError(f"{instance!r:.40} does not run; see status")
                try:
                    link = self._use(found[0])
                except OSError as error:
                    raise ToolError(str(error)) from None
            link.warning = None  # the host knows by now
        return f"calls go to {instance} now"

    # The connection to the application.

    def _find_app(self) -> Union[Link, str]:
        """Return the connection to the application. If there is none, connect to the
        newest instance that proves itself. If there is no instance, return what to do.

        A call does not wait for the next look of _stay_connected(). It looks itself, so
        that the first call after a restart works.
        """
        with self._connecting:
            if self._link is not None and not self._link.ended:
                return self._link
            instances, troubles = read_instances()
            for instance in instances:
                try:
                    if instance.name == self._name:
                        return self._use(instance)
                except ConnectionError:  # it has ended, or it is ending just now
                    pass
                except OSError as error:
                    troubles.append(str(error))
        if troubles:
            reasons = "; ".join(map(one_line, troubles))
            return f"{self.title} cannot be reached: {reasons}"
        return (f"{self.title} is not running; start it and call again. Its name, "
                f"{self._name}, was searched in {private_folder()}")

    def _stay_connected(self) -> None:
        """Connect whenever the application appears. Read its lists when they change.
        This is the job of a thread, which holds no lock."""
        while True:
            link = self._find_app()
            self._looked.set()
            if isinstance(link, str):
                time.sleep(POLL_SECONDS)
                continue
            link.changed.wait(None if link.has_lists else RETRY_SECONDS)
            link.changed.clear()
            with self._connecting:
                if not link.ended:
                    self._read_lists(link)

    # Callers of the methods below hold self._connecting.

    def _use(self, instance: Instance) -> Link:
        """Relay to an instance from now on. OSError means that it cannot be reached."""
        link = self._open(instance)
        old = self._link
        with self._lock:
            if old is not None and instance.started < old.ended_at:
                # It ran beside the other one. One that started later is a restart.
                link.warning = (
                    f"process {old.instance.pid} of {self.title} has ended, and "
                    f"process {instance.pid} is another one that runs; nothing was "
                    f"done. Call again to use process {instance.pid}")
            for line in self._opening.values():
                link.send(line)
            link.watch(self._uris)
            self._link = link  # from now on, other threads relay to it
        if old is not None:
            old.client.close()
        self._read_lists(link)
        return link

    def _open(self, instance: Instance) -> Link:
        """Connect to an instance. OSError says why that has failed.

        If nothing listens on its port, the instance has ended. Its file is removed,
        unless the file is of another machine that has the same home folder.
        """
        try:
            link = Link(self, instance)
            link.client.connect()
            return link
        except ConnectionRefusedError:
            if instance.machine == socket.gethostname():
                with suppress(OSError):
                    instance.file.unlink()
            raise ConnectionRefusedError(f"process {instance.pid} has ended") from None
        except ConnectionError:  # it is ending just now
            raise
        except (OSError, OverflowError, RpcError, ValueError) as error:
            reason = f"process {instance.pid} does not answer: {one_line(error)}"
            raise OSError(reason) from None

    def _instances(self) -> list[Instance]:
        """Return the instances of this application, the newest first."""
        return [one for one in read_instances()[0] if one.name == self._name]

    def _read_lists(self, link: Link) -> None:
        """Ask what the application has. Tell the host which lists have changed."""
        known = self._offer["lists"]
        try:
            offer = read_offer(link.client, self._name)
        except Exception as error:  # applications may answer anything
            if link.has_lists is not False:
                log.warning("the lists of %s cannot be read: %r", self.title, error)
            link.has_lists = False
            return
        link.has_lists = True
        self._set_offer(offer)
        for kind in sorted({method.split("/")[0] for method, kind in LISTS.items()
                            if offer["lists"][kind] != known[kind]}):
            self._desk.publish(f"notifications/{kind}/list_changed", {})
        try:
            write_private(memory_file(self._name), offer)
        except OSError as error:
            log.warning("the lists of %s cannot be stored: %s", self.title, error)

    def _set_offer(self, offer: Json) -> None:
        self._offer = offer
        self.server.info = offer["info"]
        self.server.instructions = offer["instructions"]


def adapted(item: Json, kind: str, version: str) -> Json:
    """Return an item of a modern list as a revision lists it. In legacy revisions, an
    output schema describes an object. Results of other tools go unchecked there."""
    row = REVISIONS[version]
    known = row.known_members(kind, item)
    if not row.modern and known.get("outputSchema", {}).get("type") != "object":
        known.pop("outputSchema", None)
    return known


def main(argv: Optional[list[str]] = None) -> None:
    """Be the bridge."""
    parser = argparse.ArgumentParser(description="Connect a host to an application.")
    parser.add_argument("name", help="the name of the Server in the application")
    parser.add_argument("--silence", help=argparse.SUPPRESS)  # of 4.0.0; no effect
    name = parser.parse_args(argv).name
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # ends this without a traceback
    Bridge(name).run()


# Both sides: messages, the folder, its files, and the connection.

def member(message: Json, name: str) -> Json:
    """Return a member that is an object. Without one, return an empty object."""
    value = message.get(name)
    return value if isinstance(value, dict) else {}


def meta_of(message: Json) -> Json:
    return member(member(message, "params"), "_meta")


def message_in(line: bytes) -> Any:
    """Return the message of a line. None: the line is not JSON."""
    with suppress(RpcError):
        return decode(line)
    return None


def refusal(request: Json, reason: str) -> bytes:
    """Return the response to a request that fails. A tool that fails has a result, so
    that the model reads the reason."""
    message: Json = {"jsonrpc": "2.0", "id": request["id"]}
    if request["method"] != "tools/call":
        message["error"] = {"code": INTERNAL_ERROR, "message": reason}
        return encode(message)
    message["result"] = {"content": [text(reason)], "isError": True}
    if META + "protocolVersion" in meta_of(request):
        message["result"]["resultType"] = "complete"
    return encode(message)


def one_line(value: Any) -> str:
    """Return a text of another program without line breaks, which could forge lines
    that the model reads."""
    return " ".join(str(value).split())[:200]


def empty_offer(name: str) -> Json:
    return {"info": {"name": name, "version": "1.0"}, "instructions": None,
            "lists": {kind: [] for kind in LISTS.values()}}


def read_offer(client: Client, name: str) -> Json:
    """Return what an application offers. It need not say its own name."""
    readers = {"tools": client.list_tools, "prompts": client.list_prompts,
               "resources": client.list_resources,
               "resourceTemplates": client.list_resource_templates}
    offer = empty_offer(name)
    offer["info"].update(client.server_info)
    offer["instructions"] = client.instructions
    for method, kind in LISTS.items():
        if method.split("/")[0] in client.server_capabilities:
            offer["lists"][kind] = readers[kind]()
    return offer


def stored_offer(name: str) -> Json:
    """Return what an application had in its last run."""
    offer = empty_offer(name)
    with suppress(Exception):  # older editions had other lists
        stored = json.loads(memory_file(name).read_text("utf-8"))
        offer = {**offer, **stored, "lists": {**offer["lists"], **stored["lists"]}}
    return offer


def private_folder() -> Path:
    """Return the folder that the user has chosen, or ~/.mcp_apps. RuntimeError: there
    is no home folder. PermissionError: other users can put files there. They cannot
    read a file, which has the mode 0600."""
    folder = Path(os.environ.get("MCP_APPS_FOLDER") or "~/.mcp_apps").expanduser()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    info = folder.lstat()
    is_shared = hasattr(os, "getuid") and (
        info.st_uid != os.getuid() or info.st_mode & 0o022)
    if is_shared or stat.S_ISLNK(info.st_mode):
        raise PermissionError(f"{folder} is a link, or other users can write to it")
    return folder


def read_instances() -> tuple[list[Instance], list[str]]:
    """Read all discovery files. Return what they describe, the newest first, and what
    is wrong."""
    instances: list[Instance] = []
    faults = []
    try:
        files = list(private_folder().glob("*.app.json"))
    except (OSError, RuntimeError) as error:
        return [], [str(error)]
    for file in files:
        try:
            instances.append(read_instance(file))
        except FileNotFoundError:  # the application has just ended
            pass
        except Exception as error:  # other programs may write anything
            faults.append(f"{file.name}: {error!r:.200}")
    instances.sort(key=lambda one: one.started, reverse=True)
    return instances, faults


def read_instance(file: Path) -> Instance:
    """Read a discovery file. Other editions may add members, or leave some out."""
    record = json.loads(file.read_text("utf-8"))
    return Instance(
        file, file.stat().st_mtime, str(record["name"]), int(record.get("pid", 0)),
        int(record["port"]), bytes.fromhex(record["key"]),
        str(record.get("machine", "")))


def memory_file(name: str) -> Path:
    """Return the file with the lists of the last run."""
    return private_folder() / f"{quote(name, ' ')}.lists.json"


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


def spawn(run: Callable[[], Any]) -> None:
    """Run a function on a new thread. RuntimeError: no thread can be started."""
    threading.Thread(target=run, daemon=True).start()


def write_stdout(line: bytes) -> None:
    """Write a line, in as many pieces as stdout takes."""
    rest = memoryview(line + b"\n")
    while rest:
        rest = rest[os.write(1, rest):]


def lines_of(read: Callable[[], bytes]) -> Iterator[bytes]:
    """Yield the lines of chunks of bytes, the last of which is empty. If a line becomes
    longer than LONGEST bytes, the receiver refuses it, so further chunks are dropped.
    """
    start = bytearray()  # the part of a line that has come so far
    for chunk in iter(read, b""):
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            yield bytes(start) + line
            start.clear()
        if len(start) <= LONGEST:
            start += rest
    if start:
        yield bytes(start)


class Outbox:
    """Lines that a thread writes, so that no other thread waits for a reader.

    While more than LONGEST bytes wait, notifications are dropped.
    """

    def __init__(self, write: Callable[[bytes], Any]) -> None:
        self._write = write
        self._lines: queue.SimpleQueue[Optional[bytes]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._waiting = 0  # bytes, with those that are being written
        spawn(self._write_lines)

    def put(self, line: bytes) -> None:
        is_full = self._waiting > LONGEST
        if is_full and classify(decode(line))[0] == "notification":
            return
        with self._lock:
            self._waiting += len(line)
        self._lines.put(line)

    def is_busy(self) -> bool:
        return self._waiting > 0

    def close(self) -> None:
        self._lines.put(None)

    def _write_lines(self) -> None:
        for line in iter(self._lines.get, None):
            with suppress(OSError):  # the reader is gone
                self._write(line)
            with self._lock:
                self._waiting -= len(line)


class Connection:
    """A socket, over which lines go after both sides have proved that they have a key.

    Each side sends a challenge of random bytes. The proof of a side is the HMAC of its
    role and of both challenges. The key itself is not sent. OSError means that the
    other side has not proved itself, or has sent nothing for `seconds`.
    """

    def __init__(self, connected: socket.socket, key: bytes, own_role: str,
                 other_role: str, seconds: float) -> None:
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connected.settimeout(seconds)
        own = secrets.token_bytes(CHALLENGE)
        connected.sendall(own)
        other = read_challenge(connected)
        connected.sendall(proof(key, own_role, own, other))
        expected = proof(key, other_role, other, own)
        if not hmac.compare_digest(read_challenge(connected), expected):
            raise PermissionError("it does not have the key of its file")
        connected.settimeout(STALL_SECONDS)
        self._socket = connected
        self._ended = False
        self._outbox = Outbox(self._write)
        self.send = self._outbox.put
        self.lines = partial(lines_of, self._read)

    def close(self) -> None:
        """Free what the connection needs. Nobody uses it any more."""
        self._outbox.close()
        self._socket.close()

    def _write(self, line: bytes) -> None:
        """Write a line. If the other side is gone or does not read, the connection
        ends."""
        try:
            self._socket.sendall(line + b"\n")
        except OSError:
            self.end()
            raise

    def _read(self) -> bytes:
        while not self._ended:
            with suppress(socket.timeout):  # it is meant for writing
                return self._socket.recv(CHUNK)
        return b""

    def end(self) -> None:
        """Wake the threads that use the connection: they find that it has ended. On
        Windows, shutdown() does not wake a reader, which sees it after its timeout."""
        self._ended = True
        with suppress(OSError):  # it has ended already
            self._socket.shutdown(socket.SHUT_RDWR)


def read_challenge(connected: socket.socket) -> bytes:
    """Return as many bytes as a challenge or a proof has, or fewer at the end."""
    data = b""
    while len(data) < CHALLENGE:
        chunk = connected.recv(CHALLENGE - len(data))
        if not chunk:
            break
        data += chunk
    return data


def proof(key: bytes, role: str, own: bytes, other: bytes) -> bytes:
    return hmac.new(key, role.encode() + own + other, "sha256").digest()


if __name__ == "__main__":
    main()
