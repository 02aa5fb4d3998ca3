// Menus, copy buttons, dialog, htmx requests, and what is typed while they run.
"use strict";

(() => {
  const dialog = () => document.getElementById("dialog");

  document.addEventListener("keydown", (event) => {
    const menu = event.target.closest(":is(.menu, .actions-menu, .account, .more)[open]");
    if (event.key !== "Escape" || menu === null) return;
    menu.open = false;
    menu.querySelector("summary").focus();
  });
  const closeMenus = ({ target, type, detail }) => {
    // Enter in a field of a menu clicks the button of the form
    if (type === "click" && detail === 0) return;
    for (const menu of document.querySelectorAll(":is(.actions-menu, .more)[open]"))
      if (!menu.contains(target)) menu.open = false;
  };
  document.addEventListener("click", closeMenus);
  document.addEventListener("focusin", closeMenus);

  const copyText = async (text) => {
    if (navigator.clipboard) return navigator.clipboard.writeText(text);
    // browsers provide no clipboard API over plain HTTP
    const area = document.createElement("textarea");
    area.value = text;
    area.className = "visually-hidden";
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  };

  document.addEventListener("click", async (event) => {
    const copyButton = event.target.closest("[data-copy]");
    if (copyButton !== null) {
      await copyText(copyButton.dataset.copy);
      copyButton.classList.add("copied");
      document.getElementById("announce").textContent = "Copied";
      setTimeout(() => copyButton.classList.remove("copied"), 1500);
      return;
    }
    const closeButton = event.target.closest("[data-close]");
    if (closeButton !== null && dialog()?.open) {
      event.preventDefault();
      dialog().close();
    }
  });

  document.addEventListener("htmx:configRequest", (event) => {
    if (event.detail.verb !== "get") return;
    // omit empty filter fields, to keep URLs short
    for (const [name, value] of [...event.detail.formData.entries()]) {
      if (value === "") event.detail.formData.delete(name);
    }
  });

  const pendingReads = new Map();
  document.addEventListener("htmx:beforeRequest", (event) => {
    const { xhr, target, requestConfig } = event.detail;
    if (requestConfig.verb !== "get" || !target.id) return;
    // the latest request wins, even if an earlier response arrives later
    pendingReads.get(target.id)?.xhr.abort();
    pendingReads.set(target.id, { xhr, sender: requestConfig.elt });
    target.setAttribute("aria-busy", "true");
    xhr.addEventListener("loadend", () => {
      if (pendingReads.get(target.id)?.xhr !== xhr) return;
      pendingReads.delete(target.id);
      target.removeAttribute("aria-busy");
    });
  });

  // An input that changes while its filters are being replaced would lose its value. They are sent again with the new value.
  const keepForm = ({ target: field }) => {
    for (const [id, { xhr, sender }] of pendingReads)
      if (sender.contains(field) && document.getElementById(id)?.contains(sender)) xhr.abort();
  };
  document.addEventListener("input", keepForm);

  // What a form says about its input is outdated when the input changes.
  const removeFaults = ({ target: field }) => {
    if (field.form?.method !== "post") return;
    for (const fault of field.form.querySelectorAll(":scope > .notice[role=alert]")) fault.remove();
    field.closest(".field")?.querySelector(":scope > .fault")?.remove();
    field.removeAttribute("aria-invalid");
  };
  document.addEventListener("input", removeFaults);

  // A date field reports a change with every digit of the year. Report typed dates when the field is left; Enter sends the form.
  const isDate = (field) => field.matches("input[type=date], input[type=datetime-local]");
  let typedDate = null;
  document.addEventListener("keydown", (event) => {
    if (!isDate(event.target) || event.key === "Tab") return;
    typedDate =
      event.key === "Enter" ? null : { field: event.target, hasChanged: typedDate?.hasChanged ?? false };
    keepForm(event);
  });
  document.addEventListener(
    "change",
    (event) => {
      if (event.target !== typedDate?.field) return;
      typedDate.hasChanged = true;
      event.stopPropagation();
    },
    { capture: true },
  );
  document.addEventListener("focusout", ({ target: field }) => {
    if (field !== typedDate?.field) return;
    const { hasChanged } = typedDate;
    typedDate = null;
    if (hasChanged && field.isConnected) field.dispatchEvent(new Event("change", { bubbles: true }));
  });

  // The options of a select may arrive while the user types the name of one: select it then.
  let typedOption = "";
  document.addEventListener("keydown", ({ target: field, key }) => {
    if (field.localName !== "select") return;
    if (!field.hasAttribute("aria-busy")) typedOption = "";
    else if (key.length === 1) typedOption += key.toLowerCase();
  });
  document.addEventListener("htmx:afterSwap", ({ detail: { target: field } }) => {
    if (field.localName !== "select") return;
    const option = [...field.options].find(({ text }) => text.toLowerCase().startsWith(typedOption));
    if (typedOption !== "" && option !== undefined) field.value = option.value;
    typedOption = "";
  });

  document.addEventListener("htmx:beforeHistoryUpdate", (event) => {
    const { history } = event.detail,
      to = new URL(history.path, location.href);
    // the same URL must not become a history entry; otherwise Back would lead to the same page
    if (to.pathname === location.pathname && to.search === location.search) history.type = "replace";
  });

  document.addEventListener("htmx:afterSwap", (event) => {
    if (event.detail.target.id !== "dialog" || dialog().open) return;
    dialog().showModal();
  });
  document.addEventListener("dialog-done", () => dialog().close());
})();
