"""A server that has one tool for each type hint that a parameter can have.

The tools do nothing useful. test_hosts.py checks which hosts would object to their
schemas. Look at them in any client to see what it makes of them.

    python3 examples/tools/cli.py inspect -- python3 examples/tools/every_hint.py
"""
from __future__ import annotations

import sys
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import (
    Annotated, Any, Dict, List, Literal, Optional, Tuple, TypedDict, Union)

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # see 01_hello.py

from mcp_ref import Server  # noqa: E402


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Level(Enum):
    LOW = 1
    HIGH = 2


class Point(TypedDict):
    """A point."""
    x: float
    y: float


class Label(TypedDict, total=False):
    text: str
    size: Optional[int]


@dataclass
class Book:
    """A book."""
    title: str
    year: Optional[int] = None
    tags: List[str] = field(default_factory=list)


HINTS: Dict[str, Any] = {  # the name of a tool: the hint of its parameter
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "none": None,
    "any": Any,
    "bare_list": list,
    "bare_dict": dict,
    "list_of_any": List[Any],
    "list_of_integers": List[int],
    "list_of_lists": List[List[str]],
    "list_of_books": List[Book],
    "tuple_of_any_length": Tuple[str, ...],
    "dict_of_integers": Dict[str, int],
    "dict_of_points": Dict[str, Point],
    "optional_without_default": Optional[int],
    "union": Union[int, str],
    "union_of_lists": Union[List[int], List[str]],
    "literal_strings": Literal["a", "b"],
    "literal_integers": Literal[1, 2],
    "literal_mixed": Literal["auto", 1],
    "enum_of_strings": Colour,
    "enum_of_integers": Level,
    "typed_dict": Point,
    "typed_dict_with_optional": Label,
    "dataclass": Book,
    "annotated": Annotated[int, "a page number", {"minimum": 1}],
}
DEFAULTS: Dict[str, Any] = {  # the name of a tool: the hint and the default
    "default": (int, 5),
    "default_list": (List[int], [1, 2]),
    "default_enum": (Colour, Colour.RED),
    "optional": (Optional[int], None),
    "optional_list": (Optional[List[str]], None),
    "optional_union": (Union[int, str, None], None),
    "optional_enum": (Optional[Colour], None),
    "optional_book": (Optional[Book], None),
    "optional_with_default": (Optional[int], 5),
}
server = Server("every-hint", "1.0")


def add_tool(name: str, hint: Any, *default: Any) -> None:
    """Register a tool with one parameter, whose name is value."""
    def tool(value: Any) -> str:
        return f"{name}: {value!r}"

    tool.__annotations__ = {"value": hint, "return": str}
    tool.__doc__ = f"Return a parameter of the kind {name}."
    tool.__defaults__ = default
    server.tool(name=name)(tool)


for tool_name, its_hint in HINTS.items():
    add_tool(tool_name, its_hint)
for tool_name, hint_and_default in DEFAULTS.items():
    add_tool(tool_name, *hint_and_default)


@server.tool
def no_parameters() -> Point:
    """Return a point. The hint of the result becomes an outputSchema."""
    return {"x": 1.0, "y": 2.0}


@server.tool
def no_hint(value) -> Book:  # type: ignore[no-untyped-def]
    """Return a book, in which the year can be null."""
    return Book(str(value))


if __name__ == "__main__":
    server.run()
