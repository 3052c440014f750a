// A set that you edit: drag a handle to move its half-plane, double-click or double-tap for a new one, drag it to the middle to drop it.
import { clip, halfPlane, nearest, rays, shrink, steps, vertices } from "./geometry.js";

const REACH = 4; // the picture shows -4 .. 4
const MAPS = { shrink, steps, nearest };
const TEXTS = {
  shrink: "A point outside moves towards the centre until it is feasible.",
  steps: "A few steps towards the nearest point, then a shrink.",
  nearest: "A point outside goes to the nearest feasible point.",
};
const DOT = matchMedia("(prefers-color-scheme: dark)").matches ? "#b5e2ff" : "#0072b2";

export function start() {
  const canvas = document.getElementById("polygon");
  const method = document.getElementById("method");
  const slider = document.getElementById("steps");
  const handles = [[1.6, 0.4], [-1.2, 1.5], [-0.9, -1.4], [1.1, -1.5]];
  let held = -1;
  let tapped = -Infinity; // when a finger last touched the canvas

  const draw = () => {
    document.getElementById("steps-value").textContent = slider.value;
    document.getElementById("steps-box").hidden = method.value !== "steps";
    document.getElementById("method-text").textContent = TEXTS[method.value];
    const rows = handles.map(halfPlane);
    document.getElementById("counts").textContent =
      `${rows.length} half-planes, ${vertices(rows).length} vertices, ${rays(rows).length} rays`;
    paint(canvas, handles, rows, (x) => MAPS[method.value](rows, x, Number(slider.value)));
  };
  const place = (event) => {
    const box = canvas.getBoundingClientRect();
    const unit = (v, size) => (v / size) * 2 * REACH - REACH;
    return [unit(event.clientX - box.left, box.width), -unit(event.clientY - box.top, box.height)];
  };
  const closest = (p) => {
    const distances = handles.map((h) => Math.hypot(h[0] - p[0], h[1] - p[1]));
    const best = distances.indexOf(Math.min(...distances));
    return distances[best] < 0.35 ? best : -1;
  };
  const add = (event) => {
    const p = place(event);
    if (Math.hypot(...p) >= 0.12 && closest(p) < 0) handles.push(p);
    draw();
  };
  canvas.addEventListener("pointerdown", (event) => {
    if (event.pointerType === "touch" && event.timeStamp - tapped < 350) add(event); // no dblclick on some phones
    tapped = event.timeStamp;
    held = closest(place(event));
    if (held >= 0) canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (held < 0 || !event.buttons) return;
    const p = place(event);
    if (Math.hypot(...p) < 0.12 && handles.length > 1) {
      handles.splice(held, 1); // dropped in the middle
      held = -1;
    } else if (Math.hypot(...p) >= 0.12) handles[held] = p;
    draw();
  });
  canvas.addEventListener("pointerup", () => (held = -1));
  canvas.addEventListener("dblclick", add);
  method.addEventListener("change", draw);
  slider.addEventListener("input", draw);
  draw();
}

function paint(canvas, handles, rows, into) {
  const context = canvas.getContext("2d");
  const scale = canvas.width / (2 * REACH);
  const at = ([x, y]) => [(x + REACH) * scale, (REACH - y) * scale];
  const dotAt = (p, radius, color) => {
    context.fillStyle = color;
    context.beginPath();
    context.arc(...at(p), radius, 0, 7);
    context.fill();
  };
  context.clearRect(0, 0, canvas.width, canvas.height);
  context.fillStyle = "#56b4e955";
  context.beginPath();
  clip(rows, REACH).forEach((p, i) => (i ? context.lineTo(...at(p)) : context.moveTo(...at(p))));
  context.fill();
  for (let i = -12; i <= 12; i++) for (let j = -12; j <= 12; j++) dotAt(into([(i * REACH) / 12, (j * REACH) / 12]), 2, DOT);
  context.strokeStyle = "#009e73";
  context.lineWidth = 3;
  for (const [x, y] of rays(rows)) {
    const [from] = vertices(rows).length ? vertices(rows).filter((v) => onEdge(rows, v, [x, y])) : [[0, 0]];
    if (!from) continue;
    context.beginPath();
    context.moveTo(...at(from));
    context.lineTo(...at([from[0] + 2 * REACH * x, from[1] + 2 * REACH * y]));
    context.stroke();
  }
  vertices(rows).forEach((v) => dotAt(v, 6, "#009e73"));
  handles.forEach((h) => dotAt(h, 8, "#d55e00"));
}

/** Whether the ray leaves the vertex along an edge. */
const onEdge = (rows, v, [x, y]) =>
  rows.some(({ normal, offset }) => {
    const [a, b] = normal;
    return Math.abs(a * v[0] + b * v[1] - offset) < 1e-6 && Math.abs(a * x + b * y) < 1e-9;
  });
