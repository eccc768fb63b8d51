/* axe-core finds nothing serious or critical in any view, light and dark, wide and narrow, with errors and answers. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";
import { finished, openBrowser, openPage, shoot, typeAndSend } from "./browser.mjs";
import { beginStream, endStream, frame, sendError, startFake, startQuire } from "./quire.mjs";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const ANSWER = "# Head\n\nText with `code`, *stress* and [a link](https://example.org).\n\n```py\nprint(1)\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n";
const routes = {};
let quire, fake, browser;

before(async () => {
  quire = await startQuire();
  fake = await startFake(quire, routes);
  browser = await openBrowser();
  routes["/v1/chat/completions"] = (q, r) => {
    beginStream(r);
    r.write(frame(0, { reasoning_content: "hm" }) + frame(1, { content: ANSWER }) +
      frame(2, { tool_calls: [{ index: 0, function: { name: "f", arguments: "{}" } }] }));
    endStream(r, 3);
  };
  routes["/v1/completions"] = (q, r) => sendError(r, 429, "too many requests", { "Retry-After": "3" });
});
after(async () => {
  await browser?.close();
  await fake?.stop();
  await quire?.stop();
});

async function check(page, name) {
  await shoot(page, `axe-${name}`);
  const found = await page.evaluate(async (source) => {
    if (!window.axe) (0, eval)(source);
    return (await window.axe.run()).violations.filter((v) => ["serious", "critical"].includes(v.impact))
      .map((v) => `${v.id}: ${v.nodes.map((n) => n.html).join(" ")}`);
  }, axe);
  assert.deepEqual(found, [], name);
}

for (const dark of [false, true])
  for (const width of [1200, 360])
    test(`${dark ? "dark" : "light"}, ${width} pixels`, async () => {
      const kind = `${dark ? "dark" : "light"}-${width}`;
      const page = await openPage(browser, fake.url, { width, dark });
      await page.setBypassCSP(true); // for axe-core itself; the other tests look at the policy
      await page.reload();
      await page.waitForSelector("section.chat");
      await check(page, `${kind}-empty`);
      await typeAndSend(page, "hello");
      await finished(page);
      await page.$eval(".thoughts", (n) => { n.open = true; });
      await check(page, `${kind}-chat`);
      await page.click(".key summary");
      await check(page, `${kind}-key`);
      await page.click(".key summary");
      await page.click("nav a[href='#decide']");
      await page.waitForSelector("#decide-input");
      await page.select("#question-kind-1", "choice");
      await check(page, `${kind}-decide`);
      await page.click("nav a[href='#raw']");
      await page.waitForSelector(".raw button.primary");
      await page.click(".raw button.primary");
      await page.waitForSelector(".raw .error");
      await check(page, `${kind}-raw`);
      await page.click("nav a[href='#activity']");
      await page.waitForSelector(".activity .drawing, .activity .error");
      await check(page, `${kind}-activity`);
      await page.done();
    });
