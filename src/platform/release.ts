import { readFileSync } from 'node:fs'

/** The version of this service, as its package names it. */
export const release: string = JSON.parse(
  readFileSync(new URL('../../package.json', import.meta.url), 'utf8'),
).version
