"""One server that offers something of everything: `make conformance`, interop and soak talk to it.

What begins with test_ or test: are the fixtures that the official conformance suite asks for, by
its names and with its contents, many of which stand in everything.json; what does not is asked for
by interop and soak. No line here knows which revision is spoken, or over which transport.
"""
from __future__ import annotations

import base64
import itertools
import json
import sys
import time
from pathlib import Path
from typing import Annotated, Any, Callable, Optional

# The module lies beside this folder: found so from any working directory.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from mcp_ref import Context, Server, image  # noqa: E402

Json = dict[str, Any]
TEXT = Path(__file__).with_suffix(".json").read_text(encoding="utf-8")
DATA: Json = json.loads(TEXT.replace("$png", json.loads(TEXT)["png"]))
PNG, ICON = base64.b64decode(DATA["png"]), DATA["icon"]  # one red pixel

server = Server("everything", "1.0", title="Everything", page_size=100,  # more than there is
                instructions="Something of every feature, one small tool for each.")


def embedded(uri: str, mime_type: str, text: str) -> Json:
    """Build a block that carries the text of a resource."""
    return {"type": "resource", "resource": {"uri": uri, "mimeType": mime_type, "text": text}}


# --- Tools: what they return, and what they take ------------------------------------------------



def returning(content: Any) -> Callable[[], Any]:
    return lambda: content


for name, content in DATA["contents"].items():
    server.tool(name=name, description="Return always the same.", icons=[ICON])(returning(content))


@server.tool
def test_error_handling() -> None:
    """Fail: a result with isError."""
    raise RuntimeError("This tool intentionally returns an error for testing")


@server.tool(input_schema=DATA["schema"])
def json_schema_2020_12_tool(name: str = "", address: Optional[Json] = None,
                             contactMethod: str = "", phone: str = "", email: str = "") -> str:
    """Take what a hand-written schema allows: it is listed as it is, and enforced."""
    return f"{name or 'somebody'}: {phone or email}"


@server.tool(input_schema={"type": "object", "properties": {
    "region": {"type": "string", "x-mcp-header": "Region"}}})
def test_x_mcp_header(region: str = "") -> str:
    """Take an argument that HTTP repeats in a header; other transports do not care."""
    return f"region: {region}"


# --- Tools: what happens while they run ---------------------------------------------------------


@server.tool
def test_tool_with_progress(ctx: Context) -> str:
    """Report progress, to a client that asked for it."""
    for done in (0, 50, 100):
        ctx.progress(done, 100, f"{done} of 100")
        time.sleep(0.05)
    return "Tool with progress completed"


@server.tool
def test_tool_with_logging(ctx: Context) -> str:
    """Write to the client's log."""
    for step in ("execution started", "processing data", "execution completed"):
        ctx.log("info", f"Tool {step}", logger="everything")
        time.sleep(0.05)
    return "Tool with logging completed"


@server.tool
def test_logging_tool(ctx: Context) -> str:
    """Write to the log; nothing goes out to a client that did not ask for a level."""
    ctx.log("info", {"event": "test_logging_tool was called"})
    return f"Logged, if {ctx.client_info.get('name')} wants to know"


@server.tool
def wait(seconds: float, ctx: Context) -> str:
    """Wait, and stop waiting when the call is cancelled."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and not ctx.cancelled:
        time.sleep(0.01)
    return f"waited {seconds} s"


@server.tool
def test_reconnection(ctx: Context) -> str:
    """Let the stream of this call end early: the result is fetched over another one."""
    let_go = getattr(ctx.sink, "let_go", None)  # only HTTP has it
    if let_go is not None:
        let_go()
    time.sleep(0.2)
    return "Reconnection test completed"


# --- Tools: asking the user, the model and the client -------------------------------------------
# The same lines serve both eras: a request that is waited for, or a result that asks and a second
# call that brings the answers. A key names a question there.


def question(name: str, words: str = "") -> Any:
    """Build a question for the user (a form), for the model (a text), or for the roots; words
    stand in the place of "$", or are the text."""
    if name in DATA["forms"]:
        form = DATA["forms"][name]
        return "elicitation/create", {
            "message": form["message"].replace("$", words), "requestedSchema": {
                "type": "object", "properties": form["fields"], "required": form["required"]}}
    if name == "roots":
        return "roots/list", {}
    content = {"type": "text", "text": words or DATA["samples"][name]}
    return "sampling/createMessage", {
        "messages": [{"role": "user", "content": content}], "maxTokens": 100}


def asking(**questions: Any) -> Callable[[Context], str]:
    def ask(ctx: Context) -> str:
        return f"state-ok: {json.dumps(ctx.ask(questions))}"

    return ask


for name, keys in DATA["asking"].items():
    server.tool(name=name, description="Ask, and return the answers.")(
        asking(**{key: question(asked) for key, asked in keys.items()}))


@server.tool
def test_input_required_result_capabilities(ctx: Context) -> str:
    """Ask only what the client has said it can answer."""
    possible = {"elicitation": "name", "sampling": "greeting", "roots": "roots"}
    return asking(**{key: question(name) for key, name in possible.items()
                     if key in ctx.client_capabilities})(ctx)


@server.tool
def test_input_required_result_multi_round(ctx: Context) -> str:
    """Ask twice: the second question is only known after the first answer."""
    first = ctx.ask({"step1": question("name")})["step1"]
    return asking(step2=question(
        "step2", first.get("content", {}).get("name", "stranger")))(ctx)


@server.tool
def test_elicitation(message: str, ctx: Context) -> str:
    """Have the user fill in a form."""
    return asking(form=question("user", message))(ctx)


@server.tool
def test_sampling(prompt: str, ctx: Context) -> str:
    """Have the client's model answer a prompt."""
    return asking(answer=question("", prompt))(ctx)


@server.tool
def test_streaming_elicitation(ctx: Context) -> str:
    """Report progress, then ask."""
    ctx.progress(1, 2, "about to ask")
    return asking(confirm=question("confirm"))(ctx)


# --- Tools: what changes while clients look on --------------------------------------------------

serials = itertools.count(1)  # two calls at once must not register the same name


PASSING: dict[str, Any] = {  # tool: how it adds something, and takes it away again
    "test_trigger_tool_change": (
        lambda name: server.tool(name=name, description="?"), server.remove_tool),
    "test_trigger_prompt_change": (
        lambda name: server.prompt(name=name, description="?"), server.remove_prompt),
    "trigger_resource_change": (
        lambda uri: server.resource(uri, name="passing", description="?"), server.remove_resource),
}


def changing(add: Any, remove: Any) -> Callable[[], str]:
    def change() -> str:
        name = f"test://passing/{next(serials)}"
        add(name)(returning(name))
        remove(name)
        return "The list has changed, and changed back"

    return change


for name, ways in PASSING.items():
    server.tool(name=name, description="Have list_changed go out.")(changing(*ways))


@server.tool
def touch_watched_resource() -> str:
    """Announce an update of the watched resource, to those who subscribed to it."""
    server.resource_updated("test://watched-resource")
    return "Those who watch it were told"


# --- Resources, prompts, completion -------------------------------------------------------------


@server.resource("test://static-text", title="Static text", icons=[ICON],
                 annotations={"audience": ["user", "assistant"], "priority": 0.5})
def static_text() -> str:
    """A text that does not change."""
    return "This is the content of the static text resource."


@server.resource("test://static-binary", mime_type="image/png")
def static_binary() -> bytes:
    """An image of one pixel."""
    return PNG


@server.resource("test://watched-resource")
def watched_resource() -> str:
    """A resource to subscribe to; touch_watched_resource announces an update."""
    return "This resource can be watched."


@server.resource("test://template/{id}/data", mime_type="application/json")
def template_data(id: str) -> Json:
    """The data of one id."""
    return {"id": id, "templateTest": True, "data": f"Data for ID: {id}"}


@server.prompt(title="A simple prompt", icons=[ICON])
def test_simple_prompt() -> str:
    """A prompt without arguments."""
    return "This is a simple prompt for testing."


@server.prompt
def test_prompt_with_arguments(arg1: Annotated[str, "the first value"],
                               arg2: Annotated[str, "the second value"]) -> str:
    """A prompt with two arguments."""
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@server.prompt
def test_prompt_with_embedded_resource(resourceUri: str) -> list[Any]:
    """A prompt that brings a resource along."""
    resource = {"uri": resourceUri, "mimeType": "text/plain",
                "text": "Embedded resource content for testing."}
    return [{"type": "resource", "resource": resource},
            "Please process the embedded resource above."]


@server.prompt
def test_prompt_with_image() -> list[Any]:
    """A prompt that brings an image along."""
    return [image(PNG, "image/png"), "Please analyze the image above."]


@server.prompt
def test_input_required_result_prompt(ctx: Context) -> str:
    """A prompt that asks its user first."""
    return asking(user_context=question("context"))(ctx)


def suggesting(words: dict[str, list[str]]) -> Any:
    """Suggest words: others once the first argument is chosen."""
    return lambda value, others: [word for word in words.get(others.get("arg1", ""), words[""])
                                  if word.startswith(value)]


for name, words in DATA["suggestions"].items():
    server.completion("test_prompt_with_arguments", name)(suggesting(words))


@server.completion("test://template/{id}/data", "id")
def complete_id(value: str, others: dict[str, str]) -> list[str]:
    """Suggest ids: more than one answer may carry, so that hasMore is true."""
    return [str(number) for number in range(1000) if str(number).startswith(value)]


if __name__ == "__main__":
    server.run()
