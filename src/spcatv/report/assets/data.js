// Arrays out of the page: base64, zlib, little-endian; and the maps, each unpacked when it is first needed.

async function unpackBytes(text) {
  const packed = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).arrayBuffer();
}

// Integers that were written as steps from one to the next.
async function unpackSteps(text) {
  const values = new Int32Array(await unpackBytes(text));
  for (let k = 1; k < values.length; k += 1) values[k] += values[k - 1];
  return values;
}

// A map is {step, values, bits}: the value of feature j is step * values[j], with 16 bits, or 8 if `bits` is 8.
async function unpackMap(map) {
  const bytes = await unpackBytes(map.values);
  return { step: map.step, values: map.bits === 8 ? new Int8Array(bytes) : new Int16Array(bytes) };
}

function formatNumber(value, digits = 3) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  const text = size >= 1e-4 && size < 1e6 ? String(Number(value.toPrecision(digits))) : value.toExponential(digits - 1);
  return text.replace(/-/g, "\u2212");
}

// Colours of a layer: a table of 256 colours between two values; zero is shown as nothing.
function colourScale(table, low, high) {
  const factor = 255 / (high - low);
  return {
    low,
    high,
    at(value) {
      const place = Math.round((value - low) * factor);
      return 3 * Math.max(0, Math.min(255, place));
    },
    // how far a value is from zero, 1 at the end of the scale
    strength(value) {
      return Math.abs(value) / Math.max(Math.abs(low), Math.abs(high));
    },
    table,
  };
}

// The size of a canvas in device pixels, kept in step with its size on the page.
function fitCanvas(canvas, aspect, fallbackWidth) {
  const width = Math.round((canvas.clientWidth || fallbackWidth) * Math.min(2, window.devicePixelRatio || 1));
  const height = Math.round(width / aspect);
  if (canvas.width !== width || canvas.height !== height) {
    canvas.width = width;
    canvas.height = height;
  }
}

// Calls draw when the canvas gets another width on the page.
function redrawOnResize(canvas, draw) {
  let width = canvas.clientWidth;
  new ResizeObserver(() => {
    if (canvas.clientWidth !== width) {
      width = canvas.clientWidth;
      if (width > 0) draw();
    }
  }).observe(canvas);
}

// Arrow keys as steps (right, down), ten times as far with Shift.
function keysMove(canvas, move) {
  canvas.addEventListener("keydown", (event) => {
    const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    if (event.key in steps) {
      event.preventDefault();
      const many = event.shiftKey ? 10 : 1;
      move(steps[event.key].map((step) => many * step));
    }
  });
}
