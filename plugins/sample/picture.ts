import { crc32, deflateSync } from 'node:zlib'

/** Width and height in pixels. */
const SIZE = 80

/**
 * Draws a product.
 * @param name e.g. `Linen frame`: its material is the colour, and the thing is the shape
 * @returns a PNG, the same for the same name
 */
export function picture(name: string): Buffer {
  const [material = '', thing = ''] = name.split(' ')
  const color = COLORS[material] ?? BACKGROUND
  const covers = SHAPES[thing] ?? (() => false)
  // Each row begins with its filter: none.
  const rowBytes = 1 + 3 * SIZE
  const rows = Buffer.alloc(rowBytes * SIZE)
  for (let y = 0; y < SIZE; y++) {
    for (let x = 0; x < SIZE; x++) rows.set(mixed(color, coverage(covers, x, y)), y * rowBytes + 1 + 3 * x)
  }
  return png(rows)
}

type Color = readonly [red: number, green: number, blue: number]

const BACKGROUND: Color = [246, 243, 238]
const COLORS: Readonly<Record<string, Color>> = {
  Oak: [176, 124, 72],
  Steel: [112, 124, 138],
  Linen: [196, 180, 148],
  Glass: [112, 178, 190],
  Clay: [188, 92, 64],
  Cork: [150, 104, 66],
  Wool: [122, 134, 104],
  Brass: [190, 154, 56],
}

/** Whether a shape covers a point of a square that is 100 wide and high; `y` counts from the top. */
type Shape = (x: number, y: number) => boolean

const box =
  (left: number, top: number, right: number, bottom: number): Shape =>
  (x, y) =>
    x >= left && x <= right && y >= top && y <= bottom
const disc =
  (centerX: number, centerY: number, radius: number): Shape =>
  (x, y) =>
    Math.hypot(x - centerX, y - centerY) <= radius
const all =
  (...shapes: readonly Shape[]): Shape =>
  (x, y) =>
    shapes.some((shape) => shape(x, y))
const without =
  (shape: Shape, hole: Shape): Shape =>
  (x, y) =>
    shape(x, y) && !hole(x, y)

const SHAPES: Readonly<Record<string, Shape>> = {
  bowl: all(without(disc(50, 42, 36), box(0, 0, 100, 42)), box(38, 74, 62, 82)),
  lamp: all((x, y) => y >= 18 && y <= 50 && Math.abs(x - 50) <= y * 0.7 - 3, box(47, 50, 53, 80), box(34, 78, 66, 84)),
  tray: all(box(12, 52, 88, 62), box(12, 40, 18, 62), box(82, 40, 88, 62)),
  mug: all(box(24, 28, 64, 80), without(disc(66, 52, 18), disc(66, 52, 11))),
  box: all(box(20, 42, 80, 82), box(16, 28, 84, 38)),
  stool: all(box(20, 30, 80, 40), box(26, 40, 33, 84), box(67, 40, 74, 84), box(30, 58, 70, 63)),
  brush: all(box(46, 14, 54, 56), box(32, 52, 68, 60), (x, y) => box(32, 60, 68, 84)(x, y) && x % 6 < 4),
  hook: all(
    box(54, 16, 62, 60),
    without(without(disc(40, 60, 22), disc(40, 60, 14)), box(0, 0, 50, 60)),
    disc(58, 16, 9),
  ),
  frame: without(box(20, 16, 80, 84), box(30, 26, 70, 74)),
  basket: all(
    (x, y) => y >= 46 && y <= 82 && Math.abs(x - 50) <= 42 - y * 0.2 && (x + y) % 10 < 8,
    without(without(disc(50, 46, 30), disc(50, 46, 24)), box(0, 46, 100, 100)),
  ),
}

/** Points of a pixel that are tried along each side, so that edges look smooth. */
const SAMPLES = 2

/** @returns the part of a pixel that a shape covers, from 0 to 1 */
function coverage(covers: Shape, x: number, y: number): number {
  const at = (pixel: number, i: number) => ((pixel + (i + 0.5) / SAMPLES) / SIZE) * 100
  let hits = 0
  for (let i = 0; i < SAMPLES ** 2; i++) {
    if (covers(at(x, i % SAMPLES), at(y, Math.floor(i / SAMPLES)))) hits++
  }
  return hits / SAMPLES ** 2
}

const mixed = (color: Color, part: number): readonly number[] =>
  color.map((value, i) => Math.round(value * part + (BACKGROUND[i] as number) * (1 - part)))

/** @param rows the pixels in 8 bits of red, green and blue, with the filter before each row */
function png(rows: Buffer): Buffer {
  const header = Buffer.alloc(13)
  header.writeUInt32BE(SIZE, 0)
  header.writeUInt32BE(SIZE, 4)
  header.set([8, 2], 8)
  const signature = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])
  return Buffer.concat([
    signature,
    chunk('IHDR', header),
    chunk('IDAT', deflateSync(rows)),
    chunk('IEND', Buffer.alloc(0)),
  ])
}

function chunk(type: string, data: Buffer): Buffer {
  const content = Buffer.concat([Buffer.from(type, 'latin1'), data])
  const number = (value: number) => {
    const bytes = Buffer.alloc(4)
    bytes.writeUInt32BE(value)
    return bytes
  }
  return Buffer.concat([number(data.length), content, number(crc32(content))])
}
