// Tabs as the WAI-ARIA pattern has them: arrow keys, Home and End move; without this script all panels show.
// The address names the open panel, so that links such as #component-2 open a tab and can be shared.

function setUpTabs(root) {
  const tabs = Array.from(root.querySelectorAll('[role="tab"]'));
  const panels = tabs.map((tab) => document.getElementById(tab.getAttribute("aria-controls")));

  function select(chosen) {
    tabs.forEach((tab, k) => {
      const active = k === chosen;
      tab.setAttribute("aria-selected", String(active));
      tab.tabIndex = active ? 0 : -1;
      panels[k].classList.toggle("is-hidden", !active);
    });
  }

  function choose(chosen, focus) {
    select(chosen);
    if (focus) tabs[chosen].focus();
    try {
      history.replaceState(null, "", `#${panels[chosen].id}`);
    } catch {
      // the frame of a notebook has no address of its own
    }
  }

  // Opens the panel that holds the target of a link; false if none does.
  function follow(hash) {
    const target = document.getElementById(decodeURIComponent(hash.slice(1)));
    const chosen = panels.findIndex((panel) => panel.contains(target));
    if (chosen < 0) return;
    select(chosen);
    target.scrollIntoView();
  }

  tabs.forEach((tab, k) => {
    tab.addEventListener("click", () => choose(k, false));
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
        choose(moves[event.key], true);
      }
    });
  });
  root.querySelector('[role="tablist"]').hidden = false;
  select(0);
  follow(location.hash);
  window.addEventListener("hashchange", () => follow(location.hash));
  // a link to where the address already points changes nothing else
  document.addEventListener("click", (event) => {
    const link = event.target.closest('a[href^="#"]');
    if (link) follow(link.hash);
  });
}
