/* @anthropic-ai/sdk against /v1/messages. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import Anthropic from "@anthropic-ai/sdk";
import { betaTool } from "@anthropic-ai/sdk/helpers/beta/json-schema";
import { checkCancel, checkRetry, startQuire } from "./server.mjs";

let quire, client;
const params = { model: "quire-demo", system: "Tell a story.", max_tokens: 12, temperature: 0,
  messages: [{ role: "user", content: "Once upon a time" }] };

before(async () => {
  quire = await startQuire();
  client = new Anthropic({ baseURL: quire.url, apiKey: "none", maxRetries: 0 });
});
after(async () => assert.equal(await quire.stop(), 0));

test("chat, streams: whole and streamed", async () => {
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

test("tools: a use, whole and streamed", async () => {
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

test("tools: two rounds of uses and results, and an answer", async () => {
  const tools = [{ name: "clock", input_schema: { type: "object", properties: { zone: { type: "integer", minimum: -12, maximum: 12 } },
    required: ["zone"], additionalProperties: false } }];
  const messages = [{ role: "user", content: "What time is it?" }];
  const ask = { model: "quire-demo", max_tokens: 200, messages, tools };
  for (const tool_choice of [{ type: "any", disable_parallel_tool_use: true }, { type: "tool", name: "clock" }]) {
    const { content } = await client.messages.create({ ...ask, tool_choice });
    const use = content.find((block) => block.type === "tool_use");
    messages.push({ role: "assistant", content },
      { role: "user", content: [{ type: "tool_result", tool_use_id: use.id, content: `noon in ${use.input.zone}` }] });
  }
  const last = await client.messages.create({ ...ask, max_tokens: 6, tool_choice: { type: "none" } });
  assert.deepEqual(last.content.map((block) => block.type), ["text"]);
});

test("schemas: an answer in a format", async () => {
  const schema = { type: "object", properties: { age: { type: "integer", minimum: 0, maximum: 120 } }, required: ["age"],
    additionalProperties: false };
  const answer = await client.messages.create({ ...params, max_tokens: 100, output_config: { format: { type: "json_schema", schema } } });
  assert.ok(Number.isInteger(JSON.parse(answer.content[0].text).age));
});

test("cancel: an aborted stream frees its place", async () => {
  let stream;
  await checkCancel(quire, async () => {
    stream = await client.messages.create({ ...params, max_tokens: 900, stream: true, ignore_eos: true });
    for (const pieces = stream[Symbol.asyncIterator](); (await pieces.next()).value.type !== "content_block_delta"; );
  }, () => stream.controller.abort());
});

test("retry: a key without requests left gets one", () => checkRetry((url, key) => {
  const patient = new Anthropic({ baseURL: url, apiKey: key, maxRetries: 4 });
  return () => patient.messages.create({ ...params, max_tokens: 2 });
}));

test("tools: the package's own loop", async () => {
  const zones = [];
  const clock = betaTool({ name: "clock", description: "The time.", run: ({ zone }) => (zones.push(zone), "noon"),
    inputSchema: { type: "object", properties: { zone: { type: "integer" } }, required: ["zone"], additionalProperties: false } });
  const answers = [];
  for await (const answer of client.beta.messages.toolRunner({ ...params, max_tokens: 200, tools: [clock],
    tool_choice: { type: "tool", name: "clock" }, max_iterations: 3 })) answers.push(answer);
  assert.equal(answers.length, 3);
  assert.ok(zones.length >= 2);
});
