"""Check that each part of mcp_ref.py only adds to the parts before it.

    python3 .ci/layers.py [FILE]

No cut uses a module-level name that only a later part has: not in a function that runs later, and
not in a type hint. (mypy, which checks each cut, also reads hints in quotes. Nothing checks
attributes such as `session.server`.) A later part does not assign a name of an earlier part again,
and does not set an attribute of an earlier class. It overrides only the members of earlier classes
that ALLOWED lists.

The exit status is 1 if a part breaks one of these rules, and 2 if the module has no parts.
"""
from __future__ import annotations

import ast
import builtins
import os
import symtable
import sys
from typing import Iterator, NamedTuple

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from cuts import Cut, read_cuts  # noqa: E402

# (class of a later part, class of an earlier part): the members that the later class overrides
ALLOWED: dict[tuple[str, str], set[str]] = {
    ("SharedOutbox", "Outbox"): {"__init__", "flush", "put"},
    ("ThreadedResponder", "Responder"): {"__init__", "close", "complain", "compute",
                                         "incoming_type", "outbox_type", "start_job"},
    ("ThreadedServer", "ToolServer"): {"__init__", "connect", "run", "session_type"},
    ("Requester", "Responder"): {"handle_response", "refuse"},
    ("Requester", "ThreadedResponder"): {"close"},
    ("Peer", "Responder"): {"admit_request", "handle_notification"},
    ("Peer", "ThreadedResponder"): {"__init__"},
    ("McpPeer", "Responder"): {"has_batches"},
    ("Context", "ToolContext"): {"prepare"},
    ("AskingSession", "ThreadedResponder"): {"__init__"},
    ("AskingSession", "ThreadedSession"): {"incoming_type"},
    ("AskingSession", "ToolSession"): {"compute_modern"},
    ("AskingServer", "ThreadedServer"): {"__init__", "session_type"},
    ("ChangingServer", "AskingServer"): {"__init__", "session_type"},
    ("ChangingServer", "ThreadedServer"): {"connect"},
    ("ChangingServer", "ToolServer"): {"changed"},
    ("ServerSession", "AskingSession"): {"__init__"},
    ("ServerSession", "Requester"): {"close"},
    ("ServerSession", "ToolSession"): {"open_stream"},
    ("Server", "ChangingServer"): {"__init__"},
    ("Server", "ToolServer"): {"page"},
    ("ClientRequests", "Requests"): {"prepare"},
    ("ClientSession", "McpPeer"): {"handle_notification", "requests_type"},
    ("ClientSession", "Peer"): {"__init__", "admit_request"},
    ("ClientSession", "Requester"): {"refuse"},
    ("ForeignSchema", "Schema"): {"__init__", "faults", "trusted"},
}


class Statement(NamedTuple):
    """A statement of the module that is not inside of another one."""
    node: ast.stmt
    part: int
    bound: set[str]  # the module-level names that it assigns or defines


def symbols_of(source: str) -> symtable.SymbolTable:
    """Return the compiler's table of names. Without the import, it has those of type hints."""
    source = source.replace("from __future__ import annotations\n", "\n")
    return symtable.symtable(source, "module", "exec")


def names_of(table: symtable.SymbolTable, top: bool = True) -> Iterator[str]:
    """Yield the names that are used in a table or below, and are not local there."""
    for symbol in table.get_symbols():
        if symbol.is_referenced() and (top or symbol.is_global()):
            yield symbol.get_name()
    for child in table.get_children():
        yield from names_of(child, False)


def bound_names(table: symtable.SymbolTable) -> set[str]:
    return {one.get_name() for one in table.get_symbols()
            if one.is_assigned() or one.is_namespace()}


def loop_names(statement: ast.stmt) -> set[str]:
    """Return the variables of comprehensions. From Python 3.12 on, symtable counts them as names
    of the module."""
    return {name.id for loop in ast.walk(statement) if isinstance(loop, ast.comprehension)
            for name in ast.walk(loop.target) if isinstance(name, ast.Name)}


def missing_names(cut: Cut) -> Iterator[str]:
    table = symbols_of(cut.text)
    imported = {one.get_name() for one in table.get_symbols() if one.is_imported()}
    known = {*bound_names(table), *imported, *dir(builtins), "__file__",
             "__conditional_annotations__"}  # Python makes the last one, from 3.14 on
    for name in sorted({*names_of(table)} - known):
        yield f"the cut after part {cut.number} uses {name}, which it does not have"


def statements(cuts: list[Cut]) -> list[Statement]:
    found: list[Statement] = []
    for cut in cuts:
        found += [Statement(node, cut.number,
                            bound_names(symbols_of(ast.unparse(node))) - loop_names(node))
                  for node in ast.parse(cut.text).body[len(found):]]
    return found


def replacements(found: list[Statement]) -> Iterator[str]:
    """Find names of earlier parts, and attributes of them, that a later part assigns.

    A name such as _method may be the variable of two loops.
    """
    where: dict[str, int] = {}
    for stmt in found:
        for name in sorted(stmt.bound):
            if where.setdefault(name, stmt.part) < stmt.part and not name.startswith("_"):
                yield (f"line {stmt.node.lineno}: part {stmt.part} assigns {name} of part "
                       f"{where[name]} again")
        targets = getattr(stmt.node, "targets", [getattr(stmt.node, "target", None)])
        for target in targets:
            if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and (
                    where.get(target.value.id, stmt.part) < stmt.part):
                yield (f"line {stmt.node.lineno}: part {stmt.part} sets {target.value.id}."
                       f"{target.attr} of part {where[target.value.id]}")


class Class(NamedTuple):
    """A class of the module."""
    part: int
    members: set[str]
    bases: list[str]


def read_classes(found: list[Statement]) -> dict[str, Class]:
    classes = {}
    for stmt in found:
        if isinstance(stmt.node, ast.ClassDef):
            members = set()
            for inner in stmt.node.body:
                if isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                    members.add(inner.name)
                targets = getattr(inner, "targets", [getattr(inner, "target", None)])
                members |= {one.id for one in targets if isinstance(one, ast.Name)}
            bases = [one.id for base in stmt.node.bases for one in ast.walk(base)
                     if isinstance(one, ast.Name)]
            classes[stmt.node.name] = Class(stmt.part, members - {"__slots__"}, bases)
    return classes


def ancestors(name: str, classes: dict[str, Class]) -> Iterator[str]:
    """Yield the classes of the module that a class inherits from, the nearest ones first."""
    bases = [base for base in classes[name].bases if base in classes and base != name]
    yield from bases
    for base in bases:
        yield from ancestors(base, classes)


def overrides(classes: dict[str, Class]) -> dict[tuple[str, str], set[str]]:
    """Return what classes override of those of earlier parts, in the form of ALLOWED."""
    found: dict[tuple[str, str], set[str]] = {}
    for name, one in classes.items():
        left = set(one.members)
        for base in ancestors(name, classes):
            replaced = left & classes[base].members
            left -= replaced
            if replaced and classes[base].part < one.part:
                found.setdefault((name, base), set()).update(replaced)
    return found


def faults_of(cuts: list[Cut], allowed: dict[tuple[str, str], set[str]] = ALLOWED) -> list[str]:
    """Return what is wrong with the parts of a module."""
    found = statements(cuts)
    classes = read_classes(found)
    faults = [fault for cut in cuts for fault in missing_names(cut)]
    faults += replacements(found)
    real = overrides(classes)
    for pair in sorted({*real, *allowed}):
        name, base = pair
        for member in sorted(real.get(pair, set()) - allowed.get(pair, set())):
            faults.append(f"part {classes[name].part}: {name} overrides {base}.{member} of part "
                          f"{classes[base].part}, which ALLOWED does not list")
        for member in sorted(allowed.get(pair, set()) - real.get(pair, set())):
            faults.append(f"ALLOWED: {name} does not override {base}.{member}")
    return faults


def main(arguments: list[str]) -> int:
    cuts = read_cuts(*arguments)
    if not cuts:
        print("the module has no parts: no line begins with '# Part 1: '")
        return 2
    classes = read_classes(statements(cuts))
    for (name, base), members in overrides(classes).items():
        print(f"{name} (part {classes[name].part}) overrides {', '.join(sorted(members))} of "
              f"{base} (part {classes[base].part})")
    faults = faults_of(cuts)
    print(*faults, f"{len(cuts)} parts: {len(faults)} faults", sep="\n")
    return 1 if faults else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except ValueError as error:
        sys.exit(f"layers.py: {error}")
