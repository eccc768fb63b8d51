// Markdown as elements: a subset of CommonMark with tables, and no HTML. Nothing is ever parsed as
// markup by the browser: nodes are made one by one, and text is text.
import { el } from "./dom.js";
import { inline } from "./inline.js";

const MAX_DEPTH = 8; // lists in quotes in lists
const MAX_COLUMNS = 40;
const SMALL_TAIL = 500; // characters of an open block that is made again each time
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

// An answer that grows. Blocks that are complete stay as they are; of the last one, which is open, only what is new is
// made: lines of code, rows of a table. Any other block is made again when it has grown by an eighth, and what has come
// since then stands behind it as plain text: so all the work together grows with the text, and no faster.
export class LiveMarkdown {
  constructor() {
    this.node = el("div", { class: "markdown" });
    this.tail = el("div");
    this.node.append(this.tail);
    this.restart();
  }

  restart() {
    this.node.replaceChildren(this.tail);
    this.done = 0; // how much of the text stands in blocks that are complete
    this.kept = "";
    this.scan = newScan();
    this.open = newOpen();
  }

  update(text) {
    if (!text.startsWith(this.kept)) this.restart();
    for (const end of blockEnds(text, this.scan)) {
      this.tail.before(markdown(text.slice(this.done, end)));
      this.done = end;
      this.open = newOpen();
    }
    this.kept = text.slice(0, this.done);
    this.updateTail(text.slice(this.done));
  }

  finish(text) {
    this.update(text);
    this.tail.replaceChildren(markdown(text.slice(this.done)));
    this.open = newOpen();
  }

  updateTail(text) {
    const open = this.open;
    const isGrown = open.code ? this.scan.fence && growCode(open, text) : open.table && growTable(open, text);
    if (isGrown) return;
    const isDue = open.code || open.table || text.length <= SMALL_TAIL || text.length - open.drawn >= open.drawn / 8;
    if (isDue) this.drawTail(text);
    else growPlain(open, text, this.tail);
  }

  drawTail(text) {
    this.tail.replaceChildren(markdown(text));
    this.open = newOpen();
    this.open.drawn = text.length;
    this.open.code = this.scan.fence ? openCode(text, this.tail) : null;
    this.open.table = openTable(text, this.tail);
    if (this.open.table) growTable(this.open, text);
  }
}

// The block that is not complete: how much of its text is drawn, and what it can be gone on with.
function newOpen() {
  return { drawn: 0, code: null, table: null, plain: null };
}

function growPlain(open, text, tail) {
  open.plain ??= { node: tail.appendChild(document.createTextNode("")), at: open.drawn };
  open.plain.node.appendData(text.slice(open.plain.at));
  open.plain.at = text.length;
}

// Code that has no end yet. Its place and its button stay. What follows the last line end may become the closing
// fence, and waits for the rest of its line.
function openCode(text, tail) {
  const fence = text.match(/^\s*(`{3,}|~{3,})[^\n]*\n/);
  const code = fence && tail.childElementCount === 1 && tail.querySelector(":scope > .code code");
  if (!code) return null;
  const at = text.lastIndexOf("\n") + 1;
  code.replaceChildren(document.createTextNode(text.slice(fence[0].length, at)));
  return { mark: fence[1], node: code.firstChild, at };
}

function growCode(open, text) {
  const { mark, node, at } = open.code;
  const end = text.lastIndexOf("\n") + 1;
  if (end > at) node.appendData(text.slice(at, end));
  open.code.at = Math.max(at, end);
  const rest = text.slice(open.code.at);
  open.code.last ??= node.parentNode.appendChild(document.createTextNode(""));
  open.code.last.data = rest.trim() && mark.startsWith(rest.trim()) ? "" : rest;
  return true;
}

// A table that is all of the open block: its rows up to the last line end stay.
function openTable(text, tail) {
  const lines = text.split("\n");
  const first = lines.findIndex((l) => l.trim());
  const body = tail.childElementCount === 1 && tail.querySelector(":scope > .wide tbody");
  if (!body || first + 2 >= lines.length || !isTable(lines, first)) return null;
  if (lines.at(-1).trim()) body.lastElementChild?.remove();
  return { columns: columnsOf(lines, first), body, at: text.lastIndexOf("\n") + 1, last: null };
}

// false: a line that is no row has come.
function growTable(open, text) {
  const table = open.table;
  const lines = text.slice(table.at).split("\n");
  if (lines.some((l, i) => i < lines.length - 1 && !isRow(l))) return false;
  table.last?.remove();
  for (const line of lines.slice(0, -1)) table.body.append(row("td", table.columns, cells(line)));
  table.at = text.length - lines.at(-1).length;
  table.last = isRow(lines.at(-1)) ? row("td", table.columns, cells(lines.at(-1))) : null;
  if (table.last) table.body.append(table.last);
  return true;
}

function newScan() {
  return { at: 0, fence: "", isList: false, isEmpty: true, gap: -1 };
}

// Where blocks end that no further text can change: at an empty line, outside of code, behind which
// something begins that does not belong to a list above. `s` is how far the text was looked through: a line that is
// not whole says nothing yet.
function blockEnds(text, s) {
  const ends = [];
  for (let stop; (stop = text.indexOf("\n", s.at)) >= 0; ) {
    const line = text.slice(s.at, stop);
    if (s.gap >= 0 && line.trim() && !(s.isList && (/^\s/.test(line) || ITEM.test(line)))) {
      ends.push(s.gap);
      s.isEmpty = true;
    }
    if (line.trim()) s.gap = -1;
    if (s.isEmpty && line.trim()) [s.isList, s.isEmpty] = [ITEM.test(line), false];
    const mark = line.match(FENCE)?.[2];
    if (s.fence) s.fence = mark && mark.startsWith(s.fence) && line.trim() === mark ? "" : s.fence;
    else if (mark) s.fence = mark;
    s.at = stop + 1;
    if (!s.fence && !line.trim() && !s.isEmpty) s.gap = s.at;
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

function isRow(line) {
  return line.trim() !== "" && line.includes("|");
}

// The side of each column: line i has the heads, and the next one the colons.
function columnsOf(lines, i) {
  const sides = cells(lines[i + 1]).map((c) => (c.endsWith(":") ? (c.startsWith(":") ? "center" : "right") : "left"));
  return cells(lines[i]).map((_, k) => sides[k]);
}

function row(tag, columns, texts) {
  return el("tr", {}, ...columns.map((side, k) => el(tag, { class: side, scope: tag === "th" && "col" }, inline(texts[k] ?? ""))));
}

function table(lines, i) {
  const columns = columnsOf(lines, i);
  let end = i + 2;
  while (end < lines.length && isRow(lines[end])) end++;
  const body = lines.slice(i + 2, end).map((l) => row("td", columns, cells(l)));
  return [el("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Table" },
    el("table", {}, el("thead", {}, row("th", columns, cells(lines[i]))), el("tbody", {}, body))), end - i];
}

function startsBlock(line) {
  return FENCE.test(line) || HEADING.test(line) || RULE.test(line) || QUOTE.test(line) || ITEM.test(line);
}

function paragraph(lines, i) {
  let end = i + 1;
  while (end < lines.length && lines[end].trim() && !startsBlock(lines[end]) && !isTable(lines, end)) end++;
  return [el("p", {}, inline(lines.slice(i, end).map((l) => l.trim()).join("\n"))), end - i];
}
