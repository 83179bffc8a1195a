import type pg from 'pg'

/** What `pg` lends a query while its turn lasts: the part of its connection that COPY needs. */
type CopyConnection = {
  query(text: string): void
  sendCopyFromChunk(chunk: Buffer): void
  endCopyFrom(): void
}

/**
 * Runs `copy … from stdin` with rows that are all in memory, in COPY's text format. `pg` has the messages of the
 * protocol but no method for them, so this takes a query's place in its queue.
 */
export function copyIn(client: pg.PoolClient, statement: string, rows: Buffer): Promise<void> {
  return new Promise((resolve, reject) => {
    client.query({
      submit: (connection: CopyConnection) => connection.query(statement),
      handleCopyInResponse(connection: CopyConnection) {
        connection.sendCopyFromChunk(rows)
        connection.endCopyFrom()
      },
      handleError: reject,
      handleCommandComplete() {},
      handleReadyForQuery: () => resolve(),
    } as unknown as pg.Submittable)
  })
}

/** A text as COPY wants it: its own signs are escaped. */
export function copyText(text: string): string {
  return special.test(text) ? text.replace(/[\\\t\n\r]/g, (sign) => escapes[sign]!) : text
}

const special = /[\\\t\n\r]/
const escapes: Record<string, string> = { '\\': '\\\\', '\t': '\\t', '\n': '\\n', '\r': '\\r' }
