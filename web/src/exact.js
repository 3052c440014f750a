// Exact arithmetic on floats: every float32 is a whole multiple of 2^-149, so a BigInt holds it without rounding.

const UNIT = 149n;
const view = new DataView(new ArrayBuffer(4));

/** The float32 x as a whole number of units of 2^-149. */
export function units(x) {
  view.setFloat32(0, x);
  const bits = view.getUint32(0);
  const exponent = (bits >>> 23) & 0xff;
  if (exponent === 0xff) throw new RangeError(`${x} is not a number that can be added up`);
  const fraction = BigInt(bits & 0x7fffff);
  const size = exponent === 0 ? fraction : (fraction | 0x800000n) << BigInt(exponent - 1);
  return bits >>> 31 ? -size : size;
}

/** A whole number of units as a float, rounded: only for showing it. */
export function toNumber(whole) {
  const scaled = Number(whole >> 60n) + Number(whole & ((1n << 60n) - 1n)) / 2 ** 60;
  return scaled * 2 ** (60 - Number(UNIT));
}

/** By how much an image breaks the checkerboard (tiles dark and bright in turns) or the range -1..1; 0n inside. */
export function violation(pixels, side = 28, tiles = 4) {
  const size = side / tiles;
  const sums = Array.from({ length: tiles * tiles }, () => 0n);
  const one = units(1);
  let worst = 0n;
  for (let i = 0; i < side; i++) {
    for (let j = 0; j < side; j++) {
      const value = units(pixels[i * side + j]);
      const over = (value < 0n ? -value : value) - one;
      if (over > worst) worst = over;
      sums[Math.floor(i / size) * tiles + Math.floor(j / size)] += value;
    }
  }
  sums.forEach((sum, tile) => {
    const dark = (Math.floor(tile / tiles) + (tile % tiles)) % 2 === 0; // a dark tile's sum is at most 0
    const over = dark ? sum : -sum;
    if (over > worst) worst = over;
  });
  return worst;
}
