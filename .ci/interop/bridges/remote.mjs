// The bridge's end of the judge's remote control. remote.py explains it.

import { createInterface } from "node:readline";

let user = {};
const say = (message) => process.stdout.write(JSON.stringify(message) + "\n");

export const answer = (method) => user[method];
export const event = (method, params) => say({ event: method, params: params ?? {} });

async function outcome(actions, [name, given]) {
  try {
    return { result: (await actions[name](given)) ?? null };
  } catch (error) {
    const { code = null, message } = error;
    return { error: { code, message, kind: error.constructor.name } };
  }
}

export async function play(actions) {
  for await (const line of createInterface({ input: process.stdin })) {
    const step = JSON.parse(line);
    user = step.user;
    say({ outcomes: await Promise.all(step.do.map((one) => outcome(actions, one))) });
  }
}

export const isUrl = (address) => address.startsWith("http://");

export const options = { onprogress: (params) => event("progress", params) };

// What both generations of the TypeScript client name alike.
export const actionsOf = (client) => ({
  "tools/list": () => client.listTools(),
  "resources/list": () => client.listResources(),
  "resources/templates/list": () => client.listResourceTemplates(),
  "resources/read": (params) => client.readResource(params),
  "prompts/list": () => client.listPrompts(),
  "prompts/get": (params) => client.getPrompt(params),
  "completion/complete": (params) => client.complete(params),
  "logging/setLevel": ({ level }) => client.setLoggingLevel(level),
});
