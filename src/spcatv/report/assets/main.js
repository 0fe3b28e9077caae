// Puts the viewers into the panels of the components.

const VIEWERS = {
  volume: [prepareVolume, volumeViewer],
  surface: [prepareSurface, surfaceViewer],
  image: [prepareImage, imageViewer],
  line: [prepareLine, lineViewer],
};

function layerOf(data, maps, tables, panel) {
  const kind = panel.querySelector("[data-layer]")?.value || "loading";
  const own = panel.querySelector("[data-own-scale]")?.checked;
  const map = maps[kind];
  const tell = (value) => (data.layers[kind] || "loading {number}")
    .replace("{percent}", `${formatNumber(100 * value)} %`).replace("{number}", formatNumber(value));
  if (kind !== "loading") return { tell, map, scale: colourScale(tables.sequential, 0, 1) };
  let top = data.top;
  if (own) top = map.step * map.values.reduce((most, value) => Math.max(most, Math.abs(value)), 1);
  return { tell, map, scale: colourScale(tables.diverging, -top, top) };
}

function showLegend(panel, layer, kind, images) {
  panel.querySelector("[data-legend]").src = images[kind === "loading" ? "diverging" : "sequential"];
  panel.querySelector("[data-legend-low]").textContent = formatNumber(layer.scale.low, 2);
  panel.querySelector("[data-legend-middle]").textContent = kind === "loading" ? "0" : "0.5";
  panel.querySelector("[data-legend-high]").textContent = formatNumber(layer.scale.high, 2);
}

async function setUpPanel(panel, data, prepared, tables) {
  const component = data.components[Number(panel.dataset.component)];
  const maps = {};
  for (const [kind, map] of Object.entries(component.maps)) maps[kind] = await unpackMap(map);
  const viewers = prepared.map((view, k) => {
    const root = panel.querySelector(`[data-view="${k}"]`);
    return VIEWERS[view.kind][1](root, view, root.querySelector("output"));
  });

  function show() {
    const kind = panel.querySelector("[data-layer]")?.value || "loading";
    const layer = layerOf(data, maps, tables, panel);
    viewers.forEach((viewer) => viewer.show(layer));
    showLegend(panel, layer, kind, data.legends);
  }

  for (const control of panel.querySelectorAll("[data-layer], [data-own-scale]")) {
    control.addEventListener("change", show);
  }
  for (const button of panel.querySelectorAll("button[data-feature]")) {
    button.hidden = false;
    button.addEventListener("click", () => {
      const feature = Number(button.dataset.feature);
      const k = viewers.findIndex((viewer) => viewer.goTo(feature));
      panel.querySelector(`[data-view="${k}"]`)?.scrollIntoView({ block: "nearest" });
    });
  }
  show();
  // every view starts at the heaviest region that it holds
  viewers.forEach((viewer) => component.peaks.some((feature) => viewer.goTo(feature)));
  panel.dataset.ready = "true";
}

async function start() {
  const data = JSON.parse(document.getElementById("report-data").textContent);
  document.documentElement.classList.add("has-script");
  document.querySelectorAll("[data-tabs]").forEach(setUpTabs);
  document.querySelectorAll("[data-copy]").forEach(setUpCopy);
  const tables = {};
  for (const [name, table] of Object.entries(data.tables)) tables[name] = new Uint8Array(await unpackBytes(table));
  const prepared = [];
  for (const view of data.views) prepared.push(await VIEWERS[view.kind][0](view));
  for (const panel of document.querySelectorAll("[data-component]")) {
    await setUpPanel(panel, data, prepared, tables);
  }
  document.documentElement.dataset.ready = "true";
}

start();
