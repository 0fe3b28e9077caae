// Tabs as the WAI-ARIA pattern has them: arrow keys, Home and End move; without this script all panels show.

function setUpTabs(root) {
  const tabs = Array.from(root.querySelectorAll('[role="tab"]'));
  const panels = tabs.map((tab) => document.getElementById(tab.getAttribute("aria-controls")));

  function select(chosen, focus) {
    tabs.forEach((tab, k) => {
      const active = k === chosen;
      tab.setAttribute("aria-selected", String(active));
      tab.tabIndex = active ? 0 : -1;
      panels[k].classList.toggle("is-hidden", !active);
    });
    if (focus) tabs[chosen].focus();
  }

  tabs.forEach((tab, k) => {
    tab.addEventListener("click", () => select(k, false));
    tab.addEventListener("keydown", (event) => {
      const last = tabs.length - 1;
      const moves = {
        ArrowRight: k === last ? 0 : k + 1,
        ArrowLeft: k === 0 ? last : k - 1,
        Home: 0,
        End: last,
      };
      if (event.key in moves) {
        event.preventDefault();
        select(moves[event.key], true);
      }
    });
  });
  root.querySelector('[role="tablist"]').hidden = false;
  select(0, false);
}
