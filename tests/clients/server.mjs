/* A Quire of one's own for a test file: the demo model on a free port. */
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { webcrypto } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";

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
    /* The sum over those whose labels have this text in them. */
    async total(name, label) {
      const lines = (await (await fetch(`${url}/metrics`)).text()).split("\n");
      return lines.filter((l) => l.startsWith(name + "{") && l.includes(label)).reduce((n, l) => n + Number(l.split(" ").at(-1)), 0);
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

/* Call once while the key may, then once when it has no request left: the first try gets 429 and
 * Retry-After, and a later one an answer. makeCall(url, key) returns the call. */
export async function checkRetry(makeCall) {
  const folder = await mkdtemp(join(tmpdir(), "quire-clients-"));
  const made = await promisify(execFile)(process.env.QUIRE_BIN, ["key", "--name", "client", "--requests-per-minute", "40"]);
  const key = made.stderr.trim(), file = join(folder, "keys");
  await writeFile(file, made.stdout, { mode: 0o600 });
  const quire = await startQuire("--api-keys", file, "--metrics-open", "on");
  const call = makeCall(quire.url, key);
  await call();
  const spend = () => fetch(`${quire.url}/tokenize`, { method: "POST", body: '{"content":"a"}',
    headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json" } });
  let reply;
  while ((reply = await spend()).status === 200) await reply.arrayBuffer();
  assert.equal(reply.status, 429);
  assert.ok(Number(reply.headers.get("retry-after")) >= 1);
  const before = await quire.total("quire_http_requests_total", 'code="429"');
  await call();
  assert.ok((await quire.total("quire_http_requests_total", 'code="429"')) > before);
  assert.equal(await quire.stop(), 0);
  await rm(folder, { recursive: true });
}

/* What runs after begin() is cancelled by end(): its place is free, and it did not run to its end. */
export async function checkCancel(quire, begin, end) {
  const before = await quire.total("quire_requests_total", 'outcome="cancelled"');
  await begin();
  assert.equal(await quire.metric("quire_requests_running"), 1);
  await end();
  await until(async () => (await quire.metric("quire_requests_running")) === 0);
  await until(async () => (await quire.total("quire_requests_total", 'outcome="cancelled"')) > before);
}
