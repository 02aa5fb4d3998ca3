// Notices float over the page. Each can be closed, and none covers the focused element. Failed requests show a notice.
"use strict";

(() => {
  const dialog = () => document.getElementById("dialog");
  const notices = document.getElementById("notices");
  let previousFocus = null;
  const addCloseButton = (notice) => {
    const closeButton = document.createElement("button");
    closeButton.type = "button";
    closeButton.className = "button plain close";
    closeButton.textContent = "×";
    closeButton.setAttribute("aria-label", "Close this notice");
    notice.append(closeButton);
  };
  const uncoverFocus = () => {
    const focused = document.activeElement,
      isFloating = getComputedStyle(notices).position === "fixed";
    if (!isFloating || notices.childElementCount === 0 || focused.tabIndex < 0 || dialog()?.open) return;
    if (focused === document.body || notices.contains(focused)) return;
    const field = focused.getBoundingClientRect(),
      over = notices.getBoundingClientRect();
    if (
      field.bottom <= over.top ||
      field.top >= over.bottom ||
      field.right <= over.left ||
      field.left >= over.right
    )
      return;
    // an element taller than the free part of the window cannot be shown completely
    if (field.height < over.top) scrollBy(0, field.bottom - over.top + 8);
  };
  const update = () => {
    for (const notice of notices.querySelectorAll(":scope > .notice:not(:has(.close))"))
      addCloseButton(notice);
    uncoverFocus();
  };
  if (notices !== null) {
    new MutationObserver(update).observe(notices, { childList: true });
    document.addEventListener("focusin", uncoverFocus);
    notices.addEventListener("focusin", ({ relatedTarget }) => {
      if (relatedTarget !== null && !notices.contains(relatedTarget)) previousFocus = relatedTarget;
    });
    notices.addEventListener("click", ({ target }) => {
      if (target.closest(".close") === null) return;
      target.closest(".notice").remove();
      const next =
        notices.querySelector(".close") ??
        (previousFocus?.isConnected ? previousFocus : document.getElementById("content"));
      next?.focus({ preventScroll: true });
    });
    update();
  }

  const failure = (text) => {
    const notice = document.getElementById("failure").content.firstElementChild.cloneNode(true);
    notice.querySelector("p").textContent = text;
    if (!dialog().open) return notices.replaceChildren(notice);
    // a notice of the page would be below the dialog; the dialog keeps its form
    notice.setAttribute("role", "alert");
    dialog().querySelector("[role=alert]")?.remove();
    dialog().querySelector("h2").after(notice);
  };

  const MEANINGS = {
    404: "This page no longer exists. Reload the page.",
    500: "Internal error. Reload the page; the log of the console has the cause.",
    503: "The database is busy or not available. Reload the page in a moment to see whether your change was made.",
  };
  // 403 has several causes: take the explanation from the response
  const explanationIn = (html) =>
    new DOMParser().parseFromString(html, "text/html").querySelector("h1 + p")?.textContent;
  document.addEventListener("htmx:responseError", (event) => {
    const { status, responseText } = event.detail.xhr;
    failure(
      (status === 403 ? explanationIn(responseText) : MEANINGS[status]) ??
        `Unexpected response (${status}). Reload the page.`,
    );
  });
  document.addEventListener("htmx:sendError", () =>
    failure("The console did not respond. Check the connection and try again."),
  );
})();
