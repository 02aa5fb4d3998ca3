"use strict";

const container = document.getElementById("redoc");

// the search of Redoc needs a worker created from text, which the content security policy forbids
Redoc.init(
  container.dataset.document,
  {
    disableSearch: true,
    nativeScrollbars: true,
    theme: {
      typography: {
        fontFamily: "system-ui, sans-serif",
        headings: { fontFamily: "system-ui, sans-serif" },
      },
    },
  },
  container,
);
