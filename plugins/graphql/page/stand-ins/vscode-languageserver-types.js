/** What graphql-language-service uses of `vscode-languageserver-types`: constants of the Language Server Protocol. */
export const InsertTextFormat = { PlainText: 1, Snippet: 2 }
export const InsertTextMode = { asIs: 1, adjustIndentation: 2 }
