// One answer of a chat on its way: asked for, read, gone on with, stopped.
//
// The server keeps a resumable stream's frames for a while (stream_keep_ms), so an answer is its
// name and the number of the last frame that was read: with both a page that was loaded anew, or
// whose line was cut, gets the rest.
import { ApiError, call } from "./api.js";
import { frames } from "./frames.js";

const MAX_TRIES = 4; // of a line that is cut without a frame between

// answer: {content, thoughts, calls, stream, after, end}; it is plain data, kept as it is.
export function newAnswer() {
  return { content: "", thoughts: "", calls: [], stream: null, after: -1, end: null, usage: null };
}

export async function ask(answer, body, signal, changed) {
  const reply = await call("/v1/chat/completions", {
    body: { ...body, stream: true, resumable: true, stream_options: { include_usage: true } }, signal });
  answer.stream = reply.headers.get("X-Stream-Id");
  changed();
  if (await read(answer, reply, signal, changed)) return;
  await goOn(answer, signal, changed);
}

// The rest of an answer, as far as this server still has it.
export async function goOn(answer, signal, changed) {
  let tries = 0;
  while (tries < MAX_TRIES) {
    if (!answer.stream) break;
    const before = answer.after;
    try {
      const path = `/v1/streams/${encodeURIComponent(answer.stream)}?after=${answer.after}`;
      // From the beginning: the server knows that as no number at all.
      const reply = await call(answer.after < 0 ? path.split("?")[0] : path, { signal });
      if (await read(answer, reply, signal, changed)) return;
    } catch (e) {
      if (e.name === "AbortError" || e.status === 401 || e.status === 403) throw e;
      if (e.status === 404 || e.status === 410 || e.status === 416) break;
    }
    tries = answer.after > before ? 0 : tries + 1;
    await new Promise((done) => setTimeout(done, 400 * tries));
  }
  answer.end = "cut";
  throw new ApiError("The line was cut, and the server does not have the rest any more. " +
    "What had been received is kept.");
}

// Tells a server that keeps a stream that nobody wants it; hanging up does not.
export function forget(answer) {
  if (answer.stream)
    call(`/v1/streams/${encodeURIComponent(answer.stream)}`, { method: "DELETE" }).catch(() => {});
}

// Whether the end was reached.
async function read(answer, reply, signal, changed) {
  try {
    for await (const frame of frames(reply.body)) {
      if (frame.data === "[DONE]") {
        answer.end ??= "stop";
        return true;
      }
      if (frame.data) take(answer, JSON.parse(frame.data));
      if (frame.id != null) answer.after = frame.id;
      changed();
    }
  } catch (e) {
    if (e instanceof ApiError || signal.aborted) throw e;
  }
  return false;
}

function take(answer, chunk) {
  if (chunk.error) throw new ApiError(String(chunk.error.message ?? "The answer failed."), chunk.error.code);
  if (chunk.usage) answer.usage = chunk.usage;
  const choice = chunk.choices?.[0];
  if (!choice) return;
  const delta = choice.delta ?? {};
  answer.content += delta.content ?? "";
  answer.thoughts += delta.reasoning_content ?? "";
  for (const part of delta.tool_calls ?? []) takeCall(answer.calls, part);
  if (choice.finish_reason) answer.end = choice.finish_reason;
}

function takeCall(calls, part) {
  const known = (calls[part.index ?? 0] ??= { name: "", arguments: "" });
  known.name += part.function?.name ?? "";
  known.arguments += part.function?.arguments ?? "";
}
