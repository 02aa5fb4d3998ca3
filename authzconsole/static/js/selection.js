// How many of a list are chosen, on this page of it and on others.
"use strict";

(() => {
  const chooser = () => document.getElementById("children-plan");
  const boxes = () => [...document.querySelectorAll("input[form=children-form][name=address]")];
  const isBox = (box) => box.type === "checkbox" && !box.disabled;
  const chosenCounted = () => {
    if (chooser() === null) return;
    const total = boxes().filter((box) => box.type === "hidden" || box.checked).length;
    chooser().disabled = total === 0;
    chooser().querySelector("[data-selected]").textContent = String(total);
    const free = boxes().filter(isBox), all = document.getElementById("children-all");
    all.hidden = free.length === 0;
    all.disabled = free.every((box) => box.checked);
  };
  document.addEventListener("change", (event) => event.target.name === "address" && chosenCounted());
  document.addEventListener("htmx:afterSettle", chosenCounted);
  document.addEventListener("click", (event) => {
    if (event.target.closest("#children-all") === null) return;
    for (const box of boxes().filter(isBox)) box.checked = true;
    chosenCounted();
    chooser().focus();
    document.getElementById("announce").textContent = chooser().textContent;
  });
  addEventListener("pageshow", chosenCounted);
  chosenCounted();
})();
