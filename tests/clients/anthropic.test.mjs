/* @anthropic-ai/sdk against /v1/messages. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import Anthropic from "@anthropic-ai/sdk";
import { startQuire } from "./server.mjs";

let quire, client;
const params = { model: "quire-demo", system: "Tell a story.", max_tokens: 12, temperature: 0,
  messages: [{ role: "user", content: "Once upon a time" }] };

before(async () => {
  quire = await startQuire();
  client = new Anthropic({ baseURL: quire.url, apiKey: "none", maxRetries: 0 });
});
after(async () => assert.equal(await quire.stop(), 0));

test("a message, whole and streamed", async () => {
  const whole = await client.messages.create(params);
  assert.equal(whole.role, "assistant");
  assert.equal(whole.stop_reason, "max_tokens");
  assert.equal(whole.usage.output_tokens, 12);
  assert.equal(whole.content[0].type, "text");
  const stream = client.messages.stream(params);
  let text = "";
  stream.on("text", (piece) => (text += piece));
  const final = await stream.finalMessage();
  assert.equal(text, whole.content[0].text);
  assert.equal(final.content[0].text, text);
  assert.equal(final.stop_reason, "max_tokens");
  assert.equal(final.usage.output_tokens, 12);
});

test("a stop sequence is named", async () => {
  const words = (await client.messages.create(params)).content[0].text.trim().split(" ");
  const stopped = await client.messages.create({ ...params, stop_sequences: [words[2]] });
  assert.equal(stopped.stop_reason, "stop_sequence");
  assert.equal(stopped.stop_sequence, words[2]);
});

test("tokens are counted as they are used", async () => {
  const { max_tokens, temperature, ...chat } = params;
  const count = await client.messages.countTokens(chat);
  const { usage } = await client.messages.create(params);
  assert.equal(count.input_tokens, usage.input_tokens + usage.cache_read_input_tokens);
});

test("blocks, tool uses and results are taken", async () => {
  const answer = await client.messages.create({
    ...params,
    tools: [{ name: "look", description: "Look.", input_schema: { type: "object", properties: { at: { type: "string" } } } }],
    messages: [
      { role: "user", content: [{ type: "text", text: "Look there." }] },
      { role: "assistant", content: [{ type: "text", text: "I do." }, { type: "tool_use", id: "t1", name: "look", input: { at: "there" } }] },
      { role: "user", content: [{ type: "tool_result", tool_use_id: "t1", content: "A cat." }, { type: "text", text: "Well?" }] },
    ],
  });
  assert.ok(answer.usage.input_tokens > 0);
});

test("a tool use, whole and streamed", async () => {
  const ask = { ...params, max_tokens: 200, temperature: 1, seed: 4, tool_choice: { type: "any", disable_parallel_tool_use: true },
    tools: [{ name: "clock", input_schema: { type: "object", properties: { zone: { type: "integer", minimum: -12, maximum: 12 } },
      required: ["zone"], additionalProperties: false } }] };
  const whole = await client.messages.create(ask);
  assert.equal(whole.stop_reason, "tool_use");
  assert.equal(whole.content[0].name, "clock");
  assert.ok(Number.isInteger(whole.content[0].input.zone));
  const final = await client.messages.stream(ask).finalMessage();
  assert.deepEqual(final.content[0].input, whole.content[0].input);
});

test("errors have the package's classes", async () => {
  await assert.rejects(client.messages.create({ ...params, temperature: 9 }), Anthropic.BadRequestError);
  await assert.rejects(client.messages.create({ ...params, model: "other" }), Anthropic.NotFoundError);
  await assert.rejects(client.messages.create({ ...params, messages: [{ role: "user", content: [{ type: "image", source: {} }] }] }),
    (e) => e instanceof Anthropic.BadRequestError && e.message.includes("messages[0].content[0].type"));
});
