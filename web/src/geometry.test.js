import assert from "node:assert/strict";
import test from "node:test";
import { units, toNumber, violation } from "./exact.js";
import { clip, halfPlane, nearest, rays, shrink, steps, vertices } from "./geometry.js";

const square = [[1, 0], [-1, 0], [0, 1], [0, -1]].map(halfPlane);
const wedge = [[1, 1], [-1, 1]].map(halfPlane);

test("a square has four vertices and no ray, a wedge one vertex and two rays", () => {
  assert.equal(vertices(square).length, 4);
  assert.equal(rays(square).length, 0);
  assert.deepEqual(vertices(wedge).map((v) => v.map((c) => Math.round(c * 1e9) / 1e9)), [[0, 2]]);
  assert.equal(rays(wedge).length, 2);
});

test("every way in lands inside, and is the identity there", () => {
  for (const set of [square, wedge]) {
    for (let k = 0; k < 500; k++) {
      const x = [20 * Math.random() - 10, 20 * Math.random() - 10];
      for (const y of [shrink(set, x), steps(set, x, 5), nearest(set, x)]) {
        for (const { normal, offset } of set) assert.ok(normal[0] * y[0] + normal[1] * y[1] <= offset + 1e-9);
      }
    }
    assert.deepEqual(shrink(set, [0.1, -0.2]), [0.1, -0.2]);
    assert.deepEqual(nearest(set, [0.1, -0.2]), [0.1, -0.2]);
  }
});

test("many steps end at the nearest point", () => {
  const x = [3, 0.4];
  const [a, b] = [steps(wedge, x, 300), nearest(wedge, x)];
  assert.ok(Math.hypot(a[0] - b[0], a[1] - b[1]) < 1e-6);
});

test("clipping keeps the part of the set in the square", () => {
  assert.equal(clip(square, 5).length, 4);
  assert.ok(clip(wedge, 5).every(([x, y]) => Math.abs(x) <= 5 && Math.abs(y) <= 5));
});

test("units are exact, also where floats are not", () => {
  assert.equal(units(1), 1n << 149n);
  assert.equal(units(-0.5), -(1n << 148n));
  assert.equal(units(2 ** -149), 1n);
  assert.equal(toNumber(units(0.75)), 0.75);
  const tiny = new Float32Array(784).fill(-1);
  for (let i = 0; i < 28; i++) for (let j = 0; j < 28; j++) tiny[i * 28 + j] = (Math.floor(i / 7) + Math.floor(j / 7)) % 2 ? 1 : -1;
  assert.equal(violation(tiny), 0n);
  tiny[0] = 48; // the other 48 pixels of the tile add up to -48: the tile holds, the range does not
  assert.equal(violation(tiny), units(47));
  for (let j = 0; j < 49; j++) tiny[Math.floor(j / 7) * 28 + (j % 7)] = 0;
  tiny[0] = 2 ** -149;
  assert.equal(violation(tiny), 1n);
});
