"""One server that offers something of everything: `make conformance`, interop and soak talk to it.

What begins with test_ or test: are the fixtures that the official conformance suite asks for, by
its names and with its contents; what does not is asked for by interop and soak. No line here knows
which revision is spoken, or over which transport.
"""
from __future__ import annotations

import base64
import itertools
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


def form(*required: str, **properties: Json) -> Json:
    """Build the schema of a form: a flat object of named fields."""
    return {"type": "object", "properties": properties, "required": list(required)}


def user_message(text: str) -> list[Json]:
    """Build a conversation of one message, for a model."""
    return [{"role": "user", "content": {"type": "text", "text": text}}]


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
    return "Logged, for those who want to know"


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

NAME = ("What is your name?", form("name", name=STRING))
CONFIRM = ("Please confirm", form("ok", ok={"type": "boolean"}))
QUESTIONS: dict[str, Any] = {  # capability: (method, params)
    "elicitation": ("elicitation/create", {"message": NAME[0], "requestedSchema": NAME[1]}),
    "sampling": ("sampling/createMessage",
                 {"messages": user_message("Write a greeting."), "maxTokens": 50}),
    "roots": ("roots/list", {}),
}


@server.tool
def test_sampling(prompt: str, ctx: Context) -> str:
    """Have the client's model answer a prompt."""
    return f"LLM response: {ctx.sample(user_message(prompt), 100)['content']['text']}"


@server.tool
def test_missing_capability(ctx: Context) -> str:
    """Ask for what a client may not offer: it is told which capability is missing."""
    return str(ctx.sample(user_message("Say hello."), 10)["content"])


@server.tool
def test_elicitation(message: str, ctx: Context) -> str:
    """Have the user fill in a form."""
    answer = ctx.elicit(message, form("username", "email", username=STRING, email=STRING))
    return f"User response: action={answer['action']}, content={answer.get('content')}"


@server.tool
def test_elicitation_sep1034_defaults(ctx: Context) -> str:
    """Have the user fill in a form with defaults, one for each type of field."""
    status = ["active", "inactive", "pending"]
    answer = ctx.elicit("Please check these values", form(
        name={"type": "string", "default": "John Doe"}, age={"type": "integer", "default": 30},
        score={"type": "number", "default": 95.5},
        status={"type": "string", "enum": status, "default": "active"},
        verified={"type": "boolean", "default": True}))
    return f"Elicitation completed: {answer}"


def titled(prefix: str) -> list[Json]:
    """Build three choices with a title each."""
    return [{"const": f"{prefix}{number}", "title": f"{name} Option"}
            for number, name in enumerate(("First", "Second", "Third"), 1)]


@server.tool
def test_elicitation_sep1330_enums(ctx: Context) -> str:
    """Have the user choose, in each of the five forms that a choice can have."""
    plain = ["option1", "option2", "option3"]
    old = {"enum": ["opt1", "opt2", "opt3"], "enumNames": ["One", "Two", "Three"]}
    answer = ctx.elicit("Please choose", form(
        untitledSingle={"type": "string", "enum": plain},
        titledSingle={"type": "string", "oneOf": titled("value")},
        legacyEnum={"type": "string", **old},
        untitledMulti={"type": "array", "items": {"type": "string", "enum": plain}},
        titledMulti={"type": "array", "items": {"anyOf": titled("value")}}))
    return f"Elicitation completed: {answer}"


@server.tool
def test_streaming_elicitation(ctx: Context) -> str:
    """Report progress, then ask."""
    ctx.progress(1, 2, "about to ask")
    return f"confirmed: {ctx.elicit('Go on?', form(ok={'type': 'boolean'}))['action']}"


@server.tool
def test_input_required_result_elicitation(ctx: Context) -> str:
    """Ask one question under a fixed key."""
    content = ctx.elicit(*NAME, key="user_name").get("content", {})
    return f"Hello, {content.get('name', 'stranger')}!"


@server.tool
def test_input_required_result_sampling(ctx: Context) -> str:
    """Ask the client's model under a fixed key."""
    question = user_message("What is the capital of France?")
    return str(ctx.sample(question, 100, key="capital_question")["content"])


@server.tool
def test_input_required_result_list_roots(ctx: Context) -> str:
    """Ask for the client's roots."""
    return ", ".join(root["uri"] for root in ctx.list_roots(key="client_roots"))


@server.tool
def test_input_required_result_request_state(ctx: Context) -> str:
    """Ask, while the client keeps a state that the server has signed."""
    return f"state-ok: {ctx.elicit(*CONFIRM, key='confirm')['action']}"


@server.tool
def test_input_required_result_tampered_state(ctx: Context) -> str:
    """Ask in the same way: a state that was touched on its way is refused."""
    return f"confirmed: {ctx.elicit(*CONFIRM, key='confirm')['action']}"


@server.tool
def test_input_required_result_multiple_inputs(ctx: Context) -> str:
    """Ask the user, the model and the client in one round."""
    keys = ("user_name", "greeting", "client_roots")
    return f"answered: {', '.join(sorted(ctx.ask(dict(zip(keys, QUESTIONS.values())))))}"


@server.tool
def test_input_required_result_multi_round(ctx: Context) -> str:
    """Ask twice: the second question is only known after the first answer."""
    first = ctx.elicit("Step 1: your name?", form("name", name=STRING), key="step1")
    name = first.get("content", {}).get("name", "stranger")
    second = ctx.elicit(f"Step 2, {name}: a color?", form(color=STRING), key="step2")
    return f"{name} likes {second.get('content', {}).get('color', 'nothing')}"


@server.tool
def test_input_required_result_capabilities(ctx: Context) -> str:
    """Ask only what the client has said it can answer."""
    offered = {name: QUESTIONS[name] for name in QUESTIONS if name in ctx.client_capabilities}
    return f"answered: {', '.join(sorted(ctx.ask(offered)))}"


# --- Tools: what changes while clients look on --------------------------------------------------

serials = itertools.count(1)  # two calls at once must not register the same name


@server.tool
def test_trigger_tool_change() -> str:
    """Add a tool and take it away again: list_changed goes out."""
    name = f"passing_{next(serials)}"
    server.tool(name=name, description="?")(returning(name))
    server.remove_tool(name)
    return "The list of tools has changed, and changed back"


@server.tool
def test_trigger_prompt_change() -> str:
    """Add a prompt and take it away again: list_changed goes out."""
    name = f"passing_{next(serials)}"
    server.prompt(name=name, description="?")(returning(name))
    server.remove_prompt(name)
    return "The list of prompts has changed, and changed back"


@server.tool
def trigger_resource_change() -> str:
    """Add a resource and take it away again: list_changed goes out."""
    uri = f"test://passing/{next(serials)}"
    server.resource(uri, name="passing", description="?")(returning(uri))
    server.remove_resource(uri)
    return "The list of resources has changed, and changed back"


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
    fields = form("context", context=STRING)
    answer = ctx.elicit("What is this about?", fields, key="user_context")
    return f"Context: {answer.get('content', {}).get('context', 'none')}"


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
