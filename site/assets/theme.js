// Runs before the first paint: sets the stored theme, and the class that shows the controls of the other scripts.
(() => {
  const root = document.documentElement;
  try {
    const theme = localStorage.getItem("pullrank-theme");
    if (theme === "light" || theme === "dark") root.dataset.theme = theme;
  } catch { /* The browser allows no storage, so there is no stored theme. */ }
  root.classList.add("js");
  // If a script fails to load, hide the controls; the page works without them.
  addEventListener("error", (event) => { if (event.target.tagName === "SCRIPT") root.classList.remove("js"); }, true);
})();
