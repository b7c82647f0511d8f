(function () {
  "use strict";
  const host = document.getElementById("viewer");
  const structures = JSON.parse(document.getElementById("structures").textContent);
  let viewer = null;
  try {
    viewer = $3Dmol.createViewer(host, { backgroundColor: "white", antialias: true, disableFog: true });
  } catch (error) {
    viewer = null;
  }
  if (!viewer) {
    host.textContent = "This browser cannot show 3-D graphics (WebGL); the structures are in evaluation.npz.";
    return;
  }
  const buttons = Array.from(document.querySelectorAll("button.basin"));
  function show(place, keep) {
    const view = keep ? viewer.getView() : null;
    viewer.removeAllModels();
    // Without keepH the hydrogens are dropped.
    viewer.addModel(structures[place].pdb, "pdb", { keepH: true });
    viewer.setStyle({}, { stick: { radius: 0.13, colorscheme: "Jmol" }, sphere: { scale: 0.24, colorscheme: "Jmol" } });
    if (view) { viewer.setView(view); } else { viewer.zoomTo(); }
    viewer.render();
    buttons.forEach((button) => {
      button.setAttribute("aria-pressed", String(Number(button.dataset.structure) === place));
    });
    host.setAttribute("aria-label", "Structure of the basin " + structures[place].name + ", to be turned with the mouse or a finger");
  }
  buttons.forEach((button) => {
    button.addEventListener("click", () => show(Number(button.dataset.structure), true));
  });
  show(0, false);
  window.addEventListener("resize", () => viewer.resize());
  // A canvas of WebGL prints blank: a picture of it takes its place on paper.
  window.addEventListener("beforeprint", () => {
    const image = document.getElementById("viewer-print");
    image.src = viewer.pngURI();
    image.classList.add("printed");
    host.classList.add("printed");
  });
  window.boltzportViewer = viewer;
})();
