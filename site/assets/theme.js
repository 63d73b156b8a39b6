// Before the first paint: the theme that was chosen here, if one was, and room for what the other scripts bring to life.
(() => {
  const root = document.documentElement;
  try {
    const theme = localStorage.getItem("pullrank-theme");
    if (theme === "light" || theme === "dark") root.dataset.theme = theme;
  } catch { /* A browser may keep nothing; then nothing was chosen. */ }
  root.classList.add("js");
  // One of them does not arrive: the page is whole without any.
  addEventListener("error", (event) => { if (event.target.tagName === "SCRIPT") root.classList.remove("js"); }, true);
})();
