"use strict";
// Without this script the page shows everything; with it, it answers the pointer and folds runs into tabs.
(() => {
  const root = document.documentElement;
  const tip = document.getElementById("tip");

  const show = (event, lines) => {
    tip.replaceChildren(...lines);
    tip.style.display = "block";
    const box = tip.getBoundingClientRect();
    const left = event.clientX + 16 + box.width > innerWidth ? event.clientX - box.width - 12 : event.clientX + 16;
    const top = Math.min(event.clientY + 14, innerHeight - box.height - 8);
    tip.style.transform = `translate(${Math.max(4, left)}px, ${Math.max(4, top)}px)`;
  };
  const hide = () => { tip.style.display = "none"; };

  const element = (name, text, className) => {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    if (className) made.className = className;
    return made;
  };

  const line = (colour, name, value) => {
    const row = element("div", undefined, "line");
    if (colour) row.append(element("i", undefined, `swatch ${colour}`));
    row.append(element("span", name), element("b", value));
    return row;
  };

  const part = (event, box) => Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1);

  for (const plot of document.querySelectorAll(".plot")) {
    const source = plot.querySelector("script.pointer");
    if (!source) continue;
    const canvas = plot.querySelector(".canvas");
    const cursor = plot.querySelector(".cursor");
    let read;
    canvas.addEventListener("pointermove", (event) => {
      read ??= JSON.parse(source.textContent);
      const at = part(event, canvas.getBoundingClientRect());
      const index = Math.round(at * (read.labels.length - 1));
      cursor.style.display = "block";
      cursor.style.left = `${(100 * index) / (read.labels.length - 1)}%`;
      show(event, [element("strong", read.labels[index]),
        ...read.series.map((series) => line(series.colour, series.name, series.values[index]))]);
    });
    canvas.addEventListener("pointerleave", () => { cursor.style.display = "none"; hide(); });
  }

  for (const map of document.querySelectorAll(".heatmap")) {
    const canvas = map.querySelector(".canvas");
    const cell = map.querySelector(".cell");
    const source = map.querySelector("script.cells");
    let read;
    canvas.addEventListener("pointermove", (event) => {
      read ??= JSON.parse(source.textContent);
      const box = canvas.getBoundingClientRect();
      const columns = read.moments.length - 1;
      const column = Math.min(columns - 1, Math.floor(part(event, box) * columns));
      const row = Math.min(read.rows.length - 1, Math.max(0, Math.floor(((event.clientY - box.top) / box.height) * read.rows.length)));
      Object.assign(cell.style, {
        display: "block", left: `${(100 * column) / columns}%`, width: `${100 / columns}%`,
        top: `${(100 * row) / read.rows.length}%`, height: `${100 / read.rows.length}%`,
      });
      const value = read.cells[row][column];
      show(event, [element("strong", read.rows[row]),
        line("", `${read.moments[column]} to ${read.moments[column + 1]}`, value < 0 ? "not there" : `${value} % in use`)]);
    });
    canvas.addEventListener("pointerleave", () => { cell.style.display = "none"; hide(); });
  }

  for (const chart of document.querySelectorAll(".gantt")) {
    chart.addEventListener("pointermove", (event) => {
      const text = event.target.dataset?.tip;
      if (!text) return hide();
      const [head, ...rest] = text.split("\n");
      show(event, [element("strong", head), ...rest.map((words) => element("div", words))]);
    });
    chart.addEventListener("pointerleave", hide);
  }

  const tabs = [...document.querySelectorAll(".tab")];
  if (tabs.length) {
    root.classList.add("tabbed");
    for (const tab of tabs) tab.id = `tab-${tab.id}`; // so that the browser does not scroll to it
    const select = () => {
      const wanted = location.hash.slice(1);
      const chosen = tabs.find((tab) => tab.id === `tab-${wanted}`) ?? tabs[0];
      tabs.forEach((tab) => tab.classList.toggle("open", tab === chosen));
      document.querySelectorAll("nav.switch a").forEach((link) => {
        link.toggleAttribute("aria-current", `tab-${link.hash.slice(1)}` === chosen.id);
      });
      scrollTo(0, 0);
    };
    addEventListener("hashchange", select);
    select();
  }

  document.getElementById("theme").addEventListener("click", () => {
    const dark = getComputedStyle(root).colorScheme === "dark" ||
      (root.style.colorScheme === "" && matchMedia("(prefers-color-scheme: dark)").matches);
    root.style.colorScheme = dark ? "light" : "dark";
  });
})();
