/* Fields for answers: Python runs in a worker, which starts when a field gets the focus. */
const page = JSON.parse(document.getElementById("dpml-answers").textContent);
const root = new URL(page.python, location.href);
const store = `dpml-answers ${root.pathname} ${page.page} `; // another site of the same host has other answers
const fields = new Map(); // id of a question -> its field
let python; // the worker, what it has been asked, and whether it has started

function start() {
  const worker = new Worker(new URL(page.worker, location.href), { type: "module" });
  const asked = new Map();
  const ask = (message) => new Promise((resolve, reject) => {
    const id = asked.size;
    asked.set(id, { resolve, reject });
    worker.postMessage({ id, ...message });
  });
  const end = (reason) => { // the next check starts Python again
    worker.terminate();
    if (python?.worker === worker) python = undefined;
    for (const { reject } of asked.values()) reject(new Error(reason));
  };
  const fail = (reason) => end(`Python does not run here (${reason}). Try again, or use the notebook on your machine.`);
  worker.onmessage = ({ data: { id, result, error } }) => (error ? fail(error) : asked.get(id).resolve(result));
  worker.onerror = (event) => fail(event.message || "its script could not be loaded");
  const first = page.cells.filter((cell) => !cell.id && cell.source.endsWith(" as items")).map((cell) => cell.source);
  const started = ask({ root: root.href, digest: page.digest, first: first.join("\n") });
  started.catch(() => {}); // said by the field that waits for it, if one does
  return { worker, ask, end, started };
}

class Field {
  constructor(box, cell) {
    Object.assign(this, { box, cell, key: store + cell.id });
    this.text = box.querySelector("textarea");
    this.said = box.querySelector("pre");
    [this.run, this.stop, this.afresh] = box.querySelectorAll("button");
    const saved = this.load();
    this.text.value = saved.text ?? cell.source;
    this.ended = saved.ended;
    if (saved.stub && saved.stub !== cell.source) {
      this.tell("This question has changed since you wrote your answer, which is kept. Start afresh shows its new form.");
    }
    this.fit();
    this.text.onfocus = () => {
      this.leaving = true; // who comes by Tab goes on by Tab
      python ??= start(); // Python loads while the reader writes
    };
    this.text.onclick = () => { this.leaving = false; };
    this.text.oninput = () => this.save();
    this.text.onkeydown = (event) => this.press(event);
    this.run.onclick = () => this.check();
    this.stop.onclick = () => python?.end("Stopped.");
    this.afresh.onclick = () => this.swap();
    box.hidden = false;
  }

  load() {
    try { return JSON.parse(localStorage.getItem(this.key)) ?? {}; } catch { return {}; }
  }

  save() {
    this.undo = undefined;
    this.afresh.textContent = "Start afresh";
    this.keep();
  }

  keep() {
    const { text: { value: text }, ended, cell: { source: stub } } = this;
    try {
      if (text === stub) localStorage.removeItem(this.key);
      else localStorage.setItem(this.key, JSON.stringify({ text, ended, stub }));
    } catch { /* a browser may keep nothing: the field works as long as its page is open */ }
    this.fit();
  }

  swap() { // and back, until something is written
    const before = this.text.value;
    this.text.value = this.undo ?? this.cell.source;
    this.undo = this.undo === undefined && before !== this.cell.source ? before : undefined;
    this.afresh.textContent = this.undo === undefined ? "Start afresh" : "Undo: my answer";
    this.tell("");
    this.keep();
  }

  fit() { this.text.rows = this.text.value.split("\n").length + 1; }

  tell(text, verdict = "") {
    this.said.textContent = text;
    this.said.dataset.verdict = verdict;
  }

  press(event) {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey || event.shiftKey)) {
      event.preventDefault();
      this.run.click();
    } else if (event.key === "Tab" && !event.shiftKey && !this.leaving) {
      event.preventDefault();
      document.execCommand("insertText", false, "    "); // unlike a new value it can be undone
    }
    this.leaving = event.key === "Escape";
  }

  get ran() { return this.text.value === this.ended; }

  async check() {
    const { cell, text: { value: source } } = this;
    this.run.disabled = true;
    this.stop.disabled = false;
    try {
      python ??= start();
      this.tell("Python starts. The first time it is loaded: 15 MB.");
      await python.started;
      this.tell("Running …");
      const above = page.cells.slice(0, page.cells.indexOf(cell)).map(({ id, name, source: text }) => (
        id ? { name, source: fields.get(id).text.value, ran: fields.get(id).ran } : { source: text }));
      const answer = { name: cell.name, source };
      const { ended, passed, said } = await python.ask({ earlier: above, answer, checks: cell.checks });
      if (ended) this.ended = source;
      this.keep();
      this.tell(said, passed ? "passed" : "not-yet");
    } catch (error) {
      this.tell(error.message, "failed");
    }
    this.run.disabled = false;
    this.stop.disabled = true;
  }
}

for (const cell of page.cells.filter(({ id }) => id)) {
  fields.set(cell.id, new Field(document.querySelector(`.dpml-answer[data-id="${cell.id}"]`), cell));
}
