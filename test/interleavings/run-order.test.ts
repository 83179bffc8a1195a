import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createDatabase, dropDatabase } from '../world.ts'
import { type Order, readOrder } from './orders.ts'
import { openPathMemory } from './path-memory.ts'
import { runOrder, type Sides } from './run-order.ts'
import { openSide, type Side } from './stepper.ts'

let url: string
let sides: Sides
let watcher: pg.Client
beforeAll(async () => {
  url = await createDatabase()
  sides = { A: openSide('A', url), B: openSide('B', url) }
  watcher = new pg.Client({ connectionString: url })
  await watcher.connect()
  await watcher.query('create table public.purse (coins integer not null)')
})
afterAll(async () => {
  await Promise.all([sides.A.close(), sides.B.close(), watcher.end()])
  await dropDatabase(url)
})

/** Reads what is there and writes one more, in two statements: the way to lose a coin. */
async function addCoin(side: Side, lock: string): Promise<void> {
  const client = await side.pool.connect()
  await client.query('begin')
  const { rows } = await client.query(`select coins from public.purse ${lock}`)
  await client.query('update public.purse set coins = $1', [rows[0].coins + 1])
  await client.query('commit')
  client.release()
}

async function coinsAfter(order: Order, lock: string) {
  await watcher.query('delete from public.purse')
  await watcher.query('insert into public.purse values (0)')
  const works = { A: () => addCoin(sides.A, lock), B: () => addCoin(sides.B, lock) }
  const run = await runOrder(sides, watcher, works, order, { A: new Set(), B: new Set() })
  const { rows } = await watcher.query('select coins from public.purse')
  return { coins: rows[0].coins, run, order: run.trace.map(({ side }) => side).join('') }
}

test('a side that is left between reading and writing loses what the other wrote', async () => {
  const { coins, order } = await coinsAfter(readOrder('A1B*A*', 'statements'), '')
  expect([coins, order]).toEqual([1, 'ABBBAA'])
  expect((await coinsAfter(readOrder('A*B*', 'statements'), '')).coins).toBe(2)
})

test('a step that waits for a lock gives its turn up and goes on after the commit', async () => {
  const { coins, order, run } = await coinsAfter(readOrder('A1B*A*', 'statements'), 'for update')
  expect(coins).toBe(2)
  // The commit lets B go before A hears of it, so either may be through first.
  expect(['AAABBB', 'AABABB']).toContain(order)
  expect(run.path.map(({ side, moved }) => side + (moved ? '' : '-')).join(' ')).toContain('A B B- A')
})

test('orders that differ only in turns nobody could take are known to be the same', async () => {
  const memory = openPathMemory()
  const { run } = await coinsAfter(readOrder('A1B2A*B*', 'statements'), 'for update')
  memory.learn(run)
  expect(memory.knows(readOrder('A1B3A*B*', 'statements'))).toBe(true)
  expect(memory.knows(readOrder('A1B*A*', 'statements'))).toBe(true)
  expect(memory.knows(readOrder('B1A1B*A*', 'statements'))).toBe(false)
  expect(memory.knows(readOrder('A2B1A*B*', 'statements'))).toBe(false)
})
