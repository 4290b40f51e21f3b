/* The arrow in the bar of a folded box is an ornament: the bar's own text says what it does. */
window.addEventListener("load", () => {
  for (const arrow of document.querySelectorAll("svg.tb-icon")) arrow.setAttribute("aria-hidden", "true");
  // The source of a page is a file to keep, not a page of text.
  for (const link of document.querySelectorAll(".btn-download-source-button")) link.download = "";
});
