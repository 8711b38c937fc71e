"""Run all tests with a CPython for Windows, under Wine. Linux on x86-64 only.

    python3 .ci/windows.py                  all tests, as .ci/tests.py runs them
    python3 .ci/windows.py ARGUMENT ...     run this Python with the arguments instead

The first run builds .wine/ from parts: the DLLs of CPython come from a wheel on PyPI that carries
them (panda3d), the library in Python from the Python 3.11 that runs this script, and python.exe is
compiled here. That takes ten seconds and a download of 65 MB.

Wine is not Windows: a test that fails here may pass there. It is a fault of the project if the
manual of Python or of Windows says so, too.
"""
from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import threading
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / ".wine"
PYTHON = HOME / "python"
WHEEL = "panda3d==1.10.16"
VERSION = "3.11"  # of the DLLs in the wheel
COMPILER = "x86_64-w64-mingw32-gcc"
DEADLINE = 1200  # seconds; if wineserver dies, the programs that use it may hang
INSTALL = "apt-get install --no-install-recommends wine wine64 gcc-mingw-w64-x86-64"
ENV = {**os.environ, "WINEPREFIX": str(HOME / "prefix"), "WINEARCH": "win64",
       "WINEDEBUG": "-all", "WINEDLLOVERRIDES": "mscoree,mshtml="}  # neither .NET nor a browser
# The library in Python, without what needs a display, is a test, or belongs to Linux.
LEFT_OUT = ("site-packages", "dist-packages", "lib-dynload", "__pycache__", "test", "tests",
            "idlelib", "turtledemo", "ensurepip", "config-*", "_sysconfigdata*", "*.so", "*.a")
PROGRAM = r"""
#include <stdio.h>
#include <windows.h>

int wmain(int count, wchar_t **words)
{
    /* A console program says so to the C library. Otherwise dup2() would change the descriptors 0
       to 2, but not the standard handles, which child processes inherit. mingw links this program
       with an older C library than the one that Python uses. */
    HMODULE library = LoadLibraryW(L"ucrtbase.dll");
    void (*set_kind)(int) = (void *)GetProcAddress(library, "_set_app_type");
    HMODULE python = LoadLibraryW(L"python311.dll");
    int (*run)(int, wchar_t **) = (void *)GetProcAddress(python, "Py_Main");
    if (set_kind == NULL || run == NULL) {
        fprintf(stderr, "python.exe: error %lu\n", GetLastError());
        return 1;
    }
    set_kind(1);
    return run(count, words);
}
"""


def find(what: str, *names: str) -> str:
    """Return the path of a program. End this one if there is none."""
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        sys.exit(f"cannot run the tests under Wine: there is no {what}. {INSTALL}")
    return found


def build(compiler: str) -> None:
    """Build the Python for Windows."""
    if "%d.%d" % sys.version_info[:2] != VERSION:
        sys.exit(f"the Python for Windows shares the library of Python {VERSION}: "
                 f"make windows PYTHON=python{VERSION}")
    shutil.rmtree(PYTHON, ignore_errors=True)
    (PYTHON / "DLLs").mkdir(parents=True)
    print(f"building {PYTHON}", flush=True)
    subprocess.run(
        [compiler, "-O1", "-municode", "-x", "c", "-", "-o", PYTHON / "python.exe"],
        input=PROGRAM.encode(), check=True)
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:",
         "--platform", "win_amd64", "--python-version", VERSION, "--dest", HOME, WHEEL], check=True)
    wheel = next(HOME.glob("panda3d-*.whl"))
    with zipfile.ZipFile(wheel) as archive:
        for member in map(Path, archive.namelist()):
            # api-ms-win-*.dll are parts of Windows. Wine has its own.
            if member.parent.name == "deploy_libs" and member.suffix in (".dll", ".pyd") and (
                    not member.name.startswith("api-ms-")):
                is_core = member.name.lower().startswith(("python3", "vcruntime"))
                folder = PYTHON if is_core else PYTHON / "DLLs"
                (folder / member.name).write_bytes(archive.read(str(member)))
    wheel.unlink()
    shutil.copytree(sysconfig.get_path("stdlib"), PYTHON / "Lib",
                    ignore=shutil.ignore_patterns(*LEFT_OUT))
    (PYTHON / "complete").touch()


def main(arguments: list[str]) -> int:
    if sys.platform != "linux":
        sys.exit("cannot run the tests under Wine: this is not Linux")
    wine = find("Wine", "wine64", "/usr/lib/wine/wine64", "wine")
    server = find("wineserver", "wineserver", "/usr/lib/wine/wineserver64")
    if not (PYTHON / "complete").exists():
        build(find("compiler for Windows", COMPILER))
    # The services of Wine start first, with other streams: they would hold the pipe below open.
    (HOME / "prefix").mkdir(exist_ok=True)
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL,
             "stderr": subprocess.DEVNULL, "env": ENV}
    subprocess.run([server, "-p"], **quiet)
    try:
        subprocess.run([wine, "wineboot"], **quiet)
        # With a file of Linux as its stdout, this Python does not start. So it gets a pipe.
        with subprocess.Popen(
                [wine, PYTHON / "python.exe", *(arguments or [".ci/tests.py"])], cwd=ROOT, env=ENV,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, start_new_session=True) as python:
            deadline = threading.Timer(DEADLINE, os.killpg, [python.pid, signal.SIGKILL])
            deadline.daemon = True
            deadline.start()
            for line in python.stdout:
                sys.stdout.write(line.decode("utf-8", "replace").replace("\r\n", "\n"))
                sys.stdout.flush()
            deadline.cancel()
        return python.returncode
    finally:
        subprocess.run([server, "-k"], **quiet)  # of this prefix only


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
