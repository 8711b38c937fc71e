// The bridge's end of the judge's remote control, as in remote.py.

import { createInterface } from "node:readline";

let asked = 0;
const answers = new Map();

const say = (line) => process.stdout.write(JSON.stringify(line) + "\n");

export const event = (method, params) => say({ event: method, params: params ?? {} });

export function ask(method, params) {
  const number = ++asked;
  say({ ask: number, method, params: params ?? {} });
  return new Promise((resolve) => answers.set(number, resolve));
}

async function perform(actions, told) {
  try {
    say({ id: told.id, result: (await actions[told.do](told.with)) ?? null });
  } catch (error) {
    const { code = null, message } = error;
    say({ id: told.id, error: { code, message, kind: error.constructor.name } });
  }
}

export async function serve(actions) {
  for await (const line of createInterface({ input: process.stdin })) {
    const told = JSON.parse(line);
    if ("answer" in told) {
      answers.get(told.answer)(told.result);
      answers.delete(told.answer);
    } else {
      perform(actions, told);
    }
  }
}

export const isUrl = (address) => address.startsWith("http://");

export const options = { onprogress: (params) => event("progress", params) };

// What the two generations of the TypeScript client spell alike; each adds what differs.
export const actionsOf = (client) => ({
  "tools/list": () => client.listTools(),
  "resources/list": () => client.listResources(),
  "resources/templates/list": () => client.listResourceTemplates(),
  "resources/read": (params) => client.readResource(params),
  "prompts/list": () => client.listPrompts(),
  "prompts/get": (params) => client.getPrompt(params),
  "completion/complete": (params) => client.complete(params),
  "logging/setLevel": ({ level }) => client.setLoggingLevel(level),
  ping: () => client.ping(),
});
