/* The Markdown renderer, in the browser: what becomes what, what never becomes anything but text, and that its work
 * grows with the text and no faster. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { openBrowser, openPage } from "./browser.mjs";
import { startQuire } from "./quire.mjs";

let quire, browser, page;
before(async () => {
  quire = await startQuire();
  browser = await openBrowser();
  page = await openPage(browser, quire.url);
});
after(async () => {
  await browser?.close();
  await quire?.stop();
});

/* Tags and texts of what is rendered; the test reads them as HTML, which the page never does. */
const render = (text) => page.evaluate(async (t) => {
  const { markdown } = await import("/page/markdown.js");
  const node = document.createElement("div");
  node.append(markdown(t));
  return node.innerHTML;
}, text);

const table = [
  ["# One\n\ntext", "<h3>One</h3><p>text</p>"],
  ["*a* **b** `c` ~~d~~ snake_case_name", "<p><em>a</em> <strong>b</strong> <code>c</code> <del>d</del> snake_case_name</p>"],
  ["a * b * c", "<p>a * b * c</p>"],
  ["**not closed", "<p>**not closed</p>"],
  ["- a\n- b\n  - c", "<ul><li>a</li><li>b<ul><li>c</li></ul></li></ul>"],
  ["3. a\n4. b", '<ol start="3"><li>a</li><li>b</li></ol>'],
  ["> a\n> b", "<blockquote><p>a<br>b</p></blockquote>"],
  ["\\*a\\*", "<p>*a*</p>"],
  ["<b>x</b>", "<p>&lt;b&gt;x&lt;/b&gt;</p>"],
  ["<script>alert(1)</script>", "<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>"],
  ["[x](https://a.org/?q=1)", '<p><a href="https://a.org/?q=1" rel="noopener noreferrer" target="_blank">x</a></p>'],
  ["see https://a.org/b.", '<p>see <a href="https://a.org/b" rel="noopener noreferrer" target="_blank">https://a.org/b</a>.</p>'],
  ["---", "<hr>"],
];

for (const [text, html] of table)
  test(`${JSON.stringify(text)} becomes ${html}`, async () => assert.equal(await render(text), html));

const hostile = ["[x](javascript:alert(1))", "[x](JaVaScRiPt:alert(1))", "[x](\tjavascript:alert(1))", "[x](data:text/html,<script>1</script>)",
  "[x](vbscript:x)", "[x](//elsewhere.invalid)", "[x](/v1/models)", "[x](file:///etc/passwd)", "[x](blob:https://a/b)", "<javascript:alert(1)>",
  "![x](javascript:alert(1))", "<iframe src=//elsewhere.invalid>", "[x](java\\script:alert(1))", "[x](&#106;avascript:alert(1))",
  "| <img src=x onerror=alert(1)> |\n| - |\n| <svg onload=alert(1)> |", "# <img src=x onerror=alert(1)>", "```<img src=x>\n<script>\n```",
  "- <style>*{display:none}</style>", "> <form action=//elsewhere.invalid>", '[x](https://a.org/" onclick="alert(1))'];

for (const text of hostile)
  test(`${JSON.stringify(text)} is harmless`, async () => {
    const bad = await page.evaluate(async (t) => {
      const { markdown } = await import("/page/markdown.js");
      const node = document.createElement("div");
      node.append(markdown(t));
      const all = [...node.querySelectorAll("*")];
      return [all.filter((e) => /^(script|img|svg|iframe|style|form|object|embed|base|link|meta)$/i.test(e.tagName)).length,
        all.flatMap((e) => [...e.attributes]).filter((a) => /^on|^style$|^src/.test(a.name)).length,
        all.filter((e) => e.href && !/^(https?|mailto):/.test(e.getAttribute("href"))).length];
    }, text);
    assert.deepEqual(bad, [0, 0, 0]);
  });

test("a text that grows becomes what it is at once, wherever it is cut", async () => {
  const text = "# A\n\none *two*\nthree\n\n- a\n\n- b\n  c\n\n```py\nx = 1\n\ny = 2\n```\nafter\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n\nend";
  const [live, whole] = await page.evaluate(async (t) => {
    const { LiveMarkdown, markdown } = await import("/page/markdown.js");
    const live = new LiveMarkdown();
    for (let n = 1; n <= t.length; n++) live.update(t.slice(0, n));
    live.finish(t);
    live.tail.replaceWith(...live.tail.childNodes);
    const node = document.createElement("div");
    node.append(markdown(t));
    return [live.node.innerHTML, node.innerHTML];
  }, text);
  assert.equal(live, whole);
});

/* Elements that are made, and characters that are put into elements, for each of those that come. */
test("an answer that grows costs what it has, however long it is", async () => {
  const n = 24000;
  const parts = { table: ["| a | b |\n|---|---|\n", "| *one* | two |\n"], code: ["```c\n", "int x = 1; /* y */\n"], list: ["", "- a *b* c\n"],
    quote: ["", "> a *b* c\n"], paragraph: ["", "a *b* c "], numbers: ["", "1. a\n\n   b\n"], open: ["a\n```\n", "x y z\n"] };
  for (const [name, [head, part]] of Object.entries(parts)) {
    const text = head + part.repeat(n / part.length);
    const [made, put, same] = await page.evaluate(async (t) => {
      const { LiveMarkdown, markdown } = await import("/page/markdown.js");
      const real = { create: Document.prototype.createElement, append: Element.prototype.append, data: CharacterData.prototype.appendData };
      let made = 0, put = 0;
      Document.prototype.createElement = function (...a) { made++; return real.create.apply(this, a); };
      Element.prototype.append = function (...a) { for (const x of a) put += typeof x === "string" ? x.length : 0; return real.append.apply(this, a); };
      CharacterData.prototype.appendData = function (x) { put += x.length; return real.data.call(this, x); };
      const live = new LiveMarkdown();
      for (let n = 1; n <= t.length; n += 3) live.update(t.slice(0, n));
      live.finish(t);
      Object.assign(Document.prototype, { createElement: real.create });
      Object.assign(Element.prototype, { append: real.append });
      Object.assign(CharacterData.prototype, { appendData: real.data });
      live.tail.replaceWith(...live.tail.childNodes);
      const node = document.createElement("div");
      node.append(markdown(t));
      return [made, put, live.node.innerHTML === node.innerHTML];
    }, text);
    assert.ok(made < 6 * n && put < 40 * n && same, `${name}: ${made} elements, ${put} characters, ${same}`);
  }
});

test("long hostile texts end: each is of 200,000 characters", async () => {
  const n = 200000;
  for (const part of ["*a ", "**", "`", "`a``", "[", "[a](", "_", "> ", "- ", "<", "| ", "```", "# ", "\\", "https://", "***a*", "a|b\n-|-\n", "  - x\n"])
    assert.ok((await render(part.repeat(n / part.length))).length > 0, part);
});
