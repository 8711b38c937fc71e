"""Play transcripts of test_mcp_ref.py in CPython on WebAssembly: Pyodide, started by Node.

There are no threads: each job runs at once. What needs a second thread is counted, not played: our
client, code beside the lines, a tool that waits for another call, a question in the legacy era.
Node and npm have to be there; Pyodide is installed into .node/pyodide/.
"""
import asyncio
import os
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PACKAGE = "pyodide@314.0.7"  # CPython 3.14
LOAD = """import { loadPyodide } from "pyodide"
const python = await loadPyodide(), file = process.argv[1] + "/.ci/in_pyodide.py"
python.FS.mkdirTree(process.argv[1])
python.FS.mount(python.FS.filesystems.NODEFS, { root: process.argv[1] }, process.argv[1])
process.exitCode = python.runPython(`import runpy; runpy.run_path("${file}")["inside"]()`)"""


def inside() -> int:
    """Play the transcripts. This runs in Pyodide, and returns the exit status."""
    sys.dont_write_bytecode = True
    sys.path.insert(0, ROOT)
    import test_mcp_ref as suite

    def run(coroutine):  # type: ignore[no-untyped-def]
        try:
            coroutine.send(None)
        except StopIteration as end:
            return end.value

    asyncio.run = run  # asyncio's own function needs Node 24; no coroutine of the suite waits
    passed = left = failed = 0
    for one in suite.TRANSCRIPTS:
        waits = "client" in one.words or any(
            mark == "!" or '"hold"' in text for mark, text in one.steps)
        for revision in one.revisions:
            if waits or "offers" in one.words and revision in suite.LEGACY:
                left += 1
                continue
            end = suite.Memory(suite.SERVERS[one.server]())
            end.session = end.server.connect(end.lines.put, lambda job: job())
            try:
                suite.Play(one, revision, end, deadline=0.5).run()
                passed += 1
            except AssertionError as error:
                failed += 1
                print(f"{error}\n")
    print(f"Python {sys.version.split()[0]} in {PACKAGE}, transcripts times revisions: "
          f"{passed} passed, {failed} failed, {left} need threads")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    folder = os.path.join(ROOT, ".node", "pyodide")
    if not shutil.which("node") or not shutil.which("npm"):
        sys.exit(print("skipped in Pyodide: there is no node, or no npm"))
    os.makedirs(folder, exist_ok=True)
    if subprocess.call(["npm", "install", "--silent", "--prefix", ".", PACKAGE], cwd=folder):
        sys.exit(print(f"skipped in Pyodide: npm cannot install {PACKAGE}"))
    sys.exit(subprocess.call(["node", "--input-type=module", "-e", LOAD, ROOT], cwd=folder))
