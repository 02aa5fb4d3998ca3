// Count the checked boxes of a list, and check all or none of them, or of a part of it. The box of a part shows whether all are checked.
// A part for a namespace warns if none of its boxes is checked, but a checked group reaches the namespace.
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
  const updateBoxes = () => {
    for (const box of document.querySelectorAll("[data-check-box]")) {
      const boxes = boxesOf(box.closest("[data-check-part]")),
        total = boxes.filter(({ checked }) => checked).length;
      box.checked = total > 0;
      box.indeterminate = total > 0 && total < boxes.length;
    }
    for (const warning of document.querySelectorAll("[data-reach-warning]")) {
      const groups = [...warning.closest("[data-checklist]").querySelectorAll("[data-reaches]:checked")]
        .filter(({ dataset }) => dataset.reaches.split(" ").includes(warning.dataset.reachWarning))
        .map(({ dataset }) => dataset.group);
      warning.querySelector("[data-reach-groups]").textContent = groups.join(", ");
      warning.hidden =
        groups.length === 0 || boxesOf(warning.closest("[data-check-part]")).some(({ checked }) => checked);
    }
  };
  document.addEventListener("change", ({ target }) => {
    if (target.closest("[data-checklist]") === null) return;
    if (target.matches("[data-check-box]"))
      for (const box of boxesOf(target.closest("[data-check-part]"))) box.checked = target.checked;
    updateBoxes();
    updateCounts();
  });
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-check]");
    if (button === null) return;
    const part = button.closest("[data-check-part]") ?? button.closest("[data-checklist]");
    for (const box of boxesOf(part)) box.checked = button.dataset.check === "all";
    updateBoxes();
    updateCounts();
  });
  document.addEventListener("htmx:afterSettle", updateCounts);
  addEventListener("pageshow", () => {
    updateBoxes();
    updateCounts();
  });
})();
