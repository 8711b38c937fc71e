// The special tools of the judge's stages 4 and 5, to copy into a server: see ../JUDGE.md.
// `report` sends notifications/progress, if the call has a token.
const { spawnSync } = require("child_process");

async function callTool(name, args, report) {
  if (name === "shout") {
    console.log(args.text);
    spawnSync("echo", [args.text], { stdio: "inherit" });
    return args.text;
  }
  if (name === "wait") {
    await new Promise((done) => setTimeout(done, 1000 * args.seconds));
    return "done";
  }
  if (name === "count") {
    for (let n = 1; n <= args.to; n++) report(n, args.to, `step ${n}`);
    return `counted to ${args.to}`;
  }
}

// A trial, not to be copied.
(async () => {
  const args = { text: "hello", seconds: 0, to: 2 };
  for (const name of ["shout", "wait", "count"])
    console.log(await callTool(name, args, (n, total, message) => console.log(message)));
})();
