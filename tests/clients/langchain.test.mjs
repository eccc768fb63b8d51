/* @langchain/openai: chats and completions as LangChain programs make them. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { HumanMessage, SystemMessage, ToolMessage } from "@langchain/core/messages";
import { ChatOpenAI, OpenAI, OpenAIEmbeddings } from "@langchain/openai";
import { z } from "zod";
import { checkCancel, checkRetry, startQuire } from "./server.mjs";

let quire, options;

before(async () => {
  quire = await startQuire();
  options = { model: "quire-demo", apiKey: "none", temperature: 0, maxTokens: 10, maxRetries: 0,
    configuration: { baseURL: `${quire.url}/v1` } };
});
after(async () => assert.equal(await quire.stop(), 0));

test("chat, streams: whole and streamed", async () => {
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

test("tools, schemas: a call and an answer in a type", async () => {
  const schema = z.object({ zone: z.number().int().min(-12).max(12) });
  const chat = new ChatOpenAI({ ...options, maxTokens: 200 });
  const answer = await chat.bindTools([{ name: "clock", description: "The time.", schema }], { tool_choice: "clock" }).invoke("Noon?");
  assert.equal(answer.tool_calls[0].name, "clock");
  schema.parse(answer.tool_calls[0].args);
  schema.parse(await chat.withStructuredOutput(schema, { name: "zone", method: "jsonSchema" }).invoke("Noon?"));
});

test("completions: a text", async () => {
  const text = await new OpenAI(options).invoke("Once upon a time");
  assert.ok(text.length > 0);
});

test("tools: two rounds of calls and results, and an answer", async () => {
  const tools = [{ name: "clock", description: "The time.", schema: z.object({ zone: z.number().int().min(-12).max(12) }) }];
  const chat = new ChatOpenAI({ ...options, maxTokens: 200 });
  const messages = [new HumanMessage("What time is it?")];
  for (const tool_choice of ["required", "clock"]) {
    const answer = await chat.bindTools(tools, { tool_choice, parallel_tool_calls: false }).invoke(messages);
    const [call] = answer.tool_calls;
    messages.push(answer, new ToolMessage({ tool_call_id: call.id, content: `noon in ${call.args.zone}` }));
  }
  const last = await chat.bindTools(tools, { tool_choice: "none" }).invoke(messages);
  assert.ok(last.content.length > 0 && last.tool_calls.length === 0);
});

test("embeddings: of texts and of a question", async () => {
  const embeddings = new OpenAIEmbeddings({ model: "quire-demo", apiKey: "none", configuration: options.configuration });
  const vectors = await embeddings.embedDocuments(["one text", "another"]);
  assert.ok(vectors.every((v) => Math.abs(Math.hypot(...v) - 1) < 1e-4));
  assert.equal((await embeddings.embedQuery("one text")).length, vectors[0].length);
});

test("cancel: an aborted stream frees its place", async () => {
  const chat = new ChatOpenAI({ ...options, maxTokens: 900, modelKwargs: { ignore_eos: true } });
  const abort = new AbortController();
  let pieces;
  await checkCancel(quire, async () => {
    pieces = (await chat.stream("Once upon a time", { signal: abort.signal }))[Symbol.asyncIterator]();
    while ((await pieces.next()).value.content === "");
  }, async () => {
    abort.abort();
    await assert.rejects(async () => { while (!(await pieces.next()).done); });
  });
});

test("retry: a key without requests left gets one", () => checkRetry((url, key) => {
  const patient = new ChatOpenAI({ ...options, apiKey: key, maxRetries: 4, maxTokens: 2, configuration: { baseURL: `${url}/v1` } });
  return () => patient.invoke("Once upon a time");
}));
