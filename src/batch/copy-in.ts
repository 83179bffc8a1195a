import { pipeline } from 'node:stream/promises'
import type pg from 'pg'
import { from as copyFrom } from 'pg-copy-streams'

/** Runs `copy … from stdin` with rows that are all in memory, in COPY's text format. */
export async function copyIn(client: pg.PoolClient, statement: string, rows: Buffer): Promise<void> {
  await pipeline([rows], client.query(copyFrom(statement)))
}

/** A text as COPY wants it: its own signs are escaped. */
export function copyText(text: string): string {
  return special.test(text) ? text.replace(/[\\\t\n\r]/g, (sign) => escapes[sign]!) : text
}

const special = /[\\\t\n\r]/
const escapes: Record<string, string> = { '\\': '\\\\', '\t': '\\t', '\n': '\\n', '\r': '\\r' }
