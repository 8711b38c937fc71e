// A server on the official TypeScript SDK, v2, with the names of the conformance fixtures.

import {
  McpServer,
  ResourceTemplate,
  completable,
  inputRequired,
  inputResponse,
} from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { setTimeout as pause } from "node:timers/promises";
import * as z from "zod";

const WORDS = ["testing", "tested", "other"];
const TEXT = "test://static-text";
const say = (text) => ({ content: [{ type: "text", text }] });
const one = (uri, mimeType, body) => ({ contents: [{ uri: uri.href, mimeType, ...body }] });
const user = (text) => ({ messages: [{ role: "user", content: { type: "text", text } }] });

// Ask once; the SDK runs the tool again with the answer, in either era.
const asking = (request, then) => async (args, { mcpReq }) => {
  const answer = inputResponse(mcpReq.inputResponses, "q");
  return answer.kind === "missing"
    ? inputRequired({ inputRequests: { q: request(args) } })
    : say(then(answer));
};

function tools(server) {
  const tool = (name, inputSchema, run) => server.registerTool(name, { inputSchema }, run);
  const nothing = z.object({});
  tool("add", z.object({ a: z.number(), b: z.number() }), ({ a, b }) => say(String(a + b)));
  tool("test_error_handling", nothing, () => {
    throw new Error("This tool intentionally returns an error for testing");
  });
  tool("test_tool_with_progress", nothing, async (_args, { mcpReq }) => {
    const progressToken = mcpReq._meta?.progressToken;
    for (const progress of [0, 50, 100]) {
      const params = { progressToken, progress, total: 100 };
      await mcpReq.notify({ method: "notifications/progress", params });
      await pause(50);
    }
    return say("done");
  });
  tool("test_tool_with_logging", nothing, async (_args, { mcpReq }) => {
    await mcpReq.log("info", "Tool execution started");
    return say("done");
  });
  const person = z.object({ username: z.string(), email: z.string() });
  tool(
    "test_elicitation",
    z.object({ message: z.string() }),
    asking(
      ({ message }) => inputRequired.elicit({ message, requestedSchema: person }),
      ({ action, content }) => `action=${action}, content=${JSON.stringify(content)}`,
    ),
  );
  tool(
    "test_sampling",
    z.object({ prompt: z.string() }),
    asking(
      ({ prompt }) => inputRequired.createMessage({ ...user(prompt), maxTokens: 100 }),
      ({ result }) => `LLM response: ${result.content.text}`,
    ),
  );
  tool(
    "test_list_roots",
    nothing,
    asking(
      () => inputRequired.listRoots(),
      ({ roots }) => roots.map(({ uri }) => uri).join(" "),
    ),
  );
  tool("test_trigger_tool_change", nothing, () => {
    server.sendToolListChanged();
    return say("announced");
  });
  tool("test_trigger_resource_update", nothing, async () => {
    await server.server.sendResourceUpdated({ uri: TEXT });
    return say("announced");
  });
}

function resources(server) {
  const text = { text: "This is the content of the static text resource." };
  server.registerResource("text", TEXT, { mimeType: "text/plain" }, (uri) =>
    one(uri, "text/plain", text),
  );
  server.server.setRequestHandler("resources/subscribe", () => ({})); // the legacy way
  const template = new ResourceTemplate("test://template/{id}/data", { list: undefined });
  server.registerResource("template", template, {}, (uri, { id }) =>
    one(uri, "application/json", { text: JSON.stringify({ id, data: `Data for ID: ${id}` }) }),
  );
}

function prompts(server) {
  const word = completable(z.string(), (value) => WORDS.filter((each) => each.startsWith(value)));
  const argsSchema = z.object({ arg1: word, arg2: z.string() });
  server.registerPrompt("test_prompt_with_arguments", { argsSchema }, ({ arg1, arg2 }) =>
    user(`Prompt with arguments: arg1='${arg1}', arg2='${arg2}'`),
  );
}

serveStdio(() => {
  const capabilities = { logging: {}, resources: { subscribe: true, listChanged: true } };
  const server = new McpServer({ name: "typescript-sdk-2", version: "1" }, { capabilities });
  for (const offer of [tools, resources, prompts]) {
    offer(server);
  }
  return server;
});
