// The text of /metrics, and what is read from it.

const LINE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/;
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)"/g;

// [{name, labels, value}]
export function parse(text) {
  const out = [];
  for (const line of text.split("\n")) {
    const m = line.startsWith("#") ? null : line.match(LINE);
    if (m) out.push({ name: m[1], labels: Object.fromEntries([...(m[2] ?? "").matchAll(LABEL)].map((l) => [l[1], l[2]])), value: Number(m[3]) });
  }
  return out;
}

// Of several models and label values, all together, unless `labels` says which.
export function sum(list, name, labels = {}) {
  return list.filter((m) => m.name === name && Object.entries(labels).every(([k, v]) => m.labels[k] === v))
    .reduce((total, m) => total + m.value, 0);
}

// The quantile of a histogram, of what came between two readings; null: nothing did. The answer is
// the upper bound of the bucket that it lies in.
export function quantile(before, now, name, q) {
  const counts = new Map();
  const add = (list, sign) => list.filter((m) => m.name === `${name}_bucket`)
    .forEach((m) => counts.set(m.labels.le, (counts.get(m.labels.le) ?? 0) + sign * m.value));
  add(now, 1);
  add(before, -1);
  const total = counts.get("+Inf") ?? 0;
  if (total <= 0) return null;
  const bounds = [...counts].map(([le, n]) => [le === "+Inf" ? Infinity : Number(le), n]).sort((a, b) => a[0] - b[0]);
  return bounds.find(([, n]) => n >= q * total)?.[0] ?? null;
}
