// Compare a submission with any other on its board: times case by case, and a diff of the code.  The page's address keeps
// the choice.
"use strict";

(() => {
  const input = one("input.other"), shown = one(".comparison"), told = one(".compared");
  if (!input) return;
  const near = 3, mostLines = 1500;
  const failed = `The other submission could not be ${location.protocol === "file:"
    ? "read: browsers load no second page from a disk. Use pullrank site serve." : "fetched; try again."}`;
  let others = null, asks = 0;

  // The submissions on this board: rows and former records.
  async function load() {
    const board = await (await fetch("../../rows.json")).json();
    const here = location.pathname.split("/").slice(-3, -1).join("/").toLowerCase();
    const key = (entry) => `${entry.login}/${entry.digest}`;
    others = new Map();
    for (const row of board.rows) others.set(key(row), `${row.rank}. ${row.login}`);
    for (const record of [...board.records].reverse()) {
      if (!others.has(key(record))) others.set(key(record), `${record.login}, first on ${record.at.slice(0, 10)}`);
    }
    for (const name of others.keys()) if (name.toLowerCase() === here) others.delete(name);
    one("#others").replaceChildren(...[...others].map(([name, label]) => {
      const option = element("option", "", label);
      option.value = name;
      return option;
    }));
  }

  // Find a submission by `login/digest`, or an author's row by login.
  function find(text) {
    const wanted = text.trim().replace(/^@/, "").toLowerCase();
    const names = [...others.keys()];
    return names.find((name) => name.toLowerCase() === wanted)
      || names.find((name) => name.toLowerCase().split("/")[0] === wanted);
  }

  // Show the last submission that was asked for, even if an earlier request answers later.
  async function compare(text) {
    const ask = asks += 1;
    shown.hidden = true;
    told.textContent = "";
    if (!text.trim()) { address.set({ with: "" }); return; }
    try {
      if (!others) await load();
      if (ask !== asks) return;
      const name = find(text);
      if (!name) { address.set({ with: "" }); told.textContent = "No other entry on this board has that login."; return; }
      const path = `../../${name}/`, login = name.split("/")[0];
      const parts = alreadyHere(path) ?? await sideBySide(login, path);
      if (ask !== asks) return;
      shown.replaceChildren(heading(login, path), ...parts);
      shown.hidden = false;
      told.textContent = "See below the table.";
      input.value = find(login) === name ? login : name;
      address.set({ with: name });
    } catch {
      if (ask === asks) told.textContent = failed;
    }
  }

  function heading(login, path) {
    const title = element("h3", "", "Compared with ");
    title.append(link(`${login}’s`, `${path}index.html`));
    return title;
  }

  // Some rivals are already in the page's own table: first place, and the next row ahead or the previous record.
  function alreadyHere(path) {
    const isTheirs = (link) => link.getAttribute("href") === `${path}index.html`;
    if (!all(".against thead a").some(isTheirs)) return null;
    const words = element("p", "hint", "Their times are in the table above"), change = all("#changes a").find(isTheirs);
    if (change) {
      change.closest("details").open = true;
      words.append(", ", link("what changed", "#changes"), " below");
    }
    words.append(".");
    return [words];
  }

  async function sideBySide(login, path) {
    const text = await (await fetch(`${path}index.html`)).text();
    const other = new DOMParser().parseFromString(text, "text/html");
    return [table(login, other), ...changes(lines(document), lines(other), login, path)];
  }

  function table(login, other) {
    const theirs = all(".against [data-us]", other);
    const scroll = element("div", "scroll"), result = element("table", "beside"), body = result.createTBody();
    scroll.tabIndex = 0;
    scroll.setAttribute("role", "group");
    scroll.setAttribute("aria-label", `Times compared with ${login}’s`);
    const head = result.createTHead().insertRow();
    for (const [text, kind] of [[one(".against th").textContent, ""], ["This file", "num"], [login, "num"], ["Difference", "num"]]) {
      const cell = element("th", kind, text);
      cell.scope = "col";
      head.append(cell);
    }
    all(".against [data-us]").forEach((ours, index) => {
      const ratio = ours.dataset.us / theirs[index].dataset.us, row = body.insertRow();
      const time = (cell) => element("td", "num", cell.firstChild.textContent.trim());
      row.append(one("th", ours.parentElement).cloneNode(true), time(ours), time(theirs[index]),
        element("td", `num ${ratio > 1.01 ? "bad" : ratio < 0.99 ? "good" : ""}`, lost(ratio)));
    });
    scroll.append(result);
    return scroll;
  }

  // Formatted as on the pages.

  function lost(ratio) {
    if (Math.abs(ratio - 1) < 0.0005) return "as fast";
    if (ratio >= 2) return `${ratio.toLocaleString("en", { minimumFractionDigits: 1, maximumFractionDigits: 1 })}× as\u00a0long`;
    return ratio > 1 ? `${((ratio - 1) * 100).toFixed(1)}\u00a0% slower` : `speedup\u00a0${speedup(1 / ratio)}`;
  }

  function speedup(factor) {
    const digits = factor > 0.9 && factor < 1.1 ? 3 : 2;
    return `${factor.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits })}×`;
  }

  // The code.

  const lines = (page) => one("#source", page) && all("#source .l", page).map((line) => line.textContent);  // Null if the file is missing.

  function changes(ours, theirs, login, path) {
    if (!ours || !theirs) return [element("p", "soft more", "One of the two files is not available.")];
    const found = diff(ours, theirs);
    if (!found) {
      const words = element("p", "soft more", `The files differ in more than ${mostLines.toLocaleString("en")} lines, too many to show here. The whole files: `);
      words.append(link("this one", "#code"), ", ", link(`${login}’s`, `${path}index.html#code`), ".");
      return [words];
    }
    if (!found.length) return [element("p", "soft more", "The files are identical.")];
    const code = element("pre", "code");
    code.tabIndex = 0;
    code.setAttribute("role", "group");
    code.setAttribute("aria-label", `Diff from this file to ${login}’s`);
    for (const [sign, text] of found) {
      code.append(element("span", `l ${{ "+": "add", "-": "del", "@": "at" }[sign] || "same"}`, sign === "@" ? text : sign + text), "\n");
    }
    return [element("p", "hint more", `Diff from this file to ${login}’s`), code];
  }

  // The longest common subsequence of lines, by a table of lengths, without the equal lines at both ends.  Null if too
  // many lines remain.
  function diff(a, b) {
    let start = 0, end = 0;
    while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
    while (end < Math.min(a.length, b.length) - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end += 1;
    const n = a.length - start - end, m = b.length - start - end, width = m + 1;
    if (Math.max(n, m) > mostLines) return null;
    const length = new Uint16Array((n + 1) * width);
    for (let i = n - 1; i >= 0; i -= 1) {
      for (let j = m - 1; j >= 0; j -= 1) {
        length[i * width + j] = a[start + i] === b[start + j]
          ? length[(i + 1) * width + j + 1] + 1 : Math.max(length[(i + 1) * width + j], length[i * width + j + 1]);
      }
    }
    const found = a.slice(0, start).map((line) => [" ", line]);
    for (let i = 0, j = 0; i < n || j < m;) {
      if (i < n && j < m && a[start + i] === b[start + j]) { found.push([" ", a[start + i]]); i += 1; j += 1; }
      else if (j === m || (i < n && length[(i + 1) * width + j] >= length[i * width + j + 1])) { found.push(["-", a[start + i]]); i += 1; }
      else { found.push(["+", b[start + j]]); j += 1; }
    }
    return inContext(found.concat(a.slice(a.length - end).map((line) => [" ", line])));
  }

  // Changed lines with a few lines of context; `@` marks a gap.
  function inContext(found) {
    const isNear = (index) => found.slice(Math.max(0, index - near), index + near + 1).some(([sign]) => sign !== " ");
    const kept = [];
    let isCut = false;
    found.forEach((line, index) => {
      if (isNear(index)) {
        if (isCut && kept.length) kept.push(["@", "…"]);
        kept.push(line);
        isCut = false;
      } else isCut = true;
    });
    return kept;
  }

  function element(tag, kind, text = "") {
    const made = document.createElement(tag);
    made.className = kind;
    made.textContent = text;
    return made;
  }

  function link(text, href) {
    const made = element("a", "name", text);
    made.href = href;
    return made;
  }

  input.addEventListener("focus", () => others || load().catch(() => {}));
  input.addEventListener("change", () => compare(input.value));
  const asked = address.get("with");
  if (asked) compare(asked);
})();
