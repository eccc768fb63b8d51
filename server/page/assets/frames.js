// Server-sent events out of the body of an answer.

// More than any frame of a server has, so that a line without an end cannot fill the memory.
const MOST = 16 << 20;

// {id, data} of each event; ends with the body.
export async function* frames(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const parts = (rest + value).split(/\r?\n\r?\n/);
      rest = parts.pop();
      if (rest.length > MOST) throw new Error("A frame of the answer is too long.");
      for (const part of parts) yield frameOf(part);
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

// Lines that begin with a colon are comments: pings, and what other servers would go on with.
function frameOf(text) {
  const frame = { id: null, data: "" };
  for (const line of text.split(/\r?\n/)) {
    if (line.startsWith("data:")) frame.data += (frame.data && "\n") + line.slice(5).trimStart();
    else if (line.startsWith("id:")) frame.id = Number.parseInt(line.slice(3), 10);
  }
  return frame;
}
