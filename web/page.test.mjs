// The page in a real Chromium: models load, dragging redraws, the constrained digit breaks nothing in exact arithmetic.
// Run by `npm run test:page` after `npm run build`; SCREENSHOTS=folder keeps pictures to look at.
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import { extname, join } from "node:path";
import test from "node:test";
import { chromium } from "playwright-core";

const FOLDER = new URL("../docs/_static/page/", import.meta.url).pathname;
const TYPES = { ".html": "text/html", ".js": "text/javascript", ".mjs": "text/javascript", ".css": "text/css", ".wasm": "application/wasm" };
const BROWSER = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(existsSync);

function serve() {
  const server = createServer((request, response) => {
    const file = join(FOLDER, new URL(request.url, "http://localhost").pathname.replace(/\/$/, "/index.html"));
    if (!existsSync(file)) return void response.writeHead(404).end();
    response.writeHead(200, { "content-type": TYPES[extname(file)] ?? "application/octet-stream" }).end(readFileSync(file));
  });
  return new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(server)));
}

test("the page runs in a browser", { skip: !BROWSER && "no Chromium on this machine", timeout: 120_000 }, async () => {
  const server = await serve();
  const browser = await chromium.launch({ executablePath: BROWSER, args: ["--no-sandbox", "--disable-gpu"] });
  try {
    const page = await browser.newPage({ viewport: { width: 1000, height: 760 } });
    const asked = [];
    page.on("request", (request) => asked.push(request.url()));
    await page.goto(`http://127.0.0.1:${server.address().port}/`);
    await page.waitForSelector("body[data-ready=yes]", { timeout: 60_000 });
    const plane = await page.locator("#plane").boundingBox();
    const violations = new Set();
    await page.mouse.move(plane.x + 20, plane.y + 30);
    await page.mouse.down();
    for (let k = 1; k <= 12; k++) {
      await page.mouse.move(plane.x + 20 + 19 * k, plane.y + 30 + 18 * k);
      await page.waitForTimeout(60);
      assert.equal(await page.textContent("#held-violation"), "0 (exactly)");
      violations.add(await page.textContent("#free-violation"));
    }
    await page.mouse.up();
    assert.ok(violations.size > 3, "dragging redraws the free digit");
    assert.ok([...violations].every((v) => Number(v) > 0.1), "the free network breaks the rule");
    assert.ok(asked.every((url) => url.startsWith("http://127.0.0.1")), "nothing is loaded from elsewhere");
    await shoot(page, "digits");

    await page.click("text=A set you can edit");
    const before = await page.textContent("#counts");
    const box = await page.locator("#polygon").boundingBox();
    await page.mouse.dblclick(box.x + 0.75 * box.width, box.y + 0.3 * box.height);
    assert.notEqual(await page.textContent("#counts"), before);
    await page.selectOption("#method", "steps");
    assert.ok(await page.isVisible("#steps"));
    await shoot(page, "polygon");
    await page.setViewportSize({ width: 390, height: 800 });
    const wider = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    assert.ok(wider <= 0, "nothing sticks out on a phone");
    await shoot(page, "phone");
  } finally {
    await browser.close();
    server.close();
  }
});

async function shoot(page, name) {
  if (process.env.SCREENSHOTS) await page.screenshot({ path: join(process.env.SCREENSHOTS, `${name}.png`) });
}
