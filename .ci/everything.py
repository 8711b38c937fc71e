"""A server with something of every feature, for `make conformance`, `make interop` and `make soak`.

The official conformance suite asks for everything whose name begins with test_ or test:, and for
its contents. The rest is for interop and soak. No line here depends on the revision or the
transport.
"""
from __future__ import annotations

import base64
import itertools
import json
import sys
import time
from pathlib import Path
from typing import Annotated, Any, Callable, Dict, List, Optional, Tuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from mcp_ref import Context, Result, Server, audio, image, text  # noqa: E402

Json = Dict[str, Any]
Question = Tuple[str, Json]  # a method and its params
STRING = {"type": "string"}
PNG = base64.b64decode(  # one red pixel
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJg"
    "gg==")
WAV = base64.b64decode("UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=")
ICON = {"src": "https://example.com/icon.png", "mimeType": "image/png"}
UI_PAGE, UI_TYPE = "ui://chart/page.html", "text/html;profile=mcp-app"
SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {"address": {"$anchor": "addressDef", "type": "object",
                          "properties": {"street": STRING, "city": STRING}}},
    "properties": {
        "name": STRING, "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": STRING, "email": STRING},
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}

server = Server(
    "everything", "1.0", title="Everything", page_size=100,  # each list fits on one page
    instructions="Something of every feature, one small tool for each.",
    extensions={"io.modelcontextprotocol/ui": {"mimeTypes": [UI_TYPE]}})


# --- Tools: what they return, and what they take ------------------------------------------------


def embedded(uri: str, mime_type: str, content: str) -> Json:
    """Build a block that contains the text of a resource."""
    return {"type": "resource", "resource": {"uri": uri, "mimeType": mime_type, "text": content}}


def returning(content: Any) -> Callable[[], Any]:
    return lambda: content


CONTENTS: Dict[str, Any] = {  # tool: its result
    "test_simple_text": "This is a simple text response for testing.",
    "test_image_content": image(PNG, "image/png"),
    "test_audio_content": audio(WAV, "audio/wav"),
    "test_embedded_resource": embedded(
        "test://embedded-resource", "text/plain", "This is an embedded resource content."),
    "test_multiple_content_types": [
        text("Multiple content types test:"), image(PNG, "image/png"),
        embedded("test://mixed-content-resource", "application/json",
                 '{"test":"data","value":123}')],
}
for name, content in CONTENTS.items():
    server.tool(name=name, description="Always return the same.", icons=[ICON])(returning(content))


@server.tool
def test_error_handling() -> None:
    """Fail: a result with isError."""
    raise RuntimeError("This tool intentionally returns an error for testing")


@server.tool(input_schema=SCHEMA)
def json_schema_2020_12_tool(name: str = "", address: Optional[Json] = None,
                             contactMethod: str = "", phone: str = "", email: str = "") -> str:
    """Take what a hand-written schema allows."""
    return f"{name or 'somebody'}: {phone or email}"


@server.tool(input_schema={"type": "object", "properties": {
    "region": {"type": "string", "x-mcp-header": "Region"}}})
def test_x_mcp_header(region: str = "") -> str:
    """Take an argument that HTTP repeats in a header."""
    return f"region: {region}"


@server.tool(meta={"ui": {"resourceUri": UI_PAGE}})
def chart(value: int) -> str:
    """Show a value on the page of an MCP App."""
    return f"The value is {value}."


# --- Tools: what happens while they run ---------------------------------------------------------


@server.tool
def test_tool_with_progress(ctx: Context) -> str:
    """Report progress."""
    for done in (0, 50, 100):
        ctx.progress(done, 100, f"{done} of 100")
        time.sleep(0.05)
    return "Tool with progress completed"


@server.tool
def test_tool_with_logging(ctx: Context) -> str:
    """Write three messages to the client's log."""
    for step in ("execution started", "processing data", "execution completed"):
        ctx.log("info", f"Tool {step}", logger="everything")
        time.sleep(0.05)
    return "Tool with logging completed"


@server.tool
def test_logging_tool(ctx: Context) -> str:
    """Write an object to the client's log."""
    ctx.log("info", {"event": "test_logging_tool was called"})
    return "Logged, if the client asked for it"


@server.tool
def wait(seconds: float, ctx: Context) -> str:
    """Wait, and stop waiting when the call is cancelled."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and not ctx.cancelled:
        time.sleep(0.01)
    return f"waited {seconds} s"


@server.tool
def test_reconnection() -> str:
    """Take so long that HTTP sends a stream of events, which the client could resume."""
    time.sleep(1.2)
    return "Reconnection test completed"


# --- Tools: questions to the user, the model and the client -------------------------------------


def form(message: str, **fields: Json) -> Question:
    """Ask the user to fill in a form. Fields without a default are required."""
    required = [name for name, field in fields.items() if "default" not in field]
    return "elicitation/create", {"message": message, "requestedSchema": {
        "type": "object", "properties": fields, "required": required}}


def sample(prompt: str) -> Question:
    """Ask the model."""
    return "sampling/createMessage", {
        "messages": [{"role": "user", "content": text(prompt)}], "maxTokens": 100}


def ask(ctx: Context, questions: Dict[str, Question]) -> str:
    return f"state-ok: {json.dumps(ctx.ask(questions))}"


def asking(questions: Dict[str, Question]) -> Callable[[Context], str]:
    def tool(ctx: Context) -> str:
        return ask(ctx, questions)

    return tool


ROOTS: Question = ("roots/list", {})
NAME = form("What is your name?", name=STRING)
CONFIRM = form("Please confirm", ok={"type": "boolean"})
DEFAULTS = form(
    "Please check these values",
    name={"type": "string", "default": "John Doe"},
    age={"type": "integer", "default": 30},
    score={"type": "number", "default": 95.5},
    status={"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
    verified={"type": "boolean", "default": True})
OPTIONS = {"type": "string", "enum": ["option1", "option2", "option3"]}
TITLED = [{"const": f"value{number}", "title": f"{word} Option"}
          for number, word in enumerate(("First", "Second", "Third"), 1)]
CHOICES = form(
    "Please choose", untitledSingle=OPTIONS, titledSingle={"type": "string", "oneOf": TITLED},
    legacyEnum={"type": "string", "enum": ["opt1", "opt2", "opt3"],
                "enumNames": ["One", "Two", "Three"]},
    untitledMulti={"type": "array", "items": OPTIONS},
    titledMulti={"type": "array", "items": {"anyOf": TITLED}})
QUESTIONS = {  # tool: what it asks
    "test_missing_capability": {"hello": sample("Say hello.")},
    "test_elicitation_sep1034_defaults": {"values": DEFAULTS},
    "test_elicitation_sep1330_enums": {"choices": CHOICES},
    "test_input_required_result_elicitation": {"user_name": NAME},
    "test_input_required_result_sampling": {"capital_question": sample("Capital of France?")},
    "test_input_required_result_list_roots": {"client_roots": ROOTS},
    "test_input_required_result_request_state": {"confirm": CONFIRM},
    "test_input_required_result_tampered_state": {"confirm": CONFIRM},
    "test_input_required_result_multiple_inputs": {
        "user_name": NAME, "greeting": sample("Write a greeting."), "client_roots": ROOTS},
}
for name, questions in QUESTIONS.items():
    server.tool(name=name, description="Ask, and return the answers.")(asking(questions))


@server.tool
def test_input_required_result_capabilities(ctx: Context) -> str:
    """Ask only what the client can answer."""
    possible = {"elicitation": NAME, "sampling": sample("Write a greeting."), "roots": ROOTS}
    return ask(ctx, {name: question for name, question in possible.items()
                     if name in ctx.client_capabilities})


@server.tool
def test_input_required_result_multi_round(ctx: Context) -> str:
    """Ask twice. The second question depends on the first answer."""
    answer = ctx.ask({"step1": NAME})["step1"]
    user = answer.get("content", {}).get("name", "stranger")
    return ask(ctx, {"step2": form(f"Step 2, {user}: a color?", color=STRING)})


@server.tool
def test_elicitation(message: str, ctx: Context) -> str:
    """Ask the user to fill in a form."""
    return ask(ctx, {"form": form(message, username=STRING, email=STRING)})


@server.tool
def test_sampling(prompt: str, ctx: Context) -> str:
    """Ask the client's model."""
    return ask(ctx, {"answer": sample(prompt)})


@server.tool
def test_streaming_elicitation(ctx: Context) -> str:
    """Report progress, then ask."""
    ctx.progress(1, 2, "about to ask")
    return ask(ctx, {"confirm": CONFIRM})


# --- Tools: what changes while clients are connected --------------------------------------------

serials = itertools.count(1)  # two calls at once must not register the same name


@server.tool
def test_trigger_tool_change() -> None:
    """Add a tool, and remove it."""
    name = f"passing_{next(serials)}"
    server.tool(name=name, description="?")(returning(name))
    server.remove_tool(name)


@server.tool
def test_trigger_prompt_change() -> None:
    """Add a prompt, and remove it."""
    name = f"passing_{next(serials)}"
    server.prompt(name=name, description="?")(returning(name))
    server.remove_prompt(name)


@server.tool
def trigger_resource_change() -> None:
    """Add a resource, and remove it."""
    uri = f"test://passing/{next(serials)}"
    server.resource(uri, name="passing", description="?")(returning(uri))
    server.remove_resource(uri)


@server.tool
def touch_watched_resource() -> None:
    """Announce an update of the watched resource."""
    server.resource_updated("test://watched-resource")


# --- Resources, prompts, completion -------------------------------------------------------------

RESOURCES: Dict[str, Any] = {  # URI: content, options
    "test://static-text": ("This is the content of the static text resource.", {
        "title": "Static text", "icons": [ICON],
        "annotations": {"audience": ["user", "assistant"], "priority": 0.5}}),
    "test://static-binary": (PNG, {"mime_type": "image/png"}),
    "test://watched-resource": ("This resource can be watched.", {}),
}
for uri, (content, options) in RESOURCES.items():
    server.resource(uri, name=uri, description="Always the same.", **options)(returning(content))


@server.resource("test://template/{id}/data", mime_type="application/json")
def template_data(id: str) -> Json:
    """The data of one id."""
    return {"id": id, "templateTest": True, "data": f"Data for ID: {id}"}


@server.resource(UI_PAGE, mime_type=UI_TYPE)
def page() -> Result:
    """The page of the MCP App. Its _meta says how to show it."""
    return Result({"contents": [{
        "uri": UI_PAGE, "mimeType": UI_TYPE, "text": "<!doctype html><title>Chart</title>",
        "_meta": {"ui": {"prefersBorder": True}}}]})


server.prompt(name="test_simple_prompt", description="Always the same.", icons=[ICON])(
    returning("This is a simple prompt for testing."))
server.prompt(name="test_prompt_with_image", description="Always the same.", icons=[ICON])(
    returning([image(PNG, "image/png"), "Please analyze the image above."]))


@server.prompt
def test_prompt_with_arguments(arg1: Annotated[str, "the first value"],
                               arg2: Annotated[str, "the second value"]) -> str:
    """A prompt with two arguments."""
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@server.completion("test_prompt_with_arguments", "arg2")
def complete_arg2(value: str, others: Dict[str, str]) -> List[str]:
    """Suggest words."""
    words = ("apple", "apricot", "banana", "amber", "blue")
    return [word for word in words if word.startswith(value)]


@server.prompt
def test_prompt_with_embedded_resource(resourceUri: str) -> List[Any]:
    """A prompt that contains a resource."""
    return [embedded(resourceUri, "text/plain", "Embedded resource content for testing."),
            "Please process the embedded resource above."]


@server.prompt
def test_input_required_result_prompt(ctx: Context) -> str:
    """A prompt that asks its user first."""
    return ask(ctx, {"user_context": form("What is this about?", context=STRING)})


if __name__ == "__main__":
    server.run()
