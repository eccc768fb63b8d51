// The conversations of this browser: plain data in localStorage, and nowhere else.
import { store, stored } from "./dom.js";

const NAME = "quire.conversations";
const MOST = 100; // those that were longest not gone on with go first

// {id, title, messages: [{role, content} or {role, answer}]}
export class Conversations {
  constructor() {
    this.list = read();
    this.isKept = true; // false: the storage is full or forbidden
  }

  add() {
    const c = { id: crypto.getRandomValues(new Uint32Array(2)).join("-"), title: "", messages: [] };
    this.list.unshift(c);
    return c;
  }

  remove(conversation) {
    this.write((list) => list.filter((c) => c.id !== conversation.id));
  }

  save(conversation) {
    this.write((list) => [conversation, ...list.filter((c) => c.id !== conversation.id)]);
  }

  // Other tabs have conversations of their own: each writes only what it has changed.
  write(change) {
    const own = new Map(this.list.map((c) => [c.id, c]));
    const kept = this.isKept ? read().map((c) => own.get(c.id) ?? c) : this.list;
    this.list = change(kept).slice(0, MOST);
    this.isKept = store(localStorage, NAME, JSON.stringify(this.list));
  }
}

// Another version of this page, or a hand, may have written it: what is not whole is left out.
function read() {
  try {
    const list = JSON.parse(stored(localStorage, NAME) ?? "[]");
    return list.filter((c) => c && typeof c.id === "string" && Array.isArray(c.messages) &&
      c.messages.every((m) => typeof m.content === "string" || typeof m.answer?.content === "string"));
  } catch {
    return [];
  }
}

// As the API takes them, without answers that came to nothing.
export function messagesOf(conversation, system) {
  const list = conversation.messages.filter((m) => !m.answer || m.answer.content)
    .map((m) => ({ role: m.role, content: m.answer ? m.answer.content : m.content }));
  return system ? [{ role: "system", content: system }, ...list] : list;
}
