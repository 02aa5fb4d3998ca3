// Name the column in each cell of a table, so that CSS can show the rows as cards in narrow windows. Without scripts, tables scroll.
"use strict";

(() => {
  // narrower tables fit, unless a column has sentences; the boxes of privileges stay in their row
  const MIN_COLUMNS = 3;
  const columnsOf = (row) => [...row.cells].flatMap((cell) => Array(cell.colSpan).fill(cell));
  const nameCells = (table) => {
    const heads = table.tHead?.rows[0] ? columnsOf(table.tHead.rows[0]) : [];
    const columns = heads.filter((head) => !head.classList.contains("privileges")).length;
    const hasSentences = columns === heads.length && table.querySelector("td.text-column") !== null;
    if (columns < MIN_COLUMNS && !hasSentences) return;
    for (const row of [...table.tBodies].flatMap((body) => [...body.rows])) {
      for (const [index, cell] of columnsOf(row).entries()) {
        if (cell.tagName === "TH" || cell.colSpan > 1) continue;
        cell.dataset.label = heads[index]?.textContent.trim() ?? "";
        cell.classList.toggle(
          "blank",
          cell.textContent.trim() === "" && cell.querySelector("svg, input, progress") === null,
        );
      }
    }
    table.classList.add("stacked");
  };

  const nameCellsIn = (section) =>
    section.querySelectorAll(".scroll > table:not(.review-items)").forEach(nameCells);
  nameCellsIn(document.body);
  document.addEventListener("htmx:load", ({ detail: { elt } }) => elt !== document.body && nameCellsIn(elt));
})();
