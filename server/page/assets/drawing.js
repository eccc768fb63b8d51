// Small drawings. Colours are classes and places are attributes: the policy of the page forbids
// styles that stand in elements.
import { el, svg } from "./dom.js";

const WIDTH = 300, HEIGHT = 60;

// A line of values over time, the newest at the right. `most` is its top, at least the largest.
export function line(label, values, unit) {
  const most = Math.max(1e-9, ...values);
  const step = WIDTH / Math.max(1, values.length - 1);
  const points = values.map((v, i) => `${(i * step).toFixed(1)},${(HEIGHT - 2 - (HEIGHT - 6) * v / most).toFixed(1)}`);
  return figure(label, `${format(values.at(-1) ?? 0)} ${unit}`, `most ${format(Math.max(0, ...values))} ${unit}`,
    svg("polyline", { class: "line", points: points.join(" ") }));
}

// One bar for each value, of two parts: [lower, upper].
export function bars(label, pairs, note) {
  const most = Math.max(1e-9, ...pairs.map(([a, b]) => a + b));
  const width = WIDTH / Math.max(1, pairs.length);
  const box = (kind, i, from, n) => svg("rect", { class: kind, x: (i * width).toFixed(2), width: Math.max(0.5, width - 0.5).toFixed(2),
    y: (HEIGHT * (1 - (from + n) / most)).toFixed(2), height: (HEIGHT * n / most).toFixed(2) });
  return figure(label, "", note, ...pairs.flatMap(([a, b], i) => [box("first", i, 0, a), box("second", i, a, b)]));
}

// Parts of a whole, side by side: [[name, value, class]].
export function shares(label, parts) {
  const total = Math.max(1, parts.reduce((n, p) => n + p[1], 0));
  let x = 0;
  const boxes = parts.map(([, value, kind]) => {
    const box = svg("rect", { class: kind, x: x.toFixed(2), y: 0, width: (WIDTH * value / total).toFixed(2), height: HEIGHT });
    x += WIDTH * value / total;
    return box;
  });
  const legend = el("ul", { class: "legend" }, ...parts.map(([name, value, kind]) =>
    el("li", {}, svg("svg", { class: "dot", viewBox: "0 0 10 10", "aria-hidden": "true" }, svg("rect", { class: kind, width: 10, height: 10 })),
      `${name} ${value}`)));
  const node = figure(label, "", "", ...boxes);
  node.append(legend);
  return node;
}

function figure(label, value, note, ...shapes) {
  return el("figure", { class: "drawing" },
    el("figcaption", {}, el("span", {}, label), el("strong", {}, value), el("small", {}, note)),
    svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img",
      "aria-label": `${label}: ${[value, note].filter(Boolean).join(", ")}` }, ...shapes));
}

export function format(n) {
  return n >= 100 || Number.isInteger(n) ? String(Math.round(n)) : n.toPrecision(3);
}
