// Hemispheres in three dimensions. One WebGL context draws for all canvases: browsers allow only a few.

const SHADERS = {
  vertex: `#version 300 es
    in vec3 position; in vec3 normal; in vec3 colour;
    uniform mat3 turn; uniform vec3 centre; uniform vec2 zoom;
    out vec3 shade;
    void main() {
      vec3 place = turn * (position - centre);
      vec3 facing = turn * normal;
      float front = max(0.0, facing.z);
      float side = max(0.0, dot(facing, normalize(vec3(-0.5, 0.6, 0.4))));
      shade = colour * (0.42 + 0.42 * front + 0.22 * side);
      gl_Position = vec4(place.xy * zoom, -place.z / 400.0, 1.0);
    }`,
  fragment: `#version 300 es
    precision mediump float;
    in vec3 shade; out vec4 pixel;
    void main() { pixel = vec4(min(shade, vec3(1.0)), 1.0); }`,
};

// azimuth and elevation of the eye, in degrees, and which hemispheres are there
const PRESETS = {
  "left outside": { azimuth: 180, elevation: 0, sides: ["left"] },
  "left inside": { azimuth: 0, elevation: 0, sides: ["left"] },
  "right outside": { azimuth: 0, elevation: 0, sides: ["right"] },
  "right inside": { azimuth: 180, elevation: 0, sides: ["right"] },
  top: { azimuth: -90, elevation: 90, sides: ["left", "right"] },
  bottom: { azimuth: 90, elevation: -90, sides: ["left", "right"] },
  front: { azimuth: 90, elevation: 0, sides: ["left", "right"] },
  back: { azimuth: -90, elevation: 0, sides: ["left", "right"] },
};
// Greys of vertices without a loading.
const GYRUS = 209;
const SULCUS = 168;
const OUTSIDE = 122;

async function prepareSurface(view) {
  const hemispheres = [];
  for (const side of view.hemispheres) {
    const vertices = await unpackSteps(side.vertices);
    const relative = new Int32Array(await unpackBytes(side.triangles));
    const triangles = new Uint32Array(relative.length);
    const count = relative.length / 3;
    for (let k = 0, corner = 0; k < count; k += 1) {
      corner += relative[k];
      triangles[3 * k] = corner;
      triangles[3 * k + 1] = corner + relative[count + k];
      triangles[3 * k + 2] = corner + relative[2 * count + k];
    }
    const sulci = side.sulci && new Uint8Array(await unpackBytes(side.sulci));
    const shapes = [];
    for (const shape of side.shapes) {
      const coords = await unpackPositions(shape);
      shapes.push({ coords, normals: vertexNormals(coords, triangles) });
    }
    hemispheres.push({ ...side, vertices, triangles, sulci, shapes });
  }
  // all viewers of the page show the same shape
  return { ...view, hemispheres, shape: 0, watchers: [], painter: surfacePainter(hemispheres) };
}

async function unpackPositions({ low, step, coords }) {
  const raw = new Uint16Array(await unpackBytes(coords));
  const n = raw.length / 3;
  const places = new Float32Array(raw.length);
  for (let k = 0; k < n; k += 1) {
    for (let axis = 0; axis < 3; axis += 1) places[3 * k + axis] = low[axis] + step[axis] * raw[axis * n + k];
  }
  return places;
}

function vertexNormals(coords, triangles) {
  const normals = new Float32Array(coords.length);
  for (let k = 0; k < triangles.length; k += 3) {
    const a = 3 * triangles[k];
    const b = 3 * triangles[k + 1];
    const c = 3 * triangles[k + 2];
    const ex = coords[b] - coords[a], ey = coords[b + 1] - coords[a + 1], ez = coords[b + 2] - coords[a + 2];
    const fx = coords[c] - coords[a], fy = coords[c + 1] - coords[a + 1], fz = coords[c + 2] - coords[a + 2];
    for (let corner = 0; corner < 3; corner += 1) {
      const place = 3 * triangles[k + corner];
      normals[place] += ey * fz - ez * fy;
      normals[place + 1] += ez * fx - ex * fz;
      normals[place + 2] += ex * fy - ey * fx;
    }
  }
  let outwards = 0;
  const centre = [0, 1, 2].map((axis) => meanOf(coords, axis));
  for (let k = 0; k < normals.length; k += 3) {
    const length = Math.hypot(normals[k], normals[k + 1], normals[k + 2]) || 1;
    for (let axis = 0; axis < 3; axis += 1) {
      normals[k + axis] /= length;
      outwards += normals[k + axis] * (coords[k + axis] - centre[axis]);
    }
  }
  // some files list the corners of triangles the other way round
  if (outwards < 0) for (let k = 0; k < normals.length; k += 1) normals[k] = -normals[k];
  return normals;
}

function meanOf(coords, axis) {
  let sum = 0;
  for (let k = axis; k < coords.length; k += 3) sum += coords[k];
  return (3 * sum) / coords.length;
}

function turnMatrix(azimuth, elevation) {
  const a = (azimuth * Math.PI) / 180;
  const e = (elevation * Math.PI) / 180;
  const right = [-Math.sin(a), Math.cos(a), 0];
  const up = [-Math.sin(e) * Math.cos(a), -Math.sin(e) * Math.sin(a), Math.cos(e)];
  const towards = [Math.cos(e) * Math.cos(a), Math.cos(e) * Math.sin(a), Math.sin(e)];
  return [right, up, towards];
}

// What is in view: the middle of the hemispheres shown, and how far they reach from it.
function framing(hemispheres, shape) {
  const low = [Infinity, Infinity, Infinity];
  const high = [-Infinity, -Infinity, -Infinity];
  for (const side of hemispheres) {
    const { coords } = side.shapes[shape];
    for (let k = 0; k < coords.length; k += 1) {
      low[k % 3] = Math.min(low[k % 3], coords[k]);
      high[k % 3] = Math.max(high[k % 3], coords[k]);
    }
  }
  const centre = low.map((value, axis) => (value + high[axis]) / 2);
  const reach = Math.max(...low.map((value, axis) => high[axis] - value)) / 2;
  return { centre, reach };
}

function surfacePainter(hemispheres) {
  const canvas = document.createElement("canvas");
  const gl = canvas.getContext("webgl2", { antialias: true, preserveDrawingBuffer: true, alpha: true });
  if (!gl) return null;
  const program = gl.createProgram();
  for (const [kind, source] of [[gl.VERTEX_SHADER, SHADERS.vertex], [gl.FRAGMENT_SHADER, SHADERS.fragment]]) {
    const shader = gl.createShader(kind);
    gl.shaderSource(shader, source);
    gl.compileShader(shader);
    gl.attachShader(program, shader);
  }
  gl.linkProgram(program);
  if (!gl.getProgramParameter(program, gl.LINK_STATUS)) return null;
  gl.useProgram(program);
  gl.enable(gl.DEPTH_TEST);
  const uniform = (name) => gl.getUniformLocation(program, name);
  const attribute = (name, size, kind, normalised) => {
    const place = gl.getAttribLocation(program, name);
    gl.enableVertexAttribArray(place);
    gl.vertexAttribPointer(place, size, kind, normalised, 0, 0);
  };
  const filled = (target, values, use) => {
    const buffer = gl.createBuffer();
    gl.bindBuffer(target, buffer);
    gl.bufferData(target, values, use);
    return buffer;
  };
  const meshes = new Map(hemispheres.map((side) => {
    const colours = filled(gl.ARRAY_BUFFER, side.shapes[0].coords.length, gl.DYNAMIC_DRAW);
    const triangles = filled(gl.ELEMENT_ARRAY_BUFFER, side.triangles, gl.STATIC_DRAW);
    const arrays = side.shapes.map(({ coords, normals }) => {
      const array = gl.createVertexArray();
      gl.bindVertexArray(array);
      for (const [name, values] of [["position", coords], ["normal", normals]]) {
        filled(gl.ARRAY_BUFFER, values, gl.STATIC_DRAW);
        attribute(name, 3, gl.FLOAT, false);
      }
      gl.bindBuffer(gl.ARRAY_BUFFER, colours);
      attribute("colour", 3, gl.UNSIGNED_BYTE, true);
      gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, triangles);
      gl.bindVertexArray(null);
      return array;
    });
    return [side.name, { arrays, colours, count: side.triangles.length, owner: null }];
  }));

  // Draw hemispheres with the colours of `owner` and copy the picture to a canvas of the page.
  return function paint(target, owner, sides, pose) {
    canvas.width = target.width;
    canvas.height = target.height;
    gl.viewport(0, 0, canvas.width, canvas.height);
    gl.clearColor(0, 0, 0, 0);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    gl.uniformMatrix3fv(uniform("turn"), true, pose.turn.flat());
    gl.uniform3fv(uniform("centre"), pose.centre);
    const zoom = 0.95 / pose.reach;
    const aspect = canvas.width / canvas.height;
    gl.uniform2fv(uniform("zoom"), aspect > 1 ? [zoom / aspect, zoom] : [zoom, zoom * aspect]);
    for (const side of sides) {
      const mesh = meshes.get(side.name);
      gl.bindVertexArray(mesh.arrays[pose.shape]);
      if (mesh.owner !== owner.key) {
        gl.bindBuffer(gl.ARRAY_BUFFER, mesh.colours);
        gl.bufferSubData(gl.ARRAY_BUFFER, 0, owner.colours(side));
        mesh.owner = owner.key;
      }
      gl.drawElements(gl.TRIANGLES, mesh.count, gl.UNSIGNED_INT, 0);
    }
    const context = target.getContext("2d");
    context.clearRect(0, 0, target.width, target.height);
    context.drawImage(canvas, 0, 0);
  };
}

function vertexColours(side, layer) {
  const colours = new Uint8Array(side.shapes[0].coords.length).fill(OUTSIDE);
  side.vertices.forEach((vertex, k) => {
    const value = layer.map.values[side.start + k];
    const colour = layer.scale.at(value * layer.map.step);
    const grey = side.sulci && side.sulci[vertex] ? SULCUS : GYRUS;
    for (let channel = 0; channel < 3; channel += 1) {
      colours[3 * vertex + channel] = value ? layer.scale.table[colour + channel] : grey;
    }
  });
  return colours;
}

let surfaceOwners = 0;

// The colours of a layer on every hemisphere, made when they are first needed; the key identifies the layer.
function surfaceOwner(layer) {
  surfaceOwners += 1;
  const cache = new Map();
  return {
    key: surfaceOwners,
    colours(side) {
      if (!cache.has(side.name)) cache.set(side.name, vertexColours(side, layer));
      return cache.get(side.name);
    },
  };
}

function poseOf({ hemispheres, shape }, { azimuth, elevation, sides }) {
  const shown = hemispheres.filter((side) => sides.includes(side.name));
  return { shown, shape, turn: turnMatrix(azimuth, elevation), ...framing(shown, shape) };
}

// Every hemisphere from outside and from inside.
function surfaceThumbnail(canvas, prepared, layer) {
  const { hemispheres, painter } = prepared;
  if (!painter) return;
  const names = hemispheres.flatMap(({ name }) => [`${name} outside`, `${name} inside`]);
  // seen from the side, a brain leaves the top and the bottom of a square empty
  const filled = 0.76;
  fitCanvas(canvas, names.length / filled, 320);
  const owner = surfaceOwner(layer);
  const one = document.createElement("canvas");
  one.width = one.height = Math.floor(canvas.width / names.length);
  names.forEach((name, k) => {
    const pose = poseOf(prepared, PRESETS[name]);
    painter(one, owner, pose.shown, pose);
    canvas.getContext("2d").drawImage(one, k * one.width, (-(1 - filled) / 2) * one.height);
  });
}

function surfaceViewer(root, prepared, readout) {
  const { hemispheres, painter } = prepared;
  const large = root.querySelector("canvas[data-large]");
  const buttons = Array.from(root.querySelectorAll("button[data-preset]"));
  const present = hemispheres.map((side) => side.name);
  let layer = null;
  let owner = null;
  let marked = null;
  const state = { azimuth: 180, elevation: 0, sides: present.slice(0, 1) };

  if (!painter) {
    readout.textContent = "This browser shows no WebGL, which the surface needs.";
    return { show() {}, goTo: () => false };
  }

  const pose = (view) => poseOf(prepared, view);

  function draw() {
    if (!layer) return;
    fitCanvas(large, 1.4, 720);
    const now = pose(state);
    painter(large, owner, now.shown, now);
    drawMark(now);
  }

  function drawThumbnails() {
    for (const button of buttons) {
      const canvas = button.querySelector("canvas");
      const preset = PRESETS[button.dataset.preset];
      const now = pose({ ...preset, sides: preset.sides.filter((side) => present.includes(side)) });
      fitCanvas(canvas, 1.25, 150);
      painter(canvas, owner, now.shown, now);
    }
  }

  function project(side, vertex, now) {
    const scale = (0.95 / now.reach) * (Math.min(large.width, large.height) / 2);
    const { coords } = side.shapes[now.shape];
    const place = [0, 1, 2].map((axis) => coords[3 * vertex + axis] - now.centre[axis]);
    const [x, y, z] = now.turn.map((row) => row.reduce((sum, entry, axis) => sum + entry * place[axis], 0));
    return [large.width / 2 + x * scale, large.height / 2 - y * scale, z];
  }

  function drawMark(now) {
    if (!marked || !now.shown.includes(marked.side)) return;
    const [x, y] = project(marked.side, marked.vertex, now);
    const context = large.getContext("2d");
    context.lineWidth = 3;
    context.strokeStyle = "#000";
    context.beginPath();
    context.arc(x, y, 9, 0, 2 * Math.PI);
    context.stroke();
    context.lineWidth = 1.5;
    context.strokeStyle = "#fff";
    context.stroke();
  }

  function showPlace({ side, vertex }) {
    const feature = side.vertices.indexOf(vertex);
    // places in millimetres are those of the mesh of the fit
    const { coords } = side.shapes.at(-1);
    const where = [0, 1, 2].map((axis) => `${"xyz"[axis]} ${formatNumber(Math.round(10 * coords[3 * vertex + axis]) / 10, 4)}`);
    const what = feature < 0
      ? "outside the mask"
      : layer.describe(layer.map.values[side.start + feature] * layer.map.step);
    readout.textContent = `${side.name} hemisphere, ${where.join(", ")} mm: ${what}`;
  }

  function mark(side, vertex) {
    marked = { side, vertex };
    showPlace(marked);
    draw();
  }

  function turn(across, up) {
    state.azimuth = (state.azimuth + across + 540) % 360 - 180;
    state.elevation = Math.max(-90, Math.min(90, state.elevation + up));
    draw();
  }

  function pick(event) {
    const box = large.getBoundingClientRect();
    const wanted = [(event.clientX - box.left) * (large.width / box.width),
      (event.clientY - box.top) * (large.height / box.height)];
    const now = pose(state);
    let best = null;
    for (const side of now.shown) {
      for (let vertex = 0; vertex < side.shapes[0].coords.length / 3; vertex += 1) {
        const [x, y, depth] = project(side, vertex, now);
        if (Math.hypot(x - wanted[0], y - wanted[1]) < 10 && (!best || depth > best.depth)) {
          best = { side, vertex, depth };
        }
      }
    }
    if (best) mark(best.side, best.vertex);
  }

  let moved = 0;
  large.addEventListener("pointerdown", (event) => {
    large.setPointerCapture(event.pointerId);
    moved = 0;
  });
  large.addEventListener("pointermove", (event) => {
    if (!(event.buttons & 1)) return;
    moved += Math.abs(event.movementX) + Math.abs(event.movementY);
    turn(-0.5 * event.movementX, 0.5 * event.movementY);
  });
  large.addEventListener("pointerup", (event) => {
    if (moved < 4) pick(event);
  });
  keysMove(large, ([across, down]) => turn(-10 * across, -10 * down));
  for (const button of root.querySelectorAll("button[data-turn]")) {
    const [across, up] = button.dataset.turn.split(",").map(Number);
    button.addEventListener("click", () => turn(across, up));
  }
  for (const button of buttons) {
    const preset = PRESETS[button.dataset.preset];
    const sides = preset.sides.filter((side) => present.includes(side));
    if (!sides.length) button.remove();
    button.addEventListener("click", () => {
      Object.assign(state, preset, { sides });
      draw();
    });
  }
  const shapes = Array.from(root.querySelectorAll("input[data-shape]"));
  prepared.watchers.push(() => {
    shapes.forEach((radio, k) => {
      radio.checked = k === prepared.shape;
    });
    drawThumbnails();
    draw();
  });
  shapes.forEach((radio, k) => {
    radio.checked = k === prepared.shape; // browsers remember the last choice
    radio.addEventListener("change", () => {
      prepared.shape = k;
      prepared.watchers.forEach((watcher) => watcher());
    });
  });
  redrawOnResize(large, draw);
  return {
    show(next) {
      layer = next;
      owner = surfaceOwner(layer);
      if (marked) showPlace(marked);
      drawThumbnails();
      draw();
    },
    goTo(feature) {
      const side = hemispheres.find((one) => feature >= one.start && feature < one.stop);
      if (!side) return false;
      const vertex = side.vertices[feature - side.start];
      const normal = Array.from(side.shapes[prepared.shape].normals.slice(3 * vertex, 3 * vertex + 3));
      // from outside or inside, whichever the vertex looks to
      const outwards = (normal[0] > 0) === (side.name === "right");
      Object.assign(state, PRESETS[`${side.name} ${outwards ? "outside" : "inside"}`], { sides: [side.name] });
      mark(side, vertex);
      return true;
    },
  };
}
