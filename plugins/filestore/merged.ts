/**
 * Makes one question of those that come in the same turn of the event loop: what many ask at once costs as little as what
 * one asks. Nobody waits for an answer to somebody else, and no answer is older than its question.
 */
export class Merged<Question, Answer> {
  private readonly askAll: (questions: readonly Question[]) => Promise<readonly Answer[]>
  private next: { readonly questions: Question[]; readonly answers: Promise<readonly Answer[]> } | undefined

  /** @param askAll answers in the order of the questions; what it throws is thrown to all who asked */
  constructor(askAll: (questions: readonly Question[]) => Promise<readonly Answer[]>) {
    this.askAll = askAll
  }

  async ask(question: Question): Promise<Answer> {
    const { questions, answers } = (this.next ??= this.begin())
    const place = questions.push(question) - 1
    return (await answers)[place] as Answer
  }

  private begin() {
    const questions: Question[] = []
    const answers = new Promise<void>((resolve) => setImmediate(resolve)).then(() => {
      this.next = undefined
      return this.askAll(questions)
    })
    return { questions, answers }
  }
}
