// Notices float over the page: each can be closed, and none lies on what is focused. A request that failed is one.
"use strict";

(() => {
  const dialog = () => document.getElementById("dialog");
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
    if (!dialog().open) return notices.replaceChildren(notice);
    // over the page it would lie under the dialog, which keeps what was typed in it
    notice.setAttribute("role", "alert");
    dialog().querySelector("[role=alert]")?.remove();
    dialog().querySelector("h2").after(notice);
  };

  const MEANINGS = {
    404: "There is nothing at this address any more. Reload the page.",
    500: "The console failed while it answered. Reload the page; the cause is in the console's log.",
    503: "The database is busy with another write, such as an import: nothing was changed. Send it again in a moment.",
  };
  // a refusal has more than one cause: its page says which
  const saidIn = (html) => new DOMParser().parseFromString(html, "text/html").querySelector("h1 + p")?.textContent;
  document.addEventListener("htmx:responseError", (event) => {
    const { status, responseText } = event.detail.xhr;
    failure((status === 403 ? saidIn(responseText) : MEANINGS[status]) ?? `The console answered ${status}. Reload the page.`);
  });
  document.addEventListener("htmx:sendError", () => failure("The console did not answer. Check the connection, then try again."));
})();
