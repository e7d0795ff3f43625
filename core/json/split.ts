/**
 * Takes JSON apart that PostgreSQL has made, without reading it: what is inside stays as it is, byte for byte. Request
 * texts are read by `parseJson`, which checks them.
 */

/** The elements of an array, each as its text. */
export function splitArray(text: string): string[] {
  return pieces(text)
}

/** The values of an object by key, each as its text, in order. */
export function splitObject(text: string): Map<string, string> {
  return new Map(
    pieces(text).map((piece) => {
      const end = endOfString(piece, 0)
      return [JSON.parse(piece.slice(0, end)) as string, piece.slice(piece.indexOf(':', end) + 1).trim()]
    }),
  )
}

/** What stands between the commas of the outermost brackets. */
function pieces(text: string): string[] {
  const found: string[] = []
  let depth = 0
  let start = 0
  for (let i = 0; i < text.length; i++) {
    switch (text.charCodeAt(i)) {
      case 0x22: // "
        i = endOfString(text, i) - 1
        break
      case 0x5b: // [
      case 0x7b: // {
        if (depth++ === 0) start = i + 1
        break
      case 0x5d: // ]
      case 0x7d: // }
        if (--depth === 0 && text.slice(start, i).trim() !== '') found.push(text.slice(start, i).trim())
        break
      case 0x2c: // ,
        if (depth === 1) {
          found.push(text.slice(start, i).trim())
          start = i + 1
        }
    }
  }
  return found
}

/** Just after the string that begins at `start`. */
function endOfString(text: string, start: number): number {
  let i = start + 1
  while (text.charCodeAt(i) !== 0x22) i += text.charCodeAt(i) === 0x5c ? 2 : 1
  return i + 1
}
