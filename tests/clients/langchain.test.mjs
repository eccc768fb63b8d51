/* @langchain/openai: chats and completions as LangChain programs make them. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { HumanMessage, SystemMessage } from "@langchain/core/messages";
import { ChatOpenAI, OpenAI } from "@langchain/openai";
import { z } from "zod";
import { startQuire } from "./server.mjs";

let quire, options;

before(async () => {
  quire = await startQuire();
  options = { model: "quire-demo", apiKey: "none", temperature: 0, maxTokens: 10, maxRetries: 0,
    configuration: { baseURL: `${quire.url}/v1` } };
});
after(async () => assert.equal(await quire.stop(), 0));

test("a chat, whole and streamed", async () => {
  const chat = new ChatOpenAI(options);
  const messages = [new SystemMessage("Tell a story."), new HumanMessage("Once upon a time")];
  const whole = await chat.invoke(messages);
  assert.ok(whole.content.length > 0);
  assert.equal(whole.usage_metadata.output_tokens, 10);
  assert.equal(whole.response_metadata.finish_reason, "length");
  let text = "";
  for await (const chunk of await chat.stream(messages)) text += chunk.content;
  assert.equal(text, whole.content);
});

test("a tool call and structured output", async () => {
  const schema = z.object({ zone: z.number().int().min(-12).max(12) });
  const chat = new ChatOpenAI({ ...options, maxTokens: 200 });
  const answer = await chat.bindTools([{ name: "clock", description: "The time.", schema }], { tool_choice: "clock" }).invoke("Noon?");
  assert.equal(answer.tool_calls[0].name, "clock");
  schema.parse(answer.tool_calls[0].args);
  schema.parse(await chat.withStructuredOutput(schema, { name: "zone", method: "jsonSchema" }).invoke("Noon?"));
});

test("a completion", async () => {
  const text = await new OpenAI(options).invoke("Once upon a time");
  assert.ok(text.length > 0);
});
