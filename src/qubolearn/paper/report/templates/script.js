"use strict";
// What an element of a drawing says in its <title> is shown at the pointer at once, by touch too.
(() => {
  const tip = document.getElementById("tip");
  for (const title of document.querySelectorAll("svg title")) {
    title.parentNode.dataset.tip = title.textContent;
    title.remove();
  }
  for (const each of document.querySelectorAll("main [title]")) {
    each.dataset.tip = each.title;
    each.removeAttribute("title");
  }
  const hide = () => { tip.hidden = true; };
  const show = (event) => {
    const target = event.target.closest ? event.target.closest("[data-tip]") : null;
    if (!target) { hide(); return; }
    tip.textContent = target.dataset.tip;
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    const room = document.documentElement.clientWidth - box.width - 8;
    const above = event.clientY - box.height - 14;
    tip.style.left = `${Math.max(8, Math.min(event.clientX + 12, room))}px`;
    tip.style.top = `${above > 8 ? above : event.clientY + 18}px`;
  };
  document.addEventListener("pointermove", show);
  document.addEventListener("pointerdown", show);
  document.addEventListener("pointerleave", hide);
  document.addEventListener("scroll", hide, { passive: true });
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });

  // On a phone the contents start closed; on paper everything is open.
  const contents = document.querySelector("nav details");
  const narrow = window.matchMedia("(max-width: 1179px)");
  const fold = () => { contents.open = !narrow.matches; };
  fold();
  narrow.addEventListener("change", fold);
  contents.addEventListener("click", (event) => {
    if (event.target.tagName === "A" && narrow.matches) contents.open = false;
  });
  const closed = [];
  window.addEventListener("beforeprint", () => {
    for (const each of document.querySelectorAll("main details:not([open])")) { closed.push(each); each.open = true; }
  });
  window.addEventListener("afterprint", () => { while (closed.length) closed.pop().open = false; });
})();
