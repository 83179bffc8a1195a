/** The database went away after the work had begun. To call it undone would invite the caller to ask for it anew. */
export class OutcomeUnknown extends Error {
  override readonly name = 'OutcomeUnknown'

  constructor(options: ErrorOptions) {
    super('The work was begun, and nobody could be told how it ended.', options)
  }
}
