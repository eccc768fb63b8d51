// The view of raw completions: a prompt, its continuation, and how likely each token was.
import { adviceOf, call } from "./api.js";
import { el, say } from "./dom.js";
import { frames } from "./frames.js";
import { Settings } from "./settings.js";

const MAX_ROWS = 2000; // of the table; the text has no end of its own

export class Raw {
  constructor(models) {
    this.settings = new Settings("raw");
    this.models = models;
    this.prompt = el("textarea", { rows: 8, id: "raw-prompt", spellcheck: "false" });
    this.button = el("button", { type: "submit", class: "primary" }, "Complete");
    this.text = el("pre", { class: "completion", tabindex: "0", role: "region", "aria-label": "Completion" });
    this.rows = el("tbody");
    this.table = el("details", { hidden: true }, el("summary", {}, "Log-probabilities of tokens"),
      el("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Tokens" }, el("table", {},
        el("thead", {}, el("tr", {}, ...["Token", "Probability", "Log-probability", "Others"].map((t) => el("th", { scope: "col" }, t)))),
        this.rows)));
    this.state = el("div", { class: "state" });
    this.build();
  }

  build() {
    this.node = el("section", { class: "raw", "aria-label": "Completion", onkeydown: (e) => e.key === "Escape" && this.stop() },
      el("h2", {}, "Raw completion"),
      el("p", {}, "The model goes on with the text as it stands, without a chat template. Ctrl+Enter begins, Esc stops."),
      el("form", { onsubmit: (e) => this.onSubmit(e), onkeydown: (e) => this.onKey(e) },
        el("label", { for: "raw-prompt" }, "Prompt"), this.prompt,
        el("div", { class: "settings" }, this.models.field(), ...this.settings.node.childNodes), this.button),
      this.state, this.text, this.table);
  }

  onKey(event) {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    if (!this.controller) this.run();
  }

  onSubmit(event) {
    event.preventDefault();
    if (this.controller) this.stop();
    else this.run();
  }

  stop() {
    this.controller?.abort();
  }

  async run() {
    this.controller = new AbortController();
    this.button.textContent = "Stop";
    this.text.replaceChildren();
    this.rows.replaceChildren();
    this.state.replaceChildren();
    try {
      await this.read(this.controller.signal);
      say(this.text.textContent);
    } catch (e) {
      if (e.name === "AbortError") this.state.textContent = "Stopped.";
      else this.fail(e);
    }
    this.controller = null;
    this.button.textContent = "Complete";
  }

  async read(signal) {
    const body = { ...this.settings.body(), ...this.models.body(), prompt: this.prompt.value, logprobs: 4, stream: true };
    const reply = await call("/v1/completions", { body, signal });
    for await (const frame of frames(reply.body)) {
      if (frame.data === "[DONE]") return;
      if (!frame.data) continue;
      const chunk = JSON.parse(frame.data);
      if (chunk.error) throw Object.assign(new Error(String(chunk.error.message)), { status: chunk.error.code });
      if (chunk.choices?.[0]) this.take(chunk.choices[0]);
    }
    throw new Error("The line was cut before the end of the completion.");
  }

  take(choice) {
    const p = choice.logprobs;
    const title = p?.tokens?.map((t, i) => `${JSON.stringify(t)} ${percent(p.token_logprobs[i])}`).join("\n");
    if (choice.text) this.text.append(el("span", { class: p ? shadeOf(p.token_logprobs) : null, title }, choice.text));
    p?.tokens?.forEach((token, i) => this.addRow(token, p.token_logprobs[i], p.top_logprobs?.[i]));
    this.table.hidden = this.rows.childElementCount === 0;
  }

  addRow(token, logprob, others) {
    if (this.rows.childElementCount >= MAX_ROWS) return;
    const rest = Object.entries(others ?? {}).filter(([t]) => t !== token).map(([t, l]) => `${JSON.stringify(t)} ${percent(l)}`);
    this.rows.append(el("tr", {}, el("td", {}, el("code", {}, JSON.stringify(token))), el("td", { class: "right" }, percent(logprob)),
      el("td", { class: "right" }, logprob == null ? "–" : logprob.toFixed(3)), el("td", {}, rest.join(", "))));
  }

  fail(e) {
    const advice = adviceOf(e);
    this.state.replaceChildren(el("div", { class: "error", role: "alert" },
      el("p", {}, e.status ? el("strong", {}, `${e.status} `) : null, e.message), advice ? el("p", {}, advice) : null,
      el("button", { type: "button", onclick: () => this.run() }, "Try again")));
  }
}

function percent(logprob) {
  return logprob == null ? "–" : `${(100 * Math.exp(logprob)).toFixed(1)} %`;
}

// Unlikely tokens are marked, by a line below them as well as by colour.
function shadeOf(logprobs) {
  const least = Math.min(...logprobs.filter((l) => l != null));
  return least < Math.log(0.1) ? "unlikely" : least < Math.log(0.5) ? "open" : null;
}
