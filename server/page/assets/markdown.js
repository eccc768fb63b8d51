// Markdown as elements: a subset of CommonMark with tables, and no HTML. Nothing is ever parsed as
// markup by the browser: nodes are made one by one, and text is text.
import { el } from "./dom.js";
import { inline } from "./inline.js";

const MAX_DEPTH = 8; // lists in quotes in lists
const MAX_COLUMNS = 40;
const MAX_TAIL = 20000; // a paragraph that is longer is plain until it ends
const FENCE = /^(\s*)(`{3,}|~{3,})([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})\s(.*)$/;
const RULE = /^ {0,3}(?:(?:-\s*){3,}|(?:\*\s*){3,}|(?:_\s*){3,})$/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])(\s+|$)/;
const QUOTE = /^ {0,3}> ?/;
const COLUMNS = /^\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?$/; // of a line without blanks around it

// A fragment, to be put where it belongs.
export function markdown(text) {
  const out = document.createDocumentFragment();
  for (const node of render(text.replace(/\r\n?/g, "\n").split("\n"), 0)) out.append(node);
  return out;
}

// An answer that grows: what is complete stays as it is, and only the last block is made again.
export class LiveMarkdown {
  constructor() {
    this.node = el("div", { class: "markdown" });
    this.tail = el("div");
    this.node.append(this.tail);
    this.done = 0; // how much of the text stands in blocks that are complete
    this.kept = "";
  }

  update(text) {
    if (!text.startsWith(this.kept)) this.restart();
    const ends = blockEnds(text, this.done);
    for (const end of ends) {
      this.tail.before(markdown(text.slice(this.done, end)));
      this.done = end;
    }
    this.kept = text.slice(0, this.done);
    this.updateTail(text.slice(this.done));
  }

  finish(text) {
    this.update(text);
    this.tail.replaceChildren(markdown(text.slice(this.done)));
  }

  // Code that grows gets new text, and nothing else: its place and its button stay.
  updateTail(text) {
    const fence = text.trimStart().match(/^(`{3,}|~{3,})[^\n]*\n/);
    const code = fence && this.tail.querySelector(":scope > .code code");
    if (code && this.tail.childElementCount === 1) code.textContent = unfenced(text.trimStart().slice(fence[0].length), fence[1]);
    else if (text.length > MAX_TAIL) this.tail.textContent = text;
    else this.tail.replaceChildren(markdown(text));
  }

  restart() {
    this.node.replaceChildren(this.tail);
    this.done = 0;
  }
}

function unfenced(text, mark) {
  const end = text.lastIndexOf(`\n${mark}`);
  return end >= 0 && text.slice(end + 1).trim() === mark ? text.slice(0, end) : text;
}

// Where blocks end that no further text can change: at an empty line, outside of code, behind which
// something begins that does not belong to a list above.
function blockEnds(text, from) {
  const ends = [];
  let fence = "", isList = false, isEmpty = true, gap = -1;
  for (let at = from; at < text.length; ) {
    const stop = text.indexOf("\n", at);
    if (stop < 0 && !fence) break; // a line that is not whole says nothing yet
    const line = text.slice(at, stop < 0 ? text.length : stop);
    if (gap >= 0 && line.trim() && !(isList && (/^\s/.test(line) || ITEM.test(line)))) {
      ends.push(gap);
      isEmpty = true;
    }
    if (line.trim()) gap = -1;
    if (isEmpty && line.trim()) [isList, isEmpty] = [ITEM.test(line), false];
    const mark = line.match(FENCE)?.[2];
    if (fence) fence = mark && mark.startsWith(fence) && line.trim() === mark ? "" : fence;
    else if (mark) fence = mark;
    at = stop < 0 ? text.length : stop + 1;
    if (!fence && !line.trim() && !isEmpty) gap = at;
  }
  return ends;
}

function render(lines, depth) {
  const out = [];
  for (let i = 0; i < lines.length; ) {
    const [node, n] = blockAt(lines, i, depth);
    if (node) out.push(node);
    i += n;
  }
  return out;
}

// The block that begins at line i, and how many lines it has.
function blockAt(lines, i, depth) {
  const line = lines[i];
  if (!line.trim()) return [null, 1];
  if (FENCE.test(line)) return fenced(lines, i);
  const heading = line.match(HEADING);
  if (heading) return [headingOf(heading), 1];
  if (RULE.test(line)) return [el("hr"), 1];
  if (depth < MAX_DEPTH && QUOTE.test(line)) return quote(lines, i, depth);
  if (depth < MAX_DEPTH && ITEM.test(line)) return list(lines, i, depth);
  if (isTable(lines, i)) return table(lines, i);
  return paragraph(lines, i);
}

// The page's own headings are the first two levels.
function headingOf([, marks, text]) {
  return el(`h${Math.min(marks.length + 2, 6)}`, {}, inline(text.trim()));
}

function fenced(lines, i) {
  const [, indent, mark, language] = lines[i].match(FENCE);
  let end = i + 1;
  while (end < lines.length && !(lines[end].trim().startsWith(mark) && /^[`~]+$/.test(lines[end].trim()))) end++;
  const body = lines.slice(i + 1, end).map((l) => (l.startsWith(indent) ? l.slice(indent.length) : l.trimStart()));
  return [codeBlock(body.join("\n"), language.trim().split(/\s/)[0]), end + 1 - i];
}

function codeBlock(text, language) {
  const code = el("code", {}, text);
  const button = el("button", { type: "button", onclick: () => copy(code.textContent, button) }, "Copy");
  return el("div", { class: "code" },
    el("div", { class: "bar" }, el("span", {}, language || "text"), button),
    el("pre", { tabindex: "0", role: "region", "aria-label": `Code, ${language || "text"}` }, code));
}

// The clipboard is there for pages over TLS and of this machine; the older way is for all others.
export async function copy(text, button) {
  const label = button.textContent;
  try {
    if (navigator.clipboard) await navigator.clipboard.writeText(text);
    else copyBySelection(text, button);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Not copied";
  }
  setTimeout(() => (button.textContent = label), 1500);
}

function copyBySelection(text, button) {
  const area = el("textarea", { class: "unseen", "aria-hidden": "true" });
  area.value = text;
  button.after(area);
  area.select();
  const isDone = document.execCommand("copy");
  area.remove();
  button.focus();
  if (!isDone) throw new Error("not copied");
}

function quote(lines, i, depth) {
  let end = i;
  while (end < lines.length && QUOTE.test(lines[end])) end++;
  return [el("blockquote", {}, render(lines.slice(i, end).map((l) => l.replace(QUOTE, "")), depth + 1)), end - i];
}

function list(lines, i, depth) {
  const [, indent, first] = lines[i].match(ITEM);
  const isOrdered = /\d/.test(first);
  const node = el(isOrdered ? "ol" : "ul", isOrdered && parseInt(first, 10) !== 1 ? { start: parseInt(first, 10) } : {});
  let end = i;
  while (end < lines.length) {
    const m = lines[end].match(ITEM);
    if (!m || m[1].length < indent.length || /\d/.test(m[2]) !== isOrdered || RULE.test(lines[end])) break;
    const stop = itemEnd(lines, end, m);
    const width = m[0].length;
    const body = [lines[end].slice(width), ...lines.slice(end + 1, stop).map((l) => outdent(l, width))];
    node.append(el("li", {}, tight(render(body, depth + 1))));
    end = stop;
  }
  return end > i ? [node, end - i] : paragraph(lines, i);
}

// Up to the next item of this list, or to what is not indented behind an empty line.
function itemEnd(lines, i, [, indent]) {
  let end = i + 1;
  for (; end < lines.length; end++) {
    const m = lines[end].match(ITEM);
    if (m && m[1].length <= indent.length + 1) break;
    const isIndented = lines[end].length - lines[end].trimStart().length > indent.length;
    const isLoose = !lines[end - 1].trim();
    if (lines[end].trim() && !isIndented && (isLoose || startsBlock(lines[end]))) break;
  }
  return end;
}

function outdent(line, width) {
  return line.slice(Math.min(width, line.length - line.trimStart().length));
}

// An item of one paragraph needs none.
function tight(nodes) {
  return nodes[0]?.tagName === "P" ? [...nodes[0].childNodes, ...nodes.slice(1)] : nodes;
}

function cells(line) {
  const inner = line.trim().replace(/^\|/, "").replace(/\|$/, "");
  return inner.split(/(?<!\\)\|/).slice(0, MAX_COLUMNS).map((c) => c.trim().replaceAll("\\|", "|"));
}

function isTable(lines, i) {
  return lines[i].includes("|") && i + 1 < lines.length && lines[i + 1].includes("-") &&
    COLUMNS.test(lines[i + 1].trim()) && cells(lines[i]).length === cells(lines[i + 1]).length;
}

function table(lines, i) {
  const heads = cells(lines[i]);
  const sides = cells(lines[i + 1]).map((c) => (c.endsWith(":") ? (c.startsWith(":") ? "center" : "right") : "left"));
  const row = (tag, texts) =>
    el("tr", {}, ...heads.map((_, k) => el(tag, { class: sides[k], scope: tag === "th" && "col" }, inline(texts[k] ?? ""))));
  let end = i + 2;
  while (end < lines.length && lines[end].trim() && lines[end].includes("|")) end++;
  const body = lines.slice(i + 2, end).map((l) => row("td", cells(l)));
  return [el("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Table" },
    el("table", {}, el("thead", {}, row("th", heads)), el("tbody", {}, body))), end - i];
}

function startsBlock(line) {
  return FENCE.test(line) || HEADING.test(line) || RULE.test(line) || QUOTE.test(line) || ITEM.test(line);
}

function paragraph(lines, i) {
  let end = i + 1;
  while (end < lines.length && lines[end].trim() && !startsBlock(lines[end]) && !isTable(lines, end)) end++;
  return [el("p", {}, inline(lines.slice(i, end).map((l) => l.trim()).join("\n"))), end - i];
}
