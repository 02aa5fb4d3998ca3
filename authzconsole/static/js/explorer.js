"use strict";

// The tree of entities, with the keyboard interaction of the ARIA tree view pattern.
(() => {
  const tree = () => document.querySelector("#explorer [role=tree]");
  const itemOf = (element) => element.closest?.("#explorer [role=treeitem]") ?? null;
  const groupOf = (item) => document.getElementById(item.getAttribute("aria-owns") ?? "");
  const isOpen = (item) => item.getAttribute("aria-expanded") === "true";
  const visibleItems = () =>
    [...tree().querySelectorAll("[role=treeitem]")].filter((item) => item.closest("[hidden]") === null);
  const parentOf = (item) => item.closest("[role=group]")?.previousElementSibling ?? null;

  const isWide = matchMedia("(min-width: 1200px)");

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

  const openDetail = (item) => {
    const previous = tree().querySelector("[aria-current]");
    markCurrent(item);
    // if the request fails, the previous entity stays displayed and marked; notices.js reports the error
    htmx.ajax("GET", item.href, { source: item, target: "#detail", swap: "outerHTML" }).catch(() => {
      if (item.hasAttribute("aria-current")) markCurrent(previous);
    });
  };

  const markCurrent = (item) => {
    for (const other of tree().querySelectorAll("[aria-current]")) other.removeAttribute("aria-current");
    item?.setAttribute("aria-current", "page");
  };

  // handle the click before htmx does, because the toggle is inside the link
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
        // if the entity is not displayed next to the tree, the links open the pages
        if (!isWide.matches || !document.getElementById("detail")) return;
        event.preventDefault();
        openDetail(item);
      }
    },
    true,
  );

  const keyActions = {
    ArrowDown: (items, index) => focusOn(items[index + 1]),
    ArrowUp: (items, index) => focusOn(items[index - 1]),
    Home: (items) => focusOn(items[0]),
    End: (items) => focusOn(items.at(-1)),
    ArrowRight: (items, index) =>
      isOpen(items[index])
        ? focusOn(groupOf(items[index])?.querySelector("[role=treeitem]"))
        : toggle(items[index], true),
    ArrowLeft: (items, index) =>
      isOpen(items[index]) ? toggle(items[index], false) : focusOn(parentOf(items[index])),
    Enter: (items, index) => items[index].click(),
    " ": (items, index) => items[index].click(),
  };

  const nextItemStartingWith = (items, index, letter) =>
    [...items.slice(index + 1), ...items.slice(0, index)].find((item) =>
      item.querySelector(".branch-name")?.textContent.toLowerCase().startsWith(letter),
    );

  document.addEventListener("keydown", (event) => {
    const item = itemOf(event.target);
    if (item === null || event.ctrlKey || event.metaKey || event.altKey) return;
    const items = visibleItems(),
      index = items.indexOf(item),
      action = keyActions[event.key];
    if (action === undefined && (event.key.length > 1 || event.key === "/")) return;
    event.preventDefault();
    if (action === undefined) focusOn(nextItemStartingWith(items, index, event.key.toLowerCase()));
    else action(items, index);
  });

  // a swap replaces the focused "Show more" row: focus the first of the new rows
  let replacedIndex = -1;
  document.addEventListener("htmx:beforeSwap", (event) => {
    const requester = event.detail.requestConfig.elt;
    const isReplaced = requester.classList.contains("more") && requester === document.activeElement;
    replacedIndex = isReplaced ? visibleItems().indexOf(requester) : -1;
  });

  document.addEventListener("htmx:afterSwap", (event) => {
    if (tree() === null) return;
    if (replacedIndex >= 0) focusOn(visibleItems()[replacedIndex]);
    replacedIndex = -1;
    if (event.detail.target.matches("[role=group]"))
      event.detail.target.previousElementSibling.removeAttribute("aria-busy");
    if (event.detail.target.id === "explorer") scrollToCurrent();
    if (event.detail.target.id === "detail") handleDetailLoaded();
  });

  // collapse a branch that failed to load, so that expanding it sends the request again
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
    // keep the tree under the pointer: scroll only to the point where the tree becomes sticky
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
