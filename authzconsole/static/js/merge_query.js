// A page with several sections has one URL. A request of one section is compared with the URL at which that section was rendered, and
// only its changes are applied to the current URL, because other sections may have changed it since.
"use strict";

(() => {
  const initialSearch = location.search;
  const searchBySection = new WeakMap();
  const searchOf = (part) => {
    for (let element = part; element !== null; element = element.parentElement) {
      if (searchBySection.has(element)) return searchBySection.get(element);
    }
    return initialSearch;
  };
  const merged = (asked, drawn, shown) => {
    for (const name of new Set([...asked.keys(), ...drawn.keys()])) {
      if (asked.getAll(name).join("\n") === drawn.getAll(name).join("\n")) continue;
      shown.delete(name);
      for (const value of asked.getAll(name)) shown.append(name, value);
    }
    return shown.toString().replaceAll("%3A", ":");
  };

  // console.js has already removed empty fields
  document.addEventListener("htmx:configRequest", ({ detail }) => {
    const to = new URL(detail.path, location.href);
    if (detail.verb !== "get" || to.pathname !== location.pathname || !detail.target?.id) return;
    for (const [name, value] of [...detail.formData.entries()]) to.searchParams.append(name, value);
    for (const name of [...detail.formData.keys()]) detail.formData.delete(name);
    const search = merged(
      to.searchParams,
      new URLSearchParams(searchOf(detail.target)),
      new URLSearchParams(location.search),
    );
    detail.path = to.pathname + (search && `?${search}`);
  });
  document.addEventListener("htmx:afterSwap", ({ detail: { target } }) => {
    const part = document.getElementById(target.id);
    if (part !== null) searchBySection.set(part, location.search);
  });
})();
