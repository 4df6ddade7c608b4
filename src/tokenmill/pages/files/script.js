"use strict";
// Pages work without this: it shows the token under the pointer in a corner, marks its equals, and
// gives keys to links. Text is only ever set as text.
(() => {
  const inspector = document.getElementById("inspector");
  let marked = [];
  let shown = null;

  function show(token) {
    if (token === shown) return;
    shown = token;
    for (const other of marked) other.classList.remove("same");
    marked = [];
    if (inspector) inspector.hidden = !token;
    if (!token) return;
    const block = token.closest(".tokens");
    if (block && token.dataset.id) {
      const same = block.querySelectorAll(`[data-id="${CSS.escape(token.dataset.id)}"]`);
      if (same.length > 1 && same.length < 2000) marked = Array.from(same);
      for (const other of marked) other.classList.add("same");
    }
    if (!inspector) return;
    const times = marked.length > 1 ? `\n${marked.length} times on this page` : "";
    // The title is taken over, so that it does not cover what is being read.
    if (token.title) {
      token.dataset.title = token.title;
      token.removeAttribute("title");
    }
    inspector.textContent = `${token.textContent.trimEnd()}\n${token.dataset.title || ""}${times}`;
  }

  document.addEventListener("pointerover", (event) => {
    const token = event.target instanceof Element ? event.target.closest(".tokens .t") : null;
    show(token);
  });

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target instanceof Element && event.target.closest("input, select, textarea")) return;
    const target = document.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
    if (!target) return;
    event.preventDefault();
    if (target instanceof HTMLAnchorElement) target.click();
    else target.focus();
  });
})();
