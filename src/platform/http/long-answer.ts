import { Readable } from 'node:stream'
import type { FastifyReply } from 'fastify'
import { othersFirst, pieces } from '../pieces.ts'

const itemsAtOnce = 25

/**
 * Writes a long page in pieces: its items become text a few at a time, and leave one piece after another as the caller
 * takes them. Whole, a page of megabytes would keep everybody else waiting while it is made and while it is written.
 * What has no long list is left as it is.
 */
export async function longAnswer(reply: FastifyReply, answer: unknown): Promise<unknown> {
  const name = longestList(dataOf(answer))
  if (name === undefined) return answer
  const { [name]: items, ...rest } = dataOf(answer) as Record<string, unknown[]>
  const textWith = (some: readonly unknown[]) =>
    reply.serialize({ ...(answer as object), data: { ...rest, [name]: some } }) as string

  // A name in quotes cannot stand inside a text, where quotes are escaped; it may stand in another object, though.
  const around = textWith([]).split(`"${name}":[]`)
  if (around.length !== 2) return answer
  const [before, after] = [`${around[0]}"${name}":[`, `]${around[1]}`]
  const written: Buffer[] = []
  for await (const some of pieces(items!, itemsAtOnce)) {
    const text = textWith(some).slice(before.length, -after.length)
    written.push(Buffer.from(written.length === 0 ? before + text : `,${text}`))
  }
  written.push(Buffer.from(after))
  reply.header(
    'content-length',
    written.reduce((bytes, { length }) => bytes + length, 0),
  )
  reply.serializer((stream) => stream as string)
  return Readable.from(oneByOne(written))
}

function dataOf(answer: unknown): Readonly<Record<string, unknown>> {
  return Object((answer as { data?: unknown } | null)?.data)
}

/** The name of the longest list, if there is one that is worth taking apart. */
function longestList(data: Readonly<Record<string, unknown>>): string | undefined {
  let longest: string | undefined
  let most = itemsAtOnce
  for (const [name, value] of Object.entries(data)) {
    if (!Array.isArray(value) || value.length <= most) continue
    longest = name
    most = value.length
  }
  return longest
}

async function* oneByOne(written: readonly Buffer[]): AsyncGenerator<Buffer> {
  for (const piece of written) {
    yield piece
    await othersFirst()
  }
}
