// Shows the values under the pointer. The chart's data are in the JSON beside each picture.
for (const figure of document.querySelectorAll("figure")) {
  const traces = JSON.parse(figure.querySelector("script").textContent);
  const svg = figure.querySelector("svg");
  const cursor = svg.querySelector(".cursor");
  const tip = figure.querySelector(".tip");
  const nearest = (trace, x) => {
    let best = -1, distance = 24;
    trace.at.forEach(([at], index) => {
      const d = Math.abs(at - x);
      if (d < distance) { distance = d; best = index; }
    });
    return best;
  };
  const hide = () => { cursor.style.visibility = tip.style.visibility = "hidden"; };
  svg.addEventListener("pointerleave", hide);
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const x = (event.clientX - box.left) * svg.viewBox.baseVal.width / box.width;
    let at = null;
    tip.replaceChildren();
    for (const trace of traces) {
      const index = nearest(trace, x);
      if (index < 0) continue;
      if (at === null) {
        at = trace.at[index][0];
        const head = document.createElement("b");
        head.textContent = trace.label[index];
        tip.append(head);
      }
      const row = document.createElement("div");
      const dot = document.createElement("i");
      dot.style.background = `var(--c${trace.colour})`;
      row.append(dot, `${trace.name}  ${trace.text[index]}`);
      tip.append(row);
    }
    if (at === null) return hide();
    cursor.setAttribute("x1", at);
    cursor.setAttribute("x2", at);
    const left = at / svg.viewBox.baseVal.width * box.width;
    const flip = left > box.width * 0.6;
    tip.style.left = flip ? "auto" : `${left + 12}px`;
    tip.style.right = flip ? `${box.width - left + 12}px` : "auto";
    cursor.style.visibility = tip.style.visibility = "visible";
  });
}
