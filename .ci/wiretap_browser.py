"""Open the wiretap's page in a real browser: nothing is slow, executed, cut off or missing.

    wiretap_browser.py [--screenshot FOLDER]

Needs Chromium (Debian: apt-get install chromium). Where there is none, the last line is
"skipped: no Chromium" and the status 0. Takes about ten seconds; prints what it measured.
"""
from __future__ import annotations

import base64
import itertools
import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "examples", "tools"))
import wiretap  # noqa: E402

DEADLINE = 60.0  # seconds for any single answer of the browser
SMALL, LARGE = 1_000, 5_000  # messages
OPEN = 1_000.0  # milliseconds in which the large page has to stand
RATIO = 10.0  # so much longer may five times the messages take
WIDTHS = {"wide": (1200, 900), "narrow": (400, 900)}
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
        self._in.close()


def spoken(lines: list[tuple[float, str, str]]) -> list[Any]:
    """Let the wiretap hear (time, direction, line)."""
    watch = wiretap.Watch()
    entries = [{**watch.entry(0.0, "", "start"), "about": "python3 server.py", "epoch": 1.79e9}]
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


def modern(**params: Any) -> dict[str, Any]:
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}}
    return {**params, "_meta": meta}


def asking() -> list[tuple[float, str, str]]:
    """A modern session: one request for input is retried, one is not."""
    wanted = {"resultType": "input_required", "inputRequests": {
        "a": {"method": "elicitation/create", "params": {"message": "Really?"}}}}
    said: list[tuple[float, str, dict[str, Any]]] = [
        (0.1, ">", {"id": 1, "method": "server/discover", "params": modern()}),
        (0.2, "<", {"id": 1, "result": {
            "resultType": "complete", "capabilities": {"tools": {}}, "_meta": {
                "io.modelcontextprotocol/serverInfo": {"name": "library", "version": "2.1"}}}}),
        (0.3, ">", {"id": 2, "method": "tools/call", "params": modern(name="lend")}),
        (0.4, "<", {"id": 2, "result": {**wanted, "requestState": "one"}}),
        (4.0, ">", {"id": 3, "method": "tools/call", "params": modern(
            name="lend", requestState="one", inputResponses={"a": {"action": "accept"}})}),
        (4.1, "<", {"id": 3, "result": {"resultType": "complete", "content": []}}),
        (4.2, ">", {"id": 4, "method": "tools/call", "params": modern(name="sell")}),
        (4.3, "<", {"id": 4, "result": {**wanted, "requestState": "two"}})]
    return [(at, way, rpc(**members)) for at, way, members in said]


def broken() -> list[tuple[float, str, str]]:
    """One of everything, for a person to look at."""
    call = {"name": "search", "arguments": {"query": "\u00fcber", "limit": 3}}
    text = {"type": "text", "text": "nothing"}
    missing = {"code": -32601, "message": "Method not found"}
    said: list[tuple[float, str, dict[str, Any]]] = [
        (0.3, ">", {"id": 1, "method": "tools/list"}),
        (0.32, "<", {"id": 1, "result": {"tools": [{"name": "search"}]}}),
        (0.5, ">", {"id": 2, "method": "tools/call", "params": {
            **call, "_meta": {"progressToken": 1}}}),
        (0.6, "<", {"id": 7, "method": "elicitation/create",
                    "params": {"message": "Really?"}}),
        (0.7, ">", {"id": 3, "method": "tools/call",
                    "params": {**call, "name": "slow_and_rather_long_name_of_a_tool"}}),
        (0.8, "<", {"method": "notifications/message",
                    "params": {"level": "info", "data": 1}}),
        (0.9, "<", {"method": "notifications/progress",
                    "params": {"progressToken": 1, "progress": 1, "total": 2}}),
        (1.4, ">", {"id": 7, "result": {"action": "accept", "content": {"a": True}}}),
        (1.5, "<", {"id": 2, "result": {"content": [text]}}),
        (1.52, ">", {"id": 4, "method": "resources/list"}),
        (1.53, "<", {"id": 4, "error": missing}),
        (1.6, ">", {"id": 5, "method": "tools/call", "params": {**call, "name": "divide"}}),
        (1.61, "<", {"id": 5, "result": {"isError": True, "content": [
            {"type": "text", "text": "division by zero"}]}}),
        (1.62, ">", {"id": 6, "method": "ping"}), (1.63, "<", {"id": "6", "result": {}}),
        (1.7, "<", {"id": 8, "method": "sampling/createMessage",
                    "params": {"messages": []}}),
        (1.9, ">", {"id": 8, "error": missing}), (2.0, "<", {"id": 99, "result": {}}),
        (2.2, ">", {"method": "notifications/cancelled", "params": {"requestId": 3}})]
    lines = [(at, way, rpc(**members)) for at, way, members in said]
    return [*handshake(), *lines[:3], (0.52, "<", "searching 3 files ..."), *lines[3:]]


def hostile() -> list[tuple[float, str, str]]:
    lines = [(at, way, line.replace('"demo"', json.dumps(HOSTILE[0])))
             for at, way, line in handshake()]
    for number, text in enumerate(HOSTILE, 1):
        params = {"name": text, text: text}
        lines += [(number, ">", rpc(id=text, method=text, params=params)),
                  (number + 0.1, "<", rpc(id=text, error={"code": 1, "message": text})),
                  (number + 0.2, "<", text)]
    return lines


def resize(browser: Browser, width: int, height: int, scheme: str = "light") -> None:
    browser.ask("Emulation.setDeviceMetricsOverride", width=width, height=height,
                deviceScaleFactor=1, mobile=False)
    browser.ask("Emulation.setEmulatedMedia", features=[
        {"name": "prefers-color-scheme", "value": scheme}])


def opened(browser: Browser, path: str) -> float:
    """Open a page; return the milliseconds until its first rows stand, best of three."""
    times = []
    for _ in range(3):
        browser.open(path)
        times.append(browser.run("""new Promise(done => { const look = () =>
            document.querySelector("summary .label") ? done(performance.now())
            : requestAnimationFrame(look); look(); })"""))
    return min(times)


def check_size(browser: Browser, small: str, large: str) -> None:
    fast, slow = opened(browser, small), opened(browser, large)
    work = browser.run("""(async () => {
        const frame = () => new Promise(requestAnimationFrame), from = performance.now();
        for (let i = 0; i < 20; i++) { list.scrollTop = i * 8000; await frame(); await frame(); }
        const scrolled = performance.now();
        $("search").value = 'limit\\": 777}'; $("search").oninput(); list.offsetHeight;
        return [(scrolled - from) / 20, performance.now() - scrolled,
                nodes.filter(one => !one.hidden).length,
                document.querySelectorAll(".label").length]; })()""")
    print(f"{SMALL} messages open in {fast:.0f} ms, {LARGE} in {slow:.0f} ms; "
          f"a scroll takes {work[0]:.1f} ms, a search {work[1]:.0f} ms")
    busy = hasattr(os, "getloadavg") and os.getloadavg()[0] > 2 * (os.cpu_count() or 1)
    print("the machine is busy: times are not judged" if busy else "", end="\n" * busy)
    assert busy or slow < OPEN, f"{LARGE} messages take {slow:.0f} ms to open"
    assert slow < RATIO * fast, "opening is worse than linear"
    assert busy or (work[0] < 100 and work[1] < 500), "scrolling or searching is slow"
    assert work[2] == 1, f"the search found {work[2]} messages"
    assert work[3] < LARGE / 2, "rows are built that nobody has looked at"


def check_hostile(browser: Browser, page: str) -> None:
    browser.open(page)
    browser.run("nodes.forEach(node => { fill(node); node.firstChild.open = true; })")
    browser.run("new Promise(done => setTimeout(done))")  # toggle events have been handled
    shown = browser.run("document.body.textContent") + browser.run("document.title")
    for text in HOSTILE[:5]:
        assert text in shown, f"not shown as text: {text}"
    assert "\\u202egnp.exe\\u0000\\u001b[2J" in shown, "control characters obeyed"
    title = browser.run("document.title")
    assert title.endswith(" - wiretap"), "a hostile string was executed"
    assert browser.run("document.querySelectorAll('img, svg, script').length") == 2
    assert browser.run("document.querySelectorAll('pre').length") == browser.run("nodes.length")


def check_use(browser: Browser, page: str) -> None:
    browser.open(page)

    def run(script: str) -> Any:
        return browser.run(script)

    def colour(kind: str) -> str:
        return run(f"""(() => {{ const i = E.findIndex(e => e.kind === "{kind}"); go(i);
            return getComputedStyle(nodes[i].querySelector(".arrow")).color; }})()""")

    assert run("document.title").startswith("demo 1, 20"), run("document.title")
    assert run("$('sessions').options.length") == 3 and not run("$('sessions').hidden")
    assert run("E.length") == run("sessions[2].entries.length"), "not the latest session"
    facts = run("$('facts').textContent")
    assert run("getComputedStyle($('facts').lastChild.firstChild).color") == colour("error")
    assert facts.endswith("3 errors2 unanswered7 faults"), facts
    ticks = run("[...map.querySelectorAll('span')].map(one => one.textContent)")
    assert ticks[:2] == ["0.0 s", "0.5 s"], ticks
    assert run("$('faults').textContent").count("Remedy") == run("$('faults').children.length") > 4
    run("$('faults').querySelector('button').click()")
    assert run("document.querySelector('.here .label').textContent").startswith("searching 3 files")
    assert run("document.querySelector('.here').getBoundingClientRect().top > "
               "list.getBoundingClientRect().top"), "the fault is out of sight"
    assert len({colour("result"), colour("isError"), colour("error")}) == 3
    lost = run("E.findIndex(e => e.lost.startsWith('given up after 1.5 s'))")
    run(f"go({lost})")
    assert run(f"nodes[{lost}].querySelector('.lost').textContent") == "given up after 1.5 s"
    assert run(f"nodes[{lost}].classList.contains('wrong')")
    run(f"nodes[{lost}].querySelector('summary').click()")
    run("new Promise(done => setTimeout(done))")
    assert run(f"nodes[{lost}].querySelector('pre').textContent").startswith("{\n")
    run("[...$('kinds').children].find(one => one.textContent === 'unanswered').click()")
    assert run("nodes.filter(one => !one.hidden).length") == 2
    run("map.click()")  # goes to a row of those
    run("$('search').value = 'is in no message'; $('search').oninput()")
    assert run("$('shown').textContent").startswith("0 of")
    run("map.click()")  # where nothing is shown, to the first of all
    assert run("$('shown').textContent").startswith("25 of")
    run("$('sessions').value = 1; $('sessions').onchange({target: $('sessions')})")
    assert run("document.title").startswith("library 2.1, 20"), run("document.title")
    assert colour("input_required") != colour("result")
    assert "never retried" in run("$('faults').textContent")
    run("$('sessions').value = 0; $('sessions').onchange({target: $('sessions')})")
    assert run("$('faults').textContent") == "" and run("E.length") == 5


def check_narrow(browser: Browser, page: str) -> None:
    for name, (width, height) in WIDTHS.items():
        resize(browser, width, height)
        browser.open(page)
        browser.run("nodes.forEach(node => { fill(node); node.firstChild.open = true; })")
        wide = browser.run("""Math.max(document.documentElement.scrollWidth,
            ...[...document.body.children].map(one => one.getBoundingClientRect().right))""")
        assert wide <= width, f"{name}: {wide} px of content, {width} px of window"
        assert browser.run("list.scrollWidth <= list.clientWidth"), f"{name}: the list scrolls"


def photograph(browser: Browser, page: str, folder: str) -> None:
    for (name, size), scheme in itertools.product(WIDTHS.items(), ("light", "dark")):
        resize(browser, *size, scheme)
        browser.open(page)
        shots = {"top": "scrollTo(0, 0)", "list": """
            go(E.findIndex(e => e.lost || ["input_required", "error"].includes(e.kind)))"""}
        for part, script in shots.items():
            browser.run(script)
            browser.run("new Promise(done => setTimeout(done, 100))")
            shot = browser.ask("Page.captureScreenshot")["data"]
            file_name = f"{os.path.basename(page)[:-5]}-{name}-{scheme}-{part}.png"
            with open(os.path.join(folder, file_name), "wb") as file:
                file.write(base64.b64decode(shot))


def main() -> None:
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        print("skipped: no Chromium")
        return
    with tempfile.TemporaryDirectory() as folder:
        fine = spoken(list(handshake()))
        said = {"small": [conversation(SMALL)], "large": [conversation(LARGE)],
                "hostile": [hostile()], "broken": [asking(), broken()], "asking": [asking()]}
        pages = {name: os.path.join(folder, name + ".html") for name in said}
        for name, sessions in said.items():
            told = [spoken(lines) for lines in sessions]
            wiretap.write_page(pages[name], [fine] * (name == "broken") + told)
        browser = Browser(program, os.path.join(folder, "profile"))
        try:
            resize(browser, *WIDTHS["wide"])
            check_size(browser, pages["small"], pages["large"])
            check_hostile(browser, pages["hostile"])
            check_use(browser, pages["broken"])
            for name in ("broken", "hostile", "large"):
                check_narrow(browser, pages[name])
            assert not browser.complaints(), browser.complaints()
            if sys.argv[1:2] == ["--screenshot"]:
                for name in ("broken", "asking", "large", "hostile"):
                    photograph(browser, pages[name], sys.argv[2])
        finally:
            browser.close()
    print("the page opens without complaint; hostile strings stay text; nothing is cut off")


if __name__ == "__main__":
    main()
