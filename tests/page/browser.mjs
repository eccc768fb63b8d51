/* A headless Chromium, and pages in it that tell what the policy refused and what failed in them. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import puppeteer from "puppeteer-core";

const names = ["chromium", "chromium-browser", "google-chrome"];

function findChromium() {
  for (const name of names)
    try {
      return execFileSync("sh", ["-c", `command -v ${name}`], { encoding: "utf8" }).trim();
    } catch { /* the next one */ }
  throw new Error(`none of ${names.join(", ")} is installed`);
}

export async function openBrowser() {
  return puppeteer.launch({ executablePath: findChromium(), headless: true, args: ["--no-sandbox", "--disable-gpu"] });
}

/* A page with a storage of its own. Its check() fails if the policy refused anything, a script threw,
 * a dialog came up, or anything was asked of another server. */
export async function openPage(browser, url, { width = 1200, height = 800, dark = false } = {}) {
  const context = await browser.createBrowserContext();
  const page = await context.newPage();
  const wrong = [];
  await page.setViewport({ width, height });
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: dark ? "dark" : "light" }]);
  await page.exposeFunction("tellViolation", (what) => wrong.push(`the policy refused ${what}`));
  await page.evaluateOnNewDocument(() => {
    window.addEventListener("securitypolicyviolation", (e) => window.tellViolation(`${e.violatedDirective} ${e.blockedURI}`));
  });
  page.on("pageerror", (e) => wrong.push(`a script threw ${e.message}`));
  page.on("dialog", (d) => { wrong.push(`a dialog said ${d.message()}`); d.dismiss(); });
  page.on("request", (r) => { if (!r.url().startsWith(url) && !r.url().startsWith("data:")) wrong.push(`asked for ${r.url()}`); });
  await page.goto(`${url}/`);
  await page.waitForSelector("main section");
  page.check = () => assert.deepEqual(wrong, []);
  page.done = async () => { page.check(); await context.close(); };
  return page;
}

/* To be looked at; nothing compares them. */
export async function shoot(page, name) {
  const folder = process.env.QUIRE_SHOTS ?? "shots";
  mkdirSync(folder, { recursive: true });
  await page.screenshot({ path: join(folder, `${name}.png`) });
}

export const textOf = (page, selector) => page.$eval(selector, (n) => n.textContent);

/* The text of the last answer, once it has come to its end. */
export async function finished(page) {
  await page.waitForFunction(() => document.querySelector(".assistant") && !document.querySelector(".running") &&
    document.querySelector(".composer button").textContent === "Send");
  return page.$$eval(".assistant .markdown", (all) => all.at(-1).textContent);
}

export async function typeAndSend(page, text) {
  await page.type("#prompt", text);
  await page.keyboard.press("Enter");
}
