"use strict";
for (const head of document.querySelectorAll("table.sortable thead th")) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = head.textContent;
  head.textContent = "";
  head.append(button);
  button.addEventListener("click", () => {
    const table = head.closest("table");
    const place = [...head.parentNode.children].indexOf(head);
    const down = head.getAttribute("aria-sort") !== "descending";
    const value = (row) => {
      const cell = row.children[place];
      return cell.dataset.value ?? cell.textContent;
    };
    const numbers = head.classList.contains("n");
    const rows = [...table.tBodies[0].rows];
    rows.sort((a, b) => {
      const [x, y] = [value(a), value(b)];
      // What is unknown comes last in both directions.
      if (x === "" || y === "") return (x === "") - (y === "");
      const order = numbers ? x - y : x < y ? -1 : x > y ? 1 : 0;
      return down ? -order : order;
    });
    for (const other of head.parentNode.children) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    table.tBodies[0].append(...rows);
  });
}
const open = () => {
  const target = location.hash && document.getElementById(location.hash.slice(1));
  if (target && target.tagName === "DETAILS") target.open = true;
};
addEventListener("hashchange", open);
open();
