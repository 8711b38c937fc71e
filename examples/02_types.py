"""Type hints: a tool can take and return dataclasses, enums and lists.

The server derives a JSON Schema from the hints. Before a call it checks the arguments
and converts them: `order` gets a Pizza instance whose size is a member of Size.
Afterwards it converts the Bill into JSON, which the client gets as structuredContent.
If arguments are wrong, the result lists all faults.

Look at: the hint Count. Annotated adds a description, or keywords of JSON Schema.
Try: give Pizza a field with the hint bytes.

    python3 examples/02_types.py
"""

import sys
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # see 01_hello.py

from mcp_ref import Client, Server

Count = Annotated[int, "number of equal pizzas", {"minimum": 1}]
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
    price = 9.0 if pizza.size is Size.LARGE else 6.0
    return Bill(count * (price + len(pizza.toppings)))


if __name__ == "__main__":
    with Client(server) as client:  # the server runs in this process; see 08_testing.py
        print(client.list_tools()[0]["inputSchema"]["properties"]["count"])
        # -> {'type': 'integer', 'description': 'number of equal pizzas', ...
        pizza = {"size": "large", "toppings": ["olives"]}
        bill = client.call_tool("order", {"pizza": pizza, "count": 2})
        print(bill["structuredContent"])  # -> {'total': 20.0}
        wrong = client.call_tool("order", {"pizza": {"size": "huge"}, "count": 0})
        print(*sorted(wrong["content"][0]["text"].split("; ")), sep="\n")
        # -> arguments.count: minimum is 1, got 0
        # -> arguments.pizza.size: ...
        # -> arguments.pizza: missing toppings
