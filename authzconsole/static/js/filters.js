// The filters that are set, as chips next to the button that opens the other fields of a filter form. Removing a chip empties its field.
"use strict";

(() => {
  const labelOf = (field) => (field.labels[0]?.textContent ?? field.name).trim();
  const valueOf = (field) => {
    if (field.type === "checkbox") return field.checked ? "yes" : "";
    if (field.localName === "select") return field.value && field.selectedOptions[0].textContent.trim();
    return field.value.trim();
  };
  const clear = (field) => {
    if (field.type === "checkbox") field.checked = false;
    else field.value = "";
    const { form } = field;
    // htmx sends the form or the field on this event; other forms are sent as they are
    if ([field, form].some((element) => element.hasAttribute("hx-get")))
      field.dispatchEvent(new Event("change", { bubbles: true }));
    else form.requestSubmit();
  };
  const chipOf = (field) => {
    const chip = document.createElement("span");
    const button = document.createElement("button");
    chip.className = "chip";
    chip.textContent = field.type === "checkbox" ? labelOf(field) : `${labelOf(field)}: ${valueOf(field)}`;
    button.type = "button";
    button.textContent = "×";
    button.setAttribute("aria-label", `Remove the filter ${labelOf(field)}`);
    button.addEventListener("click", () => clear(field));
    chip.append(button);
    return chip;
  };
  const showChips = (menu) => {
    const fields = [...menu.querySelectorAll("input:not([type=hidden]), select")];
    const chips = document.createElement("span");
    chips.className = "chips";
    chips.append(...fields.filter((field) => valueOf(field) !== "").map(chipOf));
    if (chips.childElementCount > 0) menu.after(chips);
  };

  const showChipsIn = (section) => section.querySelectorAll("details.more").forEach(showChips);
  showChipsIn(document.body);
  document.addEventListener("htmx:load", ({ detail: { elt } }) => elt !== document.body && showChipsIn(elt));
})();
