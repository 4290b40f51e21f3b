/* The arrow in the bar of a folded box is an ornament: the bar's own text says what it does. */
window.addEventListener("load", () => {
  for (const arrow of document.querySelectorAll("svg.tb-icon")) arrow.setAttribute("aria-hidden", "true");
  // The source of a page is a file to keep, not a page of text; that of a notebook has its name already.
  for (const link of document.querySelectorAll(".btn-download-source-button:not([download])")) link.download = "";
});

/* On paper nothing is folded away: what printing opened is closed again after it. */
window.addEventListener("beforeprint", () => {
  for (const fold of document.querySelectorAll("details:not([open])")) {
    fold.open = true;
    window.addEventListener("afterprint", () => { fold.open = false; }, {once: true});
  }
});
