// One message of a conversation, and an answer while it comes.
import { el, grow } from "./dom.js";
import { LiveMarkdown, copy } from "./markdown.js";

const ENDS = {
  length: "Ended at the limit of tokens.",
  stopped: "Stopped.",
  cut: "Cut: this is what was received.",
  content_filter: "Ended by the server.",
};

export function userMessage(message, edit) {
  return el("article", { class: "message user", "aria-label": "You" },
    el("div", { class: "text" }, message.content),
    el("div", { class: "actions" }, el("button", { type: "button", onclick: edit }, "Edit")));
}

// Draws an answer at most once a frame of the screen, however fast tokens come.
export class AnswerMessage {
  constructor(answer, { regenerate }) {
    this.answer = answer;
    this.text = new LiveMarkdown();
    this.thoughts = el("div", { class: "text" });
    this.folded = el("details", { class: "thoughts", hidden: true }, el("summary", {}, "Thoughts"), this.thoughts);
    this.calls = el("div", { class: "calls" });
    this.foot = el("div", { class: "actions" });
    this.regenerate = regenerate;
    this.isDue = false;
    this.node = el("article", { class: "message assistant", "aria-label": "Answer" },
      this.folded, this.text.node, this.calls, this.foot);
  }

  changed(done) {
    if (this.isDue) return;
    this.isDue = true;
    requestAnimationFrame(() => {
      this.isDue = false;
      if (!this.isFinished) this.draw();
      done?.();
    });
  }

  draw() {
    this.text.update(this.answer.content);
    this.drawRest();
    this.node.classList.add("running");
    this.node.setAttribute("aria-busy", "true");
  }

  drawRest() {
    this.folded.hidden = !this.answer.thoughts;
    grow(this.thoughts, this.answer.thoughts);
    this.answer.calls.filter(Boolean).forEach((call, i) => {
      const node = this.calls.children[i] ?? this.calls.appendChild(newCall());
      grow(node.querySelector("code"), call.name);
      grow(node.querySelector("pre"), this.isFinished ? indented(call.arguments) : call.arguments);
    });
  }

  finish() {
    this.isFinished = true;
    this.text.finish(this.answer.content);
    this.drawRest();
    this.node.classList.remove("running");
    this.node.removeAttribute("aria-busy");
    this.drawFoot();
  }

  drawFoot() {
    const a = this.answer;
    if (a.error && !a.content) return this.foot.replaceChildren(); // the error has a button of its own
    const copyButton = el("button", { type: "button", onclick: () => copy(a.content, copyButton) }, "Copy text");
    const again = this.regenerate ? [el("button", { type: "button", onclick: this.regenerate }, "Regenerate")] : [];
    this.foot.replaceChildren(copyButton, ...again, el("span", { class: "note" }, noteOf(a)));
  }
}

function noteOf(answer) {
  const n = answer.usage?.completion_tokens;
  return [ENDS[answer.end], n && `${n} tokens`, answer.seconds && n && `${(n / answer.seconds).toFixed(1)} tokens/s`]
    .filter(Boolean).join(" · ");
}

function newCall() {
  return el("details", { class: "call", open: true }, el("summary", {}, "Tool call: ", el("code")),
    el("pre", { tabindex: "0", role: "region", "aria-label": "Arguments" }));
}

function indented(json) {
  try {
    return JSON.stringify(JSON.parse(json), null, 2);
  } catch {
    return json; // it was cut
  }
}
