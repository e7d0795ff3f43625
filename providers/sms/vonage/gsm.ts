/** The letters of the 7 bit alphabet of GSM 03.38 and of its extension table. */
const LETTERS = new Set(
  '@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !"#¤%&\'()*+,-./0123456789:;<=>?' +
    '¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà' +
    '\f^{}\\[~]|€',
)

/** Whether phones get this text as it is without Unicode, which halves what one message holds. */
export const isGsm = (text: string): boolean => Array.from(text).every((letter) => LETTERS.has(letter))
