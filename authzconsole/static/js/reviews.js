// Answer the items of a review with the keyboard: j and k move, x selects, A selects all, K R S U answer, M moves or returns, E signs off,
// ? shows the keys.
"use strict";

(() => {
  const form = () => document.getElementById("review-form");
  const bar = () => form()?.querySelector(".review-bar") ?? null;
  const rows = () => [...document.querySelectorAll("tr[data-item]")];
  const place = `review-row:${location.pathname}`;
  let current = -1;

  const moveTo = (index) => {
    const all = rows();
    if (all.length === 0) return;
    current = Math.min(Math.max(index, 0), all.length - 1);
    for (const row of all) row.classList.toggle("current", row === all[current]);
    all[current].focus();
    all[current].scrollIntoView({ block: "nearest" });
  };
  const boxOf = (row) => row?.querySelector("input[name=item]");
  const answer = (button) => {
    const isSelected = form().querySelector("input[name=item]:checked, input[name=select]:checked") !== null;
    if (!isSelected) {
      if (current < 0) return;
      boxOf(rows()[current]).checked = true;
    }
    // answered rows leave the list, so the next row then has the same place
    sessionStorage.setItem(place, String(Math.max(current, 0)));
    button.click();
  };

  const toggleHelp = () => {
    const help = document.getElementById("review-help");
    help.open = !help.open;
    if (help.open) help.scrollIntoView({ block: "nearest" });
  };
  // a bulk answer shows a page with its counts first
  document.addEventListener("htmx:beforeRequest", (event) => {
    if (!bar()?.contains(event.target) || !form().querySelector("input[name=select]").checked) return;
    event.preventDefault();
    form().requestSubmit(event.target);
  });

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input:not([type=checkbox]), textarea, select, dialog") !== null) return;
    const button = document.querySelector(`main button[data-key="${CSS.escape(event.key)}"]`);
    if (button !== null && !form()?.contains(button)) button.click();
    else if (bar() === null) return;
    else if (event.key === "j") moveTo(current + 1);
    else if (event.key === "k") moveTo(current - 1);
    else if (event.key === "x" && boxOf(rows()[current]))
      boxOf(rows()[current]).checked = !boxOf(rows()[current]).checked;
    else if (event.key === "A") bar().querySelector("input[name=select]").click();
    else if (event.key === "?") toggleHelp();
    else if (button !== null) answer(button);
    else return;
    event.preventDefault();
  });

  // notices float above the bar, and focused rows scroll above it
  const barSize = new ResizeObserver(() =>
    document.documentElement.style.setProperty("--bottom-bar", `${bar()?.offsetHeight ?? 0}px`),
  );
  const show = () => {
    barSize.disconnect();
    if (bar() !== null) barSize.observe(bar());
    const stored = sessionStorage.getItem(place);
    if (stored === null || form() === null) return;
    sessionStorage.removeItem(place);
    moveTo(Number(stored));
  };
  document.addEventListener("htmx:afterSettle", (event) => event.target.id === "review-work" && show());
  show();
})();
