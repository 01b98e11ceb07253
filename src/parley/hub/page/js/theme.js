/* Sets the chosen theme before the first paint. A classic script, because a module would run too late and flash. */
(function () {
  "use strict";
  try {
    const theme = JSON.parse(localStorage.getItem("parley:theme"));
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  } catch {
    // Storage is off or holds something else: the system's theme it is.
  }
})();
