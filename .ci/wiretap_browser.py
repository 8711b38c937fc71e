"""Open the page of the wiretap in a real browser, and check its speed, safety and contents.

This needs Chromium (Debian: apt-get install chromium). Without Chromium, the last line of the
output is "skipped: no Chromium" and the exit status is 0. playwright, in .venv/browser, drives
Chromium. wiretap_browser.js has the functions that run in the page.
"""
from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "examples" / "tools")]

import installed  # noqa: E402
import wiretap  # noqa: E402
from test_wiretap import hear  # noqa: E402

SMALL, LARGE = 1_000, 10_000  # messages
RATIO = 20  # by this factor, anything may take longer on the large page
WIDTHS = {"wide": 1200, "narrow": 400}  # pixels
BOOM = "document.title='pwned'"
HOSTILE = (f"</script><script>{BOOM}</script>", f"<img src=x onerror={BOOM}>",
           f"<!--<script>{BOOM}", f"\"'><svg onload={BOOM}>", f"javascript:{BOOM}",
           "\u202egnp.exe\u0000\x1b[2J", "@DATA@ @SCRIPT@ \\u003c")


def read_sessions() -> dict[str, list[str]]:
    """Read the sessions of wiretap.txt, and make the long ones."""
    sessions: dict[str, list[str]] = {}
    for line in filter(str.strip, (HERE / "wiretap.txt").read_text("ascii").splitlines()):
        if line.startswith("== "):
            lines = sessions[line[3:]] = []
        elif not line.startswith("#"):
            lines.append(line)
    fine, template = sessions["fine"], sessions["hostile"]
    sessions["broken"] = [*fine, *sessions["broken"]]
    sessions["hostile"] = [line.replace('"demo"', json.dumps(HOSTILE[0])) for line in fine] + [
        line.replace("$", json.dumps(text)) for text in HOSTILE for line in template]
    for name, size in ("small", SMALL), ("large", LARGE):
        calls = [line.replace("$", str(number)) for number in range(1, size)
                 for line in sessions["call"]]
        sessions[name] = [*fine, *calls][:size]
    return sessions


class Window:
    """A page of the browser. `complaints` are the errors that its console shows."""

    def __init__(self, browser: Any, folder: Path) -> None:
        self.page, self.folder = browser.new_page(), folder
        self.scripts = (HERE / "wiretap_browser.js").read_text("ascii")
        self.complaints: list[str] = []
        self.page.on("console", lambda said: self.complaints.append(said.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def write_pages(self) -> None:
        """Write a page for each session. "broken" has three more sessions before it."""
        sessions = read_sessions()
        for name in ("small", "large", "hostile", "broken"):
            before = ["fine", "asking", "starting"] if name == "broken" else []
            told = [hear(sessions[one]) for one in [*before, name]]
            for entries in told:
                entries[0]["epoch"] = 1.79e9
            wiretap.write_page(str(self.folder / f"{name}.html"), told)

    def open(self, name: str, width: str = "wide") -> None:
        self.page.set_viewport_size({"width": WIDTHS[width], "height": 900})
        self.page.goto(f"file://{self.folder}/{name}.html")
        self.page.evaluate(self.scripts)
        assert not self.complaints, self.complaints

    def run(self, script: str) -> Any:
        return self.page.evaluate(script)

    def measure(self, name: str) -> dict[str, float]:
        """Open a page and use it three times. Return the shortest times in milliseconds."""
        rounds = []
        for _ in range(3):
            self.open(name)
            rounds.append({"open": self.run("waitForRows()"), "scroll": self.run("scroll()"),
                           "search": self.run("search('\"limit\":77}')")})
            assert self.run("visible()") == 1, "the search has to find one message"
        return {what: min(times[what] for times in rounds) for what in rounds[0]}

    def check_speed(self) -> None:
        small, large = self.measure("small"), self.measure("large")
        for what in small:
            print(f"{what}: {small[what]:.0f} ms with {SMALL} messages, "
                  f"{large[what]:.0f} ms with {LARGE}")
            assert large[what] < RATIO * small[what], f"{what} is slow"
        built = self.run("document.querySelectorAll('.label').length")
        assert built < LARGE / 2, "rows are built before they are in sight"

    def check_hostile_strings(self) -> None:
        self.open("hostile")
        self.run("openAll()")
        shown, title = self.run("document.body.textContent"), self.run("document.title")
        for text in (*HOSTILE[:5], "\\u202egnp.exe\\u0000\\u001b[2J"):
            assert text in shown + title, f"not shown as text: {text}"
        assert not {*"\u202e\0\x1b"} & {*shown, *title}, "control characters are obeyed"
        assert title.endswith(" - wiretap"), "a hostile string was executed"
        assert self.run("document.querySelectorAll('img, svg, script').length") == 2
        assert self.run("document.querySelectorAll('pre').length == nodes.length")

    def check_use(self) -> None:
        self.open("broken")
        failed = self.run("usePage()")
        assert not failed, f"these do not hold: {failed}"

    def check_width(self) -> None:
        for name in ("broken", "hostile", "large"):
            for width, pixels in WIDTHS.items():
                self.open(name, width)
                self.run("openAll()")
                wide = self.run("width()")
                assert wide <= pixels, f"{name}, {width}: {wide} px of content"
                assert self.run("list.scrollWidth <= list.clientWidth"), f"{name}: the list scrolls"


def main() -> int:
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        print("skipped: no Chromium")
        return 0
    if sys.executable != installed.python("browser"):
        installed.begin("The page in a browser", "20 s", "browser")
        return subprocess.run([installed.venv("browser"), __file__]).returncode
    from playwright.sync_api import sync_playwright  # type: ignore[import-not-found]
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        window = Window(browser, Path(folder))
        window.write_pages()
        window.check_speed()
        window.check_hostile_strings()
        window.check_use()
        window.check_width()
        assert not window.complaints, window.complaints
        browser.close()
    print("the page opens without errors, hostile strings stay text, and nothing is cut off")
    return 0


if __name__ == "__main__":
    sys.exit(main())
