// Elements, made without HTML: what a text holds can never become markup.

// el("a", {class: "x", onclick: f}, "text", node): functions are listeners, true is an attribute
// without a value, and false or null leaves one out. A child may be a list, of any length.
export function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value != null) node.setAttribute(name, value);
  }
  for (const child of children.flat())
    if (child != null) node.append(child);
  return node;
}

// A text that grows: only what is new is put there.
export function grow(node, text) {
  const shown = node.firstChild?.data ?? "";
  if (!shown || !text.startsWith(shown)) node.textContent = text;
  else if (text.length > shown.length) node.firstChild.appendData(text.slice(shown.length));
}

// What a screen reader says: one finished text at a time, never each token.
export function say(text) {
  document.getElementById("spoken").textContent = text;
}

// A storage may be forbidden or full; the page works without.
export function store(area, name, value) {
  try {
    if (value == null) area.removeItem(name);
    else area.setItem(name, value);
    return true;
  } catch {
    return false;
  }
}

export function stored(area, name) {
  try {
    return area.getItem(name);
  } catch {
    return null;
  }
}
