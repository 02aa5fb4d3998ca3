// Count the checked boxes of a list, and check all or none of them.
"use strict";

(() => {
  const boxesOf = (list) =>
    [...list.querySelectorAll("input[type=checkbox][data-item]")].filter((box) => !box.disabled);
  const updateCounts = () => {
    for (const list of document.querySelectorAll("[data-checklist]")) {
      const total = boxesOf(list).reduce((sum, box) => sum + (box.checked ? Number(box.dataset.item) : 0), 0);
      for (const count of list.querySelectorAll("[data-checked-count]"))
        count.textContent = total.toLocaleString("en");
    }
  };
  document.addEventListener("change", (event) => event.target.closest("[data-checklist]") && updateCounts());
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-check]");
    if (button === null) return;
    const part = button.closest("[data-check-part]") ?? button.closest("[data-checklist]");
    for (const box of boxesOf(part)) box.checked = button.dataset.check === "all";
    updateCounts();
  });
  document.addEventListener("htmx:afterSettle", updateCounts);
  addEventListener("pageshow", updateCounts);
  updateCounts();
})();
