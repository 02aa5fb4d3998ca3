// Keep what was entered in a form when it is sent. Its page shows it again after sign-in, if the session had ended, and after
// the Back button, because browsers do not keep the state of pages that are not stored.
"use strict";

(() => {
  const KEY = "draft";
  const IS_SIGN_IN = /^\/(sign-in|second-factor)/;
  const account = document.querySelector(".account-name")?.textContent ?? "";
  const isKept = (field) =>
    field.name !== "" &&
    field.matches("textarea, select, input:not([type=hidden], [type=password], [type=file])");
  const textOf = (field) => (["checkbox", "radio"].includes(field.type) ? field.checked : field.value);
  document.addEventListener("submit", ({ target: form, defaultPrevented }) => {
    // htmx keeps the page, and forms of sign-in have secrets
    if (defaultPrevented || form.method !== "post" || account === "") return;
    const fields = [...form.elements].filter(isKept).map((field) => [field.name, field.value, textOf(field)]);
    sessionStorage.setItem(
      KEY,
      JSON.stringify({ account, page: location.pathname + location.search, action: form.action, fields }),
    );
  });

  const restore = ({ action, fields }) => {
    const form = [...document.forms].find((each) => each.method === "post" && each.action === action);
    for (const [name, value, text] of form ? fields : []) {
      for (const field of form.querySelectorAll(`[name="${CSS.escape(name)}"]`)) {
        if (!isKept(field)) continue;
        if (typeof text !== "boolean") field.value = text;
        else if (field.value === value) field.checked = text;
      }
    }
  };
  const draft = JSON.parse(sessionStorage.getItem(KEY) ?? "null");
  if (draft === null) return;
  if (IS_SIGN_IN.test(location.pathname))
    return sessionStorage.setItem(KEY, JSON.stringify({ ...draft, hasEnded: true }));
  if (draft.page !== location.pathname + location.search) return;
  sessionStorage.removeItem(KEY);
  const isBack = performance.getEntriesByType("navigation")[0]?.type === "back_forward";
  if ((draft.hasEnded || isBack) && draft.account === account) restore(draft);
})();
