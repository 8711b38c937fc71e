// Bridge: the official TypeScript SDK, v2.    typescript_sdk_2.mjs auto|legacy URL|COMMAND...

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { actionsOf, answer, event, isUrl, options, play } from "./remote.mjs";

const [, , mode, command, ...args] = process.argv;
const client = new Client(
  { name: "typescript-sdk-2", version: "1" },
  {
    capabilities: { elicitation: {}, roots: {}, sampling: {} },
    versionNegotiation: { mode },
  },
);
for (const method of ["sampling/createMessage", "elicitation/create", "roots/list"]) {
  client.setRequestHandler(method, async () => answer(method));
}
client.fallbackNotificationHandler = async ({ method, params }) => event(method, params);

const transport = isUrl(command)
  ? new StreamableHTTPClientTransport(new URL(command))
  : new StdioClientTransport({ command, args });
await client.connect(transport);
const modern = client.getProtocolEra() === "modern";
const wantsLog = modern ? { _meta: { "io.modelcontextprotocol/logLevel": "debug" } } : {};
await play({
  ...actionsOf(client),
  about: async () => ({
    revision: client.getNegotiatedProtocolVersion(),
    capabilities: client.getServerCapabilities(),
  }),
  "tools/call": (params) => client.callTool({ ...params, ...wantsLog }, options),
  "logging/setLevel": async ({ level }) => modern || client.setLoggingLevel(level),
  subscribe: async ({ uris, tools, prompts, resources }) => {
    if (!modern) {
      await Promise.all(uris.map((uri) => client.subscribeResource({ uri })));
      return;
    }
    await client.listen({
      toolsListChanged: tools,
      promptsListChanged: prompts,
      resourcesListChanged: resources,
      resourceSubscriptions: uris,
    });
  },
});
await transport.terminateSession?.(); // close() leaves the session to the server
await client.close();
