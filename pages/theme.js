// Runs before the first paint, so that the default theme does not flash.
try {
  const chosen = localStorage.getItem("theme");
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
} catch {
  // The browser denies storage to this site.
}
