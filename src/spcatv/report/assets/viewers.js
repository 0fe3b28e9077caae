// The viewer of every kind of view, what it draws, and the legend of its colours.

const VIEWERS = {
  volume: { prepare: prepareVolume, viewer: volumeViewer, thumbnail: volumeThumbnail },
  surface: { prepare: prepareSurface, viewer: surfaceViewer, thumbnail: surfaceThumbnail },
  image: { prepare: prepareImage, viewer: imageViewer, thumbnail: imageThumbnail },
  line: { prepare: prepareLine, viewer: lineViewer, thumbnail: lineThumbnail },
};

// What to draw: a map, its colours, and a text for a value. `top` is the end of the scale of loadings.
function layerOf(data, maps, tables, kind, top) {
  const tell = (value) => (data.layers[kind] || "loading {number}")
    .replace("{percent}", `${formatNumber(100 * value)} %`).replace("{number}", formatNumber(value));
  const scale = kind === "loading" ? colourScale(tables.diverging, -top, top) : colourScale(tables.sequential, 0, 1);
  return { tell, map: maps[kind], scale };
}

const LEGEND_NAMES = {
  loading: "Loading",
  frequency: "Share of resampled fits",
  consistency: "Consistency of the sign",
};

function showLegend(panel, layer, kind, images) {
  panel.querySelector("[data-legend-name]").textContent = LEGEND_NAMES[kind];
  panel.querySelector("[data-legend]").src = images[kind === "loading" ? "diverging" : "sequential"];
  panel.querySelector("[data-legend-low]").textContent = formatNumber(layer.scale.low, 2);
  panel.querySelector("[data-legend-middle]").textContent = kind === "loading" ? "0" : "0.5";
  panel.querySelector("[data-legend-high]").textContent = formatNumber(layer.scale.high, 2);
}
