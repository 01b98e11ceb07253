"use strict";

// Draws the charts in the colours of the theme, again when the theme changes, and lights up the network under the mouse.
(() => {
  const root = document.documentElement;
  const charts = JSON.parse(document.getElementById("charts").textContent);
  const systemDark = matchMedia("(prefers-color-scheme: dark)");
  const button = document.getElementById("theme");
  const KEPT = "parley.report.theme";

  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : systemDark.matches);

  // A canvas resolves whatever colour the style sheet computes, light-dark() included.
  const colour = (name) => {
    const probe = document.createElement("span");
    probe.style.color = `var(--${name})`;
    document.body.append(probe);
    const found = getComputedStyle(probe).color;
    probe.remove();
    return found;
  };

  const heat = () => [[0, colour("surface-sunken")], [0.001, colour("accent-soft")], [1, colour("accent")]];

  // Only what is a colour by its key is looked up; a name that looks like one stays a name.
  const painted = (value, key = "") => {
    if (key === "colorscale" && value === "@heat") return heat();
    if (/color$/.test(key) && typeof value === "string" && value.startsWith("@")) return colour(value.slice(1));
    if (Array.isArray(value)) return value.map((each) => painted(each));
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, painted(each, name)]));
    }
    return value;
  };

  const axis = (given) => ({
    gridcolor: "@line",
    linecolor: "@line-strong",
    zerolinecolor: "@line",
    automargin: true,
    ticks: "",
    fixedrange: true,
    ...given,
    title: {...(given?.title ?? {}), font: {size: 12, color: "@text-faint"}},
  });

  const layoutOf = (chart, narrow) => painted({
    ...chart.layout,
    height: chart.height ?? (narrow ? 280 : 320),
    autosize: true,
    dragmode: false,
    margin: {l: 8, r: 8, t: 16, b: 8},
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: {family: getComputedStyle(document.body).fontFamily, size: 12, color: "@text-soft"},
    hoverlabel: {bgcolor: "@surface-raised", bordercolor: "@line-strong", font: {color: "@text"}},
    xaxis: axis(chart.layout.xaxis),
    yaxis: axis(chart.layout.yaxis),
  });

  const CONFIG = {displayModeBar: false, displaylogo: false, responsive: true, showTips: false};

  const draw = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", `Show in ${isDark() ? "light" : "dark"} colours`);
    for (const place of document.querySelectorAll("[data-chart]")) {
      const chart = charts[place.dataset.chart];
      const narrow = place.clientWidth < 520;
      place.style.minHeight = `${chart.height ?? (narrow ? 280 : 320)}px`;
      Plotly.react(place, painted(chart.data), layoutOf(chart, narrow), CONFIG);
    }
  };

  const remember = (theme) => {
    try {
      localStorage.setItem(KEPT, theme);
    } catch {
      // A file may have no storage; the choice then holds until the page is closed.
    }
  };

  const recall = () => {
    try {
      return localStorage.getItem(KEPT);
    } catch {
      return null;
    }
  };

  const kept = recall();
  if (kept === "light" || kept === "dark") root.dataset.theme = kept;
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    remember(root.dataset.theme);
    draw();
  });
  systemDark.addEventListener("change", draw);

  for (const net of document.querySelectorAll(".net")) {
    const arrows = [...net.querySelectorAll(".arrow")];
    const nodes = [...net.querySelectorAll(".node")];
    const clear = () => {
      delete net.dataset.over;
      for (const each of [...arrows, ...nodes]) delete each.dataset.near;
    };
    for (const node of nodes) {
      node.addEventListener("mouseenter", () => {
        clear();
        net.dataset.over = "";
        const near = new Set([node.dataset.node]);
        for (const arrow of arrows) {
          if (arrow.dataset.from !== node.dataset.node && arrow.dataset.to !== node.dataset.node) continue;
          arrow.dataset.near = "";
          near.add(arrow.dataset.from).add(arrow.dataset.to);
        }
        for (const each of nodes) if (near.has(each.dataset.node)) each.dataset.near = "";
      });
      node.addEventListener("mouseleave", clear);
    }
  }

  draw();
  root.dataset.ready = "";
})();
