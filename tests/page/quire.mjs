/* A Quire with the demo model on a free port, and one whose answers a test writes itself. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import { createInterface } from "node:readline";

export async function startQuire(...flags) {
  const child = spawn(process.env.QUIRE_BIN, ["serve", "--port", "0", "--threads", "1", "--kv-memory", "64m", "--log-level", "off", ...flags],
    { stdio: ["ignore", "pipe", "inherit"] });
  let url;
  for await (const line of createInterface({ input: child.stdout })) {
    url = line.match(/listening on (http\S+)/)?.[1];
    if (url) break;
  }
  if (!url) throw new Error("quire did not start");
  while (!(await fetch(`${url}/ready`)).ok) await new Promise((r) => setTimeout(r, 20));
  return {
    url,
    async stop() {
      child.kill("SIGTERM");
      if (child.exitCode === null) await once(child, "exit");
    },
  };
}

/* The page of a Quire, headers included, before an API of the test's: `routes` has functions of
 * (request, response) by path; what is not in it is the Quire's. */
export async function startFake(quire, routes) {
  const server = createServer(async (request, response) => {
    const own = routes[new URL(request.url, quire.url).pathname];
    if (own) return own(request, response);
    const reply = await fetch(quire.url + request.url, { headers: { accept: request.headers.accept ?? "" } });
    const headers = Object.fromEntries([...reply.headers].filter(([name]) => !["transfer-encoding", "content-length", "connection"].includes(name)));
    response.writeHead(reply.status, headers).end(Buffer.from(await reply.arrayBuffer()));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    async stop() {
      server.closeAllConnections();
      server.close();
    },
  };
}

export function sendJson(response, status, value, headers = {}) {
  response.writeHead(status, { "Content-Type": "application/json", ...headers }).end(JSON.stringify(value));
}

export function sendError(response, status, message, headers) {
  sendJson(response, status, { error: { message, type: "error", code: null } }, headers);
}

export function beginStream(response, id = "chatcmpl-1") {
  response.writeHead(200, { "Content-Type": "text/event-stream", "X-Stream-Id": id });
}

export function frame(n, delta, finish = null) {
  return `id: ${n}\ndata: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`;
}

export function endStream(response, n) {
  response.end(`${frame(n, {}, "stop")}id: ${n + 1}\ndata: [DONE]\n\n`);
}
