// Fields of two dimensions as an image, and of one dimension as a line; both are read with pointer or arrow keys.

async function prepareImage(view) {
  return { ...view, index: await unpackSteps(view.index) };
}

function paintImage(canvas, { shape: [nRows, nColumns], index }, layer) {
  const picture = new ImageData(nColumns, nRows);
  index.forEach((number, cell) => {
    const value = number ? layer.map.values[number - 1] : 0;
    const colour = layer.scale.at(value * layer.map.step);
    const grey = number ? 245 : 200;
    for (let channel = 0; channel < 3; channel += 1) {
      picture.data[4 * cell + channel] = value ? layer.scale.table[colour + channel] : grey;
    }
    picture.data[4 * cell + 3] = 255;
  });
  const small = document.createElement("canvas");
  small.width = nColumns;
  small.height = nRows;
  small.getContext("2d").putImageData(picture, 0, 0);
  const context = canvas.getContext("2d");
  context.imageSmoothingEnabled = false;
  context.drawImage(small, 0, 0, canvas.width, canvas.height);
  return context;
}

function imageThumbnail(canvas, prepared, layer) {
  fitCanvas(canvas, prepared.shape[1] / prepared.shape[0], 320);
  paintImage(canvas, prepared, layer);
}

function imageViewer(root, prepared, readout) {
  const [nRows, nColumns] = prepared.shape;
  const canvas = root.querySelector("canvas");
  const cursor = [Math.floor(nColumns / 2), Math.floor(nRows / 2)];
  let layer = null;

  function draw() {
    if (!layer) return;
    fitCanvas(canvas, nColumns / nRows, 640);
    const context = paintImage(canvas, prepared, layer);
    const cell = canvas.width / nColumns;
    context.lineWidth = 2;
    context.strokeStyle = "#111";
    context.strokeRect(cursor[0] * cell - 1, cursor[1] * cell - 1, cell + 2, cell + 2);
    const number = prepared.index[cursor[1] * nColumns + cursor[0]];
    const what = number
      ? layer.describe(layer.map.values[number - 1] * layer.map.step)
      : "outside the mask";
    const place = prepared.axes.map(([name, labels], k) => `${name} ${labels[cursor[1 - k]] ?? cursor[1 - k]}`);
    readout.textContent = `${place.join(", ")}: ${what}`;
  }

  function place(column, row) {
    cursor[0] = Math.max(0, Math.min(nColumns - 1, column));
    cursor[1] = Math.max(0, Math.min(nRows - 1, row));
    draw();
  }

  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    place(Math.floor(((event.clientX - box.left) / box.width) * nColumns),
      Math.floor(((event.clientY - box.top) / box.height) * nRows));
  });
  keysMove(canvas, ([across, down]) => place(cursor[0] + across, cursor[1] + down));
  redrawOnResize(canvas, draw);
  return {
    show(next) {
      layer = next;
      draw();
    },
    goTo(feature) {
      const cell = prepared.index.indexOf(feature + 1);
      if (cell < 0) return false;
      place(cell % nColumns, Math.floor(cell / nColumns));
      return true;
    },
  };
}

async function prepareLine(view) {
  return { ...view, positions: await unpackSteps(view.positions) };
}

// Draws the curve, or one stroke per feature if they are not neighbours; x and y give the place on the canvas.
function paintCurve(context, { positions, joined }, layer, x, y) {
  context.strokeStyle = "#1f4e9c";
  context.beginPath();
  positions.forEach((position, k) => {
    const value = layer.map.values[k] * layer.map.step;
    const follows = joined && k > 0 && position === positions[k - 1] + 1;
    if (!joined) context.moveTo(x(position), y(0));
    else if (!follows) context.moveTo(x(position), y(value));
    context.lineTo(x(position), y(value));
  });
  context.stroke();
}

// Maps values between low and high to a range of places, and values beyond to its ends.
function mapping(low, high, first, last) {
  return (value) => first + ((Math.max(low, Math.min(high, value)) - low) / (high - low || 1)) * (last - first);
}

function lineThumbnail(canvas, prepared, layer) {
  canvas.classList.add("curve");
  fitCanvas(canvas, 2.8, 320);
  const { positions } = prepared;
  const context = canvas.getContext("2d");
  const x = mapping(positions[0], positions[positions.length - 1], 4, canvas.width - 4);
  const y = mapping(layer.scale.low, layer.scale.high, canvas.height - 4, 4);
  context.strokeStyle = "#999";
  context.strokeRect(4, y(0), canvas.width - 8, 0);
  context.lineWidth = 1.5;
  paintCurve(context, prepared, layer, x, y);
}

function lineViewer(root, prepared, readout) {
  const { positions, axis, names } = prepared;
  const canvas = root.querySelector("canvas");
  const n = positions.length;
  const first = positions[0];
  const last = Math.max(first + 1, positions[n - 1]);
  let cursor = 0;
  let layer = null;
  let margin = { left: 60, right: 12, top: 10, bottom: 34 };

  function draw() {
    if (!layer) return;
    const ratio = Math.min(2, window.devicePixelRatio || 1);
    fitCanvas(canvas, (canvas.clientWidth || 640) < 520 ? 1.5 : 2.6, 640);
    const context = canvas.getContext("2d");
    margin = { left: 62 * ratio, right: 12 * ratio, top: 10 * ratio, bottom: 36 * ratio };
    const { low, high } = layer.scale;
    const x = mapping(first, last, margin.left, canvas.width - margin.right);
    const y = mapping(low, high, canvas.height - margin.bottom, margin.top);
    context.clearRect(0, 0, canvas.width, canvas.height);
    drawAxes(context, x, y, low, high, ratio);
    context.lineWidth = 1.5 * ratio;
    paintCurve(context, prepared, layer, x, y);
    const value = layer.map.values[cursor] * layer.map.step;
    context.fillStyle = "#111";
    context.beginPath();
    context.arc(x(positions[cursor]), y(value), 4 * ratio, 0, 2 * Math.PI);
    context.fill();
    const name = names.length ? ` (${names[cursor]})` : "";
    readout.textContent = `${axis} ${positions[cursor]}${name}: ${layer.describe(value)}`;
  }

  function drawAxes(context, x, y, low, high, ratio) {
    context.font = `${12 * ratio}px system-ui, sans-serif`;
    context.fillStyle = "#333";
    context.strokeStyle = "#bbb";
    context.lineWidth = ratio;
    context.textBaseline = "middle";
    context.textAlign = "right";
    const marks = low < 0 ? [low, low / 2, 0, high / 2, high] : [0, high / 2, high];
    marks.forEach((mark) => {
      context.beginPath();
      context.moveTo(margin.left, y(mark));
      context.lineTo(canvas.width - margin.right, y(mark));
      context.stroke();
      context.fillText(formatNumber(mark, 2), margin.left - 6 * ratio, y(mark));
    });
    context.textBaseline = "top";
    [first, Math.round((first + last) / 2), last].forEach((mark, k) => {
      context.textAlign = ["left", "center", "right"][k];
      context.fillText(String(mark), x(mark), canvas.height - margin.bottom + 4 * ratio);
    });
    context.textAlign = "center";
    context.fillText(axis, (margin.left + canvas.width - margin.right) / 2, canvas.height - margin.bottom + 19 * ratio);
  }

  function place(next) {
    cursor = Math.max(0, Math.min(n - 1, next));
    draw();
  }

  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    const left = margin.left / canvas.width;
    const right = margin.right / canvas.width;
    const share = ((event.clientX - box.left) / box.width - left) / (1 - left - right);
    const wanted = first + share * (last - first);
    let nearest = 0;
    for (let k = 1; k < n; k += 1) {
      if (Math.abs(positions[k] - wanted) < Math.abs(positions[nearest] - wanted)) nearest = k;
    }
    place(nearest);
  });
  keysMove(canvas, ([across, down]) => place(cursor + across - down));
  redrawOnResize(canvas, draw);
  return {
    show(next) {
      layer = next;
      draw();
    },
    goTo(feature) {
      if (feature < 0 || feature >= n) return false;
      place(feature);
      return true;
    },
  };
}
