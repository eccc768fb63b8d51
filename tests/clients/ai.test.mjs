/* Vercel's ai package through @ai-sdk/openai-compatible. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, streamText } from "ai";
import { startQuire } from "./server.mjs";

let quire, provider;

before(async () => {
  quire = await startQuire();
  provider = createOpenAICompatible({ name: "quire", baseURL: `${quire.url}/v1`, includeUsage: true, supportsStructuredOutputs: true });
});
after(async () => assert.equal(await quire.stop(), 0));

const wish = { prompt: "Once upon a time", temperature: 0, maxOutputTokens: 10, maxRetries: 0 };

test("text, whole and streamed", async () => {
  const whole = await generateText({ model: provider("quire-demo"), ...wish });
  assert.ok(whole.text.length > 0);
  assert.equal(whole.finishReason, "length");
  assert.equal(whole.usage.outputTokens, 10);
  const stream = streamText({ model: provider("quire-demo"), ...wish });
  let text = "";
  for await (const piece of stream.textStream) text += piece;
  assert.equal(text, whole.text);
  assert.equal(await stream.finishReason, "length");
  assert.equal((await stream.usage).outputTokens, 10);
});
