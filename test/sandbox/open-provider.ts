import { randomBytes } from 'node:crypto'
import type pg from 'pg'
import type { Provider } from '../../src/billing/providers/port.ts'
import { sandboxProvider } from '../../src/billing/providers/sandbox.ts'
import { type Clock, movableClock } from '../../src/platform/clock.ts'
import type { Faults } from '../../src/sandbox/faults.ts'
import { openSandbox, type Sandbox, type SandboxOptions } from '../../src/sandbox/sandbox.ts'
import { sandboxWire } from '../../src/sandbox/wire.ts'
import { openPatientPool } from '../patience.ts'
import { checkedWire } from '../providers/checked-wire.ts'
import { createDatabase, dropDatabase } from '../world.ts'

export type ProviderWorld = {
  readonly pool: pg.Pool
  readonly clock: Clock
  readonly sandbox: Sandbox
  readonly provider: Provider
  /** Another server on the same book, as another process would open it. */
  openAnother(options?: Partial<SandboxOptions>): Promise<Sandbox>
  /** A raw call, as any HTTP client would make it. */
  ask(
    method: string,
    path: string,
    more?: { body?: unknown; key?: string; secret?: string | null },
  ): Promise<Asked>
  setFaults(faults: Faults): Promise<void>
  /** Calls that its provider describes and that had no good answer yet. */
  unanswered(): string[]
  /** Money the book took for a reference, and how often. */
  taken(reference: string): Promise<{ times: number; amount: bigint; refunded: bigint }>
  close(): Promise<void>
}

// biome-ignore lint/suspicious/noExplicitAny: stories read fields that their assertions pin down
export type Asked = { status: number; headers: Headers; body: any; text: string }

/** A sandbox provider on a database of its own, and billing's adapter to it. One that tells what its provider never would fails. */
export async function openProviderWorld(
  options: Partial<SandboxOptions> & { timeoutMs?: number } = {},
): Promise<ProviderWorld> {
  const url = await createDatabase()
  const pool = openPatientPool(url, 20, 'provider test')
  const clock = await movableClock(pool)
  const { wire, faults, unanswered } = checkedWire(options.wire ?? sandboxWire)
  const open = (own: Partial<SandboxOptions>) =>
    openSandbox({
      pool,
      clock,
      keys: ['sk_test_any', 'x'],
      webhook: { url: undefined, secrets: () => [] },
      ...own,
      wire,
    })
  const sandbox = await open(options)
  const opened = [sandbox]
  const { timeoutMs = 60_000 } = options

  const ask: ProviderWorld['ask'] = async (method, path, { body, key, secret = 'sk_test_any' } = {}) => {
    const answer = await fetch(sandbox.url + path, {
      method,
      headers: {
        ...(secret !== null && { authorization: `Bearer ${secret}` }),
        ...(key !== undefined && { 'idempotency-key': key }),
        ...(body !== undefined && { 'content-type': 'application/json' }),
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
    const text = await answer.text()
    return {
      status: answer.status,
      headers: answer.headers,
      text,
      body: text === '' ? undefined : JSON.parse(text),
    }
  }

  return {
    pool,
    clock,
    sandbox,
    provider: sandboxProvider({ baseUrl: sandbox.url, secretKey: 'sk_test_any', timeoutMs }),
    async openAnother(own = {}) {
      const another = await open({ ...options, ...own })
      opened.push(another)
      return another
    },
    ask,
    unanswered,
    async setFaults(faults) {
      const { status } = await ask('POST', '/__sandbox/faults', { body: faults })
      if (status !== 200) throw new Error(`faults were answered ${status}`)
    },
    async taken(reference) {
      const { rows } = await pool.query(
        `select count(*)::int as times, coalesce(sum(amount), 0)::bigint as amount,
                coalesce(sum(amount_refunded), 0)::bigint as refunded
         from sandbox.payment where reference = $1 and status = 'paid'`,
        [reference],
      )
      return rows[0]
    },
    async close() {
      await Promise.all(opened.map((one) => one.close()))
      await pool.end()
      await dropDatabase(url)
      if (faults.size > 0) throw new Error(`Not as ${wire.name} publishes it:\n${[...faults].join('\n')}`)
    },
  }
}

export function newSecret(): string {
  return `whsec_${randomBytes(32).toString('base64')}`
}
