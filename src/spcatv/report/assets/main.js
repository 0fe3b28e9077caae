// Puts the viewers into the panels of the components.

async function setUpPanel(panel, data) {
  const k = Number(panel.dataset.component);
  const component = data.components[k];
  const maps = {};
  for (const [kind, map] of Object.entries(component.maps)) maps[kind] = await unpackMap(map);
  const viewers = viewersIn(panel, data);
  const chooser = panel.querySelector("[data-layer]");
  const shared = panel.querySelector("[data-shared-scale]");
  const top = () => (shared.checked ? data.top : component.top);

  function show() {
    const layer = layerOf(data, maps, chooser?.value || "loading", top());
    viewers.forEach((viewer) => viewer.show(layer));
    showLegend(panel, layer);
  }

  let first = data.prepared[0];
  const thumbnail = document.querySelector(`[data-thumbnail="${k}"]`);

  function showThumbnail() {
    thumbnail.getContext("2d").clearRect(0, 0, thumbnail.width, thumbnail.height);
    const layer = layerOf(data, maps, "loading", top());
    VIEWERS[first.kind].thumbnail(thumbnail, first, layer, component.peaks);
  }

  chooser?.addEventListener("change", show);
  for (const button of panel.querySelectorAll("button[data-feature]")) {
    button.hidden = false;
    button.addEventListener("click", () => {
      const feature = Number(button.dataset.feature);
      const number = viewers.findIndex((viewer) => viewer.goTo(feature));
      panel.querySelector(`[data-view="${number}"]`)?.scrollIntoView({ block: "nearest" });
    });
  }
  show();
  // the thumbnail is of the view that holds the heaviest region
  first = data.prepared[Math.max(0, viewers.findIndex((viewer) => viewer.goTo(component.peaks[0])))];
  showThumbnail();
  // every view starts at the heaviest region that it holds
  viewers.forEach((viewer) => component.peaks.some((feature) => viewer.goTo(feature)));
  panel.dataset.ready = "true";
  return () => {
    show();
    showThumbnail();
  };
}

// All switches of the scale are one: the overview has it, and every component.
function setUpScales(redraw) {
  const switches = Array.from(document.querySelectorAll("[data-shared-scale]"));
  for (const own of switches) {
    own.addEventListener("change", () => {
      for (const other of switches) other.checked = own.checked;
      redraw();
    });
  }
}

async function start() {
  const reading = readData();
  document.querySelectorAll("[data-tabs]").forEach(setUpTabs);
  const data = await reading;
  const redraws = [];
  for (const panel of document.querySelectorAll("[data-component]")) redraws.push(await setUpPanel(panel, data));
  setUpScales(() => redraws.forEach((redraw) => redraw()));
  document.documentElement.dataset.ready = "true";
}

start();
