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

  // what was focused goes with the part that it stood in: the same in the new part is focused, or else what the part is headed by
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
  let left = null;
  document.addEventListener("htmx:beforeSwap", ({ detail: { target, shouldSwap } }) => {
    const focused = document.activeElement;
    left = shouldSwap && target.id && focused !== target && target.contains(focused) ? { part: target.id, focused } : null;
  });
  document.addEventListener("htmx:afterSettle", () => {
    if (left === null || left.focused.isConnected) return;
    const { part, focused } = left, now = document.getElementById(part);
    left = null;
    if (document.activeElement !== document.body || now === null) return;
    const heir = heirIn(now, focused);
    if (heir === null) focusHeading(now);
    else heir.focus({ preventScroll: true });
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

  // notices float over the page: each can be closed, and none lies on what is focused
  const notices = document.getElementById("notices");
  let cameFrom = null;
  const closable = (notice) => {
    const closer = document.createElement("button");
    closer.type = "button";
    closer.className = "button plain close";
    closer.textContent = "×";
    closer.setAttribute("aria-label", "Close this notice");
    notice.append(closer);
  };
  const uncover = () => {
    const focused = document.activeElement, isFloating = getComputedStyle(notices).position === "fixed";
    if (!isFloating || notices.childElementCount === 0 || focused.tabIndex < 0 || dialog()?.open) return;
    if (focused === document.body || notices.contains(focused)) return;
    const field = focused.getBoundingClientRect(), over = notices.getBoundingClientRect();
    if (field.bottom <= over.top || field.top >= over.bottom || field.right <= over.left || field.left >= over.right) return;
    // what is higher than the rest of the window cannot be shown whole
    if (field.height < over.top) scrollBy(0, field.bottom - over.top + 8);
  };
  const noticed = () => {
    for (const notice of notices.querySelectorAll(":scope > .notice:not(:has(.close))")) closable(notice);
    uncover();
  };
  if (notices !== null) {
    new MutationObserver(noticed).observe(notices, { childList: true });
    document.addEventListener("focusin", uncover);
    notices.addEventListener("focusin", ({ relatedTarget }) => {
      if (relatedTarget !== null && !notices.contains(relatedTarget)) cameFrom = relatedTarget;
    });
    notices.addEventListener("click", ({ target }) => {
      if (target.closest(".close") === null) return;
      target.closest(".notice").remove();
      const next = notices.querySelector(".close") ?? (cameFrom?.isConnected ? cameFrom : document.getElementById("content"));
      next?.focus({ preventScroll: true });
    });
    noticed();
  }

  const failure = (text) => {
    const notice = document.getElementById("failure").content.firstElementChild.cloneNode(true);
    notice.querySelector("p").textContent = text;
    notices.replaceChildren(notice);
    if (dialog().open) dialog().close();
  };

  // how many of the list are chosen, on this page of it and on others
  const chooser = () => document.getElementById("children-plan");
  const boxes = () => [...document.querySelectorAll("input[form=children-form][name=address]")];
  const isBox = (box) => box.type === "checkbox" && !box.disabled;
  const chosenCounted = () => {
    if (chooser() === null) return;
    const total = boxes().filter((box) => box.type === "hidden" || box.checked).length;
    chooser().disabled = total === 0;
    chooser().querySelector("[data-chosen]").textContent = total === 0 ? "" : `: ${total}`;
    const free = boxes().filter(isBox), all = document.getElementById("children-all");
    all.hidden = free.length === 0;
    all.disabled = free.every((box) => box.checked);
  };
  document.addEventListener("change", (event) => event.target.name === "address" && chosenCounted());
  document.addEventListener("htmx:afterSettle", chosenCounted);
  document.addEventListener("click", (event) => {
    if (event.target.closest("#children-all") === null) return;
    for (const box of boxes().filter(isBox)) box.checked = true;
    chosenCounted();
    chooser().focus();
    document.getElementById("announce").textContent = chooser().textContent;
  });
  addEventListener("pageshow", chosenCounted);
  chosenCounted();

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
