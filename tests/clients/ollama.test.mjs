/* ollama (npm) against /api. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Ollama } from "ollama";
import { startQuire } from "./server.mjs";

let quire, client;
const model = "quire-demo", messages = [{ role: "user", content: "Once upon a time" }];
const options = { temperature: 0, num_predict: 8 };

before(async () => {
  quire = await startQuire();
  client = new Ollama({ host: quire.url });
});
after(async () => assert.equal(await quire.stop(), 0));

test("chat, streams: whole and streamed", async () => {
  const whole = await client.chat({ model, messages, options });
  assert.equal(whole.done_reason, "length");
  assert.equal(whole.eval_count, 8);
  let text = "", last;
  for await (last of await client.chat({ model, messages, options, stream: true })) text += last.message.content;
  assert.equal(text, whole.message.content);
  assert.equal(last.done, true);
});

test("completions: whole and streamed", async () => {
  const whole = await client.generate({ model, prompt: "Once", options });
  let text = "";
  for await (const part of await client.generate({ model, prompt: "Once", options, stream: true })) text += part.response;
  assert.equal(text, whole.response);
  assert.equal(whole.eval_count, 8);
});

test("tools: three rounds", async () => {
  const tools = [{ type: "function", function: { name: "clock", description: "The time.", parameters: {
    type: "object", properties: { zone: { type: "integer" } }, required: ["zone"] } } }];
  const turns = [...messages];
  for (let zone = 0; zone < 3; zone++) {
    const { message, done_reason } = await client.chat({ model, messages: turns, tools, options });
    assert.equal(message.role, "assistant");
    assert.equal(done_reason, "length");
    turns.push({ role: "assistant", content: "", tool_calls: [{ function: { name: "clock", arguments: { zone } } }] });
    turns.push({ role: "tool", content: `${zone} o'clock`, tool_name: "clock" });
  }
  assert.equal((await client.chat({ model, messages: turns, tools, options })).eval_count, 8);
});

test("schemas: an answer that fits", async () => {
  const format = { type: "object", properties: { age: { type: "integer", maximum: 120, minimum: 0 } }, required: ["age"],
    additionalProperties: false };
  const { response } = await client.generate({ model, prompt: "Once", format, options: { num_predict: 100 } });
  assert.ok(JSON.parse(response).age <= 120);
});

test("embeddings: vectors, and models", async () => {
  assert.equal((await client.embed({ model, input: ["a", "b"], dimensions: 4 })).embeddings[1].length, 4);
  assert.ok((await client.embeddings({ model, prompt: "a" })).embedding.length > 4);
  const [one] = (await client.list()).models;
  assert.equal(one.name, `${model}:latest`);
  assert.equal((await client.ps()).models[0].name, one.name);
  assert.deepEqual((await client.show({ model: one.name })).details, one.details);
  assert.match((await client.version()).version, /^\d+\.\d+\.\d+$/);
});

test("what is refused says why", async () => {
  for (const [status, call] of [[404, () => client.chat({ model: "nobody", messages })],
    [400, () => client.pull({ model })], [400, () => client.delete({ model })],
    [400, () => client.chat({ model, messages: [{ ...messages[0], images: ["aGk="] }] })]])
    await assert.rejects(call, (e) => e.status_code === status && e.message.length > 10);
});

test("cancel: a stream that is left", async () => {
  const stream = await client.chat({ model, messages, stream: true, options: { num_predict: 900 },
    format: { type: "array", minItems: 900 } });
  for await (const part of stream) {
    assert.equal(part.done, false);
    stream.abort();
    break;
  }
  while ((await quire.metric("quire_requests_running")) > 0) await new Promise((r) => setTimeout(r, 20));
});
