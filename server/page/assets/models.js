// Which model is asked: one choice for all views.
import { models as listModels } from "./api.js";
import { el, store, stored } from "./dom.js";

const NAME = "quire.model";

export class Models {
  constructor() {
    this.names = [];
    this.chosen = stored(localStorage, NAME) ?? "";
    this.fields = [];
  }

  // Throws as call() does.
  async load() {
    this.names = await listModels();
    if (!this.names.includes(this.chosen)) this.chosen = this.names[0] ?? "";
    this.draw();
  }

  field(changed = () => {}) {
    const select = el("select", { onchange: () => {
      this.chosen = select.value;
      store(localStorage, NAME, this.chosen);
      this.draw();
    } });
    this.fields.push({ select, changed });
    this.draw();
    return el("label", {}, "Model", select);
  }

  draw() {
    for (const { select, changed } of this.fields) {
      select.replaceChildren(...this.names.map((n) => el("option", { value: n, selected: n === this.chosen }, n)));
      select.value = this.chosen;
      changed();
    }
  }

  body() {
    return this.chosen ? { model: this.chosen } : {};
  }

  query() {
    return this.chosen ? `?model=${encodeURIComponent(this.chosen)}` : "";
  }
}
