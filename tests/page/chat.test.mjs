/* Chats with the demo model: what is asked and answered, stopped, gone on with, kept. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { finished, openBrowser, openPage, shoot, textOf, typeAndSend } from "./browser.mjs";
import { startQuire } from "./quire.mjs";

let quire, browser;
before(async () => {
  quire = await startQuire();
  browser = await openBrowser();
});
after(async () => {
  await browser?.close();
  await quire?.stop();
});

/* Settings of the side, by the name of the input. */
async function set(page, values) {
  for (const [name, value] of Object.entries(values)) {
    await page.click(`.side [name=${name}]`, { count: 3 });
    await page.type(`.side [name=${name}]`, String(value));
  }
}

test("an answer is that of the API", async () => {
  const page = await openPage(browser, quire.url);
  await set(page, { temperature: 0, max_tokens: 24 });
  await typeAndSend(page, "Tell me a story");
  const shown = await finished(page);
  const reply = await fetch(`${quire.url}/v1/chat/completions`, { method: "POST", headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ messages: [{ role: "user", content: "Tell me a story" }], temperature: 0, max_tokens: 24 }) });
  const { content } = (await reply.json()).choices[0].message;
  assert.equal(shown.replace(/\s+/g, " ").trim(), content.replace(/\s+/g, " ").trim());
  assert.match(await textOf(page, ".assistant .note"), /24 tokens/);
  assert.equal(await textOf(page, "#spoken"), content);
  await shoot(page, "chat");
  await page.done();
});

test("Shift+Enter begins a line, and Enter alone sends", async () => {
  const page = await openPage(browser, quire.url);
  await set(page, { max_tokens: 4 });
  await page.type("#prompt", "one");
  await page.keyboard.down("Shift");
  await page.keyboard.press("Enter");
  await page.keyboard.up("Shift");
  assert.equal(await page.$(".message"), null);
  await typeAndSend(page, "two");
  await finished(page);
  assert.equal(await textOf(page, ".user .text"), "one\ntwo");
  await page.done();
});

test("Esc stops, on the server too, and what came stays", async () => {
  const page = await openPage(browser, quire.url);
  await set(page, { max_tokens: 900 });
  await page.$eval(".side", (side) => side.removeAttribute("open"));
  await typeAndSend(page, "Once upon a time");
  await page.waitForFunction(() => document.querySelector(".running .markdown")?.textContent.length > 10);
  await page.keyboard.press("Escape");
  assert.ok((await finished(page)).length > 10);
  assert.match(await textOf(page, ".assistant .note"), /Stopped/);
  for (let running = 1; running; )
    running = (await (await fetch(`${quire.url}/debug/requests`)).json()).requests.length;
  await page.done();
});

test("a page that is loaded in mid-answer goes on with it", async () => {
  const page = await openPage(browser, quire.url);
  await set(page, { max_tokens: 700, temperature: 0 });
  await typeAndSend(page, "Once upon a time");
  await page.waitForFunction(() => document.querySelector(".running .markdown")?.textContent.length > 10);
  await page.reload();
  const shown = await finished(page);
  const reply = await fetch(`${quire.url}/v1/chat/completions`, { method: "POST", headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ messages: [{ role: "user", content: "Once upon a time" }], temperature: 0, max_tokens: 700 }) });
  const { content } = (await reply.json()).choices[0].message;
  assert.equal(shown.replace(/\s+/g, ""), content.replace(/\s+/g, ""));
  assert.equal(await page.$(".error"), null);
  await page.done();
});

test("below an answer there is what can be done with it, and no more", async () => {
  const page = await openPage(browser, quire.url);
  await set(page, { max_tokens: 4, temperature: 0 });
  for (const text of ["one", "two"]) {
    await typeAndSend(page, text);
    await finished(page);
  }
  await page.reload();
  await page.waitForSelector(".assistant .note");
  const feet = await page.$$eval(".assistant .actions", (all) => all.map((f) => [...f.childNodes].map((n) => n.nodeName).join()));
  assert.deepEqual(feet, ["BUTTON,SPAN", "BUTTON,BUTTON,SPAN"]);
  await page.done();
});

test("regenerate, edit, several conversations, and all of them after a reload", async () => {
  const page = await openPage(browser, quire.url);
  await set(page, { max_tokens: 8, temperature: 0 });
  await typeAndSend(page, "first");
  const answer = await finished(page);
  await page.evaluate(() => [...document.querySelectorAll(".actions button")].find((b) => b.textContent === "Regenerate").click());
  await page.waitForSelector(".running, .assistant .note");
  assert.equal(await finished(page), answer);
  await page.click(".side > button");
  await typeAndSend(page, "second");
  await finished(page);
  await page.reload();
  const titles = await page.$$eval(".conversations button:first-child", (all) => all.map((b) => b.textContent));
  assert.deepEqual(titles, ["second", "first"]);
  await page.click(".conversations li:nth-child(2) button");
  assert.equal(await textOf(page, ".user .text"), "first");
  await page.click(".user .actions button");
  assert.equal(await page.$eval("#prompt", (n) => n.value), "first");
  assert.equal(await page.$(".message"), null);
  await page.click(".conversations li:nth-child(1) .remove");
  assert.equal((await page.$$(".conversations li")).length, 1);
  await page.done();
});

test("a raw completion shows how likely its tokens were", async () => {
  const page = await openPage(browser, quire.url);
  await page.click("nav a[href='#raw']");
  await page.waitForSelector("#raw-prompt");
  await page.type("#raw-prompt", "Once upon");
  await page.type(".raw [name=max_tokens]", "12");
  await page.type(".raw [name=temperature]", "0");
  await page.click(".raw button.primary");
  await page.waitForFunction(() => document.querySelectorAll(".raw tbody tr").length === 12);
  await page.click(".raw details summary");
  await shoot(page, "raw");
  const first = await page.$eval(".raw tbody tr", (n) => n.textContent);
  assert.match(first, /" a"/);
  await page.done();
});

test("a decision shows a bar for each option", async () => {
  const page = await openPage(browser, quire.url);
  await page.click("nav a[href='#decide']");
  await page.waitForSelector("#decide-input");
  await page.type("#decide-input", "The bear slept.");
  await page.type("#question-text-1", "It slept.");
  await page.click(".decide form > button[type=button]");
  await page.select("#question-kind-2", "choice");
  await page.type("#question-text-2", "Who?");
  await page.type("#question-options-2", "bear - a large animal\nbird\n");
  await page.click(".decide button.primary");
  await page.waitForFunction(() => document.querySelectorAll(".answers meter").length === 4);
  await shoot(page, "decide");
  const shares = await page.$$eval(".answers meter", (list) => list.map((n) => n.value));
  assert.ok(Math.abs(shares[0] + shares[1] - 1) < 1e-4 && Math.abs(shares[2] + shares[3] - 1) < 1e-4);
  assert.match(await textOf(page, ".answers"), /bear[^]*Confidence|Confidence[^]*bear/);
  assert.match(await textOf(page, ".answers .warning"), /% of the probability: the model would rather write something else/);
  await page.$eval("#decide-orders", (n) => { n.value = 2; });
  await page.click(".decide button.primary");
  await page.waitForFunction((old) => { const n = document.querySelectorAll(".answers meter")[2]; return n && n.value !== old; }, {}, shares[2]);
  await page.$eval("#question-options-2", (n) => { n.value = "bear"; });
  await page.click(".decide button.primary");
  await page.waitForSelector(".decide [role=alert]");
  assert.match(await textOf(page, ".decide [role=alert]"), /2 to 255 options/);
  await page.done();
});

test("the view of what the server is doing", async () => {
  const page = await openPage(browser, quire.url);
  await set(page, { max_tokens: 900 });
  await typeAndSend(page, "Once upon a time");
  await page.click("nav a[href='#activity']");
  await page.waitForFunction(() => document.querySelectorAll(".activity .drawing").length === 8);
  await shoot(page, "activity");
  assert.match(await textOf(page, ".activity"), /Time to first token/);
  await page.done();
});

test("360 pixels are enough: nothing is wider than the screen", async () => {
  const page = await openPage(browser, quire.url, { width: 360, height: 640 });
  await page.click(".side summary");
  await page.type(".side [name=max_tokens]", "40");
  await page.click(".side summary");
  await typeAndSend(page, "a".repeat(200));
  await finished(page);
  await shoot(page, "narrow-chat");
  for (const view of ["chat", "raw", "decide", "activity"]) {
    await page.click(`nav a[href='#${view}']`);
    await page.waitForSelector(`section.${view}`);
    if (view === "activity") await page.waitForSelector(".drawing");
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= 360 &&
      document.querySelector("main").scrollWidth <= 360), view);
    await shoot(page, `narrow-${view}`);
  }
  await page.click(".key summary");
  const panel = await page.$eval(".key .panel", (n) => n.getBoundingClientRect().toJSON());
  assert.ok(panel.left >= 0 && panel.right <= 360);
  await page.done();
});
