/* What the browser tests ask of a page; looking.py calls each function by its name. */

// Resolves when the page has taken over the colour scheme of the system, without waiting for any fading of colours.
function repainted(scheme, done) {
  const still = document.createElement('style');
  still.textContent = '* { transition: none !important; }';
  document.head.append(still);
  const started = performance.now();
  (function wait() {
    const ready = document.documentElement.dataset.theme === scheme || performance.now() - started > 300000;
    requestAnimationFrame(() => (ready ? requestAnimationFrame(() => done()) : wait()));
  })();
}

// Resolves when MathJax has set every formula of the page (at once where there is none).
function settled(done) {
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
}

function facts() {
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
    references: Array.from(article.querySelectorAll('a.reference.internal'), (e) =>
      [e.textContent.trim(), e.getAttribute('href')]),
    alts: Array.from(article.querySelectorAll('img'), (e) => [e.getAttribute('src').slice(0, 60), e.getAttribute('alt')]),
  };
}

// How wide the page is, which elements stick out of it, and which scrolling boxes do not start at their left end.
function widths() {
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
}

// Contrast of visible texts against the first opaque background behind them, the lowest first.
function contrast() {
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
}
