"""One server that offers something of everything: `make conformance`, interop and soak talk to it.

What begins with test_ or test: are the fixtures that the official conformance suite asks for, by
its names and with its contents; what does not is asked for by interop and soak. No line here knows
which revision is spoken, or over which transport.
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

from mcp_ref import Context, Server, audio, image  # noqa: E402

Json = dict[str, Any]
PNG = base64.b64decode(  # one red pixel
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAA"
    "AABJRU5ErkJggg==")
WAV = base64.b64decode("UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=")
ICON = {"src": "https://example.com/icon.png", "mimeType": "image/png"}
STRING: Json = {"type": "string"}

server = Server("everything", "1.0", title="Everything", page_size=100,  # more than there is
                instructions="Something of every feature, one small tool for each.")


def embedded(uri: str, mime_type: str, text: str) -> Json:
    """Build a block that carries the text of a resource."""
    return {"type": "resource", "resource": {"uri": uri, "mimeType": mime_type, "text": text}}


# --- Tools: what they return, and what they take ------------------------------------------------

CONTENTS = {  # tool: what it returns, always
    "test_simple_text": "This is a simple text response for testing.",
    "test_image_content": image(PNG, "image/png"),
    "test_audio_content": audio(WAV, "audio/wav"),
    "test_embedded_resource": embedded(
        "test://embedded-resource", "text/plain", "This is an embedded resource content."),
    "test_multiple_content_types": [
        {"type": "text", "text": "Multiple content types test:"}, image(PNG, "image/png"),
        embedded("test://mixed-content-resource", "application/json",
                 '{"test":"data","value":123}')],
}


def returning(content: Any) -> Callable[[], Any]:
    return lambda: content


for name, content in CONTENTS.items():
    server.tool(name=name, description="Return always the same.", icons=[ICON])(returning(content))


@server.tool
def test_error_handling() -> None:
    """Fail: a result with isError."""
    raise RuntimeError("This tool intentionally returns an error for testing")


@server.tool(input_schema={
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
    "additionalProperties": False})
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
    let_go = getattr(ctx.reply, "let_go", None)  # only HTTP has it
    if let_go is not None:
        let_go()
    time.sleep(0.2)
    return "Reconnection test completed"


# --- Tools: asking the user, the model and the client -------------------------------------------
# The same lines serve both eras: a request that is waited for, or a result that asks and a second
# call that brings the answers. A key names a question there.


def elicit(message: str, *required: str, **fields: Json) -> Any:
    """Build the question for a form: a flat object of named fields."""
    form = {"type": "object", "properties": fields, "required": list(required)}
    return "elicitation/create", {"message": message, "requestedSchema": form}


def sample(text: str) -> Any:
    """Build a question for a model."""
    messages = [{"role": "user", "content": {"type": "text", "text": text}}]
    return "sampling/createMessage", {"messages": messages, "maxTokens": 100}


def choice(*values: str, **more: Any) -> Json:
    return {"type": "string", "enum": list(values), **more}


NAME = elicit("What is your name?", "name", name=STRING)
CONFIRM = elicit("Please confirm", "ok", ok={"type": "boolean"})
ROOTS = ("roots/list", {})
TITLED = [{"const": f"value{number}", "title": f"{name} Option"}
          for number, name in enumerate(("First", "Second", "Third"), 1)]
ASKING: dict[str, Json] = {  # tool: its questions, by key
    "test_missing_capability": {"hello": sample("Say hello.")},
    "test_elicitation_sep1034_defaults": {"values": elicit(
        "Please check these values",
        name={"type": "string", "default": "John Doe"}, age={"type": "integer", "default": 30},
        score={"type": "number", "default": 95.5},
        status=choice("active", "inactive", "pending", default="active"),
        verified={"type": "boolean", "default": True})},
    "test_elicitation_sep1330_enums": {"choices": elicit(
        "Please choose",  # in each of the five forms that a choice can have
        untitledSingle=choice("option1", "option2", "option3"),
        titledSingle={"type": "string", "oneOf": TITLED},
        legacyEnum=choice("opt1", "opt2", "opt3", enumNames=["One", "Two", "Three"]),
        untitledMulti={"type": "array", "items": choice("option1", "option2", "option3")},
        titledMulti={"type": "array", "items": {"anyOf": TITLED}})},
    "test_input_required_result_elicitation": {"user_name": NAME},
    "test_input_required_result_sampling": {"capital_question": sample("Capital of France?")},
    "test_input_required_result_list_roots": {"client_roots": ROOTS},
    "test_input_required_result_request_state": {"confirm": CONFIRM},
    "test_input_required_result_tampered_state": {"confirm": CONFIRM},
    "test_input_required_result_multiple_inputs": {
        "user_name": NAME, "greeting": sample("Write a greeting."), "client_roots": ROOTS},
}


def asking(questions: Json) -> Callable[[Context], str]:
    def ask(ctx: Context) -> str:
        return f"state-ok: {json.dumps(ctx.ask(questions))}"

    return ask


for name, questions in ASKING.items():
    server.tool(name=name, description="Ask, and return the answers.")(asking(questions))


@server.tool
def test_input_required_result_capabilities(ctx: Context) -> str:
    """Ask only what the client has said it can answer."""
    possible = {"elicitation": NAME, "sampling": sample("Write a greeting."), "roots": ROOTS}
    return asking({key: question for key, question in possible.items()
                   if key in ctx.client_capabilities})(ctx)


@server.tool
def test_input_required_result_multi_round(ctx: Context) -> str:
    """Ask twice: the second question is only known after the first answer."""
    first = ctx.ask({"step1": NAME})["step1"]
    name = first.get("content", {}).get("name", "stranger")
    return asking({"step2": elicit(f"Step 2, {name}: a color?", color=STRING)})(ctx)


@server.tool
def test_elicitation(message: str, ctx: Context) -> str:
    """Have the user fill in a form."""
    return asking({"form": elicit(
        message, "username", "email", username=STRING, email=STRING)})(ctx)


@server.tool
def test_sampling(prompt: str, ctx: Context) -> str:
    """Have the client's model answer a prompt."""
    return asking({"answer": sample(prompt)})(ctx)


@server.tool
def test_streaming_elicitation(ctx: Context) -> str:
    """Report progress, then ask."""
    ctx.progress(1, 2, "about to ask")
    return asking({"confirm": CONFIRM})(ctx)


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
    words = "Embedded resource content for testing."
    return [embedded(resourceUri, "text/plain", words),
            "Please process the embedded resource above."]


@server.prompt
def test_prompt_with_image() -> list[Any]:
    """A prompt that brings an image along."""
    return [image(PNG, "image/png"), "Please analyze the image above."]


@server.prompt
def test_input_required_result_prompt(ctx: Context) -> str:
    """A prompt that asks its user first."""
    return asking({"user_context": elicit("What is this about?", "context", context=STRING)})(ctx)


@server.completion("test_prompt_with_arguments", "arg1")
def complete_arg1(value: str, others: dict[str, str]) -> list[str]:
    return [word for word in ("fruit", "color") if word.startswith(value)]


@server.completion("test_prompt_with_arguments", "arg2")
def complete_arg2(value: str, others: dict[str, str]) -> list[str]:
    """Suggest words, and fewer once the other argument is chosen."""
    words = {"fruit": ["apple", "apricot", "banana"], "color": ["amber", "blue"]}
    known = words.get(others.get("arg1", ""), words["fruit"] + words["color"])
    return [word for word in known if word.startswith(value)]


@server.completion("test://template/{id}/data", "id")
def complete_id(value: str, others: dict[str, str]) -> list[str]:
    """Suggest ids: more than one answer may carry, so that hasMore is true."""
    return [str(number) for number in range(1000) if str(number).startswith(value)]


if __name__ == "__main__":
    server.run()
