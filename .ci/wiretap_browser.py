"""Open the wiretap's page in a real browser: no errors, not slow, nothing executed.

    wiretap_browser.py [--screenshot FOLDER]

Needs chromium; says so and passes where there is none. Prints what it measured.
"""
from __future__ import annotations

import base64
import itertools
import json
import os
import queue
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "examples"))
import wiretap  # noqa: E402

DEADLINE = 60.0  # seconds for any single answer of the browser
SMALL, LARGE = 1_000, 10_000  # messages
RATIO = 20.0  # so much longer may ten times the messages take to load
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
         "--no-first-run", "--disable-background-networking", "--disable-sync",
         "--disable-component-update", "--remote-debugging-pipe",
         "--window-size=1200,800")
BOOM = "document.title='pwned'"
HOSTILE = (f"</script><script>{BOOM}</script>", f"<img src=x onerror={BOOM}>",
           f"<!--<script>{BOOM}", f"\"'><svg onload={BOOM}>", f"javascript:{BOOM}",
           "\u202egnp.exe\u0000\x1b[2J", "@DATA@ @SCRIPT@ \\u003c")


class Browser:
    """A headless chromium, spoken to over two pipes: JSON that ends with NUL."""

    def __init__(self, program: str, profile: str) -> None:
        said, told = os.pipe(), os.pipe()  # it reads from 3 and writes to 4
        line = f'exec "$0" "$@" 3<&{told[0]} 4>&{said[1]}'
        self._process = subprocess.Popen(
            ["sh", "-c", line, program, *FLAGS, f"--user-data-dir={profile}"],
            pass_fds=(told[0], said[1]), stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        os.close(told[0])
        os.close(said[1])
        self._in, self._out = os.fdopen(told[1], "wb"), said[0]
        self._ids, self._session = itertools.count(1), ""
        self._inbox: queue.Queue[Any] = queue.Queue()
        self.events: list[Any] = []
        threading.Thread(target=self._read, daemon=True).start()
        page = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=page,
                                 flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.ask(f"{domain}.enable")

    def _read(self) -> None:
        rest = b""
        for chunk in iter(lambda: os.read(self._out, 1 << 16), b""):
            *whole, rest = (rest + chunk).split(b"\0")
            for message in whole:
                self._inbox.put(json.loads(message))

    def ask(self, method: str, **params: Any) -> Any:
        number = next(self._ids)
        message = {"id": number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        self._in.write(json.dumps(message).encode() + b"\0")
        self._in.flush()
        return self._wait(lambda one: one.get("id") == number)["result"]

    def _wait(self, wanted: Any) -> Any:
        while True:
            message = self._inbox.get(timeout=DEADLINE)
            self.events.append(message)
            if wanted(message):
                if "error" in message:
                    raise RuntimeError(message["error"])
                return message

    def run(self, script: str) -> Any:
        answer = self.ask("Runtime.evaluate", expression=script, returnByValue=True,
                          awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"])
        return answer["result"].get("value")

    def open(self, path: str) -> None:
        self.ask("Page.navigate", url="file://" + path)
        self._wait(lambda one: one.get("method") == "Page.loadEventFired")

    def complaints(self) -> list[Any]:
        """What a person would see in red: exceptions, console, policy violations."""
        wrong = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled",
                 "Log.entryAdded")
        return [one["params"] for one in self.events if one.get("method") in wrong]

    def close(self) -> None:
        try:
            self._session = ""
            self.ask("Browser.close")
            self._process.wait(DEADLINE)
        except (OSError, queue.Empty, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait(DEADLINE)


def spoken(lines: list[tuple[float, str, str]]) -> list[Any]:
    """Let the wiretap hear (time, direction, line)."""
    watch = wiretap.Watch()
    entries = [{**watch.entry(0.0, "", "start"), "about": "python3 server.py"}]
    for at, way, line in lines:
        entries.extend(watch.read(at, way, line.encode("utf-8", "surrogatepass")))
    watch.ended[">"] = lines[-1][0]
    return [*entries, watch.end(lines[-1][0] + 0.1, 0)]


def rpc(**members: Any) -> str:
    return json.dumps({"jsonrpc": "2.0", **members})


def handshake() -> Iterator[tuple[float, str, str]]:
    yield 0.05, ">", rpc(id=0, method="initialize", params={
        "protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}},
        "clientInfo": {"name": "host", "version": "1"}})
    yield 0.17, "<", rpc(id=0, result={
        "protocolVersion": "2025-11-25", "capabilities": {"tools": {}, "logging": {}},
        "serverInfo": {"name": "demo", "version": "1"}})
    yield 0.18, ">", rpc(method="notifications/initialized")


def conversation(size: int) -> list[tuple[float, str, str]]:
    """So many messages: calls that overlap by four, with progress in between."""
    lines, at = list(handshake()), 0.2
    for number in itertools.count(1):
        if len(lines) >= size:
            return lines[:size]
        at += 0.004 + number * 37 % 11 / 1000
        lines.append((at, ">", rpc(id=number, method="tools/call", params={
            "name": ("search", "read_file", "add")[number % 3],
            "_meta": {"progressToken": number},
            "arguments": {"query": "x" * (number % 200), "limit": number}})))
        if number % 4 == 0:
            lines.append((at + 0.001, "<", rpc(
                method="notifications/progress",
                params={"progressToken": number, "progress": 1, "total": 2})))
        if number > 4:
            text = {"type": "text", "text": "found " * (number % 50)}
            result = {"content": [text]}
            lines.append((at + 0.002, "<", rpc(id=number - 4, result=result)))
    return lines


def broken() -> list[tuple[float, str, str]]:
    """One of everything, for a person to look at."""
    call = {"name": "search", "arguments": {"query": "\u00fcber", "limit": 3}}
    text = {"type": "text", "text": "nothing"}
    missing = {"code": -32601, "message": "Method not found"}
    said: list[tuple[float, str, dict[str, Any]]] = [
        (0.3, ">", {"id": 1, "method": "tools/list"}),
        (0.32, "<", {"id": 1, "result": {"tools": [{"name": "search"}]}}),
        (0.5, ">", {"id": 2, "method": "tools/call", "params": call}),
        (0.6, "<", {"id": 7, "method": "elicitation/create",
                    "params": {"message": "Really?"}}),
        (0.7, ">", {"id": 3, "method": "tools/call",
                    "params": {**call, "name": "slow"}}),
        (0.8, "<", {"method": "notifications/message",
                    "params": {"level": "info", "data": 1}}),
        (1.4, ">", {"id": 7, "result": {"action": "accept", "content": {"a": True}}}),
        (1.5, "<", {"id": 2, "result": {"content": [text]}}),
        (1.52, ">", {"id": 4, "method": "resources/list"}),
        (1.53, "<", {"id": 4, "error": missing}),
        (1.6, ">", {"id": 5, "method": "ping"}), (1.61, "<", {"id": "5", "result": {}}),
        (1.7, "<", {"id": 8, "method": "sampling/createMessage",
                    "params": {"messages": []}}),
        (1.9, ">", {"id": 8, "error": missing}), (2.4, "<", {"id": 99, "result": {}})]
    lines = [(at, way, rpc(**members)) for at, way, members in said]
    return [*handshake(), *lines[:3], (0.52, "<", "searching 3 files ..."), *lines[3:]]


def hostile() -> list[tuple[float, str, str]]:
    lines = list(handshake())
    for number, text in enumerate(HOSTILE, 1):
        params = {"name": text, text: text}
        lines += [(number, ">", rpc(id=text, method=text, params=params)),
                  (number + 0.1, "<", rpc(id=text, error={"code": 1, "message": text})),
                  (number + 0.2, "<", text)]
    return lines


def loaded(browser: Browser, path: str) -> tuple[float, int]:
    """Open a page; milliseconds until it stands (median of three), and nodes in it."""
    times = []
    for _ in range(3):
        browser.open(path)
        times.append(browser.run(
            "performance.getEntriesByType('navigation')[0].loadEventEnd"))
    nodes = browser.run("document.querySelectorAll('*').length")
    return statistics.median(times), nodes


def check_size(browser: Browser, small: str, large: str) -> None:
    (fast, few), (slow, many) = loaded(browser, small), loaded(browser, large)
    work = browser.run("""(() => { const from = performance.now();
        for (let y = 0; y < 20; y++) { list.scrollTop = y * 15000; draw(); }
        const scrolled = performance.now();
        $("search").value = "limit\\": 777"; choose(); const found = view.length;
        return [(scrolled - from) / 20, performance.now() - scrolled, found]; })()""")
    print(f"{SMALL} messages load in {fast:.0f} ms, {LARGE} in {slow:.0f} ms; "
          f"a scroll takes {work[0]:.1f} ms, a search {work[1]:.0f} ms")
    assert slow < RATIO * fast, "loading is worse than linear"
    assert many < 2 * few, f"{many} nodes for {LARGE} messages, {few} for {SMALL}"
    assert work[0] < 100 and work[1] < 1000, "scrolling or searching is slow"
    assert work[2] == 1, f"the search found {work[2]} messages"


def check_hostile(browser: Browser, page: str) -> None:
    browser.open(page)
    browser.run("for (const i of E.keys()) if (!open.has(i)) fold(i)")
    shown = []
    for y in range(0, 12000, 300):
        browser.run(f"list.scrollTop = {y}; draw()")
        shown.append(browser.run("document.body.innerText"))
    for text in HOSTILE[:5]:
        assert text in "".join(shown), f"not shown as text: {text}"
    marks = "\\u202egnp.exe\\u0000\\u001b[2J"
    assert marks in "".join(shown), "control characters obeyed"
    assert browser.run("document.title") == "wiretap", "a hostile string was executed"
    assert browser.run("document.querySelectorAll('img, svg, script').length") == 2


def check_use(browser: Browser, page: str) -> None:
    browser.open(page)
    browser.run("document.querySelectorAll('.row')[2].click()")
    assert browser.run("document.querySelector('pre').textContent").startswith("{\n")
    browser.run("$('kinds').lastChild.click()")
    assert browser.run("view.length === document.querySelectorAll('.row.bad').length")
    browser.run("document.onkeydown({key: 'Escape'})")
    assert browser.run("document.querySelector('pre')") is None


def photograph(browser: Browser, page: str, folder: str) -> None:
    for scheme in ("light", "dark"):
        browser.ask("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": scheme}])
        browser.open(page)
        browser.run("fold(5); list.scrollTop = 170; draw()")
        shot = browser.ask("Page.captureScreenshot")["data"]
        name = f"{os.path.basename(page)[:-5]}-{scheme}.png"
        with open(os.path.join(folder, name), "wb") as file:
            file.write(base64.b64decode(shot))


def main() -> None:
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        print("no chromium on this machine: the wiretap's page was not opened")
        return
    with tempfile.TemporaryDirectory() as folder:
        said = {"small": conversation(SMALL), "large": conversation(LARGE),
                "hostile": hostile(), "broken": broken()}
        pages = {name: os.path.join(folder, name + ".html") for name in said}
        for name, lines in said.items():
            wiretap.write_page(pages[name], spoken(lines))
        browser = Browser(program, os.path.join(folder, "profile"))
        try:
            check_size(browser, pages["small"], pages["large"])
            check_hostile(browser, pages["hostile"])
            check_use(browser, pages["broken"])
            assert not browser.complaints(), browser.complaints()
            if sys.argv[1:2] == ["--screenshot"]:
                for name in ("broken", "large", "hostile"):
                    photograph(browser, pages[name], sys.argv[2])
        finally:
            browser.close()
    print("the page opens without complaint; hostile strings stay text")


if __name__ == "__main__":
    main()
