// A page of several parts has one address. What a step of one part asks is counted from the address at which that part was drawn,
// and said in the address that is shown now: other parts may have gone on since.
"use strict";

(() => {
  const drawnFirst = location.search;
  const drawnAt = new WeakMap();
  const drawnWith = (part) => {
    for (let element = part; element !== null; element = element.parentElement) {
      if (drawnAt.has(element)) return drawnAt.get(element);
    }
    return drawnFirst;
  };
  const merged = (asked, drawn, shown) => {
    for (const name of new Set([...asked.keys(), ...drawn.keys()])) {
      if (asked.getAll(name).join("\n") === drawn.getAll(name).join("\n")) continue;
      shown.delete(name);
      for (const value of asked.getAll(name)) shown.append(name, value);
    }
    return shown.toString().replaceAll("%3A", ":");
  };

  // console.js has left out what is empty
  document.addEventListener("htmx:configRequest", ({ detail }) => {
    const to = new URL(detail.path, location.href);
    if (detail.verb !== "get" || to.pathname !== location.pathname || !detail.target?.id) return;
    for (const [name, value] of [...detail.formData.entries()]) to.searchParams.append(name, value);
    for (const name of [...detail.formData.keys()]) detail.formData.delete(name);
    const search = merged(to.searchParams, new URLSearchParams(drawnWith(detail.target)), new URLSearchParams(location.search));
    detail.path = to.pathname + (search && `?${search}`);
  });
  document.addEventListener("htmx:afterSwap", ({ detail: { target } }) => {
    const part = document.getElementById(target.id);
    if (part !== null) drawnAt.set(part, location.search);
  });
})();
