"use strict";

(() => {
  const isTyping = (element) => element.closest("input, textarea, select, [contenteditable]") !== null;
  const dialog = () => document.getElementById("dialog");

  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    const field = document.getElementById("search");
    if (field === null || dialog()?.open) return;
    event.preventDefault();
    field.focus();
    field.select();
  });

  const copyText = async (text) => {
    if (navigator.clipboard) return navigator.clipboard.writeText(text);
    // browsers offer no clipboard to a console that is served over plain http
    const area = document.createElement("textarea");
    area.value = text;
    area.className = "unseen";
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  };

  document.addEventListener("click", async (event) => {
    const copier = event.target.closest("[data-copy]");
    if (copier !== null) {
      await copyText(copier.dataset.copy);
      copier.classList.add("copied");
      document.getElementById("announce").textContent = "Copied";
      setTimeout(() => copier.classList.remove("copied"), 1500);
      return;
    }
    const closer = event.target.closest("[data-close]");
    if (closer !== null && dialog()?.open) {
      event.preventDefault();
      dialog().close();
    }
  });

  document.addEventListener("htmx:configRequest", (event) => {
    if (event.detail.verb !== "get") return;
    // an empty field of a filter says nothing: the address in the bar stays short
    for (const [name, value] of [...event.detail.formData.entries()]) {
      if (value === "") event.detail.formData.delete(name);
    }
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

  const reading = new Map();
  document.addEventListener("htmx:beforeRequest", (event) => {
    const { xhr, target, requestConfig } = event.detail;
    if (requestConfig.verb !== "get" || !target.id) return;
    // what was asked for last is what is shown, also when an earlier answer comes late
    reading.get(target.id)?.abort();
    reading.set(target.id, xhr);
    xhr.addEventListener("loadend", () => reading.get(target.id) === xhr && reading.delete(target.id));
  });

  document.addEventListener("htmx:beforeHistoryUpdate", (event) => {
    const { history } = event.detail, to = new URL(history.path, location.href);
    // the address that is shown already is no step: Back would lead to the same again
    if (to.pathname === location.pathname && to.search === location.search) history.type = "replace";
  });

  document.addEventListener("htmx:afterSwap", (event) => {
    if (event.detail.target.id !== "dialog" || dialog().open) return;
    dialog().showModal();
  });
  document.addEventListener("dialog-done", () => dialog().close());

  const failure = (text) => {
    const notice = document.getElementById("failure").content.firstElementChild.cloneNode(true);
    notice.querySelector("p").textContent = text;
    const notices = document.getElementById("notices");
    notices.replaceChildren(notice);
    notices.scrollIntoView({ block: "nearest" });
    if (dialog().open) dialog().close();
  };

  const MEANINGS = {
    403: "Your account may look at this, but not change it.",
    404: "There is nothing at this address any more. Reload the page.",
    500: "The console failed while it answered. Reload the page; the cause is in the console's log.",
    503: "The database is busy with another write, such as an import: nothing was changed. Send it again in a moment.",
  };
  document.addEventListener("htmx:responseError", (event) => {
    const status = event.detail.xhr.status;
    failure(MEANINGS[status] ?? `The console answered ${status}. Reload the page.`);
  });
  document.addEventListener("htmx:sendError", () => failure("The console did not answer. Check the connection, then try again."));
})();
