"use strict";
// One event stream per browser: the tab that holds the lock listens, and tells the others.
(() => {
  const where = document.body.dataset.stream, live = document.getElementById("live");
  const channel = new BroadcastChannel("pumice:" + where);
  let last = document.body.dataset.number;
  const fresh = (number) => {
    if (number === last || document.hidden) return;
    last = number;
    document.body.dispatchEvent(new CustomEvent("fresh"));
  };
  const state = (on) => {
    if (!live) return;
    live.classList.toggle("off", !on);
    const said = live.querySelector(".said"), text = on ? "live" : "not connected";
    if (said.textContent !== text) said.textContent = text;
  };
  channel.onmessage = (event) => { state(event.data.on); if (event.data.number) fresh(event.data.number); };
  const listen = () => new Promise(() => {
    const stream = new EventSource(where);
    const tell = (on, number) => { state(on); channel.postMessage({on, number}); };
    stream.onopen = () => tell(true, "");
    stream.onerror = () => tell(false, "");
    stream.addEventListener("cycle", (event) => { tell(true, event.data); fresh(event.data); });
  });
  if (live && navigator.locks) navigator.locks.request("pumice:" + where, listen);
  else if (live) listen();
})();

// Charts: the data stand in the page.
(() => {
  const draw = () => {
    const probe = document.body.appendChild(document.createElement("i"));
    const colour = (name) => { probe.style.color = `var(${name})`; return getComputedStyle(probe).color; };
    const two = (number) => String(number).padStart(2, "0");
    const clock = (_, splits) => splits.map((at) => { const when = new Date(at * 1000); return two(when.getHours()) + ":" + two(when.getMinutes()); });
    const dashes = [[], [], [], [8, 4], [3, 3], [10, 3, 3, 3], [6, 2, 2, 2], [2, 4]];
    for (const place of document.querySelectorAll(".chart")) {
      const data = JSON.parse(place.dataset.series), names = place.dataset.names.split("|");
      place.replaceChildren();
      const axis = {stroke: colour("--muted"), grid: {stroke: colour("--line"), width: 1}, ticks: {show: false}};
      const series = names.map((label, at) => ({label, stroke: colour("--c" + at % 8), width: 2, dash: dashes[at % 8], points: {show: false}}));
      new uPlot({width: place.clientWidth, height: 200, scales: {y: {range: (_, low, high) => [0, Math.max(high || 1, 1)]}},
        axes: [{...axis, values: clock}, {...axis, size: 44}], series: [{}, ...series], legend: {live: false}}, data, place);
    }
    probe.remove();
  };
  if (typeof uPlot === "undefined") return;
  draw();
  let width = innerWidth;
  addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; draw(); } });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
})();

// The tree of queues by keyboard: arrows, home, end.
document.addEventListener("keydown", (event) => {
  const item = event.target.closest && event.target.closest("[role=treeitem]");
  if (!item || item !== event.target) return;
  const all = [...item.parentElement.children], at = all.indexOf(item);
  const to = {ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: all.length - 1}[event.key];
  if (event.key === "Enter") { item.querySelector("a").click(); return; }
  if (to === undefined || !all[to]) return;
  event.preventDefault();
  item.tabIndex = -1; all[to].tabIndex = 0; all[to].focus();
});

// On a phone the page that one is on may be out of the bar.
const here = document.querySelector("header nav [aria-current]");
if (here) here.parentElement.scrollLeft = here.offsetLeft - here.parentElement.clientWidth / 2 + here.clientWidth / 2;
