// The view of chats: conversations at the side, messages, and the form for the next one.
import { adviceOf } from "./api.js";
import { ask, forget, goOn, newAnswer } from "./answer.js";
import { Conversations, messagesOf } from "./conversations.js";
import { el, say } from "./dom.js";
import { AnswerMessage, userMessage } from "./message.js";
import { Settings } from "./settings.js";

const SAVE_MS = 500; // how much of a running answer a crash of the tab may lose

export class Chat {
  constructor(models) {
    this.models = models;
    this.conversations = new Conversations();
    this.settings = new Settings("chat", [["system", "System prompt", 3]]);
    this.runs = new Map(); // by the conversation's id: {controller, view}
    this.build();
    this.open(this.conversations.list[0] ?? this.conversations.add());
    addEventListener("pagehide", () => this.runs.forEach((run) => this.conversations.save(run.conversation)));
  }

  build() {
    this.names = el("ul", { class: "conversations" });
    this.log = el("div", { class: "log", role: "log", "aria-live": "off", "aria-label": "Messages", tabindex: "0" });
    this.input = el("textarea", { rows: 2, id: "prompt", placeholder: "Message", onkeydown: (e) => this.onKey(e) });
    this.button = el("button", { type: "submit", class: "primary" }, "Send");
    const form = el("form", { class: "composer", onsubmit: (e) => this.onSubmit(e) },
      el("label", { class: "unseen", for: "prompt" }, "Message"), this.input, this.button,
      el("p", { class: "hint" }, "Enter sends, Shift+Enter begins a line, Esc stops the answer."));
    const side = el("details", { class: "side", open: matchMedia("(min-width: 800px)").matches },
      el("summary", {}, "Conversations and settings"),
      el("button", { type: "button", onclick: () => this.begin() }, "New conversation"), this.names,
      this.models.field(), this.settings.node);
    this.node = el("section", { class: "chat", "aria-label": "Chat", onkeydown: (e) => e.key === "Escape" && this.stop() },
      side, el("div", { class: "talk" }, this.log, form));
  }

  // ---- conversations ----

  begin() {
    const empty = this.conversations.list.find((c) => c.messages.length === 0);
    this.open(empty ?? this.conversations.add());
    this.input.focus();
  }

  open(conversation) {
    this.current = conversation;
    this.draw();
    const last = conversation.messages.at(-1)?.answer;
    if (last && last.end == null && !this.runs.has(conversation.id)) this.resume(conversation, last);
  }

  remove(conversation) {
    this.runs.get(conversation.id)?.controller.abort();
    this.conversations.remove(conversation);
    if (conversation === this.current) this.open(this.conversations.list[0] ?? this.conversations.add());
    else this.drawNames();
  }

  // ---- drawing ----

  draw() {
    this.drawNames();
    const nodes = this.current.messages.flatMap((m, i) => this.nodesOf(m, i));
    this.log.replaceChildren(...(nodes.length ? nodes : [el("p", { class: "empty" }, "Nothing has been said yet.")]));
    this.log.scrollTop = this.log.scrollHeight;
    this.drawButton();
  }

  drawNames() {
    this.names.replaceChildren(...this.conversations.list.map((c) => {
      const title = c.title || "New conversation";
      return el("li", {},
        el("button", { type: "button", "aria-current": c === this.current && "true", onclick: () => this.open(c) }, title),
        el("button", { type: "button", class: "remove", "aria-label": `Delete “${title}”`, onclick: () => this.remove(c) }, "×"));
    }));
  }

  drawButton() {
    const isRunning = this.runs.has(this.current.id);
    this.button.textContent = isRunning ? "Stop" : "Send";
    this.button.classList.toggle("stop", isRunning);
  }

  nodesOf(message, i) {
    if (!message.answer) return [userMessage(message, () => this.edit(i))];
    const isLast = i === this.current.messages.length - 1;
    const view = new AnswerMessage(message.answer, { regenerate: isLast ? () => this.regenerate() : null });
    const run = this.runs.get(this.current.id);
    if (isLast && run) (run.view = view).draw();
    else view.finish();
    return message.answer.error ? [view.node, this.errorNode(message.answer)] : [view.node];
  }

  errorNode(answer) {
    const e = answer.error;
    const advice = adviceOf(e);
    return el("div", { class: "error", role: "alert" },
      el("p", {}, e.status ? el("strong", {}, `${e.status} `) : null, e.message),
      advice ? el("p", {}, advice) : null,
      el("button", { type: "button", onclick: () => this.retry(answer) }, answer.end === "cut" ? "Answer anew" : "Try again"));
  }

  // ---- asking ----

  onKey(event) {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    this.send();
  }

  onSubmit(event) {
    event.preventDefault();
    if (this.runs.has(this.current.id)) this.stop();
    else this.send();
  }

  send() {
    const text = this.input.value.trim();
    if (!text || this.runs.has(this.current.id)) return;
    this.input.value = "";
    this.current.title ||= text.slice(0, 60);
    this.current.messages.push({ role: "user", content: text });
    this.answer();
  }

  answer() {
    const conversation = this.current;
    const body = { ...this.settings.body(), ...this.models.body(), messages: messagesOf(conversation, this.settings.values.system) };
    const answer = newAnswer();
    conversation.messages.push({ role: "assistant", answer });
    this.run(conversation, answer, (signal, changed) => ask(answer, body, signal, changed));
  }

  resume(conversation, answer) {
    this.run(conversation, answer, (signal, changed) => goOn(answer, signal, changed));
  }

  regenerate() {
    this.stop();
    if (this.current.messages.at(-1)?.answer) this.current.messages.pop();
    this.answer();
  }

  retry(answer) {
    const canGoOn = answer.stream && answer.end === "error" && answer.error.status !== 500;
    if (!canGoOn) return this.regenerate();
    answer.end = answer.error = null;
    this.resume(this.current, answer);
  }

  edit(i) {
    this.stop();
    this.input.value = this.current.messages[i].content;
    this.current.messages.length = i;
    this.conversations.save(this.current);
    this.draw();
    this.input.focus();
  }

  stop() {
    this.runs.get(this.current.id)?.controller.abort();
  }

  async run(conversation, answer, work) {
    const run = { conversation, controller: new AbortController(), view: null };
    const begin = performance.now();
    this.runs.set(conversation.id, run);
    this.conversations.save(conversation);
    this.draw();
    const timer = setInterval(() => this.conversations.save(conversation), SAVE_MS);
    try {
      await work(run.controller.signal, () => this.onChange(run));
      answer.seconds = (performance.now() - begin) / 1000;
    } catch (e) {
      this.onFailure(run, answer, e);
    }
    clearInterval(timer);
    this.onEnd(run, answer);
  }

  // Follows the answer, unless the reader has scrolled up.
  onChange(run) {
    const isAtEnd = this.log.scrollHeight - this.log.scrollTop - this.log.clientHeight < 80;
    run.view?.changed(() => {
      if (isAtEnd && run.conversation === this.current) this.log.scrollTop = this.log.scrollHeight;
    });
  }

  onFailure(run, answer, e) {
    if (run.controller.signal.aborted) {
      answer.end = "stopped";
      forget(answer);
      return;
    }
    answer.end = answer.end === "cut" ? "cut" : "error";
    answer.error = { message: e.message, status: e.status ?? 0, retryAfter: e.retryAfter ?? null };
  }

  onEnd(run, answer) {
    if (this.runs.get(run.conversation.id) === run) this.runs.delete(run.conversation.id);
    if (this.conversations.list.includes(run.conversation)) this.conversations.save(run.conversation);
    if (run.conversation !== this.current) return;
    this.draw();
    say(answer.error ? "" : answer.end === "stopped" ? "Stopped." : answer.content);
  }
}
