// The view of decisions: one input, typed questions, and a bar for the probability of each option.
import { adviceOf, call } from "./api.js";
import { el, say } from "./dom.js";

const KINDS = { predicate: "Is it true?", choice: "Which one?", score: "How much?" };
// Below this share of all tokens the labels' shares say little.
const LEAST_MASS = 0.05;
const OPTIONS = { choice: "Options, one per line: name, or name - description", score: "Levels, one per line, from the lowest to the highest" };

// One question's fields.
class Question {
  constructor(n, remove) {
    this.kind = el("select", { id: `question-kind-${n}`, onchange: () => this.draw() },
      ...Object.entries(KINDS).map(([value, text]) => el("option", { value }, text)));
    this.text = el("input", { id: `question-text-${n}`, type: "text", required: true, placeholder: "The customer wants money back." });
    this.options = el("textarea", { id: `question-options-${n}`, rows: 3, spellcheck: "false" });
    this.label = el("label", { for: `question-options-${n}` });
    this.node = el("fieldset", { class: "question" }, el("legend", {}, `Question ${n}`),
      el("label", { for: `question-kind-${n}` }, "Kind"), this.kind,
      el("label", { for: `question-text-${n}` }, "Question or statement"), this.text,
      this.label, this.options, el("button", { type: "button", onclick: () => remove(this) }, "Remove"));
    this.draw();
  }

  draw() {
    this.label.textContent = OPTIONS[this.kind.value] ?? "";
    this.label.hidden = this.options.hidden = !(this.kind.value in OPTIONS);
  }

  lines() {
    return this.options.value.split("\n").map((line) => line.trim()).filter((line) => line).map((line) => {
      const at = line.indexOf(" - ");
      return at < 0 ? [line] : [line.slice(0, at).trim(), line.slice(at + 3).trim()];
    });
  }

  body() {
    const [type, instructions] = [this.kind.value, this.text.value];
    if (type === "choice") return { type, instructions, choices: this.lines().map(([value, description]) => ({ value, description })) };
    if (type === "score") return { type, instructions, levels: this.lines().map(([label, description]) => ({ label, description })) };
    return { type, instructions };
  }
}

export class Decide {
  constructor(models) {
    this.models = models;
    this.questions = [];
    this.n = 0;
    this.input = el("textarea", { rows: 6, id: "decide-input", required: true });
    this.list = el("div", {});
    this.orders = el("input", { id: "decide-orders", type: "number", min: 1, max: 64, value: 1 });
    this.button = el("button", { type: "submit", class: "primary" }, "Decide");
    this.state = el("div", { class: "state" });
    this.answers = el("div", { class: "answers", role: "region", "aria-label": "Answers" });
    this.node = el("section", { class: "raw decide", "aria-label": "Decisions" },
      el("h2", {}, "Decisions"),
      el("p", {}, "The model answers each question with probabilities, and writes no text."),
      el("form", { onsubmit: (e) => this.onSubmit(e) },
        el("label", { for: "decide-input" }, "Input"), this.input, this.list,
        el("button", { type: "button", onclick: () => this.add() }, "Add a question"),
        el("div", { class: "settings" }, this.models.field(),
          el("label", { for: "decide-orders" }, "Orders of the options (permutations)"), this.orders), this.button),
      this.state, this.answers);
    this.add();
  }

  add() {
    const question = new Question(++this.n, (q) => this.remove(q));
    this.questions.push(question);
    this.list.append(question.node);
  }

  remove(question) {
    if (this.questions.length === 1) return;
    this.questions = this.questions.filter((q) => q !== question);
    question.node.remove();
  }

  onSubmit(event) {
    event.preventDefault();
    if (!this.controller) this.run();
  }

  async run() {
    this.controller = new AbortController();
    this.button.disabled = true;
    this.state.replaceChildren();
    this.answers.replaceChildren();
    try {
      const body = { ...this.models.body(), input: this.input.value, questions: this.questions.map((q) => q.body()),
        permutations: Number(this.orders.value) || 1 };
      const reply = await (await call("/v1/decisions", { body, signal: this.controller.signal })).json();
      this.answers.replaceChildren(...reply.answers.map((a, i) => answerNode(body.questions[i].instructions, a, reply.diagnostics[i])));
      say(`${reply.answers.length} answers`);
    } catch (e) {
      const advice = adviceOf(e);
      this.state.replaceChildren(el("div", { class: "error", role: "alert" },
        el("p", {}, e.status ? el("strong", {}, `${e.status} `) : null, e.message), advice ? el("p", {}, advice) : null));
    }
    this.controller = null;
    this.button.disabled = false;
  }
}

// [[name, probability]] of an answer's options.
function sharesOf(answer) {
  if (answer.type === "predicate") return [["yes", answer.probability], ["no", 1 - answer.probability]];
  return (answer.probabilities ?? []).map((p) => [String(p.label ?? p.value), p.probability]);
}

// The warning that an answer means little, or null.
function warningOf({ label_mass: mass }) {
  return mass < LEAST_MASS ? `All options have ${(100 * mass).toPrecision(2)} % of the probability: the model would rather write something else.` : null;
}

function answerNode(question, answer, diagnostics) {
  const rows = sharesOf(answer).map(([name, p]) => el("tr", {}, el("th", { scope: "row" }, name),
    el("td", {}, el("meter", { min: 0, max: 1, value: p, "aria-label": name })), el("td", { class: "right" }, `${(100 * p).toFixed(1)} %`)));
  const more = answer.type === "score" ? `Mean level ${answer.score.toFixed(2)} (the first is 0), confidence ${answer.confidence.toFixed(2)}`
    : answer.type === "choice" ? `Confidence ${answer.confidence.toFixed(2)}` : answer.type === "refusal" ? "The model has no answer." : null;
  const warning = answer.type === "refusal" ? null : warningOf(diagnostics);
  return el("figure", { class: "drawing" }, el("figcaption", {}, question, more ? el("small", {}, more) : null,
    warning ? el("small", { class: "warning" }, warning) : null),
    el("table", {}, el("tbody", {}, rows)));
}
