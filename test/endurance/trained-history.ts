import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Client } from './client.ts'
import type { Fleet } from './fleet.ts'

const keywords = Array.from({ length: 60 }, (_, at) => `trained word ${at}`)
const historyDays = 45

/** Registers the keywords that the history is about. */
export async function registerTrainees(client: Client, workspace_id: string): Promise<void> {
  for (let at = 0; at < keywords.length; at += 100) {
    const body = { workspace_id, keywords: keywords.slice(at, at + 100) }
    await client.ask('POST /api/batch/keywords', { body, expect: [200] })
  }
}

/**
 * Imports some weeks of ranks from a file, enough to train on, by the operator's command; gives its exit code. Each time
 * the days are the same and the ranks are others, so that the history stays as long as it is.
 */
export async function importHistory(fleet: Fleet, workspace: string, turn: number): Promise<number | null> {
  const folder = join(fleet.dataDir, 'imports')
  mkdirSync(folder, { recursive: true })
  const file = join(folder, `ranks-${turn}.csv`)
  const checkedAt = new Date().toISOString()
  const lines = keywords.flatMap((keyword, series) =>
    Array.from({ length: historyDays }, (_, at) => {
      const day = new Date(Date.now() - (historyDays - at) * 86_400_000).toISOString().slice(0, 10)
      const position = Math.round(30 + 20 * Math.sin(at / (3 + (series % 9)) + turn) + (series % 25))
      return `${keyword},${day},ranked,${position},${checkedAt}`
    }),
  )
  writeFileSync(file, `keyword,day,status,position,checked_at\n${lines.join('\n')}\n`)
  const { code } = await fleet.run(['import', 'ranks', file, '--workspace', workspace])
  return code
}
