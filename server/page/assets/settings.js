// The settings of requests: a form whose values are kept, and the fields of a body that they are.
import { el, store, stored } from "./dom.js";

const FIELDS = [
  ["temperature", "Temperature", 0, 2, "any"],
  ["top_p", "Top p", 0, 1, "any"],
  ["top_k", "Top k", -1, 1000000, 1],
  ["max_tokens", "Max tokens", 1, 1000000, 1],
  ["seed", "Seed", 0, Number.MAX_SAFE_INTEGER, 1],
];

export class Settings {
  constructor(name, extra = []) {
    this.name = `quire.settings.${name}`;
    this.values = read(this.name);
    this.node = el("div", { class: "settings" }, ...FIELDS.map((f) => this.number(...f)), ...extra.map((f) => this.text(...f)));
  }

  number(name, label, min, max, step) {
    return this.field(label, el("input", { type: "number", min, max, step, placeholder: "default" }), name);
  }

  text(name, label, rows) {
    return this.field(label, el("textarea", { rows, placeholder: "none" }), name);
  }

  field(label, input, name) {
    input.name = name;
    input.value = this.values[name] ?? "";
    input.addEventListener("input", () => {
      this.values[name] = input.value;
      store(localStorage, this.name, JSON.stringify(this.values));
    });
    return el("label", {}, label, input);
  }

  // What is empty is left to the server.
  body() {
    const out = {};
    for (const [name] of FIELDS)
      if (this.values[name] && Number.isFinite(Number(this.values[name]))) out[name] = Number(this.values[name]);
    return out;
  }
}

function read(name) {
  try {
    const values = JSON.parse(stored(localStorage, name) ?? "{}");
    return values && typeof values === "object" ? values : {};
  } catch {
    return {};
  }
}
