/* Claude Code itself against /v1/messages: with its own system prompt, its tools, messages of the
 * system within the conversation, adaptive thinking and context_management. That is some 17,000
 * tokens, of which the demo model cannot read many: its template here shows it the last line of what
 * was said. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { startQuire } from "./server.mjs";

const TEMPLATE = `{%- for m in messages -%}
{%- if m.role == 'system' -%}{%- if m.content | length < 100 -%}{{ m.content }}{%- endif -%}
{%- else -%}<|{{ m.role }}|>{{ m.content.split('\\n')[-1] }}<|end|>{%- endif -%}
{%- endfor -%}<|assistant|>`;
const run = promisify(execFile);
let quire, folder;

before(async () => {
  folder = await mkdtemp(join(tmpdir(), "quire-claude-"));
  await mkdir(join(folder, "project"));
  await writeFile(join(folder, "template"), TEMPLATE);
  /* npm may have been told to run no scripts of packages: this one puts the program in its place. */
  await run(process.execPath, ["node_modules/@anthropic-ai/claude-code/install.cjs"]);
  quire = await startQuire("--chat-template", join(folder, "template"), "--temperature", "0", "--alias", "claude-*");
});
after(async () => {
  assert.equal(await quire.stop(), 0);
  await rm(folder, { recursive: true });
});

async function claude(...args) {
  const env = { PATH: process.env.PATH, HOME: folder, ANTHROPIC_BASE_URL: quire.url, ANTHROPIC_AUTH_TOKEN: "none",
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1", DISABLE_AUTOUPDATER: "1" };
  const running = run(resolve("node_modules/.bin/claude"), ["--model", "claude-test", "--output-format", "json", ...args],
    { env, cwd: join(folder, "project"), timeout: 60000 });
  running.child.stdin.end();
  const { stdout } = await running;
  return JSON.parse(stdout);
}

const refused = () => quire.total("quire_http_requests_total", 'code="4');

test("chat, streams: a question, and the next one of the same session", async () => {
  const first = await claude("-p", "Tell me about a bear.");
  assert.deepEqual([first.is_error, first.subtype, first.num_turns], [false, "success", 1]);
  const body = { messages: [{ role: "user", content: "Tell me about a bear." }], max_tokens: 900 };
  const alone = await (await fetch(`${quire.url}/v1/messages`, { method: "POST", body: JSON.stringify(body),
    headers: { "Content-Type": "application/json" } })).json();
  assert.equal(first.result, alone.content[0].text);
  assert.equal(first.usage.output_tokens, alone.usage.output_tokens);
  const second = await claude("-p", "And an owl?", "--resume", first.session_id);
  assert.deepEqual([second.is_error, second.session_id], [false, first.session_id]);
  assert.ok(second.result.length > 0);
  assert.equal(await refused(), 0);
});
