// Submit a form only once. A second click before the response would create a second token, or fail because the change is already made.
"use strict";

(() => {
  // no event reports that the user stopped the page from loading, so allow another submit after a while
  const TIMEOUT_MILLISECONDS = 10_000;
  let pending = null;
  const reset = () => {
    clearTimeout(pending?.timer);
    pending?.button?.removeAttribute("aria-busy");
    pending = null;
  };
  document.addEventListener("submit", (event) => {
    // a prevented event means that htmx sends the form and handles a second click itself
    if (event.defaultPrevented || event.target.method !== "post") return;
    if (pending !== null) return event.preventDefault();
    pending = { button: event.submitter, timer: setTimeout(reset, TIMEOUT_MILLISECONDS) };
    event.submitter?.setAttribute("aria-busy", "true");
  });
  // Back may restore the page in the state in which it was left
  addEventListener("pageshow", reset);
})();
