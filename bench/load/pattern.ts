import { createHash } from 'node:crypto'

export const PIECE_BYTES = 2 ** 20

/** Bytes that do not shrink; files are made of them, over and over. */
export const PIECE = createHash('shake256', { outputLength: PIECE_BYTES }).update('rowhouse').digest()

/** The bytes of a file in pieces. */
export function* piecesOf(bytes: number): Generator<Buffer> {
  for (let left = bytes; left > 0; left -= PIECE_BYTES) yield left < PIECE_BYTES ? PIECE.subarray(0, left) : PIECE
}
