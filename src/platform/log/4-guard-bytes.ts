import type { SecretSet } from './secret-set.ts'

/** Where bytes go in the end. */
export type Destination = { write(bytes: Uint8Array): unknown }

/**
 * Stage 4, bytes at the sink: the live secrets of this process are covered in exactly the bytes that are written.
 * Each write is a whole line, so a secret is never split over two. If the search itself fails, a fixed line is
 * written in place of this one.
 */
export function guardBytes(secrets: SecretSet, destination: Destination): (line: string) => void {
  return (line) => {
    let bytes: Uint8Array
    try {
      bytes = secrets.cover(Buffer.from(line))
    } catch {
      bytes = withheldLine
    }
    destination.write(bytes)
  }
}

/** Says that a line is missing, and nothing about it. */
export const withheldLine: Uint8Array = Buffer.from('{"level":"error","event":"log.withheld"}\n')
