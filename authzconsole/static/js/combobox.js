"use strict";

// Search fields with suggestions: a combobox, and a listbox below it that htmx fills. Selecting a suggestion opens its page, or fills
// the field if the field has `data-fills-field`; Tab and Enter then take the only suggestion. A field with `data-selects-first` selects the first suggestion, so that Enter opens it. The
// palette is the search field in the middle of the window: it also has suggestions for an empty text.
(() => {
  const comboboxOf = (element) => element.closest?.("[role=combobox][aria-controls]") ?? null;
  const listOf = (field) => document.getElementById(field.getAttribute("aria-controls"));
  const fieldOf = (list) => document.querySelector(`[role=combobox][aria-controls="${CSS.escape(list.id)}"]`);
  const optionsOf = (field) => [...listOf(field).querySelectorAll("[role=option]:not([aria-disabled])")];
  // when a swap removes a field, its list is removed before the field loses the focus
  const isOpen = (field) => listOf(field)?.hidden === false;
  const selectedOf = (field) => listOf(field).querySelector("[aria-selected=true]");

  const needsText = (field) => field.closest(".palette") === null;

  const select = (field, option) => {
    selectedOf(field)?.setAttribute("aria-selected", "false");
    if (option === null) return field.removeAttribute("aria-activedescendant");
    option.setAttribute("aria-selected", "true");
    field.setAttribute("aria-activedescendant", option.id);
    option.scrollIntoView({ block: "nearest" });
  };

  const show = (field, isShown) => {
    select(field, null);
    listOf(field).hidden = !isShown;
    field.setAttribute("aria-expanded", String(isShown));
  };

  const fillField = (field, option) => {
    field.value = option.dataset.value;
    show(field, false);
    field.dispatchEvent(new Event("change", { bubbles: true }));
  };

  // Take the only suggestion for the text. Return whether there was one.
  const acceptOnly = (field) => {
    if (!("fillsField" in field.dataset) || !isOpen(field)) return false;
    const [option, ...others] = optionsOf(field),
      text = field.value.trim().toLowerCase();
    // the list may still be that of an earlier text
    const isOnly = others.length === 0 && option?.dataset.value?.toLowerCase().includes(text) === true;
    if (isOnly) fillField(field, option);
    return isOnly;
  };

  const moveSelection = (field, distance) => {
    const options = optionsOf(field);
    if (options.length === 0) return;
    const index = options.indexOf(selectedOf(field));
    if (!isOpen(field)) show(field, true);
    select(field, options.at(index < 0 && distance < 0 ? -1 : (index + distance) % options.length));
  };

  let openedFrom = null;
  const openPalette = (field) => {
    if (needsText(field)) openedFrom = document.activeElement;
    field.form.classList.add("palette");
    field.focus();
    field.select();
    htmx.trigger(field, "palette");
  };
  const closePalette = (field) => {
    show(field, false);
    const opener = openedFrom;
    field.blur();
    if (opener?.isConnected) opener.focus();
  };

  document.addEventListener("keydown", (event) => {
    const isSlash = event.key === "/" && !event.ctrlKey && !event.metaKey && !event.altKey;
    const isCtrlK =
      event.key.toLowerCase() === "k" && event.ctrlKey !== event.metaKey && !event.altKey && !event.shiftKey;
    if (!isCtrlK && !(isSlash && event.target.closest("input, textarea, select, [contenteditable]") === null))
      return;
    const field = document.getElementById("search");
    if (field === null || document.getElementById("dialog")?.open) return;
    event.preventDefault();
    openPalette(field);
  });

  document.addEventListener("htmx:afterSwap", (event) => {
    const list = event.detail.target;
    if (!list.matches(".suggestions[role=listbox]")) return;
    const field = fieldOf(list);
    const text = field.value.trim();
    // a complete value needs no suggestions, and the list would cover the next fields
    const isComplete =
      "fillsField" in field.dataset && optionsOf(field).some((option) => option.dataset.value === text);
    // a late response must not open the list of a field that was left or emptied
    const isWanted = document.activeElement === field && (text !== "" || !needsText(field));
    show(field, isWanted && !isComplete && list.childElementCount > 0);
    const searched = new URL(event.detail.xhr.responseURL).searchParams.get(field.name) ?? "";
    // Enter must not open a suggestion for an earlier text
    if ("selectsFirst" in field.dataset && isOpen(field) && text !== "" && searched.trim() === text)
      select(field, optionsOf(field)[0] ?? null);
  });

  document.addEventListener("input", (event) => {
    const field = comboboxOf(event.target);
    if (field === null) return;
    select(field, null);
    if (field.value.trim() === "" && needsText(field)) show(field, false);
  });

  document.addEventListener("keydown", (event) => {
    const field = comboboxOf(event.target);
    if (field === null || event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return;
    const selected = selectedOf(field);
    if (event.key === "ArrowDown" || event.key === "ArrowUp")
      moveSelection(field, event.key === "ArrowDown" ? 1 : -1);
    else if (event.key === "Escape" && field.closest(".palette") !== null) closePalette(field);
    else if (event.key === "Escape" && isOpen(field)) show(field, false);
    else if (event.key === "Enter" && selected !== null) selected.click();
    else if (event.key === "Tab" && !event.shiftKey) return void acceptOnly(field);
    else if (event.key !== "Enter" || !acceptOnly(field)) return;
    event.preventDefault();
  });

  document.addEventListener("mousedown", (event) => {
    // keep the focus in the field; otherwise the list closes before the click
    if (event.target.closest(".suggestions") !== null) event.preventDefault();
  });

  document.addEventListener("click", (event) => {
    const option = event.target.closest(".suggestions [role=option]");
    if (option === null || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const field = fieldOf(option.closest(".suggestions"));
    if ("fill" in option.dataset) {
      event.preventDefault();
      field.value = option.dataset.fill;
      field.dispatchEvent(new Event("input", { bubbles: true }));
      return;
    }
    if (!("fillsField" in field.dataset) || !("value" in option.dataset)) return;
    event.preventDefault();
    fillField(field, option);
  });

  document.addEventListener("focusout", (event) => {
    const field = comboboxOf(event.target);
    if (field === null) return;
    if (isOpen(field)) show(field, false);
    field.form?.classList.remove("palette");
  });

  // a name beside a field is added to the names in it
  document.addEventListener("click", ({ target }) => {
    const button = target.closest("[data-fills]"),
      field = document.getElementById(button?.dataset.fills);
    if (field === null) return;
    const names = field.value.split(/[ ,]*,[ ,]*/).filter((name) => name !== "");
    fillField(field, { dataset: { value: [...new Set([...names, button.value])].join(", ") } });
    field.focus();
  });
})();
