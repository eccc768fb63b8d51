// The page: which view is shown, the key, the colours.
import { Activity } from "./activity.js";
import { adviceOf, isKeyKept, key, setKey } from "./api.js";
import { Chat } from "./chat.js";
import { Decide } from "./decide.js";
import { el, store, stored } from "./dom.js";
import { Models } from "./models.js";
import { Raw } from "./raw.js";

const THEME = "quire.theme";
const AGAIN_MS = 3000; // while the server loads, or asks for a wait

const byId = (id) => document.getElementById(id);
const models = new Models();
const views = { chat: new Chat(models), raw: new Raw(models), decide: new Decide(models), activity: new Activity(models) };
const state = el("div", { class: "state" });
let timer = 0;

function show() {
  const name = location.hash.slice(1) in views ? location.hash.slice(1) : "chat";
  for (const a of document.querySelectorAll("nav a"))
    if (a.hash === `#${name}`) a.setAttribute("aria-current", "page");
    else a.removeAttribute("aria-current");
  for (const view of Object.values(views)) view.hide?.();
  byId("view").replaceChildren(state, views[name].node);
  views[name].show?.();
  document.title = `${document.querySelector("nav [aria-current]").textContent} – Quire`;
}

// Until there are models: a server that loads says so, and is asked again.
async function loadModels() {
  clearTimeout(timer);
  try {
    await models.load();
    state.replaceChildren();
  } catch (e) {
    const advice = adviceOf(e);
    state.replaceChildren(el("div", { class: "error", role: "alert" },
      el("p", {}, e.status ? el("strong", {}, `${e.status} `) : null, e.message), advice ? el("p", {}, advice) : null,
      el("button", { type: "button", onclick: loadModels }, "Try again")));
    if (e.status === 503 || e.status === 429)
      timer = setTimeout(loadModels, Math.max(AGAIN_MS, 1000 * (e.retryAfter ?? 0)));
  }
}

function useKey() {
  setKey(byId("key").value.trim(), byId("key-keep").checked);
  byId("key-state").textContent = key() ? ": set" : "";
}

function useTheme(name) {
  if (name === "light" || name === "dark") document.documentElement.dataset.theme = name;
  else delete document.documentElement.dataset.theme;
}

byId("key").value = key();
byId("key-keep").checked = isKeyKept();
byId("key-state").textContent = key() ? ": set" : "";
byId("key").addEventListener("change", () => { useKey(); loadModels(); });
byId("key-keep").addEventListener("change", useKey);
byId("theme").value = stored(localStorage, THEME) ?? "auto";
byId("theme").addEventListener("change", (e) => { store(localStorage, THEME, e.target.value); useTheme(e.target.value); });
useTheme(byId("theme").value);
document.querySelector(".skip").addEventListener("click", (e) => { e.preventDefault(); byId("view").focus(); });
addEventListener("hashchange", show);
show();
loadModels();
