// Settings explorer: two sliders and a heat map choose the setting, whose map, figures and commands are shown.

// Colours of the heat map from the lowest to the highest value; the ink is readable on all of them.
const COOL = [[247, 251, 255], [107, 174, 214]];

async function start() {
  const page = document.documentElement;
  const data = await readData();
  const query = (selector) => document.querySelector(selector);
  const viewers = viewersIn(document, data);
  const sliders = ["sparsity", "smoothness"].map((name) => query(`[data-slider="${name}"]`));
  const cells = Array.from(document.querySelectorAll("[data-setting]"));
  const shared = query("[data-shared-scale]");
  const chooser = query("[data-measure]");
  const nColumns = data.labels.sparsity.length;
  let chosen = data.recommended;
  let component = 0;

  // Every map is unpacked once, when it is first needed.
  const maps = new Map();
  function mapOf(setting, k) {
    const key = `${setting} ${k}`;
    if (!maps.has(key)) maps.set(key, unpackMap(data.settings[setting].maps[k]));
    return maps.get(key);
  }

  async function showMap() {
    const wanted = `${chosen} ${component}`;
    page.dataset.wanted = wanted;
    const maps = { loading: await mapOf(chosen, component) };
    if (page.dataset.wanted !== wanted) return; // the sliders have moved on
    const top = shared.checked ? data.top : data.settings[chosen].tops[component] || data.top;
    const layer = layerOf(data, maps, "loading", top);
    viewers.forEach((viewer) => viewer.show(layer));
    showLegend(query(".picture"), layer);
    page.dataset.shown = wanted;
  }

  // Every view moves to the largest loading, if it holds that place.
  function goToPeak() {
    viewers.forEach((viewer) => viewer.goTo(data.settings[chosen].peaks[component]));
  }

  function showFigures() {
    const setting = data.settings[chosen];
    for (const measure of data.measures) query(`[data-figure="${measure.key}"]`).textContent = measure.texts[chosen];
    query("[data-sentence]").textContent = setting.sentences[component];
    query("[data-is-recommended]").hidden = chosen !== data.recommended;
    query("[data-is-other]").hidden = chosen === data.recommended;
    for (const [id, text] of Object.entries(setting.commands)) document.getElementById(id).textContent = text;
    sliders.forEach((slider, k) => {
      const place = k ? Math.floor(chosen / nColumns) : chosen % nColumns;
      const label = data.labels[slider.id][place];
      slider.value = place;
      slider.setAttribute("aria-valuetext", label);
      query(`output[for="${slider.id}"]`).textContent = label;
    });
  }

  function showCells() {
    const measure = data.measures.find((one) => one.key === chooser.value);
    cells.forEach((cell, number) => {
      const [low, high] = COOL;
      const colour = low.map((value, k) => Math.round(value + (measure.levels[number] || 0) * (high[k] - value)));
      const star = number === data.recommended;
      cell.style.backgroundColor = `rgb(${colour.join(", ")})`;
      cell.textContent = measure.short[number] + (star ? " ★" : "");
      cell.setAttribute("aria-pressed", String(number === chosen));
      cell.setAttribute("aria-label", `${data.settings[number].name}: ${measure.texts[number]}${star ? ", recommended" : ""}`);
      cell.tabIndex = number === chosen ? 0 : -1;
    });
  }

  function choose(setting) {
    chosen = setting;
    showFigures();
    showCells();
    return showMap();
  }

  sliders.forEach((slider, k) => slider.addEventListener("input", () => {
    const place = Number(slider.value);
    choose(k ? place * nColumns + (chosen % nColumns) : Math.floor(chosen / nColumns) * nColumns + place);
  }));
  for (const radio of document.querySelectorAll('input[name="component"]')) {
    radio.addEventListener("change", async () => {
      component = Number(radio.value);
      showFigures();
      await showMap();
      goToPeak();
    });
  }
  cells.forEach((cell, number) => {
    cell.addEventListener("click", () => choose(number));
    keysMove(cell, ([right, down]) => {
      const within = (value, n) => Math.max(0, Math.min(n - 1, value));
      const column = within((number % nColumns) + right, nColumns);
      const row = within(Math.floor(number / nColumns) + down, cells.length / nColumns);
      choose(row * nColumns + column);
      cells[row * nColumns + column].focus();
    });
  });
  chooser.addEventListener("change", showCells);
  shared.addEventListener("change", showMap);
  query("[data-peak]").addEventListener("click", goToPeak);
  query("[data-recommended]").addEventListener("click", () => {
    choose(data.recommended);
    cells[data.recommended].focus(); // the button is hidden now
  });
  query('input[name="component"]').checked = true; // browsers remember the last choice
  shared.checked = false;
  await choose(chosen);
  goToPeak();
  page.dataset.ready = "true";
  for (const setting of data.settings.keys()) await mapOf(setting, component);
}

start();
