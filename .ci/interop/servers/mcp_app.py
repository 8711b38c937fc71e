"""A server of ours with an MCP App: a tool whose result a host can show on a page of the server."""
from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from mcp_ref import Server  # noqa: E402

MIME_TYPE = "text/html;profile=mcp-app"
server = Server("app", "1.0", extensions={
    "io.modelcontextprotocol/ui": {"mimeTypes": [MIME_TYPE]}})


@server.tool(meta={"ui": {"resourceUri": "ui://chart/page.html"}})
def chart(value: int) -> str:
    """Show a value as a chart."""
    return f"The value is {value}."


@server.resource("ui://chart/page.html", mime_type=MIME_TYPE)
def page() -> str:
    """The page that shows the chart."""
    return "<!doctype html><title>Chart</title><p>A chart."


if __name__ == "__main__":
    server.run()
