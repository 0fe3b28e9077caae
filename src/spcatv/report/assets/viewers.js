// The viewer of every kind of view, what it draws, and the legend of its colours.

const VIEWERS = {
  volume: { prepare: prepareVolume, viewer: volumeViewer, thumbnail: volumeThumbnail },
  surface: { prepare: prepareSurface, viewer: surfaceViewer, thumbnail: surfaceThumbnail },
  image: { prepare: prepareImage, viewer: imageViewer, thumbnail: imageThumbnail },
  line: { prepare: prepareLine, viewer: lineViewer, thumbnail: lineThumbnail },
};

// The data of the page, with the tables of colours and the views unpacked.
async function readData() {
  const data = JSON.parse(document.getElementById("report-data").textContent);
  document.documentElement.classList.add("has-script");
  document.querySelectorAll("[data-copy]").forEach(setUpCopy);
  for (const [name, table] of Object.entries(data.tables)) data.tables[name] = new Uint8Array(await unpackBytes(table));
  data.prepared = [];
  for (const view of data.views) data.prepared.push(await VIEWERS[view.kind].prepare(view));
  return data;
}

// A viewer for every view, in its place inside an element.
function viewersIn(parent, data) {
  return data.prepared.map((view, number) => {
    const root = parent.querySelector(`[data-view="${number}"]`);
    return VIEWERS[view.kind].viewer(root, view, root.querySelector("output"));
  });
}

// What to draw: a map, its colours, and a text for a value. `top` is the end of the scale of loadings.
function layerOf(data, maps, kind, top) {
  const { text, legend, colours } = data.layers[kind];
  const describe = (value) => text.replace("{percent}", `${formatNumber(100 * value)} %`).replace("{number}", formatNumber(value));
  const [low, high] = colours === "diverging" ? [-top, top] : [0, 1];
  return { describe, legend, map: maps[kind], picture: data.legends[colours], scale: colourScale(data.tables[colours], low, high) };
}

function showLegend(panel, { legend, picture, scale }) {
  panel.querySelector("[data-legend-name]").textContent = legend;
  panel.querySelector("[data-legend]").src = picture;
  panel.querySelector("[data-legend-low]").textContent = formatNumber(scale.low, 2);
  panel.querySelector("[data-legend-middle]").textContent = formatNumber((scale.low + scale.high) / 2);
  panel.querySelector("[data-legend-high]").textContent = formatNumber(scale.high, 2);
}
