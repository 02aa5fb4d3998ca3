// Send the form with data-submit as soon as the page is loaded. Without scripts, the user clicks its button.
"use strict";

addEventListener("DOMContentLoaded", () => document.querySelector("form[data-submit]")?.requestSubmit());
