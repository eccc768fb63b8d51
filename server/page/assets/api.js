// Calls to this server, with the reader's key, and errors as the server says them.
import { store, stored } from "./dom.js";

const KEY = "quire.key";

export function key() {
  return stored(sessionStorage, KEY) ?? stored(localStorage, KEY) ?? "";
}

export function isKeyKept() {
  return stored(localStorage, KEY) != null;
}

// In this tab only, unless the reader wants it kept.
export function setKey(value, isKept) {
  store(sessionStorage, KEY, value || null);
  store(localStorage, KEY, isKept && value ? value : null);
}

export class ApiError extends Error {
  constructor(message, status = 0, retryAfter = null) {
    super(message);
    this.status = status;
    this.retryAfter = retryAfter;
  }
}

function headersOf(body) {
  const headers = {};
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (key()) headers.Authorization = `Bearer ${key()}`;
  return headers;
}

// The answer, if it is no error. A call that was stopped throws AbortError, as fetch does.
export async function call(path, { body, method, signal } = {}) {
  let reply;
  try {
    reply = await fetch(path, {
      method: method ?? (body === undefined ? "GET" : "POST"),
      headers: headersOf(body),
      body: body === undefined ? undefined : JSON.stringify(body),
      signal,
      cache: "no-store",
    });
  } catch (e) {
    if (e.name === "AbortError") throw e;
    // fetch also refuses a key that no header can hold.
    throw new ApiError(/header|ByteString|ISO-8859/i.test(e.message)
      ? "The API key has characters that no key has." : "The server cannot be reached.");
  }
  if (!reply.ok) throw await errorOf(reply);
  return reply;
}

async function errorOf(reply) {
  const text = (await reply.text().catch(() => "")).slice(0, 4000);
  let message = text;
  try {
    const e = JSON.parse(text).error;
    message = (typeof e === "string" ? e : e?.message) ?? text;
  } catch { /* a proxy's page: its text is all there is */ }
  const seconds = Number.parseInt(reply.headers.get("Retry-After") ?? "", 10);
  return new ApiError(String(message) || `HTTP ${reply.status}`, reply.status,
    Number.isFinite(seconds) ? seconds : null);
}

// What to do about an error, beside what the server says.
export function adviceOf(error) {
  if (error.status === 401) return "Type a key that this server knows into “API key” above.";
  if (error.status === 403) return "The key above may not do this.";
  if (error.status === 429 || error.status === 503)
    return error.retryAfter == null ? "Try again a little later."
      : `The server asks to wait for ${error.retryAfter} s.`;
  return "";
}

export async function models(signal) {
  const list = (await (await call("/v1/models", { signal })).json()).data;
  return Array.isArray(list) ? list.map((m) => String(m.id)) : [];
}
