/* The arrow in the bar of a folded box is an ornament: the bar's own text says what it does. */
window.addEventListener("load", () => {
  for (const arrow of document.querySelectorAll("svg.tb-icon")) arrow.setAttribute("aria-hidden", "true");
});
