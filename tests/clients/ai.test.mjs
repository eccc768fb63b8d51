/* Vercel's ai package through @ai-sdk/openai-compatible. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { embedMany, generateObject, generateText, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";
import { checkCancel, checkRetry, startQuire } from "./server.mjs";

let quire, provider;

before(async () => {
  quire = await startQuire();
  provider = createOpenAICompatible({ name: "quire", baseURL: `${quire.url}/v1`, includeUsage: true, supportsStructuredOutputs: true });
});
after(async () => assert.equal(await quire.stop(), 0));

const params = { prompt: "Once upon a time", temperature: 0, maxOutputTokens: 10, maxRetries: 0 };

test("chat, streams: whole and streamed", async () => {
  const whole = await generateText({ model: provider("quire-demo"), ...params });
  assert.ok(whole.text.length > 0);
  assert.equal(whole.finishReason, "length");
  assert.equal(whole.usage.outputTokens, 10);
  const stream = streamText({ model: provider("quire-demo"), ...params });
  let text = "";
  for await (const piece of stream.textStream) text += piece;
  assert.equal(text, whole.text);
  assert.equal(await stream.finishReason, "length");
  assert.equal((await stream.usage).outputTokens, 10);
});

test("schemas: an object", async () => {
  const schema = z.object({ name: z.string().max(12), age: z.number().int().min(0).max(120) });
  const { object, finishReason } = await generateObject({ model: provider("quire-demo"), schema, prompt: "Who?", maxRetries: 0 });
  schema.parse(object);
  assert.equal(finishReason, "stop");
});

test("tools: one is called with what it takes", async () => {
  const inputSchema = z.object({ zone: z.number().int().min(-12).max(12) });
  const zones = [];
  const clock = tool({ description: "The time.", inputSchema, execute: async ({ zone }) => (zones.push(zone), "noon") });
  const answer = await generateText({ model: provider("quire-demo"), tools: { clock }, toolChoice: { type: "tool", toolName: "clock" },
    prompt: "Noon?", maxRetries: 0 });
  assert.equal(zones.length, 1);
  assert.equal(answer.finishReason, "tool-calls");
  assert.equal(answer.toolResults[0].output, "noon");
});

test("completions: whole and streamed", async () => {
  const model = provider.completionModel("quire-demo");
  const whole = await generateText({ model, ...params });
  let text = "";
  for await (const piece of streamText({ model, ...params }).textStream) text += piece;
  assert.ok(text.length > 0);
  assert.equal(text, whole.text);
});

test("tools, streams: its own loop of two calls, and an answer", async () => {
  const inputSchema = z.object({ zone: z.number().int().min(-12).max(12) });
  const zones = [];
  const clock = tool({ description: "The time.", inputSchema, execute: async ({ zone }) => (zones.push(zone), `noon in ${zone}`) });
  const run = streamText({ model: provider("quire-demo"), prompt: "What time is it?", tools: { clock }, maxRetries: 0,
    stopWhen: stepCountIs(3), prepareStep: ({ stepNumber }) => ({ toolChoice: stepNumber < 2 ? "required" : "none" }) });
  const text = await run.text;
  assert.ok(zones.length >= 2);
  assert.equal((await run.steps).length, 3);
  assert.ok(text.length > 0);
});

test("embeddings: several texts", async () => {
  const { embeddings } = await embedMany({ model: provider.embeddingModel("quire-demo"), values: ["one text", "another"], maxRetries: 0 });
  assert.ok(embeddings.every((v) => Math.abs(Math.hypot(...v) - 1) < 1e-4));
});

test("cancel: an aborted stream frees its place", async () => {
  const abort = new AbortController();
  const model = createOpenAICompatible({ name: "quire", baseURL: `${quire.url}/v1`,
    transformRequestBody: (body) => ({ ...body, ignore_eos: true }) })("quire-demo");
  let pieces;
  await checkCancel(quire, async () => {
    const stream = streamText({ model, prompt: "Once upon a time", maxOutputTokens: 900, maxRetries: 0, abortSignal: abort.signal });
    pieces = stream.textStream[Symbol.asyncIterator]();
    await pieces.next();
  }, () => abort.abort());
});

test("retry: a key without requests left gets one", () => checkRetry((url, key) => {
  const limited = createOpenAICompatible({ name: "quire", baseURL: `${url}/v1`, apiKey: key });
  return () => generateText({ model: limited("quire-demo"), prompt: "Once upon a time", maxOutputTokens: 2, maxRetries: 4 });
}));
