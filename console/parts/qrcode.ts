/**
 * QR codes (ISO/IEC 18004) of texts: bytes, and error correction of level L, since nothing on a screen is
 * torn or dirty and fewer modules are easier to read. test/unit/a-qr-code-is-read-by-others.test.ts reads
 * them with another library.
 */

/** Of level L, for versions 1 to 20: bytes of error correction in a block, and blocks. */
const CHECK_BYTES = [7, 10, 15, 20, 26, 18, 20, 24, 30, 18, 20, 24, 26, 30, 22, 24, 28, 30, 28, 28];
const BLOCKS = [1, 1, 1, 1, 1, 2, 2, 2, 2, 4, 4, 4, 4, 4, 6, 6, 6, 6, 7, 8];
const LEVEL_L = 0b01;
const MASKS: ((x: number, y: number) => boolean)[] = [
  (x, y) => (x + y) % 2 === 0,
  (_, y) => y % 2 === 0,
  (x) => x % 3 === 0,
  (x, y) => (x + y) % 3 === 0,
  (x, y) => (Math.floor(x / 3) + Math.floor(y / 2)) % 2 === 0,
  (x, y) => ((x * y) % 2) + ((x * y) % 3) === 0,
  (x, y) => (((x * y) % 2) + ((x * y) % 3)) % 2 === 0,
  (x, y) => (((x + y) % 2) + ((x * y) % 3)) % 2 === 0,
];

/** Rows of modules: true is dark. The quiet zone of four modules around it is not included. */
export function qrCode(text: string): boolean[][] {
  const bytes = new TextEncoder().encode(text);
  for (let version = 1; version <= BLOCKS.length; version++) {
    const grid = emptyGrid(version);
    const free = grid.free();
    const [blocks, checks] = [BLOCKS[version - 1] as number, CHECK_BYTES[version - 1] as number];
    const room = Math.floor(free.length / 8) - blocks * checks;
    const data = framed(bytes, version);
    if (data.length > room) continue;
    for (let n = 0; data.length < room; n++) data.push(n % 2 === 0 ? 0xec : 0x11);
    return masked(grid, free, interleaved(data, blocks, checks));
  }
  throw new Error(`${bytes.length} bytes are too long for a QR code.`);
}

/** Four bits that say "bytes", the length, the bytes, and four bits that end them. */
function framed(bytes: Uint8Array, version: number): number[] {
  const length = bytes.length.toString(16).padStart(version < 10 ? 2 : 4, "0");
  const hex = `4${length}${[...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("")}0`;
  return (hex.match(/../g) ?? []).map((pair) => Number.parseInt(pair, 16));
}

type Cell = { x: number; y: number };

class Grid {
  readonly size: number;
  readonly rows: boolean[][];
  readonly #isFixed: boolean[][];

  constructor(size: number) {
    this.size = size;
    this.rows = Array.from({ length: size }, () => new Array<boolean>(size).fill(false));
    this.#isFixed = this.rows.map((row) => [...row]);
  }

  has(at: number): boolean {
    return at >= 0 && at < this.size;
  }

  fix(x: number, y: number, isDark: boolean): void {
    if (!this.has(x) || !this.has(y)) return;
    this.set(x, y, isDark);
    (this.#isFixed[y] as boolean[])[x] = true;
  }

  set(x: number, y: number, isDark: boolean): void {
    (this.rows[y] as boolean[])[x] = isDark;
  }

  /** Where data goes, in its order: from the right, two columns at a time, up and down by turns. */
  free(): Cell[] {
    const cells: Cell[] = [];
    let isUp = true;
    for (let right = this.size - 1; right > 0; right -= 2) {
      if (right === 6) right--; // the column of the timing pattern
      for (let n = 0; n < this.size; n++) {
        const y = isUp ? this.size - 1 - n : n;
        for (const x of [right, right - 1]) if (!this.#isFixed[y]?.[x]) cells.push({ x, y });
      }
      isUp = !isUp;
    }
    return cells;
  }
}

/** With all that is the same for every text of this version. */
function emptyGrid(version: number): Grid {
  const size = 17 + 4 * version;
  const grid = new Grid(size);
  for (let n = 0; n < size; n++) {
    grid.fix(6, n, n % 2 === 0);
    grid.fix(n, 6, n % 2 === 0);
  }
  for (const [x, y] of [
    [3, 3],
    [size - 4, 3],
    [3, size - 4],
  ] as const)
    drawSquares(grid, x, y, 4);
  const places = alignments(version, size);
  const isAtEdge = (at: number) => at === 6 || at === size - 7;
  for (const x of places)
    for (const y of places) {
      const isOnFinder = isAtEdge(x) && isAtEdge(y) && (x === 6 || y === 6);
      if (!isOnFinder) drawSquares(grid, x, y, 2);
    }
  drawFormat(grid, 0);
  if (version >= 7) drawVersion(grid, version);
  return grid;
}

/** Squares within each other, dark and light by turns; the light one around a finder is of radius 4. */
function drawSquares(grid: Grid, x: number, y: number, radius: number): void {
  for (let dy = -radius; dy <= radius; dy++)
    for (let dx = -radius; dx <= radius; dx++) {
      const ring = Math.max(Math.abs(dx), Math.abs(dy));
      grid.fix(x + dx, y + dy, radius === 4 ? ring !== 2 && ring !== 4 : ring !== 1);
    }
}

/** Evenly spaced from the far edge; what does not fit is in the first space. */
function alignments(version: number, size: number): number[] {
  if (version === 1) return [];
  const count = Math.floor(version / 7) + 2;
  const step = 2 * Math.ceil((size - 13) / (2 * (count - 1)));
  return [6, ...Array.from({ length: count - 1 }, (_, n) => size - 7 - n * step)];
}

function drawFormat(grid: Grid, mask: number): void {
  const { size } = grid;
  const given = (LEVEL_L << 3) | mask;
  const bits = ((given << 10) | remainder(given << 10, 0x537)) ^ 0x5412;
  for (let n = 0; n < 15; n++) {
    const isDark = ((bits >> n) & 1) === 1;
    const along = n < 6 ? n : n < 8 ? n + 1 : n === 8 ? 7 : 14 - n;
    if (n < 8) {
      grid.fix(8, along, isDark);
      grid.fix(size - 1 - n, 8, isDark);
    } else {
      grid.fix(along, 8, isDark);
      grid.fix(8, size - 15 + n, isDark);
    }
  }
  grid.fix(8, size - 8, true);
}

function drawVersion(grid: Grid, version: number): void {
  const bits = (version << 12) | remainder(version << 12, 0x1f25);
  for (let n = 0; n < 18; n++) {
    const isDark = ((bits >> n) & 1) === 1;
    const [far, near] = [grid.size - 11 + (n % 3), Math.floor(n / 3)];
    grid.fix(far, near, isDark);
    grid.fix(near, far, isDark);
  }
}

/** Of polynomials over one bit. */
function remainder(value: number, divisor: number): number {
  const length = (of: number) => 32 - Math.clz32(of);
  let left = value;
  while (length(left) >= length(divisor)) left ^= divisor << (length(left) - length(divisor));
  return left;
}

/**
 * The bytes of all blocks by turns, then their error correction by turns. The last blocks are a byte longer.
 */
function interleaved(data: readonly number[], blocks: number, checks: number): number[] {
  const short = Math.floor(data.length / blocks);
  const shortBlocks = blocks - (data.length % blocks);
  let from = 0;
  const parts = Array.from({ length: blocks }, (_, n) => {
    const part = data.slice(from, from + short + (n < shortBlocks ? 0 : 1));
    from += part.length;
    return part;
  });
  return [...byTurns(parts), ...byTurns(parts.map((part) => checkBytes(part, checks)))];
}

function byTurns(parts: readonly number[][]): number[] {
  const longest = Math.max(...parts.map(({ length }) => length));
  return Array.from({ length: longest }, (_, n) =>
    parts.flatMap((part) => (n < part.length ? [part[n] as number] : [])),
  ).flat();
}

/** Reed-Solomon: the remainder by the product of (x - 2^n). */
function checkBytes(data: readonly number[], count: number): number[] {
  let divisor = [1];
  let root = 1;
  for (let n = 0; n < count; n++) {
    const timesRoot = divisor.map((factor) => times(factor, root));
    divisor = [...divisor, 0].map((factor, at) => factor ^ (timesRoot[at - 1] ?? 0));
    root = times(root, 2);
  }
  const left = [...data, ...new Array<number>(count).fill(0)];
  for (let at = 0; at < data.length; at++) {
    const first = left[at] as number;
    for (const [n, factor] of divisor.entries())
      left[at + n] = (left[at + n] as number) ^ times(factor, first);
  }
  return left.slice(data.length);
}

/** In the field of 256 elements that QR codes use. */
function times(a: number, b: number): number {
  let product = 0;
  for (let bit = 7; bit >= 0; bit--) {
    product = (product << 1) ^ (product & 0x80 ? 0x11d : 0);
    if ((b >> bit) & 1) product ^= a;
  }
  return product;
}

/** By the mask that leaves the fewest patterns a reader stumbles over. */
function masked(grid: Grid, free: readonly Cell[], bytes: readonly number[]): boolean[][] {
  const draw = (mask: number) => {
    for (const [n, { x, y }] of free.entries()) {
      const bit = ((bytes[n >> 3] ?? 0) >> (7 - (n % 8))) & 1;
      grid.set(x, y, (bit === 1) !== (MASKS[mask] as (typeof MASKS)[number])(x, y));
    }
    drawFormat(grid, mask);
    return penalty(grid.rows);
  };
  const penalties = MASKS.map((_, mask) => draw(mask));
  draw(penalties.indexOf(Math.min(...penalties)));
  return grid.rows;
}

function penalty(rows: readonly boolean[][]): number {
  const across = rows.map((row) => row.map(Number).join(""));
  const down = rows.map((_, x) => rows.map((row) => Number(row[x])).join(""));
  let sum = 0;
  for (const line of [...across, ...down]) {
    for (const [run] of line.matchAll(/0{5,}|1{5,}/g)) sum += run.length - 2;
    sum += 40 * [...line.matchAll(/(?=10111010000|00001011101)/g)].length;
  }
  for (let y = 1; y < rows.length; y++) {
    const [above, row] = [rows[y - 1] as boolean[], rows[y] as boolean[]];
    for (let x = 1; x < rows.length; x++) {
      const isDark = row[x];
      if (row[x - 1] === isDark && above[x] === isDark && above[x - 1] === isDark) sum += 3;
    }
  }
  const dark = across.join("").replaceAll("0", "").length / rows.length ** 2;
  return sum + 10 * Math.floor(Math.abs(dark - 0.5) * 20);
}
