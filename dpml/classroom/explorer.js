/* Moves an explorer between states that Python computed. It holds no formula: it looks a state up and sets texts. */
(function (key, data) {
  const root = document.querySelector('.dpml-explorer[data-key="' + key + '"]:not([data-ready])');
  if (!root) return;
  root.dataset.ready = "1";
  const all = (selector) => Array.from(root.querySelectorAll(selector));
  const svg = root.querySelector("svg");
  const paths = all("path.m"), ghosts = all("path.g"), labels = all("text.t");
  const title = root.querySelector(".dpml-title"), readout = root.querySelector(".dpml-readout");
  const body = root.querySelector("tbody"), ranges = all("input[type=range]"), values = all(".dpml-value");
  let dragging = false;

  const state = () =>
    data.controls.reduce((index, control, i) => {
      const position = control.range
        ? Number(root.querySelector('[data-control="' + i + '"]').value)
        : Number(root.querySelector('[data-control="' + i + '"]:checked').value);
      return index * control.size + position;
    }, 0);

  function show() {
    const frame = data.frames[state()].map((i) => data.pool[i]);
    if (!dragging) paths.forEach((path, i) => ghosts[i].setAttribute("d", data.ghost[i] ? path.getAttribute("d") : ""));
    title.textContent = frame[0];
    readout.textContent = frame[1];
    body.innerHTML = frame[2];
    svg.setAttribute("aria-label", frame[0] + " " + frame[1]);
    paths.forEach((path, i) => path.setAttribute("d", frame[3 + 2 * i]));
    labels.forEach((label, i) => {
      const [x, y, text] = frame[4 + 2 * i].split("\t");
      if (text) { label.setAttribute("x", x); label.setAttribute("y", y); }
      label.textContent = text || "";
    });
    ranges.forEach((range, i) => {
      const text = data.controls[Number(range.dataset.control)].texts[Number(range.value)];
      range.setAttribute("aria-valuetext", text);
      values[i].textContent = text;
    });
  }

  root.addEventListener("input", show);
  /* During a drag the ghost stays where the drag began. */
  root.addEventListener("pointerdown", (event) => {
    if (event.target.type !== "range") return;
    paths.forEach((path, i) => ghosts[i].setAttribute("d", data.ghost[i] ? path.getAttribute("d") : ""));
    dragging = true;
  });
  window.addEventListener("pointerup", () => { dragging = false; });
  /* JupyterLab takes arrow keys at the document; a control of ours keeps its own. */
  if (!window.dpmlKeys) {
    window.dpmlKeys = true;
    window.addEventListener("keydown", (event) => {
      if (event.key !== "Tab" && event.target.closest && event.target.closest(".dpml-controls")) event.stopPropagation();
    }, true);
  }
  root.querySelector(".dpml-controls").hidden = false;
})
