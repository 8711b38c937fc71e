// Bridge: the official TypeScript SDK, v1.    typescript_sdk_1.mjs legacy URL|COMMAND...

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
} from "@modelcontextprotocol/sdk/types.js";
import { actionsOf, answer, event, isUrl, options, play } from "./remote.mjs";

const [, , , command, ...args] = process.argv;
const capabilities = { elicitation: {}, roots: {}, sampling: {} };
const client = new Client({ name: "typescript-sdk-1", version: "1" }, { capabilities });
for (const schema of [CreateMessageRequestSchema, ElicitRequestSchema, ListRootsRequestSchema]) {
  client.setRequestHandler(schema, async ({ method }) => answer(method));
}
client.fallbackNotificationHandler = async ({ method, params }) => event(method, params);

let revision;
const transport = isUrl(command)
  ? new StreamableHTTPClientTransport(new URL(command))
  : new StdioClientTransport({ command, args });
transport.setProtocolVersion = (negotiated) => (revision = negotiated);
await client.connect(transport);
await play({
  ...actionsOf(client),
  about: async () => ({
    revision,
    capabilities: client.getServerCapabilities(),
  }),
  "tools/call": (params) => client.callTool(params, undefined, options),
  subscribe: ({ uris }) => Promise.all(uris.map((uri) => client.subscribeResource({ uri }))),
});
await transport.terminateSession?.(); // close() leaves the session to the server
await client.close();
