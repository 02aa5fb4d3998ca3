"use strict";

const place = document.getElementById("redoc");

// its search runs in a worker made from text, which the page's policy does not allow
Redoc.init(
  place.dataset.document,
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
  place,
);
