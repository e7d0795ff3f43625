/** Characters of the 7-bit GSM 03.38 alphabet and its extension table. */
const LETTERS = new Set(
  '@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !"#¤%&\'()*+,-./0123456789:;<=>?' +
    '¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà' +
    '\f^{}\\[~]|€',
)

/** Returns whether a text can be sent without Unicode encoding, which halves the capacity of a message. */
export const isGsm = (text: string): boolean => Array.from(text).every((letter) => LETTERS.has(letter))
