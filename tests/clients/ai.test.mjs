/* Vercel's ai package through @ai-sdk/openai-compatible. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateObject, generateText, streamText, tool } from "ai";
import { z } from "zod";
import { startQuire } from "./server.mjs";

let quire, provider;

before(async () => {
  quire = await startQuire();
  provider = createOpenAICompatible({ name: "quire", baseURL: `${quire.url}/v1`, includeUsage: true, supportsStructuredOutputs: true });
});
after(async () => assert.equal(await quire.stop(), 0));

const params = { prompt: "Once upon a time", temperature: 0, maxOutputTokens: 10, maxRetries: 0 };

test("text, whole and streamed", async () => {
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

test("an object", async () => {
  const schema = z.object({ name: z.string().max(12), age: z.number().int().min(0).max(120) });
  const { object, finishReason } = await generateObject({ model: provider("quire-demo"), schema, prompt: "Who?", maxRetries: 0 });
  schema.parse(object);
  assert.equal(finishReason, "stop");
});

test("a tool is called with what it takes", async () => {
  const inputSchema = z.object({ zone: z.number().int().min(-12).max(12) });
  const zones = [];
  const clock = tool({ description: "The time.", inputSchema, execute: async ({ zone }) => (zones.push(zone), "noon") });
  const answer = await generateText({ model: provider("quire-demo"), tools: { clock }, toolChoice: { type: "tool", toolName: "clock" },
    prompt: "Noon?", maxRetries: 0 });
  assert.equal(zones.length, 1);
  assert.equal(answer.finishReason, "tool-calls");
  assert.equal(answer.toolResults[0].output, "noon");
});
