"""Types: hints become schemas, JSON becomes objects, objects become structured results.

Look at: `order` gets a Pizza with a Size inside, and returns a Bill. All faults of the
arguments are named at once. Annotated adds keywords of JSON Schema, or a description.
Try: a field of type Optional[str], one of bytes, a Literal for an Enum, count=True.

    python3 examples/02_types.py
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # see 01_hello.py

from mcp_ref import Client, Server

Count = Annotated[int, "how many of the same", {"minimum": 1}]
server = Server("pizzeria", "1.0")


class Size(Enum):
    SMALL = "small"
    LARGE = "large"


@dataclass
class Pizza:
    size: Size
    toppings: list[str]


@dataclass
class Bill:
    total: float


@server.tool
def order(pizza: Pizza, count: Count = 1) -> Bill:
    """Order pizzas."""
    base = 9.0 if pizza.size is Size.LARGE else 6.0
    return Bill(count * (base + len(pizza.toppings)))


if __name__ == "__main__":
    with Client(server) as client:  # in this very process
        print(client.list_tools()[0]["inputSchema"]["properties"]["count"])
        # -> {'type': 'integer', 'description': 'how many of the same', ...
        pizza = {"size": "large", "toppings": ["olives"]}
        bill = client.call_tool("order", {"pizza": pizza, "count": 2})
        print(bill["structuredContent"])  # -> {'total': 20.0}
        wrong = client.call_tool("order", {"pizza": {"size": "huge"}, "count": 0})
        print(wrong["content"][0]["text"].replace("; ", "\n"))
        # -> arguments.pizza.size: expected one of ['small', 'large'], got 'huge'
        # -> arguments.pizza: missing toppings
        # -> arguments.count: expected at least 1, got 0
