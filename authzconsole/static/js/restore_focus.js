// Restore the focus and open <details> after htmx replaces a section: focus the same element in the new section, or its heading.
// Focus an empty required reason when the effect of a change is shown.
"use strict";

(() => {
  const fieldKey = (field) =>
    `${field.name} ${["checkbox", "radio"].includes(field.type) ? field.value : ""}`;
  const labelOf = (element) =>
    element.getAttribute("aria-label") ??
    (element.matches("input, select, textarea") ? fieldKey(element) : element.textContent).trim();
  const isSameControl = (previous) => (element) =>
    element.localName === previous.localName && !element.disabled && element.type === previous.type;
  const replacementIn = (section, previous) => {
    const candidates = [...section.querySelectorAll(previous.localName)]
      .filter(isSameControl(previous))
      .filter((element) => labelOf(element) === labelOf(previous));
    const sameLink = candidates.find(
      (element) => element.getAttribute("href") === previous.getAttribute("href"),
    );
    return labelOf(previous) === "" ? null : (sameLink ?? (candidates.length === 1 ? candidates[0] : null));
  };
  const focusHeading = (section) => {
    const heading = section.querySelector("h1, h2, h3") ?? section;
    if (!heading.hasAttribute("tabindex")) heading.tabIndex = -1;
    heading.focus();
  };
  const isInViewport = (element) => {
    const { top, bottom } = element.getBoundingClientRect();
    return bottom <= innerHeight && top >= 0;
  };
  let removed = null;
  document.addEventListener("htmx:beforeSwap", ({ detail: { target, shouldSwap } }) => {
    const focused = document.activeElement;
    removed =
      shouldSwap && target.id && focused !== target && target.contains(focused)
        ? { sectionId: target.id, focused, wasInViewport: isInViewport(focused) }
        : null;
  });
  document.addEventListener("htmx:afterSettle", () => {
    if (removed === null || removed.focused.isConnected) return;
    const { sectionId, wasInViewport } = removed,
      previous = removed.focused,
      section = document.getElementById(sectionId);
    removed = null;
    if (section === null) return;
    if (document.activeElement === document.body) {
      const replacement = replacementIn(section, previous);
      if (replacement === null) return focusHeading(section);
      replacement.focus({ preventScroll: true });
    }
    // an error message above the field moves it down: scroll to it, unless the user had scrolled away from it
    const focused = document.activeElement;
    if (section.contains(focused) && wasInViewport && !isInViewport(focused))
      focused.scrollIntoView({ block: "nearest" });
  });

  let openDetailsIds = [],
    focusedId = "";
  document.addEventListener("htmx:beforeSwap", (event) => {
    openDetailsIds = [...event.detail.target.querySelectorAll("details[id][open]")].map(
      (details) => details.id,
    );
    focusedId = document.activeElement.id;
  });
  document.addEventListener("htmx:afterSwap", () => {
    // keep open <details> open after a swap, and keep the focus in their fields
    for (const details of openDetailsIds.splice(0).map((id) => document.getElementById(id))) {
      if (details === null || details.open) continue;
      details.open = true;
      if (focusedId) details.querySelector(`#${CSS.escape(focusedId)}`)?.focus();
    }
  });

  document.addEventListener("htmx:load", ({ target: part }) => {
    if (!part.matches(".effect-part") || part.querySelector(".main").disabled) return;
    const reason = part.closest("form").querySelector("[name=reason]:required");
    // the focus stays where the user has put it
    if (reason?.value === "" && document.activeElement === document.body)
      reason.focus({ preventScroll: true });
  });
})();
