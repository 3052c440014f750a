// Sets in the plane around the origin, {x : n_i·x <= h_i} with h_i > 0, and the ways a layer gets into them.

const dot = (a, b) => a[0] * b[0] + a[1] * b[1];

/** A half-plane from its handle: the foot of the perpendicular from the origin. */
export function halfPlane([x, y]) {
  const length = Math.hypot(x, y);
  return { normal: [x / length, y / length], offset: length };
}

const inside = (rows, x, tolerance = 1e-9) => rows.every((r) => dot(r.normal, x) <= r.offset + tolerance);

/** Where two boundaries meet inside the set. */
export function vertices(rows) {
  const found = [];
  for (let i = 0; i < rows.length; i++) {
    for (let j = i + 1; j < rows.length; j++) {
      const [a, b] = [rows[i].normal, rows[j].normal];
      const det = a[0] * b[1] - a[1] * b[0];
      if (Math.abs(det) < 1e-9) continue;
      const x = [(rows[i].offset * b[1] - rows[j].offset * a[1]) / det, (a[0] * rows[j].offset - b[0] * rows[i].offset) / det];
      if (inside(rows, x)) found.push(x);
    }
  }
  return found;
}

/** Directions that never leave the set, at its edges: none for a bounded set. */
export function rays(rows) {
  const cone = rows.map((r) => ({ normal: r.normal, offset: 0 }));
  const candidates = rows.flatMap(({ normal: [x, y] }) => [[-y, x], [y, -x]]);
  return candidates.filter((direction) => inside(cone, direction));
}

/** The part of the set inside a square, as a polygon: the square cut by one half-plane after the other. */
export function clip(rows, reach) {
  let polygon = [[-reach, -reach], [reach, -reach], [reach, reach], [-reach, reach]];
  for (const { normal, offset } of rows) {
    const cut = [];
    polygon.forEach((p, i) => {
      const q = polygon[(i + 1) % polygon.length];
      const [a, b] = [offset - dot(normal, p), offset - dot(normal, q)];
      if (a >= 0) cut.push(p);
      if (a * b < 0) cut.push([p[0] + ((q[0] - p[0]) * a) / (a - b), p[1] + ((q[1] - p[1]) * a) / (a - b)]);
    });
    polygon = cut;
  }
  return polygon;
}

/** Divide by max(1, gauge): along the line from the origin. */
export function shrink(rows, x) {
  const gauge = Math.max(1, ...rows.map((r) => dot(r.normal, x) / r.offset));
  return [x[0] / gauge, x[1] / gauge];
}

const RELAXATION = 1.7;

/** k steps of a splitting (ADMM with penalty 1) towards the nearest point, then a shrink: rayhull.maps.steps. */
export function steps(rows, x, count) {
  const solve = inverse(rows);
  let t = rows.map((r) => dot(r.normal, x));
  const clamped = () => t.map((v, i) => Math.min(v, rows[i].offset));
  const at = (w) =>
    solve(rows.reduce((p, { normal: [a, b] }, i) => [p[0] + (2 * w[i] - t[i]) * a, p[1] + (2 * w[i] - t[i]) * b], x));
  for (let k = 0; k < count; k++) {
    const w = clamped();
    const point = at(w);
    t = t.map((v, i) => v + RELAXATION * (dot(rows[i].normal, point) - w[i]));
  }
  return shrink(rows, count ? at(clamped()) : x);
}

/** The inverse of I + the sum of n nᵀ, as a function. */
function inverse(rows) {
  const [xx, xy, yy] = rows.reduce(
    ([a, b, c], { normal: [x, y] }) => [a + x * x, b + x * y, c + y * y],
    [1, 0, 1],
  );
  const det = xx * yy - xy * xy;
  return ([x, y]) => [(yy * x - xy * y) / det, (xx * y - xy * x) / det];
}

/** The nearest point of the set: x itself, a point of an edge, or a vertex. */
export function nearest(rows, x) {
  if (inside(rows, x)) return x;
  const feet = rows.map(({ normal, offset }) => {
    const over = dot(normal, x) - offset;
    return [x[0] - over * normal[0], x[1] - over * normal[1]];
  });
  const candidates = [...feet.filter((p) => inside(rows, p)), ...vertices(rows)];
  const far = (p) => Math.hypot(p[0] - x[0], p[1] - x[1]);
  return candidates.reduce((best, p) => (far(p) < far(best) ? p : best));
}
