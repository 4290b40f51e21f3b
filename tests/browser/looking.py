"""What the browser tests ask of a page: one visit collects it, several tests read it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from book.ext import api

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "_build" / "html"
SOURCES = [ROOT / name for name in ("_config.yml", "_toc.yml", "book", "dpml", "experiments", "notebooks")]
PHONE, DESKTOP = (390, 844), (1280, 900)
HANGS = 600  # seconds after which a page is taken to hang, also on a slow machine
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-default-apps",
    "--force-color-profile=srgb",
)


def pages() -> list[str]:
    """The pages of the table of contents as paths below the site, with those made from the package."""

    def files(node: Any) -> Iterator[str]:
        if isinstance(node, dict):
            for key, value in node.items():
                if key in ("root", "file"):
                    yield value
                elif key == "glob":
                    yield from sorted(path.relative_to(ROOT).with_suffix("").as_posix() for path in ROOT.glob(value))
                else:
                    yield from files(value)
        elif isinstance(node, list):
            for value in node:
                yield from files(value)

    written = files(yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8")))
    return [f"{page}.html" for page in (*written, *map(api.page_of, api.homes()))]


def newest(*paths: Path) -> float:
    """When the last change was made below the paths; caches and hidden files do not count."""
    files = [file for path in paths for file in (path, *path.rglob("*")) if file.is_file()]
    own = [file for file in files if not any(part[0] in "._" for part in file.relative_to(ROOT).parts[1:-1])]
    return max((file.stat().st_mtime for file in own if file.name[0] != "."), default=0.0)


def resize(driver: Any, size: tuple[int, int]) -> None:
    """Lay the page out for a window of this size."""
    metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": size[0] < 600}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def prefer(driver: Any, scheme: str) -> None:
    """Tell pages that the reader's system prefers the colour scheme "light" or "dark"."""
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


# Resolves when the page has taken over the colour scheme of the system, without waiting for any fading of colours.
REPAINTED = """
const [scheme, done] = arguments;
const still = document.createElement('style');
still.textContent = '* { transition: none !important; }';
document.head.append(still);
const started = performance.now();
(function wait() {
  const ready = document.documentElement.dataset.theme === scheme || performance.now() - started > 300000;
  requestAnimationFrame(() => (ready ? requestAnimationFrame(() => done()) : wait()));
})();
"""


# Resolves when MathJax has set every formula of the page (at once where there is none).
SETTLED = """
const done = arguments[arguments.length - 1];
const started = performance.now();
(function wait() {
  const wanted = document.querySelector('.math') !== null;
  if (!wanted || (window.MathJax && MathJax.startup && MathJax.startup.promise))
    (wanted ? MathJax.startup.promise : Promise.resolve())
      .then(() => document.fonts.ready)
      .then(() => requestAnimationFrame(() => requestAnimationFrame(() => done(true))));
  else if (performance.now() - started > 300000) done(false);
  else setTimeout(wait, 20);
})();
"""

FACTS = r"""
const article = document.querySelector('article') || document.body;
const seen = (e) => e.getClientRects().length > 0;
const ids = Array.from(document.querySelectorAll('[id]'), (e) => e.id);
const text = article.cloneNode(true);
text.querySelectorAll('pre, code, dt.sig, script, style, mjx-container, .dpml-explorer').forEach((e) => e.remove());
return {
  title: document.title,
  language: document.documentElement.lang,
  headings: Array.from(article.querySelectorAll('h1,h2,h3,h4,h5,h6'), (e) =>
    [Number(e.tagName[1]), e.textContent.replace('#', '').trim()]),
  tops: Array.from(document.querySelectorAll('h1')).filter(seen).length,
  twice: ids.filter((id, i) => ids.indexOf(id) !== i),
  text: text.textContent,
  formulas: document.querySelectorAll('.math').length,
  typeset: document.querySelectorAll('mjx-container').length,
  wrong: document.querySelectorAll('mjx-merror, mjx-container [data-mjx-error]').length,
  raw: Array.from(document.querySelectorAll('mjx-assistive-mml mtext'), (e) => e.textContent)
    .filter((text) => /[\\$]/.test(text)),
  readable: document.querySelectorAll('mjx-assistive-mml math').length,
  errors: Array.from(article.querySelectorAll('.system-message, .problematic, .output.stderr, .output.traceback'))
    .filter((e) => !e.closest('.tag_raises-exception')).map((e) => e.textContent),
  numbers: Array.from(document.querySelectorAll('.eqno'), (e) => e.textContent.replace('#', '').trim()),
  explorers: document.querySelectorAll('.dpml-explorer:not(.dpml-live)').length,
  references: Array.from(article.querySelectorAll('a.reference.internal'), (e) =>
    [e.textContent.trim(), e.getAttribute('href')]),
  alts: Array.from(article.querySelectorAll('img'), (e) => [e.getAttribute('src').slice(0, 60), e.getAttribute('alt')]),
};
"""

# How wide the page is, which elements stick out of it, and which scrolling boxes do not start at their left end.
WIDTHS = r"""
const width = document.documentElement.clientWidth;
const inBox = (e) => {
  for (let p = e.parentElement; p && p !== document.body; p = p.parentElement)
    if (['auto', 'scroll', 'hidden', 'clip'].includes(getComputedStyle(p).overflowX)) return true;
  return false;
};
const out = Array.from(document.querySelectorAll('.bd-article-container *'))
  .filter((e) => e.getClientRects().length && e.getBoundingClientRect().right > width + 1 && !inBox(e))
  .map((e) => e.tagName + '.' + e.className);
const small = Array.from(document.querySelectorAll('.dpml-explorer svg text')).filter((e) =>
  e.textContent && e.getClientRects().length &&
  parseFloat(getComputedStyle(e).fontSize) * e.ownerSVGElement.getScreenCTM().a < 9).map((e) => e.textContent);
const cut = Array.from(document.querySelectorAll('.bd-main mjx-container[display="true"]')).filter((e) =>
  e.querySelector('mjx-math').getBoundingClientRect().left < e.getBoundingClientRect().left - 1
).map((e) => e.textContent.slice(0, 60));
return {scroll: document.documentElement.scrollWidth, client: width, out: out.slice(0, 5), small: small, cut: cut};
"""

# Contrast of visible texts against the first opaque background behind them, the lowest first.
CONTRAST = r"""
const parse = (c) => { const m = c.match(/[\d.]+/g).map(Number); return m.length < 4 ? [...m, 1] : m; };
const channel = (v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
const light = (c) => 0.2126 * channel(c[0]) + 0.7152 * channel(c[1]) + 0.0722 * channel(c[2]);
const over = (a, b) => [0, 1, 2].map((i) => a[i] * a[3] + b[i] * (1 - a[3])).concat(1);
const behind = (e) => {
  const layers = [];
  for (let p = e; p; p = p.parentElement) {
    const c = parse(getComputedStyle(p).backgroundColor);
    if (c[3] > 0) layers.push(c);
    if (c[3] === 1) break;
  }
  return layers.reduceRight((below, layer) => over(layer, below), [255, 255, 255, 1]);
};
const list = [];
for (const e of document.querySelectorAll('.bd-main *, .bd-sidebar-primary *')) {
  if (e.closest('svg, .dpml-explorer svg, mjx-container, script, style') || !e.getClientRects().length) continue;
  const own = Array.from(e.childNodes).some((n) => n.nodeType === 3 && n.textContent.trim());
  const style = getComputedStyle(e);
  if (!own || style.visibility === 'hidden' || Number(style.opacity) === 0 || e.closest('.headerlink')) continue;
  const back = behind(e), front = over(parse(style.color), back), a = light(front), b = light(back);
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  list.push([ratio, e.tagName + '.' + e.className, e.textContent.trim().slice(0, 40)]);
}
list.sort((x, y) => x[0] - y[0]);
return {body: parse(getComputedStyle(document.body).backgroundColor), worst: list.slice(0, 5), counted: list.length};
"""


class Visit(NamedTuple):
    """What one page showed: requests (address, status), console errors, facts, widths, colours, nameless controls."""

    requests: list[tuple[str, int]]
    console: list[str]
    facts: dict[str, Any]
    phone: dict[str, Any]
    light: dict[str, Any]
    dark: dict[str, Any]
    nameless: list[str]


NAMED_ROLES = {
    *("button", "checkbox", "combobox", "figure", "image", "img", "link", "radio", "searchbox", "slider"),
    *("spinbutton", "switch", "textbox"),
}


def _nameless(driver: Any) -> list[str]:
    """The controls, links and pictures that a screen reader would announce without a name.

    Formulas, thousands of nodes without a control among them, are left out for the moment of the question.
    """
    hide = "document.head.append(Object.assign(document.createElement('style'), {id: 'no-formulas', textContent: "
    driver.execute_script(hide + "'mjx-container { display: none !important; }'}))")
    tree = driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    driver.execute_script("document.getElementById('no-formulas').remove()")
    found = []
    for node in tree:
        role = node.get("role", {}).get("value", "")
        if not node.get("ignored") and role in NAMED_ROLES and not node.get("name", {}).get("value", "").strip():
            found.append(f"{role} {node.get('description', {}).get('value', '')} #{node.get('backendDOMNodeId')}")
    return found


def requests_of(driver: Any) -> list[tuple[str, int]]:
    """Every request since the last call, with its status (0: it failed or was never answered)."""
    asked: dict[str, list[Any]] = {}
    for entry in driver.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        parameters = message["params"]
        if message["method"] == "Network.requestWillBeSent":
            asked[parameters["requestId"]] = [parameters["request"]["url"], 0]
        elif message["method"] == "Network.responseReceived" and parameters["requestId"] in asked:
            asked[parameters["requestId"]][1] = parameters["response"]["status"]
        elif message["method"] == "Network.requestServedFromCache" and parameters["requestId"] in asked:
            asked[parameters["requestId"]][1] = 200
    return [(url, status) for url, status in asked.values()]


def open_page(driver: Any, url: str) -> None:
    """Open a page and wait until its formulas are set."""
    driver.get(url)
    assert driver.execute_async_script(SETTLED), f"MathJax did not finish on {url}"


def look_at(driver: Any, address: str) -> Visit:
    """Open a page once and collect all that the tests ask about it."""
    driver.get("about:blank")
    requests_of(driver)
    driver.get_log("browser")
    resize(driver, DESKTOP)
    prefer(driver, "light")
    open_page(driver, address)
    facts = driver.execute_script(FACTS)
    light = driver.execute_script(CONTRAST)
    nameless = _nameless(driver)
    prefer(driver, "dark")
    driver.execute_async_script(REPAINTED, "dark")
    dark = driver.execute_script(CONTRAST)
    prefer(driver, "light")
    resize(driver, PHONE)
    phone = driver.execute_script(WIDTHS)
    resize(driver, DESKTOP)
    console = [entry["message"] for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]
    return Visit(requests_of(driver), console, facts, phone, light, dark, nameless)
