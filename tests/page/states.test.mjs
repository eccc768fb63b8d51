/* What a server may answer: errors, lines that are cut, thoughts, tool calls, and texts that want to be markup. The
 * API is the test's own; the page and its headers are Quire's. */
import assert from "node:assert/strict";
import { after, before, beforeEach, test } from "node:test";
import { finished, openBrowser, openPage, shoot, textOf, typeAndSend } from "./browser.mjs";
import { beginStream, endStream, frame, sendError, sendJson, startFake, startQuire } from "./quire.mjs";

const CHAT = "/v1/chat/completions";
const HOSTILE = `<img src=x onerror="window.hacked=1"><script>window.hacked=1</script><svg onload=window.hacked=1>` +
  `[click](javascript:window.hacked=1) <a href="javascript:window.hacked=1">x</a> ![i](https://elsewhere.invalid/i.png) "'><b>`;
const routes = {};
let quire, fake, browser;

before(async () => {
  quire = await startQuire();
  fake = await startFake(quire, routes);
  browser = await openBrowser();
});
beforeEach(() => {
  for (const path of Object.keys(routes)) delete routes[path];
});
after(async () => {
  await browser?.close();
  await fake?.stop();
  await quire?.stop();
});

const answerWith = (...deltas) => (request, response) => {
  beginStream(response);
  deltas.forEach((delta, i) => response.write(frame(i, delta)));
  endStream(response, deltas.length);
};

for (const [status, headers, advice] of [[401, {}, /API key/], [429, { "Retry-After": "7" }, /wait for 7 s/],
  [503, { "Retry-After": "2" }, /wait for 2 s/], [500, {}, /reason/]])
  test(`${status} is shown as the server says it, and can be tried again`, async () => {
    let n = 0;
    routes[CHAT] = (q, r) => (n++ === 0 ? sendError(r, status, `the reason of ${status}`, headers) : answerWith({ content: "well" })(q, r));
    const page = await openPage(browser, fake.url);
    await typeAndSend(page, "hello");
    await page.waitForSelector(".log .error");
    assert.match(await textOf(page, ".log .error"), new RegExp(`${status} the reason of ${status}`));
    assert.match(await textOf(page, ".log .error"), advice);
    if (status === 429) await shoot(page, "error");
    await page.click(".log .error button");
    await page.waitForFunction(() => !document.querySelector(".log .error"));
    assert.equal(await finished(page), "well");
    await page.done();
  });

test("a server that loads is asked again until it has models", async () => {
  let n = 0;
  routes["/v1/models"] = (q, r) => (n++ < 1 ? sendError(r, 503, "loading the model", { "Retry-After": "1" })
    : sendJson(r, 200, { data: [{ id: "late" }] }));
  const page = await openPage(browser, fake.url);
  await page.waitForSelector("main > .state .error");
  assert.match(await textOf(page, "main > .state"), /503 loading the model/);
  await page.waitForFunction(() => document.querySelector(".side select").value === "late");
  assert.equal(await page.$("main > .state .error"), null);
  await page.done();
});

test("a line that is cut is gone on with behind the last frame", async () => {
  routes[CHAT] = (q, r) => {
    beginStream(r);
    r.write(frame(0, { content: "one " }) + frame(1, { content: "two " }), () => setTimeout(() => r.destroy(), 50));
  };
  let asked;
  routes["/v1/streams/chatcmpl-1"] = (q, r) => {
    asked = q.url;
    beginStream(r);
    r.write(frame(2, { content: "three" }));
    endStream(r, 3);
  };
  const page = await openPage(browser, fake.url);
  await typeAndSend(page, "count");
  assert.equal(await finished(page), "one two three");
  assert.equal(asked, "/v1/streams/chatcmpl-1?after=1");
  await page.done();
});

test("a reload in mid-answer asks for the rest, and only for that", async () => {
  routes[CHAT] = (q, r) => {
    beginStream(r);
    r.write(frame(0, { content: "one " }));
  };
  let asked;
  routes["/v1/streams/chatcmpl-1"] = (q, r) => {
    asked = q.url;
    beginStream(r);
    r.write(frame(1, { content: "two" }));
    endStream(r, 2);
  };
  const page = await openPage(browser, fake.url);
  await typeAndSend(page, "count");
  await page.waitForFunction(() => document.querySelector(".running .markdown")?.textContent.includes("one"));
  assert.equal(asked, undefined);
  await page.reload();
  assert.equal(await finished(page), "one two");
  assert.equal(asked, "/v1/streams/chatcmpl-1?after=0");
  await page.done();
});

test("what the server does not have any more is said, and what was received stays", async () => {
  routes[CHAT] = (q, r) => {
    beginStream(r);
    r.write(frame(0, { content: "half an answer" }));
  };
  routes["/v1/streams/chatcmpl-1"] = (q, r) => sendError(r, 404, "no stream of such a name");
  const page = await openPage(browser, fake.url);
  await typeAndSend(page, "hello");
  await page.waitForFunction(() => document.querySelector(".running .markdown")?.textContent.includes("half"));
  await page.reload();
  await page.waitForSelector(".log .error");
  assert.match(await textOf(page, ".log .error"), /the server does not have the rest any more/);
  assert.equal(await finished(page), "half an answer");
  await page.done();
});

test("stopping ends the stream that the server keeps", async () => {
  routes[CHAT] = (q, r) => {
    beginStream(r);
    r.write(frame(0, { content: "on and on" }));
  };
  let ended;
  routes["/v1/streams/chatcmpl-1"] = (q, r) => {
    ended = q.method;
    sendJson(r, 200, {});
  };
  const page = await openPage(browser, fake.url);
  await typeAndSend(page, "hello");
  await page.waitForSelector(".running");
  await page.waitForFunction(() => document.querySelector(".running .markdown").textContent.includes("on and on"));
  await page.keyboard.press("Escape");
  await finished(page);
  while (!ended) await new Promise((done) => setTimeout(done, 10));
  assert.equal(ended, "DELETE");
  await page.done();
});

test("thoughts are folded, and tool calls shown", async () => {
  routes[CHAT] = answerWith({ reasoning_content: "let me " }, { reasoning_content: "see" }, { content: "Done." },
    { tool_calls: [{ index: 0, function: { name: "look_up", arguments: '{"city":' } }] },
    { tool_calls: [{ index: 0, function: { arguments: '"Rome"}' } }] });
  const page = await openPage(browser, fake.url);
  await typeAndSend(page, "hello");
  assert.equal(await finished(page), "Done.");
  assert.equal(await textOf(page, ".thoughts .text"), "let me see");
  assert.equal(await page.$eval(".thoughts", (n) => n.open), false);
  assert.match(await textOf(page, ".call"), /look_up[\s\S]*"city": "Rome"/);
  await shoot(page, "tools");
  await page.done();
});

test("the key goes along as Bearer, and is kept only if the reader wants it", async () => {
  const seen = [];
  routes["/v1/models"] = (q, r) => {
    seen.push(q.headers.authorization);
    sendJson(r, 200, { data: [{ id: "m" }] });
  };
  const page = await openPage(browser, fake.url);
  await page.click(".key summary");
  await page.type("#key", "secret");
  await page.keyboard.press("Tab");
  await page.waitForFunction(() => document.querySelector("#key-state").textContent === ": set");
  while (seen.at(-1) !== "Bearer secret") await new Promise((done) => setTimeout(done, 10));
  const kept = () => page.evaluate(() => [sessionStorage["quire.key"], localStorage["quire.key"] ?? null]);
  assert.deepEqual(await kept(), ["secret", null]);
  await page.click("#key-keep");
  assert.deepEqual(await kept(), ["secret", "secret"]);
  await page.done();
});

test("hostile texts are text: in prompts, answers, thoughts, tool calls, errors, names of models and tenants", async () => {
  routes["/v1/models"] = (q, r) => sendJson(r, 200, { data: [{ id: HOSTILE }] });
  routes[CHAT] = answerWith({ reasoning_content: HOSTILE }, { content: HOSTILE },
    { tool_calls: [{ index: 0, function: { name: HOSTILE, arguments: HOSTILE } }] });
  const page = await openPage(browser, fake.url);
  await typeAndSend(page, HOSTILE);
  await finished(page);
  assert.equal(await textOf(page, ".user .text"), HOSTILE);
  assert.ok((await textOf(page, ".assistant .markdown")).includes('<script>window.hacked=1</script>'));
  routes[CHAT] = (q, r) => sendError(r, 400, HOSTILE);
  await typeAndSend(page, "again");
  await page.waitForSelector(".log .error");
  routes["/debug/requests"] = async (q, r) => sendJson(r, 200, { n_running: 1, n_waiting: 0, n_following: 0, n_preempted: 0,
    requests: [{ request_id: HOSTILE, state: HOSTILE, tenant: HOSTILE, blocks: 3, prompt_tokens: 1, max_tokens: 1, computed_tokens: 1,
      priority: HOSTILE, age_ms: 1, queue_ms: 1 }] });
  for (const path of ["/debug/iterations", "/debug/kv"])
    routes[path] = async (q, r) => sendJson(r, 200, await (await fetch(quire.url + path)).json());
  await page.click("nav a[href='#activity']");
  await page.waitForFunction(() => document.querySelector(".activity")?.textContent.includes("onerror"));
  assert.equal(await page.evaluate(() => window.hacked ?? null), null);
  await page.reload(); // what is kept is read again
  await page.waitForSelector(".activity .drawing");
  await page.click("nav a[href='#chat']");
  await page.waitForSelector("section.chat");
  const bad = await page.evaluate(() => [window.hacked ?? null, document.querySelectorAll("main img, main script, main b").length,
    [...document.querySelectorAll("a")].filter((a) => /^(javascript|data):/i.test(a.href)).length]);
  assert.deepEqual(bad, [null, 0, 0]);
  await page.done();
});
