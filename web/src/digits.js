// The latent plane: drag a point, see the digit with and without the rule, and what it breaks in exact arithmetic.
import * as ort from "onnxruntime-web/wasm";
import { toNumber, violation } from "./exact.js";

const SIDE = 28;
const SPAN = 2.5; // the plane shows -2.5 .. 2.5 in both latent coordinates

export async function start() {
  ort.env.wasm.numThreads = 1; // no shared memory: the page may be opened from any server
  ort.env.wasm.wasmPaths = new URL("./", import.meta.url).href;
  const load = (name) => ort.InferenceSession.create(new URL(`./models/${name}.onnx`, import.meta.url).href);
  const models = { free: await load("free"), held: await load("constrained") };
  const plane = document.getElementById("plane");
  let z = [0.4, -0.3];
  let busy = false;
  let again = false;

  async function update() {
    if (busy) return void (again = true);
    busy = true;
    for (const [name, model] of Object.entries(models)) await show(name, model, z);
    document.getElementById("latent").textContent = z.map((v) => v.toFixed(2)).join(", ");
    drawPlane(plane, z);
    busy = false;
    if (again) (again = false), update();
  }

  const move = (event) => {
    if (event.type === "pointermove" && !event.buttons) return;
    const box = plane.getBoundingClientRect();
    const place = (v, size) => Math.max(-SPAN, Math.min(SPAN, (v / size) * 2 * SPAN - SPAN));
    z = [place(event.clientX - box.left, box.width), -place(event.clientY - box.top, box.height)];
    update();
  };
  plane.addEventListener("pointerdown", (event) => (plane.setPointerCapture(event.pointerId), move(event)));
  plane.addEventListener("pointermove", move);
  plane.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: [-0.1, 0], ArrowRight: [0.1, 0], ArrowUp: [0, 0.1], ArrowDown: [0, -0.1] }[event.key];
    if (!step) return;
    event.preventDefault();
    z = z.map((v, i) => Math.max(-SPAN, Math.min(SPAN, v + step[i])));
    update();
  });
  document.getElementById("rule").addEventListener("change", (event) => {
    document.getElementById("held-panel").classList.toggle("off", !event.target.checked);
  });
  for (const model of Object.values(models)) {
    for (let k = 0; k < 5; k++) await decode(model, z); // the first runs compile: they are not timed
  }
  await update();
}

const decode = (model, z) =>
  model.run({ [model.inputNames[0]]: new ort.Tensor("float32", Float32Array.from(z), [1, 2]) });

async function show(name, model, z) {
  const begin = performance.now();
  const result = await decode(model, z);
  const milliseconds = performance.now() - begin;
  const pixels = result[model.outputNames[0]].data;
  drawDigit(document.getElementById(`${name}-digit`), pixels);
  const over = violation(pixels);
  const text = over === 0n ? "0 (exactly)" : toNumber(over).toPrecision(3);
  const output = document.getElementById(`${name}-violation`);
  output.textContent = text;
  output.className = over === 0n ? "good" : "bad";
  document.getElementById(`${name}-time`).textContent = `${milliseconds.toFixed(1)} ms`;
}

function drawDigit(canvas, pixels) {
  const context = canvas.getContext("2d");
  const image = context.createImageData(SIDE, SIDE);
  pixels.forEach((value, i) => {
    const grey = Math.round(127.5 * (Math.max(-1, Math.min(1, value)) + 1));
    image.data.set([grey, grey, grey, 255], 4 * i);
  });
  context.putImageData(image, 0, 0);
}

function drawPlane(canvas, [x, y]) {
  const context = canvas.getContext("2d");
  const { width, height } = canvas;
  context.clearRect(0, 0, width, height);
  context.strokeStyle = "#8888";
  for (const radius of [1, 2]) {
    context.beginPath();
    context.arc(width / 2, height / 2, (radius / SPAN) * (width / 2), 0, 7);
    context.stroke();
  }
  context.fillStyle = "#d55e00";
  context.beginPath();
  context.arc(((x + SPAN) / (2 * SPAN)) * width, ((SPAN - y) / (2 * SPAN)) * height, 8, 0, 7);
  context.fill();
}
