// Bundles the page into docs/_static/page: one script, one stylesheet, the models and the runtime's WebAssembly.
import { build } from "esbuild";
import { cpSync, mkdirSync, rmSync } from "node:fs";

const out = new URL("../docs/_static/page/", import.meta.url).pathname;
const here = new URL(".", import.meta.url).pathname;
const runtime = here + "node_modules/onnxruntime-web/dist/";

rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
await build({
  entryPoints: [here + "src/main.js"],
  bundle: true,
  minify: true,
  format: "esm",
  outfile: out + "main.js",
  logLevel: "warning",
});
for (const file of ["index.html", "style.css"]) cpSync(here + "src/" + file, out + file);
for (const file of ["ort-wasm-simd-threaded.wasm", "ort-wasm-simd-threaded.mjs"]) cpSync(runtime + file, out + file);
cpSync(here + "models", out + "models", { recursive: true });
console.log("wrote " + out);
