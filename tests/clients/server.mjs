/* A Quire of one's own for a test file: the demo model on a free port. */
import { spawn } from "node:child_process";
import { webcrypto } from "node:crypto";
import { once } from "node:events";
import { createInterface } from "node:readline";

/* Debian 12 has Node 18, where LangChain does not find this by itself. */
globalThis.crypto ??= webcrypto;

export async function startQuire(...flags) {
  const bin = process.env.QUIRE_BIN;
  if (!bin) throw new Error("QUIRE_BIN is not set");
  const child = spawn(bin, ["serve", "--port", "0", "--kv-memory", "64m", "--log-level", "off", ...flags], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  let url;
  for await (const line of createInterface({ input: child.stdout })) {
    url = line.match(/listening on (http\S+)/)?.[1];
    if (url) break;
  }
  if (!url) throw new Error("quire did not start");
  while (!(await fetch(`${url}/ready`)).ok) await new Promise((r) => setTimeout(r, 20));
  return {
    url,
    async metric(name) {
      const text = await (await fetch(`${url}/metrics`)).text();
      const line = text.split("\n").find((l) => l.startsWith(name + " ") || l.startsWith(name + "{"));
      return Number(line.split(" ").at(-1));
    },
    async stop() {
      child.kill("SIGTERM");
      if (child.exitCode === null) await once(child, "exit");
      return child.exitCode;
    },
  };
}

/* Ask until it is so; the test runner's time limit ends it otherwise. */
export async function until(holds) {
  while (!(await holds())) await new Promise((r) => setTimeout(r, 20));
}
