/**
 * Splits JSON from PostgreSQL without parsing it, so that the parts stay unchanged byte for byte. Untrusted JSON is
 * parsed by `parseJson`, which checks it.
 */

/** Returns the text of each value of an object by key, in order. */
export function splitObject(text: string): Map<string, string> {
  return new Map(
    splitArray(text).map((piece) => {
      const end = endOfString(piece, 0)
      return [JSON.parse(piece.slice(0, end)) as string, piece.slice(piece.indexOf(':', end) + 1).trim()]
    }),
  )
}

/** Returns the text of each element of an array, or of each key and value of an object. */
export function splitArray(text: string): string[] {
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

/** Returns the position after the string that starts at `start`. */
function endOfString(text: string, start: number): number {
  let i = start + 1
  while (text.charCodeAt(i) !== 0x22) i += text.charCodeAt(i) === 0x5c ? 2 : 1
  return i + 1
}
