// Fold the tree next to an entity, and remember it in wide windows. In narrow windows the tree is always folded at first.
"use strict";

(() => {
  const root = document.documentElement,
    wide = matchMedia("(min-width: 1200px)");
  const stored = () => {
    try {
      return localStorage.getItem("tree");
    } catch {
      return null; // the browser blocks storage
    }
  };
  const store = (state) => {
    try {
      localStorage.setItem("tree", state);
    } catch {
      // the tree is shown again on the next page
    }
  };
  const isOpen = () => root.dataset.tree === "open";
  const updateButton = () =>
    document.getElementById("tree-toggle")?.setAttribute("aria-expanded", String(isOpen()));
  const setTree = (open) => {
    root.dataset.tree = open ? "open" : "folded";
    updateButton();
  };
  const applyDefault = () => setTree(wide.matches && stored() !== "folded");
  applyDefault();
  wide.addEventListener("change", applyDefault);
  document.addEventListener("DOMContentLoaded", updateButton);
  document.addEventListener("htmx:afterSwap", updateButton);
  document.addEventListener("click", (event) => {
    if (event.target.closest("#tree-toggle") === null) return;
    setTree(!isOpen());
    if (wide.matches) store(isOpen() ? "open" : "folded");
  });
})();
