// What is sent once is done once: who clicks again before the answer would get a second token, or be refused what was just done.
"use strict";

(() => {
  // whoever stops the page from loading, of which nothing tells, may send again after a while
  const MOST_MILLISECONDS = 10_000;
  let underWay = null;
  const arrived = () => {
    clearTimeout(underWay?.timer);
    underWay?.button?.removeAttribute("aria-busy");
    underWay = null;
  };
  document.addEventListener("submit", (event) => {
    // what is prevented already is sent by htmx, which says itself what becomes of a second click
    if (event.defaultPrevented || event.target.method !== "post") return;
    if (underWay !== null) return event.preventDefault();
    underWay = { button: event.submitter, timer: setTimeout(arrived, MOST_MILLISECONDS) };
    event.submitter?.setAttribute("aria-busy", "true");
  });
  // with Back a page may come as it was left
  addEventListener("pageshow", arrived);
})();
