// What comes on top of pages that are whole without it: theme, own login, order, what-if, countdown, copy.
"use strict";

const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const one = (selector, root = document) => root.querySelector(selector);

const kept = {
  get(key) { try { return localStorage.getItem(`pullrank-${key}`) || ""; } catch { return ""; } },
  set(key, value) { try { localStorage.setItem(`pullrank-${key}`, value); } catch { /* Not kept, then. */ } },
};

// The address holds what was chosen on this page; an empty value leaves it.
const address = {
  get: (key) => new URLSearchParams(location.search).get(key) || "",
  set(values) {
    const query = new URLSearchParams(location.search);
    for (const [key, value] of Object.entries(values)) value ? query.set(key, value) : query.delete(key);
    const text = query.toString().replaceAll("%2C", ",");
    history.replaceState(null, "", location.pathname + (text && `?${text}`) + location.hash);
  },
};

// Theme.

for (const button of all("button.theme")) {
  const name = () => button.setAttribute("aria-label", `Use the ${isDark() ? "light" : "dark"} theme`);
  const isDark = () => (document.documentElement.dataset.theme
    || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  button.addEventListener("click", () => {
    const theme = isDark() ? "light" : "dark";
    document.documentElement.dataset.theme = theme;
    kept.set("theme", theme);
    name();
  });
  name();
}

// On a phone the header's links are one line that can be pushed aside; a browser leaves one half hidden.

one(".top nav").addEventListener("focusin", (event) => event.target.scrollIntoView({ inline: "nearest", block: "nearest" }));

// Times in the reader's zone; UTC stays in the title.

const months = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", timeZoneName: "short" });
for (const time of all("time")) {
  const at = new Date(time.dateTime), day = `${at.getDate()} ${months[at.getMonth()]} ${at.getFullYear()}`;
  const text = time.classList.contains("day") ? day : `${day}, ${clock.format(at)}`;
  if (time.textContent !== text) time.textContent = text;  // What stands there already need not be laid out anew.
}

// How long a board is open.

function countDown() {
  for (const label of all(".until")) {
    const minutes = Math.ceil((new Date(label.dataset.until) - Date.now()) / 60000);
    const hours = Math.floor(minutes / 60), days = Math.floor(hours / 24);
    const left = days > 1 ? `${days}\u00a0days` : hours > 1 ? `${hours}\u00a0hours` : minutes > 1 ? `${minutes}\u00a0minutes` : "1\u00a0minute";
    label.textContent = minutes <= 0 ? "Closed on" : `Closes in ${left},`;
    label.classList.add("told");
  }
}
countDown();
setInterval(countDown, 60000);

// Copy.

for (const button of all("button.copy")) {
  button.addEventListener("click", async () => {
    const text = all(".l", button.parentElement).map((line) => line.textContent).join("\n") + "\n";
    try { await navigator.clipboard.writeText(text); button.textContent = "Copied"; }
    catch { button.textContent = "Select and copy by hand"; }
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
}

// One's own login, remembered here.

const me = one("input.me");
function markMe() {
  const login = me.value.trim().replace(/^@/, "").toLowerCase();
  kept.set("login", login);
  let row = null;
  for (const tr of all("tr[data-login]")) {
    const mine = tr.dataset.login === login;
    tr.classList.toggle("mine", mine);
    if (mine && tr.closest("#ranks")) row = tr;
  }
  one(".my-place").replaceChildren(...(row ? place(row) : login ? ["has no row here"] : []));
}
function place(row) {
  const link = document.createElement("a");
  link.href = one(".score a", row).getAttribute("href");
  link.textContent = "where is the time lost?";
  const rows = all("#ranks tbody tr").length;
  const gap = one("td[data-v]:not(.score)", row).textContent;
  const rank = `${parseInt(one(".rank", row).textContent, 10)} of ${rows}`;
  return gap ? [`${rank}, ${gap}: `, link] : [rank];
}
if (me) {
  me.value = kept.get("login");
  me.addEventListener("input", markMe);
  if (me.value) markMe();
}

// A folded table: a search in the page that finds a row out of sight shows all; so does a browser that would find none.

for (const section of all(".folds")) {
  const unfold = () => { one(".all-rows input", section).checked = true; };
  if ("onbeforematch" in section) section.addEventListener("beforematch", unfold);
  else unfold();
}

// In another order, as many rows as before are in sight.
function reorder(body, rows) {
  const inSight = all("tr:not([hidden])", body).length;
  body.append(...rows);
  rows.forEach((row, index) => {
    if (index < inSight) row.removeAttribute("hidden");
    else row.setAttribute("hidden", "until-found");
  });
}

// Order of the standings.

const ranks = one("#ranks");
if (ranks) {
  const body = one("tbody", ranks), official = [...body.rows], reset = one("button.reset"), told = one(".ordered");
  const heads = all("thead th", ranks);
  const value = (row, index) => {
    const cell = row.cells[index], raw = cell.dataset.v ?? cell.textContent.trim();
    if (heads[index].dataset.key === "author") return row.dataset.login;  // Its cell holds initials and remarks, too.
    return heads[index].matches(".num, .rank") ? parseFloat(raw) : raw.toLowerCase();
  };
  function order(key, descending) {
    const index = heads.findIndex((head) => head.dataset.key === key);
    if (index < 0) { key = ""; descending = false; }
    const sign = descending ? -1 : 1;
    const rows = index < 0 ? official : official.map((row) => [value(row, index), row]).sort(([a], [b]) => {
      return Number.isNaN(a) - Number.isNaN(b) || sign * (a < b ? -1 : a > b ? 1 : 0);  // Blanks last, either way.
    }).map(([, row]) => row);
    reorder(body, rows);
    for (const head of heads) head.removeAttribute("aria-sort");
    if (index >= 0) heads[index].setAttribute("aria-sort", descending ? "descending" : "ascending");
    ranks.classList.toggle("sorted", index >= 0 && key !== "rank");
    reset.hidden = index < 0;
    told.textContent = `Ordered by ${key || "rank"}${descending ? ", descending" : ""}.`;
    address.set({ sort: key && (descending ? `-${key}` : key) });
  }
  for (const head of heads.filter((head) => head.dataset.key)) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => order(head.dataset.key, head.getAttribute("aria-sort") === "ascending"));
  }
  reset.addEventListener("click", () => {
    order("", false);
    one("[data-key=rank] button", ranks).focus();  // This one is gone.
  });
  const asked = address.get("sort");
  if (asked) order(asked.replace(/^-/, ""), asked.startsWith("-"));
}

// What if: other benchmarks, another mean.

const heat = one("#heat");
if (heat) {
  const body = one("tbody", heat), boxes = all("input.case", heat), by = one("select.by");
  const back = one("button.official"), told = one(".what-if");
  let rows;  // Read when they are asked for: there may be thousands.
  const read = () => [...body.rows].map((row) => ({
    row, times: all("td[data-v]", row).map((cell) => Number(cell.dataset.v)), cells: all("td[data-v]", row),
    total: one(".total", row), place: one(".place", row), official: one(".total", row).textContent,
    rank: one(".place", row).textContent,
  }));
  const means = {
    geom: (times) => Math.exp(times.reduce((sum, time) => sum + Math.log(time), 0) / times.length),
    mean: (times) => times.reduce((sum, time) => sum + time, 0) / times.length,
    last: (times) => times[times.length - 1],
  };
  // As the pages write it: of what is far below the others of its column, the first three digits.
  const written = (amount, digits) => (amount < 10 ** (1 - digits) ? String(Number(amount.toPrecision(3)))
    : amount.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits }));
  const isOfficial = () => by.value === by.dataset.official && boxes.every((box) => box.checked);
  const mean = (chosen) => `${by.selectedOptions[0].text} of ${chosen.length < boxes.length ? `${chosen.length} of ` : "all "}${boxes.length} benchmarks`;
  function rankAgain() {
    rows ??= read();
    const chosen = boxes.flatMap((box, index) => (box.checked ? [index] : []));
    for (const { cells } of rows) cells.forEach((cell, index) => cell.classList.toggle("off", !boxes[index].checked));
    const official = isOfficial() || !chosen.length;
    const scored = rows.map((one) => ({ ...one, score: official ? 0 : means[by.value](chosen.map((index) => one.times[index])) }));
    if (!official) scored.sort((a, b) => a.score - b.score);
    scored.forEach(({ total, place, score, official: text, rank }, index) => {
      const scale = Number(total.dataset.us), digits = Number(total.dataset.digits);
      total.textContent = official ? text : written(score / scale, digits);
      place.textContent = official ? rank : index + 1;
    });
    reorder(body, scored.map(({ row }) => row));
    back.hidden = isOfficial();
    heat.classList.toggle("asked", !official);
    told.textContent = !chosen.length ? "Choose at least one benchmark; this is how it is ranked here."
      : official ? "This is how it is ranked here." : `${one("th a", scored[0].row).textContent} would lead by the ${mean(chosen)}.`;
    address.set({
      cases: official || chosen.length === boxes.length ? "" : chosen.map((index) => index + 1).join(","),
      by: official || by.value === by.dataset.official ? "" : by.value,
    });
  }
  by.value = Object.hasOwn(means, address.get("by")) ? address.get("by") : by.dataset.official;
  const asked = new Set(address.get("cases").split(",").map(Number));
  if (boxes.some((_, index) => asked.has(index + 1))) boxes.forEach((box, index) => { box.checked = asked.has(index + 1); });
  by.addEventListener("change", rankAgain);
  for (const box of boxes) box.addEventListener("change", rankAgain);
  back.addEventListener("click", () => {
    by.value = by.dataset.official;
    for (const box of boxes) box.checked = true;
    rankAgain();
    by.focus();  // This one is gone.
  });
  if (!isOfficial()) rankAgain();
}
