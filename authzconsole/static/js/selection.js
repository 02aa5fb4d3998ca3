// Count the selected children on this page and on others, and select all on this page.
"use strict";

(() => {
  const planButton = () => document.getElementById("children-plan");
  const boxes = () => [...document.querySelectorAll("input[form=children-form][name=address]")];
  const isBox = (box) => box.type === "checkbox" && !box.disabled;
  const updateCount = () => {
    if (planButton() === null) return;
    const total = boxes().filter((box) => box.type === "hidden" || box.checked).length;
    planButton().disabled = total === 0;
    planButton().querySelector("[data-selected]").textContent = String(total);
    const free = boxes().filter(isBox),
      all = document.getElementById("children-all");
    all.hidden = free.length === 0;
    all.disabled = free.every((box) => box.checked);
  };
  document.addEventListener("change", (event) => event.target.name === "address" && updateCount());
  document.addEventListener("htmx:afterSettle", updateCount);
  document.addEventListener("click", (event) => {
    if (event.target.closest("#children-all") === null) return;
    for (const box of boxes().filter(isBox)) box.checked = true;
    updateCount();
    planButton().focus();
    document.getElementById("announce").textContent = planButton().textContent;
  });
  addEventListener("pageshow", updateCount);
  updateCount();
})();
