// What stands within a line of Markdown: code, emphasis, links. A subset, and no HTML at all: a tag
// is text. The work is linear: a mark whose end was not found once is not looked for again.
import { el } from "./dom.js";

const MAX_DEPTH = 6;
const MAX_TRIES = 8; // ends of an emphasis that turn out not to be one
const SPECIAL = /[\\`*_~[<\n]|https?:\/\//g;
const LINK = /\[([^[\]\n]{0,1000})\]\(<?([^()\s<>]{1,2000}(?:\([^()\s<>]{0,200}\))?[^()\s<>]{0,200})>?(?:\s+"[^"\n]{0,300}")?\)/y;
const BARE = /https?:\/\/[^\s<>"'`[\]]{1,2000}/y;
const ANGLE = /<((?:https?:\/\/|mailto:)[^\s<>]{1,2000})>/y;
const EMPHASIS = [["***", "strong"], ["**", "strong"], ["__", "strong"], ["~~", "del"], ["*", "em"], ["_", "em"]];
const SCHEMES = new Set(["http:", "https:", "mailto:"]);

// A list of nodes.
export function inline(text, depth = 0) {
  const out = [];
  const absent = new Set();
  let plain = 0; // where the text that is not yet in `out` begins
  SPECIAL.lastIndex = 0;
  for (let at = next(text, 0); at >= 0; ) {
    const found = take(text, at, depth, absent);
    if (found) {
      if (at > plain) out.push(text.slice(plain, at));
      if (found.node != null) out.push(found.node);
      plain = found.end;
    }
    at = next(text, found ? found.end : at + 1);
  }
  if (plain < text.length) out.push(text.slice(plain));
  return out;
}

function next(text, from) {
  SPECIAL.lastIndex = from;
  return SPECIAL.exec(text)?.index ?? -1;
}

// {node, end} of what begins there, or null: it is text.
function take(text, at, depth, absent) {
  switch (text[at]) {
    case "\\": return /[!-/:-@[-`{-~]/.test(text[at + 1] ?? "") ? { node: text[at + 1], end: at + 2 } : null;
    case "\n": return { node: el("br"), end: at + 1 };
    case "`": return code(text, at, absent);
    case "[": return link(text, at);
    case "<": return address(ANGLE, text, at, 1);
    case "h": return /\w/.test(text[at - 1] ?? "") ? null : address(BARE, text, at, 0);
    default: return depth < MAX_DEPTH ? emphasis(text, at, depth, absent) : null;
  }
}

function code(text, at, absent) {
  const run = /`+/y;
  run.lastIndex = at;
  const mark = run.exec(text)[0];
  const end = absent.has(mark) ? -1 : text.indexOf(mark, at + mark.length);
  if (end < 0) {
    absent.add(mark);
    return { node: mark, end: at + mark.length };
  }
  return { node: el("code", {}, text.slice(at + mark.length, end).trim()), end: end + mark.length };
}

function emphasis(text, at, depth, absent) {
  const [mark, tag] = EMPHASIS.find(([m]) => text.startsWith(m, at)) ?? [];
  if (!mark || absent.has(mark) || /\s/.test(text[at + mark.length] ?? " ")) return null;
  if (mark[0] === "_" && /\w/.test(text[at - 1] ?? "")) return null; // snake_case
  const end = closing(text, at + mark.length, mark);
  if (end < 0) {
    absent.add(mark);
    return null;
  }
  const within = inline(text.slice(at + mark.length, end), depth + 1);
  const node = mark === "***" ? el("strong", {}, el("em", {}, within)) : el(tag, {}, within);
  return { node, end: end + mark.length };
}

function closing(text, from, mark) {
  let end = from;
  for (let i = 0; i < MAX_TRIES; i++) {
    end = text.indexOf(mark, end + 1);
    if (end < 0) return -1;
    const isLonger = mark.length === 1 && (text[end + 1] === mark || text[end - 1] === mark);
    const isWithin = mark[0] === "_" && /\w/.test(text[end + mark.length] ?? "");
    if (!isLonger && !isWithin && !/\s/.test(text[end - 1])) return end;
  }
  return -1;
}

// A picture becomes a link to it: the page loads nothing from elsewhere.
function link(text, at) {
  LINK.lastIndex = at;
  const m = LINK.exec(text);
  const node = m && anchor(m[2], m[1] || m[2]);
  return node ? { node, end: LINK.lastIndex } : null;
}

function address(pattern, text, at, group) {
  pattern.lastIndex = at;
  const m = pattern.exec(text);
  if (!m) return null;
  const href = group ? m[1] : m[0].replace(/[.,:;!?)*_~]+$/, "");
  const node = anchor(href, href);
  return node ? { node, end: group ? pattern.lastIndex : at + href.length } : null;
}

// Only addresses with a scheme, and only these: no script, no data, nothing of this server's.
function anchor(href, label) {
  let url;
  try {
    url = new URL(href);
  } catch {
    return null;
  }
  if (!SCHEMES.has(url.protocol)) return null;
  return el("a", { href: url.href, rel: "noopener noreferrer", target: "_blank" }, label);
}
