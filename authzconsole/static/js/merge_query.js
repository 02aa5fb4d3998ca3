// All sections of a page share one URL. The links and forms of a section contain the query with which the section was rendered, but
// other sections may have changed the URL since. So apply only the changes of the request to the current URL.
"use strict";

(() => {
  const initialSearch = location.search;
  const searchBySection = new WeakMap();
  const searchOf = (section) => {
    for (let element = section; element !== null; element = element.parentElement) {
      if (searchBySection.has(element)) return searchBySection.get(element);
    }
    return initialSearch;
  };
  const mergeQuery = (requested, rendered, current) => {
    for (const name of new Set([...requested.keys(), ...rendered.keys()])) {
      if (requested.getAll(name).join("\n") === rendered.getAll(name).join("\n")) continue;
      current.delete(name);
      for (const value of requested.getAll(name)) current.append(name, value);
    }
    return current.toString().replaceAll("%3A", ":");
  };

  // console.js has already removed empty fields
  document.addEventListener("htmx:configRequest", ({ detail }) => {
    const to = new URL(detail.path, location.href);
    if (detail.verb !== "get" || to.pathname !== location.pathname || !detail.target?.id) return;
    for (const [name, value] of [...detail.formData.entries()]) to.searchParams.append(name, value);
    for (const name of [...detail.formData.keys()]) detail.formData.delete(name);
    const search = mergeQuery(
      to.searchParams,
      new URLSearchParams(searchOf(detail.target)),
      new URLSearchParams(location.search),
    );
    detail.path = to.pathname + (search && `?${search}`);
  });
  document.addEventListener("htmx:afterSwap", ({ detail: { target } }) => {
    const section = document.getElementById(target.id);
    if (section !== null) searchBySection.set(section, location.search);
  });
})();
