"""Open the page of the wiretap in a real browser, and check its speed, safety and contents.

This needs Chromium (Debian: apt-get install chromium). Without Chromium, the last line of the
output is "skipped: no Chromium" and the exit status is 0. playwright, in .venv/browser, drives
Chromium.
"""
from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "examples" / "tools")]

import installed  # noqa: E402
import wiretap  # noqa: E402
from test_wiretap import hear  # noqa: E402

LARGE = 10_000  # messages
MOST = {"open": 5_000, "scroll": 10_000, "filter": 2_000}  # milliseconds on the large page
WIDTHS = (600, 1200)  # pixels
SCROLL = """async () => {
    const frame = () => new Promise(requestAnimationFrame), from = performance.now();
    for (let i = 0; i < 20; i++) { scrollTo(0, i * 800); await frame(); await frame(); }
    return performance.now() - from;
}"""
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
    calls = [line.replace("$", str(number)) for number in range(1, LARGE)
             for line in sessions["call"]]
    sessions["large"] = [*fine, *calls][:LARGE]
    return sessions


class Window:
    """A page of the browser. `complaints` are the errors that its console shows."""

    def __init__(self, browser: Any, folder: Path) -> None:
        self.page, self.folder = browser.new_page(), folder
        self.complaints: list[str] = []
        self.page.on("console", lambda said: self.complaints.append(said.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def write_pages(self) -> None:
        """Write a page for each session. "broken" has three more sessions before it."""
        sessions = read_sessions()
        for name in ("large", "hostile", "broken"):
            before = ["fine", "asking", "starting"] if name == "broken" else []
            told = [hear(sessions[one]) for one in [*before, name]]
            for entries in told:
                entries[0]["epoch"] = 1.79e9
            wiretap.write_page(str(self.folder / f"{name}.html"), told)

    def open(self, name: str) -> None:
        """Open a page, and make the window narrow and then wide: nothing is cut off."""
        self.page.goto(f"file://{self.folder}/{name}.html")
        assert not self.complaints, self.complaints
        for width in WIDTHS:
            self.page.set_viewport_size({"width": width, "height": 900})
            wide = self.page.evaluate("document.documentElement.scrollWidth")
            assert wide <= width, f"{name}, {width}: {wide} px of content"

    def timed(self, act: Any) -> float:
        """Return how many milliseconds an action takes, until the page is drawn again."""
        began = time.perf_counter()
        act()
        self.page.evaluate("() => new Promise(requestAnimationFrame)")
        return 1000 * (time.perf_counter() - began)

    def check_speed(self) -> None:
        times = {"open": self.timed(lambda: self.open("large")),
                 "scroll": self.page.evaluate(SCROLL),
                 "filter": self.timed(lambda: self.page.locator("#notifications").check())}
        for what, taken in times.items():
            print(f"{LARGE} messages: {what} {taken:.0f} ms")
            assert taken < MOST[what], f"{what} is slow"

    def check_hostile_strings(self) -> None:
        """They are text, and never markup. Nothing that is not shown stays unescaped."""
        self.open("hostile")
        shown, title = self.page.text_content("body"), self.page.title()
        for text in (*HOSTILE[:5], "\\u202egnp.exe"):
            assert text in shown or json.dumps(text)[1:-1] in shown, f"not shown: {text}"
        assert not {*"\u202e\0\x1b"} & {*shown, *title}, "control characters are obeyed"
        assert title.endswith(" - wiretap"), "a hostile string was executed"
        assert self.page.locator("img, svg, script").count() == 0

    def check_use(self) -> None:
        self.open("broken")
        page, rows = self.page, self.page.locator(".session[open] .row")
        assert page.title().startswith("demo 1, 20"), page.title()
        assert page.locator(".session").count() == 4, "four sessions"
        assert page.locator(".session[open]").count() == 1, "the latest one is open"
        assert rows.count() == 25, rows.count()
        page.locator("#errors").check()
        assert page.locator(".session[open] .row:visible").count() == 3, "only errors"
        page.locator(".fault a").first.click()
        there = page.locator(".row:target")
        assert "searching 3 files" in there.text_content(), "the fault"
        assert there.is_visible() and there.bounding_box()["y"] < 900, "the fault is in sight"
        page.locator("#all").check()
        lost = rows.filter(has_text="given up after 1.5 s").first
        lost.locator("summary").click()
        assert lost.locator("pre").inner_text().startswith("{\n"), "the message is indented"
        colours = {page.locator(f".session[open] .row.{kind} b").first.evaluate(
            "one => getComputedStyle(one).color") for kind in ("result", "isError", "error")}
        assert len(colours) == 3, "isError looks like neither success nor an error"
        for number, words in ((1, "input_required"), (2, "3950.0 ms")):
            assert words in page.locator(".session").nth(3 - number).text_content(), words


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
        assert not window.complaints, window.complaints
        browser.close()
    print("the page opens without errors, hostile strings stay text, and nothing is cut off")
    return 0


if __name__ == "__main__":
    sys.exit(main())
