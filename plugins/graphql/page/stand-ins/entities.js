/** In place of the package `entities` in markdown-it: the browser has its table of names. A `textarea` runs nothing. */
export function decodeHTML(text) {
  const element = document.createElement('textarea')
  element.innerHTML = text
  return element.value
}

export { decodeHTML as decodeHTMLStrict }
