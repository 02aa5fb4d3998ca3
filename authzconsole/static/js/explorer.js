"use strict";

// The tree of entities, with the keyboard interaction of the ARIA tree view pattern.
(() => {
  const tree = () => document.querySelector("#explorer [role=tree]");
  const itemOf = (element) => element.closest?.("#explorer [role=treeitem]") ?? null;
  const groupOf = (item) => document.getElementById(item.getAttribute("aria-owns") ?? "");
  const isOpen = (item) => item.getAttribute("aria-expanded") === "true";
  const shown = () =>
    [...tree().querySelectorAll("[role=treeitem]")].filter((item) => item.closest("[hidden]") === null);
  const parentOf = (item) => item.closest("[role=group]")?.previousElementSibling ?? null;

  const focusOn = (item) => {
    if (!item) return;
    for (const other of tree().querySelectorAll("[role=treeitem][tabindex='0']")) other.tabIndex = -1;
    item.tabIndex = 0;
    item.focus();
  };

  const toggle = (item, open = !isOpen(item)) => {
    const group = groupOf(item);
    if (group === null || open === isOpen(item)) return;
    item.setAttribute("aria-expanded", String(open));
    group.hidden = !open;
    if (!open || group.childElementCount > 0) return;
    item.setAttribute("aria-busy", "true");
    htmx.trigger(group, "open");
  };

  const show = (item) => {
    const before = tree().querySelector("[aria-current]");
    markCurrent(item);
    // if the request fails, the previous entity stays displayed and marked; notices.js reports the error
    htmx.ajax("GET", item.href, { source: item, target: "#detail", swap: "outerHTML" }).catch(() => {
      if (item.hasAttribute("aria-current")) markCurrent(before);
    });
  };

  const markCurrent = (item) => {
    for (const other of tree().querySelectorAll("[aria-current]")) other.removeAttribute("aria-current");
    item?.setAttribute("aria-current", "page");
  };

  // capture the click before htmx: the toggle is inside the link
  document.addEventListener(
    "click",
    (event) => {
      const item = itemOf(event.target);
      if (item === null || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
      focusOn(item);
      if (event.target.closest(".branch-toggle") !== null || !item.href) {
        event.preventDefault();
        event.stopPropagation();
        toggle(item);
      } else if (!item.classList.contains("more")) {
        toggle(item, true);
        // without a detail pane the links open the pages
        if (!document.getElementById("detail")?.checkVisibility()) return;
        event.preventDefault();
        show(item);
      }
    },
    true,
  );

  const steps = {
    ArrowDown: (items, place) => focusOn(items[place + 1]),
    ArrowUp: (items, place) => focusOn(items[place - 1]),
    Home: (items) => focusOn(items[0]),
    End: (items) => focusOn(items.at(-1)),
    ArrowRight: (items, place) =>
      isOpen(items[place])
        ? focusOn(groupOf(items[place])?.querySelector("[role=treeitem]"))
        : toggle(items[place], true),
    ArrowLeft: (items, place) =>
      isOpen(items[place]) ? toggle(items[place], false) : focusOn(parentOf(items[place])),
    Enter: (items, place) => items[place].click(),
    " ": (items, place) => items[place].click(),
  };

  const startingWith = (items, place, letter) =>
    [...items.slice(place + 1), ...items.slice(0, place)].find((item) =>
      item.querySelector(".branch-name")?.textContent.toLowerCase().startsWith(letter),
    );

  document.addEventListener("keydown", (event) => {
    const item = itemOf(event.target);
    if (item === null || event.ctrlKey || event.metaKey || event.altKey) return;
    const items = shown(),
      place = items.indexOf(item),
      step = steps[event.key];
    if (step === undefined && (event.key.length > 1 || event.key === "/")) return;
    event.preventDefault();
    if (step === undefined) focusOn(startingWith(items, place, event.key.toLowerCase()));
    else step(items, place);
  });

  // the focused "Show more" row is replaced: focus the first of the new rows
  let place = -1;
  document.addEventListener("htmx:beforeSwap", (event) => {
    const asked = event.detail.requestConfig.elt;
    place =
      asked.classList.contains("more") && asked === document.activeElement ? shown().indexOf(asked) : -1;
  });

  document.addEventListener("htmx:afterSwap", (event) => {
    if (tree() === null) return;
    if (place >= 0) focusOn(shown()[place]);
    place = -1;
    if (event.detail.target.matches("[role=group]"))
      event.detail.target.previousElementSibling.removeAttribute("aria-busy");
    if (event.detail.target.id === "explorer") scrollToCurrent();
    if (event.detail.target.id === "detail") handleDetailLoaded();
  });

  // collapse a branch that failed to load, so that expanding it retries
  const handleLoadFailure = ({ detail: { target } }) => {
    if (!target?.matches("#explorer [role=group]")) return;
    target.previousElementSibling.removeAttribute("aria-busy");
    toggle(target.previousElementSibling, false);
  };
  for (const failed of ["htmx:sendError", "htmx:responseError"])
    document.addEventListener(failed, handleLoadFailure);

  const handleDetailLoaded = () => {
    document.querySelector("#explorer [name=at]").value = decodeURIComponent(
      location.pathname.replace(/^.*?\/entities\//, ""),
    );
    // keep the tree under the pointer: scroll only as far as the tree is sticky
    const { top } = document.getElementById("detail").getBoundingClientRect();
    if (top < 0) scrollBy(0, top - 16);
  };

  const scrollToCurrent = () => {
    const pane = document.querySelector(".explorer-pane"),
      current = tree()?.querySelector("[aria-current]");
    if (!tree()?.querySelector("[tabindex='0']"))
      tree()?.querySelector("[role=treeitem]")?.setAttribute("tabindex", "0");
    if (!pane || !current) return;
    const { top, bottom } = current.getBoundingClientRect(),
      frame = pane.getBoundingClientRect();
    if (top < frame.top || bottom > frame.bottom)
      pane.scrollTop += (top + bottom) / 2 - (frame.top + frame.bottom) / 2;
  };
  document.addEventListener("DOMContentLoaded", scrollToCurrent);
})();
