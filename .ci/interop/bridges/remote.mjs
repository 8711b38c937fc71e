// The bridge's end of the judge's remote control, as in remote.py.

import { text } from "node:stream/consumers";

const PATIENCE = 20000; // ms for notifications to come
const steps = JSON.parse(await text(process.stdin));
const events = [];
let user = {};
let news = () => {};

export const answer = (method) => user[method];

export function event(method, params) {
  events.push([method, params ?? {}]);
  news();
}

async function heard({ event: name, count }) {
  const found = () => events.filter(([method]) => method === name).map(([, params]) => params);
  const until = Date.now() + PATIENCE;
  while (found().length < count) {
    await new Promise((resolve, reject) => {
      news = resolve;
      setTimeout(reject, until - Date.now(), new Error(`no ${name} in time`)).unref();
    });
  }
  return found();
}

async function outcome(actions, told) {
  try {
    return { result: (await actions[told.action](told.with)) ?? null };
  } catch (error) {
    const { code = null, message } = error;
    return { error: { code, message, kind: error.constructor.name } };
  }
}

export async function play(actions) {
  for (const step of steps) {
    user = step.user;
    const doing = step.do.map((told) => outcome({ ...actions, heard }, told));
    process.stdout.write(JSON.stringify(await Promise.all(doing)) + "\n");
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
});
