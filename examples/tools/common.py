"""What cli.py, hosts.py, wiretap.py and judge.py share; it stands beside each of them.

Look at: escape, without which a server could control your terminal.
"""
from __future__ import annotations

import errno
import io
import os
import re
import shutil
import sys

# Control characters, line separators, lone surrogates, and the marks that change the
# direction of text, with which one URL can look like another.
CONTROL_CHARACTERS = ("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff"
                      "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def cut(argv: list[str]) -> tuple[list[str], list[str]]:
    """Return what stands before the first "--", and the command behind it."""
    split = argv.index("--") if "--" in argv else len(argv)
    return argv[:split], argv[split + 1:]


def found(command: list[str]) -> list[str]:
    """Return a command that can be started. Windows needs the whole name of npx.cmd."""
    if os.name != "nt":
        return command
    return [shutil.which(command[0]) or command[0], *command[1:]]


def accept_all_text() -> None:
    """Let stdout escape what its encoding lacks. Windows may have a small code page."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def escape(text: str, newline: str = "\\n") -> str:
    """Escape control characters, so that a server cannot control the terminal."""
    # ascii() gives '\x1b' with quotes.
    return newline.join(
        re.sub(CONTROL_CHARACTERS, lambda one: ascii(one[0])[1:-1], line)
        for line in text.split("\n"))


def reader_has_left(error: OSError) -> bool:
    """Tell whether nobody reads stdout any more, as after `| head`.

    If so, it now is the null device, because Python flushes it once more at its exit.
    Windows has EINVAL for a closed pipe.
    """
    left = error.errno in (errno.EPIPE, errno.EINVAL)
    if left:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return left
