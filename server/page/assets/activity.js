// The view of what the server is doing: read every second or two, while it is looked at.
import { adviceOf, call } from "./api.js";
import { el } from "./dom.js";
import { bars, format, line, shares } from "./drawing.js";
import { parse, quantile, sum } from "./metrics.js";

const EVERY_MS = 1500;
const KEPT = 60; // readings in a line
const MAX_STEPS = 120;
const MAX_OWNERS = 5; // of blocks by name; all others together
const LATENCIES = [
  ["Time to first token", "quire_time_to_first_token_seconds"],
  ["Between tokens", "quire_inter_token_latency_seconds"],
  ["In the queue", "quire_request_queue_time_seconds"],
  ["Whole request", "quire_e2e_request_latency_seconds"],
];

export class Activity {
  constructor(models) {
    this.models = models;
    this.readings = [];
    this.numbers = el("div", { class: "drawings" });
    this.kv = el("div", { class: "drawings" });
    this.latencies = el("tbody");
    this.requests = el("tbody");
    this.state = el("div", { class: "state" });
    this.button = el("button", { type: "button", onclick: () => this.toggle() }, "Pause");
    this.build();
  }

  build() {
    const table = (label, heads, body) => el("div", { class: "wide", tabindex: "0", role: "region", "aria-label": label },
      el("table", {}, el("thead", {}, el("tr", {}, ...heads.map((h) => el("th", { scope: "col" }, h)))), body));
    this.node = el("section", { class: "activity", "aria-label": "Activity" },
      el("div", { class: "title" }, el("h2", {}, "What the server is doing"), this.models.field(() => this.clear()), this.button),
      this.state, this.numbers, el("h3", {}, "KV cache"), this.kv,
      el("h3", {}, "Latencies"),
      table("Latencies", ["", "Median since this view opened", "95 %", "Median since the start", "95 %"],
        this.latencies),
      el("h3", {}, "Requests"),
      table("Requests", ["Request", "State", "Tenant", "Priority", "Prompt", "Done", "Blocks", "Age", "Queue"], this.requests));
  }

  show() {
    this.isShown = true;
    this.read();
  }

  hide() {
    this.isShown = false;
    clearTimeout(this.timer);
  }

  toggle() {
    this.isPaused = !this.isPaused;
    this.button.textContent = this.isPaused ? "Go on" : "Pause";
    if (!this.isPaused) this.read();
  }

  clear() {
    this.readings = [];
    this.first = null;
  }

  // One reading at a time; a hidden tab and a paused view read nothing.
  async read() {
    clearTimeout(this.timer);
    if (!this.isShown || this.isPaused) return;
    if (!document.hidden) {
      try {
        this.take(await readAll(this.models.query()));
        this.state.replaceChildren();
      } catch (e) {
        this.fail(e);
      }
    }
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.read(), EVERY_MS);
  }

  fail(e) {
    if (this.failure === e.message && this.state.firstChild) return;
    this.failure = e.message;
    const note = e.status === 401 || e.status === 403
      ? "Where keys are set, this view needs one that is an admin's." : adviceOf(e);
    this.state.replaceChildren(el("div", { class: "error", role: "alert" },
      el("p", {}, e.status ? el("strong", {}, `${e.status} `) : null, e.message), note ? el("p", {}, note) : null));
  }

  take(all) {
    const m = all.metrics;
    const before = this.readings.at(-1);
    const seconds = before ? (all.at - before.at) / 1000 : 0;
    const rate = (name) => (seconds > 0 ? Math.max(0, sum(m, name) - sum(before.metrics, name)) / seconds : 0);
    all.point = { generated: rate("quire_generation_tokens_total"), prompt: rate("quire_prompt_tokens_total"),
      running: all.requests.n_running, waiting: all.requests.n_waiting + all.requests.n_following + all.requests.n_preempted };
    this.readings.push(all);
    if (this.readings.length > KEPT) this.readings.shift();
    this.first ??= m;
    this.draw(all);
  }

  draw(all) {
    const of = (name) => this.readings.map((r) => r.point[name]);
    const steps = all.iterations.iterations.slice(-MAX_STEPS);
    this.numbers.replaceChildren(line("Running", of("running"), "requests"), line("Queued", of("waiting"), "requests"),
      line("Generated", of("generated"), "tokens/s"), line("Prompts", of("prompt"), "tokens/s"),
      bars("Rows of the last steps", steps.map((s) => [s.decode_rows, s.prefill_rows]), "decode below, prefill above"),
      bars("Time of the last steps", steps.map((s) => [s.took_ms, 0]),
        `most ${format(Math.max(0, ...steps.map((s) => s.took_ms)))} ms`));
    this.drawBlocks(all);
    this.latencies.replaceChildren(...LATENCIES.map(([label, name]) => el("tr", {}, el("th", { scope: "row" }, label),
      [this.first, []].flatMap((before) => [0.5, 0.95].map((q) => el("td", {}, time(quantile(before, all.metrics, name, q))))))));
    this.drawRequests(all.requests.requests);
  }

  // A block that several requests hold is counted for each of them, and once as held.
  drawBlocks({ kv, requests }) {
    const b = kv.blocks;
    const owners = ownersOf(requests.requests);
    this.kv.replaceChildren(
      shares(`Blocks of ${kv.block_tokens} tokens`, [["held", b.held, "a"], ["cached", b.cached, "b"], ["free", b.free, "free"]]),
      shares("Held, by tenant", owners.length ? owners : [["nobody", 0, "free"]]));
  }

  drawRequests(list) {
    const cell = (text) => el("td", {}, String(text ?? "–"));
    const rows = list.slice(0, 200).map((q) => el("tr", {}, cell(q.request_id ?? q.id), cell(q.state), cell(q.tenant),
      cell(q.priority), cell(q.prompt_tokens), cell(`${q.computed_tokens} of ${q.prompt_tokens + q.max_tokens}`),
      cell(q.blocks), cell(time(q.age_ms / 1000)), cell(time(q.queue_ms / 1000))));
    this.requests.replaceChildren(...(rows.length ? rows : [el("tr", {}, el("td", { colspan: 9 }, "None now."))]));
  }
}

async function readAll(query) {
  const json = async (path) => (await call(path + query)).json();
  const [metrics, requests, iterations, kv] = await Promise.all([
    call("/metrics").then((r) => r.text()), json("/debug/requests"), json("/debug/iterations"), json("/debug/kv")]);
  return { at: performance.now(), metrics: parse(metrics), requests, iterations, kv };
}

function ownersOf(requests) {
  const blocks = new Map();
  for (const q of requests)
    if (q.blocks > 0) blocks.set(q.tenant || "(no key)", (blocks.get(q.tenant || "(no key)") ?? 0) + q.blocks);
  const list = [...blocks].sort((x, y) => y[1] - x[1]);
  const rest = list.slice(MAX_OWNERS).reduce((n, o) => n + o[1], 0);
  const named = list.slice(0, MAX_OWNERS).map(([name, n], i) => [name, n, "abcde"[i]]);
  return rest > 0 ? [...named, ["others", rest, "free"]] : named;
}

function time(seconds) {
  if (seconds == null) return "–";
  if (seconds === Infinity) return "very long";
  return seconds < 1 ? `${format(seconds * 1000)} ms` : `${format(seconds)} s`;
}
