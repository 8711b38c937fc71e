"""Compare the public signatures of two editions of mcp_ref.py, one difference a line.

    python3 .ci/signatures.py OLD NEW                   paths of two module files
    python3 .ci/signatures.py OLD NEW --changelog FILE  each difference needs a line there
    --pages FILE ...                                    instead of README, MANUAL and two examples

Public are the names of __all__, and the members of public classes that the pages name, or, if they
are methods, the docstring of the class in one of the editions. Give the pages of an older edition
as well, because they promise what its module has. A line of the changelog names a difference if
it has all its words; only the first section of the changelog counts. The exit status is 1 if a
line is missing.
"""
from __future__ import annotations

import argparse
import ast
import importlib.util
import inspect
import re
import sys
from pathlib import Path
from typing import Any, Iterator

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *(ROOT / "examples" / name for name in (
    "MANUAL.md", "09_transport.py", "13_acp.py"))]
Signatures = dict[str, str]  # name, such as "Client.ping" or "Client(timeout)": what it is


def load(path: Path, name: str) -> Any:
    """Import a module file under a name that no other module has."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def words_of(pages: list[Path]) -> set[str]:
    """Return the names in the code of some pages: "list_tools", "client.trace"."""
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    code = "\n".join(re.findall(r"(?ms)^```.*?^```|`[^`]+`|^    .*?$", text))
    return {*re.findall(r"\w+\.[a-z]\w*", code), *re.findall(r"(?:`|\.|\b(?=[A-Z]))(\w+)\(", code)}


def attributes_of(path: Path) -> dict[str, set[str]]:
    """Return the attributes that the methods of each class set: {class: names}."""
    found: dict[str, set[str]] = {}
    for owner in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(owner, ast.ClassDef):
            found[owner.name] = {
                node.attr for node in ast.walk(owner) if isinstance(node, ast.Attribute)
                and isinstance(node.ctx, ast.Store) and getattr(node.value, "id", "") == "self"}
    return found


def parameters_of(name: str, function: Any) -> Iterator[tuple[str, str]]:
    """Yield the parameters of a function or class as (name, what it is)."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # a class that inherits a constructor written in C
        return
    for parameter in parameters:
        if parameter.name != "self" and not parameter.name.startswith("_"):
            what = f"a {parameter.kind.description} parameter"
            default = parameter.default
            if isinstance(default, (type(None), int, float, str)):
                what += f" with the default {default!r}"
            elif default is not parameter.empty:
                what += f" with a {type(default).__name__} as its default"
            yield f"{name}({parameter.name})", what


def members_of(owner: Any, attributes: dict[str, set[str]], words: set[str]) -> Iterator[str]:
    """Yield the names of the documented members of a class, except fields of a tuple.

    The pages name an attribute behind the last word of its class, as in `client.trace`.
    """
    object_name = re.findall(r"[A-Z][a-z]+", owner.__name__)[-1].lower()
    names = set(dir(owner)).difference(*(dir(base) for base in (object, *owner.__mro__)
                                         if base.__module__ == "builtins"))
    names = names.union(*(attributes.get(base.__name__, set()) for base in owner.__mro__))
    for name in sorted(names.difference(getattr(owner, "_fields", ()))):
        codes = {f"{object_name}.{name}"}
        if callable(getattr(owner, name, None)):
            codes |= {name, f"{owner.__name__}: {name}"}
        if not name.startswith("_") and codes & words:
            yield name


def prose_of(module: Any) -> set[str]:
    """Return the words of the docstrings of the classes, such as "Client: ping"."""
    return {f"{name}: {word}" for name, value in vars(module).items() if isinstance(value, type)
            for word in re.findall(r"\w+", value.__doc__ or "")}


def signatures_of(module: Any, words: set[str]) -> Signatures:
    """Return the public names of a module, with what each of them is."""
    attributes = attributes_of(Path(module.__file__))
    found: Signatures = {}
    for public in dict.fromkeys([*module.__all__, "HINTS"]):
        value = getattr(module, public, None)
        if isinstance(value, type):
            found[public] = "a class"
            if public in words:  # the pages create objects of it
                found.update(parameters_of(public, value))
            for member in members_of(value, attributes, words):
                attribute = getattr(value, member, None)
                full_name = f"{public}.{member}"
                found[full_name] = "a method" if callable(attribute) else "an attribute"
                if inspect.isfunction(attribute):
                    found.update(parameters_of(full_name, attribute))
        elif inspect.isfunction(value):
            found[public] = "a function"
            found.update(parameters_of(public, value))
        elif value is not None:
            found[public] = repr(value) if type(value) is int else "a value"
    return found


def differences(old: Signatures, new: Signatures) -> Iterator[tuple[str, str]]:
    """Yield (name, what has changed), without the members of what is gone or new."""
    for name in sorted({*old, *new}):
        owner = re.sub(r"[.(]\w+\)?$", "", name)
        if name not in new:
            if owner == name or owner in new:
                yield name, "is gone"
        elif name not in old:
            if owner == name or owner in old:
                yield name, f"is new: {new[name]}"
        elif old[name] != new[name]:
            yield name, f"was {old[name]}, is {new[name]}"


def is_named(name: str, changelog: str) -> bool:
    """Tell whether a line of the first section of a changelog has all words of a name."""
    section = re.split(r"(?m)^## ", changelog)[1]
    words = set(re.findall(r"\w+", name))
    return any(words <= set(re.findall(r"\w+", line)) for line in section.splitlines())


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--changelog", type=Path)
    parser.add_argument("--pages", type=Path, nargs="+", default=PAGES)
    chosen = parser.parse_args()
    old, new = load(chosen.old, "old_edition"), load(chosen.new, "new_edition")
    words = words_of(chosen.pages) | prose_of(old) | prose_of(new)
    missing = 0
    for name, change in differences(signatures_of(old, words), signatures_of(new, words)):
        text = f"{name} {change}"
        if chosen.changelog and not is_named(name, chosen.changelog.read_text(encoding="utf-8")):
            missing += 1
            text += "  (not in the changelog)"
        print(text)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
