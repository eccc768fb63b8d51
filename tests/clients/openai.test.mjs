/* The openai package, which most programs use, directly or through something else. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import OpenAI from "openai";
import { zodResponseFormat } from "openai/helpers/zod";
import { z } from "zod";
import { checkCancel, checkRetry, startQuire } from "./server.mjs";

const STORY = "Once upon a time";
let quire, client;

before(async () => {
  quire = await startQuire();
  client = new OpenAI({ baseURL: `${quire.url}/v1`, apiKey: "none", maxRetries: 0 });
});
after(async () => assert.equal(await quire.stop(), 0));

test("models", async () => {
  const ids = [];
  for await (const model of client.models.list()) ids.push(model.id);
  assert.deepEqual(ids, ["quire-demo"]);
  assert.equal((await client.models.retrieve("quire-demo")).object, "model");
  await assert.rejects(client.models.retrieve("other"), OpenAI.NotFoundError);
});

test("completions: whole and streamed", async () => {
  const params = { model: "quire-demo", prompt: STORY, max_tokens: 12, temperature: 0, logprobs: 2 };
  const whole = await client.completions.create(params);
  const choice = whole.choices[0];
  assert.equal(choice.finish_reason, "length");
  assert.equal(whole.usage.completion_tokens, 12);
  assert.equal(choice.logprobs.tokens.length, 12);
  assert.equal(choice.logprobs.tokens.join(""), choice.text);
  let text = "", usage, finish;
  const stream = await client.completions.create({ ...params, stream: true, stream_options: { include_usage: true } });
  for await (const chunk of stream) {
    text += chunk.choices[0]?.text ?? "";
    finish = chunk.choices[0]?.finish_reason ?? finish;
    usage = chunk.usage ?? usage;
  }
  assert.equal(text, choice.text);
  assert.equal(finish, "length");
  assert.equal(usage.total_tokens, whole.usage.total_tokens);
});

test("chat, streams: whole and streamed", async () => {
  const params = {
    model: "quire-demo",
    messages: [{ role: "user", content: STORY }],
    max_completion_tokens: 10,
    temperature: 0,
    logprobs: true,
    top_logprobs: 2,
  };
  const whole = await client.chat.completions.create(params);
  const { message, finish_reason, logprobs } = whole.choices[0];
  assert.equal(message.role, "assistant");
  assert.ok(message.content.length > 0);
  assert.equal(finish_reason, "length");
  assert.equal(logprobs.content.length, 10);
  const bytes = Buffer.concat(logprobs.content.map((t) => Buffer.from(t.bytes)));
  assert.equal(bytes.toString(), message.content);
  assert.ok(logprobs.content.every((t) => t.top_logprobs.length === 2));
  const runner = client.chat.completions.stream({ ...params, stream_options: { include_usage: true } });
  const final = await runner.finalChatCompletion();
  assert.equal(final.choices[0].message.content, message.content);
  assert.equal(final.usage.completion_tokens, 10);
});

test("chat: several choices differ and are numbered", async () => {
  const whole = await client.chat.completions.create({
    model: "quire-demo", messages: [{ role: "user", content: STORY }], n: 3, seed: 7, max_tokens: 8,
  });
  assert.deepEqual(whole.choices.map((c) => c.index), [0, 1, 2]);
  assert.ok(new Set(whole.choices.map((c) => c.message.content)).size > 1);
});

test("cancel: an aborted stream frees its place", async () => {
  let stream, pieces;
  await checkCancel(quire, async () => {
    stream = await client.chat.completions.create({ model: "quire-demo", messages: [{ role: "user", content: STORY }],
      max_tokens: 900, stream: true, ignore_eos: true });
    pieces = stream[Symbol.asyncIterator]();
    await pieces.next();
  }, () => stream.controller.abort());
});

test("errors have the package's classes and name the field", async () => {
  const bad = client.chat.completions.create({ model: "quire-demo", messages: [{ role: "user", content: "x" }], temperature: 9 });
  await assert.rejects(bad, (e) => e instanceof OpenAI.BadRequestError && e.param === "temperature");
  const nobody = client.chat.completions.create({ model: "other", messages: [{ role: "user", content: "x" }] });
  await assert.rejects(nobody, (e) => e instanceof OpenAI.NotFoundError && e.code === "model_not_found");
});

const CLOCK = { type: "function", function: { name: "clock", strict: true, parameters: { type: "object",
  properties: { zone: { type: "integer", minimum: -12, maximum: 12 } }, required: ["zone"], additionalProperties: false } } };

test("tools: a call, whole and streamed", async () => {
  const params = { model: "quire-demo", messages: [{ role: "user", content: "What time is it?" }], tools: [CLOCK],
    tool_choice: "required", parallel_tool_calls: false, seed: 4 };
  const { message, finish_reason } = (await client.chat.completions.create(params)).choices[0];
  assert.equal(finish_reason, "tool_calls");
  const [call] = message.tool_calls;
  assert.equal(call.function.name, "clock");
  assert.ok(Number.isInteger(JSON.parse(call.function.arguments).zone));
  const final = await client.chat.completions.stream(params).finalChatCompletion();
  assert.equal(final.choices[0].message.tool_calls[0].function.arguments, call.function.arguments);
  assert.equal(final.choices[0].finish_reason, "tool_calls");
  const next = await client.chat.completions.create({ ...params, tool_choice: "none", max_tokens: 4,
    messages: [...params.messages, message, { role: "tool", tool_call_id: call.id, content: "Noon." }] });
  assert.equal(next.usage.completion_tokens, 4);
});

test("schemas: an answer in a type", async () => {
  const Person = z.object({ name: z.string().max(12), age: z.number().int().min(0).max(120), tags: z.array(z.enum(["a", "b"])).max(3) });
  const answer = await client.chat.completions.parse({
    model: "quire-demo", messages: [{ role: "user", content: "Who?" }], response_format: zodResponseFormat(Person, "person"),
  });
  const { message, finish_reason } = answer.choices[0];
  assert.equal(finish_reason, "stop");
  Person.parse(message.parsed);
});

test("embeddings: the package the package asks for in base64", async () => {
  const { data, usage } = await client.embeddings.create({ model: "quire-demo", input: ["one text", "another"] });
  assert.equal(data.length, 2);
  assert.ok(data.every((d) => Math.abs(Math.hypot(...d.embedding) - 1) < 1e-4));
  const plain = await client.embeddings.create({ model: "quire-demo", input: "one text", encoding_format: "float" });
  assert.ok(plain.data[0].embedding.every((x, i) => Math.abs(x - data[0].embedding[i]) < 1e-6));
  assert.ok(usage.prompt_tokens > 0);
});

test("responses: whole and streamed", async () => {
  const params = { model: "quire-demo", input: STORY, instructions: "Tell a story.", max_output_tokens: 10, temperature: 0 };
  const whole = await client.responses.create(params);
  assert.equal(whole.object, "response");
  assert.equal(whole.status, "incomplete");
  assert.equal(whole.incomplete_details.reason, "max_output_tokens");
  assert.ok(whole.output_text.length > 0);
  assert.equal(whole.usage.output_tokens, 10);
  const types = [];
  let text = "", last;
  for await (const event of await client.responses.create({ ...params, stream: true })) {
    types.push(event.type);
    if (event.type === "response.output_text.delta") text += event.delta;
    last = event;
  }
  assert.equal(text, whole.output_text);
  assert.equal(types[0], "response.created");
  assert.equal(last.type, "response.incomplete");
  assert.equal(last.response.output[0].content[0].text, text);
});

test("retry: a refusal for want of room is retried until there is some", async () => {
  const small = await startQuire("--max-sequences", "1", "--queue-limit", "1");
  const patient = new OpenAI({ baseURL: `${small.url}/v1`, apiKey: "none", maxRetries: 60 });
  const calls = Array.from({ length: 6 }, (_, i) =>
    patient.completions.create({ model: "quire-demo", prompt: STORY, max_tokens: 60, seed: i, ignore_eos: true }));
  for (const answer of await Promise.all(calls)) assert.equal(answer.usage.completion_tokens, 60);
  assert.ok((await small.metric('quire_rejections_total{reason="queue_full"}')) > 0);
  assert.equal(await small.stop(), 0);
});

test("retry: a key without requests left gets one", () => checkRetry((url, key) => {
  const patient = new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 4 });
  return () => patient.completions.create({ model: "quire-demo", prompt: STORY, max_tokens: 2 });
}));

test("tools: two rounds of calls and results, and an answer", async () => {
  const messages = [{ role: "user", content: "What time is it?" }];
  const params = { model: "quire-demo", messages, tools: [CLOCK], parallel_tool_calls: false };
  for (const tool_choice of ["required", { type: "function", function: { name: "clock" } }]) {
    const { message } = (await client.chat.completions.create({ ...params, tool_choice })).choices[0];
    const [call] = message.tool_calls;
    messages.push(message, { role: "tool", tool_call_id: call.id, content: `noon in ${JSON.parse(call.function.arguments).zone}` });
  }
  const last = (await client.chat.completions.create({ ...params, tool_choice: "none", max_tokens: 6 })).choices[0].message;
  assert.ok(last.content.length > 0 && !last.tool_calls);
});
