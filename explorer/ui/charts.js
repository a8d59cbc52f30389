// Two buttons that make a picture of a chart on the page, with the Plotly that draws it.
const FORMATS = ["png", "svg"];

export default function (component) {
  const { parentElement, data } = component;
  parentElement.replaceChildren(style(), ...FORMATS.map((format) => button(format, data)));
}

function style() {
  const element = document.createElement("style");
  element.textContent = `
    button {
      font: inherit; color: inherit; background: transparent; cursor: pointer;
      border: 1px solid currentColor; border-radius: 0.25rem;
      padding: 0.4rem 0.75rem; margin: 0 0.5rem 0 0;
    }
    button:hover, button:focus-visible { text-decoration: underline; }
  `;
  return element;
}

function button(format, data) {
  const element = document.createElement("button");
  element.type = "button";
  element.textContent = format.toUpperCase();
  element.setAttribute("aria-label", `${format.toUpperCase()}: ${data.alt}`);
  element.addEventListener("click", () => picture(format, data));
  return element;
}

// Plotly is bundled with Streamlit and has no name here: its own button takes the picture, and
// reads the format at the moment of the click.
function picture(format, data) {
  const plot = document.querySelector(`.${data.place} .js-plotly-plot`);
  const camera = plot?.querySelector('.modebar-btn[data-title*="ownload"]');
  if (!camera) return;
  const kept = plot._context.toImageButtonOptions;
  plot._context.toImageButtonOptions = { format, filename: data.name, scale: data.scale };
  window.addEventListener("click", unseen, true);
  camera.dispatchEvent(new MouseEvent("click", { bubbles: false }));
  plot._context.toImageButtonOptions = kept;
}

// Plotly saves by a click on a link of its own, which the open list would take for one beside it.
function unseen(event) {
  if (!event.target.download) return;
  event.stopPropagation();
  window.removeEventListener("click", unseen, true);
}
