// Before the first paint: the theme that was chosen here, if one was.  Without a choice the system's counts.
(() => {
  try {
    const theme = localStorage.getItem("pullrank-theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  } catch { /* A browser may keep nothing; then nothing was chosen. */ }
  document.documentElement.classList.add("js");
})();
