"""A server of ours with an MCP App: a tool whose result a host can show on a page of the server."""
from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from mcp_ref import Result, Server  # noqa: E402

URI = "ui://chart/page.html"
MIME_TYPE = "text/html;profile=mcp-app"
PAGE = "<!doctype html><title>Chart</title><p>A chart."
server = Server("app", "1.0", extensions={
    "io.modelcontextprotocol/ui": {"mimeTypes": [MIME_TYPE]}})


@server.tool(meta={"ui": {"resourceUri": URI}})
def chart(value: int) -> str:
    """Show a value as a chart."""
    return f"The value is {value}."


@server.resource(URI, mime_type=MIME_TYPE)
def page() -> Result:
    """The page that shows the chart. Its _meta says how to show the page."""
    return Result({"contents": [{"uri": URI, "mimeType": MIME_TYPE, "text": PAGE,
                                 "_meta": {"ui": {"prefersBorder": True}}}]})


if __name__ == "__main__":
    server.run()
