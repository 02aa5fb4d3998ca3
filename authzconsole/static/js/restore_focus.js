// What was focused or unfolded goes with the part that it stood in: the same in the new part takes its place, or else what the part
// is headed by.
"use strict";

(() => {
  const written = (field) => `${field.name} ${["checkbox", "radio"].includes(field.type) ? field.value : ""}`;
  const said = (element) => element.getAttribute("aria-label")
    ?? (element.matches("input, select, textarea") ? written(element) : element.textContent).trim();
  const isAlike = (one) => (other) => other.localName === one.localName && !other.disabled && other.type === one.type;
  const heirIn = (part, lost) => {
    const named = [...part.querySelectorAll(lost.localName)].filter(isAlike(lost)).filter((other) => said(other) === said(lost));
    const same = named.find((other) => other.getAttribute("href") === lost.getAttribute("href"));
    return said(lost) === "" ? null : same ?? (named.length === 1 ? named[0] : null);
  };
  const focusHeading = (part) => {
    const heading = part.querySelector("h1, h2, h3") ?? part;
    if (!heading.hasAttribute("tabindex")) heading.tabIndex = -1;
    heading.focus();
  };
  const isInSight = (element) => {
    const { top, bottom } = element.getBoundingClientRect();
    return bottom <= innerHeight && top >= 0;
  };
  let left = null;
  document.addEventListener("htmx:beforeSwap", ({ detail: { target, shouldSwap } }) => {
    const focused = document.activeElement;
    left = shouldSwap && target.id && focused !== target && target.contains(focused)
      ? { part: target.id, focused, wasInSight: isInSight(focused) } : null;
  });
  document.addEventListener("htmx:afterSettle", () => {
    if (left === null || left.focused.isConnected) return;
    const { part, wasInSight } = left, lost = left.focused, now = document.getElementById(part);
    left = null;
    if (now === null) return;
    if (document.activeElement === document.body) {
      const heir = heirIn(now, lost);
      if (heir === null) return focusHeading(now);
      heir.focus({ preventScroll: true });
    }
    // a fault that is said above the field moves it down; whoever had scrolled away from it stays where they are
    const focused = document.activeElement;
    if (now.contains(focused) && wasInSight && !isInSight(focused)) focused.scrollIntoView({ block: "nearest" });
  });

  let unfolded = [], typedIn = "";
  document.addEventListener("htmx:beforeSwap", (event) => {
    unfolded = [...event.detail.target.querySelectorAll("details[id][open]")].map((details) => details.id);
    typedIn = document.activeElement.id;
  });
  document.addEventListener("htmx:afterSwap", () => {
    // what was unfolded stays so when it comes anew: whoever empties the last field in it is still there
    for (const details of unfolded.splice(0).map((id) => document.getElementById(id))) {
      if (details === null || details.open) continue;
      details.open = true;
      if (typedIn) details.querySelector(`#${CSS.escape(typedIn)}`)?.focus();
    }
  });
})();
