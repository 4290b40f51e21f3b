/* Moves an explorer between states that Python computed. It holds no formula: it looks a state up and sets texts. */
(function (key, data) {
  const root = document.querySelector('.dpml-explorer[data-key="' + key + '"]:not([data-ready])');
  if (!root) return;
  root.dataset.ready = "1";
  const copy = (window.dpmlCopies = (window.dpmlCopies || 0) + 1);
  const all = (selector) => Array.from(root.querySelectorAll(selector));
  const one = (selector) => root.querySelector(selector);
  /* The still pictures become drawings that move; the controls appear only now that something answers them. */
  all("img").forEach((image) => {
    image.outerHTML = decodeURIComponent(image.getAttribute("src").split(",").slice(1).join(","));
  });
  all("svg").forEach((svg) => svg.setAttribute("aria-hidden", "true"));
  one(".dpml-still").remove();
  const make = (tag, fields, ...children) => {
    const element = Object.assign(document.createElement(tag), fields);
    element.append(...children);
    return element;
  };
  data.controls.forEach((control, i) => {
    const name = key + "-" + copy + "-" + i;
    const input = (fields) => {
      const element = make("input", {autocomplete: "off", ...fields});
      element.dataset.control = i;
      element.setAttribute("aria-describedby", name);
      return element;
    };
    const help = make("small", {id: name}, control.help), text = control.texts[control.start];
    if (control.range) {
      const slider = input({type: "range", min: 0, max: control.texts.length - 1, step: 1, value: control.start});
      slider.setAttribute("aria-label", control.label);
      slider.setAttribute("aria-valuetext", text);
      const value = make("span", {className: "dpml-value"}, text);
      one(".dpml-controls").append(make("label", {className: "dpml-range"}, value, slider, help));
    } else {
      const boxes = control.texts.map((text, j) =>
        make("label", {}, input({type: "radio", name: name, value: j, checked: j === control.start}), text));
      one(".dpml-controls").append(make("fieldset", {}, make("legend", {}, control.label), ...boxes, help));
    }
  });
  const title = one(".dpml-title"), readout = one(".dpml-readout"), panels = one(".dpml-panels");
  const thead = one("thead"), tbody = one("tbody");
  const paths = all("path.m"), ghosts = all("path.g"), labels = all("text.t");
  const ranges = all("input[type=range]"), values = all(".dpml-value");
  let dragging = false;

  const state = () =>
    data.controls.reduce((index, control, i) => {
      const input = one('[data-control="' + i + '"][type=range], [data-control="' + i + '"]:checked');
      return index * control.texts.length + Number(input.value);
    }, 0);
  const haunt = () =>
    paths.forEach((path, i) => ghosts[i].setAttribute("d", data.ghost[i] ? path.getAttribute("d") : ""));
  const say = (finding, values) => {
    title.textContent = finding;
    readout.textContent = values;
    panels.setAttribute("aria-label", finding + " " + values);
  };

  function show() {
    const frame = data.frames[state()].map((i) => data.pool[i]);
    if (!dragging) haunt();
    all(".dpml-asked").forEach((panel) => panel.classList.remove("dpml-asked"));
    say(frame[0], frame[1]);
    const lines = frame[2].split("\n").map((line) => line.split("\t"));
    const row = (tag, cells) => make("tr", {}, ...cells.map((cell) => make(tag, tag === "th" ? {scope: "col"} : {}, cell)));
    thead.replaceChildren(row("th", lines[0]));
    tbody.replaceChildren(...lines.slice(1).map((cells) => row("td", cells)));
    paths.forEach((path, i) => path.setAttribute("d", frame[3 + 2 * i]));
    labels.forEach((label, i) => {
      const [x, y, anchor, text] = frame[4 + 2 * i].split("\t");
      if (text) Object.entries({x: x, y: y, "text-anchor": anchor}).forEach((pair) => label.setAttribute(...pair));
      label.textContent = text;
    });
    ranges.forEach((range, i) => {
      const text = data.controls[Number(range.dataset.control)].texts[Number(range.value)];
      range.setAttribute("aria-valuetext", text);
      values[i].textContent = text;
    });
  }

  /* Until the reader has moved something, the finding and what shows it are covered: a guess comes first. */
  data.asked.forEach((i) => panels.children[i] && panels.children[i].classList.add("dpml-asked"));
  say("", "");
  panels.setAttribute("aria-label", data.cover);
  title.append(make("button", {type: "button", className: "dpml-cover", onclick: show}, data.cover));

  root.addEventListener("input", show);
  /* During a drag the ghost stays where the drag began. */
  root.addEventListener("pointerdown", (event) => {
    if (event.target.type !== "range") return;
    haunt();
    dragging = true;
  });
  window.addEventListener("pointerup", () => { dragging = false; });
  const fill = () => (document.fullscreenElement ? document.exitFullscreen() : root.requestFullscreen());
  if (root.requestFullscreen) {
    one(".dpml-foot").append(make("button", {type: "button", className: "dpml-full", onclick: fill}, "Full screen: F"));
  }
  /* JupyterLab takes keys at the document; a control of ours keeps its own, and F is the key of the figure in sight. */
  window.addEventListener("keydown", (event) => {
    const held = event.ctrlKey || event.metaKey || event.altKey;
    const typing = event.target.closest && event.target.closest(
      "textarea, select, [contenteditable], input:not([type=range]):not([type=radio])");
    if (!root.isConnected || held || typing) return;
    if (event.key.toLowerCase() === "f" && one(".dpml-full") && root.matches(":hover, :focus-within, :fullscreen")) {
      event.preventDefault();
      event.stopPropagation();
      fill();
    } else if (event.key !== "Tab" && root.contains(event.target)) event.stopPropagation();
  }, true);
})
