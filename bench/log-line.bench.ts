import { randomBytes } from 'node:crypto'
import { pino } from 'pino'
import { newId } from '../src/platform/id.ts'
import type { EventSpec } from '../src/platform/log/events.ts'
import { createLog } from '../src/platform/log/log.ts'
import { createSecretSet } from '../src/platform/log/secret-set.ts'
import { type BenchResult, interleave } from './result.ts'

const events = {
  'http.answered': {
    method: 'text',
    route: 'text',
    status: 'int',
    ms: 'number',
    bytes: 'int',
    request_id: 'id',
    workspace_id: 'id',
    account_id: 'id',
    token_id: 'id',
    replayed: 'bool',
  },
} as const satisfies EventSpec

const linesPerRound = 20_000

/** An ordinary request line through all four stages, beside the same line written by pino alone. */
export async function bench(): Promise<BenchResult[]> {
  const results: BenchResult[] = []
  for (const held of [10, 10_000]) {
    const secrets = createSecretSet({ maxPassing: held })
    for (let i = 0; i < held; i++) secrets.addPassing(`billing-key-${randomBytes(16).toString('hex')}`)
    let written = 0
    const destination = {
      write(bytes: Uint8Array) {
        written += bytes.length
      },
    }
    const log = createLog(events, { level: 'info', secrets, destination })
    // The floor encodes its lines too: bytes have to be made in any case.
    const plain = pino({ base: null }, { write: (line: string) => destination.write(Buffer.from(line)) })

    const ours = () => microsecondsPerLine((i) => log.info('http.answered', fieldsOf(i)))
    const floor = () => microsecondsPerLine((i) => plain.info({ event: 'http.answered', ...fieldsOf(i) }))
    const measured = await interleave({ ours, floor, rounds: 11 })
    if (written === 0) throw new Error('nothing was written')
    const promise = `a log line through four stages, ${held.toLocaleString('en')} live secrets`
    results.push({ promise, unit: 'µs per line', ...measured, goal: 'ours <= 15' })
  }
  return results
}

function microsecondsPerLine(write: (i: number) => void): number {
  const started = process.hrtime.bigint()
  for (let i = 0; i < linesPerRound; i++) write(i)
  return Number(process.hrtime.bigint() - started) / 1000 / linesPerRound
}

// Ids are made beforehand: making them is not what is measured, and no line repeats the one before.
const requestIds = Array.from({ length: linesPerRound }, () => newId('req_'))
const routes = [
  '/api/billing/invoices/:invoice_id',
  '/api/batch/keywords',
  '/api/billing/subscribe',
  '/api/batch/volumes/:keyword',
]

function fieldsOf(i: number) {
  return {
    method: i % 2 === 0 ? 'GET' : 'POST',
    route: routes[i % routes.length]!,
    status: 200,
    ms: 1.5 + (i % 1000) / 7,
    bytes: 200 + (i % 4000),
    request_id: requestIds[i]!,
    workspace_id: `ws_${i % 500}`,
    account_id: `acct_${i % 3000}`,
    token_id: 'tok_1h3kq9w2v05t8mz4c7xj0r6yde',
    replayed: false,
  }
}
