// Optional extras, which the pages work without: theme, own login, sorting, what-if ranking, countdown, copy buttons.
"use strict";

const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const one = (selector, root = document) => root.querySelector(selector);

const kept = {
  get(key) { try { return localStorage.getItem(`pullrank-${key}`) || ""; } catch { return ""; } },
  set(key, value) { try { localStorage.setItem(`pullrank-${key}`, value); } catch { /* The browser allows no storage. */ } },
};

// The page's address keeps the reader's choices; an empty value removes one.
const address = {
  get: (key) => new URLSearchParams(location.search).get(key) || "",
  set(values) {
    const query = new URLSearchParams(location.search);
    for (const [key, value] of Object.entries(values)) value ? query.set(key, value) : query.delete(key);
    const text = query.toString().replaceAll("%2C", ",");
    history.replaceState(null, "", location.pathname + (text && `?${text}`) + location.hash);
  },
};

// Tell a screen reader about a change that others see.
const say = (text) => { one(".said").textContent = text; };

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

// On a phone the links of a menu are one line that scrolls; browsers leave a focused link half hidden, and the open page's
// anywhere.

for (const menu of all("nav")) {
  const here = one("[aria-current]", menu);
  if (here) here.closest("ul").scrollLeft = here.offsetLeft - 60;
  menu.addEventListener("focusin", (event) => event.target.scrollIntoView({ inline: "nearest", block: "nearest" }));
}

// Show times in the reader's time zone; the title keeps UTC.

const months = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", timeZoneName: "short" });
for (const time of all("time")) {
  const at = new Date(time.dateTime), day = `${at.getDate()} ${months[at.getMonth()]} ${at.getFullYear()}`;
  const text = time.classList.contains("day") ? day : `${day}, ${clock.format(at)}`;
  if (time.textContent !== text) time.textContent = text;  // Setting the same text would cost a layout.
}

// The time until a board closes.

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

// Copy buttons.

for (const button of all("button.copy")) {
  button.addEventListener("click", async () => {
    const text = all(".l", button.parentElement).map((line) => line.textContent).join("\n") + "\n";
    try { await navigator.clipboard.writeText(text); button.textContent = "Copied"; }
    catch { button.textContent = "Select and copy by hand"; }
    say(button.textContent);
    setTimeout(() => { button.textContent = "Copy"; say(""); }, 2000);
  });
}

// The reader's own login, stored in the browser.

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
  one(".my-place").replaceChildren(...(row ? place(row) : login ? ["No entry on this board"] : []));
}
function place(row) {
  const link = document.createElement("a");
  link.href = one(".score a", row).getAttribute("href");
  link.textContent = "see where you lose time";
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

// A folded table expands when a search in the page finds a hidden row, or at once if the browser cannot search there.

for (const section of all(".folds")) {
  const unfold = () => { one(".all-rows input", section).checked = true; };
  if ("onbeforematch" in section) section.addEventListener("beforematch", unfold);
  else unfold();
}

// Reorder the rows and show as many as before.
function reorder(body, rows) {
  const inSight = all("tr:not([hidden])", body).length;
  body.append(...rows);
  rows.forEach((row, index) => {
    if (index < inSight) row.removeAttribute("hidden");
    else row.setAttribute("hidden", "until-found");
  });
}

// Sort the standings.

const ranks = one("#ranks");
if (ranks) {
  const body = one("tbody", ranks), official = [...body.rows], reset = one("button.reset");
  const heads = all("thead th", ranks);
  const value = (row, index) => {
    const cell = row.cells[index], raw = cell.dataset.v ?? cell.textContent.trim();
    if (heads[index].dataset.key === "author") return row.dataset.login;  // The cell also has remarks.
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
    say(`Sorted by ${key || "rank"}${descending ? ", descending" : ""}.`);
    address.set({ sort: key && (descending ? `-${key}` : key) });
  }
  for (const head of heads.filter((head) => head.dataset.key)) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    // The first click puts the best row first: of shares of the limit, the highest.
    const first = head.dataset.key === "limit" ? "descending" : "ascending";
    button.addEventListener("click", () => {
      const now = head.getAttribute("aria-sort");
      order(head.dataset.key, (now === first) === (first === "ascending"));
    });
  }
  reset.addEventListener("click", () => {
    order("", false);
    one("[data-key=rank] button", ranks).focus();  // The reset button is hidden now.
  });
  const asked = address.get("sort");
  if (asked) order(asked.replace(/^-/, ""), asked.startsWith("-"));
}

// What-if ranking: a choice of benchmarks, another mean.

const heat = one("#heat");
if (heat) {
  const body = one("tbody", heat), boxes = all("input.case", heat), by = one("select.by");
  const back = one("button.official"), told = one(".what-if");
  let rows;  // Read on demand: there may be thousands.
  const read = () => [...body.rows].map((row) => ({
    row, times: all("td[data-v]", row).map((cell) => Number(cell.dataset.v)), cells: all("td[data-v]", row),
    total: one(".total", row), place: one(".place", row), official: one(".total", row).textContent,
    rank: one(".place", row).textContent, provisional: "provisional" in row.dataset,
  }));
  const means = {
    geom: (times) => Math.exp(times.reduce((sum, time) => sum + Math.log(time), 0) / times.length),
    mean: (times) => times.reduce((sum, time) => sum + time, 0) / times.length,
    last: (times) => times[times.length - 1],
  };
  // Formatted as on the pages: a value far below the others of its column has three significant digits.
  const written = (amount, digits) => (amount < 10 ** (1 - digits) ? String(Number(amount.toPrecision(3)))
    : amount.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits }));
  const isOfficial = () => by.value === by.dataset.official && boxes.every((box) => box.checked);
  const nameOf = (row) => {
    const name = document.createElement("span");
    name.className = "name";
    name.textContent = one("th a", row).textContent;
    return name;
  };
  const mean = (chosen) => `${by.selectedOptions[0].text} of ${chosen.length < boxes.length ? `${chosen.length} of ` : "all "}${boxes.length} benchmarks`;
  function rankAgain() {
    rows ??= read();
    const chosen = boxes.flatMap((box, index) => (box.checked ? [index] : []));
    for (const cells of [...rows.map((row) => row.cells), ...all("tfoot tr", heat).map((row) => all("td:not(.total)", row))]) {
      cells.forEach((cell, index) => cell.classList.toggle("off", !boxes[index].checked));
    }
    const official = isOfficial() || !chosen.length;
    const scored = rows.map((one) => ({ ...one, score: official ? 0 : means[by.value](chosen.map((index) => one.times[index])) }));
    if (!official) scored.sort((a, b) => a.provisional - b.provisional || a.score - b.score);
    scored.forEach(({ total, place, score, official: text, rank }, index) => {
      const scale = Number(total.dataset.us), digits = Number(total.dataset.digits);
      total.textContent = official ? text : written(score / scale, digits);
      place.textContent = official ? rank : index + 1;
    });
    reorder(body, scored.map(({ row }) => row));
    back.hidden = isOfficial();
    heat.classList.toggle("asked", !official);
    told.textContent = !chosen.length ? "Choose at least one benchmark. This is the official ranking."
      : official ? "This is the official ranking." : ` would lead by the ${mean(chosen)}.`;
    if (!official) told.prepend(nameOf(scored[0].row));
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
    by.focus();  // The reset button is hidden now.
  });
  if (!isOfficial()) rankAgain();
}
