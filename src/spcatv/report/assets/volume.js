// Orthogonal slices through voxels: three canvases that share one position.

const PLANES = [
  { fixed: 0, across: 1, up: 2 },
  { fixed: 1, across: 0, up: 2 },
  { fixed: 2, across: 0, up: 1 },
];

async function prepareVolume(view) {
  const grid = (packed, values) => ({ ...packed, values });
  const index = grid(view.index, await unpackSteps(view.index.values));
  const background = view.background
    ? grid(view.background, new Uint8Array(await unpackBytes(view.background.values)))
    : null;
  const low = [0, 1, 2].map((axis) =>
    Math.min(...[index, background].filter(Boolean).map((g) => g.origin[axis] - g.spacing[axis] / 2)));
  const high = [0, 1, 2].map((axis) =>
    Math.max(...[index, background].filter(Boolean).map(
      (g) => g.origin[axis] + (g.shape[axis] - 0.5) * g.spacing[axis])));
  return { ...view, index, background, low, high };
}

function voxelAt(grid, position) {
  return [0, 1, 2].map((axis) => Math.round((position[axis] - grid.origin[axis]) / grid.spacing[axis]));
}

function valueAt(grid, voxel) {
  for (let axis = 0; axis < 3; axis += 1) {
    if (voxel[axis] < 0 || voxel[axis] >= grid.shape[axis]) return 0;
  }
  return grid.values[(voxel[0] * grid.shape[1] + voxel[1]) * grid.shape[2] + voxel[2]];
}

// Paint one slice of a grid onto a canvas; paint(value, pixels, offset) sets the four bytes of a pixel.
function paintSlice(context, grid, plane, position, frame, smooth, paint) {
  const slice = voxelAt(grid, position)[plane.fixed];
  if (slice < 0 || slice >= grid.shape[plane.fixed]) return;
  const strides = [grid.shape[1] * grid.shape[2], grid.shape[2], 1];
  const width = grid.shape[plane.across];
  const height = grid.shape[plane.up];
  const picture = new ImageData(width, height);
  for (let row = 0; row < height; row += 1) {
    const start = slice * strides[plane.fixed] + (height - 1 - row) * strides[plane.up];
    for (let column = 0; column < width; column += 1) {
      const value = grid.values[start + column * strides[plane.across]];
      if (value) paint(value, picture.data, 4 * (row * width + column));
    }
  }
  const small = document.createElement("canvas");
  small.width = width;
  small.height = height;
  small.getContext("2d").putImageData(picture, 0, 0);
  context.imageSmoothingEnabled = smooth;
  const x = (grid.origin[plane.across] - grid.spacing[plane.across] / 2 - frame.low[plane.across]) * frame.scale;
  const top = grid.origin[plane.up] + (height - 0.5) * grid.spacing[plane.up];
  const y = (frame.high[plane.up] - top) * frame.scale;
  context.drawImage(small, x, y, width * grid.spacing[plane.across] * frame.scale,
    height * grid.spacing[plane.up] * frame.scale);
}

function paintGrey(value, pixels, offset) {
  const grey = 40 + 0.72 * value;
  pixels[offset] = pixels[offset + 1] = pixels[offset + 2] = grey;
  pixels[offset + 3] = Math.min(255, 3 * value);
}

function layerPaint(layer, start) {
  return (value, pixels, offset) => {
    const loading = layer.map.values[start + value - 1];
    if (loading === 0) return;
    const shown = loading * layer.map.step;
    const colour = layer.scale.at(shown);
    pixels[offset] = layer.scale.table[colour];
    pixels[offset + 1] = layer.scale.table[colour + 1];
    pixels[offset + 2] = layer.scale.table[colour + 2];
    // weak values let the anatomy through: near zero the colours are nearly white
    pixels[offset + 3] = 70 + 170 * Math.min(1, 3 * layer.scale.strength(shown));
  };
}

function paintPlane(context, { index, background, low, high, start }, plane, position, scale, layer) {
  const frame = { low, high, scale };
  if (background) paintSlice(context, background, plane, position, frame, true, paintGrey);
  paintSlice(context, index, plane, position, frame, false, layerPaint(layer, start));
}

// The middle of a feature's voxel; null if the grid does not hold it.
function positionOf({ index, start, stop }, feature) {
  const place = feature < start || feature >= stop ? -1 : index.values.indexOf(feature - start + 1);
  if (place < 0) return null;
  const [, ny, nz] = index.shape;
  const voxel = [Math.floor(place / (ny * nz)), Math.floor(place / nz) % ny, place % nz];
  return voxel.map((step, axis) => index.origin[axis] + step * index.spacing[axis]);
}

function middleOf({ index }) {
  return index.shape.map((n, axis) => index.origin[axis] + Math.floor(n / 2) * index.spacing[axis]);
}

// All planes side by side through the first peak that lies here.
function volumeThumbnail(canvas, prepared, layer, peaks) {
  const { low, high } = prepared;
  const position = peaks.map((feature) => positionOf(prepared, feature)).find(Boolean) || middleOf(prepared);
  const sizes = high.map((value, axis) => value - low[axis]);
  const widths = PLANES.map((plane) => sizes[plane.across]);
  const tallest = Math.max(...PLANES.map((plane) => sizes[plane.up]));
  const total = widths.reduce((sum, width) => sum + width, 0);
  fitCanvas(canvas, (1.06 * total) / tallest, 320);
  const scale = canvas.width / (1.06 * total);
  const context = canvas.getContext("2d");
  let left = 0;
  PLANES.forEach((plane, k) => {
    context.save();
    context.translate(left, ((tallest - sizes[plane.up]) * scale) / 2);
    paintPlane(context, prepared, plane, position, scale, layer);
    context.restore();
    left += (widths[k] + 0.03 * total) * scale;
  });
}

function volumeViewer(root, prepared, readout) {
  const { index, low, high, start, anatomical } = prepared;
  const names = anatomical ? ["x", "y", "z"] : ["i", "j", "k"];
  const unit = anatomical ? " mm" : "";
  const canvases = PLANES.map((_, k) => root.querySelector(`canvas[data-plane="${k}"]`));
  const sliders = PLANES.map((_, k) => root.querySelector(`input[data-axis="${k}"]`));
  const labels = PLANES.map((_, k) => root.querySelector(`[data-axis-label="${k}"]`));
  const position = middleOf(prepared);
  let layer = null;

  sliders.forEach((slider, axis) => {
    slider.min = 0;
    slider.max = index.shape[axis] - 1;
    slider.step = 1;
    slider.addEventListener("input", () => {
      position[axis] = index.origin[axis] + Number(slider.value) * index.spacing[axis];
      draw();
    });
  });

  canvases.forEach((canvas, k) => {
    const move = (event) => {
      const box = canvas.getBoundingClientRect();
      const plane = PLANES[k];
      const share = [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
      position[plane.across] = low[plane.across] + share[0] * (high[plane.across] - low[plane.across]);
      position[plane.up] = high[plane.up] - share[1] * (high[plane.up] - low[plane.up]);
      draw();
    };
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      move(event);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (event.buttons & 1) move(event);
    });
    redrawOnResize(canvas, draw);
  });

  function drawCross(context, plane, scale) {
    const x = (position[plane.across] - low[plane.across]) * scale;
    const y = (high[plane.up] - position[plane.up]) * scale;
    context.strokeStyle = "rgba(90, 90, 90, 0.8)";
    context.lineWidth = Math.max(1, scale / 3);
    context.setLineDash([4, 4]);
    context.beginPath();
    context.moveTo(x, 0);
    context.lineTo(x, context.canvas.height);
    context.moveTo(0, y);
    context.lineTo(context.canvas.width, y);
    context.stroke();
    context.setLineDash([]);
  }

  function draw() {
    if (!layer) return;
    PLANES.forEach((plane, k) => {
      const wide = high[plane.across] - low[plane.across];
      fitCanvas(canvases[k], wide / (high[plane.up] - low[plane.up]), 420);
      const context = canvases[k].getContext("2d");
      const scale = canvases[k].width / wide;
      context.clearRect(0, 0, canvases[k].width, canvases[k].height);
      paintPlane(context, prepared, plane, position, scale, layer);
      drawCross(context, plane, scale);
    });
    const voxel = voxelAt(index, position);
    const feature = valueAt(index, voxel);
    sliders.forEach((slider, axis) => {
      slider.value = voxel[axis];
      const shown = formatNumber(Math.round(10 * position[axis]) / 10, 4);
      labels[axis].textContent = `${names[axis]} = ${shown}${unit}`;
      slider.setAttribute("aria-valuetext", `${shown}${unit}`);
    });
    const where = position.map((value, axis) => `${names[axis]} ${formatNumber(Math.round(10 * value) / 10, 4)}`);
    const what = feature
      ? layer.describe(layer.map.values[start + feature - 1] * layer.map.step)
      : "outside the mask";
    readout.textContent = `${where.join(", ")}${unit}: ${what}`;
  }

  return {
    show(next) {
      layer = next;
      draw();
    },
    goTo(feature) {
      const place = positionOf(prepared, feature);
      if (!place) return false;
      place.forEach((value, axis) => {
        position[axis] = value;
      });
      draw();
      return true;
    },
  };
}
